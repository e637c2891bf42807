// Quantised models that other compilers got wrong, as host steps and on the NPU: integers by hand from ONNX's
// definitions. N...: the case's number; those of calibration are in quantized_test.cc and memory_cases_test.cc.
#include <gmock/gmock.h>

#include <cmath>

#include "test/pipeline/run_case.h"

namespace npuc::test {
namespace {

Tensor U8s(llvm::ArrayRef<int64_t> dims, std::vector<uint8_t> v) {
  return Tensor::Of<uint8_t>(DType::U8, dims, v);
}
Tensor I8s(llvm::ArrayRef<int64_t> dims, std::vector<int8_t> v) {
  return Tensor::Of<int8_t>(DType::I8, dims, v);
}
Tensor I32s(llvm::ArrayRef<int64_t> dims, std::vector<int32_t> v) {
  return Tensor::Of<int32_t>(DType::I32, dims, v);
}

struct Builder : ModelBuilder {
  explicit Builder(int64_t opset = 13) : ModelBuilder(opset) {}
  // Scalars NAME_s and NAME_z.
  Builder &Grid(const std::string &name, float scale, const Tensor &zero) {
    Init(name + "_s", Floats({}, {scale})).Init(name + "_z", zero.Reshaped({}));
    return *this;
  }
  void Quantize(const std::string &x, const std::string &y, const std::string &grid) {
    Node("QuantizeLinear", {x, grid + "_s", grid + "_z"}, {y});
  }
  void Dequantize(const std::string &x, const std::string &y, const std::string &grid) {
    Node("DequantizeLinear", {x, grid + "_s", grid + "_z"}, {y});
  }
  void Both(const std::string &x, const std::string &y, const std::string &grid) {
    Quantize(x, y + "_q", grid);
    Dequantize(y + "_q", y, grid);
  }
};

// N074: a Relu before integers that have negatives cuts them; before ones that start at 0 it changes nothing.
TEST(QuantizationCases, ReluBeforeSymmetricIntegers) {
  for (int8_t zero : {0, -128})
    for (const char *op : {"Conv", "MatMul"}) {
      SCOPED_TRACE(fmt::format("{} {}", op, zero));
      Builder b;
      const bool conv = std::string(op) == "Conv";
      b.Grid("g", 0.5f, I8s({1}, {0})).Grid("h", 0.5f, I8s({1}, {zero})).Grid("one", 1, I8s({1}, {0}));
      b.In("x", conv ? std::vector<DimSpec>{1, 1, 1, 4} : std::vector<DimSpec>{4, 1}).Out("y");
      b.Init("w_q", conv ? I8s({2, 1, 1, 1}, {-1, 1}) : I8s({1, 2}, {-1, 1}));
      b.Both("x", "xd", "g");
      b.Dequantize("w_q", "w", "one");
      b.Node(op, {"xd", "w"}, {"c"});
      b.Node("Relu", {"c"}, {"r"});
      b.Both("r", "y", "h");
      const Tensor x =
          Floats(conv ? llvm::ArrayRef<int64_t>({1, 1, 1, 4}) : llvm::ArrayRef<int64_t>({4, 1}), {1, -2, 3, -4});
      if (conv)
        Expect(b, {x}, {{{1, 2, 1, 4}, {0, 2, 0, 4, 1, 0, 3, 0}}});
      else
        Expect(b, {x}, {{{4, 2}, {0, 1, 2, 0, 0, 3, 4, 0}}});
    }
}

// N076: the Relu stands right behind an input.
TEST(QuantizationCases, ReluOnAnInput) {
  Builder b;
  b.Grid("g", 0.5f, I8s({1}, {0})).In("x", {4}).Out("y");
  b.Node("Relu", {"x"}, {"r"});
  b.Both("r", "y", "g");
  Expect(b, {Floats({4}, {-3, -0.25f, 0.75f, 100})}, {{{4}, {0, 0, 1, 63.5f}}}); // 1.5 is a tie, 200 is clamped
}

// N077: bias / (scale of x * scale of w) is beyond 32 bits.
TEST(QuantizationCases, BiasBeyondTheAccumulator) {
  Builder b;
  b.Grid("g", 0.5f, I8s({1}, {0})).Grid("t", 7.8e-10f, I8s({1}, {0})).Grid("h", 0.1f, I8s({1}, {0}));
  b.In("x", {1, 1, 1, 1}).Out("y").Init("w_q", I8s({2, 1, 1, 1}, {100, -128})).Init("bias", Floats({2}, {5, -4.5f}));
  b.Both("x", "xd", "g");
  b.Dequantize("w_q", "w", "t");
  b.Node("Conv", {"xd", "w", "bias"}, {"c"});
  b.Both("c", "y", "h");
  Expect(b, {Floats({1, 1, 1, 1}, {1.5f})}, {{{1, 2, 1, 1}, {5, -4.5f}}});
}

// N078: bias in units of x_scale * w_scale[c]. x - 128 = 2, 4: sums 20, 2, 38, 26; times 0.5 w_scale: 10, 2, 9.5 (a
// tie), 3.25; plus 100.
TEST(QuantizationCases, QLinearConvBias) {
  Builder b;
  b.Grid("x", 0.5f, U8s({1}, {128})).Grid("y", 1, U8s({1}, {100})).In("q", {1, 2, 1, 1}, DType::U8).Out("y");
  b.Init("w", I8s({4, 2, 1, 1}, {1, 2, 3, 4, 5, 6, -7, 8})).Init("ws", Floats({4}, {1, 2, 0.5f, 0.25f}));
  b.Init("wz", I8s({4}, {0, 0, 0, 0})).Init("bias", I32s({4}, {10, -20, 4, 8}));
  b.Node("QLinearConv", {"q", "x_s", "x_z", "w", "ws", "wz", "y_s", "y_z", "bias"}, {"y"});
  Expect(b, {U8s({1, 2, 1, 1}, {130, 132})}, {{{1, 4, 1, 1}, {110, 102, 110, 103}}});
}

// N079: 210 * -81 + 198 * -80 + 234 * 127 = -3132, whatever pairs of products come to; 1e-4 of it in steps of 0.0036.
TEST(QuantizationCases, SumsDoNotSaturate) {
  for (const char *op : {"QLinearMatMul", "QLinearConv"}) {
    const bool conv = std::string(op) == "QLinearConv";
    Builder b;
    b.Grid("u", 0.01f, U8s({1}, {0})).Grid("w", 0.01f, I8s({1}, {0})).Out("y");
    b.Grid("o", 0.0036f, conv ? U8s({1}, {200}) : I8s({1}, {0}));
    b.In("q", conv ? std::vector<DimSpec>{1, 3, 1, 1} : std::vector<DimSpec>{1, 3}, DType::U8);
    b.Init("m", conv ? I8s({1, 3, 1, 1}, {-81, -80, 127}) : I8s({3, 1}, {-81, -80, 127}));
    b.Node(op, {"q", "u_s", "u_z", "m", "w_s", "w_z", "o_s", "o_z"}, {"y"});
    if (conv)
      Expect(b, {U8s({1, 3, 1, 1}, {210, 198, 234})}, {{{1, 1, 1, 1}, {113}}});
    else
      Expect(b, {U8s({1, 3}, {210, 198, 234})}, {{{1, 1}, {-87}}});
  }
}

// N080: output channels of a ConvTranspose are the second axis of its weights. x = 1, 2: (1 + 2 * 4) * 1, (2 + 10) * 2,
// (3 + 12) * 4.
TEST(QuantizationCases, ConvTransposeScales) {
  Builder b;
  b.Grid("one", 1, U8s({1}, {0})).In("x", {1, 2, 1, 1}).Out("y");
  b.Init("w_q", I8s({2, 3, 1, 1}, {1, 2, 3, 4, 5, 6})).Init("ws", Floats({3}, {1, 2, 4}));
  b.Init("wz", I8s({3}, {0, 0, 0}));
  b.Both("x", "xd", "one");
  b.Node("DequantizeLinear", {"w_q", "ws", "wz"}, {"w"}, {I("axis", 1)});
  b.Node("ConvTranspose", {"xd", "w"}, {"c"});
  b.Both("c", "y", "one");
  Expect(b, {Floats({1, 2, 1, 1}, {1, 2})}, {{{1, 3, 1, 1}, {9, 24, 60}}});
}

// N081: ties go to the even integer; the range of int8 ends at -128.
TEST(QuantizationCases, TiesToEven) {
  for (bool is_signed : {true, false}) {
    Builder b;
    b.Grid("g", 0.5f, is_signed ? I8s({1}, {0}) : U8s({1}, {0})).In("x", {7}).Out("y");
    b.Quantize("x", "y", "g");
    Expect(b, {Floats({7}, {0.25f, 0.75f, 1.25f, 1.75f, -0.25f, -0.75f, -99})},
           {{{7}, is_signed ? std::vector<float>{0, 2, 2, 4, 0, -2, -128} : std::vector<float>{0, 2, 2, 4, 0, 0, 0}}});
  }
}

// N084: each operand comes in its own parameters, one of them twice; a Concat of one. a = 5, 100 -> 74, 264 = 255;
// b = 0.5, -32 -> 65, 0.
TEST(QuantizationCases, ConcatOfDifferentScales) {
  for (bool alone : {false, true}) {
    Builder b;
    b.Grid("a", 0.5f, U8s({1}, {0})).Grid("b", 0.25f, U8s({1}, {128})).Grid("o", 0.5f, U8s({1}, {64}));
    b.In("q", {1, 2, 1, 1}, DType::U8).In("p", {1, 2, 1, 1}, DType::U8).Out("y");
    b.Dequantize("q", "qa", "a");
    b.Dequantize("p", "pb", "b");
    b.Node("Concat", alone ? Names{"qa"} : Names{"qa", "pb", "qa"}, {"c"}, {I("axis", 1)});
    b.Quantize("c", "y", "o");
    Expect(b, {U8s({1, 2, 1, 1}, {10, 200}), U8s({1, 2, 1, 1}, {130, 0})},
           {alone ? Want{{1, 2, 1, 1}, {74, 255}} : Want{{1, 6, 1, 1}, {74, 255, 65, 0, 74, 255}}});
  }
}

// Each output is the integer nearest to the real value; where two are equally near, either.
void ExpectNearest(const Tensor &got, const std::vector<double> &real) {
  ASSERT_EQ(got.num_elements(), static_cast<int64_t>(real.size()));
  for (int64_t i = 0; i < got.num_elements(); ++i)
    ASSERT_LE(std::abs(got.AsDouble(i) - std::clamp(real[i], 0.0, 255.0)), 0.5001) << i << ": " << real[i];
}

// N085: Add over all pairs of codes, AveragePool over many windows.
TEST(QuantizationCases, AddAndAveragePoolRoundOnce) {
  std::vector<uint8_t> rows, columns, mixed;
  for (int i = 0; i < 65536; ++i) {
    rows.push_back(static_cast<uint8_t>(i >> 8));
    columns.push_back(static_cast<uint8_t>(i));
    mixed.push_back(static_cast<uint8_t>(i * 2654435761u >> 21));
  }
  const std::vector<int64_t> plane = {1, 1, 256, 256};
  for (const char *target : {"edge-2t", "mcu-128"}) {
    SCOPED_TRACE(target);
    CompilerOptions options;
    options.target = target;
    Builder add;
    add.Grid("a", 0.037f, U8s({1}, {113})).Grid("b", 0.021f, U8s({1}, {128})).Grid("o", 0.052f, U8s({1}, {120}));
    add.In("p", {1, 1, 256, 256}, DType::U8).In("q", {1, 1, 256, 256}, DType::U8).Out("y");
    add.Dequantize("p", "pf", "a");
    add.Dequantize("q", "qf", "b");
    add.Node("Add", {"pf", "qf"}, {"s"});
    add.Quantize("s", "y", "o");
    report::Report r;
    auto got = CompileAndRun(add, {U8s(plane, rows), U8s(plane, columns)}, options, &r);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(r.coverage.nodes_host, 0);
    std::vector<double> want;
    for (int i = 0; i < 65536; ++i)
      want.push_back(((rows[i] - 113) * 0.037 + (columns[i] - 128) * 0.021) / 0.052 + 120);
    ExpectNearest((*got)[0], want);

    Builder pool;
    pool.Grid("a", 0.037f, U8s({1}, {113})).Grid("o", 0.03f, U8s({1}, {99}));
    pool.In("p", {1, 1, 256, 256}, DType::U8).Out("y");
    pool.Dequantize("p", "pf", "a");
    pool.Node("AveragePool", {"pf"}, {"m"}, {Is("kernel_shape", {2, 2})});
    pool.Quantize("m", "y", "o");
    got = CompileAndRun(pool, {U8s(plane, mixed)}, options, &r);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(r.coverage.nodes_host, 0);
    want.clear();
    for (int i = 0; i < 255; ++i)
      for (int j = 0; j < 255; ++j) {
        const int sum =
            mixed[i * 256 + j] + mixed[i * 256 + j + 1] + mixed[i * 256 + 256 + j] + mixed[i * 256 + 257 + j];
        want.push_back((sum / 4.0 - 113) * 0.037 / 0.03 + 99);
      }
    ExpectNearest((*got)[0], want);
  }
}

} // namespace
} // namespace npuc::test
