// Values of model inputs from files: what --input, --expect, --calib and --bind take.
//
//   .npy            a tensor                    .npz        the entry of the input's name, or the only one
//   .pb             TensorProto, SequenceProto, OptionalProto, MapProto, as the input's type says
//   PNG, JPEG       through Preprocess          other       raw little-endian elements of exactly the input's bytes
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/support/image.h"
#include "compiler/support/status.h"
#include "compiler/types/type.h"

namespace npuc {

// How an image becomes the input, in this order; a YAML file with these keys, all optional:
//   color: rgb             # rgb, bgr or gray
//   resize: [256, 256]     # height, width; one number: the shorter side, the other in proportion. Bilinear, half-pixel
//   centres crop: [224, 224]       # from the centre scale: 0.00392156862   # value = (pixel * scale - mean) / std;
//   default 1/255 for float inputs, 1 for integer ones mean: [0.485, 0.456, 0.406]   # one number, or one per channel
//   std: [0.229, 0.224, 0.225]
//   layout: nchw           # nchw or nhwc; default: where the input's dims have 1 or 3 channels
// What is left out of resize and crop follows from the input's static height and width.
struct Preprocess {
  enum class Color : uint8_t { Rgb, Bgr, Gray };
  enum class Layout : uint8_t { Guess, Nchw, Nhwc };
  std::optional<Color> color;
  std::vector<int64_t> resize; // none, {shorter side} or {height, width}
  std::optional<std::array<int64_t, 2>> crop;
  std::optional<double> scale;
  std::vector<float> mean, std; // none, one or one per channel
  Layout layout = Layout::Guess;
};
// Errors: E0101, E0508 with file:line:column.
StatusOr<Preprocess> ReadPreprocess(const std::string &path);

// An image as the value of an input of type [N,C,H,W] or [N,H,W,C] (N free or 1; rank 3 without N). Quantised types:
// quantised with their parameters. E0702 when the type does not fit an image or the image's size the type.
StatusOr<Tensor> TensorFromImage(const Image &image, std::string_view name, const Type &type, const Preprocess &pre);

// The value in `path` for the input `name` of this type. Errors: E0101, E0103, E0104, E0206, E0403, E0701, E0702,
// naming the file. dtype and dims are not checked against the type (raw files and images always fit it).
StatusOr<EvalValue> ReadInputValue(const std::string &path, std::string_view name, const Type &type,
                                   const Preprocess &pre = {});

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
