// WebP (libwebp) and JPEG 2000 (OpenJPEG) to RGB. Transparency is dropped, not blended. JPEG 2000: grey or RGB of full
// resolution in all components, 1 to 16 bits, scaled to 8; images in YCC or with subsampled components are refused.
#include "compiler/ops/image_codecs.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "compiler/support/diagnostic.h"
#include "openjpeg-2.5/openjpeg.h"
#include "webp/decode.h"

namespace npuc::ops {
namespace {

using Bytes = std::span<const uint8_t>;

// Bytes in memory as OpenJPEG's stream.
struct Source {
  Bytes bytes;
  size_t at = 0;

  static OPJ_SIZE_T Read(void *buffer, OPJ_SIZE_T n, void *self) {
    Source &s = *static_cast<Source *>(self);
    const size_t left = s.bytes.size() - s.at;
    if (left == 0)
      return static_cast<OPJ_SIZE_T>(-1); // the end
    n = std::min<size_t>(n, left);
    std::memcpy(buffer, s.bytes.data() + s.at, n);
    s.at += n;
    return n;
  }
  static OPJ_OFF_T Skip(OPJ_OFF_T n, void *self) {
    Source &s = *static_cast<Source *>(self);
    if (n < 0 || static_cast<size_t>(n) > s.bytes.size() - s.at)
      return -1;
    s.at += static_cast<size_t>(n);
    return n;
  }
  static OPJ_BOOL Seek(OPJ_OFF_T to, void *self) {
    Source &s = *static_cast<Source *>(self);
    if (to < 0 || static_cast<size_t>(to) > s.bytes.size())
      return OPJ_FALSE;
    s.at = static_cast<size_t>(to);
    return OPJ_TRUE;
  }
};

struct FreeImage {
  void operator()(opj_image_t *p) const { opj_image_destroy(p); }
};

bool IsBoxed(Bytes b) {
  return b.size() >= 12 && std::memcmp(b.data(), "\0\0\0\x0cjP  \r\n\x87\n", 12) == 0;
}

} // namespace

Status BadImage(std::string_view what) {
  return Error("E0104", fmt::format("the image cannot be decoded: {}", what),
               "PNG, JPEG, JPEG 2000, WebP, BMP, PNM and uncompressed TIFF are read");
}

StatusOr<Image> NewRgbImage(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxPixels / height)
    return BadImage(fmt::format("{} by {} pixels", width, height));
  Image m;
  m.width = static_cast<int>(width);
  m.height = static_cast<int>(height);
  m.channels = 3;
  m.pixels.resize(static_cast<size_t>(width) * height * 3);
  return m;
}

bool IsWebp(Bytes b) {
  return b.size() >= 12 && std::memcmp(b.data(), "RIFF", 4) == 0 && std::memcmp(b.data() + 8, "WEBP", 4) == 0;
}

bool IsJpeg2000(Bytes b) {
  return IsBoxed(b) || (b.size() >= 4 && std::memcmp(b.data(), "\xff\x4f\xff\x51", 4) == 0);
}

StatusOr<Image> DecodeWebp(Bytes b) {
  int width = 0, height = 0;
  if (!WebPGetInfo(b.data(), b.size(), &width, &height))
    return BadImage("a damaged WebP");
  NPUC_ASSIGN_OR_RETURN(Image m, NewRgbImage(width, height));
  if (!WebPDecodeRGBInto(b.data(), b.size(), m.pixels.data(), m.pixels.size(), width * 3))
    return BadImage("a damaged WebP, or one of several pictures");
  return m;
}

StatusOr<Image> DecodeJpeg2000(Bytes b) {
  Source source{b};
  const std::unique_ptr<opj_stream_t, void (*)(opj_stream_t *)> stream(opj_stream_default_create(OPJ_TRUE),
                                                                       opj_stream_destroy);
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), b.size());
  opj_stream_set_read_function(stream.get(), Source::Read);
  opj_stream_set_skip_function(stream.get(), Source::Skip);
  opj_stream_set_seek_function(stream.get(), Source::Seek);
  opj_codec_t *const codec = opj_create_decompress(IsBoxed(b) ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
  const std::unique_ptr<opj_codec_t, void (*)(opj_codec_t *)> owned(codec, opj_destroy_codec);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t *read = nullptr;
  const bool headed = codec && opj_setup_decoder(codec, &parameters) && opj_read_header(stream.get(), codec, &read);
  const std::unique_ptr<opj_image_t, FreeImage> image(read);
  if (!headed || !image)
    return BadImage("a damaged JPEG 2000 file");
  // What the header says, before anything of that size is made.
  NPUC_ASSIGN_OR_RETURN(Image m,
                        NewRgbImage(int64_t{image->x1} - int64_t{image->x0}, int64_t{image->y1} - int64_t{image->y0}));
  if (!opj_decode(codec, stream.get(), image.get()) || !opj_end_decompress(codec, stream.get()))
    return BadImage("a damaged JPEG 2000 file");
  const int colours = image->numcomps >= 3 ? 3 : 1;
  if (image->numcomps < 1 || image->color_space == OPJ_CLRSPC_SYCC || image->color_space == OPJ_CLRSPC_EYCC ||
      image->color_space == OPJ_CLRSPC_CMYK)
    return BadImage("a JPEG 2000 file that is neither grey nor RGB");
  for (int c = 0; c < colours; ++c) {
    const opj_image_comp_t &comp = image->comps[c];
    if (!comp.data || comp.prec < 1 || comp.prec > 16 || static_cast<int64_t>(comp.w) != m.width ||
        static_cast<int64_t>(comp.h) != m.height)
      return BadImage("a JPEG 2000 file with components of another size or depth");
    const int64_t top = (int64_t{1} << comp.prec) - 1, offset = comp.sgnd ? int64_t{1} << (comp.prec - 1) : 0;
    for (int64_t i = 0; i < int64_t{m.width} * m.height; ++i) {
      const int64_t v = std::clamp<int64_t>(comp.data[i] + offset, 0, top);
      const uint8_t byte = static_cast<uint8_t>(comp.prec == 8 ? v : (v * 255 + top / 2) / top);
      for (int k = c; k < (colours == 1 ? 3 : c + 1); ++k)
        m.pixels[i * 3 + k] = byte;
    }
  }
  return m;
}

} // namespace npuc::ops
