// Each command leads a process group, so that a timeout ends whatever it started. Waiting is by polling: commands take
// milliseconds to minutes, and several are waited for at once.
#include "tools/common/run_all.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace npuc::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  size_t index;
  pid_t pid;
  Clock::time_point start;
};

// Async-signal-safe between fork and exec.
[[noreturn]] void Become(const Command &command, char **argv) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto file = [](const std::string &path, int flags) {
    const int fd = open(path.empty() ? "/dev/null" : path.c_str(), flags, 0600);
    if (fd < 0)
      _exit(127);
    return fd;
  };
  dup2(file("", O_RDONLY), STDIN_FILENO);
  dup2(file(command.out, O_WRONLY | O_CREAT | O_APPEND), STDOUT_FILENO);
  dup2(file(command.err, O_WRONLY | O_CREAT | O_APPEND), STDERR_FILENO);
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0)
    _exit(127);
  execvp(argv[0], argv);
  _exit(127);
}

pid_t Start(const Command &command) {
  std::vector<char *> argv;
  for (const std::string &arg : command.args)
    argv.push_back(const_cast<char *>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0)
    Become(command, argv.data());
  if (pid > 0)
    setpgid(pid, pid); // whichever of the two comes first
  return pid;
}

} // namespace

void RunAll(size_t n, int jobs, double timeout, const std::function<Command(size_t)> &make,
            const std::function<void(size_t, Ended)> &done) {
  std::vector<Child> running;
  for (size_t next = 0; next < n || !running.empty();) {
    while (next < n && static_cast<int>(running.size()) < jobs) {
      const pid_t pid = Start(make(next));
      if (pid > 0)
        running.push_back({next, pid, Clock::now()});
      else
        done(next, {127, false});
      ++next;
    }
    bool ended = false;
    for (size_t i = 0; i < running.size();) {
      const Child child = running[i];
      int status = 0;
      const bool over = waitpid(child.pid, &status, WNOHANG) != 0;
      const bool late = timeout > 0 && std::chrono::duration<double>(Clock::now() - child.start).count() >= timeout;
      if (!over && !late) {
        ++i;
        continue;
      }
      kill(-child.pid, SIGKILL); // it, or what it left behind
      if (!over)
        waitpid(child.pid, &status, 0);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      ended = true;
      done(child.index, {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), !over});
    }
    if (!ended && !running.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

} // namespace npuc::cli
