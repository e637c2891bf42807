// Ranges: by hand, and against quantising the numbers themselves.
#include "compiler/calibration/methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace npuc {
namespace {

TensorStatistics Of(const std::vector<float> &v) {
  TensorStatistics t;
  t.Add(0, v, {static_cast<int64_t>(v.size())}, -1);
  return t;
}

Range By(CalibrationMethod method, const TensorStatistics &t, bool symmetric = false) {
  MethodOptions o;
  o.method = method;
  o.symmetric = symmetric;
  return ChooseRange(t, o);
}

std::vector<float> Normal(int n, float deviation) {
  std::mt19937 random(11);
  std::vector<float> v;
  for (int i = 0; i < n; ++i) {
    double sum = 0; // twelve uniform numbers: deviation 1
    for (int k = 0; k < 12; ++k)
      sum += random() * 0x1p-32;
    v.push_back(static_cast<float>((sum - 6) * deviation));
  }
  return v;
}

TEST(Methods, NamesReadBack) {
  for (CalibrationMethod m : {CalibrationMethod::MinMax, CalibrationMethod::MovingAverage,
                              CalibrationMethod::Percentile, CalibrationMethod::Entropy, CalibrationMethod::Mse})
    EXPECT_EQ(ParseCalibrationMethod(Name(m)), m);
  EXPECT_EQ(ParseCalibrationMethod("max"), std::nullopt);
}

TEST(Methods, MinMaxHoldsZero) {
  EXPECT_EQ(By(CalibrationMethod::MinMax, Of({-1, 3})), (Range{-1, 3}));
  EXPECT_EQ(By(CalibrationMethod::MinMax, Of({2, 3})), (Range{0, 3}));
  EXPECT_EQ(By(CalibrationMethod::MinMax, Of({-4, -3})), (Range{-4, 0}));
  EXPECT_EQ(By(CalibrationMethod::MinMax, Of({-4, 3}), true), (Range{-4, 4}));
}

TEST(Methods, NothingSeenIsNoRange) {
  for (CalibrationMethod m : {CalibrationMethod::MinMax, CalibrationMethod::MovingAverage,
                              CalibrationMethod::Percentile, CalibrationMethod::Entropy, CalibrationMethod::Mse}) {
    EXPECT_EQ(By(m, TensorStatistics{}), Range{}) << Name(m);
    EXPECT_EQ(By(m, Of({0, 0, 0})), Range{}) << Name(m);
    EXPECT_EQ(By(m, Of({0, 5, 5})).max, 5) << Name(m);
  }
}

TEST(Methods, MovingAverageGoesInSampleOrder) {
  // Greatest 1, 2, 4, half way each time: 1 -> 1.5 -> 2.75. Least -2, -2, 0: -2 -> -2 -> -1. Added backwards.
  TensorStatistics t;
  t.Add(2, std::vector<float>{0, 4}, std::vector<int64_t>{2}, -1);
  t.Add(1, std::vector<float>{-2, 2}, std::vector<int64_t>{2}, -1);
  t.Add(0, std::vector<float>{-2, 1}, std::vector<int64_t>{2}, -1);
  MethodOptions o;
  o.method = CalibrationMethod::MovingAverage;
  o.momentum = 0.5;
  EXPECT_EQ(ChooseRange(t, o), (Range{-1, 2.75f}));
}

TEST(Methods, PercentileCutsEachTail) {
  // 1 ... 10000 thousandths: with 99.9 %, the ten greatest, 9.991 and above, are out.
  std::vector<float> v;
  for (int i = 1; i <= 10000; ++i)
    v.push_back(static_cast<float>(i) / 1000);
  MethodOptions o;
  o.method = CalibrationMethod::Percentile;
  o.percentile = 99.9;
  const Range up = ChooseRange(Of(v), o);
  EXPECT_EQ(up.min, 0);
  EXPECT_NEAR(up.max, 9.990, 16.0 / 4096); // a bin
  for (float &x : v)
    x = -x;
  const Range down = ChooseRange(Of(v), o);
  EXPECT_EQ(down.max, 0);
  EXPECT_NEAR(down.min, -9.990, 16.0 / 4096);
  // Zeros count as elements: 90000 of them make the 100 greatest of 100000 one tail of 99.9 %.
  std::vector<float> sparse(90000, 0.0f);
  for (int i = 1; i <= 10000; ++i)
    sparse.push_back(static_cast<float>(i) / 1000);
  EXPECT_NEAR(ChooseRange(Of(sparse), o).max, 9.900, 16.0 / 4096);
  o.percentile = 100;
  EXPECT_EQ(ChooseRange(Of(sparse), o).max, 10);
}

TEST(Methods, EntropyKeepsEvenDistributionsAndCutsRareOutliers) {
  std::vector<float> even;
  for (int i = 0; i < 200000; ++i)
    even.push_back(static_cast<float>(i % 20000 - 10000) / 10000);
  EXPECT_GT(By(CalibrationMethod::Entropy, Of(even)).max, 0.98f);
  std::vector<float> outlier = Normal(200000, 1);
  outlier.push_back(40);
  const Range r = By(CalibrationMethod::Entropy, Of(outlier));
  EXPECT_LT(r.max, 12);
  EXPECT_GT(r.max, 2.5f);
  EXPECT_EQ(r.min, -std::min(r.max, -Of(outlier).min)) << "one threshold for both signs, within what was seen";
}

// The mean squared error of really quantising: codes 0 ... 255 over the range, zero one of them.
double TrueError(const std::vector<float> &v, Range r) {
  const double scale = (double{r.max} - r.min) / 255, zero = std::nearbyint(-r.min / scale);
  double sum = 0;
  for (float x : v) {
    const double q = std::clamp(std::nearbyint(x / scale) + zero, 0.0, 255.0);
    const double e = (q - zero) * scale - x;
    sum += e * e;
  }
  return sum / static_cast<double>(v.size());
}

TEST(Methods, ExpectedErrorIsThatOfQuantising) {
  const std::vector<float> v = Normal(100000, 0.3f);
  const TensorStatistics t = Of(v);
  for (Range r : {Range{-1.5f, 1.5f}, Range{-0.6f, 0.9f}, Range{-0.2f, 0.3f}, Range{-0.01f, 0.01f}, Range{-15, 15}}) {
    const double truth = TrueError(v, r);
    EXPECT_NEAR(ExpectedSquaredError(t, r, 256), truth, 0.03 * truth) << r.min << " " << r.max;
  }
}

TEST(Methods, MseIsAsGoodAsTryingAllRanges) {
  std::vector<float> rectified = Normal(50000, 1);
  for (float &x : rectified)
    x = std::max(x, 0.0f);
  rectified.push_back(9);
  std::vector<float> skewed = Normal(50000, 1);
  for (float &x : skewed)
    x = x < 0 ? x / 10 : x * x;
  for (const auto &v : {rectified, skewed, Normal(50000, 5)}) {
    const TensorStatistics t = Of(v);
    double best = INFINITY;
    for (int i = 1; i <= 24; ++i)
      for (int j = 1; j <= 24; ++j)
        best = std::min(best, TrueError(v, {std::min(0.0f, t.min) * i / 24, t.max * j / 24}));
    const Range r = By(CalibrationMethod::Mse, t);
    EXPECT_LE(TrueError(v, r), best * 1.02);
    EXPECT_LT(TrueError(v, r), TrueError(v, {std::min(0.0f, t.min), t.max})) << "better than what was seen";
  }
}

TEST(Methods, NeverWiderThanSeen) {
  const TensorStatistics t = Of(Normal(3000, 2));
  for (CalibrationMethod m : {CalibrationMethod::MinMax, CalibrationMethod::MovingAverage,
                              CalibrationMethod::Percentile, CalibrationMethod::Entropy, CalibrationMethod::Mse}) {
    const Range r = By(m, t);
    EXPECT_GE(r.min, t.min) << Name(m);
    EXPECT_LE(r.max, t.max) << Name(m);
    const Range s = By(m, t, true);
    EXPECT_EQ(s.min, -s.max) << Name(m);
  }
}

} // namespace
} // namespace npuc
