// How tensors lie in memory: from a type (shape, layout) to the four-dimensional view that commands use.
#pragma once

#include <array>

#include "backend/isa/view.h"
#include "compiler/target/target.h"
#include "compiler/types/type.h"

namespace npuc::program {

// View axes in the order of isa::View's dims.
enum ViewAxis : int { kN = 0, kH = 1, kW = 2, kC = 3 };

// Which view axis holds logical axis `axis` of a tensor of this rank and layout; leading axes of a rank above 4 share N
// (row-major).
//   RowMajor: last -> C, the one before -> W, then H, then N (and all before).
//   NHWC/NC1HWC2: rank 4 (N,C,H,W) -> N,C,H,W as named; rank 3 (N,C,W) -> N,C,W.
ViewAxis AxisOf(int rank, Layout layout, int axis);

// The tensor's extents on the view's axes, N, H, W, C. A view's own fields have 32 bits: what may be larger (anything
// that no rule has looked at) is asked here.
std::array<int64_t, 4> ViewExtents(const Type &type);
// Dense view of a whole tensor at `address`; dtype's storage (i64 included). C2 for NC1HWC2 comes from the target.
isa::View ViewOfType(const Type &type, isa::Address address, const Target &target);
// Bytes that ViewOfType covers, lanes of partly filled blocks included.
int64_t StorageBytes(const Type &type, const Target &target);

// True if the view's elements lie one after the other in N, H, W, C order without gaps (an NHWC or RowMajor dense
// tensor).
bool IsDense(const isa::View &v);

// A box of a view, by start and extents.
struct Box {
  std::array<int64_t, 4> start{};
  std::array<int64_t, 4> size{};
  static Box All(const isa::View &v) { return {{0, 0, 0, 0}, {v.n, v.h, v.w, v.c}}; }
  int64_t elements() const { return size[0] * size[1] * size[2] * size[3]; }
};
isa::View Sub(const isa::View &v, const Box &b);
inline std::array<int64_t, 4> DimsOf(const isa::View &v) {
  return {v.n, v.h, v.w, v.c};
}
inline bool SameDims(const isa::View &a, const isa::View &b) {
  return DimsOf(a) == DimsOf(b);
}

} // namespace npuc::program
