// The type of a value: tensor (dtype, shape, layout, quantisation), sequence, optional or map.
#pragma once

#include <memory>
#include <string>

#include "compiler/types/dtype.h"
#include "compiler/types/layout.h"
#include "compiler/types/quant.h"
#include "compiler/types/shape.h"

namespace npuc {

class Type {
public:
  enum class Kind : uint8_t { None, Tensor, Sequence, Optional, Map }; // None: not known yet (before shape inference)

  Type() = default;
  static Type Tensor(DType dtype, Shape shape, QuantRef quant = nullptr, Layout layout = Layout::RowMajor);
  static Type Sequence(Type element);
  static Type Optional(Type element);
  static Type Map(DType key, Type value);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  bool is_static_tensor() const { return is_tensor() && shape_.is_static(); }
  bool is_quantized() const { return quant_ != nullptr; }

  DType dtype() const { return dtype_; } // tensor: element type; map: key type
  const Shape &shape() const { return shape_; }
  Shape &shape() { return shape_; }
  Layout layout() const { return layout_; }
  const QuantRef &quant() const { return quant_; }
  const Type &element() const { return *element_; } // sequence, optional; map: value

  void set_dtype(DType t) { dtype_ = t; }
  void set_shape(Shape s) { shape_ = std::move(s); }
  void set_layout(Layout l) { layout_ = l; }
  void set_quant(QuantRef q) { quant_ = std::move(q); }

  // Bytes of the elements without padding (static tensors; 0 for strings).
  int64_t num_bytes() const { return shape_.num_elements() * ByteSize(dtype_); }

  bool operator==(const Type &o) const;
  // "f32[1,3,224,224]", "u8[1,8]{s=0.5,z=128}", "i8[8,3,3,3]{axis=0,s=(..),z=(..)}", "f16[1,8,4,4]:NHWC",
  // "seq<f32[?]>", "opt<...>", "map<i64,f32[]>", "none". Floats print shortest round-trip; the IR parser reads the same
  // form.
  std::string ToString() const;

private:
  Kind kind_ = Kind::None;
  DType dtype_ = DType::Undefined;
  Layout layout_ = Layout::RowMajor;
  Shape shape_;
  QuantRef quant_;
  std::shared_ptr<const Type> element_;
};

} // namespace npuc
