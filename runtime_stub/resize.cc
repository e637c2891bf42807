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
            const ResizeTaps rows(y), cols(z);
            float v = 0;
            for (int r = 0; r < rows.count; ++r)
              for (int s = 0; s < cols.count; ++s) {
                const float term = rows.weight[r] * cols.weight[s] * at(rows.at[r], cols.at[s]);
                v = r + s == 0 ? term : v + term;
              }
            WriteReal(to, c.out.dtype, c.out_quant, v);
          }
    return FillTail(m, c.out);
  }
  std::vector<ResizeTaps> columns;
  columns.reserve(c.out.w);
  for (int64_t w = 0; w < c.out.w; ++w)
    columns.emplace_back(column_source(w));
  x.ParallelFor(int64_t{c.out.n} * c.out.h, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> lines[2], out(c.out.w * ch);
    std::vector<int32_t> bits(raw ? c.in.w * ch : 0), out_bits(raw ? c.out.w * ch : 0);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / c.out.h, h = r % c.out.h;
      const ResizeTaps rows(row_source(h));
      if (raw) {
        LoadI32(m, c.in, 0, n, rows.at[0], 0, c.in.w, bits.data(), ch);
        for (int64_t w = 0; w < c.out.w; ++w)
          std::copy_n(bits.data() + columns[w].at[0] * ch, ch, out_bits.data() + w * ch);
        StoreI32(m, c.out, n, h, 0, c.out.w, out_bits.data(), ch);
        continue;
      }
      for (int i = 0; i < rows.count; ++i) {
        lines[i].resize(c.in.w * ch);
        LoadReal(m, c.in, c.in_quant, n, rows.at[i], 0, c.in.w, lines[i].data(), ch);
      }
      for (int64_t w = 0; w < c.out.w; ++w) {
        const ResizeTaps &cols = columns[w];
        float *to = out.data() + w * ch;
        for (int i = 0; i < rows.count; ++i)
          for (int j = 0; j < cols.count; ++j) {
            const float weight = rows.weight[i] * cols.weight[j];
            const float *from = lines[i].data() + cols.at[j] * ch;
            if (i + j == 0)
              for (int64_t k = 0; k < ch; ++k)
                to[k] = weight * from[k];
            else
              for (int64_t k = 0; k < ch; ++k)
                to[k] += weight * from[k];
          }
      }
      StoreReal(m, c.out, c.out_quant, true, n, h, 0, c.out.w, out.data(), ch);
    }
  });
  FillTail(m, c.out);
}

} // namespace npuc::runtime
