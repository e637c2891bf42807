// Extraction of host steps. A value is an input when it is used by a node of the run (bodies included) and defined by
// none of them; an output when somebody outside the run uses it.
#include "backend/emit/host_step.h"

#include "compiler/ir/rewriter.h"
#include "llvm/ADT/DenseSet.h"

namespace npuc::emit {
namespace {

// The node of graph g that `n` is, or stands in a body of; null when n lies elsewhere.
const Node *AtLevel(const Graph &g, const Node *n) {
  while (n && n->graph() != &g)
    n = n->graph()->parent();
  return n;
}

} // namespace

HostGraph ExtractHostGraph(const Graph &g, llvm::ArrayRef<const Node *> nodes) {
  HostGraph h;
  h.module = std::make_unique<Module>();
  Graph &to = h.module->main();
  llvm::DenseSet<const Node *> inside(nodes.begin(), nodes.end());
  ValueMap map;
  auto need = [&](Value *v) {
    if (!v || v->graph() != &g || map.count(v))
      return; // body values are copied with their bodies
    if (v->def() && inside.count(v->def()))
      return;
    if (v->constant()) {
      map[v] = to.AddConstant(*v->constant(), v->name(), nullptr, v->type().quant());
      return;
    }
    map[v] = to.AddInput(v->name(), v->type());
    h.inputs.push_back(v);
  };
  std::function<void(const Node &)> needs_of = [&](const Node &n) {
    for (Value *v : n.operands())
      need(v);
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      for (const Node &inner : n.body(i)->nodes())
        needs_of(inner);
  };
  for (const Node *n : nodes)
    needs_of(*n);
  for (const Node *n : nodes)
    CopyNode(*n, to, nullptr, map);
  WalkNodes(to, [](Node &n) { n.set_origin({}); });
  for (const Node *n : nodes)
    for (unsigned i = 0; i < n->num_results(); ++i) {
      const Value *v = n->result(i);
      bool outside = false;
      for (const Use &u : v->uses())
        outside |= !inside.count(AtLevel(g, u.user));
      if (!outside)
        continue;
      to.AddOutput(map.lookup(const_cast<Value *>(v)), v->name());
      h.outputs.push_back(v);
    }
  return h;
}

} // namespace npuc::emit
