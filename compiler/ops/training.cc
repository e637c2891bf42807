// ai.onnx.preview.training: Adagrad, Adam, Momentum. Optimiser steps on any number of tensors: R, T, X1..Xn, G1..Gn and
// one or two states each; results X1..Xn, then the states. Formulas: ONNX's operator pages.
#include <cmath>

#include "compiler/ops/movement.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

// Tensors of the operand groups behind R and T.
StatusOr<int> Count(int operands, int groups) {
  if (operands < 2 + groups || (operands - 2) % groups)
    return AttrError(fmt::format("{} operands are not R, T and groups of {}", operands, groups));
  return (operands - 2) / groups;
}

template <int Groups> Status InferOptimizer(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(int n, Count(ctx.num_operands(), Groups));
  // X, then the states; the gradients (second group) have no result.
  for (int i = 0; i < n; ++i)
    for (int g = 0; g < Groups - 1; ++g) {
      const int operand = 2 + (g == 0 ? 0 : g + 1) * n + i;
      SetTensor(ctx, g * n + i, DTypeOfOperand(ctx, operand), ShapeOf(ctx, operand));
    }
  return OkStatus();
}

// step(x, g, s0, s1) updates one element.
template <int Groups, class Step> Status Run(EvalContext &ctx, Step step) {
  NPUC_ASSIGN_OR_RETURN(int n, Count(ctx.num_operands(), Groups));
  for (int i = 0; i < n; ++i) {
    const Tensor &x = ctx.operand(2 + i);
    Tensor out[3] = {Tensor::Allocate(x.dtype(), x.dims()), Tensor::Allocate(x.dtype(), x.dims()),
                     Tensor::Allocate(x.dtype(), x.dims())};
    for (int g = 1; g < Groups; ++g)
      if (ctx.operand(2 + g * n + i).dims() != x.dims() || ctx.operand(2 + g * n + i).dtype() != x.dtype())
        return ShapeError("X, gradient and states differ");
    NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) -> Status {
      using T = TypeOf<decltype(tag)>;
      for (int64_t k = 0; k < x.num_elements(); ++k) {
        double v[4] = {};
        for (int g = 0; g < Groups; ++g)
          v[g] = static_cast<double>(ctx.operand(2 + g * n + i).data<T>()[k]);
        step(v[0], v[1], v[2], v[3]);
        out[0].mutable_data<T>()[k] = static_cast<T>(v[0]);
        out[1].mutable_data<T>()[k] = static_cast<T>(v[2]);
        out[2].mutable_data<T>()[k] = static_cast<T>(v[3]);
      }
      return OkStatus();
    }));
    for (int g = 0; g < Groups - 1; ++g)
      ctx.set_result(g * n + i, out[g]);
  }
  return OkStatus();
}

struct Rate {
  double r;
  int64_t t;
  explicit Rate(EvalContext &ctx) : r(ctx.operand(0).AsDouble(0)), t(ctx.operand(1).AsInt(0)) {}
};

Status EvaluateAdagrad(EvalContext &ctx) {
  const Rate rate(ctx);
  const AttributeList &a = ctx.attrs();
  const double r = rate.r / (1 + static_cast<double>(rate.t) * a.Float("decay_factor", 0)),
               epsilon = a.Float("epsilon", 1e-6f), norm = a.Float("norm_coefficient", 0);
  return Run<3>(ctx, [&](double &x, double g, double &h, double &) {
    g += norm * x;
    h += g * g;
    x -= r * g / (std::sqrt(h) + epsilon);
  });
}
Status EvaluateAdam(EvalContext &ctx) {
  const Rate rate(ctx);
  const AttributeList &a = ctx.attrs();
  const double alpha = a.Float("alpha", 0.9f), beta = a.Float("beta", 0.999f), epsilon = a.Float("epsilon", 1e-6f),
               norm = a.Float("norm_coefficient", 0), after = a.Float("norm_coefficient_post", 0);
  const double t = static_cast<double>(rate.t),
               r = rate.t > 0 ? rate.r * std::sqrt(1 - fpmath::Pow(beta, t)) / (1 - fpmath::Pow(alpha, t)) : rate.r;
  return Run<4>(ctx, [&](double &x, double g, double &v, double &h) {
    g += norm * x;
    v = alpha * v + (1 - alpha) * g;
    h = beta * h + (1 - beta) * g * g;
    x = (1 - after) * (x - r * v / (std::sqrt(h) + epsilon));
  });
}
Status EvaluateMomentum(EvalContext &ctx) {
  const Rate rate(ctx);
  const AttributeList &a = ctx.attrs();
  const double alpha = a.Float("alpha", 0), beta = rate.t > 0 ? a.Float("beta", 0) : 1,
               norm = a.Float("norm_coefficient", 0);
  const bool nesterov = a.String("mode", "standard") == "nesterov";
  return Run<3>(ctx, [&](double &x, double g, double &v, double &) {
    g += norm * x;
    v = alpha * v + beta * g;
    x -= rate.r * (nesterov ? g + alpha * v : v);
  });
}

OpDef Optimizer(std::string_view name, std::vector<AttrSpec> attrs, Status (*infer)(InferContext &),
                Status (*evaluate)(EvalContext &), std::string_view doc) {
  OpDef op;
  op.domain = "ai.onnx.preview.training";
  op.name = name;
  op.min_operands = 3;
  op.max_operands = -1;
  op.max_results = -1;
  op.attrs = std::move(attrs);
  op.infer = infer;
  op.evaluate = evaluate;
  op.doc = doc;
  return op;
}

} // namespace

OpDef TrainingAdagradDef() {
  return Optimizer("Adagrad", {FloatAttr("decay_factor"), FloatAttr("epsilon"), FloatAttr("norm_coefficient")},
                   InferOptimizer<3>, EvaluateAdagrad, "A step of Adagrad.");
}
OpDef TrainingAdamDef() {
  return Optimizer("Adam",
                   {FloatAttr("alpha"), FloatAttr("beta"), FloatAttr("epsilon"), FloatAttr("norm_coefficient"),
                    FloatAttr("norm_coefficient_post")},
                   InferOptimizer<4>, EvaluateAdam, "A step of Adam.");
}
OpDef TrainingMomentumDef() {
  return Optimizer("Momentum",
                   {FloatAttr("alpha", true), FloatAttr("beta", true), StringAttr("mode", true),
                    FloatAttr("norm_coefficient", true)},
                   InferOptimizer<3>, EvaluateMomentum, "A step of gradient descent with (Nesterov's) momentum.");
}

} // namespace npuc::ops
