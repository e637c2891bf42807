// The last words of a tool that met a bug. A failed NPUC_CHECK knows what was at work and may allocate; a signal may
// not, so everything that its handler prints is prepared beforehand and written with write(2).
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tools/common/console.h"

namespace npuc::cli {
namespace {

struct CrashState {
  std::string header; // version, directory, command line
  std::string path;   // where the reproducer goes
};
CrashState *state = nullptr; // made once, never freed: handlers may run at any time

// Safe in a signal handler.
void WriteAll(int fd, const char *text, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, text, size);
    if (n <= 0)
      return;
    text += n;
    size -= static_cast<size_t>(n);
  }
}
void WriteAll(int fd, const char *text) {
  WriteAll(fd, text, std::strlen(text));
}

// Safe in a signal handler. False when the file could not be made.
bool WriteReproducerFile(const char *message, size_t size) {
  const int fd = open(state->path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return false;
  WriteAll(fd, state->header.data(), state->header.size());
  WriteAll(fd, message, size);
  WriteAll(fd, "\n");
  close(fd);
  return true;
}

// Safe in a signal handler.
[[noreturn]] void Die(const char *message, size_t size) {
  signal(SIGABRT, SIG_DFL);
  WriteAll(STDERR_FILENO, "error[E0901]: internal error: ");
  WriteAll(STDERR_FILENO, message, size);
  WriteAll(STDERR_FILENO, "\n  help: ");
  WriteAll(STDERR_FILENO, kBugHelp);
  if (WriteReproducerFile(message, size)) {
    WriteAll(STDERR_FILENO, "\n  reproducer: ");
    WriteAll(STDERR_FILENO, state->path.data(), state->path.size());
  }
  WriteAll(STDERR_FILENO, "\n");
  _exit(kInternal);
}

void OnCheck(std::string_view message) {
  Die(message.data(), message.size());
}

void OnSignal(int number) {
  const char *text = number == SIGSEGV  ? "invalid memory access (SIGSEGV)"
                     : number == SIGBUS ? "bus error (SIGBUS): a mapped file may have been cut short"
                     : number == SIGFPE ? "arithmetic fault (SIGFPE)"
                     : number == SIGILL ? "illegal instruction (SIGILL)"
                                        : "abort (SIGABRT)";
  Die(text, std::strlen(text));
}

void OnNoMemory() {
  WriteAll(STDERR_FILENO, "error[E0902]: out of memory\n  help: the model or one of its tensors is larger than "
                          "this machine's memory allows\n");
  _exit(kBadInput);
}

// A shell would read it back: quoted where it must be.
std::string ShellQuoted(std::string_view s) {
  if (!s.empty() && s.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+") ==
                        std::string_view::npos)
    return std::string(s);
  std::string out = "'";
  for (char c : s)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

} // namespace

void InstallCrashHandlers(std::string_view tool, int argc, char **argv) {
  if (!state)
    state = new CrashState;
  char directory[4096];
  if (!getcwd(directory, sizeof directory))
    directory[0] = '\0';
  std::string command;
  for (int i = 0; i < argc; ++i)
    command += (i ? " " : "") + ShellQuoted(argv[i]);
  state->header = fmt::format("{} {}\n# in {}\n{}\n\n", tool, NPUC_VERSION, directory, command);
  const char *folder = nullptr;
  for (const char *name : {"NPUC_CRASH_DIR", "TMPDIR"})
    if (!folder || !*folder)
      folder = std::getenv(name);
  state->path = fmt::format("{}/{}-crash-{}.txt", folder && *folder ? folder : "/tmp", tool, getpid());

  SetCheckHandler(OnCheck);
  std::set_new_handler(OnNoMemory);
  // A stack that has run over cannot serve its own handler.
  static char stack[64 * 1024];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN); // a closed pipe is a failed write, not a death
  signal(SIGXFSZ, SIG_IGN);
}

std::string WriteReproducer(std::string_view message) {
  if (!state || !WriteReproducerFile(message.data(), message.size()))
    return "";
  return state->path;
}

} // namespace npuc::cli
