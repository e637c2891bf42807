// External data of tensors: files beside the model, never outside its folder.
#pragma once

#include "compiler/onnx/tensor_reader.h"

namespace npuc::onnx_import {

// The bytes that proto.external_data names. E0105: missing file or key, offset or length out of the file; E0208: a
// location that is absolute, climbs out with "..", or leads out of the model's folder through a symbolic link.
// `expected`: bytes the tensor needs, used when no length is given.
StatusOr<TensorSource::External> ReadExternalData(const ::onnx::TensorProto &proto, size_t expected,
                                                  TensorSource &source);

} // namespace npuc::onnx_import
