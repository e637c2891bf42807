// Images as input values: decode, colour, bilinear resize, centre crop, (pixel * scale - mean) / std, layout; all in
// f32 in a fixed order, so the same file gives the same bits everywhere.
#include <algorithm>
#include <cmath>

#include "compiler/driver/samples.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_math.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"

namespace npuc {
namespace {

// Height x width x channels, f32.
struct Planes {
  int64_t h = 0, w = 0, c = 0;
  std::vector<float> v;
  float at(int64_t y, int64_t x, int64_t k) const { return v[(y * w + x) * c + k]; }
};

// Bilinear, half-pixel centres, sources clamped at the edges.
Planes ResizeTo(const Planes &in, int64_t h, int64_t w) {
  if (in.h == h && in.w == w)
    return in;
  Planes out{h, w, in.c, std::vector<float>(h * w * in.c)};
  struct Source {
    int64_t a, b;
    float f;
  };
  const auto source = [](int64_t o, int64_t from, int64_t to) {
    const float x =
        std::max(0.0f, (static_cast<float>(o) + 0.5f) * static_cast<float>(from) / static_cast<float>(to) - 0.5f);
    const int64_t i = std::min<int64_t>(static_cast<int64_t>(x), from - 1);
    return Source{i, std::min(i + 1, from - 1), x - static_cast<float>(i)};
  };
  for (int64_t y = 0; y < h; ++y) {
    const Source r = source(y, in.h, h);
    for (int64_t x = 0; x < w; ++x) {
      const Source s = source(x, in.w, w);
      for (int64_t k = 0; k < in.c; ++k) {
        const float top = in.at(r.a, s.a, k) * (1 - s.f) + in.at(r.a, s.b, k) * s.f,
                    bottom = in.at(r.b, s.a, k) * (1 - s.f) + in.at(r.b, s.b, k) * s.f;
        out.v[(y * w + x) * in.c + k] = top * (1 - r.f) + bottom * r.f;
      }
    }
  }
  return out;
}

Planes Crop(const Planes &in, int64_t h, int64_t w) {
  const int64_t y0 = (in.h - h) / 2, x0 = (in.w - w) / 2;
  Planes out{h, w, in.c, std::vector<float>(h * w * in.c)};
  for (int64_t y = 0; y < h; ++y)
    std::copy_n(in.v.data() + ((y0 + y) * in.w + x0) * in.c, w * in.c, out.v.data() + y * w * in.c);
  return out;
}

StatusOr<std::vector<float>> Floats(const YamlDocument &doc, const YamlNode &node, std::string_view what) {
  std::vector<float> values;
  if (node.kind == YamlNode::Kind::list) {
    NPUC_ASSIGN_OR_RETURN(const auto items, doc.List(node, what));
    for (const YamlNode &item : items) {
      NPUC_ASSIGN_OR_RETURN(const double v, doc.Number(item, what, -1e30, 1e30));
      values.push_back(static_cast<float>(v));
    }
  } else {
    NPUC_ASSIGN_OR_RETURN(const double v, doc.Number(node, what, -1e30, 1e30));
    values.push_back(static_cast<float>(v));
  }
  if (values.size() != 1 && values.size() != 3)
    return doc.Wrong(node, what, "one number, or one per channel");
  return values;
}

StatusOr<std::vector<int64_t>> Sizes(const YamlDocument &doc, const YamlNode &node, std::string_view what) {
  std::vector<int64_t> values;
  if (node.kind == YamlNode::Kind::list) {
    NPUC_ASSIGN_OR_RETURN(const auto items, doc.List(node, what));
    for (const YamlNode &item : items) {
      NPUC_ASSIGN_OR_RETURN(const int64_t v, doc.Int(item, what, 1, 16384));
      values.push_back(v);
    }
    if (values.size() != 2)
      return doc.Wrong(node, what, "[height, width]");
  } else {
    NPUC_ASSIGN_OR_RETURN(const int64_t v, doc.Int(node, what, 1, 16384));
    values.push_back(v);
  }
  return values;
}

} // namespace

StatusOr<Preprocess> ReadPreprocess(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  NPUC_ASSIGN_OR_RETURN(const YamlDocument doc, YamlDocument::Parse(text, path, kYamlConfigCodes));
  NPUC_ASSIGN_OR_RETURN(YamlMap map, doc.Map(doc.root(), ""));
  Preprocess p;
  if (const YamlNode *n = map.Find("color")) {
    NPUC_ASSIGN_OR_RETURN(const std::string v, doc.String(*n, "color"));
    if (v == "rgb")
      p.color = Preprocess::Color::Rgb;
    else if (v == "bgr")
      p.color = Preprocess::Color::Bgr;
    else if (v == "gray")
      p.color = Preprocess::Color::Gray;
    else
      return doc.Wrong(*n, "color", "rgb, bgr or gray");
  }
  if (const YamlNode *n = map.Find("resize")) {
    NPUC_ASSIGN_OR_RETURN(p.resize, Sizes(doc, *n, "resize"));
  }
  if (const YamlNode *n = map.Find("crop")) {
    NPUC_ASSIGN_OR_RETURN(const std::vector<int64_t> v, Sizes(doc, *n, "crop"));
    p.crop = {v[0], v.back()};
  }
  if (const YamlNode *n = map.Find("scale")) {
    NPUC_ASSIGN_OR_RETURN(p.scale, doc.Number(*n, "scale", -1e30, 1e30));
  }
  if (const YamlNode *n = map.Find("mean")) {
    NPUC_ASSIGN_OR_RETURN(p.mean, Floats(doc, *n, "mean"));
  }
  if (const YamlNode *n = map.Find("std")) {
    NPUC_ASSIGN_OR_RETURN(p.std, Floats(doc, *n, "std"));
    for (const float v : p.std)
      if (v == 0)
        return doc.Wrong(*n, "std", "numbers other than 0");
  }
  if (const YamlNode *n = map.Find("layout")) {
    NPUC_ASSIGN_OR_RETURN(const std::string v, doc.String(*n, "layout"));
    if (v == "nchw")
      p.layout = Preprocess::Layout::Nchw;
    else if (v == "nhwc")
      p.layout = Preprocess::Layout::Nhwc;
    else
      return doc.Wrong(*n, "layout", "nchw or nhwc");
  }
  NPUC_RETURN_IF_ERROR(map.Finish());
  return p;
}

StatusOr<Tensor> TensorFromImage(const Image &image, std::string_view name, const Type &type, const Preprocess &pre) {
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
  const auto channels_like = [](std::optional<int64_t> d) { return d && (*d == 1 || *d == 3); };
  bool nchw = pre.layout == Preprocess::Layout::Nchw;
  if (pre.layout == Preprocess::Layout::Guess) {
    if (!channels_like(extent(1)) && !channels_like(extent(3)))
      return fail("no axis has 1 or 3 channels");
    nchw = channels_like(extent(1));
  }
  const std::optional<int64_t> want_c = extent(nchw ? 1 : 3), want_h = extent(nchw ? 2 : 1),
                               want_w = extent(nchw ? 3 : 2);
  const Preprocess::Color color = pre.color.value_or(want_c == 1 ? Preprocess::Color::Gray : Preprocess::Color::Rgb);
  const int64_t c = color == Preprocess::Color::Gray ? 1 : 3;
  if (want_c && *want_c != c)
    return fail(fmt::format("the image has {} channels", c));

  Planes p{image.height, image.width, c, std::vector<float>(int64_t{image.height} * image.width * c)};
  for (int64_t i = 0; i < p.h * p.w; ++i) {
    const uint8_t *px = image.pixels.data() + i * image.channels;
    const uint8_t r = px[0], g = image.channels >= 3 ? px[1] : px[0], b = image.channels >= 3 ? px[2] : px[0];
    if (c == 1) {
      p.v[i] = image.channels >= 3 ? std::floor(0.299f * r + 0.587f * g + 0.114f * b + 0.5f) : r;
    } else {
      const bool bgr = color == Preprocess::Color::Bgr;
      p.v[i * 3] = bgr ? b : r, p.v[i * 3 + 1] = g, p.v[i * 3 + 2] = bgr ? r : b;
    }
  }
  if (pre.resize.size() == 2) {
    p = ResizeTo(p, pre.resize[0], pre.resize[1]);
  } else if (pre.resize.size() == 1) {
    const int64_t s = pre.resize[0], shorter = std::min(p.h, p.w);
    p = ResizeTo(p, std::max<int64_t>(1, (p.h * s + shorter / 2) / shorter),
                 std::max<int64_t>(1, (p.w * s + shorter / 2) / shorter));
  } else if (!pre.crop) {
    p = ResizeTo(p, want_h.value_or(p.h), want_w.value_or(p.w));
  }
  const std::array<int64_t, 2> crop =
      pre.crop.value_or(std::array<int64_t, 2>{want_h.value_or(p.h), want_w.value_or(p.w)});
  if (crop[0] > p.h || crop[1] > p.w)
    return fail(fmt::format("the image of {} x {} is smaller than the crop of {} x {}", p.h, p.w, crop[0], crop[1]));
  p = Crop(p, crop[0], crop[1]);
  if ((want_h && *want_h != p.h) || (want_w && *want_w != p.w))
    return fail(fmt::format("--preprocess makes an image of {} x {}", p.h, p.w));

  const bool is_float = IsFloat(type.dtype());
  const float scale = static_cast<float>(pre.scale.value_or(is_float || type.is_quantized() ? 1.0 / 255.0 : 1.0));
  const auto of = [](const std::vector<float> &v, int64_t k, float otherwise) {
    return v.empty() ? otherwise : v[v.size() == 1 ? 0 : k];
  };
  const Dims dims4 = nchw ? Dims{1, c, p.h, p.w} : Dims{1, p.h, p.w, c};
  Tensor t = Tensor::Allocate(DType::F32, llvm::ArrayRef<int64_t>(dims4).take_back(rank));
  float *out = t.mutable_data<float>();
  for (int64_t y = 0; y < p.h; ++y)
    for (int64_t x = 0; x < p.w; ++x)
      for (int64_t k = 0; k < c; ++k) {
        const float v = (p.at(y, x, k) * scale - of(pre.mean, k, 0)) / of(pre.std, k, 1);
        out[nchw ? (k * p.h + y) * p.w + x : (y * p.w + x) * c + k] = v;
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
