#include "compiler/ir/value_parser.h"

#include <charconv>

#include "compiler/ir/text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"
#include "llvm/Support/Base64.h"

namespace npuc::text {
namespace {

constexpr int kMaxTypeDepth = 64;

bool IsFloatWord(std::string_view w) {
  if (w == "inf" || w == "-inf" || w == "nan")
    return true;
  if (w.substr(0, 2) == "0x")
    return false;
  return w.find_first_of(".eE") != std::string_view::npos;
}

bool BeginsNumber(const Token &t) {
  if (t.kind != Token::Word)
    return false;
  const char c = t.text[0];
  return (c >= '0' && c <= '9') || c == '-' || c == '.' || t.text == "inf" || t.text == "nan";
}

template <class T> bool ReadNumber(std::string_view w, T *out, int base = 10) {
  const char *end = w.data() + w.size();
  if constexpr (std::is_floating_point_v<T>) {
    const auto r = std::from_chars(w.data(), end, *out);
    return r.ec == std::errc() && r.ptr == end;
  } else {
    const auto r = std::from_chars(w.data(), end, *out, base);
    return r.ec == std::errc() && r.ptr == end;
  }
}

} // namespace

bool ValueParser::ErrorAt(const Token &at, std::string_view code, std::string message, std::string help) {
  if (status_.ok())
    status_ = AtFile(npuc::Error(code, std::move(message), std::move(help)),
                     fmt::format("{}:{}:{}", file_, at.line, at.column));
  return false;
}

bool ValueParser::Error(std::string_view code, std::string message, std::string help) {
  return ErrorAt(token(), code, std::move(message), std::move(help));
}

bool ValueParser::Fail(std::string_view expected) {
  const Token &t = token();
  std::string found;
  if (t.kind == Token::End)
    found = "the end of the text";
  else if (t.kind == Token::Bad)
    found = fmt::format("{} ({})", lexer_.problem(), t.text.substr(0, 40));
  else
    found = fmt::format("'{}'", t.text.substr(0, 40));
  return Error("E0210", fmt::format("found {}, expected {}", found, expected));
}

bool ValueParser::Accept(std::string_view t) {
  if (!token().Is(t))
    return false;
  Next();
  return true;
}

bool ValueParser::Expect(std::string_view t) {
  return Accept(t) || Fail(fmt::format("'{}'", t));
}

bool ValueParser::ParseName(std::string *out) {
  if (token().kind == Token::String)
    *out = token().value;
  else if (token().kind == Token::Word)
    *out = token().text;
  else
    return Fail("a name");
  Next();
  return true;
}

bool ValueParser::ParseString(std::string *out) {
  if (token().kind != Token::String)
    return Fail("a string in quotes");
  *out = token().value;
  Next();
  return true;
}

bool ValueParser::ParseInt(int64_t *out) {
  if (token().kind != Token::Word || !ReadNumber(token().text, out))
    return Fail("an integer of 64 bits");
  Next();
  return true;
}

bool ValueParser::ParseUnsigned(uint64_t *out, uint64_t most) {
  const std::string_view w = token().text;
  const bool hex = w.substr(0, 2) == "0x";
  if (token().kind != Token::Word || !ReadNumber(hex ? w.substr(2) : w, out, hex ? 16 : 10) || *out > most)
    return Fail(fmt::format("an integer of 0 to {}", most));
  Next();
  return true;
}

template <class T> bool ValueParser::ParseFloatingOf(T *out) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (token().kind != Token::Word)
    return Fail("a number");
  if (token().text == "nan") {
    Next();
    uint64_t bits = sizeof(T) == 4 ? 0x7fc00000u : 0x7ff8000000000000u;
    if (Accept("(") && !(ParseUnsigned(&bits, static_cast<Bits>(-1)) && Expect(")")))
      return false;
    *out = std::bit_cast<T>(static_cast<Bits>(bits));
    return true;
  }
  if (!ReadNumber(token().text, out))
    return Fail(sizeof(T) == 4 ? "a number that f32 can hold" : "a number that f64 can hold");
  Next();
  return true;
}

// ---- Types

bool ValueParser::ParseType(Type *out) {
  if (token().kind != Token::Word)
    return Fail("a type");
  if (Accept("none")) {
    *out = Type();
    return true;
  }
  const bool sequence = token().Is("seq");
  if (sequence || token().Is("opt") || token().Is("map")) {
    const bool map = token().Is("map");
    if (++depth_ > kMaxTypeDepth)
      return Error("E0210", fmt::format("types nested more than {} deep", kMaxTypeDepth));
    Next();
    DType key = DType::Undefined;
    if (!Expect("<"))
      return false;
    if (map) {
      const auto k = ParseDType(token().kind == Token::Word ? token().text : "");
      if (!k)
        return Fail("an element type");
      key = *k;
      Next();
      if (!Expect(","))
        return false;
    }
    Type element;
    if (!ParseType(&element) || !Expect(">"))
      return false;
    --depth_;
    *out = map        ? Type::Map(key, std::move(element))
           : sequence ? Type::Sequence(std::move(element))
                      : Type::Optional(std::move(element));
    return true;
  }
  const auto dtype = ParseDType(token().text);
  if (!dtype)
    return Fail("a type (f32[...], seq<...>, opt<...>, map<...>, none)");
  Next();
  return ParseTensorType(*dtype, out);
}

bool ValueParser::ParseTensorType(DType dtype, Type *out) {
  if (!Expect("["))
    return false;
  Shape shape;
  if (Accept("*")) {
    if (!Expect("]"))
      return false;
    shape = Shape::Unranked();
  } else if (!ParseList("]", [&] {
               if (Accept("?")) {
                 shape.push_back(Dim::Unknown());
                 return true;
               }
               if (BeginsNumber(token()) && token().text != "inf" && token().text != "nan") {
                 int64_t v;
                 if (token().text[0] == '-' || !ReadNumber(token().text, &v))
                   return Fail("an extent of 0 or more");
                 shape.push_back(v);
                 Next();
                 return true;
               }
               std::string name;
               if (token().kind != Token::Word && token().kind != Token::String)
                 return Fail("an extent, a symbol or '?'");
               if (!ParseName(&name))
                 return false;
               shape.push_back(Dim::Symbol(name));
               return true;
             })) {
    return false;
  }
  QuantRef quant;
  if (Accept("{") && !ParseQuant(&quant))
    return false;
  Layout layout = Layout::RowMajor;
  if (Accept(":")) {
    if (token().Is(Name(Layout::NHWC)))
      layout = Layout::NHWC;
    else if (token().Is(Name(Layout::NC1HWC2)))
      layout = Layout::NC1HWC2;
    else if (!token().Is(Name(Layout::RowMajor)))
      return Fail("a layout (NCHW, NHWC, NC1HWC2)");
    Next();
  }
  *out = Type::Tensor(dtype, std::move(shape), std::move(quant), layout);
  return true;
}

// The opening brace is read: {s=0.5,z=128} or {axis=0,s=(..),z=(..)}.
bool ValueParser::ParseQuant(QuantRef *out) {
  QuantParams q;
  auto zero_point = [&] {
    int64_t z;
    if (!ParseInt(&z))
      return false;
    if (z != static_cast<int32_t>(z))
      return Error("E0210", fmt::format("zero point {} does not fit 32 bits", z));
    q.zero_points.push_back(static_cast<int32_t>(z));
    return true;
  };
  auto scale = [&] {
    float s;
    if (!ParseFloating(&s))
      return false;
    q.scales.push_back(s);
    return true;
  };
  if (Accept("axis")) {
    int64_t axis;
    if (!Expect("=") || !ParseInt(&axis))
      return false;
    if (axis < -1 || axis > 1 << 20)
      return Error("E0210", fmt::format("axis {} of the quantisation", axis));
    q.axis = static_cast<int>(axis);
    if (!Expect(",") || !Expect("s") || !Expect("=") || !Expect("(") || !ParseList(")", scale) || !Expect(",") ||
        !Expect("z") || !Expect("=") || !Expect("(") || !ParseList(")", zero_point))
      return false;
  } else if (!Expect("s") || !Expect("=") || !scale() || !Expect(",") || !Expect("z") || !Expect("=") ||
             !zero_point()) {
    return false;
  }
  if (!Expect("}"))
    return false;
  *out = std::make_shared<const QuantParams>(std::move(q));
  return true;
}

// ---- Tensors

bool ValueParser::ParseTensorHead(const Type *implied, DType *dtype, Dims *dims) {
  const auto written = token().kind == Token::Word ? ParseDType(token().text) : std::nullopt;
  if (written) {
    Type t;
    const Token at = token();
    Next();
    if (!Expect("["))
      return false;
    *dtype = *written;
    if (!ParseList("]", [&] {
          int64_t d;
          if (!ParseInt(&d))
            return false;
          dims->push_back(d);
          return true;
        }))
      return false;
    const auto n = CheckedNumElements(*dims);
    if (!n || *dtype == DType::Undefined)
      return ErrorAt(at, "E0210", "no tensor has this element type and shape");
    return Expect(":");
  }
  if (!implied || !implied->is_static_tensor())
    return Fail("the tensor's element type and shape (as in dense<f32[2]: 1, 2>)");
  *dtype = implied->dtype();
  *dims = implied->shape().static_dims();
  if (!CheckedNumElements(*dims))
    return Error("E0210", "no tensor has this shape");
  return true;
}

bool ValueParser::ParseElement(DType dtype, uint8_t *out) {
  auto put = [&](const auto &v) {
    std::memcpy(out, &v, sizeof v);
    return true;
  };
  const bool hex = token().kind == Token::Word && token().text.substr(0, 2) == "0x";
  uint64_t bits = 0;
  switch (dtype) {
  case DType::F32: {
    float v;
    return ParseFloating(&v) && put(v);
  }
  case DType::F64: {
    double v;
    return ParseFloatingOf(&v) && put(v);
  }
  case DType::F16:
  case DType::BF16: {
    if (hex)
      return ParseUnsigned(&bits, 0xffff) && put(static_cast<uint16_t>(bits));
    float v;
    return ParseFloating(&v) && put(static_cast<uint16_t>(dtype == DType::F16 ? FloatToHalf(v) : FloatToBFloat16(v)));
  }
  case DType::C64: {
    float v[2];
    return Expect("(") && ParseFloating(&v[0]) && Expect(",") && ParseFloating(&v[1]) && Expect(")") && put(v);
  }
  case DType::C128: {
    double v[2];
    return Expect("(") && ParseFloatingOf(&v[0]) && Expect(",") && ParseFloatingOf(&v[1]) && Expect(")") && put(v);
  }
  case DType::Bool:
    if (Accept("true"))
      return put(uint8_t{1});
    if (Accept("false"))
      return put(uint8_t{0});
    return ParseUnsigned(&bits, 0xff) && put(static_cast<uint8_t>(bits));
  case DType::U64:
    return ParseUnsigned(&bits, ~uint64_t{0}) && put(bits);
  default:
    break;
  }
  if (!IsInt(dtype))
    return ParseUnsigned(&bits, 0xff) && put(static_cast<uint8_t>(bits));
  int64_t v;
  const Token at = token();
  if (!ParseInt(&v))
    return false;
  // A sub-byte type's byte may hold more than the type (a bug of others must still print and parse).
  const DType store = ByteSize(dtype) == 1 ? (IsSignedInt(dtype) ? DType::I8 : DType::U8) : dtype;
  if (v < IntMin(store) || v > IntMax(store))
    return ErrorAt(at, "E0210", fmt::format("{} does not fit {}", v, Name(dtype)));
  switch (ByteSize(dtype)) {
  case 1:
    return put(static_cast<uint8_t>(v));
  case 2:
    return put(static_cast<uint16_t>(v));
  case 4:
    return put(static_cast<uint32_t>(v));
  default:
    return put(v);
  }
}

// At dense, splat, base64, external or elided.
bool ValueParser::ParseTensor(const Type *implied, Tensor *out) {
  const Token at = token();
  Next();
  if (!Expect("<"))
    return false;
  if (at.text == "elided")
    return ErrorAt(at, "E0210", "the text was printed without the data of its constants",
                   "print it with data (--dump-ir does)");
  if (at.text == "dense" && Accept(">")) {
    if (implied && implied->is_static_tensor() && CheckedNumElements(implied->shape().static_dims()) == 0)
      *out = implied->dtype() == DType::String ? Tensor::Strings(implied->shape().static_dims(), {})
                                               : Tensor::Allocate(implied->dtype(), implied->shape().static_dims());
    else
      *out = Tensor();
    return true;
  }
  DType dtype;
  Dims dims;
  if (!ParseTensorHead(implied, &dtype, &dims))
    return false;
  const int64_t count = NumElements(dims);
  const int size = ByteSize(dtype);
  if (at.text == "splat") {
    if (dtype == DType::String)
      return Error("E0210", "a splat of strings; write dense<...>");
    alignas(16) uint8_t element[16];
    if (!ParseElement(dtype, element))
      return false;
    *out = Tensor::Splat(dtype, dims, element);
    return Expect(">");
  }
  auto wrong_count = [&](size_t found) {
    return ErrorAt(at, "E0210",
                   fmt::format("found {} elements, expected {} for {}{}", found, count, Name(dtype), ToString(dims)));
  };
  if (at.text == "external") {
    ExternalRange range;
    if (!ParseInt(&range.offset) || !Expect(",") || !ParseInt(&range.bytes))
      return false;
    if (!external_)
      return ErrorAt(at, "E0210", "the text refers to data outside it");
    if (dtype == DType::String || count > range.bytes || count * size != range.bytes)
      return wrong_count(size ? range.bytes / size : 0);
    StatusOr<ExternalData> data = (*external_)(range);
    if (!data.ok())
      return ErrorAt(at, "E0210", std::string(data.status().message()));
    *out = Tensor::View(dtype, dims, data->data, data->owner);
    return Expect(">");
  }
  if (at.text == "base64") {
    if (dtype == DType::String)
      return Error("E0210", "strings as base64; write dense<...>");
    std::vector<char> bytes;
    if (token().kind != Token::String)
      return Fail("base64 data in quotes");
    if (llvm::Error e = llvm::decodeBase64(token().value, bytes)) {
      llvm::consumeError(std::move(e));
      return Error("E0210", "the data is not base64");
    }
    if (bytes.size() % size || static_cast<int64_t>(bytes.size() / size) != count)
      return wrong_count(bytes.size() / size);
    *out = Tensor::Allocate(dtype, dims);
    if (!bytes.empty())
      std::memcpy(out->mutable_bytes(), bytes.data(), bytes.size());
    Next();
    return Expect(">");
  }
  if (dtype == DType::String) {
    std::vector<std::string> strings;
    if (!ParseList(">", [&] { return ParseString(&strings.emplace_back()); }))
      return false;
    if (static_cast<int64_t>(strings.size()) != count)
      return wrong_count(strings.size());
    *out = Tensor::Strings(dims, std::move(strings));
    return true;
  }
  std::vector<uint8_t> bytes; // grows with the text, whatever the shape claims
  if (!ParseList(">", [&] {
        bytes.resize(bytes.size() + size);
        return ParseElement(dtype, bytes.data() + bytes.size() - size);
      }))
    return false;
  if (static_cast<int64_t>(bytes.size() / size) != count)
    return wrong_count(bytes.size() / size);
  *out = Tensor::Allocate(dtype, dims);
  if (!bytes.empty())
    std::memcpy(out->mutable_bytes(), bytes.data(), bytes.size());
  return true;
}

// ---- Attributes

// The opening bracket is read.
bool ValueParser::ParseListAttribute(std::string_view kind, const AttrSpec *spec, Attribute *out) {
  std::string k(kind);
  if (k.empty()) {
    if (token().kind == Token::String)
      k = "strings";
    else if (token().Is("dense") || token().Is("splat") || token().Is("base64") || token().Is("external") ||
             token().Is("elided"))
      k = "tensors";
    else if (spec && spec->kind == AttrKind::Floats)
      k = "floats";
    else if (token().Is("]"))
      k = !spec                             ? ""
          : spec->kind == AttrKind::Ints    ? "ints"
          : spec->kind == AttrKind::Strings ? "strings"
          : spec->kind == AttrKind::Tensors ? "tensors"
                                            : "";
    else
      k = IsFloatWord(token().kind == Token::Word ? token().text : "") ? "floats" : "ints";
    if (k.empty())
      return Error("E0210", "an empty list does not show its kind", "write ints[], floats[], strings[] or tensors[]");
  }
  if (k == "ints") {
    std::vector<int64_t> v;
    if (!ParseList("]", [&] { return ParseInt(&v.emplace_back()); }))
      return false;
    *out = std::move(v);
  } else if (k == "floats") {
    std::vector<float> v;
    if (!ParseList("]", [&] { return ParseFloating(&v.emplace_back()); }))
      return false;
    *out = std::move(v);
  } else if (k == "strings") {
    std::vector<std::string> v;
    if (!ParseList("]", [&] { return ParseString(&v.emplace_back()); }))
      return false;
    *out = std::move(v);
  } else {
    std::vector<Tensor> v;
    if (!ParseList("]", [&] {
          if (!(token().Is("dense") || token().Is("splat") || token().Is("base64") || token().Is("external") ||
                token().Is("elided")))
            return Fail("a tensor");
          return ParseTensor(nullptr, &v.emplace_back());
        }))
      return false;
    *out = std::move(v);
  }
  return true;
}

bool ValueParser::ParseAttribute(const AttrSpec *spec, const Type *implied, Attribute *out) {
  const Token &t = token();
  if (t.kind == Token::String) {
    *out = t.value;
    Next();
    return true;
  }
  if (Accept("["))
    return ParseListAttribute("", spec, out);
  for (std::string_view kind : {"ints", "floats", "strings", "tensors"})
    if (Accept(kind))
      return Expect("[") && ParseListAttribute(kind, spec, out);
  if (t.Is("dense") || t.Is("splat") || t.Is("base64") || t.Is("external") || t.Is("elided")) {
    Tensor tensor;
    if (!ParseTensor(implied, &tensor))
      return false;
    *out = std::move(tensor);
    return true;
  }
  if (Accept("type")) {
    Type type;
    if (!ParseType(&type))
      return false;
    *out = std::move(type);
    return true;
  }
  if (!BeginsNumber(t))
    return Fail("an attribute's value");
  if (IsFloatWord(t.text) || (spec && spec->kind == AttrKind::Float)) {
    float f;
    if (!ParseFloating(&f))
      return false;
    *out = f;
    return true;
  }
  int64_t i;
  if (!ParseInt(&i))
    return false;
  *out = i;
  return true;
}

} // namespace npuc::text
