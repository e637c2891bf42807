// Fusions and what must not be fused. Numbers from hand arithmetic, or from the interpreter before and after.
#include <cmath>

#include "test/passes/testing.h"

namespace npuc::testing {
namespace {

TEST(FoldAffine, BatchNormBehindAConvThatOthersRead) { // N001
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,1,2,2]) {
    %w: f32[2,1,1,1] = Constant() {value = dense<2.0, -3.0>}
    %b: f32[2] = Constant() {value = dense<1.0, 0.5>}
    %s: f32[2] = Constant() {value = dense<10.0, 20.0>}
    %o: f32[2] = Constant() {value = dense<3.0, 4.0>}
    %mean: f32[2] = Constant() {value = dense<0.5, 0.25>}
    %var: f32[2] = Constant() {value = dense<4.0, 9.0>}
    %c = Conv(%x, %w, %b)
    %y1 = BatchNormalization(%c, %s, %o, %mean, %var) {epsilon = 0.0}
    %y2 = Relu(%c)
    return %y1, %y2
  })",
                               {"fold-affine"}, {F32({1, 1, 2, 2}, {1, -1, 2, 0})}, env.ctx);
  EXPECT_EQ(Count(*m, "BatchNormalization"), 1);
  // c0 = 2x+1 = 3 -1 5 1; y1[0] = 10*(c0-0.5)/2 + 3
  const auto out = Eval(*m, {F32({1, 1, 2, 2}, {1, -1, 2, 0})});
  EXPECT_NEAR(out[0].AsDouble(0), 15.5, 1e-5);
  EXPECT_NEAR(out[1].AsDouble(1), 0, 0);
}

TEST(FoldAffine, BatchNormGoesIntoWeightsAndBias) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,4,5,5]) {
    %w: f32[6,2,3,3] = Constant() {value = splat<0.25>}
    %s: f32[6] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0>}
    %o: f32[6] = Constant() {value = dense<3.0, 4.0, 1.0, 0.0, -1.0, 2.0>}
    %mean: f32[6] = Constant() {value = dense<0.5, 0.25, 0.0, 1.0, 2.0, 3.0>}
    %var: f32[6] = Constant() {value = dense<4.0, 9.0, 1.0, 2.0, 3.0, 4.0>}
    %c = Conv(%x, %w) {group = 2, pads = [1, 1, 1, 1]}
    %y = BatchNormalization(%c, %s, %o, %mean, %var)
    return %y
  })",
                               {"fold-affine"}, {Noise({1, 4, 5, 5}, 1)}, env.ctx);
  EXPECT_EQ(Count(*m, "BatchNormalization"), 0);
  EXPECT_EQ(m->main().output(0)->name(), "y");
  EXPECT_NE(FindOp(*m, "Conv")->operand(2), nullptr);
}

TEST(FoldAffine, SplatWeightsStayASplatUnderOneScale) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,3,3]) {
    %w: f32[4,2,1,1] = Constant() {value = splat<0.25>}
    %s: f32[] = Constant() {value = dense<3.0>}
    %c = Conv(%x, %w)
    %y = Mul(%c, %s)
    return %y
  })",
                               {"fold-affine"}, {Noise({1, 2, 3, 3}, 1)}, env.ctx);
  EXPECT_EQ(Count(*m, "Mul"), 0);
  const Tensor &w = *FindOp(*m, "Conv")->operand(1)->constant();
  EXPECT_TRUE(w.is_splat());
  EXPECT_EQ(w.AsDouble(0), 0.75);
}

TEST(ConvertBatchNorm, BecomesADepthwiseConvThatTakesWhatFollows) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[2,3,2,2]) {
    %s: f32[3] = Constant() {value = dense<1.0, 2.0, -3.0>}
    %o: f32[3] = Constant() {value = dense<3.0, 4.0, 1.0>}
    %mean: f32[3] = Constant() {value = dense<0.5, 0.25, 0.0>}
    %var: f32[3] = Constant() {value = dense<4.0, 9.0, 1.0>}
    %k: f32[3,1,1] = Constant() {value = dense<2.0, 0.5, 1.5>}
    %b = BatchNormalization(%x, %s, %o, %mean, %var)
    %m = Mul(%b, %k)
    %y = Add(%m, %k)
    return %y
  })",
                               {"convert-batch-norm", "fold-affine", "fold-affine"}, {Noise({2, 3, 2, 2}, 1)}, env.ctx);
  for (const char *op : {"BatchNormalization", "Mul", "Add"})
    EXPECT_EQ(Count(*m, op), 0) << op;
  EXPECT_EQ(FindOp(*m, "Conv")->attrs().Int("group", 1), 3);
}

TEST(ConvertBatchNorm, LeavesTrainingModeAndMatrices) {
  Env env;
  const auto m = Load(R"(graph (%x: f32[2,3], %z: f32[1,3,2]) {
    %s: f32[3] = Constant() {value = splat<1.0>}
    %a: f32[2,3] = BatchNormalization(%x, %s, %s, %s, %s)
    %b: f32[1,3,2], %mean: f32[3], %var: f32[3] = BatchNormalization(%z, %s, %s, %s, %s) {training_mode = 1}
    return %a, %b, %mean
  })");
  EXPECT_FALSE(RunList(*m, {"convert-batch-norm"}, env.ctx));
}

TEST(FoldAffine, ConvTransposeHasItsChannelsInTheSecondAxis) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,4,3,3]) {
    %w: f32[4,2,2,2] = Constant() {value = dense<)" +
                                   [] {
                                     std::string v;
                                     for (int i = 0; i < 32; ++i)
                                       v += (i ? ", " : "") + std::to_string(i - 16) + ".5";
                                     return v;
                                   }() +
                                   R"(>}
    %k: f32[1,4,1,1] = Constant() {value = dense<1.0, 2.0, -3.0, 4.0>}
    %c = ConvTranspose(%x, %w) {group = 2, strides = [2, 2]}
    %y = Mul(%c, %k)
    return %y
  })",
                               {"fold-affine"}, {Noise({1, 4, 3, 3}, 2)}, env.ctx);
  EXPECT_EQ(Count(*m, "Mul"), 0);
}

TEST(FoldAffine, TrainingModeStays) { // N111
  Env env;
  auto m = Load(R"(graph (%x: f32[1,2,2,2]) {
    %w: f32[2,2,1,1] = Constant() {value = splat<1.0>}
    %s: f32[2] = Constant() {value = dense<1.0, 2.0>}
    %c = Conv(%x, %w)
    %y: f32[1,2,2,2], %m: f32[2], %v: f32[2] = BatchNormalization(%c, %s, %s, %s, %s) {training_mode = 1, momentum = 0.9, epsilon = 0.01}
    return %y, %m, %v
  })");
  EXPECT_FALSE(RunList(*m, {"fold-affine"}, env.ctx));
}

TEST(FoldAffine, SpatialConstantIsNoBias) { // N004
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,8,2,2]) {
    %w: f32[8,2,1,1] = Constant() {value = splat<0.5>}
    %b: f32[8] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0>}
    %k: f32[1,8,2,2] = Constant() {value = dense<)" +
                                   [] {
                                     std::string v;
                                     for (int i = 0; i < 32; ++i)
                                       v += (i ? ", " : "") + std::to_string(i) + ".0";
                                     return v;
                                   }() +
                                   R"(>}
    %c = Conv(%x, %w, %b) {group = 4}
    %y = Add(%c, %k)
    return %y
  })",
                               {"fold-affine"}, {Iota({1, 8, 2, 2})}, env.ctx);
  EXPECT_EQ(Count(*m, "Add"), 1);
  // channel 0, pixel 3: 0.5*(3+7) + 1 + 3
  EXPECT_NEAR(Eval(*m, {Iota({1, 8, 2, 2})})[0].AsDouble(3), 9, 1e-6);
}

TEST(FoldAffine, LastAxisOfEqualExtentIsNotTheChannels) { // N057's kind: C = H = W = 2
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,2,2]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0>}
    %k: f32[2] = Constant() {value = dense<10.0, 20.0>}
    %c = Conv(%x, %w)
    %y = Add(%c, %k)
    return %y
  })",
                               {"fold-affine"}, {Iota({1, 2, 2, 2})}, env.ctx);
  EXPECT_EQ(Count(*m, "Add"), 1);
}

TEST(FoldAffine, AddAndSubAndDiv) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,3,3]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0>}
    %k: f32[2,1,1] = Constant() {value = dense<10.0, 20.0>}
    %f: f32[] = Constant() {value = dense<4.0>}
    %c = Conv(%x, %w)
    %d = Add(%c, %k)
    %e = Div(%d, %f)
    %y = Sub(%k, %e)
    return %y
  })",
                               {"fold-affine"}, {Noise({1, 2, 3, 3}, 3)}, env.ctx);
  EXPECT_EQ(Count(*m, "Add") + Count(*m, "Div") + Count(*m, "Sub"), 0);
}

TEST(FoldAffine, DividingByTheConvStays) { // N061
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,3,3]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0>}
    %k: f32[2,1,1] = Constant() {value = dense<10.0, 20.0>}
    %c = Conv(%x, %w)
    %y = Div(%k, %c)
    return %y
  })",
                               {"fold-affine", "fuse-output-stages"}, {Noise({1, 2, 3, 3}, 3, 1, 2)}, env.ctx);
  EXPECT_EQ(Count(*m, "Div"), 1);
}

TEST(FoldAffine, MatMulTakesABiasAsGemm) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[3,2]) {
    %w: f32[2,4] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0>}
    %k: f32[1,4] = Constant() {value = dense<10.0, 20.0, 30.0, 40.0>}
    %c = MatMul(%x, %w)
    %y = Add(%c, %k)
    return %y
  })",
                               {"fold-affine"}, {Noise({3, 2}, 4)}, env.ctx);
  EXPECT_EQ(Count(*m, "Gemm"), 1);
  EXPECT_EQ(Count(*m, "Add"), 0);
}

TEST(FoldAffine, SharedWeightsAreCopied) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,3,3]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0>}
    %f: f32[] = Constant() {value = dense<4.0>}
    %c = Conv(%x, %w)
    %y = Mul(%c, %f)
    %d = Conv(%y, %w)
    return %d
  })",
                               {"fold-affine"}, {Noise({1, 2, 3, 3}, 3)}, env.ctx);
  EXPECT_EQ(Count(*m, "Mul"), 0);
}

TEST(FoldPads, AveragePoolCountsExplicitZeros) { // N011
  Env env;
  const std::string text = R"(graph (%x: f32[1,1,4,4]) {
    %p: i64[8] = Constant() {value = dense<0, 0, 1, 1, 0, 0, 1, 1>}
    %z = Pad(%x, %p)
    %a = AveragePool(%z) {kernel_shape = [3, 3], strides = [1, 1]}
    %m = MaxPool(%z) {kernel_shape = [3, 3]}
    return %a, %m
  })";
  const auto m = RunAndCompare(text, {"fold-pads"}, {F32({1, 1, 4, 4}, std::vector<float>(16, 1.0f))}, env.ctx);
  const auto out = Eval(*m, {F32({1, 1, 4, 4}, std::vector<float>(16, 1.0f))});
  EXPECT_NEAR(out[0].AsDouble(0), 4.0 / 9.0, 1e-6);
  EXPECT_EQ(FindOp(*m, "AveragePool")->operand(0)->name(), "x");
  EXPECT_EQ(FindOp(*m, "AveragePool")->attrs().Int("count_include_pad", 0), 1);
  EXPECT_EQ(FindOp(*m, "MaxPool")->operand(0)->name(), "z") << "a zero beats negatives";
  const auto negative = Eval(*m, {F32({1, 1, 4, 4}, std::vector<float>(16, -1.0f))});
  EXPECT_EQ(negative[1].AsDouble(0), 0);
}

TEST(FoldPads, MaxPoolOverNonNegatives) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,1,4,4]) {
    %p: i64[8] = Constant() {value = dense<0, 0, 1, 1, 0, 0, 0, 0>}
    %r = Relu(%x)
    %z = Pad(%r, %p)
    %m = MaxPool(%z) {kernel_shape = [3, 3], strides = [2, 2]}
    return %m
  })",
                               {"fold-pads"}, {Noise({1, 1, 4, 4}, 5)}, env.ctx);
  EXPECT_EQ(Count(*m, "Pad"), 0);
}

TEST(FoldPads, CropsAndOtherModesStay) { // N012
  Env env;
  for (const char *pad : {"Pad(%x, %crop)", "Pad(%x, %grow) {mode = \"reflect\"}", "Pad(%x, %grow) {mode = \"edge\"}",
                          "Pad(%x, %grow, %one)", "Pad(%x, %channels)"}) {
    SCOPED_TRACE(pad);
    const bool channels = std::string(pad).find("channels") != std::string::npos;
    const auto m = RunAndCompare(R"(graph (%x: f32[1,1,6,6]) {
      %crop: i64[8] = Constant() {value = dense<0, 0, -1, -1, 0, 0, -1, -1>}
      %grow: i64[8] = Constant() {value = dense<0, 0, 1, 1, 0, 0, 1, 1>}
      %channels: i64[8] = Constant() {value = dense<0, 1, 0, 0, 0, 0, 0, 0>}
      %one: f32[] = Constant() {value = dense<1.0>}
      %w: f32[1,)" + std::string(channels ? "2" : "1") +
                                     R"(,3,3] = Constant() {value = splat<0.5>}
      %z = )" + pad + R"(
      %c = Conv(%z, %w) {pads = [1, 1, 1, 1]}
      return %c
    })",
                                 {"fold-pads", "eliminate-dead-nodes"}, {Noise({1, 1, 6, 6}, 6)}, env.ctx);
    EXPECT_EQ(Count(*m, "Pad"), 1);
  }
}

TEST(FoldPads, IntoConv) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,1,6,6]) {
    %grow: i64[4] = Constant() {value = dense<1, 2, 3, 0>}
    %axes: i64[2] = Constant() {value = dense<-2, 3>}
    %w: f32[1,1,3,3] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0>}
    %z = Pad(%x, %grow, _, %axes)
    %c = Conv(%z, %w) {pads = [1, 1, 1, 1]}
    return %c
  })",
                               {"fold-pads"}, {Noise({1, 1, 6, 6}, 6)}, env.ctx);
  EXPECT_EQ(Count(*m, "Pad"), 0);
  EXPECT_EQ(FindOp(*m, "Conv")->attrs().Ints("pads"), llvm::ArrayRef<int64_t>({2, 3, 4, 1}));
}

double Op1(const std::string &body, const std::string &pass, float x, std::string *ops) {
  Env env;
  auto m = RunAndCompare("graph (%x: f32[4]) {\n" + body + "\n return %y }", {pass, "eliminate-dead-nodes"},
                         {F32({4}, {x, -2.5f, 0.3f, 7.0f})}, env.ctx, 1e-5);
  *ops = "";
  for (const Node &n : m->main().nodes())
    if (!n.is_constant() && !n.is_return())
      *ops += (ops->empty() ? "" : " ") + std::string(n.op().name);
  return Eval(*m, {F32({4}, {x, -2.5f, 0.3f, 7.0f})})[0].AsDouble(0);
}

TEST(FormActivations, HardSwishInItsForms) { // N092
  const std::string k = R"(
    %three: f32[] = Constant() {value = dense<3.0>}
    %zero: f32[] = Constant() {value = dense<0.0>}
    %six: f32[] = Constant() {value = dense<6.0>}
    %sixth: f32[] = Constant() {value = dense<0.16666667>}
  )";
  std::string ops;
  EXPECT_NEAR(Op1(k + "%a = Add(%x, %three)\n%c = Clip(%a, %zero, %six)\n%m = Mul(%x, %c)\n%y = Div(%m, %six)",
                  "form-activations", 1, &ops),
              2.0 / 3, 1e-6);
  EXPECT_EQ(ops, "HardSwish");
  EXPECT_NEAR(Op1(k + "%a = Add(%x, %three)\n%c = Clip(%a, %zero, %six)\n%m = Mul(%c, %sixth)\n%y = Mul(%m, %x)",
                  "form-activations", 1, &ops),
              2.0 / 3, 1e-6);
  EXPECT_EQ(ops, "HardSwish");
  EXPECT_NEAR(
      Op1("%a = HardSigmoid(%x) {alpha = 0.16666667, beta = 0.5}\n%y = Mul(%x, %a)", "form-activations", 1, &ops),
      2.0 / 3, 1e-6);
  EXPECT_EQ(ops, "HardSwish");
  EXPECT_NEAR(
      Op1(k + "%a = Add(%x, %three)\n%c = Clip(%a, %zero, %six)\n%y = Div(%c, %six)", "form-activations", 1, &ops),
      4.0 / 6, 1e-6);
  EXPECT_EQ(ops, "HardSigmoid");
  // The default alpha is 0.2, and that is no HardSwish.
  EXPECT_NEAR(Op1("%a = HardSigmoid(%x)\n%y = Mul(%x, %a)", "form-activations", 1, &ops), 0.7, 1e-6);
  EXPECT_EQ(ops, "HardSigmoid Mul");
  Op1("%a = HardSigmoid(%x) {alpha = 0.1666, beta = 0.5}\n%y = Mul(%x, %a)", "form-activations", 1, &ops);
  EXPECT_EQ(ops, "HardSigmoid Mul") << "near 1/6 is not 1/6";
}

TEST(FormActivations, SwishMishGelu) {
  std::string ops;
  Op1("%s = Sigmoid(%x)\n%y = Mul(%s, %x)", "form-activations", 1, &ops);
  EXPECT_EQ(ops, "Swish");
  Op1("%s = Softplus(%x)\n%t = Tanh(%s)\n%y = Mul(%x, %t)", "form-activations", 1, &ops);
  EXPECT_EQ(ops, "Mish");
  const std::string k = R"(
    %one: f32[] = Constant() {value = dense<1.0>}
    %half: f32[] = Constant() {value = dense<0.5>}
    %r2: f32[] = Constant() {value = dense<1.4142135>}
    %ir2: f32[] = Constant() {value = dense<0.70710677>}
    %c: f32[] = Constant() {value = dense<0.044715>}
    %p: f32[] = Constant() {value = dense<0.7978846>}
    %three: f32[] = Constant() {value = dense<3.0>}
  )";
  EXPECT_NEAR(Op1(k + "%d = Div(%x, %r2)\n%e = Erf(%d)\n%a = Add(%e, %one)\n%m = Mul(%x, %a)\n%y = Mul(%m, %half)",
                  "form-activations", 1, &ops),
              0.8413447, 1e-6);
  EXPECT_EQ(ops, "Gelu");
  Op1(k + "%d = Mul(%x, %ir2)\n%e = Erf(%d)\n%a = Add(%one, %e)\n%h = Mul(%half, %x)\n%y = Mul(%h, %a)",
      "form-activations", 1, &ops);
  EXPECT_EQ(ops, "Gelu");
  EXPECT_NEAR(Op1(k + "%q = Pow(%x, %three)\n%r = Mul(%q, %c)\n%s = Add(%x, %r)\n%t = Mul(%s, %p)\n%u = Tanh(%t)\n%a = "
                      "Add(%u, %one)\n%h = Mul(%x, %half)\n%y = Mul(%h, %a)",
                  "form-activations", 1, &ops),
              0.841192, 1e-5);
  EXPECT_EQ(ops, "Gelu");
  // Sigmoid(1.5 x) x is not Swish.
  Op1(k + "%d = Mul(%x, %r2)\n%s = Sigmoid(%d)\n%y = Mul(%s, %x)", "form-activations", 1, &ops);
  EXPECT_EQ(ops, "Mul Sigmoid Mul");
}

TEST(FormActivations, ReadersInTheMiddleKeepTheParts) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[4], %z: f32[4]) {
    %s = Sigmoid(%x)
    %y = Mul(%s, %x)
    %a = Sigmoid(%z)
    %b = Mul(%a, %x)
    return %y, %s, %b
  })",
                               {"form-activations"}, {Noise({4}, 1), Noise({4}, 2)}, env.ctx);
  EXPECT_EQ(Count(*m, "Swish"), 0);
}

TEST(FormActivations, BehindAScaledValue) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[4]) {
    %k: f32[] = Constant() {value = dense<3.0>}
    %z = Mul(%x, %k)
    %s = Sigmoid(%z)
    %y = Mul(%s, %z)
    return %y
  })",
                               {"form-activations"}, {Noise({4}, 1)}, env.ctx);
  EXPECT_EQ(Count(*m, "Swish"), 1);
  EXPECT_EQ(Count(*m, "Mul"), 1);
}

const char *kLayerNorm = R"(
    %two: f32[] = Constant() {value = dense<2.0>}
    %eps: f32[] = Constant() {value = dense<1e-05>}
    %last: i64[1] = Constant() {value = dense<-1>}
    %first: i64[1] = Constant() {value = dense<1>}
    %zero: i64[1] = Constant() {value = dense<0>}
)";

TEST(FormLayerNorm, TorchForm) {
  Env env;
  const auto m = RunAndCompare("graph (%x: f32[2,3,4]) {" + std::string(kLayerNorm) + R"(
    %g: f32[4] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0>}
    %b: f32[1,1,4] = Constant() {value = dense<1.0, -2.0, 0.5, 4.0>}
    %m = ReduceMean(%x, %last)
    %d = Sub(%x, %m)
    %p = Pow(%d, %two)
    %v = ReduceMean(%p, %last)
    %e = Add(%v, %eps)
    %s = Sqrt(%e)
    %n = Div(%d, %s)
    %q = Mul(%n, %g)
    %y = Add(%q, %b)
    return %y
  })",
                               {"form-layer-norm"}, {Noise({2, 3, 4}, 1)}, env.ctx);
  EXPECT_EQ(Count(*m, "LayerNormalization"), 1);
  EXPECT_EQ(Count(*m, "Mul") + Count(*m, "Add"), 0);
}

TEST(FormLayerNorm, MeanOfSquaresOverAnotherAxis) {
  Env env;
  const auto m = RunAndCompare("graph (%x: f32[2,6,4]) {" + std::string(kLayerNorm) + R"(
    %g: f32[1,6,1] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0>}
    %b: f32[6,1] = Constant() {value = dense<1.0, -2.0, 0.5, 4.0, 0.0, 1.0>}
    %inv: f32[] = Constant() {value = dense<0.16666667>}
    %sh: i64[3] = Constant() {value = dense<2, 1, 4>}
    %s = ReduceSum(%x, %first) {keepdims = 0}
    %q = Mul(%x, %x)
    %t = ReduceSum(%q, %first) {keepdims = 0}
    %m = Mul(%s, %inv)
    %u = Mul(%t, %inv)
    %mm = Mul(%m, %m)
    %v = Sub(%u, %mm)
    %w = Relu(%v)
    %v3 = Reshape(%w, %sh)
    %m3 = Reshape(%m, %sh)
    %e = Add(%v3, %eps)
    %r = Sqrt(%e)
    %i = Reciprocal(%r)
    %k = Mul(%i, %g)
    %d = Sub(%x, %m3)
    %n = Mul(%d, %k)
    %y = Add(%n, %b)
    %z = Add(%y, %x)
    return %z
  })",
                               {"form-layer-norm"}, {Noise({2, 6, 4}, 1)}, env.ctx);
  EXPECT_EQ(Count(*m, "LayerNormalization"), 1) << Text(*m);
  EXPECT_EQ(Count(*m, "Transpose"), 2);
  EXPECT_EQ(Count(*m, "Add"), 1);
}

TEST(FormLayerNorm, GammaOfAnotherShapeStaysOutside) { // N009
  Env env;
  const auto m = RunAndCompare("graph (%x: f32[2,3,4]) {" + std::string(kLayerNorm) + R"(
    %g: f32[3,1] = Constant() {value = dense<1.0, 2.0, 3.0>}
    %m = ReduceMean(%x, %last)
    %d = Sub(%x, %m)
    %p = Mul(%d, %d)
    %v = ReduceMean(%p, %last)
    %e = Add(%v, %eps)
    %s = Sqrt(%e)
    %n = Div(%d, %s)
    %y = Mul(%n, %g)
    return %y
  })",
                               {"form-layer-norm"}, {Noise({2, 3, 4}, 1)}, env.ctx);
  EXPECT_EQ(Count(*m, "LayerNormalization"), 1);
  EXPECT_EQ(Count(*m, "Mul"), 1);
}

TEST(FormLayerNorm, RankOneWithoutConstantGamma) { // N008
  Env env;
  RunAndCompare("graph (%x: f32[8]) {" + std::string(kLayerNorm) + R"(
    %m = ReduceMean(%x, %zero)
    %d = Sub(%x, %m)
    %p = Pow(%d, %two)
    %v = ReduceMean(%p, %zero)
    %e = Add(%v, %eps)
    %s = Sqrt(%e)
    %n = Div(%d, %s)
    %y = Mul(%n, %n)
    return %y
  })",
                {"form-layer-norm"}, {Noise({8}, 1)}, env.ctx);
}

TEST(FormLayerNorm, OtherAxesAreThoseAxes) { // N010
  for (const char *axes : {"", ", %first"}) {
    Env env;
    const std::string mean = std::string("ReduceMean(%x") + axes + ")", var = std::string("ReduceMean(%p") + axes + ")";
    const auto m = RunAndCompare("graph (%x: f32[2,3,4]) {" + std::string(kLayerNorm) + "%m = " + mean + R"(
      %d = Sub(%x, %m)
      %p = Pow(%d, %two)
      %v = )" + var + R"(
      %e = Add(%v, %eps)
      %s = Sqrt(%e)
      %n = Div(%d, %s)
      return %n
    })",
                                 {"form-layer-norm"}, {Noise({2, 3, 4}, 1)}, env.ctx);
    // Over everything it is the normalisation of all dims; over one axis that isn't the last it is that.
    EXPECT_EQ(Count(*m, "LayerNormalization"), 1);
    if (*axes == 0)
      EXPECT_EQ(FindOp(*m, "LayerNormalization")->attrs().Int("axis", -1), 0);
  }
}

TEST(FormDepthToSpace, PixelShuffle) { // N073, N058
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,18,3,4]) {
    %s: i64[6] = Constant() {value = dense<1, 2, 3, 3, 3, 4>}
    %t: i64[4] = Constant() {value = dense<1, 2, 9, 12>}
    %a = Reshape(%x, %s)
    %b = Transpose(%a) {perm = [0, 1, 4, 2, 5, 3]}
    %y = Reshape(%b, %t)
    %u: i64[5] = Constant() {value = dense<1, 2, 9, 3, 4>}
    %v: i64[4] = Constant() {value = dense<1, 18, 3, 4>}
    %c = Reshape(%x, %u)
    %d = Transpose(%c) {perm = [0, 2, 1, 3, 4]}
    %z = Reshape(%d, %v)
    return %y, %z
  })",
                               {"form-depth-to-space", "eliminate-dead-nodes"}, {Iota({1, 18, 3, 4})}, env.ctx);
  EXPECT_EQ(Count(*m, "DepthToSpace"), 1);
  EXPECT_EQ(FindOp(*m, "DepthToSpace")->attrs().String("mode", ""), "CRD");
  EXPECT_EQ(Count(*m, "Transpose"), 1) << "a channel shuffle is none";
}

std::string Dense(int n, int seed) {
  std::string v;
  for (int i = 0; i < n; ++i)
    v += (i ? ", " : "") + fmt::format("{:.4f}", ((i * 37 + seed * 11) % 101 - 50) / 60.0);
  return v;
}

TEST(UnrollRecurrent, AgreesWithTheLayers) {
  for (const char *op : {"LSTM", "GRU", "RNN"})
    for (const char *direction : {"forward", "reverse", "bidirectional"})
      for (const bool lbr : {false, true})
        for (const bool initial : {false, true}) {
          if (lbr && std::string(op) != "GRU")
            continue;
          SCOPED_TRACE(fmt::format("{} {} {} {}", op, direction, lbr, initial));
          const int g = std::string(op) == "LSTM"  ? 4
                        : std::string(op) == "GRU" ? 3
                                                   : 1,
                    d = std::string(direction) == "bidirectional" ? 2 : 1;
          const int t = 3, b = 2, i = 4, h = 3;
          Env env;
          env.npu.refuse = {op};
          std::string text = fmt::format(R"(graph (%x: f32[{},{},{}], %h0: f32[{},{},{}], %c0: f32[{},{},{}]) {{)", t,
                                         b, i, d, b, h, d, b, h);
          text += fmt::format("%w: f32[{},{},{}] = Constant() {{value = dense<{}>}}\n", d, g * h, i,
                              Dense(d * g * h * i, 1));
          text += fmt::format("%r: f32[{},{},{}] = Constant() {{value = dense<{}>}}\n", d, g * h, h,
                              Dense(d * g * h * h, 2));
          text +=
              fmt::format("%b: f32[{},{}] = Constant() {{value = dense<{}>}}\n", d, 2 * g * h, Dense(d * 2 * g * h, 3));
          const bool lstm = g == 4;
          text += fmt::format("%y: f32[{},{},{},{}], %yh: f32[{},{},{}]{} = {}(%x, %w, %r, %b{}) {{direction = \"{}\", "
                              "hidden_size = {}{}}}\n",
                              t, d, b, h, d, b, h, lstm ? fmt::format(", %yc: f32[{},{},{}]", d, b, h) : "", op,
                              initial ? lstm ? ", _, %h0, %c0" : ", _, %h0" : "", direction, h,
                              g == 3 ? fmt::format(", linear_before_reset = {}", lbr ? 1 : 0) : "");
          text += lstm ? "return %y, %yh, %yc }" : "return %y, %yh }";
          const auto m = RunAndCompare(text, {"unroll-recurrent", "fold-constants", "eliminate-dead-nodes"},
                                       {Noise({t, b, i}, 1), Noise({d, b, h}, 2), Noise({d, b, h}, 3)}, env.ctx, 2e-6);
          EXPECT_EQ(Count(*m, op), 0);
        }
}

TEST(UnrollRecurrent, PeepholesAndLongSequencesStay) {
  Env env;
  env.npu.refuse = {"LSTM"};
  auto m = Load(fmt::format(R"(graph (%x: f32[2,1,1], %z: f32[200,1,1]) {{
    %w: f32[1,4,1] = Constant() {{value = splat<0.5>}}
    %p: f32[1,3] = Constant() {{value = splat<0.5>}}
    %y: f32[2,1,1,1] = LSTM(%x, %w, %w, _, _, _, _, %p) {{hidden_size = 1}}
    %u: f32[200,1,1,1] = LSTM(%z, %w, %w) {{hidden_size = 1}}
    return %y, %u
  }})"));
  EXPECT_FALSE(RunList(*m, {"unroll-recurrent"}, env.ctx));
}

// ---- slice updates

std::string ScatterText(std::string_view data, std::string_view indices, std::string_view values,
                        std::string_view updates, std::string_view attrs = "") {
  return fmt::format(R"(graph (%x: f32{}, %u: f32{}) {{
    %i: i64{} = Constant() {{value = dense<{}>}}
    %y = ScatterND(%x, %i, %u) {}
    return %y
  }})",
                     data, updates, indices, values, attrs);
}

TEST(FormSliceUpdate, BoxesBecomeConcats) {
  Env env;
  // x[:, 1:3] = u, the second axis in the middle; x[2] = u; x[1:2, -2:] = u, both axes; x[:] = u
  struct Case {
    std::string data, indices, values, updates;
    int concats, slices;
  };
  const Case cases[] = {{"[2,4,3]", "[2,2,2]", "0, 1, 0, 2, 1, 1, 1, 2", "[2,2,3]", 1, 2},
                        {"[3,2,2]", "[1,1]", "2", "[1,2,2]", 1, 1},
                        {"[3,4]", "[2,2]", "1, -2, 1, -1", "[2]", 2, 3},
                        {"[2,2]", "[2,1]", "0, 1", "[2,2]", 0, 0}};
  for (const Case &c : cases) {
    SCOPED_TRACE(c.data);
    auto dims = [](const std::string &text) {
      std::vector<int64_t> d;
      for (char ch : text)
        if (ch >= '0' && ch <= '9')
          d.push_back(ch - '0');
      return d;
    };
    const auto m = RunAndCompare(ScatterText(c.data, c.indices, c.values, c.updates), {"form-slice-update"},
                                 {Iota(dims(c.data)), Iota(dims(c.updates), 100)}, env.ctx);
    EXPECT_EQ(Count(*m, "ScatterND"), 0);
    EXPECT_EQ(Count(*m, "Concat"), c.concats);
    EXPECT_EQ(Count(*m, "Slice"), c.slices);
  }
}

// Out of order, with a gap, twice the same, added, out of range, or known at run time only.
TEST(FormSliceUpdate, NearMisses) {
  for (const std::string &text :
       {ScatterText("[4,2]", "[2,1]", "2, 1", "[2,2]"), ScatterText("[4,2]", "[2,1]", "0, 2", "[2,2]"),
        ScatterText("[4,2]", "[2,1]", "1, 1", "[2,2]"),
        ScatterText("[4,2]", "[2,1]", "1, 2", "[2,2]", "{reduction = \"add\"}"),
        ScatterText("[4,2]", "[2,1]", "3, 4", "[2,2]"),
        std::string("graph (%x: f32[4,2], %u: f32[1,2], %i: i64[1,1]) { %y = ScatterND(%x, %i, %u) return %y }")}) {
    SCOPED_TRACE(text);
    Env env;
    auto m = Load(text);
    EXPECT_FALSE(RunList(*m, {"form-slice-update"}, env.ctx));
  }
}

// ---- control flow

std::string ChoiceText(std::string_view then_body, std::string_view else_body, std::string_view result = "%y",
                       std::string_view condition = "%c: bool[]") {
  return fmt::format(R"(graph (%x: f32[2,3], {}, %k: i64[1]) {{
    %w: f32[3,3] = Constant() {{value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0>}}
    {} = If(%c) graph () {{ {} }} graph () {{ {} }}
    return {}
  }})",
                     condition, result, then_body, else_body, result);
}
constexpr std::string_view kProduct = "%t = MatMul(%x, %w) return %t", kNegated = "%e = Neg(%x) return %e";

TEST(ConvertIfs, BothBranchesAndAChoice) {
  for (const uint8_t taken : {0, 1})
    for (const bool vector : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", taken, vector));
      Env env;
      const Tensor condition =
          vector ? Ints<uint8_t>(DType::Bool, {1}, {taken}) : Ints<uint8_t>(DType::Bool, {}, {taken});
      const auto m =
          RunAndCompare(ChoiceText(kProduct, kNegated, "%y", vector ? "%c: bool[1]" : "%c: bool[]"), {"convert-ifs"},
                        {Iota({2, 3}), condition, Ints<int64_t>(DType::I64, {1}, {0})}, env.ctx);
      EXPECT_EQ(Count(*m, "If"), 0);
      EXPECT_EQ(Count(*m, "Where"), 1);
      EXPECT_EQ(Count(*m, "MatMul"), 1);
    }
}

// Innermost first; a result that is not wanted gets no choice.
TEST(ConvertIfs, Nested) {
  for (const uint8_t taken : {0, 1}) {
    Env env;
    const auto m = RunAndCompare(
        ChoiceText(
            "%t, %s = If(%c) graph () { %p = MatMul(%x, %w) return %p, %x } graph () { return %x, %x } return %t",
            kNegated),
        {"convert-ifs"}, {Iota({2, 3}), Ints<uint8_t>(DType::Bool, {}, {taken}), Ints<int64_t>(DType::I64, {1}, {0})},
        env.ctx);
    EXPECT_EQ(Count(*m, "If"), 0);
    EXPECT_EQ(Count(*m, "Where"), 2);
  }
}

// What is not taken may fail: an index that the run gives. Shapes that differ can't be chosen between. Where the NPU
// has nothing to do, the host takes one branch alone.
TEST(ConvertIfs, LeftAlone) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {kProduct, "%g = Gather(%x, %k) {axis = 0} %e = Concat(%g, %g) {axis = 0} return %e"},
      {kProduct, "%z: i64[2] = Constant() {value = dense<3, 2>} %e = Reshape(%x, %z) return %e"},
      {kNegated, "%f = Neg(%x) return %f"},
  };
  for (const auto &[then_body, else_body] : cases) {
    SCOPED_TRACE(else_body);
    Env env;
    if (then_body == kNegated)
      env.npu.refuse = {"Neg"};
    auto m = Load(ChoiceText(then_body, else_body));
    EXPECT_FALSE(RunList(*m, {"convert-ifs"}, env.ctx));
  }
  Env env;
  env.ctx.options.deny_nodes = {"choice"};
  auto m = Load(R"(module "m" { nodes { 0: If "choice" } graph (%x: f32[2,3], %c: bool[]) {
    %w: f32[3,3] = Constant() {value = splat<1.0>}
    %y = If(%c) graph () { %t = MatMul(%x, %w) return %t } graph () { return %x } origin(0)
    return %y } })");
  EXPECT_FALSE(RunList(*m, {"convert-ifs"}, env.ctx));
}

// ---- output stages

const char *kConvRelu = R"(graph (%x: f32[1,2,4,4], %r: f32[1,2,4,4]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, -2.0, 3.0, -4.0>}
    %c = Conv(%x, %w)
    %a = Add(%c, %r)
    %y = Relu(%a)
    return %y
  })";

TEST(FuseOutputStages, ChainWithSideOperand) {
  Env env;
  const auto m = RunAndCompare(kConvRelu, {"assign-precision", "fuse-output-stages"},
                               {Noise({1, 2, 4, 4}, 1), Noise({1, 2, 4, 4}, 2)}, env.ctx, 2e-3);
  const Node *fused = FindOp(*m, "Fused");
  ASSERT_NE(fused, nullptr) << Text(*m);
  EXPECT_EQ(fused->body(0)->output(0)->def()->op().name, "Cast");
  EXPECT_EQ(fused->result()->type().dtype(), DType::F16);
  EXPECT_EQ(Count(*m, "Conv"), 1);
  EXPECT_EQ(m->main().output(0)->name(), "y");
}

// A Conv with a folded BatchNormalization, an Add, and a SiLU that was written as two nodes: five ONNX nodes in three.
const char *kConvAddSilu = R"(module "m" {
  nodes {
    0: Conv "conv"
    1: BatchNormalization "bn"
    2: Add "add"
    3: Sigmoid "sigmoid"
    4: Mul "mul"
  }
  graph (%x: f32[1,2,4,4], %r: f32[1,2,4,4]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, -2.0, 3.0, -4.0>}
    %c = Conv(%x, %w) origin(0, 1)
    %a = Add(%c, %r) origin(2)
    %y = Swish(%a) origin(3, 4)
    return %y
  }
})";

TEST(FuseOutputStages, LimitOfTheChainCountsOnnxNodes) {
  auto layer = [](int limit) {
    Env env;
    env.ctx.options.max_fusion_chain = limit;
    const auto m = RunAndCompare(kConvAddSilu, {"assign-precision", "fuse-output-stages"},
                                 {Noise({1, 2, 4, 4}, 1), Noise({1, 2, 4, 4}, 2)}, env.ctx, 8e-3);
    const Node *fused = FindOp(*m, "Fused");
    return fused ? fused->origin().size() : 0;
  };
  EXPECT_EQ(layer(5), 5u);
  EXPECT_EQ(layer(4), 3u); // the SiLU is two
  EXPECT_EQ(layer(3), 3u);
  EXPECT_EQ(layer(2), 0u); // Conv and its normalisation are one node by now
  EXPECT_EQ(layer(1), 0u);
}

TEST(FuseOutputStages, SecondReaderSeesThePlainValue) { // N005
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,4,4]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, -2.0, 3.0, -4.0>}
    %c = Conv(%x, %w)
    %a = Relu(%c)
    %b = Sigmoid(%c)
    %y = Add(%a, %b)
    return %y
  })",
                               {"assign-precision", "fuse-output-stages"}, {Noise({1, 2, 4, 4}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(Count(*m, "Fused"), 0);
}

TEST(FuseOutputStages, OutputInTheMiddle) { // N024
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,4,4]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, -2.0, 3.0, -4.0>}
    %lo: f32[] = Constant() {value = dense<0.0>}
    %hi: f32[] = Constant() {value = dense<6.0>}
    %c = Conv(%x, %w)
    %r = Relu(%c)
    %y = Clip(%r, %lo, %hi)
    return %c, %y
  })",
                               {"merge-clips", "assign-precision", "fuse-output-stages"},
                               {Noise({1, 2, 4, 4}, 1, -9, 9)}, env.ctx, 4e-3);
  EXPECT_EQ(Count(*m, "Fused"), 0);
  EXPECT_EQ(m->main().output(0)->name(), "c");
  EXPECT_EQ(m->main().output(1)->name(), "y");
}

TEST(FuseOutputStages, LeftOperandStaysLeft) { // N061
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,2,4,4], %r: f32[1,2,4,4]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, -2.0, 3.0, -4.0>}
    %c = Conv(%x, %w)
    %y = Sub(%r, %c)
    return %y
  })",
                               {"assign-precision", "fuse-output-stages"},
                               {Noise({1, 2, 4, 4}, 1), Noise({1, 2, 4, 4}, 2)}, env.ctx, 2e-3);
  EXPECT_EQ(Count(*m, "Fused"), 1);
}

TEST(FuseOutputStages, LayerNormBehindAnOutput) { // N006
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,4,8], %r: f32[1,4,8]) {
    %g: f32[8] = Constant() {value = splat<1.5>}
    %h = Add(%x, %r)
    %y: f32[1,4,8] = LayerNormalization(%h, %g) {axis = -1}
    return %h, %y
  })",
                               {"assign-precision", "fuse-output-stages"}, {Noise({1, 4, 8}, 1), Noise({1, 4, 8}, 2)},
                               env.ctx, 4e-3);
  EXPECT_EQ(m->main().output(0)->name(), "h");
}

} // namespace
} // namespace npuc::testing
