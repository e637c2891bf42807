// docs/supported_ops.md, from the operators and the rules of their lowerings.
#pragma once

#include <string>

#include "compiler/pass/npu_op.h"

namespace npuc::lower {

// Markdown: every operator, whether the NPU runs it, and each rule it must keep there.
std::string SupportedOpsMarkdown(const NpuOps &npu);

} // namespace npuc::lower
