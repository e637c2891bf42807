#include "passes/fuse/cone.h"

#include "compiler/interp/interpreter.h"

namespace npuc {

std::vector<Cone> ConesOf(Node &root, llvm::function_ref<bool(const Node &)> may_join,
                          llvm::function_ref<bool(const Value *)> is_constant, unsigned max_nodes) {
  std::vector<Cone> cones;
  if (!may_join(root))
    return cones;
  Cone cone;
  cone.nodes.insert(&root);
  for (;;) {
    llvm::SetVector<Value *> mouths;
    for (Node *n : cone.nodes)
      for (Value *v : n->operands())
        if (v && !is_constant(v) && (!v->def() || !cone.nodes.contains(v->def())))
          mouths.insert(v);
    if (mouths.size() == 1) {
      cones.push_back(cone);
      cones.back().mouth = mouths[0];
    }
    Node *next = nullptr;
    for (Value *v : mouths) {
      Node *d = v->def();
      if (!d || d->graph() != root.graph() || d->num_results() != 1 || d->num_bodies() != 0 || v->is_graph_output() ||
          !may_join(*d))
        continue;
      if (!llvm::all_of(v->uses(), [&](const Use &u) { return cone.nodes.contains(u.user); }))
        continue;
      next = d;
      break;
    }
    if (!next || cone.nodes.size() >= max_nodes)
      return cones;
    cone.nodes.insert(next);
  }
}

Tensor EvaluateCone(const Cone &cone, const Tensor &x) {
  llvm::DenseMap<const Value *, Tensor> values;
  values[cone.mouth] = x;
  // A node joined after all its readers: backwards, operands come first.
  for (Node *n : llvm::reverse(cone.nodes)) {
    std::vector<EvalValue> operands;
    for (const Value *v : n->operands()) {
      if (!v) {
        operands.emplace_back();
      } else if (auto found = values.find(v); found != values.end()) {
        operands.emplace_back(found->second);
      } else if (const Tensor *t = v->constant()) {
        operands.emplace_back(t->Expand());
      } else {
        return {};
      }
    }
    auto r = EvaluateNode(*n, std::move(operands));
    if (!r.ok() || r->empty() || !(*r)[0].tensor())
      return {};
    values[n->result()] = (*r)[0].tensor()->Expand();
  }
  return values[cone.nodes[0]->result()];
}

Origin OriginOf(const Cone &cone) {
  Origin origin;
  for (Node *n : cone.nodes)
    origin = MergeOrigins(origin, n->origin());
  return origin;
}

} // namespace npuc
