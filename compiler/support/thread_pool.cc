// Ranges are handed out by an atomic counter; the caller works too. One loop is open at a time: ParallelFor from a
// second thread waits for its turn, from inside a loop it runs serially.
#include "compiler/support/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace npuc {
namespace {
thread_local bool inside_loop = false;
}

struct ThreadPool::Shared {
  struct Loop {
    const std::function<void(size_t, size_t)> *fn;
    size_t n, grain, ranges;
    std::atomic<size_t> next{0};
  };

  std::mutex one_loop; // held by the thread whose loop is open
  std::mutex mutex;
  std::condition_variable wake, idle;
  Loop *loop = nullptr;
  uint64_t generation = 0;
  int working = 0;
  bool stop = false;
  std::vector<std::thread> threads;

  static void Work(Loop &loop) {
    inside_loop = true;
    for (size_t r; (r = loop.next.fetch_add(1)) < loop.ranges;) {
      const size_t begin = r * loop.grain;
      (*loop.fn)(begin, begin + std::min(loop.grain, loop.n - begin));
    }
    inside_loop = false;
  }

  void Thread() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || (loop && generation != seen); });
      if (stop)
        return;
      seen = generation;
      Loop *mine = loop;
      ++working;
      lock.unlock();
      Work(*mine);
      lock.lock();
      if (--working == 0)
        idle.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) : shared_(std::make_unique<Shared>()) {
  if (threads <= 0)
    threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 1; i < threads; ++i)
    shared_->threads.emplace_back([s = shared_.get()] { s->Thread(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.notify_all();
  for (std::thread &t : shared_->threads)
    t.join();
}

int ThreadPool::size() const {
  return static_cast<int>(shared_->threads.size()) + 1;
}

void ThreadPool::ParallelFor(size_t n, size_t grain, const std::function<void(size_t, size_t)> &fn) {
  grain = std::max<size_t>(grain, 1);
  const size_t ranges = n / grain + (n % grain != 0);
  if (ranges <= 1 || shared_->threads.empty() || inside_loop) {
    for (size_t r = 0; r < ranges; ++r)
      fn(r * grain, r * grain + std::min(grain, n - r * grain));
    return;
  }
  std::lock_guard turn(shared_->one_loop);
  Shared::Loop loop{&fn, n, grain, ranges};
  {
    std::lock_guard lock(shared_->mutex);
    shared_->loop = &loop;
    ++shared_->generation;
  }
  shared_->wake.notify_all();
  Shared::Work(loop);
  std::unique_lock lock(shared_->mutex);
  shared_->loop = nullptr; // nobody joins any more; wait for those who did
  shared_->idle.wait(lock, [&] { return shared_->working == 0; });
}

} // namespace npuc
