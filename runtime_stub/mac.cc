// Runs a MacJob: for every block of 16 output channels and every piece of rows, strips of positions are started from
// the bias (or the open accumulation), multiplied by the kernels, and handed to the output stage or kept. Work is split
// into (block, piece) units whose results do not meet, so any number of threads gives the same bytes.
#include "runtime_stub/mac.h"

#include <cstring>

namespace npuc::runtime {

MacKind KindOf(isa::AccType acc, DType x, DType w) {
  if (acc == isa::AccType::F32)
    return MacKind::F32;
  const bool narrow = ByteSize(x) == 1 && ByteSize(w) == 1;
  return acc == isa::AccType::I32 && narrow ? MacKind::I16 : MacKind::I64;
}

Table ReadTable(const Memory &m, const isa::Address &a, int64_t channels) {
  Table t;
  t.bias.resize(channels), t.bias_f32.resize(channels), t.scale.resize(channels), t.zw.resize(channels);
  const uint8_t *p = m.At(a);
  for (int64_t c = 0; c < channels; ++c, p += isa::kTableEntryBytes) {
    std::memcpy(&t.bias[c], p, 8);
    std::memcpy(&t.bias_f32[c], p, 4);
    std::memcpy(&t.scale[c], p + 8, 4);
    std::memcpy(&t.zw[c], p + 12, 4);
  }
  return t;
}

namespace {

void Multiply(const MacI16Kind &, bool depthwise, const int16_t *x, int64_t stride, int count,
              const std::vector<Tap> &taps, const void *w, int32_t *acc) {
  const auto kernel = depthwise ? DepthwiseI16 : MacI16;
  kernel(x, stride, count, taps.data(), static_cast<int>(taps.size()), static_cast<const int16_t *>(w), acc);
}
void Multiply(const MacI64Kind &, bool depthwise, const int32_t *x, int64_t stride, int count,
              const std::vector<Tap> &taps, const void *w, int64_t *acc) {
  if (depthwise)
    DepthwiseI64(x, stride, count, taps.data(), static_cast<int>(taps.size()), static_cast<const int32_t *>(w), acc);
  else
    MacI64(x, stride, count, taps.data(), static_cast<int>(taps.size()), static_cast<const int64_t *>(w), acc);
}
void Multiply(const MacF32Kind &, bool depthwise, const float *x, int64_t stride, int count,
              const std::vector<Tap> &taps, const void *w, float *acc) {
  const auto kernel = depthwise ? DepthwiseF32 : MacF32;
  kernel(x, stride, count, taps.data(), static_cast<int>(taps.size()), static_cast<const float *>(w), acc);
}

} // namespace

template <class K> void RunMac(const MacJob<K> &job, const Context &x) {
  using A = typename K::A;
  using W = typename K::W;
  const int64_t ow = job.out->w, rows = static_cast<int64_t>(job.rows.size());
  const int64_t blocks = job.groups * job.blocks_per_group, padded = blocks * kBlock;
  const bool first = job.accumulate == isa::Accumulate::Single || job.accumulate == isa::Accumulate::Start;
  const bool last = job.accumulate == isa::Accumulate::Single || job.accumulate == isa::Accumulate::Finish;
  A *kept = job.accumulate == isa::Accumulate::Single ? nullptr : x.workspace->accumulators.Get<A>(rows * ow * padded);

  // Pieces of rows, at least a quarter of a million MACs a unit where there are that many.
  constexpr int64_t kWide = 5 * kStrip;
  const int64_t splits = (ow + kWide - 1) / kWide;
  const int64_t row_macs = std::max<int64_t>(1, ow * job.macs_per_position * kBlock);
  const int64_t per_unit = std::clamp<int64_t>(262144 / row_macs, 1, std::max<int64_t>(1, rows));
  const int64_t row_groups = (rows + per_unit - 1) / per_unit, units = blocks * row_groups * splits;

  const auto strip = [&](int64_t block, int64_t row, const Segment *seg, int64_t w0, int count) {
    alignas(64) A acc[kStrip * kBlock];
    const int64_t group = block / job.blocks_per_group, in_group = block % job.blocks_per_group;
    const int64_t c0 = group * job.group_channels + in_group * kBlock;
    const int lanes = static_cast<int>(std::min<int64_t>(kBlock, job.group_channels - in_group * kBlock));
    if (first) {
      A bias[kBlock] = {};
      for (int l = 0; l < lanes; ++l) {
        if constexpr (std::is_same_v<A, float>)
          bias[l] = job.table->bias_f32[c0 + l];
        else
          bias[l] = static_cast<A>(Wrap(job.table->bias[c0 + l], job.acc));
      }
      for (int p = 0; p < count; ++p)
        std::memcpy(acc + p * kBlock, bias, sizeof(bias));
    } else {
      for (int p = 0; p < count; ++p)
        std::memcpy(acc + p * kBlock, kept + ((row * ow + w0 + p) * padded + block * kBlock), sizeof(A) * kBlock);
    }
    if (seg) {
      const auto &r = job.rows[row];
      const size_t w_size = job.depthwise ? sizeof(typename K::DW) : sizeof(W);
      const uint8_t *w = static_cast<const uint8_t *>(job.weights) + (r.w + block * job.block_w) * w_size;
      const int64_t base = job.depthwise ? block : group;
      Multiply(K{}, job.depthwise, job.image + (r.x + seg->x + base * job.group_x + (w0 - seg->w0) * job.pos_stride),
               job.pos_stride, count, job.tap_lists[seg->taps], w, acc);
    }
    if (!last) {
      for (int p = 0; p < count; ++p)
        std::memcpy(kept + ((row * ow + w0 + p) * padded + block * kBlock), acc + p * kBlock, sizeof(A) * kBlock);
      return;
    }
    if constexpr (std::is_same_v<A, int64_t>)
      for (int i = 0; i < count * kBlock; ++i)
        acc[i] = Wrap(acc[i], job.acc);
    float scale[kBlock] = {};
    for (int l = 0; l < lanes; ++l)
      scale[l] = job.table->scale[c0 + l];
    job.stage->Run({row / job.out->h, row % job.out->h, w0, count, c0, lanes}, acc, scale);
  };

  // Small commands stay on this thread: waking another costs more than it saves.
  const int64_t grain = row_macs * rows * blocks < (int64_t{1} << 20) ? units : 1;
  x.ParallelFor(units, grain, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t block = u / (row_groups * splits), piece = u % (row_groups * splits);
      const int64_t r0 = piece / splits * per_unit, r1 = std::min(rows, r0 + per_unit);
      const int64_t p0 = piece % splits * kWide, p1 = std::min(ow, p0 + kWide);
      for (int64_t row = r0; row < r1; ++row) {
        const int kind = job.rows[row].segments;
        if (kind < 0) {
          for (int64_t w = p0; w < p1; w += kStrip)
            strip(block, row, nullptr, w, static_cast<int>(std::min<int64_t>(kStrip, p1 - w)));
          continue;
        }
        for (const Segment &seg : job.segments[kind])
          for (int64_t w = std::max(p0, seg.w0), e = std::min(p1, seg.w1); w < e; w += kStrip)
            strip(block, row, seg.taps < 0 ? nullptr : &seg, w, static_cast<int>(std::min<int64_t>(kStrip, e - w)));
      }
    }
  });
}
template void RunMac<MacI16Kind>(const MacJob<MacI16Kind> &, const Context &);
template void RunMac<MacI64Kind>(const MacJob<MacI64Kind> &, const Context &);
template void RunMac<MacF32Kind>(const MacJob<MacF32Kind> &, const Context &);

} // namespace npuc::runtime
