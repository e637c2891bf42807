// Rows of a view as dense buffers: positions [w0, w0 + count) of row (n, h), element (i, c) at buffer[i * pitch + c],
// pitch >= v.c. Any layout; contiguous lanes go through the SIMD conversions. A view with stride 0 reads the same bytes
// again.
#pragma once

#include <cstdint>

#include "backend/isa/commands.h"
#include "runtime_stub/memory.h"

namespace npuc::runtime {

// Dequantised by q (float dtypes: as they are).
void LoadReal(const Memory &m, const isa::View &v, isa::Quant q, int64_t n, int64_t h, int64_t w0, int64_t count,
              float *out, int64_t pitch);
// Raw value - zero. i16: the caller knows that it fits. Raw f16/f32 bits are zero-extended by LoadI32.
void LoadI16(const Memory &m, const isa::View &v, int32_t zero, int64_t n, int64_t h, int64_t w0, int64_t count,
             int16_t *out, int64_t pitch);
void LoadI32(const Memory &m, const isa::View &v, int32_t zero, int64_t n, int64_t h, int64_t w0, int64_t count,
             int32_t *out, int64_t pitch);
// Quantised by q; without `divide` the values are in units of q already.
void StoreReal(const Memory &m, const isa::View &v, isa::Quant q, bool divide, int64_t n, int64_t h, int64_t w0,
               int64_t count, const float *in, int64_t pitch);
void StoreI32(const Memory &m, const isa::View &v, int64_t n, int64_t h, int64_t w0, int64_t count, const int32_t *in,
              int64_t pitch);
// Writes the tail lanes of a Fill view with its zero.
void FillTail(const Memory &m, const isa::View &v);

// One element, for the reference paths.
float ReadReal(const Memory &m, const isa::View &v, isa::Quant q, int64_t n, int64_t h, int64_t w, int64_t c);
int64_t ReadInt(const uint8_t *p, DType t); // raw integer; float dtypes: their bits
float ReadReal(const uint8_t *p, DType t, isa::Quant q);
void WriteReal(uint8_t *p, DType t, isa::Quant q, float v);
void WriteInt(uint8_t *p, DType t, int64_t v); // low bytes

} // namespace npuc::runtime
