// Any-rank copies on a four-dimensional DMA.
//
// Axes of extent 1 go; neighbours whose outer stride continues the inner one on both sides merge; the innermost axis
// becomes C when it is contiguous on a side (or C with one lane per block); axes beyond four are loops of commands, and
// so are the pieces of a big copy.
#include "backend/lower/strided.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/support/status.h"

namespace npuc::lower {

using isa::View;

namespace {
constexpr int64_t kPieceBytes = 32768, kMaxPieces = 8;
}

Strided StridedOf(const View &v, const Type &t) {
  NPUC_CHECK(t.layout() != Layout::NC1HWC2, "strides of a blocked tensor");
  Strided s;
  s.like = v;
  s.base = v.address;
  s.dims = t.shape().static_dims();
  const int rank = static_cast<int>(s.dims.size());
  s.strides.assign(rank, 0);
  const int64_t c_stride = v.c_block == 1 ? (v.c == 1 ? v.elem_bytes() : v.stride_c1) : v.elem_bytes();
  if (v.c_block != 1)
    s.base.offset += int64_t{v.c0} * v.elem_bytes();
  const std::array<int64_t, 4> by_axis{v.stride_n, v.stride_h, v.stride_w, c_stride};
  for (int i = rank - 1; i >= 0; --i) {
    const program::ViewAxis a = program::AxisOf(rank, t.layout(), i);
    // Leading axes of ranks above 4 share N.
    s.strides[i] = t.layout() == Layout::RowMajor && i < rank - 4 ? s.strides[i + 1] * s.dims[i + 1] : by_axis[a];
  }
  return s;
}

bool SamePlace(const Strided &a, const Strided &b) {
  if (!(a.base == b.base) || a.dims != b.dims)
    return false;
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i] > 1 && a.strides[i] != b.strides[i])
      return false;
  return true;
}

namespace {

struct CopyAxis {
  int64_t extent, s, d;
};

// Axes with extent in memory order of the side in DDR, where runs cost bursts (the destination's if both or neither lie
// there); neighbours that continue each other merged.
llvm::SmallVector<CopyAxis, 6> MergedAxes(const LowerContext &ctx, const Strided &src, const Strided &dst) {
  NPUC_CHECK(src.dims == dst.dims, "copy of {} to {}", ToString(src.dims), ToString(dst.dims));
  llvm::SmallVector<CopyAxis, 6> all, axes;
  for (size_t i = 0; i < src.dims.size(); ++i)
    if (src.dims[i] != 1)
      all.push_back({src.dims[i], src.strides[i], dst.strides[i]});
  const bool by_source = !ctx.OnChip(src.like) && ctx.OnChip(dst.like);
  std::stable_sort(all.begin(), all.end(), [&](const CopyAxis &x, const CopyAxis &y) {
    return std::abs(by_source ? x.s : x.d) > std::abs(by_source ? y.s : y.d);
  });
  const int64_t limit = ctx.target().limits.dims_max;
  for (const CopyAxis &a : all) {
    if (!axes.empty() && axes.back().s == a.s * a.extent && axes.back().d == a.d * a.extent &&
        axes.back().extent * a.extent <= limit) {
      axes.back() = {axes.back().extent * a.extent, a.s, a.d};
    } else {
      axes.push_back(a);
    }
  }
  return axes;
}

} // namespace

int64_t NumCopies(const LowerContext &ctx, const Strided &src, const Strided &dst) {
  if (SamePlace(src, dst))
    return 0;
  const auto axes = MergedAxes(ctx, src, dst);
  int64_t count = 1;
  for (size_t i = 0; i + 4 < axes.size(); ++i)
    count *= axes[i].extent;
  return count;
}

void CopyStrided(LowerContext &ctx, const Strided &src, const Strided &dst) {
  if (SamePlace(src, dst))
    return;
  using Axis = CopyAxis;
  llvm::SmallVector<Axis, 6> axes = MergedAxes(ctx, src, dst);
  const int64_t elem = src.like.elem_bytes();
  while (axes.size() < 4)
    axes.insert(axes.begin(), Axis{1, 0, 0});
  // The destination's innermost axis last, so that its rows are whole.
  const size_t outer = axes.size() - 4;
  auto view = [&](const View &like, const isa::Address &base, int64_t offset, bool is_src) {
    View v = like;
    v.address = base;
    v.address.offset += offset;
    v.c0 = 0;
    v.tail = isa::Tail::Keep;
    auto stride = [&](size_t k) { return is_src ? axes[outer + k].s : axes[outer + k].d; };
    v.n = axes[outer].extent, v.h = axes[outer + 1].extent, v.w = axes[outer + 2].extent, v.c = axes[outer + 3].extent;
    v.stride_n = stride(0), v.stride_h = stride(1), v.stride_w = stride(2);
    if (v.c == 1 || stride(3) == elem) {
      v.c_block = v.c;
      v.stride_c1 = 0;
    } else {
      v.c_block = 1;
      v.stride_c1 = stride(3);
    }
    return v;
  };
  // Big copies go in pieces of the outermost axis, so that what computes the source and what reads the result overlap
  // with them.
  size_t cut = outer;
  while (cut + 1 < axes.size() && axes[cut].extent == 1)
    ++cut;
  const int64_t bytes =
      axes[outer].extent * axes[outer + 1].extent * axes[outer + 2].extent * axes[outer + 3].extent * elem;
  const int64_t whole = axes[cut].extent;
  const int64_t pieces = std::clamp<int64_t>(bytes / kPieceBytes, 1, std::min<int64_t>(kMaxPieces, whole));
  const int64_t step = (whole + pieces - 1) / pieces;
  llvm::SmallVector<int64_t, 4> index(outer, 0);
  for (;;) {
    int64_t so = 0, d = 0;
    for (size_t k = 0; k < outer; ++k) {
      so += index[k] * axes[k].s;
      d += index[k] * axes[k].d;
    }
    for (int64_t at = 0; at < whole; at += step) {
      axes[cut].extent = std::min(step, whole - at);
      ctx.Copy(view(src.like, src.base, so + at * axes[cut].s, true),
               view(dst.like, dst.base, d + at * axes[cut].d, false));
    }
    size_t k = outer;
    while (k > 0 && ++index[k - 1] == axes[k - 1].extent)
      index[--k] = 0;
    if (k == 0)
      break;
  }
}

} // namespace npuc::lower
