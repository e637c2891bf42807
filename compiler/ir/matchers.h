// Small questions that pattern passes ask of values and nodes.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/ir/graph.h"

namespace npuc {

// The one value of a constant whose elements are all the same (rank 0, one element, or a splat); nullopt else, also for
// strings and complex numbers.
std::optional<double> MatchConstantScalar(const Value *v);
// The elements of an integer (or bool) constant; nullopt if v is none.
std::optional<llvm::SmallVector<int64_t, 8>> MatchConstantInts(const Value *v);

// The only user, if v has exactly one use and that is not a graph output and lies in v's own graph; else null.
inline Node *SoleUser(const Value *v) {
  if (!v || !v->has_one_use())
    return nullptr;
  Node *user = v->uses().front().user;
  return user->is_return() || user->graph() != v->graph() ? nullptr : user;
}

// The node that computes v, if it is this operator; else null (also for a null v or a graph input).
inline Node *DefinedBy(const Value *v, std::string_view op, std::string_view domain = "") {
  return v && v->def() && v->def()->Is(op, domain) ? v->def() : nullptr;
}

// Of a node with two operands one of which is a constant: the other one and the constant's index. Only sensible for
// commutative operators unless the index is looked at.
struct ConstantOperand {
  Value *other;
  const Tensor *constant;
  unsigned index; // of the constant
};
std::optional<ConstantOperand> MatchConstantOperand(const Node &n);

} // namespace npuc
