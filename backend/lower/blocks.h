// Blocks of a VPU operator's output: what is on chip at once.
#pragma once

#include <functional>

#include "compiler/program/lower_context.h"

namespace npuc::lower {

struct BlockLimits {
  int64_t bytes = 0;                                 // SRAM for one block's fetched and stored tiles
  std::array<bool, 4> split{true, true, true, true}; // axes that may be split
  // Pieces worth having even when all fits, so that neighbours in time overlap: blocks of at least this many elements.
  // 0: one block.
  int64_t overlap_elements = 16384;
  // --tile: H and W of a block are just these (less at the edge), and only N and C are split further.
  std::optional<OutputTile> tile;
};

// Calls fn(box) for boxes that tile `dims` in order. A box's bytes(box) fits limits.bytes; axes are split from N to C,
// C only when nothing else is left. Error E0405 when a box of one element along every splittable axis is still too big,
// E0520 when limits.tile makes it so.
Status ForEachBlock(const std::array<int64_t, 4> &dims, const BlockLimits &limits,
                    const std::function<int64_t(const program::Box &)> &bytes,
                    const std::function<void(const program::Box &)> &fn);

} // namespace npuc::lower
