// Finds activations that exporters wrote out in parts, by what they compute.
//
//   %s = Sigmoid(%x); %y = Mul(%x, %s)                                     ->  %y = Swish(%x)
//   %a = Add(%x, 3); %c = Clip(%a, 0, 6); %m = Mul(%x, %c); %y = Div(%m, 6) ->  %y = HardSwish(%x)
//   %y = Mul(%x, HardSigmoid(%x, alpha = 1/6))                              ->  %y = HardSwish(%x)
//   0.5 * x * (1 + erf(x / sqrt 2)), in any association                     ->  %y = Gelu(%x)
//   0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))                   ->  %y = Gelu(%x, approximate = "tanh")
//   Clip(x + 3, 0, 6) / 6                                                   ->  %y = HardSigmoid(%x, alpha = 1/6, beta = 0.5)
//   x * tanh(softplus(x))                                                   ->  %y = Mish(%x)
//
// Method: from a Mul, Div or Add backwards, collect the cone of elementwise nodes whose only other operands are scalar constants, as long
// as each inner value is used inside the cone alone. If one value remains at its mouth the cone is a function of one number: the
// interpreter evaluates it on samples over the whole range, and the candidate whose values agree to 2e-6 relative everywhere takes
// its place. So every algebraic variant is found, and HardSigmoid with alpha 0.2 in HardSwish's place is not: it differs at most
// samples. Only cones that hold a sign of such a function (Sigmoid, HardSigmoid, Erf, Tanh, Clip, Softplus) are evaluated.
//
// Left alone: cones with an inner value that is used outside or is a graph output, constants that aren't scalars or that broadcast the
// result to another shape, quantised values, dtypes but F32 and F16.
//
// Cost: cones of at most 14 nodes, evaluated on 200 samples; the widest that is known wins.
#include <cmath>

#include "compiler/interp/interpreter.h"
#include "compiler/support/fpmath.h"
#include "llvm/ADT/SetVector.h"
#include "passes/common.h"

namespace npuc {
namespace {

constexpr unsigned kMaxCone = 14;

bool IsConeOp(const Node& n) {
  return IsOneOf(n, {"Add", "Sub", "Mul", "Div", "Pow", "Clip", "Relu", "Min", "Max", "Sigmoid", "HardSigmoid", "Erf", "Tanh", "Softplus",
                     "Neg", "Exp", "Sqrt", "Log", "Reciprocal"}) &&
         n.num_results() == 1;
}
bool IsSign(const Node& n) { return IsOneOf(n, {"Sigmoid", "HardSigmoid", "Erf", "Tanh", "Clip", "Softplus"}); }

struct Cone {
  llvm::SetVector<Node*> nodes;  // root first
  Value* mouth = nullptr;
};

// The cones of root with one mouth that hold a sign, smallest first. Grown node by node; a node joins when all its users are inside, so every
// value that all paths pass is a mouth at some time.
std::vector<Cone> ConesOf(Node& root) {
  std::vector<Cone> cones;
  if (!IsConeOp(root) || !HasStaticShape(root.result()) || root.result()->type().is_quantized()) return cones;
  const Type& type = root.result()->type();
  if (type.dtype() != DType::F32 && type.dtype() != DType::F16) return cones;
  Cone cone;
  cone.nodes.insert(&root);
  bool sign = IsSign(root);
  for (;;) {
    // Values read from outside, constants apart.
    llvm::SetVector<Value*> mouths;
    for (Node* n : cone.nodes)
      for (Value* v : n->operands()) {
        if (!v || ScalarConstant(v)) continue;
        if (!v->def() || !cone.nodes.contains(v->def())) mouths.insert(v);
      }
    if (sign && mouths.size() == 1 && SameTensorType(mouths[0]->type(), type)) {
      cones.push_back(cone);
      cones.back().mouth = mouths[0];
    }
    Node* next = nullptr;
    for (Value* v : mouths) {
      Node* d = v->def();
      if (!d || d->graph() != root.graph() || !IsConeOp(*d) || v->is_graph_output() || !SameTensorType(v->type(), type)) continue;
      if (!llvm::all_of(v->uses(), [&](const Use& u) { return cone.nodes.contains(u.user); })) continue;
      next = d;
      break;
    }
    if (!next || cone.nodes.size() >= kMaxCone) return cones;
    cone.nodes.insert(next);
    sign |= IsSign(*next);
  }
}

const std::vector<float>& Samples() {
  static const std::vector<float> samples = [] {
    std::vector<float> s = {0.0f, -0.0f};
    for (float m : {1e-4f, 1e-3f, 1e-2f, 0.1f, 20.0f, 50.0f, 80.0f}) s.insert(s.end(), {m, -m});
    for (int i = 0; i < 184; ++i) s.push_back(static_cast<float>(i - 92) * 0.09375f + 0.0101f);  // -8.6 ... 8.5
    return s;
  }();
  return samples;
}

// The cone's values on the samples; empty when it can't be evaluated.
std::vector<float> Evaluate(const Cone& cone) {
  const std::vector<float>& x = Samples();
  llvm::DenseMap<const Value*, Tensor> values;
  const int64_t n = x.size();
  values[cone.mouth] = Tensor::Of<float>(DType::F32, {n}, x);
  // Operands come before users in the list; the set was grown backwards but not in list order.
  llvm::SmallVector<Node*, kMaxCone> pending(cone.nodes.begin(), cone.nodes.end());
  while (!pending.empty()) {
    bool progress = false;
    for (auto it = pending.begin(); it != pending.end();) {
      std::vector<EvalValue> operands;
      bool ready = true;
      for (const Value* v : (*it)->operands()) {
        if (!v) {
          operands.emplace_back();
        } else if (auto found = values.find(v); found != values.end()) {
          operands.emplace_back(found->second);
        } else if (const auto s = ScalarConstant(v)) {
          operands.emplace_back(Tensor::ScalarF32(static_cast<float>(*s)));
        } else {
          ready = false;
          break;
        }
      }
      if (!ready) {
        ++it;
        continue;
      }
      auto r = EvaluateNode(**it, std::move(operands));
      if (!r.ok() || r->empty() || !(*r)[0].tensor() || (*r)[0].tensor()->dtype() != DType::F32) return {};
      const Tensor t = (*r)[0].tensor()->Expand();
      if (t.num_elements() != n && t.num_elements() != 1) return {};
      values[(*it)->result()] = t;
      it = pending.erase(it);
      progress = true;
    }
    if (!progress) return {};
  }
  const Tensor& y = values[cone.nodes[0]->result()];
  return {y.values<float>().begin(), y.values<float>().end()};
}

struct Candidate {
  const char* op;
  double (*f)(double);
  std::vector<std::pair<const char*, Attribute>> attrs;
};

const std::vector<Candidate>& Candidates() {
  static const std::vector<Candidate> all = {
      {"Swish", [](double x) { return x / (1 + std::exp(-x)); }, {}},
      {"HardSwish", [](double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }, {}},
      {"Gelu", [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, {}},
      {"Gelu",
       [](double x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       {{"approximate", std::string("tanh")}}},
      {"Mish", [](double x) { return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x))); }, {}},
      {"HardSigmoid",
       [](double x) { return std::min(std::max(x / 6 + 0.5, 0.0), 1.0); },
       {{"alpha", 1.0f / 6.0f}, {"beta", 0.5f}}},
  };
  return all;
}

// Whether the values are f's: to 2e-6 relative to |f| or to the size of x (a function written as 1 + erf cancels below), f16 constants apart.
bool Agrees(const std::vector<float>& y, double (*f)(double), double tolerance) {
  for (size_t i = 0; i < y.size(); ++i) {
    const double x = Samples()[i], want = f(x);
    if (!(std::abs(y[i] - want) <= tolerance * std::max({std::abs(want), std::min(std::abs(x), 8.0), 1e-6}))) return false;
  }
  return true;
}

bool Form(Node& root, PassContext& ctx) {
  if (!IsOneOf(root, {"Mul", "Div"})) return false;
  const std::vector<Cone> cones = ConesOf(root);
  const double tolerance = root.result()->type().dtype() == DType::F16 ? 1e-3 : 2e-6;
  for (auto cone = cones.rbegin(); cone != cones.rend(); ++cone) {
    const std::vector<float> y = Evaluate(*cone);
    if (y.size() != Samples().size()) continue;
    for (const Candidate& c : Candidates()) {
      const OpDef* op = LookupOp("", c.op);
      if (!op || !Agrees(y, c.f, tolerance)) continue;
      Origin origin;
      for (Node* n : cone->nodes) origin = MergeOrigins(origin, n->origin());
      AttributeList attrs;
      for (const auto& [name, value] : c.attrs) attrs.Set(name, value);
      Rewriter rw(&root);
      Node* made = rw.Create(op, {cone->mouth}, std::move(origin), {root.result()->type()}, std::move(attrs));
      rw.ReplaceNode(&root, {made->result()});
      ctx.Count(fmt::format("fuse: form-{}", c.op));
      return true;
    }
  }
  return false;
}

}  // namespace

StatusOr<bool> FormActivations(Module& m, PassContext& ctx) {
  return ForEachGraph(m.main(), [&](Graph& g) -> StatusOr<bool> {
    bool changed = false;
    // From the back: the widest cone first, so that HardSwish is not cut short by the HardSigmoid inside it.
    for (auto it = g.return_node()->getIterator(); it != g.nodes().begin();) {
      Node& n = *--it;
      auto after = std::next(it);
      if (!Form(n, ctx)) continue;
      changed = true;
      it = after;  // what was formed stands just before; go on from there
    }
    return changed;
  });
}

}  // namespace npuc
