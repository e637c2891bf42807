#include "compiler/support/delta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace npuc {
namespace {

using Set = std::vector<size_t>;

bool Has(const Set &set, size_t x) {
  return std::binary_search(set.begin(), set.end(), x);
}

TEST(Delta, FindsTheIndicesThatMatter) {
  for (const Set &need : {Set{}, Set{0}, Set{99}, Set{3, 50}, Set{0, 1, 2, 97, 98, 99}, Set{10, 20, 30, 40, 50, 60}}) {
    const DeltaResult r = DeltaMinimise(
        100, [&](const Set &s) { return std::all_of(need.begin(), need.end(), [&](size_t x) { return Has(s, x); }); });
    EXPECT_EQ(r.kept, need);
    EXPECT_TRUE(r.minimal);
    EXPECT_LT(r.tests, 300u);
  }
}

TEST(Delta, ResultsAreOneMinimalForAnyPredicate) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t n = random() % 12;
    // A random predicate over all subsets that holds for the whole set.
    std::vector<bool> table(size_t{1} << n);
    for (size_t i = 0; i < table.size(); ++i)
      table[i] = random() % 3 == 0;
    table.back() = true;
    std::set<Set> seen;
    const auto holds = [&](const Set &s) {
      size_t mask = 0;
      for (const size_t i : s)
        mask |= size_t{1} << i;
      return bool(table[mask]);
    };
    const DeltaResult r = DeltaMinimise(n, [&](const Set &s) {
      EXPECT_TRUE(std::is_sorted(s.begin(), s.end()));
      EXPECT_TRUE(seen.insert(s).second) << "a subset was tried twice";
      return holds(s);
    });
    EXPECT_TRUE(holds(r.kept));
    EXPECT_EQ(r.tests, seen.size());
    for (size_t i = 0; i < r.kept.size(); ++i) {
      Set less = r.kept;
      less.erase(less.begin() + ptrdiff_t(i));
      EXPECT_FALSE(holds(less)) << "index " << r.kept[i] << " could go";
    }
  }
}

TEST(Delta, LimitsAndUninteresting) {
  const DeltaResult never = DeltaMinimise(5, [](const Set &) { return false; });
  EXPECT_EQ(never.kept.size(), 5u);
  EXPECT_FALSE(never.minimal);
  EXPECT_EQ(never.tests, 1u);
  DeltaOptions few;
  few.max_tests = 6;
  const DeltaResult r = DeltaMinimise(
      1000, [](const Set &s) { return Has(s, 1) && Has(s, 998); }, few);
  EXPECT_LE(r.tests, 6u);
  EXPECT_FALSE(r.minimal);
  EXPECT_TRUE(Has(r.kept, 1) && Has(r.kept, 998));
}

TEST(Delta, FirstBad) {
  for (size_t n = 0; n < 40; ++n)
    for (size_t first = 0; first <= n; ++first) {
      size_t calls = 0;
      EXPECT_EQ(FirstBad(n, [&](size_t k) { return ++calls, k >= first; }), first);
      EXPECT_LE(calls, 8u);
    }
  EXPECT_EQ(FirstBad(7, [](size_t) { return false; }), 8u);
}

} // namespace
} // namespace npuc
