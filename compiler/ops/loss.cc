// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
//
//   nll(x [N,C,d..], target [N,d..], weight [C]):  l = -weight[t] * x[n,t,d]; 0 where t = ignore_index
//   reduction: none, sum, or mean = sum(l) / sum(weight[t] of those not ignored)
//   sce(scores, labels, weight) = nll(log_softmax(scores), ...); the logarithms are a second result.
#include "compiler/ops/op_helpers.h"
#include "compiler/ops/reduce_math.h"
#include "compiler/ops/scalar_math.h"

namespace npuc::ops {
namespace {

Status InferLoss(InferContext &ctx) {
  const DType t = DTypeOfOperand(ctx, 0);
  const std::string_view reduction = ctx.attrs().String("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return AttrError(fmt::format("reduction '{}' is not none, sum or mean", reduction));
  SetTensor(ctx, 0, t, reduction == "none" ? ShapeOf(ctx, 1) : Shape());
  if (ctx.num_results() > 1)
    SetTensor(ctx, 1, t, ShapeOf(ctx, 0));
  return OkStatus();
}

Status Loss(EvalContext &ctx, const Tensor &x) {
  const Tensor &target = ctx.operand(1);
  if (x.rank() < 2 || target.num_elements() * x.dims()[1] != x.num_elements())
    return ShapeError(
        fmt::format("the target {} does not fit the scores {}", ToString(target.dims()), ToString(x.dims())));
  const AxisSplit s(x.dims(), 1);
  const bool has_ignored = ctx.attrs().Has("ignore_index");
  const int64_t ignored = ctx.attrs().Int("ignore_index", 0);
  const std::string_view reduction = ctx.attrs().String("reduction", "mean");
  if (ctx.has_operand(2) && ctx.operand(2).num_elements() != s.n)
    return ShapeError(fmt::format("weight {} must be [{}]", ToString(ctx.operand(2).dims()), s.n));
  const int64_t n = target.num_elements();
  Tensor loss = Tensor::Allocate(x.dtype(), target.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    std::vector<T> weight(n, T(0));
    T *out = loss.template mutable_data<T>();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t t = target.AsInt(i);
      if (has_ignored && t == ignored)
        continue;
      if (t < 0 || t >= s.n)
        return Error("E0703", fmt::format("class {} is not in [0, {})", t, s.n));
      weight[i] = ctx.has_operand(2) ? ctx.operand(2).data<T>()[t] : T(1);
      out[i] = -x.data<T>()[(i / s.inner * s.n + t) * s.inner + i % s.inner] * weight[i];
    }
    if (reduction == "none") {
      ctx.set_result(0, loss);
      return OkStatus();
    }
    T sum = SumOf<T>(n, [&](int64_t i) { return out[i]; });
    if (reduction == "mean")
      sum /= SumOf<T>(n, [&](int64_t i) { return weight[i]; });
    Tensor y = Tensor::Allocate(x.dtype(), {});
    y.template mutable_data<T>()[0] = sum;
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status EvaluateNll(EvalContext &ctx) {
  return Loss(ctx, ctx.operand(0));
}

Status EvaluateSce(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (x.rank() < 2)
    return ShapeError(fmt::format("scores {} must have a class axis", ToString(x.dims())));
  const AxisSplit s(x.dims(), 1);
  Tensor log = Tensor::Allocate(x.dtype(), x.dims());
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t k = 0; k < s.outer * s.inner; ++k) {
      const int64_t base = k / s.inner * s.n * s.inner + k % s.inner;
      const T *from = x.data<T>() + base;
      T top = -std::numeric_limits<T>::infinity();
      for (int64_t i = 0; i < s.n; ++i)
        top = scalar::Max(top, from[i * s.inner]);
      const T sum = fpmath::Log(SumOf<T>(s.n, [&](int64_t i) { return fpmath::Exp(from[i * s.inner] - top); }));
      for (int64_t i = 0; i < s.n; ++i)
        log.template mutable_data<T>()[base + i * s.inner] = (from[i * s.inner] - top) - sum;
    }
    return OkStatus();
  }));
  NPUC_RETURN_IF_ERROR(Loss(ctx, log));
  ctx.set_result(1, std::move(log));
  return OkStatus();
}

} // namespace

OpDef NegativeLogLikelihoodLossDef() {
  return {.domain = "",
          .name = "NegativeLogLikelihoodLoss",
          .since_version = 22,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {IntAttr("ignore_index"), StringAttr("reduction")},
          .infer = InferLoss,
          .evaluate = EvaluateNll,
          .doc = "Negative log-likelihood loss."};
}
OpDef SoftmaxCrossEntropyLossDef() {
  return {.domain = "",
          .name = "SoftmaxCrossEntropyLoss",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 3,
          .max_results = 2,
          .attrs = {IntAttr("ignore_index"), StringAttr("reduction")},
          .infer = InferLoss,
          .evaluate = EvaluateSce,
          .doc = "Cross entropy of softmax scores."};
}

} // namespace npuc::ops
