// What operator definitions share: dtype dispatch, axes, the usual shape inferences, float views of tensors, parallel
// loops.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/thread_pool.h"
#include "compiler/types/tensor.h"
#include "llvm/ADT/SmallVector.h"

namespace npuc::ops {

// ---- Attribute tables -------------------------------------------------------------------------------------------

inline AttrSpec IntAttr(std::string_view n, bool required = false) {
  return {n, AttrKind::Int, required};
}
inline AttrSpec FloatAttr(std::string_view n, bool required = false) {
  return {n, AttrKind::Float, required};
}
inline AttrSpec StringAttr(std::string_view n, bool required = false) {
  return {n, AttrKind::String, required};
}
inline AttrSpec IntsAttr(std::string_view n, bool required = false) {
  return {n, AttrKind::Ints, required};
}
inline AttrSpec FloatsAttr(std::string_view n, bool required = false) {
  return {n, AttrKind::Floats, required};
}

// ---- dtype dispatch ---------------------------------------------------------------------------------------------

template <class T> struct Tag { using type = T; };
template <class TagT> using TypeOf = typename std::decay_t<TagT>::type;

// E0403 "cannot be computed on <dtype>".
Status UnsupportedDType(DType t);

// Each calls f(Tag<T>{}) -> Status with the C++ type of t's elements. F16 and BF16 never get here: the interpreter
// widens them (see kNoFloatWiden). Sub-byte integers are held in bytes.
template <class F> Status DispatchFloat(DType t, F &&f) {
  switch (t) {
  case DType::F32:
    return f(Tag<float>{});
  case DType::F64:
    return f(Tag<double>{});
  default:
    return UnsupportedDType(t);
  }
}
template <class F> Status DispatchInt(DType t, F &&f) {
  switch (t) {
  case DType::I2:
  case DType::I4:
  case DType::I8:
    return f(Tag<int8_t>{});
  case DType::I16:
    return f(Tag<int16_t>{});
  case DType::I32:
    return f(Tag<int32_t>{});
  case DType::I64:
    return f(Tag<int64_t>{});
  case DType::U2:
  case DType::U4:
  case DType::U8:
    return f(Tag<uint8_t>{});
  case DType::U16:
    return f(Tag<uint16_t>{});
  case DType::U32:
    return f(Tag<uint32_t>{});
  case DType::U64:
    return f(Tag<uint64_t>{});
  default:
    return UnsupportedDType(t);
  }
}
template <class F> Status DispatchNumeric(DType t, F &&f) {
  return t == DType::F32 || t == DType::F64 ? DispatchFloat(t, f) : DispatchInt(t, f);
}
// By element size, for ops that only move or compare bits.
template <class F> Status DispatchBytes(DType t, F &&f) {
  switch (ByteSize(t)) {
  case 1:
    return f(Tag<uint8_t>{});
  case 2:
    return f(Tag<uint16_t>{});
  case 4:
    return f(Tag<uint32_t>{});
  case 8:
    return f(Tag<uint64_t>{});
  default:
    return UnsupportedDType(t);
  }
}

template <class T> constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return DType::F32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::F64;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::Bool;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::I8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::U8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::I16;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return DType::U16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::I32;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return DType::U32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::I64;
  else
    return DType::U64;
}

// ---- Axes -------------------------------------------------------------------------------------------------------

// axis in [-rank, rank) made non-negative; E0203 else. `last_allowed` adds one at the end (Flatten, insertion points).
StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what = "axis", bool last_allowed = false);
// Each normalised, sorted; a repeated axis is E0203.
StatusOr<llvm::SmallVector<int, 4>> NormalizeAxes(llvm::ArrayRef<int64_t> axes, int rank,
                                                  std::string_view what = "axes");

// The elements of an integer tensor (any rank) as int64.
llvm::SmallVector<int64_t, 4> AsInts(const Tensor &t);

// outer = product of the dims before axis, n = dims[axis], inner = product behind it.
struct AxisSplit {
  int64_t outer = 1, n = 1, inner = 1;
  AxisSplit(llvm::ArrayRef<int64_t> dims, int axis);
};

// ---- Inference helpers ------------------------------------------------------------------------------------------

// Operand i is there and its type is known to be a tensor.
bool IsTensor(InferContext &ctx, int i);
// Its shape; unranked when it is not known.
Shape ShapeOf(InferContext &ctx, int i);
DType DTypeOfOperand(InferContext &ctx, int i); // Undefined when not known
bool IsQuantized(InferContext &ctx, int i);
// E0302 when operands (present, known, not quantised) differ in dtype.
Status CheckSameDType(InferContext &ctx, llvm::ArrayRef<int> operands);
// E0301 when operand i is ranked and its rank is not in [min, max].
Status CheckRank(InferContext &ctx, int i, int min, int max);

// result 0 = operand 0's dtype and shape.
Status SameTypeAsOperand(InferContext &ctx);
// All operands broadcast together; result dtype is operand `dtype_of`'s, or `dtype` where given. Checks that dtypes
// agree.
Status BroadcastInfer(InferContext &ctx, DType dtype = DType::Undefined);
// The broadcast of these operands' shapes, E0301 when they clash.
StatusOr<Shape> BroadcastOperands(InferContext &ctx, llvm::ArrayRef<int> operands);
// Sets result i to a tensor; nothing when dtype is Undefined (type stays unknown).
void SetTensor(InferContext &ctx, int i, DType dtype, Shape shape);
// E0301 with both shapes.
Status ShapeError(std::string message, std::string help = "");
// E0203
Status AttrError(std::string message, std::string help = "");

// Dims that must agree: the more specific of the two; E0301 when both are static and differ.
StatusOr<Dim> MergeDim(const Dim &a, const Dim &b, std::string_view what);

// ---- Evaluation helpers -----------------------------------------------------------------------------------------

// The operand's elements as f32: in place for F32 tensors, else converted.
class FloatView {
public:
  explicit FloatView(const Tensor &t);
  const float *data() const { return data_; }
  int64_t size() const { return size_; }
  float operator[](int64_t i) const { return data_[i]; }

private:
  Tensor keep_;
  const float *data_ = nullptr;
  int64_t size_ = 0;
};

// numpy broadcast of static dims; E0301 when they clash.
StatusOr<Dims> BroadcastDims(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

// fn(begin, end) over [0, n) in ranges of `grain` (the last shorter), on the pool when there is one. Ranges are
// independent: the split never changes a result.
template <class F> void ParallelFor(ThreadPool *pool, int64_t n, int64_t grain, F &&fn) {
  if (n <= 0)
    return;
  if (!pool || n <= grain) {
    fn(int64_t{0}, n);
    return;
  }
  pool->ParallelFor(static_cast<size_t>(n), static_cast<size_t>(grain < 1 ? 1 : grain),
                    [&](size_t begin, size_t end) { fn(static_cast<int64_t>(begin), static_cast<int64_t>(end)); });
}

} // namespace npuc::ops
