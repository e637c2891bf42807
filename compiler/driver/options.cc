#include "compiler/driver/options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"

namespace npuc {
namespace fs = std::filesystem;
namespace {

// The path without its last suffix: "a/model.bin" -> "a/model"; a name that begins with a dot has no suffix there.
std::string WithoutSuffix(const std::string &path) {
  const fs::path p(path);
  return (p.parent_path() / p.stem()).string();
}

std::string BaseName(const std::string &path) {
  return fs::path(path).filename().string();
}

bool SameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  if (fs::equivalent(a, b, error))
    return true;
  return fs::absolute(a).lexically_normal() == fs::absolute(b).lexically_normal();
}

Status CheckWritable(const std::string &path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return AtFile(Error("E0102", "cannot write: it is a folder", "give a file's name"), path);
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error))
    return AtFile(
        Error("E0102", fmt::format("cannot write: there is no folder '{}'", folder.string()), "make the folder first"),
        path);
  return OkStatus();
}

// "HxW" behind the last '=' of "ID=HxW".
StatusOr<std::pair<int64_t, int64_t>> ParseTile(std::string_view item, std::string_view text) {
  int64_t size[2] = {0, 0};
  const char *at = text.data(), *end = text.data() + text.size();
  for (int i = 0; i < 2; ++i) {
    auto [stop, error] = std::from_chars(at, end, size[i]);
    const bool good = error == std::errc() && size[i] >= 1 && (i == 0 ? stop != end && *stop == 'x' : stop == end);
    if (!good)
      return Error("E0501", fmt::format("--tile {}: '{}' is not HxW with numbers from 1 on", item, text),
                   "for example --tile conv1=16x32");
    at = stop + 1;
  }
  return std::pair(size[0], size[1]);
}

Status ReadSelectors(const YamlDocument &doc, YamlMap &map, std::string_view key, std::string_view file,
                     std::vector<OpSelector> *out) {
  const YamlNode *node = map.Find(key);
  if (!node)
    return OkStatus();
  NPUC_ASSIGN_OR_RETURN(auto items, doc.List(*node, key));
  for (const YamlNode &item : items) {
    NPUC_ASSIGN_OR_RETURN(std::string text, doc.String(item, key));
    auto selector = ParseOpSelector(text);
    if (!selector.ok())
      return AtFile(selector.status(), fmt::format("{}:{}:{}", file, item.line, item.column));
    out->push_back(*std::move(selector));
  }
  return OkStatus();
}

} // namespace

StatusOr<OutputPaths> ResolveOutputs(const CompilerOptions &o) {
  if (o.model.empty())
    return Error("E0501", "no model is given", "npuc model.onnx -o model.bin");
  if (o.model == "-")
    return Error("E0501", "the model cannot come from standard input: external data and names need a file",
                 "give the file's name");
  if (o.output == "-")
    return Error("E0501", "-o -: the binary is not written to standard output", "give a file's name");
  OutputPaths paths;
  paths.binary = o.output.empty() ? BaseName(WithoutSuffix(o.model)) + ".bin" : o.output;
  if (!o.no_report) {
    const std::string prefix = o.report_prefix.empty() ? WithoutSuffix(paths.binary) : o.report_prefix;
    if (BaseName(prefix).empty())
      return Error("E0501", fmt::format("--report {} is a folder, not the prefix of file names", prefix),
                   fmt::format("for example --report {}{}", prefix, BaseName(WithoutSuffix(paths.binary))));
    paths.json = prefix + ".report.json";
    paths.html = prefix + ".report.html";
  }
  std::vector<std::string> seen = {o.model};
  for (const std::string &path : {paths.binary, paths.json, paths.html}) {
    if (path.empty())
      continue;
    for (size_t i = 0; i < seen.size(); ++i)
      if (SameFile(seen[i], path))
        return Error("E0501",
                     i == 0 ? fmt::format("'{}' would overwrite the model", path)
                            : fmt::format("'{}' would be written twice", path),
                     "choose another -o or --report");
    seen.push_back(path);
    NPUC_RETURN_IF_ERROR(CheckWritable(path));
  }
  return paths;
}

Status CheckOptions(const CompilerOptions &o) {
  if (o.opt_level < 0 || o.opt_level > 3)
    return Error("E0501", fmt::format("-O{}: the levels are 0 to 3", o.opt_level), "give -O0, -O1, -O2 or -O3");
  if (o.max_fusion_chain < 1)
    return Error("E0501", fmt::format("--max-fusion-chain {}: at least 1", o.max_fusion_chain));
  if (o.jobs < 0 || o.jobs > 1024)
    return Error("E0501", fmt::format("-j {}: a number from 1 to 1024, or 0 for the machine's processors", o.jobs));
  if (!ParseCalibrationMethod(o.calib_method))
    return Error("E0501", fmt::format("--calib-method {}: not one of minmax, moving-average, percentile, entropy, mse",
                                      o.calib_method));
  NPUC_RETURN_IF_ERROR(report::ParseTolerances(o.gates.tolerances));
  if (o.gates.min_cosine && o.calib.empty())
    return Error("E0501", "--min-cosine compares on the calibration samples, and there are none", "give --calib PATH");
  auto check_pass = [](std::string_view flag, const std::string &name) -> Status {
    if (LookupPass(name))
      return OkStatus();
    std::vector<std::string> names;
    for (const Pass &pass : AllPasses())
      names.emplace_back(pass.name);
    const std::string near = NearestName(name, names);
    return Error("E0501", fmt::format("{} {}: there is no such pass", flag, name),
                 near.empty() ? fmt::format("the passes are {}", fmt::join(names, ", "))
                              : fmt::format("did you mean {}?", near));
  };
  for (const std::string &name : o.disabled_passes)
    NPUC_RETURN_IF_ERROR(check_pass("--disable-pass", name));
  for (const std::string &name : o.print_after)
    if (name != "all")
      NPUC_RETURN_IF_ERROR(check_pass("--print-after", name));
  return OkStatus();
}

StatusOr<OriginId> FindNode(const Module &module, std::string_view argument, std::string_view flag) {
  const auto &nodes = module.onnx_nodes();
  std::vector<OriginId> named;
  for (OriginId i = 0; i < nodes.size(); ++i) {
    if (nodes[i].id == argument)
      return i;
    if (!nodes[i].name.empty() && nodes[i].name == argument)
      named.push_back(i);
  }
  if (named.size() == 1)
    return named[0];
  if (named.size() > 1) {
    std::string ids;
    for (size_t i = 0; i < named.size(); ++i)
      ids += (i ? ", " : "") + nodes[named[i]].id;
    return Error("E0507", fmt::format("{} {}: {} nodes have that name", flag, argument, named.size()),
                 "say which by its id: " + ids);
  }
  std::vector<std::string> all;
  for (const OnnxNode &node : nodes)
    all.push_back(node.id);
  const std::string near = NearestName(argument, all);
  return Error("E0507", fmt::format("{} {}: the model has no such node", flag, argument),
               near.empty() ? "node ids are in the report; an unnamed node is OpType@its_first_output"
                            : fmt::format("did you mean {}?", near));
}

StatusOr<PassOptions> MakePassOptions(const CompilerOptions &o, const Module &module) {
  PassOptions p;
  p.precision = o.precision;
  p.have_samples = !o.calib.empty();
  p.calibration.method = *ParseCalibrationMethod(o.calib_method);
  if (!o.quant_config.empty()) {
    NPUC_ASSIGN_OR_RETURN(p.quant_config, ReadQuantConfig(o.quant_config, module));
  }
  p.opt_level = o.opt_level;
  p.max_fusion_chain = o.max_fusion_chain;
  p.native_io = o.native_io;
  for (const std::string &text : o.deny_ops) {
    auto selector = ParseOpSelector(text);
    if (!selector.ok())
      return Prefix(selector.status(), "--deny-op " + text);
    p.deny_ops.push_back(*std::move(selector));
  }
  if (!o.ops_file.empty()) {
    NPUC_ASSIGN_OR_RETURN(std::string text, ReadTextFile(o.ops_file));
    NPUC_ASSIGN_OR_RETURN(YamlDocument doc, YamlDocument::Parse(text, o.ops_file, kYamlConfigCodes));
    NPUC_ASSIGN_OR_RETURN(YamlMap map, doc.Map(doc.root(), ""));
    NPUC_RETURN_IF_ERROR(ReadSelectors(doc, map, "preferred_ops", o.ops_file, &p.preferred_ops));
    NPUC_RETURN_IF_ERROR(ReadSelectors(doc, map, "avoid_ops", o.ops_file, &p.deny_ops));
    NPUC_RETURN_IF_ERROR(map.Finish());
  }
  for (const std::string &node : o.deny_nodes) {
    NPUC_ASSIGN_OR_RETURN(OriginId id, FindNode(module, node, "--deny-node"));
    p.deny_nodes.push_back(module.onnx_nodes()[id].id);
  }
  for (const std::string &item : o.tiles) {
    // At the first '=' whose left side is a node: ids may contain '='.
    size_t at = item.find('=');
    if (at == std::string::npos)
      return Error("E0501", fmt::format("--tile {}: not ID=HxW", item), "for example --tile conv1=16x32");
    StatusOr<OriginId> id = FindNode(module, item.substr(0, at), "--tile");
    for (size_t next = item.find('=', at + 1); !id.ok() && next != std::string::npos; next = item.find('=', next + 1))
      if (auto longer = FindNode(module, item.substr(0, next), "--tile"); longer.ok()) {
        id = longer;
        at = next;
      }
    if (!id.ok())
      return id.status();
    NPUC_ASSIGN_OR_RETURN(auto size, ParseTile(item, std::string_view(item).substr(at + 1)));
    auto [had, fresh] = p.tiles.emplace(module.onnx_nodes()[*id].id, size);
    if (!fresh && had->second != size)
      return Error(
          "E0501",
          fmt::format("--tile {}: {}x{} was given for the same node", item, had->second.first, had->second.second),
          "give one tile for a node");
  }
  return p;
}

std::vector<std::pair<std::string, std::string>> NormalizedOptions(const CompilerOptions &o) {
  std::vector<std::pair<std::string, std::string>> out;
  auto add = [&](const char *flag, const std::string &value) { out.emplace_back(flag, value); };
  // A value of "name=path" or "path": the folder says nothing about the content.
  auto file = [](const std::string &value) {
    const size_t eq = value.find('=');
    return eq == std::string::npos ? BaseName(value) : value.substr(0, eq + 1) + BaseName(value.substr(eq + 1));
  };
  add("--target", BaseName(o.target));
  add("--precision", std::string(Name(o.precision)));
  for (const std::string &v : o.calib)
    add("--calib", file(v));
  if (!o.calib.empty())
    add("--calib-method", o.calib_method);
  if (!o.quant_config.empty())
    add("--quant-config", BaseName(o.quant_config));
  if (!o.preprocess.empty())
    add("--preprocess", BaseName(o.preprocess));
  for (const std::string &v : o.dims)
    add("--dim", v);
  for (const std::string &v : o.input_shapes)
    add("--input-shape", v);
  for (const std::string &v : o.binds) {
    const size_t at = v.find("=@");
    add("--bind", at == std::string::npos ? v : v.substr(0, at + 2) + BaseName(v.substr(at + 2)));
  }
  for (const std::string &v : o.inputs)
    add("--input", v);
  for (const std::string &v : o.outputs)
    add("--output", v);
  if (!o.ops_file.empty())
    add("--ops", BaseName(o.ops_file));
  for (const std::string &v : o.deny_ops)
    add("--deny-op", v);
  for (const std::string &v : o.deny_nodes)
    add("--deny-node", v);
  add("--io", o.native_io ? "native" : "float");
  add("-O", std::to_string(o.opt_level));
  add("--max-fusion-chain", std::to_string(o.max_fusion_chain));
  for (const std::string &v : o.disabled_passes)
    add("--disable-pass", v);
  for (const std::string &v : o.tiles)
    add("--tile", v);
  if (o.pass_limit != INT64_MAX)
    add("--pass-limit", std::to_string(o.pass_limit));
  if (o.rewrite_limit != INT64_MAX)
    add("--rewrite-limit", std::to_string(o.rewrite_limit));
  return out;
}

namespace {

std::string CommandOf(const CompilerOptions &o, const std::vector<std::pair<std::string, std::string>> &flags) {
  auto quoted = [](const std::string &s) {
    if (!s.empty() && s.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+") ==
                          std::string::npos)
      return s;
    std::string out = "'";
    for (char c : s)
      out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  std::string command = "npuc " + quoted(BaseName(o.model));
  for (const auto &[flag, value] : flags)
    command += flag == "-O" ? " -O" + value : " " + flag + " " + quoted(value);
  return command;
}

} // namespace

std::string CanonicalCommand(const CompilerOptions &o) {
  return CommandOf(o, NormalizedOptions(o));
}

std::string ShortCommand(const CompilerOptions &o) {
  auto flags = NormalizedOptions(o);
  const auto defaults = NormalizedOptions({});
  std::erase_if(flags, [&](auto &f) { return std::find(defaults.begin(), defaults.end(), f) != defaults.end(); });
  return CommandOf(o, flags);
}

} // namespace npuc
