#include "compiler/support/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace npuc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

uint32_t Bits(float x) {
  return std::bit_cast<uint32_t>(x);
}

// A format by its definition: value of a code computed with ldexp.
struct Spec {
  int exp, mant, bias;
};
double ByDefinition(Spec s, unsigned code) {
  const int e = int(code >> s.mant & ((1u << s.exp) - 1)), m = int(code & ((1u << s.mant) - 1));
  const double v = e ? std::ldexp(1 + std::ldexp(m, -s.mant), e - s.bias) : std::ldexp(m, 1 - s.bias - s.mant);
  return code >> (s.exp + s.mant) & 1 ? -v : v;
}

TEST(Half, DecodesEveryCodeAsDefined) {
  for (unsigned c = 0; c < 65536; ++c) {
    const float f = HalfToFloat(uint16_t(c));
    if ((c & 0x7fff) > 0x7c00)
      EXPECT_TRUE(std::isnan(f));
    else if ((c & 0x7fff) == 0x7c00)
      EXPECT_EQ(f, c >> 15 ? -kInf : kInf);
    else
      EXPECT_EQ(Bits(f), Bits(float(ByDefinition({5, 10, 15}, c)))) << c;
  }
}

TEST(Half, EveryFiniteValueRoundTrips) {
  for (unsigned c = 0; c < 65536; ++c)
    if ((c & 0x7fff) <= 0x7c00)
      EXPECT_EQ(FloatToHalf(HalfToFloat(uint16_t(c))), c);
}

// Between neighbours: the nearer one, the even one from the middle, also from double where a float would tie wrongly.
TEST(Half, RoundsToNearestEven) {
  for (unsigned c = 0; c < 0x7bff; ++c) {
    const float lo = HalfToFloat(uint16_t(c)), hi = HalfToFloat(uint16_t(c + 1));
    const float mid = (lo + hi) / 2;
    const unsigned even = c & 1 ? c + 1 : c;
    ASSERT_EQ(FloatToHalf(mid), even);
    ASSERT_EQ(FloatToHalf(-mid), even | 0x8000);
    ASSERT_EQ(FloatToHalf(std::nextafter(mid, 0.0f)), c);
    ASSERT_EQ(FloatToHalf(std::nextafter(mid, kInf)), c + 1);
    ASSERT_EQ(DoubleToHalf(std::nextafter(double(mid), 0.0)), c);
    ASSERT_EQ(DoubleToHalf(std::nextafter(double(mid), 1e9)), c + 1);
    ASSERT_EQ(DoubleToHalf(-std::nextafter(double(mid), 1e9)), (c + 1) | 0x8000);
    ASSERT_EQ(DoubleToHalf(mid), even);
  }
}

TEST(Half, Overflow) {
  EXPECT_EQ(FloatToHalf(65504), 0x7bff);
  EXPECT_EQ(FloatToHalf(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToHalf(kInf), 0x7c00);
  EXPECT_EQ(DoubleToHalf(1e300), 0x7c00);
  EXPECT_EQ(DoubleToHalf(1e-300), 0);
  EXPECT_EQ(FloatToHalf(-1e-30f), 0x8000);
  EXPECT_EQ(FloatToHalf(NAN) & 0x7fff, 0x7e00);
}

TEST(Half, ArraysHaveTheScalarBits) {
  std::vector<uint16_t> codes(65536 + 5);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = uint16_t(i);
  std::vector<float> floats(codes.size());
  HalfToFloat(codes.data(), floats.data(), codes.size());
  for (size_t i = 0; i < codes.size(); ++i)
    ASSERT_EQ(Bits(floats[i]), Bits(HalfToFloat(codes[i]))) << i;

  std::mt19937 random(1);
  std::vector<float> in(1 << 20);
  for (float &x : in)
    x = std::bit_cast<float>(uint32_t(random()));
  for (size_t i = 0; i < in.size(); i += 2) // most within the half's range
    in[i] = std::bit_cast<float>(uint32_t(random() & 0x8fffffff) + 0x33000000);
  std::vector<uint16_t> out(in.size());
  FloatToHalf(in.data(), out.data(), in.size());
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_EQ(out[i], FloatToHalf(in[i])) << std::hexfloat << in[i];
}

TEST(BFloat16, RoundsToNearestEven) {
  for (unsigned c = 0; c < 0x7f7f; ++c) {
    const double lo = BFloat16ToFloat(uint16_t(c)), hi = BFloat16ToFloat(uint16_t(c + 1)), mid = (lo + hi) / 2;
    ASSERT_EQ(FloatToBFloat16(float(lo)), c);
    ASSERT_EQ(FloatToBFloat16(float(mid)), c & 1 ? c + 1 : c);
    ASSERT_EQ(DoubleToBFloat16(-std::nextafter(mid, 1e300)), (c + 1) | 0x8000);
    ASSERT_EQ(DoubleToBFloat16(std::nextafter(mid, 0.0)), c);
  }
  EXPECT_EQ(FloatToBFloat16(kInf), 0x7f80);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0x7f800001u)))));
}

// Inputs and codes of the ONNX backend tests (1.23): the same fifteen values into each format.
const float kCast[15] = {0.47892547f, 0.48033667f, 0.49968487f, 0.81910545f, 0.47031248f, 0.7229038f, 1e6f, 1e-7f,
                         NAN,         kInf,        kInf,        -kInf,       -1e-7f,      1e-7f,      -1e6f};

template <typename F> std::vector<int> Codes(F f, bool saturate) {
  std::vector<int> out;
  for (float x : kCast)
    out.push_back(f(x, saturate));
  return out;
}

using V = std::vector<int>;

TEST(Float8, CastsAsOnnxSaturating) {
  EXPECT_EQ(Codes(FloatToF8E4M3FN, true),
            (V{0x2f, 0x2f, 0x30, 0x35, 0x2f, 0x34, 0x7e, 0x00, 0x7f, 0x7e, 0x7e, 0xfe, 0x80, 0x00, 0xfe}));
  EXPECT_EQ(Codes(FloatToF8E4M3FNUZ, true),
            (V{0x37, 0x37, 0x38, 0x3d, 0x37, 0x3c, 0x7f, 0x00, 0x80, 0x7f, 0x7f, 0xff, 0x00, 0x00, 0xff}));
  EXPECT_EQ(Codes(FloatToF8E5M2, true),
            (V{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7b, 0x00, 0x7e, 0x7b, 0x7b, 0xfb, 0x80, 0x00, 0xfb}));
  EXPECT_EQ(Codes(FloatToF8E5M2FNUZ, true),
            (V{0x3c, 0x3c, 0x3c, 0x3f, 0x3c, 0x3e, 0x7f, 0x00, 0x80, 0x7f, 0x7f, 0xff, 0x00, 0x00, 0xff}));
}

TEST(Float8, CastsAsOnnxNotSaturating) {
  EXPECT_EQ(Codes(FloatToF8E4M3FN, false),
            (V{0x2f, 0x2f, 0x30, 0x35, 0x2f, 0x34, 0x7f, 0x00, 0x7f, 0x7f, 0x7f, 0xff, 0x80, 0x00, 0xff}));
  EXPECT_EQ(Codes(FloatToF8E4M3FNUZ, false),
            (V{0x37, 0x37, 0x38, 0x3d, 0x37, 0x3c, 0x80, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00, 0x80}));
  EXPECT_EQ(Codes(FloatToF8E5M2, false),
            (V{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7c, 0x00, 0x7e, 0x7c, 0x7c, 0xfc, 0x80, 0x00, 0xfc}));
  EXPECT_EQ(Codes(FloatToF8E5M2FNUZ, false),
            (V{0x3c, 0x3c, 0x3c, 0x3f, 0x3c, 0x3e, 0x80, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00, 0x80}));
}

// Every code by its definition, and every float near every middle by brute force over all codes.
template <typename Decode, typename Encode>
void CheckFormat(Spec spec, unsigned top, Decode decode, Encode encode, bool negative_zero) {
  for (unsigned c = 0; c <= top; ++c) {
    EXPECT_EQ(double(decode(uint8_t(c))), ByDefinition(spec, c)) << c;
    if (c || negative_zero) {
      const unsigned sign = 1u << (spec.exp + spec.mant);
      EXPECT_EQ(Bits(decode(uint8_t(c | sign))), Bits(-float(ByDefinition(spec, c)))) << c;
      EXPECT_EQ(encode(decode(uint8_t(c | sign))), c | sign);
    }
    EXPECT_EQ(encode(decode(uint8_t(c))), c);
    if (c < top) {
      const float mid = (decode(uint8_t(c)) + decode(uint8_t(c + 1))) / 2;
      EXPECT_EQ(encode(mid), c & 1 ? c + 1 : c);
      EXPECT_EQ(encode(std::nextafter(mid, 0.0f)), c);
      EXPECT_EQ(encode(std::nextafter(mid, kInf)), c + 1);
    }
  }
  EXPECT_EQ(encode(kInf), top);
  EXPECT_EQ(encode(0x1p-149f), 0u);
}

TEST(Float8, FormatsByDefinition) {
  CheckFormat(
      {4, 3, 7}, 0x7e, F8E4M3FNToFloat, [](float x) { return FloatToF8E4M3FN(x); }, true);
  CheckFormat(
      {4, 3, 8}, 0x7f, F8E4M3FNUZToFloat, [](float x) { return FloatToF8E4M3FNUZ(x); }, false);
  CheckFormat(
      {5, 2, 15}, 0x7b, F8E5M2ToFloat, [](float x) { return FloatToF8E5M2(x); }, true);
  CheckFormat(
      {5, 2, 16}, 0x7f, F8E5M2FNUZToFloat, [](float x) { return FloatToF8E5M2FNUZ(x); }, false);
  CheckFormat({2, 1, 1}, 0x7, F4E2M1ToFloat, FloatToF4E2M1, true);
  EXPECT_EQ(F8E4M3FNToFloat(0x7e), 448);
  EXPECT_EQ(F8E4M3FNUZToFloat(0x7f), 240);
  EXPECT_EQ(F8E5M2ToFloat(0x7b), 57344);
  EXPECT_EQ(F8E5M2FNUZToFloat(0x7f), 57344);
  EXPECT_TRUE(std::isnan(F8E4M3FNToFloat(0xff)));
  EXPECT_TRUE(std::isnan(F8E4M3FNUZToFloat(0x80)));
  EXPECT_TRUE(std::isnan(F8E5M2FNUZToFloat(0x80)));
  EXPECT_EQ(F8E5M2ToFloat(0xfc), -kInf);
  EXPECT_TRUE(std::isnan(F8E5M2ToFloat(0x7d)));
}

TEST(Float8, OverflowStartsAtTheMiddleToTheNextStep) {
  EXPECT_EQ(FloatToF8E4M3FN(464.0f, false), 0x7e); // the middle between 448 and 480 ties to even
  EXPECT_EQ(FloatToF8E4M3FN(std::nextafter(464.0f, 500.0f), false), 0x7f);
  EXPECT_EQ(FloatToF8E5M2(61440.0f, false), 0x7c);
  EXPECT_EQ(FloatToF8E5M2(std::nextafter(61440.0f, 0.0f), false), 0x7b);
}

TEST(Float4, CastsAsOnnx) {
  const float in[15] = {0.48f, 0.25f, 1.05f, -3.5f, -8, 9, 1e6f, 1e-7f, NAN, kInf, kInf, -kInf, -4, 0.01f, -0.0f};
  const int want[15] = {1, 0, 2, 0xe, 0xf, 7, 7, 0, 8, 7, 7, 0xf, 0xe, 0, 8};
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(FloatToF4E2M1(in[i]), want[i]) << in[i];
  EXPECT_EQ(FloatToF4E2M1(-NAN), 8);
  EXPECT_EQ(F4E2M1ToFloat(0xe), -4);
}

TEST(Float8E8M0, CastsAsOnnx) {
  const float in[8] = {0, 0.124f, 0.25f, 0.5f, 1.1f, 2, 4, 8};
  const int want[8] = {0, 0x7c, 0x7d, 0x7e, 0x80, 0x80, 0x81, 0x82};
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(FloatToF8E8M0(in[i]), want[i]) << in[i];
  for (int c = 0; c < 255; ++c) {
    EXPECT_EQ(F8E8M0ToFloat(uint8_t(c)), std::ldexp(1.0f, c - 127));
    for (E8M0Round r : {E8M0Round::up, E8M0Round::down, E8M0Round::nearest})
      EXPECT_EQ(FloatToF8E8M0(F8E8M0ToFloat(uint8_t(c)), true, r), c);
  }
  EXPECT_TRUE(std::isnan(F8E8M0ToFloat(0xff)));
  EXPECT_EQ(FloatToF8E8M0(NAN), 0xff);
  EXPECT_EQ(FloatToF8E8M0(kInf), 0xff);
  EXPECT_EQ(FloatToF8E8M0(3e38f), 0xfe);
  EXPECT_EQ(FloatToF8E8M0(3e38f, false), 0xff);
  EXPECT_EQ(FloatToF8E8M0(1.4f, true, E8M0Round::nearest), 127);
  EXPECT_EQ(FloatToF8E8M0(1.5f, true, E8M0Round::nearest), 128);
  EXPECT_EQ(FloatToF8E8M0(1.99f, true, E8M0Round::down), 127);
  EXPECT_EQ(FloatToF8E8M0(1e-40f, true, E8M0Round::up), 0);
  EXPECT_EQ(FloatToF8E8M0(0x1.8p-127f, true, E8M0Round::up), 1);
  EXPECT_EQ(FloatToF8E8M0(-4, true, E8M0Round::up), 129);
}

static_assert(HalfToFloat(0x3c00) == 1.0f && FloatToHalf(-2.0f) == 0xc000, "usable at compile time");

} // namespace
} // namespace npuc
