// The parts of InferContext and EvalContext that look at the node.
#include "compiler/ir/graph.h"
#include "compiler/ir/op_def.h"

namespace npuc {

int InferContext::num_operands() const {
  return static_cast<int>(node().num_operands());
}
bool InferContext::has_operand(int i) const {
  return i < num_operands() && node().operand(i) != nullptr;
}
const Type &InferContext::operand_type(int i) const {
  static const Type none;
  const Value *v = node().operand(i);
  return v ? v->type() : none;
}
int InferContext::num_results() const {
  return static_cast<int>(node().num_results());
}
const AttributeList &InferContext::attrs() const {
  return node().attrs();
}
void InferContext::set_result(int i, Type t) {
  if (i < static_cast<int>(results_.size()))
    results_[i] = std::move(t);
}
const AttributeList &EvalContext::attrs() const {
  return node().attrs();
}

} // namespace npuc
