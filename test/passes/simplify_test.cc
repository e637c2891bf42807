// Folding, identities, common subexpressions, bounds. Expected numbers are worked out by hand from the operators'
// definitions.
#include "test/passes/testing.h"

namespace npuc::testing {
namespace {

const std::vector<std::string> kSimplify = {"fold-constants", "remove-identities", "merge-equal-nodes",
                                            "eliminate-dead-nodes"};

TEST(FoldConstants, IntegerDivisionTruncates) { // N029
  Env env;
  auto m = Load(R"(graph () {
    %a: i64[4] = Constant() {value = dense<8, -8, 7, -7>}
    %b: i64[4] = Constant() {value = dense<-3, 3, -2, 2>}
    %y = Div(%a, %b)
    return %y
  })");
  RunList(*m, kSimplify, env.ctx);
  EXPECT_EQ(Count(*m, "Div"), 0);
  ExpectClose(*m->main().output(0)->constant(), {-2, -2, -3, -3});
}

TEST(FoldConstants, DivisionByZeroIsLeftForTheRun) { // N029
  Env env;
  auto m = Load(R"(graph () {
    %a: i32[1] = Constant() {value = dense<1>}
    %b: i32[1] = Constant() {value = dense<0>}
    %y = Div(%a, %b)
    return %y
  })");
  RunList(*m, kSimplify, env.ctx);
  EXPECT_EQ(Count(*m, "Div"), 1);
}

TEST(FoldConstants, ClipWithoutMaximumOnIntegers) { // N026
  Env env;
  auto m = Load(R"(graph () {
    %x: i32[3] = Constant() {value = dense<0, 5, 10>}
    %one: i32[] = Constant() {value = dense<1>}
    %h: i32[] = Constant() {value = dense<100>}
    %c = Clip(%x, %one)
    %y = Div(%h, %c)
    return %y
  })");
  RunList(*m, kSimplify, env.ctx);
  ASSERT_NE(m->main().output(0)->constant(), nullptr);
  ExpectClose(*m->main().output(0)->constant(), {100, 20, 10});
}

TEST(FoldConstants, ShapesOfPartlyDynamicTensors) {
  Env env;
  auto m = Load(R"(graph (%x: f32[n,3,4]) {
    %s = Shape(%x)
    %i: i64[] = Constant() {value = dense<2>}
    %d = Gather(%s, %i) {axis = 0}
    return %d, %s
  })");
  RunList(*m, kSimplify, env.ctx);
  ASSERT_NE(m->main().output(0)->constant(), nullptr);
  ExpectClose(*m->main().output(0)->constant(), {4});
  EXPECT_EQ(m->main().output(1)->constant(), nullptr) << "n is not known";
}

TEST(FoldConstants, EverythingGoes) { // N022
  Env env;
  auto m = Load(R"(graph (%x: f32[2,3]) {
    %y = Shape(%x)
    return %y
  })");
  RunList(*m, kSimplify, env.ctx);
  EXPECT_EQ(m->main().output_names()[0], "y");
  ASSERT_NE(m->main().output(0)->constant(), nullptr);
  ExpectClose(*m->main().output(0)->constant(), {2, 3});
}

TEST(FoldConstants, SplatsStaySplats) {
  Env env;
  auto m = Load(R"(graph () {
    %s: i64[4] = Constant() {value = dense<1000, 1000, 100, 100>}
    %c = ConstantOfShape(%s) {value = dense<f32[1]: 3.0>}
    %two: f32[] = Constant() {value = dense<2.0>}
    %y = Mul(%c, %two)
    return %y
  })");
  RunList(*m, kSimplify, env.ctx);
  const Tensor *t = m->main().output(0)->constant();
  ASSERT_NE(t, nullptr);
  EXPECT_TRUE(t->is_splat());
  EXPECT_EQ(t->num_elements(), 10000000000);
  EXPECT_EQ(t->AsDouble(0), 6.0);
}

TEST(FoldConstants, HugeResultsAreNotMade) {
  Env env;
  auto m = Load(R"(graph () {
    %x: f32[2] = Constant() {value = dense<1.0, 2.0>}
    %r: i64[1] = Constant() {value = dense<100000000>}
    %y = Tile(%x, %r)
    return %y
  })");
  RunList(*m, kSimplify, env.ctx);
  EXPECT_EQ(Count(*m, "Tile"), 1);
}

TEST(FoldConstants, IfWithKnownCondition) {
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2]) {
    %c: bool[] = Constant() {value = dense<true>}
    %d: bool[] = Constant() {value = dense<false>}
    %y: f32[2] = If(%c) graph () {
      %inner: f32[2] = If(%d) graph () {
        %p = Exp(%x)
        return %p
      } graph () {
        %q = Neg(%x)
        return %q
      }
      %r = Relu(%inner)
      return %r
    } graph () {
      %e = Exp(%x)
      return %e
    }
    %z = Add(%y, %x)
    return %z, %y
  })",
                         kSimplify, {F32({2}, {-1, 2})}, env.ctx);
  EXPECT_EQ(Count(*m, "If"), 0);
  EXPECT_EQ(Count(*m, "Exp"), 0);
  EXPECT_EQ(m->main().output(1)->name(), "y");
}

TEST(FoldConstants, IfThatHandsThroughAnOuterValue) {
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2]) {
    %c: bool[] = Constant() {value = dense<true>}
    %y: f32[2] = If(%c) graph () {
      return %x
    } graph () {
      %e = Exp(%x)
      return %e
    }
    %z = Neg(%y)
    return %z
  })",
                         kSimplify, {F32({2}, {-1, 2})}, env.ctx);
  EXPECT_EQ(Count(*m, "If"), 0);
}

TEST(MergeEqualNodes, OnlyEqualBits) { // N018
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2], %y: f32[2]) {
    %two: f32[] = Constant() {value = dense<2.0>}
    %four: f32[] = Constant() {value = dense<4.0>}
    %a = Div(%x, %two)
    %b = Mul(%y, %four)
    %z = Add(%a, %b)
    return %z
  })",
                         kSimplify, {F32({2}, {2, 4}), F32({2}, {1, 3})}, env.ctx);
  ExpectClose(Eval(*m, {F32({2}, {2, 4}), F32({2}, {1, 3})})[0], {5, 14});
  auto bits = Load(R"(graph (%x: f32[1], %i: i32[1]) {
    %one: f32[1] = Constant() {value = dense<1.0>}
    %same: i32[1] = Constant() {value = dense<1065353216>}
    %p: f32[1] = Constant() {value = dense<0.0>}
    %n: f32[1] = Constant() {value = dense<-0.0>}
    %a = Pow(%one, %x)
    %b = Add(%same, %i)
    %c = Div(%x, %p)
    %d = Div(%x, %n)
    return %a, %b, %c, %d
  })");
  RunList(*bits, {"merge-equal-nodes"}, env.ctx);
  EXPECT_EQ(Count(*bits, "Constant"), 4);
}

TEST(MergeEqualNodes, MergesAndKeepsOutputNames) {
  Env env;
  auto m = Load(R"(graph (%x: f32[2]) {
    %a = Sigmoid(%x) 
    %b = Sigmoid(%x)
    %c = Add(%a, %b)
    return %b, %c
  })");
  RunList(*m, kSimplify, env.ctx);
  EXPECT_EQ(Count(*m, "Sigmoid"), 1);
  EXPECT_EQ(m->main().output(0)->name(), "b");
}

TEST(RemoveIdentities, NeutralConstantsThatBroadcastStay) { // N014
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[4], %z: f32[1,4]) {
    %zeros: f32[3,4] = Constant() {value = splat<0.0>}
    %ones: f32[2,1,1] = Constant() {value = splat<1.0>}
    %zero: f32[4] = Constant() {value = splat<0.0>}
    %a = Add(%x, %zeros)
    %b = Mul(%z, %ones)
    %c = Add(%zero, %x)
    return %a, %b, %c
  })",
                         kSimplify, {Iota({4}), Iota({1, 4})}, env.ctx);
  EXPECT_EQ(Count(*m, "Add"), 1);
  EXPECT_EQ(Count(*m, "Mul"), 1);
}

TEST(RemoveIdentities, ConsecutiveTransposes) { // N016
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2,3,4], %y: f32[2,3,5]) {
    %a = Transpose(%x) {perm = [1, 0, 2]}
    %b = Transpose(%a) {perm = [0, 2, 1]}
    %c = Transpose(%y) {perm = [0, 2, 1]}
    %d = Transpose(%c) {perm = [1, 0, 2]}
    %e = Transpose(%a) {perm = [1, 0, 2]}
    %f = Neg(%e)
    return %b, %d, %f
  })",
                         kSimplify, {Iota({2, 3, 4}), Iota({2, 3, 5})}, env.ctx);
  ASSERT_EQ(Count(*m, "Transpose"), 2) << Text(*m);
  EXPECT_EQ(m->main().output(0)->def()->attrs().Ints("perm"), llvm::ArrayRef<int64_t>({1, 2, 0}));
  EXPECT_EQ(m->main().output(1)->def()->attrs().Ints("perm"), llvm::ArrayRef<int64_t>({2, 0, 1}));
  EXPECT_EQ(m->main().output(0)->type().shape().static_dims(), (Dims{3, 4, 2}));
}

TEST(RemoveIdentities, CastThenMulByOne) { // N020
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2], %z: f32[2]) {
    %one: f32[] = Constant() {value = dense<1.0>}
    %mid = Cast(%x) {to = 1}
    %y = Mul(%mid, %one)
    %d = Div(%one, %x)
    %w = Mul(%d, %z)
    return %y, %w
  })",
                         kSimplify, {F32({2}, {2, 4}), F32({2}, {1, 3})}, env.ctx);
  EXPECT_EQ(Count(*m, "Cast"), 0);
  EXPECT_EQ(Count(*m, "Mul"), 1);
}

TEST(RemoveIdentities, OutputsKeepTheirNames) { // N023
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2]) {
    %y = Identity(%x)
    %a = Add(%x, %x)
    %b = Identity(%a)
    return %y, %a, %b
  })",
                         kSimplify, {F32({2}, {2, 4})}, env.ctx);
  EXPECT_EQ(Count(*m, "Identity"), 0);
  EXPECT_EQ(m->main().output_names(), (std::vector<std::string>{"y", "a", "b"}));
  EXPECT_EQ(m->main().output(1)->name(), "a");
}

TEST(RemoveIdentities, ReversedSliceIsNone) {
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[3]) {
    %s: i64[1] = Constant() {value = dense<-1>}
    %e: i64[1] = Constant() {value = dense<-9>}
    %a: i64[1] = Constant() {value = dense<0>}
    %y = Slice(%x, %s, %e, %a, %s)
    return %y
  })",
                         kSimplify, {Iota({3})}, env.ctx);
  EXPECT_EQ(Count(*m, "Slice"), 1);
}

TEST(RemoveIdentities, ViewsOfViews) {
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[2,3,4]) {
    %s: i64[2] = Constant() {value = dense<6, 4>}
    %a: i64[1] = Constant() {value = dense<0>}
    %b = Reshape(%x, %s)
    %c = Unsqueeze(%b, %a)
    %t: i64[3] = Constant() {value = dense<2, 3, 4>}
    %d = Reshape(%c, %t)
    %y = Neg(%d)
    return %c, %y
  })",
                         kSimplify, {Iota({2, 3, 4})}, env.ctx);
  EXPECT_EQ(Count(*m, "Reshape"), 1);
  EXPECT_EQ(Count(*m, "Unsqueeze"), 0);
}

TEST(RemoveIdentities, OperandOrderStays) { // N017
  Env env;
  auto m =
      RunAndCompare(R"(graph (%x: f32[1]) {
    %one: f32[] = Constant() {value = dense<1.0>}
    %a = Add(%x, %one)
    %y = Sub(%x, %a)
    return %y
  })",
                    {"fold-constants", "remove-identities", "merge-equal-nodes", "fold-affine", "form-activations"},
                    {F32({1}, {5})}, env.ctx);
  ExpectClose(Eval(*m, {F32({1}, {5})})[0], {-1});
}

TEST(MergeClips, Chains) {
  Env env;
  auto m = RunAndCompare(R"(graph (%x: f32[7]) {
    %six: f32[] = Constant() {value = dense<6.0>}
    %m1: f32[] = Constant() {value = dense<-1.0>}
    %two: f32[] = Constant() {value = dense<2.0>}
    %r = Relu(%x)
    %a = Min(%r, %six)
    %b = Max(%x, %two)
    %c = Clip(%b, %m1, %six)
    %d = Relu(%x)
    %e = Clip(%d, %m1, %two)
    return %a, %c, %e, %d
  })",
                         {"merge-clips", "eliminate-dead-nodes"}, {F32({7}, {-9, -1, 0, 1, 3, 6, 9})}, env.ctx);
  EXPECT_EQ(Count(*m, "Min") + Count(*m, "Max"), 0);
  EXPECT_EQ(Count(*m, "Clip"), 3);
  EXPECT_EQ(Count(*m, "Relu"), 1) << "an output stays";
}

} // namespace
} // namespace npuc::testing
