// Convolutions beyond the machine's limits of kernel, stride and dilation: accumulated steps within them.
#pragma once

#include "backend/lower/conv.h"

namespace npuc::lower {

// Bounds of what is taken apart.
inline constexpr int64_t kMaxSteppedKernel = 64, kMaxSteppedStride = 64, kMaxSteppedDilation = 64, kMaxSteps = 1024;

bool NeedsSteps(const ConvGeometry &g, const Target &t);
// Whether an unpadded convolution over columns is a product of rows that lie in the input: each output column reads KW
// * C values side by side, so that a view whose columns overlap is its left matrix. Kernels and strides of any width
// (the frames of a short-time Fourier transform).
bool IsRowProduct(const ConvGeometry &g, int64_t channels, int64_t groups, const Target &t);
// `p` and `source` turned into that product; an input whose pixels don't lie side by side is copied on chip before.
Status MakeRowProduct(const ConvGeometry &g, MxuProblem &p, WeightSource &source, LowerContext &ctx);

// Accumulation steps for a tile, padding aside (a patch embedding takes fewer).
int64_t NumSteps(const ConvGeometry &g, const Target &t);

// `p`, `source` and `data` as for EmitMxu, with the whole kernel's geometry; groups not merged.
Status LowerLargeConv(const MxuProblem &p, const ConvGeometry &g, const Stage &stage, const WeightSource &source,
                      const ChannelData &data, LowerContext &ctx);

} // namespace npuc::lower
