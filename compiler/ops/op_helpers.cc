// Helpers of the operator definitions; see op_helpers.h.
#include "compiler/ops/op_helpers.h"

#include <algorithm>

#include "compiler/ops/convert.h"

namespace npuc::ops {

Status UnsupportedDType(DType t) {
  return Error("E0403", fmt::format("the operator cannot be computed on elements of type {}", OnnxName(t)),
               "cast the operand to a type that the operator's ONNX definition allows");
}

Status ShapeError(std::string message, std::string help) {
  return Error("E0301", std::move(message), std::move(help));
}

Status AttrError(std::string message, std::string help) {
  return Error("E0203", std::move(message), std::move(help));
}

StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what, bool last_allowed) {
  const int64_t bound = rank + (last_allowed ? 1 : 0);
  if (axis < -bound || axis >= bound)
    return AttrError(
        fmt::format("{} {} is not in [{}, {}] for an operand of rank {}", what, axis, -bound, bound - 1, rank),
        "correct the axis, or the rank of the tensor it is about");
  return static_cast<int>(axis < 0 ? axis + bound : axis);
}

StatusOr<llvm::SmallVector<int, 4>> NormalizeAxes(llvm::ArrayRef<int64_t> axes, int rank, std::string_view what) {
  llvm::SmallVector<int, 4> out;
  for (int64_t a : axes) {
    NPUC_ASSIGN_OR_RETURN(int n, NormalizeAxis(a, rank, what));
    out.push_back(n);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    return AttrError(fmt::format("{} {} name one axis twice", what, ToString(axes)), "list each axis once");
  return out;
}

llvm::SmallVector<int64_t, 4> AsInts(const Tensor &t) {
  llvm::SmallVector<int64_t, 4> out;
  for (int64_t i = 0, n = t.num_elements(); i < n; ++i)
    out.push_back(t.AsInt(i));
  return out;
}

AxisSplit::AxisSplit(llvm::ArrayRef<int64_t> dims, int axis) {
  for (int i = 0; i < axis; ++i)
    outer *= dims[i];
  n = dims[axis];
  for (size_t i = axis + 1; i < dims.size(); ++i)
    inner *= dims[i];
}

bool IsTensor(InferContext &ctx, int i) {
  return ctx.has_operand(i) && ctx.operand_type(i).is_tensor();
}

Shape ShapeOf(InferContext &ctx, int i) {
  return IsTensor(ctx, i) ? ctx.operand_type(i).shape() : Shape::Unranked();
}

DType DTypeOfOperand(InferContext &ctx, int i) {
  return IsTensor(ctx, i) ? ctx.operand_type(i).dtype() : DType::Undefined;
}

bool IsQuantized(InferContext &ctx, int i) {
  return IsTensor(ctx, i) && ctx.operand_type(i).is_quantized();
}

Status CheckSameDType(InferContext &ctx, llvm::ArrayRef<int> operands) {
  // In a quantised node operands may differ (i8 weights, i32 bias, f32 result); the quantiser made them.
  for (int i : operands)
    if (IsQuantized(ctx, i))
      return OkStatus();
  int first = -1;
  for (int i : operands) {
    const DType t = DTypeOfOperand(ctx, i);
    if (t == DType::Undefined)
      continue;
    if (first < 0)
      first = i;
    else if (t != DTypeOfOperand(ctx, first))
      return Error("E0302",
                   fmt::format("operand {} is {} but operand {} is {}; they must have one element type", first,
                               OnnxName(DTypeOfOperand(ctx, first)), i, OnnxName(t)),
                   "insert a Cast in the model");
  }
  return OkStatus();
}

Status CheckRank(InferContext &ctx, int i, int min, int max) {
  const Shape s = ShapeOf(ctx, i);
  if (s.ranked() && (s.rank() < min || s.rank() > max))
    return ShapeError(min == max ? fmt::format("operand {} has shape {}; its rank must be {}", i, s.ToString(), min)
                                 : fmt::format("operand {} has shape {}; its rank must be {} to {}", i, s.ToString(),
                                               min, max > 1000 ? std::string("any") : std::to_string(max)));
  return OkStatus();
}

void SetTensor(InferContext &ctx, int i, DType dtype, Shape shape) {
  if (dtype != DType::Undefined)
    ctx.set_result(i, Type::Tensor(dtype, std::move(shape)));
}

Status SameTypeAsOperand(InferContext &ctx) {
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0));
  return OkStatus();
}

StatusOr<Shape> BroadcastOperands(InferContext &ctx, llvm::ArrayRef<int> operands) {
  Shape out;
  for (int i : operands) {
    if (!ctx.has_operand(i))
      continue;
    const Shape s = ShapeOf(ctx, i);
    std::optional<Shape> merged = BroadcastShapes(out, s);
    if (!merged)
      return ShapeError(fmt::format("shapes {} and {} do not broadcast together", out.ToString(), s.ToString()),
                        "each pair of extents, aligned at the last axis, must be equal or contain a 1");
    out = *merged;
  }
  return out;
}

Status BroadcastInfer(InferContext &ctx, DType dtype) {
  llvm::SmallVector<int, 4> all;
  for (int i = 0; i < ctx.num_operands(); ++i)
    all.push_back(i);
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, all));
  NPUC_ASSIGN_OR_RETURN(Shape shape, BroadcastOperands(ctx, all));
  if (dtype == DType::Undefined)
    for (int i : all)
      if (dtype = DTypeOfOperand(ctx, i); dtype != DType::Undefined)
        break;
  SetTensor(ctx, 0, dtype, std::move(shape));
  return OkStatus();
}

StatusOr<Dim> MergeDim(const Dim &a, const Dim &b, std::string_view what) {
  if (a.is_static() && b.is_static() && a.value() != b.value())
    return ShapeError(fmt::format("{}: {} against {}", what, a.value(), b.value()));
  if (a.is_static() || (!b.is_static() && a.symbol() != "?"))
    return a;
  return b;
}

FloatView::FloatView(const Tensor &t) {
  keep_ = t.dtype() == DType::F32 ? t.Expand() : ConvertTensor(t.Expand(), DType::F32);
  data_ = keep_.data<float>();
  size_ = keep_.num_elements();
}

StatusOr<Dims> BroadcastDims(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return ShapeError(fmt::format("shapes {} and {} do not broadcast together", ToString(a), ToString(b)));
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

} // namespace npuc::ops
