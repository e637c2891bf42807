#include "compiler/types/tensor.h"

#include "compiler/support/half.h"
#include "compiler/support/hash.h"
#include "compiler/support/status.h"
#include "compiler/support/zeroed_memory.h"

namespace npuc {

Tensor Tensor::Allocate(DType dtype, llvm::ArrayRef<int64_t> dims) {
  Tensor t;
  t.dtype_ = dtype;
  t.dims_.assign(dims.begin(), dims.end());
  if (dtype == DType::String) {
    t.strings_ = std::make_shared<const std::vector<std::string>>(NumElements(dims));
    return t;
  }
  const size_t n = static_cast<size_t>(NumElements(dims)) * ByteSize(dtype);
  auto owner = ZeroedMemory(n);
  NPUC_CHECK(owner != nullptr, "out of memory: {} bytes", n);
  t.data_ = static_cast<const uint8_t *>(owner.get());
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::View(DType dtype, llvm::ArrayRef<int64_t> dims, const void *data, std::shared_ptr<const void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.dims_.assign(dims.begin(), dims.end());
  t.data_ = static_cast<const uint8_t *>(data);
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::Splat(DType dtype, llvm::ArrayRef<int64_t> dims, const void *element) {
  Tensor t = Allocate(dtype, {});
  std::memcpy(t.mutable_bytes(), element, ByteSize(dtype));
  t.dims_.assign(dims.begin(), dims.end());
  t.splat_ = true;
  return t;
}

Tensor Tensor::Strings(llvm::ArrayRef<int64_t> dims, std::vector<std::string> values) {
  Tensor t;
  t.dtype_ = DType::String;
  t.dims_.assign(dims.begin(), dims.end());
  t.strings_ = std::make_shared<const std::vector<std::string>>(std::move(values));
  return t;
}

Tensor Tensor::Reshaped(llvm::ArrayRef<int64_t> dims) const {
  NPUC_CHECK(NumElements(dims) == num_elements(), "reshape of {} to {}", ToString(this->dims()), ToString(dims));
  Tensor t = *this;
  t.dims_.assign(dims.begin(), dims.end());
  return t;
}

Tensor Tensor::Reinterpreted(DType dtype) const {
  NPUC_CHECK(ByteSize(dtype) == ByteSize(dtype_), "reinterpret {} as {}", Name(dtype_), Name(dtype));
  Tensor t = *this;
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::Expand() const {
  if (!splat_)
    return *this;
  Tensor t = Allocate(dtype_, dims_);
  const int size = ByteSize(dtype_);
  const int64_t n = num_elements();
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(t.mutable_bytes() + i * size, data_, size);
  return t;
}

double Tensor::AsDouble(int64_t i) const {
  if (splat_)
    i = 0;
  switch (dtype_) {
  case DType::F32:
    return data<float>()[i];
  case DType::F64:
    return data<double>()[i];
  case DType::F16:
    return HalfToFloat(data<uint16_t>()[i]);
  case DType::BF16:
    return BFloat16ToFloat(data<uint16_t>()[i]);
  case DType::U64:
    return static_cast<double>(data<uint64_t>()[i]);
  default:
    return static_cast<double>(AsInt(i));
  }
}

int64_t Tensor::AsInt(int64_t i) const {
  if (splat_)
    i = 0;
  switch (dtype_) {
  case DType::I64:
  case DType::U64:
    return data<int64_t>()[i];
  case DType::I32:
    return data<int32_t>()[i];
  case DType::U32:
    return data<uint32_t>()[i];
  case DType::I16:
    return data<int16_t>()[i];
  case DType::U16:
    return data<uint16_t>()[i];
  case DType::I8:
  case DType::I4:
  case DType::I2:
    return data<int8_t>()[i];
  case DType::U8:
  case DType::U4:
  case DType::U2:
  case DType::Bool:
    return data<uint8_t>()[i];
  case DType::F32:
  case DType::F64:
  case DType::F16:
  case DType::BF16:
    return static_cast<int64_t>(AsDouble(i));
  default:
    NPUC_CHECK(false, "AsInt of {}", Name(dtype_));
    return 0;
  }
}

bool Tensor::SameBits(const Tensor &o) const {
  if (dtype_ != o.dtype_ || dims_ != o.dims_)
    return false;
  if (dtype_ == DType::String)
    return *strings_ == *o.strings_;
  if (splat_ == o.splat_)
    return data_ == o.data_ || std::memcmp(data_, o.data_, num_stored_bytes()) == 0;
  const Tensor &plain = splat_ ? o : *this;
  const Tensor &splat = splat_ ? *this : o;
  const int size = ByteSize(dtype_);
  for (int64_t i = 0, n = num_elements(); i < n; ++i)
    if (std::memcmp(plain.data_ + i * size, splat.data_, size) != 0)
      return false;
  return true;
}

uint64_t Tensor::Hash() const {
  std::string head = std::string(Name(dtype_)) + ToString(dims()) + (splat_ ? "*" : "");
  if (dtype_ == DType::String)
    for (const std::string &s : *strings_)
      head += std::to_string(s.size()) + ":" + s;
  const uint64_t h = Xxh3(head.data(), head.size());
  return dtype_ == DType::String || !data_ ? h : h * 0x9E3779B97F4A7C15u ^ Xxh3(data_, num_stored_bytes());
}

} // namespace npuc
