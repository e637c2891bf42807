// One node by the rules of interpreter.h; internal to interp.
#pragma once

#include "compiler/interp/interpreter.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc {

using BodyRunner = llvm::function_ref<StatusOr<std::vector<EvalValue>>(int body, std::vector<EvalValue> inputs)>;

StatusOr<std::vector<EvalValue>> EvaluateWithRules(const Node &node, std::vector<EvalValue> operands, BodyRunner run_body,
                                                   const EvalOptions &options);

// A faster kernel of the node, or nullptr: float only, not bit-identical to the reference.
using FastKernel = Status (*)(EvalContext &);
FastKernel FindFastKernel(const Node &node, const std::vector<EvalValue> &operands);

} // namespace npuc
