// The functions of fpmath.h over arrays of floats, vectorised for the processor at hand. The same bits as the scalar
// forms, whatever the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npuc::fpmath {

enum class Unary : uint8_t {
  Exp,
  Expm1,
  Log,
  Log1p,
  Tanh,
  Sigmoid,
  Erf,
  Gelu,
  GeluTanh,
  Softplus,
  Sqrt,
  RoundHalfEven,
};

// out[i] = f(in[i]) for i < n; in == out is allowed, other overlaps are not.
void Map(Unary f, const float *in, float *out, size_t n);

} // namespace npuc::fpmath
