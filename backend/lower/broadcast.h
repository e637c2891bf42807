// Operands seen through the result's axes: a view with the result's dims, stride 0 where the operand is broadcast.
#pragma once

#include <string>

#include "compiler/program/lower_context.h"

namespace npuc::lower {

// `view` is how operand type `operand` lies (whole tensor); the result is that of `out` (numpy rules; out's layout maps
// the axes). The view has out's view dims. Fails (nullopt) where four dims cannot say it: ranks above 4 whose leading
// axes broadcast in part.
std::optional<isa::View> BroadcastView(const isa::View &view, const Type &operand, const Type &out);

// A (possibly broadcast) view's box on chip: dims with stride 0 are fetched once and broadcast again on chip.
isa::View FetchBroadcast(LowerContext &ctx, const isa::View &full, const program::Box &box, const std::string &name);

// Bytes that FetchBroadcast of a box of this view puts into SRAM (0 when it is there).
int64_t FetchBytes(const LowerContext &ctx, const isa::View &full, const program::Box &box);

} // namespace npuc::lower
