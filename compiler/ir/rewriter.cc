#include "compiler/ir/rewriter.h"

#include <algorithm>

namespace npuc {

void Rewriter::InsertAfter(Node *n) {
  NPUC_CHECK(!n->is_return(), "nothing comes after a Return");
  graph_ = n->graph();
  before_ = &*std::next(n->getIterator());
}

Node *Rewriter::Create(const OpDef *op, llvm::ArrayRef<Value *> operands, Origin origin, llvm::ArrayRef<Type> types,
                       AttributeList attrs) {
  const unsigned results = std::max<unsigned>(types.size(), op->min_results);
  Node *n = graph_->AddNode(op, operands, results, std::move(origin), before_);
  n->attrs() = std::move(attrs);
  for (unsigned i = 0; i < types.size(); ++i)
    n->result(i)->set_type(types[i]);
  for (unsigned i = 0; i < results; ++i)
    fresh_.insert(n->result(i));
  changed_ = true;
  return n;
}

Node *Rewriter::Create(std::string_view name, llvm::ArrayRef<Value *> operands, Origin origin,
                       llvm::ArrayRef<Type> types, AttributeList attrs, std::string_view domain) {
  const OpDef *op = LookupOp(domain, name);
  NPUC_CHECK(op != nullptr, "no operator '{}::{}'", domain, name);
  return Create(op, operands, std::move(origin), types, std::move(attrs));
}

Value *Rewriter::Constant(Tensor t, std::string_view name, QuantRef quant) {
  Value *v = graph_->AddConstant(std::move(t), name, before_, std::move(quant));
  if (name.empty())
    fresh_.insert(v);
  changed_ = true;
  return v;
}

void Rewriter::ReplaceValue(Value *old, Value *with) {
  const bool was_output = old->is_graph_output();
  // An input's name is the model's signature: it goes to nobody.
  const bool takes_name = old->def() && (fresh_.erase(with) || (was_output && with->def() && !with->is_graph_output()));
  old->ReplaceAllUsesWith(with);
  changed_ = true;
  if (!takes_name)
    return;
  Module &m = graph_->module();
  const std::string name = old->name();
  m.RenameValue(old, name + ".replaced");
  m.RenameValue(with, name);
}

void Rewriter::ReplaceUse(Use use, Value *with) {
  if (use.user->operand(use.operand) == with)
    return;
  use.user->set_operand(use.operand, with);
  changed_ = true;
}

void Rewriter::ReplaceNode(Node *old, llvm::ArrayRef<Value *> values) {
  NPUC_CHECK(values.size() == old->num_results(), "{} values for {} results of '{}'", values.size(), old->num_results(),
             old->Label());
  for (unsigned i = 0; i < values.size(); ++i) {
    if (values[i] == nullptr) {
      NPUC_CHECK(!old->result(i)->has_uses(), "used result '{}' is replaced by nothing", old->result(i)->name());
      continue;
    }
    ReplaceValue(old->result(i), values[i]);
  }
  EraseIfDead(old);
}

bool Rewriter::EraseIfDead(Node *n) {
  auto dead = [](Node *d) {
    for (unsigned i = 0; i < d->num_results(); ++i)
      if (d->result(i)->has_uses())
        return false;
    return !d->is_return();
  };
  if (!dead(n))
    return false;
  llvm::SmallVector<Node *, 8> work = {n};
  while (!work.empty()) {
    Node *d = work.pop_back_val();
    llvm::SmallVector<Node *, 4> defs;
    for (Value *v : d->operands())
      if (v && v->def() && v->def()->graph() == d->graph() &&
          std::find(defs.begin(), defs.end(), v->def()) == defs.end())
        defs.push_back(v->def());
    if (before_ == d)
      before_ = &*std::next(d->getIterator());
    for (unsigned i = 0; i < d->num_results(); ++i)
      fresh_.erase(d->result(i));
    d->Erase();
    for (Node *def : defs)
      if (dead(def))
        work.push_back(def);
  }
  changed_ = true;
  return true;
}

bool EraseDeadNodes(Graph &g) {
  bool changed = false;
  for (auto it = g.nodes().rbegin(); it != g.nodes().rend();) {
    Node &n = *it++;
    bool used = n.is_return();
    for (unsigned i = 0; i < n.num_results() && !used; ++i)
      used = n.result(i)->has_uses();
    if (!used) {
      n.Erase();
      changed = true;
      continue;
    }
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      changed |= EraseDeadNodes(*n.body(i));
  }
  return changed;
}

Origin MergeOrigins(llvm::ArrayRef<const Node *> nodes) {
  Origin out;
  for (const Node *n : nodes)
    out.append(n->origin().begin(), n->origin().end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

} // namespace npuc
