// What the vector engine can be asked for, as targets price it: the rows of a target's `vpu.passes` table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace npuc {

// NPUC_ROW(enumerator, name in YAML)
#define NPUC_VPU_FUNCTIONS(NPUC_ROW)                                                                                   \
  NPUC_ROW(Add, "add")                                                                                                 \
  NPUC_ROW(Sub, "sub")                                                                                                 \
  NPUC_ROW(Mul, "mul")                                                                                                 \
  NPUC_ROW(Min, "min")                                                                                                 \
  NPUC_ROW(Max, "max")                                                                                                 \
  NPUC_ROW(Clamp, "clamp")                                                                                             \
  NPUC_ROW(Abs, "abs")                                                                                                 \
  NPUC_ROW(Neg, "neg")                                                                                                 \
  NPUC_ROW(Sign, "sign")                                                                                               \
  NPUC_ROW(Floor, "floor")                                                                                             \
  NPUC_ROW(Ceil, "ceil")                                                                                               \
  NPUC_ROW(Round, "round")                                                                                             \
  NPUC_ROW(Compare, "compare")                                                                                         \
  NPUC_ROW(Logic, "logic")                                                                                             \
  NPUC_ROW(Select, "select")                                                                                           \
  NPUC_ROW(Prelu, "prelu")                                                                                             \
  NPUC_ROW(Copy, "copy")                                                                                               \
  NPUC_ROW(Lut, "lut")                                                                                                 \
  NPUC_ROW(Lut16, "lut16")                                                                                             \
  NPUC_ROW(Cast, "cast")                                                                                               \
  NPUC_ROW(Dequantise, "dequantise")                                                                                   \
  NPUC_ROW(Quantise, "quantise")                                                                                       \
  NPUC_ROW(Requantise, "requantise")                                                                                   \
  NPUC_ROW(Div, "div")                                                                                                 \
  NPUC_ROW(Mod, "mod")                                                                                                 \
  NPUC_ROW(Recip, "recip")                                                                                             \
  NPUC_ROW(Sqrt, "sqrt")                                                                                               \
  NPUC_ROW(Rsqrt, "rsqrt")                                                                                             \
  NPUC_ROW(Exp, "exp")                                                                                                 \
  NPUC_ROW(Log, "log")                                                                                                 \
  NPUC_ROW(Pow, "pow")                                                                                                 \
  NPUC_ROW(Sin, "sin")                                                                                                 \
  NPUC_ROW(Cos, "cos")                                                                                                 \
  NPUC_ROW(Erf, "erf")                                                                                                 \
  NPUC_ROW(Gelu, "gelu")                                                                                               \
  NPUC_ROW(Tanh, "tanh")                                                                                               \
  NPUC_ROW(Sigmoid, "sigmoid")                                                                                         \
  NPUC_ROW(Pool, "pool")                                                                                               \
  NPUC_ROW(Reduce, "reduce")                                                                                           \
  NPUC_ROW(Argmax, "argmax")                                                                                           \
  NPUC_ROW(Softmax, "softmax")                                                                                         \
  NPUC_ROW(Norm, "norm")                                                                                               \
  NPUC_ROW(ResizeNearest, "resize_nearest")                                                                            \
  NPUC_ROW(ResizeLinear, "resize_linear")

enum class VpuFunction : uint8_t {
#define NPUC_ROW(e, name) e,
  NPUC_VPU_FUNCTIONS(NPUC_ROW)
#undef NPUC_ROW
};

#define NPUC_ROW(e, name) +1
inline constexpr int kNumVpuFunctions = 0 NPUC_VPU_FUNCTIONS(NPUC_ROW);
#undef NPUC_ROW

// The name in YAML: "resize_nearest".
constexpr std::string_view Name(VpuFunction f) {
  constexpr std::string_view names[] = {
#define NPUC_ROW(e, name) name,
      NPUC_VPU_FUNCTIONS(NPUC_ROW)
#undef NPUC_ROW
  };
  return names[static_cast<int>(f)];
}

constexpr std::optional<VpuFunction> ParseVpuFunction(std::string_view name) {
  for (int i = 0; i < kNumVpuFunctions; ++i)
    if (Name(static_cast<VpuFunction>(i)) == name)
      return static_cast<VpuFunction>(i);
  return std::nullopt;
}

} // namespace npuc
