// Functions of one tensor: the nodes between a root and the one value at their mouth, constants aside, and what they
// compute.
#pragma once

#include <vector>

#include "passes/common.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"

namespace npuc {

struct Cone {
  llvm::SetVector<Node *> nodes; // root first, users before operands
  Value *mouth = nullptr;
};

// The closed cones of root, smallest first: sets of nodes that satisfy may_join, all whose values but the root's are
// read inside alone, and that read one value from outside besides those that is_constant accepts. Grown node by node; a
// node joins when all its readers are inside, so every value that all paths pass is a mouth at some time.
std::vector<Cone> ConesOf(Node &root, llvm::function_ref<bool(const Node &)> may_join,
                          llvm::function_ref<bool(const Value *)> is_constant, unsigned max_nodes);

// The root's value when the mouth's is x; no tensor when something can't be evaluated.
Tensor EvaluateCone(const Cone &cone, const Tensor &x);

Origin OriginOf(const Cone &cone);

} // namespace npuc
