// Activations named by a string: what com.microsoft's fused operators and the recurrent layers carry.
#pragma once

#include "compiler/ops/op_helpers.h"

namespace npuc::ops {

struct Activation {
  enum class Kind : uint8_t {
    None,
    Relu,
    LeakyRelu,
    ThresholdedRelu,
    Elu,
    Tanh,
    ScaledTanh,
    Sigmoid,
    HardSigmoid,
    Softsign,
    Softplus,
    Affine,
    Clip
  };
  Kind kind = Kind::None;
  float alpha = 0, beta = 0;

  float operator()(float x) const;
};

// `name` in any case; "" is None. alpha, beta: as given, else ONNX's default of that activation. E0203 for an unknown
// name.
StatusOr<Activation> ParseActivation(std::string_view name, std::optional<float> alpha = {},
                                     std::optional<float> beta = {});

// result 0 (F32, in ctx.results()) = act(result 0 + operand z), z optional and broadcast; the activation from the
// attributes `activation` and `activation_params` (or activation_alpha, ...).
Status AddAndActivate(EvalContext &ctx, int z);

} // namespace npuc::ops
