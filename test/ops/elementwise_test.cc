// Elementwise arithmetic, comparison, activations: special values, dtypes, broadcasting, and the rows of the case
// table.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

constexpr double kE = 2.718281828459045;

TEST(Arithmetic, Broadcasting) {
  const Tensor y = OpRunner("Add")({Iota({2, 1, 3}), F32({2, 1}, {10, 20})});
  ExpectDims(y, {2, 2, 3});
  ExpectValues(y, {10, 11, 12, 20, 21, 22, 13, 14, 15, 23, 24, 25});
  ExpectValues(OpRunner("Sub")({F32({}, {1}), F32({3}, {1, 2, 3})}), {0, -1, -2});
  ExpectValues(OpRunner("Mul")({F32({2, 2}, {1, 2, 3, 4}), F32({2, 1}, {1, 10})}), {1, 2, 30, 40});
  const Tensor empty = OpRunner("Add")({F32({0, 3}, {}), F32({3}, {1, 2, 3})});
  ExpectDims(empty, {0, 3});
  EXPECT_EQ(OpRunner("Add").Fails({Iota({2}), Iota({3})}), "E0301");
  EXPECT_EQ(OpRunner("Add").Fails({Iota({2}), I32({2}, {1, 2})}), "E0302");
}

TEST(Arithmetic, IntegersWrap) {
  ExpectValues(OpRunner("Add")({I8({1}, {127}), I8({1}, {1})}), {-128});
  ExpectValues(OpRunner("Sub")({U8({1}, {0}), U8({1}, {1})}), {255});
  ExpectValues(OpRunner("Mul")({I32({1}, {1 << 20}), I32({1}, {1 << 20})}), {0});
}

TEST(Div, IntegersTruncateN029) {
  ExpectValues(OpRunner("Div")({I64({4}, {8, -8, 7, -7}), I64({4}, {-3, 3, -2, 2})}), {-2, -2, -3, -3});
  ExpectValues(OpRunner("Div")({I32({1}, {std::numeric_limits<int32_t>::min()}), I32({1}, {-1})}),
               {double(std::numeric_limits<int32_t>::min())});
  EXPECT_EQ(OpRunner("Div").Fails({I32({1}, {1}), I32({1}, {0})}), "E0703");
  ExpectValues(OpRunner("Div")({F32({3}, {1, -1, 0}), F32({3}, {0, 0, 0})}), {kInf, -kInf, kNaN});
  ExpectDims(OpRunner("Div")({I32({0}, {}), I32({1}, {0})}), {0});
}

TEST(Mod, SignsFollowDivisorOrDividend) {
  ExpectValues(OpRunner("Mod")({I32({6}, {-4, 7, 5, 4, -7, 8}), I32({6}, {2, -3, 8, -2, 3, 5})}), {0, -2, 5, 0, 2, 3});
  ExpectValues(OpRunner("Mod").Int("fmod", 1)({F32({6}, {-4.3f, 7.2f, 5.0f, 4.3f, -7.2f, 8.0f}),
                                               F32({6}, {2.1f, -3.4f, 8.0f, -2.1f, 3.4f, 5.0f})}),
               {std::fmod(-4.3f, 2.1f), std::fmod(7.2f, -3.4f), 5, std::fmod(4.3f, -2.1f), std::fmod(-7.2f, 3.4f), 3});
  EXPECT_EQ(OpRunner("Mod").Fails({I32({1}, {1}), I32({1}, {0})}), "E0703");
}

TEST(Pow, MixedTypes) {
  ExpectValues(OpRunner("Pow")({F32({3}, {1, 2, 3}), I64({3}, {4, 5, 6})}), {1, 32, 729});
  ExpectValues(OpRunner("Pow")({I64({3}, {1, 2, 3}), F32({3}, {4, 5, 6})}), {1, 32, 729});
  ExpectValues(OpRunner("Pow")({I32({3}, {-2, 5, 1}), I32({3}, {3, -1, -7})}), {-8, 0, 1});
  ExpectValues(OpRunner("Pow")({F32({2}, {-3, kNaN}), F32({}, {2})}), {9, kNaN});
  ExpectValues(OpRunner("Pow")({F32({2}, {4, -1}), F32({}, {0.5f})}), {2, kNaN});
}

TEST(Comparison, NanStringsAndBool) {
  ExpectValues(OpRunner("Equal")({F32({3}, {1, kNaN, -0.0f}), F32({3}, {1, kNaN, 0.0f})}), {1, 0, 1});
  ExpectValues(OpRunner("Less")({F32({2}, {kNaN, 1}), F32({2}, {1, 2})}), {0, 1});
  ExpectValues(OpRunner("GreaterOrEqual")({I64({3}, {1, 2, 3}), I64({}, {2})}), {0, 1, 1});
  ExpectValues(OpRunner("LessOrEqual")({U8({2}, {255, 0}), U8({2}, {1, 0})}), {0, 1});
  ExpectValues(OpRunner("Equal")({Bool({2}, {1, 0}), Bool({1}, {1})}), {1, 0});
  ExpectValues(OpRunner("Equal")({Tensor::Strings({2}, {"a", "b"}), Tensor::Strings({1}, {"b"})}), {0, 1});
}

TEST(Logic, BoolAndBits) {
  const Tensor a = Bool({4}, {0, 0, 1, 1}), b = Bool({4}, {0, 1, 0, 1});
  ExpectValues(OpRunner("And")({a, b}), {0, 0, 0, 1});
  ExpectValues(OpRunner("Or")({a, b}), {0, 1, 1, 1});
  ExpectValues(OpRunner("Xor")({a, b}), {0, 1, 1, 0});
  ExpectValues(OpRunner("Not")({a}), {1, 1, 0, 0});
  ExpectValues(OpRunner("BitwiseAnd")({U8({1}, {12}), U8({1}, {10})}), {8});
  ExpectValues(OpRunner("BitwiseOr")({I32({1}, {12}), I32({1}, {10})}), {14});
  ExpectValues(OpRunner("BitwiseXor")({I64({1}, {12}), I64({1}, {10})}), {6});
  ExpectValues(OpRunner("BitwiseNot")({I8({1}, {5})}), {-6});
  ExpectValues(OpRunner("BitShift").Str("direction", "LEFT")({U8({3}, {16, 4, 1}), U8({3}, {1, 2, 8})}), {32, 16, 0});
  ExpectValues(OpRunner("BitShift").Str("direction", "RIGHT")({U8({3}, {16, 4, 1}), U8({3}, {1, 2, 3})}), {8, 1, 0});
  EXPECT_EQ(OpRunner("BitShift").Str("direction", "UP").Fails({U8({1}, {1}), U8({1}, {1})}), "E0203");
}

TEST(IsNaNIsInf, Directions) {
  const Tensor x = F32({4}, {kNaN, kInf, -kInf, 1});
  ExpectValues(OpRunner("IsNaN")({x}), {1, 0, 0, 0});
  ExpectValues(OpRunner("IsInf")({x}), {0, 1, 1, 0});
  ExpectValues(OpRunner("IsInf").Int("detect_negative", 0)({x}), {0, 1, 0, 0});
}

TEST(Where, BroadcastsAllThree) {
  const Tensor y = OpRunner("Where")({Bool({2, 1}, {1, 0}), I64({3}, {1, 2, 3}), I64({1}, {9})});
  ExpectDims(y, {2, 3});
  ExpectValues(y, {1, 2, 3, 9, 9, 9});
  EXPECT_EQ(OpRunner("Where")({Bool({1}, {0}), Tensor::Strings({1}, {"x"}), Tensor::Strings({1}, {"y"})}).strings()[0],
            "y");
}

TEST(Unary, SpecialValues) {
  ExpectValues(OpRunner("Relu")({F32({4}, {-1, 0, 2, kNaN})}), {0, 0, 2, kNaN});
  ExpectValues(OpRunner("Relu")({I32({2}, {-5, 5})}), {0, 5});
  ExpectValues(OpRunner("Round")({F32({7}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.4f, 8388609.0f})}),
               {0, 2, 2, 0, -2, 2, 8388609});
  ExpectValues(OpRunner("Floor")({F32({2}, {-1.5f, 1.2f})}), {-2, 1});
  ExpectValues(OpRunner("Ceil")({F32({2}, {-1.5f, 1.2f})}), {-1, 2});
  ExpectValues(OpRunner("Sqrt")({F32({3}, {4, -1, kInf})}), {2, kNaN, kInf});
  ExpectValues(OpRunner("Reciprocal")({F32({2}, {4, 0})}), {0.25, kInf});
  ExpectValues(OpRunner("Abs")({I8({2}, {-128, 7})}), {-128, 7});
  ExpectValues(OpRunner("Neg")({I64({2}, {-3, 3})}), {3, -3});
  ExpectValues(OpRunner("Sign")({F32({4}, {-2, 0, 7, kNaN})}), {-1, 0, 1, kNaN});
  ExpectValues(OpRunner("Sign")({U8({2}, {0, 9})}), {0, 1});
  ExpectValues(OpRunner("Exp")({F32({3}, {0, -kInf, 1000})}), {1, 0, kInf});
  ExpectValues(OpRunner("Log")({F32({3}, {1, 0, -1})}), {0, -kInf, kNaN});
  ExpectValues(OpRunner("Tanh")({F32({3}, {0, 100, -kInf})}), {0, 1, -1});
  ExpectValues(OpRunner("Sigmoid")({F32({3}, {0, 200, -200})}), {0.5, 1, 0}, 1e-30);
  ExpectValues(OpRunner("Erf")({F32({2}, {0.5f, -10})}), {0.5204998778130465, -1}, 1e-7);
  ExpectValues(OpRunner("Softplus")({F32({2}, {100, -100})}), {100, std::exp(-100.0)}, 1e-7);
  ExpectValues(OpRunner("Softsign")({F32({3}, {-1, 1, kInf})}), {-0.5, 0.5, 1});
  for (const char *f : {"Sin", "Cos", "Tan", "Asin", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Acos"}) {
    const double x = 0.3;
    const std::string n = f;
    const double want = n == "Sin"     ? std::sin(x)
                        : n == "Cos"   ? std::cos(x)
                        : n == "Tan"   ? std::tan(x)
                        : n == "Asin"  ? std::asin(x)
                        : n == "Atan"  ? std::atan(x)
                        : n == "Sinh"  ? std::sinh(x)
                        : n == "Cosh"  ? std::cosh(x)
                        : n == "Asinh" ? std::asinh(x)
                        : n == "Atanh" ? std::atanh(x)
                                       : std::acos(x);
    ExpectValues(OpRunner(f)({F64({1}, {x})}), {want}, 1e-14);
  }
  ExpectValues(OpRunner("Acosh")({F64({1}, {2})}), {std::acosh(2.0)}, 1e-14);
  EXPECT_EQ(OpRunner("Exp").Fails({I32({1}, {1})}), "E0403");
}

TEST(Unary, ErfOfIntegersIsCut) {
  // erf(1) = 0.84; that of 6 is 1 in double.
  ExpectValues(OpRunner("Erf")({I32({4}, {-6, -1, 1, 6})}), {-1, 0, 0, 1});
}

TEST(Where, DoubleComplexNumbers) {
  const std::vector<double> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  const auto complex = [](const std::vector<double> &v) { return Tensor::Of<double>(DType::C128, {2}, v); };
  const Tensor y = OpRunner("Where")({Bool({2}, {1, 0}), complex(a), complex(b)});
  ASSERT_EQ(y.dtype(), DType::C128);
  EXPECT_EQ(std::vector<double>(y.data<double>(), y.data<double>() + 4), (std::vector<double>{1, 2, 7, 8}));
}

TEST(Unique, ComplexNumbersByRealThenImaginaryPart) {
  const std::vector<float> x = {2, 0, 1, 5, 2, 0, 1, -5};
  const Tensor y = OpRunner("Unique")({Tensor::Of<float>(DType::C64, {4}, x)});
  ASSERT_EQ(y.num_elements(), 3);
  EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + 6), (std::vector<float>{1, -5, 1, 5, 2, 0}));
}

TEST(Activations, ParametersAndDefaults) {
  ExpectValues(OpRunner("LeakyRelu")({F32({2}, {-1, 1})}), {-0.01f, 1});
  ExpectValues(OpRunner("LeakyRelu").Float("alpha", 0.5f)({F32({3}, {-2, 2, kNaN})}), {-1, 2, kNaN});
  ExpectValues(OpRunner("Elu").Float("alpha", 2)({F32({2}, {-1, 1})}), {2 * (1 / kE - 1), 1}, 1e-6);
  ExpectValues(OpRunner("Selu")({F32({2}, {-1, 1})}), {1.05070102 * 1.67326319 * (1 / kE - 1), 1.05070102}, 1e-6);
  ExpectValues(OpRunner("Celu").Float("alpha", 2)({F32({1}, {-2})}), {2 * (1 / kE - 1)}, 1e-6);
  ExpectValues(OpRunner("ThresholdedRelu")({F32({3}, {0.5f, 1, 1.5f})}), {0, 0, 1.5});
  ExpectValues(OpRunner("Shrink").Float("lambd", 1.5f).Float("bias", 1.5f)({F32({3}, {-2, 1, 2})}), {-0.5, 0, 0.5});
  ExpectValues(OpRunner("Swish")({F32({1}, {1})}), {1 / (1 + 1 / kE)}, 1e-6);
  ExpectValues(OpRunner("Mish")({F64({1}, {1})}), {std::tanh(std::log1p(kE))}, 1e-12);
  ExpectValues(OpRunner("Gelu")({F32({1}, {1})}), {0.5 * (1 + std::erf(std::sqrt(0.5)))}, 1e-6);
  ExpectValues(OpRunner("Gelu").Str("approximate", "tanh")({F32({1}, {1})}), {0.8411919906}, 1e-6);
  ExpectValues(OpRunner("QuickGelu", "com.microsoft")({F32({1}, {1})}), {1 / (1 + std::exp(-1.702))}, 1e-6);
  ExpectValues(OpRunner("BiasGelu", "com.microsoft")({F32({1}, {0.5f}), F32({1}, {0.5f})}), {0.8413447461}, 1e-6);
  ExpectValues(OpRunner("FastGelu", "com.microsoft")({F32({1}, {1})}), {0.8411919906}, 1e-6);
}

TEST(Activations, HardSigmoidAndHardSwishN092) {
  ExpectValues(OpRunner("HardSwish")({F32({4}, {1, -3, 3, 10})}), {2.0 / 3, 0, 3, 10}, 1e-6);
  ExpectValues(OpRunner("HardSigmoid")({F32({1}, {1})}), {0.7}, 1e-6);
  ExpectValues(OpRunner("HardSigmoid").Float("alpha", 1.0f / 6)({F32({1}, {1})}), {2.0 / 3}, 1e-6);
}

TEST(PRelu, SlopeBroadcastsOneWay) {
  ExpectValues(OpRunner("PRelu")({F32({1, 2, 2}, {-1, 2, -3, 4}), F32({2, 1}, {0.5f, 0.25f})}), {-0.5, 2, -0.75, 4});
  EXPECT_EQ(OpRunner("PRelu").Fails({F32({2}, {-1, 1}), F32({1, 1, 2}, {1, 1})}), "E0301");
}

TEST(Clip, MissingBoundsAndCrossedBoundsN026N033N109) {
  const Tensor x = I32({3}, {0, 5, 10});
  ExpectValues(OpRunner("Clip")({x, I32({}, {1})}), {1, 5, 10});
  ExpectValues(OpRunner("Clip")({U8({3}, {0, 5, 10}), U8({}, {1})}), {1, 5, 10});
  ExpectValues(OpRunner("Clip")({F32({3}, {-1e30f, 5, 10}), Absent(), F32({}, {6})}), {-1e30f, 5, 6});
  ExpectValues(OpRunner("Clip")({F32({3}, {-2, 0, 6}), F32({}, {2}), F32({}, {1})}), {1, 1, 1});
  ExpectValues(OpRunner("Clip")({F32({1}, {kNaN}), F32({}, {-1}), F32({}, {1})}), {kNaN});
  ExpectValues(OpRunner("Clip")({F32({2}, {-3, 3})}), {-3, 3});
  EXPECT_EQ(OpRunner("Clip").Fails({x, I32({2}, {1, 2})}), "E0301");
}

TEST(Variadic, NanAndOneOperand) {
  ExpectValues(OpRunner("Max")({F32({3}, {1, kNaN, 3}), F32({3}, {2, 2, kNaN})}), {2, kNaN, kNaN});
  ExpectValues(OpRunner("Min")({F32({2}, {1, kNaN}), F32({}, {0})}), {0, kNaN});
  ExpectValues(OpRunner("Max")({I8({2}, {-1, 5})}), {-1, 5});
  ExpectValues(OpRunner("Sum")({F32({2}, {1, 2}), F32({1}, {10}), F32({}, {100})}), {111, 112});
  ExpectValues(OpRunner("Mean")({F32({2}, {1, 2}), F32({2}, {3, 6})}), {2, 4});
}

TEST(Quantized, DefaultRuleAndIntegerMax) {
  // Add: (10 - 0) * 0.5 + (4 - 2) * 0.25 = 5.5; / 1 = 5.5 -> 6 (half to even), + 1
  OpRunner add("Add");
  add.Quant({PerTensorQuant(0.5f, 0), PerTensorQuant(0.25f, 2)}, PerTensorQuant(1.0f, 1), DType::U8);
  ExpectValues(add({U8({1}, {10}), U8({1}, {4})}), {7});
  OpRunner max("Max");
  max.Quant({PerTensorQuant(0.3f, 5), PerTensorQuant(0.3f, 5)}, PerTensorQuant(0.3f, 5), DType::I8);
  ExpectValues(max({I8({2}, {-100, 100}), I8({2}, {-99, 99})}), {-99, 100});
  // Relu on integers: 0 is the zero point.
  OpRunner relu("Relu");
  relu.Quant({PerTensorQuant(0.5f, 10)}, PerTensorQuant(0.5f, 10), DType::U8);
  ExpectValues(relu({U8({3}, {0, 10, 20})}), {10, 10, 20});
}

} // namespace
} // namespace npuc
