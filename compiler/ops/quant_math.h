// The exact quantised arithmetic of the product: one definition for interpreter, quantiser, table builder and NPU
// executor.
//
//   dequantise:  f32(q - z) * s
//   quantise:    clamp(round_half_even(v / s) + z), a division; clamped in f32 before conversion; NaN gives z
//   requantise:  clamp(round_half_even(f32(acc) * m) + z), m = f32(f32(sx * sw[c]) / sy), one multiply
//   average:     quantise(f32(sum) * sx / f32(count))
//
// All in f32, round to nearest even, no contraction: bit-identical on every machine.
#pragma once

#include <cstdint>

#include "compiler/support/fpmath.h"
#include "compiler/types/dtype.h"
#include "compiler/types/quant.h"

namespace npuc {

// Least and greatest value of a quantised type, as f32 (i32's greatest is the greatest f32 below 2^31).
struct QuantRange {
  float lo, hi;
};
inline QuantRange QuantRangeOf(DType t) {
  switch (t) {
  case DType::I2:
    return {-2, 1};
  case DType::U2:
    return {0, 3};
  case DType::I4:
    return {-8, 7};
  case DType::U4:
    return {0, 15};
  case DType::I8:
    return {-128, 127};
  case DType::U8:
    return {0, 255};
  case DType::I16:
    return {-32768, 32767};
  case DType::U16:
    return {0, 65535};
  case DType::I32:
    return {-2147483648.0f, 2147483520.0f};
  default:
    return {0, 0};
  }
}

inline float DequantizeValue(int32_t q, float s, int32_t z) {
  return static_cast<float>(q - z) * s;
}

// What quantise does after the division or the requantising multiply.
inline int32_t RoundAndClamp(float v, int32_t z, QuantRange range) {
  float r = fpmath::RoundHalfEven(v) + static_cast<float>(z);
  if (!(r == r))
    return z;
  r = r < range.lo ? range.lo : r > range.hi ? range.hi : r;
  return static_cast<int32_t>(r);
}
inline int32_t QuantizeValue(float v, float s, int32_t z, QuantRange range) {
  return RoundAndClamp(v / s, z, range);
}

inline float RequantScale(float sx, float sw, float sy) {
  return (sx * sw) / sy;
}
inline int32_t RequantizeAcc(int64_t acc, float m, int32_t z, QuantRange range) {
  return RoundAndClamp(static_cast<float>(acc) * m, z, range);
}

inline int32_t QuantizeAverage(int64_t sum, float sx, int64_t count, float sy, int32_t zy, QuantRange range) {
  return QuantizeValue(static_cast<float>(sum) * sx / static_cast<float>(count), sy, zy, range);
}

} // namespace npuc
