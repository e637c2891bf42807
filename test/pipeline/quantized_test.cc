// Quantised models as exporters and quantisers write them, through the whole product. Every number is worked out here
// in double from what ONNX says: quantise = clamp(round_half_even(x / s) + z), dequantise = (q - z) * s. Integer
// results may be one step off where the product's f32 rounds a tie, and only rarely.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "compiler/support/npy.h"
#include "test/pipeline/run_case.h"

namespace npuc::test {
namespace {

using Doubles = std::vector<double>;
using Dims64 = std::vector<int64_t>;

int64_t Count(const Dims64 &dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

class Random {
public:
  explicit Random(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  int64_t Int(int64_t lo, int64_t hi) {
    state_ = state_ * 1664525u + 1013904223u;
    return lo + static_cast<int64_t>(state_ >> 8) % (hi - lo + 1);
  }
  float Real(float lo, float hi) { return lo + (hi - lo) * static_cast<float>(Int(0, 65535)) / 65535; }

private:
  uint32_t state_;
};

// Integers of dtype with one scale and zero point, one a slice of `axis`, or one a block of it.
struct Quantised {
  DType dtype = DType::U8;
  Dims64 dims;
  std::vector<int64_t> codes;
  std::vector<float> scales;
  std::vector<int64_t> zeros; // empty: none is given
  int axis = -1;
  int64_t block = 0;

  Dims64 ScaleDims() const {
    if (axis < 0)
      return {};
    if (block == 0)
      return {dims[axis]};
    Dims64 d = dims;
    d[axis] = (d[axis] + block - 1) / block;
    return d;
  }
  int64_t ScaleOf(int64_t i) const {
    if (axis < 0)
      return 0;
    const int64_t inner = Count({dims.begin() + axis + 1, dims.end()}), at = i / inner % dims[axis];
    if (block == 0)
      return at;
    return (i / inner / dims[axis] * ((dims[axis] + block - 1) / block) + at / block) * inner + i % inner;
  }
  double Zero(int64_t i) const { return zeros.empty() ? 0 : static_cast<double>(zeros[ScaleOf(i)]); }
  Doubles Reals() const {
    Doubles r(codes.size());
    for (size_t i = 0; i < r.size(); ++i)
      r[i] = (static_cast<double>(codes[i]) - Zero(i)) * scales[ScaleOf(i)];
    return r;
  }
  double Code(double x, int64_t i) const {
    const double code = std::nearbyint(static_cast<float>(x) / scales[ScaleOf(i)]) + Zero(i);
    return std::clamp(code, static_cast<double>(IntMin(dtype)), static_cast<double>(IntMax(dtype)));
  }
  // x rounded to the grid.
  Doubles Rounded(const Doubles &x) const {
    Doubles r(x.size());
    for (size_t i = 0; i < r.size(); ++i)
      r[i] = (Code(x[i], i) - Zero(i)) * scales[ScaleOf(i)];
    return r;
  }
};

Tensor Integers(DType t, llvm::ArrayRef<int64_t> dims, const std::vector<int64_t> &v) {
  Tensor r = Tensor::Allocate(t, dims);
  for (size_t i = 0; i < v.size(); ++i)
    std::memcpy(r.mutable_bytes() + i * ByteSize(t), &v[i], ByteSize(t)); // little-endian
  return r;
}

Quantised Weights(DType dtype, Dims64 dims, int axis, uint32_t seed, int64_t block = 0) {
  Random r(seed);
  Quantised w{dtype, std::move(dims), {}, {}, {}, axis, block};
  for (int64_t i = 0; i < Count(w.dims); ++i)
    w.codes.push_back(r.Int(IntMin(dtype), IntMax(dtype)));
  const float unit = 1.5f / static_cast<float>(IntMax(dtype) + 1);
  for (int64_t i = 0; i < Count(w.ScaleDims()); ++i) {
    w.scales.push_back(r.Real(unit * 0.3f, unit));
    w.zeros.push_back(IsSignedInt(dtype) ? 0 : (IntMax(dtype) + 1) / 2);
  }
  return w;
}
Quantised Grid(DType dtype, float scale, std::optional<int64_t> zero, Dims64 dims = {}) {
  Quantised g{dtype, std::move(dims), {}, {scale}, {}, -1, 0};
  if (zero)
    g.zeros = {*zero};
  return g;
}

// Writes the nodes; names are the caller's.
struct Builder : ModelBuilder {
  explicit Builder(int64_t opset = 25) : ModelBuilder(opset, 10) {}
  Names Parameters(const std::string &name, const Quantised &q) {
    Init(name + "_s", Floats(q.ScaleDims(), q.scales));
    if (q.zeros.empty())
      return {name + "_s"};
    Init(name + "_z", Integers(q.dtype, q.ScaleDims(), q.zeros));
    return {name + "_s", name + "_z"};
  }
  std::vector<Attr> Attrs(const Quantised &q) {
    std::vector<Attr> a;
    if (q.axis >= 0)
      a.push_back(I("axis", q.axis));
    if (q.block > 0)
      a.push_back(I("block_size", q.block));
    return a;
  }
  // x -> codes
  std::string Quantize(const std::string &x, const std::string &to, const Quantised &q) {
    Names in{x};
    for (const std::string &p : Parameters(to, q))
      in.push_back(p);
    auto attrs = Attrs(q);
    if (q.zeros.empty())
      attrs.push_back(I("output_dtype", static_cast<int>(q.dtype)));
    Node("QuantizeLinear", in, {to}, attrs, "quantize_" + to);
    return to;
  }
  std::string Dequantize(const std::string &x, const std::string &to, const Quantised &q) {
    Names in{x};
    for (const std::string &p : Parameters(to, q))
      in.push_back(p);
    Node("DequantizeLinear", in, {to}, Attrs(q), "dequantize_" + to);
    return to;
  }
  std::string Both(const std::string &x, const std::string &to, const Quantised &q) {
    return Dequantize(Quantize(x, to + "_q", q), to, q);
  }
  std::string Constant(const std::string &to, const Quantised &q) {
    Init(to + "_q", Integers(q.dtype, q.dims, q.codes));
    return Dequantize(to + "_q", to, q);
  }
};

std::vector<float> RandomReals(int64_t n, uint32_t seed, float lo = -2, float hi = 2) {
  Random r(seed);
  std::vector<float> v(n);
  for (float &x : v)
    x = r.Real(lo, hi);
  return v;
}
Doubles AsDoubles(const std::vector<float> &v) {
  return {v.begin(), v.end()};
}

// [M, K] x [K, N]
Doubles Product(const Doubles &a, const Doubles &b, int64_t m, int64_t k, int64_t n, bool trans_b = false) {
  Doubles y(m * n, 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        y[i * n + j] += a[i * k + l] * (trans_b ? b[j * k + l] : b[l * n + j]);
  return y;
}
// x [C, H, W], w [O, C, 3, 3], pads 1.
Doubles Convolution(const Doubles &x, const Doubles &w, int64_t c, int64_t h, int64_t wd, int64_t o) {
  Doubles y(o * h * wd, 0);
  for (int64_t k = 0; k < o; ++k)
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < wd; ++j)
        for (int64_t l = 0; l < c; ++l)
          for (int64_t a = 0; a < 3; ++a)
            for (int64_t b = 0; b < 3; ++b)
              if (i + a >= 1 && i + a <= h && j + b >= 1 && j + b <= wd)
                y[(k * h + i) * wd + j] += x[(l * h + i + a - 1) * wd + j + b - 1] * w[((k * c + l) * 3 + a) * 3 + b];
  return y;
}
// x [C, H, W], w [C, O, 3, 3], strides 2: [O, 2H + 1, 2W + 1].
Doubles Deconvolution(const Doubles &x, const Doubles &w, int64_t c, int64_t h, int64_t wd, int64_t o) {
  const int64_t oh = 2 * h + 1, ow = 2 * wd + 1;
  Doubles y(o * oh * ow, 0);
  for (int64_t l = 0; l < c; ++l)
    for (int64_t k = 0; k < o; ++k)
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < wd; ++j)
          for (int64_t a = 0; a < 3; ++a)
            for (int64_t b = 0; b < 3; ++b)
              y[(k * oh + 2 * i + a) * ow + 2 * j + b] += x[(l * h + i) * wd + j] * w[((l * o + k) * 3 + a) * 3 + b];
  return y;
}

// Within f16's resolution of the greatest value, or (step > 0) on the grid of that step: one step off at most, for one
// element of fifty.
void ExpectReals(const Tensor &got, const Doubles &want, double step = 0, double tolerance = 0x1p-8) {
  ASSERT_EQ(static_cast<size_t>(got.num_elements()), want.size());
  double greatest = 1e-9;
  size_t off = 0;
  for (double v : want)
    greatest = std::max(greatest, std::abs(v));
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(got.AsDouble(i) - want[i]);
    if (step > 0) {
      ASSERT_LE(d, step * 1.01) << "element " << i << ": " << got.AsDouble(i) << " for " << want[i];
      off += d > step * 0.5;
    } else {
      ASSERT_LE(d, greatest * tolerance) << "element " << i << ": " << got.AsDouble(i) << " for " << want[i];
    }
  }
  EXPECT_LE(off, 1 + want.size() / 50);
}

std::string PrecisionOf(const report::Report &r, std::string_view op) {
  for (const report::NodeRow &n : r.nodes)
    if (n.op == op || n.op == "com.microsoft::" + std::string(op))
      return n.verdict == "npu" ? n.precision : n.verdict;
  return "absent";
}
// Why the node "op" is no integer product.
std::string WhyFloat(const report::Report &r) {
  for (const report::KeptFloatRow &k : r.quantization.kept_float)
    if (k.node == "op")
      return k.why;
  return "";
}
int Hosted(const report::Report &r) {
  int n = 0;
  for (const report::NodeRow &row : r.nodes)
    n += row.verdict == "host";
  return n;
}

// Outputs of the lowered model; the reference compilation (host steps) gives the same within f32.
std::vector<Tensor> RunBoth(const ModelBuilder &b, const std::vector<Tensor> &inputs, const std::vector<Doubles> &want,
                            double step, report::Report *report, double tolerance = 0x1p-8) {
  CompilerOptions reference;
  reference.precision = Precision::Fp32;
  auto exact = CompileAndRun(b, inputs, reference);
  EXPECT_TRUE(exact.ok()) << exact.status();
  auto got = CompileAndRun(b, inputs, CompilerOptions(), report);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!exact.ok() || !got.ok())
    return {};
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    ExpectReals((*exact)[i], want[i], step, 1e-5);
    ExpectReals((*got)[i], want[i], step, tolerance);
  }
  return *got;
}

// Each matrix operator with weights in one scale, or one a slice of either axis; with a QuantizeLinear behind it and
// without.
TEST(Quantized, ChannelAxes) {
  struct Case {
    const char *op;
    Dims64 x, w, y;
    int channel_axis;
    std::vector<Attr> attrs;
  };
  const Case cases[] = {
      {"Conv", {1, 4, 5, 6}, {6, 4, 3, 3}, {6, 5, 6}, 0, {Is("pads", {1, 1, 1, 1})}},
      {"ConvTranspose", {1, 4, 5, 6}, {4, 6, 3, 3}, {6, 11, 13}, 1, {Is("strides", {2, 2})}},
      {"Gemm", {7, 8}, {8, 5}, {7, 5}, 1, {}},
      {"Gemm", {7, 8}, {5, 8}, {7, 5}, 0, {I("transB", 1)}},
      {"MatMul", {7, 8}, {8, 5}, {7, 5}, 1, {}},
  };
  for (const Case &c : cases)
    for (int axis : {-1, 0, 1})
      for (bool quantised : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {} axis {} {}", c.op, c.attrs.size(), axis, quantised));
        const Quantised in = Grid(DType::U8, 0.02f, 120), out = Grid(DType::U8, 0.125f, 100),
                        w = Weights(DType::I8, c.w, axis, 7);
        Builder b;
        std::vector<DimSpec> dims(c.x.begin(), c.x.end());
        b.In("x", dims).Out("y");
        b.Node(c.op, {b.Both("x", "xf", in), b.Constant("w", w)}, {quantised ? "sums" : "y"}, c.attrs, "op");
        if (quantised)
          b.Both("sums", "y", out);
        const std::vector<float> x = RandomReals(Count(c.x), 3);
        const Doubles a = in.Rounded(AsDoubles(x));
        Doubles y = std::string(c.op) == "Conv"            ? Convolution(a, w.Reals(), 4, 5, 6, 6)
                    : std::string(c.op) == "ConvTranspose" ? Deconvolution(a, w.Reals(), 4, 5, 6, 6)
                                                           : Product(a, w.Reals(), 7, 8, 5, c.w[0] == 5);
        if (quantised)
          y = out.Rounded(y);
        report::Report r;
        RunBoth(b, {Floats(c.x, x)}, {y}, quantised ? 0.125 : 0, &r);
        const bool fits = axis < 0 || axis == c.channel_axis;
        EXPECT_EQ(PrecisionOf(r, c.op), fits ? "u8" : "f16");
        EXPECT_EQ(WhyFloat(r),
                  fits ? ""
                       : fmt::format("its weights have scales along axis {}, a product has them along axis {}", axis,
                                     c.channel_axis));
        EXPECT_EQ(Hosted(r), 0);
      }
}

// Element types and zero points of activations and weights, given and absent.
TEST(Quantized, TypesOfZeroPoints) {
  struct Activation {
    Quantised in, out;
    const char *precision;
  };
  const Activation activations[] = {
      {Grid(DType::U8, 0.02f, 120), Grid(DType::U8, 0.25f, 127), "u8"},
      {Grid(DType::U8, 0.02f, {}), Grid(DType::U8, 0.25f, {}), "u8"},
      {Grid(DType::I8, 0.02f, -7), Grid(DType::I8, 0.25f, -3), "i8"},
      {Grid(DType::I8, 0.02f, {}), Grid(DType::I8, 0.25f, {}), "i8"},
      {Grid(DType::I16, 0.0001f, 25), Grid(DType::I16, 0x1p-8f, -11), "i16"},
      {Grid(DType::I16, 0.0001f, {}), Grid(DType::I16, 0x1p-8f, {}), "i16"},
      {Grid(DType::U16, 0.0001f, 30000), Grid(DType::U16, 0x1p-8f, 33333), "i16"},
  };
  for (const Activation &a : activations)
    for (DType type : {DType::I8, DType::U8, DType::I4, DType::U4, DType::I2, DType::U2}) {
      SCOPED_TRACE(
          fmt::format("{} z={} weights {}", Name(a.in.dtype), a.in.zeros.empty() ? 0 : a.in.zeros[0], Name(type)));
      const Quantised w = Weights(type, {6, 4, 3, 3}, 0, 11);
      Builder b;
      b.In("x", {1, 4, 5, 6}).Out("y");
      b.Node("Conv", {b.Both("x", "xf", a.in), b.Constant("w", w)}, {"sums"}, {Is("pads", {1, 1, 1, 1})}, "op");
      b.Both("sums", "y", a.out);
      const std::vector<float> x = RandomReals(4 * 5 * 6, 5);
      const Doubles y = a.out.Rounded(Convolution(a.in.Rounded(AsDoubles(x)), w.Reals(), 4, 5, 6, 6));
      report::Report r;
      RunBoth(b, {Floats({1, 4, 5, 6}, x)}, {y}, a.out.scales[0], &r);
      EXPECT_EQ(PrecisionOf(r, "Conv"), a.precision);
      EXPECT_EQ(Hosted(r), 0);
    }
}

// Codes of 16 bits without sign come in and go out as they are.
TEST(Quantized, RawUnsigned16) {
  const Quantised in = Grid(DType::U16, 0.0001f, 30000), out = Grid(DType::U16, 0x1p-7f, 200),
                  w = Weights(DType::I8, {6, 4, 3, 3}, 0, 11);
  Builder b;
  b.In("q", {1, 4, 5, 6}, DType::U16).Out("y");
  b.Node("Conv", {b.Dequantize("q", "xf", in), b.Constant("w", w)}, {"sums"}, {Is("pads", {1, 1, 1, 1})}, "op");
  b.Quantize("sums", "y", out);
  Random random(1);
  Quantised q = in;
  q.dims = {1, 4, 5, 6};
  for (int i = 0; i < 120; ++i)
    q.codes.push_back(random.Int(0, 65535));
  const Doubles sums = Convolution(q.Reals(), w.Reals(), 4, 5, 6, 6);
  Doubles want;
  for (double v : sums)
    want.push_back(out.Code(v, 0));
  report::Report r;
  const auto got = RunBoth(b, {Integers(DType::U16, q.dims, q.codes)}, {want}, 1, &r);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].dtype(), DType::U16);
  EXPECT_EQ(PrecisionOf(r, "Conv"), "i16");
}

// Weights in blocks of an axis: folded, as no table of the array has their scales. The activations stay rounded.
TEST(Quantized, BlockedWeights) {
  for (DType type : {DType::I8, DType::U8, DType::I4, DType::U4, DType::I2, DType::U2})
    for (auto [axis, block] : {std::pair(0, 4), std::pair(1, 3), std::pair(0, 5)})
      for (bool rounded : {false, true}) {
        SCOPED_TRACE(fmt::format("{} axis {} block {} {}", Name(type), axis, block, rounded));
        const Quantised in = Grid(DType::U8, 0.02f, 120), w = Weights(type, {16, 6}, axis, 13, block);
        Builder b;
        b.In("x", {3, 16}).Out("y");
        b.Node("MatMul", {rounded ? b.Both("x", "xf", in) : "x", b.Constant("w", w)}, {"y"}, {}, "op");
        const std::vector<float> x = RandomReals(48, 5);
        report::Report r;
        RunBoth(b, {Floats({3, 16}, x)},
                {Product(rounded ? in.Rounded(AsDoubles(x)) : AsDoubles(x), w.Reals(), 3, 16, 6)}, 0, &r);
        EXPECT_EQ(PrecisionOf(r, "MatMul"), "f16");
        EXPECT_EQ(WhyFloat(r), "its weights have one scale a block; a product has one an output channel");
        EXPECT_EQ(Hosted(r), 0);
      }
}

// Weights of 8-bit floats: e4m3 codes 0x00, 0x38, 0xb8, 0x40, 0x30, 0x7e are 0, 1, -1, 2, 0.5, 448.
TEST(Quantized, Float8Weights) {
  Builder b;
  b.In("x", {2, 3}).Out("y");
  Tensor codes = Tensor::Allocate(DType::F8E4M3FN, {3, 2});
  const uint8_t bytes[] = {0x00, 0x38, 0xb8, 0x40, 0x30, 0x7e};
  std::memcpy(codes.mutable_bytes(), bytes, 6);
  b.Init("w_q", codes).Init("w_s", Floats({}, {0.25f}));
  b.Node("DequantizeLinear", {"w_q", "w_s"}, {"w"}, {}, "dequantize");
  b.Node("MatMul", {"x", "w"}, {"y"}, {}, "op");
  report::Report r;
  // w = [[0, .25], [-.25, .5], [.125, 112]]
  RunBoth(b, {Floats({2, 3}, {1, 2, 4, -1, 0.5f, 0})}, {{0, 0.25 + 1 + 448, -0.125, -0.25 + 0.25}}, 0, &r);
  EXPECT_EQ(PrecisionOf(r, "MatMul"), "f16");
  EXPECT_EQ(WhyFloat(r), "its weights are float8e4m3fn; the NPU multiplies integers and float16");
  EXPECT_EQ(Hosted(r), 0);
}

// Activations rounded on grids that no type carries.
TEST(Quantized, ActivationsInSeveralScales) {
  struct Case {
    DType type;
    int axis;
    int64_t block;
  };
  for (const Case &c : {Case{DType::U8, 0, 0}, Case{DType::I8, 1, 0}, Case{DType::U8, 1, 4}, Case{DType::I4, -1, 0},
                        Case{DType::U2, 0, 0}}) {
    SCOPED_TRACE(fmt::format("{} axis {} block {}", Name(c.type), c.axis, c.block));
    Quantised g{c.type, {6, 8}, {}, {}, {}, c.axis, c.block};
    Random random(17);
    for (int64_t i = 0; i < Count(g.ScaleDims()); ++i) {
      // Powers of two: x / s is exact in f16 too.
      g.scales.push_back(c.type == DType::I4 || c.type == DType::U2 ? 0.25f : random.Int(0, 1) ? 0x1p-6f : 0x1p-5f);
      g.zeros.push_back(c.type == DType::U8 ? random.Int(100, 140) : c.type == DType::I8 ? random.Int(-9, 9) : 1);
    }
    Builder b;
    b.In("x", {6, 8}).Out("y").Out("d");
    b.Quantize("x", "q", g);
    b.Dequantize("q", "d", g);
    b.Node("Relu", {"d"}, {"y"});
    std::vector<float> x = RandomReals(48, 5);
    for (float &v : x)
      v = std::nearbyint(v * 256) / 256; // f16 holds it
    const Doubles d = g.Rounded(AsDoubles(x));
    Doubles y = d;
    for (double &v : y)
      v = std::max(v, 0.0);
    report::Report r;
    RunBoth(b, {Floats({6, 8}, x)}, {y, d}, 0, &r, 1e-6);
    EXPECT_EQ(Hosted(r), 0);
  }
}

// A DequantizeLinear with two readers that is an output too; a QuantizeLinear whose codes are an output.
TEST(Quantized, SharedAndLoneNodes) {
  const Quantised in = Grid(DType::U8, 0.02f, 120), mid = Grid(DType::U8, 0.125f, 100),
                  out = Grid(DType::I8, 0.25f, -5), w = Weights(DType::I8, {4, 4, 3, 3}, 0, 7);
  Builder b;
  b.In("x", {1, 4, 5, 6}).Out("q").Out("a").Out("e");
  b.Node("Conv", {b.Both("x", "xf", in), b.Constant("w", w)}, {"sums"}, {Is("pads", {1, 1, 1, 1})}, "op");
  b.Both("sums", "a", mid);
  b.Node("Mul", {"a", "xf"}, {"product"});
  b.Quantize("product", "q", out);
  b.Node("Abs", {"a"}, {"e"});
  const std::vector<float> x = RandomReals(120, 3);
  const Doubles xf = in.Rounded(AsDoubles(x)), a = mid.Rounded(Convolution(xf, w.Reals(), 4, 5, 6, 4));
  Doubles q, e;
  for (size_t i = 0; i < a.size(); ++i) {
    q.push_back(out.Code(a[i] * xf[i], 0));
    e.push_back(std::abs(a[i]));
  }
  report::Report r;
  const auto got = RunBoth(b, {Floats({1, 4, 5, 6}, x)}, {q, a, e}, 1, &r);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].dtype(), DType::I8);
  ExpectReals(got[1], a, 0.125);
  EXPECT_EQ(PrecisionOf(r, "Conv"), "u8");
  EXPECT_EQ(Hosted(r), 0);
}

// Quantisation-aware training leaves float weights behind QuantizeLinear and DequantizeLinear.
TEST(Quantized, FakeQuantisedWeights) {
  for (DType type : {DType::I8, DType::U8, DType::I4})
    for (int axis : {-1, 0}) {
      SCOPED_TRACE(fmt::format("{} axis {}", Name(type), axis));
      const Quantised in = Grid(DType::U8, 0.02f, 120), out = Grid(DType::U8, 0.125f, 100);
      Quantised w = Weights(type, {6, 4, 3, 3}, axis, 19);
      const std::vector<float> trained = RandomReals(216, 23, -1, 1);
      Builder b;
      b.In("x", {1, 4, 5, 6}).Out("y").Init("trained", Floats(w.dims, trained));
      b.Node("Conv", {b.Both("x", "xf", in), b.Both("trained", "w", w)}, {"c"}, {Is("pads", {1, 1, 1, 1})}, "op");
      b.Node("Relu", {"c"}, {"sums"});
      b.Both("sums", "y", out);
      const std::vector<float> x = RandomReals(120, 5);
      Doubles y = Convolution(in.Rounded(AsDoubles(x)), w.Rounded(AsDoubles(trained)), 4, 5, 6, 6);
      for (double &v : y)
        v = std::max(v, 0.0);
      report::Report r;
      RunBoth(b, {Floats({1, 4, 5, 6}, x)}, {out.Rounded(y)}, 0.125, &r);
      EXPECT_EQ(PrecisionOf(r, "Conv"), "u8");
      EXPECT_EQ(Hosted(r), 0);
    }
}

// What DynamicQuantizeLinear says of x: u8 over its range and 0.
Quantised Dynamic(const std::vector<float> &x) {
  float lo = 0, hi = 0;
  for (float v : x)
    lo = std::min(lo, v), hi = std::max(hi, v);
  const float s = hi == lo ? 1 : (hi - lo) / 255;
  return Grid(DType::U8, s, std::clamp<int64_t>(std::lrint(-lo / s), 0, 255));
}

// Integers of 9 bits on the array, with sums scaled by what is known at run time.
TEST(Quantized, DynamicQuantisation) {
  for (const char *form : {"MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"})
    for (DType type : {DType::I8, DType::U8})
      for (bool channels : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", form, Name(type), channels));
        const bool conv = std::string(form) == "ConvInteger", mm = std::string(form) == "MatMulInteger";
        const Dims64 xd = conv ? Dims64{1, 4, 5, 6} : Dims64{7, 24};
        Quantised w = Weights(type, conv ? Dims64{6, 4, 3, 3} : Dims64{24, 6}, channels ? conv ? 0 : 1 : -1, 29);
        Builder b(21);
        b.Opset("com.microsoft", 1);
        b.In("x", {xd.begin(), xd.end()}).Out("y").Init("w", Integers(type, w.dims, w.codes));
        // ConvInteger has one zero point for all weights.
        b.Init("wz",
               Integers(type, conv ? Dims64{} : w.ScaleDims(), conv ? std::vector<int64_t>{w.zeros[0]} : w.zeros));
        b.Init("ws", Floats(conv && channels ? Dims64{6, 1, 1} : w.ScaleDims(), w.scales));
        const std::vector<float> bias = RandomReals(6, 31, -1, 1);
        b.Init("bias", Floats(conv ? Dims64{1, 6, 1, 1} : Dims64{6}, bias));
        if (conv || mm) {
          b.Node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}, {}, "quantize");
          b.Node(form, {"q", "w", "z", "wz"}, {"sums"},
                 conv ? std::vector<Attr>{Is("pads", {1, 1, 1, 1})} : std::vector<Attr>{}, "op");
          b.Node("Cast", {"sums"}, {"real"}, {I("to", 1)}, "cast");
          b.Node("Mul", {"s", "ws"}, {"scale"}, {}, "scales");
          b.Node("Mul", {"real", "scale"}, {"scaled"}, {}, "scaled");
          b.Node("Add", {"scaled", "bias"}, {"y"}, {}, "add");
        } else if (std::string(form) == "DynamicQuantizeMatMul") {
          b.Node(form, {"x", "w", "ws", "wz", "bias"}, {"y"}, {}, "op", "com.microsoft");
        } else {
          b.Node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}, {}, "quantize");
          b.Node(form, {"q", "w", "s", "ws", "z", "wz", "bias"}, {"y"}, {}, "op", "com.microsoft");
        }
        // Powers of two make a scale that f16 holds: 1.5 - -0.4921875 = 255 / 128.
        std::vector<float> x = RandomReals(Count(xd), 37, -0.49f, 1.4f);
        for (float &v : x)
          v = std::nearbyint(v * 512) / 512;
        x[3] = 1.5f, x[5] = 1.5f - 255.0f / 128;
        const Doubles a = Dynamic(x).Rounded(AsDoubles(x));
        Doubles y = conv ? Convolution(a, w.Reals(), 4, 5, 6, 6) : Product(a, w.Reals(), 7, 24, 6);
        for (size_t i = 0; i < y.size(); ++i)
          y[i] += bias[conv ? i / 30 : i % 6];
        report::Report r;
        RunBoth(b, {Floats(xd, x)}, {y}, 0, &r, 0x1p-10);
        // The first thing that DynamicQuantizeMatMul does is to find the range, in f16.
        EXPECT_EQ(PrecisionOf(r, form), std::string(form) == "DynamicQuantizeMatMul" ? "f16" : "i16");
        EXPECT_EQ(Hosted(r), 0);
      }
}

// Nothing but zeros: the scale is 1 by definition, and the sums are 0.
TEST(Quantized, DynamicQuantisationOfZeros) {
  Builder b(21);
  b.Opset("com.microsoft", 1);
  const Quantised w = Weights(DType::I8, {8, 4}, -1, 29);
  b.In("x", {2, 8}).Out("y").Init("w", Integers(DType::I8, w.dims, w.codes)).Init("ws", Floats({}, {0.01f}));
  b.Init("wz", Integers(DType::I8, {}, {0})).Init("bias", Floats({4}, {1, -2, 3, 0.5f}));
  b.Node("DynamicQuantizeMatMul", {"x", "w", "ws", "wz", "bias"}, {"y"}, {}, "op", "com.microsoft");
  report::Report r;
  RunBoth(b, {Floats({2, 8}, std::vector<float>(16, 0))}, {{1, -2, 3, 0.5, 1, -2, 3, 0.5}}, 0, &r);
  EXPECT_EQ(Hosted(r), 0);
  CompilerOptions verified; // each pass says truly whether it changed something
  verified.verify_each = true;
  EXPECT_TRUE(CompileAndRun(b, {Floats({2, 8}, std::vector<float>(16, 0))}, verified).ok());
}

// --io native: with the conversions gone an input is an output as it is, and reads as such.
TEST(Quantized, NativeInputThatIsAnOutput) {
  const Quantised g = Grid(DType::U8, 0.02f, 120);
  Builder b;
  b.In("x", {1, 4, 6, 5}).Out("y").Out("z");
  b.Both("x", "y", g);
  b.Node("MaxPool", {"y"}, {"m"}, {Is("kernel_shape", {2, 2})});
  b.Quantize("m", "z", g);
  CompilerOptions options;
  options.native_io = options.verify_each = true;
  Random random(3);
  std::vector<int64_t> codes, greatest;
  for (int i = 0; i < 120; ++i)
    codes.push_back(random.Int(0, 255));
  for (int c = 0; c < 4; ++c)
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < 4; ++j) {
        const int64_t *at = &codes[(c * 6 + i) * 5 + j];
        greatest.push_back(std::max({at[0], at[1], at[5], at[6]}));
      }
  auto got = CompileAndRun(b, {Integers(DType::U8, {1, 4, 6, 5}, codes)}, options);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(AsFloats((*got)[0]), std::vector<float>(codes.begin(), codes.end()));
  EXPECT_EQ(AsFloats((*got)[1]), std::vector<float>(greatest.begin(), greatest.end()));
}

// Zero points and scales that are constants: integers as they come.
TEST(Quantized, IntegerProductWithConstantScale) {
  Builder b(21);
  const Quantised in = Grid(DType::U8, 1, 7), w = Weights(DType::I8, {24, 6}, -1, 29);
  b.In("q", {3, 24}, DType::U8).Out("y").Init("w", Integers(DType::I8, w.dims, w.codes));
  b.Init("z", Integers(DType::U8, {}, {7})).Init("s", Floats({}, {0x1p-13f}));
  b.Node("MatMulInteger", {"q", "w", "z"}, {"sums"}, {}, "op");
  b.Node("Cast", {"sums"}, {"real"}, {I("to", 1)});
  b.Node("Mul", {"real", "s"}, {"y"});
  Random random(3);
  Quantised q = in;
  q.dims = {3, 24};
  for (int i = 0; i < 72; ++i)
    q.codes.push_back(random.Int(0, 255));
  Quantised unit = w;
  unit.scales = {1};
  Doubles y = Product(q.Reals(), unit.Reals(), 3, 24, 6);
  for (double &v : y)
    v *= 0x1p-13;
  report::Report r;
  RunBoth(b, {Integers(DType::U8, q.dims, q.codes)}, {y}, 0, &r, 0x1p-10);
  EXPECT_EQ(PrecisionOf(r, "MatMulInteger"), "u8");
  EXPECT_EQ(Hosted(r), 0);
}

// Sums that are read as integers stay integers, on the host; nothing is lost there.
TEST(Quantized, RawSumsStayExact) {
  Builder b(21);
  b.In("q", {1, 3}, DType::U8).Out("y");
  b.Init("w", Integers(DType::I8, {3, 1}, {-81, -80, 127})).Init("z", Integers(DType::U8, {}, {0}));
  b.Node("MatMulInteger", {"q", "w", "z"}, {"y"}, {}, "op");
  report::Report r;
  auto got = CompileAndRun(b, {Integers(DType::U8, {1, 3}, {210, 198, 234})}, CompilerOptions(), &r);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].dtype(), DType::I32);
  EXPECT_EQ((*got)[0].AsInt(0), 210 * -81 + 198 * -80 + 234 * 127);
  EXPECT_EQ(PrecisionOf(r, "MatMulInteger"), "host");
}

// Gemm in every form, floats and integers.
TEST(Quantized, FormsOfGemm) {
  struct Case {
    bool trans_a, trans_b;
    Dims64 c; // {0}: none
    float alpha, beta;
    bool b_computed, c_computed;
  };
  for (const Case &c : {Case{true, false, {5}, 1, 1, false, false}, Case{true, true, {3, 5}, 0.5f, 2, false, false},
                        Case{false, true, {3, 1}, 1, 1, false, false}, Case{false, false, {3, 5}, 1, 1, true, false},
                        Case{true, true, {1}, 0.5f, 1, true, false}, Case{false, true, {5}, 2, 0, true, false},
                        Case{false, false, {0}, 1, 1, true, false}, Case{false, true, {3, 5}, 1, 0.5f, false, true},
                        Case{false, true, {1, 5}, 0.5f, 0.25f, false, false}})
    for (bool quantised : {false, true}) {
      SCOPED_TRACE(fmt::format("A{} B{} C{} alpha {} beta {} {}{} {}", c.trans_a, c.trans_b, fmt::join(c.c, "x"),
                               c.alpha, c.beta, c.b_computed, c.c_computed, quantised));
      const Quantised in = Grid(DType::U8, 0.02f, 120), out = Grid(DType::U8, 0.125f, 100);
      const Dims64 ad = c.trans_a ? Dims64{8, 3} : Dims64{3, 8}, bd = c.trans_b ? Dims64{5, 8} : Dims64{8, 5};
      const bool has_c = c.c != Dims64{0};
      const std::vector<float> av = RandomReals(24, 3), bv = RandomReals(40, 5, -1, 1),
                               cv = RandomReals(has_c ? Count(c.c) : 0, 7, -1, 1);
      Quantised w = Weights(DType::I8, bd, -1, 41);
      Builder b;
      b.In("a", {ad.begin(), ad.end()}).Out("y");
      std::vector<Tensor> inputs{Floats(ad, av)};
      Names operands{quantised ? b.Both("a", "af", in) : "a"};
      Doubles bw = AsDoubles(bv);
      if (c.b_computed) {
        b.In("b", {bd.begin(), bd.end()});
        inputs.push_back(Floats(bd, bv));
        operands.push_back(quantised ? b.Both("b", "bf", in) : "b");
        bw = quantised ? in.Rounded(bw) : bw;
      } else if (quantised) {
        operands.push_back(b.Constant("w", w));
        bw = w.Reals();
      } else {
        b.Init("b", Floats(bd, bv));
        operands.push_back("b");
      }
      if (has_c) {
        if (c.c_computed) {
          b.In("c", {c.c.begin(), c.c.end()});
          inputs.push_back(Floats(c.c, cv));
        } else {
          b.Init("c", Floats(c.c, cv));
        }
        operands.push_back("c");
      }
      b.Node("Gemm", operands, {quantised ? "sums" : "y"},
             {I("transA", c.trans_a), I("transB", c.trans_b), F("alpha", c.alpha), F("beta", c.beta)}, "op");
      if (quantised)
        b.Both("sums", "y", out);
      const Doubles rounded = quantised ? in.Rounded(AsDoubles(av)) : AsDoubles(av);
      Doubles a = rounded;
      if (c.trans_a)
        for (int i = 0; i < 3; ++i)
          for (int k = 0; k < 8; ++k)
            a[i * 8 + k] = rounded[k * 3 + i];
      Doubles y = Product(a, bw, 3, 8, 5, c.trans_b);
      for (int i = 0; i < 15; ++i) {
        const int row = c.c.size() == 2 && c.c[0] == 3 ? i / 5 : 0, column = has_c && c.c.back() == 5 ? i % 5 : 0;
        y[i] = c.alpha * y[i] + (has_c ? c.beta * cv[row * c.c.back() + column] : 0);
      }
      report::Report r;
      RunBoth(b, inputs, {quantised ? out.Rounded(y) : y}, quantised ? 0.125 : 0, &r);
      EXPECT_EQ(Hosted(r), 0);
    }
}

// Four-bit weights take half the bytes of eight-bit ones, in the file and on the way to the chip, and count the same.
TEST(Quantized, FourBitWeightsHalveTheirBytes) {
  struct Case {
    const char *op;
    Dims64 x, w;
    std::vector<Attr> attrs;
    int64_t packed; // elements with padding to whole blocks of 16 channels on either side
  };
  for (const Case &c : {Case{"Conv", {1, 32, 6, 6}, {48, 32, 3, 3}, {Is("pads", {1, 1, 1, 1})}, 48 * 32 * 9},
                        Case{"Conv", {1, 32, 6, 6}, {32, 1, 3, 3}, {Is("pads", {1, 1, 1, 1}), I("group", 32)}, 32 * 9},
                        Case{"ConvTranspose", {1, 32, 6, 6}, {32, 48, 2, 2}, {Is("strides", {2, 2})}, 48 * 32 * 4},
                        Case{"MatMul", {6, 64}, {64, 48}, {}, 64 * 48}})
    for (bool with_sign : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", c.op, with_sign));
      report::Report reports[2];
      std::vector<Tensor> results[2];
      Quantised w = Weights(with_sign ? DType::I4 : DType::U4, c.w, -1, 43);
      const std::vector<float> x = RandomReals(Count(c.x), 47);
      for (int wide : {0, 1}) {
        w.dtype = wide ? with_sign ? DType::I8 : DType::U8 : w.dtype;
        Builder b;
        b.In("x", {c.x.begin(), c.x.end()}).Out("y");
        b.Node(c.op, {b.Both("x", "xf", Grid(DType::U8, 0.02f, 120)), b.Constant("w", w)}, {"sums"}, c.attrs, "op");
        b.Both("sums", "y", Grid(DType::U8, 0.5f, 100));
        auto got = CompileAndRun(b, {Floats(c.x, x)}, CompilerOptions(), &reports[wide]);
        ASSERT_TRUE(got.ok()) << got.status();
        results[wide] = *got;
        EXPECT_EQ(PrecisionOf(reports[wide], c.op), "u8");
        EXPECT_LE(reports[wide].performance.efficiency, 1);
      }
      EXPECT_EQ(AsFloats(results[0][0]), AsFloats(results[1][0]));
      const int64_t saved = c.packed / 2;
      EXPECT_NEAR(reports[1].memory.const_bytes - reports[0].memory.const_bytes, saved, 64) << "alignment";
      EXPECT_NEAR(reports[1].performance.ddr_read_bytes - reports[0].performance.ddr_read_bytes, saved, 64);
    }
}

// N088: calibration of a Clip whose bounds are inputs: initializers, a Constant node, the upper one alone.
TEST(Quantized, CalibratedClipWithBoundsAsInputs) {
  for (const char *form : {"initializers", "constant node", "upper only"}) {
    SCOPED_TRACE(form);
    const bool lower = std::string(form) != "upper only";
    ModelBuilder b(13);
    b.In("x", {1, 1, 4, 4}).Out("y").Init("w", Floats({1, 1, 1, 1}, {2})).Init("six", Floats({}, {6}));
    if (std::string(form) == "constant node")
      b.Node("Constant", {}, {"zero"}, {T("value", Floats({}, {0}))});
    else
      b.Init("zero", Floats({}, {0}));
    b.Node("Conv", {"x", "w"}, {"c"}, {}, "first");
    b.Node("Clip", {"c", lower ? "zero" : "", "six"}, {"r"}, {}, "clip");
    b.Node("Conv", {"r", "w"}, {"y"}, {}, "second");
    std::vector<float> samples = RandomReals(8 * 16, 53, -4, 4);
    samples[0] = 4, samples[1] = -4;
    const std::string path = WriteModel(b) + ".npy";
    const Dims64 shape{8, 1, 4, 4};
    ASSERT_TRUE(
        WriteNpy(path, "<f4", shape, {reinterpret_cast<const uint8_t *>(samples.data()), samples.size() * 4}).ok());
    CompilerOptions options;
    options.precision = Precision::Int8;
    options.calib = {path};
    options.calib_method = "minmax";
    report::Report r;
    const std::vector<float> x(samples.begin(), samples.begin() + 16);
    auto got = CompileAndRun(b, {Floats({1, 1, 4, 4}, x)}, options, &r);
    ASSERT_TRUE(got.ok()) << got.status();
    // The range between the layers is [0, 6], or [-8, 6]: steps of 6 / 255 or 14 / 255, doubled behind.
    const float low = lower ? 0 : -8;
    for (int i = 0; i < 16; ++i)
      EXPECT_NEAR((*got)[0].AsDouble(i), 2 * std::clamp(2 * x[i], low, 6.0f), (lower ? 0.06 : 0.13) + 8.0 / 255);
    EXPECT_EQ(PrecisionOf(r, "Conv"), "u8");
    EXPECT_EQ(Hosted(r), 0);
  }
}

} // namespace
} // namespace npuc::test
