#include "compiler/driver/simulate.h"

#include <algorithm>
#include <set>

#include "compiler/driver/compare.h"
#include "compiler/ops/quant_eval.h"
#include "passes/quantize/parameters.h"
#include "passes/quantize/quant_rewrite.h"

namespace npuc {
namespace {

Tensor FakeQuantised(const Tensor &t, const Type &type) {
  if (!type.is_quantized() || !IsFloat(t.dtype()))
    return t;
  return ops::DequantizeTensor(ops::QuantizeTensor(AsReal(t, nullptr), type.dtype(), *type.quant()), *type.quant());
}

} // namespace

Simulator::Simulator(const Graph &g, const std::map<std::string, Type> &stored, ThreadPool *threads)
    : g_(g), stored_(stored) {
  options_.threads = threads;
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    values_[g.input(i)->name()] = g.input(i);
  for (const Node &n : g.nodes())
    for (unsigned i = 0; i < n.num_results(); ++i)
      values_[n.result(i)->name()] = n.result(i);
}

const Type *Simulator::Stored(const std::string &name) const {
  auto it = stored_.find(name);
  if (it == stored_.end())
    it = stored_.find(name + "_q");
  return it == stored_.end() ? nullptr : &it->second;
}

Tensor Simulator::Weights(const Node &n, unsigned i) {
  const Tensor &t = *n.operand(i)->constant();
  if (!IsMatrixOp(n) || i != 1 || t.dtype() != DType::F32 || t.rank() < 2)
    return t;
  const bool grouped = n.Is("ConvTranspose") && n.attrs().Int("group", 1) > 1;
  const QuantizedWeights q = QuantizeWeights(t, grouped ? -1 : WeightChannelAxis(n), 8);
  return ops::DequantizeTensor(q.codes, *q.quant);
}

std::optional<Tensor> Simulator::Isolated(const std::string &name, const Tensors &known) {
  const auto found = values_.find(name);
  if (found == values_.end() || !found->second->def())
    return std::nullopt;
  memo_.clear();
  budget_ = kMostIsolated;
  const auto t = Of(found->second, known, true);
  const Type *type = Stored(name);
  return t && type ? std::optional(FakeQuantised(*t, *type)) : t;
}

std::vector<OriginId> Simulator::NodesOf(const std::string &name, bool *matrix) const {
  *matrix = false;
  std::set<OriginId> ids;
  std::set<const Value *> seen;
  const auto found = values_.find(name);
  std::vector<const Value *> open;
  if (found != values_.end())
    open.push_back(found->second);
  while (!open.empty() && seen.size() < 2 * kMostIsolated) {
    const Value *v = open.back();
    open.pop_back();
    if (!seen.insert(v).second || !v->def() || v->constant())
      continue;
    *matrix |= IsMatrixOp(*v->def());
    ids.insert(v->def()->origin().begin(), v->def()->origin().end());
    for (const Value *o : v->def()->operands())
      if (o && !o->constant() && !Stored(o->name()))
        open.push_back(o);
  }
  return {ids.begin(), ids.end()};
}

StatusOr<std::vector<EvalValue>> Simulator::Evaluate(const Node &n, const Tensors &values, bool quantised_weights) {
  if (n.num_bodies())
    return absl::UnimplementedError("bodies");
  std::vector<EvalValue> operands;
  for (unsigned i = 0; i < n.num_operands(); ++i) {
    const Value *v = n.operand(i);
    if (!v) {
      operands.emplace_back();
    } else if (v->constant()) {
      operands.emplace_back(quantised_weights ? Weights(n, i) : *v->constant());
    } else {
      const auto it = values.find(v->name());
      if (it == values.end())
        return absl::NotFoundError("a value");
      operands.emplace_back(it->second);
    }
  }
  return EvaluateNode(n, std::move(operands), options_);
}

Tensors Simulator::All(const Tensors &known) {
  Tensors all;
  auto round = [&](const std::string &name, const Tensor &t) {
    const Type *type = Stored(name);
    all[name] = type ? FakeQuantised(t, *type) : t;
  };
  for (unsigned i = 0; i < g_.num_inputs(); ++i)
    if (auto it = known.find(g_.input(i)->name()); it != known.end())
      round(it->first, it->second);
  for (const Node &n : g_.nodes()) {
    if (n.is_constant() || n.is_return())
      continue;
    const auto r = Evaluate(n, all, true);
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const std::string &name = n.result(i)->name();
      if (r.ok() && i < r->size() && (*r)[i].tensor())
        round(name, *(*r)[i].tensor());
      else if (auto it = known.find(name); it != known.end())
        round(name, it->second);
    }
  }
  return all;
}

std::vector<Tensor> Simulator::OutputsWith(const std::string &name, const Tensor &value, const Tensors &known) {
  Tensors values = known;
  std::set<std::string> changed = {name};
  values[name] = value;
  for (const Node &n : g_.nodes()) {
    if (n.is_constant() || n.is_return())
      continue;
    bool reads = false;
    for (const Value *v : n.operands())
      reads |= v && changed.count(v->name());
    if (!reads)
      continue;
    const auto r = Evaluate(n, values, false);
    for (unsigned i = 0; r.ok() && i < n.num_results() && i < r->size(); ++i)
      if (const Tensor *t = (*r)[i].tensor(); t && n.result(i)->name() != name) {
        values[n.result(i)->name()] = *t;
        changed.insert(n.result(i)->name());
      }
  }
  std::vector<Tensor> out;
  for (unsigned i = 0; i < g_.num_outputs(); ++i) {
    const auto it = values.find(g_.output(i)->name());
    out.push_back(it == values.end() ? Tensor() : it->second);
  }
  return out;
}

std::optional<Tensor> Simulator::Of(const Value *v, const Tensors &known, bool target) {
  if (v->constant())
    return *v->constant();
  if (auto it = memo_.find(v); it != memo_.end())
    return it->second;
  const Type *type = Stored(v->name());
  if (!target && (type || !v->def())) {
    const auto have = known.find(v->name());
    if (have == known.end())
      return std::nullopt;
    return type ? FakeQuantised(have->second, *type) : have->second;
  }
  const Node *n = v->def();
  if (!n || n->num_bodies() || budget_-- <= 0)
    return std::nullopt;
  std::vector<EvalValue> operands;
  for (unsigned i = 0; i < n->num_operands(); ++i) {
    if (!n->operand(i)) {
      operands.emplace_back();
      continue;
    }
    const auto o = n->operand(i)->constant() ? std::optional(Weights(*n, i)) : Of(n->operand(i), known, false);
    if (!o)
      return std::nullopt;
    operands.emplace_back(*o);
  }
  auto r = EvaluateNode(*n, std::move(operands), options_);
  if (!r.ok() || v->index() >= r->size() || !(*r)[v->index()].tensor())
    return std::nullopt;
  return memo_[v] = *(*r)[v->index()].tensor();
}

} // namespace npuc
