// The interpreter. A graph is planned once (slot per value, what is free after each node, plans of the bodies on first
// use); a run walks the nodes in order over a frame of slots. A body's frame points to the frame around it, which is
// where captured values are found; a value that a body captures is held until its parent node is done. Cost of the
// walk: linear in nodes and operands.
#include "compiler/interp/interpreter.h"

#include "compiler/interp/evaluate.h"
#include "compiler/ops/infer.h"
#include "compiler/support/diagnostic.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace npuc {
namespace {

struct Plan {
  explicit Plan(const Graph &g) : graph(&g) {
    for (unsigned i = 0; i < g.num_inputs(); ++i)
      slots[g.input(i)] = num_slots++;
    for (const Node &node : g.nodes()) {
      if (!node.is_return())
        nodes.push_back(&node);
      for (unsigned i = 0; i < node.num_results(); ++i)
        slots[node.result(i)] = num_slots++;
    }
    constants.resize(num_slots);
    // The last reader of each slot, over operands and captures.
    std::vector<int> last(num_slots, -1);
    for (size_t at = 0; at < nodes.size(); ++at)
      ForEachRead(*nodes[at], [&](const Value *v) {
        if (v->graph() == graph)
          last[slots.lookup(v)] = static_cast<int>(at);
      });
    for (unsigned i = 0; i < g.num_outputs(); ++i)
      if (g.output(i) && g.output(i)->graph() == graph)
        last[slots.lookup(g.output(i))] = static_cast<int>(nodes.size());
    freed_after.resize(nodes.size() + 1);
    for (size_t at = 0; at < nodes.size(); ++at)
      for (unsigned i = 0; i < nodes[at]->num_results(); ++i) {
        const int slot = slots.lookup(nodes[at]->result(i));
        if (last[slot] < 0)
          last[slot] = static_cast<int>(at); // unused: gone at once
      }
    for (int slot = 0; slot < num_slots; ++slot)
      if (last[slot] >= 0 && last[slot] < static_cast<int>(nodes.size()))
        freed_after[last[slot]].push_back(slot);
  }

  template <class F> static void ForEachRead(const Node &node, F &&f) {
    for (const Value *v : node.operands())
      if (v)
        f(v);
    for (unsigned b = 0; b < node.num_bodies(); ++b)
      WalkNodes(static_cast<const Graph &>(*node.body(b)), [&](const Node &inner) {
        for (const Value *v : inner.operands())
          if (v)
            f(v);
      });
  }

  const Graph *graph;
  std::vector<const Node *> nodes;
  llvm::DenseMap<const Value *, int> slots;
  int num_slots = 0;
  std::vector<std::vector<int>> freed_after;
  std::vector<EvalValue> constants; // expanded, on first use
};

struct Frame {
  Plan *plan;
  std::vector<EvalValue> values;
  const Frame *outer;
};

class Machine {
public:
  explicit Machine(EvalOptions options) : options_(options) {}

  Interpreter::Observer observer;
  CapturedValues captured;

  StatusOr<std::vector<EvalValue>> RunGraph(const Graph &g, std::vector<EvalValue> inputs, const Frame *outer) {
    Plan &plan = PlanOf(g);
    Frame frame{&plan, std::vector<EvalValue>(plan.num_slots), outer};
    if (inputs.size() != g.num_inputs())
      return Error("E0701",
                   fmt::format("{} values were given for the {} inputs of a graph", inputs.size(), g.num_inputs()));
    for (unsigned i = 0; i < g.num_inputs(); ++i) {
      if (observer && inputs[i].has_value())
        observer(*g.input(i), inputs[i]);
      frame.values[plan.slots.lookup(g.input(i))] = std::move(inputs[i]);
    }
    for (size_t at = 0; at < plan.nodes.size(); ++at) {
      const Node &node = *plan.nodes[at];
      if (!node.is_constant())
        NPUC_RETURN_IF_ERROR(RunNode(node, frame));
      for (int slot : plan.freed_after[at])
        frame.values[slot] = EvalValue();
    }
    std::vector<EvalValue> outputs;
    for (unsigned i = 0; i < g.num_outputs(); ++i) {
      NPUC_ASSIGN_OR_RETURN(EvalValue v, Read(g.output(i), frame));
      outputs.push_back(std::move(v));
    }
    return outputs;
  }

  StatusOr<std::vector<EvalValue>> Evaluate(const Node &node, std::vector<EvalValue> operands, const Frame *frame) {
    auto run_body = [&](int body, std::vector<EvalValue> inputs) {
      return RunGraph(*node.body(body), std::move(inputs), frame);
    };
    auto results = EvaluateWithRules(node, std::move(operands), run_body, options_);
    if (!results.ok())
      return AtNode(results.status(), NodeId(node), node.op().name);
    return results;
  }

private:
  Status RunNode(const Node &node, Frame &frame) {
    std::vector<EvalValue> operands;
    operands.reserve(node.num_operands());
    for (const Value *v : node.operands()) {
      if (!v) {
        operands.emplace_back();
        continue;
      }
      NPUC_ASSIGN_OR_RETURN(EvalValue value, Read(v, frame));
      operands.push_back(std::move(value));
    }
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> results, Evaluate(node, std::move(operands), &frame));
    for (unsigned i = 0; i < node.num_results(); ++i) {
      if (observer && results[i].has_value())
        observer(*node.result(i), results[i]);
      frame.values[frame.plan->slots.lookup(node.result(i))] = std::move(results[i]);
    }
    return OkStatus();
  }

  StatusOr<EvalValue> Read(const Value *v, const Frame &frame) {
    if (!v)
      return EvalValue();
    for (const Frame *f = &frame; f; f = f->outer)
      if (f->plan->graph == v->graph()) {
        const int slot = f->plan->slots.lookup(v);
        if (const Tensor *t = v->constant()) {
          EvalValue &cached = f->plan->constants[slot];
          if (!cached.has_value())
            cached = t->Expand();
          return cached;
        }
        return f->values[slot];
      }
    if (const Tensor *t = v->constant())
      return EvalValue(t->Expand());
    if (captured)
      if (const EvalValue *value = captured(v))
        return *value;
    return absl::InternalError(fmt::format("no value for captured tensor '{}'", v->name()));
  }

  Plan &PlanOf(const Graph &g) {
    std::unique_ptr<Plan> &p = plans_[&g];
    if (!p)
      p = std::make_unique<Plan>(g);
    return *p;
  }

  EvalOptions options_;
  llvm::DenseMap<const Graph *, std::unique_ptr<Plan>> plans_; // looked up only
};

} // namespace

StatusOr<std::vector<EvalValue>> EvaluateNode(const Node &node, std::vector<EvalValue> operands,
                                              const EvalOptions &options, const CapturedValues &captured) {
  Machine machine(options);
  machine.captured = captured;
  return machine.Evaluate(node, std::move(operands), nullptr);
}

struct Interpreter::Impl {
  Impl(const Graph &g, EvalOptions options) : graph(g), machine(options) {}
  const Graph &graph;
  Machine machine;
};

Interpreter::Interpreter(const Graph &graph, EvalOptions options) : impl_(std::make_unique<Impl>(graph, options)) {}
Interpreter::~Interpreter() = default;

void Interpreter::set_observer(Observer observer) {
  impl_->machine.observer = std::move(observer);
}

StatusOr<std::vector<EvalValue>> Interpreter::Run(std::vector<EvalValue> inputs) {
  const Graph &g = impl_->graph;
  if (inputs.size() != g.num_inputs())
    return Error("E0701", fmt::format("{} inputs were given; the graph has {}", inputs.size(), g.num_inputs()));
  for (unsigned i = 0; i < g.num_inputs(); ++i) {
    const Type &t = g.input(i)->type();
    const Tensor *v = inputs[i].tensor();
    if (!t.is_tensor() || !v)
      continue;
    bool fits = t.dtype() == DType::Undefined || t.dtype() == v->dtype();
    if (t.shape().ranked()) {
      fits = fits && t.shape().rank() == v->rank();
      for (int d = 0; fits && d < v->rank(); ++d)
        fits = !t.shape()[d].is_static() || t.shape()[d].value() == v->dims()[d];
    }
    if (!fits)
      return Error("E0702",
                   fmt::format("input '{}' is {}, the given tensor is {}{}", g.input(i)->name(), t.ToString(),
                               Name(v->dtype()), ToString(v->dims())),
                   "give a tensor of the input's element type and shape");
    if (v->is_splat())
      inputs[i] = v->Expand();
  }
  return impl_->machine.RunGraph(g, std::move(inputs), nullptr);
}

StatusOr<std::vector<EvalValue>> Interpreter::Run(const std::vector<Tensor> &inputs) {
  std::vector<EvalValue> values;
  for (const Tensor &t : inputs)
    values.push_back(t ? EvalValue(t) : EvalValue());
  return Run(std::move(values));
}

} // namespace npuc
