// Comparisons to bool (Equal, Less, Greater, LessOrEqual, GreaterOrEqual), logic on bool (And, Or, Xor, Not), logic on
// integer bits (BitwiseAnd, ..., BitShift), IsNaN, IsInf and Where. All broadcast as numpy. A comparison with NaN is
// false.
#include "compiler/ops/broadcast.h"
#include "compiler/ops/quant_eval.h"

namespace npuc::ops {
namespace {

#define NPUC_COMPARE(Name, op)                                                                                         \
  struct Name {                                                                                                        \
    template <class T> uint8_t operator()(const T &a, const T &b) const { return a op b; }                             \
  };
NPUC_COMPARE(EqualOp, ==)
NPUC_COMPARE(LessOp, <)
NPUC_COMPARE(GreaterOp, >)
NPUC_COMPARE(LessOrEqualOp, <=)
NPUC_COMPARE(GreaterOrEqualOp, >=)
#undef NPUC_COMPARE

Status InferBool(InferContext &ctx) {
  return BroadcastInfer(ctx, DType::Bool);
}

Status SameDTypes(EvalContext &ctx) {
  for (int i = 1; i < ctx.num_operands(); ++i)
    if (ctx.operand(i).dtype() != ctx.operand(0).dtype())
      return Error("E0302",
                   fmt::format("the operands are {} and {}; they must have one element type",
                               OnnxName(ctx.operand(0).dtype()), OnnxName(ctx.operand(i).dtype())),
                   "insert a Cast in the model");
  return OkStatus();
}

Status EqualStrings(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0), &b = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(const Dims dims, BroadcastDims(a.dims(), b.dims()));
  Tensor y = Tensor::Allocate(DType::Bool, dims);
  const BroadcastPlan<2> plan(dims, {a.dims(), b.dims()});
  plan.ForEachRow([&](int64_t at, const std::array<int64_t, 2> &from) {
    for (int64_t i = 0; i < plan.dims.back(); ++i)
      y.mutable_bytes()[at + i] =
          a.strings()[from[0] + i * plan.strides[0].back()] == b.strings()[from[1] + i * plan.strides[1].back()];
  });
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

template <class Op> Status EvaluateCompare(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(SameDTypes(ctx));
  const Tensor &a = ctx.operand(0);
  if (a.dtype() == DType::String && std::is_same_v<Op, EqualOp>)
    return EqualStrings(ctx);
  return DispatchNumeric(a.dtype() == DType::Bool ? DType::U8 : a.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    NPUC_ASSIGN_OR_RETURN(Tensor y, (BinaryMap<T, T, uint8_t>(a, ctx.operand(1), DType::Bool, Op())));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

OpDef Compare(std::string_view name, int version, Status (*evaluate)(EvalContext &), uint32_t traits = 0) {
  return {.domain = "",
          .name = name,
          .since_version = version,
          .min_operands = 2,
          .max_operands = 2,
          .traits = kPure | kElementwise | traits,
          .infer = InferBool,
          .evaluate = evaluate,
          .doc = "Elementwise comparison to bool."};
}

// ---- Logic on bool

template <class F> Status EvaluateLogic(EvalContext &ctx, F f) {
  for (int i = 0; i < ctx.num_operands(); ++i)
    if (ctx.operand(i).dtype() != DType::Bool)
      return UnsupportedDType(ctx.operand(i).dtype());
  NPUC_ASSIGN_OR_RETURN(Tensor y,
                        (BinaryMap<uint8_t, uint8_t, uint8_t>(ctx.operand(0), ctx.operand(1), DType::Bool, f)));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}
Status EvaluateAnd(EvalContext &ctx) {
  return EvaluateLogic(ctx, [](uint8_t a, uint8_t b) -> uint8_t { return a && b; });
}
Status EvaluateOr(EvalContext &ctx) {
  return EvaluateLogic(ctx, [](uint8_t a, uint8_t b) -> uint8_t { return a || b; });
}
Status EvaluateXor(EvalContext &ctx) {
  return EvaluateLogic(ctx, [](uint8_t a, uint8_t b) -> uint8_t { return !a != !b; });
}
Status EvaluateNot(EvalContext &ctx) {
  if (ctx.operand(0).dtype() != DType::Bool)
    return UnsupportedDType(ctx.operand(0).dtype());
  ctx.set_result(0, UnaryMap<uint8_t, uint8_t>(ctx.operand(0), DType::Bool, [](uint8_t a) -> uint8_t { return !a; }));
  return OkStatus();
}

// ---- Logic on bits

Status InferSame(InferContext &ctx) {
  return BroadcastInfer(ctx);
}

template <class Op> Status EvaluateBits(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(SameDTypes(ctx));
  const Tensor &a = ctx.operand(0);
  return DispatchInt(a.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    NPUC_ASSIGN_OR_RETURN(Tensor y, (BinaryMap<T, T, T>(a, ctx.operand(1), a.dtype(), Op())));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}
struct AndBits {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct OrBits {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
struct XorBits {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};
Status EvaluateBitwiseNot(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0);
  return DispatchInt(a.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ctx.set_result(0, UnaryMap<T, T>(a, a.dtype(), [](T v) { return static_cast<T>(~v); }));
    return OkStatus();
  });
}

// Shifting by the width or more gives 0.
struct ShiftLeft {
  template <class T> T operator()(T a, T b) const {
    return static_cast<uint64_t>(b) >= sizeof(T) * 8 ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << b);
  }
};
struct ShiftRight {
  template <class T> T operator()(T a, T b) const {
    return static_cast<uint64_t>(b) >= sizeof(T) * 8 ? T(0) : static_cast<T>(std::make_unsigned_t<T>(a) >> b);
  }
};
Status EvaluateBitShift(EvalContext &ctx) {
  const std::string_view direction = ctx.attrs().String("direction", "");
  if (direction == "LEFT")
    return EvaluateBits<ShiftLeft>(ctx);
  if (direction == "RIGHT")
    return EvaluateBits<ShiftRight>(ctx);
  return AttrError(fmt::format("direction '{}' is not LEFT or RIGHT", direction));
}

OpDef Logic(std::string_view name, int version, Status (*evaluate)(EvalContext &),
            Status (*infer)(InferContext &) = InferBool) {
  return {.domain = "",
          .name = name,
          .since_version = version,
          .min_operands = 2,
          .max_operands = 2,
          .traits = kPure | kElementwise | kCommutative,
          .infer = infer,
          .evaluate = evaluate,
          .doc = "Elementwise logic."};
}

// ---- IsNaN, IsInf

Status InferIs(InferContext &ctx) {
  SetTensor(ctx, 0, DType::Bool, ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateIsNaN(EvalContext &ctx) {
  return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ctx.set_result(0, UnaryMap<T, uint8_t>(ctx.operand(0), DType::Bool, [](T v) -> uint8_t { return v != v; }));
    return OkStatus();
  });
}
Status EvaluateIsInf(EvalContext &ctx) {
  const bool positive = ctx.attrs().Int("detect_positive", 1) != 0,
             negative = ctx.attrs().Int("detect_negative", 1) != 0;
  return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    constexpr T kMax = std::numeric_limits<T>::max();
    ctx.set_result(0, UnaryMap<T, uint8_t>(ctx.operand(0), DType::Bool, [=](T v) -> uint8_t {
                     return (positive && v > kMax) || (negative && v < -kMax);
                   }));
    return OkStatus();
  });
}

// ---- Where

Status InferWhere(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {1, 2}));
  NPUC_ASSIGN_OR_RETURN(Shape s, BroadcastOperands(ctx, {0, 1, 2}));
  const DType t = DTypeOfOperand(ctx, 1);
  SetTensor(ctx, 0, t == DType::Undefined ? DTypeOfOperand(ctx, 2) : t, std::move(s));
  return OkStatus();
}

Status EvaluateWhere(EvalContext &ctx) {
  const Tensor &c = ctx.operand(0), &a = ctx.operand(1), &b = ctx.operand(2);
  if (a.dtype() != b.dtype())
    return Error("E0302", fmt::format("the choices are {} and {}; they must have one element type", OnnxName(a.dtype()),
                                      OnnxName(b.dtype())));
  NPUC_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(c.dims(), a.dims()));
  NPUC_ASSIGN_OR_RETURN(dims, BroadcastDims(dims, b.dims()));
  const BroadcastPlan<3> plan(dims, {c.dims(), a.dims(), b.dims()});
  const int64_t n = plan.dims.back(), sc = plan.strides[0].back(), sa = plan.strides[1].back(),
                sb = plan.strides[2].back();
  if (a.dtype() == DType::String) {
    std::vector<std::string> out(NumElements(dims));
    plan.ForEachRow([&](int64_t at, const std::array<int64_t, 3> &from) {
      for (int64_t i = 0; i < n; ++i)
        out[at + i] = c.bytes()[from[0] + i * sc] ? a.strings()[from[1] + i * sa] : b.strings()[from[2] + i * sb];
    });
    ctx.set_result(0, Tensor::Strings(dims, std::move(out)));
    return OkStatus();
  }
  Tensor y = Tensor::Allocate(a.dtype(), dims);
  auto choose = [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    T *o = y.template mutable_data<T>();
    const T *pa = a.data<T>(), *pb = b.data<T>();
    plan.ForEachRow([&](int64_t at, const std::array<int64_t, 3> &from) {
      for (int64_t i = 0; i < n; ++i)
        o[at + i] = c.bytes()[from[0] + i * sc] ? pa[from[1] + i * sa] : pb[from[2] + i * sb];
    });
    return OkStatus();
  };
  NPUC_RETURN_IF_ERROR(a.dtype() == DType::C128 ? choose(Tag<std::array<double, 2>>{})
                                                : DispatchBytes(a.dtype(), choose));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

} // namespace

OpDef EqualDef() {
  return Compare("Equal", 19, EvaluateCompare<EqualOp>, kCommutative);
}
OpDef LessDef() {
  return Compare("Less", 13, EvaluateCompare<LessOp>);
}
OpDef GreaterDef() {
  return Compare("Greater", 13, EvaluateCompare<GreaterOp>);
}
OpDef LessOrEqualDef() {
  return Compare("LessOrEqual", 16, EvaluateCompare<LessOrEqualOp>);
}
OpDef GreaterOrEqualDef() {
  return Compare("GreaterOrEqual", 16, EvaluateCompare<GreaterOrEqualOp>);
}
OpDef AndDef() {
  return Logic("And", 7, EvaluateAnd);
}
OpDef OrDef() {
  return Logic("Or", 7, EvaluateOr);
}
OpDef XorDef() {
  return Logic("Xor", 7, EvaluateXor);
}
OpDef NotDef() {
  return {.domain = "",
          .name = "Not",
          .since_version = 1,
          .min_operands = 1,
          .max_operands = 1,
          .traits = kPure | kElementwise,
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateNot,
          .doc = "Negation of bool."};
}
OpDef BitwiseAndDef() {
  return Logic("BitwiseAnd", 18, EvaluateBits<AndBits>, InferSame);
}
OpDef BitwiseOrDef() {
  return Logic("BitwiseOr", 18, EvaluateBits<OrBits>, InferSame);
}
OpDef BitwiseXorDef() {
  return Logic("BitwiseXor", 18, EvaluateBits<XorBits>, InferSame);
}
OpDef BitwiseNotDef() {
  return {.domain = "",
          .name = "BitwiseNot",
          .since_version = 18,
          .min_operands = 1,
          .max_operands = 1,
          .traits = kPure | kElementwise,
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateBitwiseNot,
          .doc = "Complement of the bits."};
}
OpDef BitShiftDef() {
  return {.domain = "",
          .name = "BitShift",
          .since_version = 11,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {StringAttr("direction", true)},
          .traits = kPure | kElementwise,
          .infer = InferSame,
          .evaluate = EvaluateBitShift,
          .doc = "Shift of unsigned integers, LEFT or RIGHT."};
}
OpDef IsNaNDef() {
  return {.domain = "",
          .name = "IsNaN",
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 1,
          .traits = kPure | kElementwise,
          .infer = InferIs,
          .evaluate = EvaluateIsNaN,
          .doc = "Whether an element is NaN."};
}
OpDef IsInfDef() {
  return {.domain = "",
          .name = "IsInf",
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("detect_positive"), IntAttr("detect_negative")},
          .traits = kPure | kElementwise,
          .infer = InferIs,
          .evaluate = EvaluateIsInf,
          .doc = "Whether an element is infinite."};
}
OpDef WhereDef() {
  return {.domain = "",
          .name = "Where",
          .since_version = 16,
          .min_operands = 3,
          .max_operands = 3,
          .traits = kPure | kElementwise | kCopiesElements,
          .infer = InferWhere,
          .evaluate = EvaluateWhere,
          .doc = "condition ? x : y, elementwise."};
}

} // namespace npuc::ops
