// JSON out, deterministic: keys in the order they are written, doubles in the shortest form that reads back to the same
// bits, bytes that are not UTF-8 replaced by U+FFFD. There is no null; NaN and infinity are a compiler bug. In, through
// LLVM's parser, with errors that carry the place.
#pragma once

#include "compiler/support/status.h"

#include <llvm/Support/JSON.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace npuc {

// `s` with its quotes.
std::string JsonQuoted(std::string_view s);
// Shortest digits that read back to the same double; whole numbers below 2^53 without a point.
std::string JsonNumber(double value);

// Writes a value piece by piece; nesting is checked.
//
//   JsonWriter w(&text);
//   w.BeginObject().Key("name").Value("conv").Key("dims").BeginArray().Value(1).Value(8).EndArray().EndObject();
class JsonWriter {
public:
  // `indent` spaces a level; 0 writes one line. BeginLine() makes the object or array that follows one line.
  explicit JsonWriter(std::string *out, int indent = 2) : out_(*out), indent_(indent) {}

  JsonWriter &BeginObject() { return Begin('{'); }
  JsonWriter &EndObject() { return End('}'); }
  JsonWriter &BeginArray() { return Begin('['); }
  JsonWriter &EndArray() { return End(']'); }
  JsonWriter &Key(std::string_view key);

  JsonWriter &Value(std::string_view s) { return Raw(JsonQuoted(s)); }
  JsonWriter &Value(const char *s) { return Value(std::string_view(s)); }
  JsonWriter &Value(const std::string &s) { return Value(std::string_view(s)); }
  JsonWriter &Value(bool b) { return Raw(b ? "true" : "false"); }
  JsonWriter &Value(double d) { return Raw(JsonNumber(d)); }
  JsonWriter &Value(float f) { return Value(static_cast<double>(f)); }
  template <std::integral T> JsonWriter &Value(T i) { return Raw(fmt::format("{}", i)); }
  template <typename T> JsonWriter &Value(const std::vector<T> &list) {
    BeginLine().BeginArray();
    for (const auto &v : list)
      Value(v);
    return EndArray();
  }
  // Key and value at once.
  template <typename T> JsonWriter &Field(std::string_view key, const T &value) { return Key(key).Value(value); }

  JsonWriter &BeginLine() {
    if (!flat_)
      flat_next_ = true;
    return *this;
  }
  // Text that is JSON already.
  JsonWriter &Raw(std::string_view json);
  // True when everything that was begun is ended.
  bool Complete() const { return levels_.empty() && written_; }

private:
  struct Level {
    char kind; // '{' or '['
    bool empty = true;
    bool flat = false;
    bool ends_flat = false;
  };
  JsonWriter &Begin(char kind);
  JsonWriter &End(char kind);
  void Separate();

  std::string &out_;
  int indent_;
  std::vector<Level> levels_;
  bool have_key_ = false;
  bool flat_ = false, flat_next_ = false;
  bool written_ = false;
};

// Error E0103 at file:line:column.
StatusOr<llvm::json::Value> ParseJson(std::string_view text, std::string_view file);

} // namespace npuc
