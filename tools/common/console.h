// What all tools share but flags: exit codes, the terminal, diagnostics on stderr, the progress line and the
// last words of a crash. No CLI11 here: see tools/common/flags.h.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "compiler/support/diagnostic.h"
#include "compiler/support/status.h"

namespace npuc::cli {

// The contract of all tools.
enum ExitCode : int {
  kDone = 0,
  kBadInput = 1,   // the input is wrong, can't be compiled, can't be run; diagnostics on stderr
  kUsage = 2,      // wrong usage
  kGateFailed = 3, // a gate or a comparison failed
  kInternal = 4,   // a bug of ours; the message names a reproducer
};

// What to do about a bug of ours.
inline constexpr char kBugHelp[] = "this is a bug; please report it with the reproducer, and with the part of the "
                                   "model that npu-reduce --exit-code 4 leaves of it";

enum class ColorMode { Auto, Always, Never };

// Auto: a terminal, NO_COLOR unset or empty, TERM not "dumb".
bool UseColor(ColorMode mode, std::FILE *stream);

// stderr as a tool uses it. Not for use from several threads.
class Console {
public:
  explicit Console(std::string tool) : tool_(std::move(tool)) {}

  // As given by -q, -v (repeatable) and --color.
  bool quiet = false;
  int verbosity = 0;
  ColorMode color = ColorMode::Auto;

  const std::string &tool() const { return tool_; }
  bool stderr_color() const { return UseColor(color, stderr); }
  bool stdout_color() const { return UseColor(color, stdout); }

  // Errors always; warnings and notes unless quiet.
  void Print(const Diagnostic &d) const;
  // Everything that the engine collected, in its order.
  void PrintAll(const DiagnosticEngine &diagnostics) const;
  // A line on stderr unless quiet.
  void Say(std::string_view line) const;

  // Text on stdout: kDone, or a message and its exit code when the reader is gone or the disk is full.
  int Out(std::string_view text) const;

  // Prints a failed status (AlreadyReported(): nothing more to print) and returns the exit code that it stands for:
  // kInternal for E0901, with a reproducer, else kBadInput.
  int Fail(const Status &status, std::string_view file = "") const;

  // "npuc: error: text", a hint at --help; returns kUsage.
  int UsageError(std::string_view text) const;

private:
  std::string tool_;
};

// Prints text to stdout, all of it. E0102 when the reader is gone or the disk is full.
Status WriteStdout(std::string_view text);

// A line on the terminal that says what is at work, from the second second on. Nothing when stderr is no terminal or
// `console` is quiet. Cleared at the end.
class Progress {
public:
  explicit Progress(const Console &console);
  ~Progress();
  void Update(std::string text);
  // Prints on stderr, the line out of the way.
  void Print(std::string_view text);
  // Takes the line off the terminal now (before something else is printed) and stops.
  void Stop();

private:
  void Loop();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string text_;
  bool stop_ = false, shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::thread thread_;
};

// Installs what makes a bug end in exit code 4 with a reproducer: the NPUC_CHECK handler, handlers of SIGSEGV, SIGBUS,
// SIGFPE, SIGILL and SIGABRT, and a new-handler that reports E0902 (exit code 1: the input asks for more than there
// is). The reproducer is a text file in $NPUC_CRASH_DIR, else $TMPDIR, else /tmp, with the version, the command line,
// the working directory and the message. Keep argv alive.
void InstallCrashHandlers(std::string_view tool, int argc, char **argv);
// Writes a reproducer with `message`; its path, "" when it could not be written.
std::string WriteReproducer(std::string_view message);

} // namespace npuc::cli
