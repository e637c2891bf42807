// What passes change a graph with: creating nodes with merged origins, replacing, erasing what dies. Keeps ONNX names
// where a replacement computes the same tensor, so that captured tensors and messages go on speaking of the user's
// model.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace npuc {

class Rewriter {
public:
  // New nodes go before the insertion point; null: before the Return of g.
  explicit Rewriter(Graph &g, Node *before = nullptr) : graph_(&g), before_(before) {}
  explicit Rewriter(Node *before) : graph_(before->graph()), before_(before) {}

  Graph &graph() const { return *graph_; }
  void InsertBefore(Node *n) { graph_ = n->graph(), before_ = n; }
  void InsertAfter(Node *n);
  void InsertAtEnd(Graph &g) { graph_ = &g, before_ = nullptr; }

  // A node of operator (domain, name), which must exist; result types None unless given.
  Node *Create(std::string_view name, llvm::ArrayRef<Value *> operands, Origin origin, llvm::ArrayRef<Type> types = {},
               AttributeList attrs = {}, std::string_view domain = "");
  Node *Create(const OpDef *op, llvm::ArrayRef<Value *> operands, Origin origin, llvm::ArrayRef<Type> types = {},
               AttributeList attrs = {});
  Value *Constant(Tensor t, std::string_view name = "", QuantRef quant = nullptr);

  // Uses of old's results become uses of `values` (one a result; null only where the result is unused); old is erased,
  // and so are the nodes of its graph that only it used (all of them before it in the list, so walking forwards over
  // nodes_early_inc() is safe). A value created by this rewriter, or any definition that takes the place of a graph
  // output, takes over the old name.
  void ReplaceNode(Node *old, llvm::ArrayRef<Value *> values);
  // The same for one value, without erasing anything.
  void ReplaceValue(Value *old, Value *with);
  void ReplaceUse(Use use, Value *with);

  // Erases n if none of its results is used, then its operands' nodes of the same graph likewise. Whether n went.
  bool EraseIfDead(Node *n);

  bool changed() const { return changed_; }
  void set_changed() { changed_ = true; } // after editing attributes or types by hand

private:
  Graph *graph_;
  Node *before_;
  llvm::SmallPtrSet<Value *, 8> fresh_; // made here, name not yet given by a replacement
  bool changed_ = false;
};

// Erases every node of g and its bodies whose results are all unused (operators have no effects), from the back.
// Linear.
bool EraseDeadNodes(Graph &g);

// The union of the nodes' origins.
Origin MergeOrigins(llvm::ArrayRef<const Node *> nodes);

using ValueMap = llvm::DenseMap<const Value *, Value *>;
// Copies n (bodies too) into `to` before `before`; operands through the map, or kept where it lacks them; adds the
// results to it.
Node *CopyNode(const Node &n, Graph &to, Node *before, ValueMap &map);
// Copies inputs, nodes and outputs of `from` into the empty graph `to`.
void CopyGraph(const Graph &from, Graph &to, ValueMap &map);

} // namespace npuc
