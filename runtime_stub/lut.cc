// LUT. 8-bit: out = table[q - IntMin]. i16: 513 knots at q = -32768, -32640, ..., 32768; between two knots the value
// (t[i] * 128 + (t[i+1] - t[i]) * f) / 128, f the position 0..127, rounded half to even.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

int32_t Interpolate(const uint8_t *table, int32_t q) {
  const int32_t u = q + 32768, i = u >> 7, f = u & 127;
  int16_t t[2];
  std::memcpy(t, table + i * 2, 4);
  const int32_t v = t[0] * 128 + (t[1] - t[0]) * f;
  const int32_t floor = v >> 7, rest = v & 127;
  return floor + (rest > 64 || (rest == 64 && (floor & 1)));
}

int32_t Lookup(const uint8_t *table, DType in, DType out, int32_t q) {
  if (in == DType::I16)
    return Interpolate(table, q);
  const uint8_t byte = table[q - static_cast<int32_t>(IntMin(in))];
  return out == DType::I8 ? static_cast<int8_t>(byte) : byte;
}

} // namespace

void ExecuteLut(const isa::Lut &c, const Context &x) {
  const Memory &m = x.memory;
  const uint8_t *table = m.At(c.table);
  const int64_t ch = c.out.c, rows = int64_t{c.out.n} * c.out.h;
  if (x.reference) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t w = 0; w < c.out.w; ++w)
        for (int64_t i = 0; i < ch; ++i) {
          const int64_t n = r / c.out.h, h = r % c.out.h;
          WriteInt(m.At(c.out, n, h, w, i), c.out.dtype,
                   Lookup(table, c.in.dtype, c.out.dtype,
                          static_cast<int32_t>(ReadInt(m.At(c.in, n, h, w, i), c.in.dtype))));
        }
    return FillTail(m, c.out);
  }
  int32_t wide[256];
  if (ByteSize(c.in.dtype) == 1)
    for (int32_t i = 0; i < 256; ++i)
      wide[i] = Lookup(table, c.in.dtype, c.out.dtype, i + static_cast<int32_t>(IntMin(c.in.dtype)));
  const int64_t piece = std::clamp<int64_t>(4096 / std::max<int64_t>(1, ch), 1, std::max<int64_t>(1, c.out.w)),
                pieces = (c.out.w + piece - 1) / piece;
  x.ParallelFor(rows * pieces, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, piece * ch)),
                [&](int64_t begin, int64_t end) {
                  std::vector<int32_t> line(piece * ch);
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t n = u / pieces / c.out.h, h = u / pieces % c.out.h, w0 = u % pieces * piece,
                                  count = std::min<int64_t>(piece, c.out.w - w0);
                    if (ByteSize(c.in.dtype) == 1) {
                      LoadI32(m, c.in, static_cast<int32_t>(IntMin(c.in.dtype)), n, h, w0, count, line.data(), ch);
                      for (int64_t i = 0; i < count * ch; ++i)
                        line[i] = wide[line[i]];
                    } else {
                      LoadI32(m, c.in, 0, n, h, w0, count, line.data(), ch);
                      for (int64_t i = 0; i < count * ch; ++i)
                        line[i] = Interpolate(table, line[i]);
                    }
                    StoreI32(m, c.out, n, h, w0, count, line.data(), ch);
                  }
                });
  FillTail(m, c.out);
}

} // namespace npuc::runtime
