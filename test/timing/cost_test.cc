// Prices of single commands against hand arithmetic on edge-2t: px 4, oc 16, ic 16, SRAM 256 B/cycle, DDR 12.8 B/cycle
// in bursts of 64.
#include <gtest/gtest.h>

#include <random>

#include "backend/isa/byte_box.h"
#include "backend/isa/isa.h"
#include "backend/timing/timing.h"

namespace npuc::timing {
namespace {

using isa::Address;
using isa::Command;
using isa::Engine;
using isa::Region;
using isa::View;

Target Edge2t() {
  return *Target::FromPreset("edge-2t");
}
Address Sram(int64_t offset) {
  return {Region::Sram, 0, offset};
}
Address Arena(int64_t offset) {
  return {Region::Arena, 0, offset};
}

Cost CostOf(Engine e, isa::CommandBody body, const Target &t) {
  Command c;
  c.engine = e;
  c.body = std::move(body);
  return CommandCost(c, t);
}
Cost CostOf(Engine e, isa::CommandBody body) {
  return CostOf(e, std::move(body), Edge2t());
}

TEST(Work, IsRoundedUpOnceInUnitsOf256thCycles) {
  EXPECT_EQ(Work(64, Rational(128, 10)), 1280); // 5 cycles
  EXPECT_EQ(Work(1, Rational(128, 10)), 20);    // exactly 20
  EXPECT_EQ(Work(1, Rational(512, 10)), 5);     // exactly 5
  EXPECT_EQ(Work(1, Rational(3)), 86);          // 85.33
  EXPECT_EQ(Work(0, Rational(3)), 0);
  EXPECT_EQ(Work(int64_t{1} << 45, Rational(128, 10)), (int64_t{1} << 45) * 20);
}

TEST(Steps, OfEachTraversal) {
  const Target t = Edge2t();
  ConvShape s;
  s.ic = 3;
  s.oc = 32;
  s.positions = 64;
  s.kh = s.kw = 3;
  EXPECT_EQ(ConvSteps(s, t), 9); // ceil(3/16) * 9
  s.traversal = isa::Traversal::Row;
  EXPECT_EQ(ConvSteps(s, t), 3); // ceil(9/16) * 3
  s.traversal = isa::Traversal::Kernel;
  EXPECT_EQ(ConvSteps(s, t), 2); // ceil(27/16)
  s.traversal = isa::Traversal::PartKernel;
  EXPECT_EQ(ConvSteps(s, t), 12); // 4 * ceil(9/4) * ceil(3/8)
  s.traversal = isa::Traversal::Depth;
  s.ic = 40;
  EXPECT_EQ(ConvSteps(s, t), 27);
  EXPECT_EQ(ConvMac(s, t), 16 * 2 * 27 * 256);
  s.x = DType::I16;
  s.acc = isa::AccType::I48; // in the rate already
  EXPECT_EQ(ConvMac(s, t), 16 * 2 * 27 * 256 * 2);
  s.x = DType::U8; // 48 bits on 8-bit inputs: half
  EXPECT_EQ(ConvMac(s, t), 16 * 2 * 27 * 256 * 2);
  s.acc = isa::AccType::I32;
  s.mode = isa::ConvMode::Grouped;
  s.groups = 4; // per group ceil(8/16) blocks, ceil(10/16) * 9 steps
  EXPECT_EQ(ConvMac(s, t), 4 * 16 * 1 * 9 * 256);
  s.mode = isa::ConvMode::Depthwise;
  EXPECT_EQ(ConvSteps(s, t), 5); // ceil(9/2)
  const Target u55 = *Target::FromPreset("u55-256-like");
  EXPECT_EQ(ConvSteps(s, u55), 12); // 9 taps, granule 4
}

isa::Conv SmallConv() {
  isa::Conv c;
  c.in = isa::NhwcView(Sram(0), DType::I8, 1, 10, 10, 16);
  c.out = isa::NhwcView(Sram(4096), DType::I8, 1, 8, 8, 32);
  c.weights = Sram(8192);
  c.weight_bytes = 4608;
  c.table = Sram(16384);
  c.kernel_h = c.kernel_w = 3;
  c.stage.resize(2);
  c.stage[1].kind = isa::MicroKind::Quantise;
  c.stage[1].dtype = DType::I8;
  return c;
}

TEST(Conv, ArrayBound) {
  const Cost c = CostOf(Engine::MXU, SmallConv());
  // 64/4 positions * 32/16 channels * 9 steps; issue 4, fill 16.
  EXPECT_EQ(c.compute, (4 + 16 + 288) * 256);
  EXPECT_EQ(c.compute_bound, Bound::Mac);
  // input 10*160, weights 4608, table 32*16, output 64*32
  EXPECT_EQ(c.sram_bytes, 1600 + 4608 + 512 + 2048);
  EXPECT_EQ(c.sram, 8768); // 256 B/cycle: a unit a byte
  EXPECT_EQ(c.ddr_read_bytes, 0);
  EXPECT_EQ(c.macs, 64 * 32 * 16 * 9);
  EXPECT_EQ(c.latency, 0);
}

TEST(Conv, InputIsReadAgainForEachChannelBlockWhenItDoesNotFitTheInputBuffer) {
  Target t = Edge2t();
  t.mxu.ibuf_bytes = 1599;
  EXPECT_EQ(CostOf(Engine::MXU, SmallConv(), t).sram_bytes, 2 * 1600 + 4608 + 512 + 2048);
  t.mxu.ibuf_bytes = 1600;
  EXPECT_EQ(CostOf(Engine::MXU, SmallConv(), t).sram_bytes, 1600 + 4608 + 512 + 2048);
}

TEST(Conv, PartialAccumulationHasNoOutputStage) {
  isa::Conv c = SmallConv();
  c.kernel_h = c.kernel_w = 1;
  c.weight_bytes = 512;
  c.accumulate = isa::Accumulate::Start;
  c.stage.clear();
  const Cost start = CostOf(Engine::MXU, c);
  EXPECT_EQ(start.compute, (20 + 32) * 256);
  EXPECT_EQ(start.sram_bytes, 1600 + 512 + 512);
}

TEST(Conv, OutputStageBound) {
  isa::Conv c = SmallConv();
  c.kernel_h = c.kernel_w = 1;
  c.weight_bytes = 512;
  isa::MicroOp act;
  act.kind = isa::MicroKind::Act;
  act.fn = isa::ElemFn::Sigmoid;
  c.stage.insert(c.stage.begin() + 1, act);
  // 2048 elements * 6 passes / 64 = 192 against 32 array cycles.
  const Cost s = CostOf(Engine::MXU, c);
  EXPECT_EQ(s.compute, (20 + 192) * 256);
  EXPECT_EQ(s.compute_bound, Bound::Output);
  // Cheap functions go along for nothing.
  c.stage[1].fn = isa::ElemFn::HardSwish;
  EXPECT_EQ(CostOf(Engine::MXU, c).compute, (20 + 32) * 256);
  // Costly ones add up: sigmoid 6, then div 4.
  act.fn = isa::ElemFn::Softsign;
  c.stage[1].fn = isa::ElemFn::Sigmoid;
  c.stage.insert(c.stage.begin() + 2, act);
  EXPECT_EQ(CostOf(Engine::MXU, c).compute, (20 + 320) * 256);
}

TEST(Conv, WeightBound) {
  isa::Conv c = SmallConv();
  c.in = isa::NhwcView(Sram(0), DType::I8, 1, 1, 1, 256);
  c.out = isa::NhwcView(Sram(4096), DType::I8, 1, 1, 1, 256);
  c.kernel_h = c.kernel_w = 1;
  c.weight_bytes = 65536;
  const Cost w = CostOf(Engine::MXU, c);
  EXPECT_EQ(w.compute, (20 + 512) * 256); // 65536 / 128; the array: 1 * 16 * 16
  EXPECT_EQ(w.compute_bound, Bound::Weights);
}

TEST(MatMul, DynamicBCountsOncePerBatchItem) {
  isa::MatMul m;
  m.a = isa::NhwcView(Sram(0), DType::F16, 1, 3, 10, 40);    // 3 heads, M 10, K 40
  m.b = isa::NhwcView(Sram(8192), DType::F16, 1, 3, 40, 20); // N 20
  m.out = isa::NhwcView(Sram(16384), DType::F16, 1, 3, 10, 20);
  m.acc = isa::AccType::F32;
  m.stage.resize(1);
  const Cost c = CostOf(Engine::MXU, m);
  // 3 * ceil(10/4) * ceil(20/16) * ceil(40/16) / 0.5; output 600/32 and weights 3*1600/128 are less.
  EXPECT_EQ(c.compute, (20 + 3 * 3 * 2 * 3 * 2) * 256);
  // A: one run of 2400; B: 3 runs of 1600; table 20 entries; output one run of 1200.
  EXPECT_EQ(c.sram_bytes, 2400 + 4800 + 320 + 1200);
  EXPECT_EQ(c.macs, 3 * 10 * 20 * 40);
}

TEST(Elem, PaddingLanesOfBlocksCount) {
  isa::Elem e;
  e.fn = isa::ElemFn::Exp;
  e.in[0] = isa::BlockedView(Sram(0), DType::I8, 1, 4, 4, 20, 16);
  e.out = isa::BlockedView(Sram(4096), DType::I8, 1, 4, 4, 20, 16);
  const Cost blocked = CostOf(Engine::VPU, e);
  EXPECT_EQ(blocked.compute, 4 * 256 + 16 * 32 * 4 * 256 / 64);
  EXPECT_EQ(blocked.sram_bytes, 2 * 512);
  e.in[0] = isa::NhwcView(Sram(0), DType::I8, 1, 4, 4, 20);
  e.out = isa::NhwcView(Sram(4096), DType::F32, 1, 4, 4, 20); // f32: 16 lanes
  const Cost dense = CostOf(Engine::VPU, e);
  EXPECT_EQ(dense.compute, 4 * 256 + 16 * 20 * 4 * 256 / 16);
  EXPECT_EQ(dense.sram_bytes, 320 + 1280);
}

TEST(Elem, BroadcastOperandsAreReadOnce) {
  isa::Elem e;
  e.fn = isa::ElemFn::Add;
  e.in[0] = e.out = isa::NhwcView(Sram(0), DType::I8, 1, 4, 4, 32);
  e.in[1] = isa::NhwcView(Sram(1024), DType::I8, 1, 1, 1, 32);
  e.in[1].h = e.in[1].w = 4;
  e.in[1].stride_h = e.in[1].stride_w = 0;
  EXPECT_EQ(CostOf(Engine::VPU, e).sram_bytes, 512 + 32 + 512);
}

TEST(Pool, SeparableMax) {
  EXPECT_EQ(PoolTaps(isa::PoolKind::Max, 3, 3), 6);
  EXPECT_EQ(PoolTaps(isa::PoolKind::Max, 2, 2), 4);
  EXPECT_EQ(PoolTaps(isa::PoolKind::Max, 1, 5), 5);
  EXPECT_EQ(PoolTaps(isa::PoolKind::Average, 7, 7), 49);
  isa::Pool p;
  p.in = isa::NhwcView(Sram(0), DType::F16, 1, 9, 9, 32);
  p.out = isa::NhwcView(Sram(8192), DType::F16, 1, 4, 4, 32);
  p.kernel_h = p.kernel_w = 3;
  EXPECT_EQ(CostOf(Engine::VPU, p).compute, 4 * 256 + 512 * 6 * 256 / 32);
  Target u55 = *Target::FromPreset("u55-256-like");
  p.in.dtype = p.out.dtype = DType::I8;
  EXPECT_EQ(CostOf(Engine::VPU, p, u55).compute, 4 * 256 + 512 * 6 * 256 / 8 / 4); // 0.125 a tap, 4 lanes
}

TEST(Vpu, TheOtherCommands) {
  const View in = isa::NhwcView(Sram(0), DType::I8, 1, 4, 4, 32),
             out = isa::NhwcView(Sram(4096), DType::I8, 1, 4, 4, 32);
  isa::Lut lut;
  lut.in = in;
  lut.out = out;
  EXPECT_EQ(CostOf(Engine::VPU, lut).compute, (4 + 8) * 256);
  EXPECT_EQ(CostOf(Engine::VPU, lut).sram_bytes, 512 + 512 + 256);
  isa::Reduce r;
  r.kind = isa::ReduceKind::Mean;
  r.in = in;
  r.out = isa::NhwcView(Sram(4096), DType::I8, 1, 1, 1, 32);
  EXPECT_EQ(CostOf(Engine::VPU, r).compute, (4 + 8) * 256);
  r.kind = isa::ReduceKind::ArgMax;
  r.out = isa::NhwcView(Sram(4096), DType::I32, 1, 4, 4, 1);
  EXPECT_EQ(CostOf(Engine::VPU, r).compute, (4 + 16) * 256); // 2 passes at the lanes of i8
  isa::Norm n;
  n.in = in;
  n.out = out;
  EXPECT_EQ(CostOf(Engine::VPU, n).compute, (4 + 64) * 256);
  n.kind = isa::NormKind::Layer;
  EXPECT_EQ(CostOf(Engine::VPU, n).compute, (4 + 40) * 256);
  isa::Resize z;
  z.in = in;
  z.out = isa::NhwcView(Sram(4096), DType::I8, 1, 8, 8, 32);
  EXPECT_EQ(CostOf(Engine::VPU, z).compute, (4 + 32) * 256);
  z.kind = isa::ResizeKind::Linear;
  EXPECT_EQ(CostOf(Engine::VPU, z).compute, (4 + 128) * 256);
}

Cost Copy(const View &src, const View &dst) {
  isa::Dma d;
  d.src = src;
  d.dst = dst;
  return CostOf(src.address.region == Region::Sram && dst.address.region != Region::Sram ? Engine::ST : Engine::LD, d);
}

TEST(Dma, DenseLoad) {
  const Cost c = Copy(isa::NhwcView(Arena(64), DType::I8, 1, 8, 8, 20), isa::NhwcView(Sram(0), DType::I8, 1, 8, 8, 20));
  EXPECT_EQ(c.compute, 4 * 256);
  EXPECT_EQ(c.latency, 150 * 256);
  EXPECT_EQ(c.ddr_read_bytes, 1280);
  EXPECT_EQ(c.sram_bytes, 1280);
  EXPECT_EQ(c.ddr, (1280 + c.stream_bytes) * 20);
  const Cost st =
      Copy(isa::NhwcView(Sram(0), DType::I8, 1, 8, 8, 20), isa::NhwcView(Arena(32), DType::I8, 1, 8, 8, 20));
  EXPECT_EQ(st.latency, 100 * 256);
  EXPECT_EQ(st.ddr_write_bytes, 1344); // bytes 32 .. 1312 touch 21 bursts
  EXPECT_EQ(st.ddr_read_bytes, 0);
}

TEST(Dma, RowsOfATallTile) {
  // 6 rows of 10*32 bytes out of rows of 100*32: 320 of every 3200 bytes; 3200 = 50 bursts, so every run starts at a
  // burst.
  const View t = isa::NhwcView(Arena(0), DType::I8, 1, 50, 100, 32);
  const Cost c = Copy(t.Sub(0, 0, 0, 0, 1, 6, 10, 32), isa::NhwcView(Sram(0), DType::I8, 1, 6, 10, 32));
  EXPECT_EQ(c.ddr_read_bytes, 6 * 320);
  EXPECT_EQ(c.sram_bytes, 6 * 320);
  // From column 1 on: bytes 32 .. 352 touch 6 bursts.
  EXPECT_EQ(Copy(t.Sub(0, 0, 1, 0, 1, 6, 10, 32), isa::NhwcView(Sram(0), DType::I8, 1, 6, 10, 32)).ddr_read_bytes,
            6 * 384);
  // 16 of every 32 bytes: gaps below a burst, so the rows are read whole.
  EXPECT_EQ(Copy(t.Sub(0, 0, 0, 0, 1, 1, 100, 16), isa::NhwcView(Sram(0), DType::I8, 1, 1, 100, 16)).ddr_read_bytes,
            3200);
}

TEST(Dma, RearrangingGoesElementByElement) {
  const View nchw = isa::NchwView(Arena(0), DType::I8, 1, 16, 16, 3),
             nhwc = isa::NhwcView(Sram(0), DType::I8, 1, 16, 16, 3);
  const Cost c = Copy(nchw, nhwc);
  EXPECT_EQ(c.compute, (4 + 768 / 16) * 256);
  EXPECT_EQ(c.compute_bound, Bound::Rearrange);
  EXPECT_EQ(c.ddr_read_bytes, 768);
  EXPECT_EQ(c.sram_bytes, 768 * 16); // a granule an element
  EXPECT_EQ(CommonRunBytes(nchw, nhwc), 1);
}

TEST(Dma, CommonRuns) {
  const Address a = Sram(0);
  auto nhwc = [&](int64_t h, int64_t w, int64_t c) { return isa::NhwcView(a, DType::I8, 1, h, w, c); };
  auto nchw = [&](int64_t h, int64_t w, int64_t c) { return isa::NchwView(a, DType::I8, 1, h, w, c); };
  auto blocked = [&](int64_t h, int64_t w, int64_t c) { return isa::BlockedView(a, DType::I8, 1, h, w, c, 16); };
  EXPECT_EQ(CommonRunBytes(nhwc(4, 5, 32), nhwc(4, 5, 32)), 640);
  EXPECT_EQ(CommonRunBytes(nchw(4, 5, 32), nchw(4, 5, 32)), 640);
  EXPECT_EQ(CommonRunBytes(nhwc(4, 5, 32), blocked(4, 5, 32)), 16);
  EXPECT_EQ(CommonRunBytes(nhwc(4, 5, 20), blocked(4, 5, 20)), 16);
  EXPECT_EQ(CommonRunBytes(nhwc(4, 5, 16), blocked(4, 5, 16)), 320);
  EXPECT_EQ(CommonRunBytes(nchw(4, 5, 32), blocked(4, 5, 32)), 1);
  EXPECT_EQ(CommonRunBytes(nchw(1, 1, 32), nhwc(1, 1, 32)), 32); // the same bytes
  EXPECT_EQ(CommonRunBytes(nchw(4, 5, 1), nhwc(4, 5, 1)), 20);
  EXPECT_EQ(CommonRunBytes(blocked(4, 5, 48), blocked(4, 5, 48)), 960);
  // Blocks out of step: cut at both sides' borders.
  View shifted = blocked(4, 5, 40);
  shifted.c0 = 4;
  shifted.c = 36;
  EXPECT_EQ(CommonRunBytes(shifted, blocked(4, 5, 36)), 12);
  // Concatenation by placement: a slice of wider pixels.
  EXPECT_EQ(CommonRunBytes(nhwc(4, 5, 24), nhwc(4, 5, 64).Sub(0, 0, 0, 8, 1, 4, 5, 24)), 24);
  // Whole transposition of a matrix.
  View tr = nhwc(1, 8, 6);
  tr.stride_w = 1;
  tr.c_block = 1;
  tr.stride_c1 = 8;
  EXPECT_EQ(CommonRunBytes(nhwc(1, 8, 6), tr), 1);
}

TEST(Dma, DdrToDdrPaysBothSidesAndPadsAreWritten) {
  const Cost c =
      Copy(isa::NhwcView(Arena(0), DType::I8, 1, 1, 1, 640), isa::NhwcView(Arena(1024), DType::I8, 1, 1, 1, 640));
  EXPECT_EQ(c.ddr_read_bytes, 640);
  EXPECT_EQ(c.ddr_write_bytes, 640);
  EXPECT_EQ(c.sram_bytes, 0);
  EXPECT_EQ(c.latency, 250 * 256);
  isa::Dma d;
  d.src = isa::NhwcView(Arena(0), DType::I8, 1, 4, 4, 16);
  d.dst = isa::NhwcView(Sram(0), DType::I8, 1, 6, 6, 16);
  d.pad_before = d.pad_after = {0, 1, 1, 0};
  const Cost p = CostOf(Engine::LD, d);
  EXPECT_EQ(p.ddr_read_bytes, 256);
  EXPECT_EQ(p.sram_bytes, 576);
  EXPECT_EQ(CostOf(Engine::LD, isa::Dma{d.dst, d.dst, {}, {}, 0, {}}).latency, 0); // SRAM to SRAM
}

TEST(Gather, RowsPayForTheWorstAlignment) {
  isa::Gather g;
  g.table = isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 1, 1000,
                          96); // rows at multiples of 32: up to 2 bursts... 32 + 96 = 128
  g.indices = isa::NhwcView(Sram(0), DType::I32, 1, 1, 10, 1);
  g.out = isa::NhwcView(Sram(64), DType::I8, 1, 1, 10, 96);
  const Cost c = CostOf(Engine::LD, g);
  EXPECT_EQ(c.ddr_read_bytes, 10 * 128);
  EXPECT_EQ(c.sram_bytes, 48 + 960);
  EXPECT_EQ(c.latency, 150 * 256);
  g.table = isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 1, 1000, 100); // multiples of 4: 60 + 100 bytes touch 3
  g.out = isa::NhwcView(Sram(64), DType::I8, 1, 1, 10, 100);
  EXPECT_EQ(CostOf(Engine::LD, g).ddr_read_bytes, 10 * 192);
}

// Bursts of strided views by enumeration: runs in address order, merged over gaps below a burst.
TEST(Ddr, BurstsOfRandomViewsByEnumeration) {
  std::mt19937 rng(4);
  const Target t = Edge2t();
  for (int i = 0; i < 2000; ++i) {
    View v;
    v.dtype = rng() % 2 ? DType::I8 : DType::F16;
    v.address = Arena(static_cast<int64_t>(rng() % 300) * v.elem_bytes());
    v.c = 1 + rng() % 40;
    v.c_block = v.c;
    v.w = 1 + rng() % 6;
    v.h = 1 + rng() % 6;
    v.n = 1 + rng() % 3;
    const int64_t e = v.elem_bytes();
    v.stride_w = (v.c + rng() % 90) * e; // nested, sometimes with large gaps
    v.stride_h = v.stride_w * v.w + static_cast<int64_t>(rng() % 3 * (rng() % 200)) * e;
    v.stride_n = v.stride_h * v.h + static_cast<int64_t>(rng() % 2 * (rng() % 300)) * e;
    std::vector<std::pair<int64_t, int64_t>> runs;
    isa::ByteBoxesOf(v)[0].ForEachRun([&](int64_t lo, int64_t hi) { runs.push_back({lo, hi}); });
    std::sort(runs.begin(), runs.end());
    int64_t bursts = 0;
    for (size_t k = 0; k < runs.size();) {
      int64_t hi = runs[k].second;
      size_t j = k + 1;
      while (j < runs.size() && runs[j].first - hi < 64)
        hi = runs[j++].second;
      bursts += (hi - 1) / 64 - runs[k].first / 64 + 1;
      k = j;
    }
    // A nest merges a dim for all its runs or for none; at the seam of two rows enumeration may merge where the nest
    // doesn't.
    const bool seam = v.stride_h - (v.stride_w * (v.w - 1) + v.c * e) < 64 ||
                      v.stride_n - (v.stride_h * (v.h - 1) + v.stride_w * (v.w - 1) + v.c * e) < 64;
    if (seam)
      EXPECT_GE(DdrBytes(v, t), bursts * 64);
    else
      EXPECT_EQ(DdrBytes(v, t), bursts * 64);
  }
}

TEST(Symbolic, BuffersArePricedByTheirSpace) {
  isa::Dma d;
  d.src = isa::NhwcView({Region::Buffer, 1, 0}, DType::I8, 1, 8, 8, 20);
  d.dst = isa::NhwcView({Region::Buffer, 2, 0}, DType::I8, 1, 8, 8, 20);
  Command c;
  c.body = d;
  const Cost s = CommandCost(c, Edge2t(), [](const Address &a) { return a.index == 1 ? Region::Arena : Region::Sram; });
  EXPECT_EQ(s.ddr_read_bytes, 1280);
  EXPECT_EQ(s.sram_bytes, 1280);
  isa::ForEachAddress(c, [](Address &a) { a = {a.index == 1 ? Region::Arena : Region::Sram, 0, 0}; });
  const Cost real = CommandCost(c, Edge2t());
  EXPECT_EQ(real.ddr, s.ddr);
  EXPECT_EQ(real.Isolated(), s.Isolated());
  EXPECT_EQ(EstimateCycles(c, Edge2t(), [](const Address &a) { return a.region; }),
            static_cast<double>(real.Isolated()) / 256);
}

} // namespace
} // namespace npuc::timing
