// Both libraries report errors by longjmp. It stays inside the two functions that call setjmp; they hold nothing but
// plain pointers, and all that owns memory lives in their caller.
#include "compiler/support/image.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>
#include <png.h>

namespace npuc {
namespace {

constexpr uint64_t kMaxPixels = uint64_t{1} << 28;

struct Decoded {
  Image image;
  std::vector<uint8_t *> rows;
  std::string error;
  bool adobe = false; // CMYK is stored inverted: 255 is no ink

  bool Allocate(uint64_t width, uint64_t height, int channels) {
    if (width == 0 || height == 0 || width > kMaxPixels || height > kMaxPixels || width * height > kMaxPixels) {
      error = fmt::format("{} x {} pixels are more than 2^28", width, height);
      return false;
    }
    image.width = static_cast<int>(width);
    image.height = static_cast<int>(height);
    image.channels = channels;
    image.pixels.resize(width * height * static_cast<size_t>(channels));
    rows.resize(height);
    for (size_t y = 0; y < height; ++y)
      rows[y] = image.pixels.data() + y * width * static_cast<size_t>(channels);
    return true;
  }
};

// ---- PNG

struct PngSource {
  const uint8_t *data;
  size_t left;
};

void PngRead(png_structp png, png_bytep out, size_t n) {
  auto *source = static_cast<PngSource *>(png_get_io_ptr(png));
  if (n > source->left)
    png_error(png, "the file ends too early");
  std::memcpy(out, source->data, n);
  source->data += n;
  source->left -= n;
}

void PngError(png_structp png, png_const_charp message) {
  static_cast<Decoded *>(png_get_error_ptr(png))->error = message;
  std::longjmp(png_jmpbuf(png), 1);
}

void PngWarning(png_structp, png_const_charp) {}

bool DecodePng(PngSource *source, Decoded *out) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, out, PngError, PngWarning);
  if (!png)
    return false;
  png_infop info = png_create_info_struct(png);
  if (!info || setjmp(png_jmpbuf(png))) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_read_fn(png, source, PngRead);
  png_read_info(png, info);
  png_set_strip_16(png);
  png_set_expand(png); // palettes, 1 to 4 bits, transparency
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const bool good =
      out->Allocate(png_get_image_width(png, info), png_get_image_height(png, info), png_get_channels(png, info));
  if (good) {
    png_read_image(png, out->rows.data());
    png_read_end(png, nullptr);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return good;
}

// ---- JPEG

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  Decoded *out;
};

void JpegError(j_common_ptr jpeg) {
  auto *errors = reinterpret_cast<JpegErrors *>(jpeg->err);
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  errors->out->error = text;
  std::longjmp(errors->jump, 1);
}

// Warnings (level -1) say that data is corrupt: an error here, silence would give a half-grey picture.
void JpegMessage(j_common_ptr jpeg, int level) {
  if (level < 0)
    JpegError(jpeg);
}

bool DecodeJpeg(std::span<const uint8_t> bytes, Decoded *out) {
  jpeg_decompress_struct jpeg;
  JpegErrors errors;
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = JpegError;
  errors.manager.emit_message = JpegMessage;
  errors.out = out;
  if (setjmp(errors.jump)) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes.data(), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  out->adobe = jpeg.saw_Adobe_marker;
  jpeg.out_color_space = jpeg.jpeg_color_space == JCS_GRAYSCALE                                   ? JCS_GRAYSCALE
                         : jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK ? JCS_CMYK
                                                                                                  : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg);
  bool good = out->Allocate(jpeg.output_width, jpeg.output_height, jpeg.output_components);
  if (good) {
    while (jpeg.output_scanline < jpeg.output_height)
      jpeg_read_scanlines(&jpeg, out->rows.data() + jpeg.output_scanline, jpeg.output_height - jpeg.output_scanline);
    jpeg_finish_decompress(&jpeg);
  }
  jpeg_destroy_decompress(&jpeg);
  return good;
}

void CmykToRgb(Image *image, bool inverted) {
  std::vector<uint8_t> rgb(image->pixels.size() / 4 * 3);
  const int flip = inverted ? 0 : 255;
  for (size_t i = 0; i < rgb.size() / 3; ++i)
    for (size_t c = 0; c < 3; ++c)
      rgb[3 * i + c] =
          static_cast<uint8_t>(((image->pixels[4 * i + c] ^ flip) * (image->pixels[4 * i + 3] ^ flip) + 127) / 255);
  image->pixels = std::move(rgb);
  image->channels = 3;
}

void Convert(Image *image, int channels) {
  const int from = image->channels;
  if (from == channels)
    return;
  const size_t n = static_cast<size_t>(image->width) * static_cast<size_t>(image->height);
  std::vector<uint8_t> out(n * static_cast<size_t>(channels));
  for (size_t i = 0; i < n; ++i) {
    const uint8_t *p = image->pixels.data() + i * static_cast<size_t>(from);
    const uint8_t rgb[3] = {p[0], from >= 3 ? p[1] : p[0], from >= 3 ? p[2] : p[0]};
    if (channels == 3)
      std::memcpy(out.data() + 3 * i, rgb, 3);
    else
      out[i] = from <= 2 ? p[0] : static_cast<uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
  }
  image->pixels = std::move(out);
  image->channels = channels;
}

bool IsPng(std::span<const uint8_t> bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data(), "\x89PNG\r\n\x1a\n", 8) == 0;
}
bool IsJpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && std::memcmp(bytes.data(), "\xff\xd8\xff", 3) == 0;
}

} // namespace

bool LooksLikeImage(std::span<const uint8_t> bytes) {
  return IsPng(bytes) || IsJpeg(bytes);
}

StatusOr<Image> DecodeImage(std::span<const uint8_t> bytes, std::string_view name, int channels) {
  NPUC_CHECK(channels == 0 || channels == 1 || channels == 3, "{} channels", channels);
  Decoded decoded;
  if (IsPng(bytes)) {
    PngSource source{bytes.data(), bytes.size()};
    if (!DecodePng(&source, &decoded))
      return AtFile(Error("E0104", fmt::format("cannot decode PNG: {}", decoded.error)), name);
  } else if (IsJpeg(bytes)) {
    if (!DecodeJpeg(bytes, &decoded))
      return AtFile(Error("E0104", fmt::format("cannot decode JPEG: {}", decoded.error)), name);
    if (decoded.image.channels == 4)
      CmykToRgb(&decoded.image, decoded.adobe);
  } else {
    return AtFile(Error("E0104", "neither a PNG nor a JPEG file", "convert the image to PNG or JPEG"), name);
  }
  if (channels)
    Convert(&decoded.image, channels);
  return std::move(decoded.image);
}

StatusOr<Image> ReadImage(const std::string &path, int channels) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return DecodeImage(file.bytes(), path, channels);
}

} // namespace npuc
