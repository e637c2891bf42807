// A model file in memory: the parsed message without bulk data, and where the bulk data are.
#pragma once

#include <memory>
#include <string>

#include "compiler/onnx/tensor_reader.h"
#include "compiler/support/mapped_file.h"

namespace npuc::onnx_import {

struct ModelFile {
  std::string path, base_name;
  ::onnx::ModelProto proto;
  TensorSource tensors;
};

// E0101: unreadable file; E0201: not an ONNX model.
StatusOr<std::unique_ptr<ModelFile>> ReadModelFile(const std::string &path);
// The same from bytes; external data are looked for in `folder` unless that is empty.
StatusOr<std::unique_ptr<ModelFile>> ParseModel(MappedFile file, const std::string &folder);

} // namespace npuc::onnx_import
