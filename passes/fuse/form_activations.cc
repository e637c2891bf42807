// Finds activations that exporters wrote out in parts, by what they compute.
//
//   %s = Sigmoid(%x); %y = Mul(%x, %s)                                     ->  %y = Swish(%x)
//   %a = Add(%x, 3); %c = Clip(%a, 0, 6); %m = Mul(%x, %c); %y = Div(%m, 6) ->  %y = HardSwish(%x)
//   %y = Mul(%x, HardSigmoid(%x, alpha = 1/6))                              ->  %y = HardSwish(%x)
//   0.5 * x * (1 + erf(x / sqrt 2)), in any association                     ->  %y = Gelu(%x)
//   0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))                   ->  %y = Gelu(%x, approximate = "tanh")
//   Clip(x + 3, 0, 6) / 6                                                   ->  %y = HardSigmoid(%x, alpha = 1/6, beta
//   = 0.5) x * tanh(softplus(x))                                                   ->  %y = Mish(%x)
//
// Method: from a Mul or Div backwards, collect the cone of elementwise nodes whose only other operands are scalar
// constants, as long as each inner value is used inside the cone alone. If one value remains at its mouth the cone is a
// function of one number: the interpreter evaluates it on samples over the whole range, and the candidate whose values
// agree to 2e-6 relative everywhere takes its place. So every algebraic variant is found, and HardSigmoid with alpha
// 0.2 in HardSwish's place is not: it differs at most samples. Only cones that hold a sign of such a function (Sigmoid,
// HardSigmoid, Erf, Tanh, Clip, Softplus) are evaluated.
//
// Left alone: cones with an inner value that is used outside or is a graph output, constants that aren't scalars or
// that broadcast the result to another shape, quantised values, dtypes but F32 and F16.
//
// Cost: cones of at most 14 nodes, evaluated on 200 samples; the widest that is known wins.
#include <cmath>

#include "compiler/ops/convert.h"
#include "passes/fuse/cone.h"

namespace npuc {
namespace {

constexpr unsigned kMaxCone = 14;

bool IsConeOp(const Node &n) {
  return IsOneOf(n, {"Add", "Sub", "Mul", "Div", "Pow", "Clip", "Relu", "Min", "Max", "Sigmoid", "HardSigmoid", "Erf",
                     "Tanh", "Softplus", "Neg", "Exp", "Sqrt", "Log", "Reciprocal"}) &&
         n.num_results() == 1;
}
bool IsSign(const Node &n) {
  return IsOneOf(n, {"Sigmoid", "HardSigmoid", "Erf", "Tanh", "Clip", "Softplus"});
}

std::vector<Cone> FunctionsOf(Node &root) {
  if (!HasStaticShape(root.result()) || root.result()->type().is_quantized())
    return {};
  const Type &type = root.result()->type();
  if (type.dtype() != DType::F32 && type.dtype() != DType::F16)
    return {};
  std::vector<Cone> cones = ConesOf(
      root, [&](const Node &n) { return IsConeOp(n) && SameTensorType(n.result()->type(), type); },
      [](const Value *v) { return ScalarConstant(v).has_value(); }, kMaxCone);
  llvm::erase_if(cones, [&](const Cone &c) {
    return !SameTensorType(c.mouth->type(), type) || llvm::none_of(c.nodes, [](const Node *n) { return IsSign(*n); });
  });
  return cones;
}

const std::vector<float> &Samples() {
  static const std::vector<float> samples = [] {
    std::vector<float> s = {0.0f, -0.0f};
    for (float m : {1e-4f, 1e-3f, 1e-2f, 0.1f, 20.0f, 50.0f, 80.0f})
      s.insert(s.end(), {m, -m});
    for (int i = 0; i < 184; ++i)
      s.push_back(static_cast<float>(i - 92) * 0.09375f + 0.0101f); // -8.6 ... 8.5
    return s;
  }();
  return samples;
}

// The cone's values on the samples; empty when it can't be evaluated.
std::vector<float> Evaluate(const Cone &cone) {
  const std::vector<float> &x = Samples();
  const int64_t n = x.size();
  const Tensor in = Tensor::Of<float>(DType::F32, {n}, x);
  Tensor y = EvaluateCone(cone, ops::ConvertTensor(in, cone.mouth->type().dtype()));
  if (!y)
    return {};
  y = ops::ConvertTensor(y, DType::F32);
  if (y.num_elements() != n)
    return {};
  return {y.values<float>().begin(), y.values<float>().end()};
}

struct Candidate {
  const char *op;
  double (*f)(double);
  std::vector<std::pair<const char *, Attribute>> attrs;
};

const std::vector<Candidate> &Candidates() {
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

// Whether the values are f's: to 2e-6 relative to |f| or to the size of x (a function written as 1 + erf cancels
// below), f16 constants apart.
bool Agrees(const std::vector<float> &y, double (*f)(double), double tolerance) {
  for (size_t i = 0; i < y.size(); ++i) {
    const double x = Samples()[i], want = f(x);
    if (!(std::abs(y[i] - want) <= tolerance * std::max({std::abs(want), std::min(std::abs(x), 8.0), 1e-6})))
      return false;
  }
  return true;
}

bool Form(Node &root, PassContext &ctx) {
  if (!IsOneOf(root, {"Mul", "Div"}))
    return false;
  const std::vector<Cone> cones = FunctionsOf(root);
  const double tolerance = root.result()->type().dtype() == DType::F16 ? 1e-3 : 2e-6;
  for (auto cone = cones.rbegin(); cone != cones.rend(); ++cone) {
    const std::vector<float> y = Evaluate(*cone);
    if (y.size() != Samples().size())
      continue;
    for (const Candidate &c : Candidates()) {
      const OpDef *op = LookupOp("", c.op);
      if (!op || !Agrees(y, c.f, tolerance) || !ctx.MayRewrite())
        continue;
      AttributeList attrs;
      for (const auto &[name, value] : c.attrs)
        attrs.Set(name, value);
      Rewriter rw(&root);
      Node *made = rw.Create(op, {cone->mouth}, OriginOf(*cone), {root.result()->type()}, std::move(attrs));
      rw.ReplaceNode(&root, {made->result()});
      ctx.Count(fmt::format("fuse: form-{}", c.op));
      return true;
    }
  }
  return false;
}

} // namespace

StatusOr<bool> FormActivations(Module &m, PassContext &ctx) {
  return ForEachGraph(m.main(), [&](Graph &g) -> StatusOr<bool> {
    bool changed = false;
    // From the back: the widest cone first, so that HardSwish is not cut short by the HardSigmoid inside it.
    for (auto it = g.return_node()->getIterator(); it != g.nodes().begin();) {
      Node &n = *--it;
      auto after = std::next(it);
      if (!Form(n, ctx))
        continue;
      changed = true;
      it = after; // what was formed stands just before; go on from there
    }
    return changed;
  });
}

} // namespace npuc
