// Addresses and tensor views: how a command names the bytes it reads and writes.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/types/dtype.h"

namespace npuc::isa {

enum class Region : uint8_t {
  Const = 0,  // DDR, read-only
  Arena = 1,  // DDR
  Sram = 2,   // on chip
  Io = 3,     // DDR, one per model input/output: `index`
  Buffer = 4, // symbolic, before addresses: `index` is a program::BufferId. Never encoded.
};

struct Address {
  Region region = Region::Sram;
  uint32_t index = 0; // Io: which; Buffer: which; else 0
  int64_t offset = 0; // bytes
  bool operator==(const Address &) const = default;
};

enum class Tail : uint8_t {
  Keep = 0, // lanes outside [c0, c0 + c) are left untouched
  Fill = 1, // lanes after the last element of the last block are written with the tensor's zero
};

// element (n, h, w, c): lane l = (c0 + c) % c_block, block b = (c0 + c) / c_block
//   address = offset + n*stride_n + b*stride_c1 + h*stride_h + w*stride_w + l*sizeof(dtype)
// Strides are signed bytes. `zero` is what Fill writes (a zero point; 0 for floats).
struct View {
  Address address;
  DType dtype = DType::Undefined;
  Tail tail = Tail::Keep;
  uint32_t n = 1, h = 1, w = 1, c = 1;
  uint32_t c_block = 1, c0 = 0;
  int64_t stride_n = 0, stride_c1 = 0, stride_h = 0, stride_w = 0;
  int32_t zero = 0;

  int elem_bytes() const { return ByteSize(dtype); }
  int64_t elements() const { return int64_t{n} * h * w * c; }
  bool present() const { return dtype != DType::Undefined; }
  int64_t ElementOffset(int64_t in, int64_t ih, int64_t iw, int64_t ic) const {
    const int64_t lane = (c0 + ic) % c_block, block = (c0 + ic) / c_block;
    return address.offset + in * stride_n + block * stride_c1 + ih * stride_h + iw * stride_w + lane * elem_bytes();
  }
  // The sub-box that starts at the given element; dims as given. A channel start moves c0 (and whole blocks).
  View Sub(int64_t n0, int64_t h0, int64_t w0, int64_t ch0, uint32_t nn, uint32_t hh, uint32_t ww, uint32_t cc) const {
    View v = *this;
    const int64_t first = int64_t{c0} + ch0;
    v.address.offset += n0 * stride_n + h0 * stride_h + w0 * stride_w + first / c_block * stride_c1;
    v.c0 = static_cast<uint32_t>(first % c_block);
    v.n = nn;
    v.h = hh;
    v.w = ww;
    v.c = cc;
    return v;
  }
  bool operator==(const View &) const = default;
};

// Dense views at an address. NHWC: c_block = c. Packed without gaps.
View NhwcView(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c);
View NchwView(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c);
// NC1HWC2 with blocks of c2 lanes; bytes = n * ceil(c/c2) * h * w * c2 * elem.
View BlockedView(Address a, DType t, int64_t n, int64_t h, int64_t w, int64_t c, int c2);

// Smallest half-open range [lo, hi) of byte offsets within the region that the view's elements (and Fill lanes) lie in.
struct ByteRange {
  int64_t lo = 0, hi = 0;
};
ByteRange BoundingBytes(const View &v);

} // namespace npuc::isa
