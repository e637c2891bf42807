// Models that other compilers got wrong in memory, tiling, numbers at the edge and in what they report: compiled, run
// with checks from the model file, held against values worked out here. N...: the case's number.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "compiler/support/npy.h"
#include "test/pipeline/run_case.h"

namespace npuc::test {
namespace {

std::vector<float> Random(int64_t n, uint32_t seed, float lo = -1, float hi = 1) {
  std::vector<float> v(n);
  uint32_t state = seed * 2654435761u + 1;
  for (float &x : v) {
    state = state * 1664525u + 1013904223u;
    x = lo + (hi - lo) * static_cast<float>(state >> 16) / 65535;
  }
  return v;
}
// What f16 keeps of it: multiples of 1/256 below 2 are exact.
std::vector<float> Exact(std::vector<float> v) {
  for (float &x : v)
    x = std::nearbyint(x * 256) / 256;
  return v;
}

std::vector<Tensor> Execute(const ModelBuilder &b, const std::vector<Tensor> &inputs, CompilerOptions options = {},
                            report::Report *report = nullptr) {
  auto got = CompileAndRun(b, inputs, std::move(options), report);
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? *got : std::vector<Tensor>(b.g.output_size());
}

const report::NodeRow *Row(const report::Report &r, std::string_view id) {
  for (const report::NodeRow &n : r.nodes)
    if (n.id == id)
      return &n;
  return nullptr;
}

// N049: the dilated kernel reaches over 5, and ceil_mode counts with that: ceil((17 + 2 - 5) / 2) + 1 = 8.
TEST(MemoryCases, DilatedMaxPoolWithCeilMode) {
  ModelBuilder b;
  b.In("x", {1, 3, 17, 17}).Out("y");
  b.Node("MaxPool", {"x"}, {"y"},
         {Is("kernel_shape", {3, 3}), Is("strides", {2, 2}), Is("dilations", {2, 2}), Is("pads", {1, 1, 1, 1}),
          I("ceil_mode", 1)});
  const std::vector<float> x = Exact(Random(3 * 289, 1, -1, -0.125f));
  std::vector<float> want;
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) {
        float most = -std::numeric_limits<float>::infinity();
        for (int a = 0; a < 3; ++a)
          for (int d = 0; d < 3; ++d) {
            const int row = 2 * i - 1 + 2 * a, column = 2 * j - 1 + 2 * d;
            if (row >= 0 && row < 17 && column >= 0 && column < 17)
              most = std::max(most, x[(c * 17 + row) * 17 + column]);
          }
        want.push_back(most);
      }
  for (const char *target : {"edge-2t", "edge-1t"}) {
    CompilerOptions options;
    options.target = target;
    report::Report r;
    const auto got = Execute(b, {Floats({1, 3, 17, 17}, x)}, options, &r);
    EXPECT_EQ(DimsOf(got[0]), (std::vector<int64_t>{1, 3, 8, 8}));
    ExpectNear(got[0], want, 0);
    EXPECT_EQ(r.coverage.nodes_host, 0);
  }
}

// N109: a Clip whose bounds cross gives the upper one; NaN stays NaN. The same in the output stage of a Conv.
TEST(MemoryCases, ClipWithCrossedBoundsAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (bool fused : {false, true})
    for (auto precision : {Precision::Fp32, Precision::Auto}) {
      SCOPED_TRACE(fmt::format("{} {}", fused, precision == Precision::Fp32));
      ModelBuilder b;
      b.In("x", {1, 1, 1, 4}).Out("crossed").Out("bounded");
      b.Init("w", Floats({1, 1, 1, 1}, {1})).Init("one", Floats({}, {1})).Init("two", Floats({}, {2}));
      b.Init("minus", Floats({}, {-1}));
      for (const char *name : {"crossed", "bounded"}) {
        std::string v = "x";
        if (fused)
          b.Node("Conv", {"x", "w"}, {v = std::string(name) + "_c"});
        const bool crossed = std::string(name) == "crossed";
        b.Node("Clip", {v, crossed ? "two" : "minus", "one"}, {name});
      }
      CompilerOptions options;
      options.precision = precision;
      const auto got = Execute(b, {Floats({1, 1, 1, 4}, {-2, 0, 6, nan})}, options);
      const auto crossed = AsFloats(got[0]), bounded = AsFloats(got[1]);
      EXPECT_THAT(std::vector<float>(crossed.begin(), crossed.begin() + 3), testing::Each(1.0f));
      EXPECT_THAT(std::vector<float>(bounded.begin(), bounded.begin() + 3), testing::ElementsAre(-1, 0, 1));
      EXPECT_TRUE(std::isnan(bounded[3]));
      // min(max(NaN, 2), 1), both of which hand NaN on
      EXPECT_TRUE(std::isnan(crossed[3]));
    }
}

// N119: what the NPU does not run is named with operator and rule, and the counts add up. An operator that nobody knows
// is an error that names node, operator and domain.
TEST(MemoryCases, EveryFallbackHasItsReason) {
  ModelBuilder b;
  b.In("x", {1, 2, 4, 4}).In("k", {3}, DType::I64).Out("y").Out("n").Init("w", Floats({2, 2, 1, 1}, {1, 0, 0, 1}));
  b.Init("ones", Int64s({3}, {1, 1, 1}));
  b.Node("Conv", {"x", "w"}, {"c"}, {}, "conv");
  b.Node("Relu", {"c"}, {"y"}, {}, "relu");
  b.Node("Identity", {"k"}, {"same"}, {}, "identity");
  b.Node("Add", {"same", "ones"}, {"n"}, {}, "wide_add");
  report::Report r;
  const auto got =
      Execute(b, {Floats({1, 2, 4, 4}, std::vector<float>(32, 2)), Int64s({3}, {1, 2, 1LL << 40})}, {}, &r);
  EXPECT_EQ(got[1].AsInt(2), (1LL << 40) + 1);
  const report::NodeRow *add = Row(r, "wide_add");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->verdict, "host");
  EXPECT_EQ(add->op, "Add");
  ASSERT_FALSE(add->reasons.empty());
  EXPECT_EQ(add->reasons[0].rule, "dtype");
  EXPECT_NE(add->reasons[0].actual.find("i64"), std::string::npos) << add->reasons[0].actual;
  EXPECT_EQ(r.coverage.nodes_total, 4);
  EXPECT_EQ(r.coverage.nodes_npu + r.coverage.nodes_host + r.coverage.nodes_eliminated, 4);
  EXPECT_EQ(Row(r, "conv")->verdict, "npu");
  EXPECT_EQ(Row(r, "identity")->verdict, "eliminated");

  ModelBuilder foreign;
  foreign.Opset("com.acme", 1);
  foreign.In("x", {1, 2}).Out("y");
  foreign.Node("Foo", {"x"}, {"y"}, {}, "acme_node", "com.acme");
  const Diagnostic d = foreign.Fail();
  EXPECT_NE(d.message.find("com.acme"), std::string::npos) << d.message;
  EXPECT_NE(d.message.find("Foo"), std::string::npos) << d.message;
}

// N124: uneven pads on a size that tiles unevenly. Sampled positions, all four corners among them.
TEST(MemoryCases, UnevenPadsOfALargeConv) {
  ModelBuilder b;
  b.In("x", {1, 128, 160, 160}).Out("y");
  const std::vector<float> w = Exact(Random(256 * 128 * 9, 3, -0.25f, 0.25f)), x = Exact(Random(128 * 160 * 160, 5));
  b.Init("w", Floats({256, 128, 3, 3}, w));
  b.Node("Conv", {"x", "w"}, {"y"}, {Is("strides", {2, 2}), Is("pads", {1, 1, 0, 0})});
  report::Report r;
  const auto got = Execute(b, {Floats({1, 128, 160, 160}, x)}, {}, &r);
  ASSERT_EQ(DimsOf(got[0]), (std::vector<int64_t>{1, 256, 80, 80}));
  for (int k : {0, 17, 255})
    for (int i : {0, 1, 7, 8, 15, 16, 31, 40, 63, 64, 79})
      for (int j : {0, 1, 15, 16, 39, 79}) {
        double want = 0;
        for (int c = 0; c < 128; ++c)
          for (int a = 0; a < 3; ++a)
            for (int d = 0; d < 3; ++d)
              if (2 * i + a >= 1 && 2 * j + d >= 1)
                want += static_cast<double>(x[(c * 160 + 2 * i + a - 1) * 160 + 2 * j + d - 1]) *
                        w[((k * 128 + c) * 3 + a) * 3 + d];
        ASSERT_NEAR(got[0].AsDouble((k * 80 + i) * 80 + j), want, 1e-3 * (std::abs(want) + 1))
            << k << ' ' << i << ' ' << j;
      }
  EXPECT_EQ(r.coverage.nodes_host, 0);
}

// N125: one tensor four times in a Concat, below and above what fits on chip; floats and 16-bit integers.
TEST(MemoryCases, ConcatOfOneTensorFourTimes) {
  for (int64_t rows : {16, 128})
    for (bool integers : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", rows, integers));
      ModelBuilder b(21, 10);
      b.In("mask", {1, 1, rows, 1152}).In("scores", {1, 1, 4 * rows, 1152}).Out("y");
      Names parameters{"s", "z"};
      b.Init("s", Floats({}, {0x1p-10f})).Init("z", Tensor::Of<int16_t>(DType::I16, {}, llvm::ArrayRef<int16_t>({0})));
      auto both = [&](const std::string &v) -> std::string {
        if (!integers)
          return v;
        b.Node("QuantizeLinear", {v, "s", "z"}, {v + "_q"});
        b.Node("DequantizeLinear", {v + "_q", "s", "z"}, {v + "_d"});
        return v + "_d";
      };
      const std::string m = both("mask"), s = both("scores");
      b.Node("Concat", {m, m, m, m}, {"four"}, {I("axis", 2)});
      const std::string f = both("four");
      b.Node("Add", {f, s}, {integers ? "sum" : "y"});
      if (integers) {
        b.Node("QuantizeLinear", {"sum", "s", "z"}, {"sum_q"});
        b.Node("DequantizeLinear", {"sum_q", "s", "z"}, {"y"});
      }
      const std::vector<float> mask = Exact(Random(rows * 1152, 7)), scores = Exact(Random(4 * rows * 1152, 9));
      std::vector<float> want(scores);
      for (size_t i = 0; i < want.size(); ++i)
        want[i] += mask[i % mask.size()];
      CompilerOptions options;
      options.target = "edge-1t"; // 512 KiB on chip
      report::Report r;
      const auto got =
          Execute(b, {Floats({1, 1, rows, 1152}, mask), Floats({1, 1, 4 * rows, 1152}, scores)}, options, &r);
      EXPECT_TRUE(AsFloats(got[0]) == want);
      EXPECT_EQ(r.coverage.nodes_host, 0);
    }
}

// N126: results that nobody reads have no place of a live tensor.
TEST(MemoryCases, ResultsThatNobodyReads) {
  ModelBuilder b;
  b.In("x", {1, 6, 8, 8}).Out("y").Init("two", Floats({}, {2})).Init("one", Floats({}, {1}));
  b.Node("Split", {"x"}, {"first", "middle", "last"}, {I("axis", 1), I("num_outputs", 3)});
  b.Node("MaxPool", {"first"}, {"pooled", "indices"}, {Is("kernel_shape", {2, 2}), Is("strides", {2, 2})});
  b.Node("MaxPool", {"last"}, {"pooled_last", "more_indices"}, {Is("kernel_shape", {2, 2}), Is("strides", {2, 2})});
  std::string v = "pooled";
  for (int i = 0; i < 6; ++i) { // 2x - 1, which f16 holds as long as it stays below 2
    b.Node("Mul", {v, "two"}, {"m" + std::to_string(i)});
    b.Node("Sub", {"m" + std::to_string(i), "one"}, {v = "s" + std::to_string(i)});
  }
  b.Node("Add", {v, "pooled_last"}, {"y"});
  b.m.mutable_opset_import(0)->set_version(18);
  const std::vector<float> x = Exact(Random(384, 11, 0.5f, 1));
  std::vector<float> want;
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        auto most = [&](int channel) {
          float m = -1;
          for (int a = 0; a < 2; ++a)
            for (int d = 0; d < 2; ++d)
              m = std::max(m, x[(channel * 8 + 2 * i + a) * 8 + 2 * j + d]);
          return m;
        };
        want.push_back(64 * (most(c) - 1) + 1 + most(4 + c));
      }
  ExpectNear(Execute(b, {Floats({1, 6, 8, 8}, x)})[0], want, 0x1p-5f);
}

// N128: nothing is computed in place of an input or an output; a second run gives the same.
TEST(MemoryCases, InputsAreLeftAlone) {
  ModelBuilder b;
  b.In("x", {2, 8}).Out("a").Out("y");
  b.Node("Relu", {"x"}, {"a"});
  b.Node("Add", {"x", "a"}, {"y"});
  CompilerOptions options;
  options.model = WriteModel(b);
  options.jobs = 1;
  DiagnosticEngine diagnostics;
  auto made = Compile(options, diagnostics);
  ASSERT_TRUE(made.ok()) << diagnostics.RenderAll();
  auto model = runtime::Model::FromFile(std::move(made->file), "case");
  ASSERT_TRUE(model.ok()) << model.status();
  runtime::Session session(*model, {});
  const std::vector<float> x{-1, 2, -3, 4, -0.5f, 0, 1, 2, -8, 7, 6, -5, 4, 3, -2, 1};
  const Tensor input = Floats({2, 8}, x);
  ASSERT_TRUE(session.SetInput(0, input).ok());
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(session.Run().ok());
    EXPECT_EQ(AsFloats(input), x);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(session.Output(0).tensor()->AsDouble(i), std::max(x[i], 0.0f));
      EXPECT_EQ(session.Output(1).tensor()->AsDouble(i), x[i] + std::max(x[i], 0.0f));
    }
  }
}

// N129: maps eight times the size of the chip's memory are spilled, and a Concat of them is a matter of addresses.
TEST(MemoryCases, MapsBeyondTheChip) {
  ModelBuilder b;
  b.In("x", {1, 3, 256, 256}).Out("y");
  const std::vector<float> x = Exact(Random(3 * 65536, 13));
  std::vector<float> w[3];
  for (int k = 0; k < 3; ++k) {
    const std::string n = std::to_string(k);
    w[k] = Exact(Random(32 * 27, 17 + k, -0.25f, 0.25f));
    b.Init("w" + n, Floats({32, 3, 3, 3}, w[k]));
    b.Node("Conv", {"x", "w" + n}, {"c" + n}, {Is("pads", {1, 1, 1, 1})});
  }
  b.Node("Concat", {"c0", "c1", "c2"}, {"y"}, {I("axis", 1)});
  CompilerOptions options;
  options.target = "edge-1t";
  report::Report r;
  const auto got = Execute(b, {Floats({1, 3, 256, 256}, x)}, options, &r);
  ASSERT_EQ(DimsOf(got[0]), (std::vector<int64_t>{1, 96, 256, 256}));
  for (int k : {0, 31, 32, 63, 64, 95})
    for (int i : {0, 1, 63, 64, 127, 255})
      for (int j : {0, 100, 255}) {
        double want = 0;
        for (int c = 0; c < 3; ++c)
          for (int a = 0; a < 3; ++a)
            for (int d = 0; d < 3; ++d)
              if (i + a >= 1 && i + a <= 256 && j + d >= 1 && j + d <= 256)
                want += static_cast<double>(x[(c * 256 + i + a - 1) * 256 + j + d - 1]) *
                        w[k / 32][((k % 32 * 3 + c) * 3 + a) * 3 + d];
        ASSERT_NEAR(got[0].AsDouble((k * 256 + i) * 256 + j), want, 2e-3) << k << ' ' << i << ' ' << j;
      }
  EXPECT_EQ(r.coverage.nodes_host, 0);
  EXPECT_LE(r.memory.sram_peak, 512 << 10);
}

// N130: a Pad of a large image alone.
TEST(MemoryCases, LonePadOfALargeImage) {
  ModelBuilder b;
  b.In("x", {1, 3, 480, 640}).Out("y").Init("pads", Int64s({8}, {0, 0, 1, 1, 0, 0, 1, 1})).Init("v", Floats({}, {-2}));
  b.Node("Pad", {"x", "pads", "v"}, {"y"});
  const std::vector<float> x = Exact(Random(3 * 480 * 640, 19));
  std::vector<float> want;
  for (int c = 0; c < 3; ++c)
    for (int i = -1; i <= 480; ++i)
      for (int j = -1; j <= 640; ++j)
        want.push_back(i < 0 || i == 480 || j < 0 || j == 640 ? -2 : x[(c * 480 + i) * 640 + j]);
  const auto got = Execute(b, {Floats({1, 3, 480, 640}, x)});
  ASSERT_EQ(DimsOf(got[0]), (std::vector<int64_t>{1, 3, 482, 642}));
  EXPECT_TRUE(AsFloats(got[0]) == want);
}

// N132: eight units of a ShuffleNet, quantised. The convolutions hand their channels on, so that all that is left is
// the permutation of the shuffles; the quantiser comes to an end.
TEST(MemoryCases, ShuffleUnitsQuantised) {
  constexpr int kChannels = 16, kHalf = 8, kSide = 6, kUnits = 8, kPlane = kSide * kSide;
  ModelBuilder b(18);
  b.In("x", {1, kChannels, kSide, kSide}).Out("y");
  std::vector<float> same(kHalf * kHalf, 0);
  for (int i = 0; i < kHalf; ++i)
    same[i * kHalf + i] = 1;
  b.Init("apart", Int64s({5}, {1, 2, kHalf, kSide, kSide})).Init("together", Int64s({4}, {1, kChannels, kSide, kSide}));
  std::string v = "x";
  std::vector<int> from(kChannels);
  for (int i = 0; i < kChannels; ++i)
    from[i] = i;
  for (int u = 0; u < kUnits; ++u) {
    const std::string n = std::to_string(u);
    b.Init("w" + n, Floats({kHalf, kHalf, 1, 1}, same)).Init("v" + n, Floats({kHalf, kHalf, 1, 1}, same));
    b.Node("Split", {v}, {"l" + n, "r" + n}, {I("axis", 1), I("num_outputs", 2)});
    b.Node("Conv", {"r" + n, "w" + n}, {"c" + n});
    b.Node("Relu", {"c" + n}, {"a" + n});
    b.Node("Conv", {"a" + n, "v" + n}, {"d" + n});
    b.Node("Concat", {"l" + n, "d" + n}, {"j" + n}, {I("axis", 1)});
    b.Node("Reshape", {"j" + n, "apart"}, {"p" + n});
    b.Node("Transpose", {"p" + n}, {"t" + n}, {Is("perm", {0, 2, 1, 3, 4})});
    b.Node("Reshape", {"t" + n, "together"}, {v = u + 1 < kUnits ? "o" + n : "y"});
    std::vector<int> next(kChannels);
    for (int i = 0; i < kChannels; ++i) // channel 2i + g comes from g * half + i
      next[i] = from[i % 2 * kHalf + i / 2];
    from = next;
  }
  const std::vector<float> samples = Random(8 * kChannels * kPlane, 23, 0, 1);
  const std::string path = WriteModel(b) + ".npy";
  const std::vector<int64_t> shape{8, kChannels, kSide, kSide};
  ASSERT_TRUE(
      WriteNpy(path, "<f4", shape, {reinterpret_cast<const uint8_t *>(samples.data()), samples.size() * 4}).ok());
  CompilerOptions options;
  options.precision = Precision::Int8;
  options.calib = {path};
  const std::vector<float> x(samples.begin(), samples.begin() + kChannels * kPlane);
  report::Report r;
  const auto got = Execute(b, {Floats({1, kChannels, kSide, kSide}, x)}, options, &r);
  std::vector<float> want;
  for (int c = 0; c < kChannels; ++c)
    want.insert(want.end(), x.begin() + from[c] * kPlane, x.begin() + (from[c] + 1) * kPlane);
  ExpectNear(got[0], want, 8.0f / 255); // half a step of a range of 1 at each of up to sixteen roundings
  EXPECT_EQ(r.coverage.nodes_host, 0);
  EXPECT_EQ(Row(r, "Conv@c0") ? Row(r, "Conv@c0")->precision : "absent", "u8");
}

} // namespace
} // namespace npuc::test
