// The functions against the C library's long double ones (64-bit mantissas): an independent implementation whose own
// error is about 2^-11 of a double's last place.
#include "compiler/support/fpmath.h"
#include "compiler/support/fpmath_array.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace npuc {
namespace {

using Function = double (*)(double);
using FloatFunction = float (*)(float);
using Reference = long double (*)(long double);

double Ulp(double x) {
  x = std::fabs(x);
  return x < 0x1p-1021 ? 0x1p-1074 : std::nextafter(x, INFINITY) - x;
}

struct Case {
  const char *name;
  Function function;
  FloatFunction float_function;
  Reference reference;
  double low, high; // the range that is sampled; also -high..-low when `odd`
  bool both_signs;
  double ulps; // of doubles, bound
};

long double Sigmoid(long double x) {
  return 1 / (1 + expl(-x));
}
long double Gelu(long double x) {
  return x / 2 * erfcl(-x * 0.707106781186547524400844362104849039L);
}
long double GeluTanh(long double x) {
  return x / (1 + expl(-2 * 0.797884560802865355879892119868763737L * (x + 0.044715L * x * x * x)));
}
long double Softplus(long double x) {
  return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

#define NPUC_FN(F) [](double x) { return fpmath::F(x); }, [](float x) { return fpmath::F(x); }

const Case kCases[] = {
    {"exp", NPUC_FN(Exp), expl, 1e-20, 745, true, 1},
    {"exp", NPUC_FN(Exp), expl, 0, 20, true, 1},
    {"expm1", NPUC_FN(Expm1), expm1l, 1e-20, 700, true, 2},
    {"expm1", NPUC_FN(Expm1), expm1l, 0, 3, true, 2},
    {"log", NPUC_FN(Log), logl, 1e-320, 1e308, false, 1},
    {"log", NPUC_FN(Log), logl, 0.3, 3, false, 1},
    {"log1p", NPUC_FN(Log1p), log1pl, 1e-30, 1e300, false, 1.5},
    {"log1p", NPUC_FN(Log1p), log1pl, 0, 0.9999999, true, 1.5},
    {"tanh", NPUC_FN(Tanh), tanhl, 1e-20, 30, true, 3},
    {"tanh", NPUC_FN(Tanh), tanhl, 0, 4, true, 3},
    {"sigmoid", NPUC_FN(Sigmoid), Sigmoid, 0, 700, true, 2.5},
    {"sigmoid", NPUC_FN(Sigmoid), Sigmoid, 0, 10, true, 2.5},
    {"erf", NPUC_FN(Erf), erfl, 1e-20, 7, true, 1.25},
    {"erf", NPUC_FN(Erf), erfl, 0, 3, true, 1.25},
    {"erfc", NPUC_FN(Erfc), erfcl, 0, 26, true, 4},
    {"gelu", NPUC_FN(Gelu), Gelu, 0, 37, true, 6},
    {"gelu", NPUC_FN(Gelu), Gelu, 1e-20, 6, true, 6},
    {"gelu_tanh", NPUC_FN(GeluTanh), GeluTanh, 0, 3, true, 16},
    {"softplus", NPUC_FN(Softplus), Softplus, 0, 700, true, 2},
    {"softplus", NPUC_FN(Softplus), Softplus, 0, 10, true, 2},
    {"exp2", NPUC_FN(Exp2), exp2l, 1e-20, 1074, true, 1},
    {"exp2", NPUC_FN(Exp2), exp2l, 0, 20, true, 1},
    {"log2", NPUC_FN(Log2), log2l, 1e-320, 1e308, false, 1},
    {"log2", NPUC_FN(Log2), log2l, 0.3, 3, false, 1},
    {"log10", NPUC_FN(Log10), log10l, 1e-320, 1e308, false, 1},
    {"log10", NPUC_FN(Log10), log10l, 0.3, 3, false, 1},
    {"sin", NPUC_FN(Sin), sinl, 1e-20, 1e300, true, 1},
    {"sin", NPUC_FN(Sin), sinl, 0, 2000, true, 1},
    {"cos", NPUC_FN(Cos), cosl, 1e-20, 1e300, true, 1},
    {"cos", NPUC_FN(Cos), cosl, 0, 2000, true, 1},
    {"tan", NPUC_FN(Tan), tanl, 1e-20, 1e300, true, 2},
    {"tan", NPUC_FN(Tan), tanl, 0, 2000, true, 2},
    {"asin", NPUC_FN(Asin), asinl, 1e-20, 1, true, 1},
    {"asin", NPUC_FN(Asin), asinl, 0, 1, true, 1},
    {"acos", NPUC_FN(Acos), acosl, 1e-20, 1, true, 1},
    {"acos", NPUC_FN(Acos), acosl, 0, 1, true, 1},
    {"atan", NPUC_FN(Atan), atanl, 1e-20, 1e20, true, 2},
    {"atan", NPUC_FN(Atan), atanl, 0, 4, true, 2},
    {"sinh", NPUC_FN(Sinh), sinhl, 1e-20, 710, true, 3},
    {"sinh", NPUC_FN(Sinh), sinhl, 0, 3, true, 3},
    {"cosh", NPUC_FN(Cosh), coshl, 1e-20, 710, true, 2.5},
    {"asinh", NPUC_FN(Asinh), asinhl, 1e-20, 1e300, true, 2},
    {"asinh", NPUC_FN(Asinh), asinhl, 0, 5, true, 2},
    {"acosh", NPUC_FN(Acosh), acoshl, 1, 1e300, false, 3},
    {"acosh", NPUC_FN(Acosh), acoshl, 1, 5, false, 3},
    {"atanh", NPUC_FN(Atanh), atanhl, 1e-20, 1, true, 3},
    {"atanh", NPUC_FN(Atanh), atanhl, 0, 1, true, 3},
};

// Points evenly spread over the range, or over its logarithm when it starts above zero and is wide.
std::vector<double> Points(const Case &c, size_t n) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> out;
  const bool logarithmic = c.low > 0 && c.high / c.low > 100;
  for (size_t i = 0; i < n; ++i) {
    const double u = unit(random);
    double x = logarithmic ? std::exp(std::log(c.low) + u * (std::log(c.high) - std::log(c.low)))
                           : c.low + u * (c.high - c.low);
    if (c.both_signs && i % 2)
      x = -x;
    out.push_back(x);
  }
  return out;
}

TEST(FpMath, DoublesAreWithinTheirBound) {
  for (const Case &c : kCases) {
    double worst = 0, at = 0;
    for (double x : Points(c, 60000)) {
      const long double want = c.reference(x);
      const double rounded = static_cast<double>(want), got = c.function(x);
      if (std::isinf(rounded) || std::isnan(rounded)) {
        ASSERT_EQ(std::isnan(got), std::isnan(rounded)) << c.name << " " << x;
        continue;
      }
      const double error = static_cast<double>(fabsl(got - want) / Ulp(rounded));
      if (!(error <= worst)) {
        worst = error;
        at = x;
      }
    }
    EXPECT_LE(worst, c.ulps) << c.name << " over [" << c.low << ", " << c.high << "] at " << std::hexfloat << at;
    if (std::getenv("NPUC_PRINT_ULPS"))
      std::printf("%-10s [%g, %g] %.3f ulp at %a\n", c.name, c.low, c.high, worst, at);
  }
}

TEST(FpMath, FloatsAreCorrectlyRounded) {
  for (const Case &c : kCases) {
    size_t wrong = 0, n = 0;
    for (double d : Points(c, 60000)) {
      const float x = static_cast<float>(d), want = static_cast<float>(c.reference(x)), got = c.float_function(x);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << c.name << " " << x;
        continue;
      }
      ++n;
      wrong += std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(want);
    }
    EXPECT_EQ(wrong, 0u) << c.name << " of " << n;
  }
}

TEST(FpMath, SpecialValues) {
  const double inf = INFINITY;
  struct Row {
    const char *name;
    Function function;
    double at_inf, at_minus_inf, at_zero;
  } const rows[] = {
      {"exp", fpmath::Exp, inf, 0, 1},
      {"expm1", fpmath::Expm1, inf, -1, 0},
      {"log", fpmath::Log, inf, NAN, -inf},
      {"log1p", fpmath::Log1p, inf, NAN, 0},
      {"tanh", fpmath::Tanh, 1, -1, 0},
      {"sigmoid", fpmath::Sigmoid, 1, 0, 0.5},
      {"erf", fpmath::Erf, 1, -1, 0},
      {"erfc", fpmath::Erfc, 0, 2, 1},
      {"gelu", fpmath::Gelu, inf, NAN, 0},
      {"softplus", fpmath::Softplus, inf, 0, 0.6931471805599453},
      {"exp2", fpmath::Exp2, inf, 0, 1},
      {"log2", fpmath::Log2, inf, NAN, -inf},
      {"log10", fpmath::Log10, inf, NAN, -inf},
      {"sin", fpmath::Sin, NAN, NAN, 0},
      {"cos", fpmath::Cos, NAN, NAN, 1},
      {"tan", fpmath::Tan, NAN, NAN, 0},
      {"asin", fpmath::Asin, NAN, NAN, 0},
      {"acos", fpmath::Acos, NAN, NAN, M_PI_2},
      {"atan", fpmath::Atan, M_PI_2, -M_PI_2, 0},
      {"sinh", fpmath::Sinh, inf, -inf, 0},
      {"cosh", fpmath::Cosh, inf, inf, 1},
      {"asinh", fpmath::Asinh, inf, -inf, 0},
      {"acosh", fpmath::Acosh, inf, NAN, NAN},
      {"atanh", fpmath::Atanh, NAN, NAN, 0},
  };
  const auto same = [](double a, double b) { return std::isnan(b) ? std::isnan(a) : a == b; };
  for (const Row &r : rows) {
    EXPECT_TRUE(std::isnan(r.function(NAN))) << r.name;
    EXPECT_TRUE(same(r.function(inf), r.at_inf)) << r.name << " " << r.function(inf);
    EXPECT_TRUE(same(r.function(-inf), r.at_minus_inf)) << r.name << " " << r.function(-inf);
    EXPECT_TRUE(same(r.function(0), r.at_zero)) << r.name << " " << r.function(0);
    if (r.at_zero == 0) { // odd at zero: signs and tiny arguments survive
      EXPECT_FALSE(std::signbit(r.function(0.0))) << r.name;
      EXPECT_TRUE(std::signbit(r.function(-0.0))) << r.name;
      if (std::string_view(r.name) != "gelu" && std::string_view(r.name) != "erf") { // slope 1
        EXPECT_EQ(r.function(-0x1p-1074), -0x1p-1074) << r.name;
        EXPECT_EQ(r.function(0x1p-1030), 0x1p-1030) << r.name;
      }
    }
  }
  EXPECT_EQ(fpmath::Log(1.0), 0);
  EXPECT_TRUE(std::isnan(fpmath::Log(-1.0)));
  EXPECT_EQ(fpmath::Log1p(-1.0), -inf);
  EXPECT_TRUE(std::isnan(fpmath::Log1p(-1.5)));
  EXPECT_EQ(fpmath::Exp(709.7827128933841), std::exp(709.7827128933841));
  EXPECT_EQ(fpmath::Exp(709.79), inf);
  EXPECT_EQ(fpmath::Exp(-745.1), 0x1p-1074);
  EXPECT_EQ(fpmath::Exp(-746.0), 0);
  EXPECT_EQ(fpmath::Exp(1e300), inf);
  EXPECT_EQ(fpmath::Expm1(1e300), inf);
  EXPECT_EQ(fpmath::Exp(88.8f), static_cast<float>(inf));
  EXPECT_EQ(fpmath::Asin(1.0), M_PI_2);
  EXPECT_EQ(fpmath::Asin(-1.0), -M_PI_2);
  EXPECT_EQ(fpmath::Acos(1.0), 0);
  EXPECT_EQ(fpmath::Acos(-1.0), M_PI);
  EXPECT_TRUE(std::isnan(fpmath::Acos(1.0000000000000002)));
  EXPECT_EQ(fpmath::Atanh(1.0), inf);
  EXPECT_EQ(fpmath::Atanh(-1.0), -inf);
  EXPECT_EQ(fpmath::Acosh(1.0), 0);
  EXPECT_EQ(fpmath::Sinh(710.5), std::sinh(710.5));
  EXPECT_EQ(fpmath::Cosh(-1e4), inf);
}

TEST(FpMath, ExactWhereTheResultIs) {
  for (int k = -1074; k < 1024; ++k) {
    ASSERT_EQ(fpmath::Exp2(double(k)), std::ldexp(1, k));
    ASSERT_EQ(fpmath::Log2(std::ldexp(1, k)), k);
  }
  double ten = 1;
  for (int k = 0; k <= 22; ++k, ten *= 10)
    ASSERT_EQ(fpmath::Log10(ten), k);
  for (int a = -40; a <= 40; ++a) {
    for (int n = 0; n <= 9; ++n) {
      double want = 1;
      for (int i = 0; i < n; ++i)
        want *= a;
      ASSERT_EQ(fpmath::Pow(double(a), double(n)), want) << a << "^" << n;
    }
  }
  for (int a = 1; a < 3000; ++a) {
    ASSERT_LE(std::fabs(fpmath::Pow(double(a), 0.5) - std::sqrt(double(a))), Ulp(std::sqrt(double(a))));
    ASSERT_LE(std::fabs(fpmath::Pow(double(a), -1.0) - 1.0 / a), Ulp(1.0 / a));
  }
}

TEST(FpMath, PowAgainstLongDouble) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(-1, 1);
  double worst = 0;
  for (int i = 0; i < 300000; ++i) {
    const double x = std::exp(unit(random) * (i % 3 ? 3 : 700)), y = unit(random) * (i % 2 ? 10 : 300);
    const double got = fpmath::Pow(x, y);
    const long double want = powl(x, y);
    if (!std::isfinite(double(want)) || std::fabs(double(want)) < 1e-300)
      continue;
    worst = std::max(worst, double(fabsl(got - want) / Ulp(double(want))));
    if (i % 10 == 0) {
      const float fx = float(x), fy = float(y);
      ASSERT_EQ(fpmath::Pow(fx, fy), float(powl(fx, fy))) << fx << " " << fy;
    }
  }
  EXPECT_LE(worst, 1.0);
}

TEST(FpMath, PowSpecialValuesAsTheCLibrary) {
  const double values[] = {0.0,
                           -0.0,
                           1,
                           -1,
                           2,
                           -2,
                           0.5,
                           -0.5,
                           3,
                           -3,
                           2.5,
                           -2.5,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           1e300,
                           -1e300,
                           1e-300,
                           -1e-300,
                           9007199254740993.0,
                           -9007199254740991.0,
                           0x1p-1074};
  for (double x : values)
    for (double y : values) {
      const double got = fpmath::Pow(x, y), want = std::pow(x, y);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << x << " ^ " << y << " = " << got;
      } else {
        if (std::isinf(want) || want == 0)
          EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(want)) << x << " ^ " << y << " = " << got;
        else
          EXPECT_LE(std::fabs(got - want), Ulp(want)) << x << " ^ " << y << " = " << got;
      }
    }
}

TEST(FpMath, Atan2AsTheCLibrary) {
  const double values[] = {0.0, -0.0, 1, -1, 1e-300, -1e-300, 1e300, -1e300, 2.5, -2.5, INFINITY, -INFINITY, NAN};
  for (double y : values)
    for (double x : values) {
      const double got = fpmath::Atan2(y, x), want = std::atan2(y, x);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got));
      else
        EXPECT_TRUE(std::fabs(got - want) <= Ulp(want) && std::signbit(got) == std::signbit(want))
            << y << ", " << x << ": " << got << " for " << want;
    }
}

// The doubles nearest to multiples of pi/2 among all (Kahan, Muller), and the largest ones.
TEST(FpMath, HardAngles) {
  for (double x : {0x1.6ac5b262ca1ffp+849, 0x1.5b8a2c3f4e5d6p+1023, std::numeric_limits<double>::max(), 0x1p20, 0x1p54,
                   0x1.921fb54442d18p+20, 0x1.921fb54442d18p+0, 0x1.921fb54442d18p+1, 0x1.ab8d2a5b4c3e1p+52, 1e22,
                   std::nextafter(0x1p20, 0), 0x1.8p53, 0x1.bd7f3c2e1a0b9p+41}) {
    const double s = static_cast<double>(sinl(x)), c = static_cast<double>(cosl(x));
    EXPECT_LE(std::fabs(fpmath::Sin(x) - s), Ulp(s)) << std::hexfloat << x;
    EXPECT_LE(std::fabs(fpmath::Cos(x) - c), Ulp(c)) << std::hexfloat << x;
    EXPECT_LE(std::fabs(fpmath::Sin(-x) + s), Ulp(s)) << std::hexfloat << x;
  }
}

TEST(FpMath, RoundHalfEven) {
  const std::pair<double, double> rows[] = {{0.5, 0},
                                            {1.5, 2},
                                            {2.5, 2},
                                            {-0.5, -0.0},
                                            {-1.5, -2},
                                            {-2.5, -2},
                                            {0.49999999999999994, 0},
                                            {1e300, 1e300},
                                            {-0.0, -0.0},
                                            {3.7, 4},
                                            {4503599627370495.5, 4503599627370496.0}};
  for (auto [x, want] : rows)
    EXPECT_EQ(std::bit_cast<uint64_t>(fpmath::RoundHalfEven(x)), std::bit_cast<uint64_t>(want)) << x;
  EXPECT_EQ(fpmath::RoundHalfEven(8388607.5f), 8388608.0f);
  EXPECT_EQ(fpmath::RoundHalfEven(-2.5f), -2.0f);
  EXPECT_EQ(fpmath::RoundHalfEven(0.49999997f), 0.0f);
  EXPECT_TRUE(std::signbit(fpmath::RoundHalfEven(-0.2f)));
  EXPECT_TRUE(std::isnan(fpmath::RoundHalfEven(NAN)));
  EXPECT_EQ(fpmath::RoundHalfEven(float(INFINITY)), INFINITY);
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(uint32_t(random()));
    if (!std::isnan(x))
      ASSERT_EQ(std::bit_cast<uint32_t>(fpmath::RoundHalfEven(x)), std::bit_cast<uint32_t>(std::nearbyintf(x))) << x;
  }
}

TEST(FpMath, ArraysHaveTheScalarBits) {
  std::mt19937 random(5);
  std::vector<float> in(100003), out(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = i % 2 ? std::bit_cast<float>(uint32_t(random())) : float(int32_t(random())) * 0x1p-28f;
  in[0] = NAN, in[1] = INFINITY, in[2] = -INFINITY, in[3] = 0, in[4] = -0.0f, in[5] = 1, in[6] = -1;
  using fpmath::Unary;
  const std::pair<Unary, FloatFunction> rows[] = {
      {Unary::Exp, fpmath::Exp},           {Unary::Expm1, fpmath::Expm1}, {Unary::Log, fpmath::Log},
      {Unary::Log1p, fpmath::Log1p},       {Unary::Tanh, fpmath::Tanh},   {Unary::Sigmoid, fpmath::Sigmoid},
      {Unary::Erf, fpmath::Erf},           {Unary::Gelu, fpmath::Gelu},   {Unary::GeluTanh, fpmath::GeluTanh},
      {Unary::Softplus, fpmath::Softplus}, {Unary::Sqrt, fpmath::Sqrt},   {Unary::RoundHalfEven, fpmath::RoundHalfEven},
  };
  for (auto [f, scalar] : rows) {
    fpmath::Map(f, in.data(), out.data(), in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      const float want = scalar(in[i]);
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(out[i]));
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(want)) << int(f) << " of " << in[i];
    }
  }
}

// The bits are a promise: a change here changes compiled models, and a machine that differs breaks them.
TEST(FpMath, BitsStay) {
  uint64_t h = 0, state = 1;
  for (const Case &c : kCases)
    for (int i = 0; i < 2000; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint64_t exponent = 1023 - 12 + (state >> 40) % 18, mantissa = (state << 13) >> 12 & 0xfffffffffffffu;
      const double y = c.function(std::bit_cast<double>((state & 1) << 63 | exponent << 52 | mantissa));
      if (y == y)
        h = (h ^ std::bit_cast<uint64_t>(y)) * 0x9e3779b97f4a7c15u + (h >> 31);
    }
  EXPECT_EQ(h, 14223350903190992687u);
}

} // namespace
} // namespace npuc
