// PNG and JPEG files as bytes.
#pragma once

#include "compiler/support/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npuc {

struct Image {
  int width = 0, height = 0;
  int channels = 0;            // 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
  std::vector<uint8_t> pixels; // height x width x channels, rows from the top
};

// Decodes by content, not by name. `channels`: 0 keeps the file's; 1 or 3 converts (alpha is dropped, not blended; grey
// is 0.299 R + 0.587 G + 0.114 B, rounded). 16-bit PNGs keep their high bytes, palettes are expanded, CMYK JPEGs become
// RGB. EXIF orientation is not applied. Errors: E0104, also for more than 2^28 pixels; ReadImage: E0101 too.
StatusOr<Image> DecodeImage(std::span<const uint8_t> bytes, std::string_view name, int channels = 0);
StatusOr<Image> ReadImage(const std::string &path, int channels = 0);

// Whether a file's first bytes are a PNG's or JPEG's.
bool LooksLikeImage(std::span<const uint8_t> bytes);

} // namespace npuc
