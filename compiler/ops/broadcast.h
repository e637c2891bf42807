// numpy broadcasting over static tensors: strides with 0 on broadcast axes, adjacent axes coalesced, contiguous inner
// loops.
#pragma once

#include <array>

#include "compiler/ops/op_helpers.h"

namespace npuc::ops {

// Element strides of N operands for an iteration over `out`, neighbouring axes merged where all operands allow it. The
// last axis is the inner loop; every inner stride is 0 or 1 for row-major operands.
template <int N> struct BroadcastPlan {
  llvm::SmallVector<int64_t, 4> dims;
  std::array<llvm::SmallVector<int64_t, 4>, N> strides;

  BroadcastPlan(llvm::ArrayRef<int64_t> out, const std::array<llvm::ArrayRef<int64_t>, N> &operands) {
    const int rank = static_cast<int>(out.size());
    for (int axis = 0; axis < rank; ++axis) {
      if (out[axis] == 1)
        continue;
      std::array<int64_t, N> s;
      for (int k = 0; k < N; ++k) {
        const int a = axis - rank + static_cast<int>(operands[k].size());
        int64_t stride = 1;
        for (size_t j = a + 1; a >= 0 && j < operands[k].size(); ++j)
          stride *= operands[k][j];
        s[k] = a < 0 || operands[k][a] == 1 ? 0 : stride;
      }
      bool merge = !dims.empty();
      for (int k = 0; k < N && merge; ++k)
        merge = strides[k].back() == s[k] * out[axis];
      if (merge) {
        dims.back() *= out[axis];
        for (int k = 0; k < N; ++k)
          strides[k].back() = s[k];
      } else {
        dims.push_back(out[axis]);
        for (int k = 0; k < N; ++k)
          strides[k].push_back(s[k]);
      }
    }
    if (dims.empty()) {
      dims.push_back(1);
      for (int k = 0; k < N; ++k)
        strides[k].push_back(0);
    }
  }

  int64_t rows() const {
    int64_t n = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      n *= dims[i];
    return n;
  }

  // row(out offset, operand offsets) for every inner row, in order.
  template <class F> void ForEachRow(F &&row) const {
    const int outer = static_cast<int>(dims.size()) - 1;
    const int64_t n = rows(), inner = dims.back();
    llvm::SmallVector<int64_t, 4> index(outer, 0);
    std::array<int64_t, N> at{};
    for (int64_t r = 0; inner > 0 && r < n; ++r) {
      row(r * inner, at);
      for (int d = outer - 1; d >= 0; --d) {
        for (int k = 0; k < N; ++k)
          at[k] += strides[k][d];
        if (++index[d] < dims[d])
          break;
        for (int k = 0; k < N; ++k)
          at[k] -= strides[k][d] * dims[d];
        index[d] = 0;
      }
    }
  }
};

// out[i] = f(a[i], b[i]) with broadcasting. A, B: C++ element types of the operands, R: of the result (`dtype` names
// it).
template <class A, class B, class R, class F>
StatusOr<Tensor> BinaryMap(const Tensor &a, const Tensor &b, DType dtype, F &&f) {
  NPUC_ASSIGN_OR_RETURN(const Dims dims, BroadcastDims(a.dims(), b.dims()));
  Tensor out = Tensor::Allocate(dtype, dims);
  if (out.num_elements() == 0)
    return out;
  R *const o = out.template mutable_data<R>();
  const A *const pa = a.template data<A>();
  const B *const pb = b.template data<B>();
  const BroadcastPlan<2> plan(
      dims, {a.is_splat() ? llvm::ArrayRef<int64_t>() : a.dims(), b.is_splat() ? llvm::ArrayRef<int64_t>() : b.dims()});
  const int64_t n = plan.dims.back(), sa = plan.strides[0].back(), sb = plan.strides[1].back();
  plan.ForEachRow([&](int64_t at, const std::array<int64_t, 2> &from) {
    R *const ro = o + at;
    const A *const ra = pa + from[0];
    const B *const rb = pb + from[1];
    if (sa == 1 && sb == 1) {
      for (int64_t i = 0; i < n; ++i)
        ro[i] = f(ra[i], rb[i]);
    } else if (sa == 1 && sb == 0) {
      const B y = rb[0];
      for (int64_t i = 0; i < n; ++i)
        ro[i] = f(ra[i], y);
    } else if (sa == 0 && sb == 1) {
      const A x = ra[0];
      for (int64_t i = 0; i < n; ++i)
        ro[i] = f(x, rb[i]);
    } else {
      for (int64_t i = 0; i < n; ++i)
        ro[i] = f(ra[i * sa], rb[i * sb]);
    }
  });
  return out;
}

// out[i] = f(a[i])
template <class A, class R, class F> Tensor UnaryMap(const Tensor &a, DType dtype, F &&f) {
  Tensor out = Tensor::Allocate(dtype, a.dims());
  R *const o = out.template mutable_data<R>();
  const A *const p = a.template data<A>();
  const int64_t n = out.num_elements();
  if (a.is_splat()) {
    for (int64_t i = 0; i < n; ++i)
      o[i] = f(p[0]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      o[i] = f(p[i]);
  }
  return out;
}

} // namespace npuc::ops
