// Rows of views to and from dense buffers. Splits a row into runs of contiguous lanes (whole rows when the layout
// allows) and hands each set of runs to the SIMD conversions. Cost: linear in the elements.
#include "runtime_stub/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/ops/quant_math.h"
#include "compiler/support/half.h"
#include "compiler/support/status.h"
#include "runtime_stub/kernels.h"

namespace npuc::runtime {
namespace {

using isa::View;

// f(memory, stride, rows, len, c): `rows` runs of `len` elements from channel c on.
template <class F>
void ForEachRun(const Memory &m, const View &v, int64_t n, int64_t h, int64_t w0, int64_t count, int64_t pitch, F f) {
  const int64_t elem = v.elem_bytes();
  if (v.c_block == v.c && v.c0 == 0 && pitch == v.c && v.stride_w == v.c * elem) {
    f(m.At(v, n, h, w0, 0), 0, 1, count * v.c, 0);
    return;
  }
  for (int64_t c = 0; c < v.c;) {
    const int64_t lane = (v.c0 + c) % v.c_block, len = std::min<int64_t>(v.c_block - lane, v.c - c);
    f(m.At(v, n, h, w0, c), v.stride_w, count, len, c);
    c += len;
  }
}

// All channels are the same bytes.
bool BroadcastsChannels(const View &v) {
  return v.c > 1 && v.c_block == 1 && v.stride_c1 == 0;
}
// Channels lie apart and positions together (NCHW): go through one contiguous line per channel.
bool IsPlanar(const View &v, int64_t count) {
  return v.c_block == 1 && v.c > 1 && count > 1 && v.stride_w == v.elem_bytes();
}

template <class T, class Line, class Runs>
void Load(const Memory &m, const View &v, int64_t n, int64_t h, int64_t w0, int64_t count, T *out, int64_t pitch,
          Line line, Runs runs) {
  if (BroadcastsChannels(v)) {
    View one = v;
    one.c = 1;
    T column[64];
    for (int64_t i = 0; i < count; i += 64) {
      const int64_t k = std::min<int64_t>(64, count - i);
      ForEachRun(m, one, n, h, w0 + i, k, 1, [&](const uint8_t *p, int64_t stride, int64_t rows, int64_t len, int64_t) {
        runs(p, stride, rows, len, column, 1);
      });
      for (int64_t r = 0; r < k; ++r)
        std::fill_n(out + (i + r) * pitch, v.c, column[r]);
    }
    return;
  }
  if (IsPlanar(v, count)) {
    T buffer[256];
    for (int64_t c = 0; c < v.c; ++c)
      for (int64_t i = 0; i < count; i += 256) {
        const int64_t k = std::min<int64_t>(256, count - i);
        line(m.At(v, n, h, w0 + i, c), k, buffer);
        for (int64_t r = 0; r < k; ++r)
          out[(i + r) * pitch + c] = buffer[r];
      }
    return;
  }
  ForEachRun(m, v, n, h, w0, count, pitch, [&](const uint8_t *p, int64_t stride, int64_t rows, int64_t len, int64_t c) {
    runs(p, stride, rows, len, out + c, pitch);
  });
}

void RawHalves(const uint8_t *p, int64_t stride, int64_t rows, int64_t len, int32_t *out, int64_t pitch) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < len; ++i) {
      uint16_t half;
      std::memcpy(&half, p + r * stride + i * 2, 2);
      out[r * pitch + i] = half;
    }
}

} // namespace

void LoadReal(const Memory &m, const View &v, isa::Quant q, int64_t n, int64_t h, int64_t w0, int64_t count, float *out,
              int64_t pitch) {
  Load(
      m, v, n, h, w0, count, out, pitch,
      [&](const uint8_t *p, int64_t k, float *b) { ToReal(v.dtype, p, 0, 1, k, q.scale, q.zero, b, 0); },
      [&](const uint8_t *p, int64_t stride, int64_t rows, int64_t len, float *b, int64_t bp) {
        ToReal(v.dtype, p, stride, rows, len, q.scale, q.zero, b, bp);
      });
}
void LoadI16(const Memory &m, const View &v, int32_t zero, int64_t n, int64_t h, int64_t w0, int64_t count,
             int16_t *out, int64_t pitch) {
  Load(
      m, v, n, h, w0, count, out, pitch,
      [&](const uint8_t *p, int64_t k, int16_t *b) { ToI16(v.dtype, p, 0, 1, k, zero, b, 0); },
      [&](const uint8_t *p, int64_t stride, int64_t rows, int64_t len, int16_t *b, int64_t bp) {
        ToI16(v.dtype, p, stride, rows, len, zero, b, bp);
      });
}
void LoadI32(const Memory &m, const View &v, int32_t zero, int64_t n, int64_t h, int64_t w0, int64_t count,
             int32_t *out, int64_t pitch) {
  if (v.dtype == DType::F16) {
    Load(
        m, v, n, h, w0, count, out, pitch,
        [&](const uint8_t *p, int64_t k, int32_t *b) { RawHalves(p, 0, 1, k, b, 0); }, RawHalves);
    return;
  }
  Load(
      m, v, n, h, w0, count, out, pitch,
      [&](const uint8_t *p, int64_t k, int32_t *b) { ToI32(v.dtype, p, 0, 1, k, zero, b, 0); },
      [&](const uint8_t *p, int64_t stride, int64_t rows, int64_t len, int32_t *b, int64_t bp) {
        ToI32(v.dtype, p, stride, rows, len, zero, b, bp);
      });
}

void StoreReal(const Memory &m, const View &v, isa::Quant q, bool divide, int64_t n, int64_t h, int64_t w0,
               int64_t count, const float *in, int64_t pitch) {
  if (IsPlanar(v, count)) {
    float buffer[256];
    for (int64_t c = 0; c < v.c; ++c)
      for (int64_t i = 0; i < count; i += 256) {
        const int64_t k = std::min<int64_t>(256, count - i);
        for (int64_t r = 0; r < k; ++r)
          buffer[r] = in[(i + r) * pitch + c];
        FromReal(v.dtype, buffer, 0, 1, k, q.scale, q.zero, divide, m.At(v, n, h, w0 + i, c), 0);
      }
    return;
  }
  ForEachRun(m, v, n, h, w0, count, pitch, [&](uint8_t *p, int64_t stride, int64_t rows, int64_t len, int64_t c) {
    FromReal(v.dtype, in + c, pitch, rows, len, q.scale, q.zero, divide, p, stride);
  });
}

void StoreI32(const Memory &m, const View &v, int64_t n, int64_t h, int64_t w0, int64_t count, const int32_t *in,
              int64_t pitch) {
  // Raw half bits do not survive the saturating narrowing of a signed type, so they travel as u16; f32 as 32 bits.
  const DType t = v.dtype == DType::F16 ? DType::U16 : v.dtype == DType::F32 ? DType::I32 : v.dtype;
  if (IsPlanar(v, count)) {
    int32_t buffer[256];
    for (int64_t c = 0; c < v.c; ++c)
      for (int64_t i = 0; i < count; i += 256) {
        const int64_t k = std::min<int64_t>(256, count - i);
        for (int64_t r = 0; r < k; ++r)
          buffer[r] = in[(i + r) * pitch + c];
        FromI32(t, buffer, 0, 1, k, m.At(v, n, h, w0 + i, c), 0);
      }
    return;
  }
  ForEachRun(m, v, n, h, w0, count, pitch, [&](uint8_t *p, int64_t stride, int64_t rows, int64_t len, int64_t c) {
    FromI32(t, in + c, pitch, rows, len, p, stride);
  });
}

void FillTail(const Memory &m, const View &v) {
  if (v.tail != isa::Tail::Fill || !v.present())
    return;
  const int64_t used = (v.c0 + v.c) % v.c_block;
  if (used == 0 || v.c == 0)
    return;
  const int64_t elem = v.elem_bytes(), lanes = v.c_block - used;
  for (int64_t n = 0; n < v.n; ++n)
    for (int64_t h = 0; h < v.h; ++h)
      for (int64_t w = 0; w < v.w; ++w) {
        uint8_t *p = m.At(v, n, h, w, v.c - 1) + elem;
        for (int64_t i = 0; i < lanes; ++i)
          WriteInt(p + i * elem, v.dtype, v.zero);
      }
}

int64_t ReadInt(const uint8_t *p, DType t) {
  switch (ByteSize(t)) {
  case 1:
    return t == DType::I8 ? static_cast<int8_t>(*p) : *p;
  case 2: {
    uint16_t u;
    std::memcpy(&u, p, 2);
    return t == DType::I16 ? static_cast<int16_t>(u) : u;
  }
  case 4: {
    int32_t i;
    std::memcpy(&i, p, 4);
    return i;
  }
  default: {
    int64_t i;
    std::memcpy(&i, p, 8);
    return i;
  }
  }
}
void WriteInt(uint8_t *p, DType t, int64_t v) {
  std::memcpy(p, &v, ByteSize(t));
}

float ReadReal(const uint8_t *p, DType t, isa::Quant q) {
  if (t == DType::F16)
    return HalfToFloat(static_cast<uint16_t>(ReadInt(p, t)));
  if (t == DType::F32) {
    float f;
    std::memcpy(&f, p, 4);
    return f;
  }
  return DequantizeValue(static_cast<int32_t>(ReadInt(p, t)), q.scale, q.zero);
}
float ReadReal(const Memory &m, const View &v, isa::Quant q, int64_t n, int64_t h, int64_t w, int64_t c) {
  return ReadReal(m.At(v, n, h, w, c), v.dtype, q);
}
void WriteReal(uint8_t *p, DType t, isa::Quant q, float v) {
  if (t == DType::F16)
    return WriteInt(p, t, v == v ? FloatToHalf(v) : 0x7e00);
  if (t == DType::F32)
    return WriteInt(p, t, v == v ? std::bit_cast<uint32_t>(v) : 0x7fc00000u);
  WriteInt(p, t, QuantizeValue(v, q.scale, q.zero, t == DType::Bool ? QuantRange{0, 1} : QuantRangeOf(t)));
}

} // namespace npuc::runtime
