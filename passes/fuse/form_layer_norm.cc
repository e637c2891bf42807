// Finds LayerNormalization that exporters wrote out in parts.
//
//   %m = ReduceMean(%x, last axes, keepdims); %d = Sub(%x, %m)
//   %v = ReduceMean(Pow(%d, 2) | Mul(%d, %d), same axes, keepdims); %s = Sqrt(Add(%v, epsilon))
//   %n = Div(%d, %s) | Mul(%d, Reciprocal(%s)) | Mul(%d, Pow(Add(%v, epsilon), -0.5))
//   %y = Add(Mul(%n, gamma), beta)                  ->  %y = LayerNormalization(%x, gamma, beta, axis, epsilon)
//
// gamma and beta are optional and taken in only when they are constants of exactly the normalised dims (leading ones allowed) that leave
// the shape alone; else the Mul and Add stay behind the normalisation.
//
// Left alone: reductions without axes (they run over everything) unless that is what the trailing axes are, axes that aren't the last
// ones, parts that are read from outside or are graph outputs, F64.
//
// Cost: one sweep; a constant number of steps a candidate.
#include "compiler/ops/convert.h"
#include "passes/common.h"

namespace npuc {
namespace {

// The axes of a ReduceMean with keepdims, as the first of the trailing ones it covers; -1 when it isn't of that form.
int TrailingAxis(const Node& n) {
  if (!n.Is("ReduceMean") || n.attrs().Int("keepdims", 1) != 1 || !HasStaticShape(n.operand(0))) return -1;
  const int rank = n.operand(0)->type().shape().rank();
  llvm::SmallVector<int64_t, 4> axes;
  if (n.operand(1)) {
    const auto given = MatchConstantInts(n.operand(1));
    if (!given) return -1;
    axes.assign(given->begin(), given->end());
  } else {
    axes.assign(n.attrs().Ints("axes").begin(), n.attrs().Ints("axes").end());
  }
  if (axes.empty()) return -1;  // all axes, or none with noop_with_empty_axes
  for (int64_t& a : axes) a = a < 0 ? a + rank : a;
  llvm::sort(axes);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return -1;
  return static_cast<int>(axes[0]);
}

struct Match {
  Value* x = nullptr;
  int axis = -1;
  float epsilon = 0;
  llvm::SmallVector<Node*, 12> nodes;
};

// v = mean(d^2) + epsilon behind %s of `sqrt_in`.
bool MatchVariance(Value* sqrt_in, const Node* sub, Match& m) {
  Node* const add = DefinedBy(sqrt_in, "Add");
  if (!add) return false;
  const auto eps = MatchScalarOperand(*add);
  if (!eps || !(eps->scalar > 0)) return false;
  Node* const mean = DefinedBy(eps->other, "ReduceMean");
  if (!mean || TrailingAxis(*mean) != m.axis) return false;
  Node* const square = mean->operand(0)->def();
  if (!square) return false;
  const Value* d = sub->result();
  const bool pow = square->Is("Pow") && square->operand(0) == d && ScalarConstant(square->operand(1)) == 2.0;
  const bool mul = square->Is("Mul") && square->operand(0) == d && square->operand(1) == d;
  if (!pow && !mul) return false;
  m.epsilon = static_cast<float>(eps->scalar);
  m.nodes.append({add, mean, square});
  return true;
}

// d / sqrt(var + eps) at n.
bool MatchNormalise(Node& n, Match& m) {
  for (unsigned k = 0; k < 2; ++k) {
    if (n.Is("Div") && k == 1) return false;
    Node* const sub = DefinedBy(n.operand(k), "Sub");
    if (!sub) continue;
    m = Match();
    Node* const mean = DefinedBy(sub->operand(1), "ReduceMean");
    if (!mean || mean->operand(0) != sub->operand(0)) continue;
    m.x = sub->operand(0);
    m.axis = TrailingAxis(*mean);
    if (m.axis < 0) continue;
    m.nodes = {&n, sub, mean};
    Value* const other = n.operand(1 - k);
    if (n.Is("Div")) {
      Node* const sqrt = DefinedBy(other, "Sqrt");
      if (!sqrt) continue;
      m.nodes.push_back(sqrt);
      if (MatchVariance(sqrt->operand(0), sub, m)) return true;
      continue;
    }
    Node* r = other ? other->def() : nullptr;
    if (!r) continue;
    if (r->Is("Reciprocal") || (r->Is("Div") && ScalarConstant(r->operand(0)) == 1.0)) {
      Node* const sqrt = DefinedBy(r->operand(r->Is("Div") ? 1 : 0), "Sqrt");
      if (!sqrt) continue;
      m.nodes.append({r, sqrt});
      if (MatchVariance(sqrt->operand(0), sub, m)) return true;
    } else if (r->Is("Pow") && ScalarConstant(r->operand(1)) == -0.5) {
      m.nodes.push_back(r);
      if (MatchVariance(r->operand(0), sub, m)) return true;
    }
  }
  return false;
}

// A constant of the normalised dims, leading ones aside.
const Tensor* TailConstant(const Value* v, llvm::ArrayRef<int64_t> tail, int rank) {
  const Tensor* t = v ? v->constant() : nullptr;
  if (!t || v->type().is_quantized() || t->rank() > rank || t->rank() < static_cast<int>(tail.size())) return nullptr;
  const int lead = t->rank() - static_cast<int>(tail.size());
  for (int i = 0; i < t->rank(); ++i)
    if (t->dims()[i] != (i < lead ? 1 : tail[i - lead])) return nullptr;
  return t;
}

bool Form(Node& n, PassContext& ctx) {
  if (!IsOneOf(n, {"Div", "Mul"})) return false;
  Match m;
  if (!MatchNormalise(n, m)) return false;
  const Type& type = n.result()->type();
  if (!SameTensorType(m.x->type(), type) || (type.dtype() != DType::F32 && type.dtype() != DType::F16) || type.is_quantized()) return false;
  // Inner values are read by the match alone.
  llvm::SmallPtrSet<const Node*, 12> inside(m.nodes.begin(), m.nodes.end());
  for (Node* d : m.nodes) {
    if (d->graph() != n.graph()) return false;
    if (d == &n) continue;
    for (const Use& u : d->result()->uses())
      if (!inside.contains(u.user)) return false;
  }
  const Dims dims = type.shape().static_dims();
  const llvm::ArrayRef<int64_t> tail = llvm::ArrayRef<int64_t>(dims).drop_front(m.axis);
  const int rank = static_cast<int>(dims.size());

  Node* last = &n;
  const Tensor *gamma = nullptr, *beta = nullptr;
  if (Node* mul = SoleUser(last->result()); mul && mul->Is("Mul") && mul->operand(0) != mul->operand(1)) {
    gamma = TailConstant(mul->operand(mul->operand(0) == last->result() ? 1 : 0), tail, rank);
    if (gamma) {
      m.nodes.push_back(mul);
      last = mul;
    }
  }
  if (Node* add = SoleUser(last->result()); add && add->Is("Add") && add->operand(0) != add->operand(1)) {
    beta = TailConstant(add->operand(add->operand(0) == last->result() ? 1 : 0), tail, rank);
    if (beta) {
      m.nodes.push_back(add);
      last = add;
    }
  }
  Rewriter rw(last);
  Origin origin;
  for (Node* d : m.nodes) origin = MergeOrigins(origin, d->origin());
  const float one = 1;
  Value* scale = rw.Constant(gamma ? gamma->Reshaped(tail) : ops::ConvertTensor(Tensor::Splat(DType::F32, tail, &one), type.dtype()));
  Value* bias = beta ? rw.Constant(beta->Reshaped(tail)) : nullptr;
  AttributeList attrs;
  attrs.Set("axis", static_cast<int64_t>(m.axis));
  attrs.Set("epsilon", m.epsilon);
  Node* made = rw.Create("LayerNormalization", {m.x, scale, bias}, std::move(origin), {last->result()->type()}, std::move(attrs));
  rw.ReplaceNode(last, {made->result()});
  ctx.Count("fuse: form-LayerNormalization");
  return true;
}

}  // namespace

StatusOr<bool> FormLayerNorm(Module& m, PassContext& ctx) {
  return ForEachGraph(m.main(), [&](Graph& g) -> StatusOr<bool> {
    bool changed = false;
    for (auto it = g.return_node()->getIterator(); it != g.nodes().begin();) {
      Node& n = *--it;
      // The match may reach a Mul and an Add behind n.
      Node* after = &*std::next(it);
      Node* const mul = n.num_results() == 1 ? SoleUser(n.result()) : nullptr;
      Node* const add = mul && mul->num_results() == 1 ? SoleUser(mul->result()) : nullptr;
      while (after == mul || after == add) after = &*std::next(after->getIterator());
      if (!Form(n, ctx)) continue;
      changed = true;
      it = after->getIterator();
    }
    return changed;
  });
}

}  // namespace npuc
