// One form for bounded activations: Relu, or one Clip with constant bounds.
//
//   Max(x, c), Min(x, c) with a scalar constant   ->  Clip              (only where the result keeps x's shape)
//   Relu -> Clip(a, b), Clip -> Clip, Clip -> Relu ->  one Clip          Clip(x; clip(a; c, d), clip(b; c, d))
//   Clip(0, none)                                  ->  Relu
//
// Left alone: a first node with other users or that is a graph output (it must exist anyway), bounds that aren't
// constants, integer types (Relu6 chains are float), first bounds with min > max.
//
// Cost: one sweep.
#include <cmath>
#include <limits>

#include "compiler/ops/convert.h"
#include "passes/common.h"

namespace npuc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Bounds {
  double lo = -kInf, hi = kInf;
};

// The bounds of Relu, or of a Clip whose bounds are constants.
std::optional<Bounds> BoundsOf(const Node &n) {
  if (n.Is("Relu"))
    return Bounds{0, kInf};
  if (!n.Is("Clip"))
    return std::nullopt;
  Bounds b;
  if (n.operand(1)) {
    const auto s = ScalarConstant(n.operand(1));
    if (!s)
      return std::nullopt;
    b.lo = *s;
  }
  if (n.operand(2)) {
    const auto s = ScalarConstant(n.operand(2));
    if (!s)
      return std::nullopt;
    b.hi = *s;
  }
  if (std::isnan(b.lo) || std::isnan(b.hi))
    return std::nullopt;
  return b;
}

Tensor ScalarOf(DType t, double v) {
  const float f = static_cast<float>(v);
  if (t == DType::F64)
    return Tensor::Of<double>(DType::F64, {}, {v});
  return ops::ConvertTensor(Tensor::ScalarF32(f), t);
}

Node *Make(Node &n, Value *x, Bounds b, Origin origin) {
  Rewriter rw(&n);
  const DType t = n.result()->type().dtype();
  Node *r;
  if (b.lo == 0 && b.hi == kInf) {
    r = rw.Create("Relu", {x}, std::move(origin), {n.result()->type()});
  } else {
    Value *lo = b.lo == -kInf ? nullptr : rw.Constant(ScalarOf(t, b.lo));
    Value *hi = b.hi == kInf ? nullptr : rw.Constant(ScalarOf(t, b.hi));
    r = rw.Create("Clip", {x, lo, hi}, std::move(origin), {n.result()->type()});
  }
  rw.ReplaceNode(&n, {r->result()});
  return r;
}

// The node that takes n's place; null when n stays.
Node *Rewrite(Node &n, PassContext &ctx) {
  if (n.num_results() != 1 || !n.result()->type().is_tensor() || n.result()->type().is_quantized())
    return nullptr;
  const DType t = n.result()->type().dtype();
  if (t != DType::F32 && t != DType::F16 && t != DType::F64)
    return nullptr;
  if (IsOneOf(n, {"Max", "Min"})) {
    const auto s = MatchScalarOperand(n);
    if (!s || std::isnan(s->scalar) || !SameTensorType(s->other->type(), n.result()->type()))
      return nullptr;
    return Make(n, s->other, n.Is("Max") ? Bounds{s->scalar, kInf} : Bounds{-kInf, s->scalar}, n.origin());
  }
  const auto outer = BoundsOf(n);
  if (!outer)
    return nullptr;
  Node *const first = n.operand(0) ? n.operand(0)->def() : nullptr;
  const auto inner = first && SoleUser(first->result(0)) == &n ? BoundsOf(*first) : std::nullopt;
  if (inner && inner->lo <= inner->hi && outer->lo <= outer->hi && ctx.MayRewrite()) {
    auto clip = [&](double v) { return std::min(std::max(v, outer->lo), outer->hi); };
    return Make(n, first->operand(0), {clip(inner->lo), clip(inner->hi)}, MergeOrigins(first->origin(), n.origin()));
  }
  if (n.Is("Clip") && outer->lo == 0 && outer->hi == kInf) {
    return Make(n, n.operand(0), *outer, n.origin());
  }
  return nullptr;
}

} // namespace

StatusOr<bool> MergeClips(Module &m, PassContext &ctx) {
  return RewriteEachNode(m.main(), [&](Node &n) {
    bool changed = false;
    for (Node *made = Rewrite(n, ctx); made; made = Rewrite(*made, ctx))
      changed = true;
    return changed;
  });
}

} // namespace npuc
