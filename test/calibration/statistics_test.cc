// Statistics of tensors: values by hand, and the promise that parts add up to the whole exactly.
#include "compiler/calibration/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace npuc {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TensorStatistics Of(std::vector<float> v, std::vector<int64_t> dims, int axis, int64_t sample = 0) {
  TensorStatistics t;
  t.Add(sample, v, dims, axis);
  return t;
}

uint64_t Total(const std::vector<uint64_t> &side) {
  uint64_t n = 0;
  for (uint64_t c : side)
    n += c;
  return n;
}

TEST(Statistics, CountsRangesAndBins) {
  const TensorStatistics t = Of({1.0f, -0.25f, 0.0f, -0.0f, 1.5f}, {5}, -1);
  EXPECT_EQ(t.count, 5);
  EXPECT_EQ(t.zero_count, 2);
  EXPECT_EQ(t.min, -0.25f);
  EXPECT_EQ(t.max, 1.5f);
  // The least power of two above 1.5 is 2; bins are 2 / 4096 wide: 1.0 is the first number of bin 2048.
  EXPECT_EQ(t.histogram.exponent, 1);
  EXPECT_EQ(t.histogram.positive[2048], 1u);
  EXPECT_EQ(t.histogram.positive[3072], 1u);
  EXPECT_EQ(t.histogram.negative[512], 1u);
  EXPECT_EQ(Total(t.histogram.positive) + Total(t.histogram.negative), 3u) << "zeros are not in the histogram";
}

TEST(Statistics, APowerOfTwoNeedsTheNextRange) {
  EXPECT_EQ(Histogram::ExponentOf(1.0f), 1);
  EXPECT_EQ(Histogram::ExponentOf(std::nextafter(1.0f, 0.0f)), 0);
  EXPECT_EQ(Histogram::ExponentOf(std::numeric_limits<float>::max()), 128);
  EXPECT_EQ(Histogram::ExponentOf(1e-40f), Histogram::kMinExponent);
}

TEST(Statistics, WhatIsNotFiniteIsCountedAndNothingElse) {
  const TensorStatistics t = Of({kNaN, 2, -kInf, 4, kInf, kNaN}, {1, 2, 3}, 1);
  EXPECT_EQ(t.count, 2);
  EXPECT_EQ(t.nan_count, 2);
  EXPECT_EQ(t.inf_count, 2);
  EXPECT_EQ(t.min, 2);
  EXPECT_EQ(t.max, 4);
  EXPECT_EQ(t.channels.Mean(0), 2) << "of 2 alone";
  EXPECT_EQ(t.channels.Mean(1), 4);
  EXPECT_EQ(Total(t.histogram.positive), 2u);
  const TensorStatistics none = Of({kNaN, kNaN}, {2}, -1);
  EXPECT_EQ(none.count, 0);
  EXPECT_TRUE(none.samples.empty()) << "a sample without a finite element says nothing about ranges";
}

TEST(Statistics, Channels) {
  // [1,2,2,2]: channel 0 holds 1 2 3 4, channel 1 holds -1 -2 -3 -5.
  const TensorStatistics t = Of({1, 2, 3, 4, -1, -2, -3, -5}, {1, 2, 2, 2}, 1);
  EXPECT_EQ(t.channels.min, (std::vector<float>{1, -5}));
  EXPECT_EQ(t.channels.max, (std::vector<float>{4, -1}));
  EXPECT_EQ(t.channels.Mean(0), 2.5);
  EXPECT_EQ(t.channels.Mean(1), -2.75);
  // The same numbers with channels last.
  const TensorStatistics last = Of({1, -1, 2, -2, 3, -3, 4, -5}, {1, 2, 2, 2}, 3);
  EXPECT_EQ(last.channels.min, t.channels.min);
  EXPECT_EQ(last.channels.sum, t.channels.sum);
  EXPECT_EQ(last.histogram, t.histogram);
}

TEST(Statistics, ChannelsThatChangeAreDropped) {
  TensorStatistics t = Of({1, 2}, {1, 2, 1}, 1, 0);
  t.Add(1, std::vector<float>{1, 2, 3}, std::vector<int64_t>{1, 3, 1}, 1);
  EXPECT_EQ(t.channels.axis, ChannelStatistics::kNone);
  TensorStatistics again = Of({1, 2}, {1, 2, 1}, 1, 2);
  t.Merge(again);
  again.Merge(t);
  EXPECT_EQ(t.channels.axis, ChannelStatistics::kNone);
  EXPECT_EQ(again.channels.axis, ChannelStatistics::kNone) << "in either order";
}

// Numbers of very different size, with zeros, and now and then something that is not finite.
std::vector<std::vector<float>> Samples(int n, int elements) {
  std::mt19937 random(7);
  std::vector<std::vector<float>> all(n);
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < elements; ++k) {
      const uint32_t r = random();
      const float unit = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
      float v = std::ldexp(unit, static_cast<int>(r % 23) - 17 + i % 5);
      if (r % 31 == 0)
        v = 0;
      if (r % 997 == 0)
        v = r % 2 ? kNaN : kInf;
      all[i].push_back(v);
    }
  return all;
}

TEST(Statistics, PartsAddUpToTheWholeInAnyOrder) {
  constexpr int kSamples = 12;
  const std::vector<int64_t> dims = {1, 8, 41, 17}; // rows of 697 elements: chains with a rest
  const auto samples = Samples(kSamples, 8 * 41 * 17);
  TensorStatistics whole;
  for (int i = 0; i < kSamples; ++i)
    whole.Add(i, samples[i], dims, 1);
  std::mt19937 random(3);
  for (int parts = 2; parts <= 5; ++parts) {
    std::vector<TensorStatistics> part(parts);
    for (int i = kSamples; i-- > 0;)
      part[random() % parts].Add(i, samples[i], dims, 1);
    std::shuffle(part.begin(), part.end(), random);
    TensorStatistics all;
    for (const TensorStatistics &p : part)
      all.Merge(p);
    EXPECT_EQ(all, whole) << parts << " parts";
  }
}

TEST(Statistics, HistogramIsThatOfAllNumbersAtOnce) {
  // Growing by steps gives the bins that the final range has from the start: |v| * 4096 / 2^e, cut off.
  Histogram grown;
  std::vector<float> all;
  for (int e = -20; e <= 3; ++e)
    for (float f : {1.0f, 1.37f, 1.999f}) {
      all.push_back(std::ldexp(f, e));
      all.push_back(-std::ldexp(f, e));
      grown.Add({all.data() + all.size() - 2, 2});
    }
  EXPECT_EQ(grown.exponent, 4);
  std::vector<uint64_t> positive(Histogram::kBins), negative(Histogram::kBins);
  for (float v : all)
    ++(v < 0 ? negative : positive)[static_cast<size_t>(std::fabs(v) / 16 * 4096)];
  EXPECT_EQ(grown.positive, positive);
  EXPECT_EQ(grown.negative, negative);
}

TEST(Statistics, LargeAndSmallTensorsCountAlike) {
  // Above 4096 elements the counting goes another way.
  std::vector<float> v;
  for (int i = 0; i < 10000; ++i)
    v.push_back(static_cast<float>(i % 100 - 30) / 8);
  Histogram once, pieces;
  once.Add(v);
  for (size_t i = 0; i < v.size(); i += 1000)
    pieces.Add({v.data() + i, 1000});
  EXPECT_EQ(once, pieces);
  EXPECT_EQ(Total(once.positive), 6900u);
  EXPECT_EQ(Total(once.negative), 3000u);
}

TEST(Statistics, PiecesOfOneSample) {
  TensorStatistics t;
  t.Add(3, std::vector<float>{1, 2}, std::vector<int64_t>{2}, -1);
  t.Add(3, std::vector<float>{-1, 0.5f}, std::vector<int64_t>{2}, -1);
  t.Add(1, std::vector<float>{7}, std::vector<int64_t>{1}, -1);
  EXPECT_EQ(t.samples, (std::vector<SampleRange>{{1, 7, 7}, {3, -1, 2}}));
}

TEST(Statistics, CountOutside) {
  std::vector<float> v;
  for (int i = -100; i <= 100; ++i)
    v.push_back(static_cast<float>(i) / 10);
  const TensorStatistics t = Of(v, {201}, -1);
  EXPECT_EQ(t.CountOutside(-10, 10), 0);
  EXPECT_EQ(t.CountOutside(-10, 4.95f), 51); // 5.0 ... 10.0
  EXPECT_EQ(t.CountOutside(-9.95f, 9.95f), 2);
}

TEST(CalibrationTable, FindsByName) {
  CalibrationTable table;
  table["a/b"].Add(0, std::vector<float>{1}, std::vector<int64_t>{1}, -1);
  ASSERT_NE(table.Find("a/b"), nullptr);
  EXPECT_EQ(table.Find("a/b")->count, 1);
  EXPECT_EQ(table.Find("a"), nullptr);
}

} // namespace
} // namespace npuc
