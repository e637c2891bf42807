// Gather, GatherElements, GatherND, Compress: elements picked by index. Negative indices count from the end; others out
// of range are E0703.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status IndexError(int64_t index, int64_t extent) {
  return Error("E0703", fmt::format("index {} is out of range of an axis of extent {}", index, extent));
}

// Indices wrapped into [0, extent).
StatusOr<std::vector<int64_t>> Wrapped(const Tensor &t, int64_t extent) {
  std::vector<int64_t> v(t.num_elements());
  for (size_t i = 0; i < v.size(); ++i) {
    const int64_t index = t.AsInt(static_cast<int64_t>(i));
    v[i] = index < 0 ? index + extent : index;
    if (v[i] < 0 || v[i] >= extent)
      return IndexError(index, extent);
  }
  return v;
}

Status InferGather(InferContext &ctx) {
  const Shape data = ShapeOf(ctx, 0), index = ShapeOf(ctx, 1);
  Shape out = Shape::Unranked();
  if (data.ranked()) {
    if (data.rank() == 0)
      return ShapeError("Gather from a scalar");
    NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), data.rank()));
    if (index.ranked()) {
      out = Shape();
      for (int i = 0; i < axis; ++i)
        out.push_back(data[i]);
      for (const Dim &d : index.dims())
        out.push_back(d);
      for (int i = axis + 1; i < data.rank(); ++i)
        out.push_back(data[i]);
    }
    if (const Tensor *t = ctx.constant(1);
        t && data[axis].is_static() && IsInt(t->dtype()) && t->num_elements() <= 4096) {
      const int64_t extent = data[axis].value();
      for (int64_t i = 0; i < (t->is_splat() ? std::min<int64_t>(t->num_elements(), 1) : t->num_elements()); ++i)
        if (const int64_t v = t->AsInt(i); v < -extent || v >= extent)
          return ShapeError(fmt::format("index {} is out of range of axis {} of {}", v, axis, data.ToString()));
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateGather(EvalContext &ctx) {
  const Tensor &data = ctx.operand(0), &index = ctx.operand(1);
  if (data.rank() == 0)
    return ShapeError("Gather from a scalar");
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), data.rank()));
  const AxisSplit split(data.dims(), axis);
  NPUC_ASSIGN_OR_RETURN(auto at, Wrapped(index, split.n));
  Dims dims(data.dims().take_front(axis));
  dims.append(index.dims().begin(), index.dims().end());
  dims.append(data.dims().begin() + axis + 1, data.dims().end());
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(data.dtype(), dims));
  int64_t to = 0;
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i : at) {
      out.Copy(to, data, (o * split.n + i) * split.inner, split.inner);
      to += split.inner;
    }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status InferGatherElements(InferContext &ctx) {
  const Shape data = ShapeOf(ctx, 0), index = ShapeOf(ctx, 1);
  if (data.ranked() && index.ranked() && data.rank() != index.rank())
    return ShapeError(fmt::format("data {} and indices {} differ in rank", data.ToString(), index.ToString()));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), index);
  return OkStatus();
}
Status EvaluateGatherElements(EvalContext &ctx) {
  const Tensor &data = ctx.operand(0), &index = ctx.operand(1);
  if (data.rank() != index.rank() || data.rank() == 0)
    return ShapeError(fmt::format("data {} and indices {}", ToString(data.dims()), ToString(index.dims())));
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), data.rank()));
  for (int k = 0; k < data.rank(); ++k)
    if (k != axis && index.dims()[k] > data.dims()[k])
      return ShapeError(fmt::format("indices {} reach beyond data {}", ToString(index.dims()), ToString(data.dims())));
  NPUC_ASSIGN_OR_RETURN(auto at, Wrapped(index, data.dims()[axis]));
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(data.dtype(), index.dims()));
  const Dims strides = RowMajorStrides(data.dims());
  llvm::SmallVector<int64_t, 6> i(data.rank(), 0);
  for (size_t n = 0; n < at.size(); ++n) {
    int64_t from = 0;
    for (int k = 0; k < data.rank(); ++k)
      from += (k == axis ? at[n] : i[k]) * strides[k];
    out.Copy(static_cast<int64_t>(n), data, from);
    NextIndex(i, index.dims());
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status InferGatherND(InferContext &ctx) {
  const Shape data = ShapeOf(ctx, 0), index = ShapeOf(ctx, 1);
  const int64_t batch = ctx.attrs().Int("batch_dims", 0);
  Shape out = Shape::Unranked();
  if (data.ranked() && index.ranked()) {
    if (index.rank() == 0 || batch < 0 || batch >= index.rank() || batch >= data.rank())
      return ShapeError(fmt::format("data {}, indices {}, batch_dims {}", data.ToString(), index.ToString(), batch));
    const Dim last = index[index.rank() - 1];
    if (last.is_static()) {
      if (last.value() < 1 || batch + last.value() > data.rank())
        return ShapeError(fmt::format("indices of {} coordinates into {} behind {} batch dims", last.value(),
                                      data.ToString(), batch));
      out = Shape(index.dims().drop_back());
      for (int i = static_cast<int>(batch + last.value()); i < data.rank(); ++i)
        out.push_back(data[i]);
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateGatherND(EvalContext &ctx) {
  const Tensor &data = ctx.operand(0), &index = ctx.operand(1);
  const int64_t batch = ctx.attrs().Int("batch_dims", 0);
  if (index.rank() == 0 || batch < 0 || batch >= index.rank() || batch >= data.rank())
    return ShapeError(
        fmt::format("data {}, indices {}, batch_dims {}", ToString(data.dims()), ToString(index.dims()), batch));
  const int64_t depth = index.dims().back();
  if (depth < 1 || batch + depth > data.rank())
    return ShapeError(fmt::format("indices {} into data {}", ToString(index.dims()), ToString(data.dims())));
  for (int64_t i = 0; i < batch; ++i)
    if (index.dims()[i] != data.dims()[i])
      return ShapeError(
          fmt::format("batch dims of data {} and indices {}", ToString(data.dims()), ToString(index.dims())));
  Dims dims(index.dims().drop_back());
  dims.append(data.dims().begin() + batch + depth, data.dims().end());
  const int64_t slice = NumElements(data.dims().drop_front(batch + depth));
  const int64_t batches = NumElements(data.dims().take_front(batch)),
                per_batch = NumElements(index.dims().drop_front(batch)) / depth;
  const int64_t data_batch = NumElements(data.dims().drop_front(batch));
  const Dims strides = RowMajorStrides(data.dims());
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(data.dtype(), dims));
  for (int64_t b = 0, n = 0; b < batches; ++b)
    for (int64_t i = 0; i < per_batch; ++i, ++n) {
      int64_t from = b * data_batch;
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t extent = data.dims()[batch + k], given = index.AsInt(n * depth + k),
                      v = given < 0 ? given + extent : given;
        if (v < 0 || v >= extent)
          return IndexError(given, extent);
        from += v * strides[batch + k];
      }
      out.Copy(n * slice, data, from, slice);
    }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status InferCompress(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (!ctx.attrs().Has("axis")) {
    s = Shape::UnknownDims(1);
  } else if (s.ranked()) {
    NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), s.rank()));
    s[axis] = Dim::Unknown();
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), s);
  return OkStatus();
}
Status EvaluateCompress(EvalContext &ctx) {
  const Tensor &condition = ctx.operand(1);
  Tensor x = ctx.operand(0);
  int axis = 0;
  if (ctx.attrs().Has("axis")) {
    NPUC_ASSIGN_OR_RETURN(axis, NormalizeAxis(ctx.attrs().Int("axis", 0), x.rank()));
  } else {
    x = x.Reshaped({x.num_elements()});
  }
  const AxisSplit split(x.dims(), axis);
  std::vector<int64_t> keep;
  for (int64_t i = 0; i < condition.num_elements(); ++i)
    if (condition.AsInt(i))
      keep.push_back(i);
  if (!keep.empty() && keep.back() >= split.n)
    return IndexError(keep.back(), split.n);
  Dims dims(x.dims());
  dims[axis] = static_cast<int64_t>(keep.size());
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), dims));
  int64_t to = 0;
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i : keep) {
      out.Copy(to, x, (o * split.n + i) * split.inner, split.inner);
      to += split.inner;
    }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

constexpr uint32_t kMoves = kPure | kCopiesElements | kNoFloatWiden;

} // namespace

OpDef GatherDef() {
  return {.domain = "",
          .name = "Gather",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("axis")},
          .traits = kMoves,
          .infer = InferGather,
          .evaluate = EvaluateGather,
          .doc = "Slices of an axis by index."};
}

OpDef GatherElementsDef() {
  return {.domain = "",
          .name = "GatherElements",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("axis")},
          .traits = kMoves,
          .infer = InferGatherElements,
          .evaluate = EvaluateGatherElements,
          .doc = "Elements of an axis by an index of their own each."};
}

OpDef GatherNDDef() {
  return {.domain = "",
          .name = "GatherND",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("batch_dims")},
          .traits = kMoves,
          .infer = InferGatherND,
          .evaluate = EvaluateGatherND,
          .doc = "Slices by coordinates."};
}

OpDef CompressDef() {
  return {.domain = "",
          .name = "Compress",
          .since_version = 11,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("axis")},
          .traits = kMoves,
          .infer = InferCompress,
          .evaluate = EvaluateCompress,
          .doc = "The slices of an axis (or elements) whose condition holds."};
}

} // namespace npuc::ops
