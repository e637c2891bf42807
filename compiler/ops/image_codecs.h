// WebP and JPEG 2000, by the libraries; and what all decoders of images share.
#pragma once

#include <span>

#include "compiler/support/image.h"

namespace npuc::ops {

constexpr int64_t kMaxPixels = int64_t{1} << 28;
// E0104, with the formats that are read.
Status BadImage(std::string_view what);
// Three channels, zeros. E0104 beyond kMaxPixels.
StatusOr<Image> NewRgbImage(int64_t width, int64_t height);

// By the first bytes; both false for other files.
bool IsWebp(std::span<const uint8_t> b);
bool IsJpeg2000(std::span<const uint8_t> b); // a JP2 file or a bare code stream

// As RGB. E0104 when the file is damaged, of more than 2^28 pixels, or of colours or depths that are not read.
StatusOr<Image> DecodeWebp(std::span<const uint8_t> b);
StatusOr<Image> DecodeJpeg2000(std::span<const uint8_t> b);

} // namespace npuc::ops
