// Values, nodes, graphs and modules: ownership, use lists, names.
//
// Use lists: a node keeps for each operand the position of that use in the value's list, and a use is removed by moving
// the last one into its place. So linking and unlinking are O(1) however often a value is used (a shared zero point may
// have 100,000 uses), at the price that the order of uses() has no meaning. Passes that need an order walk the node
// list.
//
// Names: the module holds a table of the names in use, and for each stem the first suffix that may be free; asking for
// the same stem n times costs O(n) in all.
#include "compiler/ir/graph.h"

#include <algorithm>

#include "compiler/support/status.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace npuc {

Origin MergeOrigins(const Origin &a, const Origin &b) {
  Origin out;
  out.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

const OpDef *ReturnOpDef() {
  static const OpDef def = [] {
    OpDef d;
    d.domain = "npuc";
    d.name = "Return";
    d.max_operands = -1;
    d.min_results = d.max_results = 0;
    d.traits = 0;
    d.doc = "Ends a graph; its operands are the graph's outputs.";
    return d;
  }();
  return &def;
}

const OpDef *ConstantOpDef() {
  static const OpDef *const def = [] {
    const OpDef *d = LookupOp("", "Constant");
    NPUC_CHECK(d != nullptr, "ops.def has no Constant");
    return d;
  }();
  return def;
}

// ---- Value

void Value::ReplaceAllUsesWith(Value *other) {
  NPUC_CHECK(other != nullptr && other != this, "'{}' replaced by {}", name_, other ? "itself" : "nothing");
  while (!uses_.empty()) {
    const Use use = uses_.back(); // unlinking the last use moves no other
    use.user->Unlink(use.operand);
    use.user->Link(use.operand, other);
  }
}

const Tensor *Value::constant() const {
  return def_ && def_->is_constant() ? def_->attrs().TensorOrNull("value") : nullptr;
}

// ---- Node

Node::~Node() {
  DropReferences();
  bodies_.clear();
  for (const auto &r : results_) {
    NPUC_CHECK(r->uses_.empty(), "'{}' is deleted while node '{}' uses it", r->name_, r->uses_.front().user->Label());
    graph_->module_->ReleaseName(*r);
  }
}

bool Node::is_return() const {
  return op_ == ReturnOpDef();
}
bool Node::is_constant() const {
  return op_ == ConstantOpDef();
}

void Node::Link(unsigned i, Value *v) {
  operands_[i] = v;
  if (!v)
    return;
  slots_[i] = v->uses_.size();
  v->uses_.push_back({this, i});
  if (is_return())
    ++v->return_uses_;
}

void Node::Unlink(unsigned i) {
  Value *v = operands_[i];
  operands_[i] = nullptr;
  if (!v)
    return;
  const Use last = v->uses_.pop_back_val();
  if (last.user != this || last.operand != i) {
    v->uses_[slots_[i]] = last;
    last.user->slots_[last.operand] = slots_[i];
  }
  if (is_return())
    --v->return_uses_;
}

void Node::DropReferences() {
  for (unsigned i = 0; i < operands_.size(); ++i)
    Unlink(i);
  for (const auto &body : bodies_)
    for (Node &n : body->nodes_)
      n.DropReferences();
}

void Node::set_operand(unsigned i, Value *v) {
  NPUC_CHECK(v || !is_return(), "a graph output can't be absent");
  if (i >= operands_.size()) {
    if (!v)
      return;
    NPUC_CHECK(!is_return() || i == operands_.size(), "gap in the outputs");
    if (is_return())
      return AddOperand(v);
    operands_.resize(i + 1, nullptr);
    slots_.resize(i + 1, 0);
  }
  Unlink(i);
  Link(i, v);
  while (!operands_.empty() && !operands_.back()) {
    operands_.pop_back();
    slots_.pop_back();
  }
}

void Node::AddOperand(Value *v) {
  NPUC_CHECK(v != nullptr, "a trailing absent operand is left out, not added");
  operands_.push_back(nullptr);
  slots_.push_back(0);
  Link(operands_.size() - 1, v);
  if (is_return())
    graph_->output_names_.push_back(v->name_);
}

void Node::RemoveOperand(unsigned i) {
  NPUC_CHECK(i < operands_.size(), "operand {} of {}", i, operands_.size());
  Unlink(i);
  for (unsigned k = i + 1; k < operands_.size(); ++k) {
    operands_[k - 1] = operands_[k];
    slots_[k - 1] = slots_[k];
    if (operands_[k])
      operands_[k]->uses_[slots_[k]].operand = k - 1;
  }
  operands_.pop_back();
  slots_.pop_back();
  if (is_return())
    graph_->output_names_.erase(graph_->output_names_.begin() + i);
  while (!operands_.empty() && !operands_.back()) {
    operands_.pop_back();
    slots_.pop_back();
  }
}

Graph *Node::AddBody() {
  bodies_.push_back(std::make_unique<Graph>(graph_->module_, this));
  return bodies_.back().get();
}

std::string Node::Label() const {
  const auto &table = graph_->module_->onnx_nodes();
  if (!origin_.empty() && origin_.front() < table.size())
    return table[origin_.front()].id;
  if (!results_.empty())
    return results_.front()->name_;
  return std::string(op_->name);
}

void Node::Erase() {
  for (const auto &r : results_)
    NPUC_CHECK(r->uses_.empty(), "'{}' is erased while node '{}' uses it", r->name_, r->uses_.front().user->Label());
  NPUC_CHECK(!is_return(), "the Return of a graph can't be erased");
  graph_->nodes_.erase(getIterator());
}

void Node::MoveBefore(Node *other) {
  NPUC_CHECK(other->graph_ == graph_, "'{}' moved before '{}' of another graph", Label(), other->Label());
  if (other == this)
    return;
  graph_->nodes_.splice(other->getIterator(), graph_->nodes_, getIterator());
}

// ---- Graph

Graph::Graph(Module *module, Node *parent) : module_(module), parent_(parent) {
  return_ = new Node();
  return_->op_ = ReturnOpDef();
  return_->graph_ = this;
  nodes_.push_back(return_);
}

Graph::~Graph() {
  for (Node &n : nodes_)
    n.DropReferences(); // so that nodes may go in any order
  nodes_.clear();
  for (const auto &v : inputs_)
    module_->ReleaseName(*v);
}

Value *Graph::AddInput(std::string_view name, Type type) {
  auto v = std::make_unique<Value>();
  v->graph_ = this;
  v->index_ = inputs_.size();
  v->type_ = std::move(type);
  module_->ClaimName(*v, name.empty() ? std::string_view("input") : name);
  inputs_.push_back(std::move(v));
  return inputs_.back().get();
}

void Graph::RemoveInput(unsigned i) {
  Value &v = *inputs_[i];
  NPUC_CHECK(v.uses_.empty(), "input '{}' is removed while node '{}' uses it", v.name_, v.uses_.front().user->Label());
  module_->ReleaseName(v);
  inputs_.erase(inputs_.begin() + i);
  for (; i < inputs_.size(); ++i)
    inputs_[i]->index_ = i;
}

void Graph::AddOutput(Value *v, std::string_view name) {
  return_->AddOperand(v);
  if (!name.empty())
    output_names_.back() = name;
}

Node *Graph::AddNode(const OpDef *op, llvm::ArrayRef<Value *> operands, unsigned num_results, Origin origin,
                     Node *before, llvm::ArrayRef<std::string> result_names) {
  NPUC_CHECK(op != nullptr && op != ReturnOpDef());
  NPUC_CHECK(!before || before->graph_ == this, "'{}' is in another graph", before->Label());
  while (!operands.empty() && !operands.back())
    operands = operands.drop_back();
  Node *n = new Node();
  n->op_ = op;
  n->graph_ = this;
  n->origin_ = std::move(origin);
  n->operands_.resize(operands.size(), nullptr);
  n->slots_.resize(operands.size(), 0);
  for (unsigned i = 0; i < operands.size(); ++i)
    n->Link(i, operands[i]);
  n->results_.reserve(num_results);
  for (unsigned i = 0; i < num_results; ++i) {
    auto v = std::make_unique<Value>();
    v->def_ = n;
    v->graph_ = this;
    v->index_ = i;
    const bool named = i < result_names.size() && !result_names[i].empty();
    module_->ClaimName(*v, named ? std::string_view(result_names[i]) : op->name);
    n->results_.push_back(std::move(v));
  }
  nodes_.insert((before ? before : return_)->getIterator(), n);
  return n;
}

Value *Graph::AddConstant(Tensor t, std::string_view name, Node *before, QuantRef quant) {
  const std::string names[] = {std::string(name)};
  Node *n = AddNode(ConstantOpDef(), {}, 1, {}, before, names);
  n->result()->set_type(Type::Tensor(t.dtype(), Shape::Of(t.dims()), std::move(quant)));
  n->attrs_.Set("value", std::move(t));
  return n->result();
}

// ---- Module

struct Module::Names {
  llvm::StringSet<> used;
  llvm::StringMap<unsigned> next; // stem -> least suffix that may be free
};

Module::Module() : names_(std::make_unique<Names>()) {
  main_ = std::make_unique<Graph>(this);
}

Module::~Module() {
  names_.reset(); // nothing to keep tidy any more
  main_.reset();
}

std::string Module::UniqueValueName(std::string_view wanted) {
  if (wanted.empty())
    wanted = "v";
  if (!names_->used.contains(wanted))
    return std::string(wanted);
  unsigned &next = names_->next.try_emplace(wanted, 1).first->second;
  for (;; ++next) {
    std::string name = fmt::format("{}_{}", wanted, next);
    if (!names_->used.contains(name))
      return name;
  }
}

void Module::ClaimName(Value &v, std::string_view wanted) {
  v.name_ = UniqueValueName(wanted);
  names_->used.insert(v.name_);
}

void Module::ReleaseName(Value &v) {
  if (names_)
    names_->used.erase(v.name_);
}

void Module::RenameValue(Value *v, std::string_view wanted) {
  if (v->name_ == wanted)
    return;
  ReleaseName(*v);
  ClaimName(*v, wanted);
}

// ---- Walks

void WalkNodes(Graph &g, const std::function<void(Node &)> &fn) {
  for (Node &n : g.nodes()) {
    fn(n);
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      WalkNodes(*n.body(i), fn);
  }
}

void WalkNodes(const Graph &g, const std::function<void(const Node &)> &fn) {
  for (const Node &n : g.nodes()) {
    fn(n);
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      WalkNodes(static_cast<const Graph &>(*n.body(i)), fn);
  }
}

} // namespace npuc
