// A fixed pool of threads and a parallel loop whose results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace npuc {

class ThreadPool {
public:
  // `threads` counts the caller too: 1 runs everything in the caller, 0 takes the machine's processors.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int size() const;

  // Calls fn(begin, end) for consecutive ranges that cover [0, n) once. The ranges depend on n and grain only
  // (`grain` indices each, the last one shorter), never on the number of threads, so partial results kept by range
  // (begin / grain) and combined in order are deterministic. Returns when all calls have. The order of calls is
  // free; fn must not throw. Calls from inside fn run in the calling thread, one range after another.
  void ParallelFor(size_t n, size_t grain, const std::function<void(size_t begin, size_t end)> &fn);

private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

} // namespace npuc
