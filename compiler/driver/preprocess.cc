// Reads preprocessing files.
#include "compiler/driver/preprocess.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"

namespace npuc {
namespace {

constexpr int64_t kMaxSide = 16384;

// One of a list of words, as an enum whose values count up from 0.
template <class Enum>
StatusOr<Enum> Word(const YamlDocument &doc, const YamlNode &node, std::string_view what,
                    std::initializer_list<std::string_view> words) {
  NPUC_ASSIGN_OR_RETURN(const std::string text, doc.String(node, what));
  const auto at = std::find(words.begin(), words.end(), text);
  if (at == words.end())
    return doc.Wrong(node, what, fmt::format("one of {}", fmt::join(words, ", ")));
  return static_cast<Enum>(at - words.begin());
}

// Numbers: one, or a list of as many as an image can have channels.
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
  if (values.empty() || values.size() > 4)
    return doc.Wrong(node, what, "one number, or one per channel");
  return values;
}

// [height, width], or one number.
StatusOr<std::vector<int64_t>> Sizes(const YamlDocument &doc, const YamlNode &node, std::string_view what) {
  std::vector<int64_t> values;
  if (node.kind != YamlNode::Kind::list) {
    NPUC_ASSIGN_OR_RETURN(const int64_t v, doc.Int(node, what, 1, kMaxSide));
    return std::vector<int64_t>{v};
  }
  NPUC_ASSIGN_OR_RETURN(const auto items, doc.List(node, what));
  for (const YamlNode &item : items) {
    NPUC_ASSIGN_OR_RETURN(const int64_t v, doc.Int(item, what, 1, kMaxSide));
    values.push_back(v);
  }
  if (values.size() != 2)
    return doc.Wrong(node, what, "[height, width]");
  return values;
}

StatusOr<std::array<int64_t, 2>> Size(const YamlDocument &doc, const YamlNode &node, std::string_view what) {
  NPUC_ASSIGN_OR_RETURN(const std::vector<int64_t> v, Sizes(doc, node, what));
  return std::array<int64_t, 2>{v[0], v.back()};
}

StatusOr<Preprocess::Frame> ReadFrame(const YamlDocument &doc, const YamlNode &node, const std::string &what) {
  NPUC_ASSIGN_OR_RETURN(YamlMap map, doc.Map(node, what));
  Preprocess::Frame f;
  NPUC_ASSIGN_OR_RETURN(const YamlNode *format, map.Require("format"));
  NPUC_ASSIGN_OR_RETURN(f.format, Word<Preprocess::FrameFormat>(doc, *format, map.Path("format"),
                                                                {"nv12", "nv21", "i420", "yuyv", "uyvy"}));
  NPUC_ASSIGN_OR_RETURN(const YamlNode *size, map.Require("size"));
  NPUC_ASSIGN_OR_RETURN(const auto hw, Size(doc, *size, map.Path("size")));
  if (hw[0] % 2 || hw[1] % 2)
    return doc.Wrong(*size, map.Path("size"), "an even height and width: chroma is shared by pairs");
  f.height = static_cast<int>(hw[0]);
  f.width = static_cast<int>(hw[1]);
  if (const YamlNode *n = map.Find("matrix")) {
    NPUC_ASSIGN_OR_RETURN(const int v, Word<int>(doc, *n, map.Path("matrix"), {"bt601", "bt709"}));
    f.bt709 = v == 1;
  }
  if (const YamlNode *n = map.Find("range")) {
    NPUC_ASSIGN_OR_RETURN(const int v, Word<int>(doc, *n, map.Path("range"), {"limited", "full"}));
    f.full_range = v == 1;
  }
  NPUC_RETURN_IF_ERROR(map.Finish());
  return f;
}

StatusOr<Preprocess::Letterbox> ReadLetterbox(const YamlDocument &doc, const YamlNode &node, const std::string &what) {
  Preprocess::Letterbox l;
  if (node.kind != YamlNode::Kind::map) {
    NPUC_ASSIGN_OR_RETURN(l.size, Size(doc, node, what));
    return l;
  }
  NPUC_ASSIGN_OR_RETURN(YamlMap map, doc.Map(node, what));
  if (const YamlNode *n = map.Find("size")) {
    NPUC_ASSIGN_OR_RETURN(l.size, Size(doc, *n, map.Path("size")));
  }
  if (const YamlNode *n = map.Find("pad")) {
    NPUC_ASSIGN_OR_RETURN(l.pad, Floats(doc, *n, map.Path("pad")));
  }
  if (const YamlNode *n = map.Find("align")) {
    NPUC_ASSIGN_OR_RETURN(const int v, Word<int>(doc, *n, map.Path("align"), {"center", "top-left"}));
    l.centered = v == 0;
  }
  NPUC_RETURN_IF_ERROR(map.Finish());
  return l;
}

StatusOr<Preprocess> ReadSteps(const YamlDocument &doc, const YamlNode &node, const std::string &what, bool outer) {
  NPUC_ASSIGN_OR_RETURN(YamlMap map, doc.Map(node, what));
  Preprocess p;
  if (const YamlNode *n = map.Find("frame")) {
    NPUC_ASSIGN_OR_RETURN(p.frame, ReadFrame(doc, *n, map.Path("frame")));
  }
  if (const YamlNode *n = map.Find("color")) {
    NPUC_ASSIGN_OR_RETURN(p.color,
                          Word<Preprocess::Color>(doc, *n, map.Path("color"), {"rgb", "bgr", "gray", "rgba", "bgra"}));
  }
  if (const YamlNode *n = map.Find("resize")) {
    NPUC_ASSIGN_OR_RETURN(p.resize, Sizes(doc, *n, map.Path("resize")));
  }
  if (const YamlNode *n = map.Find("crop")) {
    NPUC_ASSIGN_OR_RETURN(p.crop, Size(doc, *n, map.Path("crop")));
  }
  if (const YamlNode *n = map.Find("letterbox")) {
    if (!p.resize.empty() || p.crop)
      return doc.Wrong(*n, map.Path("letterbox"), "letterbox alone, or resize and crop");
    NPUC_ASSIGN_OR_RETURN(p.letterbox, ReadLetterbox(doc, *n, map.Path("letterbox")));
  }
  if (const YamlNode *n = map.Find("interpolation")) {
    NPUC_ASSIGN_OR_RETURN(p.interpolation,
                          Word<Preprocess::Interpolation>(doc, *n, map.Path("interpolation"), {"bilinear", "nearest"}));
  }
  if (const YamlNode *n = map.Find("scale")) {
    NPUC_ASSIGN_OR_RETURN(p.scale, doc.Number(*n, map.Path("scale"), -1e30, 1e30));
  }
  // Means of 127.5 with pixels scaled to [0, 1] would make every image the same grey: an old trap.
  auto in_pixels = [&](const std::vector<float> &v) {
    return !p.scale && std::any_of(v.begin(), v.end(), [](float x) { return std::fabs(x) > 4; });
  };
  constexpr std::string_view kSayScale =
      "numbers for pixels in [0, 1], or a scale beside it (scale: 1 for pixels in [0, 255])";
  if (const YamlNode *n = map.Find("mean")) {
    NPUC_ASSIGN_OR_RETURN(p.mean, Floats(doc, *n, map.Path("mean")));
    if (in_pixels(p.mean))
      return doc.Wrong(*n, map.Path("mean"), kSayScale);
  }
  if (const YamlNode *n = map.Find("std")) {
    NPUC_ASSIGN_OR_RETURN(p.std, Floats(doc, *n, map.Path("std")));
    for (const float v : p.std)
      if (v == 0)
        return doc.Wrong(*n, map.Path("std"), "numbers other than 0");
    if (in_pixels(p.std))
      return doc.Wrong(*n, map.Path("std"), kSayScale);
  }
  if (const YamlNode *n = map.Find("layout")) {
    NPUC_ASSIGN_OR_RETURN(const int v, Word<int>(doc, *n, map.Path("layout"), {"nchw", "nhwc"}));
    p.layout = v == 0 ? Preprocess::Layout::Nchw : Preprocess::Layout::Nhwc;
  }
  if (outer) {
    if (const YamlNode *n = map.Find("inputs")) {
      NPUC_RETURN_IF_ERROR(doc.Map(*n, "inputs").status());
      for (size_t i = 0; i < n->keys.size(); ++i) {
        NPUC_ASSIGN_OR_RETURN(p.inputs[n->keys[i].text],
                              ReadSteps(doc, n->items[i], "inputs." + n->keys[i].text, false));
      }
    }
  }
  NPUC_RETURN_IF_ERROR(map.Finish());
  return p;
}

} // namespace

const Preprocess &Preprocess::For(std::string_view input) const {
  const auto it = inputs.find(input);
  return it == inputs.end() ? *this : it->second;
}

StatusOr<Preprocess> ReadPreprocess(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  NPUC_ASSIGN_OR_RETURN(const YamlDocument doc, YamlDocument::Parse(text, path, kYamlConfigCodes));
  return ReadSteps(doc, doc.root(), "", true);
}

} // namespace npuc
