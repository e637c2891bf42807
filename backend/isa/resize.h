// Which source rows or columns a RESIZE reads: the executor computes with these, the verifier proves with them that
// they lie in the view.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/isa/commands.h"

namespace npuc::isa {

// ONNX's coordinate transformations in f32: the source coordinate of output index `o`; `in` and `out` are the whole
// extents. Monotone in o for a positive scale.
inline float SourceCoordinate(Coordinates mode, int64_t o, float scale, int64_t in, int64_t out) {
  const float x = static_cast<float>(o);
  switch (mode) {
  case Coordinates::HalfPixel:
    return (x + 0.5f) / scale - 0.5f;
  case Coordinates::PytorchHalfPixel:
    return out > 1 ? (x + 0.5f) / scale - 0.5f : 0.0f;
  case Coordinates::AlignCorners:
    return out > 1 ? x * static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  case Coordinates::Asymmetric:
    return x / scale;
  case Coordinates::HalfPixelSymmetric: {
    const float adjustment = static_cast<float>(out) / (scale * static_cast<float>(in));
    const float center = static_cast<float>(in) / 2;
    return center * (1 - adjustment) + ((x + 0.5f) / scale - 0.5f);
  }
  }
  return x;
}

// Before clamping into [0, in).
inline int64_t NearestSource(Nearest mode, float x) {
  switch (mode) {
  case Nearest::RoundPreferFloor:
    return static_cast<int64_t>(std::ceil(x - 0.5f));
  case Nearest::RoundPreferCeil:
    return static_cast<int64_t>(std::floor(x + 0.5f));
  case Nearest::Floor:
    return static_cast<int64_t>(std::floor(x));
  case Nearest::Ceil:
    return static_cast<int64_t>(std::ceil(x));
  }
  return 0;
}

} // namespace npuc::isa
