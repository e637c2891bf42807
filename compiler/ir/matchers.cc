#include "compiler/ir/matchers.h"

namespace npuc {

std::optional<double> MatchConstantScalar(const Value *v) {
  const Tensor *t = v ? v->constant() : nullptr;
  if (!t || !*t || t->dtype() == DType::String || IsComplex(t->dtype()))
    return std::nullopt;
  if (t->num_elements() != 1 && !(t->is_splat() && t->num_elements() > 0))
    return std::nullopt;
  return t->AsDouble(0);
}

std::optional<llvm::SmallVector<int64_t, 8>> MatchConstantInts(const Value *v) {
  const Tensor *t = v ? v->constant() : nullptr;
  if (!t || !(IsInt(t->dtype()) || t->dtype() == DType::Bool))
    return std::nullopt;
  llvm::SmallVector<int64_t, 8> out;
  for (int64_t i = 0, n = t->num_elements(); i < n; ++i)
    out.push_back(t->AsInt(i));
  return out;
}

std::optional<ConstantOperand> MatchConstantOperand(const Node &n) {
  if (n.num_operands() != 2 || !n.operand(0) || !n.operand(1))
    return std::nullopt;
  for (unsigned i : {1u, 0u})
    if (const Tensor *t = n.operand(i)->constant())
      return ConstantOperand{n.operand(1 - i), t, i};
  return std::nullopt;
}

} // namespace npuc
