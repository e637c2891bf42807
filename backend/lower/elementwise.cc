// Elementwise operators on the VPU: unary, binary and ternary arithmetic, activations, casts,
// quantise/dequantise/requantise.
//
//   8-bit result of one 8-bit operand (others scalar constants)   LUT, built by evaluating the node itself on all 256
//   codes else                                                          ELEM on views that broadcast by stride 0;
//   scalar constants are immediates
// Leaves alone: operators of more than two operands of any kind (Sum, Mean ...), 64-bit integers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/lower/elementwise.h"

#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/interp/interpreter.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::ElemFn;
using isa::View;
using program::Box;

const RuleDoc kBroadcast{"elementwise-broadcast", "operands must broadcast within the four dims of the result's view",
                         "reshape to at most four dims around the node"};
const RuleDoc kVariadic{"elementwise-operands", "the operator must have one or two operands",
                        "chain two-operand nodes"};
const RuleDoc kParameters{"elementwise-parameters", "bounds and parameters must be scalar constants",
                          "fold them into initializers"};
const RuleDoc kCast{"cast-types", "the cast must be between f32, f16, i8, u8, i32 and bool",
                    "cast on the host, or export with other types"};
const RuleDoc kPredicate{"predicate-types", "conditions must be bool, data float", "cast the operands to float"};

using Spec = ElementwiseSpec;

constexpr float kInf = std::numeric_limits<float>::infinity();

std::optional<float> Scalar(const Value *v) {
  const Tensor *t = v ? v->constant() : nullptr;
  if (!t || !(t->num_elements() == 1 || t->is_splat()))
    return std::nullopt;
  if (!IsFloat(t->dtype()) && !v->type().is_quantized() && t->dtype() != DType::Bool)
    return std::nullopt;
  const double x = t->AsDouble(0);
  if (!v->type().is_quantized())
    return static_cast<float>(x);
  if (!v->type().quant()->per_tensor())
    return std::nullopt;
  return static_cast<float>(static_cast<int64_t>(x) - v->type().quant()->zero_point()) * v->type().quant()->scale();
}

struct NamedFn {
  std::string_view name;
  ElemFn fn;
  unsigned operands;
};
constexpr NamedFn kPlain[] = {
    {"Add", ElemFn::Add, 2},
    {"Sub", ElemFn::Sub, 2},
    {"Mul", ElemFn::Mul, 2},
    {"Div", ElemFn::Div, 2},
    {"Pow", ElemFn::Pow, 2},
    {"Min", ElemFn::Min, 2},
    {"Max", ElemFn::Max, 2},
    {"PRelu", ElemFn::PRelu, 2},
    {"Abs", ElemFn::Abs, 1},
    {"Neg", ElemFn::Neg, 1},
    {"Sign", ElemFn::Sign, 1},
    {"Floor", ElemFn::Floor, 1},
    {"Ceil", ElemFn::Ceil, 1},
    {"Round", ElemFn::Round, 1},
    {"Exp", ElemFn::Exp, 1},
    {"Log", ElemFn::Log, 1},
    {"Sqrt", ElemFn::Sqrt, 1},
    {"Reciprocal", ElemFn::Recip, 1},
    {"Sin", ElemFn::Sin, 1},
    {"Cos", ElemFn::Cos, 1},
    {"Erf", ElemFn::Erf, 1},
    {"Tanh", ElemFn::Tanh, 1},
    {"Sigmoid", ElemFn::Sigmoid, 1},
    {"HardSwish", ElemFn::HardSwish, 1},
    {"Softplus", ElemFn::Softplus, 1},
    {"Softsign", ElemFn::Softsign, 1},
    {"Mish", ElemFn::Mish, 1},
    {"Equal", ElemFn::Equal, 2},
    {"Less", ElemFn::Less, 2},
    {"LessOrEqual", ElemFn::LessEqual, 2},
    {"Greater", ElemFn::Greater, 2},
    {"GreaterOrEqual", ElemFn::GreaterEqual, 2},
    {"Where", ElemFn::Select, 3},
    {"And", ElemFn::And, 2},
    {"Or", ElemFn::Or, 2},
    {"Xor", ElemFn::Xor, 2},
    {"Not", ElemFn::Not, 1},
};

} // namespace

std::optional<ElementwiseSpec> ElementwiseSpecOf(const Node &n,
                                                 llvm::function_ref<const Value *(const Value *)> resolve) {
  const std::string_view name = n.op().name;
  const AttributeList &a = n.attrs();
  if (n.op().domain == "npuc") {
    if (name == "Quantize")
      return Spec{ElemFn::Quantise, 1};
    if (name == "Dequantize")
      return Spec{ElemFn::Dequantise, 1};
    if (name == "Requantize")
      return Spec{ElemFn::Requantise, 1};
    return std::nullopt;
  }
  for (const NamedFn &f : kPlain)
    if (f.name == name)
      return Spec{f.fn, f.operands};
  if (name == "Cast")
    return Spec{ElemFn::Cast, 1};
  if (name == "Mod")
    return Spec{a.Int("fmod", 0) ? ElemFn::Fmod : ElemFn::Mod, 2};
  if (name == "IsNaN")
    return Spec{ElemFn::IsNaN, 1};
  if (name == "Relu")
    return Spec{ElemFn::Clamp, 1, 0, kInf};
  if (name == "Clip") {
    Spec s{ElemFn::Clamp, 1, -kInf, kInf};
    for (unsigned i = 1; i < 3; ++i) {
      if (!n.operand(i))
        continue;
      const std::optional<float> v = Scalar(resolve(n.operand(i)));
      if (!v)
        return std::nullopt;
      (i == 1 ? s.imm0 : s.imm1) = *v;
    }
    return s;
  }
  if (name == "LeakyRelu")
    return Spec{ElemFn::LeakyRelu, 1, a.Float("alpha", 0.01f)};
  if (name == "HardSigmoid")
    return Spec{ElemFn::HardSigmoid, 1, a.Float("alpha", 0.2f), a.Float("beta", 0.5f)};
  if (name == "Swish")
    return Spec{ElemFn::Silu, 1, a.Float("alpha", 1.0f)};
  if (name == "Gelu")
    return Spec{a.String("approximate", "none") == "tanh" ? ElemFn::GeluTanh : ElemFn::Gelu, 1};
  if (name == "Elu")
    return Spec{ElemFn::Elu, 1, a.Float("alpha", 1.0f)};
  if (name == "Selu")
    return Spec{ElemFn::Selu, 1, a.Float("alpha", 1.67326319217681884765625f),
                a.Float("gamma", 1.05070102214813232421875f)};
  if (name == "Celu")
    return Spec{ElemFn::Celu, 1, a.Float("alpha", 1.0f)};
  if (name == "ThresholdedRelu")
    return Spec{ElemFn::ThresholdedRelu, 1, a.Float("alpha", 1.0f)};
  return std::nullopt;
}

namespace {

bool IsPredicate(ElemFn f) {
  return f == ElemFn::Equal || f == ElemFn::Less || f == ElemFn::LessEqual || f == ElemFn::Greater ||
         f == ElemFn::GreaterEqual || f == ElemFn::IsNaN;
}
bool IsLogic(ElemFn f) {
  return f == ElemFn::And || f == ElemFn::Or || f == ElemFn::Xor || f == ElemFn::Not;
}

bool Is8Bit(const Value *v) {
  return v->type().is_quantized() && ByteSize(v->type().dtype()) == 1;
}

// The one computed operand when the node maps 8-bit codes to 8-bit codes.
std::optional<unsigned> LutOperand(const Node &n, const Spec &s) {
  if (!Is8Bit(n.result()) || IsPredicate(s.fn) || IsLogic(s.fn) || s.fn == ElemFn::Select)
    return std::nullopt;
  std::optional<unsigned> found;
  for (unsigned i = 0; i < s.operands; ++i) {
    if (Scalar(n.operand(i)))
      continue;
    if (found || !Is8Bit(n.operand(i)) || n.operand(i)->constant())
      return std::nullopt;
    if (!(n.operand(i)->type().shape() == n.result()->type().shape()))
      return std::nullopt;
    found = i;
  }
  return found;
}

class ElementwiseOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const std::optional<Spec> s = ElementwiseSpecOf(n);
    if (!report.Require(s.has_value(), kParameters, "scalar constants", "computed ones"))
      return;
    if (!report.Require(n.num_operands() <= 3 && (s->operands == n.num_operands() || s->operands == 1), kVariadic,
                        "1 or 2", std::to_string(n.num_operands())))
      return;
    CheckTypes(n, *s, ctx, report);
    if (n.operand(0)->type().shape() == n.result()->type().shape() && s->operands == 1)
      return;
    for (unsigned i = 0; i < s->operands; ++i) {
      const Type &t = n.operand(i)->type();
      report.Require(Scalar(n.operand(i)) ||
                         BroadcastView(program::ViewOfType(t, {}, ctx.target), t, n.result()->type()).has_value(),
                     kBroadcast, n.result()->type().shape().ToString(), t.shape().ToString());
    }
  }

  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const DType d = n.result()->type().dtype();
    const double lanes = t.vpu.lanes.Has(d) ? t.vpu.Lanes(d).ToDouble() : 1.0;
    return static_cast<int64_t>(static_cast<double>(n.result()->type().shape().num_elements()) * 2 / lanes) +
           t.issue_cycles;
  }

  std::vector<RuleDoc> rules() const override { return {kBroadcast, kVariadic, kParameters, kCast, kPredicate}; }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Spec s = *ElementwiseSpecOf(n);
    if (const std::optional<unsigned> x = LutOperand(n, s))
      return LowerLut(n, *x, ctx);
    const View out = ctx.ViewOf(n.result());
    isa::Elem e;
    e.fn = s.fn;
    e.imm = {s.imm0, s.imm1};
    e.out_quant = LowerContext::QuantOf(n.result());
    std::array<View, 3> full{};
    std::array<View, 3> whole{};
    for (unsigned i = 0; i < s.operands; ++i) {
      const Value *v = n.operand(i);
      if (const std::optional<float> c = Scalar(v)) {
        e.scalar[i] = *c;
        continue;
      }
      e.in_quant[i] = LowerContext::QuantOf(v);
      const std::optional<View> b =
          BroadcastView(v->constant() ? ctx.ConstView(v) : ctx.ViewOf(v), v->type(), n.result()->type());
      NPUC_CHECK(b.has_value(), "broadcast of '{}'", v->name());
      full[i] = *b;
      // Small vectors come on chip once.
      const Box all = Box::All(full[i]);
      if (!ctx.OnChip(full[i]) && FetchBytes(ctx, full[i], all) <= std::min<int64_t>(8192, ctx.budget() / 16) &&
          full[i].elements() > 2 * FetchBytes(ctx, full[i], all))
        whole[i] = FetchBroadcast(ctx, full[i], all, v->name());
    }
    BlockLimits limits;
    limits.bytes = ctx.budget() / 2;
    limits.tile = ctx.AskTile();
    auto bytes = [&](const Box &b) {
      int64_t r = ctx.OnChip(out) ? 0 : b.elements() * out.elem_bytes();
      for (unsigned i = 0; i < s.operands; ++i)
        if (full[i].present() && !whole[i].present())
          r += FetchBytes(ctx, full[i], b);
      return r;
    };
    return ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
      isa::Elem c = e;
      for (unsigned i = 0; i < s.operands; ++i) {
        if (!full[i].present())
          continue;
        c.in[i] =
            whole[i].present() ? program::Sub(whole[i], b) : FetchBroadcast(ctx, full[i], b, n.operand(i)->name());
      }
      c.out = ctx.Tile(out, b, n.result()->name());
      const View tile = c.out;
      ctx.Vpu(std::move(c));
      ctx.Store(tile, out, b);
    });
  }

private:
  static void CheckTypes(const Node &n, const Spec &s, const CheckContext &ctx, RuleReport &report) {
    const Value *y = n.result();
    auto is_float = [&](const Value *v) {
      const DType d = ctx.dtype(v);
      return !v->type().is_quantized() && (d == DType::F16 || d == DType::F32);
    };
    if (s.fn == ElemFn::Cast) {
      auto ok = [&](const Value *v) {
        const DType d = ctx.dtype(v);
        return d == DType::F32 || d == DType::F16 || d == DType::I8 || d == DType::U8 || d == DType::I32 ||
               d == DType::Bool;
      };
      const bool any_float = is_float(n.operand(0)) || is_float(y);
      report.Require(!any_float || ctx.target.HasFloat(), kRuleFloatOnIntegerTarget, "i8, u8, i16", "a float cast");
      report.Require(ok(n.operand(0)) && ok(y) && any_float, kCast, "f32, f16, i8, u8, i32, bool, one side float",
                     fmt::format("{} to {}", Name(ctx.dtype(n.operand(0))), Name(ctx.dtype(y))));
      return;
    }
    if (s.fn == ElemFn::Quantise) {
      report.Require(is_float(n.operand(0)) && y->type().is_quantized() && y->type().quant()->per_tensor(),
                     kRulePerTensor, "float to a per-tensor type", y->type().ToString());
      return;
    }
    if (s.fn == ElemFn::Dequantise) {
      report.Require(is_float(y) && n.operand(0)->type().is_quantized() && n.operand(0)->type().quant()->per_tensor(),
                     kRulePerTensor, "a per-tensor type to float", n.operand(0)->type().ToString());
      return;
    }
    if (IsPredicate(s.fn)) {
      for (unsigned i = 0; i < s.operands; ++i)
        report.Require(is_float(n.operand(i)), kPredicate, "float", std::string(Name(ctx.dtype(n.operand(i)))));
      return;
    }
    if (IsLogic(s.fn)) {
      for (unsigned i = 0; i < s.operands; ++i)
        report.Require(ctx.dtype(n.operand(i)) == DType::Bool, kPredicate, "bool",
                       std::string(Name(ctx.dtype(n.operand(i)))));
      return;
    }
    if (s.fn == ElemFn::Select) {
      report.Require(ctx.dtype(n.operand(0)) == DType::Bool, kPredicate, "bool",
                     std::string(Name(ctx.dtype(n.operand(0)))));
      RequireArithmeticTypes(n, ctx, 0b001, report);
      return;
    }
    // Scalars may be of either kind.
    uint32_t skip = s.operands == 1 ? 0b110 : 0;
    for (unsigned i = 0; i < s.operands; ++i)
      if (Scalar(n.operand(i)))
        skip |= 1u << i;
    RequireArithmeticTypes(n, ctx, skip, report);
  }

  static Status LowerLut(const Node &n, unsigned x, LowerContext &ctx) {
    const Value *in = n.operand(x);
    const DType from = in->type().dtype();
    Tensor codes = Tensor::Allocate(from, {256});
    for (int i = 0; i < 256; ++i)
      codes.mutable_bytes()[i] = static_cast<uint8_t>(IntMin(from) + i);
    std::vector<EvalValue> operands;
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      const Value *v = n.operand(i);
      if (!v) {
        operands.emplace_back();
      } else if (i == x) {
        operands.emplace_back(codes);
      } else {
        // One element stands for all, whatever its rank.
        const Tensor &t = *v->constant();
        operands.emplace_back(t.is_splat() ? Tensor::Splat(t.dtype(), {}, t.bytes()).Expand() : t.Reshaped({}));
      }
    }
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> results, EvaluateNode(n, std::move(operands)));
    const Tensor table = *results[0].tensor();
    NPUC_CHECK(table.num_elements() == 256 && ByteSize(table.dtype()) == 1, "table of '{}'", n.result()->name());
    const program::BufferId constant =
        ctx.AddConst(256, n.result()->name() + "/lut", [table](uint8_t *dst) { std::memcpy(dst, table.bytes(), 256); });
    const isa::Address address = ctx.LoadConst(constant, 0, 256, n.result()->name() + "/lut");
    const View src = ctx.ViewOf(in), out = ctx.ViewOf(n.result());
    BlockLimits limits;
    limits.bytes = ctx.budget() / 2;
    limits.tile = ctx.AskTile();
    auto bytes = [&](const Box &b) { return FetchBytes(ctx, src, b) + (ctx.OnChip(out) ? 0 : b.elements()); };
    return ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
      isa::Lut l;
      l.in = ctx.Fetch(src, b, in->name());
      l.out = ctx.Tile(out, b, n.result()->name());
      l.table = address;
      const View tile = l.out;
      ctx.Vpu(std::move(l));
      ctx.Store(tile, out, b);
    });
  }
};

} // namespace

const NpuOp *ElementwiseLowering() {
  static const ElementwiseOp op;
  return &op;
}

} // namespace npuc::lower
