// Merging of axes into view dims. Sizes are tiny (ranks); everything is linear in the rank but the pieces.
#include "backend/lower/axes.h"

#include <algorithm>

#include "compiler/support/status.h"
#include "compiler/types/tensor.h"

namespace npuc::lower {

using isa::View;
using program::Box;

std::vector<AxisPiece> PiecesOverAxes(llvm::ArrayRef<Strided> tensors, const std::vector<bool> &chosen,
                                      const Target &target, int64_t max_pieces) {
  struct Axis {
    int64_t extent;
    bool chosen;
    llvm::SmallVector<int64_t, 4> strides; // per tensor
  };
  std::vector<Axis> axes;
  const Strided &first = tensors[0];
  for (size_t i = 0; i < first.dims.size(); ++i) {
    if (first.dims[i] == 1)
      continue;
    Axis a{first.dims[i], chosen[i], {}};
    for (const Strided &t : tensors)
      a.strides.push_back(t.strides[i]);
    axes.push_back(std::move(a));
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis &a, const Axis &b) { return std::abs(a.strides[0]) > std::abs(b.strides[0]); });
  std::vector<Axis> merged;
  for (Axis &a : axes) {
    bool continues = !merged.empty() && merged.back().chosen == a.chosen &&
                     merged.back().extent * a.extent <= target.limits.dims_max;
    for (size_t k = 0; continues && k < tensors.size(); ++k)
      continues = merged.back().strides[k] == a.strides[k] * a.extent;
    if (continues) {
      a.extent *= merged.back().extent;
      merged.back() = std::move(a);
    } else {
      merged.push_back(std::move(a));
    }
  }
  std::vector<Axis> loops;
  int64_t count = 1;
  while (merged.size() > 4) {
    auto it = std::find_if(merged.begin(), merged.end(), [](const Axis &a) { return !a.chosen; });
    if (it == merged.end())
      return {};
    count *= it->extent;
    loops.push_back(std::move(*it));
    merged.erase(it);
  }
  if (count > max_pieces)
    return {};
  while (merged.size() < 4)
    merged.insert(merged.begin(), Axis{1, false, llvm::SmallVector<int64_t, 4>(tensors.size(), 0)});

  AxisPiece base;
  for (int a = 0; a < 4; ++a)
    if (merged[a].chosen)
      base.axes |= static_cast<uint8_t>(1 << a);
  std::vector<AxisPiece> pieces;
  for (int64_t i = 0; i < count; ++i) {
    AxisPiece p = base;
    for (size_t k = 0; k < tensors.size(); ++k) {
      View v = tensors[k].like;
      v.address = tensors[k].base;
      int64_t rest = i;
      for (size_t l = loops.size(); l-- > 0;) {
        v.address.offset += rest % loops[l].extent * loops[l].strides[k];
        rest /= loops[l].extent;
      }
      v.c0 = 0;
      v.tail = isa::Tail::Keep;
      v.n = merged[0].extent, v.h = merged[1].extent, v.w = merged[2].extent, v.c = merged[3].extent;
      v.stride_n = merged[0].strides[k], v.stride_h = merged[1].strides[k], v.stride_w = merged[2].strides[k];
      const int64_t sc = merged[3].strides[k];
      const bool lanes = v.c == 1 || sc == v.elem_bytes();
      v.c_block = lanes ? v.c : 1;
      v.stride_c1 = lanes ? 0 : sc;
      p.views.push_back(v);
    }
    pieces.push_back(std::move(p));
  }
  return pieces;
}

View WithoutAxes(View v, uint8_t axes) {
  if (axes & isa::kAxisN)
    v.n = 1;
  if (axes & isa::kAxisH)
    v.h = 1;
  if (axes & isa::kAxisW)
    v.w = 1;
  if (axes & isa::kAxisC) {
    v.c = 1;
    v.c_block = 1;
    v.stride_c1 = 0;
  }
  return v;
}

View SpreadOver(View v, const View &like, uint8_t axes) {
  v.n = like.n, v.h = like.h, v.w = like.w;
  if (axes & isa::kAxisN)
    v.stride_n = 0;
  if (axes & isa::kAxisH)
    v.stride_h = 0;
  if (axes & isa::kAxisW)
    v.stride_w = 0;
  if (axes & isa::kAxisC) {
    v.c = like.c;
    v.c_block = 1;
    v.stride_c1 = 0;
  }
  return v;
}

std::optional<Strided> BroadcastTo(const Strided &t, llvm::ArrayRef<int64_t> dims) {
  if (t.dims.size() > dims.size())
    return std::nullopt;
  Strided r = t;
  r.dims.assign(dims.begin(), dims.end());
  r.strides.assign(dims.size(), 0);
  const size_t lead = dims.size() - t.dims.size();
  for (size_t i = 0; i < t.dims.size(); ++i) {
    if (t.dims[i] != 1 && t.dims[i] != dims[lead + i])
      return std::nullopt;
    r.strides[lead + i] = t.dims[i] == 1 ? 0 : t.strides[i];
  }
  return r;
}

Box Whole(const Box &b, const View &v, uint8_t axes) {
  Box r = b;
  const auto dims = program::DimsOf(v);
  for (int a = 0; a < 4; ++a)
    if (axes >> a & 1) {
      r.start[a] = 0;
      r.size[a] = dims[a];
    }
  return r;
}

Strided FloatConstant(LowerContext &ctx, const Value *v) {
  v = ctx.Resolve(v);
  const Type &t = v->type();
  if (!t.is_quantized() && (t.dtype() == DType::F32 || t.dtype() == DType::F16))
    return StridedOf(ctx.ConstView(v), t);
  NPUC_CHECK(t.is_quantized(), "constant '{}' of {}", v->name(), t.ToString());
  const Tensor tensor = *v->constant();
  const int64_t n = tensor.num_elements();
  // Elements per slice of the quantised axis, and slices.
  const QuantRef q = t.quant();
  int64_t inner = n, slices = 1;
  if (!q->per_tensor()) {
    slices = tensor.dims()[q->axis];
    inner = NumElements(tensor.dims().drop_front(q->axis + 1));
  }
  const program::BufferId buffer = ctx.AddConst(n * 4, v->name() + "/f32", [tensor, q, n, inner, slices](uint8_t *dst) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t s = q->per_tensor() ? 0 : i / inner % slices;
      const float f = static_cast<float>(tensor.AsInt(i) - q->zero_point(s)) * q->scale(s);
      std::memcpy(dst + i * 4, &f, 4);
    }
  });
  const Type f32 = Type::Tensor(DType::F32, t.shape());
  return StridedOf(program::ViewOfType(f32, {isa::Region::Buffer, buffer, 0}, ctx.target()), f32);
}

int64_t BlockBudget(const LowerContext &ctx, int64_t least) {
  return least <= ctx.budget() / 2 ? ctx.budget() / 2 : ctx.budget();
}

int64_t MaxWorkingBytes(const Target &t) {
  return t.sram.bytes / 2;
}

} // namespace npuc::lower
