// QuantizeLinear and its kin, Cast, our own quantisation operators, and the scalar arithmetic under them.
#include "compiler/ops/convert.h"
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

TEST(QuantMath, RoundsHalfToEvenAndClamps) {
  const QuantRange u8 = QuantRangeOf(DType::U8), i8 = QuantRangeOf(DType::I8);
  EXPECT_EQ(QuantizeValue(1e30f, 1, 0, u8), 255);
  EXPECT_EQ(QuantizeValue(-kInf, 1, 3, i8), -128);
  EXPECT_EQ(QuantizeValue(kNaN, 1, 3, i8), 3);
  EXPECT_EQ(RequantizeAcc(5, 0.5f, 0, i8), 2);
  EXPECT_EQ(RequantizeAcc(7, 0.5f, 0, i8), 4);
  EXPECT_EQ(RequantizeAcc(-5, 0.5f, 0, i8), -2);
  EXPECT_EQ(RequantizeAcc(int64_t{1} << 40, 1.0f, 0, QuantRangeOf(DType::I32)), 2147483520);
  EXPECT_EQ(QuantizeAverage(3, 0.5f, 2, 0.5f, 0, i8), 2);
  EXPECT_EQ(DequantizeValue(-128, 0.5f, 127), -127.5f);
}

TEST(QuantizeLinear, TiesN081) {
  const Tensor x = F32({6}, {0.25f, 0.75f, 1.25f, 1.75f, -0.25f, -0.75f});
  ExpectValues(OpRunner("QuantizeLinear")({x, F32({}, {0.5f}), I8({}, {0})}), {0, 2, 2, 4, 0, -2});
  ExpectValues(OpRunner("QuantizeLinear")({x, F32({}, {0.5f}), U8({}, {0})}), {0, 2, 2, 4, 0, 0});
  ExpectValues(OpRunner("QuantizeLinear")({F32({2}, {-1000, 1000}), F32({}, {1}), I8({}, {0})}), {-128, 127});
}

TEST(QuantizeLinear, DefaultsAxisAndBlocks) {
  const Tensor d = OpRunner("QuantizeLinear")({F32({2}, {-1, 300}), F32({}, {1})});
  EXPECT_EQ(d.dtype(), DType::U8);
  ExpectValues(d, {0, 255});
  EXPECT_EQ(OpRunner("QuantizeLinear").Int("output_dtype", 5)({F32({1}, {-40000}), F32({}, {1})}).dtype(), DType::I16);
  // axis 1 (test_quantizelinear_axis, first slice)
  const Tensor x = F32({1, 3, 1, 2}, {-162, 10, -100, 232, -20, -50}), s = F32({3}, {2, 4, 5}),
               z = U8({3}, {84, 24, 196});
  ExpectValues(OpRunner("QuantizeLinear")({x, s, z}), {3, 89, 0, 82, 192, 186});
  ExpectValues(OpRunner("QuantizeLinear").Int("axis", -3)({x, s, z}), {3, 89, 0, 82, 192, 186});
  // Blocks of two along axis 1, the last one shorter.
  ExpectValues(
      OpRunner("QuantizeLinear")
          .Int("axis", 1)
          .Int("block_size", 2)({F32({2, 3}, {2, 4, 6, 2, 4, 6}), F32({2, 2}, {1, 2, 2, 3}), I8({2, 2}, {0, 1, 0, 0})}),
      {2, 4, 4, 1, 2, 2});
  EXPECT_EQ(OpRunner("QuantizeLinear").Fails({x, F32({2}, {1, 1}), U8({2}, {0, 0})}), "E0301");
  EXPECT_EQ(OpRunner("QuantizeLinear").Int("axis", 7).Fails({x, s, z}), "E0203");
}

TEST(QuantizeLinear, SmallTypes) {
  const Tensor i4 = Tensor::Of<int8_t>(DType::I4, {}, std::vector<int8_t>{1});
  ExpectValues(OpRunner("QuantizeLinear")({F32({3}, {-20, 2, 20}), F32({}, {2}), i4}), {-8, 2, 7});
  const Tensor f8 = Tensor::Allocate(DType::F8E4M3FN, {});
  const Tensor y = OpRunner("QuantizeLinear")({F32({3}, {0, 1, 1000}), F32({}, {2}), f8});
  ExpectValues(ops::ConvertTensor(y, DType::F32), {0, 0.5, 448});
  ExpectValues(OpRunner("QuantizeLinear")({I32({2}, {5, 6}), F32({}, {2}), U8({}, {0})}), {2, 3});
}

TEST(DequantizeLinear, Types) {
  ExpectValues(OpRunner("DequantizeLinear")({U8({4}, {0, 3, 128, 255}), F32({}, {2}), U8({}, {128})}),
               {-256, -250, 0, 254});
  ExpectValues(OpRunner("DequantizeLinear")({I32({1}, {16777217}), F32({}, {1})}), {16777216});
  ExpectValues(OpRunner("DequantizeLinear").Int("axis", 0)({I8({2, 1}, {1, 1}), F32({2}, {0.5f, 2}), I8({2}, {0, -1})}),
               {0.5, 4});
  EXPECT_EQ(OpRunner("DequantizeLinear").Fails({U8({1}, {1}), F32({}, {1}), I8({}, {0})}), "E0302");
}

TEST(DynamicQuantizeLinear, OnnxExamples) {
  auto r = OpRunner("DynamicQuantizeLinear").Results(3).Run({F32({6}, {0, 2, -3, -2.5f, 1.34f, 0.5f})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {153, 255, 0, 26, 221, 179});
  ExpectValues((*r)[1], {0.0196078438}, 1e-7);
  ExpectValues((*r)[2], {153});
  r = OpRunner("DynamicQuantizeLinear").Results(3).Run({F32({6}, {-1, -2.1f, -1.3f, -2.5f, -3.34f, -4})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {191, 121, 172, 96, 42, 0});
  ExpectValues((*r)[2], {255});
  r = OpRunner("DynamicQuantizeLinear").Results(3).Run({F32({2}, {0, 0})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[1], {1});
}

TEST(Cast, EdgesOfTheNumericTypes) {
  ExpectValues(OpRunner("Cast").Int("to", 3)({F32({5}, {-1.9f, 1.9f, 300, -300, kNaN})}), {-1, 1, 127, -128, 0}); // i8
  ExpectValues(OpRunner("Cast").Int("to", 2)({I32({3}, {256, -1, 77})}), {0, 255, 77});          // u8: low bits
  ExpectValues(OpRunner("Cast").Int("to", 9)({F32({4}, {0, -0.0f, 0.1f, kNaN})}), {0, 0, 1, 1}); // bool
  ExpectValues(OpRunner("Cast").Int("to", 7)({F32({2}, {1e20f, -1e20f})}),
               {9223372036854775807.0, -9223372036854775808.0});
  ExpectValues(OpRunner("Cast").Int("to", 22)({I32({3}, {7, 8, -9})}), {7, -8, 7});                  // i4: low bits
  ExpectValues(OpRunner("Cast").Int("to", 10)({F32({3}, {65519, 65520, 1e-8f})}), {65504, kInf, 0}); // f16
  ExpectValues(OpRunner("Cast").Int("to", 1)({I64({1}, {16777217})}), {16777216});
  const Tensor f8 = OpRunner("Cast").Int("to", 17).Int("saturate", 0)({F32({2}, {1000, 448})});
  ExpectValues(ops::ConvertTensor(f8, DType::F32), {kNaN, 448});
  EXPECT_EQ(OpRunner("Cast").Int("to", 99).Fails({F32({1}, {1})}), "E0203");
}

TEST(Cast, Strings) {
  const Tensor s = OpRunner("Cast").Int("to", 8)({F32({5}, {1, 0.1f, kNaN, -kInf, 1e-5f})});
  EXPECT_EQ(s.strings(), (std::vector<std::string>{"1.0", "0.1", "NaN", "-INF", "1e-05"}));
  EXPECT_EQ(OpRunner("Cast").Int("to", 8)({I64({1}, {-42})}).strings()[0], "-42");
  ExpectValues(OpRunner("Cast").Int("to", 1)({Tensor::Strings({4}, {"1.5", "-INF", "nan", "2e3"})}),
               {1.5, -kInf, kNaN, 2000});
  ExpectValues(OpRunner("Cast").Int("to", 7)({Tensor::Strings({2}, {"9007199254740993", "3.7"})}),
               {9007199254740992, 3});
  EXPECT_EQ(OpRunner("Cast").Int("to", 1).Fails({Tensor::Strings({1}, {"abc"})}), "E0703");
}

TEST(CastLike, TakesTheSecondType) {
  EXPECT_EQ(OpRunner("CastLike")({F32({1}, {2.5f}), I32({1}, {0})}).dtype(), DType::I32);
}

TEST(NpucQuant, ParametersAreInTheTypes) {
  OpRunner q("Quantize", "npuc");
  q.Quant({}, PerTensorQuant(0.5f, 3), DType::U8);
  ExpectValues(q({F32({3}, {0.25f, 1, -10})}), {3, 5, 0});
  OpRunner d("Dequantize", "npuc");
  d.Quant({PerTensorQuant(0.5f, 3)}, nullptr, DType::F16);
  const Tensor half = d({U8({2}, {3, 6})});
  EXPECT_EQ(half.dtype(), DType::F16);
  ExpectValues(half, {0, 1.5});
  OpRunner r("Requantize", "npuc");
  r.Quant({PerTensorQuant(0.5f, 128)}, PerTensorQuant(0.5f, 0), DType::I8);
  ExpectValues(r({U8({3}, {0, 128, 255})}), {-128, 0, 127});
  OpRunner c("QuantCast", "npuc");
  c.Quant({PerTensorQuant(0.5f, 3)}, PerTensorQuant(1.0f, 0), DType::U8);
  ExpectValues(c({U8({2}, {3, 6})}), {3, 6});
}

TEST(QLinear, ElementwiseAndConcat) {
  const Tensor s = F32({}, {0.5f}), z = U8({}, {10});
  ExpectValues(OpRunner("QLinearAdd",
                        "com.microsoft")({U8({2}, {12, 14}), s, z, U8({1}, {20}), s, z, F32({}, {1}), U8({}, {0})}),
               {6, 7});
  ExpectValues(
      OpRunner("QLinearMul", "com.microsoft")({U8({1}, {14}), s, z, U8({1}, {20}), s, z, F32({}, {1}), U8({}, {0})}),
      {10});
  ExpectValues(
      OpRunner("QLinearSigmoid", "com.microsoft")({U8({2}, {10, 255}), s, z, F32({}, {1.0f / 256}), U8({}, {0})}),
      {128, 255});
  ExpectValues(OpRunner("QLinearLeakyRelu", "com.microsoft").Float("alpha", 0.5f)({U8({2}, {0, 20}), s, z, s, z}),
               {5, 20});
  const Tensor c = OpRunner("QLinearConcat", "com.microsoft")
                       .Int("axis", 1)({s, z, U8({1, 1}, {12}), s, z, U8({1, 2}, {3, 4}), F32({}, {1}), U8({}, {0})});
  ExpectDims(c, {1, 3});
  ExpectValues(c, {12, 16, 18});
  const Tensor sm = OpRunner("QLinearSoftmax", "com.microsoft")
                        .Int("axis", 1)({U8({1, 2}, {10, 10}), s, z, F32({}, {1.0f / 256}), U8({}, {0})});
  ExpectValues(sm, {128, 128});
}

} // namespace
} // namespace npuc
