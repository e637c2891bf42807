#include "compiler/support/yaml.h"

#include "compiler/support/diagnostic.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/YAMLParser.h>

#include <fmt/ranges.h>

#include <algorithm>

namespace npuc {
namespace {

// Builds the tree from LLVM's streaming parser; the parser's own errors and ours end in `status`.
class Builder {
public:
  Builder(std::string_view text, std::string_view file, const YamlCodes &codes)
      : file_(file), codes_(codes),
        buffer_(llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(text.data(), text.size()))) {
    manager_.setDiagHandler(
        [](const llvm::SMDiagnostic &d, void *self) {
          static_cast<Builder *>(self)->Fail(d.getLineNo(), d.getColumnNo() + 1, d.getMessage().str());
        },
        this);
  }

  StatusOr<YamlNode> Run() {
    llvm::yaml::Stream stream(buffer_->getMemBufferRef(), manager_, /*ShowColors=*/false);
    YamlNode root;
    int documents = 0;
    for (llvm::yaml::Document &document : stream) {
      if (++documents > 1) {
        Fail(1, 1, "more than one document");
        break;
      }
      if (llvm::yaml::Node *node = document.getRoot())
        root = Build(*node, 0);
      if (!status_.ok() || !document.skip())
        break;
    }
    if (status_.ok() && stream.failed())
      Fail(1, 1, "not YAML");
    NPUC_RETURN_IF_ERROR(status_);
    return root;
  }

private:
  void Fail(int line, int column, std::string message) {
    if (status_.ok())
      status_ = AtFile(Error(codes_.syntax, std::move(message)),
                       fmt::format("{}:{}:{}", file_, std::max(line, 1), std::max(column, 1)));
  }

  YamlNode Build(llvm::yaml::Node &node, int depth) {
    YamlNode out;
    const char *start = node.getSourceRange().Start.getPointer();
    // A [list] or {map} is said to start after its bracket.
    if (llvm::isa<llvm::yaml::MappingNode, llvm::yaml::SequenceNode>(node)) {
      const char *p = start;
      while (p > buffer_->getBufferStart() && (p[-1] == ' ' || p[-1] == '\n'))
        --p;
      if (p > buffer_->getBufferStart() && (p[-1] == '[' || p[-1] == '{'))
        start = p - 1;
    }
    if (start >= buffer_->getBufferStart() && start <= buffer_->getBufferEnd()) {
      const llvm::StringRef before(buffer_->getBufferStart(), static_cast<size_t>(start - buffer_->getBufferStart()));
      out.line = static_cast<int>(before.count('\n')) + 1;
      const size_t newline = before.rfind('\n');
      out.column = static_cast<int>(newline == llvm::StringRef::npos ? before.size() : before.size() - newline - 1) + 1;
    }
    if (depth > 50) {
      Fail(out.line, out.column, "nested too deeply");
      return out;
    }
    if (!node.getAnchor().empty()) {
      Fail(out.line, out.column, "anchors are not supported");
      return out;
    }
    llvm::SmallString<64> storage;
    switch (node.getType()) {
    case llvm::yaml::Node::NK_Null:
      break;
    case llvm::yaml::Node::NK_Scalar: {
      auto &scalar = llvm::cast<llvm::yaml::ScalarNode>(node);
      out.kind = YamlNode::Kind::scalar;
      out.text = scalar.getValue(storage).str();
      const llvm::StringRef raw = scalar.getRawValue();
      out.quoted = raw.starts_with("\"") || raw.starts_with("'");
      break;
    }
    case llvm::yaml::Node::NK_BlockScalar:
      out.kind = YamlNode::Kind::scalar;
      out.text = llvm::cast<llvm::yaml::BlockScalarNode>(node).getValue().str();
      out.quoted = true;
      break;
    case llvm::yaml::Node::NK_Mapping: {
      out.kind = YamlNode::Kind::map;
      std::set<std::string> seen;
      for (llvm::yaml::KeyValueNode &entry : llvm::cast<llvm::yaml::MappingNode>(node)) {
        llvm::yaml::Node *key = entry.getKey();
        if (!status_.ok() || !key)
          break;
        out.keys.push_back(Build(*key, depth + 1));
        const YamlNode &k = out.keys.back();
        if (k.kind != YamlNode::Kind::scalar)
          Fail(k.line, k.column, "a key must be a word");
        else if (!seen.insert(k.text).second)
          status_ = status_.ok() ? AtFile(Error(codes_.unknown_key, fmt::format("the key '{}' is repeated", k.text)),
                                          fmt::format("{}:{}:{}", file_, k.line, k.column))
                                 : status_;
        llvm::yaml::Node *value = entry.getValue();
        out.items.push_back(value && status_.ok() ? Build(*value, depth + 1) : YamlNode());
        if (out.items.back().kind == YamlNode::Kind::null) { // an empty value has no place of its own
          out.items.back().line = k.line;
          out.items.back().column = k.column;
        }
      }
      break;
    }
    case llvm::yaml::Node::NK_Sequence:
      out.kind = YamlNode::Kind::list;
      for (llvm::yaml::Node &item : llvm::cast<llvm::yaml::SequenceNode>(node)) {
        if (!status_.ok())
          break;
        out.items.push_back(Build(item, depth + 1));
      }
      break;
    case llvm::yaml::Node::NK_Alias:
      Fail(out.line, out.column, "aliases are not supported");
      break;
    case llvm::yaml::Node::NK_KeyValue:
      Fail(out.line, out.column, "not YAML");
      break;
    }
    return out;
  }

  std::string file_;
  YamlCodes codes_;
  std::unique_ptr<llvm::MemoryBuffer> buffer_;
  llvm::SourceMgr manager_;
  Status status_;
};

std::string Shown(const YamlNode &node) {
  switch (node.kind) {
  case YamlNode::Kind::null:
    return "nothing";
  case YamlNode::Kind::map:
    return "a map";
  case YamlNode::Kind::list:
    return fmt::format("a list of {}", node.items.size());
  case YamlNode::Kind::scalar:
    break;
  }
  const std::string text = node.text.size() > 60 ? node.text.substr(0, 57) + "..." : node.text;
  return node.quoted ? "\"" + text + "\"" : text;
}

} // namespace

const YamlNode *YamlNode::Find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i].text == key)
      return &items[i];
  return nullptr;
}

StatusOr<YamlDocument> YamlDocument::Parse(std::string_view text, std::string_view file, const YamlCodes &codes) {
  YamlDocument document;
  document.file_ = file;
  document.codes_ = codes;
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    YamlNode at;
    at.line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(zero), '\n'));
    return document.At(at, codes.syntax, "a zero byte: this is not a text file");
  }
  NPUC_ASSIGN_OR_RETURN(document.root_, Builder(text, file, codes).Run());
  return document;
}

Status YamlDocument::At(const YamlNode &node, std::string_view code, std::string message, std::string help) const {
  return AtFile(Error(code, std::move(message), std::move(help)),
                fmt::format("{}:{}:{}", file_, node.line, node.column));
}

Status YamlDocument::Wrong(const YamlNode &node, std::string_view what, std::string_view allowed,
                           std::string help) const {
  const std::string subject = what.empty() ? "the document" : std::string(what);
  return At(node, codes_.value, fmt::format("{}: found {}, allowed is {}", subject, Shown(node), allowed),
            std::move(help));
}

StatusOr<YamlMap> YamlDocument::Map(const YamlNode &node, std::string what) const {
  if (node.kind != YamlNode::Kind::map)
    return Wrong(node, what, "a map of keys and values");
  return YamlMap(this, &node, std::move(what));
}

StatusOr<std::span<const YamlNode>> YamlDocument::List(const YamlNode &node, std::string_view what) const {
  if (node.kind != YamlNode::Kind::list)
    return Wrong(node, what, "a list");
  return std::span<const YamlNode>(node.items);
}

StatusOr<std::string> YamlDocument::String(const YamlNode &node, std::string_view what) const {
  if (node.kind != YamlNode::Kind::scalar)
    return Wrong(node, what, "a text");
  return node.text;
}

StatusOr<bool> YamlDocument::Bool(const YamlNode &node, std::string_view what) const {
  if (node.kind == YamlNode::Kind::scalar && !node.quoted) {
    if (node.text == "true")
      return true;
    if (node.text == "false")
      return false;
  }
  return Wrong(node, what, "true or false");
}

StatusOr<int64_t> YamlDocument::Int(const YamlNode &node, std::string_view what, int64_t lo, int64_t hi) const {
  int64_t value = 0;
  if (node.kind != YamlNode::Kind::scalar || node.quoted || llvm::StringRef(node.text).getAsInteger(10, value) ||
      value < lo || value > hi)
    return Wrong(node, what, fmt::format("a whole number from {} to {}", lo, hi));
  return value;
}

StatusOr<double> YamlDocument::Number(const YamlNode &node, std::string_view what, double lo, double hi) const {
  double value = 0;
  const bool digits = !node.text.empty() && node.text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  if (node.kind != YamlNode::Kind::scalar || node.quoted || !digits || llvm::StringRef(node.text).getAsDouble(value) ||
      !(value >= lo && value <= hi))
    return Wrong(node, what, fmt::format("a number from {} to {}", lo, hi));
  return value;
}

const YamlNode *YamlMap::Find(std::string_view key) {
  asked_.emplace(key);
  return node_->Find(key);
}

StatusOr<const YamlNode *> YamlMap::Require(std::string_view key) {
  if (const YamlNode *value = Find(key))
    return value;
  return document_->At(
      *node_, document_->codes().missing_key,
      fmt::format("{} the key '{}'", what_.empty() ? std::string("the document lacks") : what_ + " lacks", key));
}

std::string YamlMap::Path(std::string_view key) const {
  return what_.empty() ? std::string(key) : fmt::format("{}.{}", what_, key);
}

Status YamlMap::Finish() const {
  for (const YamlNode &key : node_->keys)
    if (!asked_.contains(key.text)) {
      const std::vector<std::string> known(asked_.begin(), asked_.end());
      const std::string nearest = NearestName(key.text, known);
      return document_->At(
          key, document_->codes().unknown_key,
          fmt::format("{} no key '{}'", what_.empty() ? std::string("there is") : what_ + " has", key.text),
          nearest.empty() ? fmt::format("the keys are {}", fmt::join(known, ", "))
                          : fmt::format("did you mean '{}'?", nearest));
    }
  return OkStatus();
}

std::string NearestName(std::string_view word, std::span<const std::string> candidates) {
  const unsigned limit = static_cast<unsigned>(std::min<size_t>(3, word.size() / 3 + 1));
  unsigned best = limit + 1;
  std::string nearest;
  for (const std::string &c : candidates) {
    const unsigned d = llvm::StringRef(word.data(), word.size()).edit_distance(c, true, limit);
    if (d < best) {
      best = d;
      nearest = c;
    }
  }
  return nearest;
}

std::string YamlQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

} // namespace npuc
