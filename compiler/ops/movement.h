// What operators that move elements share: strided materialisation, gathers by index, element copies for any dtype,
// shape operands.
#pragma once

#include <optional>

#include "compiler/ops/op_helpers.h"

namespace npuc::ops {

// Zero-filled (empty strings) result; E0703 when it would take more memory than a run may ask for.
StatusOr<Tensor> AllocateResult(DType dtype, llvm::ArrayRef<int64_t> dims);

// out[i0, i1, ...] = src[base + i0*strides[0] + i1*strides[1] + ...], strides in elements (0 repeats). Any dtype,
// strings too.
StatusOr<Tensor> Materialize(const Tensor &src, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides,
                             int64_t base = 0);

// Copies `count` elements; dst from AllocateResult, same dtype. Strings are copied into `strings` (see StringBuilder).
class ElementWriter {
public:
  // Elements of `dims`, to be filled by Copy; Finish gives the tensor.
  static StatusOr<ElementWriter> Create(DType dtype, llvm::ArrayRef<int64_t> dims);
  void Copy(int64_t at, const Tensor &src, int64_t from, int64_t count = 1);
  void Fill(int64_t at, const Tensor &src, int64_t from, int64_t count); // one element, count times
  Tensor Finish();

private:
  Tensor tensor_;
  std::vector<std::string> strings_;
  Dims dims_;
  int size_ = 0;
};

// The operand as integers when they are known at compile time.
std::optional<llvm::SmallVector<int64_t, 4>> KnownInts(InferContext &ctx, int i);

// The number of elements of a 1-D operand, when known.
std::optional<int64_t> KnownLength(InferContext &ctx, int i);

// Shape from dims of which some may be unknown; negative extents are E0301.
StatusOr<Shape> ShapeFromDims(llvm::ArrayRef<Dim> dims, std::string_view what);

// Steps a multi-index of `dims` in row-major order; false after the last.
bool NextIndex(llvm::SmallVectorImpl<int64_t> &index, llvm::ArrayRef<int64_t> dims);

} // namespace npuc::ops
