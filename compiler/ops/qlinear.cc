// com.microsoft's quantised elementwise operators with scales and zero points as operands: QLinearAdd, QLinearMul,
// QLinearLeakyRelu, QLinearSigmoid, QLinearConcat. Each dequantises, computes in f32 and quantises once.
#include "compiler/ops/broadcast.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/ops/scalar_math.h"

namespace npuc::ops {
namespace {

// Scale at operand s, zero point at operand s + 1 (absent: 0).
StatusOr<QuantParams> ParamsAt(EvalContext &ctx, int s) {
  if (ctx.operand(s).num_elements() != 1)
    return ShapeError(
        fmt::format("operand {} (a scale) has shape {}; it must be a scalar", s, ToString(ctx.operand(s).dims())));
  const int32_t z = ctx.has_operand(s + 1) ? static_cast<int32_t>(ctx.operand(s + 1).AsInt(0)) : 0;
  return QuantParams{{FloatView(ctx.operand(s))[0]}, {z}, -1};
}

// a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero
template <class Op> Status EvaluateBinary(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const QuantParams qa, ParamsAt(ctx, 1));
  NPUC_ASSIGN_OR_RETURN(const QuantParams qb, ParamsAt(ctx, 4));
  NPUC_ASSIGN_OR_RETURN(const QuantParams qc, ParamsAt(ctx, 6));
  NPUC_ASSIGN_OR_RETURN(const Tensor c,
                        (BinaryMap<float, float, float>(DequantizeTensor(ctx.operand(0), qa),
                                                        DequantizeTensor(ctx.operand(3), qb), DType::F32, Op())));
  ctx.set_result(0, QuantizeTensor(c, ctx.operand(0).dtype(), qc));
  return OkStatus();
}
struct AddF {
  float operator()(float a, float b) const { return a + b; }
};
struct MulF {
  float operator()(float a, float b) const { return a * b; }
};

Status InferBinary(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Shape s, BroadcastOperands(ctx, {0, 3}));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}

// x, x_scale, x_zero, y_scale, y_zero
template <class F> Status EvaluateUnary(EvalContext &ctx, F f) {
  NPUC_ASSIGN_OR_RETURN(const QuantParams qx, ParamsAt(ctx, 1));
  NPUC_ASSIGN_OR_RETURN(const QuantParams qy, ParamsAt(ctx, 3));
  const Tensor y = UnaryMap<float, float>(DequantizeTensor(ctx.operand(0), qx), DType::F32, f);
  ctx.set_result(0, QuantizeTensor(y, ctx.operand(0).dtype(), qy));
  return OkStatus();
}
Status EvaluateLeakyRelu(EvalContext &ctx) {
  const float alpha = ctx.attrs().Float("alpha", 0.01f);
  return EvaluateUnary(ctx, [alpha](float x) { return scalar::LeakyRelu(x, alpha); });
}
Status EvaluateSigmoid(EvalContext &ctx) {
  return EvaluateUnary(ctx, [](float x) { return fpmath::Sigmoid(x); });
}

// y_scale, y_zero, then (x, scale, zero) for each piece.
Status InferConcat(InferContext &ctx) {
  if (ctx.num_operands() < 5 || (ctx.num_operands() - 2) % 3 != 0)
    return AttrError(fmt::format("{} operands; two and three for each tensor are needed", ctx.num_operands()));
  Shape out = Shape::Unranked();
  for (int i = 2; i < ctx.num_operands(); i += 3) {
    const Shape s = ShapeOf(ctx, i);
    if (!s.ranked())
      continue;
    NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), s.rank()));
    if (!out.ranked()) {
      out = s;
      if (i > 2)
        out[axis] = Dim::Unknown();
      continue;
    }
    if (s.rank() != out.rank())
      return ShapeError(fmt::format("pieces {} and {} have different ranks", out.ToString(), s.ToString()));
    for (int d = 0; d < s.rank(); ++d)
      if (d == axis)
        out[d] = out[d].is_static() && s[d].is_static() ? Dim(out[d].value() + s[d].value()) : Dim::Unknown();
      else {
        NPUC_ASSIGN_OR_RETURN(out[d], MergeDim(out[d], s[d], fmt::format("pieces differ along axis {}", d)));
      }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 1), std::move(out));
  return OkStatus();
}

Status EvaluateConcat(EvalContext &ctx) {
  if (ctx.num_operands() < 5 || (ctx.num_operands() - 2) % 3 != 0)
    return AttrError(fmt::format("{} operands; two and three for each tensor are needed", ctx.num_operands()));
  NPUC_ASSIGN_OR_RETURN(const QuantParams qy, ParamsAt(ctx, 0));
  const Tensor &first = ctx.operand(2);
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), first.rank()));
  Dims dims(first.dims().begin(), first.dims().end());
  for (int i = 5; i < ctx.num_operands(); i += 3) {
    const llvm::ArrayRef<int64_t> d = ctx.operand(i).dims();
    bool fits = d.size() == dims.size();
    for (size_t k = 0; fits && k < d.size(); ++k)
      fits = static_cast<int>(k) == axis || d[k] == dims[k];
    if (!fits)
      return ShapeError(
          fmt::format("pieces {} and {} do not fit along axis {}", ToString(first.dims()), ToString(d), axis));
    dims[axis] += d[axis];
  }
  const DType dtype = ctx.has_operand(1) ? ctx.operand(1).dtype() : first.dtype();
  Tensor y = Tensor::Allocate(dtype, dims);
  const AxisSplit whole(dims, axis);
  int64_t at = 0;
  for (int i = 2; i < ctx.num_operands(); i += 3) {
    NPUC_ASSIGN_OR_RETURN(const QuantParams qx, ParamsAt(ctx, i + 1));
    const Tensor &x = ctx.operand(i);
    // Equal parameters: the bits are copied, as everywhere.
    const Tensor q = qx == qy && x.dtype() == dtype ? x : QuantizeTensor(DequantizeTensor(x, qx), dtype, qy);
    const AxisSplit s(x.dims(), axis);
    const int64_t row = s.n * s.inner * ByteSize(dtype);
    for (int64_t o = 0; o < s.outer; ++o)
      if (row > 0)
        std::memcpy(y.mutable_bytes() + (o * whole.n + at) * whole.inner * ByteSize(dtype), q.bytes() + o * row, row);
    at += s.n;
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

OpDef Make(std::string_view name, int min, int max, std::vector<AttrSpec> attrs, Status (*infer)(InferContext &),
           Status (*evaluate)(EvalContext &), std::string_view doc) {
  return {.domain = "com.microsoft",
          .name = name,
          .min_operands = min,
          .max_operands = max,
          .attrs = std::move(attrs),
          .infer = infer,
          .evaluate = evaluate,
          .doc = doc};
}

} // namespace

OpDef MsQLinearAddDef() {
  return Make("QLinearAdd", 7, 8, {}, InferBinary, EvaluateBinary<AddF>, "Quantised a + b.");
}
OpDef MsQLinearMulDef() {
  return Make("QLinearMul", 7, 8, {}, InferBinary, EvaluateBinary<MulF>, "Quantised a * b.");
}
OpDef MsQLinearLeakyReluDef() {
  return Make("QLinearLeakyRelu", 4, 5, {FloatAttr("alpha")}, SameTypeAsOperand, EvaluateLeakyRelu,
              "Quantised LeakyRelu.");
}
OpDef MsQLinearSigmoidDef() {
  return Make("QLinearSigmoid", 4, 5, {}, SameTypeAsOperand, EvaluateSigmoid, "Quantised Sigmoid.");
}
OpDef MsQLinearConcatDef() {
  return Make("QLinearConcat", 5, -1, {IntAttr("axis", true)}, InferConcat, EvaluateConcat, "Quantised Concat.");
}

} // namespace npuc::ops
