// The set of operators that the reference NPU runs, from lowerings.def.
#pragma once

#include "compiler/pass/npu_op.h"

namespace npuc::lower {

const NpuOps &ReferenceNpuOps();

} // namespace npuc::lower
