// Tiling of matrix work: one problem statement for convolutions and constant matrix products, one search, one loop
// nest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "backend/isa/commands.h"
#include "backend/lower/stage.h"
#include "compiler/program/lower_context.h"
#include "compiler/target/target.h"

namespace npuc::lower {

// Packed weights of a problem that is emitted in several pieces (bands of rows): in the file once.
struct SharedWeights {
  bool made = false;
  int64_t chunk = 0, slice_ic = 0;
  program::BufferId buffer = 0;
};

// out[n, oh, ow, oc] = stage(sum over ic, kh, kw). A constant matrix product is a 1x1 convolution of one row: h = 1, w
// = M.
struct MxuProblem {
  bool matmul = false; // emit MATMUL
  isa::ConvMode mode = isa::ConvMode::Dense;
  int64_t n = 1, ih = 1, iw = 1, oh = 1, ow = 1;
  int64_t ic = 1, oc = 1, groups = 1; // totals over groups
  int64_t kh = 1, kw = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
  DType x = DType::I8, w = DType::I8, out = DType::I8;
  isa::AccType acc = isa::AccType::I32;
  int32_t in_zero = 0;
  isa::View in, result; // whole tensors, NHWC
  bool ifm_on_chip = false, ofm_on_chip = false;
  // Output-stage price per element in passes (at least 1), and bytes of second operands to fetch per output element.
  double stage_passes = 1;
  double operand_bytes = 0;
  // Raw code of the one value that all weights have: packed weights of any size are a pattern, read from DDR once.
  std::optional<int32_t> uniform_weight;
  std::string name;
  SharedWeights *shared = nullptr; // only while EmitMxu runs
  std::optional<OutputTile> tile;  // --tile: what one command computes

  int64_t group_ic() const { return ic / groups; }
  int64_t group_oc() const { return oc / groups; }
};

// Channels are worked on in *units*: an output channel (dense), a channel (depthwise) or a group (grouped).
struct MxuTiles {
  int64_t chunk = 0;                           // output channels whose weights are on chip at once (whole units)
  int64_t block_h = 0, block_w = 0;            // output box whose input is on chip at once
  int64_t tile_h = 0, tile_w = 0, tile_oc = 0; // one command
  int64_t slice_ic = 0;                        // input channels per accumulation step (dense only; = ic: one step)
  bool weights_outer = true;                   // chunks outside, blocks inside
  isa::Traversal traversal = isa::Traversal::Depth;
  double cycles = 0; // estimate
};

// Errors E0405 when not even the smallest tile fits: names the bytes. E0520 when p.tile does not.
StatusOr<MxuTiles> ChooseTiles(const MxuProblem &p, const Target &t, int64_t budget);

// The traversal with the fewest array steps over `ic` input channels a group; depth where they tie.
isa::Traversal FastestTraversal(const MxuProblem &p, const Target &t, int64_t ic);

// Writes packed weights (see isa::Conv) of output channels [oc0, oc0 + noc) and input channels [ic0, ic0 + nic) of each
// group.
using PackWeights = std::function<void(int64_t oc0, int64_t noc, int64_t ic0, int64_t nic, uint8_t *dst)>;
// Writes the table entries of output channels [oc0, oc0 + noc).
using PackTable = std::function<void(int64_t oc0, int64_t noc, uint8_t *dst)>;

// The loop nest: fetches, CONV/MATMUL commands, stores.
Status EmitMxu(const MxuProblem &p, const MxuTiles &tiles, const Stage &stage, PackWeights weights, PackTable table,
               LowerContext &ctx);

// Bytes of packed weights for `oc` output channels and `ic` input channels per group.
int64_t WeightBytes(const MxuProblem &p, const Target &t, int64_t oc, int64_t ic);

} // namespace npuc::lower
