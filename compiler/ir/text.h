// Lexical rules that the text printer and parser share. Grammar: docs/ir.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/types/type.h"

namespace npuc::text {

// Constants up to this many elements print as lists, greater ones as base64.
inline constexpr int64_t kMaxListed = 32;

// May stand without quotes: non-empty, of letters, digits, '_', '.', '$', '-'.
bool IsBare(std::string_view s);
inline bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '$' || c == '-' || c == '+';
}
// "..." with \" \\ \n \t and \xHH for control characters and, when s isn't UTF-8, for every byte above 7f.
void AppendQuoted(std::string &out, std::string_view s);
void AppendName(std::string &out, std::string_view s); // bare if it may be

// Shortest decimal that reads back to the same bits; inf, -inf, nan; a NaN other than the canonical one as
// nan(0x7fc00001). `mark`: with ".0" where it would look like an int.
void AppendFloat(std::string &out, float v, bool mark);
void AppendDouble(std::string &out, double v);

// As Type::ToString, with dim symbols quoted where they need it.
void AppendType(std::string &out, const Type &t);

} // namespace npuc::text
