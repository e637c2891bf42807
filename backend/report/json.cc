// Writer and reader of the report's JSON, both driven by the field lists of report.h.
//
// The writer is our own because the file's looks matter: a report is diffed and reviewed, so keys keep their order,
// each row of a table is one line, and numbers are short. The reader walks LLVM's JSON value.
#include "backend/report/json.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "compiler/support/diagnostic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace npuc::report {
namespace {

template <class T> struct IsMap : std::false_type {};
template <class T> struct IsMap<std::vector<std::pair<std::string, T>>> : std::true_type {};
template <class T> struct IsVector : std::false_type {};
template <class T> struct IsVector<std::vector<T>> : std::true_type {};

class Writer {
public:
  std::string out;

  template <class T> void Value(const T &value, int depth) {
    if constexpr (std::is_same_v<T, std::string>) {
      out += JsonString(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      out += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      out += fmt::format("{}", value);
    } else if constexpr (std::is_floating_point_v<T>) {
      // Not a number and infinity have no JSON; they would be bugs upstream and must not make the file unreadable.
      out += std::isfinite(value) ? fmt::format("{:.10g}", value == 0 ? 0.0 : value) : "0";
    } else if constexpr (IsMap<T>::value) {
      Items('{', '}', value, depth, [&](const auto &entry, int d) {
        out += JsonString(entry.first) + ": ";
        Value(entry.second, d);
      });
    } else if constexpr (IsVector<T>::value) {
      Items('[', ']', value, depth, [&](const auto &item, int d) { Value(item, d); });
    } else {
      Object<T> fields{*this, depth};
      out += '{';
      T::Fields(value, fields);
      Close('}', depth, !fields.first);
    }
  }

private:
  // The root's and its objects' entries, and the rows of tables, stand on lines of their own.
  static constexpr int kLineDepth = 1;

  void Separate(bool first, int depth) {
    if (depth <= kLineDepth) {
      out += first ? "\n" : ",\n";
      out.append(2 * (depth + 1), ' ');
    } else if (!first) {
      out += ", ";
    }
  }
  void Close(char bracket, int depth, bool any) {
    if (any && depth <= kLineDepth) {
      out += '\n';
      out.append(2 * depth, ' ');
    }
    out += bracket;
  }
  template <class C, class F> void Items(char open, char close, const C &items, int depth, F each) {
    out += open;
    bool first = true;
    for (const auto &item : items) {
      Separate(first, depth);
      first = false;
      each(item, depth + 1);
    }
    Close(close, depth, !first);
  }
  template <class T> struct Object {
    Writer &w;
    int depth;
    bool first = true;
    template <class M> void operator()(const char *name, const M &member) {
      w.Separate(first, depth);
      first = false;
      w.out += JsonString(name) + ": ";
      w.Value(member, depth + 1);
    }
  };
};

class Reader {
public:
  Status status = OkStatus();

  template <class T> void Value(const llvm::json::Value &json, T &value, const std::string &path) {
    if (!status.ok())
      return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (auto s = json.getAsString())
        value = s->str();
      else
        Wrong(path, "a string");
    } else if constexpr (std::is_same_v<T, bool>) {
      if (auto b = json.getAsBoolean())
        value = *b;
      else
        Wrong(path, "true or false");
    } else if constexpr (std::is_integral_v<T>) {
      if (auto i = json.getAsInteger())
        value = *i;
      else
        Wrong(path, "an integer");
    } else if constexpr (std::is_floating_point_v<T>) {
      if (auto d = json.getAsNumber())
        value = *d;
      else
        Wrong(path, "a number");
    } else if constexpr (IsMap<T>::value) {
      const auto *object = json.getAsObject();
      if (!object)
        return Wrong(path, "an object");
      value.clear();
      for (const auto &[key, item] : *object) {
        value.emplace_back(llvm::StringRef(key).str(), typename T::value_type::second_type{});
        Value(item, value.back().second, path + "." + value.back().first);
      }
      // LLVM's object is a hash map.
      std::sort(value.begin(), value.end(), [](auto &a, auto &b) { return a.first < b.first; });
    } else if constexpr (IsVector<T>::value) {
      const auto *array = json.getAsArray();
      if (!array)
        return Wrong(path, "an array");
      value.clear();
      value.resize(array->size());
      for (size_t i = 0; i < array->size(); ++i)
        Value((*array)[i], value[i], fmt::format("{}[{}]", path, i));
    } else {
      const auto *object = json.getAsObject();
      if (!object)
        return Wrong(path, "an object");
      auto field = [&](const char *name, auto &member) {
        if (const llvm::json::Value *item = object->get(name))
          Value(*item, member, path.empty() ? name : path + "." + name);
      };
      T::Fields(value, field);
    }
  }

private:
  void Wrong(const std::string &path, std::string_view wanted) {
    status = Error("E0103", fmt::format("'{}' is not {}", path.empty() ? "the file" : path, wanted),
                   "give a report that npuc wrote (NAME.report.json)");
  }
};

} // namespace

std::string JsonString(std::string_view s) {
  llvm::StringRef text(s.data(), s.size());
  std::string fixed;
  if (!llvm::json::isUTF8(text)) {
    fixed = llvm::json::fixUTF8(text);
    text = fixed;
  }
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\r':
      out += "\\r";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20)
        out += fmt::format("\\u{:04x}", static_cast<int>(c));
      else
        out += c;
    }
  }
  return out + "\"";
}

std::string ToJson(const Report &report) {
  Writer w;
  w.Value(report, 0);
  return w.out + "\n";
}

StatusOr<Report> FromJson(std::string_view text, std::string_view file) {
  auto json = llvm::json::parse(llvm::StringRef(text.data(), text.size()));
  if (!json) {
    std::string why = llvm::toString(json.takeError());
    return AtFile(Error("E0103", "not valid JSON: " + why, "give a report that npuc wrote (NAME.report.json)"), file);
  }
  Report report;
  report.schema.clear();
  Reader reader;
  reader.Value(*json, report, "");
  if (reader.status.ok() && report.schema != kSchema)
    reader.status = Error("E0103", fmt::format("schema is '{}', this version reads {}", report.schema, kSchema),
                          "give a report that npuc wrote (NAME.report.json)");
  if (!reader.status.ok())
    return AtFile(reader.status, file);
  return report;
}

StatusOr<Report> ReadReport(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return AtFile(Error("E0101", "cannot read: " + buffer.getError().message()), path);
  return FromJson((*buffer)->getBuffer(), path);
}

} // namespace npuc::report
