#include "compiler/program/views.h"

#include "llvm/Support/MathExtras.h"

#include "compiler/support/status.h"

namespace npuc::program {

ViewAxis AxisOf(int rank, Layout layout, int axis) {
  if (layout == Layout::RowMajor)
    return static_cast<ViewAxis>(std::max(0, 4 - rank + axis));
  NPUC_CHECK(rank == 3 || rank == 4, "layout {} of rank {}", Name(layout), rank);
  if (axis == 0)
    return kN;
  if (axis == 1)
    return kC;
  return rank == 3 || axis == 3 ? kW : kH;
}

std::array<int64_t, 4> ViewExtents(const Type &type) {
  const Dims dims = type.shape().static_dims();
  const int rank = static_cast<int>(dims.size());
  std::array<int64_t, 4> d{1, 1, 1, 1};
  for (int i = 0; i < rank; ++i)
    d[AxisOf(rank, type.layout(), i)] *= dims[i];
  return d;
}

isa::View ViewOfType(const Type &type, isa::Address address, const Target &target) {
  const std::array<int64_t, 4> d = ViewExtents(type);
  for (int64_t e : d)
    NPUC_CHECK(e <= UINT32_MAX, "a view of {}", type.ToString());
  isa::View v = type.layout() == Layout::NC1HWC2
                    ? isa::BlockedView(address, type.dtype(), d[kN], d[kH], d[kW], d[kC], target.C2(type.dtype()))
                    : isa::NhwcView(address, type.dtype(), d[kN], d[kH], d[kW], d[kC]);
  if (type.is_quantized() && type.quant()->per_tensor())
    v.zero = type.quant()->zero_point();
  return v;
}

int64_t StorageBytes(const Type &type, const Target &target) {
  std::array<int64_t, 4> d = ViewExtents(type);
  if (type.layout() == Layout::NC1HWC2)
    d[kC] = llvm::alignTo(d[kC], target.C2(type.dtype()));
  return d[kN] * d[kH] * d[kW] * d[kC] * ByteSize(type.dtype());
}

bool IsDense(const isa::View &v) {
  if (v.c_block < v.c || v.c0 + v.c > v.c_block)
    return false;
  int64_t run = int64_t{v.c} * v.elem_bytes();
  if (v.w > 1 && v.stride_w != run)
    return false;
  run *= v.w;
  if (v.h > 1 && v.stride_h != run)
    return false;
  run *= v.h;
  return v.n <= 1 || v.stride_n == run;
}

isa::View Sub(const isa::View &v, const Box &b) {
  return v.Sub(b.start[0], b.start[1], b.start[2], b.start[3], b.size[0], b.size[1], b.size[2], b.size[3]);
}

} // namespace npuc::program
