#include "compiler/support/fpmath.h"

namespace npuc::fpmath {
namespace {

using namespace fpmath_internal;

__extension__ using Wide = unsigned __int128;

// x = q pi/2 + hi + lo, |hi| <= pi/4 (a hair more after rounding), q mod 4.
struct Angle {
  double hi, lo;
  unsigned q;
};

// 192 bits of 2/pi, the first of weight 2^-(from+1); from may be negative.
void TwoOverPi(int from, uint64_t out[3]) {
  const auto word = [](int i) { return i < 0 || i >= 20 ? uint64_t{0} : kTwoOverPiBits[i]; };
  const int shifted = from + 64 * 64, i = (shifted >> 6) - 64, bit = shifted & 63;
  for (int k = 0; k < 3; ++k)
    out[k] = bit ? word(i + k) << bit | word(i + k + 1) >> (64 - bit) : word(i + k);
}

// Payne and Hanek: x * 2/pi modulo 4 as a 192-bit fixed-point product, from the bits of 2/pi that matter at x's
// exponent. x >= 2^20.
Angle ReduceLarge(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int e = static_cast<int>(bits >> 52) - 1075; // x = m 2^e
  const uint64_t m = (bits & 0xfffffffffffffu) | uint64_t{1} << 52;
  uint64_t w[3];
  TwoOverPi(e - 2, w); // a bit of weight 2^(2-e) or more changes m * w 2^e by multiples of 4
  // p = m * w mod 2^192, big end first
  const Wide p2 = Wide{m} * w[2], p1 = Wide{m} * w[1] + (p2 >> 64);
  const uint64_t p[3] = {m * w[0] + static_cast<uint64_t>(p1 >> 64), static_cast<uint64_t>(p1),
                         static_cast<uint64_t>(p2)};
  // The two top bits are the quadrant, the rest the fraction.
  unsigned q = static_cast<unsigned>(p[0] >> 62);
  uint64_t f[3] = {p[0] << 2 | p[1] >> 62, p[1] << 2 | p[2] >> 62, p[2] << 2};
  const bool negative = f[0] >> 63; // nearer to the next quadrant
  if (negative) {
    q += 1;
    uint64_t carry = 1;
    for (int k = 2; k >= 0; --k) {
      f[k] = ~f[k] + carry;
      carry = carry && f[k] == 0;
    }
  }
  int zeros = 0;
  while (!(f[0] >> 63) && zeros < 128) {
    f[0] = f[0] << 1 | f[1] >> 63;
    f[1] = f[1] << 1 | f[2] >> 63;
    f[2] <<= 1;
    ++zeros;
  }
  const double scale = std::bit_cast<double>(static_cast<uint64_t>(1023 - zeros) << 52);
  const double high = static_cast<double>(f[0] >> 11) * 0x1p-53 * scale;
  const double low = static_cast<double>((f[0] << 42 | f[1] >> 22) & 0x1fffffffffffffu) * 0x1p-106 * scale;
  double hi, lo;
  TwoProduct(high, kHalfPiDouble[0], hi, lo);
  lo += high * kHalfPiDouble[1] + low * kHalfPiDouble[0];
  const double sum = hi + lo, rest = (hi - sum) + lo;
  return {negative ? -sum : sum, negative ? -rest : rest, q & 3};
}

// x >= 0, finite.
Angle Reduce(double x) {
  if (x < 0x1.921fb54442d18p-1)
    return {x, 0, 0};
  if (x >= 0x1p20)
    return ReduceLarge(x);
  // Cody and Waite: k has at most 20 bits and the parts of pi/2 have 33, so the products are exact.
  const double t = x * kTwoOverPi[0] + kRound, k = t - kRound;
  double r1, e1, r2, e2;
  TwoSum(x - k * kHalfPi[0], -(k * kHalfPi[1]), r1, e1);
  TwoSum(r1, -(k * kHalfPi[2]), r2, e2);
  const double rest = (e1 + e2) - k * kHalfPi[3];
  const double hi = r2 + rest;
  return {hi, (r2 - hi) + rest, static_cast<unsigned>(std::bit_cast<uint64_t>(t)) & 3};
}

double SinKernel(const Angle &a) {
  const double x = a.hi, z = x * x;
  return x + (x * z * Poly(kSin, z) + a.lo * (1 - 0.5 * z));
}

double CosKernel(const Angle &a) {
  const double x = a.hi, z = x * x, h = 0.5 * z, w = 1 - h;
  return w + (((1 - w) - h) + (z * z * Poly(kCos, z) - x * a.lo));
}

// asin(x) for 0 <= x <= 1/2.
double AsinLow(double x) {
  const double z = x * x;
  return x + x * z * Poly(kAsin, z);
}

// atan(x), x >= 0.
double AtanPositive(double x) {
  double numerator = x, denominator = 1, base = 0, rest = 0;
  if (x > 0x1.3504f333f9de6p+1) { // tan(3 pi / 8)
    numerator = -1;
    denominator = x;
    base = kHalfPiDouble[0];
    rest = kHalfPiDouble[1];
  } else if (x > 0x1.a827999fcef32p-2) { // tan(pi / 8)
    numerator = x - 1;
    denominator = x + 1;
    base = 0.5 * kHalfPiDouble[0];
    rest = 0.5 * kHalfPiDouble[1];
  }
  const double t = numerator / denominator, z = t * t;
  return base + (t + (t * z * Poly(kAtan, z) + rest));
}

// log(x) = hi + lo with about 70 bits, for x finite and positive.
void LogWide(double x, double &hi, double &lo) {
  double k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t e = (bits + 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu) >> 52;
  k += static_cast<double>(static_cast<int64_t>(e) - 1023);
  const double f = std::bit_cast<double>(bits - ((e - 1023) << 52)) - 1;
  // s = f / (2 + f) as sh + sl
  double dh, dl, ph, pl;
  TwoSum(2, f, dh, dl);
  const double sh = f / dh;
  TwoProduct(sh, dh, ph, pl);
  const double sl = (((f - ph) - pl) - sh * dl) / dh;
  // z = s^2, c = s^3 in two parts
  double zh, zl, ch, cl, th, tl;
  TwoProduct(sh, sh, zh, zl);
  zl += 2 * sh * sl;
  TwoProduct(zh, sh, ch, cl);
  cl += zl * sh + zh * sl;
  TwoProduct(ch, kTwoThirds[0], th, tl);
  tl += cl * kTwoThirds[0] + ch * kTwoThirds[1];
  const double tail = ch * zh * Poly(kLogTail, zh);
  // k ln2 + 2 s + 2/3 s^3 + tail, large terms first
  double a, b, c, d;
  TwoSum(k * kLn2[0], 2 * sh, a, b);
  TwoSum(a, th, c, d);
  const double rest = (b + d) + (tail + (tl + (2 * sl + k * kLn2[1])));
  hi = c + rest;
  lo = (c - hi) + rest;
}

// 0: not an integer, 1: odd, 2: even.
int Integer(double y) {
  const double a = Abs(y);
  if (a >= 0x1p53)
    return 2;
  if (RoundHalfEven(a) != a)
    return 0;
  return static_cast<uint64_t>(a) & 1 ? 1 : 2;
}

} // namespace

double Exp2(double x) {
  x = Clamp(x, -1080.0, 1030.0);
  const double t = x + kRound, k = t - kRound, r = (x - k) * kLn2Double[0], rest = (x - k) * kLn2Double[1];
  const double y = 1 + (r + (r * r * Poly(kExp, r) + rest));
  return Scale(y, std::bit_cast<uint64_t>(t) - std::bit_cast<uint64_t>(kRound));
}

double Log2(double x) {
  if (!(x > 0))
    return x == 0 ? -kInfinity : kNaN;
  if (x == kInfinity)
    return x;
  double k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t e = (bits + 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu) >> 52;
  k += static_cast<double>(static_cast<int64_t>(e) - 1023);
  double hi, lo, p, q;
  LogWide(std::bit_cast<double>(bits - ((e - 1023) << 52)), hi, lo);
  TwoProduct(hi, kInvLn2[0], p, q);
  q += hi * kInvLn2[1] + lo * kInvLn2[0];
  double s, t;
  TwoSum(k, p, s, t);
  return s + (t + q);
}

double Log10(double x) {
  if (!(x > 0))
    return x == 0 ? -kInfinity : kNaN;
  if (x == kInfinity)
    return x;
  double hi, lo, p, q;
  LogWide(x, hi, lo);
  TwoProduct(hi, kInvLn10[0], p, q);
  return p + (q + (hi * kInvLn10[1] + lo * kInvLn10[0]));
}

double Pow(double x, double y) {
  if (y == 0 || x == 1)
    return 1;
  if (x != x || y != y)
    return kNaN;
  const double a = Abs(x);
  if (Abs(y) == kInfinity)
    return a == 1 ? 1 : (a > 1) == (y > 0) ? kInfinity : 0;
  const int integer = Integer(y);
  const double sign = x < 0 || std::bit_cast<uint64_t>(x) >> 63 ? (integer == 1 ? -1.0 : 1.0) : 1.0;
  if (a == 0 || a == kInfinity)
    return (a == 0) == (y < 0) ? sign * kInfinity : sign * 0.0;
  if (x < 0 && integer == 0)
    return kNaN;
  double hi, lo, p, q;
  LogWide(a, hi, lo);
  y = Clamp(y, -0x1p70, 0x1p70); // beyond, any a but 1 overflows or vanishes all the same
  TwoProduct(hi, y, p, q);
  q += lo * y;
  if (p > 720)
    return sign * kInfinity;
  if (p < -760)
    return sign * 0.0;
  if (Abs(p) < 0x1p-60)
    return sign;
  uint64_t k;
  const double e = ExpParts(p, q, k);
  return sign * Scale(1 + e, k);
}

double Sin(double x) {
  const double a = Abs(x);
  if (!(a < kInfinity))
    return kNaN;
  const Angle angle = Reduce(a);
  double r = angle.q & 1 ? CosKernel(angle) : SinKernel(angle);
  if ((angle.q >> 1) != static_cast<unsigned>(std::bit_cast<uint64_t>(x) >> 63))
    r = -r;
  return r;
}

double Cos(double x) {
  const double a = Abs(x);
  if (!(a < kInfinity))
    return kNaN;
  const Angle angle = Reduce(a);
  const double r = angle.q & 1 ? SinKernel(angle) : CosKernel(angle);
  return angle.q == 1 || angle.q == 2 ? -r : r;
}

double Tan(double x) {
  const double a = Abs(x);
  if (!(a < kInfinity))
    return kNaN;
  const Angle angle = Reduce(a);
  const double s = SinKernel(angle), c = CosKernel(angle);
  const double r = angle.q & 1 ? -c / s : s / c;
  return std::bit_cast<uint64_t>(x) >> 63 ? -r : r;
}

double Asin(double x) {
  const double a = Abs(x);
  if (!(a <= 1))
    return kNaN;
  if (a <= 0.5)
    return WithSign(AsinLow(a), x);
  // asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)), the root in two parts
  const double z = 0.5 * (1 - a), s = Sqrt(z);
  double p, q;
  TwoProduct(s, s, p, q);
  const double rest = s > 0 ? ((z - p) - q) / (2 * s) : 0;
  const double series = s * z * Poly(kAsin, z);
  const double hi = kHalfPiDouble[0] - 2 * s, lo = (kHalfPiDouble[0] - hi) - 2 * s;
  return WithSign(hi + (lo + (kHalfPiDouble[1] - 2 * (series + rest))), x);
}

double Acos(double x) {
  const double a = Abs(x);
  if (!(a <= 1))
    return kNaN;
  if (a <= 0.5) {
    const double z = x * x;
    return kHalfPiDouble[0] - (x - (kHalfPiDouble[1] - x * z * Poly(kAsin, z)));
  }
  const double z = 0.5 * (1 - a), s = Sqrt(z);
  double p, q;
  TwoProduct(s, s, p, q);
  const double rest = s > 0 ? ((z - p) - q) / (2 * s) : 0;
  const double r = 2 * (s + (s * z * Poly(kAsin, z) + rest));
  return x > 0 ? r : 2 * kHalfPiDouble[0] - (r - 2 * kHalfPiDouble[1]);
}

double Atan(double x) {
  if (x != x)
    return kNaN;
  return WithSign(AtanPositive(Abs(x)), x);
}

double Atan2(double y, double x) {
  if (x != x || y != y)
    return kNaN;
  const double ax = Abs(x), ay = Abs(y);
  const bool left = std::bit_cast<uint64_t>(x) >> 63;
  double r;
  if (ay == 0)
    r = left ? 2 * kHalfPiDouble[0] : 0;
  else if (ax == 0 || (ay == kInfinity && ax != kInfinity))
    r = kHalfPiDouble[0];
  else if (ay == kInfinity)
    r = (left ? 1.5 : 0.5) * kHalfPiDouble[0];
  else {
    r = AtanPositive(ay / ax);
    if (left)
      r = 2 * kHalfPiDouble[0] - (r - 2 * kHalfPiDouble[1]);
  }
  return WithSign(r, y);
}

double Sinh(double x) {
  const double a = Abs(x);
  if (!(a < 38)) { // also NaN
    const double e = Exp(0.5 * a);
    return WithSign(0.5 * e * e, x);
  }
  const double t = Expm1(a);
  return WithSign(0.5 * (t + t / (t + 1)), x);
}

double Cosh(double x) {
  const double a = Abs(x);
  if (!(a < 38)) {
    const double e = Exp(0.5 * a);
    return 0.5 * e * e;
  }
  const double e = Exp(a);
  return 0.5 * e + 0.5 / e;
}

double Asinh(double x) {
  const double a = Abs(x);
  double r;
  if (!(a < 0x1p28))
    r = Log(a) + kLn2Double[0];
  else if (a > 2)
    r = Log(2 * a + 1 / (Sqrt(a * a + 1) + a));
  else
    r = Log1p(a + a * a / (1 + Sqrt(a * a + 1)));
  return WithSign(r, x);
}

double Acosh(double x) {
  if (!(x >= 1))
    return kNaN;
  if (x >= 0x1p28)
    return Log(x) + kLn2Double[0];
  if (x > 2)
    return Log(2 * x - 1 / (x + Sqrt(x * x - 1)));
  const double t = x - 1;
  return Log1p(t + Sqrt(2 * t + t * t));
}

double Atanh(double x) {
  const double a = Abs(x);
  if (!(a <= 1))
    return kNaN;
  if (a == 1)
    return WithSign(kInfinity, x);
  const double t = 2 * a;
  return WithSign(0.5 * Log1p(a < 0.5 ? t + t * a / (1 - a) : t / (1 - a)), x);
}

double Erfc(double x) {
  double a = Abs(x);
  a = a > 28 ? 28 : a;
  if (!(a >= 0.5))
    return x < 0 ? 1 + ErfLow(a) : 1 - ErfLow(a);
  double hi, lo;
  TwoProduct(a, a, hi, lo);
  const double c = ErfcHigh(a, hi, lo);
  return x < 0 ? 2 - c : c;
}

} // namespace npuc::fpmath
