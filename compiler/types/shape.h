// Shapes: lists of dims, each static, symbolic ("batch") or unknown; or a shape of unknown rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace npuc {

using Dims = llvm::SmallVector<int64_t, 4>; // static extents

// One extent. Static: value() >= 0. Else a symbol; "?" is the unknown dim, which equals nothing, not even itself.
class Dim {
public:
  Dim(int64_t value = 0) : value_(value) {} // NOLINT: an extent is a number
  static Dim Symbol(std::string_view name); // "" and "?" give the unknown dim
  static Dim Unknown() { return Symbol("?"); }

  bool is_static() const { return symbol_ == nullptr; }
  int64_t value() const { return value_; } // only if static
  std::string_view symbol() const { return symbol_ ? std::string_view(*symbol_) : std::string_view(); }
  bool operator==(const Dim &o) const;

private:
  int64_t value_ = 0;
  const std::string *symbol_ = nullptr; // interned for the life of the process
};

class Shape {
public:
  Shape() = default; // rank 0
  explicit Shape(llvm::ArrayRef<Dim> dims) : dims_(dims.begin(), dims.end()) {}
  Shape(std::initializer_list<int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  static Shape Of(llvm::ArrayRef<int64_t> dims);
  static Shape Unranked();
  static Shape UnknownDims(int rank);

  bool ranked() const { return ranked_; }
  int rank() const { return static_cast<int>(dims_.size()); } // only if ranked
  const Dim &operator[](int i) const { return dims_[i]; }
  Dim &operator[](int i) { return dims_[i]; }
  llvm::ArrayRef<Dim> dims() const { return dims_; }
  void push_back(Dim d) { dims_.push_back(d); }

  bool is_static() const; // ranked and every dim static
  int64_t
  num_elements() const;     // only if static; 1 for rank 0. Callers have checked that it fits (see CheckedNumElements)
  Dims static_dims() const; // only if static
  bool operator==(const Shape &o) const;

  std::string ToString() const; // "[1,3,batch,?]", "[]", "[*]" for unranked

private:
  bool ranked_ = true;
  llvm::SmallVector<Dim, 4> dims_;
};

int64_t NumElements(llvm::ArrayRef<int64_t> dims);
// nullopt when the product overflows 2^62 or a dim is negative.
std::optional<int64_t> CheckedNumElements(llvm::ArrayRef<int64_t> dims);
// Row-major strides in elements.
Dims RowMajorStrides(llvm::ArrayRef<int64_t> dims);
std::string ToString(llvm::ArrayRef<int64_t> dims); // "[1,3,224,224]"

// numpy's multidirectional broadcast; symbolic dims meet 1 or themselves. nullopt when two extents clash.
std::optional<Shape> BroadcastShapes(const Shape &a, const Shape &b);

} // namespace npuc
