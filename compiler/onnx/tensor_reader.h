// TensorProto -> Tensor, with its bytes from the message, from the mapped model file, or from external data files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/onnx/wire.h"
#include "compiler/types/tensor.h"
#include "compiler/types/type.h"
#include "onnx/onnx.pb.h"

namespace npuc::onnx_import {

// Where the bytes of a model's tensors are.
struct TensorSource {
  std::shared_ptr<const void> owner; // keeps `raw` alive
  std::vector<ByteRange> raw;        // what TensorProto.npuc_raw_index indexes
  // Copies made of misaligned raw data by index, kept for the next import of the same file; may be null.
  std::shared_ptr<std::map<uint64_t, Tensor>> copies;
  std::string folder; // external data lies in here; empty: external data is refused
  // External files mapped so far, by location.
  struct External {
    std::shared_ptr<const void> owner;
    ByteRange bytes;
  };
  std::map<std::string, External> external;
};

// Dense tensor of a TensorProto. Data that lie aligned in a mapped file are viewed, other data copied once. Sub-byte
// types are unpacked to one element a byte. E0206: data that do not fit dtype and dims; E0105, E0208: external data.
StatusOr<Tensor> ReadTensor(const ::onnx::TensorProto &proto, TensorSource &source);
// The dense tensor of a sparse one.
StatusOr<Tensor> ReadSparseTensor(const ::onnx::SparseTensorProto &proto, TensorSource &source);

// dtype of a TensorProto.DataType code; E0403 when it is unknown.
StatusOr<DType> DTypeFromCode(int64_t code);

// TypeProto -> Type; None when the message says nothing. E0402 for opaque types.
StatusOr<Type> TypeFromProto(const ::onnx::TypeProto &proto);

// Tensor -> TensorProto with raw_data (string_data for strings), sub-byte types packed.
void WriteTensor(const Tensor &tensor, ::onnx::TensorProto *proto);

} // namespace npuc::onnx_import
