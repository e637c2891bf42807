// Models that other compilers got wrong, each with the value that the specification gives, through the whole product:
// compiled as host steps (fp32) and lowered (auto), then run from the model file. N...: the case's number.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "backend/report/render.h"
#include "test/pipeline/run_case.h"

namespace npuc::test {
namespace {

using ::testing::ElementsAre;
std::vector<float> Range(int n, float first = 1) {
  return AsFloats(Counting({n}, first));
}

// ---- Control flow

// N031: a branch reads an initializer that only the outer graph has.
TEST(Cases, BranchReadsOuterInitializer) {
  for (bool taken : {true, false}) {
    ModelBuilder b(17);
    b.In("cond", {}, DType::Bool).Out("y").Init("const_1", Floats({2}, {1, 2}));
    GraphBuilder then_g, else_g;
    then_g.Out("t").Node("Identity", {"const_1"}, {"t"});
    else_g.Out("e").Node("Neg", {"const_1"}, {"e"});
    b.Node("If", {"cond"}, {"y"}, {G("then_branch", then_g.g), G("else_branch", else_g.g)});
    Tensor cond = Tensor::Allocate(DType::Bool, {});
    *cond.mutable_bytes() = taken;
    Expect(b, {cond}, {{{2}, taken ? std::vector<float>{1, 2} : std::vector<float>{-1, -2}}});
  }
}

// N113 and N114: scan outputs hold each turn's value; the body's condition is a constant, a branch only one too.
TEST(Cases, LoopScansAndConstantBodies) {
  ModelBuilder b(17);
  b.In("v0", {1}).Out("v").Out("scan").Init("m", Int64s({}, {3})).Init("one", Floats({1}, {1}));
  GraphBuilder body;
  body.In("i", {}, DType::I64).In("c", {}, DType::Bool).In("v_in", {1}).Out("c_out").Out("v_out").Out("s");
  Tensor yes = Tensor::Allocate(DType::Bool, {});
  *yes.mutable_bytes() = 1;
  body.Node("Constant", {}, {"c_out"}, {T("value", yes)});
  body.Node("Identity", {"v_in"}, {"s"});
  body.Node("Add", {"v_in", "one"}, {"v_out"});
  b.Node("Loop", {"m", "", "v0"}, {"v", "scan"}, {G("body", body.g)});
  Expect(b, {Floats({1}, {0})}, {{{1}, {3}}, {{3, 1}, {0, 1, 2}}});

  for (bool taken : {true, false}) {
    ModelBuilder f(17);
    f.In("cond", {}, DType::Bool).In("x", {2}).Out("y").Out("z");
    GraphBuilder then_g, else_g;
    then_g.Out("t").Out("u");
    then_g.Node("Constant", {}, {"t"}, {T("value", Floats({2}, {7, 8}))});
    then_g.Node("Constant", {}, {"u"}, {T("value", Floats({1}, {9}))});
    else_g.Out("e").Out("g").Init("ten", Floats({1}, {10}));
    else_g.Node("Add", {"x", "x"}, {"e"});
    else_g.Node("Identity", {"ten"}, {"g"});
    f.Node("If", {"cond"}, {"y", "z"}, {G("then_branch", then_g.g), G("else_branch", else_g.g)});
    Tensor cond = Tensor::Allocate(DType::Bool, {});
    *cond.mutable_bytes() = taken;
    Expect(f, {cond, Floats({2}, {1, 2})},
           {{{2}, taken ? std::vector<float>{7, 8} : std::vector<float>{2, 4}}, {{1}, {taken ? 9.f : 10.f}}});
  }
}

// Loops of known turns are unrolled: their products run on the NPU. A condition that the run decides keeps the loop
// whole.
TEST(Cases, LoopsOnTheNpu) {
  for (bool data_dependent : {false, true}) {
    ModelBuilder b(17);
    b.In("s0", {1, 16}).Out("s").Out("all").Init("m", Int64s({}, {3})).Init("big", Floats({1, 1}, {1e4f}));
    std::vector<float> twice(256, 0);
    for (int i = 0; i < 16; ++i)
      twice[i * 17] = 2;
    b.Init("w", Floats({16, 16}, twice)).Init("one", Floats({1}, {1}));
    GraphBuilder body;
    body.In("i", {}, DType::I64).In("c", {}, DType::Bool).In("a", {1, 16}).Out("c_out").Out("r").Out("p");
    body.Node("MatMul", {"a", "w"}, {"twice"});
    body.Node("Cast", {"i"}, {"turn"}, {I("to", 1)});
    body.Node("Add", {"twice", "turn"}, {"r"});
    body.Node("Identity", {"twice"}, {"p"});
    if (data_dependent) {
      body.Node("ReduceSum", {"r"}, {"sum"}, {I("keepdims", 0)});
      body.Node("Less", {"sum", "big"}, {"less"});
      body.Node("Squeeze", {"less"}, {"c_out"});
    } else {
      body.Node("Identity", {"c"}, {"c_out"});
    }
    b.Node("Loop", {"m", "", "s0"}, {"s", "all"}, {G("body", body.g)});
    // x -> 2x + 0 -> 4x + 1 -> 8x + 2 + 2
    std::vector<float> last, all(48);
    for (int k = 0; k < 16; ++k) {
      const float x = static_cast<float>(k);
      last.push_back(8 * x + 4);
      all[k] = 2 * x, all[16 + k] = 4 * x, all[32 + k] = 8 * x + 2;
    }
    Expect(b, {Counting({1, 16}, 0)}, {{{1, 16}, last}, {{3, 1, 16}, all}});
    CompilerOptions options;
    options.model = WriteModel(b);
    DiagnosticEngine diagnostics;
    auto made = Compile(options, diagnostics);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->report.coverage.mac_percent > 99, !data_dependent);
  }
}

// Ifs that the run decides: both branches are on the NPU, and the condition chooses. A branch that could fail when it
// is not taken (an index that the run gives) keeps the If on the host, which runs one branch alone.
TEST(Cases, IfsOnTheNpu) {
  for (bool may_fail : {false, true})
    for (bool taken : {false, true}) {
      SCOPED_TRACE(fmt::format("may_fail {} taken {}", may_fail, taken));
      ModelBuilder b(17);
      b.In("x", {2, 16}).In("c", {1}, DType::Bool).In("k", {2}, DType::I64).Out("y");
      std::vector<float> twice(256, 0), thrice(256, 0);
      for (int i = 0; i < 16; ++i)
        twice[i * 17] = 2, thrice[i * 17] = 3;
      b.Init("w2", Floats({16, 16}, twice)).Init("w3", Floats({16, 16}, thrice));
      GraphBuilder then_g, else_g;
      then_g.Out("t").Node("MatMul", {"x", "w2"}, {"t"});
      else_g.Out("e");
      if (may_fail)
        else_g.Node("Gather", {"x", "k"}, {"rows"});
      else_g.Node("MatMul", {may_fail ? "rows" : "x", "w3"}, {"e"});
      b.Node("If", {"c"}, {"y"}, {G("then_branch", then_g.g), G("else_branch", else_g.g)});
      Tensor condition = Tensor::Allocate(DType::Bool, {1});
      *condition.mutable_bytes() = taken;
      std::vector<float> want;
      for (int i = 0; i < 32; ++i)
        want.push_back(static_cast<float>(i * (taken ? 2 : 3)));
      // Out of range where that is not to be looked at.
      Expect(b, {Counting({2, 16}, 0), condition, taken ? Int64s({2}, {7, 9}) : Int64s({2}, {0, 1})},
             {{{2, 16}, want}});
      CompilerOptions options;
      options.model = WriteModel(b);
      DiagnosticEngine diagnostics;
      auto made = Compile(options, diagnostics);
      ASSERT_TRUE(made.ok());
      EXPECT_EQ(made->report.coverage.mac_percent, may_fail ? 0 : 100);
    }
}

// Free dims hide how much a node multiplies: that all of it runs on the host is 0 %, not "nothing to cover".
TEST(Cases, UnknownMacsAreNotCovered) {
  ModelBuilder b(17);
  b.In("x", {1, 1, "h", "w"}).Out("y").Init("k", Floats({1, 1, 1, 1}, {2})).Init("k2", Floats({1, 1, 1, 1}, {3}));
  b.Node("Conv", {"x", "k"}, {"t"});
  b.Node("Conv", {"t", "k2"}, {"y"});
  CompilerOptions options;
  options.model = WriteModel(b);
  DiagnosticEngine diagnostics;
  auto made = Compile(options, diagnostics);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->report.coverage.nodes_host, 2);
  EXPECT_EQ(made->report.coverage.mac_percent, 0);
  // Each node breaks the rule at two tensors and counts once.
  const std::string text = report::RenderText(made->report);
  EXPECT_NE(text.find(" 2 x [dynamic-shape]"), std::string::npos) << text;
}

// A Scan from the other end, its outputs in either order.
TEST(Cases, ScanOnTheNpu) {
  ModelBuilder b(17);
  b.In("s0", {2}).In("x", {3, 2}).Out("s").Out("y");
  GraphBuilder body;
  body.In("a", {2}).In("e", {2}).Out("r").Out("o");
  body.Node("Add", {"a", "e"}, {"r"}).set_name("sum");
  body.Node("Mul", {"r", "e"}, {"o"});
  b.Node("Scan", {"s0", "x"}, {"s", "y"},
         {G("body", body.g), I("num_scan_inputs", 1), Is("scan_input_directions", {1}),
          Is("scan_output_directions", {1}), Is("scan_output_axes", {-1})});
  // Elements (5,6), (3,4), (1,2): sums (5,6), (8,10), (9,12); products (25,36), (24,40), (9,24), the last one first.
  Expect(b, {Floats({2}, {0, 0}), Counting({3, 2})}, {{{2}, {9, 12}}, {{2, 3}, {9, 24, 25, 24, 40, 36}}});
}

// ---- Constant folding

// N021: an initializer that is an input too is frozen, which the compiler says; before IR version 4 it is a constant.
TEST(Cases, DefaultedInputIsFrozenAloud) {
  for (int64_t ir : {8, 3}) {
    ModelBuilder b(17, ir);
    b.In("x", {2}).In("k", {1}).Out("y").Init("k", Floats({1}, {2})).Init("one", Floats({1}, {1}));
    if (ir < 4)
      b.In("one", {1});
    b.Node("Add", {"k", "one"}, {"s"});
    b.Node("Mul", {"x", "s"}, {"y"});
    Expect(b, {Floats({2}, {1, -2})}, {{{2}, {3, -6}}});
    ASSERT_TRUE(b.Get());
    bool said = false;
    for (const Diagnostic &d : b.diagnostics.All())
      said |= d.severity == Severity::note && d.message.find("'k'") != std::string::npos;
    EXPECT_EQ(said, ir >= 4);
  }
}

// ---- Run-time operators

// N050: negative pads crop; reflection out of a source that is used up does not read outside.
TEST(Cases, NegativePads) {
  ModelBuilder b(13);
  b.In("x", {1, 1, 4, 4}).Out("y").Init("p", Int64s({8}, {0, 0, -1, 2, 0, 0, 2, -1}));
  b.Node("Pad", {"x", "p"}, {"y"});
  Expect(b, {Counting({1, 1, 4, 4})},
         {{{1, 1, 5, 5}, {0, 0, 5, 6, 7, 0, 0, 9, 10, 11, 0, 0, 13, 14, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}});
  ModelBuilder r(13);
  r.In("x", {4}).Out("y").Init("p", Int64s({2}, {-3, 3}));
  r.Node("Pad", {"x", "p"}, {"y"}, {S("mode", "reflect")});
  auto got = CompileAndRun(r, {Counting({4})}, {});
  if (got.ok()) {
    EXPECT_EQ(DimsOf((*got)[0]), (Dims64{4}));
    for (float v : AsFloats((*got)[0]))
      EXPECT_TRUE(v >= 1 && v <= 4) << v;
  } else {
    EXPECT_EQ(ErrorCode(got.status()).substr(0, 2), "E0") << got.status();
  }
}

std::vector<float> Picked(int width, const std::vector<int> &rows) {
  std::vector<float> v;
  for (int r : rows)
    for (int c : rows)
      v.push_back(static_cast<float>(r * width + c));
  return v;
}

// N052, N053, N054: which element is the nearest.
TEST(Cases, NearestResize) {
  ModelBuilder floor(13);
  floor.In("x", {1, 1, 4, 4}).Out("y").Init("s", Floats({4}, {1, 1, 2, 2}));
  floor.Node("Resize", {"x", "", "s"}, {"y"}, {S("mode", "nearest"), S("nearest_mode", "floor")});
  Expect(floor, {Counting({1, 1, 4, 4}, 0)}, {{{1, 1, 8, 8}, Picked(4, {0, 0, 0, 1, 1, 2, 2, 3})}});
  ModelBuilder ties(13);
  ties.In("x", {1, 1, 3, 3}).Out("y").Init("s", Floats({4}, {1, 1, 1.5f, 1.5f}));
  ties.Node("Resize", {"x", "", "s"}, {"y"}, {S("mode", "nearest")});
  Expect(ties, {Counting({1, 1, 3, 3}, 0)}, {{{1, 1, 4, 4}, Picked(3, {0, 0, 1, 2})}});
  ModelBuilder sizes(13);
  sizes.In("x", {1, 1, 1, 20}).Out("y").Init("n", Int64s({4}, {1, 1, 1, 6}));
  sizes.Node("Resize", {"x", "", "", "n"}, {"y"}, {S("mode", "nearest"), S("nearest_mode", "round_prefer_ceil")});
  Expect(sizes, {Counting({1, 1, 1, 20}, 0)}, {{{1, 1, 1, 6}, {1, 5, 8, 11, 15, 18}}});
}

// N056: corners of input and output meet; an output of one element reads the first.
TEST(Cases, AlignCorners) {
  for (bool one : {false, true}) {
    ModelBuilder b(11);
    b.In("x", {1, 1, 2, 2}).Out("y").Init("w", Floats({1, 1, 1, 1}, {1})).Init("roi", Floats({0}, {}));
    b.Init("none", Floats({0}, {})).Init("s", Floats({4}, {1, 1, 2, 2})).Init("n", Int64s({4}, {1, 1, 1, 1}));
    b.Node("Conv", {"x", "w"}, {"c"});
    if (one)
      b.Node("Resize", {"c", "roi", "none", "n"}, {"y"},
             {S("mode", "linear"), S("coordinate_transformation_mode", "align_corners")});
    else
      b.Node("Resize", {"c", "roi", "s"}, {"y"},
             {S("mode", "linear"), S("coordinate_transformation_mode", "align_corners")});
    std::vector<float> want;
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 4; ++c)
        want.push_back(1 + static_cast<float>(2 * r + c) / 3);
    Expect(b, {Counting({1, 1, 2, 2})}, {one ? Want{{1, 1, 1, 1}, {1}} : Want{{1, 1, 4, 4}, want}});
  }
}

// What a host node reads cannot lie between the rows of a Concat: it is given an address alone. Scale 1: all is exact.
TEST(Cases, HostReadsAPieceOfAConcat) {
  ModelBuilder b(17);
  b.In("x", {1, 2, 4, 8}).Out("c").Out("s");
  b.Init("one", Floats({}, {1})).Init("zero", Tensor::Of<int8_t>(DType::I8, {}, std::vector<int8_t>{0}));
  auto quantised = [&](const std::string &name) {
    b.Node("QuantizeLinear", {name, "one", "zero"}, {name + "_q"});
    b.Node("DequantizeLinear", {name + "_q", "one", "zero"}, {name + "_d"});
    return name + "_d";
  };
  const std::string x = quantised("x");
  b.Node("Relu", {x}, {"r"});
  b.Node("Neg", {x}, {"n"});
  const std::string r = quantised("r"), n = quantised("n");
  b.Node("Concat", {r, n}, {"k"}, {I("axis", 3)});
  b.Node("Identity", {quantised("k")}, {"c"});
  b.Node("Softsign", {r}, {"s"});
  CompilerOptions options;
  options.target = "u55-256-like"; // computes on integers only: DequantizeLinear is the host's
  std::vector<float> c, s;
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 16; ++k) {
      const float v = static_cast<float>(row * 8 + k % 8 - 20);
      c.push_back(k < 8 ? std::max(v, 0.0f) : -v);
      if (k < 8)
        s.push_back(c.back() / (1 + c.back()));
    }
  Expect(b, {Counting({1, 2, 4, 8}, -20)}, {{{1, 2, 4, 16}, c}, {{1, 2, 4, 8}, s}}, options);
}

// N094: starts known at run time alone.
TEST(Cases, SliceWithRuntimeStarts) {
  ModelBuilder b(13);
  b.In("x", {2, 5, 3}).In("starts", {1}, DType::I64).Out("y");
  b.Init("ends", Int64s({1}, {INT64_MAX})).Init("axes", Int64s({1}, {1}));
  b.Node("Slice", {"x", "starts", "ends", "axes"}, {"y"});
  Expect(b, {Counting({2, 5, 3}), Int64s({1}, {-2})}, {{{2, 2, 3}, {10, 11, 12, 13, 14, 15, 25, 26, 27, 28, 29, 30}}});
}

// N095: steps, empty and reversed.
TEST(Cases, SliceSteps) {
  ModelBuilder b(10);
  b.In("x", {1, 4}).Out("y").Init("zero", Int64s({1}, {0})).Init("one", Int64s({1}, {1})).Init("two", Int64s({1}, {2}));
  b.Init("end", Int64s({1}, {INT64_MAX}));
  b.Node("Slice", {"x", "zero", "end", "one", "two"}, {"even"});
  b.Node("Slice", {"x", "one", "end", "one", "two"}, {"odd"});
  b.Node("Add", {"even", "odd"}, {"y"});
  Expect(b, {Counting({1, 4})}, {{{1, 2}, {3, 7}}});
  ModelBuilder e(13);
  e.In("x", {10}).Out("none").Out("all").Init("zero", Int64s({1}, {0})).Init("five", Int64s({1}, {5}));
  e.Init("last", Int64s({1}, {-1})).Init("least", Int64s({1}, {INT64_MIN}));
  e.Node("Slice", {"x", "zero", "five", "zero", "last"}, {"none"});
  e.Node("Slice", {"x", "last", "least", "zero", "last"}, {"all"});
  Expect(e, {Counting({10})}, {{{0}, {}}, {{10}, {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}}});
}

// N096: axis is a tensor; reversed, exclusive and both.
TEST(Cases, CumSum) {
  const std::vector<float> want[4] = {{1, 3, 6, 10, 5, 11, 18, 26, 9, 19, 30, 42},
                                      {10, 9, 7, 4, 26, 21, 15, 8, 42, 33, 23, 12},
                                      {0, 1, 3, 6, 0, 5, 11, 18, 0, 9, 19, 30},
                                      {9, 7, 4, 0, 21, 15, 8, 0, 33, 23, 12, 0}};
  for (int mode = 0; mode < 4; ++mode) {
    ModelBuilder b(14);
    b.In("x", {3, 4}).Out("y").Init("axis", Tensor::Of<int32_t>(DType::I32, {}, llvm::ArrayRef<int32_t>(1)));
    b.Node("CumSum", {"x", "axis"}, {"y"}, {I("reverse", mode & 1), I("exclusive", mode >> 1)});
    Expect(b, {Counting({3, 4})}, {{{3, 4}, want[mode]}});
  }
}

// N097: what falls on one element accumulates.
TEST(Cases, ScatterReductions) {
  ModelBuilder b(18);
  b.In("x", {3, 3}).Out("y").Init("i", Int64s({2, 3}, {0, 1, 2, 0, 1, 2})).Init("u", Counting({2, 3}));
  b.Node("ScatterElements", {"x", "i", "u"}, {"y"}, {I("axis", 0), S("reduction", "add")});
  Expect(b, {Floats({3, 3}, std::vector<float>(9, 1))}, {{{3, 3}, {6, 1, 1, 1, 8, 1, 1, 1, 10}}});
  const std::pair<const char *, float> modes[] = {{"add", 7}, {"mul", 10}, {"max", 5}, {"min", 1}};
  for (const auto &[mode, value] : modes) {
    ModelBuilder n(18);
    n.In("x", {2}).Out("y").Init("i", Int64s({2, 1}, {1, 1})).Init("u", Floats({2}, {5, 1}));
    n.Node("ScatterND", {"x", "i", "u"}, {"y"}, {S("reduction", mode)});
    Expect(n, {Floats({2}, {3, mode == std::string("add") ? 1.f : 2.f})}, {{{2}, {3, value}}});
  }
}

// N106: lengths of 0 and 1 leave a column as it is.
TEST(Cases, ReverseSequence) {
  ModelBuilder b(13);
  b.In("x", {4, 4}).Out("y").Init("n", Int64s({4}, {1, 1, 4, 2}));
  b.Node("ReverseSequence", {"x", "n"}, {"y"});
  Expect(b, {Counting({4, 4})}, {{{4, 4}, {1, 2, 15, 8, 5, 6, 11, 4, 9, 10, 7, 12, 13, 14, 3, 16}}});
}

// N107: corners in either order; a bound on the number of boxes is no size to allocate.
TEST(Cases, NonMaxSuppressionOfFlippedBoxes) {
  ModelBuilder b(11);
  b.In("boxes", {1, 3, 4}).In("scores", {1, 1, 3}).Out("y");
  b.Init("most", Int64s({1}, {1501274884})).Init("iou", Floats({1}, {0.5f})).Init("least", Floats({1}, {0.1f}));
  b.Node("NonMaxSuppression", {"boxes", "scores", "most", "iou", "least"}, {"y"});
  Expect(b, {Floats({1, 3, 4}, {1, 1, 0, 0, 0, 0, 1, 0.95f, 3, 3, 2, 2}), Floats({1, 1, 3}, {0.9f, 0.85f, 0.8f})},
         {{{2, 3}, {0, 0, 0, 0, 0, 2}}});
}

// A product whose left factor is the constant, of one value or of many.
TEST(Cases, ConstantLeftFactor) {
  for (bool splat : {false, true})
    for (bool batch : {false, true}) {
      ModelBuilder b(13);
      b.In("x", batch ? std::vector<DimSpec>{2, 2, 3} : std::vector<DimSpec>{2, 3}).Out("y");
      b.Init("w", splat ? Floats({2, 2}, {2, 2, 2, 2}) : Floats({2, 2}, {1, 2, 3, 4}));
      b.Node("MatMul", {"w", "x"}, {"y"});
      // [[1,2,3],[4,5,6]] and, the second item, [[7,8,9],[10,11,12]].
      std::vector<float> want =
          splat ? std::vector<float>{10, 14, 18, 10, 14, 18} : std::vector<float>{9, 12, 15, 19, 26, 33};
      if (batch)
        for (float v : splat ? std::vector<float>{34, 38, 42, 34, 38, 42} : std::vector<float>{27, 30, 33, 61, 68, 75})
          want.push_back(v);
      const Dims64 dims = batch ? Dims64{2, 2, 3} : Dims64{2, 3};
      Expect(b, {Counting(dims)}, {{dims, want}});
    }
}

// ---- Layout

// N063: the axis of a Concat behind Transposes that are all the same.
TEST(Cases, ConcatBehindTransposes) {
  ModelBuilder b(13);
  b.In("a", {2, 3, 4, 4}).In("b", {3, 3, 4, 4}).Out("y");
  b.Node("Transpose", {"a"}, {"ta"}, {Is("perm", {0, 2, 3, 1})});
  b.Node("Transpose", {"b"}, {"tb"}, {Is("perm", {0, 2, 3, 1})});
  b.Node("Concat", {"ta", "tb"}, {"y"}, {I("axis", 0)});
  std::vector<float> want;
  for (int n = 0; n < 5; ++n)
    for (int p = 0; p < 16; ++p)
      for (int c = 0; c < 3; ++c)
        want.push_back(static_cast<float>(((n < 2 ? n : n - 2) * 3 + c) * 16 + p) + (n < 2 ? 0.f : 200.f));
  Expect(b, {Counting({2, 3, 4, 4}, 0), Counting({3, 3, 4, 4}, 200)}, {{{5, 4, 4, 3}, want}});
}

// N064: axes as an operand behind a Transpose: constant, absent, known at run time alone.
TEST(Cases, ReduceBehindTranspose) {
  for (const char *axes : {"axes", "", "runtime"}) {
    ModelBuilder b(18);
    b.In("x", {1, 2, 2, 2}).Out("y").Init("axes", Int64s({1}, {-1}));
    if (std::string(axes) == "runtime")
      b.In("runtime", {1}, DType::I64);
    b.Node("Transpose", {"x"}, {"t"}, {Is("perm", {0, 2, 3, 1})});
    b.Node("ReduceMean", {"t", axes}, {"y"});
    std::vector<Tensor> inputs = {Counting({1, 2, 2, 2})};
    if (std::string(axes) == "runtime")
      inputs.push_back(Int64s({1}, {-1}));
    Expect(b, inputs, {*axes ? Want{{1, 2, 2, 1}, {3, 4, 5, 6}} : Want{{1, 1, 1, 1}, {4.5f}}});
  }
}

// N065: ten classes, not ten rows of one.
TEST(Cases, OldSoftmaxBehindConv) {
  std::vector<float> eye(100, 0), want;
  for (int i = 0; i < 10; ++i)
    eye[i * 11] = 1;
  double sum = 0;
  for (int i = 0; i < 10; ++i)
    sum += std::exp(i);
  for (int i = 0; i < 10; ++i)
    want.push_back(static_cast<float>(std::exp(i) / sum));
  for (int64_t opset : {9, 12, 13}) {
    ModelBuilder b(opset);
    b.In("x", {1, 10, 1, 1}).Out("y").Init("w", Floats({10, 10, 1, 1}, eye));
    b.Node("Conv", {"x", "w"}, {"c"});
    b.Node("Softmax", {"c"}, {"y"}, {I("axis", 1)});
    Expect(b, {Counting({1, 10, 1, 1}, 0)}, {{{1, 10, 1, 1}, want}});
  }
}

// N070: a global response normalisation, channels last.
TEST(Cases, ResponseNormalisation) {
  ModelBuilder b(13);
  b.In("x", {1, 2, 2, 2}).Out("y").Init("gamma", Floats({2}, {2, 1})).Init("beta", Floats({2}, {1, 0}));
  b.Node("Transpose", {"x"}, {"t"}, {Is("perm", {0, 2, 3, 1})});
  b.Node("ReduceL2", {"t"}, {"l2"}, {Is("axes", {1, 2})});
  b.Node("ReduceMean", {"l2"}, {"m"}, {Is("axes", {-1})});
  b.Node("Div", {"l2", "m"}, {"d"});
  b.Node("Mul", {"t", "d"}, {"s"});
  b.Node("Mul", {"s", "gamma"}, {"g"});
  b.Node("Add", {"g", "beta"}, {"h"});
  b.Node("Add", {"h", "t"}, {"y"});
  // Channels of 1 and 3: norms 2 and 6, their mean 4.
  Expect(b, {Floats({1, 2, 2, 2}, {1, 1, 1, 1, 3, 3, 3, 3})}, {{{1, 2, 2, 2}, {3, 7.5f, 3, 7.5f, 3, 7.5f, 3, 7.5f}}});
}

// N072: the slope broadcasts one way, from the right; a list of channels does not.
TEST(Cases, PReluSlopes) {
  const std::vector<std::pair<Dims64, std::vector<float>>> slopes = {
      {{4, 1, 1}, {0.25f, 0.5f, 1, 2}}, {{1}, {0.5f}}, {{4}, {0.25f, 0.5f, 1, 2}}};
  for (const auto &[dims, values] : slopes) {
    ModelBuilder b(13);
    b.In("x", {1, 4, 3, 4}).Out("y").Init("s", Floats(dims, values));
    b.Node("PRelu", {"x", "s"}, {"y"});
    std::vector<float> x, want;
    for (int i = 0; i < 48; ++i) {
      x.push_back(static_cast<float>(i % 3 ? -i : i));
      const float slope = dims.size() == 3 ? values[i / 12] : values.size() == 1 ? values[0] : values[i % 4];
      want.push_back(x.back() < 0 ? x.back() * slope : x.back());
    }
    Expect(b, {Floats({1, 4, 3, 4}, x)}, {{{1, 4, 3, 4}, want}});
  }
  ModelBuilder bad(13);
  bad.In("x", {1, 64, 112, 112}).Out("y").Init("s", Floats({64}, std::vector<float>(64, 0.5f)));
  bad.Node("PRelu", {"x", "s"}, {"y"});
  const Diagnostic d = bad.Fail();
  EXPECT_EQ(d.code, "E0301");
  EXPECT_NE(d.message.find("[64]"), std::string::npos) << d.message;
  EXPECT_NE(d.message.find("[1,64,112,112]"), std::string::npos) << d.message;
}

// ---- Limits

// N122: rows of any length.
TEST(Cases, SoftmaxOfOddRows) {
  for (const auto &[rows, n] : {std::pair(8400, 17), std::pair(84, 80)}) {
    ModelBuilder b(13);
    b.In("x", {1, rows, n}).Out("y");
    b.Node("Softmax", {"x"}, {"y"}, {I("axis", 2)});
    std::vector<float> x, want;
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int i = 0; i < n; ++i)
        sum += std::exp(0.125 * ((r + i) % n));
      for (int i = 0; i < n; ++i) {
        x.push_back(0.125f * static_cast<float>((r + i) % n));
        want.push_back(static_cast<float>(std::exp(0.125 * ((r + i) % n)) / sum));
      }
    }
    Expect(b, {Floats({1, rows, n}, x)}, {{{1, rows, n}, want}});
  }
}

// ---- Dynamic shapes

// N134: a target shape that is known at run time alone, with a -1.
TEST(Cases, ReshapeToARuntimeShape) {
  ModelBuilder b(13);
  b.In("x", {2, 3, 4}).In("shape", {2}, DType::I64).Out("y");
  b.Node("Reshape", {"x", "shape"}, {"y"});
  Expect(b, {Counting({2, 3, 4}), Int64s({2}, {2, -1})}, {{{2, 12}, Range(24)}});
  auto got = CompileAndRun(b, {Counting({2, 3, 4}), Int64s({2}, {5, -1})}, {});
  EXPECT_FALSE(got.ok());
}

// N135: a batch frozen into a constant shape: right for a batch of one, an error that names both counts for two.
TEST(Cases, FrozenBatch) {
  ModelBuilder b(13);
  b.In("x", {"N", 16, 4, 4}).Out("y").Init("shape", Int64s({2}, {1, 256}));
  b.Node("Reshape", {"x", "shape"}, {"y"});
  Expect(b, {Counting({1, 16, 4, 4})}, {{{1, 256}, Range(256)}});
  ImportOptions two;
  two.dims = {"N=2"};
  const Diagnostic d = b.Fail(two);
  EXPECT_EQ(d.code, "E0301");
  EXPECT_NE(d.message.find("512"), std::string::npos) << d.message;
  EXPECT_NE(d.message.find("256"), std::string::npos) << d.message;
}

} // namespace
} // namespace npuc::test
