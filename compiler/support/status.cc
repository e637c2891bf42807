#include "compiler/support/status.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace npuc {
namespace {
std::atomic<CheckHandler> check_handler{nullptr};
thread_local CheckContext *innermost = nullptr;
} // namespace

CheckHandler SetCheckHandler(CheckHandler handler) {
  return check_handler.exchange(handler);
}

CheckContext::CheckContext(std::string text) : text_(std::move(text)), outer_(innermost) {
  innermost = this;
}

CheckContext::~CheckContext() {
  innermost = outer_;
}

std::string CheckContextText() {
  std::vector<const CheckContext *> chain;
  for (CheckContext *c = innermost; c; c = c->outer_)
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
  if (std::string context = CheckContextText(); !context.empty())
    text += "\nwhile at:\n" + context;
  if (CheckHandler handler = check_handler.load())
    handler(text);
  else
    std::fprintf(stderr, "internal error: %s\n", text.c_str());
  std::abort();
}

} // namespace support_internal
} // namespace npuc
