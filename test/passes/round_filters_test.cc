// Weights to f16: each filter keeps its sum, no weight moves far, zeros stay.
#include "passes/precision/round_filters.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/support/half.h"

namespace npuc {
namespace {

TEST(RoundFilters, KeepsTheSumOfEachSlice) {
  // Two filters of 3x3 as a trained edge detector has them: large weights that nearly cancel.
  const std::vector<float> w = {-4.5700293e-02f, -3.6548631f, 5.2982070e-02f, 56.445484f,  -2.9269177e-03f,
                                -48.123457f,     -1.2345678f, 1.0000001f,     -4.3333333f, 0.33333334f,
                                0.33333334f,     0.33333334f, -0.6666667f,    -0.1234567f, 0.f,
                                12.000001f,      -6.1111112f, -6.0999999f};
  const Tensor h = RoundFilters(Tensor::Of<float>(DType::F32, {2, 1, 3, 3}, w), 0);
  ASSERT_EQ(h.dtype(), DType::F16);
  for (int f = 0; f < 2; ++f) {
    double want = 0, got = 0, nearest = 0;
    for (int k = 0; k < 9; ++k) {
      const float x = w[f * 9 + k];
      const float y = HalfToFloat(h.data<uint16_t>()[f * 9 + k]);
      want += x;
      got += y;
      nearest += HalfToFloat(FloatToHalf(x));
      // Half a step of its own, and what the weight before it left: coarser exponents first, else in order.
      const auto half_step = [&](int j) {
        return w[f * 9 + j] == 0 ? 0 : std::ldexp(1.0, std::ilogb(w[f * 9 + j]) - 11);
      };
      double before = 0;
      for (int j = 0; j < 9; ++j)
        if (half_step(j) > half_step(k) || (half_step(j) == half_step(k) && j < k))
          before = before == 0 ? half_step(j) : std::min(before, half_step(j));
      EXPECT_LE(std::abs(y - x), half_step(k) + before) << k;
      if (x == 0) {
        EXPECT_EQ(y, 0.0f);
      }
    }
    EXPECT_LT(std::abs(got - want), 0x1p-15);     // half a step of the least weight, 0.123
    EXPECT_GT(std::abs(nearest - want), 0x1p-14); // what rounding each alone does
  }
}

TEST(RoundFilters, ColumnsOfAMatrix) {
  // Filters along axis 1: 1 + 2^-11 is half way; the two halves of a column's error go opposite ways.
  const float a = 1.0f + 0x1p-11f;
  const Tensor h = RoundFilters(Tensor::Of<float>(DType::F32, {2, 2}, {a, 0.5f, a, 0.25f}), 1);
  const uint16_t *p = h.data<uint16_t>();
  EXPECT_EQ(HalfToFloat(p[0]) + HalfToFloat(p[2]), 2 * a);
  EXPECT_EQ(HalfToFloat(p[1]), 0.5f);
  EXPECT_EQ(HalfToFloat(p[3]), 0.25f);
}

} // namespace
} // namespace npuc
