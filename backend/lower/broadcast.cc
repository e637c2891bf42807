#include "backend/lower/broadcast.h"

#include "compiler/support/status.h"

namespace npuc::lower {

using isa::View;
using program::AxisOf;
using program::Box;

namespace {

// Byte stride of one step along a view axis; for C only when the step is uniform.
std::optional<int64_t> StrideOf(const View &v, program::ViewAxis axis) {
  switch (axis) {
  case program::kN:
    return v.stride_n;
  case program::kH:
    return v.stride_h;
  case program::kW:
    return v.stride_w;
  case program::kC:
    break;
  }
  if (v.c_block == 1)
    return v.stride_c1;
  if (v.c0 + v.c <= v.c_block)
    return v.elem_bytes();
  return std::nullopt;
}

bool IsBroadcast(const View &v, int axis) {
  const auto dims = program::DimsOf(v);
  if (dims[axis] == 1)
    return false;
  switch (axis) {
  case program::kN:
    return v.stride_n == 0;
  case program::kH:
    return v.stride_h == 0;
  case program::kW:
    return v.stride_w == 0;
  default:
    return v.c_block == 1 && v.stride_c1 == 0;
  }
}

} // namespace

std::optional<View> BroadcastView(const View &view, const Type &operand, const Type &out) {
  const Dims in_dims = operand.shape().static_dims(), out_dims = out.shape().static_dims();
  if (operand.layout() == out.layout() && in_dims == out_dims)
    return view; // blocked layouts too
  const int rank = static_cast<int>(out_dims.size()), in_rank = static_cast<int>(in_dims.size());
  std::array<int64_t, 4> dims{1, 1, 1, 1}, strides{0, 0, 0, 0};
  for (int i = rank - 1; i >= 0; --i) {
    const program::ViewAxis to = AxisOf(rank, out.layout(), i);
    const int k = i - (rank - in_rank);
    const int64_t extent = out_dims[i];
    if (extent == 1)
      continue;
    int64_t stride = 0;
    if (k >= 0 && in_dims[k] != 1) {
      const std::optional<int64_t> s = StrideOf(view, AxisOf(in_rank, operand.layout(), k));
      if (!s)
        return std::nullopt;
      stride = *s;
      // Leading axes of a rank above 4 share N, each a multiple of the last one's stride.
      if (operand.layout() == Layout::RowMajor)
        for (int j = k + 1; j <= in_rank - 4; ++j)
          stride *= in_dims[j];
    }
    if (dims[to] == 1) {
      dims[to] = extent;
      strides[to] = stride;
    } else {
      if (stride != strides[to] * dims[to])
        return std::nullopt;
      dims[to] *= extent;
    }
  }
  View v = view;
  v.n = dims[0];
  v.h = dims[1];
  v.w = dims[2];
  v.c = dims[3];
  v.stride_n = strides[0];
  v.stride_h = strides[1];
  v.stride_w = strides[2];
  if (dims[3] == 1 || strides[3] == v.elem_bytes()) {
    // Lanes stay where they are: c0 and c_block of the source hold if it is not blocked apart.
    if (view.c_block == 1) {
      v.c_block = v.c;
      v.c0 = 0;
    } else if (view.c0 + v.c > view.c_block) {
      return std::nullopt;
    }
    v.stride_c1 = 0;
  } else {
    if (view.c0 != 0)
      v.address.offset += int64_t{view.c0} * v.elem_bytes();
    v.c_block = 1;
    v.c0 = 0;
    v.stride_c1 = strides[3];
  }
  return v;
}

View FetchBroadcast(LowerContext &ctx, const View &full, const Box &box, const std::string &name) {
  if (ctx.OnChip(full))
    return program::Sub(full, box);
  Box unique = box;
  for (int a = 0; a < 4; ++a)
    if (IsBroadcast(full, a)) {
      unique.start[a] = 0;
      unique.size[a] = 1;
    }
  View t = ctx.Fetch(full, unique, name);
  t.n = box.size[0];
  t.h = box.size[1];
  t.w = box.size[2];
  t.c = box.size[3];
  if (unique.size[0] != box.size[0])
    t.stride_n = 0;
  if (unique.size[1] != box.size[1])
    t.stride_h = 0;
  if (unique.size[2] != box.size[2])
    t.stride_w = 0;
  if (unique.size[3] != box.size[3]) {
    t.c_block = 1;
    t.stride_c1 = 0;
  }
  return t;
}

int64_t FetchBytes(const LowerContext &ctx, const View &full, const Box &box) {
  if (ctx.OnChip(full))
    return 0;
  int64_t n = full.elem_bytes();
  for (int a = 0; a < 4; ++a)
    n *= IsBroadcast(full, a) ? 1 : box.size[a];
  return n;
}

} // namespace npuc::lower
