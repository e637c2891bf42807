// The vector unit and DMA: fast paths against the element-by-element reference over random shapes, layouts and types,
// and hand arithmetic.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include "test/runtime/machine_fixture.h"

namespace npuc::runtime {
namespace {

isa::Command On(isa::Engine e, isa::CommandBody body) {
  return {.engine = e, .body = std::move(body)};
}
DType AnyType(Bench &b) {
  return b.Pick({DType::I8, DType::U8, DType::I16, DType::F16});
}

// Operand of the same dims, some axes broadcast.
isa::View Operand(Bench &b, DType t, const isa::View &like, bool wild = false) {
  isa::View v = b.View(t, like.n, like.h, like.w, like.c);
  b.Fill(v, wild);
  if (b.Int(0, 3) == 0)
    v.stride_n = 0;
  if (b.Int(0, 3) == 0)
    v.stride_h = 0;
  if (b.Int(0, 3) == 0)
    v.stride_w = 0;
  if (v.c_block == 1 && b.Coin())
    v.stride_c1 = 0;
  return v;
}

TEST(Elem, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 18);
    isa::Elem c;
    c.fn = static_cast<isa::ElemFn>(b.Int(0, static_cast<int>(isa::ElemFn::IsNaN)));
    SCOPED_TRACE(isa::Name(c.fn));
    const DType t = AnyType(b);
    DType out =
        b.Int(0, 2) ? t : b.Pick({DType::I8, DType::U8, DType::I16, DType::F16, DType::F32, DType::Bool, DType::I32});
    c.out = b.View(out, b.Int(1, 2), b.Int(1, 3), b.Int(1, b.Int(0, 6) ? 9 : 500), b.Int(1, b.Int(0, 6) ? 20 : 70));
    if (c.out.elements() > 20000)
      continue;
    c.out_quant = b.Quant(out);
    for (int i = 0; i < isa::NumOperands(c.fn); ++i) {
      c.scalar[i] = static_cast<float>(b.Int(-30, 30)) / 8;
      if (b.Int(0, 5) == 0)
        continue;
      const DType it =
          i == 0 && c.fn == isa::ElemFn::Select ? DType::Bool
          : b.Int(0, 2)                         ? t
                        : b.Pick({DType::I8, DType::U8, DType::I16, DType::F16, DType::F32, DType::I32, DType::Bool});
      c.in[i] = Operand(b, it, c.out, true);
      c.in_quant[i] = it == out && b.Coin() ? c.out_quant : b.Quant(it);
    }
    c.imm = {0.25f, 1.5f};
    b.Compare(On(isa::Engine::VPU, c), b.Coin() ? 1 : 3);
    if (HasFailure())
      return;
  }
}

TEST(Elem, InPlace) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Bench b(seed, 1 << 16);
    const DType t = AnyType(b);
    isa::Elem c;
    c.fn = b.Pick({isa::ElemFn::Add, isa::ElemFn::Tanh, isa::ElemFn::Max, isa::ElemFn::Select});
    c.out = b.View(t, 1, 2, 7, 19);
    b.Fill(c.out);
    c.out_quant = b.Quant(t);
    for (int i = 0; i < isa::NumOperands(c.fn); ++i) {
      const DType it = i == 0 && c.fn == isa::ElemFn::Select ? DType::Bool : t;
      c.in[i] = i == isa::NumOperands(c.fn) - 1 ? c.out : Operand(b, it, c.out);
      c.in_quant[i] = b.Coin() ? c.out_quant : b.Quant(it);
    }
    b.Compare(On(isa::Engine::VPU, c), 2);
    if (HasFailure())
      return;
  }
}

TEST(Lut, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 18);
    const DType t = b.Pick({DType::I8, DType::U8, DType::I16});
    isa::Lut c;
    c.in = b.View(t, b.Int(1, 2), b.Int(1, 4), b.Int(1, 40), b.Int(1, 40));
    b.Fill(c.in);
    c.out = b.View(t, c.in.n, c.in.h, c.in.w, c.in.c);
    c.table = b.Allocate(1026);
    for (int i = 0; i < 1026; ++i)
      b.memory.At(c.table)[i] = static_cast<uint8_t>(b.Int(0, 255));
    b.Compare(On(isa::Engine::VPU, c), 2);
    if (HasFailure())
      return;
  }
}

// Knots 0 and 1 are 10 and 13: at f = 64 the value is 11.5, to even 12; knots 13 and 10: 11.5 again; 10 and 11 at
// 64: 10.5 to 10.
TEST(Lut, Int16InterpolatesToEven) {
  Bench b(1, 8192);
  isa::Lut c;
  c.in = isa::View{b.Allocate(64), DType::I16, isa::Tail::Keep, 1, 1, 4, 1, 1, 0, 0, 0, 8, 2, 0};
  c.out = c.in;
  c.out.address = b.Allocate(64);
  c.table = b.Allocate(1026);
  const int16_t knots[] = {10, 13, 10, 11};
  std::memcpy(b.memory.At(c.table), knots, 8);
  const int16_t last = 77;
  std::memcpy(b.memory.At(c.table) + 1024, &last, 2);
  const int16_t in[] = {-32768 + 64, -32768 + 128 + 64, -32768 + 256 + 64, -32768 + 128};
  const int16_t want[] = {12, 12, 10, 13};
  std::memcpy(b.memory.At(c.in.address), in, 8);
  ExecuteLut(c, {b.memory, b.geometry});
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(ReadInt(b.memory.At(c.out.address) + 2 * i, DType::I16), want[i]) << i;
}

TEST(Pool, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 18);
    isa::Pool c;
    c.kind = b.Pick({isa::PoolKind::Max, isa::PoolKind::Average});
    c.kernel_h = b.Int(1, 4), c.kernel_w = b.Int(1, 4), c.stride_h = b.Int(1, 3), c.stride_w = b.Int(1, 3),
    c.dilation_h = b.Int(1, 2), c.dilation_w = b.Int(1, 2);
    c.pad_top = b.Int(0, 2), c.pad_left = b.Int(0, 2), c.pad_bottom = b.Int(0, 2), c.pad_right = b.Int(0, 2);
    c.count_include_pad = b.Coin();
    const int64_t ih = b.Int(1, 9), iw = b.Int(1, 14), kh = (c.kernel_h - 1) * c.dilation_h + 1,
                  kw = (c.kernel_w - 1) * c.dilation_w + 1;
    if (ih + c.pad_top + c.pad_bottom < kh || iw + c.pad_left + c.pad_right < kw)
      continue;
    const DType t = AnyType(b);
    c.in = b.View(t, b.Int(1, 2), ih, iw, b.Int(1, 40));
    b.Fill(c.in, true);
    const DType out = b.Int(0, 3) ? t : AnyType(b);
    c.out = b.View(out, c.in.n, (ih + c.pad_top + c.pad_bottom - kh) / c.stride_h + 1,
                   (iw + c.pad_left + c.pad_right - kw) / c.stride_w + 1 + b.Int(0, 1), c.in.c);
    c.in_quant = b.Quant(t);
    c.out_quant = out == t && b.Coin() ? c.in_quant : b.Quant(out);
    b.Compare(On(isa::Engine::VPU, c), 2);
    if (HasFailure())
      return;
  }
}

// 2x2 average of {1, 2, 4, 8} with zero point 1: (0 + 1 + 3 + 7) * 0.5 / 4 = 1.375 real; quantised with 0.25: 5.5 -> 6
// (even), + 3 = 9.
TEST(Pool, AverageByHand) {
  for (const bool reference : {true, false}) {
    Bench b(1, 4096);
    isa::Pool c;
    c.kind = isa::PoolKind::Average;
    c.kernel_h = c.kernel_w = 2;
    c.in = isa::View{b.Allocate(64), DType::U8, isa::Tail::Keep, 1, 2, 2, 1, 1, 0, 4, 4, 2, 1, 0};
    c.out = isa::View{b.Allocate(64), DType::U8, isa::Tail::Keep, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0};
    const uint8_t in[] = {1, 2, 4, 8};
    std::memcpy(b.memory.At(c.in.address), in, 4);
    c.in_quant = {0.5f, 1};
    c.out_quant = {0.25f, 3};
    ExecutePool(c, {b.memory, b.geometry, nullptr, reference});
    EXPECT_EQ(*b.memory.At(c.out.address), 9);
  }
}

TEST(Reduce, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 18);
    isa::Reduce c;
    c.kind = static_cast<isa::ReduceKind>(b.Int(0, static_cast<int>(isa::ReduceKind::ArgMin)));
    c.axes = static_cast<uint8_t>(b.Int(1, 15));
    const bool arg = c.kind == isa::ReduceKind::ArgMax || c.kind == isa::ReduceKind::ArgMin;
    if (arg)
      c.axes = static_cast<uint8_t>(1 << b.Int(0, 3));
    c.select_last = b.Coin();
    const DType t = AnyType(b);
    c.in = b.View(t, b.Int(1, 3), b.Int(1, 5), b.Int(1, 9), b.Int(1, 80));
    b.Fill(c.in, b.Coin());
    const DType out = arg ? DType::I32 : b.Int(0, 2) ? t : b.Pick({DType::F32, DType::I32, DType::F16, DType::I8});
    c.out =
        b.View(out, c.axes & 1 ? 1 : c.in.n, c.axes & 2 ? 1 : c.in.h, c.axes & 4 ? 1 : c.in.w, c.axes & 8 ? 1 : c.in.c);
    b.Fill(c.out);
    c.in_quant = b.Quant(t);
    c.out_quant = b.Coin() && !IsFloat(out) ? c.in_quant : b.Quant(out);
    if (c.kind == isa::ReduceKind::Sum || c.kind == isa::ReduceKind::Max || c.kind == isa::ReduceKind::Min)
      c.combine = b.Coin();
    b.Compare(On(isa::Engine::VPU, c), 2);
    if (HasFailure())
      return;
  }
}

// Element i goes into partial i mod 16, neighbours meet first: with 1e8 in element 0, -1e8 in element 1 and ones
// elsewhere, elements 16 and 17 are lost in p0 and p1 (f32 has no 1e8 + 1), p0 + p1 = 0, and the 14 partials left sum
// to 14.
TEST(Reduce, SixteenPartialsThenATree) {
  for (const bool reference : {true, false}) {
    Bench b(1, 4096);
    isa::Reduce c;
    c.axes = isa::kAxisC;
    c.in = isa::View{b.Allocate(128), DType::F32, isa::Tail::Keep, 1, 1, 1, 18, 18, 0, 72, 72, 72, 72, 0};
    c.out = isa::View{b.Allocate(64), DType::F32, isa::Tail::Keep, 1, 1, 1, 1, 1, 0, 4, 4, 4, 4, 0};
    float v[18];
    for (float &f : v)
      f = 1;
    v[0] = 1e8f, v[1] = -1e8f;
    std::memcpy(b.memory.At(c.in.address), v, sizeof(v));
    ExecuteReduce(c, {b.memory, b.geometry, nullptr, reference});
    EXPECT_EQ(ReadReal(b.memory.At(c.out.address), DType::F32, {}), 14.0f);
  }
}

TEST(Norm, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 19);
    isa::Norm c;
    c.kind = static_cast<isa::NormKind>(b.Int(0, 3));
    c.axes = static_cast<uint8_t>(b.Int(1, 15));
    const DType t = AnyType(b);
    const bool grouped = c.kind == isa::NormKind::Layer && (c.axes & 8) && b.Coin();
    c.groups = grouped ? b.Int(1, 4) : 1;
    c.in = b.View(t, b.Int(1, 3), b.Int(1, 5), b.Int(1, 9), grouped ? c.groups * b.Int(1, 12) : b.Int(1, 60));
    b.Fill(c.in);
    c.out = b.View(t, c.in.n, c.in.h, c.in.w, c.in.c);
    c.in_quant = b.Quant(t);
    c.out_quant = b.Quant(t);
    if (c.kind >= isa::NormKind::Layer) {
      if (b.Coin())
        c.gamma = Operand(b, b.Pick({DType::F16, DType::F32}), c.in);
      if (b.Coin())
        c.beta = Operand(b, b.Pick({DType::F16, DType::F32}), c.in);
      c.epsilon = 1e-5f;
    }
    b.Compare(On(isa::Engine::VPU, c), 2);
    if (HasFailure())
      return;
  }
}

TEST(Resize, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 19);
    isa::Resize c;
    c.kind = b.Pick({isa::ResizeKind::Nearest, isa::ResizeKind::Linear});
    c.coordinates = static_cast<isa::Coordinates>(b.Int(0, 4));
    c.nearest = static_cast<isa::Nearest>(b.Int(0, 3));
    const DType t = AnyType(b);
    const int64_t ih = b.Int(1, 8), iw = b.Int(1, 9), oh = b.Int(1, 17), ow = b.Int(1, 20);
    c.in = b.View(t, b.Int(1, 2), ih, iw, b.Int(1, 40));
    b.Fill(c.in, true);
    c.out = b.View(t, c.in.n, oh, ow, c.in.c);
    c.in_quant = b.Quant(t);
    c.out_quant = b.Coin() ? c.in_quant : b.Quant(t);
    c.full_in_h = ih, c.full_in_w = iw, c.full_out_h = oh, c.full_out_w = ow;
    c.scale_h = static_cast<float>(oh) / static_cast<float>(ih),
    c.scale_w = static_cast<float>(ow) / static_cast<float>(iw);
    b.Compare(On(isa::Engine::VPU, c), 2);
    if (HasFailure())
      return;
  }
}

TEST(Dma, FastEqualsReference) {
  for (uint32_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    Bench b(seed, 1 << 18);
    isa::Dma c;
    const DType t = b.Pick({DType::I8, DType::U8, DType::I16, DType::F16, DType::F32, DType::I32, DType::I64});
    c.src = b.View(t, b.Int(1, 2), b.Int(1, 5), b.Int(1, 12), b.Int(1, 40));
    b.Fill(c.src);
    if (b.Coin())
      for (int i = 0; i < 4; ++i)
        c.pad_before[i] = b.Int(0, 2), c.pad_after[i] = b.Int(0, 2);
    c.fill = b.Int(-100, 100);
    c.dst = b.View(t, c.src.n + c.pad_before[0] + c.pad_after[0], c.src.h + c.pad_before[1] + c.pad_after[1],
                   c.src.w + c.pad_before[2] + c.pad_after[2], c.src.c + c.pad_before[3] + c.pad_after[3]);
    b.Compare(On(isa::Engine::LD, c), 2);
    if (HasFailure())
      return;
  }
}

TEST(Dma, WidensAndNarrowsWordPairs) {
  Bench b(1, 4096);
  isa::Dma c;
  c.src = isa::View{b.Allocate(64), DType::I32, isa::Tail::Keep, 1, 1, 1, 2, 2, 0, 8, 8, 8, 8, 0};
  c.dst = isa::View{b.Allocate(64), DType::I64, isa::Tail::Keep, 1, 1, 1, 2, 2, 0, 16, 16, 16, 16, 0};
  c.mode = isa::DmaMode::WidenI32;
  const int32_t in[] = {-7, 1 << 30};
  std::memcpy(b.memory.At(c.src.address), in, 8);
  ExecuteDma(c, {b.memory, b.geometry});
  EXPECT_EQ(ReadInt(b.memory.At(c.dst.address), DType::I64), -7);
  EXPECT_EQ(ReadInt(b.memory.At(c.dst.address) + 8, DType::I64), 1 << 30);
  std::swap(c.src, c.dst);
  c.mode = isa::DmaMode::NarrowI64;
  std::memset(b.memory.At(c.dst.address), 0, 8);
  ExecuteDma(c, {b.memory, b.geometry});
  EXPECT_EQ(ReadInt(b.memory.At(c.dst.address), DType::I32), -7);
}

TEST(Gather, WrapsOnceThenClampsOrFails) {
  Bench b(1, 4096);
  isa::Gather c;
  c.table = isa::View{b.Allocate(64), DType::I8, isa::Tail::Keep, 1, 1, 4, 3, 3, 0, 12, 12, 12, 3, 0};
  c.indices = isa::View{b.Allocate(64), DType::I32, isa::Tail::Keep, 1, 1, 5, 1, 1, 0, 20, 20, 20, 4, 0};
  c.out = isa::View{b.Allocate(64), DType::I8, isa::Tail::Keep, 1, 1, 5, 3, 3, 0, 15, 15, 15, 3, 0};
  for (int i = 0; i < 12; ++i)
    b.memory.At(c.table.address)[i] = static_cast<uint8_t>(i);
  const int32_t index[] = {2, -1, -4, -9, 7}, row[] = {2, 3, 0, 0, 3};
  std::memcpy(b.memory.At(c.indices.address), index, 20);
  ASSERT_TRUE(ExecuteGather(c, {b.memory, b.geometry}).ok());
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(b.memory.At(c.out.address)[i], row[i / 3] * 3 + i % 3) << i;
  EXPECT_EQ(ErrorCode(ExecuteGather(c, {b.memory, b.geometry, nullptr, false, true})), "E0703");
}

} // namespace
} // namespace npuc::runtime
