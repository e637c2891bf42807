// Precision, partition and layout, on a make-believe NPU.
#include <cmath>

#include "test/passes/testing.h"

namespace npuc::testing {
namespace {

std::string Rules(const PassContext &ctx, OriginId id) {
  std::string s;
  auto it = ctx.reasons().find(id);
  if (it == ctx.reasons().end())
    return s;
  for (const Violation &v : it->second)
    s += (s.empty() ? "" : " ") + v.rule;
  return s;
}

TEST(AssignPrecision, CastsAreShared) {
  Env env;
  env.npu.refuse = {"Exp"};
  const auto m = RunAndCompare(R"(module "m" {
    nodes { 0: Neg "neg" 1: Exp "exp" 2: Exp "exp2" 3: Abs "abs" }
    graph (%x: f32[4]) {
      %a: f32[4] = Neg(%x) origin(0)
      %b: f32[4] = Exp(%a) origin(1)
      %c: f32[4] = Exp(%a) origin(2)
      %d: f32[4] = Abs(%a) origin(3)
      return %b, %c, %d, %a
    }
  })",
                               {"assign-precision"}, {F32({4}, {1, 2, -3, 0.5})}, env.ctx);
  EXPECT_EQ(Count(*m, "Cast"), 3) << Text(*m); // x; a for both Exp and the output; d for the output
  EXPECT_EQ(FindOp(*m, "Neg")->result()->type().dtype(), DType::F16);
  EXPECT_EQ(FindOp(*m, "Exp")->operand(0)->type().dtype(), DType::F32);
  EXPECT_EQ(m->main().output(3)->type().dtype(), DType::F32);
  EXPECT_EQ(m->main().output(3)->name(), "a");
  EXPECT_EQ(Rules(env.ctx, 1), "no-lowering");
  EXPECT_EQ(Rules(env.ctx, 0), "");
}

TEST(AssignPrecision, IntegerTargetKeepsFloatsOnTheHost) {
  Env env;
  env.target = Target::FromPreset("mcu-128").value();
  ASSERT_FALSE(env.target.HasFloat());
  auto m = Load(R"(module "m" {
    nodes { 0: Neg "neg" }
    graph (%x: f32[4]) {
      %a: f32[4] = Neg(%x) origin(0)
      return %a
    }
  })");
  RunList(*m, {"assign-precision", "place-nodes"}, env.ctx);
  EXPECT_EQ(FindOp(*m, "Neg")->placement(), Placement::Host);
  EXPECT_EQ(Rules(env.ctx, 0), "float-on-integer-target");
}

TEST(AssignPrecision, MasksSaturate) { // N089
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[2]) {
    %mask: f32[2] = Constant() {value = dense<0.0, -3.4028235e+38>}
    %a = Add(%x, %mask)
    %s: f32[2] = Softmax(%a) {axis = 0}
    return %s
  })",
                               {"assign-precision"}, {F32({2}, {1, 2})}, env.ctx, 1e-3);
  const Tensor *mask = FindOp(*m, "Add")->operand(1)->constant();
  ASSERT_NE(mask, nullptr);
  EXPECT_EQ(mask->AsDouble(1), -65504.0);
}

TEST(AssignPrecision, FactorsOutOfRangeStayOnTheHost) {
  Env env;
  auto m = Load(R"(module "m" {
    nodes { 0: Mul "mul" 1: Add "add" 2: Clip "clip" }
    graph (%x: f32[2]) {
      %k: f32[] = Constant() {value = dense<100000.0>}
      %e: f32[] = Constant() {value = dense<1e-12>}
      %h: f32[] = Constant() {value = dense<3.4028235e+38>}
      %z: f32[] = Constant() {value = dense<0.0>}
      %a: f32[2] = Mul(%x, %k) origin(0)
      %b: f32[2] = Add(%x, %e) origin(1)
      %c: f32[2] = Clip(%x, %z, %h) origin(2)
      return %a, %b, %c
    }
  })");
  RunList(*m, {"assign-precision"}, env.ctx);
  EXPECT_EQ(Rules(env.ctx, 0), "f16-range");
  EXPECT_EQ(Rules(env.ctx, 1), "f16-range");
  EXPECT_EQ(Rules(env.ctx, 2), "");
  EXPECT_EQ(FindOp(*m, "Clip")->operand(2), nullptr);
  EXPECT_EQ(env.diagnostics.WarningCount(), 2u);
}

// What a constant beyond the range has made large stays f32 until an operator compresses it, and so does what made the
// small value: log(1 + 2^20 * sqrt(x * x)). Multiplied back, it is common again.
TEST(AssignPrecision, LargeAndSmallValuesStayOnTheHost) {
  Env env;
  auto m = Load(R"(module "m" {
    nodes { 0: MatMul "product" 1: Mul "square" 2: Sqrt "root" 3: Mul "scale" 4: Add "shift" 5: Log "log" 6: Relu "next"
            7: Mul "back" 8: Abs "common" 9: Mul "in_range" 10: Neg "after" }
    graph (%x: f32[1,2]) {
      %w: f32[2,2] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0>}
      %k: f32[] = Constant() {value = dense<1048576.0>}
      %i: f32[] = Constant() {value = dense<0.00000095367431640625>}
      %t: f32[] = Constant() {value = dense<1000.0>}
      %one: f32[] = Constant() {value = dense<1.0>}
      %p: f32[1,2] = MatMul(%x, %w) origin(0)
      %q: f32[1,2] = Mul(%p, %p) origin(1)
      %r: f32[1,2] = Sqrt(%q) origin(2)
      %s: f32[1,2] = Mul(%r, %k) origin(3)
      %a: f32[1,2] = Add(%s, %one) origin(4)
      %l: f32[1,2] = Log(%a) origin(5)
      %n: f32[1,2] = Relu(%l) origin(6)
      %b: f32[1,2] = Mul(%s, %i) origin(7)
      %c: f32[1,2] = Abs(%b) origin(8)
      %d: f32[1,2] = Mul(%p, %t) origin(9)
      %e: f32[1,2] = Neg(%d) origin(10)
      return %n, %c, %e
    }
  })");
  RunList(*m, {"assign-precision"}, env.ctx);
  for (OriginId id : {1, 2, 3, 4, 5, 7})
    EXPECT_EQ(Rules(env.ctx, id), "f16-range") << id;
  for (OriginId id : {0, 6, 8, 9, 10})
    EXPECT_EQ(Rules(env.ctx, id), "") << id;
}

TEST(AssignPrecision, BiasStaysF32) {
  Env env;
  auto m = Load(R"(graph (%x: f32[1,1,1,1]) {
    %w: f32[1,1,1,1] = Constant() {value = dense<2.0>}
    %b: f32[1] = Constant() {value = dense<0.1>}
    %y = Conv(%x, %w, %b)
    return %y
  })");
  RunList(*m, {"assign-precision"}, env.ctx);
  const Node *conv = FindOp(*m, "Conv");
  EXPECT_EQ(conv->operand(1)->type().dtype(), DType::F16);
  EXPECT_EQ(conv->operand(2)->type().dtype(), DType::F32);
}

TEST(AssignPrecision, DequantizeMakesWhatIsRead) {
  Env env;
  env.npu.refuse = {"Exp"};
  auto m = Load(R"(graph (%q: u8[4]) {
    %s: f32[] = Constant() {value = dense<0.5>}
    %z: u8[] = Constant() {value = dense<3>}
    %a = DequantizeLinear(%q, %s, %z)
    %b = Neg(%a)
    %c = Exp(%a)
    return %b, %c
  })");
  RunList(*m, {"type-quantized", "assign-precision"}, env.ctx);
  EXPECT_EQ(FindOp(*m, "Neg")->operand(0)->def()->op().name, "Dequantize") << Text(*m);
  EXPECT_EQ(FindOp(*m, "Exp")->operand(0)->def()->op().name, "Dequantize");
  EXPECT_EQ(Count(*m, "Cast"), 1);
}

TEST(Partition, OneSegmentWhateverTheOrder) { // N117
  Env env;
  env.npu.refuse = {"Exp"};
  const auto m = RunAndCompare(R"(module "m" {
    nodes { 0: Neg "A" 1: Exp "U" 2: Abs "B" 3: Relu "C" 4: Add "D" }
    graph (%x: f32[1,4]) {
      %a: f32[1,4] = Neg(%x) origin(0)
      %u: f32[1,4] = Exp(%x) origin(1)
      %b: f32[1,4] = Abs(%a) origin(2)
      %c: f32[1,4] = Relu(%b) origin(3)
      %d: f32[1,4] = Add(%c, %u) origin(4)
      return %d
    }
  })",
                               {"assign-precision", "place-nodes", "order-segments"}, {F32({1, 4}, {1, 2, -3, 0.5})},
                               env.ctx, 2e-3);
  EXPECT_EQ(env.ctx.counters().find("partition: npu segments")->second, 1);
  int segments = 0;
  Placement last = Placement::Unassigned;
  for (const Node &n : m->main().nodes()) {
    if (n.is_constant() || n.is_return())
      continue;
    ASSERT_NE(n.placement(), Placement::Unassigned);
    segments += n.placement() == Placement::Npu && last != Placement::Npu;
    last = n.placement();
  }
  EXPECT_EQ(segments, 1) << Text(*m);
  EXPECT_EQ(Rules(env.ctx, 1), "no-lowering");
}

TEST(Partition, CheapIslandStaysOnTheHost) {
  for (const bool cheap : {true, false}) {
    Env env;
    env.npu.refuse = {"Exp", "Log"};
    const std::string dims = cheap ? "f32[4]" : "f32[1000,1000]";
    env.npu.cycles["Neg"] = cheap ? 100000 : 10;
    env.npu.cycles["Mul"] = 10;
    auto m = Load(R"(module "m" {
      nodes { 0: Exp "u" 1: Neg "island" 2: Log "v" }
      graph (%x: )" +
                  dims + R"() {
        %a: )" + dims +
                  R"( = Exp(%x) origin(0)
        %b: )" + dims +
                  R"( = Neg(%a) origin(1)
        %c: )" + dims +
                  R"( = Log(%b) origin(2)
        return %c
      }
    })");
    RunList(*m, {"assign-precision", "place-nodes", "order-segments"}, env.ctx);
    if (cheap) {
      EXPECT_EQ(FindOp(*m, "Neg")->placement(), Placement::Host);
      EXPECT_EQ(Rules(env.ctx, 1), "island");
      EXPECT_EQ(Count(*m, "Cast"), 0) << "it computes in f32 now\n" << Text(*m);
    }
  }
}

TEST(Partition, UserLists) {
  Env env;
  env.ctx.options.deny_ops.push_back(ParseOpSelector("Neg").value());
  env.ctx.options.deny_nodes.push_back("abs1");
  auto m = Load(R"(module "m" {
    nodes { 0: Neg "neg" 1: Abs "abs1" 2: Abs "abs2" }
    graph (%x: f32[4]) {
      %a: f32[4] = Neg(%x) origin(0)
      %b: f32[4] = Abs(%a) origin(1)
      %c: f32[4] = Abs(%b) origin(2)
      return %c
    }
  })");
  RunList(*m, {"assign-precision", "place-nodes", "order-segments"}, env.ctx);
  EXPECT_EQ(Rules(env.ctx, 0), "denied");
  EXPECT_EQ(Rules(env.ctx, 1), "denied");
  EXPECT_EQ(Rules(env.ctx, 2), "");
  EXPECT_EQ(m->main().output(0)->def()->placement(), Placement::Npu);
}

TEST(Partition, RefusedFusedIsUnfused) {
  Env env;
  auto m = Load(R"(graph (%x: f32[1,2,4,4]) {
    %w: f32[2,2,1,1] = Constant() {value = dense<1.0, -2.0, 3.0, -4.0>}
    %c = Conv(%x, %w)
    %y = Relu(%c)
    return %y
  })");
  const auto want = Eval(*m, {Noise({1, 2, 4, 4}, 1)});
  RunList(*m, {"assign-precision", "fuse-output-stages"}, env.ctx);
  ASSERT_EQ(Count(*m, "Fused"), 1);
  env.npu.refuse = {"Conv"};
  RunList(*m, {"place-nodes", "order-segments"}, env.ctx);
  EXPECT_EQ(Count(*m, "Fused"), 0);
  EXPECT_EQ(FindOp(*m, "Conv")->placement(), Placement::Host);
  EXPECT_EQ(FindOp(*m, "Conv")->result()->type().dtype(), DType::F32);
  ExpectSame(Eval(*m, {Noise({1, 2, 4, 4}, 1)})[0], want[0], 4e-3);
}

const std::vector<std::string> kPlace = {"assign-precision", "fuse-output-stages", "place-nodes", "order-segments",
                                         "assign-layouts"};

TEST(AssignLayouts, ChannelsLastModelEndsWithoutCopies) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,5,7,3]) {
    %w: f32[4,3,1,1] = Constant() {value = splat<0.5>}
    %v: f32[2,4,3,3] = Constant() {value = splat<0.25>}
    %a = Transpose(%x) {perm = [0, 3, 1, 2]}
    %b = Conv(%a, %w)
    %c = Abs(%b)
    %d = Conv(%c, %v) {pads = [1, 1, 1, 1]}
    %e = Transpose(%d) {perm = [0, 2, 3, 1]}
    %f = Relu(%e)
    return %f
  })",
                               kPlace, {Noise({1, 5, 7, 3}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(Count(*m, "Relayout"), 0) << Text(*m);
  EXPECT_EQ(env.ctx.counters().find("layout: transposes removed")->second, 2);
  EXPECT_EQ(env.ctx.counters().count("layout: transposes left"), 0u);
}

TEST(AssignLayouts, ConversionsAtTheEdges) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,3,5,7]) {
    %w: f32[4,3,1,1] = Constant() {value = splat<0.5>}
    %b = Conv(%x, %w)
    %c = Abs(%b)
    %d = Sigmoid(%c)
    return %d, %c
  })",
                               kPlace, {Noise({1, 3, 5, 7}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(env.ctx.counters().find("layout: conversions")->second, 2) << Text(*m);
  for (unsigned i = 0; i < 2; ++i)
    EXPECT_EQ(m->main().output(i)->type().layout(), Layout::RowMajor);
  EXPECT_EQ(m->main().input(0)->type().layout(), Layout::RowMajor);
}

TEST(AssignLayouts, ConvertsWhereTheTensorIsSmall) {
  Env env;
  // Conv (NHWC) -> Abs -> pool to 2x2 -> Abs -> Reshape (rows): the conversion belongs behind the pool.
  const auto m = RunAndCompare(R"(graph (%x: f32[1,3,8,8]) {
    %w: f32[4,3,1,1] = Constant() {value = splat<0.5>}
    %s: i64[2] = Constant() {value = dense<1, 16>}
    %b = Conv(%x, %w)
    %c = Abs(%b)
    %p = MaxPool(%c) {kernel_shape = [4, 4], strides = [4, 4]}
    %e = Neg(%p)
    %f = Reshape(%e, %s)
    return %f
  })",
                               kPlace, {Noise({1, 3, 8, 8}, 1)}, env.ctx, 4e-3);
  ASSERT_EQ(env.ctx.counters().find("layout: conversions")->second, 2) << Text(*m);
  int seen = 0;
  for (const Node &n : m->main().nodes())
    if (n.Is("Relayout", "npuc") && n.result()->type().layout() == Layout::RowMajor) {
      EXPECT_EQ(n.result()->type().shape().static_dims()[2], 2);
      ++seen;
    }
  EXPECT_EQ(seen, 1);
}

TEST(AssignLayouts, ReshapeSeesOnnxOrder) { // N057, N058
  Env env;
  RunAndCompare(R"(graph (%x: f32[1,8,4,6]) {
    %w: f32[8,8,1,1] = Constant() {value = splat<0.125>}
    %v: f32[8,4,1,1] = Constant() {value = splat<0.5>}
    %s: i64[5] = Constant() {value = dense<1, 2, 4, 4, 6>}
    %t: i64[4] = Constant() {value = dense<1, 8, 4, 6>}
    %a = Conv(%x, %w)
    %b = Reshape(%a, %s)
    %c = Transpose(%b) {perm = [0, 2, 1, 3, 4]}
    %d = Reshape(%c, %t)
    %e = Conv(%d, %v) {group = 2}
    return %e, %d
  })",
                kPlace, {Noise({1, 8, 4, 6}, 1)}, env.ctx, 4e-3);
}

TEST(ReshapeChannelsLast, OneRearrangementIsLeftOfAShuffle) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,8,4,6]) {
    %w: f32[8,8,1,1] = Constant() {value = splat<0.125>}
    %v: f32[8,4,1,1] = Constant() {value = splat<0.5>}
    %s: i64[5] = Constant() {value = dense<1, 2, 4, 4, 6>}
    %t: i64[4] = Constant() {value = dense<1, 8, 4, 6>}
    %a = Conv(%x, %w)
    %b = Reshape(%a, %s)
    %c = Transpose(%b) {perm = [0, 2, 1, 3, 4]}
    %d = Reshape(%c, %t)
    %e = Conv(%d, %v) {group = 2}
    return %e
  })",
                               {"assign-precision", "reshape-channels-last", "remove-identities",
                                "eliminate-dead-nodes", "place-nodes", "order-segments", "assign-layouts"},
                               {Noise({1, 8, 4, 6}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(env.ctx.counters().find("layout: conversions")->second, 2) << Text(*m);
  EXPECT_EQ(env.ctx.counters().find("layout: transposes left")->second, 1);
  EXPECT_EQ(env.ctx.counters().find("layout: transposes removed")->second, 2);
}

TEST(ReshapeChannelsLast, DetectionHeadsAndTokens) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,6,4,5]) {
    %w: f32[6,6,1,1] = Constant() {value = splat<0.125>}
    %s: i64[3] = Constant() {value = dense<1, 6, 20>}
    %t: i64[5] = Constant() {value = dense<1, 2, 3, 4, 5>}
    %a = Conv(%x, %w)
    %b = Reshape(%a, %s)
    %c = Transpose(%b) {perm = [0, 2, 1]}
    %d = Reshape(%a, %t)
    %e = Transpose(%d) {perm = [0, 1, 3, 4, 2]}
    return %c, %e
  })",
                               {"assign-precision", "reshape-channels-last", "remove-identities",
                                "eliminate-dead-nodes", "place-nodes", "order-segments", "assign-layouts"},
                               {Noise({1, 6, 4, 5}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(env.ctx.counters().find("layout: conversions")->second, 1) << "the input's\n" << Text(*m);
  EXPECT_EQ(env.ctx.counters().find("layout: transposes left")->second, 1);
}

TEST(AssignLayouts, EitherWayFree) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,30,1,4]) {
    %w: f32[6,4,3,1] = Constant() {value = splat<0.125>}
    %a = Transpose(%x) {perm = [0, 3, 1, 2]}
    %b = Conv(%a, %w)
    %c = Transpose(%b) {perm = [0, 2, 3, 1]}
    return %c
  })",
                               kPlace, {Noise({1, 30, 1, 4}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(Count(*m, "Relayout"), 0) << Text(*m);
}

TEST(ShuffleChannels, PiecesAreSlices) {
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,6,2,3]) {
    %s: i64[3] = Constant() {value = dense<3, 2, 6>}
    %t: i64[5] = Constant() {value = dense<2, 1, 3, 2, 3>}
    %i0: i64[] = Constant() {value = dense<0>}
    %i1: i64[] = Constant() {value = dense<-1>}
    %b = Reshape(%x, %s)
    %c = Transpose(%b) {perm = [1, 0, 2]}
    %d = Reshape(%c, %t)
    %p = Gather(%d, %i0) {axis = 0}
    %q = Gather(%d, %i1) {axis = 0}
    return %p, %q
  })",
                               {"shuffle-channels"}, {Iota({1, 6, 2, 3})}, env.ctx);
  EXPECT_EQ(Count(*m, "Slice"), 2);
  EXPECT_EQ(Count(*m, "Gather") + Count(*m, "Transpose"), 0);
}

TEST(FlattenChannelsLast, PermutesTheWeights) {
  for (const bool trans : {false, true}) {
    Env env;
    std::string v;
    for (int i = 0; i < 48; ++i)
      v += (i ? ", " : "") + std::to_string(i * 7 % 48) + ".0";
    const auto m =
        RunAndCompare(R"(graph (%x: f32[1,3,2,4]) {
      %k: f32[3,3,1,1] = Constant() {value = dense<1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0>}
      %w: f32[)" + std::string(trans ? "2,24" : "24,2") +
                          "] = Constant() {value = dense<" + v + R"(>}
      %a = Conv(%x, %k)
      %r = Relu(%a)
      %f = Flatten(%r)
      %y = Gemm(%f, %w) {transB = )" +
                          (trans ? "1" : "0") + R"(}
      return %y
    })",
                      {"flatten-channels-last", "assign-precision", "place-nodes", "order-segments", "assign-layouts"},
                      {Noise({1, 3, 2, 4}, 1)}, env.ctx, 6e-3);
    EXPECT_EQ(env.ctx.counters().count("layout: weights permuted"), 1u);
    EXPECT_EQ(env.ctx.counters().find("layout: conversions")->second, 1) << "the input's\n" << Text(*m);
  }
}

TEST(AssignLayouts, BranchesOfAConcat) { // N060
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,3,5,7]) {
    %w: f32[3,3,1,1] = Constant() {value = splat<0.5>}
    %c = Conv(%x, %w)
    %a = Sigmoid(%c)
    %t = Transpose(%c) {perm = [0, 2, 3, 1]}
    %s = Softmax(%t) {axis = -1}
    %u = Transpose(%s) {perm = [0, 3, 1, 2]}
    %z = Concat(%a, %c, %u) {axis = 1}
    %v: f32[2,9,1,1] = Constant() {value = splat<0.5>}
    %y = Conv(%z, %v)
    return %y
  })",
                               kPlace, {Noise({1, 3, 5, 7}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(env.ctx.counters().find("layout: transposes removed")->second, 2) << Text(*m);
}

TEST(AssignLayouts, NativeIoTakesTheNpusOwnLayout) {
  Env env;
  env.ctx.options.native_io = true;
  auto m = Load(R"(graph (%x: f32[1,3,5,7]) {
    %w: f32[4,3,1,1] = Constant() {value = splat<0.5>}
    %b = Conv(%x, %w)
    return %b
  })");
  RunList(*m, kPlace, env.ctx);
  EXPECT_EQ(Count(*m, "Relayout"), 0) << Text(*m);
  EXPECT_EQ(m->main().input(0)->type().layout(), Layout::NHWC);
}

TEST(NativeIo, TakesTheConversionsAway) {
  Env env;
  env.ctx.options.native_io = true;
  auto m = Load(R"(graph (%x: f32[4], %q: u8[4], %z: f32[4]) {
    %s: f32[] = Constant() {value = dense<0.5>}
    %n: u8[] = Constant() {value = dense<3>}
    %a = Neg(%x)
    %d = DequantizeLinear(%q, %s, %n)
    %e = Add(%d, %d)
    %f = QuantizeLinear(%e, %s, %n)
    %g = QuantizeLinear(%z, %s, %n)
    return %a, %f, %g
  })");
  RunList(*m, {"type-quantized", "convert-qdq", "assign-precision", "place-nodes", "order-segments", "native-io"},
          env.ctx);
  const Graph &g = m->main();
  EXPECT_EQ(g.input(0)->type().ToString(), "f16[4]");
  EXPECT_EQ(g.input(1)->type().ToString(), "u8[4]{s=0.5,z=3}");
  EXPECT_EQ(g.input(2)->type().ToString(), "u8[4]{s=0.5,z=3}");
  EXPECT_EQ(g.output(0)->type().ToString(), "f16[4]");
  EXPECT_EQ(g.output(1)->type().ToString(), "u8[4]{s=0.5,z=3}");
  EXPECT_EQ(g.output(2), g.input(2));
  EXPECT_EQ(g.output_names(), (std::vector<std::string>{"a", "f", "g"}));
  EXPECT_TRUE(Verify(*m).ok());
}

TEST(AssignLayouts, OnePixelIsTheSameInEveryLayout) { // N065's shape
  Env env;
  const auto m = RunAndCompare(R"(graph (%x: f32[1,10,1,1]) {
    %w: f32[10,10,1,1] = Constant() {value = splat<0.5>}
    %c = Conv(%x, %w)
    %y = Softmax(%c) {axis = 1}
    return %y
  })",
                               kPlace, {Noise({1, 10, 1, 1}, 1)}, env.ctx, 4e-3);
  EXPECT_EQ(env.ctx.counters().count("layout: conversions"), 0u) << Text(*m);
}

TEST(Pipeline, WholeOnAScaledUpChain) {
  // 20,000 nodes in seconds: nothing is quadratic.
  Env env;
  Module m;
  Graph &g = m.main();
  Value *v = g.AddInput("x", Type::Tensor(DType::F32, Shape({1, 4, 4, 4})));
  Value *w = g.AddConstant(Noise({4, 4, 1, 1}, 1, -0.25, 0.25), "w");
  for (int i = 0; i < 5000; ++i) {
    v = g.AddNode(LookupOp("", "Conv"), {v, w}, 1, {})->result();
    v = g.AddNode(LookupOp("", "Relu"), {v}, 1, {})->result();
    Value *s = g.AddNode(LookupOp("", "Sigmoid"), {v}, 1, {})->result();
    v = g.AddNode(LookupOp("", "Mul"), {v, s}, 1, {})->result();
  }
  g.AddOutput(v, "y");
  const Status s = RunPasses(m, DefaultPipeline(env.ctx.options), env.ctx);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(Count(m, "Conv"), 5000);
  EXPECT_EQ(Count(m, "Fused"), 5000);
}

} // namespace
} // namespace npuc::testing
