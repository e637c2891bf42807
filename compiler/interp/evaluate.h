// One node by the rules of interpreter.h; internal to interp.
#pragma once

#include "compiler/interp/interpreter.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc {

using BodyRunner = llvm::function_ref<StatusOr<std::vector<EvalValue>>(int body, std::vector<EvalValue> inputs)>;

StatusOr<std::vector<EvalValue>> EvaluateWithRules(const Node &node, std::vector<EvalValue> operands,
                                                   BodyRunner run_body, const EvalOptions &options);

} // namespace npuc
