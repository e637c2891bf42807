#include "compiler/support/status.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace npuc {
namespace {
std::atomic<CheckHandler> check_handler{nullptr};
thread_local CheckScope *innermost = nullptr;
} // namespace

CheckHandler SetCheckHandler(CheckHandler handler) {
  return check_handler.exchange(handler);
}

CheckScope::CheckScope(std::string text) : text_(std::move(text)), outer_(innermost) {
  innermost = this;
}

CheckScope::~CheckScope() {
  innermost = outer_;
}

std::string CheckScopeText() {
  std::vector<const CheckScope *> chain;
  for (CheckScope *c = innermost; c; c = c->outer_)
    chain.push_back(c);
  std::string out;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it)
    out += (*it)->text_ + "\n";
  return out;
}

namespace support_internal {

void CheckFailed(const char *file, int line, const char *condition, const std::string &message) {
  // The path from the root of the sources, so that messages do not depend on where they were built.
  std::string_view path = file;
  for (std::string_view root : {"/compiler/", "/passes/", "/backend/", "/runtime_stub/", "/tools/", "/test/"})
    if (size_t at = path.rfind(root); at != std::string_view::npos) {
      path.remove_prefix(at + 1);
      break;
    }
  std::string text = fmt::format("{}:{}: check failed: {}", path, line, condition);
  if (!message.empty())
    text += ": " + message;
  if (std::string context = CheckScopeText(); !context.empty())
    text += "\nwhile at:\n" + context;
  if (CheckHandler handler = check_handler.load())
    handler(text);
  else
    std::fprintf(stderr, "internal error: %s\n", text.c_str());
  std::abort();
}

} // namespace support_internal
} // namespace npuc
