// SIMD inner loops of the executor (Highway, best target of the processor at run time). Every result is the same bits
// on every target: integers are exact, f32 operations are single IEEE operations in a fixed order per element, and the
// one fused multiply-add is on products that f32 holds exactly.
#pragma once

#include <cstdint>

#include "backend/isa/commands.h"
#include "compiler/types/dtype.h"

namespace npuc::runtime {

// ---- Conversions of `rows` runs of `len` contiguous elements. Memory side: `stride` bytes from run to run; buffer
// side: `pitch` elements.

// f32(q - z) * s for integers and bool; f16 and f32 as they are (s, z ignored).
void ToReal(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, float s, int32_t z, float *dst,
            int64_t pitch);
// clamp(rhe(v / s) + z), NaN gives z, for integers and bool; without `divide` v is in units of q already. f16: rounded
// once. f32: as it is. A NaN is stored as 0x7e00 or 0x7fc00000.
void FromReal(DType t, const float *src, int64_t pitch, int64_t rows, int64_t len, float s, int32_t z, bool divide,
              uint8_t *dst, int64_t stride);
// q - z, for types whose range of q - z fits.
void ToI16(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int16_t *dst,
           int64_t pitch);
void ToI32(DType t, const uint8_t *src, int64_t stride, int64_t rows, int64_t len, int32_t z, int32_t *dst,
           int64_t pitch);
// Low bytes of v; the caller knows that v fits.
void FromI32(DType t, const int32_t *src, int64_t pitch, int64_t rows, int64_t len, uint8_t *dst, int64_t stride);

// ---- Multiply-accumulate. A block is 16 output channels; acc is [positions][16]; position p reads x + p * pos_stride
// + tap.x.

inline constexpr int kBlock = 16;
struct Tap {
  int32_t x;     // elements from the position's base
  int32_t w;     // elements from the block's weights
  int32_t lanes; // input channels of this tap
};
// Weights of one tap: [ceil(lanes/2)][16][2], zero beyond the last lane; x readable up to the even lane. Wraps mod
// 2^32.
void MacI16(const int16_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int16_t *w,
            int32_t *acc);
// Weights of one tap: [lanes][16]. Products fit 2^62 in sum.
void MacI64(const int32_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int64_t *w,
            int64_t *acc);
// One f32 chain per output in the order of taps and lanes, fused.
void MacF32(const float *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const float *w,
            float *acc);
// Depthwise: lane l of acc takes lane l of x (16 readable) times w[tap.w + l].
void DepthwiseI16(const int16_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int16_t *w,
                  int32_t *acc);
void DepthwiseI64(const int32_t *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const int32_t *w,
                  int64_t *acc);
void DepthwiseF32(const float *x, int64_t pos_stride, int positions, const Tap *taps, int num_taps, const float *w,
                  float *acc);

// ---- Output stage and vector unit, on dense buffers.

// v[r][16] = f32(acc[r][16]) * scale[16]
void ScaleI32(const int32_t *acc, const float *scale, int64_t rows, float *v);
void ScaleF32(const float *acc, const float *scale, int64_t rows, float *v);
// clamp(rhe(v / s or v) + z) as i32.
void QuantiseToI32(DType t, const float *v, int64_t n, float s, int32_t z, bool divide, int32_t *q);
// f32(q - z) * s
void DequantiseI32(const int32_t *q, int64_t n, float s, int32_t z, float *v);
// Cheap functions of ElemFn: Add Sub Mul Div Min Max (NaN of either operand stays) Clamp (imm) and the like; false when
// `fn` has no kernel here.
bool ElemKernel(isa::ElemFn fn, const float *a, const float *b, const float *imm, int64_t n, float *out);
// out[i] = max(out[i], x[i]) with NaN staying; integers.
void MaxF32(const float *x, int64_t n, float *out);
void MaxI32(const int32_t *x, int64_t n, int32_t *out);
void AddF32(const float *x, int64_t n, float *out);
void AddI32(const int32_t *x, int64_t n, int32_t *out);

} // namespace npuc::runtime
