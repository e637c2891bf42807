// Quantisation of float graphs from ranges. Scales, zero points and results worked out by hand.
#include <cmath>

#include <sys/mman.h>

#include "compiler/calibration/calibrate.h"
#include "passes/quantize/equalize.h"
#include "passes/quantize/parameters.h"
#include "passes/quantize/round_weights.h"
#include "test/passes/testing.h"

namespace npuc::testing {
namespace {

const std::vector<std::string> kQuantise = {"fold-constants",      "quantize-calibrated", "convert-qdq",
                                            "fold-constants",      "remove-identities",   "merge-equal-nodes",
                                            "eliminate-dead-nodes"};

void Range(Env &env, const std::string &tensor, float lo, float hi) {
  env.ctx.options.quant_config.tensors[tensor].range = {lo, hi};
}
void Scale(Env &env, const std::string &tensor, float scale, int32_t zero) {
  env.ctx.options.quant_config.tensors[tensor].scale = scale;
  env.ctx.options.quant_config.tensors[tensor].zero_point = zero;
}
std::string TypeOf(const Module &m, std::string_view name) {
  for (const Node &n : m.main().nodes())
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (n.result(i)->name() == name)
        return n.result(i)->type().ToString();
  return "none";
}

TEST(Parameters, ActivationsHoldZeroExactly) {
  // 4 / 255 a step; -(-1) / step = 63.75, so zero is code 64.
  QuantRef q = ActivationParams({-1, 3}, DType::U8);
  EXPECT_EQ(q->scale(), static_cast<float>(4.0 / 255));
  EXPECT_EQ(q->zero_point(), 64);
  // A range beside zero is widened to it.
  q = ActivationParams({2, 6}, DType::U8);
  EXPECT_EQ(q->scale(), static_cast<float>(6.0 / 255));
  EXPECT_EQ(q->zero_point(), 0);
  q = ActivationParams({-6, -2}, DType::I8);
  EXPECT_EQ(q->scale(), static_cast<float>(6.0 / 255));
  EXPECT_EQ(q->zero_point(), 127);
  q = ActivationParams({-1, 0.5}, DType::I16);
  EXPECT_EQ(q->scale(), static_cast<float>(1.0 / 32767));
  EXPECT_EQ(q->zero_point(), 0);
  q = ActivationParams({0, 0}, DType::U8);
  EXPECT_EQ(q->scale(), 1.0f);
}

TEST(Parameters, WeightsPerChannel) {
  const QuantizedWeights w = QuantizeWeights(F32({2, 2}, {1.27f, -0.5f, 0, 0}), 0, 8);
  EXPECT_EQ(w.quant->axis, 0);
  EXPECT_FLOAT_EQ(w.quant->scale(0), 0.01f);
  EXPECT_EQ(w.quant->scale(1), 1.0f); // nothing but zeros
  EXPECT_EQ(Values(w.codes), (std::vector<double>{127, -50, 0, 0}));
  // Four bits: -7 to 7.
  const QuantizedWeights four = QuantizeWeights(F32({1, 3}, {7, -3.4f, 1.2f}), 0, 4);
  for (double c : Values(four.codes))
    EXPECT_LE(std::abs(c), 7);
}

TEST(Parameters, SplatsGiveWhatTheirElementsWould) {
  const float v = -0.4f;
  const Tensor splat = Tensor::Splat(DType::F32, {3, 2, 5}, &v), plain = splat.Expand();
  for (int axis : {-1, 0, 2})
    for (int bits : {4, 8}) {
      const QuantizedWeights s = QuantizeWeights(splat, axis, bits), p = QuantizeWeights(plain, axis, bits);
      EXPECT_TRUE(s.codes.is_splat());
      EXPECT_EQ(Values(s.codes.Expand()), Values(p.codes));
      EXPECT_TRUE(*s.quant == *p.quant);
    }
  // A bias that enlarges one channel's scale: 0.4 is code -40 there.
  const QuantizedWeights s = QuantizeWeights(splat, 0, 8, {0, 0.01, 0}), p = QuantizeWeights(plain, 0, 8, {0, 0.01, 0});
  EXPECT_FALSE(s.codes.is_splat());
  EXPECT_EQ(s.codes.AsInt(9), -127);
  EXPECT_EQ(s.codes.AsInt(10), -40);
  EXPECT_TRUE(s.codes.SameBits(p.codes));
  EXPECT_TRUE(*s.quant == *p.quant);
}

TEST(Parameters, GroupsHaveTheirOwnScales) {
  // Two groups of two along the input axis: 7 and 70 both come out exactly.
  const Tensor w = RoundToGroups(F32({1, 4}, {7, -1, 70, 10}), 0, 1, 2, 4);
  ExpectClose(w, {7, -1, 70, 10}, 1e-5);
  // One scale for all would not hold -1.
  const Tensor all = RoundToGroups(F32({1, 4}, {7, -1, 70, 10}), 0, 1, 4, 4);
  EXPECT_NE(Values(all)[1], -1);
}

const char *kConv = R"(graph (%x: f32[1,1,1,3]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<0.5>}
    %b: f32[1] = Constant() {value = dense<0.25>}
    %v: f32[1,1,1,1] = Constant() {value = dense<1.0>}
    %c = Conv(%x, %w, %b)
    %r = Relu(%c)
    %y = Conv(%r, %v)
    return %y
  })";

TEST(QuantizeCalibrated, ConvReluConv) {
  Env env;
  Scale(env, "x", 0.5f, 128);
  Scale(env, "r", 0.25f, 0);
  Scale(env, "y", 0.25f, 0);
  auto m = Load(kConv);
  EXPECT_TRUE(RunList(*m, kQuantise, env.ctx));
  EXPECT_EQ(Count(*m, "Relu"), 0) << Text(*m); // the clamp of r's type does it
  EXPECT_EQ(TypeOf(*m, "r"), "u8[1,1,1,3]{s=0.25,z=0}");
  EXPECT_EQ(TypeOf(*m, "y"), "u8[1,1,1,3]{s=0.25,z=0}");
  const Node *conv = FindOp(*m, "Conv");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->operand(0)->type().ToString(), "u8[1,1,1,3]{s=0.5,z=128}");
  EXPECT_EQ(conv->operand(1)->constant()->AsInt(0), 127);
  // In units of 0.5 * 0.5 / 127.
  EXPECT_EQ(conv->operand(2)->constant()->AsInt(0), 127);
  // 3 -> 1.75, -2 -> -0.75 -> 0, 100 -> clamped to 63.5 -> 32
  ExpectClose(Eval(*m, {F32({1, 1, 1, 3}, {3, -2, 100})})[0], {1.75, 0, 32}, 1e-6);
}

TEST(QuantizeCalibrated, AnEstimateReadsNoWeights) {
  // Weights whose bytes cannot be read at all.
  const size_t bytes = 4096;
  void *const closed = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  const std::shared_ptr<const void> owner(closed, [](const void *p) { munmap(const_cast<void *>(p), bytes); });
  Env env;
  env.ctx.estimate_only = true;
  for (const char *v : {"x", "c", "y"})
    Scale(env, v, 0.5f, 128);
  auto m = Load(R"(graph (%x: f32[1,4,1,3]) {
    %w: f32[4,4,1,1] = Constant() {value = splat<0.5>}
    %c = Conv(%x, %w)
    %v: f32[4,4,1,1] = Constant() {value = splat<1.0>}
    %y = Conv(%c, %v)
    return %y
  })");
  Node *const conv = m->main().output(0)->def()->operand(0)->def();
  conv->set_operand(1, m->main().AddConstant(Tensor::View(DType::F32, {4, 4, 1, 1}, closed, owner), "closed", conv));
  // Not by the manager, whose checks hash everything.
  const StatusOr<bool> changed = LookupPass("quantize-calibrated")->run(*m, env.ctx);
  ASSERT_TRUE(changed.ok() && *changed) << changed.status();
  auto weights = [](const Node &n) { return n.operand(1)->def()->operand(0); }; // behind Dequantize
  EXPECT_EQ(weights(*FindOp(*m, "Conv"))->type().dtype(), DType::I8);
  EXPECT_EQ(weights(*FindOp(*m, "Conv"))->type().quant()->axis, 0);
  // A splat costs nothing, and commands are others for one: it stays.
  Node *second = nullptr;
  for (Node &n : m->main().nodes())
    second = n.Is("Conv") ? &n : second;
  EXPECT_TRUE(weights(*second)->constant()->is_splat());
}

TEST(QuantizeCalibrated, NothingWithoutRanges) {
  Env env;
  auto m = Load(kConv);
  EXPECT_FALSE(RunList(*m, {"quantize-calibrated"}, env.ctx));
  // Of one value only: the nodes that lack one stay float, and say so.
  Range(env, "x", -1, 1);
  EXPECT_FALSE(RunList(*m, {"quantize-calibrated"}, env.ctx));
  ASSERT_FALSE(env.ctx.kept_float.empty());
  EXPECT_NE(env.ctx.kept_float[0].why.find("no range is known of"), std::string::npos);
}

TEST(QuantizeCalibrated, WithoutRangeOfTheOutputItIsFloat) {
  // The last convolution's sums leave as floats on a target that has them.
  Env env;
  Range(env, "x", -1, 1);
  Range(env, "r", 0, 2);
  Range(env, "y", 0, 4);
  auto m = Load(kConv);
  RunList(*m, kQuantise, env.ctx);
  ASSERT_EQ(Count(*m, "Fused"), 1) << Text(*m);
  EXPECT_EQ(Count(*m, "Quantize"), 1); // of x
  // Half precision's rounding only: r is 0.5 * x + 0.25, x and r have 8 bits.
  const double y = Values(Eval(*m, {F32({1, 1, 1, 3}, {1, 0, -1})})[0])[0];
  EXPECT_NEAR(y, 0.75, 1.0 / 127 / 2 * 0.5 + 2.0 / 255 / 2 + 1e-3);
}

TEST(QuantizeCalibrated, NodesThatTheUserKeepsFloat) {
  Env env;
  Range(env, "x", -1, 1);
  Range(env, "r", 0, 2);
  Range(env, "y", 0, 4);
  auto m = Load(kConv);
  // Text modules have no ONNX nodes: the whole graph's wish.
  env.ctx.options.quant_config.precision = Precision::Fp16;
  EXPECT_FALSE(RunList(*m, {"quantize-calibrated"}, env.ctx));
}

TEST(QuantizeCalibrated, SixteenBits) {
  Env env;
  env.ctx.options.precision = Precision::Int16;
  Range(env, "x", -1, 1);
  Range(env, "r", 0, 2);
  Scale(env, "y", 0.0001f, 0);
  auto m = Load(kConv);
  RunList(*m, kQuantise, env.ctx);
  const Node *conv = FindOp(*m, "Conv");
  ASSERT_NE(conv, nullptr) << Text(*m);
  EXPECT_EQ(conv->operand(0)->type().dtype(), DType::I16);
  EXPECT_EQ(conv->operand(1)->type().dtype(), DType::I8);
  // Symmetric integers have codes below zero: Relu stays.
  EXPECT_EQ(Count(*m, "Relu"), 1);
  ExpectClose(Eval(*m, {F32({1, 1, 1, 3}, {0.3f, 0.9f, -0.9f})})[0], {0.4, 0.7, 0}, 2e-4);
}

TEST(QuantizeCalibrated, BiasBeyondTheSums) { // N077
  Env env;
  Scale(env, "x", 0.5f, 0);
  Range(env, "y", -5, 5.1f);
  auto m = Load(R"(graph (%x: f32[1,1,1,1]) {
    %w: f32[2,1,1,1] = Constant() {value = dense<1e-07, -1e-07>}
    %b: f32[2] = Constant() {value = dense<5.0, -4.5>}
    %y = Conv(%x, %w, %b)
    return %y
  })");
  RunList(*m, kQuantise, env.ctx);
  const Node *conv = nullptr;
  for (const Node &n : m->main().nodes())
    if (n.Is("Fused", "npuc"))
      conv = &n;
  ASSERT_NE(conv, nullptr) << Text(*m);
  const Tensor *bias = nullptr;
  const QuantParams *weights = nullptr;
  for (const Value *v : conv->operands()) {
    if (v->type().dtype() == DType::I32)
      bias = v->constant();
    if (v->type().dtype() == DType::I8)
      weights = v->type().quant().get();
  }
  ASSERT_TRUE(bias && weights);
  EXPECT_NEAR(static_cast<double>(bias->AsInt(0)) * 0.5 * weights->scale(0), 5.0, 0.05);
  EXPECT_NEAR(static_cast<double>(bias->AsInt(1)) * 0.5 * weights->scale(1), -4.5, 0.045);
  ExpectClose(Eval(*m, {F32({1, 1, 1, 1}, {3})})[0], {5.0, -4.5}, 0.045);
}

TEST(QuantizeCalibrated, ConvTransposeHasItsChannelsOnAxisOne) { // N080
  Env env;
  Range(env, "x", -1, 1);
  Range(env, "y", -30, 30);
  auto m = Load(R"(graph (%x: f32[1,3,4,4], %w0: f32[1]) {
    %w: f32[3,64,3,3] = Constant() {value = splat<0.5>}
    %b: f32[64] = Constant() {value = splat<0.25>}
    %y = ConvTranspose(%x, %w, %b)
    return %y
  })");
  RunList(*m, {"quantize-calibrated"}, env.ctx);
  const Node *deq = FindOp(*m, "ConvTranspose")->operand(1)->def();
  ASSERT_TRUE(deq && deq->Is("Dequantize", "npuc")) << Text(*m);
  EXPECT_EQ(deq->operand(0)->type().quant()->axis, 1);
  EXPECT_EQ(deq->operand(0)->type().quant()->scales.size(), 64u);
}

TEST(QuantizeCalibrated, BoundsOfClipAreTheRange) { // N088
  for (const char *bounds : {"%lo, %hi", "_, %hi"}) {
    SCOPED_TRACE(bounds);
    Env env;
    Range(env, "x", -8, 8);
    Range(env, "r", std::string(bounds)[0] == '_' ? -4.0f : 0.0f, 6);
    Range(env, "y", -10, 10);
    auto m = Load(std::string(R"(graph (%x: f32[1,1,1,3]) {
      %w: f32[1,1,1,1] = Constant() {value = dense<1.0>}
      %lo: f32[] = Constant() {value = dense<0.0>}
      %hi: f32[] = Constant() {value = dense<6.0>}
      %c = Conv(%x, %w)
      %r = Clip(%c, )") +
                  bounds + R"()
      %y = Conv(%r, %w)
      return %y
    })");
    RunList(*m, kQuantise, env.ctx);
    EXPECT_EQ(Count(*m, "Clip"), 0) << Text(*m);
    ExpectClose(Eval(*m, {F32({1, 1, 1, 3}, {8, 3, 1})})[0], {6, 3, 1}, 0.05);
  }
}

TEST(QuantizeCalibrated, ReluOnTheInputIsKept) { // N076
  Env env;
  Range(env, "x", -8, 8);
  Range(env, "r", 0, 8);
  Range(env, "y", 0, 8);
  auto m = Load(R"(graph (%x: f32[1,1,1,3]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<1.0>}
    %r = Relu(%x)
    %y = Conv(%r, %w)
    return %y
  })");
  RunList(*m, kQuantise, env.ctx);
  EXPECT_EQ(m->main().num_inputs(), 1u);
  ExpectClose(Eval(*m, {F32({1, 1, 1, 3}, {-8, 3, 1})})[0], {0, 3, 1}, 0.05);
}

TEST(QuantizeCalibrated, CopiesShareAndConcatRequantisesWhatWouldLose) {
  Env env;
  Range(env, "x", -1, 1);
  Range(env, "a", -1, 1);
  Range(env, "s", -10, 10);
  Range(env, "y", -20, 20);
  auto m = Load(R"(graph (%x: f32[1,1,4,4]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<1.0>}
    %k: f32[1,1,1,1] = Constant() {value = dense<10.0>}
    %v: f32[1,2,1,1] = Constant() {value = dense<1.0, 1.0>}
    %a = Conv(%x, %w)
    %s = Conv(%a, %k)
    %p = MaxPool(%a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}
    %c = Concat(%p, %s) {axis = 1}
    %y = Conv(%c, %v)
    return %y
  })");
  RunList(*m, kQuantise, env.ctx);
  // The pool keeps a's parameters; the Concat's are those of the wide operand, which only it reads.
  EXPECT_EQ(TypeOf(*m, "a"), TypeOf(*m, "p"));
  EXPECT_EQ(TypeOf(*m, "s"), "u8[1,1,4,4]" + TypeOf(*m, "c").substr(11)) << Text(*m);
  EXPECT_NE(TypeOf(*m, "a").substr(11), TypeOf(*m, "c").substr(11));
  EXPECT_EQ(Count(*m, "Requantize"), 1);
}

TEST(QuantizeCalibrated, TheTailStaysFloat) {
  Env env;
  Range(env, "x", -1, 1);
  Range(env, "c", -1, 1);
  auto m = Load(R"(graph (%x: f32[1,1,1,3]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<1.0>}
    %c = Conv(%x, %w)
    %y = Sigmoid(%c)
    return %y
  })");
  RunList(*m, kQuantise, env.ctx);
  EXPECT_EQ(Count(*m, "Fused"), 1) << Text(*m); // integer sums, Sigmoid on floats
  // A target without floats quantises to the end; Sigmoid's range is known.
  Env integers;
  integers.target = Target::FromPreset("mcu-128").value();
  if (integers.target.HasFloat())
    return;
  Range(integers, "x", -1, 1);
  Range(integers, "c", -1, 1);
  auto n = Load(R"(graph (%x: f32[1,1,1,3]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<1.0>}
    %c = Conv(%x, %w)
    %y = Sigmoid(%c)
    return %y
  })");
  RunList(*n, kQuantise, integers.ctx);
  EXPECT_EQ(TypeOf(*n, "y").substr(0, 11), "u8[1,1,1,3]") << Text(*n);
}

TEST(QuantizeCalibrated, AdditionInTheOutputStage) {
  // Conv, addition of a stored value and Relu are one stage: what lies between is never rounded.
  Env env;
  Scale(env, "x", 1.0f / 128, 128);
  Scale(env, "a", 1.0f / 128, 128);
  Scale(env, "c", 1.0f, 0); // would ruin the sum if it were used
  Scale(env, "r", 1.0f / 64, 0);
  Range(env, "s", -2, 2);
  Range(env, "y", 0, 4);
  auto m = Load(R"(graph (%x: f32[1,1,1,3]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<1.0>}
    %v: f32[1,1,1,1] = Constant() {value = dense<0.5>}
    %a = Conv(%x, %w)
    %c = Conv(%a, %v)
    %s = Add(%a, %c)
    %r = Relu(%s)
    %y = Conv(%r, %w)
    return %y
  })");
  RunList(*m, kQuantise, env.ctx);
  EXPECT_EQ(Count(*m, "Fused"), 2) << Text(*m); // and the last convolution with its float result
  EXPECT_EQ(TypeOf(*m, "c"), "none");
  ExpectClose(Eval(*m, {F32({1, 1, 1, 3}, {0.5f, 0.25f, -0.5f})})[0], {0.75, 0.375, 0}, 2e-3);
}

// Samples of a graph with one input, given outright.
class GivenSamples : public SampleSource {
public:
  explicit GivenSamples(std::vector<Tensor> values) : values_(std::move(values)) {}
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }
  std::string name(int64_t sample) const override { return std::to_string(sample); }
  StatusOr<std::vector<EvalValue>> Read(int64_t sample) const override {
    return std::vector<EvalValue>{EvalValue(values_[sample])};
  }

private:
  std::vector<Tensor> values_;
};

TEST(RoundWeights, ErrorsCancelWhereInputsGoTogether) {
  // Two inputs that are always equal: only the sum of their weights matters. In units of the scale (from the third
  // weight) they are 0.4 and 0.4: nearest gives 0 + 0, half a step off; the second takes up what the first left: 0 + 1.
  auto m = Load(R"(graph (%x: f32[1,3]) {
    %w: f32[3,1] = Constant() {value = dense<0.4, 0.4, 127.0>}
    %y = MatMul(%x, %w)
    return %y
  })");
  std::vector<Tensor> inputs;
  for (int i = 0; i < 16; ++i)
    inputs.push_back(
        F32({1, 3}, {static_cast<float>(i % 5) - 2, static_cast<float>(i % 5) - 2, static_cast<float>(i % 3) - 1}));
  GivenSamples samples(inputs);
  Env env;
  env.ctx.samples = &samples;
  std::vector<Node *> nodes;
  for (Node &n : m->main().nodes())
    if (n.Is("MatMul"))
      nodes.push_back(&n);
  auto moments = CollectMoments(m->main(), nodes, env.ctx);
  ASSERT_TRUE(moments.ok()) << moments.status();
  ASSERT_EQ(moments->count(nodes[0]), 1u);
  const Tensor &w = *nodes[0]->operand(1)->constant();
  QuantizedWeights q = QuantizeWeights(w, 1, 8);
  EXPECT_EQ(Values(q.codes), (std::vector<double>{0, 0, 127}));
  RoundByMoments(*nodes[0], w, 1, 8, moments->at(nodes[0]), true, &q);
  const auto codes = Values(q.codes);
  EXPECT_EQ(codes[0] + codes[1], 1);
  EXPECT_EQ(codes[2], 127);
  // With means of 2 and 2 rounding to 0 + 0 takes 1.6 from the output; 0 + 1 adds 0.4.
  EXPECT_NEAR(MeanShift(*nodes[0], w, QuantizeWeights(w, 1, 8), {2, 2, 0}, 1)[0], 1.6, 1e-5);
  EXPECT_NEAR(MeanShift(*nodes[0], w, q, {2, 2, 0}, 1)[0], -0.4, 1e-5);
}

TEST(RoundWeights, PaddingCountsAsZeros) {
  // A 1x3 kernel over two ones with one pad on each side: the input vectors are (0, 1, 1) and (1, 1, 0).
  auto m = Load(R"(graph (%x: f32[1,1,1,2]) {
    %w: f32[1,1,1,3] = Constant() {value = dense<1.0, 2.0, 3.0>}
    %y = Conv(%x, %w) {pads = [0, 1, 0, 1]}
    return %y
  })");
  GivenSamples samples({F32({1, 1, 1, 2}, {1, 1})});
  Env env;
  env.ctx.samples = &samples;
  std::vector<Node *> nodes;
  for (Node &n : m->main().nodes())
    if (n.Is("Conv"))
      nodes.push_back(&n);
  auto moments = CollectMoments(m->main(), nodes, env.ctx);
  ASSERT_TRUE(moments.ok()) << moments.status();
  const InputMoments &got = moments->at(nodes[0]);
  EXPECT_EQ(got.rows, 2);
  EXPECT_EQ(got.sum, (std::vector<double>{1, 2, 1}));
  EXPECT_EQ(got.product, (std::vector<double>{1, 1, 0, 0, 2, 1, 0, 0, 1}));
}

TEST(Equalize, DepthwiseChannelsShareOneRange) {
  // Channels of 16 and 1 before a depthwise layer, whose weights have a scale each: both become 16, and the output
  // stays what it was.
  const char *text = R"(graph (%x: f32[1,1,1,2]) {
    %w: f32[3,1,1,1] = Constant() {value = dense<16.0, 1.0, 1.0>}
    %b: f32[3] = Constant() {value = dense<0.0, 0.5, 0.5>}
    %d: f32[3,1,1,1] = Constant() {value = dense<1.0, 2.0, 4.0>}
    %v: f32[1,3,1,1] = Constant() {value = dense<1.0, 1.0, 1.0>}
    %c = Conv(%x, %w, %b)
    %r = Relu(%c)
    %y = Conv(%r, %d) {group = 3}
    %z = Conv(%y, %v)
    return %z
  })";
  auto m = Load(text);
  auto before = Load(text);
  Env env;
  CalibrationTable table;
  const Tensor x = F32({1, 1, 1, 2}, {1, -1});
  Interpreter interpreter(m->main());
  interpreter.set_observer([&](const Value &v, const EvalValue &value) {
    const Tensor *t = value.tensor();
    if (t && !v.constant())
      table[v.name()].Add(0, t->values<float>(), t->dims(), 1);
  });
  ASSERT_TRUE(interpreter.Run(std::vector<Tensor>{x}).ok());
  env.ctx.calibration = &table;
  const auto ranges = Equalize(m->main(), MakeQuantPlan(m->main(), env.ctx), env.ctx);
  ASSERT_EQ(ranges.count("r.equalised"), 1u) << Text(*m);
  EXPECT_NEAR(ranges.at("r.equalised").hi, 16, 1e-5);
  const Node *first = FindOp(*m, "Conv");
  // s = 1, 1.5 / 16, 1.5 / 16
  ExpectClose(*first->operand(1)->constant(), {16, 16 / 1.5, 16 / 1.5}, 1e-4);
  ExpectClose(*first->operand(2)->constant(), {0, 0.5 * 16 / 1.5, 0.5 * 16 / 1.5}, 1e-4);
  ExpectSame(Eval(*m, {x})[0], Eval(*before, {x})[0], 1e-5);
}

TEST(Equalize, BoundsAndOtherReadersForbidIt) {
  for (const char *middle : {"%r = Clip(%c, _, %six)", "%r = Swish(%c)"}) {
    SCOPED_TRACE(middle);
    auto m = Load(std::string(R"(graph (%x: f32[1,1,1,2]) {
      %six: f32[] = Constant() {value = dense<6.0>}
      %w: f32[3,1,1,1] = Constant() {value = dense<16.0, 1.0, 1.0>}
      %v: f32[1,3,1,1] = Constant() {value = dense<1.0, 1.0, 1.0>}
      %c = Conv(%x, %w)
      )") + middle +
                  R"(
      %y = Conv(%r, %v)
      return %y
    })");
    Env env;
    CalibrationTable table;
    for (const char *name : {"x", "c", "r", "y"})
      table[name].Add(0, std::vector<float>{16, 1, 1}, {1, 3, 1, 1}, 1);
    env.ctx.calibration = &table;
    EXPECT_TRUE(Equalize(m->main(), MakeQuantPlan(m->main(), env.ctx), env.ctx).empty());
  }
}

} // namespace
} // namespace npuc::testing
