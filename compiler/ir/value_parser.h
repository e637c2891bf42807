// The parts of the text parser below the node: names, numbers, types, tensors, attributes. Internal to compiler/ir.
#pragma once

#include <optional>

#include "compiler/ir/attribute.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/lexer.h"
#include "compiler/ir/op_def.h"

namespace npuc::text {

// Every Parse... function returns false once something is wrong; the first problem stays in status().
class ValueParser {
public:
  ValueParser(std::string_view text, std::string_view file, const ExternalReader *external)
      : lexer_(text), file_(file), external_(external) {}

  const Status &status() const { return status_; }
  const Token &token() const { return lexer_.token(); }
  bool AtEnd() const { return token().kind == Token::End; }

  bool ParseType(Type *out);
  // `spec`: what the operator's schema says about the attribute, null if unknown; turns ints into floats where it wants
  // floats. `implied`: type of a tensor written without one.
  bool ParseAttribute(const AttrSpec *spec, const Type *implied, Attribute *out);
  bool ParseInt(int64_t *out);
  bool ParseUnsigned(uint64_t *out, uint64_t most);
  bool ParseName(std::string *out); // word or string
  bool ParseString(std::string *out);

  bool Fail(std::string_view expected); // E0210 at the present token: found ..., expected ...
  bool Error(std::string_view code, std::string message, std::string help = "");
  bool ErrorAt(const Token &at, std::string_view code, std::string message, std::string help = "");
  bool Accept(std::string_view t);
  bool Expect(std::string_view t);
  void Next() { lexer_.Next(); }
  // Items until `close`, commas between; the opening bracket is already read.
  template <class Fn> bool ParseList(std::string_view close, Fn item) {
    if (Accept(close))
      return true;
    for (;;) {
      if (!item())
        return false;
      if (Accept(close))
        return true;
      if (!Accept(","))
        return Fail(fmt::format("',' or '{}'", close));
    }
  }

private:
  bool ParseTensorType(DType dtype, Type *out);
  bool ParseQuant(QuantRef *out);
  bool ParseTensor(const Type *implied, Tensor *out);
  bool ParseTensorHead(const Type *implied, DType *dtype, Dims *dims);
  bool ParseElement(DType dtype, uint8_t *out);
  bool ParseFloating(float *out) { return ParseFloatingOf(out); }
  template <class T> bool ParseFloatingOf(T *out);
  bool ParseListAttribute(std::string_view kind, const AttrSpec *spec, Attribute *out);

  Lexer lexer_;
  std::string file_;
  const ExternalReader *external_;
  Status status_;
  int depth_ = 0; // of nested types
};

} // namespace npuc::text
