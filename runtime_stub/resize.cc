// RESIZE: nearest and linear on H and W; where it reads and how it mixes is backend/isa/resize_math.h. Nearest copies
// the bits when both sides have one scale and zero point. Cost: one pass over the output, two input lines an output
// line.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/isa/resize_math.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Resize;

// Sources of output row or column o, relative to the tile; `f` is the weight of b.
ResizeSource SourceOf(const Resize &c, int64_t o, float scale, int64_t in, int64_t out, int64_t in0) {
  ResizeSource s = ResizeSourceOf({c.coordinates, ResizeScale(scale, in, out), in, out}, c.kind, c.nearest, o);
  s.a -= in0, s.b -= in0;
  return s;
}

} // namespace

void ExecuteResize(const Resize &c, const Context &x) {
  const Memory &m = x.memory;
  const int64_t ch = c.out.c;
  const bool nearest = c.kind == isa::ResizeKind::Nearest;
  const bool raw = nearest && c.in.dtype == c.out.dtype && (IsFloat(c.in.dtype) || c.in_quant == c.out_quant);
  const auto row_source = [&](int64_t h) {
    return SourceOf(c, c.out_h0 + h, c.scale_h, c.full_in_h, c.full_out_h, c.in_h0);
  };
  const auto column_source = [&](int64_t w) {
    return SourceOf(c, c.out_w0 + w, c.scale_w, c.full_in_w, c.full_out_w, c.in_w0);
  };
  if (x.reference) {
    for (int64_t n = 0; n < c.out.n; ++n)
      for (int64_t h = 0; h < c.out.h; ++h)
        for (int64_t w = 0; w < c.out.w; ++w)
          for (int64_t i = 0; i < ch; ++i) {
            const ResizeSource y = row_source(h), z = column_source(w);
            uint8_t *to = m.At(c.out, n, h, w, i);
            if (raw) {
              WriteInt(to, c.out.dtype, ReadInt(m.At(c.in, n, y.a, z.a, i), c.in.dtype));
              continue;
            }
            const auto at = [&](int64_t r, int64_t s) { return ReadReal(m, c.in, c.in_quant, n, r, s, i); };
            const float v = nearest ? at(y.a, z.a)
                                    : ResizeMix(ResizeMix(at(y.a, z.a), at(y.a, z.b), z.f),
                                                ResizeMix(at(y.b, z.a), at(y.b, z.b), z.f), y.f);
            WriteReal(to, c.out.dtype, c.out_quant, v);
          }
    return FillTail(m, c.out);
  }
  std::vector<ResizeSource> columns(c.out.w);
  for (int64_t w = 0; w < c.out.w; ++w)
    columns[w] = column_source(w);
  x.ParallelFor(int64_t{c.out.n} * c.out.h, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> a(c.in.w * ch), b(nearest ? 0 : c.in.w * ch), out(c.out.w * ch);
    std::vector<int32_t> bits(raw ? c.in.w * ch : 0), out_bits(raw ? c.out.w * ch : 0);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / c.out.h, h = r % c.out.h;
      const ResizeSource y = row_source(h);
      if (raw) {
        LoadI32(m, c.in, 0, n, y.a, 0, c.in.w, bits.data(), ch);
        for (int64_t w = 0; w < c.out.w; ++w)
          std::copy_n(bits.data() + columns[w].a * ch, ch, out_bits.data() + w * ch);
        StoreI32(m, c.out, n, h, 0, c.out.w, out_bits.data(), ch);
        continue;
      }
      LoadReal(m, c.in, c.in_quant, n, y.a, 0, c.in.w, a.data(), ch);
      if (!nearest)
        LoadReal(m, c.in, c.in_quant, n, y.b, 0, c.in.w, b.data(), ch);
      for (int64_t w = 0; w < c.out.w; ++w) {
        const ResizeSource z = columns[w];
        const float *a0 = a.data() + z.a * ch, *a1 = a.data() + z.b * ch;
        if (nearest) {
          std::copy_n(a0, ch, out.data() + w * ch);
          continue;
        }
        const float *b0 = b.data() + z.a * ch, *b1 = b.data() + z.b * ch;
        for (int64_t i = 0; i < ch; ++i)
          out[w * ch + i] = ResizeMix(ResizeMix(a0[i], a1[i], z.f), ResizeMix(b0[i], b1[i], z.f), y.f);
      }
      StoreReal(m, c.out, c.out_quant, true, n, h, 0, c.out.w, out.data(), ch);
    }
  });
  FillTail(m, c.out);
}

} // namespace npuc::runtime
