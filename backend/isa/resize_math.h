// Where Resize reads: one definition for interpreter, executor, tiling and verifier, so that they agree to the last
// bit.
//
// Source coordinates are worked out in double from the scale as ONNX has it (output over input; a `scales` operand
// gives an f32, `sizes` the quotient of the extents), as the operator's reference implementation does; an axis' weights
// are rounded to f32 once. A linear result is a sum over the corners of its cell, in f32: each corner's weight is the
// product of its axes' weights, the last axis varies fastest. The order matters: upsampling 8-bit data by powers of two
// lands on exact ties of the requantisation, and onnxruntime sums corners too, so the same ties fall the same way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backend/isa/commands.h"

namespace npuc {

// By ONNX's name; nullopt for tf_half_pixel_for_nn and tf_crop_and_resize, which the NPU does not have.
inline std::optional<isa::Coordinates> ResizeCoordinatesOf(std::string_view s) {
  if (s == "half_pixel")
    return isa::Coordinates::HalfPixel;
  if (s == "half_pixel_symmetric")
    return isa::Coordinates::HalfPixelSymmetric;
  if (s == "pytorch_half_pixel")
    return isa::Coordinates::PytorchHalfPixel;
  if (s == "align_corners")
    return isa::Coordinates::AlignCorners;
  if (s == "asymmetric")
    return isa::Coordinates::Asymmetric;
  return std::nullopt;
}

struct ResizeAxis {
  isa::Coordinates coordinates = isa::Coordinates::HalfPixel;
  double scale = 1;
  int64_t in = 1, out = 1; // extents of the whole axis
};

inline double ResizeCoordinate(const ResizeAxis &a, int64_t o) {
  const double x = static_cast<double>(o), extent = static_cast<double>(a.in), length = a.scale * extent;
  switch (a.coordinates) {
  case isa::Coordinates::AlignCorners:
    return length == 1 || a.out == 1 ? 0 : x * (extent - 1) / (length - 1);
  case isa::Coordinates::Asymmetric:
    return x / a.scale;
  case isa::Coordinates::PytorchHalfPixel:
    if (length <= 1)
      return 0;
    break;
  case isa::Coordinates::HalfPixelSymmetric: {
    const double adjustment = static_cast<double>(a.out) / length;
    return extent / 2 * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
  }
  case isa::Coordinates::HalfPixel:
    break;
  }
  return (x + 0.5) / a.scale - 0.5;
}

// Both sources of an output coordinate, clamped to the axis: a counts 1 - f, b counts f. One source alone (nearest, the
// edges): a = b, f = 0.
struct ResizeSource {
  int64_t a = 0, b = 0;
  float f = 0;
};

inline int64_t ResizeNearest(isa::Nearest mode, double at) {
  const double low = std::floor(at), ratio = at - low;
  const bool up =
      ratio != 0 && (mode == isa::Nearest::Ceil || (mode == isa::Nearest::RoundPreferFloor && ratio > 0.5) ||
                     (mode == isa::Nearest::RoundPreferCeil && ratio >= 0.5));
  return static_cast<int64_t>(low) + up;
}

inline ResizeSource ResizeSourceOf(const ResizeAxis &a, isa::ResizeKind kind, isa::Nearest mode, int64_t o) {
  const double at = ResizeCoordinate(a, o);
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i, 0, a.in - 1); };
  if (kind == isa::ResizeKind::Nearest) {
    const int64_t i = clamp(ResizeNearest(mode, at));
    return {i, i, 0};
  }
  const double low = std::floor(at);
  const int64_t i = static_cast<int64_t>(low);
  const int64_t first = clamp(i), second = clamp(i + 1);
  return {first, second, first == second ? 0 : static_cast<float>(at - low)};
}

// What one axis adds to a corner: a source and its weight. A source of weight 0 is no corner: not even an infinity
// there counts.
struct ResizeTaps {
  int count = 0;
  int64_t at[2];
  float weight[2];

  explicit ResizeTaps(const ResizeSource &s) {
    if (const float w = 1.0f - s.f; w != 0.0f)
      at[count] = s.a, weight[count++] = w;
    if (s.f != 0.0f)
      at[count] = s.b, weight[count++] = s.f;
  }
};

// The scale that a RESIZE command means by its field: 0 stands for the quotient of the extents.
inline double ResizeScale(float field, int64_t in, int64_t out) {
  return field == 0.0f ? static_cast<double>(out) / static_cast<double>(in) : static_cast<double>(field);
}

} // namespace npuc
