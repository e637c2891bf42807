#include "compiler/program/views.h"

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

isa::View ViewOfType(const Type &type, isa::Address address, const Target &target) {
  const Dims dims = type.shape().static_dims();
  const int rank = static_cast<int>(dims.size());
  std::array<int64_t, 4> d{1, 1, 1, 1};
  for (int i = 0; i < rank; ++i)
    d[AxisOf(rank, type.layout(), i)] *= dims[i];
  isa::View v = type.layout() == Layout::NC1HWC2
                    ? isa::BlockedView(address, type.dtype(), d[kN], d[kH], d[kW], d[kC], target.C2(type.dtype()))
                    : isa::NhwcView(address, type.dtype(), d[kN], d[kH], d[kW], d[kC]);
  if (type.is_quantized() && type.quant()->per_tensor())
    v.zero = type.quant()->zero_point();
  return v;
}

int64_t StorageBytes(const Type &type, const Target &target) {
  const isa::View v = ViewOfType(type, {}, target);
  const int64_t blocks = (v.c + v.c_block - 1) / v.c_block;
  return int64_t{v.n} * v.h * v.w * blocks * v.c_block * v.elem_bytes();
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
