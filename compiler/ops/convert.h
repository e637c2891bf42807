// Element type conversion as ONNX's Cast defines it, and where Cast leaves it open, as follows.
//   float -> integer: toward zero; out of range saturates, NaN gives 0 (ONNX: undefined); 2- and 4-bit targets take the
//   low bits of the integer, as ONNX's tests do integer -> narrower integer: low bits kept        anything -> bool: !=
//   0
//   -> float: nearest even, rounded once; overflow becomes infinity, or the greatest value for float8 with `saturate`
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "compiler/support/half.h"
#include "compiler/types/tensor.h"

namespace npuc::ops {

// Float to integer by the rule above.
template <class To, class From> inline To FloatToInt(From v) {
  if (!(v == v))
    return 0;
  // The bounds are powers of two, so they are exact in From.
  constexpr int bits = std::numeric_limits<To>::digits;
  const From hi = static_cast<From>(To(1) << (bits - 1)) * From(2);
  if (v >= hi)
    return std::numeric_limits<To>::max();
  if (std::is_signed_v<To> ? v < -hi : v <= From(-1))
    return std::numeric_limits<To>::min();
  return static_cast<To>(v);
}

// Any numeric or bool dtype to any other; splats stay splats. Not for strings and complex numbers.
// `saturate`, `round`: float8 targets only, see half.h.
Tensor ConvertTensor(const Tensor &t, DType to, bool saturate = true, E8M0Round round = E8M0Round::up);
// Whether ConvertTensor handles t.
bool IsConvertible(DType t);

} // namespace npuc::ops
