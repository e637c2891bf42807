// TensorProto -> Tensor.
//
// ONNX has three homes for elements: raw_data (little-endian, packed), the typed fields (float_data, int32_data ...
// where one field serves several dtypes and narrow floats travel as bit patterns in int32_data), and external files.
// All three are brought to one form. A tensor is viewed in the mapped file when its bytes are aligned for its dtype
// (weights of one byte, external data, one in four of the others) and copied otherwise: C++ has no unaligned int64_t.
// Big-endian hosts are not supported.
#include "compiler/onnx/tensor_reader.h"

#include <bit>
#include <cstring>
#include <limits>

#include "compiler/onnx/external_data.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"

namespace npuc::onnx_import {
namespace {

static_assert(std::endian::native == std::endian::little);

// A sparse tensor is made dense; above this it is refused (a few bytes of file must not take the machine's memory).
constexpr int64_t kMaxDenseBytes = int64_t{1} << 31;

std::string Label(const ::onnx::TensorProto &p) {
  return p.name().empty() ? std::string("a tensor without name") : fmt::format("tensor '{}'", p.name());
}

// Bytes that n elements take in raw_data.
int64_t PackedBytes(DType t, int64_t n) {
  return (n * BitWidth(t) + 7) / 8;
}

// One element a byte from elements packed low bits first.
void Unpack(const uint8_t *in, DType t, int64_t n, uint8_t *out) {
  const int bits = BitWidth(t), per = 8 / bits;
  const int mask = (1 << bits) - 1;
  for (int64_t i = 0; i < n; ++i) {
    int v = in[i / per] >> (i % per * bits) & mask;
    if (IsSignedInt(t) && v >> (bits - 1))
      v -= 1 << bits;
    out[i] = static_cast<uint8_t>(v);
  }
}

StatusOr<Tensor> FromRaw(DType dtype, llvm::ArrayRef<int64_t> dims, ByteRange bytes,
                         std::shared_ptr<const void> owner) {
  const int64_t n = NumElements(dims);
  if (BitWidth(dtype) < 8) {
    Tensor t = Tensor::Allocate(dtype, dims);
    Unpack(bytes.data, dtype, n, t.mutable_bytes());
    return t;
  }
  const size_t align = std::min(ByteSize(dtype), 8);
  if (owner && bytes.size && reinterpret_cast<uintptr_t>(bytes.data) % align == 0)
    return Tensor::View(dtype, dims, bytes.data, std::move(owner));
  Tensor t = Tensor::Allocate(dtype, dims);
  if (bytes.size)
    std::memcpy(t.mutable_bytes(), bytes.data, bytes.size);
  GiveBack(bytes.data, bytes.size);
  return t;
}

template <class To, class Field> Tensor Convert(DType dtype, llvm::ArrayRef<int64_t> dims, const Field &field) {
  Tensor t = Tensor::Allocate(dtype, dims);
  To *out = t.mutable_data<To>();
  for (int64_t i = 0; i < field.size(); ++i)
    out[i] = static_cast<To>(field.Get(static_cast<int>(i)));
  return t;
}

struct Field {
  std::string_view name;
  int64_t size;
};

// The typed fields that hold anything.
llvm::SmallVector<Field, 6> FilledFields(const ::onnx::TensorProto &p) {
  llvm::SmallVector<Field, 6> f;
  if (p.float_data_size())
    f.push_back({"float_data", p.float_data_size()});
  if (p.int32_data_size())
    f.push_back({"int32_data", p.int32_data_size()});
  if (p.string_data_size())
    f.push_back({"string_data", p.string_data_size()});
  if (p.int64_data_size())
    f.push_back({"int64_data", p.int64_data_size()});
  if (p.double_data_size())
    f.push_back({"double_data", p.double_data_size()});
  if (p.uint64_data_size())
    f.push_back({"uint64_data", p.uint64_data_size()});
  return f;
}

struct Home {
  std::string_view field;
  int64_t per_element; // field entries an element takes; 0: several elements share one (sub-byte)
};

Home HomeOf(DType t) {
  switch (t) {
  case DType::F32:
    return {"float_data", 1};
  case DType::C64:
    return {"float_data", 2};
  case DType::F64:
    return {"double_data", 1};
  case DType::C128:
    return {"double_data", 2};
  case DType::I64:
    return {"int64_data", 1};
  case DType::U32:
  case DType::U64:
    return {"uint64_data", 1};
  case DType::String:
    return {"string_data", 1};
  default:
    return {"int32_data", BitWidth(t) < 8 ? 0 : 1};
  }
}

StatusOr<Tensor> FromTypedField(const ::onnx::TensorProto &p, DType dtype, llvm::ArrayRef<int64_t> dims) {
  const int64_t n = NumElements(dims);
  const Home home = HomeOf(dtype);
  int64_t have = 0;
  for (const Field &f : FilledFields(p)) {
    if (f.name != home.field)
      return Error(
          "E0206",
          fmt::format("{} of type {} has its data in {}, which is for other types", Label(p), OnnxName(dtype), f.name),
          fmt::format("{} data belong into {} or raw_data", OnnxName(dtype), home.field));
    have = f.size;
  }
  const int64_t want = home.per_element ? n * home.per_element : PackedBytes(dtype, n);
  if (have != want)
    return Error("E0206",
                 fmt::format("{} of type {} and shape {} has {} values in {}, not {}", Label(p), OnnxName(dtype),
                             ToString(dims), have, home.field, want),
                 "the file is damaged, or its exporter wrote a wrong shape");
  switch (dtype) {
  case DType::F32:
  case DType::C64: {
    Tensor t = Tensor::Allocate(dtype, dims);
    if (want)
      std::memcpy(t.mutable_bytes(), p.float_data().data(), want * sizeof(float));
    return t;
  }
  case DType::F64:
  case DType::C128: {
    Tensor t = Tensor::Allocate(dtype, dims);
    if (want)
      std::memcpy(t.mutable_bytes(), p.double_data().data(), want * sizeof(double));
    return t;
  }
  case DType::I64:
    return Convert<int64_t>(dtype, dims, p.int64_data());
  case DType::U64:
    return Convert<uint64_t>(dtype, dims, p.uint64_data());
  case DType::U32:
    return Convert<uint32_t>(dtype, dims, p.uint64_data());
  case DType::String:
    return Tensor::Strings(dims, {p.string_data().begin(), p.string_data().end()});
  case DType::I32:
    return Convert<int32_t>(dtype, dims, p.int32_data());
  case DType::I16:
  case DType::U16:
  case DType::F16:
  case DType::BF16:
    return Convert<uint16_t>(dtype, dims, p.int32_data());
  case DType::Bool: {
    Tensor t = Tensor::Allocate(dtype, dims);
    for (int64_t i = 0; i < n; ++i)
      t.mutable_bytes()[i] = p.int32_data(static_cast<int>(i)) != 0;
    return t;
  }
  default:
    break;
  }
  if (ByteSize(dtype) != 1)
    return Error("E0403", fmt::format("{}: data of type {} cannot be read", Label(p), OnnxName(dtype)));
  if (home.per_element)
    return Convert<uint8_t>(dtype, dims, p.int32_data());
  std::vector<uint8_t> packed(p.int32_data().begin(), p.int32_data().end());
  Tensor t = Tensor::Allocate(dtype, dims);
  Unpack(packed.data(), dtype, n, t.mutable_bytes());
  return t;
}

Status CheckDims(const std::string &label, llvm::ArrayRef<int64_t> dims) {
  for (int64_t d : dims)
    if (d < 0)
      return Error("E0206", fmt::format("{} has the negative extent {} in its shape {}", label, d, ToString(dims)));
  auto n = CheckedNumElements(dims);
  if (!n || *n > std::numeric_limits<int64_t>::max() / 256)
    return Error("E0206", fmt::format("{} of shape {} has more elements than can be counted", label, ToString(dims)),
                 "the file is damaged");
  return OkStatus();
}

} // namespace

StatusOr<DType> DTypeFromCode(int64_t code) {
  if (code <= 0 || code >= kNumDTypes)
    return Error("E0403", fmt::format("element type {} is not one of ONNX's 1 to {}", code, kNumDTypes - 1),
                 code == 0 ? "the exporter left the type out" : "the model needs a newer version of this compiler");
  return static_cast<DType>(code);
}

StatusOr<Tensor> ReadTensor(const ::onnx::TensorProto &p, TensorSource &source) {
  auto dtype_or = DTypeFromCode(p.data_type());
  if (!dtype_or.ok())
    return Prefix(dtype_or.status(), Label(p));
  const DType dtype = *dtype_or;
  const llvm::SmallVector<int64_t, 4> dims(p.dims().begin(), p.dims().end());
  NPUC_RETURN_IF_ERROR(CheckDims(Label(p), dims));
  if (p.has_segment())
    return Error("E0402", fmt::format("{} is stored in segments", Label(p)), "store the tensor whole");
  const int64_t n = NumElements(dims);

  const bool external = p.data_location() == ::onnx::TensorProto::EXTERNAL;
  const bool raw = p.has_raw_data() || p.has_npuc_raw_index();
  const auto filled = FilledFields(p);
  if (external + raw + static_cast<int>(filled.size()) > 1)
    return Error("E0206", fmt::format("{} has its data in two places", Label(p)),
                 "keep one of raw_data, the typed fields and external data");
  if (!external && !raw)
    return FromTypedField(p, dtype, dims);
  if (dtype == DType::String)
    return Error("E0206", fmt::format("{} holds strings in {}", Label(p), external ? "external data" : "raw_data"),
                 "strings belong into string_data");

  const int64_t want = PackedBytes(dtype, n);
  ByteRange bytes;
  std::shared_ptr<const void> owner;
  if (external) {
    NPUC_ASSIGN_OR_RETURN(auto found, ReadExternalData(p, want, source));
    bytes = found.bytes;
    owner = found.owner;
  } else if (p.has_npuc_raw_index()) {
    NPUC_CHECK(p.npuc_raw_index() < source.raw.size());
    bytes = source.raw[p.npuc_raw_index()];
    owner = source.owner;
    if (source.copies)
      if (auto it = source.copies->find(p.npuc_raw_index()); it != source.copies->end() &&
                                                             it->second.dtype() == dtype &&
                                                             it->second.dims() == llvm::ArrayRef<int64_t>(dims))
        return it->second;
  } else {
    bytes = {reinterpret_cast<const uint8_t *>(p.raw_data().data()), p.raw_data().size()};
  }
  if (static_cast<int64_t>(bytes.size) != want)
    return Error("E0206",
                 fmt::format("{} of type {} and shape {} has {} bytes of data, not {}", Label(p), OnnxName(dtype),
                             ToString(dims), bytes.size, want),
                 "the file is damaged, or its exporter wrote a wrong shape");
  StatusOr<Tensor> t = FromRaw(dtype, dims, bytes, std::move(owner));
  if (source.copies && p.has_npuc_raw_index() && t.ok() && t->bytes() != bytes.data)
    source.copies->try_emplace(p.npuc_raw_index(), *t);
  return t;
}

StatusOr<Tensor> ReadSparseTensor(const ::onnx::SparseTensorProto &p, TensorSource &source) {
  const std::string label = fmt::format("sparse tensor '{}'", p.values().name());
  NPUC_ASSIGN_OR_RETURN(Tensor values, ReadTensor(p.values(), source));
  NPUC_ASSIGN_OR_RETURN(Tensor indices, ReadTensor(p.indices(), source));
  const llvm::SmallVector<int64_t, 4> dims(p.dims().begin(), p.dims().end());
  NPUC_RETURN_IF_ERROR(CheckDims(label, dims));
  const int64_t n = NumElements(dims), nnz = values.num_elements(), rank = static_cast<int64_t>(dims.size());
  if (values.dtype() == DType::String || n * ByteSize(values.dtype()) > kMaxDenseBytes)
    return Error("E0402", fmt::format("{} of shape {} is too large to be made dense", label, ToString(dims)));
  const bool linear = indices.rank() == 1;
  if (indices.dtype() != DType::I64 || values.rank() != 1 || indices.num_elements() != (linear ? nnz : nnz * rank) ||
      (!linear && (indices.rank() != 2 || indices.dims()[0] != nnz || indices.dims()[1] != rank)))
    return Error("E0206",
                 fmt::format("{} with {} values has indices of type {} and shape {}", label, nnz,
                             OnnxName(indices.dtype()), ToString(indices.dims())),
                 "indices are int64, [values] or [values, rank]");
  Tensor dense = Tensor::Allocate(values.dtype(), dims);
  const Dims strides = RowMajorStrides(dims);
  const int size = ByteSize(values.dtype());
  int64_t previous = -1;
  for (int64_t i = 0; i < nnz; ++i) {
    int64_t at = 0;
    bool inside = true;
    if (linear) {
      at = indices.data<int64_t>()[i];
      inside = at >= 0 && at < n;
    } else {
      for (int64_t k = 0; k < rank; ++k) {
        const int64_t x = indices.data<int64_t>()[i * rank + k];
        inside &= x >= 0 && x < dims[k];
        if (inside)
          at += x * strides[k];
      }
    }
    if (!inside || at <= previous)
      return Error("E0206", fmt::format("{} of shape {}: index {} is {}", label, ToString(dims), i,
                                        inside ? "not above the one before it" : "out of range"));
    previous = at;
    std::memcpy(dense.mutable_bytes() + at * size, values.bytes() + i * size, size);
  }
  return dense;
}

StatusOr<Type> TypeFromProto(const ::onnx::TypeProto &p) {
  auto shape_of = [](const ::onnx::TensorShapeProto &s) -> StatusOr<Shape> {
    Shape shape;
    for (const auto &d : s.dim()) {
      if (d.has_dim_value()) {
        // Some exporters write -1 or 0 for "any".
        if (d.dim_value() < -1)
          return Error("E0206", fmt::format("a declared shape has the extent {}", d.dim_value()));
        shape.push_back(d.dim_value() < 0 ? Dim::Unknown() : Dim(d.dim_value()));
      } else {
        shape.push_back(Dim::Symbol(d.dim_param()));
      }
    }
    return shape;
  };
  auto tensor = [&](const auto &t) -> StatusOr<Type> {
    DType dtype = DType::Undefined;
    if (t.elem_type() != 0) {
      NPUC_ASSIGN_OR_RETURN(dtype, DTypeFromCode(t.elem_type()));
    }
    Shape shape = Shape::Unranked();
    if (t.has_shape()) {
      NPUC_ASSIGN_OR_RETURN(shape, shape_of(t.shape()));
    }
    return Type::Tensor(dtype, shape);
  };
  switch (p.value_case()) {
  case ::onnx::TypeProto::kTensorType:
    return tensor(p.tensor_type());
  case ::onnx::TypeProto::kSparseTensorType:
    return tensor(p.sparse_tensor_type());
  case ::onnx::TypeProto::kSequenceType: {
    NPUC_ASSIGN_OR_RETURN(Type e, TypeFromProto(p.sequence_type().elem_type()));
    return Type::Sequence(e);
  }
  case ::onnx::TypeProto::kOptionalType: {
    NPUC_ASSIGN_OR_RETURN(Type e, TypeFromProto(p.optional_type().elem_type()));
    return Type::Optional(e);
  }
  case ::onnx::TypeProto::kMapType: {
    NPUC_ASSIGN_OR_RETURN(DType key, DTypeFromCode(p.map_type().key_type()));
    NPUC_ASSIGN_OR_RETURN(Type e, TypeFromProto(p.map_type().value_type()));
    return Type::Map(key, e);
  }
  case ::onnx::TypeProto::kOpaqueType:
    return Error("E0402",
                 fmt::format("the opaque type '{}' has no meaning outside its own runtime", p.opaque_type().name()));
  default:
    return Type();
  }
}

void WriteTensor(const Tensor &tensor, ::onnx::TensorProto *p) {
  p->set_data_type(static_cast<int>(tensor.dtype()));
  for (int64_t d : tensor.dims())
    p->add_dims(d);
  if (tensor.dtype() == DType::String) {
    for (const std::string &s : tensor.strings())
      p->add_string_data(s);
    return;
  }
  const Tensor t = tensor.Expand();
  const int64_t n = t.num_elements();
  std::string *raw = p->mutable_raw_data();
  if (BitWidth(t.dtype()) >= 8) {
    raw->assign(reinterpret_cast<const char *>(t.bytes()), n * ByteSize(t.dtype()));
    return;
  }
  const int bits = BitWidth(t.dtype()), per = 8 / bits;
  raw->assign(PackedBytes(t.dtype(), n), '\0');
  for (int64_t i = 0; i < n; ++i)
    (*raw)[i / per] = static_cast<char>(static_cast<uint8_t>((*raw)[i / per]) | (t.bytes()[i] & ((1 << bits) - 1))
                                                                                    << (i % per * bits));
}

} // namespace npuc::onnx_import
