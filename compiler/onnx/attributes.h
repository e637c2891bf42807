// AttributeProto -> Attribute, and the check of a node's attributes against its operator's schema.
#pragma once

#include "compiler/ir/op_def.h"
#include "compiler/onnx/tensor_reader.h"

namespace npuc::onnx_import {

// The attribute's kind: its type field, or the value field that is set where an old exporter left type out. nullopt:
// nothing set. E0203 when type and value disagree.
StatusOr<std::optional<AttrKind>> KindOf(const ::onnx::AttributeProto &a);

// The value, graphs excepted. `expected` decides what an attribute without type and value is (an empty list).
StatusOr<Attribute> ReadAttribute(const ::onnx::AttributeProto &a, AttrKind kind, TensorSource &source);

// E0203 when an attribute that is read before the operator's schema is looked up (by adapters) is of another kind than
// ONNX gives its name everywhere.
Status CheckReadKinds(const AttributeList &attrs, std::string_view op);

// Every attribute against op.attrs: E0203 for a wrong kind or a missing required one. Names that the schema does not
// know are erased and returned.
StatusOr<std::vector<std::string>> CheckAttributes(const OpDef &op, AttributeList &attrs);

std::string_view KindName(AttrKind kind);

} // namespace npuc::onnx_import
