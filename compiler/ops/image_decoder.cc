// ImageDecoder: an encoded image (bytes) to pixels [H, W, C]. PNG, JPEG, JPEG 2000 and WebP by the libraries, BMP, PNM
// and baseline uncompressed TIFF here. Host only.
#include "compiler/ops/image_codecs.h"
#include "compiler/ops/movement.h"
#include "compiler/support/image.h"

namespace npuc::ops {
namespace {

using Bytes = std::span<const uint8_t>;

struct Little {
  Bytes b;
  bool big = false; // byte order
  uint64_t At(size_t at, int size) const {
    uint64_t v = 0;
    if (at + size > b.size())
      return 0;
    for (int i = 0; i < size; ++i)
      v |= uint64_t{b[at + (big ? size - 1 - i : i)]} << (8 * i);
    return v;
  }
};

// 24- and 32-bit, uncompressed; rows from the bottom unless the height is negative.
StatusOr<Image> DecodeBmp(Bytes b) {
  const Little r{b};
  if (b.size() < 54)
    return BadImage("a BMP cut short");
  const int64_t offset = static_cast<int64_t>(r.At(10, 4)), width = static_cast<int32_t>(r.At(18, 4)),
                signed_height = static_cast<int32_t>(r.At(22, 4));
  const int bits = static_cast<int>(r.At(28, 2));
  if ((bits != 24 && bits != 32) || (r.At(30, 4) != 0 && !(bits == 32 && r.At(30, 4) == 3)))
    return BadImage("a BMP with palette or compression");
  const int64_t height = signed_height < 0 ? -signed_height : signed_height;
  NPUC_ASSIGN_OR_RETURN(Image m, NewRgbImage(width, height));
  const int64_t pitch = (width * bits / 8 + 3) / 4 * 4;
  if (offset < 0 || offset + pitch * height > static_cast<int64_t>(b.size()))
    return BadImage("a BMP cut short");
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t *p = b.data() + offset + (signed_height < 0 ? y : height - 1 - y) * pitch + x * (bits / 8);
      for (int c = 0; c < 3; ++c)
        m.pixels[(y * width + x) * 3 + c] = p[2 - c];
    }
  return m;
}

// P2, P3, P5, P6 with a maximum of 255.
StatusOr<Image> DecodePnm(Bytes b) {
  size_t at = 2;
  auto number = [&]() -> int64_t {
    while (at < b.size() && (std::isspace(b[at]) || b[at] == '#')) {
      if (b[at] == '#')
        while (at < b.size() && b[at] != '\n')
          ++at;
      else
        ++at;
    }
    if (at >= b.size() || !std::isdigit(b[at]))
      return -1;
    int64_t v = 0;
    while (at < b.size() && std::isdigit(b[at]) && v < kMaxPixels)
      v = v * 10 + (b[at++] - '0');
    return v;
  };
  const int64_t width = number(), height = number(), top = number();
  if (top < 1 || top > 255)
    return BadImage("a PNM of this depth");
  const bool colour = b[1] == '3' || b[1] == '6', text = b[1] == '2' || b[1] == '3';
  NPUC_ASSIGN_OR_RETURN(Image m, NewRgbImage(width, height));
  ++at; // one white space
  for (int64_t i = 0; i < width * height; ++i)
    for (int c = 0; c < 3; ++c) {
      if (c > 0 && !colour) {
        m.pixels[i * 3 + c] = m.pixels[i * 3];
        continue;
      }
      int64_t v;
      if (text) {
        v = number();
      } else {
        v = at < b.size() ? b[at++] : -1;
      }
      if (v < 0 || v > top)
        return BadImage("a PNM cut short");
      m.pixels[i * 3 + c] = static_cast<uint8_t>((v * 255 + top / 2) / top);
    }
  return m;
}

// One image of 8-bit RGB, RGBA or grey samples, chunky, uncompressed strips.
StatusOr<Image> DecodeTiff(Bytes b) {
  const Little r{b, b[0] == 'M'};
  const size_t directory = r.At(4, 4);
  int64_t width = 0, height = 0, samples = 1, rows = INT32_MAX, compression = 1, planar = 1, photometric = 2;
  std::vector<uint64_t> offsets, counts;
  const int entries = static_cast<int>(r.At(directory, 2));
  for (int e = 0; e < entries; ++e) {
    const size_t at = directory + 2 + 12 * static_cast<size_t>(e);
    const int tag = static_cast<int>(r.At(at, 2)), type = static_cast<int>(r.At(at + 2, 2)),
              size = type == 3   ? 2
                     : type == 4 ? 4
                                 : 1;
    const uint64_t count = r.At(at + 4, 4);
    if (count > b.size())
      return BadImage("a damaged TIFF");
    auto value = [&](uint64_t i) {
      return r.At(count * size <= 4 ? at + 8 + i * size : r.At(at + 8, 4) + i * size, size);
    };
    switch (tag) {
    case 256:
      width = static_cast<int64_t>(value(0));
      break;
    case 257:
      height = static_cast<int64_t>(value(0));
      break;
    case 258:
      for (uint64_t i = 0; i < count; ++i)
        if (value(i) != 8)
          return BadImage("a TIFF with samples of other than 8 bits");
      break;
    case 259:
      compression = static_cast<int64_t>(value(0));
      break;
    case 262:
      photometric = static_cast<int64_t>(value(0));
      break;
    case 273:
      for (uint64_t i = 0; i < count; ++i)
        offsets.push_back(value(i));
      break;
    case 277:
      samples = static_cast<int64_t>(value(0));
      break;
    case 278:
      rows = static_cast<int64_t>(value(0));
      break;
    case 279:
      for (uint64_t i = 0; i < count; ++i)
        counts.push_back(value(i));
      break;
    case 284:
      planar = static_cast<int64_t>(value(0));
      break;
    default:
      break;
    }
  }
  if (compression != 1 || planar != 1 || (photometric != 1 && photometric != 2) || samples < 1 || samples > 4 ||
      samples == 2 || offsets.size() != counts.size() || rows < 1)
    return BadImage("a TIFF that is compressed or of another layout");
  NPUC_ASSIGN_OR_RETURN(Image m, NewRgbImage(width, height));
  int64_t y = 0;
  for (size_t s = 0; s < offsets.size(); ++s) {
    const int64_t n = std::min(rows, height - y);
    if (offsets[s] > b.size() || static_cast<uint64_t>(n * width * samples) > b.size() - offsets[s])
      return BadImage("a TIFF cut short");
    const uint8_t *p = b.data() + offsets[s];
    for (int64_t i = 0; i < n * width; ++i)
      for (int c = 0; c < 3; ++c)
        m.pixels[(y * width + i) * 3 + c] = p[i * samples + (samples >= 3 ? c : 0)];
    y += n;
  }
  if (y != height)
    return BadImage("a TIFF cut short");
  return m;
}

StatusOr<Image> Decode(Bytes b) {
  if (b.size() >= 8) {
    if (b[0] == 'B' && b[1] == 'M')
      return DecodeBmp(b);
    if (b[0] == 'P' && (b[1] == '2' || b[1] == '3' || b[1] == '5' || b[1] == '6'))
      return DecodePnm(b);
    if ((b[0] == 'I' && b[1] == 'I' && b[2] == 42) || (b[0] == 'M' && b[1] == 'M' && b[3] == 42))
      return DecodeTiff(b);
    if (IsWebp(b))
      return DecodeWebp(b);
    if (IsJpeg2000(b))
      return DecodeJpeg2000(b);
    if (LooksLikeImage(b))
      return DecodeImage(b, "the image operand", 3);
  }
  return BadImage("its format is not known here");
}

Status VerifyImageDecoder(const Node &n) {
  const std::string_view f = n.attrs().String("pixel_format", "RGB");
  if (f != "RGB" && f != "BGR" && f != "Grayscale")
    return AttrError(fmt::format("pixel_format is '{}'", f), "RGB, BGR or Grayscale");
  return OkStatus();
}
Status InferImageDecoder(InferContext &ctx) {
  SetTensor(
      ctx, 0, DType::U8,
      Shape({Dim::Unknown(), Dim::Unknown(), Dim(ctx.attrs().String("pixel_format", "RGB") == "Grayscale" ? 1 : 3)}));
  return OkStatus();
}
Status EvaluateImageDecoder(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (x.dtype() != DType::U8)
    return Error("E0302", fmt::format("an encoded image is uint8, not {}", OnnxName(x.dtype())));
  NPUC_ASSIGN_OR_RETURN(Image m, Decode({x.bytes(), static_cast<size_t>(x.num_elements())}));
  const std::string_view format = ctx.attrs().String("pixel_format", "RGB");
  const int channels = format == "Grayscale" ? 1 : 3;
  Tensor y = Tensor::Allocate(DType::U8, {m.height, m.width, channels});
  for (int64_t i = 0; i < int64_t{m.width} * m.height; ++i) {
    const uint8_t *p = m.pixels.data() + i * 3;
    uint8_t *q = y.mutable_bytes() + i * channels;
    if (channels == 1) {
      q[0] = static_cast<uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16); // BT.601
    } else {
      for (int c = 0; c < 3; ++c)
        q[c] = p[format == "BGR" ? 2 - c : c];
    }
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

} // namespace

OpDef ImageDecoderDef() {
  return {.domain = "",
          .name = "ImageDecoder",
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {StringAttr("pixel_format")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyImageDecoder,
          .infer = InferImageDecoder,
          .evaluate = EvaluateImageDecoder,
          .doc = "The pixels of an encoded image."};
}

} // namespace npuc::ops
