// Images as input values: colour, resize, crop or letterbox, (pixel * scale - mean) / std, layout; f32 throughout.
#include <algorithm>
#include <cmath>

#include "compiler/driver/preprocess.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_math.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

using Color = Preprocess::Color;
using Size = std::array<int64_t, 2>; // height, width

// Height x width x channels, f32.
struct Planes {
  int64_t h = 0, w = 0, c = 0;
  std::vector<float> v;
  Planes(int64_t h, int64_t w, int64_t c) : h(h), w(w), c(c), v(h * w * c) {}
  const float *at(int64_t y, int64_t x) const { return v.data() + (y * w + x) * c; }
  float *at(int64_t y, int64_t x) { return v.data() + (y * w + x) * c; }
};

int64_t ChannelsOf(Color color) {
  return color == Color::Gray ? 1 : color == Color::Rgb || color == Color::Bgr ? 3 : 4;
}

Planes InColor(const Image &image, Color color) {
  Planes p(image.height, image.width, ChannelsOf(color));
  const bool colored = image.channels >= 3, alpha = image.channels % 2 == 0;
  for (int64_t i = 0; i < p.h * p.w; ++i) {
    const uint8_t *px = image.pixels.data() + i * image.channels;
    const uint8_t r = px[0], g = colored ? px[1] : px[0], b = colored ? px[2] : px[0];
    float *to = p.v.data() + i * p.c;
    if (p.c == 1) {
      to[0] = colored ? std::floor(0.299f * r + 0.587f * g + 0.114f * b + 0.5f) : r;
      continue;
    }
    const bool bgr = color == Color::Bgr || color == Color::Bgra;
    to[0] = bgr ? b : r;
    to[1] = g;
    to[2] = bgr ? r : b;
    if (p.c == 4)
      to[3] = alpha ? px[image.channels - 1] : 255;
  }
  return p;
}

// Half-pixel centres, sources clamped at the edges.
Planes ResizeTo(const Planes &in, Size size, Preprocess::Interpolation interpolation) {
  const auto [h, w] = size;
  if (in.h == h && in.w == w)
    return in;
  Planes out(h, w, in.c);
  struct Source {
    int64_t a, b;
    float f;
  };
  const bool nearest = interpolation == Preprocess::Interpolation::Nearest;
  auto sources = [nearest](int64_t from, int64_t to) {
    std::vector<Source> all;
    for (int64_t o = 0; o < to; ++o) {
      if (nearest) {
        const int64_t i = std::min(from - 1, (2 * o + 1) * from / (2 * to)); // the pixel that the centre lies in
        all.push_back({i, i, 0});
        continue;
      }
      const float x =
          std::max(0.0f, (static_cast<float>(o) + 0.5f) * static_cast<float>(from) / static_cast<float>(to) - 0.5f);
      const int64_t i = std::min<int64_t>(static_cast<int64_t>(x), from - 1);
      all.push_back({i, std::min(i + 1, from - 1), x - static_cast<float>(i)});
    }
    return all;
  };
  const std::vector<Source> rows = sources(in.h, h), columns = sources(in.w, w);
  for (int64_t y = 0; y < h; ++y) {
    const Source &r = rows[y];
    for (int64_t x = 0; x < w; ++x) {
      const Source &s = columns[x];
      const float *aa = in.at(r.a, s.a), *ab = in.at(r.a, s.b), *ba = in.at(r.b, s.a), *bb = in.at(r.b, s.b);
      float *to = out.at(y, x);
      for (int64_t k = 0; k < in.c; ++k) {
        const float top = aa[k] * (1 - s.f) + ab[k] * s.f, bottom = ba[k] * (1 - s.f) + bb[k] * s.f;
        to[k] = top * (1 - r.f) + bottom * r.f;
      }
    }
  }
  return out;
}

void CopyRows(const Planes &from, int64_t y0, int64_t x0, Planes &to, int64_t y1, int64_t x1, int64_t rows,
              int64_t columns) {
  for (int64_t y = 0; y < rows; ++y)
    std::copy_n(from.at(y0 + y, x0), columns * from.c, to.at(y1 + y, x1));
}

float ChannelOf(const std::vector<float> &v, int64_t k, float otherwise) {
  return v.empty() ? otherwise : v[v.size() == 1 ? 0 : k];
}

// The greatest size of the same proportions within `size`; halves are rounded up.
Size Within(int64_t h, int64_t w, Size size) {
  if (size[0] * w <= size[1] * h)
    return {size[0], std::max<int64_t>(1, (2 * w * size[0] + h) / (2 * h))};
  return {std::max<int64_t>(1, (2 * h * size[1] + w) / (2 * w)), size[1]};
}

Planes Letterboxed(const Planes &in, Size size, const Preprocess &pre) {
  const Planes fitted = ResizeTo(in, Within(in.h, in.w, size), pre.interpolation);
  Planes out(size[0], size[1], in.c);
  for (int64_t i = 0; i < out.h * out.w; ++i)
    for (int64_t k = 0; k < out.c; ++k)
      out.v[i * out.c + k] = ChannelOf(pre.letterbox->pad, k, 0);
  const bool centered = pre.letterbox->centered;
  CopyRows(fitted, 0, 0, out, centered ? (out.h - fitted.h) / 2 : 0, centered ? (out.w - fitted.w) / 2 : 0, fitted.h,
           fitted.w);
  return out;
}

} // namespace

int64_t Preprocess::Frame::bytes() const {
  const int64_t pixels = int64_t{height} * width;
  return format == FrameFormat::Yuyv || format == FrameFormat::Uyvy ? 2 * pixels : pixels + pixels / 2;
}

Image DecodeFrame(std::span<const uint8_t> bytes, const Preprocess::Frame &f) {
  NPUC_CHECK(static_cast<int64_t>(bytes.size()) == f.bytes());
  using Format = Preprocess::FrameFormat;
  Image image{f.width, f.height, 3, std::vector<uint8_t>(size_t{3} * f.width * f.height)};
  // ITU-R BT.601 and BT.709: R = Y + 2 (1 - Kr) V, B = Y + 2 (1 - Kb) U, G from Y = Kr R + Kg G + Kb B.
  const float kr = f.bt709 ? 0.2126f : 0.299f, kb = f.bt709 ? 0.0722f : 0.114f, kg = 1.0f - kr - kb;
  const float y_scale = f.full_range ? 1.0f : 255.0f / 219.0f, c_scale = f.full_range ? 1.0f : 255.0f / 224.0f;
  const float y_zero = f.full_range ? 0.0f : 16.0f;
  const float rv = 2 * (1 - kr) * c_scale, bu = 2 * (1 - kb) * c_scale;
  const float gu = bu * kb / kg, gv = rv * kr / kg;
  const int64_t w = f.width, pixels = int64_t{f.height} * w;
  auto to_byte = [](float v) { return static_cast<uint8_t>(std::clamp(std::floor(v + 0.5f), 0.0f, 255.0f)); };
  for (int64_t y = 0; y < f.height; ++y)
    for (int64_t x = 0; x < w; ++x) {
      int64_t luma = y * w + x, u, v;
      const int64_t half = (y / 2) * (w / 2) + x / 2;
      switch (f.format) {
      case Format::Nv12:
      case Format::Nv21:
        u = pixels + 2 * half + (f.format == Format::Nv21);
        v = pixels + 2 * half + (f.format == Format::Nv12);
        break;
      case Format::I420:
        u = pixels + half;
        v = pixels + pixels / 4 + half;
        break;
      default: { // four bytes hold two pixels
        const int64_t pair = (y * w + x) / 2 * 4, chroma = f.format == Format::Yuyv ? 1 : 0;
        luma = pair + (1 - chroma) + 2 * (x % 2);
        u = pair + chroma;
        v = pair + chroma + 2;
      }
      }
      const float luminance = (static_cast<float>(bytes[luma]) - y_zero) * y_scale;
      const float cb = static_cast<float>(bytes[u]) - 128.0f, cr = static_cast<float>(bytes[v]) - 128.0f;
      uint8_t *px = image.pixels.data() + 3 * (y * w + x);
      px[0] = to_byte(luminance + rv * cr);
      px[1] = to_byte(luminance - gu * cb - gv * cr);
      px[2] = to_byte(luminance + bu * cb);
    }
  return image;
}

StatusOr<Tensor> TensorFromImage(const Image &image, std::string_view name, const Type &type, const Preprocess &given) {
  const Preprocess &pre = given.For(name);
  const auto fail = [&](std::string_view why) {
    return Error("E0702", fmt::format("'{}' is {}: {}", name, type.ToString(), why),
                 "convert the image to a .npy of the input's type, or say in --preprocess how");
  };
  if (!type.is_tensor() || !type.shape().ranked())
    return fail("an image needs a tensor of known rank");
  const int rank = type.shape().rank();
  if (rank != 3 && rank != 4)
    return fail("an image needs [N,C,H,W], [N,H,W,C] or one of them without N");
  const auto extent = [&](int axis) -> std::optional<int64_t> { // axis counted as for rank 4
    const Dim &d = type.shape()[axis - (4 - rank)];
    return d.is_static() ? std::optional<int64_t>(d.value()) : std::nullopt;
  };
  if (rank == 4 && extent(0).value_or(1) != 1)
    return fail("the batch is not 1");
  const auto channels_like = [&](std::optional<int64_t> d) {
    return d && (pre.color ? *d == ChannelsOf(*pre.color) : *d == 1 || *d == 3 || *d == 4);
  };
  bool nchw = pre.layout == Preprocess::Layout::Nchw;
  if (pre.layout == Preprocess::Layout::Guess) {
    if (!channels_like(extent(1)) && !channels_like(extent(3)))
      return fail(pre.color ? fmt::format("no axis has {} channels", ChannelsOf(*pre.color))
                            : std::string("no axis has 1, 3 or 4 channels"));
    nchw = channels_like(extent(1));
  }
  const std::optional<int64_t> want_c = extent(nchw ? 1 : 3), want_h = extent(nchw ? 2 : 1),
                               want_w = extent(nchw ? 3 : 2);
  const Color color = pre.color.value_or(want_c == 1 ? Color::Gray : want_c == 4 ? Color::Rgba : Color::Rgb);
  const int64_t c = ChannelsOf(color);
  if (want_c && *want_c != c)
    return fail(fmt::format("the image has {} channels", c));
  const std::vector<float> none, &pad = pre.letterbox ? pre.letterbox->pad : none;
  for (const auto *v : {&pre.mean, &pre.std, &pad})
    if (v->size() > 1 && static_cast<int64_t>(v->size()) != c)
      return fail(fmt::format("--preprocess has {} numbers for mean, std or pad; there are {} channels", v->size(), c));

  Planes p = InColor(image, color);
  const Size wanted = {want_h.value_or(p.h), want_w.value_or(p.w)};
  if (pre.letterbox) {
    p = Letterboxed(p, pre.letterbox->size.value_or(wanted), pre);
  } else {
    if (pre.resize.size() == 2) {
      p = ResizeTo(p, {pre.resize[0], pre.resize[1]}, pre.interpolation);
    } else if (pre.resize.size() == 1) {
      const int64_t s = pre.resize[0], shorter = std::min(p.h, p.w);
      p = ResizeTo(p,
                   {std::max<int64_t>(1, (p.h * s + shorter / 2) / shorter),
                    std::max<int64_t>(1, (p.w * s + shorter / 2) / shorter)},
                   pre.interpolation);
    } else if (!pre.crop) {
      p = ResizeTo(p, wanted, pre.interpolation);
    }
    const Size crop = pre.crop.value_or(Size{want_h.value_or(p.h), want_w.value_or(p.w)});
    if (crop[0] > p.h || crop[1] > p.w)
      return fail(fmt::format("the image of {} x {} is smaller than the crop of {} x {}", p.h, p.w, crop[0], crop[1]));
    Planes part(crop[0], crop[1], c);
    CopyRows(p, (p.h - crop[0]) / 2, (p.w - crop[1]) / 2, part, 0, 0, crop[0], crop[1]);
    p = std::move(part);
  }
  if ((want_h && *want_h != p.h) || (want_w && *want_w != p.w))
    return fail(fmt::format("--preprocess makes an image of {} x {}", p.h, p.w));

  const bool is_float = IsFloat(type.dtype());
  const float scale = static_cast<float>(pre.scale.value_or(is_float || type.is_quantized() ? 1.0 / 255.0 : 1.0));
  const Dims dims4 = nchw ? Dims{1, c, p.h, p.w} : Dims{1, p.h, p.w, c};
  Tensor t = Tensor::Allocate(DType::F32, llvm::ArrayRef<int64_t>(dims4).take_back(rank));
  float *out = t.mutable_data<float>();
  for (int64_t k = 0; k < c; ++k) {
    const float mean = ChannelOf(pre.mean, k, 0), std = ChannelOf(pre.std, k, 1);
    for (int64_t i = 0; i < p.h * p.w; ++i)
      out[nchw ? k * p.h * p.w + i : i * c + k] = (p.v[i * c + k] * scale - mean) / std;
  }
  if (type.dtype() == DType::F32)
    return t;
  if (is_float)
    return ops::ConvertTensor(t, type.dtype());
  if (!IsInt(type.dtype()))
    return fail("an image needs numbers");
  // Integers: the nearest, or the quantised, value.
  const bool quantized = type.is_quantized() && type.quant()->per_tensor();
  const float s = quantized ? type.quant()->scale() : 1.0f;
  const int32_t z = quantized ? type.quant()->zero_point() : 0;
  const DType narrow = ByteSize(type.dtype()) <= 2 ? type.dtype() : DType::I32;
  Tensor q = Tensor::Allocate(DType::I32, t.dims());
  for (int64_t i = 0; i < t.num_elements(); ++i)
    q.mutable_data<int32_t>()[i] = QuantizeValue(out[i], s, z, QuantRangeOf(narrow));
  return ops::ConvertTensor(q, type.dtype());
}

} // namespace npuc
