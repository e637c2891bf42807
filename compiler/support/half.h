// Narrow floats: IEEE half, bfloat16, the four float8, float8 e8m0 and float4 e2m1, on raw bits.
//
// Decoding is exact. Encoding rounds to nearest, ties to even, once: from double through a float rounded to odd, so
// that no value is rounded twice. Everything here is integer arithmetic or table look-up, the same on any machine;
// the array versions use the processor's converter where it has one, with the same bits.
//
//   format        value of a code                              overflow               NaN
//   half, bf16    IEEE                                         infinity               quiet, payload's top bits kept
//   f8 e4m3fn     no infinity, max 448                         saturate: max          0x7f | sign
//   f8 e4m3fnuz   no infinity, no -0, max 240                    else NaN, or         0x80
//   f8 e5m2       IEEE-like, max 57344                           infinity (e5m2)      0x7e | sign (0x7d..0x7f decode)
//   f8 e5m2fnuz   no infinity, no -0, max 57344                                       0x80
//   f8 e8m0       2^(code-127), no sign, no zero               see FloatToF8E8M0      0xff
//   f4 e2m1       0 .5 1 1.5 2 3 4 6 and negatives             always the max         becomes -0, as in ONNX's tests
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace npuc {

namespace half_internal {

// A format with a sign bit, Exp exponent bits, Mant mantissa bits. Top: the greatest finite code without sign.
template <int Exp, int Mant, int Bias, uint32_t Top, uint32_t Inf, uint32_t Nan, bool Fnuz> struct Format {
  static constexpr uint32_t kSign = 1u << (Exp + Mant);

  static constexpr uint32_t Encode(float x, bool saturate) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), abs = bits & 0x7fffffffu;
    const uint32_t sign = bits >> 31 ? kSign : 0;
    if (abs > 0x7f800000u)
      return Fnuz ? Nan : Nan | sign;
    const int e = static_cast<int>(abs >> 23) - 127 + Bias;
    const uint32_t fraction = abs & 0x7fffffu;
    uint32_t full, shift;
    if (e >= 1) {
      full = static_cast<uint32_t>(e) << 23 | fraction;
      shift = 23 - Mant;
    } else { // a subnormal result; subnormal floats are far below all these formats' least step or are scaled by 2^-126
      full = abs >> 23 ? fraction | 0x800000u : fraction << 1;
      shift = static_cast<uint32_t>(23 - Mant + 1 - e);
      if (shift > 25)
        return Fnuz ? 0 : sign;
    }
    const uint32_t rest = full & ((1u << shift) - 1), half = 1u << (shift - 1);
    uint32_t code = full >> shift;
    code += rest > half || (rest == half && (code & 1));
    if (code > Top)
      code = saturate ? Top : Inf;
    if (Fnuz)
      return code == 0 || code == Nan ? code : code | sign;
    return code | sign;
  }

  static constexpr float Decode(uint32_t code) {
    const uint32_t abs = code & (kSign - 1);
    const uint32_t sign = code & kSign ? 0x80000000u : 0;
    if (Fnuz && code == Nan)
      return std::bit_cast<float>(0x7fc00000u);
    if (!Fnuz && abs > Top)
      return std::bit_cast<float>(abs == Inf && Inf != Nan ? sign | 0x7f800000u : sign | 0x7fc00000u);
    const uint32_t e = abs >> Mant, m = abs & ((1u << Mant) - 1);
    if (e)
      return std::bit_cast<float>(sign | (e + 127 - Bias) << 23 | m << (23 - Mant));
    // m * 2^(1 - Bias - Mant), both factors exact
    const float step = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - Bias - Mant) << 23);
    const float value = static_cast<float>(m) * step;
    return sign ? -value : value;
  }

  static constexpr auto DecodeTable() {
    std::array<float, size_t{1} << (Exp + Mant + 1)> t{};
    for (size_t i = 0; i < t.size(); ++i)
      t[i] = Decode(static_cast<uint32_t>(i));
    return t;
  }
};

using F8E4M3FN = Format<4, 3, 7, 0x7e, 0x7f, 0x7f, false>;
using F8E4M3FNUZ = Format<4, 3, 8, 0x7f, 0x80, 0x80, true>;
using F8E5M2 = Format<5, 2, 15, 0x7b, 0x7c, 0x7e, false>;
using F8E5M2FNUZ = Format<5, 2, 16, 0x7f, 0x80, 0x80, true>;
using F4E2M1 = Format<2, 1, 1, 0x7, 0x7, 0x7, false>;

inline constexpr auto kF8E4M3FN = F8E4M3FN::DecodeTable();
inline constexpr auto kF8E4M3FNUZ = F8E4M3FNUZ::DecodeTable();
inline constexpr auto kF8E5M2 = F8E5M2::DecodeTable();
inline constexpr auto kF8E5M2FNUZ = F8E5M2FNUZ::DecodeTable();
inline constexpr auto kF4E2M1 = F4E2M1::DecodeTable();

// A double as the float that, rounded again to fewer bits, gives what rounding the double once gives: truncated, its
// last bit set when anything was cut off. Overflow and NaN as a plain conversion.
constexpr float RoundToOdd(double x) {
  const float f = static_cast<float>(x);
  if (!(f - f == 0) || static_cast<double>(f) == x)
    return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  const double a = x < 0 ? -x : x, b = f < 0 ? -static_cast<double>(f) : static_cast<double>(f);
  if (b > a)
    bits -= 1; // back towards zero
  return std::bit_cast<float>(bits | 1u);
}

} // namespace half_internal

// ---- IEEE half

// Exact. A signalling NaN comes out quiet, as the processor's converter does it.
constexpr float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, abs = h & 0x7fff;
  if (abs >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000u | abs << 13 | (abs > 0x7c00 ? 0x400000u : 0));
  if (abs >= 0x0400)
    return std::bit_cast<float>(sign | ((abs << 13) + (112u << 23)));
  const float value = static_cast<float>(abs) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

constexpr uint16_t FloatToHalf(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), abs = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (abs >= 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7c00u | (abs > 0x7f800000u ? 0x200u | (abs >> 13 & 0x3ffu) : 0));
  if (abs >= 0x38800000u) { // at least 2^-14: normal, or infinite after rounding
    const uint32_t rounded = abs + 0xfffu + (abs >> 13 & 1);
    return static_cast<uint16_t>(sign | (rounded >= 0x47800000u ? 0x7c00u : (rounded - 0x38000000u) >> 13));
  }
  // Adding 0.5 makes the float adder round at 2^-24, the half's least step.
  const float shifted = std::bit_cast<float>(abs) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

constexpr uint16_t DoubleToHalf(double x) {
  return FloatToHalf(half_internal::RoundToOdd(x));
}

// Rounds a float to the nearest half value.
constexpr float RoundToHalf(float x) {
  return HalfToFloat(FloatToHalf(x));
}

// Arrays; source and destination must not overlap. The same bits as the scalar functions.
void HalfToFloat(const uint16_t *in, float *out, size_t n);
void FloatToHalf(const float *in, uint16_t *out, size_t n);

// ---- bfloat16

constexpr float BFloat16ToFloat(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

constexpr uint16_t FloatToBFloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

constexpr uint16_t DoubleToBFloat16(double x) {
  return FloatToBFloat16(half_internal::RoundToOdd(x));
}

// ---- float8; `saturate` as in ONNX's Cast: true turns what is too large, and infinity, into the greatest value.

constexpr float F8E4M3FNToFloat(uint8_t c) {
  return half_internal::kF8E4M3FN[c];
}
constexpr float F8E4M3FNUZToFloat(uint8_t c) {
  return half_internal::kF8E4M3FNUZ[c];
}
constexpr float F8E5M2ToFloat(uint8_t c) {
  return half_internal::kF8E5M2[c];
}
constexpr float F8E5M2FNUZToFloat(uint8_t c) {
  return half_internal::kF8E5M2FNUZ[c];
}

constexpr uint8_t FloatToF8E4M3FN(float x, bool saturate = true) {
  return static_cast<uint8_t>(half_internal::F8E4M3FN::Encode(x, saturate));
}
constexpr uint8_t FloatToF8E4M3FNUZ(float x, bool saturate = true) {
  return static_cast<uint8_t>(half_internal::F8E4M3FNUZ::Encode(x, saturate));
}
constexpr uint8_t FloatToF8E5M2(float x, bool saturate = true) {
  return static_cast<uint8_t>(half_internal::F8E5M2::Encode(x, saturate));
}
constexpr uint8_t FloatToF8E5M2FNUZ(float x, bool saturate = true) {
  return static_cast<uint8_t>(half_internal::F8E5M2FNUZ::Encode(x, saturate));
}

// ---- float8 e8m0: a power of two.

enum class E8M0Round : uint8_t { up, down, nearest };

constexpr float F8E8M0ToFloat(uint8_t c) {
  if (c == 0xff)
    return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(c ? static_cast<uint32_t>(c) << 23 : 0x400000u);
}

// The sign is dropped; 0 becomes the least code (2^-127), NaN and infinity become NaN. Above 2^127: the greatest code
// if `saturate`, else NaN. nearest: ties away from zero, as ONNX's Cast.
constexpr uint8_t FloatToF8E8M0(float x, bool saturate = true, E8M0Round round = E8M0Round::up) {
  const uint32_t abs = std::bit_cast<uint32_t>(x) & 0x7fffffffu, fraction = abs & 0x7fffffu;
  uint32_t e = abs >> 23;
  if (e == 0xff)
    return 0xff;
  bool add;
  if (e == 0) // code 0 is 2^-127, fraction 0x400000; the middle to 2^-126 is 0x600000
    add = round == E8M0Round::up ? fraction > 0x400000u : round == E8M0Round::nearest && fraction >= 0x600000u;
  else
    add = round == E8M0Round::up ? fraction != 0 : round == E8M0Round::nearest && fraction >= 0x400000u;
  e += add;
  return static_cast<uint8_t>(e == 0xff && saturate ? 0xfe : e);
}

// ---- float4 e2m1: the code in the low four bits.

constexpr float F4E2M1ToFloat(uint8_t c) {
  return half_internal::kF4E2M1[c & 15];
}
constexpr uint8_t FloatToF4E2M1(float x) {
  const uint32_t code = half_internal::F4E2M1::Encode(x, true);
  return static_cast<uint8_t>(x != x ? 0x8 : code);
}

} // namespace npuc
