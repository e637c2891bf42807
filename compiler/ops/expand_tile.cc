// Expand, Tile: repetition.
#include "compiler/ops/broadcast.h"
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status InferExpand(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  auto dims = ctx.dims(1);
  Shape out = Shape::Unranked();
  if (in.ranked() && dims) {
    for (const Dim &d : *dims)
      if (d.is_static() && d.value() < 0)
        return ShapeError(fmt::format("the wanted shape is {}", Shape(*dims).ToString()));
    auto both = BroadcastShapes(in, Shape(*dims));
    if (!both)
      return ShapeError(fmt::format("{} does not broadcast to {}", in.ToString(), Shape(*dims).ToString()));
    out = *both;
  } else if (auto rank = KnownLength(ctx, 1); rank && in.ranked()) {
    out = Shape::UnknownDims(std::max(in.rank(), static_cast<int>(*rank)));
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateExpand(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const auto target = AsInts(ctx.operand(1));
  for (int64_t d : target)
    if (d < 0)
      return ShapeError(fmt::format("the wanted shape is {}", ToString(target)));
  NPUC_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(x.dims(), target));
  const Dims own = RowMajorStrides(x.dims());
  Dims strides(dims.size(), 0);
  const size_t shift = dims.size() - x.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (x.dims()[i] != 1)
      strides[shift + i] = own[i];
  NPUC_ASSIGN_OR_RETURN(Tensor y, Materialize(x, dims, strides));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status InferTile(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  if (!in.ranked()) {
    SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), in);
    return OkStatus();
  }
  Shape out = Shape::UnknownDims(in.rank());
  if (auto repeats = ctx.dims(1)) {
    if (static_cast<int>(repeats->size()) != in.rank())
      return ShapeError(fmt::format("{} repeats for {}", repeats->size(), in.ToString()));
    for (int i = 0; i < in.rank(); ++i) {
      const Dim r = (*repeats)[i], d = in[i];
      if (r.is_static() && r.value() < 0)
        return ShapeError(fmt::format("repeat {} of axis {}", r.value(), i));
      int64_t v;
      if (r.is_static() && r.value() == 1)
        out[i] = d;
      else if (d.is_static() && d.value() == 1)
        out[i] = r;
      else if (r.is_static() && d.is_static() && !__builtin_mul_overflow(r.value(), d.value(), &v))
        out[i] = Dim(v);
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateTile(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const auto repeats = AsInts(ctx.operand(1));
  if (static_cast<int>(repeats.size()) != x.rank())
    return ShapeError(fmt::format("{} repeats for {}", repeats.size(), ToString(x.dims())));
  // Each axis as (repeat, extent).
  const Dims own = RowMajorStrides(x.dims());
  Dims dims, strides, out;
  for (int i = 0; i < x.rank(); ++i) {
    int64_t extent;
    if (repeats[i] < 0 || __builtin_mul_overflow(repeats[i], x.dims()[i], &extent))
      return ShapeError(fmt::format("repeats are {}", ToString(repeats)));
    out.push_back(extent);
    dims.append({repeats[i], x.dims()[i]});
    strides.append({0, own[i]});
  }
  NPUC_ASSIGN_OR_RETURN(Tensor y, Materialize(x, dims, strides));
  ctx.set_result(0, y.Reshaped(out));
  return OkStatus();
}

} // namespace

OpDef ExpandDef() {
  return {.domain = "",
          .name = "Expand",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {},
          .traits = kPure | kCopiesElements | kNoFloatWiden,
          .infer = InferExpand,
          .evaluate = EvaluateExpand,
          .doc = "Broadcast with a shape."};
}

OpDef TileDef() {
  return {.domain = "",
          .name = "Tile",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {},
          .traits = kPure | kCopiesElements | kNoFloatWiden,
          .infer = InferTile,
          .evaluate = EvaluateTile,
          .doc = "The tensor repeated along every axis."};
}

} // namespace npuc::ops
