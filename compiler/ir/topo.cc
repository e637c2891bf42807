// Stable topological sort.
//
// Kahn's algorithm; among the nodes that are ready the one that stands first now goes first, so a sorted graph stays as
// it is. A node depends on the nodes of this graph that define its operands and the values that its bodies capture.
// O((nodes + operands) log nodes), no recursion but on body nesting.
#include <queue>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc {
namespace {

template <class Fn> void ForEachOuterDef(const Node &n, const Graph &g, Fn fn) {
  for (Value *v : n.operands())
    if (v && v->def() && v->graph() == &g)
      fn(v);
  for (unsigned i = 0; i < n.num_bodies(); ++i)
    for (const Node &inner : n.body(i)->nodes())
      ForEachOuterDef(inner, g, fn);
}

} // namespace

Status SortTopologically(Graph &g) {
  std::vector<Node *> order;
  llvm::DenseMap<const Node *, unsigned> position;
  for (Node &n : g.nodes()) {
    if (n.is_return())
      continue;
    position[&n] = order.size();
    order.push_back(&n);
  }
  const unsigned count = order.size();
  std::vector<unsigned> missing(count, 0);
  std::vector<llvm::SmallVector<unsigned, 2>> users(count);
  bool sorted = true;
  for (unsigned i = 0; i < count; ++i)
    ForEachOuterDef(*order[i], g, [&](Value *v) {
      const unsigned def = position[v->def()];
      users[def].push_back(i);
      ++missing[i];
      sorted &= def < i;
    });
  if (sorted)
    return OkStatus();

  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
  for (unsigned i = 0; i < count; ++i)
    if (missing[i] == 0)
      ready.push(i);
  unsigned done = 0;
  while (!ready.empty()) {
    const unsigned i = ready.top();
    ready.pop();
    ++done;
    order[i]->MoveBefore(g.return_node());
    for (unsigned u : users[i])
      if (--missing[u] == 0)
        ready.push(u);
  }
  if (done == count)
    return OkStatus();

  // Each node left waits for another one left: following those ends in a cycle.
  unsigned at = 0;
  while (missing[at] == 0)
    ++at;
  std::vector<bool> seen(count);
  while (!seen[at]) {
    seen[at] = true;
    unsigned next = at;
    ForEachOuterDef(*order[at], g, [&](Value *v) {
      if (missing[position[v->def()]] != 0)
        next = position[v->def()];
    });
    at = next;
  }
  Value *operand = nullptr;
  ForEachOuterDef(*order[at], g, [&](Value *v) {
    const unsigned def = position[v->def()];
    if (missing[def] != 0 && seen[def])
      operand = v;
  });
  return AtNode(
      Error(
          "E0204",
          fmt::format("the node's input '{}' depends on the node's own output: the graph has a cycle", operand->name()),
          "an ONNX graph must be acyclic; check the tool that wrote the model for a tensor name used twice"),
      order[at]->Label(), order[at]->op().name);
}

} // namespace npuc
