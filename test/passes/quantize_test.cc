// QDQ and QOperator models. Integers worked out by hand; float comparisons allow one step of the result's scale.
#include "test/passes/testing.h"

namespace npuc::testing {
namespace {

const std::vector<std::string> kQuantize = {"fold-constants",    "remove-identities",   "type-quantized",
                                            "convert-qdq",       "fold-constants",      "remove-identities",
                                            "merge-equal-nodes", "eliminate-dead-nodes"};

const char *kQdqConv = R"(
    %xs: f32[] = Constant() {value = dense<0.5>}
    %xz: u8[] = Constant() {value = dense<128>}
    %ws: f32[2] = Constant() {value = dense<0.25, 0.5>}
    %wz: i8[2] = Constant() {value = dense<0, 0>}
    %wq: i8[2,1,1,1] = Constant() {value = dense<4, -6>}
    %bs: f32[2] = Constant() {value = dense<0.125, 0.25>}
    %bq: i32[2] = Constant() {value = dense<8, -4>}
    %ys: f32[] = Constant() {value = dense<1.0>}
    %yz: u8[] = Constant() {value = dense<0>}
    %yz1: u8[] = Constant() {value = dense<10>}
    %q = QuantizeLinear(%x, %xs, %xz)
    %xf = DequantizeLinear(%q, %xs, %xz)
    %wf = DequantizeLinear(%wq, %ws, %wz) {axis = 0}
    %bf = DequantizeLinear(%bq, %bs) {axis = 0}
)";

TEST(ConvertQdq, ConvWithPerChannelWeights) {
  Env env;
  auto m = Load(std::string("graph (%x: f32[1,1,1,2]) {") + kQdqConv + R"(
    %c = Conv(%xf, %wf, %bf)
    %y = QuantizeLinear(%c, %ys, %yz1)
    %z = DequantizeLinear(%y, %ys, %yz1)
    return %z
  })");
  RunList(*m, kQuantize, env.ctx);
  const Node *conv = FindOp(*m, "Conv");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->operand(0)->type().ToString(), "u8[1,1,1,2]{s=0.5,z=128}");
  EXPECT_EQ(conv->operand(1)->type().ToString(), "i8[2,1,1,1]{axis=0,s=(0.25,0.5),z=(0,0)}");
  EXPECT_EQ(conv->operand(2)->type().dtype(), DType::I32);
  EXPECT_EQ(conv->result()->type().ToString(), "u8[1,2,1,2]{s=1,z=10}");
  EXPECT_EQ(conv->result()->name(), "y");
  // x = 3, -2: c0 = x*1 + 1 = 4, -1; c1 = x*-3 - 1 = -10, 5. + 10, clamped at 0 = -10
  ExpectClose(Eval(*m, {F32({1, 1, 1, 2}, {3, -2})})[0], {4, -1, -10, 5});
}

TEST(ConvertQdq, ReluGoesOnlyWhereTheClampDoesIt) { // N074
  for (const char *zero : {"%yz", "%yz1"}) {
    SCOPED_TRACE(zero);
    Env env;
    auto m = Load(std::string("graph (%x: f32[1,1,1,2]) {") + kQdqConv + R"(
      %c = Conv(%xf, %wf, %bf)
      %r = Relu(%c)
      %y = QuantizeLinear(%r, %ys, )" +
                  zero + R"()
      %z = DequantizeLinear(%y, %ys, )" +
                  zero + R"()
      return %z
    })");
    RunList(*m, kQuantize, env.ctx);
    ExpectClose(Eval(*m, {F32({1, 1, 1, 2}, {3, -2})})[0], {4, 0, 0, 5});
    if (std::string(zero) == "%yz") {
      EXPECT_EQ(Count(*m, "Relu"), 0);
      EXPECT_EQ(Count(*m, "Fused"), 0);
      EXPECT_TRUE(FindOp(*m, "Conv")->result()->type().is_quantized());
    } else {
      ASSERT_EQ(Count(*m, "Fused"), 1) << Text(*m);
      EXPECT_EQ(Count(*m, "Relu"), 1);
    }
  }
}

TEST(ConvertQdq, ReluBeforeSymmetricInt8) { // N074, N076
  Env env;
  auto m = Load(R"(graph (%x: f32[4]) {
    %s: f32[] = Constant() {value = dense<0.5>}
    %z: i8[] = Constant() {value = dense<0>}
    %r = Relu(%x)
    %q = QuantizeLinear(%r, %s, %z)
    %y = DequantizeLinear(%q, %s, %z)
    return %y
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_EQ(Count(*m, "Relu"), 1);
  EXPECT_EQ(m->main().num_inputs(), 1u);
  ExpectClose(Eval(*m, {F32({4}, {-3, -0.25, 0.75, 100})})[0], {0, 0, 1, 63.5});
}

TEST(ConvertQdq, BoundsInsideTheRangeStay) {
  Env env;
  auto m = Load(std::string("graph (%x: f32[1,1,1,2]) {") + kQdqConv + R"(
    %lo: f32[] = Constant() {value = dense<0.0>}
    %hi: f32[] = Constant() {value = dense<3.0>}
    %c = Conv(%xf, %wf, %bf)
    %r = Clip(%c, %lo, %hi)
    %y = QuantizeLinear(%r, %ys, %yz)
    return %y
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_EQ(Count(*m, "Clip"), 1);
  ExpectClose(Eval(*m, {F32({1, 1, 1, 2}, {3, -2})})[0], {3, 0, 0, 3});
}

TEST(ConvertQdq, FloatReaderKeepsTheFloatOperator) {
  Env env;
  auto m = Load(std::string("graph (%x: f32[1,1,1,2]) {") + kQdqConv + R"(
    %c = Conv(%xf, %wf, %bf)
    %y = QuantizeLinear(%c, %ys, %yz1)
    return %y, %c
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_FALSE(FindOp(*m, "Conv")->result()->type().is_quantized());
  const auto out = Eval(*m, {F32({1, 1, 1, 2}, {3.3f, -2})}); // 3.3 -> 3.5 by quantisation
  ExpectClose(out[1], {4.5, -1, -11.5, 5});
}

TEST(ConvertQdq, DequantizeWithManyReadersAndAnOutput) {
  Env env;
  auto m = Load(R"(graph (%q: u8[4], %p: u8[4]) {
    %s: f32[] = Constant() {value = dense<0.5>}
    %z: u8[] = Constant() {value = dense<128>}
    %t: f32[] = Constant() {value = dense<2.0>}
    %a = DequantizeLinear(%q, %s, %z)
    %b = DequantizeLinear(%p, %s, %z)
    %c = Add(%a, %b)
    %d = QuantizeLinear(%c, %t, %z)
    %e = Mul(%a, %a)
    %f = QuantizeLinear(%e, %t, %z)
    return %a, %d, %f
  })");
  auto before = Clone(*m);
  RunList(*m, kQuantize, env.ctx);
  const std::vector<Tensor> in = {Ints<uint8_t>(DType::U8, {4}, {0, 100, 128, 255}),
                                  Ints<uint8_t>(DType::U8, {4}, {3, 130, 7, 255})};
  const auto want = Eval(*before, in), got = Eval(*m, in);
  for (int i = 0; i < 3; ++i)
    ExpectSame(got[i], want[i]);
  EXPECT_TRUE(FindOp(*m, "Add")->result()->type().is_quantized());
  EXPECT_TRUE(FindOp(*m, "Mul")->result()->type().is_quantized());
  EXPECT_FALSE(got[1].is_splat());
  EXPECT_EQ(m->main().output(1)->type().ToString(), "u8[4]") << "the model's output is the raw integers";
  EXPECT_EQ(m->main().input(0)->type().ToString(), "u8[4]");
}

TEST(ConvertQdq, AddOfAllPairs) { // N085
  Env env;
  auto m = Load(R"(graph (%q: u8[65536], %p: u8[65536]) {
    %s1: f32[] = Constant() {value = dense<0.037>}
    %s2: f32[] = Constant() {value = dense<0.021>}
    %s3: f32[] = Constant() {value = dense<0.052>}
    %z1: u8[] = Constant() {value = dense<113>}
    %z2: u8[] = Constant() {value = dense<128>}
    %z3: u8[] = Constant() {value = dense<120>}
    %a = DequantizeLinear(%q, %s1, %z1)
    %b = DequantizeLinear(%p, %s2, %z2)
    %c = Add(%a, %b)
    %d = QuantizeLinear(%c, %s3, %z3)
    return %d
  })");
  auto before = Clone(*m);
  RunList(*m, kQuantize, env.ctx);
  ASSERT_TRUE(FindOp(*m, "Add")->result()->type().is_quantized());
  std::vector<uint8_t> a(65536), b(65536);
  for (int i = 0; i < 65536; ++i)
    a[i] = i & 255, b[i] = i >> 8;
  const std::vector<Tensor> in = {Ints<uint8_t>(DType::U8, {65536}, a), Ints<uint8_t>(DType::U8, {65536}, b)};
  ExpectSame(Eval(*m, in)[0], Eval(*before, in)[0]);
}

TEST(ConvertQdq, ConcatBringsEachOperandToTheResult) { // N084
  Env env;
  auto m = Load(R"(graph (%q: u8[2], %p: u8[2]) {
    %h: f32[] = Constant() {value = dense<0.5>}
    %f: f32[] = Constant() {value = dense<0.25>}
    %z0: u8[] = Constant() {value = dense<0>}
    %z64: u8[] = Constant() {value = dense<64>}
    %z128: u8[] = Constant() {value = dense<128>}
    %a = DequantizeLinear(%q, %h, %z0)
    %b = DequantizeLinear(%p, %f, %z128)
    %c = Concat(%a, %b, %a) {axis = 0}
    %d = QuantizeLinear(%c, %h, %z64)
    return %d
  })");
  RunList(*m, kQuantize, env.ctx);
  ASSERT_TRUE(FindOp(*m, "Concat")->result()->type().is_quantized()) << Text(*m);
  EXPECT_EQ(Count(*m, "Requantize"), 2) << "one for each tensor, however often it is read";
  // a = 5, 100 -> 74, 264 = 255; b = (130-128)/4 = 0.5 -> 65, (0-128)/4 = -32 -> 0
  ExpectClose(Eval(*m, {Ints<uint8_t>(DType::U8, {2}, {10, 200}), Ints<uint8_t>(DType::U8, {2}, {130, 0})})[0],
              {74, 255, 65, 0, 74, 255});
}

TEST(ConvertQdq, EqualParametersJustCopy) {
  Env env;
  auto m = Load(R"(graph (%q: u8[2,3]) {
    %h: f32[] = Constant() {value = dense<0.5>}
    %z: u8[] = Constant() {value = dense<7>}
    %sh: i64[2] = Constant() {value = dense<3, 2>}
    %a = DequantizeLinear(%q, %h, %z)
    %b = Reshape(%a, %sh)
    %c = QuantizeLinear(%b, %h, %z)
    %d = DequantizeLinear(%c, %h, %z)
    %e = Transpose(%d) {perm = [1, 0]}
    %f = QuantizeLinear(%e, %h, %z)
    %g = DequantizeLinear(%f, %h, %z)
    return %g
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_EQ(Count(*m, "Quantize") + Count(*m, "Requantize"), 0);
  EXPECT_EQ(Count(*m, "Dequantize"), 1);
  ExpectClose(Eval(*m, {Ints<uint8_t>(DType::U8, {2, 3}, {7, 8, 9, 10, 11, 12})})[0], {0, 1, 2, 0.5, 1.5, 2.5});
}

TEST(ConvertQdq, PadWithRealZeroIsTheZeroPoint) {
  Env env;
  auto m = Load(R"(graph (%q: u8[2]) {
    %h: f32[] = Constant() {value = dense<0.5>}
    %z: u8[] = Constant() {value = dense<7>}
    %p: i64[2] = Constant() {value = dense<1, 0>}
    %a = DequantizeLinear(%q, %h, %z)
    %b = Pad(%a, %p)
    %c = QuantizeLinear(%b, %h, %z)
    return %c
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_EQ(Count(*m, "Quantize"), 0);
  ExpectClose(Eval(*m, {Ints<uint8_t>(DType::U8, {2}, {1, 2})})[0], {7, 1, 2});
}

TEST(ConvertQdq, TiesToEven) { // N081
  Env env;
  auto m = Load(R"(graph (%x: f32[7]) {
    %h: f32[] = Constant() {value = dense<0.5>}
    %z: i8[] = Constant() {value = dense<0>}
    %q = QuantizeLinear(%x, %h, %z)
    return %q
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_EQ(Count(*m, "Quantize"), 1);
  ExpectClose(Eval(*m, {F32({7}, {0.25, 0.75, 1.25, 1.75, -0.25, -0.75, -99})})[0], {0, 2, 2, 4, 0, -2, -128});
}

TEST(ConvertQdq, BiasBeyondTheAccumulatorStaysFloat) { // N077
  Env env;
  auto m = Load(R"(graph (%q: i8[1,1,1,1]) {
    %xs: f32[] = Constant() {value = dense<0.5>}
    %ws: f32[] = Constant() {value = dense<7.8e-10>}
    %ys: f32[] = Constant() {value = dense<0.1>}
    %z: i8[] = Constant() {value = dense<0>}
    %w: i8[2,1,1,1] = Constant() {value = dense<100, -128>}
    %b: f32[2] = Constant() {value = dense<5.0, -4.5>}
    %a = DequantizeLinear(%q, %xs, %z)
    %wf = DequantizeLinear(%w, %ws, %z)
    %c = Conv(%a, %wf, %b)
    %y = QuantizeLinear(%c, %ys, %z)
    return %y
  })");
  RunList(*m, kQuantize, env.ctx);
  ExpectClose(Eval(*m, {Ints<int8_t>(DType::I8, {1, 1, 1, 1}, {3})})[0], {50, -45});
}

TEST(ConvertQdq, ConvTransposeChannelsAreTheSecondAxis) { // N080
  Env env;
  const std::string text = R"(graph (%q: u8[1,2,1,1]) {
    %xs: f32[] = Constant() {value = dense<1.0>}
    %xz: u8[] = Constant() {value = dense<0>}
    %ws: f32[3] = Constant() {value = dense<1.0, 2.0, 4.0>}
    %w: i8[2,3,1,1] = Constant() {value = dense<1, 2, 3, 4, 5, 6>}
    %ys: f32[] = Constant() {value = dense<1.0>}
    %a = DequantizeLinear(%q, %xs, %xz)
    %wf = DequantizeLinear(%w, %ws) {axis = 1}
    %c = ConvTranspose(%a, %wf)
    %y = QuantizeLinear(%c, %ys, %xz)
    return %y
  })";
  auto m = Load(text);
  RunList(*m, kQuantize, env.ctx);
  EXPECT_TRUE(FindOp(*m, "ConvTranspose")->result()->type().is_quantized());
  EXPECT_EQ(FindOp(*m, "ConvTranspose")->operand(1)->type().quant()->axis, 1);
  // x = 1, 2: [1*1+2*4, (2+10)*2, (3+12)*4]
  ExpectClose(Eval(*m, {Ints<uint8_t>(DType::U8, {1, 2, 1, 1}, {1, 2})})[0], {9, 24, 60});
}

TEST(TypeQuantized, QLinearConvWithPerChannelScales) { // N078
  Env env;
  auto m = Load(R"(graph (%x: u8[1,2,1,1]) {
    %xs: f32[] = Constant() {value = dense<0.5>}
    %xz: u8[] = Constant() {value = dense<128>}
    %w: i8[4,2,1,1] = Constant() {value = dense<1, 2, 3, 4, 5, 6, -7, 8>}
    %ws: f32[4] = Constant() {value = dense<1.0, 2.0, 0.5, 0.25>}
    %wz: i8[4] = Constant() {value = dense<0, 0, 0, 0>}
    %ys: f32[] = Constant() {value = dense<1.0>}
    %yz: u8[] = Constant() {value = dense<100>}
    %b: i32[4] = Constant() {value = dense<10, -20, 4, 8>}
    %y = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b)
    return %y
  })");
  RunList(*m, kQuantize, env.ctx);
  EXPECT_EQ(Count(*m, "QLinearConv"), 0);
  // x-128 = 2, 4: acc = 2+8+10 = 20, 6+16-20 = 2, 10+24+4 = 38, -14+32+8 = 26; times 0.5*ws: 10, 2, 9.5 -> 10
  // (even), 3.25 -> 3
  ExpectClose(Eval(*m, {Ints<uint8_t>(DType::U8, {1, 2, 1, 1}, {130, 132})})[0], {110, 102, 110, 103});
}

TEST(TypeQuantized, ExactAccumulation) { // N079
  Env env;
  auto m = Load(R"(graph (%x: u8[1,3]) {
    %one: f32[] = Constant() {value = dense<0.01>}
    %xz: u8[] = Constant() {value = dense<0>}
    %w: i8[3,1] = Constant() {value = dense<-81, -80, 127>}
    %wz: i8[] = Constant() {value = dense<0>}
    %ys: f32[] = Constant() {value = dense<0.0001>}
    %yz: i8[] = Constant() {value = dense<0>}
    %ys2: f32[] = Constant() {value = dense<0.01>}
    %y = QLinearMatMul(%x, %one, %xz, %w, %one, %wz, %ys2, %yz)
    return %y
  })");
  RunList(*m, kQuantize, env.ctx);
  // 210*-81 + 198*-80 + 234*127 = -3132; * 1e-4 = -0.3132; / 0.01 = -31.32
  ExpectClose(Eval(*m, {Ints<uint8_t>(DType::U8, {1, 3}, {210, 198, 234})})[0], {-31});
}

TEST(TypeQuantized, RawMovesBetweenQOperators) {
  Env env;
  auto m = Load(R"(graph (%x: u8[1,1,2,2]) {
    %s: f32[] = Constant() {value = dense<0.5>}
    %z: u8[] = Constant() {value = dense<3>}
    %sh: i64[2] = Constant() {value = dense<1, 1>}
    %wz: i8[] = Constant() {value = dense<0>}
    %w: i8[1,2] = Constant() {value = dense<2, 4>}
    %p = MaxPool(%x) {kernel_shape = [2, 2]}
    %r = Reshape(%p, %sh)
    %y = QLinearMatMul(%r, %s, %z, %w, %s, %wz, %s, %z)
    return %y
  })");
  auto before = Clone(*m);
  RunList(*m, kQuantize, env.ctx);
  EXPECT_TRUE(FindOp(*m, "MaxPool")->operand(0)->type().is_quantized()) << Text(*m);
  EXPECT_EQ(Count(*m, "QuantCast"), 2) << Text(*m);
  const std::vector<Tensor> in = {Ints<uint8_t>(DType::U8, {1, 1, 2, 2}, {1, 9, 3, 4})};
  ExpectSame(Eval(*m, in)[0], Eval(*before, in)[0]);
}

TEST(TypeQuantized, ParametersThatAreNotConstantStay) {
  Env env;
  auto m = Load(R"(graph (%x: f32[4], %s: f32[]) {
    %z: u8[] = Constant() {value = dense<3>}
    %q = QuantizeLinear(%x, %s, %z)
    %y = DequantizeLinear(%q, %s, %z)
    return %y
  })");
  EXPECT_FALSE(RunList(*m, {"type-quantized"}, env.ctx));
}

TEST(TypeQuantized, RequantisesByReinterpretation) {
  // The same integers read with other parameters than they were written with.
  Env env;
  auto m = Load(R"(graph (%x: f32[2]) {
    %s: f32[] = Constant() {value = dense<0.5>}
    %t: f32[] = Constant() {value = dense<2.0>}
    %z: u8[] = Constant() {value = dense<3>}
    %q = QuantizeLinear(%x, %s, %z)
    %y = DequantizeLinear(%q, %t, %z)
    return %y
  })");
  RunList(*m, kQuantize, env.ctx);
  ExpectClose(Eval(*m, {F32({2}, {1, 2})})[0], {4, 8});
}

TEST(FuseOutputStages, QdqResidualKeepsItsRounding) {
  Env env;
  const std::string text = R"(graph (%q: u8[1,1,4,4], %p: u8[1,2,4,4]) {
    %xs: f32[] = Constant() {value = dense<0.04>}
    %z: u8[] = Constant() {value = dense<128>}
    %z0: u8[] = Constant() {value = dense<0>}
    %ws: f32[] = Constant() {value = dense<0.03>}
    %wz: i8[] = Constant() {value = dense<0>}
    %w: i8[2,1,1,1] = Constant() {value = dense<77, -55>}
    %cs: f32[] = Constant() {value = dense<0.09>}
    %ps: f32[] = Constant() {value = dense<0.05>}
    %ys: f32[] = Constant() {value = dense<0.07>}
    %a = DequantizeLinear(%q, %xs, %z)
    %wf = DequantizeLinear(%w, %ws, %wz)
    %c = Conv(%a, %wf)
    %cq = QuantizeLinear(%c, %cs, %z)
    %cf = DequantizeLinear(%cq, %cs, %z)
    %b = DequantizeLinear(%p, %ps, %z)
    %s = Add(%cf, %b)
    %r = Relu(%s)
    %y = QuantizeLinear(%r, %ys, %z0)
    return %y
  })";
  auto m = Load(text);
  RunList(*m, kQuantize, env.ctx);
  auto plain = Clone(*m);
  RunList(*m, {"fuse-output-stages"}, env.ctx);
  EXPECT_EQ(Count(*m, "Fused"), 1) << Text(*m);
  std::vector<uint8_t> a(16), b(32);
  for (int i = 0; i < 16; ++i)
    a[i] = i * 16 + 3;
  for (int i = 0; i < 32; ++i)
    b[i] = i * 7 + 11;
  const std::vector<Tensor> in = {Ints<uint8_t>(DType::U8, {1, 1, 4, 4}, a), Ints<uint8_t>(DType::U8, {1, 2, 4, 4}, b)};
  ExpectSame(Eval(*m, in)[0], Eval(*plain, in)[0]);
  ExpectSame(Eval(*m, in)[0], Eval(*Load(text), in)[0], 0.02);
}

} // namespace
} // namespace npuc::testing
