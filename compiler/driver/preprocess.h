// How an image becomes the value of a model input: one YAML file for npuc, npu-run and npu-quant (docs/preprocess.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/image.h"
#include "compiler/support/status.h"
#include "compiler/types/tensor.h"
#include "compiler/types/type.h"

namespace npuc {

// The steps in their order; all keys are optional:
//
//   frame: {format: nv12, size: [480, 640], matrix: bt601, range: limited}   # files that are raw camera frames
//   color: rgb               # rgb, bgr, gray, rgba or bgra
//   resize: [256, 256]       # height, width; one number: the shorter side, the other in proportion
//   crop: [224, 224]         # from the centre
//   letterbox: {size: [416, 416], pad: 114, align: center}   # instead of resize and crop: keeps proportions, pads
//   interpolation: bilinear  # or nearest; half-pixel centres
//   scale: 0.00392156862     # value = (pixel * scale - mean) / std; default 1/255 for float inputs, 1 for integer ones
//   mean: [0.485, 0.456, 0.406]   # one number, or one per channel in the order of `color`
//   std: [0.229, 0.224, 0.225]
//   layout: nchw             # nchw or nhwc; default: where the input's dims have an image's channels
//   inputs: {depth: {color: gray}}   # other keys for single inputs: they replace all of the above
//
// What is left out of resize, crop and letterbox follows from the input's static height and width.
struct Preprocess {
  enum class Color : uint8_t { Rgb, Bgr, Gray, Rgba, Bgra };
  enum class Layout : uint8_t { Guess, Nchw, Nhwc };
  enum class Interpolation : uint8_t { Bilinear, Nearest };
  enum class FrameFormat : uint8_t { Nv12, Nv21, I420, Yuyv, Uyvy };

  struct Frame {
    FrameFormat format = FrameFormat::Nv12;
    int height = 0, width = 0; // even
    bool bt709 = false, full_range = false;
    int64_t bytes() const;
  };
  struct Letterbox {
    std::optional<std::array<int64_t, 2>> size; // none: the input's
    std::vector<float> pad = {0};               // pixel values: one, or one per channel
    bool centered = true;                       // else the image stays at the top left
  };

  std::optional<Frame> frame;
  std::optional<Color> color;
  std::vector<int64_t> resize; // none, {shorter side} or {height, width}
  std::optional<std::array<int64_t, 2>> crop;
  std::optional<Letterbox> letterbox;
  Interpolation interpolation = Interpolation::Bilinear;
  std::optional<double> scale;
  std::vector<float> mean, std; // none, one or one per channel
  Layout layout = Layout::Guess;

  std::map<std::string, Preprocess, std::less<>> inputs;
  const Preprocess &For(std::string_view input) const;
};

// Errors: E0101, E0508 with file:line:column.
StatusOr<Preprocess> ReadPreprocess(const std::string &path);

// A raw camera frame of exactly frame.bytes() as RGB. The matrix is applied in f32 and rounded to 8 bits; chroma is
// that of the nearest sample.
Image DecodeFrame(std::span<const uint8_t> bytes, const Preprocess::Frame &frame);

// An image as the value of the input `name` of type [N,C,H,W] or [N,H,W,C] (N free or 1; rank 3 without N). Quantised
// types: quantised with their parameters. All arithmetic is f32 in a fixed order: one file gives the same bits
// everywhere. Errors: E0702 when the type does not fit an image or the image's size the type.
StatusOr<Tensor> TensorFromImage(const Image &image, std::string_view name, const Type &type, const Preprocess &pre);

} // namespace npuc
