#include "tools/common/console.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace npuc::cli {

bool UseColor(ColorMode mode, std::FILE *stream) {
  if (mode != ColorMode::Auto)
    return mode == ColorMode::Always;
  const char *no_color = std::getenv("NO_COLOR");
  const char *term = std::getenv("TERM");
  return isatty(fileno(stream)) && !(no_color && *no_color) && !(term && std::strcmp(term, "dumb") == 0);
}

void Console::Print(const Diagnostic &d) const {
  if (quiet && d.severity != Severity::error)
    return;
  const std::string text = Render(d, stderr_color()) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void Console::PrintAll(const DiagnosticEngine &diagnostics) const {
  for (const Diagnostic &d : diagnostics.All())
    Print(d);
}

void Console::Say(std::string_view line) const {
  if (!quiet)
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

int Console::Out(std::string_view text) const {
  const Status written = WriteStdout(text);
  return written.ok() ? kDone : Fail(written);
}

int Console::Fail(const Status &status, std::string_view file) const {
  if (IsAlreadyReported(status))
    return kBadInput;
  Diagnostic d = FromStatus(AtFile(status, file));
  if (d.code == "E0901" && d.help.empty())
    d.help = kBugHelp;
  Print(d);
  if (d.code != "E0901")
    return kBadInput;
  if (std::string path = WriteReproducer(Render(d)); !path.empty())
    std::fprintf(stderr, "  reproducer: %s\n", path.c_str());
  return kInternal;
}

int Console::UsageError(std::string_view text) const {
  Print({.severity = Severity::error,
         .code = {},
         .file = tool_,
         .node = {},
         .op = {},
         .message = std::string(text),
         .help = fmt::format("{} --help lists the flags", tool_)});
  return kUsage;
}

Status WriteStdout(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return OkStatus();
  return AtFile(Error("E0102", "cannot write to stdout", "free space where it goes, or write to another place"),
                "<stdout>");
}

Progress::Progress(const Console &console) : start_(std::chrono::steady_clock::now()) {
  if (!console.quiet && isatty(STDERR_FILENO))
    thread_ = std::thread([this] { Loop(); });
}

Progress::~Progress() {
  Stop();
}

void Progress::Update(std::string text) {
  if (!thread_.joinable())
    return;
  std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

void Progress::Print(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (shown_)
    std::fputs("\r\x1b[K", stderr);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void Progress::Stop() {
  if (!thread_.joinable())
    return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (shown_)
    std::fputs("\r\x1b[K", stderr);
}

void Progress::Loop() {
  std::unique_lock lock(mutex_);
  auto delay = std::chrono::milliseconds(1000);
  while (!wake_.wait_for(lock, delay, [this] { return stop_; })) {
    delay = std::chrono::milliseconds(200);
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_).count();
    std::fprintf(stderr, "\r\x1b[K[%llds] %.100s", static_cast<long long>(seconds), text_.c_str());
    shown_ = true;
  }
}

} // namespace npuc::cli
