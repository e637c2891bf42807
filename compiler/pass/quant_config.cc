#include "compiler/pass/quant_config.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/json.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"

namespace npuc {
namespace {

constexpr std::string_view kPrecisions[] = {"auto", "fp16", "int8", "int16", "fp32"};
constexpr std::string_view kWeights[] = {"int8", "int4"};
constexpr double kGreatest = 3e38;

Status Unknown(const YamlDocument &doc, const YamlNode &at, std::string_view what, const std::string &name,
               const std::vector<std::string> &known) {
  const std::string near = NearestName(name, known);
  std::string help = near.empty() ? std::string() : fmt::format("did you mean {}? ", near);
  if (!known.empty()) {
    help += fmt::format("the model has {}", known[0]);
    for (size_t i = 1; i < known.size() && i < 5; ++i)
      help += ", " + known[i];
    if (known.size() > 5)
      help += fmt::format(" and {} more; the report lists all", known.size() - 5);
  }
  return doc.At(at, "E0507", fmt::format("the model has no {} '{}'", what, name), help);
}

class Reader {
public:
  Reader(const YamlDocument &doc, const Module &module) : doc_(doc) {
    for (const OnnxNode &n : module.onnx_nodes())
      ids_.push_back(n.id);
    nodes_ = &module.onnx_nodes();
    const Graph &g = module.main();
    for (unsigned i = 0; i < g.num_inputs(); ++i)
      tensors_.push_back(g.input(i)->name());
    for (const Node &n : g.nodes())
      for (unsigned i = 0; i < n.num_results(); ++i)
        tensors_.push_back(n.result(i)->name());
    for (const std::string &name : g.output_names())
      tensors_.push_back(name);
  }

  StatusOr<QuantConfig> Read() {
    QuantConfig c;
    if (doc_.root().kind == YamlNode::Kind::null)
      return c;
    NPUC_ASSIGN_OR_RETURN(YamlMap map, doc_.Map(doc_.root(), ""));
    if (const YamlNode *p = map.Find("precision")) {
      NPUC_ASSIGN_OR_RETURN(c.precision, ReadPrecision(*p, "precision"));
    }
    if (const YamlNode *list = map.Find("nodes")) {
      NPUC_ASSIGN_OR_RETURN(auto items, doc_.List(*list, "nodes"));
      for (const YamlNode &item : items)
        NPUC_RETURN_IF_ERROR(ReadNode(item, c));
    }
    if (const YamlNode *list = map.Find("tensors")) {
      NPUC_ASSIGN_OR_RETURN(auto items, doc_.List(*list, "tensors"));
      for (const YamlNode &item : items)
        NPUC_RETURN_IF_ERROR(ReadTensor(item, c));
    }
    NPUC_RETURN_IF_ERROR(map.Finish());
    return c;
  }

private:
  StatusOr<Precision> ReadPrecision(const YamlNode &node, std::string_view what) {
    NPUC_ASSIGN_OR_RETURN(std::string text, doc_.String(node, what));
    const auto p = ParsePrecision(text);
    if (!p || *p == Precision::Auto || *p == Precision::Fp32)
      return doc_.Wrong(node, what, "int8, int16 or fp16");
    return *p;
  }

  Status ReadTensorKeys(YamlMap &map, TensorQuant *t) {
    if (const YamlNode *n = map.Find("method")) {
      NPUC_ASSIGN_OR_RETURN(std::string text, doc_.String(*n, map.Path("method")));
      if (text != "minmax" && text != "moving-average" && text != "percentile" && text != "entropy" && text != "mse")
        return doc_.Wrong(*n, map.Path("method"), "minmax, moving-average, percentile, entropy or mse");
      t->method.emplace(std::move(text));
    }
    if (const YamlNode *n = map.Find("range")) {
      NPUC_ASSIGN_OR_RETURN(auto items, doc_.List(*n, map.Path("range")));
      if (items.size() != 2)
        return doc_.Wrong(*n, map.Path("range"), "[low, high]");
      NPUC_ASSIGN_OR_RETURN(const double lo, doc_.Number(items[0], map.Path("range"), -kGreatest, kGreatest));
      NPUC_ASSIGN_OR_RETURN(const double hi, doc_.Number(items[1], map.Path("range"), -kGreatest, kGreatest));
      if (!(lo < hi))
        return doc_.Wrong(*n, map.Path("range"), "low < high");
      t->range = {static_cast<float>(lo), static_cast<float>(hi)};
    }
    if (const YamlNode *n = map.Find("scale")) {
      if (t->range)
        return doc_.At(*n, "E0508", "scale and range exclude each other", "give one of them");
      NPUC_ASSIGN_OR_RETURN(const double s, doc_.Number(*n, map.Path("scale"), 1e-30, 1e30));
      t->scale = static_cast<float>(s);
    }
    if (const YamlNode *n = map.Find("zero_point")) {
      if (!t->scale)
        return doc_.At(*n, "E0508", "zero_point without scale", "give scale too, or range instead of both");
      NPUC_ASSIGN_OR_RETURN(const int64_t z, doc_.Int(*n, map.Path("zero_point"), 0, 255));
      t->zero_point = static_cast<int32_t>(z);
    }
    return OkStatus();
  }

  Status ReadNode(const YamlNode &item, QuantConfig &c) {
    NPUC_ASSIGN_OR_RETURN(YamlMap map, doc_.Map(item, "nodes"));
    NPUC_ASSIGN_OR_RETURN(const YamlNode *name, map.Require("node"));
    NPUC_ASSIGN_OR_RETURN(const std::string pattern, doc_.String(*name, map.Path("node")));
    NodeQuant q;
    if (const YamlNode *p = map.Find("precision")) {
      NPUC_ASSIGN_OR_RETURN(q.precision, ReadPrecision(*p, map.Path("precision")));
    }
    if (const YamlNode *w = map.Find("weights")) {
      NPUC_ASSIGN_OR_RETURN(std::string text, doc_.String(*w, map.Path("weights")));
      const auto bits = std::find(std::begin(kWeights), std::end(kWeights), text) - std::begin(kWeights);
      if (bits == std::ssize(kWeights))
        return doc_.Wrong(*w, map.Path("weights"), "int8 or int4");
      q.weight_bits = bits == 0 ? 8 : 4;
    }
    if (const YamlNode *w = map.Find("weight_only")) {
      NPUC_ASSIGN_OR_RETURN(q.weight_only, doc_.Bool(*w, map.Path("weight_only")));
    }
    if (const YamlNode *g = map.Find("group")) {
      NPUC_ASSIGN_OR_RETURN(q.group, doc_.Int(*g, map.Path("group"), 1, 1 << 20));
      if (!q.weight_only.value_or(false))
        return doc_.At(*g, "E0508",
                       "group needs weight_only: true: integer sums have one scale for each output channel");
    }
    NPUC_RETURN_IF_ERROR(ReadTensorKeys(map, &q.result));
    NPUC_RETURN_IF_ERROR(map.Finish());

    std::vector<std::string> matched;
    for (const OnnxNode &n : *nodes_)
      if (n.id == pattern)
        matched = {n.id};
    if (matched.empty())
      for (const OnnxNode &n : *nodes_)
        if (MatchesGlob(pattern, n.id) || (!n.name.empty() && MatchesGlob(pattern, n.name)))
          matched.push_back(n.id);
    if (matched.empty())
      return Unknown(doc_, *name, "node", pattern, ids_);
    auto take = [](auto &to, const auto &from) {
      if (from)
        to = from;
    };
    for (const std::string &id : matched) {
      NodeQuant &to = c.nodes[id];
      take(to.precision, q.precision);
      take(to.weight_bits, q.weight_bits);
      take(to.weight_only, q.weight_only);
      take(to.group, q.group);
      Merge(to.result, q.result);
    }
    return OkStatus();
  }

  static void Merge(TensorQuant &to, const TensorQuant &from) {
    if (from.method)
      to.method = from.method;
    if (from.range) {
      to.range = from.range;
      to.scale.reset();
      to.zero_point.reset();
    }
    if (from.scale) {
      to.scale = from.scale;
      to.zero_point = from.zero_point;
      to.range.reset();
    }
  }

  Status ReadTensor(const YamlNode &item, QuantConfig &c) {
    NPUC_ASSIGN_OR_RETURN(YamlMap map, doc_.Map(item, "tensors"));
    NPUC_ASSIGN_OR_RETURN(const YamlNode *name, map.Require("tensor"));
    NPUC_ASSIGN_OR_RETURN(const std::string tensor, doc_.String(*name, map.Path("tensor")));
    TensorQuant q;
    NPUC_RETURN_IF_ERROR(ReadTensorKeys(map, &q));
    NPUC_RETURN_IF_ERROR(map.Finish());
    if (std::find(tensors_.begin(), tensors_.end(), tensor) == tensors_.end())
      return Unknown(doc_, *name, "tensor", tensor, tensors_);
    Merge(c.tensors[tensor], q);
    return OkStatus();
  }

  const YamlDocument &doc_;
  const std::vector<OnnxNode> *nodes_;
  std::vector<std::string> ids_, tensors_;
};

} // namespace

std::string_view Name(Precision p) {
  return kPrecisions[static_cast<int>(p)];
}

std::optional<Precision> ParsePrecision(std::string_view name) {
  for (int i = 0; i < 5; ++i)
    if (kPrecisions[i] == name)
      return static_cast<Precision>(i);
  return std::nullopt;
}

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  // Greedy with one point to come back to: linear but for repeated stars, quadratic at worst.
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

bool QuantConfig::HasRanges() const {
  auto has = [](const TensorQuant &t) { return t.range || t.scale; };
  for (const auto &[id, n] : nodes)
    if (has(n.result))
      return true;
  for (const auto &[name, t] : tensors)
    if (has(t))
      return true;
  return false;
}

bool QuantConfig::AnyFourBits() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto &n) { return n.second.weight_bits == 4; });
}

NodeQuant QuantConfig::ForNode(const Node &n) const {
  NodeQuant r;
  if (nodes.empty())
    return r;
  const auto &table = n.graph()->module().onnx_nodes();
  auto fill = [](auto &to, const auto &from) {
    if (!to)
      to = from;
  };
  for (OriginId id : n.origin()) {
    if (id >= table.size())
      continue;
    const auto found = nodes.find(table[id].id);
    if (found == nodes.end())
      continue;
    const NodeQuant &q = found->second;
    fill(r.precision, q.precision);
    fill(r.weight_bits, q.weight_bits);
    fill(r.weight_only, q.weight_only);
    fill(r.group, q.group);
    fill(r.result.method, q.result.method);
    if (!r.result.range && !r.result.scale) {
      r.result.range = q.result.range;
      r.result.scale = q.result.scale;
      r.result.zero_point = q.result.zero_point;
    }
  }
  return r;
}

StatusOr<QuantConfig> ParseQuantConfig(std::string_view text, std::string_view file, const Module &module) {
  NPUC_ASSIGN_OR_RETURN(YamlDocument doc, YamlDocument::Parse(text, file, kYamlConfigCodes));
  return Reader(doc, module).Read();
}

StatusOr<QuantConfig> ReadQuantConfig(const std::string &path, const Module &module) {
  NPUC_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  return ParseQuantConfig(text, path, module);
}

std::string WriteQuantConfig(const QuantConfig &c) {
  std::string out;
  if (c.precision)
    out += fmt::format("precision: {}\n", Name(*c.precision));
  auto tensor = [&](const TensorQuant &t) {
    if (t.method)
      out += fmt::format("    method: {}\n", *t.method);
    if (t.range)
      out += fmt::format("    range: [{}, {}]\n", JsonNumber(t.range->first), JsonNumber(t.range->second));
    if (t.scale)
      out += fmt::format("    scale: {}\n", JsonNumber(*t.scale));
    if (t.zero_point)
      out += fmt::format("    zero_point: {}\n", *t.zero_point);
  };
  if (!c.nodes.empty())
    out += "nodes:\n";
  for (const auto &[id, n] : c.nodes) {
    out += fmt::format("  - node: {}\n", YamlQuoted(id));
    if (n.precision)
      out += fmt::format("    precision: {}\n", Name(*n.precision));
    if (n.weight_bits)
      out += fmt::format("    weights: int{}\n", *n.weight_bits);
    if (n.weight_only)
      out += fmt::format("    weight_only: {}\n", *n.weight_only ? "true" : "false");
    if (n.group)
      out += fmt::format("    group: {}\n", *n.group);
    tensor(n.result);
  }
  if (!c.tensors.empty())
    out += "tensors:\n";
  for (const auto &[name, t] : c.tensors) {
    out += fmt::format("  - tensor: {}\n", YamlQuoted(name));
    tensor(t);
  }
  return out;
}

} // namespace npuc
