#include "compiler/support/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace npuc {
namespace {

TEST(ThreadPool, CoversEachIndexOnceWithRangesThatDoNotDependOnThreads) {
  for (auto [n, grain] : {std::pair{0, 4}, {1, 4}, {7, 3}, {1000, 1}, {1000, 64}, {64, 64}, {10, 0}}) {
    std::set<std::pair<size_t, size_t>> first;
    for (int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      EXPECT_EQ(pool.size(), threads);
      std::vector<std::atomic<int>> hits(size_t(n) + 1);
      std::set<std::pair<size_t, size_t>> ranges;
      std::mutex mutex;
      pool.ParallelFor(size_t(n), size_t(grain), [&](size_t b, size_t e) {
        for (size_t i = b; i < e; ++i)
          ++hits[i];
        std::lock_guard lock(mutex);
        ranges.insert({b, e});
      });
      for (int i = 0; i < n; ++i)
        ASSERT_EQ(hits[size_t(i)], 1);
      if (threads == 1)
        first = ranges;
      EXPECT_EQ(ranges, first);
    }
  }
}

TEST(ThreadPool, PartialSumsCombineToTheSameBits) {
  std::vector<float> values(100000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0f / float(i * 7 % 1013 + 1);
  float want = 0;
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> part((values.size() + 999) / 1000);
      pool.ParallelFor(values.size(), 1000, [&](size_t b, size_t e) {
        for (size_t i = b; i < e; ++i)
          part[b / 1000] += values[i];
      });
      float sum = 0;
      for (float p : part)
        sum += p;
      if (want == 0)
        want = sum;
      ASSERT_EQ(sum, want);
    }
  }
}

TEST(ThreadPool, MoreThanOneThreadWorks) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::atomic<int> started{0};
  pool.ParallelFor(3, 1, [&](size_t, size_t) {
    ++started;
    while (started < 3) // passes only when three run at once
      std::this_thread::yield();
    std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3u);
}

TEST(ThreadPool, NestedLoopsAndManyCallers) {
  ThreadPool pool(4);
  std::atomic<int> sum{0};
  auto work = [&] {
    for (int k = 0; k < 50; ++k)
      pool.ParallelFor(
          10, 1, [&](size_t b, size_t) { pool.ParallelFor(b, 2, [&](size_t x, size_t y) { sum += int(y - x); }); });
  };
  std::thread a(work), b(work);
  work();
  a.join();
  b.join();
  EXPECT_EQ(sum, 3 * 50 * 45);
}

} // namespace
} // namespace npuc
