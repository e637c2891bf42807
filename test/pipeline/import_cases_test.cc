// What other compilers got wrong between the file and the graph: names, defaults, shapes, old opsets, folding. Each as
// a small model through the whole product, with the value that the specification gives. N...: the case's number.
#include <gmock/gmock.h>

#include <cmath>

#include "test/onnx/case_models.h"
#include "test/pipeline/run_case.h"

namespace npuc::test {
namespace {

std::vector<float> CountTo(int n, float first = 1) {
  return AsFloats(Counting({n}, first));
}

// ---- Names and order

// N034: two nodes without a name, tensors whose names differ in punctuation alone or look generated.
TEST(ImportCases, NamesStayApart) {
  ModelBuilder b(13);
  b.In("größe", {2}).Out("Conv_0_out").Init("a-b", Int64s({2}, {1, 0})).Init("ab", Int64s({2}, {0, 2}));
  b.Init("a/b", Floats({1}, {10}));
  b.Node("Pad", {"größe", "a-b"}, {"p.1"});
  b.Node("Pad", {"p.1", "ab"}, {"p/1"});
  b.Node("Add", {"p/1", "a/b"}, {"Conv_0_out"});
  Expect(b, {Floats({2}, {1, 2})}, {{{5}, {10, 11, 12, 10, 10}}});
}

// N032: Add -> Relu -> Mul, listed backwards.
TEST(ImportCases, NodesOutOfOrder) {
  ModelBuilder b(13);
  b.In("x", {2}).Out("y").Init("one", Floats({1}, {1}));
  b.Node("Mul", {"r", "r"}, {"y"});
  b.Node("Relu", {"a"}, {"r"});
  b.Node("Add", {"x", "one"}, {"a"});
  Expect(b, {Floats({2}, {2, -5})}, {{{2}, {9, 0}}});
  ModelBuilder cycle(13);
  cycle.In("x", {2}).Out("b");
  cycle.Node("Add", {"b", "x"}, {"a"});
  cycle.Node("Relu", {"a"}, {"b"});
  EXPECT_EQ(cycle.Fail().code.substr(0, 2), "E0");
}

// ---- Folding

// N018: constants of one shape and type, and two values.
TEST(ImportCases, ConstantsThatDiffer) {
  ModelBuilder b(13);
  b.In("x", {2}).In("y", {2}).Out("z");
  b.Node("Constant", {}, {"two"}, {T("value", Floats({}, {2}))});
  b.Node("Constant", {}, {"four"}, {T("value", Floats({}, {4}))});
  b.Node("Div", {"x", "two"}, {"a"});
  b.Node("Mul", {"y", "four"}, {"b"});
  b.Node("Add", {"a", "b"}, {"z"});
  Expect(b, {Floats({2}, {2, 4}), Floats({2}, {1, 3})}, {{{2}, {5, 14}}});
}

// N022: nothing is left to compute.
TEST(ImportCases, EverythingFoldsAway) {
  ModelBuilder shape(13), constant(13), initializer(13);
  shape.In("x", {2, 3}).Out("y").Node("Shape", {"x"}, {"y"});
  constant.In("x", {2, 3}).Out("y").Node("Constant", {}, {"y"}, {T("value", Floats({2}, {2, 3}))});
  initializer.In("x", {2, 3}).Out("y").Init("y", Floats({2}, {2, 3}));
  for (const ModelBuilder *b : {&shape, &constant, &initializer}) {
    Expect(*b, {Counting({2, 3})}, {{{2}, {2, 3}}});
    report::Report r;
    ASSERT_TRUE(CompileAndRun(*b, {Counting({2, 3})}, {}, &r).ok());
    EXPECT_EQ(r.coverage.nodes_npu, 0);
    EXPECT_EQ(r.coverage.node_percent, 100);
  }
}

// N023: an input that is an output under another name, a value that is two outputs.
TEST(ImportCases, IdentitiesBetweenInputsAndOutputs) {
  ModelBuilder b(13);
  b.In("x", {2}).Out("y").Out("a").Out("b");
  b.Node("Identity", {"x"}, {"y"});
  b.Node("Add", {"x", "x"}, {"a"});
  b.Node("Identity", {"a"}, {"b"});
  Expect(b, {Floats({2}, {1, -2})}, {{{2}, {1, -2}}, {{2}, {2, -4}}, {{2}, {2, -4}}});
}

Tensor Of(DType t, const std::vector<int64_t> &v) {
  const llvm::SmallVector<int64_t, 1> dims{static_cast<int64_t>(v.size())};
  if (t == DType::U8)
    return Tensor::Of<uint8_t>(t, dims, std::vector<uint8_t>(v.begin(), v.end()));
  if (t == DType::I32)
    return Tensor::Of<int32_t>(t, dims, std::vector<int32_t>(v.begin(), v.end()));
  return Tensor::Of<int64_t>(t, dims, v);
}

// N026: a bound that is not given bounds nothing, whether folded or run.
TEST(ImportCases, ClipWithOneBound) {
  for (DType t : {DType::U8, DType::I32, DType::I64})
    for (bool folded : {true, false}) {
      ModelBuilder b(13);
      b.Out("y").Init("one", Of(t, {1}).Reshaped({})).Init("hundred", Of(t, {100}).Reshaped({}));
      std::vector<Tensor> inputs;
      if (folded)
        b.In("unused", {1}).Init("x", Of(t, {0, 5, 10})), inputs.push_back(Floats({1}, {0}));
      else
        b.In("x", {3}, t), inputs.push_back(Of(t, {0, 5, 10}));
      b.Node("Clip", {"x", "one"}, {"c"});
      b.Node("Div", {"hundred", "c"}, {"y"});
      Expect(b, inputs, {{{3}, {100, 20, 10}}});
    }
  for (bool folded : {true, false}) { // the lowest float is not the smallest positive one
    ModelBuilder b(13);
    b.Out("y").Init("two", Floats({}, {2}));
    const Tensor x = Floats({3}, {-1000, 0, 5});
    if (folded)
      b.In("unused", {3}).Init("x", x);
    else
      b.In("x", {3});
    b.Node("Clip", {"x", "", "two"}, {"y"});
    Expect(b, {x}, {{{3}, {-1000, 0, 2}}});
  }
}

// N029: towards zero, folded and run; a divisor of zero stops neither compiler nor machine.
TEST(ImportCases, IntegerDivision) {
  const Tensor a = Int64s({4}, {8, -8, 7, -7}), d = Int64s({4}, {-3, 3, -2, 2}), zero = Int64s({1}, {0});
  ModelBuilder folded(13), run(13);
  folded.In("unused", {4}).Out("y").Init("a", a).Init("d", d).Node("Div", {"a", "d"}, {"y"});
  run.In("a", {4}, DType::I64).In("d", {4}, DType::I64).Out("y").Node("Div", {"a", "d"}, {"y"});
  Expect(folded, {Counting({4})}, {{{4}, {-2, -2, -3, -3}}});
  Expect(run, {a, d}, {{{4}, {-2, -2, -3, -3}}});
  for (const char *op : {"Div", "Mod"})
    for (bool constant : {true, false}) {
      ModelBuilder b(13);
      b.Out("y").Init("zero", zero);
      if (constant)
        b.In("unused", {4}).Init("a", a);
      else
        b.In("a", {4}, DType::I64);
      b.Node(op, {"a", "zero"}, {"y"});
      const auto got = CompileAndRun(b, {constant ? Counting({4}) : a}, {});
      EXPECT_TRUE(got.ok() || ErrorCode(got.status()).substr(0, 2) == "E0") << got.status();
    }
}

// ---- Attributes and their defaults

// N033: the lower bound is left out.
TEST(ImportCases, ClipWithEmptyMinimum) {
  ModelBuilder b(11);
  b.In("x", {3}).Out("y").Init("six", Floats({}, {6}));
  b.Node("Clip", {"x", "", "six"}, {"y"});
  Expect(b, {Floats({3}, {-5, 3, 9})}, {{{3}, {-5, 3, 6}}});
}

// N040: strides of 1, no padding; the greatest of negative numbers is negative, beside padding too.
TEST(ImportCases, MaxPoolDefaults) {
  ModelBuilder b(8);
  b.In("x", {1, 2, 5, 5}).Out("y").Out("p");
  b.Node("MaxPool", {"x"}, {"y"}, {Is("kernel_shape", {3, 3})});
  b.Node("MaxPool", {"x"}, {"p"}, {Is("kernel_shape", {3, 3}), Is("strides", {2, 2}), Is("pads", {1, 1, 1, 1})});
  std::vector<float> y, p;
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        y.push_back(static_cast<float>(-100 + c * 25 + (i + 2) * 5 + j + 2));
        p.push_back(static_cast<float>(-100 + c * 25 + std::min(2 * i + 1, 4) * 5 + std::min(2 * j + 1, 4)));
      }
  Expect(b, {Counting({1, 2, 5, 5}, -100)}, {{{1, 2, 3, 3}, y}, {{1, 2, 3, 3}, p}});
  ModelBuilder one(8);
  one.In("x", {1, 2, 9}).Out("y");
  one.Node("MaxPool", {"x"}, {"y"}, {Is("kernel_shape", {4})});
  Expect(one, {Counting({1, 2, 9}, -100)}, {{{1, 2, 6}, {-97, -96, -95, -94, -93, -92, -88, -87, -86, -85, -84, -83}}});
}

// N042: the output follows the stride; the odd cell lies behind (UPPER) or in front (LOWER).
TEST(ImportCases, SamePadding) {
  for (bool upper : {true, false}) {
    ModelBuilder b(11);
    b.In("x", {1, 1, 5}).Out("y").Init("w", Floats({1, 1, 4}, {1, 1, 1, 1}));
    b.Node("Conv", {"x", "w"}, {"y"}, {S("auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER"), Is("strides", {2})});
    Expect(b, {Counting({1, 1, 5})},
           {{{1, 1, 3}, upper ? std::vector<float>{6, 14, 9} : std::vector<float>{3, 10, 12}}});
  }
}

// N044: all ones, so each output counts the taps that reach it: 1 on even rows and on the last, which the output
// padding adds, else 2; times three channels.
TEST(ImportCases, ConvTransposeOutputPadding) {
  ModelBuilder b(11);
  b.In("x", {1, 3, 28, 28}).Out("y").Init("w", Floats({3, 6, 3, 3}, std::vector<float>(162, 1)));
  b.Node("ConvTranspose", {"x", "w"}, {"y"},
         {Is("strides", {2, 2}), Is("pads", {1, 1, 1, 1}), Is("output_padding", {1, 1})});
  std::vector<float> want;
  auto taps = [](int o) { return o % 2 && o < 55 ? 2.f : 1.f; };
  for (int c = 0; c < 6; ++c)
    for (int i = 0; i < 56; ++i)
      for (int j = 0; j < 56; ++j)
        want.push_back(3 * taps(i) * taps(j));
  Expect(b, {Floats({1, 3, 28, 28}, std::vector<float>(3 * 784, 1))}, {{{1, 6, 56, 56}, want}});
}

// N045: padding on both sides counts: sums of rows r - 2 ... r + 2, by 5.
TEST(ImportCases, AveragePoolWithSamePadding) {
  Expect(AveragePoolWithSamePadding(), {Counting({1, 1, 6, 2}, 0)},
         {{{1, 1, 6, 2}, {1.2f, 1.8f, 2.4f, 3.2f, 4, 5, 6, 7, 5.6f, 6.4f, 4.8f, 5.4f}}});
}

// N046: the divisor ends with the padded input: 9, 6 or 4.
TEST(ImportCases, AveragePoolWithCeilMode) {
  Expect(AveragePoolWithCeilMode(), {Counting({1, 1, 4, 4})},
         {{{1, 1, 3, 3}, {14.f / 9, 30.f / 9, 2, 57.f / 9, 11, 6, 27.f / 6, 45.f / 6, 4}}});
}

// N066: before opset 13 all from the axis on is one row.
TEST(ImportCases, SoftmaxRows) {
  const std::vector<std::tuple<const char *, float, float>> ops = {
      {"Softmax", 0.25f, 0.5f}, {"LogSoftmax", std::log(0.25f), std::log(0.5f)}, {"Hardmax", 1.f, 1.f}};
  for (const auto &[op, old, now] : ops)
    for (int64_t opset : {11, 13}) {
      SCOPED_TRACE(fmt::format("{} {}", op, opset));
      ModelBuilder b(opset);
      b.In("x", {1, 2, 2}).Out("y");
      b.Node(op, {"x"}, {"y"}, {I("axis", 1)});
      std::vector<float> want(4, opset < 13 ? old : now);
      if (std::string(op) == "Hardmax") // the first of equals
        want = opset < 13 ? std::vector<float>{1, 0, 0, 0} : std::vector<float>{1, 1, 0, 0};
      Expect(b, {Floats({1, 2, 2}, {0, 0, 0, 0})}, {{{1, 2, 2}, want}});
    }
}

// N099: no axes: all of them, or none with noop_with_empty_axes; the squares are taken either way.
TEST(ImportCases, ReduceWithoutAxes) {
  for (bool noop : {false, true})
    for (int keep : {0, 1})
      for (bool empty : {false, true})
        for (bool square : {false, true}) {
          SCOPED_TRACE(fmt::format("noop {} keepdims {} empty {} square {}", noop, keep, empty, square));
          std::vector<float> all = CountTo(12);
          if (square)
            for (float &v : all)
              v *= v;
          const Dims64 one = keep ? Dims64{1, 1, 1} : Dims64{};
          Expect(ReduceWithoutAxes(square ? "ReduceSumSquare" : "ReduceSum", noop, keep, empty), {Counting({3, 2, 2})},
                 {noop ? Want{{3, 2, 2}, all} : Want{one, {square ? 650.f : 78.f}}});
        }
}

// N100: axes as an attribute, and as a Constant node.
TEST(ImportCases, ReduceMeanOverTwoAxes) {
  for (int opset : {13, 18}) {
    Expect(ReduceMeanOverTwoAxes(opset), {Counting({2, 3, 4, 5}, 0)},
           {{{2, 3, 1, 1}, {9.5f, 29.5f, 49.5f, 69.5f, 89.5f, 109.5f}}});
  }
}

// N112: a negative axis counts from the end.
TEST(ImportCases, NegativeAxes) {
  std::vector<float> soft, twice = CountTo(16);
  for (int row = 0; row < 4; ++row)
    for (float v : {0.0320586f, 0.0871443f, 0.2368828f, 0.6439143f}) // e^i / (1 + e + e^2 + e^3)
      soft.push_back(v);
  twice.insert(twice.end(), twice.begin(), twice.begin() + 16);
  Expect(NegativeAxes(13), {Counting({1, 2, 2, 4})},
         {{{1, 2, 2, 4}, soft},
          {{1, 4, 2, 4}, twice},
          {{1, 2, 1, 4}, {1, 2, 3, 4, 9, 10, 11, 12}},
          {{1, 2, 2, 1}, {1, 5, 9, 13}},
          {{4, 4}, CountTo(16)}});
}

// ---- Shapes

// N071: a matrix of 4096 rows, no batch of one.
TEST(ImportCases, ReshapeToAMatrix) {
  ModelBuilder b(13);
  std::vector<float> pick(32, 0), x, want; // the first four of eight columns
  for (int i = 0; i < 4; ++i)
    pick[i * 4 + i] = 1;
  b.In("x", {1, 32, 32, 32}).Out("y").Init("s", Int64s({2}, {4096, 8})).Init("w", Floats({8, 4}, pick));
  b.Node("Reshape", {"x", "s"}, {"r"});
  b.Node("MatMul", {"r", "w"}, {"y"});
  for (int i = 0; i < 32768; ++i) {
    x.push_back(static_cast<float>(i % 1009));
    if (i % 8 < 4)
      want.push_back(x.back());
  }
  Expect(b, {Floats({1, 32, 32, 32}, x)}, {{{4096, 4}, want}});
}

// N101: a scalar index takes the axis away; -1 is the last; a shape is computed with it.
TEST(ImportCases, GatherByScalar) {
  ModelBuilder b(13);
  b.In("x", {2, 3, 4}).Out("y").Out("r").Init("last", Int64s({}, {-1})).Init("zero", Int64s({}, {0}));
  b.Init("axes", Int64s({1}, {0})).Init("rest", Int64s({1}, {-1}));
  b.Node("Gather", {"x", "last"}, {"y"}, {I("axis", 1)});
  b.Node("Shape", {"x"}, {"s"});
  b.Node("Gather", {"s", "zero"}, {"n"});
  b.Node("Unsqueeze", {"n", "axes"}, {"n1"});
  b.Node("Concat", {"n1", "rest"}, {"target"}, {I("axis", 0)});
  b.Node("Reshape", {"x", "target"}, {"r"});
  Expect(b, {Counting({2, 3, 4})}, {{{2, 4}, {9, 10, 11, 12, 21, 22, 23, 24}}, {{2, 12}, CountTo(24)}});
}

// N110: C broadcasts one way, and counts nothing with beta 0.
TEST(ImportCases, GemmForms) {
  const std::vector<float> product = {25,  28,  31,  34,  37,  70,  82,  94,  106, 118,
                                      115, 136, 157, 178, 199, 160, 190, 220, 250, 280};
  struct Form {
    const char *what;
    Tensor c;
    std::vector<Attr> attrs;
    float (*add)(int i);
    float scale = 1;
  };
  const Form forms[] = {
      {"none", {}, {}, [](int) { return 0.f; }},
      {"beta 0", Floats({1}, {1000}), {F("beta", 0)}, [](int) { return 0.f; }},
      {"column", Floats({4, 1}, {0, 10, 20, 30}), {}, [](int i) { return 10.f * static_cast<float>(i / 5); }},
      {"transB", Floats({5}, {0, 1, 2, 3, 4}), {I("transB", 1)}, [](int i) { return static_cast<float>(i % 5); }},
      {"transA", Floats({}, {7}), {I("transA", 1), F("alpha", 0.5f), F("beta", 2)}, [](int) { return 14.f; }, 0.5f}};
  for (const Form &f : forms) {
    SCOPED_TRACE(f.what);
    const bool ta = std::string(f.what) == "transA", tb = std::string(f.what) == "transB";
    ModelBuilder b(13);
    b.In("a", ta ? std::vector<DimSpec>{3, 4} : std::vector<DimSpec>{4, 3}).Out("y");
    b.Init("b", tb ? Floats({5, 3}, {0, 5, 10, 1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14}) : Counting({3, 5}, 0));
    if (f.c)
      b.Init("c", f.c);
    b.Node("Gemm", f.c ? Names{"a", "b", "c"} : Names{"a", "b"}, {"y"}, f.attrs);
    std::vector<float> want;
    for (int i = 0; i < 20; ++i)
      want.push_back(f.scale * product[i] + f.add(i));
    Expect(b, {ta ? Floats({3, 4}, {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}) : Counting({4, 3}, 0)}, {{{4, 5}, want}});
  }
}

// N089: a mask of the lowest float: what it hides has no share, a row that is hidden whole is uniform.
TEST(ImportCases, MaskOfTheLowestFloat) {
  for (bool constant : {true, false}) {
    ModelBuilder b(13);
    const Tensor mask = Floats({1, 1, 4, 4}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1});
    b.In("x", {1, 1, 4, 4}).Out("y").Init("one", Floats({}, {1})).Init("low", Floats({}, {-3.4028235e38f}));
    if (constant)
      b.Init("mask", mask);
    else
      b.In("mask", {1, 1, 4, 4});
    b.Node("Sub", {"one", "mask"}, {"hidden"});
    b.Node("Mul", {"hidden", "low"}, {"bias"});
    b.Node("Add", {"x", "bias"}, {"scores"});
    b.Node("Softmax", {"scores"}, {"y"}, {I("axis", -1)});
    std::vector<Tensor> inputs = {
        Floats({1, 1, 4, 4}, {1, 1, 1, 1, 0, std::log(3.f), 5, 5, 1, 2, 3, 4, std::log(7.f), 9, 9, 0})};
    if (!constant)
      inputs.push_back(mask);
    Expect(b, inputs,
           {{{1, 1, 4, 4},
             {0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.75f, 0, 0, 0.25f, 0.25f, 0.25f, 0.25f, 0.875f, 0, 0, 0.125f}}});
  }
}

} // namespace
} // namespace npuc::test
