// Block sizes: halve the largest splittable outer axis until a block fits, then even out so that no block is a sliver.
#include "backend/lower/blocks.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/support/diagnostic.h"

namespace npuc::lower {

using program::Box;

Status ForEachBlock(const std::array<int64_t, 4> &dims, const BlockLimits &limits,
                    const std::function<int64_t(const Box &)> &bytes, const std::function<void(const Box &)> &fn) {
  std::array<int64_t, 4> size = dims;
  std::array<bool, 4> split = limits.split;
  if (limits.tile) {
    size[1] = std::min(size[1], limits.tile->h);
    size[2] = std::min(size[2], limits.tile->w);
    split[1] = split[2] = false;
  }
  auto needed = [&] { return bytes(Box{{0, 0, 0, 0}, size}); };
  while (needed() > limits.bytes) {
    int axis = -1;
    for (int a = 0; a < 4 && axis < 0; ++a)
      if (split[a] && size[a] > 1)
        axis = a;
    if (axis < 0 && limits.tile)
      return TileRefused(*limits.tile,
                         fmt::format("it needs {} bytes of on-chip memory, {} are free", needed(), limits.bytes),
                         "give a smaller tile, or none");
    if (axis < 0)
      return Error("E0405",
                   fmt::format("the smallest tile of this layer needs {} bytes of on-chip memory, {} are free",
                               needed(), limits.bytes),
                   "use a target with more SRAM, or keep this node on the host with --deny-node");
    // As many pieces as the bytes ask for, at least two.
    const int64_t pieces = std::max<int64_t>(2, std::min(size[axis], needed() / std::max<int64_t>(1, limits.bytes)));
    const int64_t next = (size[axis] + pieces - 1) / pieces;
    size[axis] = next == size[axis] ? size[axis] - 1 : next;
  }
  if (limits.overlap_elements > 0) {
    // Split H (then W) of the block so that computation and its neighbours interleave.
    for (int a : {1, 2}) {
      const int64_t elements = size[0] * size[1] * size[2] * size[3];
      if (!split[a] || size[a] == 1)
        continue;
      const int64_t pieces = std::min<int64_t>({size[a], elements / limits.overlap_elements, 8});
      if (pieces > 1)
        size[a] = (size[a] + pieces - 1) / pieces;
      break;
    }
  }
  for (int a = 0; a < 4; ++a) {
    if (limits.tile && (a == 1 || a == 2))
      continue;
    const int64_t n = (dims[a] + size[a] - 1) / size[a];
    size[a] = (dims[a] + n - 1) / n;
  }
  for (int64_t n = 0; n < dims[0]; n += size[0])
    for (int64_t h = 0; h < dims[1]; h += size[1])
      for (int64_t w = 0; w < dims[2]; w += size[2])
        for (int64_t c = 0; c < dims[3]; c += size[3])
          fn(Box{{n, h, w, c},
                 {std::min(size[0], dims[0] - n), std::min(size[1], dims[1] - h), std::min(size[2], dims[2] - w),
                  std::min(size[3], dims[3] - c)}});
  return absl::OkStatus();
}

} // namespace npuc::lower
