// Add, Sub, Mul, Div, Mod, Pow: two operands with numpy broadcasting.
//
// Integers wrap; integer Div truncates toward zero; Mod takes the divisor's sign, or with fmod=1 the dividend's;
// dividing an integer by zero is an error of the run (E0703), which the folder answers by leaving the node alone. Pow's
// result has the base's type; an integer base with a negative exponent gives 0, 1 or -1.
#include <cmath>

#include "compiler/ops/broadcast.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

template <class T> using Wide = std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>;

// Wrapping on integers; the promotion to int of narrow types must not overflow either.
#define NPUC_ARITH(Name, op)                                                                                           \
  struct Name {                                                                                                        \
    template <class T> T operator()(T a, T b) const {                                                                  \
      if constexpr (std::is_floating_point_v<T>)                                                                       \
        return a op b;                                                                                                 \
      else                                                                                                             \
        return static_cast<T>(static_cast<uint64_t>(a) op static_cast<uint64_t>(b));                                   \
    }                                                                                                                  \
  };
NPUC_ARITH(AddOp, +)
NPUC_ARITH(SubOp, -)
NPUC_ARITH(MulOp, *)
#undef NPUC_ARITH

struct DivOp {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T> && !std::is_floating_point_v<T>)
      if (b == T(-1))
        return static_cast<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
};

struct FmodOp {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b); // exact by definition, so the same everywhere
    else if constexpr (std::is_signed_v<T>)
      return b == T(-1) ? T(0) : static_cast<T>(a % b);
    else
      return static_cast<T>(a % b);
  }
};
struct ModOp {
  template <class T> T operator()(T a, T b) const {
    T r = FmodOp()(a, b);
    if constexpr (std::is_signed_v<T>)
      if (r != T(0) && (r < T(0)) != (b < T(0)))
        r = static_cast<T>(r + b);
    return r;
  }
};

Status CheckOperands(EvalContext &ctx) {
  if (ctx.operand(0).dtype() != ctx.operand(1).dtype())
    return Error("E0302",
                 fmt::format("the operands are {} and {}; they must have one element type",
                             OnnxName(ctx.operand(0).dtype()), OnnxName(ctx.operand(1).dtype())),
                 "insert a Cast in the model");
  return OkStatus();
}

template <class Op, bool kDivides = false> Status Evaluate(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckOperands(ctx));
  const Tensor &a = ctx.operand(0), &b = ctx.operand(1);
  return DispatchNumeric(a.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    if constexpr (kDivides && !std::is_floating_point_v<T>)
      if (a.num_elements() > 0)
        for (T v : b.values<T>())
          if (v == T(0))
            return Error("E0703", "an integer is divided by zero", "check the divisor in the model");
    NPUC_ASSIGN_OR_RETURN(Tensor y, (BinaryMap<T, T, T>(a, b, a.dtype(), Op())));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status Infer(InferContext &ctx) {
  return BroadcastInfer(ctx);
}

Status EvaluateMod(EvalContext &ctx) {
  return ctx.attrs().Int("fmod", 0) != 0 ? Evaluate<FmodOp, true>(ctx) : Evaluate<ModOp, true>(ctx);
}

// ---- Pow

Status InferPow(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Shape s, BroadcastOperands(ctx, {0, 1}));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}

template <class T> T IntPow(T base, int64_t exponent) {
  if (exponent < 0)
    return base == T(1)                                        ? T(1)
           : base == static_cast<T>(-1) && std::is_signed_v<T> ? (exponent % 2 ? static_cast<T>(-1) : T(1))
                                                               : T(0);
  uint64_t r = 1, b = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e; e >>= 1, b *= b)
    if (e & 1)
      r *= b;
  return static_cast<T>(r);
}

Status EvaluatePow(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0);
  Tensor b = ctx.operand(1);
  return DispatchNumeric(a.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    StatusOr<Tensor> y;
    if constexpr (std::is_floating_point_v<T>) {
      b = ConvertTensor(b, a.dtype());
      if (b.num_elements() == 1 && b.data<T>()[0] == T(2))
        y = BinaryMap<T, T, T>(a, b, a.dtype(), [](T x, T) { return x * x; });
      else
        y = BinaryMap<T, T, T>(a, b, a.dtype(), [](T x, T e) { return fpmath::Pow(x, e); });
    } else if (IsFloat(b.dtype())) {
      b = ConvertTensor(b, DType::F64);
      y = BinaryMap<T, double, T>(a, b, a.dtype(),
                                  [](T x, double e) { return FloatToInt<T>(fpmath::Pow(static_cast<double>(x), e)); });
    } else {
      b = ConvertTensor(b, DType::I64);
      y = BinaryMap<T, int64_t, T>(a, b, a.dtype(), [](T x, int64_t e) { return IntPow(x, e); });
    }
    NPUC_RETURN_IF_ERROR(y);
    ctx.set_result(0, *std::move(y));
    return OkStatus();
  });
}

OpDef Binary(std::string_view name, int version, uint32_t traits, Status (*evaluate)(EvalContext &),
             std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since_version = version,
          .min_operands = 2,
          .max_operands = 2,
          .traits = kPure | kElementwise | traits,
          .infer = Infer,
          .evaluate = evaluate,
          .doc = doc};
}

} // namespace

OpDef AddDef() {
  return Binary("Add", 14, kCommutative, Evaluate<AddOp>, "a + b");
}
OpDef SubDef() {
  return Binary("Sub", 14, 0, Evaluate<SubOp>, "a - b");
}
OpDef MulDef() {
  return Binary("Mul", 14, kCommutative, Evaluate<MulOp>, "a * b");
}
OpDef DivDef() {
  return Binary("Div", 14, 0, Evaluate<DivOp, true>, "a / b; integers truncate toward zero");
}
OpDef ModDef() {
  OpDef d = Binary("Mod", 13, 0, EvaluateMod, "Remainder with the divisor's sign, or the dividend's with fmod=1.");
  d.attrs = {IntAttr("fmod")};
  return d;
}
OpDef PowDef() {
  OpDef d = Binary("Pow", 15, 0, EvaluatePow, "a to the power of b, in a's type.");
  d.infer = InferPow;
  return d;
}

} // namespace npuc::ops
