// The sliding window that convolutions and pools share: kernel, strides, dilations, pads, and the extents they give.
#pragma once

#include "compiler/ops/kernels.h"
#include "compiler/ops/op_helpers.h"

namespace npuc::ops {

enum class AutoPad : uint8_t { NotSet, Valid, SameUpper, SameLower };

// One entry per spatial axis in each list.
struct Window {
  llvm::SmallVector<int64_t, 3> kernel, stride, dilation, pad_begin, pad_end;
  AutoPad auto_pad = AutoPad::NotSet;
  bool ceil_mode = false;

  int rank() const { return static_cast<int>(kernel.size()); }
  int64_t extent(int i) const { return dilation[i] * (kernel[i] - 1) + 1; } // of the dilated kernel
};

// From kernel_shape, strides, dilations, pads, auto_pad and ceil_mode. `kernel`: the weights' spatial extents, which
// kernel_shape must equal when both are there (pools pass none). E0203 on wrong lengths or values.
StatusOr<Window> ReadWindow(const AttributeList &attrs, llvm::ArrayRef<int64_t> kernel);

// The output extent along spatial axis i for input extent `in`; settles pad_begin/pad_end when auto_pad is set. E0301
// when the kernel is larger than the padded input.
StatusOr<int64_t> WindowOutput(Window &w, int i, int64_t in);
// The same for a dim that may be symbolic: known when static, or when the window keeps extents (stride 1).
StatusOr<Dim> WindowOutputDim(Window &w, int i, const Dim &in);

// The attributes that every windowed operator takes.
#define NPUC_WINDOW_ATTRS                                                                                              \
  IntsAttr("kernel_shape"), IntsAttr("strides"), IntsAttr("dilations"), IntsAttr("pads"), StringAttr("auto_pad")

} // namespace npuc::ops
