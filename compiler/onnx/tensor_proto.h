// Values in ONNX's own files: TensorProto, SequenceProto, OptionalProto, MapProto <-> EvalValue. No protobuf in this
// header.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/op_def.h"
#include "compiler/support/npy.h"

namespace npuc {

// A serialised message of the proto that `type` says: tensor, sequence, optional or map. Type None means a tensor. An
// empty optional is the empty EvalValue. E0103: damaged, or not that message; E0206: data that do not fit; external
// data are refused. `name` (if wanted) receives the message's own name field.
StatusOr<EvalValue> ParseValueProto(std::string_view bytes, const Type &type, std::string *name = nullptr);
StatusOr<EvalValue> ReadValueFile(const std::string &path, const Type &type, std::string *name = nullptr);
// A NumPy array as a tensor (shares the bytes where they are aligned). E0403: a type that no tensor has.
StatusOr<Tensor> TensorFromNpy(const NpyArray &array, std::string_view name);
// A tensor from a .npy or TensorProto (.pb, anything else) file.
StatusOr<Tensor> ReadTensorFile(const std::string &path);

// The message for a value of this type (with None, a value's own kind decides), `name` in its name field.
std::string SerializeValueProto(const EvalValue &value, const Type &type, std::string_view name);
// E0102
Status WriteValueFile(const std::string &path, const EvalValue &value, const Type &type, std::string_view name);

} // namespace npuc
