// Configuration files: a YAML document as a small tree in which every node knows its line and column, and typed reading
// whose errors say where, what was found and what is allowed.
//
//   NPUC_ASSIGN_OR_RETURN(YamlDocument doc, YamlDocument::Parse(text, "pre.yaml", kYamlConfigCodes));
//   NPUC_ASSIGN_OR_RETURN(YamlMap map, doc.Map(doc.root(), ""));
//   NPUC_ASSIGN_OR_RETURN(const YamlNode *size, map.Require("size"));
//   NPUC_ASSIGN_OR_RETURN(int64_t n, doc.Int(*size, "size", 1, 4096));
//   NPUC_RETURN_IF_ERROR(map.Finish());   // keys that nobody asked for
//
// Anchors, aliases, tags and several documents are refused.
#pragma once

#include "compiler/support/status.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npuc {

struct YamlNode {
  enum class Kind : uint8_t { null, scalar, map, list };
  Kind kind = Kind::null;
  bool quoted = false;         // a scalar that was written in quotes, or as a block
  int line = 1, column = 1;    // of its first character
  std::string text;            // scalar: its value, quotes and escapes removed
  std::vector<YamlNode> keys;  // map: scalars, in file order, unique
  std::vector<YamlNode> items; // map: the values; list: the items

  // Value of a key of a map; nullptr if there is none.
  const YamlNode *Find(std::string_view key) const;
};

// Which code of errors.def each kind of mistake gets.
struct YamlCodes {
  std::string_view syntax, unknown_key, missing_key, value;
};
inline constexpr YamlCodes kYamlConfigCodes{"E0508", "E0508", "E0508", "E0508"};

class YamlMap;

class YamlDocument {
public:
  static StatusOr<YamlDocument> Parse(std::string_view text, std::string_view file, const YamlCodes &codes);

  const YamlNode &root() const { return root_; }
  const YamlCodes &codes() const { return codes_; }

  // Typed reading. `what` is the dotted path that messages show ("mxu.px").
  StatusOr<YamlMap> Map(const YamlNode &node, std::string what) const;
  StatusOr<std::span<const YamlNode>> List(const YamlNode &node, std::string_view what) const;
  StatusOr<std::string> String(const YamlNode &node, std::string_view what) const;
  StatusOr<bool> Bool(const YamlNode &node, std::string_view what) const;
  // A whole number from lo to hi.
  StatusOr<int64_t> Int(const YamlNode &node, std::string_view what, int64_t lo, int64_t hi) const;
  // A decimal or scientific number from lo to hi.
  StatusOr<double> Number(const YamlNode &node, std::string_view what, double lo, double hi) const;

  // "file:line:column: error[value code]: what: found X, allowed is Y".
  Status Wrong(const YamlNode &node, std::string_view what, std::string_view allowed, std::string help = "") const;
  Status At(const YamlNode &node, std::string_view code, std::string message, std::string help = "") const;

private:
  YamlNode root_;
  std::string file_;
  YamlCodes codes_;
};

// A map being read; keeps which keys were asked for. Must not outlive the document.
class YamlMap {
public:
  // nullptr if the key is absent.
  const YamlNode *Find(std::string_view key);
  StatusOr<const YamlNode *> Require(std::string_view key);
  // "path.key", or the key alone at the root.
  std::string Path(std::string_view key) const;
  const YamlNode &node() const { return *node_; }
  // An error for the first key that was not asked for, with the nearest key that was as a hint.
  Status Finish() const;

private:
  friend class YamlDocument;
  YamlMap(const YamlDocument *document, const YamlNode *node, std::string what)
      : document_(document), node_(node), what_(std::move(what)) {}
  const YamlDocument *document_;
  const YamlNode *node_;
  std::string what_;
  std::set<std::string, std::less<>> asked_;
};

// The candidate nearest to a misspelt word, "" when none is near.
std::string NearestName(std::string_view word, std::span<const std::string> candidates);

// A double-quoted YAML scalar.
std::string YamlQuoted(std::string_view text);

} // namespace npuc
