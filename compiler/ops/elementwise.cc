// Unary functions and activations: one scalar function each, mapped over the elements.
//
// f32 and f64; Abs, Neg, Sign and Relu on integers too (wrapping). The functions are fpmath's and scalar_math.h's, so
// the bits are the same in interpreter, tables and executor. NaN stays NaN. Also SwiGLU, and PRelu and Clip, whose
// parameters are operands, and com.microsoft's Gelu, FastGelu, BiasGelu and QuickGelu.
#include <cmath>

#include "compiler/ops/broadcast.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/ops/scalar_math.h"
#include "compiler/support/fpmath_array.h"

namespace npuc::ops {
namespace {

// f over all elements, in parallel.
template <class T, class F> void MapInto(EvalContext &ctx, const Tensor &x, F f) {
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  const T *in = x.data<T>();
  T *out = y.template mutable_data<T>();
  ParallelFor(ctx.threads(), x.num_elements(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out[i] = f(in[i]);
  });
  ctx.set_result(0, std::move(y));
}

void MapArray(EvalContext &ctx, const Tensor &x, fpmath::Unary f) {
  Tensor y = Tensor::Allocate(DType::F32, x.dims());
  const float *in = x.data<float>();
  float *out = y.mutable_data<float>();
  ParallelFor(ctx.threads(), x.num_elements(), 1 << 14, [&](int64_t begin, int64_t end) {
    fpmath::Map(f, in + begin, out + begin, static_cast<size_t>(end - begin));
  });
  ctx.set_result(0, std::move(y));
}

// A float-only function without parameters.
#define NPUC_FLOAT_UNARY(Op, expression)                                                                               \
  Status Evaluate##Op(EvalContext &ctx) {                                                                              \
    return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) {                                                       \
      using T = TypeOf<decltype(tag)>;                                                                                 \
      MapInto<T>(ctx, ctx.operand(0), [](T x) -> T { return expression; });                                            \
      return OkStatus();                                                                                               \
    });                                                                                                                \
  }
// The same for functions that fpmath has over arrays: the same bits, vectorised.
#define NPUC_FLOAT_ARRAY(Op, function)                                                                                 \
  Status Evaluate##Op(EvalContext &ctx) {                                                                              \
    return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) {                                                       \
      using T = TypeOf<decltype(tag)>;                                                                                 \
      if constexpr (std::is_same_v<T, float>)                                                                          \
        MapArray(ctx, ctx.operand(0), fpmath::Unary::function);                                                        \
      else                                                                                                             \
        MapInto<T>(ctx, ctx.operand(0), [](T x) -> T { return fpmath::function(x); });                                 \
      return OkStatus();                                                                                               \
    });                                                                                                                \
  }
NPUC_FLOAT_UNARY(Floor, std::floor(x))
NPUC_FLOAT_UNARY(Ceil, std::ceil(x))
NPUC_FLOAT_ARRAY(Round, RoundHalfEven)
NPUC_FLOAT_ARRAY(Sqrt, Sqrt)
NPUC_FLOAT_UNARY(Reciprocal, T(1) / x)
NPUC_FLOAT_ARRAY(Exp, Exp)
NPUC_FLOAT_ARRAY(Log, Log)
NPUC_FLOAT_UNARY(Sin, fpmath::Sin(x))
NPUC_FLOAT_UNARY(Cos, fpmath::Cos(x))
NPUC_FLOAT_UNARY(Tan, fpmath::Tan(x))
NPUC_FLOAT_UNARY(Asin, fpmath::Asin(x))
NPUC_FLOAT_UNARY(Acos, fpmath::Acos(x))
NPUC_FLOAT_UNARY(Atan, fpmath::Atan(x))
NPUC_FLOAT_UNARY(Sinh, fpmath::Sinh(x))
NPUC_FLOAT_UNARY(Cosh, fpmath::Cosh(x))
NPUC_FLOAT_ARRAY(Tanh, Tanh)
NPUC_FLOAT_UNARY(Asinh, fpmath::Asinh(x))
NPUC_FLOAT_UNARY(Acosh, fpmath::Acosh(x))
NPUC_FLOAT_UNARY(Atanh, fpmath::Atanh(x))
NPUC_FLOAT_ARRAY(FloatErf, Erf)
NPUC_FLOAT_ARRAY(Sigmoid, Sigmoid)
NPUC_FLOAT_UNARY(HardSwish, scalar::HardSwish(x))
NPUC_FLOAT_ARRAY(Softplus, Softplus)
NPUC_FLOAT_UNARY(Softsign, scalar::Softsign(x))
NPUC_FLOAT_UNARY(Mish, scalar::Mish(x))
NPUC_FLOAT_ARRAY(GeluErf, Gelu)
NPUC_FLOAT_ARRAY(GeluTanh, GeluTanh)
#undef NPUC_FLOAT_UNARY
#undef NPUC_FLOAT_ARRAY

// ONNX has it for integers too: the double, cut to the type.
Status EvaluateErf(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (!IsInt(x.dtype()))
    return EvaluateFloatErf(ctx);
  Tensor y = Tensor::Allocate(DType::F64, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i)
    y.mutable_data<double>()[i] = fpmath::Erf(x.AsDouble(i));
  ctx.set_result(0, ConvertTensor(y, x.dtype()));
  return OkStatus();
}

// Float functions with parameters: `parameters` declares them from the attributes.
#define NPUC_FLOAT_PARAM(Op, parameters, expression)                                                                   \
  Status Evaluate##Op(EvalContext &ctx) {                                                                              \
    return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) {                                                       \
      using T = TypeOf<decltype(tag)>;                                                                                 \
      auto attr = [&](std::string_view name, float otherwise) {                                                        \
        return static_cast<T>(ctx.attrs().Float(name, otherwise));                                                     \
      };                                                                                                               \
      parameters;                                                                                                      \
      MapInto<T>(ctx, ctx.operand(0), [=](T x) -> T { return expression; });                                           \
      return OkStatus();                                                                                               \
    });                                                                                                                \
  }
NPUC_FLOAT_PARAM(HardSigmoid, const T alpha = attr("alpha", 0.2f);
                 const T beta = attr("beta", 0.5f), scalar::HardSigmoid(x, alpha, beta))
NPUC_FLOAT_PARAM(LeakyRelu, const T alpha = attr("alpha", 0.01f), scalar::LeakyRelu(x, alpha))
NPUC_FLOAT_PARAM(Elu, const T alpha = attr("alpha", 1.0f), scalar::Elu(x, alpha))
NPUC_FLOAT_PARAM(Selu, const T alpha = attr("alpha", 1.67326319217681884765625f);
                 const T gamma = attr("gamma", 1.05070102214813232421875f), scalar::Selu(x, alpha, gamma))
NPUC_FLOAT_PARAM(Celu, const T alpha = attr("alpha", 1.0f), scalar::Celu(x, alpha))
NPUC_FLOAT_PARAM(ThresholdedRelu, const T alpha = attr("alpha", 1.0f), scalar::ThresholdedRelu(x, alpha))
#undef NPUC_FLOAT_PARAM

// x * sigmoid(alpha * x)
Status SwishOf(EvalContext &ctx, float alpha) {
  const Tensor &x = ctx.operand(0);
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    if constexpr (std::is_same_v<T, double>) {
      MapInto<T>(ctx, x, [alpha](T v) { return scalar::Swish(v, static_cast<T>(alpha)); });
    } else {
      Tensor y = Tensor::Allocate(DType::F32, x.dims());
      const float *in = x.data<float>();
      float *out = y.mutable_data<float>();
      ParallelFor(ctx.threads(), x.num_elements(), 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          out[i] = alpha * in[i];
        fpmath::Map(fpmath::Unary::Sigmoid, out + begin, out + begin, static_cast<size_t>(end - begin));
        for (int64_t i = begin; i < end; ++i)
          out[i] = in[i] * out[i];
      });
      ctx.set_result(0, std::move(y));
    }
    return OkStatus();
  });
}
Status EvaluateSwish(EvalContext &ctx) {
  return SwishOf(ctx, ctx.attrs().Float("alpha", 1.0f));
}
Status EvaluateQuickGelu(EvalContext &ctx) {
  return SwishOf(ctx, ctx.attrs().Float("alpha", 1.702f));
}

Status EvaluateShrink(EvalContext &ctx) {
  const float lambd = ctx.attrs().Float("lambd", 0.5f), bias = ctx.attrs().Float("bias", 0.0f);
  return DispatchNumeric(ctx.operand(0).dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    MapInto<T>(ctx, ctx.operand(0),
               [=](T x) { return static_cast<T>(scalar::Shrink<F>(static_cast<F>(x), lambd, bias)); });
    return OkStatus();
  });
}

Status EvaluateGelu(EvalContext &ctx) {
  const std::string_view approximate = ctx.attrs().String("approximate", "none");
  if (approximate == "none")
    return EvaluateGeluErf(ctx);
  if (approximate == "tanh")
    return EvaluateGeluTanh(ctx);
  return AttrError(fmt::format("approximate '{}' is not none or tanh", approximate));
}

// Functions that ONNX allows on integers too.
struct AbsOp {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return scalar::Abs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < T(0) ? static_cast<T>(0 - static_cast<uint64_t>(x)) : x;
    else
      return x;
  }
};
struct NegOp {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(0 - static_cast<uint64_t>(x));
  }
};
struct SignOp {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return scalar::Sign(x);
    else if constexpr (std::is_signed_v<T>)
      return static_cast<T>((x > T(0)) - (x < T(0)));
    else
      return static_cast<T>(x > T(0));
  }
};
struct ReluOp {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_signed_v<T>)
      return scalar::Relu(x);
    else
      return x;
  }
};
template <class Op> Status EvaluateNumeric(EvalContext &ctx) {
  return DispatchNumeric(ctx.operand(0).dtype(), [&](auto tag) {
    MapInto<TypeOf<decltype(tag)>>(ctx, ctx.operand(0), Op());
    return OkStatus();
  });
}

// ---- SwiGLU(a, b) = swish(a) * b

Status InferSwiGlu(InferContext &ctx) {
  return BroadcastInfer(ctx);
}
Status EvaluateSwiGlu(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0);
  return DispatchFloat(a.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    const T alpha = static_cast<T>(ctx.attrs().Float("alpha", 1));
    NPUC_ASSIGN_OR_RETURN(Tensor y, (BinaryMap<T, T, T>(a, ctx.operand(1), a.dtype(),
                                                        [alpha](T x, T g) { return scalar::Swish(x, alpha) * g; })));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- PRelu: the slope broadcasts one way to x.

Status InferPRelu(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1}));
  const Shape x = ShapeOf(ctx, 0), slope = ShapeOf(ctx, 1);
  const auto merged = BroadcastShapes(x, slope);
  if (!merged || (x.ranked() && merged->ranked() && merged->rank() != x.rank()))
    return ShapeError(fmt::format("the slope {} does not broadcast to x {}", slope.ToString(), x.ToString()),
                      "a slope per channel of [N,C,H,W] has shape [C,1,1]");
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), x);
  return OkStatus();
}

Status EvaluatePRelu(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &slope = ctx.operand(1);
  return DispatchNumeric(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    NPUC_ASSIGN_OR_RETURN(Tensor y, (BinaryMap<T, T, T>(x, slope, x.dtype(), [](T v, T s) -> T {
                            if constexpr (std::is_floating_point_v<T>)
                              return scalar::LeakyRelu(v, s);
                            else if constexpr (std::is_signed_v<T>)
                              return v < T(0) ? static_cast<T>(static_cast<uint64_t>(v) * static_cast<uint64_t>(s)) : v;
                            else
                              return v;
                          })));
    if (y.dims() != x.dims())
      return ShapeError(
          fmt::format("the slope {} does not broadcast to x {}", ToString(slope.dims()), ToString(x.dims())));
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- Clip(x, min, max): absent bounds are the type's own; min above max gives max; NaN stays.

Status InferClip(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1, 2}));
  for (int i : {1, 2})
    if (const Shape s = ShapeOf(ctx, i); ctx.has_operand(i) && s.is_static() && s.num_elements() != 1)
      return ShapeError(fmt::format("bound {} has shape {}; it must be a scalar", i, s.ToString()));
  return SameTypeAsOperand(ctx);
}

Status EvaluateClip(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  for (int i : {1, 2})
    if (ctx.has_operand(i) && (ctx.operand(i).num_elements() != 1 || ctx.operand(i).dtype() != x.dtype()))
      return ShapeError(fmt::format("bound {} is {}{}; it must be a scalar of type {}", i,
                                    OnnxName(ctx.operand(i).dtype()), ToString(ctx.operand(i).dims()),
                                    OnnxName(x.dtype())));
  return DispatchNumeric(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const bool has_lo = ctx.has_operand(1), has_hi = ctx.has_operand(2);
    const T lo = has_lo ? ctx.operand(1).data<T>()[0] : T(0), hi = has_hi ? ctx.operand(2).data<T>()[0] : T(0);
    MapInto<T>(ctx, x, [=](T v) {
      v = has_lo && v < lo ? lo : v;
      return has_hi && v > hi ? hi : v;
    });
    return OkStatus();
  });
}

// ---- com.microsoft

// x + bias, then the function of operand 0.
Status AddBias(EvalContext &ctx) {
  if (!ctx.has_operand(1))
    return OkStatus();
  NPUC_ASSIGN_OR_RETURN(Tensor s, (BinaryMap<float, float, float>(ctx.operand(0), ctx.operand(1), DType::F32,
                                                                  [](float a, float b) { return a + b; })));
  ctx.operands()[0] = std::move(s);
  return OkStatus();
}
Status EvaluateBiasGelu(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(AddBias(ctx));
  return EvaluateGeluErf(ctx);
}
Status EvaluateFastGelu(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(AddBias(ctx));
  return EvaluateGeluTanh(ctx);
}

OpDef Unary(std::string_view name, int version, Status (*evaluate)(EvalContext &), std::string_view doc,
            std::vector<AttrSpec> attrs = {}, std::string_view domain = "") {
  return {.domain = domain,
          .name = name,
          .since_version = version,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = std::move(attrs),
          .traits = kPure | kElementwise,
          .infer = SameTypeAsOperand,
          .evaluate = evaluate,
          .doc = doc};
}
const AttrSpec kAlpha = {"alpha", AttrKind::Float, false};

} // namespace

OpDef AbsDef() {
  return Unary("Abs", 13, EvaluateNumeric<AbsOp>, "|x|");
}
OpDef NegDef() {
  return Unary("Neg", 13, EvaluateNumeric<NegOp>, "-x");
}
OpDef SignDef() {
  return Unary("Sign", 13, EvaluateNumeric<SignOp>, "-1, 0 or 1");
}
OpDef ReluDef() {
  return Unary("Relu", 14, EvaluateNumeric<ReluOp>, "max(x, 0)");
}
OpDef FloorDef() {
  return Unary("Floor", 13, EvaluateFloor, "Greatest integer not above x.");
}
OpDef CeilDef() {
  return Unary("Ceil", 13, EvaluateCeil, "Least integer not below x.");
}
OpDef RoundDef() {
  return Unary("Round", 22, EvaluateRound, "Nearest integer, ties to even.");
}
OpDef SqrtDef() {
  return Unary("Sqrt", 13, EvaluateSqrt, "Square root; NaN below 0.");
}
OpDef ReciprocalDef() {
  return Unary("Reciprocal", 13, EvaluateReciprocal, "1 / x");
}
OpDef ExpDef() {
  return Unary("Exp", 13, EvaluateExp, "e^x");
}
OpDef LogDef() {
  return Unary("Log", 13, EvaluateLog, "Natural logarithm.");
}
OpDef SinDef() {
  return Unary("Sin", 22, EvaluateSin, "sin x");
}
OpDef CosDef() {
  return Unary("Cos", 22, EvaluateCos, "cos x");
}
OpDef TanDef() {
  return Unary("Tan", 22, EvaluateTan, "tan x");
}
OpDef AsinDef() {
  return Unary("Asin", 22, EvaluateAsin, "arcsin x");
}
OpDef AcosDef() {
  return Unary("Acos", 22, EvaluateAcos, "arccos x");
}
OpDef AtanDef() {
  return Unary("Atan", 22, EvaluateAtan, "arctan x");
}
OpDef SinhDef() {
  return Unary("Sinh", 22, EvaluateSinh, "sinh x");
}
OpDef CoshDef() {
  return Unary("Cosh", 22, EvaluateCosh, "cosh x");
}
OpDef TanhDef() {
  return Unary("Tanh", 13, EvaluateTanh, "tanh x");
}
OpDef AsinhDef() {
  return Unary("Asinh", 22, EvaluateAsinh, "arsinh x");
}
OpDef AcoshDef() {
  return Unary("Acosh", 22, EvaluateAcosh, "arcosh x");
}
OpDef AtanhDef() {
  return Unary("Atanh", 22, EvaluateAtanh, "artanh x");
}
OpDef ErfDef() {
  return Unary("Erf", 13, EvaluateErf, "Error function.");
}
OpDef SigmoidDef() {
  return Unary("Sigmoid", 13, EvaluateSigmoid, "1 / (1 + e^-x)");
}
OpDef HardSwishDef() {
  return Unary("HardSwish", 22, EvaluateHardSwish, "x * clip(x / 6 + 0.5, 0, 1)");
}
OpDef SoftplusDef() {
  return Unary("Softplus", 22, EvaluateSoftplus, "log(1 + e^x)");
}
OpDef SoftsignDef() {
  return Unary("Softsign", 22, EvaluateSoftsign, "x / (1 + |x|)");
}
OpDef MishDef() {
  return Unary("Mish", 22, EvaluateMish, "x * tanh(softplus(x))");
}
OpDef HardSigmoidDef() {
  return Unary("HardSigmoid", 22, EvaluateHardSigmoid, "clip(alpha * x + beta, 0, 1)", {kAlpha, FloatAttr("beta")});
}
OpDef LeakyReluDef() {
  return Unary("LeakyRelu", 16, EvaluateLeakyRelu, "x < 0 ? alpha * x : x", {kAlpha});
}
OpDef EluDef() {
  return Unary("Elu", 22, EvaluateElu, "x < 0 ? alpha * (e^x - 1) : x", {kAlpha});
}
OpDef SeluDef() {
  return Unary("Selu", 22, EvaluateSelu, "gamma * (x > 0 ? x : alpha * (e^x - 1))", {kAlpha, FloatAttr("gamma")});
}
OpDef CeluDef() {
  return Unary("Celu", 12, EvaluateCelu, "x < 0 ? alpha * (e^(x/alpha) - 1) : x", {kAlpha});
}
OpDef ThresholdedReluDef() {
  return Unary("ThresholdedRelu", 22, EvaluateThresholdedRelu, "x > alpha ? x : 0", {kAlpha});
}
OpDef SwishDef() {
  return Unary("Swish", 24, EvaluateSwish, "x * sigmoid(alpha * x)", {kAlpha});
}
OpDef SwiGLUDef() {
  OpDef d = Unary("SwiGLU", 27, EvaluateSwiGlu, "a * sigmoid(alpha * a) * b", {kAlpha});
  d.min_operands = d.max_operands = 2;
  d.infer = InferSwiGlu;
  return d;
}
OpDef ShrinkDef() {
  return Unary("Shrink", 9, EvaluateShrink, "x < -lambd ? x + bias : x > lambd ? x - bias : 0",
               {FloatAttr("lambd"), FloatAttr("bias")});
}
OpDef GeluDef() {
  return Unary("Gelu", 20, EvaluateGelu, "x / 2 * (1 + erf(x / sqrt 2)), or its tanh form",
               {StringAttr("approximate")});
}
OpDef PReluDef() {
  OpDef d = Unary("PRelu", 16, EvaluatePRelu, "x < 0 ? slope * x : x, slope broadcast to x");
  d.min_operands = d.max_operands = 2;
  d.infer = InferPRelu;
  return d;
}
OpDef ClipDef() {
  OpDef d = Unary("Clip", 13, EvaluateClip, "x held in [min, max]");
  d.max_operands = 3;
  d.infer = InferClip;
  return d;
}
OpDef MsGeluDef() {
  return Unary("Gelu", 1, EvaluateGeluErf, "x / 2 * (1 + erf(x / sqrt 2))", {}, "com.microsoft");
}
OpDef MsQuickGeluDef() {
  return Unary("QuickGelu", 1, EvaluateQuickGelu, "x * sigmoid(alpha * x)", {kAlpha}, "com.microsoft");
}
OpDef MsFastGeluDef() {
  OpDef d = Unary("FastGelu", 1, EvaluateFastGelu, "The tanh form of Gelu of x + bias.", {}, "com.microsoft");
  d.max_operands = 2;
  return d;
}
OpDef MsBiasGeluDef() {
  OpDef d = Unary("BiasGelu", 1, EvaluateBiasGelu, "Gelu of x + bias.", {}, "com.microsoft");
  d.min_operands = d.max_operands = 2;
  return d;
}

} // namespace npuc::ops
