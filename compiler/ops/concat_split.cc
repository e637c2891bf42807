// Concat, Split: along one axis.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status InferConcat(InferContext &ctx) {
  Shape out = Shape::Unranked();
  DType dtype = DType::Undefined;
  int axis = 0;
  bool complete = true;
  Dim sum(0);
  for (int i = 0; i < ctx.num_operands(); ++i) {
    if (!ctx.has_operand(i))
      return AttrError(fmt::format("operand {} is absent", i));
    if (dtype == DType::Undefined)
      dtype = DTypeOfOperand(ctx, i);
    const Shape s = ShapeOf(ctx, i);
    if (!s.ranked()) {
      complete = false;
      continue;
    }
    NPUC_ASSIGN_OR_RETURN(axis, NormalizeAxis(ctx.attrs().Int("axis", 0), s.rank()));
    if (!out.ranked()) {
      out = s;
    } else if (out.rank() != s.rank()) {
      return ShapeError(fmt::format("operands of rank {} and {}", out.rank(), s.rank()));
    } else {
      for (int k = 0; k < s.rank(); ++k) {
        if (k == axis)
          continue;
        NPUC_ASSIGN_OR_RETURN(out[k], MergeDim(out[k], s[k], fmt::format("dim {} of operand {}", k, i)));
      }
    }
    sum = sum.is_static() && s[axis].is_static()        ? Dim(sum.value() + s[axis].value())
          : sum.is_static() && sum.value() == 0         ? s[axis]
          : s[axis].is_static() && s[axis].value() == 0 ? sum
                                                        : Dim::Unknown();
  }
  llvm::SmallVector<int, 8> all;
  for (int i = 0; i < ctx.num_operands(); ++i)
    all.push_back(i);
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, all));
  if (out.ranked())
    out[axis] = complete ? sum : Dim::Unknown();
  SetTensor(ctx, 0, dtype, out);
  return OkStatus();
}

Status EvaluateConcat(EvalContext &ctx) {
  const Tensor &first = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), first.rank()));
  Dims dims(first.dims());
  dims[axis] = 0;
  for (int i = 0; i < ctx.num_operands(); ++i) {
    const Tensor &t = ctx.operand(i);
    bool fits = t.rank() == first.rank() && t.dtype() == first.dtype();
    for (int k = 0; fits && k < t.rank(); ++k)
      fits = k == axis || t.dims()[k] == dims[k];
    if (!fits)
      return ShapeError(fmt::format("{}{} cannot be joined to {}{} along axis {}", Name(t.dtype()), ToString(t.dims()),
                                    Name(first.dtype()), ToString(first.dims()), axis));
    dims[axis] += t.dims()[axis];
  }
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(first.dtype(), dims));
  const AxisSplit split(dims, axis);
  int64_t offset = 0;
  for (int i = 0; i < ctx.num_operands(); ++i) {
    const Tensor &t = ctx.operand(i);
    const int64_t run = t.dims()[axis] * split.inner;
    for (int64_t o = 0; o < split.outer; ++o)
      out.Copy(o * split.n * split.inner + offset, t, o * run, run);
    offset += run;
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

// Sizes of the parts; -1 where unknown.
StatusOr<std::vector<int64_t>> Parts(const std::optional<llvm::SmallVector<int64_t, 4>> &given, bool has_operand,
                                     int64_t extent, int parts) {
  std::vector<int64_t> sizes(parts, -1);
  if (has_operand) {
    if (!given)
      return sizes;
    if (static_cast<int>(given->size()) != parts)
      return ShapeError(fmt::format("{} sizes for {} outputs", given->size(), parts));
    int64_t sum = 0;
    for (int i = 0; i < parts; ++i) {
      sizes[i] = (*given)[i];
      if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
        return ShapeError(fmt::format("sizes are {}", ToString(*given)));
    }
    if (extent >= 0 && sum != extent)
      return ShapeError(fmt::format("sizes {} do not add up to the extent {}", ToString(*given), extent));
    return sizes;
  }
  if (extent < 0)
    return sizes;
  // Equal parts, the last one smaller if need be.
  const int64_t each = (extent + parts - 1) / parts;
  int64_t left = extent;
  for (int i = 0; i < parts; ++i) {
    sizes[i] = std::min(each, left);
    left -= sizes[i];
  }
  return sizes;
}

Status VerifySplit(const Node &n) {
  const int64_t count = n.attrs().Int("num_outputs", static_cast<int64_t>(n.num_results()));
  if (count != static_cast<int64_t>(n.num_results()))
    return AttrError(fmt::format("num_outputs is {}, the node has {}", count, n.num_results()));
  return OkStatus();
}
Status InferSplit(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  const int parts = ctx.num_results();
  if (!in.ranked()) {
    for (int i = 0; i < parts; ++i)
      SetTensor(ctx, i, DTypeOfOperand(ctx, 0), in);
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), in.rank()));
  NPUC_ASSIGN_OR_RETURN(
      auto sizes, Parts(KnownInts(ctx, 1), ctx.has_operand(1), in[axis].is_static() ? in[axis].value() : -1, parts));
  for (int i = 0; i < parts; ++i) {
    Shape s = in;
    s[axis] = sizes[i] < 0 ? Dim::Unknown() : Dim(sizes[i]);
    SetTensor(ctx, i, DTypeOfOperand(ctx, 0), s);
  }
  return OkStatus();
}
Status EvaluateSplit(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), x.rank()));
  std::optional<llvm::SmallVector<int64_t, 4>> given;
  if (ctx.has_operand(1))
    given = AsInts(ctx.operand(1));
  NPUC_ASSIGN_OR_RETURN(auto sizes, Parts(given, ctx.has_operand(1), x.dims()[axis], ctx.num_results()));
  const Dims strides = RowMajorStrides(x.dims());
  int64_t offset = 0;
  for (int i = 0; i < ctx.num_results(); ++i) {
    Dims dims(x.dims());
    dims[axis] = sizes[i];
    NPUC_ASSIGN_OR_RETURN(Tensor y, Materialize(x, dims, strides, offset * strides[axis]));
    ctx.set_result(i, std::move(y));
    offset += sizes[i];
  }
  return OkStatus();
}

} // namespace

OpDef ConcatDef() {
  return {.domain = "",
          .name = "Concat",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = -1,
          .attrs = {IntAttr("axis", true)},
          .traits = kPure | kCopiesElements | kNoFloatWiden,
          .infer = InferConcat,
          .evaluate = EvaluateConcat,
          .doc = "Tensors joined along an axis."};
}

OpDef SplitDef() {
  return {.domain = "",
          .name = "Split",
          .since_version = 18,
          .min_operands = 1,
          .max_operands = 2,
          .max_results = -1,
          .attrs = {IntAttr("axis"), IntAttr("num_outputs")},
          .traits = kPure | kCopiesElements | kNoFloatWiden,
          .verify = VerifySplit,
          .infer = InferSplit,
          .evaluate = EvaluateSplit,
          .doc = "Parts along an axis, of the given sizes or equal ones."};
}

} // namespace npuc::ops
