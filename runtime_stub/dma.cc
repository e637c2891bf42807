// DMA: copies between views of any two layouts, with padding. Fast: runs of lanes that are contiguous on both sides
// move as blocks; planar to blocked and back goes element by element along W. Cost: linear in the bytes.
#include <algorithm>
#include <cstring>

#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Dma;
using isa::DmaMode;
using isa::View;

void CopyElement(const Dma &c, const uint8_t *from, uint8_t *to) {
  switch (c.mode) {
  case DmaMode::Copy:
    std::memcpy(to, from, c.dst.elem_bytes());
    return;
  case DmaMode::WidenI32:
    WriteInt(to, DType::I64, ReadInt(from, DType::I32));
    return;
  case DmaMode::NarrowI64:
    std::memcpy(to, from, 4);
    return; // little-endian: the low word
  }
}

void Reference(const Dma &c, const Memory &m) {
  for (int64_t n = 0; n < c.dst.n; ++n)
    for (int64_t h = 0; h < c.dst.h; ++h)
      for (int64_t w = 0; w < c.dst.w; ++w)
        for (int64_t ch = 0; ch < c.dst.c; ++ch) {
          const int64_t sn = n - c.pad_before[0], sh = h - c.pad_before[1], sw = w - c.pad_before[2],
                        sc = ch - c.pad_before[3];
          const bool inside =
              sn >= 0 && sn < c.src.n && sh >= 0 && sh < c.src.h && sw >= 0 && sw < c.src.w && sc >= 0 && sc < c.src.c;
          uint8_t *to = m.At(c.dst, n, h, w, ch);
          if (inside)
            CopyElement(c, m.At(c.src, sn, sh, sw, sc), to);
          else
            WriteInt(to, c.dst.dtype, c.fill);
        }
}

void FillBox(const Memory &m, const View &v, int64_t fill) {
  for (int64_t n = 0; n < v.n; ++n)
    for (int64_t h = 0; h < v.h; ++h)
      for (int64_t w = 0; w < v.w; ++w)
        for (int64_t c = 0; c < v.c; ++c)
          WriteInt(m.At(v, n, h, w, c), v.dtype, fill);
}

// dst minus the copied box, as up to eight boxes.
void FillPads(const Dma &c, const Memory &m) {
  const View &d = c.dst;
  const auto box = [&](std::array<int64_t, 4> lo, std::array<int64_t, 4> hi) {
    for (int i = 0; i < 4; ++i)
      if (lo[i] >= hi[i])
        return;
    FillBox(m, d.Sub(lo[0], lo[1], lo[2], lo[3], hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2], hi[3] - lo[3]), c.fill);
  };
  std::array<int64_t, 4> lo{0, 0, 0, 0}, hi{d.n, d.h, d.w, d.c};
  for (int i = 0; i < 4; ++i) {
    const int64_t extent = hi[i], before = c.pad_before[i], after = extent - c.pad_after[i];
    hi[i] = before;
    box(lo, hi);
    lo[i] = after, hi[i] = extent;
    box(lo, hi);
    lo[i] = before, hi[i] = after;
  }
}

template <class T>
void Strided(const uint8_t *from, int64_t from_stride, uint8_t *to, int64_t to_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i, from += from_stride, to += to_stride) {
    T v;
    std::memcpy(&v, from, sizeof(T));
    std::memcpy(to, &v, sizeof(T));
  }
}

void CopyRow(const View &s, const View &d, const Memory &m, int64_t n, int64_t h) {
  const int64_t elem = s.elem_bytes();
  for (int64_t c = 0; c < s.c;) {
    const int64_t run =
        std::min<int64_t>({s.c_block - (s.c0 + c) % s.c_block, d.c_block - (d.c0 + c) % d.c_block, s.c - c});
    const uint8_t *from = m.At(s, n, h, 0, c);
    uint8_t *to = m.At(d, n, h, 0, c);
    const int64_t bytes = run * elem;
    if (s.w == 1 || (s.stride_w == bytes && d.stride_w == bytes))
      std::memmove(to, from, bytes * s.w);
    else if (bytes == 16)
      Strided<std::array<uint64_t, 2>>(from, s.stride_w, to, d.stride_w, s.w);
    else if (bytes == 1)
      Strided<uint8_t>(from, s.stride_w, to, d.stride_w, s.w);
    else if (bytes == 2)
      Strided<uint16_t>(from, s.stride_w, to, d.stride_w, s.w);
    else if (bytes == 4)
      Strided<uint32_t>(from, s.stride_w, to, d.stride_w, s.w);
    else if (bytes == 8)
      Strided<uint64_t>(from, s.stride_w, to, d.stride_w, s.w);
    else
      for (int64_t w = 0; w < s.w; ++w)
        std::memmove(to + w * d.stride_w, from + w * s.stride_w, bytes);
    c += run;
  }
}

} // namespace

void ExecuteDma(const Dma &c, const Context &x) {
  const Memory &m = x.memory;
  if (x.reference || c.mode != DmaMode::Copy) {
    Reference(c, m);
  } else {
    FillPads(c, m);
    const View to = c.dst.Sub(c.pad_before[0], c.pad_before[1], c.pad_before[2], c.pad_before[3], c.src.n, c.src.h,
                              c.src.w, c.src.c);
    const int64_t row_bytes = std::max<int64_t>(1, int64_t{c.src.w} * c.src.c * c.src.elem_bytes());
    x.ParallelFor(int64_t{c.src.n} * c.src.h, std::max<int64_t>(1, 65536 / row_bytes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        CopyRow(c.src, to, m, r / c.src.h, r % c.src.h);
    });
  }
  FillTail(m, c.dst);
}

} // namespace npuc::runtime
