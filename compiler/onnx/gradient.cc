// Reverse-mode differentiation of elementwise graphs, for the Gradient operator.
//
// From y back: each node that y depends on and that depends on an x adds, by its rule, to the derivatives of its
// operands, in reverse order of the graph. Operands that were broadcast get the sum over the repeated axes. Rules: Add,
// Sub, Mul, Div, Neg, Identity, Exp, Log, Sqrt, Sigmoid, Tanh, Relu. Everything else is E0402: npuc compiles inference,
// and this much is what models carry by accident.
#include "compiler/onnx/gradient.h"

#include <map>
#include <set>

namespace npuc::onnx_import {
namespace {

class Differentiator {
public:
  explicit Differentiator(AdaptedNode &node) : node_(node) {}

  Status Run(llvm::ArrayRef<Value *> xs, Value *y) {
    // What depends on an x, in order; what y needs of it, from the end.
    std::set<Value *> active(xs.begin(), xs.end());
    std::vector<Node *> nodes;
    for (Node &n : node_.graph->nodes()) {
      bool on_way = false;
      for (Value *o : n.operands())
        on_way |= o && active.count(o);
      if (!on_way || n.is_return())
        continue;
      nodes.push_back(&n);
      for (unsigned i = 0; i < n.num_results(); ++i)
        active.insert(n.result(i));
    }
    if (!y->type().is_static_tensor())
      return Error("E0402", "Gradient of a tensor without static shape");
    NPUC_ASSIGN_OR_RETURN(grads_[y],
                          node_.Add("Expand", {node_.Constant(One(y)), node_.Ints(y->type().shape().static_dims())}));
    for (size_t i = nodes.size(); i-- > 0;) {
      Node &n = *nodes[i];
      auto it = grads_.find(n.num_results() ? n.result() : nullptr);
      if (it != grads_.end())
        NPUC_RETURN_IF_ERROR(Step(n, it->second, active));
    }
    for (Value *x : xs) {
      Value *g = grads_.count(x) ? grads_[x] : nullptr;
      if (!g) {
        NPUC_ASSIGN_OR_RETURN(g, node_.Add("Mul", {x, node_.Constant(Zero(x))}));
      }
      node_.results.push_back(g);
    }
    return OkStatus();
  }

private:
  static Tensor Scalar(Value *like, double v) {
    if (like->type().dtype() == DType::F64)
      return Tensor::Of<double>(DType::F64, {}, v);
    return Tensor::ScalarF32(static_cast<float>(v));
  }
  static Tensor One(Value *like) { return Scalar(like, 1); }
  static Tensor Zero(Value *like) { return Scalar(like, 0); }

  // g, of the node's shape, added to v's derivative, summed over what v was repeated along.
  Status Accumulate(Value *v, Value *g) {
    if (!v->type().is_static_tensor() || !g->type().is_static_tensor())
      return Error("E0402", "Gradient through tensors without static shape");
    const Dims to = v->type().shape().static_dims(), from = g->type().shape().static_dims();
    std::vector<int64_t> axes;
    const size_t shift = from.size() - std::min(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i)
      if (i < shift || (to[i - shift] == 1 && from[i] != 1))
        axes.push_back(static_cast<int64_t>(i));
    if (!axes.empty()) {
      NPUC_ASSIGN_OR_RETURN(g, node_.Add("ReduceSum", {g, node_.Ints(axes)}));
      NPUC_ASSIGN_OR_RETURN(g, node_.Add("Reshape", {g, node_.Ints(to)}));
    }
    Value *&slot = grads_[v];
    if (!slot) {
      slot = g;
      return OkStatus();
    }
    NPUC_ASSIGN_OR_RETURN(slot, node_.Add("Add", {slot, g}));
    return OkStatus();
  }

  Status Step(Node &n, Value *g, const std::set<Value *> &active) {
    const std::string_view op = n.op().domain.empty() ? n.op().name : std::string_view();
    Value *a = n.operand(0), *b = n.operand(1), *y = n.result();
    auto give = [&](Value *v, StatusOr<Value *> d) -> Status {
      if (!d.ok())
        return d.status();
      return active.count(v) ? Accumulate(v, *d) : OkStatus();
    };
    auto mul = [&](Value *p, Value *q) { return node_.Add("Mul", {p, q}); };
    if (op == "Identity")
      return give(a, g);
    if (op == "Add") {
      NPUC_RETURN_IF_ERROR(give(a, g));
      return give(b, g);
    }
    if (op == "Sub") {
      NPUC_RETURN_IF_ERROR(give(a, g));
      return give(b, node_.Add("Neg", {g}));
    }
    if (op == "Neg")
      return give(a, node_.Add("Neg", {g}));
    if (op == "Mul") {
      NPUC_RETURN_IF_ERROR(give(a, mul(g, b)));
      return give(b, mul(g, a));
    }
    if (op == "Div") {
      NPUC_ASSIGN_OR_RETURN(Value * ga, node_.Add("Div", {g, b}));
      NPUC_RETURN_IF_ERROR(give(a, ga));
      NPUC_ASSIGN_OR_RETURN(Value * gb, mul(ga, y));
      return give(b, node_.Add("Neg", {gb}));
    }
    if (op == "Exp")
      return give(a, mul(g, y));
    if (op == "Log")
      return give(a, node_.Add("Div", {g, a}));
    if (op == "Sqrt") {
      NPUC_ASSIGN_OR_RETURN(Value * twice, node_.Add("Add", {y, y}));
      return give(a, node_.Add("Div", {g, twice}));
    }
    if (op == "Sigmoid" || op == "Tanh") {
      NPUC_ASSIGN_OR_RETURN(Value * square, mul(y, y));
      NPUC_ASSIGN_OR_RETURN(Value * slope, node_.Add("Sub", {op == "Tanh" ? node_.Constant(One(y)) : y, square}));
      return give(a, mul(g, slope));
    }
    if (op == "Relu") {
      NPUC_ASSIGN_OR_RETURN(Value * step, node_.Add("Sign", {y}));
      return give(a, mul(g, step));
    }
    return Error("E0402", fmt::format("Gradient has no rule for {}", n.op().name),
                 "training graphs are not compiled; export the model for inference");
  }

  AdaptedNode &node_;
  std::map<Value *, Value *> grads_; // looked up only
};

} // namespace

Status BuildGradient(AdaptedNode &node, llvm::ArrayRef<Value *> xs, Value *y) {
  return Differentiator(node).Run(xs, y);
}

} // namespace npuc::onnx_import
