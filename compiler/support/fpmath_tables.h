// Polynomials and constants of fpmath.h, made by fpmath_fit.py. Coefficients from the constant term up.
#pragma once

#include <cstdint>

namespace npuc::fpmath_internal {

// (e^r - 1 - r) / r^2, |r| <= ln2 / 2
// Error 0.005 * 2^-53.
inline constexpr double kExp[] = {0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555557p-5,
                                  0x1.1111111111111p-7,  0x1.6c16c16c15a6cp-10, 0x1.a01a01a0196aep-13,
                                  0x1.a01a01a9e80fep-16, 0x1.71de3a5aa6edbp-19, 0x1.27e4d41d6f553p-22,
                                  0x1.ae642c8730352p-26, 0x1.1f7f2000f4cf3p-29, 0x1.61bfa22dd3437p-33};

// L: log(m) = 2s + s z L(z), z = s^2, s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)]
// Error 0.005 * 2^-53.
inline constexpr double kLog[] = {0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476c87p-2,
                                  0x1.c71c720160b47p-3, 0x1.745cf901605f7p-3, 0x1.3b1c360763b8ap-3,
                                  0x1.0fbe83c2cbcf3p-3, 0x1.0c04595972ab8p-3};

// the same after the term 2/3: log(m) = 2s + 2/3 s z + s z^2 T(z)
// Error 0.000 * 2^-53.
inline constexpr double kLogTail[] = {0x1.999999999999ap-2, 0x1.2492492492521p-2, 0x1.c71c71c6eaa10p-3,
                                      0x1.745d177a96056p-3, 0x1.3b1395d2190c1p-3, 0x1.1118c7e4b0917p-3,
                                      0x1.df7cc8e5fa539p-4, 0x1.e02e6fff27908p-4};

// sin(r) = r + r z S(z), z = r^2, |r| <= pi/4
// Error 0.057 * 2^-53.
inline constexpr double kSin[] = {-0x1.5555555555555p-3, 0x1.1111111111110p-7,   -0x1.a01a01a019936p-13,
                                  0x1.71de3a54605eep-19, -0x1.ae64541266378p-26, 0x1.61217ec01749dp-33,
                                  -0x1.ab17a79237a19p-41};

// cos(r) = 1 - z/2 + z^2 C(z)
// Error 0.011 * 2^-53.
inline constexpr double kCos[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16c16p-10, 0x1.a01a01a019d0ap-16,
                                  -0x1.27e4fb7712bdfp-22, 0x1.1eed8deb6d561p-29,  -0x1.9394b9c9c20a4p-37,
                                  0x1.ab783376962cfp-45};

// asin(x) = x + x z A(z), z = x^2 <= 1/4
// Error 0.020 * 2^-53.
inline constexpr double kAsin[] = {
    0x1.5555555555555p-3, 0x1.3333333333388p-4, 0x1.6db6db6dac1e0p-5,  0x1.f1c71c7a52ba3p-6, 0x1.6e8ba123e494cp-6,
    0x1.1c4efce23019fp-6, 0x1.c990ad3d8fdcap-7, 0x1.7b027ee1dd585p-7,  0x1.3b49de7121487p-7, 0x1.31622469ce5adp-7,
    0x1.8f193743418ffp-9, 0x1.406192d124629p-6, -0x1.3b416bb7d9257p-6, 0x1.e529c6fce9bb4p-6};

// atan(x) = x + x z A(z), z = x^2, |x| <= tan(pi/8)
// Error 0.029 * 2^-53.
inline constexpr double kAtan[] = {-0x1.5555555555555p-2, 0x1.9999999999953p-3,  -0x1.249249248d7cap-3,
                                   0x1.c71c71c30300bp-4,  -0x1.745d165d9ee17p-4, 0x1.3b1392d04b71cp-4,
                                   -0x1.110e875de57ebp-4, 0x1.e19a0439b3b4bp-5,  -0x1.ac7a216389ddfp-5,
                                   0x1.74dbcb5c2167ap-5,  -0x1.1b2e7e3386b79p-5, 0x1.0ac7d2dc4c828p-6};

// erf(x) = x + x E(z), z = x^2 <= 1
// Error 0.099 * 2^-53.
inline constexpr double kErf[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042bdep-4,
                                  -0x1.b82ce312889bap-6,  0x1.565bcd0e6502dp-8,   -0x1.c02db3feeb579p-11,
                                  0x1.f9a326c233146p-14,  -0x1.f4d2561aeafd4p-17, 0x1.b9e6509b9867dp-20,
                                  -0x1.5f6d925a0bc7ap-23, 0x1.fc4356498c2d9p-27,  -0x1.4e607b41a6416p-30,
                                  0x1.7f072188e194dp-34,  -0x1.29b9f1b3df556p-38};

// Q: erfc(x) = exp(-x^2) Q(t) / (1 + 2x), t = (x - 3.75) / (x + 3.75), 1/2 <= x <= 28
// Error 0.817 * 2^-53.
inline constexpr double kErfc[] = {
    0x1.3ccda0b5d5dc2p+0,  -0x1.1f367683f89a7p-3,  0x1.d5f2948159d00p-9,   0x1.510169d096804p-4,
    -0x1.bda9309a28835p-4, 0x1.7a14188a99b0ap-4,   -0x1.e0d0fa6e02593p-5,  0x1.d0b0037dcd597p-6,
    -0x1.3f603c3352252p-7, 0x1.cc3a0e218e5c8p-10,  0x1.33fb2408ab9eep-12,  -0x1.303f9d808cc84p-12,
    0x1.b14457be365b7p-15, 0x1.778a24b84d637p-16,  -0x1.80096df49b62bp-17, -0x1.0524d4f4af0c9p-20,
    0x1.d6c7ed059712bp-20, -0x1.f4975acb436cap-25, -0x1.1913c46d0924ep-22, 0x1.a140566d18c5fp-26,
    0x1.66b60f8b0dcf7p-25, -0x1.2b7175925446fp-28, -0x1.f121bf0c63345p-28, 0x1.10a86a487d29bp-31,
    0x1.65c70bc2ce259p-30, 0x1.9911913e2b81dp-39,  -0x1.d34895ce6aa78p-33, -0x1.3a5a2f804dbe3p-36,
    0x1.865332f5646a1p-36, 0x1.e293d2ed8232cp-39};

// Constants in parts that add up to them; the leading parts have spare low bits so that products are exact.
inline constexpr double kLn2[] = {0x1.62e42fee00000p-1, 0x1.a39ef35793c76p-33, 0x1.cc01f97b57a08p-87};
inline constexpr double kLn2Double[] = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr double kInvLn2[] = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr double kLog10Of2[] = {0x1.3441350800000p-2, 0x1.f79fef311f12bp-34};
inline constexpr double kInvLn10[] = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
inline constexpr double kHalfPi[] = {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e000000p-69,
                                     0x1.b839a252049c1p-104};
inline constexpr double kHalfPiDouble[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
inline constexpr double kTwoOverPi[] = {0x1.45f306dc9c883p-1};
inline constexpr double kTwoThirds[] = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
inline constexpr double kSqrtHalf[] = {0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55};
inline constexpr double kSqrtTwoOverPi[] = {0x1.9884533d43651p-1};

// The first 1280 bits of 2/pi after the binary point.
inline constexpr uint64_t kTwoOverPiBits[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

} // namespace npuc::fpmath_internal
