// Conversion between element types. Narrow floats go through f32 (exact) on the way in; on the way out they are rounded
// once, from double through round-to-odd. Native types convert directly, one loop for each pair.
#include "compiler/ops/convert.h"

#include "compiler/support/status.h"

namespace npuc::ops {
namespace {

bool IsNarrowFloat(DType t) {
  return IsFloat(t) && t != DType::F32 && t != DType::F64;
}

Tensor NewLike(const Tensor &t, DType dtype) {
  if (!t.is_splat())
    return Tensor::Allocate(dtype, t.dims());
  const uint64_t zero = 0;
  return Tensor::Splat(dtype, t.dims(), &zero);
}

Tensor NarrowToFloat(const Tensor &t) {
  Tensor out = NewLike(t, DType::F32);
  float *o = out.mutable_data<float>();
  const int64_t n = t.is_splat() ? 1 : t.num_elements();
  const uint8_t *b = t.bytes();
  const uint16_t *h = t.data<uint16_t>();
  auto map = [&](auto f, auto *p) {
    for (int64_t i = 0; i < n; ++i)
      o[i] = f(p[i]);
  };
  switch (t.dtype()) {
  case DType::F16:
    HalfToFloat(h, o, n);
    break;
  case DType::BF16:
    map([](uint16_t x) { return BFloat16ToFloat(x); }, h);
    break;
  case DType::F8E4M3FN:
    map([](uint8_t x) { return F8E4M3FNToFloat(x); }, b);
    break;
  case DType::F8E4M3FNUZ:
    map([](uint8_t x) { return F8E4M3FNUZToFloat(x); }, b);
    break;
  case DType::F8E5M2:
    map([](uint8_t x) { return F8E5M2ToFloat(x); }, b);
    break;
  case DType::F8E5M2FNUZ:
    map([](uint8_t x) { return F8E5M2FNUZToFloat(x); }, b);
    break;
  case DType::F8E8M0:
    map([](uint8_t x) { return F8E8M0ToFloat(x); }, b);
    break;
  case DType::F4E2M1:
    map([](uint8_t x) { return F4E2M1ToFloat(x); }, b);
    break;
  default:
    NPUC_CHECK(false, "not a narrow float: {}", Name(t.dtype()));
  }
  return out;
}

template <class From> Tensor ToNarrow(const Tensor &t, DType to, bool saturate, E8M0Round round) {
  Tensor out = NewLike(t, to);
  const int64_t n = t.is_splat() ? 1 : t.num_elements();
  const From *p = t.data<From>();
  uint8_t *b = out.mutable_bytes();
  uint16_t *h = out.mutable_data<uint16_t>();
  if constexpr (std::is_same_v<From, float>)
    if (to == DType::F16) {
      FloatToHalf(p, h, n);
      return out;
    }
  auto map = [&](auto f, auto *o) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<From, float>)
        o[i] = f(p[i]);
      else
        o[i] = f(half_internal::RoundToOdd(static_cast<double>(p[i])));
    }
  };
  switch (to) {
  case DType::F16:
    map([](float x) { return FloatToHalf(x); }, h);
    break;
  case DType::BF16:
    map([](float x) { return FloatToBFloat16(x); }, h);
    break;
  case DType::F8E4M3FN:
    map([=](float x) { return FloatToF8E4M3FN(x, saturate); }, b);
    break;
  case DType::F8E4M3FNUZ:
    map([=](float x) { return FloatToF8E4M3FNUZ(x, saturate); }, b);
    break;
  case DType::F8E5M2:
    map([=](float x) { return FloatToF8E5M2(x, saturate); }, b);
    break;
  case DType::F8E5M2FNUZ:
    map([=](float x) { return FloatToF8E5M2FNUZ(x, saturate); }, b);
    break;
  case DType::F8E8M0:
    map([=](float x) { return FloatToF8E8M0(x, saturate, round); }, b);
    break;
  case DType::F4E2M1:
    map([](float x) { return FloatToF4E2M1(x); }, b);
    break;
  default:
    NPUC_CHECK(false, "not a narrow float: {}", Name(to));
  }
  return out;
}

template <class From, class To, class F> Tensor Map(const Tensor &t, DType to, F f) {
  Tensor out = NewLike(t, to);
  const int64_t n = t.is_splat() ? 1 : t.num_elements();
  const From *p = t.data<From>();
  To *o = out.mutable_data<To>();
  for (int64_t i = 0; i < n; ++i)
    o[i] = f(p[i]);
  return out;
}

template <class From, class To> Tensor ToInt(const Tensor &t, DType to) {
  if constexpr (std::is_floating_point_v<From>)
    return Map<From, To>(t, to, [](From v) { return FloatToInt<To>(v); });
  else
    return Map<From, To>(t, to, [](From v) { return static_cast<To>(v); });
}

// Integers of `bits` bits, held in a byte.
template <class From> Tensor ToSubByte(const Tensor &t, DType to) {
  const int bits = BitWidth(to);
  const bool is_signed = IsSignedInt(to);
  const int hi = static_cast<int>(IntMax(to));
  return Map<From, int8_t>(t, to, [=](From v) {
    int64_t whole;
    if constexpr (std::is_floating_point_v<From>)
      whole = FloatToInt<int64_t>(v);
    else
      whole = static_cast<int64_t>(v);
    int x = static_cast<int>(static_cast<uint64_t>(whole) & ((1u << bits) - 1));
    if (is_signed && x > hi)
      x -= 1 << bits;
    return static_cast<int8_t>(x);
  });
}

template <class From> Tensor Convert(const Tensor &t, DType to, bool saturate, E8M0Round round) {
  switch (to) {
  case DType::F32:
    return Map<From, float>(t, to, [](From v) { return static_cast<float>(v); });
  case DType::F64:
    return Map<From, double>(t, to, [](From v) { return static_cast<double>(v); });
  case DType::Bool:
    return Map<From, uint8_t>(t, to, [](From v) { return static_cast<uint8_t>(v != From(0)); });
  case DType::I8:
    return ToInt<From, int8_t>(t, to);
  case DType::U8:
    return ToInt<From, uint8_t>(t, to);
  case DType::I16:
    return ToInt<From, int16_t>(t, to);
  case DType::U16:
    return ToInt<From, uint16_t>(t, to);
  case DType::I32:
    return ToInt<From, int32_t>(t, to);
  case DType::U32:
    return ToInt<From, uint32_t>(t, to);
  case DType::I64:
    return ToInt<From, int64_t>(t, to);
  case DType::U64:
    return ToInt<From, uint64_t>(t, to);
  case DType::I4:
  case DType::U4:
  case DType::I2:
  case DType::U2:
    return ToSubByte<From>(t, to);
  default:
    return ToNarrow<From>(t, to, saturate, round);
  }
}

} // namespace

bool IsConvertible(DType t) {
  return t != DType::Undefined && t != DType::String && !IsComplex(t);
}

Tensor ConvertTensor(const Tensor &t, DType to, bool saturate, E8M0Round round) {
  NPUC_CHECK(IsConvertible(t.dtype()) && IsConvertible(to), "conversion of {} to {}", Name(t.dtype()), Name(to));
  if (t.dtype() == to)
    return t;
  if (IsNarrowFloat(t.dtype())) {
    const Tensor f = NarrowToFloat(t);
    return to == DType::F32 ? f : ConvertTensor(f, to, saturate, round);
  }
  switch (t.dtype()) {
  case DType::F32:
    return Convert<float>(t, to, saturate, round);
  case DType::F64:
    return Convert<double>(t, to, saturate, round);
  case DType::I64:
    return Convert<int64_t>(t, to, saturate, round);
  case DType::U64:
    return Convert<uint64_t>(t, to, saturate, round);
  case DType::I32:
    return Convert<int32_t>(t, to, saturate, round);
  case DType::U32:
    return Convert<uint32_t>(t, to, saturate, round);
  case DType::I16:
    return Convert<int16_t>(t, to, saturate, round);
  case DType::U16:
    return Convert<uint16_t>(t, to, saturate, round);
  case DType::I8:
  case DType::I4:
  case DType::I2:
    return Convert<int8_t>(t, to, saturate, round);
  default:
    return Convert<uint8_t>(t, to, saturate, round); // U8, U4, U2, Bool
  }
}

} // namespace npuc::ops
