// One process group a candidate, so that a timeout ends whatever the command started. Waiting is by polling: candidates
// take milliseconds to minutes, and the order in which they end must not matter.
#include "tools/npu-reduce/predicate.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"

namespace npuc::reduce {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Predicate::Child {
  pid_t pid = -1;
  std::string folder;
  Clock::time_point start;
};

StatusOr<Predicate> Predicate::Create(PredicateOptions options) {
  Predicate p(std::move(options));
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "npu-reduce-XXXXXX").string();
  if (error || !mkdtemp(name.data()))
    return Error("E0102", "the temporary folder cannot be made", "set TMPDIR to a folder that can be written");
  p.folder_ = name;
  return p;
}

Predicate::~Predicate() {
  std::error_code error;
  if (!folder_.empty())
    fs::remove_all(folder_, error);
}

Predicate::Child Predicate::Start(const std::string &candidate) {
  Child child;
  child.folder = fmt::format("{}/{}", folder_, runs_++);
  std::error_code error;
  fs::create_directory(child.folder, error);
  const std::string file = child.folder + "/candidate" + options_.suffix, log = child.folder + "/.log";
  if (error || !WriteFile(file, candidate).ok())
    return child;
  std::vector<std::string> args = options_.command;
  bool placed = false;
  for (std::string &arg : args)
    for (size_t at = arg.find("{}"); at != std::string::npos; at = arg.find("{}", at + file.size())) {
      arg.replace(at, 2, file);
      placed = true;
    }
  if (!placed)
    args.push_back(file);
  std::vector<char *> argv;
  for (std::string &arg : args)
    argv.push_back(arg.data());
  argv.push_back(nullptr);
  child.start = Clock::now();
  child.pid = fork();
  if (child.pid == 0) {
    setpgid(0, 0);
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (in < 0 || out < 0)
      _exit(127);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  if (child.pid > 0)
    setpgid(child.pid, child.pid); // whichever of the two comes first
  return child;
}

bool Predicate::Matches(const std::string &log) const {
  if (options_.match.empty())
    return true;
  auto text = MappedFile::Open(log);
  return text.ok() && text->text().find(options_.match) != std::string_view::npos;
}

std::vector<Predicate::Verdict> Predicate::Judge(const std::vector<std::string> &candidates) {
  std::vector<Verdict> verdicts(candidates.size(), Verdict::CannotRun);
  std::vector<std::pair<size_t, Child>> running;
  size_t next = 0;
  while (next < candidates.size() || !running.empty()) {
    while (next < candidates.size() && static_cast<int>(running.size()) < options_.jobs) {
      Child child = Start(candidates[next]);
      if (child.pid > 0)
        running.emplace_back(next, std::move(child));
      ++next;
    }
    bool ended = false;
    for (size_t i = 0; i < running.size();) {
      auto &[index, child] = running[i];
      int status = 0;
      const pid_t done = waitpid(child.pid, &status, WNOHANG);
      const double seconds = std::chrono::duration<double>(Clock::now() - child.start).count();
      if (done == 0 && seconds < options_.timeout) {
        ++i;
        continue;
      }
      kill(-child.pid, SIGKILL); // the command, or what it left behind
      if (done == 0) {
        waitpid(child.pid, &status, 0);
        verdicts[index] = Verdict::TimedOut;
      } else {
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        verdicts[index] = code == options_.exit_code && Matches(child.folder + "/.log") ? Verdict::Interesting
                          : code == 126 || code == 127                                  ? Verdict::CannotRun
                                                                                        : Verdict::Boring;
      }
      std::error_code error;
      fs::remove_all(child.folder, error);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      ended = true;
    }
    if (!ended && !running.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return verdicts;
}

} // namespace npuc::reduce
