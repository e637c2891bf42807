#include "compiler/ir/lexer.h"

#include "compiler/ir/text.h"

namespace npuc::text {

void Lexer::Next() {
  for (;;) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n'))
      if (text_[at_++] == '\n')
        ++line_, line_start_ = at_;
    if (text_.substr(at_, 2) != "//")
      break;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
  token_.line = line_;
  token_.column = static_cast<int>(at_ - line_start_) + 1;
  token_.value.clear();
  const size_t start = at_;
  if (at_ == text_.size()) {
    token_.kind = Token::End;
  } else if (IsWordChar(text_[at_])) {
    token_.kind = Token::Word;
    while (at_ < text_.size() && IsWordChar(text_[at_]))
      ++at_;
  } else if (text_[at_] == '"') {
    LexString();
  } else if (std::string_view("(){}[]<>,:=%@*?").find(text_[at_]) != std::string_view::npos) {
    token_.kind = Token::Punct;
    at_ += text_.substr(at_, 2) == "::" ? 2 : 1;
  } else {
    token_.kind = Token::Bad;
    problem_ = "a character that begins nothing here";
    do
      ++at_;
    while (at_ < text_.size() && (text_[at_] & 0xc0) == 0x80); // the whole of a UTF-8 character
  }
  token_.text = text_.substr(start, at_ - start);
}

void Lexer::LexString() {
  auto bad = [&](std::string_view problem) {
    token_.kind = Token::Bad;
    problem_ = problem;
  };
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  token_.kind = Token::String;
  ++at_;
  for (;;) {
    const size_t end = text_.find_first_of("\"\\\n", at_);
    if (end == std::string_view::npos || text_[end] == '\n') {
      at_ = std::min(end, text_.size());
      return bad("a string without its closing quote");
    }
    token_.value += text_.substr(at_, end - at_);
    at_ = end + 1;
    if (text_[end] == '"')
      return;
    const char c = at_ < text_.size() ? text_[at_] : '\n';
    if (c == '\n')
      return bad("a string without its closing quote");
    ++at_;
    if (c == 'n') {
      token_.value += '\n';
    } else if (c == 't') {
      token_.value += '\t';
    } else if (c == '"' || c == '\\') {
      token_.value += c;
    } else if (c == 'x' && at_ + 1 < text_.size() && digit(text_[at_]) >= 0 && digit(text_[at_ + 1]) >= 0) {
      token_.value += static_cast<char>(digit(text_[at_]) << 4 | digit(text_[at_ + 1]));
      at_ += 2;
    } else {
      return bad("an escape other than \\\" \\\\ \\n \\t \\xHH");
    }
  }
}

} // namespace npuc::text
