// MATMUL. Constant B: exactly CONV with a 1x1 kernel over (n, h, w) positions, so it runs there. Dynamic B: B's rows
// are packed like weights once per distinct batch item (a batch stride of 0 shares one), then RunMac multiplies. Cost:
// one pass over A and B, then the MACs.
#include <algorithm>
#include <cmath>

#include "runtime_stub/mac.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::MatMul;

isa::Conv AsConv(const MatMul &c) {
  isa::Conv v;
  v.in = c.a;
  v.out = c.out;
  v.weights = c.weights;
  v.weight_dtype = c.weight_dtype;
  v.weight_bytes = c.weight_bytes;
  v.table = c.table;
  v.in_zero = c.a_zero;
  v.acc = c.acc;
  v.accumulate = c.accumulate;
  v.operands = c.operands;
  v.stage = c.stage;
  return v;
}

void Reference(const MatMul &c, const Context &x) {
  const Memory &m = x.memory;
  const Table table = ReadTable(m, c.table, c.out.c);
  const OutputStage stage(c.stage, c.operands, c.out, m);
  const bool first = c.accumulate == isa::Accumulate::Single || c.accumulate == isa::Accumulate::Start;
  const bool last = c.accumulate == isa::Accumulate::Single || c.accumulate == isa::Accumulate::Finish;
  const bool is_float = c.acc == isa::AccType::F32;
  const AccumulatorView place{c.out.w, c.out.c, (int64_t{c.out.c} + kBlock - 1) / kBlock * kBlock};
  const int64_t count = int64_t{c.out.n} * c.out.h * c.out.w * place.padded;
  int64_t *ints = is_float ? nullptr : x.workspace->accumulators.Get<int64_t>(count);
  float *floats = is_float ? x.workspace->accumulators.Get<float>(count) : nullptr;
  for (int64_t n = 0; n < c.out.n; ++n)
    for (int64_t h = 0; h < c.out.h; ++h)
      for (int64_t w = 0; w < c.out.w; ++w)
        for (int64_t o = 0; o < c.out.c; ++o) {
          const int64_t at = place.Index(n * c.out.h + h, w, o);
          int64_t acc = first ? table.bias[o] : is_float ? 0 : ints[at];
          float chain = first ? table.bias_f32[o] : is_float ? floats[at] : 0;
          for (int64_t k = 0; k < c.a.c; ++k) {
            const int64_t bw = c.transposed_b ? o : k, bc = c.transposed_b ? k : o;
            if (is_float)
              chain = std::fmaf(ReadReal(m, c.a, {1.0f, c.a_zero}, n, h, w, k),
                                ReadReal(m, c.b, {1.0f, c.b_zero}, n, h, bw, bc), chain);
            else
              acc += (ReadInt(m.At(c.a, n, h, w, k), c.a.dtype) - c.a_zero) *
                     (ReadInt(m.At(c.b, n, h, bw, bc), c.b.dtype) - c.b_zero);
          }
          if (!last) {
            if (is_float)
              floats[at] = chain;
            else
              ints[at] = acc;
            continue;
          }
          const float v = is_float ? chain : static_cast<float>(Wrap(acc, c.acc));
          stage.RunElement(v * table.scale[o], n, h, w, o);
        }
}

template <class K> void Fast(const MatMul &c, const Context &x) {
  using X = typename K::X;
  using W = typename K::W;
  const int64_t step = K::kLaneStep, k = c.a.c, n = c.out.c, pitch = (k + step - 1) / step * step;
  const int64_t blocks = (n + kBlock - 1) / kBlock, rows = int64_t{c.out.n} * c.out.h;
  const Table table = ReadTable(x.memory, c.table, n);
  const OutputStage stage(c.stage, c.operands, c.out, x.memory);
  const auto load = [&](const isa::View &v, int32_t zero, int64_t row, X *to, int64_t to_pitch) {
    const int64_t rn = row / c.out.h, rh = row % c.out.h;
    if constexpr (std::is_same_v<X, float>)
      LoadReal(x.memory, v, {1.0f, zero}, rn, rh, 0, v.w, to, to_pitch);
    else if constexpr (std::is_same_v<X, int16_t>)
      LoadI16(x.memory, v, zero, rn, rh, 0, v.w, to, to_pitch);
    else
      LoadI32(x.memory, v, zero, rn, rh, 0, v.w, to, to_pitch);
  };

  X *image = x.workspace->image.Get<X>(rows * c.a.w * pitch + 2 * kBlock);
  x.ParallelFor(rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, c.a.w * pitch)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t r = begin; r < end; ++r)
                    load(c.a, c.a_zero, r, image + r * c.a.w * pitch, pitch);
                });

  // Distinct batch items of B.
  const bool share_n = c.b.stride_n == 0 || c.out.n == 1, share_h = c.b.stride_h == 0 || c.out.h == 1;
  const int64_t items = (share_n ? 1 : int64_t{c.out.n}) * (share_h ? 1 : int64_t{c.out.h}), block_w = pitch * kBlock,
                item_w = blocks * block_w;
  const auto item_of = [&](int64_t row) {
    const int64_t rn = share_n ? 0 : row / c.out.h, rh = share_h ? 0 : row % c.out.h;
    return rn * (share_h ? 1 : int64_t{c.out.h}) + rh;
  };
  std::vector<int64_t> row_of_item(items, -1);
  for (int64_t r = 0; r < rows; ++r)
    if (int64_t &first = row_of_item[item_of(r)]; first < 0)
      first = r;
  W *packed = x.workspace->weights.Get<W>(items * item_w);
  x.ParallelFor(items * blocks, std::max<int64_t>(1, 32768 / block_w), [&](int64_t begin, int64_t end) {
    std::vector<X> line;
    for (int64_t ib = begin; ib < end; ++ib) {
      const int64_t item = ib / blocks, o0 = ib % blocks * kBlock, lanes = std::min<int64_t>(kBlock, n - o0);
      W *to = packed + item * item_w + ib % blocks * block_w;
      if (lanes < kBlock || pitch != k)
        std::fill_n(to, block_w, W{0});
      const isa::View part =
          c.transposed_b ? c.b.Sub(0, 0, o0, 0, c.b.n, c.b.h, lanes, k) : c.b.Sub(0, 0, 0, o0, c.b.n, c.b.h, k, lanes);
      line.resize(part.w * part.c);
      load(part, c.b_zero, row_of_item[item], line.data(), part.c);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t l = 0; l < lanes; ++l)
          to[i / step * step * kBlock + l * step + i % step] =
              static_cast<W>(c.transposed_b ? line[l * k + i] : line[i * lanes + l]);
    }
  });

  MacJob<K> job;
  job.out = &c.out;
  job.group_channels = n;
  job.blocks_per_group = blocks;
  job.image = image;
  job.pos_stride = pitch;
  job.segments = {{{0, c.out.w, 0, 0}}};
  job.tap_lists = {{{0, 0, static_cast<int32_t>(k)}}};
  for (int64_t r = 0; r < rows; ++r)
    job.rows.push_back({r * c.a.w * pitch, 0, item_of(r) * item_w});
  job.weights = packed;
  job.block_w = block_w;
  job.macs_per_position = k;
  job.table = &table;
  job.acc = c.acc;
  job.accumulate = c.accumulate;
  job.stage = &stage;
  RunMac(job, x);
}

} // namespace

void ExecuteMatMul(const MatMul &c, const Context &x) {
  if (!c.b.present())
    return ExecuteConv(AsConv(c), x);
  if (x.reference)
    Reference(c, x);
  else
    WithKind(KindOf(c.acc, c.a.dtype, c.b.dtype), [&](auto kind) { Fast<decltype(kind)>(c, x); });
  if (c.accumulate == isa::Accumulate::Single || c.accumulate == isa::Accumulate::Finish)
    FillTail(x.memory, c.out);
}

} // namespace npuc::runtime
