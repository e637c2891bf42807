// Runs folders of ONNX test cases (model.onnx + test_data_set_*) in process: ImportModel, then the interpreter.
//
//     onnx_backend_run [--filter SUBSTRING] [-v] FOLDER...
//
// Each FOLDER holds test cases, or is one, or is a model NAME.onnx: imported only, or, where a folder NAME with
// test_data_set_* is beside it, run with free dims fixed to those of the stored inputs and compared by cosine (at least
// 0.999).
//
// Prints a line per failure and a count; exit 1 when something failed. The comparison is ONNX's own: rtol 1e-3, atol
// 1e-7, narrow floats by their width, integers and strings exactly. Seeded-random tests compare dtype and shape.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "test/onnx/backend_case.h"

namespace npuc::test {
namespace {

// In a child, so that a crash is one failure of many.
std::string RunApart(const fs::path &folder) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0)
    return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string why = RunCase(folder);
    [[maybe_unused]] const auto n = write(pipe_ends[1], why.data(), std::min<size_t>(why.size(), 4000));
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string why;
  char buffer[4096];
  for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
    why.append(buffer, n);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? fmt::format("crash: signal {}", WTERMSIG(status)) : why;
}

} // namespace

int Main(int argc, char **argv) {
  std::string filter;
  bool verbose = false;
  std::vector<fs::path> cases;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--filter") && i + 1 < argc) {
      filter = argv[++i];
    } else if (!std::strcmp(argv[i], "-v")) {
      verbose = true;
    } else if (fs::path p = argv[i]; !fs::is_directory(p) || fs::exists(p / "model.onnx")) {
      cases.push_back(p);
    } else {
      for (const auto &e : fs::directory_iterator(p))
        if (e.path().extension() == ".onnx" || fs::exists(e.path() / "model.onnx"))
          cases.push_back(e.path());
    }
  }
  std::sort(cases.begin(), cases.end());
  int passed = 0, failed = 0;
  for (const auto &c : cases) {
    const std::string name = c.filename().string();
    if (name.find(filter) == std::string::npos)
      continue;
    if (verbose)
      std::fprintf(stderr, "%s\n", name.c_str());
    const std::string why = RunApart(c);
    ++(why.empty() ? passed : failed);
    if (!why.empty())
      std::printf("FAIL %s: %s\n", name.c_str(), why.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}

} // namespace npuc::test

int main(int argc, char **argv) {
  return npuc::test::Main(argc, argv);
}
