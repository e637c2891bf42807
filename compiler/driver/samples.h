// Values of model inputs from files: what --input, --expect, --calib and --bind take.
//
//   .npy            a tensor                    .npz        the entry of the input's name, or the only one
//   .pb             TensorProto, SequenceProto, OptionalProto, MapProto, as the input's type says
//   PNG, JPEG       through Preprocess          other       raw little-endian elements of exactly the input's bytes
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/preprocess.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/status.h"
#include "compiler/types/type.h"

namespace npuc {

// The value in `path` for the input `name` of this type. Errors: E0101, E0103, E0104, E0206, E0403, E0701, E0702,
// naming the file. dtype and dims are not checked against the type (raw files and images always fit it). `own_name`
// (if wanted) receives the name that an ONNX .pb file gives its value.
StatusOr<EvalValue> ReadInputValue(const std::string &path, std::string_view name, const Type &type,
                                   const Preprocess &pre = {}, std::string *own_name = nullptr);

// Whether a value can be an input of this type: a tensor of its dtype and rank, extents free or equal; other kinds:
// true.
bool FitsType(const EvalValue &value, const Type &type);
// A tensor that leaves out leading 1s of the type (a [224,224] picture for [1,1,224,224]) gets them; true when it did.
bool AddLeadingOnes(EvalValue &value, const Type &type);

// Random, the same on every machine: floats uniform in [-1, 1), 8- and 16-bit integers over their range, wider ones 0
// or 1 (they are indices, masks and lengths), bool both; free dims become 1, free rank 0; sequences have one element.
// `stream` tells the inputs of one seed apart.
EvalValue RandomValue(const Type &type, uint64_t seed, uint64_t stream);

// NAME=FILE, split at the first '=' whose left side is in `names`; no such '=': name "".
struct NamedFile {
  std::string name, file;
};
NamedFile SplitNamedFile(const std::string &argument, const std::vector<std::string> &names);

} // namespace npuc
