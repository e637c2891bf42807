// Status, StatusOr and the macros that carry them, and NPUC_CHECK for what only a compiler bug can
// break.
//
// Library calls return Status or StatusOr; no exception crosses our code. What a user got wrong is
// made with Error() of diagnostic.h, which attaches a code and a remedy; plain absl statuses are
// internal errors.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace npuc {

using absl::OkStatus;
using absl::Status;
template <typename T> using StatusOr = absl::StatusOr<T>;

// Abseil's string_view here is not std::string_view; these two convert.
inline std::string_view ToStd(absl::string_view s) {
  return {s.data(), s.size()};
}
inline absl::string_view ToAbsl(std::string_view s) {
  return {s.data(), s.size()};
}

// The message of a status, valid as long as the status.
inline std::string_view Message(const Status &status) {
  return ToStd(status.message());
}

// Called with "file:line: check failed: ..." when NPUC_CHECK fails; must not return (abort follows
// if it does). Tools install one that names a reproducer and exits with code 4.
using CheckHandler = void (*)(std::string_view message);
// Returns the handler that was installed; nullptr restores the default, which prints to stderr and
// aborts.
CheckHandler SetCheckHandler(CheckHandler handler);

// A line that says what is at work ("pass fuse-conv-relu, node 'layer3/conv'"), printed with a
// failing check of this thread. Scoped; nested ones are all printed, the outermost first.
class CheckScope {
public:
  explicit CheckScope(std::string text);
  ~CheckScope();
  CheckScope(const CheckScope &) = delete;
  CheckScope &operator=(const CheckScope &) = delete;

private:
  std::string text_;
  CheckScope *outer_;
  friend std::string CheckScopeText();
};
// The contexts of this thread, one a line, "" when there are none.
std::string CheckScopeText();

namespace support_internal {
[[noreturn]] void CheckFailed(const char *file, int line, const char *condition, const std::string &message);
inline std::string CheckMessage() {
  return {};
}
template <typename... Args> std::string CheckMessage(fmt::format_string<Args...> f, Args &&...args) {
  return fmt::format(f, std::forward<Args>(args)...);
}
inline const Status &AsStatus(const Status &s) {
  return s;
}
template <typename T> const Status &AsStatus(const StatusOr<T> &s) {
  return s.status();
}
} // namespace support_internal

} // namespace npuc

// NPUC_CHECK(condition) or NPUC_CHECK(condition, "format {}", args...): a false condition is a
// compiler bug.
#define NPUC_CHECK(cond, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(cond)) [[unlikely]]                                                                                          \
      ::npuc::support_internal::CheckFailed(__FILE__, __LINE__, #cond,                                                 \
                                            ::npuc::support_internal::CheckMessage(__VA_ARGS__));                      \
  } while (0)

// Returns the status of a Status or StatusOr expression from the enclosing function if it is not
// OK.
#define NPUC_RETURN_IF_ERROR(expr)                                                                                     \
  do {                                                                                                                 \
    if (auto &&npuc_status_ = (expr); !npuc_status_.ok()) [[unlikely]]                                                 \
      return ::npuc::support_internal::AsStatus(npuc_status_);                                                         \
  } while (0)

#define NPUC_CONCAT_INNER_(a, b) a##b
#define NPUC_CONCAT_(a, b) NPUC_CONCAT_INNER_(a, b)

// NPUC_ASSIGN_OR_RETURN(auto x, StatusOrExpression()): declares or assigns on success, else returns
// the status.
#define NPUC_ASSIGN_OR_RETURN(lhs, ...)                                                                                \
  NPUC_ASSIGN_OR_RETURN_IMPL_(NPUC_CONCAT_(npuc_status_or_, __COUNTER__), lhs, (__VA_ARGS__))
#define NPUC_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr)                                                                    \
  auto tmp = expr;                                                                                                     \
  if (!tmp.ok()) [[unlikely]]                                                                                          \
    return std::move(tmp).status();                                                                                    \
  lhs = *std::move(tmp)
