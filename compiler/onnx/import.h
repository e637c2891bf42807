// ONNX model file -> Graph IR: every opset's meaning brought to the newest one, functions inlined, types inferred.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"

namespace npuc {

struct ImportOptions {
  // As on the command line, split at the first '=' whose left side is a known name:
  std::vector<std::string> dims;         // "batch=1": a symbolic dim
  std::vector<std::string> input_shapes; // "data=1x3x224x224"; "?" for a dim that stays free
  std::vector<std::string> binds; // "sr=16000", "mask=1,0,1", "w=@file.npy", "w=@file.pb": the input becomes a constant
  // The same, for callers that have the tensor.
  std::vector<std::pair<std::string, Tensor>> bind_tensors;
  // Compile only the part between these tensors (empty: the model's own). An input tensor's type is the one that
  // inference found.
  std::vector<std::string> inputs, outputs;
  // Weights that lie misaligned in the file are copied out of it; several imports of one file share the copies.
  std::shared_ptr<std::map<uint64_t, Tensor>> copies;
  // A leading dim of an input (of rank 2 or more) that is free and not given becomes 1, with a note.
  bool default_batch = true;
};

// The model as a verified module: nodes sorted, opsets adapted (see adapters.h), local functions inlined, optional
// operands null, result types inferred as far as they can be, unused initializers gone. Module::onnx_nodes() has every
// node of the model, those of bodies and of each function call included. Whatever is wrong with the model is in
// `diagnostics` when the result is an error (all unknown operators at once), with the file's base name; notes and
// warnings too. Codes: E0101, E02xx, E03xx, E04xx, E0105, E05xx (options).
StatusOr<std::unique_ptr<Module>> ImportModel(const std::string &path, const ImportOptions &options,
                                              DiagnosticEngine &diagnostics);
// From bytes; external data are looked for in `folder` ("": refused).
StatusOr<std::unique_ptr<Module>> ImportModel(MappedFile file, const std::string &folder, const ImportOptions &options,
                                              DiagnosticEngine &diagnostics);

} // namespace npuc
