// Writer and reader of the report's JSON, both driven by the field lists of report.h. A report is diffed and reviewed,
// so keys keep their order and each row of a table is one line.
#include "backend/report/json.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "compiler/support/diagnostic.h"
#include "compiler/support/json.h"
#include "compiler/support/mapped_file.h"

namespace npuc::report {
namespace {

template <class T> struct IsMap : std::false_type {};
template <class T> struct IsMap<std::vector<std::pair<std::string, T>>> : std::true_type {};
template <class T> struct IsVector : std::false_type {};
template <class T> struct IsVector<std::vector<T>> : std::true_type {};

class Writer {
public:
  explicit Writer(std::string *out) : w_(out) {}

  template <class T> void Value(const T &value, int depth) {
    // The root and its objects have a line a key, tables a line a row.
    constexpr bool kScalar = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Extent>;
    if (!kScalar && depth >= 2)
      w_.BeginLine();
    if constexpr (std::is_same_v<T, Extent>) {
      value.symbol.empty() ? w_.Value(value.value) : w_.Value(value.symbol);
    } else if constexpr (std::is_floating_point_v<T>) {
      // A scale of the model may be anything; JSON has no word for it.
      w_.Value(std::isfinite(value) ? value : 0);
    } else if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>) {
      w_.Value(value);
    } else if constexpr (IsMap<T>::value) {
      w_.BeginObject();
      for (const auto &[key, item] : value) {
        w_.Key(key);
        Value(item, depth + 1);
      }
      w_.EndObject();
    } else if constexpr (IsVector<T>::value) {
      w_.BeginArray();
      for (const auto &item : value)
        Value(item, depth + 1);
      w_.EndArray();
    } else {
      auto field = [&](const char *name, const auto &member) {
        w_.Key(name);
        Value(member, depth + 1);
      };
      w_.BeginObject();
      T::Fields(value, field);
      w_.EndObject();
    }
  }

private:
  JsonWriter w_;
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
    } else if constexpr (std::is_same_v<T, Extent>) {
      if (auto i = json.getAsInteger())
        value.value = *i;
      else if (auto s = json.getAsString())
        value.symbol = s->str();
      else
        Wrong(path, "a number or a symbol");
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

// Before anything else is read: a newer schema may have changed all of it. Older ones lack keys at most.
Status CheckSchema(const llvm::json::Value &json) {
  constexpr std::string_view kFamily = "npuc-report/";
  static_assert(kSchema.substr(0, kFamily.size()) == kFamily);
  const auto *object = json.getAsObject();
  const auto schema = object ? object->getString("schema") : std::nullopt;
  int version = 0, ours = 0;
  if (!schema || !schema->starts_with(llvm::StringRef(kFamily.data(), kFamily.size())) ||
      schema->substr(kFamily.size()).getAsInteger(10, version) || version < 0)
    return Error("E0103",
                 schema ? fmt::format("the schema is '{}', no npuc-report/N", schema->str())
                        : "this is no report: it has no schema",
                 "give a report that npuc wrote (NAME.report.json)");
  (void)llvm::StringRef(kSchema.data() + kFamily.size(), kSchema.size() - kFamily.size()).getAsInteger(10, ours);
  if (version <= ours)
    return OkStatus();
  const auto *tool = object->getObject("tool");
  const auto by = tool ? tool->getString("version") : std::nullopt;
  return Error("E0103",
               fmt::format("the schema is {}, written by a newer npuc{}; this one reads up to {}", schema->str(),
                           by ? " (" + by->str() + ")" : "", kSchema),
               "use the npu-report of the npuc that wrote it, or compile again with this one");
}

} // namespace

std::string ToJson(const Report &report) {
  std::string out;
  Writer(&out).Value(report, 0);
  return out + "\n";
}

StatusOr<Report> FromJson(std::string_view text, std::string_view file) {
  NPUC_ASSIGN_OR_RETURN(const llvm::json::Value json, ParseJson(text, file));
  NPUC_RETURN_IF_ERROR(AtFile(CheckSchema(json), file));
  Report report;
  Reader reader;
  reader.Value(json, report, "");
  if (!reader.status.ok())
    return AtFile(reader.status, file);
  return report;
}

StatusOr<Report> ReadReport(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return FromJson(text, path);
}

} // namespace npuc::report
