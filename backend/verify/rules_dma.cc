// DMA and GATHER.
#include "backend/verify/check.h"

namespace npuc::verify {

void CheckCommand(Checker &, const isa::End &) {}

void CheckCommand(Checker &c, const isa::Dma &d) {
  const int64_t src[] = {d.src.n, d.src.h, d.src.w, d.src.c}, dst[] = {d.dst.n, d.dst.h, d.dst.w, d.dst.c};
  for (int i = 0; i < 4; ++i)
    if (!c.Require(src[i] + d.pad_before[i] + d.pad_after[i] == dst[i], "dst dims {} are not src dims {} plus pads",
                   DimsText(d.dst), DimsText(d.src)))
      break;
  switch (d.mode) {
  case isa::DmaMode::Copy:
    c.Require(d.src.elem_bytes() == d.dst.elem_bytes(), "elements of {} are copied to {}", npuc::Name(d.src.dtype),
              npuc::Name(d.dst.dtype));
    break;
  case isa::DmaMode::WidenI32:
    c.Require(d.src.dtype == DType::I32 && d.dst.dtype == DType::I64, "WidenI32 from {} to {}", npuc::Name(d.src.dtype),
              npuc::Name(d.dst.dtype));
    break;
  case isa::DmaMode::NarrowI64:
    c.Require(d.src.dtype == DType::I64 && d.dst.dtype == DType::I32, "NarrowI64 from {} to {}",
              npuc::Name(d.src.dtype), npuc::Name(d.dst.dtype));
    break;
  }
}

void CheckCommand(Checker &c, const isa::Gather &g) {
  c.Require(g.table.n == 1 && g.table.h == 1 && g.out.n == 1 && g.out.h == 1, "table {} and out {} must have n = h = 1",
            DimsText(g.table), DimsText(g.out));
  c.Require(g.indices.dtype == DType::I32, "indices are {}, i32 is allowed", npuc::Name(g.indices.dtype));
  c.Require(g.indices.n == 1 && g.indices.h == 1 && g.indices.c == 1 && g.indices.w == g.out.w,
            "indices {} must be [1,1,{},1]", DimsText(g.indices), g.out.w);
  c.Require(g.table.c == g.out.c, "rows of {} elements are gathered into {}", g.table.c, g.out.c);
  c.Require(g.table.elem_bytes() == g.out.elem_bytes(), "elements of {} are gathered into {}",
            npuc::Name(g.table.dtype), npuc::Name(g.out.dtype));
}

} // namespace npuc::verify
