#include "op_runner.h"

namespace npuc {
namespace {

// Upsampling by 16 puts corners' weights on multiples of 1/256, so 8-bit results are often exact halves, and the last
// bit of the f32 sum decides them. The expected values are onnxruntime's (graph optimisation off) at such places of
// DequantizeLinear, Resize, QuantizeLinear with scale 0.18857865 and zero point 34; mixing along W, then along H gives
// 118, 57 and 40 instead.
TEST(Resize, LinearTiesFallAsTheCornersSum) {
  const float s = 0.18857865f;
  struct {
    int y, x;
    std::vector<int> cell;
    int expected;
  } cases[] = {{2, 8, {105, 132, 107, 114}, 117}, {7, 3, {56, 54, 58, 56}, 56}, {2, 8, {44, 37, 44, 37}, 41}};
  for (const auto &c : cases) {
    std::vector<float> x;
    for (int q : c.cell)
      x.push_back(static_cast<float>(q - 34) * s);
    const Tensor y = OpRunner("Resize")
                         .Str("mode", "linear")
                         .Str("coordinate_transformation_mode",
                              "align_corners")({F32({1, 1, 2, 2}, x), Absent(), Absent(), I64({4}, {1, 1, 17, 17})});
    const float v = y.data<float>()[c.y * 17 + c.x];
    EXPECT_EQ(std::nearbyint(v / s) + 34, c.expected) << c.y << ", " << c.x;
  }
}

// Outside of the sources' middle there is one source, and a source of weight 0 does not count.
TEST(Resize, LinearEdgesAndInfinities) {
  ExpectValues(
      OpRunner("Resize").Str("mode", "linear")({F32({1, 1, 1, 3}, {kInf, 2, 6}), Absent(), F32({4}, {1, 1, 1, 2})}),
      {kInf, kInf, kInf, 3, 5, 6});
  ExpectValues(OpRunner("Resize")
                   .Str("mode", "linear")
                   .Str("coordinate_transformation_mode",
                        "asymmetric")({F32({1, 1, 1, 3}, {1, 2, kInf}), Absent(), F32({4}, {1, 1, 1, 2})}),
               {1, 1.5f, 2, kInf, kInf, kInf});
}

// 2 x 2 to 4 x 4 over N, C in front and one axis behind: by hand, half pixels: weights 1, 3/4 1/4, 1/4 3/4, 1.
TEST(Resize, LinearAxesAnywhere) {
  ExpectValues(OpRunner("Resize").Str("mode", "linear")(
                   {F32({2, 2, 2}, {0, 8, 16, 24, 100, 108, 116, 124}), Absent(), F32({3}, {2, 2, 1})}),
               {0,  8,  4,  12, 12, 20, 16, 24, 25,  33,  29,  37,  37,  45,  41,  49,
                75, 83, 79, 87, 87, 95, 91, 99, 100, 108, 104, 112, 112, 120, 116, 124});
  ExpectValues(
      OpRunner("Resize").Str("mode", "linear")({F32({1, 2, 1, 2}, {0, 4, 8, 16}), Absent(), F32({4}, {1, 1, 1, 2})}),
      {0, 1, 3, 4, 8, 10, 14, 16});
}

} // namespace
} // namespace npuc
