// CONV, and MATMUL with constant B, which is CONV with a 1x1 kernel.
//
// Reference: for every output element the sum as written on the ISA page. Fast: the input becomes a dense image
// [row][column][channel] of x - zx (or f32) once per command, the weights become [block of 16][channel block, kh,
// kw][lane][16] of w - zw, and RunMac multiplies. Taps in padding are left out of a position's tap list, so f32 chains
// never see them. Cost: one pass over input and weights per command, then the MACs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "compiler/support/half.h"
#include "compiler/support/int_math.h"
#include "runtime_stub/mac.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Conv;
using isa::ConvMode;

// Position of a weight in the packed order of isa::Conv.
struct WeightOrder {
  int64_t oc, c2, blocks_o, blocks_i, kh, kw;
  bool depthwise;
  WeightOrder(const Conv &c, const Geometry &g)
      : oc(g.oc), c2(g.c2(c.in.dtype)), blocks_o(CeilDiv(c.out.c / c.groups, g.oc)),
        blocks_i(CeilDiv(c.in.c / c.groups, c2)), kh(c.kernel_h), kw(c.kernel_w),
        depthwise(c.mode == ConvMode::Depthwise) {}
  // o, i within the group; depthwise: o is the channel, i 0.
  int64_t Index(int64_t group, int64_t o, int64_t i, int64_t y, int64_t x) const {
    if (depthwise)
      return ((o / oc * kh + y) * kw + x) * oc + o % oc;
    return ((((group * blocks_o + o / oc) * blocks_i + i / c2) * kh + y) * kw + x) * c2 * oc + i % c2 * oc + o % oc;
  }
};

// Raw weight w as the arithmetic sees it, before the zero point.
int64_t RawWeight(const uint8_t *p, DType t, int64_t index) {
  if (t == DType::I4 || t == DType::U4) {
    const int nibble = p[index / 2] >> (index % 2 * 4) & 15;
    return t == DType::I4 && nibble >= 8 ? nibble - 16 : nibble;
  }
  return ReadInt(p + index * ByteSize(t), t);
}
float FloatWeight(const uint8_t *p, DType t, int64_t index, int32_t zw) {
  if (t == DType::F16)
    return HalfToFloat(static_cast<uint16_t>(ReadInt(p + index * 2, t)));
  if (t == DType::F32)
    return ReadReal(p + index * 4, t, {});
  return static_cast<float>(RawWeight(p, t, index) - zw);
}

void Reference(const Conv &c, const Context &x) {
  const Memory &m = x.memory;
  const bool depthwise = c.mode == ConvMode::Depthwise;
  const int64_t groups = depthwise ? 1 : c.groups, icg = c.in.c / groups, ocg = c.out.c / groups;
  const WeightOrder order(c, x.geometry);
  const Table table = ReadTable(m, c.table, c.out.c);
  const uint8_t *weights = m.At(c.weights);
  const OutputStage stage(c.stage, c.operands, c.out, m);
  const bool first = c.accumulate == isa::Accumulate::Single || c.accumulate == isa::Accumulate::Start;
  const bool last = c.accumulate == isa::Accumulate::Single || c.accumulate == isa::Accumulate::Finish;
  const bool is_float = c.acc == isa::AccType::F32;
  const AccumulatorView place{c.out.w, ocg, groups * CeilDiv(ocg, kBlock) * kBlock};
  const int64_t count = int64_t{c.out.n} * c.out.h * c.out.w * place.padded;
  // One 64-bit cell an accumulator whatever its type: a chain runs on one path from start to finish.
  int64_t *ints = is_float ? nullptr : x.workspace->accumulators.Get<int64_t>(count);
  float *floats = is_float ? x.workspace->accumulators.Get<float>(count) : nullptr;

  for (int64_t n = 0; n < c.out.n; ++n)
    for (int64_t oh = 0; oh < c.out.h; ++oh)
      for (int64_t ow = 0; ow < c.out.w; ++ow)
        for (int64_t o = 0; o < c.out.c; ++o) {
          const int64_t g = o / ocg, og = o % ocg;
          const int64_t at = place.Index(n * c.out.h + oh, ow, o);
          int64_t acc = first ? table.bias[o] : is_float ? 0 : ints[at];
          float chain = first ? table.bias_f32[o] : is_float ? floats[at] : 0;
          for (int64_t i0 = 0; i0 < (depthwise ? 1 : icg); i0 += order.c2)
            for (int64_t kh = 0; kh < c.kernel_h; ++kh)
              for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
                const int64_t ih = oh * c.stride_h - c.pad_top + kh * c.dilation_h,
                              iw = ow * c.stride_w - c.pad_left + kw * c.dilation_w;
                if (ih < 0 || ih >= c.in.h || iw < 0 || iw >= c.in.w)
                  continue;
                for (int64_t i = i0; i < std::min<int64_t>(i0 + order.c2, depthwise ? 1 : icg); ++i) {
                  const int64_t ic = depthwise ? o : g * icg + i;
                  const int64_t wi = order.Index(g, og, i, kh, kw);
                  if (is_float)
                    chain = std::fmaf(ReadReal(m, c.in, {1.0f, c.in_zero}, n, ih, iw, ic),
                                      FloatWeight(weights, c.weight_dtype, wi, table.zw[o]), chain);
                  else
                    acc += (ReadInt(m.At(c.in, n, ih, iw, ic), c.in.dtype) - c.in_zero) *
                           (RawWeight(weights, c.weight_dtype, wi) - table.zw[o]);
                }
              }
          if (!last) {
            if (is_float)
              floats[at] = chain;
            else
              ints[at] = acc;
            continue;
          }
          const float v = is_float ? chain : static_cast<float>(Wrap(acc, c.acc));
          stage.RunElement(v * table.scale[o], n, oh, ow, o);
        }
}

// ---- Fast path

template <class K>
typename K::X *LoadImage(const Conv &c, const Context &x, int64_t groups, int64_t group_pitch, int64_t pitch) {
  using X = typename K::X;
  const int64_t rows = int64_t{c.in.n} * c.in.h, channels = c.in.c / groups;
  X *image = x.workspace->image.Get<X>(rows * c.in.w * pitch + 2 * kBlock);
  const bool whole = groups == 1 || group_pitch == channels;
  x.ParallelFor(
      rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, c.in.w * pitch)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          for (int64_t g = 0; g < (whole ? 1 : groups); ++g) {
            const isa::View view = whole ? c.in : c.in.Sub(0, 0, 0, g * channels, c.in.n, c.in.h, c.in.w, channels);
            X *to = image + r * c.in.w * pitch + g * group_pitch;
            const int64_t n = r / c.in.h, h = r % c.in.h;
            if constexpr (std::is_same_v<X, float>)
              LoadReal(x.memory, view, {1.0f, c.in_zero}, n, h, 0, c.in.w, to, pitch);
            else if constexpr (std::is_same_v<X, int16_t>)
              LoadI16(x.memory, view, c.in_zero, n, h, 0, c.in.w, to, pitch);
            else
              LoadI32(x.memory, view, c.in_zero, n, h, 0, c.in.w, to, pitch);
          }
      });
  return image;
}

// One value of the packed weights, ready to multiply.
template <class K, class W> W Value(const uint8_t *p, DType t, int64_t index, int32_t zw) {
  if constexpr (std::is_same_v<K, MacF32Kind>)
    return FloatWeight(p, t, index, zw);
  else
    return static_cast<W>(RawWeight(p, t, index) - zw);
}

// 16 (or fewer) neighbouring output channels of one lane: contiguous in the packed order as far as one oc block goes.
template <class K, class W>
void WeightRow(const uint8_t *p, DType t, int64_t index, const int32_t *zw, int64_t n, W *out, int64_t step) {
  if (t == DType::I8) {
    const int8_t *q = reinterpret_cast<const int8_t *>(p) + index;
    for (int64_t l = 0; l < n; ++l)
      out[l * step] = static_cast<W>(q[l] - zw[l]);
  } else if (t == DType::U8) {
    const uint8_t *q = p + index;
    for (int64_t l = 0; l < n; ++l)
      out[l * step] = static_cast<W>(q[l] - zw[l]);
  } else if (std::is_same_v<W, float> && t == DType::F16 && step == 1) {
    HalfToFloat(reinterpret_cast<const uint16_t *>(p) + index, reinterpret_cast<float *>(out), n);
  } else {
    for (int64_t l = 0; l < n; ++l)
      out[l * step] = Value<K, W>(p, t, index + l, zw[l]);
  }
}

template <class K> void Fast(const Conv &c, const Context &x) {
  using W = typename K::W;
  using DW = typename K::DW;
  const bool depthwise = c.mode == ConvMode::Depthwise;
  const int64_t groups = depthwise ? 1 : c.groups, icg = c.in.c / groups, ocg = c.out.c / groups;
  const int64_t kh = c.kernel_h, kw = c.kernel_w, step = K::kLaneStep;
  const WeightOrder order(c, x.geometry);
  const Table table = ReadTable(x.memory, c.table, c.out.c);
  const int64_t blocks = CeilDiv(ocg, kBlock);
  const int64_t group_pitch = depthwise ? 0 : CeilDiv(icg, step) * step;
  const int64_t pitch = depthwise ? CeilDiv(c.in.c, kBlock) * kBlock : groups * group_pitch;

  MacJob<K> job;
  job.out = &c.out;
  job.groups = groups;
  job.group_channels = ocg;
  job.blocks_per_group = blocks;
  job.depthwise = depthwise;
  job.image = LoadImage<K>(c, x, groups, group_pitch, pitch);
  job.group_x = depthwise ? kBlock : group_pitch;
  job.pos_stride = c.stride_w * pitch;
  job.table = &table;
  job.acc = c.acc;
  job.accumulate = c.accumulate;
  const OutputStage stage(c.stage, c.operands, c.out, x.memory);
  job.stage = &stage;

  // Weights. Tap (ib, y, x) of a block starts at tap_w.
  const uint8_t *raw = x.memory.At(c.weights);
  const int64_t in_blocks = depthwise ? 1 : order.blocks_i;
  const auto lanes_of = [&](int64_t ib) { return depthwise ? int64_t{1} : std::min(order.c2, icg - ib * order.c2); };
  const auto tap_w = [&](int64_t ib, int64_t y, int64_t xx) {
    // Blocks before this one are whole, and c2 is even.
    return (ib * order.c2 * kh * kw + (y * kw + xx) * CeilDiv(lanes_of(ib), step) * step) * kBlock;
  };
  job.block_w = depthwise
                    ? kh * kw * kBlock
                    : tap_w(in_blocks - 1, 0, 0) + kh * kw * CeilDiv(lanes_of(in_blocks - 1), step) * step * kBlock;
  job.macs_per_position = kh * kw * (depthwise ? 4 : icg);
  if (depthwise) {
    DW *packed = x.workspace->weights.Get<DW>(blocks * job.block_w);
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t t = 0; t < kh * kw; ++t)
        for (int64_t l = 0; l < kBlock; ++l) {
          const int64_t o = b * kBlock + l;
          packed[b * job.block_w + t * kBlock + l] =
              o < ocg ? Value<K, DW>(raw, c.weight_dtype, order.Index(0, o, 0, t / kw, t % kw), table.zw[o]) : DW{0};
        }
    job.weights = packed;
  } else {
    W *packed = x.workspace->weights.Get<W>(groups * blocks * job.block_w);
    x.ParallelFor(groups * blocks, std::max<int64_t>(1, 65536 / job.block_w), [&](int64_t begin, int64_t end) {
      for (int64_t gb = begin; gb < end; ++gb) {
        const int64_t g = gb / blocks, o0 = gb % blocks * kBlock, o1 = std::min(ocg, o0 + kBlock);
        for (int64_t ib = 0; ib < in_blocks; ++ib)
          for (int64_t t = 0; t < kh * kw; ++t) {
            const int64_t lanes = lanes_of(ib);
            W *to = packed + gb * job.block_w + tap_w(ib, t / kw, t % kw);
            if (o1 - o0 < kBlock || lanes % step)
              std::fill_n(to, CeilDiv(lanes, step) * step * kBlock, W{0});
            for (int64_t l = 0; l < lanes; ++l)
              for (int64_t o = o0; o < o1;) {
                const int64_t n = std::min(o1 - o, order.oc - o % order.oc);
                // Pairs of lanes interleave: [lane / 2][16][2].
                W *at = to + l / step * step * kBlock + (o - o0) * step + l % step;
                WeightRow<K, W>(raw, c.weight_dtype, order.Index(g, o, ib * order.c2 + l, t / kw, t % kw),
                                table.zw.data() + g * ocg + o, n, at, step);
                o += n;
              }
          }
      }
    });
    job.weights = packed;
  }

  // Rows and their taps: the kernel rows and columns inside the input are ranges.
  const auto range = [](int64_t at, int64_t dilation, int64_t kernel, int64_t extent) {
    int64_t lo = 0, hi = kernel;
    while (lo < hi && at + lo * dilation < 0)
      ++lo;
    while (hi > lo && at + (hi - 1) * dilation >= extent)
      --hi;
    return std::pair<int64_t, int64_t>(lo, hi);
  };
  std::map<std::array<int64_t, 4>, int> lists;
  const auto taps_of = [&](std::pair<int64_t, int64_t> y, std::pair<int64_t, int64_t> z) {
    if (y.first == y.second || z.first == z.second)
      return -1;
    const auto [it, fresh] =
        lists.try_emplace({y.first, y.second, z.first, z.second}, static_cast<int>(job.tap_lists.size()));
    if (fresh) {
      std::vector<Tap> &list = job.tap_lists.emplace_back();
      for (int64_t ib = 0; ib < in_blocks; ++ib)
        for (int64_t ky = y.first; ky < y.second; ++ky)
          for (int64_t kx = z.first; kx < z.second; ++kx)
            list.push_back(
                {static_cast<int32_t>(((ky - y.first) * c.dilation_h * c.in.w + (kx - z.first) * c.dilation_w) * pitch +
                                      ib * order.c2),
                 static_cast<int32_t>(depthwise ? (ky * kw + kx) * kBlock : tap_w(ib, ky, kx)),
                 static_cast<int32_t>(lanes_of(ib))});
    }
    return it->second;
  };
  std::map<std::pair<int64_t, int64_t>, int> row_kinds;
  for (int64_t n = 0; n < c.out.n; ++n)
    for (int64_t oh = 0; oh < c.out.h; ++oh) {
      const int64_t ih = oh * c.stride_h - c.pad_top;
      const auto y = range(ih, c.dilation_h, kh, c.in.h);
      typename MacJob<K>::Row row{((n * c.in.h + ih + y.first * c.dilation_h) * c.in.w) * pitch, -1, 0};
      if (y.first < y.second) {
        const auto [it, fresh] = row_kinds.try_emplace(y, static_cast<int>(job.segments.size()));
        row.segments = it->second;
        if (fresh) {
          std::vector<Segment> segments;
          std::pair<int64_t, int64_t> before{-1, -1};
          for (int64_t ow = 0; ow < c.out.w; ++ow) {
            const int64_t iw = ow * c.stride_w - c.pad_left;
            const auto z = range(iw, c.dilation_w, kw, c.in.w);
            if (z != before)
              segments.push_back({ow, ow, (iw + z.first * c.dilation_w) * pitch, taps_of(y, z)});
            segments.back().w1 = ow + 1;
            before = z;
          }
          job.segments.push_back(std::move(segments));
        }
      }
      job.rows.push_back(row);
    }
  RunMac(job, x);
}

} // namespace

void ExecuteConv(const Conv &c, const Context &x) {
  if (x.reference)
    Reference(c, x);
  else
    WithKind(KindOf(c.acc, c.in.dtype, c.weight_dtype), [&](auto kind) { Fast<decltype(kind)>(c, x); });
  if (c.accumulate == isa::Accumulate::Single || c.accumulate == isa::Accumulate::Finish)
    FillTail(x.memory, c.out);
}

} // namespace npuc::runtime
