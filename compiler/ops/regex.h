// Regular expressions in RE2's syntax, matched in time linear in the text.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/support/status.h"

namespace npuc::ops {

// Supported: literals, . [] with ranges and classes, \d \D \w \W \s \S \b \B \A \z \xHH \t\n\r\f\v, groups (also (?:)
// and names), | * + ? {m,n} and their lazy forms (a full match is the same), ^ $. Not: flags (?i), Unicode classes \p,
// \C. Works on bytes, but . and negated classes take a whole UTF-8 character.
class Regex {
public:
  static StatusOr<Regex> Compile(std::string_view pattern); // E0203
  bool FullMatch(std::string_view text) const;

private:
  friend class RegexParser;
  struct Instruction {
    enum Kind : uint8_t { Bytes, Any, Split, Jump, Begin, End, Word, NotWord, Match } kind = Match;
    bool bytes[256] = {};
    bool multi = false; // Bytes: also takes characters of several bytes (negated class)
    int to = 0, other = 0;
  };
  std::vector<Instruction> program_;
};

} // namespace npuc::ops
