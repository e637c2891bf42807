// Max, Min, Sum, Mean of one or more operands with numpy broadcasting, from left to right. Max and Min propagate NaN;
// on quantised operands of equal parameters they stay integers.
#include "compiler/ops/broadcast.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/ops/scalar_math.h"

namespace npuc::ops {
namespace {

struct MaxOp {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return scalar::Max(a, b);
    else
      return a < b ? b : a;
  }
};
struct MinOp {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return scalar::Min(a, b);
    else
      return b < a ? b : a;
  }
};
struct SumOp {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

template <class Op> Status Fold(EvalContext &ctx) {
  Tensor acc = ctx.operand(0);
  for (int i = 1; i < ctx.num_operands(); ++i) {
    const Tensor &next = ctx.operand(i);
    if (next.dtype() != acc.dtype())
      return Error("E0302", fmt::format("the operands are {} and {}; they must have one element type",
                                        OnnxName(acc.dtype()), OnnxName(next.dtype())));
    NPUC_RETURN_IF_ERROR(DispatchNumeric(acc.dtype(), [&](auto tag) -> Status {
      using T = TypeOf<decltype(tag)>;
      NPUC_ASSIGN_OR_RETURN(acc, (BinaryMap<T, T, T>(acc, next, acc.dtype(), Op())));
      return OkStatus();
    }));
  }
  ctx.set_result(0, std::move(acc));
  return OkStatus();
}

template <class Op> Status FoldQuantized(EvalContext &ctx) {
  return SameQuantThroughout(ctx, ctx.num_operands(), 1) ? Fold<Op>(ctx) : EvaluateByDequantizing(ctx);
}

Status EvaluateMean(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(Fold<SumOp>(ctx));
  const Tensor sum = *ctx.results()[0].tensor();
  const int n = ctx.num_operands();
  return DispatchFloat(sum.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ctx.set_result(0, UnaryMap<T, T>(sum, sum.dtype(), [n](T v) { return v / static_cast<T>(n); }));
    return OkStatus();
  });
}

Status Infer(InferContext &ctx) {
  return BroadcastInfer(ctx);
}

// Exchanging float terms of a sum of three changes its last bits, so Sum and Mean are not commutative here.
OpDef Variadic(std::string_view name, uint32_t traits, Status (*evaluate)(EvalContext &),
               Status (*quantized)(EvalContext &), std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since_version = 13,
          .min_operands = 1,
          .max_operands = -1,
          .traits = kPure | kElementwise | traits,
          .infer = Infer,
          .evaluate = evaluate,
          .evaluate_quantized = quantized,
          .doc = doc};
}

} // namespace

OpDef MaxDef() {
  return Variadic("Max", kCommutative, Fold<MaxOp>, FoldQuantized<MaxOp>, "Greatest of the operands.");
}
OpDef MinDef() {
  return Variadic("Min", kCommutative, Fold<MinOp>, FoldQuantized<MinOp>, "Least of the operands.");
}
OpDef SumDef() {
  return Variadic("Sum", 0, Fold<SumOp>, nullptr, "Sum of the operands.");
}
OpDef MeanDef() {
  return Variadic("Mean", 0, EvaluateMean, nullptr, "Mean of the operands.");
}

} // namespace npuc::ops
