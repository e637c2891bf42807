// The driver of the opset adapters. The table is the concatenation of the families; rows apply in order, so a row may
// rename a node for a later one (Upsample becomes Resize of opset 10, whose row makes it the newest Resize).
#include "compiler/onnx/adapters.h"

#include "compiler/ops/infer.h"
#include "compiler/support/half.h"

namespace npuc::onnx_import {
namespace {

llvm::ArrayRef<AdapterRow> Families(int i) {
  switch (i) {
  case 0:
    return ContribAdapters();
  case 1:
    return ElementwiseAdapters();
  case 2:
    return ShapeAdapters();
  case 3:
    return NnAdapters();
  case 4:
    return AttentionAdapters();
  case 5:
    return MlAdapters();
  default:
    return {};
  }
}
constexpr int kFamilies = 6;

} // namespace

std::optional<int> AdaptedNode::Rank(unsigned i) const {
  Value *v = input(i);
  if (!v || !v->type().is_tensor() || !v->type().shape().ranked())
    return std::nullopt;
  return v->type().shape().rank();
}

std::optional<Dims> AdaptedNode::StaticDims(unsigned i) const {
  Value *v = input(i);
  if (!v || !v->type().is_static_tensor())
    return std::nullopt;
  return v->type().shape().static_dims();
}

DType AdaptedNode::InputDType(unsigned i) const {
  Value *v = input(i);
  return v && v->type().is_tensor() ? v->type().dtype() : DType::Undefined;
}

Value *AdaptedNode::Constant(Tensor t) {
  return graph->AddConstant(std::move(t));
}

Value *AdaptedNode::ScalarLikeInput(double v) {
  const DType dtype = InputDType(0);
  Tensor t = Tensor::Allocate(dtype == DType::Undefined ? DType::F32 : dtype, {});
  switch (t.dtype()) {
  case DType::F64:
    *t.mutable_data<double>() = v;
    break;
  case DType::F16:
    *t.mutable_data<uint16_t>() = FloatToHalf(static_cast<float>(v));
    break;
  case DType::BF16:
    *t.mutable_data<uint16_t>() = FloatToBFloat16(static_cast<float>(v));
    break;
  case DType::I64:
  case DType::U64:
    *t.mutable_data<int64_t>() = static_cast<int64_t>(v);
    break;
  case DType::I32:
  case DType::U32:
    *t.mutable_data<int32_t>() = static_cast<int32_t>(v);
    break;
  case DType::I8:
  case DType::U8:
    *t.mutable_data<int8_t>() = static_cast<int8_t>(static_cast<int>(v));
    break;
  default:
    t = Tensor::ScalarF32(static_cast<float>(v));
  }
  return Constant(std::move(t));
}

StatusOr<Value *> AdaptedNode::Add(std::string_view name, llvm::ArrayRef<Value *> operands, AttributeList attributes,
                                   std::string_view dom) {
  const OpDef *def = LookupOp(dom, name);
  NPUC_CHECK(def != nullptr, "adapter needs {}", name);
  for (int i = 0; i < def->min_operands; ++i)
    if (i >= static_cast<int>(operands.size()) || !operands[i])
      return Error("E0203", fmt::format("an input is missing: {} of {} needs it", name, op));
  Node *n = graph->AddNode(def, operands, def->min_results, origin);
  n->attrs() = std::move(attributes);
  NPUC_RETURN_IF_ERROR(InferNode(*n));
  return n->result();
}

bool HasAdapter(std::string_view domain, std::string_view op) {
  for (int f = 0; f < kFamilies; ++f)
    for (const AdapterRow &row : Families(f))
      if (row.domain == domain && row.op == op)
        return true;
  return false;
}

Status Adapt(AdaptedNode &node) {
  if (node.domain.empty() && node.version < 6)
    node.attrs.Erase("consumed_inputs"); // an old hint for in-place updates
  for (int f = 0; f < kFamilies; ++f)
    for (const AdapterRow &row : Families(f)) {
      if (row.op != node.op || row.domain != node.domain || node.version >= row.before)
        continue;
      NPUC_RETURN_IF_ERROR(row.adapt(node));
      if (!node.results.empty())
        return OkStatus();
    }
  return OkStatus();
}

} // namespace npuc::onnx_import
