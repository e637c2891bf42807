// Finds updates of a box that exporters wrote as ScatterND with constant indices: x[:, :, 2:4] = y.
//
//   ScatterND(x, the indices of a box in order, y)  ->  Concat(x before, y, x behind) along each axis that the box does
//                                                      not fill, innermost first
//
// The elements are copied, nothing is computed: any dtype. Left alone: reductions, other indices, shapes that are not
// static, quantised tensors, boxes of nothing. Cost: linear in the indices.
#include "passes/common.h"

namespace npuc {
namespace {

struct Region {
  Dims lo, hi;
};

// The box over the first axes whose indices stand in `tuples` (rank a tuple) in row-major order.
std::optional<Region> BoxOf(llvm::ArrayRef<int64_t> tuples, size_t rank, const Dims &dims) {
  if (rank == 0 || rank > dims.size() || tuples.empty() || tuples.size() % rank != 0)
    return std::nullopt;
  auto at = [&](size_t tuple, size_t axis) {
    const int64_t i = tuples[tuple * rank + axis];
    return i < 0 ? i + dims[axis] : i;
  };
  const size_t count = tuples.size() / rank;
  Region box;
  int64_t volume = 1;
  for (size_t a = 0; a < rank; ++a) {
    box.lo.push_back(at(0, a));
    box.hi.push_back(at(count - 1, a) + 1);
    if (box.lo[a] < 0 || box.hi[a] <= box.lo[a] || box.hi[a] > dims[a])
      return std::nullopt;
    volume *= box.hi[a] - box.lo[a]; // no overflow: the tensor has more elements
  }
  if (volume != static_cast<int64_t>(count))
    return std::nullopt;
  Dims next = box.lo;
  for (size_t t = 0; t < count; ++t) {
    for (size_t a = 0; a < rank; ++a)
      if (at(t, a) != next[a])
        return std::nullopt;
    for (size_t a = rank; a-- > 0;) {
      if (++next[a] < box.hi[a])
        break;
      next[a] = box.lo[a];
    }
  }
  return box;
}

class Builder {
public:
  Builder(Node &n, Region box) : n_(n), box_(std::move(box)), rw_(&n), dims_(StaticDims(n.result())) {}

  Value *Build() {
    const size_t rank = box_.lo.size();
    Dims inner = dims_;
    for (size_t a = 0; a < rank; ++a)
      inner[a] = box_.hi[a] - box_.lo[a];
    Value *v = n_.operand(2);
    if (StaticDims(v) != inner)
      v = Make("Reshape", {v, rw_.Constant(Tensor::OfI64(inner))}, inner);
    for (size_t a = rank; a-- > 0;) {
      if (inner[a] == dims_[a])
        continue;
      std::vector<Value *> parts;
      if (box_.lo[a] > 0)
        parts.push_back(Piece(a, 0, box_.lo[a]));
      parts.push_back(v);
      if (box_.hi[a] < dims_[a])
        parts.push_back(Piece(a, box_.hi[a], dims_[a]));
      inner[a] = dims_[a];
      AttributeList attrs;
      attrs.Set("axis", static_cast<int64_t>(a));
      v = Make("Concat", parts, inner, std::move(attrs));
    }
    return v;
  }

private:
  // What lies beside the box along `axis`: within it along the axes before, whole along those behind.
  Value *Piece(size_t axis, int64_t from, int64_t to) {
    Dims starts = box_.lo, ends = box_.hi, axes, dims = dims_;
    starts.resize(axis + 1);
    ends.resize(axis + 1);
    starts[axis] = from, ends[axis] = to;
    for (size_t a = 0; a <= axis; ++a) {
      axes.push_back(static_cast<int64_t>(a));
      dims[a] = ends[a] - starts[a];
    }
    return Make("Slice",
                {n_.operand(0), rw_.Constant(Tensor::OfI64(starts)), rw_.Constant(Tensor::OfI64(ends)),
                 rw_.Constant(Tensor::OfI64(axes))},
                dims);
  }
  Value *Make(std::string_view op, llvm::ArrayRef<Value *> operands, const Dims &dims, AttributeList attrs = {}) {
    return rw_
        .Create(op, operands, n_.origin(), {Type::Tensor(n_.result()->type().dtype(), Shape::Of(dims))},
                std::move(attrs))
        ->result();
  }

  Node &n_;
  Region box_;
  Rewriter rw_;
  Dims dims_;
};

bool Form(Node &n, PassContext &ctx) {
  if (!n.Is("ScatterND") || n.attrs().String("reduction", "none") != "none" || !HasStaticShape(n.operand(0)) ||
      !HasStaticShape(n.operand(1)) || !HasStaticShape(n.operand(2)) || !HasStaticShape(n.result()) ||
      n.result()->type().is_quantized() || n.operand(1)->type().shape().rank() == 0)
    return false;
  const auto tuples = MatchConstantInts(n.operand(1));
  if (!tuples)
    return false;
  auto box = BoxOf(*tuples, static_cast<size_t>(StaticDims(n.operand(1)).back()), StaticDims(n.operand(0)));
  if (!box || !ctx.MayRewrite())
    return false;
  Value *const made = Builder(n, *std::move(box)).Build();
  Rewriter(&n).ReplaceNode(&n, {made});
  ctx.Count("fuse: form-slice-update");
  return true;
}

} // namespace

StatusOr<bool> FormSliceUpdate(Module &m, PassContext &ctx) {
  return RewriteEachNode(m.main(), [&](Node &n) { return Form(n, ctx); });
}

} // namespace npuc
