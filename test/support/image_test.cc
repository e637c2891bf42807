// PNGs are put together here, chunk by chunk; JPEGs by libjpeg's encoder at the highest quality.
#include "compiler/support/image.h"

#include "compiler/support/diagnostic.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include <jpeglib.h>
#include <zlib.h>

namespace npuc {
namespace {

constexpr int kWidth = 16, kHeight = 8;

using Bytes = std::vector<uint8_t>;

// The picture of all tests.
Bytes Rgb() {
  Bytes out;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      out.insert(out.end(), {uint8_t(16 * x), uint8_t(30 * y), uint8_t(8 * (x + y))});
  return out;
}

void Put32(Bytes *out, uint32_t v) {
  for (int s = 24; s >= 0; s -= 8)
    out->push_back(uint8_t(v >> s));
}

void Chunk(Bytes *out, const char *type, const Bytes &data) {
  Put32(out, uint32_t(data.size()));
  Bytes body(type, type + 4);
  body.insert(body.end(), data.begin(), data.end());
  out->insert(out->end(), body.begin(), body.end());
  Put32(out, uint32_t(crc32(0, body.data(), unsigned(body.size()))));
}

// Rows without filter bytes; colour type and depth as the PNG specification numbers them.
Bytes Png(int width, int height, int depth, int colour, const Bytes &rows, const Bytes &palette = {},
          const Bytes &transparency = {}) {
  Bytes out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Bytes header;
  Put32(&header, uint32_t(width));
  Put32(&header, uint32_t(height));
  header.insert(header.end(), {uint8_t(depth), uint8_t(colour), 0, 0, 0});
  Chunk(&out, "IHDR", header);
  if (!palette.empty())
    Chunk(&out, "PLTE", palette);
  if (!transparency.empty())
    Chunk(&out, "tRNS", transparency);
  Bytes raw;
  const size_t row = rows.size() / size_t(height);
  for (int y = 0; y < height; ++y) {
    raw.push_back(0);
    raw.insert(raw.end(), rows.begin() + ptrdiff_t(size_t(y) * row), rows.begin() + ptrdiff_t(size_t(y + 1) * row));
  }
  Bytes packed(compressBound(raw.size()));
  uLongf size = packed.size();
  compress(packed.data(), &size, raw.data(), raw.size());
  packed.resize(size);
  Chunk(&out, "IDAT", packed);
  Chunk(&out, "IEND", {});
  return out;
}

Bytes Jpeg(const Bytes &pixels, int channels, J_COLOR_SPACE space) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char *buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = kWidth;
  jpeg.image_height = kHeight;
  jpeg.input_components = channels;
  jpeg.in_color_space = space;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  for (int c = 0; c < jpeg.num_components; ++c)
    jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < kHeight; ++y) {
    JSAMPROW row = const_cast<uint8_t *>(pixels.data()) + y * kWidth * channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  Bytes out(buffer, buffer + size);
  free(buffer);
  return out;
}

Image Decode(const Bytes &bytes, int channels = 0) {
  StatusOr<Image> image = DecodeImage(bytes, "x", channels);
  EXPECT_TRUE(image.ok()) << Render(FromStatus(image.status()));
  return image.ok() ? *image : Image();
}

int Distance(const Bytes &a, const Bytes &b) {
  EXPECT_EQ(a.size(), b.size());
  int worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::abs(int(a[i]) - int(b[i])));
  return worst;
}

TEST(Image, PngRgb) {
  const Image image = Decode(Png(kWidth, kHeight, 8, 2, Rgb()));
  EXPECT_EQ(image.width, kWidth);
  EXPECT_EQ(image.height, kHeight);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels, Rgb());
}

TEST(Image, PngSixteenBitsKeepTheHighByte) {
  Bytes wide;
  for (const uint8_t v : Rgb())
    wide.insert(wide.end(), {v, uint8_t(255 - v)});
  EXPECT_EQ(Decode(Png(kWidth, kHeight, 16, 2, wide)).pixels, Rgb());
}

TEST(Image, PngPaletteGreyAndAlpha) {
  const Bytes palette{1, 2, 3, 40, 50, 60, 255, 0, 9, 7, 7, 7};
  const Image p = Decode(Png(4, 2, 2, 3, {0b00011011, 0b11100100}, palette)); // 2 bits a pixel
  EXPECT_EQ(p.channels, 3);
  EXPECT_EQ(p.pixels, (Bytes{1, 2, 3, 40, 50, 60, 255, 0, 9, 7, 7, 7, 7, 7, 7, 255, 0, 9, 40, 50, 60, 1, 2, 3}));
  const Image t = Decode(Png(4, 2, 2, 3, {0b00011011, 0b11100100}, palette, {10, 20}));
  EXPECT_EQ(t.channels, 4);
  EXPECT_EQ(t.pixels[3], 10);
  EXPECT_EQ(t.pixels[11], 255);
  const Image g = Decode(Png(8, 1, 1, 0, {0b10110001}));
  EXPECT_EQ(g.channels, 1);
  EXPECT_EQ(g.pixels, (Bytes{255, 0, 255, 255, 0, 0, 0, 255}));
  const Image ga = Decode(Png(2, 1, 8, 4, {9, 128, 200, 255}));
  EXPECT_EQ(ga.channels, 2);
  EXPECT_EQ(ga.pixels, (Bytes{9, 128, 200, 255}));
}

TEST(Image, Conversions) {
  EXPECT_EQ(Decode(Png(2, 1, 8, 4, {9, 128, 200, 255}), 3).pixels, (Bytes{9, 9, 9, 200, 200, 200}));
  EXPECT_EQ(Decode(Png(2, 1, 8, 4, {9, 128, 200, 255}), 1).pixels, (Bytes{9, 200}));
  EXPECT_EQ(Decode(Png(1, 2, 8, 6, {1, 2, 3, 4, 5, 6, 7, 8}), 3).pixels, (Bytes{1, 2, 3, 5, 6, 7}));
  // 0.299 * 255 = 76.2, 0.587 * 255 = 149.7, 0.114 * 255 = 29.1
  EXPECT_EQ(Decode(Png(4, 1, 8, 2, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}), 1).pixels,
            (Bytes{76, 150, 29, 255}));
  EXPECT_EQ(Decode(Png(2, 1, 8, 0, {5, 6}), 3).pixels, (Bytes{5, 5, 5, 6, 6, 6}));
}

TEST(Image, Jpeg) {
  const Image rgb = Decode(Jpeg(Rgb(), 3, JCS_RGB));
  EXPECT_EQ(rgb.width, kWidth);
  EXPECT_EQ(rgb.height, kHeight);
  EXPECT_EQ(rgb.channels, 3);
  EXPECT_LE(Distance(rgb.pixels, Rgb()), 4);
  Bytes grey;
  for (size_t i = 0; i < Rgb().size(); i += 3)
    grey.push_back(Rgb()[i]);
  const Image g = Decode(Jpeg(grey, 1, JCS_GRAYSCALE));
  EXPECT_EQ(g.channels, 1);
  EXPECT_LE(Distance(g.pixels, grey), 3);
  EXPECT_EQ(Decode(Jpeg(grey, 1, JCS_GRAYSCALE), 3).channels, 3);
  Bytes cmyk; // inverted, as Adobe writes it: full "ink" values pass the colours through
  for (size_t i = 0; i < Rgb().size(); i += 3)
    cmyk.insert(cmyk.end(), {Rgb()[i], Rgb()[i + 1], Rgb()[i + 2], 255});
  const Image c = Decode(Jpeg(cmyk, 4, JCS_CMYK));
  EXPECT_EQ(c.channels, 3);
  EXPECT_LE(Distance(c.pixels, Rgb()), 4);
}

TEST(Image, Errors) {
  const auto error = [](const Bytes &bytes) {
    StatusOr<Image> image = DecodeImage(bytes, "x.png");
    return image.ok() ? std::string("none") : Render(FromStatus(image.status()));
  };
  EXPECT_EQ(error({}), "x.png: error[E0104]: neither a PNG nor a JPEG file\n  help: convert the image to PNG or JPEG");
  Bytes png = Png(kWidth, kHeight, 8, 2, Rgb());
  EXPECT_EQ(error(Bytes(png.begin(), png.begin() + 50)),
            "x.png: error[E0104]: cannot decode PNG: the file ends too early");
  EXPECT_EQ(error(Png(1 << 20, 1 << 20, 8, 0, Bytes(1 << 20))).substr(0, 39),
            "x.png: error[E0104]: cannot decode PNG:");
  EXPECT_EQ(error(Png(1000000, 1000, 8, 0, Bytes(1000))),
            "x.png: error[E0104]: cannot decode PNG: 1000000 x 1000 pixels are more than 2^28");
  Bytes jpeg = Jpeg(Rgb(), 3, JCS_RGB);
  jpeg.resize(jpeg.size() / 2);
  EXPECT_EQ(error(jpeg).substr(0, 40), "x.png: error[E0104]: cannot decode JPEG:");
  EXPECT_EQ(ErrorCode(ReadImage("none.png").status()), "E0101");
  EXPECT_TRUE(LooksLikeImage(png));
  EXPECT_TRUE(LooksLikeImage(jpeg));
  EXPECT_FALSE(LooksLikeImage(Bytes{0x89, 'P'}));
}

TEST(Image, DamagedFilesNeverCrash) {
  for (const Bytes &good : {Png(kWidth, kHeight, 8, 2, Rgb()), Jpeg(Rgb(), 3, JCS_RGB)})
    for (size_t i = 0; i < good.size(); ++i) {
      (void)DecodeImage(std::span(good).first(i), "cut");
      Bytes bad = good;
      bad[i] ^= 0x55;
      (void)DecodeImage(bad, "bad");
    }
}

} // namespace
} // namespace npuc
