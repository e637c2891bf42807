// Deep copies: a whole module, one node, or the nodes of a graph into another.
//
// Definitions precede uses in a graph, so one pass in order with a map old value -> new value does it; constants share
// their bytes. Linear; recursion on body nesting only.
#include "compiler/ir/rewriter.h"

namespace npuc {
namespace {

Value *Mapped(const ValueMap &map, Value *v) {
  if (!v)
    return nullptr;
  auto it = map.find(v);
  return it == map.end() ? v : it->second; // not copied: a value of a graph around
}

void CopyNodes(const Graph &from, Graph &to, Node *before, ValueMap &map) {
  for (const Node &n : from.nodes())
    if (!n.is_return())
      CopyNode(n, to, before, map);
}

void CopyBody(const Graph &from, Graph &to, ValueMap &map) {
  for (unsigned i = 0; i < from.num_inputs(); ++i)
    map[from.input(i)] = to.AddInput(from.input(i)->name(), from.input(i)->type());
  CopyNodes(from, to, nullptr, map);
  for (unsigned i = 0; i < from.num_outputs(); ++i)
    to.AddOutput(Mapped(map, from.output(i)), from.output_names()[i]);
}

} // namespace

Node *CopyNode(const Node &n, Graph &to, Node *before, ValueMap &map) {
  llvm::SmallVector<Value *, 4> operands;
  for (Value *v : n.operands())
    operands.push_back(Mapped(map, v));
  llvm::SmallVector<std::string, 2> names;
  for (unsigned i = 0; i < n.num_results(); ++i)
    names.push_back(n.result(i)->name());
  Node *c = to.AddNode(&n.op(), operands, n.num_results(), n.origin(), before, names);
  c->attrs() = n.attrs();
  c->set_placement(n.placement());
  for (unsigned i = 0; i < n.num_results(); ++i) {
    c->result(i)->set_type(n.result(i)->type());
    map[n.result(i)] = c->result(i);
  }
  for (unsigned i = 0; i < n.num_bodies(); ++i)
    CopyBody(*n.body(i), *c->AddBody(), map);
  return c;
}

void CopyGraph(const Graph &from, Graph &to, ValueMap &map) {
  CopyBody(from, to, map);
}

std::unique_ptr<Module> Clone(const Module &m) {
  auto c = std::make_unique<Module>();
  c->onnx_nodes() = m.onnx_nodes();
  c->file = m.file;
  c->ir_version = m.ir_version;
  c->opsets = m.opsets;
  c->producer = m.producer;
  c->metadata = m.metadata;
  ValueMap map;
  CopyBody(m.main(), c->main(), map);
  return c;
}

std::vector<Value *> InlineGraph(const Graph &from, Graph &to, Node *before, llvm::ArrayRef<Value *> inputs) {
  NPUC_CHECK(inputs.size() == from.num_inputs(), "{} values for {} inputs", inputs.size(), from.num_inputs());
  ValueMap map;
  for (unsigned i = 0; i < inputs.size(); ++i)
    map[from.input(i)] = inputs[i];
  CopyNodes(from, to, before, map);
  std::vector<Value *> out;
  for (Value *v : from.return_node()->operands())
    out.push_back(Mapped(map, v));
  return out;
}

} // namespace npuc
