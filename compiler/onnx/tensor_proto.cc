// TensorProto, SequenceProto, OptionalProto and MapProto files (test data, inputs and outputs of npu-run).
#include "compiler/onnx/tensor_proto.h"

#include <cstring>

#include "compiler/onnx/tensor_reader.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/npy.h"
#include "google/protobuf/io/coded_stream.h"
#include "onnx/onnx-data.pb.h"

namespace npuc {
namespace {

using onnx_import::ReadSparseTensor;
using onnx_import::ReadTensor;
using onnx_import::TensorSource;
using onnx_import::WriteTensor;

enum ElementKind { kTensor = 1, kSparse = 2, kSequence = 3, kMap = 4, kOptional = 5 };

StatusOr<EvalValue> FromSequence(const ::onnx::SequenceProto &p, TensorSource &source);
StatusOr<EvalValue> FromOptional(const ::onnx::OptionalProto &p, TensorSource &source);

StatusOr<EvalValue> FromMap(const ::onnx::MapProto &p, TensorSource &source) {
  auto map = std::make_shared<EvalMap>();
  for (int64_t k : p.keys())
    map->keys.emplace_back(k);
  for (const std::string &k : p.string_keys())
    map->keys.emplace_back(k);
  NPUC_ASSIGN_OR_RETURN(EvalValue values, FromSequence(p.values(), source));
  map->values = *values.sequence();
  if (map->keys.size() != map->values.size())
    return Error("E0103", fmt::format("a map has {} keys and {} values", map->keys.size(), map->values.size()));
  EvalValue v;
  v.v = std::shared_ptr<const EvalMap>(std::move(map));
  return v;
}

StatusOr<EvalValue> FromSequence(const ::onnx::SequenceProto &p, TensorSource &source) {
  EvalSequence list;
  auto add = [&](StatusOr<EvalValue> v) -> Status {
    if (!v.ok())
      return v.status();
    list.push_back(std::move(*v));
    return OkStatus();
  };
  auto wrap = [](StatusOr<Tensor> t) -> StatusOr<EvalValue> {
    if (!t.ok())
      return t.status();
    return EvalValue(std::move(*t));
  };
  for (const auto &t : p.tensor_values())
    NPUC_RETURN_IF_ERROR(add(wrap(ReadTensor(t, source))));
  for (const auto &t : p.sparse_tensor_values())
    NPUC_RETURN_IF_ERROR(add(wrap(ReadSparseTensor(t, source))));
  for (const auto &s : p.sequence_values())
    NPUC_RETURN_IF_ERROR(add(FromSequence(s, source)));
  for (const auto &m : p.map_values())
    NPUC_RETURN_IF_ERROR(add(FromMap(m, source)));
  for (const auto &o : p.optional_values())
    NPUC_RETURN_IF_ERROR(add(FromOptional(o, source)));
  EvalValue v;
  v.v = std::make_shared<const EvalSequence>(std::move(list));
  return v;
}

StatusOr<EvalValue> FromOptional(const ::onnx::OptionalProto &p, TensorSource &source) {
  switch (p.elem_type()) {
  case kTensor: {
    if (!p.has_tensor_value())
      return EvalValue();
    NPUC_ASSIGN_OR_RETURN(Tensor t, ReadTensor(p.tensor_value(), source));
    return EvalValue(std::move(t));
  }
  case kSparse: {
    if (!p.has_sparse_tensor_value())
      return EvalValue();
    NPUC_ASSIGN_OR_RETURN(Tensor t, ReadSparseTensor(p.sparse_tensor_value(), source));
    return EvalValue(std::move(t));
  }
  case kSequence:
    return p.has_sequence_value() ? FromSequence(p.sequence_value(), source) : StatusOr<EvalValue>(EvalValue());
  case kMap:
    return p.has_map_value() ? FromMap(p.map_value(), source) : StatusOr<EvalValue>(EvalValue());
  case kOptional:
    return p.has_optional_value() ? FromOptional(p.optional_value(), source) : StatusOr<EvalValue>(EvalValue());
  default:
    return EvalValue();
  }
}

template <class Message> Status Parse(std::string_view bytes, Message &m, std::string_view what) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()),
                                                static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX)));
  if (bytes.size() > INT32_MAX || !m.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return Error("E0103", fmt::format("not a serialised {}, or a damaged one", what));
  return OkStatus();
}

bool IsSequence(const Type &t) {
  return t.kind() == Type::Kind::Sequence;
}

void ToSequence(const EvalSequence &list, const Type &type, ::onnx::SequenceProto *p);

void ToMap(const EvalMap &map, const Type &type, ::onnx::MapProto *p) {
  bool strings = type.kind() == Type::Kind::Map && type.dtype() == DType::String;
  for (const auto &k : map.keys) {
    if (auto *i = std::get_if<int64_t>(&k)) {
      p->add_keys(*i);
    } else {
      p->add_string_keys(std::get<std::string>(k));
      strings = true;
    }
  }
  p->set_key_type(static_cast<int>(strings ? DType::String : DType::I64));
  ToSequence(map.values, type.kind() == Type::Kind::Map ? Type::Sequence(type.element()) : Type(), p->mutable_values());
}

const EvalMap *MapOf(const EvalValue &v) {
  auto *p = std::get_if<std::shared_ptr<const EvalMap>>(&v.v);
  return p ? p->get() : nullptr;
}

void ToOptional(const EvalValue &v, const Type &type, ::onnx::OptionalProto *p) {
  const Type element = type.kind() == Type::Kind::Optional ? type.element() : Type();
  if (const Tensor *t = v.tensor()) {
    p->set_elem_type(kTensor);
    WriteTensor(*t, p->mutable_tensor_value());
  } else if (const EvalSequence *s = v.sequence()) {
    p->set_elem_type(kSequence);
    ToSequence(*s, element, p->mutable_sequence_value());
  } else if (const EvalMap *m = MapOf(v)) {
    p->set_elem_type(kMap);
    ToMap(*m, element, p->mutable_map_value());
  } else {
    p->set_elem_type(0);
  }
}

void ToSequence(const EvalSequence &list, const Type &type, ::onnx::SequenceProto *p) {
  const Type element = IsSequence(type) ? type.element() : Type();
  int kind = IsSequence(element)                      ? kSequence
             : element.kind() == Type::Kind::Map      ? kMap
             : element.kind() == Type::Kind::Optional ? kOptional
                                                      : kTensor;
  for (const EvalValue &v : list) {
    if (kind != kOptional && v.sequence())
      kind = kSequence;
    if (kind != kOptional && MapOf(v))
      kind = kMap;
  }
  p->set_elem_type(kind);
  for (const EvalValue &v : list) {
    if (kind == kOptional)
      ToOptional(v, element, p->add_optional_values());
    else if (const EvalSequence *s = v.sequence())
      ToSequence(*s, element, p->add_sequence_values());
    else if (const EvalMap *m = MapOf(v))
      ToMap(*m, element, p->add_map_values());
    else if (const Tensor *t = v.tensor())
      WriteTensor(*t, p->add_tensor_values());
  }
}

} // namespace

StatusOr<EvalValue> ParseValueProto(std::string_view bytes, const Type &type, std::string *name) {
  TensorSource source;
  auto note_name = [&](const auto &p) {
    if (name)
      *name = p.name();
  };
  switch (type.kind()) {
  case Type::Kind::Sequence: {
    ::onnx::SequenceProto p;
    NPUC_RETURN_IF_ERROR(Parse(bytes, p, "SequenceProto"));
    note_name(p);
    return FromSequence(p, source);
  }
  case Type::Kind::Optional: {
    ::onnx::OptionalProto p;
    NPUC_RETURN_IF_ERROR(Parse(bytes, p, "OptionalProto"));
    note_name(p);
    return FromOptional(p, source);
  }
  case Type::Kind::Map: {
    ::onnx::MapProto p;
    NPUC_RETURN_IF_ERROR(Parse(bytes, p, "MapProto"));
    note_name(p);
    return FromMap(p, source);
  }
  default:
    break;
  }
  ::onnx::TensorProto p;
  NPUC_RETURN_IF_ERROR(Parse(bytes, p, "TensorProto"));
  if (p.has_npuc_raw_index())
    return Error("E0103", "not a serialised TensorProto");
  note_name(p);
  NPUC_ASSIGN_OR_RETURN(Tensor t, ReadTensor(p, source));
  return EvalValue(std::move(t));
}

StatusOr<EvalValue> ReadValueFile(const std::string &path, const Type &type, std::string *name) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto v = ParseValueProto(file.text(), type, name);
  if (!v.ok())
    return AtFile(v.status(), path);
  return v;
}

StatusOr<Tensor> TensorFromNpy(const NpyArray &a, std::string_view name) {
  DType dtype = DType::Undefined;
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"<f4", DType::F32},  {"<f8", DType::F64}, {"<f2", DType::F16}, {"|u1", DType::U8},   {"|i1", DType::I8},
      {"|b1", DType::Bool}, {"<u2", DType::U16}, {"<i2", DType::I16}, {"<u4", DType::U32},  {"<i4", DType::I32},
      {"<u8", DType::U64},  {"<i8", DType::I64}, {"<c8", DType::C64}, {"<c16", DType::C128}};
  for (const auto &[descr, t] : kTypes)
    if (a.descr == descr)
      dtype = t;
  if (dtype == DType::Undefined)
    return Error("E0403", fmt::format("array '{}' has NumPy type '{}', which no tensor has", name, a.descr),
                 "convert it with numpy's astype");
  if (a.bytes.empty() || reinterpret_cast<uintptr_t>(a.bytes.data()) % std::min(ByteSize(dtype), 8) == 0)
    return Tensor::View(dtype, a.shape, a.bytes.data(), a.owner);
  Tensor t = Tensor::Allocate(dtype, a.shape);
  std::memcpy(t.mutable_bytes(), a.bytes.data(), a.bytes.size());
  return t;
}

StatusOr<Tensor> ReadTensorFile(const std::string &path) {
  if (path.size() > 4 && path.substr(path.size() - 4) == ".npy") {
    NPUC_ASSIGN_OR_RETURN(NpyArray array, ReadNpy(path));
    return TensorFromNpy(array, path);
  }
  NPUC_ASSIGN_OR_RETURN(EvalValue v, ReadValueFile(path, Type()));
  return *v.tensor();
}

std::string SerializeValueProto(const EvalValue &value, const Type &type, std::string_view name) {
  std::string out;
  auto finish = [&](auto &p) {
    p.set_name(std::string(name));
    // Deterministic: no maps in these messages.
    p.SerializeToString(&out);
  };
  if (type.kind() == Type::Kind::Optional || (!value.has_value() && type.is_none())) {
    ::onnx::OptionalProto p;
    ToOptional(value, type, &p);
    finish(p);
  } else if (const EvalSequence *s = value.sequence()) {
    ::onnx::SequenceProto p;
    ToSequence(*s, type, &p);
    finish(p);
  } else if (const EvalMap *m = MapOf(value)) {
    ::onnx::MapProto p;
    ToMap(*m, type, &p);
    finish(p);
  } else {
    ::onnx::TensorProto p;
    if (const Tensor *t = value.tensor())
      WriteTensor(*t, &p);
    finish(p);
  }
  return out;
}

Status WriteValueFile(const std::string &path, const EvalValue &value, const Type &type, std::string_view name) {
  return WriteFile(path, SerializeValueProto(value, type, name));
}

} // namespace npuc
