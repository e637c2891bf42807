// A row becomes arguments, so that a manifest can say what the command line can, by the same names, checked by the same
// code.
#include "compiler/driver/manifest.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"

namespace npuc {
namespace fs = std::filesystem;
namespace {

class Reader {
public:
  Reader(const YamlDocument &doc, const std::string &file, const std::string &output_dir, const FlagKinds &kinds,
         const std::vector<std::string> &names)
      : doc_(doc), file_(file), output_dir_(output_dir), kinds_(kinds), names_(names) {}

  Status Read(Manifest *out) {
    NPUC_ASSIGN_OR_RETURN(YamlMap root, doc_.Map(doc_.root(), ""));
    if (const YamlNode *defaults = root.Find("defaults")) {
      NPUC_ASSIGN_OR_RETURN(defaults_, Flags(*defaults, "defaults"));
      for (const char *key : {"model", "name", "output", "report"})
        if (auto it = defaults_.find(key); it != defaults_.end())
          return doc_.At(*it->second, "E0508", fmt::format("defaults.{}: every row has its own", key),
                         "move it into the rows");
    }
    NPUC_ASSIGN_OR_RETURN(const YamlNode *models, root.Require("models"));
    NPUC_RETURN_IF_ERROR(root.Finish());
    NPUC_ASSIGN_OR_RETURN(const auto items, doc_.List(*models, "models"));
    std::map<std::string, std::string> names, files; // -> where
    for (size_t i = 0; i < items.size(); ++i) {
      NPUC_ASSIGN_OR_RETURN(ManifestRow row, Row(items[i], fmt::format("models[{}]", i)));
      if (auto [it, fresh] = names.emplace(row.name, row.where); !fresh)
        return doc_.At(items[i], "E0508",
                       fmt::format("two rows are called '{}', the other one at {}", row.name, it->second),
                       "give each a name of its own with name:");
      for (const std::string &output : {row.binary, row.report})
        if (!output.empty())
          if (auto [it, fresh] = files.emplace(fs::path(output).lexically_normal().string(), row.where); !fresh)
            return doc_.At(items[i], "E0508",
                           fmt::format("two rows write '{}', the other one at {}", output, it->second),
                           "give one of them another output: or report:");
      out->rows.push_back(std::move(row));
    }
    if (out->rows.empty())
      return doc_.At(*models, "E0508", "models: the list is empty", "give at least one row: - model: net.onnx");
    return OkStatus();
  }

private:
  using FlagMap = std::map<std::string, const YamlNode *>; // in the order of the names: arguments have no order

  // Keys of a map that are flags, or name, model, output.
  StatusOr<FlagMap> Flags(const YamlNode &node, const std::string &what) {
    NPUC_RETURN_IF_ERROR(doc_.Map(node, what));
    FlagMap flags;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const std::string &key = node.keys[i].text;
      if (key != "name" && key != "model" && key != "output" && kinds_(key) == FlagKind::Unknown) {
        const std::string near = NearestName(key, names_);
        return doc_.At(node.keys[i], "E0508", fmt::format("{}.{}: npuc has no such flag", what, key),
                       near.empty() ? "the keys are name, model, output and npuc's flags without their dashes"
                                    : fmt::format("did you mean {}?", near));
      }
      flags[key] = &node.items[i];
    }
    return flags;
  }

  StatusOr<ManifestRow> Row(const YamlNode &node, const std::string &what) {
    FlagMap flags = defaults_;
    if (node.kind == YamlNode::Kind::scalar) {
      flags["model"] = &node; // - net.onnx
    } else {
      NPUC_ASSIGN_OR_RETURN(FlagMap own, Flags(node, what));
      for (const auto &[key, value] : own)
        flags[key] = value;
    }
    ManifestRow row;
    row.where = fmt::format("{}:{}:{}", file_, node.line, node.column);
    auto text = [&](const char *key) -> StatusOr<std::string> {
      auto it = flags.find(key);
      if (it == flags.end())
        return std::string();
      const YamlNode *value = it->second;
      flags.erase(it);
      return doc_.String(*value, what + "." + key);
    };
    NPUC_ASSIGN_OR_RETURN(const std::string model, text("model"));
    NPUC_ASSIGN_OR_RETURN(row.name, text("name"));
    NPUC_ASSIGN_OR_RETURN(row.binary, text("output"));
    if (model.empty())
      return doc_.At(node, "E0508", fmt::format("{}: a row needs a model", what), "model: net.onnx");
    if (row.name.empty())
      row.name = fs::path(model).stem().string();
    if (row.binary.empty()) {
      row.binary = row.name + ".bin";
      std::replace(row.binary.begin(), row.binary.end(), '/', '_');
    }
    row.binary = (fs::path(output_dir_) / row.binary).string();
    row.args = {model, "-o", row.binary};
    std::string prefix;
    if (flags.count("report")) {
      NPUC_ASSIGN_OR_RETURN(prefix, text("report"));
      prefix = (fs::path(output_dir_) / prefix).string();
      row.args.push_back("--report=" + prefix);
    } else {
      const fs::path p(row.binary);
      prefix = (p.parent_path() / p.stem()).string();
    }
    row.report = prefix + ".report.json";
    for (const auto &[key, value] : flags) {
      NPUC_RETURN_IF_ERROR(Argument(key, *value, what + "." + key, &row.args));
      if (key == "no-report" && row.args.back() == "--no-report")
        row.report.clear();
    }
    return row;
  }

  Status Argument(const std::string &key, const YamlNode &value, const std::string &what,
                  std::vector<std::string> *args) {
    const FlagKind kind = kinds_(key);
    if (kind == FlagKind::Switch) {
      NPUC_ASSIGN_OR_RETURN(const bool on, doc_.Bool(value, what));
      if (on)
        args->push_back("--" + key);
      return OkStatus();
    }
    auto add = [&](const YamlNode &item) -> Status {
      NPUC_ASSIGN_OR_RETURN(const std::string s, doc_.String(item, what));
      args->push_back((key.size() == 1 ? "-" + key : "--" + key + "=") + s);
      return OkStatus();
    };
    if (kind != FlagKind::Repeated || value.kind != YamlNode::Kind::list)
      return add(value);
    for (const YamlNode &item : value.items)
      NPUC_RETURN_IF_ERROR(add(item));
    return OkStatus();
  }

  const YamlDocument &doc_;
  const std::string &file_, &output_dir_;
  const FlagKinds &kinds_;
  const std::vector<std::string> &names_;
  FlagMap defaults_;
};

} // namespace

StatusOr<Manifest> ReadManifest(const std::string &path, const std::string &output_dir, const FlagKinds &kinds,
                                const std::vector<std::string> &names) {
  NPUC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  NPUC_ASSIGN_OR_RETURN(const YamlDocument doc, YamlDocument::Parse(text, path, kYamlConfigCodes));
  Manifest manifest;
  const std::string folder = fs::path(path).parent_path().string();
  manifest.folder = folder.empty() ? "." : folder;
  NPUC_RETURN_IF_ERROR(Reader(doc, path, output_dir, kinds, names).Read(&manifest));
  return manifest;
}

} // namespace npuc
