// The protobuf wire format of a model file, walked before protobuf parses it: bulk data stays where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace npuc::onnx_import {

struct ByteRange {
  const uint8_t *data = nullptr;
  size_t size = 0;
};

// A model's bytes without its bulk data. In each TensorProto of `bytes` a long raw_data is replaced by the field
// npuc_raw_index (cmake/NpucOnnxProto.cmake), an index into `raw`, whose ranges point into the input.
struct SlimModel {
  std::string bytes;
  std::vector<ByteRange> raw;
};

// Nesting of graphs in graphs beyond which a file is refused.
inline constexpr int kMaxGraphDepth = 64;
// Messages nest at most this deep in what Slim accepts (protobuf's own limit must not be below).
inline constexpr int kMaxMessageDepth = 4 * kMaxGraphDepth + 32;

// Walks a serialised ModelProto. E0201 when the bytes are not well formed, are cut short, or nest too deep.
StatusOr<SlimModel> SlimDown(ByteRange model);

} // namespace npuc::onnx_import
