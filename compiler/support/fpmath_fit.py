#!/usr/bin/env python3
"""Makes fpmath_tables.h: the polynomials and constants of fpmath.h. Needs mpmath; not part of the build.

Each polynomial interpolates its function at Chebyshev nodes with 400 bits (within a small factor of the best
polynomial), is expanded in powers and rounded to doubles. The error printed is that of the rounded polynomial in exact
arithmetic, relative to the whole function's result, in units of 2^-53.
"""
import mpmath as mp

mp.mp.prec = 400
ONE = mp.mpf(1)


def chebyshev(f, a, b, degree):
    n = degree + 1
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    xs = [(a + b) / 2 + (b - a) / 2 * t for t in nodes]
    ys = [f(x) for x in xs]
    # Newton's divided differences, then expansion in powers.
    coef = ys[:]
    for j in range(1, n):
        for i in range(n - 1, j - 1, -1):
            coef[i] = (coef[i] - coef[i - 1]) / (xs[i] - xs[i - j])
    poly = [mp.mpf(0)]
    for i in range(n - 1, -1, -1):
        poly = [mp.mpf(0)] + poly
        for k in range(len(poly) - 1):
            poly[k] -= xs[i] * poly[k + 1]
        poly[0] += coef[i]
    return poly[:n]


def fit(name, comment, f, a, b, degree, whole=None, combine=None):
    poly = [float(c) for c in chebyshev(f, mp.mpf(a), mp.mpf(b), degree)]
    worst = mp.mpf(0)
    for i in range(2001):
        x = mp.mpf(a) + (mp.mpf(b) - mp.mpf(a)) * i / 2000
        if x == 0:
            continue
        p = mp.polyval([mp.mpf(c) for c in reversed(poly)], x)
        got, want = (combine(x, p), whole(x)) if whole else (p, f(x))
        worst = max(worst, abs(got / want - 1))
    print(f"// {comment}\n// Error {float(worst * 2 ** 53):.3f} * 2^-53.")
    rows = ",\n    ".join(c.hex() for c in poly)
    print(f"inline constexpr double {name}[] = {{\n    {rows}}};\n")


def bits(x, n):
    """x cut to n significant bits."""
    e = int(mp.floor(mp.log(abs(x), 2)))
    return mp.floor(x * mp.mpf(2) ** (n - 1 - e)) * mp.mpf(2) ** (e - n + 1)


def parts(name, x, widths):
    rest, out = x, []
    for w in widths:
        p = bits(rest, w) if w else mp.mpf(float(rest))
        out.append(float(p).hex())
        rest -= p
    print(f"inline constexpr double {name}[] = {{{', '.join(out)}}};")


print("""// Polynomials and constants of fpmath.h, made by fpmath_fit.py. Coefficients from the constant term up.
#pragma once

#include <cstdint>

namespace npuc::fpmath_internal {
""")

h = mp.log(2) / 2
fit("kExp", "(e^r - 1 - r) / r^2, |r| <= ln2 / 2", lambda r: (mp.expm1(r) - r) / r ** 2 if r else ONE / 2, -h, h, 11,
    mp.exp, lambda r, p: 1 + r + r * r * p)

s_max = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)


def log_series(z):
    """log(m) = 2s + s z L(z), z = s^2, s = (m - 1) / (m + 1)"""
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / (s * z)


z1 = s_max ** 2 * mp.mpf("1.0001")
fit("kLog", "L: log(m) = 2s + s z L(z), z = s^2, s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)]", log_series, 0, z1, 7,
    lambda z: mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))), lambda z, p: 2 * mp.sqrt(z) + mp.sqrt(z) * z * p)
fit("kLogTail", "the same after the term 2/3: log(m) = 2s + 2/3 s z + s z^2 T(z)",
    lambda z: (log_series(z) - mp.mpf(2) / 3) / z, 0, z1, 7,
    lambda z: mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))),
    lambda z, p: 2 * mp.sqrt(z) + mp.sqrt(z) * z * 2 / 3 + mp.sqrt(z) * z * z * p)

q = (mp.pi / 4 * mp.mpf("1.0001")) ** 2
fit("kSin", "sin(r) = r + r z S(z), z = r^2, |r| <= pi/4", lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, q, 6,
    lambda z: mp.sin(mp.sqrt(z)), lambda z, p: mp.sqrt(z) * (1 + z * p))
fit("kCos", "cos(r) = 1 - z/2 + z^2 C(z)", lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2, 0, q, 6,
    lambda z: mp.cos(mp.sqrt(z)), lambda z, p: 1 - z / 2 + z * z * p)

fit("kAsin", "asin(x) = x + x z A(z), z = x^2 <= 1/4", lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, 0.25, 13,
    lambda z: mp.asin(mp.sqrt(z)), lambda z, p: mp.sqrt(z) * (1 + z * p))
t = (mp.sqrt(2) - 1) * mp.mpf("1.0001")
fit("kAtan", "atan(x) = x + x z A(z), z = x^2, |x| <= tan(pi/8)",
    lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, t ** 2, 11,
    lambda z: mp.atan(mp.sqrt(z)), lambda z, p: mp.sqrt(z) * (1 + z * p))

fit("kErf", "erf(x) = x + x E(z), z = x^2 <= 1", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, 13,
    lambda z: mp.erf(mp.sqrt(z)), lambda z, p: mp.sqrt(z) * (1 + p))
K = mp.mpf(3.75)


def erfc_q(t):
    x = K * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


lo, hi = (0.5 - K) / (0.5 + K), (28 - K) / (28 + K)
fit("kErfc", "Q: erfc(x) = exp(-x^2) Q(t) / (1 + 2x), t = (x - 3.75) / (x + 3.75), 1/2 <= x <= 28", erfc_q, lo, hi, 29)

print("// Constants in parts that add up to them; the leading parts have spare low bits so that products are exact.")
parts("kLn2", mp.log(2), [32, 0, 0])
parts("kLn2Double", mp.log(2), [0, 0])
parts("kInvLn2", 1 / mp.log(2), [0, 0])
parts("kLog10Of2", mp.log10(2), [32, 0])
parts("kInvLn10", 1 / mp.log(10), [0, 0])
parts("kHalfPi", mp.pi / 2, [33, 33, 33, 0])
parts("kHalfPiDouble", mp.pi / 2, [0, 0])
parts("kTwoOverPi", 2 / mp.pi, [0])
parts("kTwoThirds", mp.mpf(2) / 3, [0, 0])
parts("kSqrtHalf", mp.sqrt(ONE / 2), [0, 0])
parts("kSqrtTwoOverPi", mp.sqrt(2 / mp.pi), [0])
print()
mp.mp.prec = 1400
words = [int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * 20))) >> 64 * (19 - i) & (2 ** 64 - 1) for i in range(20)]
print("// The first 1280 bits of 2/pi after the binary point.")
print("inline constexpr uint64_t kTwoOverPiBits[] = {\n    " +
      ",\n    ".join(f"0x{w:016x}" for w in words) + "};\n")
print("} // namespace npuc::fpmath_internal")
