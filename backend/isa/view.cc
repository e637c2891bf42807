#include "backend/isa/view.h"

#include <algorithm>

#include "backend/isa/byte_box.h"
#include "backend/isa/fields.h"

namespace npuc::isa {
namespace {

View Dense(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c, int64_t block) {
  View v;
  v.address = a;
  v.dtype = t;
  v.n = static_cast<uint32_t>(n);
  v.h = static_cast<uint32_t>(h);
  v.w = static_cast<uint32_t>(w);
  v.c = static_cast<uint32_t>(c);
  v.c_block = static_cast<uint32_t>(block);
  const DenseStrides s = DenseStridesOf(v);
  v.stride_n = s.n;
  v.stride_c1 = s.c1;
  v.stride_h = s.h;
  v.stride_w = s.w;
  return v;
}

} // namespace

View NhwcView(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c) {
  return Dense(a, t, n, h, w, c, std::max<int64_t>(c, 1));
}
View NchwView(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c) {
  return Dense(a, t, n, h, w, c, 1);
}
View BlockedView(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c, int c2) {
  return Dense(a, t, n, h, w, c, c2);
}

ByteRange BoundingBytes(const View &v) {
  ByteRange r;
  bool first = true;
  for (const ByteBox &b : ByteBoxesOf(v)) {
    const ByteRange s = b.Bounds();
    r.lo = first ? s.lo : std::min(r.lo, s.lo);
    r.hi = first ? s.hi : std::max(r.hi, s.hi);
    first = false;
  }
  return r;
}

} // namespace npuc::isa
