// What elementwise operators are to the machine: the one reading of their attributes and constant parameters, for ELEM
// and for output stages.
#pragma once

#include <optional>

#include "backend/isa/commands.h"
#include "compiler/ir/graph.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc::lower {

struct ElementwiseSpec {
  isa::ElemFn fn;
  unsigned operands; // data operands
  float imm0 = 0, imm1 = 0;
};

// nullopt: no elementwise operator, or bounds that are no scalar constants (float, or quantised per tensor).
// `resolve` leads from a Fused body's input to the value outside.
std::optional<ElementwiseSpec> ElementwiseSpecOf(
    const Node &n, llvm::function_ref<const Value *(const Value *)> resolve = [](const Value *v) { return v; });

} // namespace npuc::lower
