// Our own operators, domain npuc.
//
//   Fused(operands...) { body }   a fusion: the body's inputs are the operands, its outputs the results
//   Quantize(x)    float -> the quantised type of the result        clamp(round_half_even(x / s) + z)
//   Dequantize(q)  quantised -> the float type of the result        f32(q - z) * s
//   Requantize(q)  quantised -> another quantised type              dequantise, quantise
//   QuantCast(q)   the same bits under another annotation           (the edges of the model)
//   Relayout(x)    the same elements under another layout           (the result type says which)
//
// The parameters are in the types of operand and result, never in attributes.
#include "compiler/ops/convert.h"
#include "compiler/ops/op_helpers.h"
#include "compiler/ops/quant_eval.h"

namespace npuc::ops {
namespace {

Status InferFused(InferContext &ctx) {
  std::vector<Type> inputs, outputs;
  for (int i = 0; i < ctx.num_operands(); ++i)
    inputs.push_back(ctx.operand_type(i));
  NPUC_RETURN_IF_ERROR(ctx.InferBody(0, inputs, &outputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    ctx.set_result(static_cast<int>(i), outputs[i]);
  return OkStatus();
}

Status VerifyFused(const Node &node) {
  if (node.num_bodies() != 1 || node.body(0)->num_inputs() != node.num_operands() ||
      node.body(0)->num_outputs() != node.num_results())
    return absl::InternalError(
        "a Fused node needs one body whose inputs are its operands and whose outputs are its results");
  return OkStatus();
}

Status EvaluateFused(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> out, ctx.RunBody(0, ctx.operands()));
  for (size_t i = 0; i < out.size(); ++i)
    ctx.set_result(static_cast<int>(i), std::move(out[i]));
  return OkStatus();
}

// The shape is the operand's; dtype and quantisation come from the stored result type, f32 where there is none.
Status InferQuantOp(InferContext &ctx) {
  const Type &stored = ctx.node().result(0)->type();
  const DType dtype = stored.is_tensor() && stored.dtype() != DType::Undefined ? stored.dtype() : DType::F32;
  Type t = Type::Tensor(dtype, ShapeOf(ctx, 0), stored.is_tensor() ? stored.quant() : nullptr);
  ctx.set_result(0, std::move(t));
  return OkStatus();
}

Status EvaluateQuantOp(EvalContext &ctx) {
  Tensor x = ctx.operand(0);
  if (const QuantRef &q = OperandQuant(ctx, 0)) {
    x = DequantizeTensor(x, *q);
  } else if (x.dtype() != DType::F32) {
    x = ConvertTensor(x, DType::F32);
  }
  const Type &result = ctx.node().result(0)->type();
  if (const QuantRef &q = ResultQuant(ctx, 0))
    x = QuantizeTensor(x, result.dtype(), *q);
  else if (result.is_tensor() && IsFloat(result.dtype()))
    x = ConvertTensor(x, result.dtype());
  ctx.set_result(0, std::move(x));
  return OkStatus();
}

Status EvaluateQuantCast(EvalContext &ctx) {
  ctx.set_result(0, ctx.operand(0));
  return OkStatus();
}

Status InferQuantCast(InferContext &ctx) {
  const Type &stored = ctx.node().result(0)->type();
  Type t = Type::Tensor(DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0), stored.is_tensor() ? stored.quant() : nullptr);
  ctx.set_result(0, std::move(t));
  return OkStatus();
}

// Layouts are physical: the elements are the operand's.
Status InferRelayout(InferContext &ctx) {
  Type t = ctx.operand_type(0);
  const Type &stored = ctx.node().result(0)->type();
  if (t.is_tensor())
    t.set_layout(stored.is_tensor() ? stored.layout() : Layout::RowMajor);
  ctx.set_result(0, std::move(t));
  return OkStatus();
}

Status VerifyQuantize(const Node &node) {
  if (!node.result(0)->type().is_none() && !node.result(0)->type().is_quantized())
    return absl::InternalError("the result type of Quantize has no quantisation");
  return OkStatus();
}
Status VerifyDequantize(const Node &node) {
  if (node.operand(0) && !node.operand(0)->type().is_none() && !node.operand(0)->type().is_quantized())
    return absl::InternalError("the operand type of Dequantize has no quantisation");
  return OkStatus();
}

OpDef QuantOp(std::string_view name, Status (*verify)(const Node &), std::string_view doc) {
  return {.domain = "npuc",
          .name = name,
          .min_operands = 1,
          .max_operands = 1,
          .traits = kPure | kElementwise | kNoFloatWiden,
          .verify = verify,
          .infer = InferQuantOp,
          .evaluate = EvaluateQuantOp,
          .evaluate_quantized = EvaluateQuantOp,
          .doc = doc};
}

} // namespace

OpDef NpucFusedDef() {
  return {.domain = "npuc",
          .name = "Fused",
          .min_operands = 0,
          .max_operands = -1,
          .min_results = 1,
          .max_results = -1,
          .attrs = {{"body", AttrKind::Graph, true}},
          .verify = VerifyFused,
          .infer = InferFused,
          .evaluate = EvaluateFused,
          .doc = "A fusion; the body says what it computes."};
}
OpDef NpucQuantizeDef() {
  return QuantOp("Quantize", VerifyQuantize, "Float to the result's quantised type.");
}
OpDef NpucDequantizeDef() {
  return QuantOp("Dequantize", VerifyDequantize, "Quantised to the result's float type.");
}
OpDef NpucRequantizeDef() {
  return QuantOp("Requantize", VerifyQuantize, "Quantised to another quantised type.");
}
OpDef NpucQuantCastDef() {
  return {.domain = "npuc",
          .name = "QuantCast",
          .min_operands = 1,
          .max_operands = 1,
          .traits = kPure | kElementwise | kCopiesElements | kView | kNoFloatWiden,
          .infer = InferQuantCast,
          .evaluate = EvaluateQuantCast,
          .evaluate_quantized = EvaluateQuantCast,
          .doc = "The same bits, another quantisation annotation."};
}

OpDef NpucRelayoutDef() {
  return {.domain = "npuc",
          .name = "Relayout",
          .min_operands = 1,
          .max_operands = 1,
          .traits = kPure | kElementwise | kCopiesElements | kNoFloatWiden,
          .infer = InferRelayout,
          .evaluate = EvaluateQuantCast,
          .evaluate_quantized = EvaluateQuantCast,
          .doc = "The same elements, another physical layout."};
}

} // namespace npuc::ops
