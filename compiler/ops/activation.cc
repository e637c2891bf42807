// Activations by name.
#include "compiler/ops/activation.h"

#include "compiler/ops/broadcast.h"
#include "compiler/ops/scalar_math.h"

namespace npuc::ops {

float Activation::operator()(float x) const {
  switch (kind) {
  case Kind::None:
    return x;
  case Kind::Relu:
    return scalar::Relu(x);
  case Kind::LeakyRelu:
    return scalar::LeakyRelu(x, alpha);
  case Kind::ThresholdedRelu:
    return scalar::ThresholdedRelu(x, alpha);
  case Kind::Elu:
    return scalar::Elu(x, alpha);
  case Kind::Tanh:
    return fpmath::Tanh(x);
  case Kind::ScaledTanh:
    return alpha * fpmath::Tanh(beta * x);
  case Kind::Sigmoid:
    return fpmath::Sigmoid(x);
  case Kind::HardSigmoid:
    return scalar::HardSigmoid(x, alpha, beta);
  case Kind::Softsign:
    return scalar::Softsign(x);
  case Kind::Softplus:
    return fpmath::Softplus(x);
  case Kind::Affine:
    return alpha * x + beta;
  case Kind::Clip:
    return scalar::Clip(x, alpha, beta);
  }
  return x;
}

StatusOr<Activation> ParseActivation(std::string_view name, std::optional<float> alpha, std::optional<float> beta) {
  struct Row {
    std::string_view name;
    Activation::Kind kind;
    float alpha, beta;
  };
  using K = Activation::Kind;
  constexpr float kMax = std::numeric_limits<float>::max();
  static constexpr Row kRows[] = {
      {"", K::None, 0, 0},
      {"relu", K::Relu, 0, 0},
      {"leakyrelu", K::LeakyRelu, 0.01f, 0},
      {"thresholdedrelu", K::ThresholdedRelu, 1, 0},
      {"elu", K::Elu, 1, 0},
      {"tanh", K::Tanh, 0, 0},
      {"scaledtanh", K::ScaledTanh, 1, 1},
      {"sigmoid", K::Sigmoid, 0, 0},
      {"hardsigmoid", K::HardSigmoid, 0.2f, 0.5f},
      {"softsign", K::Softsign, 0, 0},
      {"softplus", K::Softplus, 0, 0},
      {"affine", K::Affine, 1, 0},
      {"clip", K::Clip, -kMax, kMax},
  };
  std::string lower;
  for (char c : name)
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  for (const Row &r : kRows)
    if (r.name == lower)
      return Activation{r.kind, alpha.value_or(r.alpha), beta.value_or(r.beta)};
  return AttrError(
      fmt::format("activation '{}' is not known", name),
      "allowed: Relu, LeakyRelu, ThresholdedRelu, Elu, Tanh, ScaledTanh, Sigmoid, HardSigmoid, Softsign, Softplus, "
      "Affine, Clip");
}

Status AddAndActivate(EvalContext &ctx, int z) {
  Tensor y = *ctx.results()[0].tensor();
  if (z >= 0 && ctx.has_operand(z)) {
    NPUC_ASSIGN_OR_RETURN(
        y, BinaryMap<float, float, float>(y, ctx.operand(z), DType::F32, [](float a, float b) { return a + b; }));
  }
  const llvm::ArrayRef<float> params = ctx.attrs().Floats("activation_params");
  std::optional<float> alpha, beta;
  if (params.size() > 0)
    alpha = params[0];
  if (params.size() > 1)
    beta = params[1];
  if (ctx.attrs().Has("activation_alpha"))
    alpha = ctx.attrs().Float("activation_alpha", 0);
  if (ctx.attrs().Has("activation_beta"))
    beta = ctx.attrs().Float("activation_beta", 0);
  NPUC_ASSIGN_OR_RETURN(const Activation act, ParseActivation(ctx.attrs().String("activation", ""), alpha, beta));
  ctx.set_result(0, act.kind == Activation::Kind::None ? y : UnaryMap<float, float>(y, DType::F32, act));
  return OkStatus();
}

} // namespace npuc::ops
