// A tensor's data: dtype, static dims and bytes that may be owned, shared or mapped from a file. Immutable once shared.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compiler/types/dtype.h"
#include "compiler/types/shape.h"

namespace npuc {

// Element storage is row-major and packed, ByteSize(dtype) a piece (sub-byte types one a byte). A *splat* stores one
// element that stands for all; readers that need every element call Expand() first, or index with stride 0.
// Strings live in a vector of their own.
class Tensor {
public:
  Tensor() = default; // dtype Undefined: "no tensor"

  // Zero-filled, owned, mutable until shared.
  static Tensor Allocate(DType dtype, llvm::ArrayRef<int64_t> dims);
  // `data` must hold NumElements * ByteSize bytes for as long as `owner` lives (a mapped file, say).
  static Tensor View(DType dtype, llvm::ArrayRef<int64_t> dims, const void *data, std::shared_ptr<const void> owner);
  static Tensor Splat(DType dtype, llvm::ArrayRef<int64_t> dims, const void *element);
  static Tensor Strings(llvm::ArrayRef<int64_t> dims, std::vector<std::string> values);
  template <class T> static Tensor Of(DType dtype, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<T> values) {
    Tensor t = Allocate(dtype, dims);
    if (!values.empty())
      std::memcpy(t.mutable_bytes(), values.data(), values.size() * sizeof(T));
    return t;
  }
  static Tensor OfI64(llvm::ArrayRef<int64_t> values) {
    return Of<int64_t>(DType::I64, {static_cast<int64_t>(values.size())}, values);
  }
  static Tensor ScalarF32(float v) { return Of<float>(DType::F32, {}, llvm::ArrayRef<float>(v)); }
  static Tensor ScalarI64(int64_t v) { return Of<int64_t>(DType::I64, {}, llvm::ArrayRef<int64_t>(v)); }

  explicit operator bool() const { return dtype_ != DType::Undefined; }
  DType dtype() const { return dtype_; }
  llvm::ArrayRef<int64_t> dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t num_elements() const { return NumElements(dims_); }
  bool is_splat() const { return splat_; }
  // Bytes that bytes() points to: one element for a splat.
  int64_t num_stored_bytes() const { return (splat_ ? 1 : num_elements()) * ByteSize(dtype_); }

  const uint8_t *bytes() const { return data_; }
  template <class T> const T *data() const { return reinterpret_cast<const T *>(data_); }
  template <class T> llvm::ArrayRef<T> values() const {
    return {data<T>(), static_cast<size_t>(splat_ ? 1 : num_elements())};
  }
  const std::vector<std::string> &strings() const { return *strings_; }

  // Only on a tensor from Allocate, before it is shared.
  uint8_t *mutable_bytes() { return const_cast<uint8_t *>(data_); }
  template <class T> T *mutable_data() { return reinterpret_cast<T *>(mutable_bytes()); }

  // Same elements, other dims of the same count (shares the bytes).
  Tensor Reshaped(llvm::ArrayRef<int64_t> dims) const;
  Tensor Reinterpreted(DType dtype) const; // same element size
  Tensor Expand() const;                   // a splat made plain; else itself
  // Element i of a numeric tensor as double / int64 (any integer, float or bool dtype; splat-aware). Slow: for small
  // ones.
  double AsDouble(int64_t i) const;
  int64_t AsInt(int64_t i) const;
  // Same dtype, dims and element bits (a splat equals its expansion); so f32 1.0 differs from i32 0x3f800000, 0.0 from
  // -0.0.
  bool SameBits(const Tensor &o) const;
  uint64_t Hash() const; // of dtype, dims, bits; a splat hashes apart from its expansion

private:
  DType dtype_ = DType::Undefined;
  bool splat_ = false;
  Dims dims_;
  const uint8_t *data_ = nullptr;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const std::vector<std::string>> strings_;
};

} // namespace npuc
