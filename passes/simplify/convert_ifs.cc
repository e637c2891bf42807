// Ifs that the run decides become both of their branches and a choice, so that the NPU can run what is in them
// (if-conversion).
//
//   %y = If(%c) {then: %a} {else: %b}   ->   %a, %b, %y = Where(%c, %a, %b)
//
// Both branches are computed then, which costs the NPU the time of the one that is not taken; the host, which runs an
// If whole, is slower by more than that. The branches' nodes keep their origins, the choices have the If's. An If
// inside a branch is converted first.
//
// What is not taken must not be able to fail: a branch is converted only where all that it computes with is constants,
// floats, conditions and quantised tensors of static shape. (What can fail at run time looks at integers: indices out
// of range, shapes, divisions by zero.)
//
// Left alone: branches whose results differ in shape or type; branches without a node that the NPU would take; nodes
// with other bodies, with random results or denied by the user; more than 8192 nodes. Cost: linear in the graph.
#include "compiler/ops/infer.h"
#include "passes/common.h"

namespace npuc {
namespace {

constexpr int64_t kMaxNodes = 8192;

bool IsSafe(const Type &t) {
  return t.is_static_tensor() && (t.is_quantized() || IsFloat(t.dtype()) || t.dtype() == DType::Bool);
}

bool MayConvert(const Graph &branch, int64_t *nodes, bool *work, const PassContext &ctx) {
  for (const Node &n : branch.nodes()) {
    if (n.is_constant())
      continue;
    for (const Value *v : n.operands())
      if (v && !v->constant() && !IsSafe(v->type()))
        return false;
    if (n.is_return())
      continue;
    ++*nodes;
    if (n.num_bodies() != 0 || !n.op().has(kPure) || DeniedBy(n, ctx))
      return false;
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (n.result(i)->has_uses() && !n.result(i)->type().is_static_tensor())
        return false;
    *work |= IsNpuWork(n, ctx);
  }
  return true;
}

bool MayConvert(const Node &n, const PassContext &ctx) {
  if (DeniedBy(n, ctx) || n.num_operands() != 1 || !n.operand(0)->type().is_static_tensor())
    return false;
  bool work = false;
  int64_t nodes = 0;
  for (unsigned b = 0; b < 2; ++b)
    if (!MayConvert(*n.body(b), &nodes, &work, ctx))
      return false;
  for (unsigned i = 0; i < n.num_results(); ++i)
    if (!SameTensorType(n.body(0)->output(i)->type(), n.body(1)->output(i)->type()) ||
        !n.body(0)->output(i)->type().is_static_tensor())
      return false;
  return work && nodes <= kMaxNodes;
}

Status Convert(Node &n, PassContext &ctx) {
  Graph &g = *n.graph();
  Node *const before = &*g.nodes().begin() == &n ? nullptr : &*std::prev(n.getIterator());
  Rewriter rw(&n);
  Value *condition = n.operand(0);
  if (condition->type().shape().rank() != 0) // of one element; it must not lend a scalar result its rank
    condition = rw.Create("Reshape", {condition, rw.Constant(Tensor::OfI64({}))}, n.origin(), {})->result();
  const std::vector<Value *> then_values = InlineGraph(*n.body(0), g, &n, {});
  const std::vector<Value *> else_values = InlineGraph(*n.body(1), g, &n, {});
  llvm::SmallVector<Value *, 4> chosen;
  for (unsigned i = 0; i < n.num_results(); ++i)
    chosen.push_back(n.result(i)->has_uses() || i == 0
                         ? rw.Create("Where", {condition, then_values[i], else_values[i]}, n.origin(), {})->result()
                         : nullptr);
  for (auto it = before ? std::next(before->getIterator()) : g.nodes().begin(); &*it != &n; ++it)
    NPUC_RETURN_IF_ERROR(InferNode(*it, &ctx.diagnostics));
  rw.ReplaceNode(&n, chosen);
  ctx.Count("simplify: convert-ifs");
  return OkStatus();
}

} // namespace

StatusOr<bool> ConvertIfs(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  return ForEachGraph(m.main(), [&](Graph &g) -> StatusOr<bool> {
    bool changed = false;
    for (Node &n : g.nodes_early_inc())
      if (n.Is("If") && MayConvert(n, ctx)) {
        NPUC_RETURN_IF_ERROR(Convert(n, ctx));
        changed = true;
      }
    return changed;
  });
}

} // namespace npuc
