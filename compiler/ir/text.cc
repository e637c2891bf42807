#include "compiler/ir/text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "llvm/Support/JSON.h"

namespace npuc::text {

bool IsBare(std::string_view s) {
  if (s.empty())
    return false;
  for (char c : s)
    if (!IsWordChar(c) || c == '+')
      return false;
  return true;
}

void AppendQuoted(std::string &out, std::string_view s) {
  bool utf8 = true;
  for (char c : s)
    if (c & 0x80) {
      utf8 = llvm::json::isUTF8(s);
      break;
    }
  out += '"';
  for (char c : s) {
    const unsigned char u = c;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (u < 0x20 || u == 0x7f || (u >= 0x80 && !utf8)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  out += '"';
}

void AppendName(std::string &out, std::string_view s) {
  if (IsBare(s))
    out += s;
  else
    AppendQuoted(out, s);
}

void AppendFloat(std::string &out, float v, bool mark) {
  if (std::isnan(v)) {
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    if (bits == 0x7fc00000)
      out += "nan";
    else
      fmt::format_to(std::back_inserter(out), "nan(0x{:08x})", bits);
    return;
  }
  const size_t start = out.size();
  fmt::format_to(std::back_inserter(out), "{}", v);
  if (mark && !std::isinf(v) && out.find_first_of(".e", start) == std::string::npos)
    out += ".0";
}

void AppendDouble(std::string &out, double v) {
  if (std::isnan(v)) {
    uint64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    if (bits == 0x7ff8000000000000)
      out += "nan";
    else
      fmt::format_to(std::back_inserter(out), "nan(0x{:016x})", bits);
    return;
  }
  fmt::format_to(std::back_inserter(out), "{}", v);
}

void AppendType(std::string &out, const Type &t) {
  switch (t.kind()) {
  case Type::Kind::None:
    out += "none";
    return;
  case Type::Kind::Sequence:
  case Type::Kind::Optional:
    out += t.kind() == Type::Kind::Sequence ? "seq<" : "opt<";
    AppendType(out, t.element());
    out += '>';
    return;
  case Type::Kind::Map:
    fmt::format_to(std::back_inserter(out), "map<{},", Name(t.dtype()));
    AppendType(out, t.element());
    out += '>';
    return;
  case Type::Kind::Tensor:
    break;
  }
  out += Name(t.dtype());
  out += '[';
  if (!t.shape().ranked()) {
    out += '*';
  } else {
    for (int i = 0; i < t.shape().rank(); ++i) {
      if (i)
        out += ',';
      const Dim &d = t.shape()[i];
      if (d.is_static()) {
        fmt::format_to(std::back_inserter(out), "{}", d.value());
      } else {
        const std::string_view s = d.symbol();
        // A bare symbol begins like no number.
        if (s == "?" || (IsBare(s) && s[0] != '-' && s[0] != '.' && !(s[0] >= '0' && s[0] <= '9')))
          out += s;
        else
          AppendQuoted(out, s);
      }
    }
  }
  out += ']';
  if (const QuantRef &q = t.quant()) {
    auto list = [&](const auto &values, auto append) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (i)
          out += ',';
        append(values[i]);
      }
    };
    auto scale = [&](float s) { AppendFloat(out, s, false); };
    auto zero = [&](int32_t z) { fmt::format_to(std::back_inserter(out), "{}", z); };
    if (q->per_tensor() && q->scales.size() == 1 && q->zero_points.size() == 1) {
      out += "{s=";
      scale(q->scales[0]);
      out += ",z=";
      zero(q->zero_points[0]);
    } else {
      fmt::format_to(std::back_inserter(out), "{{axis={},s=(", q->axis);
      list(q->scales, scale);
      out += "),z=(";
      list(q->zero_points, zero);
      out += ')';
    }
    out += '}';
  }
  if (t.layout() != Layout::RowMajor) {
    out += ':';
    out += Name(t.layout());
  }
}

} // namespace npuc::text
