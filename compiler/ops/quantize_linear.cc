// QuantizeLinear, DequantizeLinear (per tensor, per axis, in blocks; integers of 2 to 32 bits, float8, float4) and
// DynamicQuantizeLinear.
//
//   QuantizeLinear(x, s, z)   = clamp(round_half_even(x / s) + z); float targets: the nearest code of x / s
//   DequantizeLinear(q, s, z) = f32(q - z) * s
//
// All in f32, rounded once to a narrower result.
#include "compiler/ops/convert.h"
#include "compiler/ops/op_helpers.h"
#include "compiler/ops/quant_eval.h"

namespace npuc::ops {
namespace {

// Which scale belongs to which element (o, c, i) around the axis: 0, c, or (o, c / block, i).
struct ScaleMap {
  enum class Kind : uint8_t { Tensor, Axis, Blocks } kind = Kind::Tensor;
  int64_t outer = 1, n = 1, inner = 1; // of x around the axis
  int64_t block = 1, blocks = 1;
};

StatusOr<ScaleMap> MapScales(const AttributeList &attrs, llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> scale) {
  ScaleMap m;
  const int64_t block = attrs.Int("block_size", 0);
  if (NumElements(scale) == 1 && block == 0) {
    m.inner = NumElements(x);
    return m;
  }
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.Int("axis", 1), static_cast<int>(x.size())));
  const AxisSplit split(x, axis);
  m.outer = split.outer;
  m.n = split.n;
  m.inner = split.inner;
  if (block == 0) {
    if (scale.size() != 1 || scale[0] != split.n)
      return ShapeError(fmt::format("the scale has shape {}; x {} needs a scalar or [{}] along axis {}",
                                    ToString(scale), ToString(x), split.n, axis));
    m.kind = ScaleMap::Kind::Axis;
    return m;
  }
  if (block < 0)
    return AttrError(fmt::format("block_size {} must be positive", block));
  Dims want(x.begin(), x.end());
  want[axis] = (split.n + block - 1) / block;
  if (llvm::ArrayRef<int64_t>(want) != scale)
    return ShapeError(fmt::format("the scale has shape {}; x {} in blocks of {} along axis {} needs {}",
                                  ToString(scale), ToString(x), block, axis, ToString(want)));
  m.kind = ScaleMap::Kind::Blocks;
  m.block = block;
  m.blocks = want[axis];
  return m;
}

// f(first element, count, scale number) for runs of elements with one scale, in order.
template <class F> void ForEachRun(const ScaleMap &m, F &&f) {
  if (m.kind == ScaleMap::Kind::Tensor) {
    f(0, m.outer * m.n * m.inner, 0);
    return;
  }
  const bool by_block = m.kind == ScaleMap::Kind::Blocks;
  for (int64_t o = 0; o < m.outer; ++o)
    for (int64_t c = 0; c < m.n; ++c) {
      const int64_t at = (o * m.n + c) * m.inner;
      if (!by_block)
        f(at, m.inner, c);
      else
        for (int64_t i = 0; i < m.inner; ++i)
          f(at + i, 1, (o * m.blocks + c / m.block) * m.inner + i);
    }
}

Status CheckZero(EvalContext &ctx) {
  if (ctx.has_operand(2) && ctx.operand(2).num_elements() != ctx.operand(1).num_elements())
    return ShapeError(fmt::format("the zero point has shape {}, the scale {}", ToString(ctx.operand(2).dims()),
                                  ToString(ctx.operand(1).dims())));
  return OkStatus();
}

StatusOr<DType> OutputDType(const AttributeList &attrs) {
  const int64_t t = attrs.Int("output_dtype", 0);
  if (t < 0 || t >= kNumDTypes)
    return AttrError(fmt::format("output_dtype {} is not the code of an element type", t));
  return static_cast<DType>(t);
}

// ---- QuantizeLinear

Status InferQuantizeLinear(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(DType t, OutputDType(ctx.attrs()));
  if (const DType zero = DTypeOfOperand(ctx, 2); zero != DType::Undefined) {
    if (t != DType::Undefined && t != zero)
      return Error("E0302", fmt::format("output_dtype is {}, the zero point is {}", OnnxName(t), OnnxName(zero)));
    t = zero;
  }
  if (t == DType::Undefined && ctx.has_operand(2))
    return OkStatus(); // the zero point's type is not known yet
  SetTensor(ctx, 0, t == DType::Undefined ? DType::U8 : t, ShapeOf(ctx, 0));
  return OkStatus();
}

Status EvaluateQuantizeLinear(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_RETURN_IF_ERROR(CheckZero(ctx));
  NPUC_ASSIGN_OR_RETURN(DType to, OutputDType(ctx.attrs()));
  if (ctx.has_operand(2))
    to = ctx.operand(2).dtype();
  if (to == DType::Undefined)
    to = DType::U8;
  NPUC_ASSIGN_OR_RETURN(const ScaleMap map, MapScales(ctx.attrs(), x.dims(), ctx.operand(1).dims()));
  const FloatView v(x), s(ctx.operand(1));
  if (IsFloat(
          to)) { // float8 and float4: zero points are 0 by definition; adding 0 makes -0 a +0, as ONNX's tests have it
    Tensor scaled = Tensor::Allocate(DType::F32, x.dims());
    float *o = scaled.mutable_data<float>();
    const float *in = v.data();
    ForEachRun(map, [&](int64_t at, int64_t n, int64_t k) {
      for (int64_t i = at; i < at + n; ++i)
        o[i] = in[i] / s[k] + 0.0f;
    });
    ctx.set_result(0, ConvertTensor(scaled, to, ctx.attrs().Int("saturate", 1) != 0));
    return OkStatus();
  }
  std::vector<int32_t> zero(s.size(), 0);
  if (ctx.has_operand(2))
    for (int64_t i = 0; i < s.size(); ++i)
      zero[i] = static_cast<int32_t>(ctx.operand(2).AsInt(i));
  Tensor y = Tensor::Allocate(to, x.dims());
  const QuantRange range = QuantRangeOf(to);
  NPUC_RETURN_IF_ERROR(DispatchInt(to, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    T *o = y.template mutable_data<T>();
    const float *in = v.data();
    ForEachRun(map, [&](int64_t at, int64_t n, int64_t k) {
      const float scale = s[k];
      const int32_t z = zero[k];
      for (int64_t i = at; i < at + n; ++i)
        o[i] = static_cast<T>(QuantizeValue(in[i], scale, z, range));
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// ---- DequantizeLinear

Status InferDequantizeLinear(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(DType t, OutputDType(ctx.attrs()));
  if (t == DType::Undefined)
    t = DTypeOfOperand(ctx, 1);
  if (ctx.has_operand(2)) {
    const DType x = DTypeOfOperand(ctx, 0), z = DTypeOfOperand(ctx, 2);
    if (x != DType::Undefined && z != DType::Undefined && x != z)
      return Error("E0302", fmt::format("x is {}, its zero point {}; they must have one element type", OnnxName(x),
                                        OnnxName(z)));
  }
  SetTensor(ctx, 0, t, ShapeOf(ctx, 0));
  return OkStatus();
}

Status EvaluateDequantizeLinear(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_RETURN_IF_ERROR(CheckZero(ctx));
  NPUC_ASSIGN_OR_RETURN(DType to, OutputDType(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(const ScaleMap map, MapScales(ctx.attrs(), x.dims(), ctx.operand(1).dims()));
  const FloatView s(ctx.operand(1));
  Tensor y = Tensor::Allocate(DType::F32, x.dims());
  float *o = y.mutable_data<float>();
  if (IsFloat(x.dtype())) {
    const FloatView v(x);
    const float *in = v.data();
    ForEachRun(map, [&](int64_t at, int64_t n, int64_t k) {
      for (int64_t i = at; i < at + n; ++i)
        o[i] = in[i] * s[k];
    });
  } else {
    std::vector<int64_t> zero(s.size(), 0);
    if (ctx.has_operand(2))
      for (int64_t i = 0; i < s.size(); ++i)
        zero[i] = ctx.operand(2).AsInt(i);
    NPUC_RETURN_IF_ERROR(DispatchInt(x.dtype(), [&](auto tag) {
      using T = TypeOf<decltype(tag)>;
      const T *q = x.data<T>();
      using D = std::conditional_t<sizeof(T) <= 2, int32_t, int64_t>; // q - z fits
      ForEachRun(map, [&](int64_t at, int64_t n, int64_t k) {
        const float scale = s[k];
        const D z = static_cast<D>(zero[k]);
        for (int64_t i = at; i < at + n; ++i)
          o[i] = static_cast<float>(static_cast<D>(q[i]) - z) * scale;
      });
      return OkStatus();
    }));
  }
  if (to == DType::Undefined && IsFloat(ctx.operand(1).dtype()) && ctx.operand(1).dtype() != DType::F32)
    to = ctx.operand(1).dtype();
  ctx.set_result(0, to == DType::Undefined || to == DType::F32 ? y : ConvertTensor(y, to));
  return OkStatus();
}

// ---- DynamicQuantizeLinear: y (u8), y_scale, y_zero_point over the range of x and 0.

Status InferDynamic(InferContext &ctx) {
  SetTensor(ctx, 0, DType::U8, ShapeOf(ctx, 0));
  SetTensor(ctx, 1, DType::F32, Shape());
  SetTensor(ctx, 2, DType::U8, Shape());
  return OkStatus();
}

Status EvaluateDynamic(EvalContext &ctx) {
  const FloatView x(ctx.operand(0));
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  const float scale = hi == lo ? 1.0f : (hi - lo) / 255.0f;
  const QuantRange range = QuantRangeOf(DType::U8);
  const int32_t zero = RoundAndClamp(0.0f - lo / scale, 0, range);
  Tensor z = Tensor::Allocate(DType::U8, {});
  z.mutable_bytes()[0] = static_cast<uint8_t>(zero);
  Tensor y = Tensor::Allocate(DType::U8, ctx.operand(0).dims());
  for (int64_t i = 0; i < x.size(); ++i)
    y.mutable_bytes()[i] = static_cast<uint8_t>(QuantizeValue(x[i], scale, zero, range));
  ctx.set_result(0, std::move(y));
  ctx.set_result(1, Tensor::ScalarF32(scale));
  ctx.set_result(2, std::move(z));
  return OkStatus();
}

} // namespace

OpDef QuantizeLinearDef() {
  return {.domain = "",
          .name = "QuantizeLinear",
          .since_version = 25,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {IntAttr("axis"), IntAttr("block_size"), IntAttr("output_dtype"), IntAttr("precision"),
                    IntAttr("saturate")},
          .infer = InferQuantizeLinear,
          .evaluate = EvaluateQuantizeLinear,
          .doc = "clamp(round_half_even(x / scale) + zero_point)"};
}
OpDef DequantizeLinearDef() {
  return {.domain = "",
          .name = "DequantizeLinear",
          .since_version = 25,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {IntAttr("axis"), IntAttr("block_size"), IntAttr("output_dtype")},
          .infer = InferDequantizeLinear,
          .evaluate = EvaluateDequantizeLinear,
          .doc = "(x - zero_point) * scale"};
}
OpDef DynamicQuantizeLinearDef() {
  return {.domain = "",
          .name = "DynamicQuantizeLinear",
          .since_version = 11,
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 3,
          .max_results = 3,
          .infer = InferDynamic,
          .evaluate = EvaluateDynamic,
          .doc = "Quantises to uint8 over the range of the data and 0."};
}

} // namespace npuc::ops
