// Attributes of a node, from protobuf to the IR's list, checked against the operator's schema.
#include "compiler/onnx/attributes.h"

#include "compiler/support/diagnostic.h"

namespace npuc::onnx_import {
namespace {

using Proto = ::onnx::AttributeProto;

std::optional<AttrKind> FromTypeField(int type) {
  switch (type) {
  case Proto::FLOAT:
    return AttrKind::Float;
  case Proto::INT:
    return AttrKind::Int;
  case Proto::STRING:
    return AttrKind::String;
  case Proto::TENSOR:
  case Proto::SPARSE_TENSOR:
    return AttrKind::Tensor;
  case Proto::GRAPH:
    return AttrKind::Graph;
  case Proto::FLOATS:
    return AttrKind::Floats;
  case Proto::INTS:
    return AttrKind::Ints;
  case Proto::STRINGS:
    return AttrKind::Strings;
  case Proto::TENSORS:
  case Proto::SPARSE_TENSORS:
    return AttrKind::Tensors;
  case Proto::TYPE_PROTO:
    return AttrKind::Type;
  default:
    return std::nullopt;
  }
}

llvm::SmallVector<AttrKind, 2> FilledKinds(const Proto &a) {
  llvm::SmallVector<AttrKind, 2> k;
  if (a.has_f())
    k.push_back(AttrKind::Float);
  if (a.has_i())
    k.push_back(AttrKind::Int);
  if (a.has_s())
    k.push_back(AttrKind::String);
  if (a.has_t() || a.has_sparse_tensor())
    k.push_back(AttrKind::Tensor);
  if (a.has_g())
    k.push_back(AttrKind::Graph);
  if (a.has_tp())
    k.push_back(AttrKind::Type);
  if (a.floats_size())
    k.push_back(AttrKind::Floats);
  if (a.ints_size())
    k.push_back(AttrKind::Ints);
  if (a.strings_size())
    k.push_back(AttrKind::Strings);
  if (a.tensors_size() || a.sparse_tensors_size())
    k.push_back(AttrKind::Tensors);
  return k;
}

AttrKind KindOf(const Attribute &a) {
  static constexpr AttrKind kinds[] = {AttrKind::Int,    AttrKind::Float,  AttrKind::String,
                                       AttrKind::Ints,   AttrKind::Floats, AttrKind::Strings,
                                       AttrKind::Tensor, AttrKind::Type,   AttrKind::Tensors};
  return kinds[a.index()];
}

} // namespace

std::string_view KindName(AttrKind kind) {
  static constexpr std::string_view names[] = {"an int",  "a float",  "a string", "ints",   "floats",
                                               "strings", "a tensor", "a graph",  "a type", "tensors"};
  return names[static_cast<int>(kind)];
}

StatusOr<std::optional<AttrKind>> KindOf(const Proto &a) {
  const auto filled = FilledKinds(a);
  if (a.graphs_size() || a.type_protos_size())
    return Error("E0402",
                 fmt::format("attribute '{}' is a list of {}", a.name(), a.graphs_size() ? "graphs" : "types"));
  if (a.has_type() && a.type() != Proto::UNDEFINED) {
    auto kind = FromTypeField(a.type());
    if (!kind)
      return Error("E0203",
                   fmt::format("attribute '{}' has the unknown type {}", a.name(), static_cast<int>(a.type())));
    for (AttrKind f : filled)
      if (f != *kind)
        return Error("E0203",
                     fmt::format("attribute '{}' is declared {} but holds {}", a.name(), KindName(*kind), KindName(f)),
                     "the exporter wrote the value into the wrong field");
    return kind;
  }
  if (filled.size() > 1)
    return Error("E0203",
                 fmt::format("attribute '{}' holds {} and {}", a.name(), KindName(filled[0]), KindName(filled[1])));
  return filled.empty() ? std::optional<AttrKind>() : filled[0];
}

StatusOr<Attribute> ReadAttribute(const Proto &a, AttrKind kind, TensorSource &source) {
  switch (kind) {
  case AttrKind::Int:
    return Attribute(int64_t{a.i()});
  case AttrKind::Float:
    return Attribute(a.f());
  case AttrKind::String:
    return Attribute(a.s());
  case AttrKind::Ints:
    return Attribute(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
  case AttrKind::Floats:
    return Attribute(std::vector<float>(a.floats().begin(), a.floats().end()));
  case AttrKind::Strings:
    return Attribute(std::vector<std::string>(a.strings().begin(), a.strings().end()));
  case AttrKind::Tensor: {
    NPUC_ASSIGN_OR_RETURN(Tensor t, a.has_sparse_tensor() ? ReadSparseTensor(a.sparse_tensor(), source)
                                                          : ReadTensor(a.t(), source));
    return Attribute(std::move(t));
  }
  case AttrKind::Tensors: {
    std::vector<Tensor> list;
    for (const auto &t : a.tensors()) {
      NPUC_ASSIGN_OR_RETURN(Tensor one, ReadTensor(t, source));
      list.push_back(std::move(one));
    }
    for (const auto &t : a.sparse_tensors()) {
      NPUC_ASSIGN_OR_RETURN(Tensor one, ReadSparseTensor(t, source));
      list.push_back(std::move(one));
    }
    return Attribute(std::move(list));
  }
  case AttrKind::Type: {
    NPUC_ASSIGN_OR_RETURN(Type t, TypeFromProto(a.tp()));
    return Attribute(std::move(t));
  }
  case AttrKind::Graph:
    break;
  }
  NPUC_CHECK(false, "graphs are bodies, not attributes");
  return Attribute();
}

Status CheckReadKinds(const AttributeList &attrs, std::string_view op) {
  static constexpr std::pair<std::string_view, AttrKind> kKinds[] = {
      {"alpha", AttrKind::Float},
      {"beta", AttrKind::Float},
      {"epsilon", AttrKind::Float},
      {"height_scale", AttrKind::Float},
      {"mask_filter_value", AttrKind::Float},
      {"max", AttrKind::Float},
      {"min", AttrKind::Float},
      {"momentum", AttrKind::Float},
      {"scale", AttrKind::Float},
      {"width_scale", AttrKind::Float},
      {"bias", AttrKind::Floats},
      {"scales", AttrKind::Floats},
      {"K", AttrKind::Int},
      {"N", AttrKind::Int},
      {"axis", AttrKind::Int},
      {"bits", AttrKind::Int},
      {"block_size", AttrKind::Int},
      {"broadcast", AttrKind::Int},
      {"do_rotary", AttrKind::Int},
      {"k", AttrKind::Int},
      {"num_groups", AttrKind::Int},
      {"num_heads", AttrKind::Int},
      {"num_scan_inputs", AttrKind::Int},
      {"past_present_share_buffer", AttrKind::Int},
      {"spatial", AttrKind::Int},
      {"unidirectional", AttrKind::Int},
      {"axes", AttrKind::Ints},
      {"dilations", AttrKind::Ints},
      {"ends", AttrKind::Ints},
      {"kernel_shape", AttrKind::Ints},
      {"output_padding", AttrKind::Ints},
      {"output_shape", AttrKind::Ints},
      {"paddings", AttrKind::Ints},
      {"pads", AttrKind::Ints},
      {"qkv_hidden_sizes", AttrKind::Ints},
      {"scan_input_axes", AttrKind::Ints},
      {"shape", AttrKind::Ints},
      {"split", AttrKind::Ints},
      {"starts", AttrKind::Ints},
      {"strides", AttrKind::Ints},
      {"auto_pad", AttrKind::String},
      {"coordinate_transformation_mode", AttrKind::String},
      {"default_string", AttrKind::String},
      {"mode", AttrKind::String},
      {"y", AttrKind::String},
      {"classes_strings", AttrKind::Strings},
      {"xs", AttrKind::Strings},
  };
  for (const auto &e : attrs)
    for (const auto &[name, kind] : kKinds)
      if (e.name == name && KindOf(e.value) != kind)
        return Error("E0203", fmt::format("attribute '{}' is {}; {} takes {}", e.name, KindName(KindOf(e.value)), op,
                                          KindName(kind)));
  return OkStatus();
}

StatusOr<std::vector<std::string>> CheckAttributes(const OpDef &op, AttributeList &attrs) {
  std::vector<std::string> unknown;
  for (const auto &e : attrs) {
    const AttrSpec *spec = nullptr;
    for (const AttrSpec &s : op.attrs)
      if (s.name == e.name)
        spec = &s;
    if (!spec) {
      unknown.push_back(e.name);
    } else if (KindOf(e.value) != spec->kind) {
      return Error("E0203", fmt::format("attribute '{}' is {}; {} takes {}", e.name, KindName(KindOf(e.value)), op.name,
                                        KindName(spec->kind)));
    }
  }
  for (const std::string &name : unknown)
    attrs.Erase(name);
  for (const AttrSpec &s : op.attrs)
    if (s.required && s.kind != AttrKind::Graph && !attrs.Has(s.name))
      return Error("E0203", fmt::format("the required attribute '{}' is missing", s.name));
  return unknown;
}

} // namespace npuc::onnx_import
