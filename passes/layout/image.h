// Which values lie as images (NHWC) if the layout pass has its way.
#pragma once

#include "passes/common.h"

namespace npuc {

// v is computed by an operator that works on images, through operators that take any layout.
bool ComesFromImage(const Value *v, const NpuOps &npu);
// Some reader of v works on images, through operators that take any layout.
bool GoesToImage(const Value *v, const NpuOps &npu);

} // namespace npuc
