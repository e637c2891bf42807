// Other programs, several at a time: rows of a manifest, candidates of npu-reduce.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace npuc::cli {

struct Command {
  std::vector<std::string> args; // the program first, looked for in PATH
  std::string folder;            // it runs in; "": the current one
  std::string out, err;          // files that receive what it prints, may be the same; "": nowhere
};

struct Ended {
  int code = 0; // 128 + N: killed by signal N; 127: could not be run
  bool timed_out = false;
};

// Runs commands 0 .. n-1, at most `jobs` at a time, and starts them in this order; stdin is empty. `done` is called in
// the order in which they end. `timeout` in seconds (0: none), then the command and what it started are killed. They
// die with this program.
void RunAll(size_t n, int jobs, double timeout, const std::function<Command(size_t)> &make,
            const std::function<void(size_t, Ended)> &done);

} // namespace npuc::cli
