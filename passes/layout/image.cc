#include "passes/layout/image.h"

namespace npuc {

bool ComesFromImage(const Value *v, const NpuOps &npu) {
  for (int depth = 0; depth < 16 && v->def(); ++depth) {
    const Node &n = *v->def();
    const NpuOp *op = npu.Find(n.op());
    if (!op)
      return false;
    const LayoutRule rule = op->layout_rule(n);
    if (rule == LayoutRule::Image)
      return true;
    if (rule != LayoutRule::Any || !n.operand(0) || n.operand(0)->constant())
      return false;
    v = n.operand(0);
  }
  return false;
}

bool GoesToImage(const Value *v, const NpuOps &npu) {
  llvm::SmallVector<const Value *, 8> work = {v};
  for (size_t k = 0; k < work.size() && k < 16; ++k)
    for (const Use &u : work[k]->uses()) {
      if (u.user->is_return())
        continue;
      const NpuOp *op = npu.Find(u.user->op());
      if (!op)
        continue;
      const LayoutRule rule = op->layout_rule(*u.user);
      if (rule == LayoutRule::Image && u.operand == 0)
        return true;
      if (rule == LayoutRule::Any && u.user->num_results() == 1)
        work.push_back(u.user->result());
    }
  return false;
}

} // namespace npuc
