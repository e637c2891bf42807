#include "backend/memory/allocate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace npuc::memory {
namespace {

void ExpectSound(const std::vector<Request> &rs, const Allocation &a) {
  ASSERT_EQ(a.offsets.size(), rs.size());
  int64_t peak = 0;
  for (size_t i = 0; i < rs.size(); ++i) {
    EXPECT_GE(a.offsets[i], 0);
    EXPECT_EQ(a.offsets[i] % rs[i].align, 0) << i;
    if (rs[i].fixed && rs[i].size)
      EXPECT_EQ(a.offsets[i], *rs[i].fixed);
    if (rs[i].size)
      peak = std::max(peak, a.offsets[i] + rs[i].size);
  }
  EXPECT_EQ(a.peak, peak);
  EXPECT_GE(a.peak, a.live_bytes);
  // No two that are alive together share a byte. Sweep by birth, so that large inputs stay testable.
  std::vector<size_t> order;
  for (size_t i = 0; i < rs.size(); ++i)
    if (rs[i].size)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return rs[x].first < rs[y].first; });
  std::vector<size_t> alive;
  for (size_t i : order) {
    std::erase_if(alive, [&](size_t j) { return rs[j].last < rs[i].first; });
    for (size_t j : alive)
      ASSERT_TRUE(a.offsets[i] + rs[i].size <= a.offsets[j] || a.offsets[j] + rs[j].size <= a.offsets[i])
          << i << " and " << j;
    alive.push_back(i);
  }
}

TEST(Allocate, NothingAndZeroSizes) {
  Allocation a = Allocate({}, 0);
  EXPECT_TRUE(a.fits);
  EXPECT_EQ(a.peak, 0);
  a = Allocate({{.size = 0, .first = 0, .last = 5}}, 0);
  EXPECT_TRUE(a.fits);
}

TEST(Allocate, DisjointLifetimesShareBytes) {
  const Allocation a = Allocate({{.size = 100, .first = 0, .last = 1}, {.size = 100, .first = 2, .last = 3}}, 100);
  EXPECT_TRUE(a.fits);
  EXPECT_EQ(a.offsets[0], 0);
  EXPECT_EQ(a.offsets[1], 0);
}

TEST(Allocate, LastIsInclusive) {
  const Allocation a = Allocate({{.size = 100, .first = 0, .last = 2}, {.size = 100, .first = 2, .last = 3}}, 199);
  EXPECT_FALSE(a.fits);
  EXPECT_EQ(a.peak, 200);
  EXPECT_EQ(a.live_bytes, 200);
  EXPECT_EQ(a.live_time, 2);
}

// Birth order fragments: 60 | 40, then 40 dies and 60 lives on, then 50+... The best packing is the live bytes.
TEST(Allocate, ReachesTheLowerBoundWhereGreedyByBirthDoesNot) {
  const std::vector<Request> rs = {{.size = 40, .first = 0, .last = 1},
                                   {.size = 60, .first = 0, .last = 5},
                                   {.size = 40, .first = 1, .last = 2},
                                   {.size = 80, .first = 3, .last = 5}};
  const Allocation a = Allocate(rs, 140);
  ExpectSound(rs, a);
  EXPECT_TRUE(a.fits);
  EXPECT_EQ(a.peak, 140);
}

TEST(Allocate, FixedOffsetsAreKeptAndAvoidedBeforeTheirBirth) {
  // The fixed one is born while the other lives: the other must not sit on its bytes.
  const std::vector<Request> rs = {{.size = 100, .first = 0, .last = 4},
                                   {.size = 64, .align = 64, .first = 3, .last = 6, .fixed = 64}};
  const Allocation a = Allocate(rs, 228);
  ExpectSound(rs, a);
  EXPECT_TRUE(a.fits);
  EXPECT_EQ(a.offsets[0], 128);
}

TEST(Allocate, CollidingFixedOffsetsAreAFailure) {
  const Allocation a =
      Allocate({{.size = 10, .first = 0, .last = 4, .fixed = 0}, {.size = 10, .first = 4, .last = 6, .fixed = 5}}, 100);
  EXPECT_FALSE(a.fits);
  EXPECT_TRUE(a.offsets.empty());
  EXPECT_TRUE(
      Allocate({{.size = 10, .first = 0, .last = 3, .fixed = 0}, {.size = 10, .first = 4, .last = 6, .fixed = 5}}, 100)
          .fits);
}

TEST(Allocate, RandomInputsAreSoundAndRepeatable) {
  std::mt19937 rng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Request> rs;
    const int n = 1 + static_cast<int>(rng() % 60);
    for (int i = 0; i < n; ++i) {
      Request q;
      q.size = rng() % 8 ? rng() % 1000 : 0;
      q.align = int64_t{1} << rng() % 7;
      q.first = rng() % 40;
      q.last = q.first + rng() % 12;
      if (rng() % 16 == 0)
        q.fixed = static_cast<int64_t>(rng() % 3000) / q.align * q.align;
      rs.push_back(q);
    }
    const Allocation a = Allocate(rs, 4000), b = Allocate(rs, 4000);
    EXPECT_EQ(a.offsets, b.offsets);
    if (a.offsets.empty())
      continue;
    ExpectSound(rs, a);
    EXPECT_EQ(a.fits, a.peak <= 4000);
  }
}

// Tiles with double buffering: a steady state whose live bytes are reached exactly.
TEST(Allocate, HundredThousandRequestsQuickly) {
  std::vector<Request> rs;
  for (int t = 0; t < 25000; ++t) {
    rs.push_back({.size = 4096, .align = 64, .first = 4 * t, .last = 4 * t + 6});      // input
    rs.push_back({.size = 18432, .align = 64, .first = 4 * t + 1, .last = 4 * t + 6}); // weights
    rs.push_back({.size = 2048, .align = 64, .first = 4 * t + 2, .last = 4 * t + 9});  // output
    rs.push_back({.size = 512, .align = 64, .first = 4 * t, .last = 4 * t + 40});      // skip
  }
  const auto start = std::chrono::steady_clock::now();
  const Allocation a = Allocate(rs, 1 << 20);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("seconds", std::to_string(seconds));
  ExpectSound(rs, a);
  EXPECT_TRUE(a.fits);
  EXPECT_LE(a.peak, a.live_bytes * 13 / 10);
  EXPECT_LT(seconds, 10);
}

// All alive together: the pair budget must keep it from going quadratic.
TEST(Allocate, LongLifetimes) {
  std::mt19937 rng(3);
  std::vector<Request> rs;
  for (int i = 0; i < 20000; ++i)
    rs.push_back({.size = 1 + static_cast<int64_t>(rng() % 500), .align = 16, .first = i, .last = 40000});
  const Allocation a = Allocate(rs, 1 << 30);
  EXPECT_TRUE(a.fits);
  EXPECT_LE(a.peak, a.live_bytes + 20000 * 16);
}

} // namespace
} // namespace npuc::memory
