// Conversions between memory elements and working buffers, and the output stage's element loops. Method: whole vectors
// through Highway, the rest by the scalar definitions of compiler/ops/quant_math.h, which the vector code repeats
// operation by operation.
#include "runtime_stub/kernels.h"

#include <bit>
#include <cstring>

#include "compiler/ops/quant_math.h"
#include "compiler/support/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime_stub/kernels_convert.cc"
#include "hwy/foreach_target.h" // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace npuc::runtime::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::Rebind<int32_t, DF>;

template <class T> HWY_INLINE hn::Vec<DI> LoadWide(const T *p) {
  const DI di;
  if constexpr (sizeof(T) == 4) {
    return hn::LoadU(di, reinterpret_cast<const int32_t *>(p));
  } else {
    return hn::PromoteTo(di, hn::LoadU(hn::Rebind<T, DI>(), p));
  }
}
template <class T> HWY_INLINE void StoreNarrow(hn::Vec<DI> v, T *p) {
  const DI di;
  if constexpr (sizeof(T) == 4) {
    hn::StoreU(v, di, reinterpret_cast<int32_t *>(p));
  } else {
    const hn::Rebind<T, DI> dt;
    hn::StoreU(hn::DemoteTo(dt, v), dt, p);
  }
}

template <class T>
void ToRealT(const uint8_t *src, int64_t stride, int64_t rows, int64_t len, float s, int32_t z, float *dst,
             int64_t pitch) {
  const DF df;
  const DI di;
  const int64_t n = hn::Lanes(df);
  const auto vs = hn::Set(df, s);
  const auto vz = hn::Set(di, z);
  for (int64_t r = 0; r < rows; ++r, src += stride, dst += pitch) {
    const T *p = reinterpret_cast<const T *>(src);
    int64_t i = 0;
    for (; i + n <= len; i += n)
      hn::StoreU(hn::Mul(hn::ConvertTo(df, hn::Sub(LoadWide(p + i), vz)), vs), df, dst + i);
    for (; i < len; ++i)
      dst[i] = DequantizeValue(p[i], s, z);
  }
}

// Half to even, the sign kept. Below SSE4 the library's own Round loses the sign of zero and takes 0.49999997 for a
// half.
HWY_INLINE hn::Vec<DF> RoundEven(hn::Vec<DF> v) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSSE3
  const auto whole = hn::Set(DF(), 8388608.0f); // 2^23: from here on floats are integers
  const auto a = hn::Abs(v);
  return hn::IfThenElse(hn::Lt(a, whole), hn::CopySign(hn::Sub(hn::Add(a, whole), whole), v), v);
#else
  return hn::Round(v);
#endif
}

// As RoundAndClamp, on vectors.
template <bool kDivide>
HWY_INLINE hn::Vec<DI> Quantise(hn::Vec<DF> v, hn::Vec<DF> s, hn::Vec<DF> z, hn::Vec<DF> lo, hn::Vec<DF> hi) {
  const DF df;
  const DI di;
  if constexpr (kDivide)
    v = hn::Div(v, s);
  const auto r = hn::Add(RoundEven(v), z);
  const auto clamped = hn::Min(hn::Max(r, lo), hi);
  return hn::ConvertTo(di, hn::IfThenElse(hn::Eq(r, r), clamped, z));
  (void)df;
}

template <class T, bool kDivide>
void FromRealT(const float *src, int64_t pitch, int64_t rows, int64_t len, float s, int32_t z, QuantRange range,
               uint8_t *dst, int64_t stride) {
  const DF df;
  const int64_t n = hn::Lanes(df);
  const auto vs = hn::Set(df, s), vz = hn::Set(df, static_cast<float>(z)), lo = hn::Set(df, range.lo),
             hi = hn::Set(df, range.hi);
  for (int64_t r = 0; r < rows; ++r, src += pitch, dst += stride) {
    T *p = reinterpret_cast<T *>(dst);
    int64_t i = 0;
    for (; i + n <= len; i += n)
      StoreNarrow(Quantise<kDivide>(hn::LoadU(df, src + i), vs, vz, lo, hi), p + i);
    for (; i < len; ++i)
      p[i] = static_cast<T>(kDivide ? QuantizeValue(src[i], s, z, range) : RoundAndClamp(src[i], z, range));
  }
}

void QuantiseToI32(const float *v, int64_t count, float s, int32_t z, bool divide, QuantRange range, int32_t *q) {
  if (divide)
    FromRealT<int32_t, true>(v, 0, 1, count, s, z, range, reinterpret_cast<uint8_t *>(q), 0);
  else
    FromRealT<int32_t, false>(v, 0, 1, count, s, z, range, reinterpret_cast<uint8_t *>(q), 0);
}
void FromReal8(const float *src, int64_t pitch, int64_t rows, int64_t len, float s, int32_t z, bool divide,
               bool is_signed, QuantRange range, uint8_t *dst, int64_t stride) {
  if (is_signed) {
    if (divide)
      FromRealT<int8_t, true>(src, pitch, rows, len, s, z, range, dst, stride);
    else
      FromRealT<int8_t, false>(src, pitch, rows, len, s, z, range, dst, stride);
  } else {
    if (divide)
      FromRealT<uint8_t, true>(src, pitch, rows, len, s, z, range, dst, stride);
    else
      FromRealT<uint8_t, false>(src, pitch, rows, len, s, z, range, dst, stride);
  }
}
void FromReal16(const float *src, int64_t pitch, int64_t rows, int64_t len, float s, int32_t z, bool divide,
                bool is_signed, QuantRange range, uint8_t *dst, int64_t stride) {
  if (is_signed) {
    if (divide)
      FromRealT<int16_t, true>(src, pitch, rows, len, s, z, range, dst, stride);
    else
      FromRealT<int16_t, false>(src, pitch, rows, len, s, z, range, dst, stride);
  } else {
    if (divide)
      FromRealT<uint16_t, true>(src, pitch, rows, len, s, z, range, dst, stride);
    else
      FromRealT<uint16_t, false>(src, pitch, rows, len, s, z, range, dst, stride);
  }
}
void ToRealInt(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, float s, int32_t z, float *dst,
               int64_t pitch) {
  switch (t) {
  case DType::I8:
    return ToRealT<int8_t>(src, stride, rows, len, s, z, dst, pitch);
  case DType::U8:
  case DType::Bool:
    return ToRealT<uint8_t>(src, stride, rows, len, s, z, dst, pitch);
  case DType::I16:
    return ToRealT<int16_t>(src, stride, rows, len, s, z, dst, pitch);
  case DType::U16:
    return ToRealT<uint16_t>(src, stride, rows, len, s, z, dst, pitch);
  default:
    return ToRealT<int32_t>(src, stride, rows, len, s, z, dst, pitch);
  }
}

template <class T>
void ToI16T(const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int16_t *dst, int64_t pitch) {
  const hn::CappedTag<int16_t, 32> d16;
  const int64_t n = hn::Lanes(d16);
  const auto vz = hn::Set(d16, static_cast<int16_t>(z));
  for (int64_t r = 0; r < rows; ++r, src += stride, dst += pitch) {
    const T *p = reinterpret_cast<const T *>(src);
    int64_t i = 0;
    for (; i + n <= len; i += n) {
      if constexpr (sizeof(T) == 1) {
        hn::StoreU(hn::Sub(hn::PromoteTo(d16, hn::LoadU(hn::Rebind<T, decltype(d16)>(), p + i)), vz), d16, dst + i);
      } else {
        hn::StoreU(hn::Sub(hn::LoadU(d16, reinterpret_cast<const int16_t *>(p + i)), vz), d16, dst + i);
      }
    }
    for (; i < len; ++i)
      dst[i] = static_cast<int16_t>(p[i] - z);
  }
}
void ToI16(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int16_t *dst,
           int64_t pitch) {
  switch (t) {
  case DType::I8:
    return ToI16T<int8_t>(src, stride, rows, len, z, dst, pitch);
  case DType::I16:
    return ToI16T<int16_t>(src, stride, rows, len, z, dst, pitch);
  default:
    return ToI16T<uint8_t>(src, stride, rows, len, z, dst, pitch);
  }
}
template <class T>
void ToI32T(const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int32_t *dst, int64_t pitch) {
  const DI di;
  const int64_t n = hn::Lanes(di);
  const auto vz = hn::Set(di, z);
  for (int64_t r = 0; r < rows; ++r, src += stride, dst += pitch) {
    const T *p = reinterpret_cast<const T *>(src);
    int64_t i = 0;
    for (; i + n <= len; i += n)
      hn::StoreU(hn::Sub(LoadWide(p + i), vz), di, dst + i);
    for (; i < len; ++i)
      dst[i] = static_cast<int32_t>(p[i]) - z;
  }
}
void ToI32(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int32_t *dst,
           int64_t pitch) {
  switch (t) {
  case DType::I8:
    return ToI32T<int8_t>(src, stride, rows, len, z, dst, pitch);
  case DType::U8:
  case DType::Bool:
    return ToI32T<uint8_t>(src, stride, rows, len, z, dst, pitch);
  case DType::I16:
    return ToI32T<int16_t>(src, stride, rows, len, z, dst, pitch);
  case DType::U16:
    return ToI32T<uint16_t>(src, stride, rows, len, z, dst, pitch);
  default:
    return ToI32T<int32_t>(src, stride, rows, len, z, dst, pitch);
  }
}
template <class T>
void FromI32T(const int32_t *src, int64_t pitch, int64_t rows, int64_t len, uint8_t *dst, int64_t stride) {
  const DI di;
  const int64_t n = hn::Lanes(di);
  for (int64_t r = 0; r < rows; ++r, src += pitch, dst += stride) {
    T *p = reinterpret_cast<T *>(dst);
    int64_t i = 0;
    for (; i + n <= len; i += n)
      StoreNarrow(hn::LoadU(di, src + i), p + i);
    for (; i < len; ++i)
      p[i] = static_cast<T>(src[i]);
  }
}
void FromI32(DType t, const int32_t *src, int64_t pitch, int64_t rows, int64_t len, uint8_t *dst, int64_t stride) {
  switch (t) {
  case DType::I8:
    return FromI32T<int8_t>(src, pitch, rows, len, dst, stride);
  case DType::U8:
  case DType::Bool:
    return FromI32T<uint8_t>(src, pitch, rows, len, dst, stride);
  case DType::I16:
    return FromI32T<int16_t>(src, pitch, rows, len, dst, stride);
  case DType::U16:
    return FromI32T<uint16_t>(src, pitch, rows, len, dst, stride);
  default:
    return FromI32T<int32_t>(src, pitch, rows, len, dst, stride);
  }
}

void ScaleI32(const int32_t *acc, const float *scale, int64_t rows, float *v) {
  const DF df;
  const DI di;
  const int64_t n = hn::Lanes(df);
  for (int64_t l = 0; l < kBlock; l += n) {
    const auto vs = hn::LoadU(df, scale + l);
    for (int64_t r = 0; r < rows; ++r)
      hn::StoreU(hn::Mul(hn::ConvertTo(df, hn::LoadU(di, acc + r * kBlock + l)), vs), df, v + r * kBlock + l);
  }
}
void ScaleF32(const float *acc, const float *scale, int64_t rows, float *v) {
  const DF df;
  const int64_t n = hn::Lanes(df);
  for (int64_t l = 0; l < kBlock; l += n) {
    const auto vs = hn::LoadU(df, scale + l);
    for (int64_t r = 0; r < rows; ++r)
      hn::StoreU(hn::Mul(hn::LoadU(df, acc + r * kBlock + l), vs), df, v + r * kBlock + l);
  }
}
void DequantiseI32(const int32_t *q, int64_t count, float s, int32_t z, float *v) {
  ToRealT<int32_t>(reinterpret_cast<const uint8_t *>(q), 0, 1, count, s, z, v, 0);
}

// NaN results have whatever sign and payload the processor gives them; in memory there is one NaN, so that bytes agree
// on every machine.
void CanonicalHalves(uint16_t *p, int64_t count) {
  const hn::CappedTag<int16_t, 32> d;
  const int64_t n = hn::Lanes(d);
  int16_t *q = reinterpret_cast<int16_t *>(p);
  const auto magnitude = hn::Set(d, int16_t{0x7fff}), infinity = hn::Set(d, int16_t{0x7c00}),
             nan = hn::Set(d, int16_t{0x7e00});
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    const auto v = hn::LoadU(d, q + i);
    hn::StoreU(hn::IfThenElse(hn::Gt(hn::And(v, magnitude), infinity), nan, v), d, q + i);
  }
  for (; i < count; ++i)
    if ((q[i] & 0x7fff) > 0x7c00)
      q[i] = 0x7e00;
}
void CanonicalFloats(const float *in, int64_t count, float *out) {
  const DF df;
  const int64_t n = hn::Lanes(df);
  const auto nan = hn::BitCast(df, hn::Set(DI(), 0x7fc00000));
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    const auto v = hn::LoadU(df, in + i);
    hn::StoreU(hn::IfThenElse(hn::Eq(v, v), v, nan), df, out + i);
  }
  for (; i < count; ++i)
    out[i] = in[i] == in[i] ? in[i] : std::bit_cast<float>(0x7fc00000u);
}

// min and max as the ISA means them: a NaN operand gives NaN, and of two equal operands (+0, -0) the first wins.
template <class V> HWY_INLINE V MinN(V a, V b) {
  const auto r = hn::IfThenElse(hn::Lt(b, a), b, a);
  return hn::IfThenElse(hn::Eq(b, b), r, b);
}
template <class V> HWY_INLINE V MaxN(V a, V b) {
  const auto r = hn::IfThenElse(hn::Lt(a, b), b, a);
  return hn::IfThenElse(hn::Eq(b, b), r, b);
}

template <class F> HWY_INLINE void Map2(const float *a, const float *b, int64_t count, float *out, F f) {
  const DF df;
  const int64_t n = hn::Lanes(df);
  int64_t i = 0;
  for (; i + n <= count; i += n)
    hn::StoreU(f(hn::LoadU(df, a + i), hn::LoadU(df, b + i)), df, out + i);
  if (i < count) { // the same operations on a padded copy
    HWY_ALIGN float ta[16] = {}, tb[16] = {};
    for (int64_t k = i; k < count; ++k)
      ta[k - i] = a[k], tb[k - i] = b[k];
    hn::StoreU(f(hn::LoadU(df, ta), hn::LoadU(df, tb)), df, ta);
    for (int64_t k = i; k < count; ++k)
      out[k] = ta[k - i];
  }
}

bool ElemKernel(isa::ElemFn fn, const float *a, const float *b, const float *imm, int64_t n, float *out) {
  const DF df;
  using V = hn::Vec<DF>;
  const auto zero = hn::Zero(df), one = hn::Set(df, 1.0f), i0 = hn::Set(df, imm[0]), i1 = hn::Set(df, imm[1]);
  switch (fn) {
  case isa::ElemFn::Add:
    Map2(a, b, n, out, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
    return true;
  case isa::ElemFn::Sub:
    Map2(a, b, n, out, [](V x, V y) HWY_ATTR { return hn::Sub(x, y); });
    return true;
  case isa::ElemFn::Mul:
    Map2(a, b, n, out, [](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
    return true;
  case isa::ElemFn::Div:
    Map2(a, b, n, out, [](V x, V y) HWY_ATTR { return hn::Div(x, y); });
    return true;
  case isa::ElemFn::Min:
    Map2(a, b, n, out, [](V x, V y) HWY_ATTR { return MinN(x, y); });
    return true;
  case isa::ElemFn::Max:
    Map2(a, b, n, out, [](V x, V y) HWY_ATTR { return MaxN(x, y); });
    return true;
  case isa::ElemFn::PRelu:
    Map2(a, b, n, out, [=](V x, V y) HWY_ATTR { return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(x, y), x); });
    return true;
  case isa::ElemFn::Clamp:
    Map2(a, a, n, out, [=](V x, V) HWY_ATTR { return MinN(MaxN(x, i0), i1); });
    return true;
  case isa::ElemFn::LeakyRelu:
    Map2(a, a, n, out, [=](V x, V) HWY_ATTR { return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(x, i0), x); });
    return true;
  case isa::ElemFn::HardSigmoid:
    Map2(a, a, n, out, [=](V x, V) HWY_ATTR { return MinN(MaxN(hn::Add(hn::Mul(i0, x), i1), zero), one); });
    return true;
  case isa::ElemFn::HardSwish: {
    const auto sixth = hn::Set(df, static_cast<float>(1.0 / 6.0)), half = hn::Set(df, 0.5f);
    Map2(a, a, n, out,
         [=](V x, V) HWY_ATTR { return hn::Mul(x, MinN(MaxN(hn::Add(hn::Mul(x, sixth), half), zero), one)); });
    return true;
  }
  case isa::ElemFn::Abs:
    Map2(a, a, n, out, [](V x, V) HWY_ATTR { return hn::Abs(x); });
    return true;
  case isa::ElemFn::Neg:
    Map2(a, a, n, out, [](V x, V) HWY_ATTR { return hn::Neg(x); });
    return true;
  case isa::ElemFn::Sqrt:
    Map2(a, a, n, out, [](V x, V) HWY_ATTR { return hn::Sqrt(x); });
    return true;
  case isa::ElemFn::Rsqrt:
    Map2(a, a, n, out, [=](V x, V) HWY_ATTR { return hn::Div(one, hn::Sqrt(x)); });
    return true;
  case isa::ElemFn::Recip:
    Map2(a, a, n, out, [=](V x, V) HWY_ATTR { return hn::Div(one, x); });
    return true;
  case isa::ElemFn::Floor:
    Map2(a, a, n, out, [](V x, V) HWY_ATTR { return hn::CopySign(hn::Floor(x), x); });
    return true;
  case isa::ElemFn::Ceil:
    Map2(a, a, n, out, [](V x, V) HWY_ATTR { return hn::CopySign(hn::Ceil(x), x); });
    return true;
  case isa::ElemFn::Round:
    Map2(a, a, n, out, [](V x, V) HWY_ATTR { return RoundEven(x); });
    return true;
  default:
    return false;
  }
}

void MaxF32(const float *x, int64_t n, float *out) {
  using V = hn::Vec<DF>;
  Map2(out, x, n, out, [](V a, V b) HWY_ATTR { return MaxN(a, b); });
}
void AddF32(const float *x, int64_t n, float *out) {
  using V = hn::Vec<DF>;
  Map2(out, x, n, out, [](V a, V b) HWY_ATTR { return hn::Add(a, b); });
}
template <class F> HWY_INLINE void Map2I(const int32_t *a, int64_t count, int32_t *out, F f) {
  const DI di;
  const int64_t n = hn::Lanes(di);
  int64_t i = 0;
  for (; i + n <= count; i += n)
    hn::StoreU(f(hn::LoadU(di, out + i), hn::LoadU(di, a + i)), di, out + i);
  const hn::CappedTag<int32_t, 1> d1;
  for (; i < count; ++i)
    hn::StoreU(f(hn::LoadU(d1, out + i), hn::LoadU(d1, a + i)), d1, out + i);
}
void MaxI32(const int32_t *x, int64_t n, int32_t *out) {
  Map2I(x, n, out, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}
void AddI32(const int32_t *x, int64_t n, int32_t *out) {
  Map2I(x, n, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

} // namespace npuc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuc::runtime {
namespace {
HWY_EXPORT(ToRealInt);
HWY_EXPORT(FromReal8);
HWY_EXPORT(FromReal16);
HWY_EXPORT(QuantiseToI32);
HWY_EXPORT(ToI16);
HWY_EXPORT(ToI32);
HWY_EXPORT(FromI32);
HWY_EXPORT(ScaleI32);
HWY_EXPORT(ScaleF32);
HWY_EXPORT(DequantiseI32);
HWY_EXPORT(CanonicalHalves);
HWY_EXPORT(CanonicalFloats);
HWY_EXPORT(ElemKernel);
HWY_EXPORT(MaxF32);
HWY_EXPORT(MaxI32);
HWY_EXPORT(AddF32);
HWY_EXPORT(AddI32);
} // namespace

void ToReal(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, float s, int32_t z, float *dst,
            int64_t pitch) {
  if (t == DType::F16) {
    for (int64_t r = 0; r < rows; ++r)
      HalfToFloat(reinterpret_cast<const uint16_t *>(src + r * stride), dst + r * pitch, len);
  } else if (t == DType::F32) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(dst + r * pitch, src + r * stride, len * 4);
  } else {
    HWY_DYNAMIC_DISPATCH(ToRealInt)(t, src, stride, rows, len, s, z, dst, pitch);
  }
}

void FromReal(DType t, const float *src, int64_t pitch, int64_t rows, int64_t len, float s, int32_t z, bool divide,
              uint8_t *dst, int64_t stride) {
  switch (t) {
  case DType::F16:
    for (int64_t r = 0; r < rows; ++r) {
      uint16_t *to = reinterpret_cast<uint16_t *>(dst + r * stride);
      FloatToHalf(src + r * pitch, to, len);
      HWY_DYNAMIC_DISPATCH(CanonicalHalves)(to, len);
    }
    return;
  case DType::F32:
    for (int64_t r = 0; r < rows; ++r)
      HWY_DYNAMIC_DISPATCH(CanonicalFloats)(src + r * pitch, len, reinterpret_cast<float *>(dst + r * stride));
    return;
  case DType::I8:
  case DType::U8:
  case DType::Bool:
    HWY_DYNAMIC_DISPATCH(FromReal8)
    (src, pitch, rows, len, s, z, divide, t == DType::I8, t == DType::Bool ? QuantRange{0, 1} : QuantRangeOf(t), dst,
     stride);
    return;
  case DType::I16:
  case DType::U16:
    HWY_DYNAMIC_DISPATCH(FromReal16)
    (src, pitch, rows, len, s, z, divide, t == DType::I16, QuantRangeOf(t), dst, stride);
    return;
  default:
    for (int64_t r = 0; r < rows; ++r)
      HWY_DYNAMIC_DISPATCH(QuantiseToI32)
    (src + r * pitch, len, s, z, divide, QuantRangeOf(DType::I32), reinterpret_cast<int32_t *>(dst + r * stride));
  }
}
void QuantiseToI32(DType t, const float *v, int64_t n, float s, int32_t z, bool divide, int32_t *q) {
  HWY_DYNAMIC_DISPATCH(QuantiseToI32)(v, n, s, z, divide, t == DType::Bool ? QuantRange{0, 1} : QuantRangeOf(t), q);
}
void ToI16(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int16_t *dst,
           int64_t pitch) {
  HWY_DYNAMIC_DISPATCH(ToI16)(t, src, stride, rows, len, z, dst, pitch);
}
void ToI32(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int32_t *dst,
           int64_t pitch) {
  HWY_DYNAMIC_DISPATCH(ToI32)(t, src, stride, rows, len, z, dst, pitch);
}
void FromI32(DType t, const int32_t *src, int64_t pitch, int64_t rows, int64_t len, uint8_t *dst, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(FromI32)(t, src, pitch, rows, len, dst, stride);
}
void ScaleI32(const int32_t *acc, const float *scale, int64_t rows, float *v) {
  HWY_DYNAMIC_DISPATCH(ScaleI32)(acc, scale, rows, v);
}
void ScaleF32(const float *acc, const float *scale, int64_t rows, float *v) {
  HWY_DYNAMIC_DISPATCH(ScaleF32)(acc, scale, rows, v);
}
void DequantiseI32(const int32_t *q, int64_t n, float s, int32_t z, float *v) {
  HWY_DYNAMIC_DISPATCH(DequantiseI32)(q, n, s, z, v);
}
bool ElemKernel(isa::ElemFn fn, const float *a, const float *b, const float *imm, int64_t n, float *out) {
  return HWY_DYNAMIC_DISPATCH(ElemKernel)(fn, a, b, imm, n, out);
}
void MaxF32(const float *x, int64_t n, float *out) {
  HWY_DYNAMIC_DISPATCH(MaxF32)(x, n, out);
}
void MaxI32(const int32_t *x, int64_t n, int32_t *out) {
  HWY_DYNAMIC_DISPATCH(MaxI32)(x, n, out);
}
void AddF32(const float *x, int64_t n, float *out) {
  HWY_DYNAMIC_DISPATCH(AddF32)(x, n, out);
}
void AddI32(const int32_t *x, int64_t n, int32_t *out) {
  HWY_DYNAMIC_DISPATCH(AddI32)(x, n, out);
}
} // namespace npuc::runtime
#endif // HWY_ONCE
