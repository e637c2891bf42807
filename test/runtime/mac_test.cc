// CONV and MATMUL: fast paths against the element-by-element reference over random shapes, and both against hand
// arithmetic. Designated initialisers leave out what keeps its default.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include "backend/isa/commands.h"
#include "test/runtime/machine_fixture.h"

namespace npuc::runtime {
namespace {

using isa::MicroKind;

void WriteTable(Bench &b, const isa::Address &at, int64_t channels, bool is_float, bool zero_points) {
  for (int64_t c = 0; c < channels; ++c) {
    uint8_t *p = b.memory.At(at) + c * isa::kTableEntryBytes;
    const float bias = static_cast<float>(b.Int(-300, 300)) / 64.0f,
                scale = is_float ? 1.0f : static_cast<float>(b.Int(1, 100)) / 20000.0f;
    const int64_t whole = b.Int(-20000, 20000);
    const int32_t zw = zero_points ? static_cast<int32_t>(b.Int(-5, 5)) : 0;
    std::memcpy(p, &whole, 8);
    if (is_float)
      std::memcpy(p, &bias, 4);
    std::memcpy(p + 8, &scale, 4);
    std::memcpy(p + 12, &zw, 4);
  }
}

isa::Address RandomBytes(Bench &b, int64_t bytes) {
  const isa::Address a = b.Allocate(bytes);
  for (int64_t i = 0; i < bytes; ++i)
    b.memory.At(a)[i] = static_cast<uint8_t>(b.Int(0, 255));
  return a;
}
isa::Address RandomWeights(Bench &b, DType t, int64_t count) {
  if (t == DType::I4)
    return RandomBytes(b, (count + 1) / 2);
  const isa::Address a = b.Allocate(count * ByteSize(t));
  for (int64_t i = 0; i < count; ++i)
    WriteInt(b.memory.At(a) + i * ByteSize(t), t, b.Bits(t, false));
  return a;
}

// A random legal chain that ends in `out`.
isa::MicroOps RandomStage(Bench &b, const isa::View &out, std::array<isa::StageOperand, 2> &operands) {
  isa::MicroOps ops{{.kind = MicroKind::Scale}};
  const auto operand = [&](int i) {
    const DType t = b.Pick({DType::I8, DType::U8, DType::F16, DType::I16});
    isa::View v = b.View(t, out.n, out.h, out.w, out.c);
    b.Fill(v);
    if (b.Coin())
      v.stride_h = 0;
    if (b.Coin())
      v.stride_w = 0;
    if (v.c_block == 1 && b.Coin())
      v.stride_c1 = 0;
    operands[i] = {v, b.Quant(t)};
  };
  if (b.Coin()) {
    operand(0);
    ops.push_back({.kind = b.Pick({MicroKind::Add, MicroKind::Sub, MicroKind::Mul, MicroKind::PRelu}),
                   .operand = 0,
                   .reversed = b.Coin()});
  }
  if (b.Coin())
    ops.push_back({.kind = MicroKind::Clamp, .a = -1.5f, .b = 6.0f});
  if (b.Coin())
    ops.push_back(
        {.kind = MicroKind::Act,
         .fn = b.Pick({isa::ElemFn::Sigmoid, isa::ElemFn::HardSwish, isa::ElemFn::LeakyRelu, isa::ElemFn::Mish}),
         .a = 0.1f});
  if (IsFloat(out.dtype) && b.Coin())
    return ops;
  const DType q = IsFloat(out.dtype) ? b.Pick({DType::I8, DType::U8}) : out.dtype;
  const isa::Quant quant = b.Quant(q);
  ops.push_back({.kind = MicroKind::Quantise, .requant = b.Coin(), .dtype = q, .quant = quant});
  if (ByteSize(q) == 1 && b.Coin())
    ops.push_back({.kind = MicroKind::Lut, .lut = RandomBytes(b, 256)});
  if (b.Coin())
    ops.push_back({.kind = MicroKind::ClampQ, .a = 2, .b = 60});
  if (IsFloat(out.dtype) || b.Coin()) {
    ops.push_back({.kind = MicroKind::Dequantise, .quant = quant});
    operand(1);
    ops.push_back({.kind = MicroKind::Add, .operand = 1});
    if (!IsFloat(out.dtype))
      ops.push_back({.kind = MicroKind::Quantise, .dtype = out.dtype, .quant = b.Quant(out.dtype)});
  }
  return ops;
}

struct Types {
  DType x, w, out;
  isa::AccType acc;
};
Types RandomTypes(Bench &b) {
  switch (b.Int(0, 4)) {
  case 0:
    return {DType::F16, b.Pick({DType::F16, DType::I8}), b.Pick({DType::F16, DType::I8}), isa::AccType::F32};
  case 1:
    return {DType::I16, b.Pick({DType::I8, DType::I16, DType::I4}), b.Pick({DType::I16, DType::I8}), isa::AccType::I48};
  case 2:
    return {DType::I8, b.Pick({DType::I8, DType::U8, DType::I16}), DType::I8, isa::AccType::I48};
  default:
    return {b.Pick({DType::I8, DType::U8}), b.Pick({DType::I8, DType::U8, DType::I4}),
            b.Pick({DType::I8, DType::U8, DType::I16, DType::F16}), isa::AccType::I32};
  }
}

isa::Command RandomConv(Bench &b) {
  isa::Conv c;
  const Types t = RandomTypes(b);
  c.mode = b.Pick({isa::ConvMode::Dense, isa::ConvMode::Dense, isa::ConvMode::Depthwise, isa::ConvMode::Grouped});
  c.kernel_h = b.Int(1, 4), c.kernel_w = b.Int(1, 4), c.stride_h = b.Int(1, 3), c.stride_w = b.Int(1, 3);
  c.dilation_h = b.Int(1, 2), c.dilation_w = b.Int(1, 2);
  c.pad_top = b.Int(0, 3), c.pad_left = b.Int(0, 3), c.pad_bottom = b.Int(0, 3), c.pad_right = b.Int(0, 3);
  const int64_t kh = (c.kernel_h - 1) * c.dilation_h + 1, kw = (c.kernel_w - 1) * c.dilation_w + 1;
  const int64_t n = b.Int(1, 2), ih = b.Int(1, 9), iw = b.Int(1, b.Int(0, 4) ? 14 : 120);
  const int64_t oh = (ih + c.pad_top + c.pad_bottom - kh) / c.stride_h + 1,
                ow = (iw + c.pad_left + c.pad_right - kw) / c.stride_w + 1;
  if (ih + c.pad_top + c.pad_bottom < kh || iw + c.pad_left + c.pad_right < kw)
    return RandomConv(b);
  int64_t ic = b.Int(1, 40), oc = b.Int(1, 40);
  const int64_t c2 = b.geometry.c2(t.x), obs = b.geometry.oc;
  int64_t weights = 0;
  const auto up = [](int64_t v, int64_t m) { return (v + m - 1) / m; };
  if (c.mode == isa::ConvMode::Depthwise) {
    oc = ic;
    weights = up(ic, obs) * obs * c.kernel_h * c.kernel_w;
  } else {
    if (c.mode == isa::ConvMode::Grouped) {
      c.groups = b.Int(1, 4);
      ic = c.groups * b.Int(1, 20), oc = c.groups * b.Int(1, 20);
    }
    weights = int64_t{c.groups} * up(oc / c.groups, obs) * obs * up(ic / c.groups, c2) * c2 * c.kernel_h * c.kernel_w;
  }
  c.in = b.View(t.x, n, ih, iw, ic, true);
  b.Fill(c.in);
  c.out = b.View(t.out, n, oh, ow, oc);
  c.in_zero =
      IsFloat(t.x) || t.x == DType::I16 ? 0 : static_cast<int32_t>(t.x == DType::U8 ? b.Int(100, 140) : b.Int(-20, 20));
  c.acc = t.acc;
  c.weight_dtype = t.w;
  c.weights = RandomWeights(b, t.w, weights);
  c.table = b.Allocate(oc * isa::kTableEntryBytes);
  WriteTable(b, c.table, oc, t.acc == isa::AccType::F32, t.w != DType::F16);
  c.stage = RandomStage(b, c.out, c.operands);
  return {.engine = isa::Engine::MXU, .body = c};
}

TEST(Conv, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed);
    if (b.Int(0, 3) == 0)
      b.geometry.oc = b.Pick({8, 32});
    b.Compare(RandomConv(b), b.Coin() ? 1 : 3);
    if (HasFailure())
      return;
  }
}

TEST(Conv, AccumulatesOverInputSlices) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed + 1000);
    isa::Command command = RandomConv(b);
    auto conv = std::get<isa::Conv>(command.body);
    std::vector<isa::Command> chain;
    for (int i = 0; i < 3; ++i) {
      isa::Conv part = conv;
      part.accumulate = i == 0 ? isa::Accumulate::Start : i == 1 ? isa::Accumulate::Continue : isa::Accumulate::Finish;
      if (i < 2)
        part.stage.clear();
      chain.push_back({.engine = isa::Engine::MXU, .body = part});
    }
    b.CompareAll(chain, 2);
    if (HasFailure())
      return;
  }
}

// Input channels in two slices at a block boundary: the f32 chain goes on where it stopped, so the bits equal one
// command's.
TEST(Conv, SlicesOfInputChannelsGiveTheSameHalfBits) {
  for (const DType w : {DType::F16, DType::I8}) {
    Bench b(7);
    isa::Conv c;
    c.in = isa::View{{isa::Region::Sram, 0, 0},
                     DType::F16,
                     isa::Tail::Keep,
                     1,
                     5,
                     6,
                     24,
                     8,
                     0,
                     3 * 5 * 6 * 16,
                     5 * 6 * 16,
                     6 * 16,
                     16,
                     0};
    c.in.address = b.Allocate(c.in.stride_n);
    b.Fill(c.in);
    c.out = c.in;
    c.out.h = 3, c.out.w = 4, c.out.c = 16;
    c.out.address = b.Allocate(4096);
    c.kernel_h = c.kernel_w = 3;
    c.acc = isa::AccType::F32;
    c.weight_dtype = w;
    // [OC/16][IC/8][3][3][8][16] with one OC block: a slice of input channels is a range.
    const int64_t slice = 8 * 9 * 16 * ByteSize(w);
    c.weights = RandomWeights(b, w, 24 * 9 * 16);
    c.table = b.Allocate(16 * 16);
    WriteTable(b, c.table, 16, true, false);
    c.stage = {{.kind = MicroKind::Scale}};
    const Context x{b.memory, b.geometry, nullptr, false, false, &b.workspace};
    ExecuteConv(c, x);
    std::vector<uint8_t> whole(b.memory.At(c.out.address), b.memory.At(c.out.address) + 2048);
    std::memset(b.memory.At(c.out.address), 0, 2048);
    isa::Conv one = c, two = c;
    one.in = c.in.Sub(0, 0, 0, 0, 1, 5, 6, 16);
    one.accumulate = isa::Accumulate::Start;
    one.stage.clear();
    two.in = c.in.Sub(0, 0, 0, 16, 1, 5, 6, 8);
    two.accumulate = isa::Accumulate::Finish;
    two.weights.offset += 2 * slice;
    ExecuteConv(one, x);
    ExecuteConv(two, x);
    EXPECT_EQ(whole, std::vector<uint8_t>(b.memory.At(c.out.address), b.memory.At(c.out.address) + 2048));
  }
}

isa::Command RandomMatMul(Bench &b) {
  isa::MatMul c;
  const Types t = RandomTypes(b);
  const int64_t n = b.Int(1, 3), h = b.Int(1, 3), m = b.Int(1, 60), k = b.Int(1, 70), cols = b.Int(1, 50);
  c.a = b.View(t.x, n, h, m, k, true);
  b.Fill(c.a);
  if (b.Int(0, 3) == 0)
    c.a.stride_n = 0;
  c.out = b.View(t.out, n, h, m, cols);
  c.a_zero = IsFloat(t.x) || t.x == DType::I16 ? 0 : static_cast<int32_t>(b.Int(-20, 20));
  c.acc = t.acc;
  if (b.Coin()) {
    const DType w = t.w == DType::I4 ? DType::I8 : t.w;
    c.transposed_b = b.Coin();
    c.b = c.transposed_b ? b.View(w, n, h, cols, k, true) : b.View(w, n, h, k, cols, true);
    b.Fill(c.b);
    if (b.Coin())
      c.b.stride_n = 0;
    if (b.Coin())
      c.b.stride_h = 0;
    c.b_zero = IsFloat(w) || w == DType::I16 ? 0 : static_cast<int32_t>(b.Int(-9, 9));
    c.weight_dtype = w;
  } else {
    const int64_t c2 = b.geometry.c2(t.x);
    c.weight_dtype = t.w;
    c.weights = RandomWeights(b, t.w, (cols + 15) / 16 * 16 * ((k + c2 - 1) / c2) * c2);
  }
  c.table = b.Allocate(cols * isa::kTableEntryBytes);
  WriteTable(b, c.table, cols, t.acc == isa::AccType::F32, t.w != DType::F16);
  c.stage = RandomStage(b, c.out, c.operands);
  return {.engine = isa::Engine::MXU, .body = c};
}

TEST(MatMul, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed + 5000);
    b.Compare(RandomMatMul(b), b.Coin() ? 1 : 3);
    if (HasFailure())
      return;
  }
}

// By hand: x = {10, 20} - 5, w = {3, -2} - 1, bias 7: 5*2 + 15*(-3) + 7 = -28; scale 0.5 -> -14; quantised with z 3 ->
// -11.
TEST(MatMul, HandArithmetic) {
  for (const bool reference : {true, false}) {
    Bench b(1, 4096);
    isa::MatMul c;
    c.a = isa::View{b.Allocate(64), DType::I8, isa::Tail::Keep, 1, 1, 1, 2, 16, 0, 16, 16, 16, 16, 0};
    c.out = isa::View{b.Allocate(64), DType::I8, isa::Tail::Fill, 1, 1, 1, 1, 16, 0, 16, 16, 16, 16, 3};
    b.memory.At(c.a.address)[0] = 10, b.memory.At(c.a.address)[1] = 20;
    c.weights = b.Allocate(256);
    b.memory.At(c.weights)[0] = 3, b.memory.At(c.weights)[16] = static_cast<uint8_t>(-2);
    c.table = b.Allocate(16);
    const int64_t bias = 7;
    const float scale = 0.5f;
    const int32_t zw = 1;
    std::memcpy(b.memory.At(c.table), &bias, 8);
    std::memcpy(b.memory.At(c.table) + 8, &scale, 4);
    std::memcpy(b.memory.At(c.table) + 12, &zw, 4);
    c.a_zero = 5;
    c.stage = {{.kind = MicroKind::Scale},
               {.kind = MicroKind::Quantise, .requant = true, .dtype = DType::I8, .quant = {1.0f, 3}}};
    ExecuteMatMul(c, {b.memory, b.geometry, nullptr, reference, false, &b.workspace});
    EXPECT_EQ(static_cast<int8_t>(b.memory.At(c.out.address)[0]), -11);
    for (int i = 1; i < 16; ++i)
      EXPECT_EQ(b.memory.At(c.out.address)[i], 3) << i; // the filled tail
  }
}

// Ties of the requantising step go to even: accumulators 1, 3, 5, -1, -3 times 0.5.
TEST(MatMul, RequantisingTiesGoToEven) {
  Bench b(1, 65536);
  isa::MatMul c;
  c.a = isa::View{b.Allocate(256), DType::I8, isa::Tail::Keep, 1, 1, 5, 1, 16, 0, 80, 80, 80, 16, 0};
  c.out = isa::View{b.Allocate(256), DType::I8, isa::Tail::Keep, 1, 1, 5, 1, 16, 0, 80, 80, 80, 16, 0};
  const int8_t in[] = {1, 3, 5, -1, -3}, want[] = {0, 2, 2, 0, -2};
  for (int i = 0; i < 5; ++i)
    b.memory.At(c.a.address)[i * 16] = static_cast<uint8_t>(in[i]);
  c.weights = b.Allocate(256);
  b.memory.At(c.weights)[0] = 1;
  c.table = b.Allocate(16);
  const float scale = 0.5f;
  std::memcpy(b.memory.At(c.table) + 8, &scale, 4);
  c.stage = {{.kind = MicroKind::Scale}, {.kind = MicroKind::Quantise, .requant = true, .dtype = DType::I8}};
  ExecuteMatMul(c, {b.memory, b.geometry, nullptr, false, false, &b.workspace});
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(static_cast<int8_t>(b.memory.At(c.out.address)[i * 16]), want[i]) << i;
}

} // namespace
} // namespace npuc::runtime
