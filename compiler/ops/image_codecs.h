// WebP and JPEG 2000, by the libraries.
#pragma once

#include <span>

#include "compiler/support/image.h"

namespace npuc::ops {

// By the first bytes; both false for other files.
bool IsWebp(std::span<const uint8_t> b);
bool IsJpeg2000(std::span<const uint8_t> b); // a JP2 file or a bare code stream

// As RGB. E0104 when the file is damaged, of more than 2^28 pixels, or of colours or depths that are not read.
StatusOr<Image> DecodeWebp(std::span<const uint8_t> b);
StatusOr<Image> DecodeJpeg2000(std::span<const uint8_t> b);

} // namespace npuc::ops
