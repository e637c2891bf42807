#include "compiler/types/type.h"

#include <fmt/format.h>

namespace npuc {

Type Type::Tensor(DType dtype, Shape shape, QuantRef quant, Layout layout) {
  Type t;
  t.kind_ = Kind::Tensor;
  t.dtype_ = dtype;
  t.shape_ = std::move(shape);
  t.quant_ = std::move(quant);
  t.layout_ = layout;
  return t;
}

Type Type::Sequence(Type element) {
  Type t;
  t.kind_ = Kind::Sequence;
  t.element_ = std::make_shared<const Type>(std::move(element));
  return t;
}

Type Type::Optional(Type element) {
  Type t;
  t.kind_ = Kind::Optional;
  t.element_ = std::make_shared<const Type>(std::move(element));
  return t;
}

Type Type::Map(DType key, Type value) {
  Type t;
  t.kind_ = Kind::Map;
  t.dtype_ = key;
  t.element_ = std::make_shared<const Type>(std::move(value));
  return t;
}

bool Type::operator==(const Type &o) const {
  if (kind_ != o.kind_)
    return false;
  switch (kind_) {
  case Kind::None:
    return true;
  case Kind::Tensor:
    return dtype_ == o.dtype_ && layout_ == o.layout_ && shape_ == o.shape_ && SameQuant(quant_, o.quant_);
  case Kind::Sequence:
  case Kind::Optional:
    return *element_ == *o.element_;
  case Kind::Map:
    return dtype_ == o.dtype_ && *element_ == *o.element_;
  }
  return false;
}

std::string Type::ToString() const {
  switch (kind_) {
  case Kind::None:
    return "none";
  case Kind::Sequence:
    return "seq<" + element_->ToString() + ">";
  case Kind::Optional:
    return "opt<" + element_->ToString() + ">";
  case Kind::Map:
    return fmt::format("map<{},{}>", Name(dtype_), element_->ToString());
  case Kind::Tensor:
    break;
  }
  std::string s = fmt::format("{}{}", Name(dtype_), shape_.ToString());
  if (quant_) {
    if (quant_->per_tensor()) {
      s += fmt::format("{{s={},z={}}}", quant_->scales[0], quant_->zero_points[0]);
    } else {
      s += fmt::format("{{axis={},s=({}),z=({})}}", quant_->axis, fmt::join(quant_->scales, ","),
                       fmt::join(quant_->zero_points, ","));
    }
  }
  if (layout_ != Layout::RowMajor)
    s += fmt::format(":{}", Name(layout_));
  return s;
}

} // namespace npuc
