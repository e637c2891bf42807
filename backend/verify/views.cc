// Views and ranges: well formed, in bounds, apart. All arithmetic on fields that nobody vouches for is done in 128
// bits; what passes fits 64.
#include <algorithm>

#include "backend/isa/byte_box.h"
#include "backend/verify/check.h"
#include "backend/verify/hazards.h"

namespace npuc::verify {

using isa::Access;
using isa::Address;
using isa::Engine;
using isa::Region;
using isa::View;

namespace {

using Wide = __int128;

bool InRange(Wide v) {
  return v >= -(Wide{1} << 62) && v <= Wide{1} << 62;
}

int64_t RegionBytes(const Checker &c, const Address &a) {
  switch (a.region) {
  case Region::Const:
    return c.sizes.const_bytes;
  case Region::Arena:
    return c.sizes.arena_bytes;
  case Region::Sram:
    return c.sizes.sram_bytes;
  case Region::Io:
    return c.sizes.io_bytes[a.index];
  case Region::Buffer:
    break;
  }
  return 0;
}

std::string RegionText(const Address &a) {
  std::string s(isa::Name(a.region));
  if (a.region == Region::Io || a.region == Region::Buffer)
    s += std::to_string(a.index);
  return s;
}

bool CheckRegion(Checker &c, const Address &a, bool write, std::string_view what) {
  if (!c.Require(a.region != Region::Buffer, "{} lies in a symbolic buffer", what))
    return false;
  if (a.region == Region::Io) {
    if (!c.Require(a.index < c.sizes.io_bytes.size(), "{} lies in io{}, the model has {} inputs and outputs", what,
                   a.index, c.sizes.io_bytes.size()))
      return false;
    return c.Require(!write || a.index >= c.sizes.num_inputs, "{} is written to io{}, a model input", what, a.index);
  }
  return c.Require(a.index == 0, "{} has region number {} in {}, which has none", what, a.index, isa::Name(a.region)) &
         c.Require(!write || a.region != Region::Const, "{} is written to const", what);
}

bool CheckRange(Checker &c, const Address &a, int64_t bytes, std::string_view what) {
  if (!CheckRegion(c, a, false, what))
    return false;
  const int64_t size = RegionBytes(c, a), align = what == "weights" ? 4 : 16;
  return c.Require(a.offset >= 0 && a.offset <= size && bytes <= size - a.offset,
                   "{} bytes {} to {} are outside {}, which has {} bytes", what, a.offset,
                   static_cast<int64_t>(static_cast<uint64_t>(a.offset) + static_cast<uint64_t>(bytes)), RegionText(a),
                   size) &&
         c.Require(a.offset % align == 0, "{} at {} is no multiple of {}", what, a.offset, align);
}

bool SameGeometry(const View &a, const View &b) {
  return a.address == b.address && a.elem_bytes() == b.elem_bytes() && SameDims(a, b) && a.c_block == b.c_block &&
         a.c0 == b.c0 && a.stride_n == b.stride_n && a.stride_c1 == b.stride_c1 && a.stride_h == b.stride_h &&
         a.stride_w == b.stride_w;
}

// A command that reads what it writes is defined only where element i of the result depends on element i of that
// operand alone.
bool MayBeInPlace(const isa::Command &c, std::string_view what) {
  switch (isa::OpcodeOf(c)) {
  case isa::Opcode::Elem:
  case isa::Opcode::Lut:
    return what == "in";
  case isa::Opcode::Reduce:
    return what == "out"; // combine
  case isa::Opcode::Conv:
  case isa::Opcode::MatMul:
    return what == "operands";
  default:
    return false;
  }
}

} // namespace

bool CheckView(Checker &c, const View &v, bool write, std::string_view what) {
  const int64_t e = v.elem_bytes(), limit = c.t.limits.dims_max;
  if (!c.Require(v.present(), "{} is absent", what) ||
      !c.Require(e > 0, "{} has elements of type {}", what, npuc::Name(v.dtype)))
    return false;
  bool ok = CheckRegion(c, v.address, write, what);
  // A table's rows are not walked: their number is bounded by memory alone.
  const bool is_table = std::holds_alternative<isa::Gather>(c.command.body) && what == "table";
  const uint32_t dims[] = {v.n, v.h, v.w, v.c};
  for (int i = 0; i < 4; ++i)
    ok &= c.Require(dims[i] > 0 && (dims[i] <= limit || (is_table && i == 2)), "{} has dims {}, each must be 1 to {}",
                    what, DimsText(v), limit);
  ok &= c.Require(v.c0 < v.c_block, "{} starts at lane {} of blocks of {}", what, v.c0, v.c_block);
  if (!ok)
    return false;

  // First and last byte of the elements (and filled lanes), dim by dim.
  const Wide last_lane = Wide{v.c0} + v.c - 1, blocks = last_lane / v.c_block + 1;
  const bool fill = write && v.tail == isa::Tail::Fill;
  Wide lo = Wide{v.address.offset}, hi = lo;
  auto extend = [&](Wide count, int64_t stride) {
    const Wide d = (count - 1) * stride;
    (d < 0 ? lo : hi) += d;
  };
  extend(v.n, v.stride_n);
  extend(v.h, v.stride_h);
  extend(v.w, v.stride_w);
  extend(blocks, v.stride_c1);
  // Within the blocks: exact when there is one, all lanes otherwise; refined below once the numbers are known to be
  // small.
  lo += blocks == 1 ? Wide{v.c0} * e : 0;
  hi += (blocks == 1 && !fill ? last_lane + 1 : Wide{v.c_block}) * e;
  for (int64_t s : {v.stride_n, v.stride_c1, v.stride_h, v.stride_w})
    ok &= InRange(Wide{s} * 65536);
  if (!c.Require(ok && InRange(lo) && InRange(hi) && v.c_block <= uint32_t{1} << 24, "{} spans more than 2^62 bytes",
                 what))
    return false;
  View exact = v;
  if (!write)
    exact.tail = isa::Tail::Keep;
  const isa::ByteRange r = isa::BoundingBytes(exact);
  const int64_t size = RegionBytes(c, v.address);
  ok &= c.Require(r.lo >= 0 && r.hi <= size, "{} bytes {} to {} are outside {}, which has {} bytes", what, r.lo, r.hi,
                  RegionText(v.address), size);
  // Bases are aligned by the allocator; a slice of an NHWC tensor with few channels may start at any element.
  bool aligned = v.address.offset % e == 0;
  if (v.n > 1)
    aligned &= v.stride_n % e == 0;
  if (blocks > 1)
    aligned &= v.stride_c1 % e == 0;
  if (v.h > 1)
    aligned &= v.stride_h % e == 0;
  if (v.w > 1)
    aligned &= v.stride_w % e == 0;
  ok &= c.Require(aligned, "{} has an offset or stride that is no multiple of its element size {}", what, e);
  if (write) {
    ok &= c.Require(!ok || !isa::AliasesItself(v), "{} is written, but several of its elements share a byte", what);
    if (fill && IsInt(v.dtype) && e < 4)
      ok &= c.Require(v.zero >= IntMin(v.dtype) && v.zero <= IntMax(v.dtype), "{} is filled with {}, outside {}", what,
                      v.zero, npuc::Name(v.dtype));
  }
  return ok;
}

std::string DimsText(const View &v) {
  return fmt::format("[{},{},{},{}]", v.n, v.h, v.w, v.c);
}

bool CheckAccesses(Checker &c) {
  bool ok = true;
  const bool compute = c.command.engine == Engine::MXU || c.command.engine == Engine::VPU;
  const View *written = nullptr;
  isa::ForEachAccess(c.command, [&](const Access &a) {
    ok &= a.view ? CheckView(c, *a.view, a.write, a.what) : CheckRange(c, a.address, a.bytes, a.what);
    if (compute)
      ok &= c.Require(a.address.region == Region::Sram, "{} lies in {}, {} reads and writes sram only", a.what,
                      RegionText(a.address), isa::Name(c.command.engine));
    if (a.write)
      written = a.view;
  });
  if (!ok || !written)
    return ok;
  const isa::ByteBoxes out = isa::ByteSetOf(*written);
  isa::ForEachAccess(c.command, [&](const Access &a) {
    if (a.write || a.address.region != written->address.region || a.address.index != written->address.index)
      return;
    if (a.view && MayBeInPlace(c.command, a.what) && SameGeometry(*a.view, *written))
      return;
    for (const isa::ByteBox &x : ByteSetOf(a))
      for (const isa::ByteBox &y : out)
        if (isa::Overlaps(x, y)) {
          ok = c.Require(false, "{} overlaps the output", a.what);
          return;
        }
  });
  return ok;
}

bool CheckQuant(Checker &c, const View &v, const isa::Quant &q, std::string_view name) {
  if (!IsInt(v.dtype))
    return true;
  return c.Require(std::isfinite(q.scale) && q.scale > 0, "{} has scale {}", name, q.scale) &
         c.Require(q.zero >= IntMin(v.dtype) && q.zero <= IntMax(v.dtype), "{} has zero point {}, outside {}", name,
                   q.zero, npuc::Name(v.dtype));
}

bool VpuType(const Target &t, DType d) {
  return t.Supports(d) || d == DType::Bool || d == DType::I32 || d == DType::F32;
}

} // namespace npuc::verify
