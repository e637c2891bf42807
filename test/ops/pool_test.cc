// Pooling; values from ONNX's operator tests or by hand.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

const Tensor kX = Iota({1, 1, 5, 5}, 1);

TEST(MaxPool, OnnxExamples) {
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {5, 5}).Ints("pads", {2, 2, 2, 2})({kX}),
               {13, 14, 15, 15, 15, 18, 19, 20, 20, 20, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25});
  ExpectValues(
      OpRunner("MaxPool").Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Str("auto_pad", "SAME_UPPER")({kX}),
      {7, 9, 10, 17, 19, 20, 22, 24, 25});
  const Tensor d = Iota({1, 1, 4, 4}, 1);
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {2, 2}).Ints("dilations", {2, 2})({d}), {11, 12, 15, 16});
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Int("ceil_mode", 1)({d}),
               {11, 12, 15, 16});
}

TEST(MaxPool, CeilModeDropsAWindowThatStartsBehindTheInput) {
  // 1 + ceil((2 + 2 - 1) / 2) = 3 would start the third window at 4 >= 2 + 1.
  const Tensor y = OpRunner("MaxPool")
                       .Ints("kernel_shape", {1})
                       .Ints("strides", {2})
                       .Ints("pads", {1, 1})
                       .Int("ceil_mode", 1)({F32({1, 1, 2}, {5, 6})});
  ExpectDims(y, {1, 1, 2});
}

TEST(MaxPool, IndicesRowAndColumnMajorAndTies) {
  auto r = OpRunner("MaxPool").Ints("kernel_shape", {2, 2}).Ints("strides", {2, 2}).Results(2).Run({kX});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {7, 9, 17, 19});
  ExpectValues((*r)[1], {6, 8, 16, 18});
  r = OpRunner("MaxPool")
          .Ints("kernel_shape", {2, 2})
          .Ints("strides", {2, 2})
          .Int("storage_order", 1)
          .Results(2)
          .Run({kX});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[1], {6, 16, 8, 18});
  r = OpRunner("MaxPool").Ints("kernel_shape", {3}).Results(2).Run({F32({1, 1, 3}, {4, 4, 4})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[1], {0});
}

TEST(MaxPool, NanPropagatesIntegersAndNegativeMaxima) {
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {2})({F32({1, 1, 3}, {1, kNaN, 2})}), {kNaN, kNaN});
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {2}).Ints("pads", {1, 1})({F32({1, 1, 2}, {-5, -3})}),
               {-5, -3, -3});
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {2})({I8({1, 1, 3}, {-128, -127, 5})}), {-127, 5});
  ExpectValues(OpRunner("MaxPool").Ints("kernel_shape", {2})({F32({1, 1, 2}, {-kInf, -kInf})}), {-kInf});
}

TEST(AveragePool, CountIncludePadAndCeilMode) {
  const Tensor x = F32({1, 1, 3}, {3, 6, 9});
  ExpectValues(OpRunner("AveragePool").Ints("kernel_shape", {3}).Ints("pads", {1, 1})({x}), {4.5, 6, 7.5});
  ExpectValues(OpRunner("AveragePool").Ints("kernel_shape", {3}).Ints("pads", {1, 1}).Int("count_include_pad", 1)({x}),
               {3, 6, 5});
  // ceil_mode's overhang is not counted even with count_include_pad: (6 + 9 of 3, 9 + pad of 2)
  ExpectValues(OpRunner("AveragePool")
                   .Ints("kernel_shape", {3})
                   .Ints("strides", {2})
                   .Ints("pads", {0, 1})
                   .Int("count_include_pad", 1)
                   .Int("ceil_mode", 1)({F32({1, 1, 4}, {3, 6, 9, 12})}),
               {6, 7});
  // test_averagepool_2d_dilations
  ExpectValues(OpRunner("AveragePool")
                   .Ints("kernel_shape", {2, 2})
                   .Ints("dilations", {2, 2})
                   .Int("ceil_mode", 1)({Iota({1, 1, 4, 4}, 1)}),
               {6, 7, 10, 11});
}

TEST(LpPool, PowersOneTwoThree) {
  const Tensor x = F32({1, 1, 2}, {3, -4});
  ExpectValues(OpRunner("LpPool").Ints("kernel_shape", {2})({x}), {5});
  ExpectValues(OpRunner("LpPool").Ints("kernel_shape", {2}).Int("p", 1)({x}), {7});
  ExpectValues(OpRunner("LpPool").Ints("kernel_shape", {2}).Int("p", 3)({x}), {std::cbrt(91.0)}, 1e-6);
}

TEST(GlobalPool, AllForms) {
  const Tensor x = F32({1, 2, 2, 2}, {1, 2, 3, 6, -1, -2, -3, -6});
  const Tensor a = OpRunner("GlobalAveragePool")({x});
  ExpectDims(a, {1, 2, 1, 1});
  ExpectValues(a, {3, -3});
  ExpectValues(OpRunner("GlobalMaxPool")({x}), {6, -1});
  ExpectValues(OpRunner("GlobalLpPool").Int("p", 1)({x}), {12, 12});
  ExpectDims(OpRunner("GlobalAveragePool")({Iota({1, 2, 2, 2, 2, 2})}), {1, 2, 1, 1, 1, 1});
}

TEST(Pool, Errors) {
  EXPECT_EQ(OpRunner("MaxPool").Fails({kX}), "E0203"); // no kernel
  EXPECT_EQ(OpRunner("MaxPool").Ints("kernel_shape", {2}).Fails({kX}), "E0203");
  EXPECT_EQ(OpRunner("MaxPool").Ints("kernel_shape", {6, 6}).Fails({kX}), "E0301");
  EXPECT_EQ(OpRunner("AveragePool").Ints("kernel_shape", {0, 1}).Fails({kX}), "E0203");
}

TEST(QuantizedPool, AverageIsExactAndMaxStaysInteger) {
  // sums of x - 10: 1 + 2 = 3, f32(3) * 0.5 / 2 = 0.75, / 0.5 = 1.5 -> 2 (half to even), + 3
  OpRunner avg("AveragePool");
  avg.Ints("kernel_shape", {2}).Quant({PerTensorQuant(0.5f, 10)}, PerTensorQuant(0.5f, 3), DType::U8);
  ExpectValues(avg({U8({1, 1, 2}, {11, 12})}), {5});
  OpRunner max("MaxPool");
  max.Ints("kernel_shape", {2}).Quant({PerTensorQuant(0.1f, 7)}, PerTensorQuant(0.1f, 7), DType::I8);
  ExpectValues(max({I8({1, 1, 3}, {-128, -3, 5})}), {-3, 5});
  // Different parameters: through f32. (5 - 7) * 0.5 = -1, / 0.25 = -4
  OpRunner other("MaxPool");
  other.Ints("kernel_shape", {2}).Quant({PerTensorQuant(0.5f, 7)}, PerTensorQuant(0.25f, 0), DType::I8);
  ExpectValues(other({I8({1, 1, 2}, {5, 3})}), {-4});
  OpRunner global("GlobalAveragePool");
  global.Quant({PerTensorQuant(1.0f, 0)}, nullptr, DType::F32);
  ExpectValues(global({I8({1, 1, 4}, {1, 2, 3, 5})}), {2.75});
}

TEST(QLinearPool, ChannelsLast) {
  const Tensor x = U8({1, 2, 2, 2}, {1, 10, 2, 20, 3, 30, 6, 40}); // [N,H,W,C]
  const Tensor y = OpRunner("QLinearGlobalAveragePool", "com.microsoft")
                       .Int("channels_last", 1)({x, F32({}, {1}), U8({}, {0}), F32({}, {1}), U8({}, {0})});
  ExpectDims(y, {1, 1, 1, 2});
  ExpectValues(y, {3, 25});
  ExpectValues(
      OpRunner("QLinearAveragePool", "com.microsoft")
          .Ints("kernel_shape", {2})({U8({1, 1, 3}, {2, 4, 7}), F32({}, {1}), U8({}, {0}), F32({}, {1}), U8({}, {1})}),
      {4, 7});
}

} // namespace
} // namespace npuc
