// The multiply-accumulate core that CONV and MATMUL share: dense channel blocks, rows of output positions, taps that
// fall into padding skipped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/isa/commands.h"
#include "runtime_stub/kernels.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/output_stage.h"

namespace npuc::runtime {

// Arithmetic of a command. I16: 8-bit operands, i32 sums (wrap). I64: anything else on integers, exact in i64, wrapped
// at the end.
struct MacI16Kind {
  using X = int16_t;
  using W = int16_t;
  using DW = int16_t; // depthwise weights
  using A = int32_t;
  static constexpr int kLaneStep = 2; // lanes of a tap are stored in pairs
};
struct MacI64Kind {
  using X = int32_t;
  using W = int64_t;
  using DW = int32_t;
  using A = int64_t;
  static constexpr int kLaneStep = 1;
};
struct MacF32Kind {
  using X = float;
  using W = float;
  using DW = float;
  using A = float;
  static constexpr int kLaneStep = 1;
};
enum class MacKind : uint8_t { I16, I64, F32 };
MacKind KindOf(isa::AccType acc, DType x, DType w);
// f with a value of the kind's type.
template <class F> void WithKind(MacKind kind, F &&f) {
  switch (kind) {
  case MacKind::I16:
    return f(MacI16Kind{});
  case MacKind::I64:
    return f(MacI64Kind{});
  case MacKind::F32:
    return f(MacF32Kind{});
  }
}

// Table entries (isa::kTableEntryBytes each) of the output channels, split up.
struct Table {
  std::vector<int64_t> bias; // whole 64 bits
  std::vector<float> bias_f32, scale;
  std::vector<int32_t> zw;
};
Table ReadTable(const Memory &m, const isa::Address &a, int64_t channels);

// Sign-extends the low bits of a sum to what the accumulator holds.
inline int64_t Wrap(int64_t v, isa::AccType t) {
  return t == isa::AccType::I32 ? static_cast<int32_t>(v) : static_cast<int64_t>(static_cast<uint64_t>(v) << 16) >> 16;
}

// Positions [w0, w1) of an output row that meet the same taps.
struct Segment {
  int64_t w0, w1;
  int64_t x; // of the first position and first tap, in elements from the row's image
  int taps;  // index into MacJob::tap_lists
};

// One command as rows of positions times blocks of 16 channels. Row r reads image + row_x[r]...; all offsets in
// elements.
template <class K> struct MacJob {
  const isa::View *out = nullptr;
  int64_t groups = 1, group_channels = 0, blocks_per_group = 0; // output channels
  bool depthwise = false;
  const typename K::X *image = nullptr;
  int64_t group_x = 0;                        // from group to group (depthwise: from block to block)
  int64_t pos_stride = 0;                     // from position to position
  std::vector<std::vector<Segment>> segments; // distinct kinds of rows
  struct Row {
    int64_t x;    // added to the segments' x
    int segments; // index, -1: no tap of this row is inside
    int64_t w;    // weights of this row (dynamic B), from `weights`
  };
  std::vector<Row> rows; // n * h
  std::vector<std::vector<Tap>> tap_lists;
  const void *weights = nullptr; // K::W (K::DW for depthwise)
  int64_t block_w = 0;           // from block to block
  int64_t macs_per_position = 1; // of one channel, for splitting the work
  const Table *table = nullptr;
  isa::AccType acc = isa::AccType::I32;
  isa::Accumulate accumulate = isa::Accumulate::Single;
  const OutputStage *stage = nullptr;
};
template <class K> void RunMac(const MacJob<K> &job, const Context &x);
extern template void RunMac<MacI16Kind>(const MacJob<MacI16Kind> &, const Context &);
extern template void RunMac<MacI64Kind>(const MacJob<MacI64Kind> &, const Context &);
extern template void RunMac<MacF32Kind>(const MacJob<MacF32Kind> &, const Context &);

// Accumulators of a command, element by element, for the reference paths: same place as RunMac keeps them.
struct AccumulatorView {
  int64_t ow, group_channels, padded; // padded: channels of a position, each group rounded up to 16
  int64_t Index(int64_t row, int64_t w, int64_t channel) const {
    const int64_t block = (group_channels + kBlock - 1) / kBlock * kBlock;
    return (row * ow + w) * padded + channel / group_channels * block + channel % group_channels;
  }
};

} // namespace npuc::runtime
