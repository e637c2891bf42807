#include "compiler/support/json.h"

#include "compiler/support/diagnostic.h"

#include <charconv>
#include <cmath>

namespace npuc {

std::string JsonQuoted(std::string_view s) {
  std::string fixed;
  if (!llvm::json::isUTF8(llvm::StringRef(s.data(), s.size()))) {
    fixed = llvm::json::fixUTF8(llvm::StringRef(s.data(), s.size()));
    s = fixed;
  }
  std::string out = "\"";
  for (const char c : s) {
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
    default:
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      else
        out += c;
    }
  }
  return out + "\"";
}

std::string JsonNumber(double value) {
  NPUC_CHECK(std::isfinite(value), "{} is not a JSON number", value);
  if (value == 0)
    return "0";
  if (std::fabs(value) < 0x1p53 && value == static_cast<double>(static_cast<int64_t>(value)))
    return fmt::format("{}", static_cast<int64_t>(value));
  char buffer[32];
  const std::to_chars_result r = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, r.ptr);
}

void JsonWriter::Separate() {
  if (have_key_) {
    have_key_ = false;
    return;
  }
  if (levels_.empty()) {
    NPUC_CHECK(!written_, "two values at the top");
    written_ = true;
    return;
  }
  Level &level = levels_.back();
  if (!level.empty)
    out_ += ',';
  if (level.flat || indent_ == 0) {
    if (!level.empty && indent_ != 0)
      out_ += ' ';
  } else {
    out_ += '\n';
    out_.append(levels_.size() * static_cast<size_t>(indent_), ' ');
  }
  level.empty = false;
}

JsonWriter &JsonWriter::Key(std::string_view key) {
  NPUC_CHECK(!levels_.empty() && levels_.back().kind == '{' && !have_key_, "key '{}' outside an object", key);
  Separate();
  out_ += JsonQuoted(key);
  out_ += indent_ ? ": " : ":";
  have_key_ = true;
  return *this;
}

JsonWriter &JsonWriter::Raw(std::string_view json) {
  NPUC_CHECK(levels_.empty() || levels_.back().kind == '[' || have_key_, "a value without a key: {}", json);
  Separate();
  out_ += json;
  return *this;
}

JsonWriter &JsonWriter::Begin(char kind) {
  Raw(std::string_view(&kind, 1));
  Level level{kind};
  if (flat_next_) {
    flat_ = true;
    flat_next_ = false;
    level.ends_flat = true;
  }
  level.flat = flat_;
  levels_.push_back(level);
  return *this;
}

JsonWriter &JsonWriter::End(char kind) {
  NPUC_CHECK(!levels_.empty() && !have_key_ && levels_.back().kind == (kind == '}' ? '{' : '['), "unbalanced {}", kind);
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty && !level.flat && indent_ != 0) {
    out_ += '\n';
    out_.append(levels_.size() * static_cast<size_t>(indent_), ' ');
  }
  out_ += kind;
  if (level.ends_flat)
    flat_ = false;
  return *this;
}

namespace {

// LLVM's parser recurses; what nests deeper than this is no file of ours. Brackets inside strings don't count.
constexpr int kMaxDepth = 100;

// Where the text first nests deeper, as "line:column"; "" where it does not.
std::string TooDeep(std::string_view text) {
  int depth = 0, line = 1;
  size_t line_start = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      line_start = i + 1;
    }
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth)
        return fmt::format("{}:{}", line, i - line_start + 1);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return "";
}

} // namespace

StatusOr<llvm::json::Value> ParseJson(std::string_view text, std::string_view file) {
  if (const std::string at = TooDeep(text); !at.empty())
    return AtFile(Error("E0103", fmt::format("not JSON of ours: it nests deeper than {} levels", kMaxDepth),
                        "give a file that one of these tools wrote, whole"),
                  fmt::format("{}:{}", file, at));
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(llvm::StringRef(text.data(), text.size()));
  if (value)
    return std::move(*value);
  std::string place(file), message = "not JSON";
  llvm::handleAllErrors(value.takeError(), [&](const llvm::ErrorInfoBase &e) {
    // "[line:column, byte=n]: message"
    const std::string whole = e.message();
    const size_t comma = whole.find(", byte="), close = whole.find("]: ");
    if (whole.starts_with('[') && comma < close && close != std::string::npos) {
      place += ":" + whole.substr(1, comma - 1);
      message += ": " + whole.substr(close + 3);
    } else {
      message += ": " + whole;
    }
  });
  return AtFile(Error("E0103", message, "give a file that one of these tools wrote, whole"), place);
}

} // namespace npuc
