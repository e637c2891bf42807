// The elementary functions of the product: the same bits on every machine.
//
// Folding, calibration, look-up tables, the interpreter and the executor must agree to the bit, today and on the next
// processor, so nothing here calls the C library: only + - * / sqrt on IEEE doubles (no contraction, see the build
// flags) and integer operations on their bits.
//
// Each function has a double core, good to about 1 unit in the last place (4 at worst, Gelu 6, GeluTanh 16; the test
// has each), and a float form that is the core's result rounded once, which is the correctly rounded result but for a
// few in 10^8 arguments. Special values follow C's annex F: NaN in, NaN out; overflow gives infinity; signed zeros are
// kept; results below the least normal number are rounded once more (subnormals are not flushed).
//
// The hot functions are inline and written without branches (ranges are computed both ways and selected), so that
// loops over arrays vectorise; fpmath_array.h has such loops.
//
// Methods: argument reduction in two or three parts (Cody and Waite; Payne and Hanek for large angles), polynomials
// from fpmath_fit.py evaluated as two interleaved Horner chains, Dekker's exact products where a double is too narrow.
#pragma once

#include "compiler/support/fpmath_tables.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace npuc {

namespace fpmath_internal {

#define NPUC_FP_INLINE [[gnu::always_inline]] inline

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kRound = 0x1.8p52; // adding it rounds to an integer, in the low bits

NPUC_FP_INLINE double Abs(double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & ~(uint64_t{1} << 63));
}
// `magnitude` (not negative) with the sign of x.
NPUC_FP_INLINE double WithSign(double magnitude, double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(magnitude) | (std::bit_cast<uint64_t>(x) & uint64_t{1} << 63));
}

template <size_t I, size_t N> NPUC_FP_INLINE double EverySecond(const double (&c)[N], double y) {
  if constexpr (I + 2 < N)
    return c[I] + y * EverySecond<I + 2>(c, y);
  else
    return c[I];
}
template <size_t N> NPUC_FP_INLINE double Poly(const double (&c)[N], double x) {
  const double y = x * x;
  return EverySecond<0>(c, y) + x * EverySecond<1>(c, y);
}

// a * b = hi + lo exactly, for |a|, |b| below 2^995 and no underflow.
NPUC_FP_INLINE void TwoProduct(double a, double b, double &hi, double &lo) {
  const double ca = a * 0x1.0000002p27, cb = b * 0x1.0000002p27;
  const double ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
  hi = a * b;
  lo = ((ah * bh - hi) + ah * bl + al * bh) + al * bl;
}
// a + b = hi + lo exactly.
NPUC_FP_INLINE void TwoSum(double a, double b, double &hi, double &lo) {
  hi = a + b;
  const double bb = hi - a;
  lo = (a - (hi - bb)) + (b - bb);
}

NPUC_FP_INLINE double Pow2(uint64_t k) {
  return std::bit_cast<double>((k + 1023) << 52);
}

// y * 2^k for |k| < 2040, in two steps so that only the result overflows or becomes subnormal.
NPUC_FP_INLINE double Scale(double y, uint64_t k) {
  const uint64_t half = ((k + 4096) >> 1) - 2048;
  return y * Pow2(half) * Pow2(k - half);
}

// e^(x + tail) = 2^k (1 + p), |p| < 0.42; x in [-1000, 1000] or NaN.
NPUC_FP_INLINE double ExpParts(double x, double tail, uint64_t &k) {
  const double t = x * kInvLn2[0] + kRound, kd = t - kRound;
  k = std::bit_cast<uint64_t>(t) - std::bit_cast<uint64_t>(kRound);
  const double hi = x - kd * kLn2[0], lo = kd * kLn2[1] - tail, r = hi - lo;
  return hi + (r * r * Poly(kExp, r) - lo);
}

NPUC_FP_INLINE double Clamp(double x, double lo, double hi) {
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}

// e^x - 1 for x <= 40.
NPUC_FP_INLINE double Expm1Low(double x) {
  uint64_t k;
  const double p = ExpParts(Clamp(x, -80.0, 40.0), 0, k), two_k = Pow2(k);
  return p * two_k + (two_k - 1);
}

// log(x) + tail for x finite and positive.
NPUC_FP_INLINE double LogParts(double x, double tail) {
  const bool small = x < 0x1p-1022;
  const uint64_t bits = std::bit_cast<uint64_t>(small ? x * 0x1p54 : x);
  const uint64_t e = (bits + 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu) >> 52; // exponent against sqrt(1/2), biased
  const double k = std::bit_cast<double>(e | 0x4330000000000000u) - (small ? 0x1p52 + 1023 + 54 : 0x1p52 + 1023);
  const double f = std::bit_cast<double>(bits - ((e - 1023) << 52)) - 1;
  const double s = f / (2 + f), z = s * s, r = z * Poly(kLog, z), h = 0.5 * f * f;
  return k * kLn2[0] - ((h - (s * (h + r) + (k * kLn2[1] + tail))) - f);
}

// erf for 0 <= x < 1.
NPUC_FP_INLINE double ErfLow(double x) {
  return x + x * Poly(kErf, x * x);
}
// erfc for 1/2 <= x; hi + lo = x^2.
NPUC_FP_INLINE double ErfcHigh(double x, double hi, double lo) {
  uint64_t k;
  const double p = ExpParts(-hi, -lo, k), e = Scale(1 + p, k);
  return e * Poly(kErfc, (x - 3.75) / (x + 3.75)) / (1 + 2 * x);
}

} // namespace fpmath_internal

namespace fpmath {

// ---- inline, branch-free

// Nearest integer, ties to even; the zero of a small negative number is -0.
NPUC_FP_INLINE double RoundHalfEven(double x) {
  using namespace fpmath_internal;
  const double a = Abs(x), r = (a + 0x1p52) - 0x1p52;
  return a < 0x1p52 ? WithSign(r, x) : x;
}
NPUC_FP_INLINE float RoundHalfEven(float x) {
  const uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000u;
  const float a = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffffu), r = (a + 0x1p23f) - 0x1p23f;
  return a < 0x1p23f ? std::bit_cast<float>(std::bit_cast<uint32_t>(r) | sign) : x;
}

NPUC_FP_INLINE double Sqrt(double x) {
  return __builtin_sqrt(x);
}
NPUC_FP_INLINE float Sqrt(float x) {
  return __builtin_sqrtf(x);
}

NPUC_FP_INLINE double Exp(double x) {
  using namespace fpmath_internal;
  uint64_t k;
  const double p = ExpParts(Clamp(x, -750.0, 710.0), 0, k);
  return Scale(1 + p, k);
}

// e^x - 1, accurate near 0.
NPUC_FP_INLINE double Expm1(double x) {
  using namespace fpmath_internal;
  const double low = Expm1Low(x), high = Exp(x);
  const double r = x < 38 ? low : high;
  return Abs(x) < 0x1p-54 ? x : r;
}

// Natural logarithm; -infinity for 0, NaN below.
NPUC_FP_INLINE double Log(double x) {
  using namespace fpmath_internal;
  const double r = x < kInfinity ? LogParts(x, 0) : x;
  const double outside = x == 0 ? -kInfinity : kNaN;
  return x > 0 ? r : outside;
}

// log(1 + x), accurate near 0; -infinity for -1, NaN below.
NPUC_FP_INLINE double Log1p(double x) {
  using namespace fpmath_internal;
  double u, rest;
  TwoSum(1, x, u, rest);
  double r = LogParts(u, rest / u);
  r = x < kInfinity ? r : x;
  r = x > -1 ? r : (x == -1 ? -kInfinity : kNaN);
  return Abs(x) < 0x1p-54 ? x : r;
}

NPUC_FP_INLINE double Tanh(double x) {
  using namespace fpmath_internal;
  const double a = Abs(x), t = Expm1Low(-2 * a);
  return WithSign(a < 0x1p-30 ? a : -t / (t + 2), x);
}

// 1 / (1 + e^-x)
NPUC_FP_INLINE double Sigmoid(double x) {
  using namespace fpmath_internal;
  const double e = Exp(-Abs(x)), d = 1 + e;
  return (x < 0 ? e : 1) / d;
}

NPUC_FP_INLINE double Erf(double x) {
  using namespace fpmath_internal;
  double a = Abs(x);
  a = a > 7 ? 7 : a;
  const double low = ErfLow(a), high = 1 - ErfcHigh(a, a * a, 0);
  return WithSign(a < 1 ? low : high, x);
}

// x / 2 (1 + erf(x / sqrt 2)), accurate in the left tail; NaN for -infinity, as the formula.
NPUC_FP_INLINE double Gelu(double x) {
  using namespace fpmath_internal;
  double a = Abs(x);
  a = a > 40 ? 40 : a;
  double hi, lo;
  TwoProduct(a, a, hi, lo);
  const double z = a * kSqrtHalf[0];
  const double low = 1 - ErfLow(z), high = ErfcHigh(z, 0.5 * hi, 0.5 * lo);
  const double c = 0.5 * (z < 0.5 ? low : high);
  return x * (x < 0 ? c : 1 - c);
}

// The approximation x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
NPUC_FP_INLINE double GeluTanh(double x) {
  return x * Sigmoid(2 * fpmath_internal::kSqrtTwoOverPi[0] * (x + 0.044715 * x * x * x));
}

// log(1 + e^x)
NPUC_FP_INLINE double Softplus(double x) {
  using namespace fpmath_internal;
  return (x > 0 ? x : 0) + Log1p(Exp(-Abs(x)));
}

// ---- in fpmath.cc

double Exp2(double x);
double Log2(double x);  // exact for powers of two
double Log10(double x); // within 1 ulp of powers of ten
double Pow(double x, double y);
double Sin(double x);
double Cos(double x);
double Tan(double x);
double Asin(double x);
double Acos(double x);
double Atan(double x);
double Atan2(double y, double x);
double Sinh(double x);
double Cosh(double x);
double Asinh(double x);
double Acosh(double x);
double Atanh(double x);
double Erfc(double x);

// ---- float: the double result rounded once

NPUC_FP_INLINE float Exp(float x) {
  return static_cast<float>(Exp(static_cast<double>(x)));
}
NPUC_FP_INLINE float Expm1(float x) {
  return static_cast<float>(Expm1(static_cast<double>(x)));
}
NPUC_FP_INLINE float Log(float x) {
  return static_cast<float>(Log(static_cast<double>(x)));
}
NPUC_FP_INLINE float Log1p(float x) {
  return static_cast<float>(Log1p(static_cast<double>(x)));
}
NPUC_FP_INLINE float Tanh(float x) {
  return static_cast<float>(Tanh(static_cast<double>(x)));
}
NPUC_FP_INLINE float Sigmoid(float x) {
  return static_cast<float>(Sigmoid(static_cast<double>(x)));
}
NPUC_FP_INLINE float Erf(float x) {
  return static_cast<float>(Erf(static_cast<double>(x)));
}
NPUC_FP_INLINE float Gelu(float x) {
  return static_cast<float>(Gelu(static_cast<double>(x)));
}
NPUC_FP_INLINE float GeluTanh(float x) {
  return static_cast<float>(GeluTanh(static_cast<double>(x)));
}
NPUC_FP_INLINE float Softplus(float x) {
  return static_cast<float>(Softplus(static_cast<double>(x)));
}
inline float Exp2(float x) {
  return static_cast<float>(Exp2(static_cast<double>(x)));
}
inline float Log2(float x) {
  return static_cast<float>(Log2(static_cast<double>(x)));
}
inline float Log10(float x) {
  return static_cast<float>(Log10(static_cast<double>(x)));
}
inline float Pow(float x, float y) {
  return static_cast<float>(Pow(static_cast<double>(x), static_cast<double>(y)));
}
inline float Sin(float x) {
  return static_cast<float>(Sin(static_cast<double>(x)));
}
inline float Cos(float x) {
  return static_cast<float>(Cos(static_cast<double>(x)));
}
inline float Tan(float x) {
  return static_cast<float>(Tan(static_cast<double>(x)));
}
inline float Asin(float x) {
  return static_cast<float>(Asin(static_cast<double>(x)));
}
inline float Acos(float x) {
  return static_cast<float>(Acos(static_cast<double>(x)));
}
inline float Atan(float x) {
  return static_cast<float>(Atan(static_cast<double>(x)));
}
inline float Atan2(float y, float x) {
  return static_cast<float>(Atan2(static_cast<double>(y), static_cast<double>(x)));
}
inline float Sinh(float x) {
  return static_cast<float>(Sinh(static_cast<double>(x)));
}
inline float Cosh(float x) {
  return static_cast<float>(Cosh(static_cast<double>(x)));
}
inline float Asinh(float x) {
  return static_cast<float>(Asinh(static_cast<double>(x)));
}
inline float Acosh(float x) {
  return static_cast<float>(Acosh(static_cast<double>(x)));
}
inline float Atanh(float x) {
  return static_cast<float>(Atanh(static_cast<double>(x)));
}
inline float Erfc(float x) {
  return static_cast<float>(Erfc(static_cast<double>(x)));
}

} // namespace fpmath
} // namespace npuc
