// Output stages. The chain of a Fused body, anchor first:
//
//   Conv -> Relu -> Quantize          scale, clamp(0, inf), quantise
//   Conv(q result) alone              scale (sx*sw/sy), quantise without division
//   Conv -> Quantize -> Dequantize -> Add(r) -> Relu -> Quantize     scale, quantise, dequantise, add, clamp, quantise
//   f16: Conv -> Relu -> Cast         scale (1), clamp; the f16 view rounds once
//
// Values inside the body say by their types where quantisation happens; nothing is reordered here.
#include "backend/lower/stage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/lower/broadcast.h"
#include "backend/lower/elementwise.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace npuc::lower {

using isa::ElemFn;
using isa::MicroKind;
using isa::MicroOp;

namespace {

// Unary activations that are one Act (or Clamp) micro-operation. `resolve` leads from a body's input to the value
// outside.
template <class Resolve> std::optional<MicroOp> UnaryMicroOp(const Node &n, Resolve resolve) {
  if (!n.op().domain.empty())
    return std::nullopt;
  const std::optional<ElementwiseSpec> spec = ElementwiseSpecOf(n, resolve);
  if (!spec || spec->operands != 1)
    return std::nullopt;
  MicroOp op;
  op.kind = spec->fn == ElemFn::Clamp ? MicroKind::Clamp : MicroKind::Act;
  op.a = spec->imm0;
  op.b = spec->imm1;
  switch (spec->fn) {
  case ElemFn::Clamp:
    return op;
  case ElemFn::LeakyRelu:
  case ElemFn::Sigmoid:
  case ElemFn::Tanh:
  case ElemFn::HardSwish:
  case ElemFn::HardSigmoid:
  case ElemFn::Silu:
  case ElemFn::Gelu:
  case ElemFn::GeluTanh:
  case ElemFn::Elu:
  case ElemFn::Abs:
  case ElemFn::Exp:
  case ElemFn::Neg:
  case ElemFn::Softplus:
  case ElemFn::Mish:
    op.fn = spec->fn;
    return op;
  default:
    return std::nullopt;
  }
}

std::optional<MicroKind> BinaryMicroKind(const Node &n, unsigned through) {
  if (!n.op().domain.empty())
    return std::nullopt;
  const std::string_view name = n.op().name;
  if (name == "Add" || (name == "Sum" && n.num_operands() == 2))
    return MicroKind::Add;
  if (name == "Mul")
    return MicroKind::Mul;
  if (name == "Sub")
    return MicroKind::Sub;
  if (name == "PRelu" && through == 0)
    return MicroKind::PRelu;
  return std::nullopt;
}

// A scalar constant operand folds into a view like any other: it is fetched once.
bool SameExtent(const Type &a, const Type &b) {
  return a.is_static_tensor() && b.is_static_tensor() && a.shape() == b.shape();
}

} // namespace

std::optional<int> StageOpsOf(const Node &node, unsigned through, const CheckContext &ctx) {
  const Value *out = node.result();
  const Value *in = node.operand(through);
  if (!in || !SameExtent(in->type(), out->type()))
    return std::nullopt;
  if (node.Is("Quantize", "npuc") || node.Is("Dequantize", "npuc"))
    return 1;
  if (node.Is("Cast")) {
    const DType to = ctx.dtype(out);
    return to == DType::F16 || to == DType::F32 ? std::optional<int>(0) : std::nullopt;
  }
  const bool quantized = in->type().is_quantized() || out->type().is_quantized();
  if (quantized) {
    // On integers directly: Relu and Clip whose result has the operand's parameters.
    if ((node.Is("Relu") || node.Is("Clip")) && SameQuant(in->type().quant(), out->type().quant()) &&
        UnaryMicroOp(node, Outer))
      return 1;
    return std::nullopt;
  }
  if (UnaryMicroOp(node, Outer))
    return 1;
  if (const auto kind = BinaryMicroKind(node, through)) {
    const Value *other = node.operand(1 - through);
    if (!other || other == in)
      return std::nullopt;
    const Type &t = other->type();
    if (!t.is_static_tensor())
      return std::nullopt;
    const DType d = ctx.dtype(other);
    if (!t.is_quantized() && d != DType::F16 && d != DType::F32)
      return std::nullopt;
    if (t.is_quantized() && !t.quant()->per_tensor())
      return std::nullopt;
    const isa::View v = program::ViewOfType(t, {}, ctx.target);
    if (!BroadcastView(v, t, out->type()))
      return std::nullopt;
    return 1;
  }
  return std::nullopt;
}

const Value *Outer(const Value *v) {
  const Node *parent = v->graph() ? v->graph()->parent() : nullptr;
  return !v->def() && parent && parent->Is("Fused", "npuc") ? parent->operand(v->index()) : v;
}

const Node &AnchorOf(const Node &node) {
  if (!node.Is("Fused", "npuc"))
    return node;
  for (const Node &n : node.body(0)->nodes())
    if (!n.is_constant())
      return n;
  NPUC_CHECK(false, "empty Fused body");
  return node;
}

StatusOr<Stage> BuildStage(const Node &node, LowerContext &ctx) {
  Stage s;
  s.anchor = &AnchorOf(node);
  s.result = node.result();
  const bool fused = s.anchor != &node;
  if (fused)
    for (unsigned i = 0; i < node.num_operands(); ++i)
      ctx.Bind(node.body(0)->input(i), node.operand(i));

  s.ops.push_back(MicroOp{}); // Scale
  const Value *value = s.anchor->result();
  auto quantise = [&](const Value *v, bool requant) {
    MicroOp op;
    op.kind = MicroKind::Quantise;
    op.requant = requant;
    op.dtype = v->type().dtype();
    op.quant = LowerContext::QuantOf(v);
    s.ops.push_back(op);
  };
  if (value->type().is_quantized()) {
    s.requant = true;
    quantise(value, true);
  }
  if (!fused)
    return s;

  const Type &out = s.result->type();
  while (!value->is_graph_output()) {
    NPUC_CHECK(value->has_one_use(), "'{}' has several readers inside a Fused body", value->name());
    const Use use = value->uses()[0];
    const Node &n = *use.user;
    const Value *next = n.result();
    if (n.Is("Quantize", "npuc")) {
      quantise(next, false);
    } else if (n.Is("Dequantize", "npuc")) {
      MicroOp op;
      op.kind = MicroKind::Dequantise;
      op.quant = LowerContext::QuantOf(value);
      s.ops.push_back(op);
    } else if (n.Is("Cast")) {
      // Rounding to f16 happens once, at the output view.
      NPUC_CHECK(next->is_graph_output(), "Cast in the middle of an output stage");
    } else if (std::optional<MicroOp> unary = UnaryMicroOp(n, [&](const Value *v) { return ctx.Resolve(v); })) {
      if (value->type().is_quantized()) {
        const isa::Quant q = LowerContext::QuantOf(value);
        const DType t = value->type().dtype();
        auto code = [&](float x, int64_t otherwise) -> float {
          if (std::isinf(x))
            return static_cast<float>(otherwise);
          const float c = std::nearbyint(x / q.scale) + static_cast<float>(q.zero);
          return std::min(std::max(c, static_cast<float>(IntMin(t))), static_cast<float>(IntMax(t)));
        };
        unary->kind = MicroKind::ClampQ;
        unary->a = code(unary->a, IntMin(t));
        unary->b = code(unary->b, IntMax(t));
      }
      s.ops.push_back(*unary);
    } else if (const auto kind = BinaryMicroKind(n, use.operand)) {
      const Value *other = ctx.Resolve(n.operand(1 - use.operand));
      MicroOp op;
      op.kind = *kind;
      op.reversed = *kind == MicroKind::Sub && use.operand == 1;
      op.operand = static_cast<uint8_t>(s.operands.size());
      const isa::View whole = other->constant() ? ctx.ConstView(other) : ctx.ViewOf(other);
      const std::optional<isa::View> view = BroadcastView(whole, other->type(), out);
      if (!view || s.operands.size() == kMaxStageOperands)
        return absl::InternalError(
            fmt::format("operand '{}' does not fit the output stage of '{}'", other->name(), s.result->name()));
      s.operands.push_back({*view, LowerContext::QuantOf(other), other->name()});
      s.ops.push_back(op);
    } else {
      return absl::InternalError(fmt::format("{} cannot stand in an output stage", n.op().name));
    }
    value = next;
  }
  if (static_cast<int>(s.ops.size()) > kMaxStageOps)
    return absl::InternalError(fmt::format("output stage of '{}' has {} operations", s.result->name(), s.ops.size()));
  return s;
}

} // namespace npuc::lower
