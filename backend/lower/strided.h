// Data movement in terms of logical axes: a tensor as base address and one byte stride per axis, whatever its layout.
#pragma once

#include "compiler/program/lower_context.h"

namespace npuc::lower {

struct Strided {
  isa::View like; // region, dtype and zero of the tensor
  isa::Address base;
  Dims dims;
  llvm::SmallVector<int64_t, 6> strides; // bytes, may be 0 or negative
};

// Row-major and NHWC tensors, and boxes of them.
Strided StridedOf(const isa::View &v, const Type &t);
bool SamePlace(const Strided &a, const Strided &b);
// dst[i] = src[i] for equal dims. Axes that continue each other are merged; what does not fit four dims is unrolled.
// Nothing when both lie in the same place.
void CopyStrided(LowerContext &ctx, const Strided &src, const Strided &dst);

// Commands that CopyStrided takes for this.
int64_t NumCopies(const LowerContext &ctx, const Strided &src, const Strided &dst);

} // namespace npuc::lower
