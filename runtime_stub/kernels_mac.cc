// Multiply-accumulate kernels: register blocks of P output positions by 16 output channels, weights in
// channel-innermost order, one broadcast of x per position and step. Integers: pairs of i16 products summed in i32
// (pmaddwd); the order is free because sums wrap. f32: one fused chain per output, in the caller's order of taps and
// lanes; only outputs are vectorised. Cost: x86 with AVX-512 about 30 MACs a cycle for i16, 15 for f32.
#include "runtime_stub/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime_stub/kernels_mac.cc"
#include "hwy/foreach_target.h" // IWYU pragma: keep
#include "hwy/highway.h"

// The accumulators live in registers only if every loop over them is unrolled, which -O2 does not do by itself.
#ifndef NPUC_UNROLL
#if defined(__clang__)
#define NPUC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NPUC_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace npuc::runtime::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DI = hn::CappedTag<int32_t, kBlock>;
using DF = hn::CappedTag<float, kBlock>;
using VI = hn::Vec<DI>;
using VF = hn::Vec<DF>;
constexpr int kLanes = hn::MaxLanes(DI());         // HWY_MAX_BYTES counts two for the scalar target's one
constexpr int kVecs = kBlock / kLanes;             // vectors of a block
constexpr int kRows = kVecs >= 4 ? 3 : 12 / kVecs; // positions of a register block: 12 independent accumulators

// a.even * b.even + a.odd * b.odd of i16 pairs, each in the bits of an i32 lane.
HWY_INLINE VI PairMulAdd(VI a, VI b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#if HWY_MAX_BYTES == 64
  return VI{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_MAX_BYTES == 32
  return VI{_mm256_madd_epi16(a.raw, b.raw)};
#else
  return VI{_mm_madd_epi16(a.raw, b.raw)};
#endif
#else
  const auto lo = [](VI v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  return hn::Add(hn::Mul(lo(a), lo(b)), hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

template <int P>
HWY_INLINE void MacI16Block(const int16_t *x, int64_t pos_stride, const Tap *taps, int num_taps, const int16_t *w,
                            int32_t *acc) {
  const DI di;
  VI sum[P][kVecs];
  NPUC_UNROLL
  for (int p = 0; p < P; ++p)
    NPUC_UNROLL
  for (int v = 0; v < kVecs; ++v)
    sum[p][v] = hn::LoadU(di, acc + p * kBlock + v * kLanes);
  for (int t = 0; t < num_taps; ++t) {
    const int16_t *px = x + taps[t].x;
    const int16_t *pw = w + taps[t].w;
    for (int k = 0; k < taps[t].lanes; k += 2, pw += 2 * kBlock) {
      VI vw[kVecs];
      NPUC_UNROLL
      for (int v = 0; v < kVecs; ++v)
        vw[v] = hn::LoadU(di, reinterpret_cast<const int32_t *>(pw) + v * kLanes);
      NPUC_UNROLL
      for (int p = 0; p < P; ++p) {
        int32_t pair;
        __builtin_memcpy(&pair, px + p * pos_stride + k, 4);
        const VI vx = hn::Set(di, pair);
        NPUC_UNROLL
        for (int v = 0; v < kVecs; ++v)
          sum[p][v] = hn::Add(sum[p][v], PairMulAdd(vx, vw[v]));
      }
    }
  }
  NPUC_UNROLL
  for (int p = 0; p < P; ++p)
    NPUC_UNROLL
  for (int v = 0; v < kVecs; ++v)
    hn::StoreU(sum[p][v], di, acc + p * kBlock + v * kLanes);
}

template <int P>
HWY_INLINE void MacF32Block(const float *x, int64_t pos_stride, const Tap *taps, int num_taps, const float *w,
                            float *acc) {
  const DF df;
  VF sum[P][kVecs];
  NPUC_UNROLL
  for (int p = 0; p < P; ++p)
    NPUC_UNROLL
  for (int v = 0; v < kVecs; ++v)
    sum[p][v] = hn::LoadU(df, acc + p * kBlock + v * kLanes);
  for (int t = 0; t < num_taps; ++t) {
    const float *px = x + taps[t].x;
    const float *pw = w + taps[t].w;
    for (int k = 0; k < taps[t].lanes; ++k, pw += kBlock) {
      VF vw[kVecs];
      NPUC_UNROLL
      for (int v = 0; v < kVecs; ++v)
        vw[v] = hn::LoadU(df, pw + v * kLanes);
      NPUC_UNROLL
      for (int p = 0; p < P; ++p) {
        const VF vx = hn::Set(df, px[p * pos_stride + k]);
        NPUC_UNROLL
        for (int v = 0; v < kVecs; ++v)
          sum[p][v] = hn::MulAdd(vx, vw[v], sum[p][v]);
      }
    }
  }
  NPUC_UNROLL
  for (int p = 0; p < P; ++p)
    NPUC_UNROLL
  for (int v = 0; v < kVecs; ++v)
    hn::StoreU(sum[p][v], df, acc + p * kBlock + v * kLanes);
}

void MacI16(const int16_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int16_t *w,
            int32_t *acc) {
  int p = 0;
  for (; p + kRows <= positions; p += kRows)
    MacI16Block<kRows>(x + p * pos_stride, pos_stride, taps, num_taps, w, acc + p * kBlock);
  if constexpr (kRows > 4)
    for (; p + 4 <= positions; p += 4)
      MacI16Block<4>(x + p * pos_stride, pos_stride, taps, num_taps, w, acc + p * kBlock);
  for (; p < positions; ++p)
    MacI16Block<1>(x + p * pos_stride, pos_stride, taps, num_taps, w, acc + p * kBlock);
}

void MacF32(const float *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const float *w,
            float *acc) {
  int p = 0;
  for (; p + kRows <= positions; p += kRows)
    MacF32Block<kRows>(x + p * pos_stride, pos_stride, taps, num_taps, w, acc + p * kBlock);
  if constexpr (kRows > 4)
    for (; p + 4 <= positions; p += 4)
      MacF32Block<4>(x + p * pos_stride, pos_stride, taps, num_taps, w, acc + p * kBlock);
  for (; p < positions; ++p)
    MacF32Block<1>(x + p * pos_stride, pos_stride, taps, num_taps, w, acc + p * kBlock);
}

void MacI64(const int32_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int64_t *w,
            int64_t *acc) {
  const hn::CappedTag<int64_t, 8> d64;
  [[maybe_unused]] const hn::Repartition<int32_t, decltype(d64)> d32;
  constexpr int lanes = hn::MaxLanes(d64);
  constexpr int vecs = 4; // of accumulators at a time
  for (int p = 0; p < positions; ++p, x += pos_stride, acc += kBlock) {
    for (int o = 0; o < kBlock; o += vecs * lanes) {
      constexpr int used = vecs * lanes > kBlock ? kBlock / lanes : vecs;
      hn::Vec<decltype(d64)> sum[used];
      NPUC_UNROLL
      for (int v = 0; v < used; ++v)
        sum[v] = hn::LoadU(d64, acc + o + v * lanes);
      for (int t = 0; t < num_taps; ++t) {
        const int64_t *pw = w + taps[t].w + o;
        for (int k = 0; k < taps[t].lanes; ++k, pw += kBlock) {
          const auto vx = hn::Set(d64, static_cast<int64_t>(x[taps[t].x + k]));
          NPUC_UNROLL
          for (int v = 0; v < used; ++v) {
            const auto vw = hn::LoadU(d64, pw + v * lanes);
#if HWY_TARGET == HWY_SCALAR
            sum[v] = hn::Set(d64, hn::GetLane(sum[v]) + hn::GetLane(vx) * hn::GetLane(vw));
#else
            sum[v] = hn::Add(sum[v], hn::MulEven(hn::BitCast(d32, vx), hn::BitCast(d32, vw)));
#endif
          }
        }
      }
      NPUC_UNROLL
      for (int v = 0; v < used; ++v)
        hn::StoreU(sum[v], d64, acc + o + v * lanes);
    }
  }
}

void DepthwiseI16(const int16_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int16_t *w,
                  int32_t *acc) {
  const DI di;
  const hn::Rebind<int16_t, DI> d16;
  NPUC_UNROLL
  for (int v = 0; v < kVecs; ++v) {
    int p = 0;
    for (; p + 4 <= positions; p += 4) {
      VI s0 = hn::LoadU(di, acc + p * kBlock + v * kLanes), s1 = hn::LoadU(di, acc + (p + 1) * kBlock + v * kLanes);
      VI s2 = hn::LoadU(di, acc + (p + 2) * kBlock + v * kLanes),
         s3 = hn::LoadU(di, acc + (p + 3) * kBlock + v * kLanes);
      for (int t = 0; t < num_taps; ++t) {
        const VI vw = hn::PromoteTo(di, hn::LoadU(d16, w + taps[t].w + v * kLanes));
        const int16_t *px = x + p * pos_stride + taps[t].x + v * kLanes;
        // Both factors fit i16, so the pair product with a zero upper half is the exact 32-bit product.
        const VI low = hn::Set(di, 0xffff);
        const VI w16 = hn::And(vw, low);
        s0 = hn::Add(s0, PairMulAdd(hn::PromoteTo(di, hn::LoadU(d16, px)), w16));
        s1 = hn::Add(s1, PairMulAdd(hn::PromoteTo(di, hn::LoadU(d16, px + pos_stride)), w16));
        s2 = hn::Add(s2, PairMulAdd(hn::PromoteTo(di, hn::LoadU(d16, px + 2 * pos_stride)), w16));
        s3 = hn::Add(s3, PairMulAdd(hn::PromoteTo(di, hn::LoadU(d16, px + 3 * pos_stride)), w16));
      }
      hn::StoreU(s0, di, acc + p * kBlock + v * kLanes);
      hn::StoreU(s1, di, acc + (p + 1) * kBlock + v * kLanes);
      hn::StoreU(s2, di, acc + (p + 2) * kBlock + v * kLanes);
      hn::StoreU(s3, di, acc + (p + 3) * kBlock + v * kLanes);
    }
    for (; p < positions; ++p) {
      VI s = hn::LoadU(di, acc + p * kBlock + v * kLanes);
      for (int t = 0; t < num_taps; ++t) {
        const VI vw = hn::PromoteTo(di, hn::LoadU(d16, w + taps[t].w + v * kLanes));
        s = hn::Add(s, hn::Mul(hn::PromoteTo(di, hn::LoadU(d16, x + p * pos_stride + taps[t].x + v * kLanes)), vw));
      }
      hn::StoreU(s, di, acc + p * kBlock + v * kLanes);
    }
  }
}

void DepthwiseI64(const int32_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int32_t *w,
                  int64_t *acc) {
  for (int p = 0; p < positions; ++p)
    for (int t = 0; t < num_taps; ++t)
      for (int l = 0; l < kBlock; ++l)
        acc[p * kBlock + l] += int64_t{x[p * pos_stride + taps[t].x + l]} * w[taps[t].w + l];
}

void DepthwiseF32(const float *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const float *w,
                  float *acc) {
  const DF df;
  for (int p = 0; p < positions; ++p)
    NPUC_UNROLL
  for (int v = 0; v < kVecs; ++v) {
    VF s = hn::LoadU(df, acc + p * kBlock + v * kLanes);
    for (int t = 0; t < num_taps; ++t)
      s = hn::MulAdd(hn::LoadU(df, x + p * pos_stride + taps[t].x + v * kLanes),
                     hn::LoadU(df, w + taps[t].w + v * kLanes), s);
    hn::StoreU(s, df, acc + p * kBlock + v * kLanes);
  }
}

} // namespace npuc::runtime::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuc::runtime {
namespace {
HWY_EXPORT(MacI16);
HWY_EXPORT(MacI64);
HWY_EXPORT(MacF32);
HWY_EXPORT(DepthwiseI16);
HWY_EXPORT(DepthwiseI64);
HWY_EXPORT(DepthwiseF32);
} // namespace

void MacI16(const int16_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int16_t *w,
            int32_t *acc) {
  HWY_DYNAMIC_DISPATCH(MacI16)(x, pos_stride, positions, taps, num_taps, w, acc);
}
void MacI64(const int32_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int64_t *w,
            int64_t *acc) {
  HWY_DYNAMIC_DISPATCH(MacI64)(x, pos_stride, positions, taps, num_taps, w, acc);
}
void MacF32(const float *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const float *w,
            float *acc) {
  HWY_DYNAMIC_DISPATCH(MacF32)(x, pos_stride, positions, taps, num_taps, w, acc);
}
void DepthwiseI16(const int16_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int16_t *w,
                  int32_t *acc) {
  HWY_DYNAMIC_DISPATCH(DepthwiseI16)(x, pos_stride, positions, taps, num_taps, w, acc);
}
void DepthwiseI64(const int32_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int32_t *w,
                  int64_t *acc) {
  HWY_DYNAMIC_DISPATCH(DepthwiseI64)(x, pos_stride, positions, taps, num_taps, w, acc);
}
void DepthwiseF32(const float *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const float *w,
                  float *acc) {
  HWY_DYNAMIC_DISPATCH(DepthwiseF32)(x, pos_stride, positions, taps, num_taps, w, acc);
}
} // namespace npuc::runtime
#endif // HWY_ONCE
