// IR text as a subject.
#include <algorithm>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "tools/npu-reduce/subject.h"

namespace npuc::reduce {
namespace {

class IrSubject : public Subject {
public:
  explicit IrSubject(std::unique_ptr<Module> module) : module_(std::move(module)) {
    for (Node &n : module_->main().nodes())
      if (!n.is_constant() && !n.is_return())
        nodes_.push_back(&n);
  }

  size_t num_nodes() const override { return nodes_.size(); }

  std::unique_ptr<Subject> Keep(const std::vector<bool> &keep) const override {
    IrSubject next(Clone(*module_));
    Graph &g = next.module_->main();
    std::vector<Value *> cut; // results that only nodes that go read
    for (size_t i = 0; i < keep.size(); ++i)
      for (unsigned k = 0; keep[i] && k < next.nodes_[i]->num_results(); ++k) {
        Value *v = next.nodes_[i]->result(k);
        if (v->has_uses() &&
            std::all_of(v->uses().begin(), v->uses().end(), [&](const Use &u) { return next.Goes(u.user, keep); }))
          cut.push_back(v);
      }
    for (unsigned i = g.num_outputs(); i-- > 0;)
      if (next.Goes(g.output(i)->def(), keep) || !g.output(i)->def())
        g.RemoveOutput(i);
    for (Value *v : cut)
      g.AddOutput(v);
    if (g.num_outputs() == 0)
      return nullptr;
    for (size_t i = keep.size(); i-- > 0;) {
      if (keep[i])
        continue;
      for (unsigned k = 0; k < next.nodes_[i]->num_results(); ++k) {
        Value *v = next.nodes_[i]->result(k);
        if (!v->has_uses())
          continue;
        if (v->type().is_none())
          return nullptr;
        const std::string name = v->name();
        const Type type = v->type();
        next.module_->RenameValue(v, name + "/gone");
        v->ReplaceAllUsesWith(g.AddInput(name, type));
      }
      next.nodes_[i]->Erase();
    }
    return Finish(std::move(next.module_));
  }

  std::vector<Step> Steps() const override {
    std::vector<Step> steps;
    const Graph &g = module_->main();
    if (g.num_outputs() > 1)
      for (unsigned i = g.num_outputs(); i-- > 0;)
        steps.push_back([this, i] {
          auto m = Clone(*module_);
          m->main().RemoveOutput(i);
          return Finish(std::move(m));
        });
    for (size_t i = nodes_.size(); i-- > 0;) {
      for (unsigned k = 0; k < nodes_[i]->num_operands(); ++k)
        steps.push_back([this, i, k] { return Bypass(i, k); });
      steps.push_back([this, i] { return AsConstant(i); });
    }
    for (size_t i = nodes_.size(); i-- > 0;) {
      for (unsigned k = nodes_[i]->num_operands(); k-- > 1;)
        steps.push_back([this, i, k] { return WithoutOperand(i, k); });
      for (const auto &attribute : nodes_[i]->attrs())
        steps.push_back([this, i, name = attribute.name] {
          IrSubject next(Clone(*module_));
          next.nodes_[i]->attrs().Erase(name);
          return Finish(std::move(next.module_));
        });
    }
    for (const Node &n : g.nodes())
      if (n.is_constant())
        steps.push_back([this, name = n.result()->name()] { return Zeroed(name); });
    return steps;
  }

  std::string Serialize() const override { return Print(*module_); }

private:
  bool Goes(const Node *n, const std::vector<bool> &keep) const {
    for (; n; n = n->graph()->parent()) {
      const auto it = std::find(nodes_.begin(), nodes_.end(), n);
      if (it != nodes_.end())
        return !keep[static_cast<size_t>(it - nodes_.begin())];
    }
    return false;
  }

  // Drops what nobody reads; null where the verifier refuses the rest.
  static std::unique_ptr<Subject> Finish(std::unique_ptr<Module> m) {
    Graph &g = m->main();
    for (auto it = g.nodes().end(); it != g.nodes().begin();) {
      Node &n = *--it;
      if (n.is_return())
        continue;
      bool used = false;
      for (unsigned k = 0; k < n.num_results(); ++k)
        used |= n.result(k)->has_uses();
      if (used)
        continue;
      ++it;
      n.Erase();
    }
    for (unsigned i = g.num_inputs(); i-- > 0;)
      if (!g.input(i)->has_uses())
        g.RemoveInput(i);
    if (!Verify(*m).ok())
      return nullptr;
    return std::make_unique<IrSubject>(std::move(m));
  }

  std::unique_ptr<Subject> Bypass(size_t i, unsigned k) const {
    const Value *in = nodes_[i]->operand(k), *out = nodes_[i]->result();
    if (!in || !(in->type() == out->type()) || out->is_graph_output())
      return nullptr;
    IrSubject next(Clone(*module_));
    next.nodes_[i]->result()->ReplaceAllUsesWith(next.nodes_[i]->operand(k));
    return Finish(std::move(next.module_));
  }

  std::unique_ptr<Subject> AsConstant(size_t i) const {
    const Node &n = *nodes_[i];
    for (unsigned k = 0; k < n.num_results(); ++k)
      if (const Type &t = n.result(k)->type();
          n.result(k)->is_graph_output() || !t.is_static_tensor() || t.dtype() == DType::String)
        return nullptr;
    IrSubject next(Clone(*module_));
    for (unsigned k = 0; k < n.num_results(); ++k) {
      Value *v = next.nodes_[i]->result(k);
      v->ReplaceAllUsesWith(next.module_->main().AddConstant(Zeros(v->type().dtype(), v->type().shape().static_dims()),
                                                             "", next.nodes_[i], v->type().quant()));
    }
    return Finish(std::move(next.module_));
  }

  std::unique_ptr<Subject> WithoutOperand(size_t i, unsigned k) const {
    if (!nodes_[i]->operand(k))
      return nullptr;
    IrSubject next(Clone(*module_));
    next.nodes_[i]->set_operand(k, nullptr);
    return Finish(std::move(next.module_));
  }

  static Tensor Zeros(DType dtype, const Dims &dims) {
    const uint8_t zero[16] = {};
    return Tensor::Splat(dtype, dims, zero);
  }

  std::unique_ptr<Subject> Zeroed(const std::string &name) const {
    auto m = Clone(*module_);
    for (Node &n : m->main().nodes()) {
      if (!n.is_constant() || n.result()->name() != name)
        continue;
      const Tensor &t = *n.result()->constant();
      if (t.num_elements() < 16 || t.is_splat() || t.dtype() == DType::String)
        return nullptr;
      n.attrs().Set("value", Zeros(t.dtype(), Dims(t.dims().begin(), t.dims().end())));
    }
    return Finish(std::move(m));
  }

  std::unique_ptr<Module> module_;
  std::vector<Node *> nodes_; // constants left out
};

} // namespace

StatusOr<std::unique_ptr<Subject>> OpenIr(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  NPUC_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, ParseModule(text, path));
  return std::make_unique<IrSubject>(std::move(module));
}

} // namespace npuc::reduce
