// Operators over chosen logical axes (softmax, normalisations, reductions), whatever rank and layout: tensors seen as
// at most four dims in which every chosen axis is a whole view axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/lower/strided.h"

namespace npuc::lower {

// One piece of the work: `views` of the tensors with equal dims, `axes` the chosen ones as a mask of isa::Axis.
struct AxisPiece {
  std::vector<isa::View> views;
  uint8_t axes = 0;
};

// Neighbours in memory that are both chosen (or both not) and continue each other in all tensors merge; what is left
// beyond four dims is a loop of pieces over the outermost axes that are not chosen. tensors[0] decides the order in
// memory; all have its dims (stride 0 where one is broadcast). Empty when chosen axes alone are more than four dims, or
// the loop would have more than `max_pieces` turns.
std::vector<AxisPiece> PiecesOverAxes(llvm::ArrayRef<Strided> tensors, const std::vector<bool> &chosen,
                                      const Target &target, int64_t max_pieces = 4096);

// The view with extent 1 along the axes of the mask: what a reduction writes.
isa::View WithoutAxes(isa::View v, uint8_t axes);

// The opposite: what lies in `v`, with extent 1 along the axes of the mask, for every element of `like`.
isa::View SpreadOver(isa::View v, const isa::View &like, uint8_t axes);

// `t` (its own dims) seen through `dims` by numpy's broadcasting: stride 0 where it has extent 1 or no axis. nullopt
// where extents clash.
std::optional<Strided> BroadcastTo(const Strided &t, llvm::ArrayRef<int64_t> dims);

// Box of `b` grown to the whole extent of `v` along the axes of the mask.
program::Box Whole(const program::Box &b, const isa::View &v, uint8_t axes);

// A constant as f32 or f16 in DDR: as it is, or dequantised. Row-major.
Strided FloatConstant(LowerContext &ctx, const Value *v);

// Blocks of work over axes that may not be split: half the budget for each, so that neighbours overlap, or all of it
// when the smallest block needs that. `least`: bytes of that block.
int64_t BlockBudget(const LowerContext &ctx, int64_t least);
// The greatest least block that a node may ask for (NpuOp::WorkingBytes makes the tiler leave room for it).
int64_t MaxWorkingBytes(const Target &t);

} // namespace npuc::lower
