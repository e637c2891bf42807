// Constant, ConstantOfShape, Identity, Shape, Size: values that are there, or that a shape alone decides.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status InferConstant(InferContext &ctx) {
  if (const Tensor *t = ctx.attrs().TensorOrNull("value"))
    ctx.set_result(0, Type::Tensor(t->dtype(), Shape::Of(t->dims())));
  return OkStatus();
}
Status EvaluateConstant(EvalContext &ctx) {
  ctx.set_result(0, *ctx.attrs().TensorOrNull("value"));
  return OkStatus();
}

Status InferConstantOfShape(InferContext &ctx) {
  const Tensor *value = ctx.attrs().TensorOrNull("value");
  const DType dtype = value ? value->dtype() : DType::F32;
  if (auto dims = ctx.dims(0)) {
    NPUC_ASSIGN_OR_RETURN(Shape shape, ShapeFromDims(*dims, "the wanted shape"));
    SetTensor(ctx, 0, dtype, shape);
  } else if (auto rank = KnownLength(ctx, 0)) {
    SetTensor(ctx, 0, dtype, Shape::UnknownDims(static_cast<int>(*rank)));
  } else {
    SetTensor(ctx, 0, dtype, Shape::Unranked());
  }
  return OkStatus();
}
Status VerifyConstantOfShape(const Node &n) {
  const Tensor *value = n.attrs().TensorOrNull("value");
  if (value && value->num_elements() != 1)
    return AttrError(fmt::format("attribute 'value' has {} elements, not 1", value->num_elements()));
  return OkStatus();
}
Status EvaluateConstantOfShape(EvalContext &ctx) {
  const auto dims = AsInts(ctx.operand(0));
  for (int64_t d : dims)
    if (d < 0)
      return Error("E0703", fmt::format("the wanted shape {} has a negative extent", ToString(dims)));
  if (!CheckedNumElements(dims))
    return Error("E0703", fmt::format("a result of shape {} does not fit into memory", ToString(dims)));
  const Tensor *value = ctx.attrs().TensorOrNull("value");
  if (value && value->dtype() == DType::String) {
    ctx.set_result(0, Tensor::Strings(dims, std::vector<std::string>(NumElements(dims), value->strings()[0])));
    return OkStatus();
  }
  const float zero = 0;
  ctx.set_result(0,
                 value ? Tensor::Splat(value->dtype(), dims, value->bytes()) : Tensor::Splat(DType::F32, dims, &zero));
  return OkStatus();
}

Status InferIdentity(InferContext &ctx) {
  Type t = ctx.operand_type(0);
  t.set_quant(nullptr); // the driver passes it on
  t.set_layout(Layout::RowMajor);
  ctx.set_result(0, t);
  return OkStatus();
}
Status EvaluateIdentity(EvalContext &ctx) {
  ctx.set_result(0, ctx.operand_value(0));
  return OkStatus();
}

std::pair<int64_t, int64_t> ShapeRange(const AttributeList &attrs, int64_t rank) {
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t begin = clamp(attrs.Int("start", 0)), end = clamp(attrs.Int("end", rank));
  return {begin, std::max(begin, end)};
}

Status InferShape(InferContext &ctx) {
  const Shape s = ShapeOf(ctx, 0);
  if (!s.ranked()) {
    SetTensor(ctx, 0, DType::I64, Shape::UnknownDims(1));
    return OkStatus();
  }
  auto [begin, end] = ShapeRange(ctx.attrs(), s.rank());
  SetTensor(ctx, 0, DType::I64, Shape({end - begin}));
  return OkStatus();
}
Status EvaluateShape(EvalContext &ctx) {
  const auto dims = ctx.operand(0).dims();
  auto [begin, end] = ShapeRange(ctx.attrs(), static_cast<int64_t>(dims.size()));
  ctx.set_result(0, Tensor::OfI64(dims.slice(begin, end - begin)));
  return OkStatus();
}

Status InferSize(InferContext &ctx) {
  SetTensor(ctx, 0, DType::I64, Shape());
  return OkStatus();
}
Status EvaluateSize(EvalContext &ctx) {
  ctx.set_result(0, Tensor::ScalarI64(ctx.operand(0).num_elements()));
  return OkStatus();
}

} // namespace

OpDef ConstantDef() {
  return {.domain = "",
          .name = "Constant",
          .since_version = 13,
          .attrs = {{"value", AttrKind::Tensor, true}},
          .traits = kPure | kNoFloatWiden,
          .infer = InferConstant,
          .evaluate = EvaluateConstant,
          .doc = "A tensor that is part of the model."};
}

OpDef ConstantOfShapeDef() {
  return {.domain = "",
          .name = "ConstantOfShape",
          .since_version = 9,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {{"value", AttrKind::Tensor}},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyConstantOfShape,
          .infer = InferConstantOfShape,
          .evaluate = EvaluateConstantOfShape,
          .doc = "A tensor of the given shape, filled with one value."};
}

OpDef IdentityDef() {
  return {.domain = "",
          .name = "Identity",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {},
          .traits = kPure | kElementwise | kCopiesElements | kView | kNoFloatWiden,
          .infer = InferIdentity,
          .evaluate = EvaluateIdentity,
          .doc = "The operand itself: a tensor, sequence or optional."};
}

OpDef ShapeDef() {
  return {.domain = "",
          .name = "Shape",
          .since_version = 15,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("start"), IntAttr("end")},
          .traits = kPure | kNoFloatWiden,
          .infer = InferShape,
          .evaluate = EvaluateShape,
          .doc = "The operand's dims from start to end as int64."};
}

OpDef SizeDef() {
  return {.domain = "",
          .name = "Size",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {},
          .traits = kPure | kNoFloatWiden,
          .infer = InferSize,
          .evaluate = EvaluateSize,
          .doc = "The number of the operand's elements as int64."};
}

} // namespace npuc::ops
