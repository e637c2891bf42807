// Softmax, LogSoftmax and Hardmax along one axis (opset 13's meaning), and com.microsoft.QLinearSoftmax.
//
//   e_i = exp(x_i - max x); Softmax: e_i / sum e; LogSoftmax: (x_i - max x) - log(sum e)
//
// The sum is reduce_math.h's. Hardmax: 1 at the first maximum, else 0.
#include <limits>

#include "compiler/ops/op_helpers.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/ops/reduce_math.h"
#include "compiler/ops/scalar_math.h"
#include "compiler/support/fpmath_array.h"

namespace npuc::ops {
namespace {

Status InferSoftmax(InferContext &ctx) {
  if (const Shape s = ShapeOf(ctx, 0); s.ranked() && s.rank() > 0)
    NPUC_RETURN_IF_ERROR(NormalizeAxis(ctx.attrs().Int("axis", -1), s.rank()).status());
  return SameTypeAsOperand(ctx);
}

struct SoftmaxRow {
  template <class T> static void Run(const T *x, T *y, int64_t n, int64_t stride) {
    T m = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < n; ++i)
      m = scalar::Max(m, x[i * stride]);
    T sum;
    if (std::is_same_v<T, float> && stride == 1) { // the same bits, vectorised
      for (int64_t i = 0; i < n; ++i)
        y[i] = x[i] - m;
      fpmath::Map(fpmath::Unary::Exp, reinterpret_cast<float *>(y), reinterpret_cast<float *>(y),
                  static_cast<size_t>(n));
      sum = SumOf<T>(n, [&](int64_t i) { return y[i]; });
    } else {
      sum = SumOf<T>(n, [&](int64_t i) { return y[i * stride] = fpmath::Exp(x[i * stride] - m); });
    }
    for (int64_t i = 0; i < n; ++i)
      y[i * stride] /= sum;
  }
};
struct LogSoftmaxRow {
  template <class T> static void Run(const T *x, T *y, int64_t n, int64_t stride) {
    T m = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < n; ++i)
      m = scalar::Max(m, x[i * stride]);
    const T log = fpmath::Log(SumOf<T>(n, [&](int64_t i) { return fpmath::Exp(x[i * stride] - m); }));
    for (int64_t i = 0; i < n; ++i)
      y[i * stride] = (x[i * stride] - m) - log;
  }
};
struct HardmaxRow {
  template <class T> static void Run(const T *x, T *y, int64_t n, int64_t stride) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i)
      if (x[i * stride] > x[best * stride])
        best = i;
    for (int64_t i = 0; i < n; ++i)
      y[i * stride] = i == best ? T(1) : T(0);
  }
};

template <class Row> StatusOr<Tensor> AlongAxis(const Tensor &x, int64_t axis_attr, ThreadPool *pool) {
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  int64_t outer = 1, n = 1, inner = 1;
  if (x.rank() > 0) {
    NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_attr, x.rank()));
    const AxisSplit s(x.dims(), axis);
    outer = s.outer;
    n = s.n;
    inner = s.inner;
  }
  if (n == 0)
    return y;
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ParallelFor(pool, outer * inner, 16, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = k / inner * n * inner + k % inner;
        Row::template Run<T>(x.data<T>() + at, y.template mutable_data<T>() + at, n, inner);
      }
    });
    return OkStatus();
  }));
  return y;
}

template <class Row> Status Evaluate(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Tensor y, AlongAxis<Row>(ctx.operand(0), ctx.attrs().Int("axis", -1), ctx.threads()));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// QLinearSoftmax(x, x_scale, x_zero, y_scale, y_zero), attributes axis and opset: below 13 the axes from `axis` on
// count as one.
Status EvaluateQLinearSoftmax(EvalContext &ctx) {
  const Tensor &q = ctx.operand(0);
  const int32_t zx = ctx.has_operand(2) ? static_cast<int32_t>(ctx.operand(2).AsInt(0)) : 0;
  const int32_t zy = ctx.has_operand(4) ? static_cast<int32_t>(ctx.operand(4).AsInt(0)) : 0;
  Tensor x = DequantizeTensor(q, QuantParams{{FloatView(ctx.operand(1))[0]}, {zx}, -1});
  int64_t axis = ctx.attrs().Int("axis", -1);
  if (ctx.attrs().Int("opset", 13) < 13 && q.rank() > 0) {
    NPUC_ASSIGN_OR_RETURN(const int a, NormalizeAxis(axis, q.rank()));
    const int64_t inner = NumElements(q.dims().drop_front(a)), outer = NumElements(q.dims().take_front(a));
    x = x.Reshaped({outer, inner});
    axis = 1;
  }
  NPUC_ASSIGN_OR_RETURN(Tensor y, AlongAxis<SoftmaxRow>(x, axis, ctx.threads()));
  y = QuantizeTensor(y, q.dtype(), QuantParams{{FloatView(ctx.operand(3))[0]}, {zy}, -1});
  ctx.set_result(0, y.Reshaped(q.dims()));
  return OkStatus();
}

OpDef Axis(std::string_view name, Status (*evaluate)(EvalContext &), std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("axis")},
          .infer = InferSoftmax,
          .evaluate = evaluate,
          .doc = doc};
}

} // namespace

OpDef SoftmaxDef() {
  return Axis("Softmax", Evaluate<SoftmaxRow>, "exp(x) over its sum along an axis.");
}
OpDef LogSoftmaxDef() {
  return Axis("LogSoftmax", Evaluate<LogSoftmaxRow>, "Logarithm of Softmax.");
}
OpDef HardmaxDef() {
  return Axis("Hardmax", Evaluate<HardmaxRow>, "1 at the first maximum along an axis, else 0.");
}
OpDef MsQLinearSoftmaxDef() {
  return {.domain = "com.microsoft",
          .name = "QLinearSoftmax",
          .min_operands = 4,
          .max_operands = 5,
          .attrs = {IntAttr("axis"), IntAttr("opset")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateQLinearSoftmax,
          .doc = "Quantised Softmax."};
}

} // namespace npuc::ops
