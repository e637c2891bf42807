// StringConcat, StringSplit, StringNormalizer, RegexFullMatch. Host only. Strings are UTF-8.
#include "compiler/ops/broadcast.h"
#include "compiler/ops/movement.h"
#include "compiler/ops/regex.h"

namespace npuc::ops {
namespace {

Status CheckStrings(const Tensor &t, int i) {
  if (t.dtype() == DType::String)
    return OkStatus();
  return Error("E0302", fmt::format("operand {} is {}, not string", i, Name(t.dtype())));
}

Status InferConcat(InferContext &ctx) {
  return BroadcastInfer(ctx);
}
Status EvaluateConcat(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0), &b = ctx.operand(1);
  NPUC_RETURN_IF_ERROR(CheckStrings(a, 0));
  NPUC_RETURN_IF_ERROR(CheckStrings(b, 1));
  NPUC_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(a.dims(), b.dims()));
  auto widen = [&](const Tensor &t) -> StatusOr<Tensor> {
    const Dims own = RowMajorStrides(t.dims());
    Dims strides(dims.size(), 0);
    for (int i = 0; i < t.rank(); ++i)
      if (t.dims()[i] != 1)
        strides[dims.size() - t.rank() + i] = own[i];
    return Materialize(t, dims, strides);
  };
  NPUC_ASSIGN_OR_RETURN(Tensor wa, widen(a));
  NPUC_ASSIGN_OR_RETURN(Tensor wb, widen(b));
  std::vector<std::string> out = wa.strings();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] += wb.strings()[i];
  ctx.set_result(0, Tensor::Strings(dims, std::move(out)));
  return OkStatus();
}

Status InferSplit(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0), parts = s;
  if (parts.ranked())
    parts.push_back(Dim::Unknown());
  SetTensor(ctx, 0, DType::String, parts);
  SetTensor(ctx, 1, DType::I64, s);
  return OkStatus();
}
// Python's str.split: runs of whitespace without a delimiter, else every occurrence; at most maxsplit cuts.
std::vector<std::string> Split(const std::string &s, std::string_view delimiter, int64_t most) {
  std::vector<std::string> out;
  if (!delimiter.empty()) {
    size_t at = 0;
    while (static_cast<int64_t>(out.size()) < most) {
      const size_t next = s.find(delimiter, at);
      if (next == std::string::npos)
        break;
      out.push_back(s.substr(at, next - at));
      at = next + delimiter.size();
    }
    out.push_back(s.substr(at));
    return out;
  }
  constexpr std::string_view space = " \t\n\r\f\v";
  size_t at = s.find_first_not_of(space);
  while (at != std::string::npos) {
    if (static_cast<int64_t>(out.size()) == most) {
      const size_t end = s.find_last_not_of(space);
      out.push_back(s.substr(at, end + 1 - at));
      break;
    }
    const size_t end = s.find_first_of(space, at);
    out.push_back(s.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : s.find_first_not_of(space, end);
  }
  return out;
}
Status EvaluateSplit(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_RETURN_IF_ERROR(CheckStrings(x, 0));
  const std::string_view delimiter = ctx.attrs().String("delimiter", "");
  const int64_t most = ctx.attrs().Int("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> parts;
  std::vector<int64_t> counts;
  size_t widest = 0;
  for (const std::string &s : x.strings()) {
    // ONNX: an empty string has no substrings.
    parts.push_back(s.empty() ? std::vector<std::string>() : Split(s, delimiter, most < 0 ? INT64_MAX : most));
    counts.push_back(static_cast<int64_t>(parts.back().size()));
    widest = std::max(widest, parts.back().size());
  }
  Dims dims(x.dims());
  dims.push_back(static_cast<int64_t>(widest));
  std::vector<std::string> flat;
  for (auto &p : parts) {
    p.resize(widest);
    flat.insert(flat.end(), p.begin(), p.end());
  }
  ctx.set_result(0, Tensor::Strings(dims, std::move(flat)));
  ctx.set_result(1, Tensor::Of<int64_t>(DType::I64, x.dims(), counts));
  return OkStatus();
}

Status VerifyNormalizer(const Node &n) {
  const std::string_view c = n.attrs().String("case_change_action", "NONE");
  if (c != "NONE" && c != "LOWER" && c != "UPPER")
    return AttrError(fmt::format("case_change_action is '{}'", c), "NONE, LOWER or UPPER");
  return OkStatus();
}
Status InferNormalizer(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked()) {
    NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 1, 2));
    if (ctx.attrs().Has("stopwords"))
      s[s.rank() - 1] = Dim::Unknown();
  }
  SetTensor(ctx, 0, DType::String, s);
  return OkStatus();
}
// Case of ASCII letters and of the two-byte Latin-1 and basic Greek and Cyrillic letters; others have none here.
std::string ChangeCase(const std::string &s, bool upper) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const uint8_t c = static_cast<uint8_t>(s[i]);
    if (c < 0x80) {
      out += static_cast<char>(upper ? (c >= 'a' && c <= 'z' ? c - 32 : c) : (c >= 'A' && c <= 'Z' ? c + 32 : c));
      continue;
    }
    if ((c & 0xe0) != 0xc0 || i + 1 >= s.size()) {
      out += s[i];
      continue;
    }
    uint32_t u = (c & 0x1fu) << 6 | (static_cast<uint8_t>(s[++i]) & 0x3fu);
    if (upper) {
      if ((u >= 0xe0 && u <= 0xfe && u != 0xf7) || (u >= 0x3b1 && u <= 0x3c9 && u != 0x3c2) ||
          (u >= 0x430 && u <= 0x44f))
        u -= 32;
      else if (u >= 0x450 && u <= 0x45f)
        u -= 80;
    } else {
      if ((u >= 0xc0 && u <= 0xde && u != 0xd7) || (u >= 0x391 && u <= 0x3a9) || (u >= 0x410 && u <= 0x42f))
        u += 32;
      else if (u >= 0x400 && u <= 0x40f)
        u += 80;
    }
    out += static_cast<char>(0xc0 | u >> 6);
    out += static_cast<char>(0x80 | (u & 0x3f));
  }
  return out;
}
Status EvaluateNormalizer(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_RETURN_IF_ERROR(CheckStrings(x, 0));
  if (x.rank() != 1 && !(x.rank() == 2 && x.dims()[0] == 1))
    return ShapeError(fmt::format("StringNormalizer of {}", ToString(x.dims())), "[C] or [1, C]");
  const std::string_view action = ctx.attrs().String("case_change_action", "NONE");
  const bool sensitive = ctx.attrs().Int("is_case_sensitive", 0) != 0;
  const auto stops = ctx.attrs().StringList("stopwords");
  std::vector<std::string> folded;
  for (const std::string &s : stops)
    folded.push_back(sensitive ? s : ChangeCase(s, false));
  std::vector<std::string> out;
  for (const std::string &s : x.strings()) {
    if (llvm::is_contained(folded, sensitive ? s : ChangeCase(s, false)))
      continue;
    out.push_back(action == "NONE" ? s : ChangeCase(s, action == "UPPER"));
  }
  if (out.empty())
    out.emplace_back(); // ONNX: nothing left is one empty string
  Dims dims(x.dims());
  dims.back() = static_cast<int64_t>(out.size());
  ctx.set_result(0, Tensor::Strings(dims, std::move(out)));
  return OkStatus();
}

Status VerifyRegex(const Node &n) {
  return Regex::Compile(n.attrs().String("pattern", "")).status();
}
Status InferRegex(InferContext &ctx) {
  SetTensor(ctx, 0, DType::Bool, ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateRegex(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_RETURN_IF_ERROR(CheckStrings(x, 0));
  NPUC_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(ctx.attrs().String("pattern", "")));
  Tensor y = Tensor::Allocate(DType::Bool, x.dims());
  for (size_t i = 0; i < x.strings().size(); ++i)
    y.mutable_bytes()[i] = regex.FullMatch(x.strings()[i]);
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

} // namespace

OpDef StringConcatDef() {
  return {.domain = "",
          .name = "StringConcat",
          .since_version = 20,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {},
          .infer = InferConcat,
          .evaluate = EvaluateConcat,
          .doc = "Strings joined pairwise, broadcast."};
}

OpDef StringSplitDef() {
  return {.domain = "",
          .name = "StringSplit",
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 2,
          .max_results = 2,
          .attrs = {StringAttr("delimiter"), IntAttr("maxsplit")},
          .infer = InferSplit,
          .evaluate = EvaluateSplit,
          .doc = "Substrings between delimiters along a new axis, and how many."};
}

OpDef StringNormalizerDef() {
  return {.domain = "",
          .name = "StringNormalizer",
          .since_version = 10,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {StringAttr("case_change_action"),
                    IntAttr("is_case_sensitive"),
                    StringAttr("locale"),
                    {"stopwords", AttrKind::Strings}},
          .verify = VerifyNormalizer,
          .infer = InferNormalizer,
          .evaluate = EvaluateNormalizer,
          .doc = "Stop words left out and case changed."};
}

OpDef RegexFullMatchDef() {
  return {.domain = "",
          .name = "RegexFullMatch",
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {StringAttr("pattern", true)},
          .verify = VerifyRegex,
          .infer = InferRegex,
          .evaluate = EvaluateRegex,
          .doc = "Whether the whole string matches an RE2 pattern."};
}

} // namespace npuc::ops
