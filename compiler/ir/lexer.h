// Tokens of the IR's text form.
#pragma once

#include <string>
#include <string_view>

#include "compiler/support/status.h"

namespace npuc::text {

struct Token {
  enum Kind : uint8_t { End, Word, String, Punct, Bad };
  Kind kind = End;
  std::string_view text;    // as written; a String's with its quotes
  std::string value;        // a String's decoded value
  int line = 1, column = 1; // of the first byte, from 1

  bool Is(std::string_view t) const { return (kind == Punct || kind == Word) && text == t; }
};

// Words are runs of letters, digits and _ . $ - + ; punctuation is one character, but for "::". Comments run from // to
// the end of the line.
class Lexer {
public:
  explicit Lexer(std::string_view text) : text_(text) { Next(); }
  const Token &token() const { return token_; }
  void Next();
  // What is wrong with a Bad token.
  std::string_view problem() const { return problem_; }

private:
  void LexString();

  std::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
  std::string_view problem_;
};

} // namespace npuc::text
