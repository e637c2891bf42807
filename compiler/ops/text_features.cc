// TfIdfVectorizer and BitCast.
//
// TfIdfVectorizer counts the pool's n-grams in each row: windows of n elements taken 1, 2, ... max_skip_count + 1 apart
// (single elements once). The pool is searched by a map, O(row length * skips * n).
#include <map>

#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status VerifyTfIdf(const Node &n) {
  const AttributeList &a = n.attrs();
  const auto counts = a.Ints("ngram_counts"), indexes = a.Ints("ngram_indexes");
  const int64_t pool =
      static_cast<int64_t>(a.Has("pool_strings") ? a.StringList("pool_strings").size() : a.Ints("pool_int64s").size());
  if (a.Has("pool_strings") == a.Has("pool_int64s"))
    return AttrError("give one of pool_strings and pool_int64s");
  int64_t grams = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t begin = counts[i], end = i + 1 < counts.size() ? counts[i + 1] : pool,
                  size = static_cast<int64_t>(i) + 1;
    if (begin < 0 || end < begin || end > pool || (end - begin) % size)
      return AttrError(fmt::format("ngram_counts {} for a pool of {}", ToString(counts), pool));
    grams += (end - begin) / size;
  }
  if (grams != static_cast<int64_t>(indexes.size()))
    return AttrError(fmt::format("{} ngram_indexes for {} n-grams", indexes.size(), grams));
  for (int64_t i : indexes)
    if (i < 0 || i > 1 << 28)
      return AttrError(fmt::format("ngram index {}", i));
  if (!a.Floats("weights").empty() && a.Floats("weights").size() != indexes.size())
    return AttrError("weights and ngram_indexes differ in length");
  if (const std::string_view m = a.String("mode", "TF"); m != "TF" && m != "IDF" && m != "TFIDF")
    return AttrError(fmt::format("mode is '{}'", m));
  const int64_t least = a.Int("min_gram_length", 1), most = a.Int("max_gram_length", 1),
                skip = a.Int("max_skip_count", 0);
  if (least < 1 || most < least || most > static_cast<int64_t>(counts.size()) || skip < 0)
    return AttrError("gram lengths or max_skip_count are out of range");
  return OkStatus();
}
int64_t Width(const AttributeList &a) {
  int64_t top = -1;
  for (int64_t i : a.Ints("ngram_indexes"))
    top = std::max(top, i);
  return top + 1;
}
Status InferTfIdf(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 0, 2));
  const Dim width(Width(ctx.attrs()));
  Shape out = Shape::Unranked();
  if (x.ranked())
    out = x.rank() == 2 ? Shape({x[0], width}) : Shape({width.value()});
  SetTensor(ctx, 0, DType::F32, out);
  return OkStatus();
}
Status EvaluateTfIdf(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const AttributeList &a = ctx.attrs();
  const auto counts = a.Ints("ngram_counts"), indexes = a.Ints("ngram_indexes");
  const auto weights = a.Floats("weights");
  const bool strings = a.Has("pool_strings");
  if (strings != (x.dtype() == DType::String) || x.rank() > 2)
    return ShapeError(fmt::format("TfIdfVectorizer of {}{}", Name(x.dtype()), ToString(x.dims())));
  using Gram = std::vector<std::string>;
  auto element = [&](int64_t i) { return strings ? x.strings()[i] : std::to_string(x.AsInt(i)); };
  auto pooled = [&](int64_t i) {
    return strings ? a.StringList("pool_strings")[i] : std::to_string(a.Ints("pool_int64s")[i]);
  };
  const int64_t pool =
      static_cast<int64_t>(strings ? a.StringList("pool_strings").size() : a.Ints("pool_int64s").size());
  std::map<Gram, size_t> grams; // to the position in ngram_indexes
  for (size_t n = 0, k = 0; n < counts.size(); ++n) {
    const int64_t size = static_cast<int64_t>(n) + 1, end = n + 1 < counts.size() ? counts[n + 1] : pool;
    for (int64_t at = counts[n]; at < end; at += size, ++k) {
      Gram g;
      for (int64_t i = 0; i < size; ++i)
        g.push_back(pooled(at + i));
      grams.emplace(std::move(g), k);
    }
  }
  const int64_t width = Width(a), rows = x.rank() == 2 ? x.dims()[0] : 1, length = x.rank() == 0 ? 1 : x.dims().back();
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(DType::F32, x.rank() == 2 ? Dims{rows, width} : Dims{width}));
  const std::string_view mode = a.String("mode", "TF");
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int64_t> found(indexes.size(), 0);
    for (int64_t n = a.Int("min_gram_length", 1); n <= a.Int("max_gram_length", 1); ++n)
      for (int64_t step = 1; step <= (n == 1 ? 1 : a.Int("max_skip_count", 0) + 1); ++step)
        for (int64_t at = 0; at + (n - 1) * step < length; ++at) {
          Gram g;
          for (int64_t i = 0; i < n; ++i)
            g.push_back(element(r * length + at + i * step));
          if (auto it = grams.find(g); it != grams.end())
            ++found[it->second];
        }
    float *out = y.mutable_data<float>() + r * width;
    for (size_t k = 0; k < found.size(); ++k) {
      if (!found[k])
        continue;
      const float w = weights.empty() ? 1 : weights[k];
      out[indexes[k]] = mode == "TF"    ? static_cast<float>(found[k])
                        : mode == "IDF" ? w
                                        : static_cast<float>(found[k]) * w;
    }
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status VerifyBitCast(const Node &n) {
  const int64_t to = n.attrs().Int("to", 0);
  if (to < 1 || to >= kNumDTypes || to == static_cast<int64_t>(DType::String))
    return AttrError(fmt::format("to is {}", to));
  return OkStatus();
}
Status InferBitCast(InferContext &ctx) {
  const DType to = static_cast<DType>(ctx.attrs().Int("to", 0)), from = DTypeOfOperand(ctx, 0);
  if (from != DType::Undefined && BitWidth(from) != BitWidth(to))
    return Error("E0302", fmt::format("the bits of {} are not those of a {}", Name(from), Name(to)));
  SetTensor(ctx, 0, to, ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateBitCast(EvalContext &ctx) {
  const DType to = static_cast<DType>(ctx.attrs().Int("to", 0));
  const Tensor &x = ctx.operand(0);
  if (BitWidth(x.dtype()) != BitWidth(to))
    return Error("E0302", fmt::format("the bits of {} are not those of a {}", Name(x.dtype()), Name(to)));
  if (BitWidth(to) >= 8) {
    ctx.set_result(0, x.Reinterpreted(to));
    return OkStatus();
  }
  // Narrow elements are held in bytes: signed ones extended, others not.
  Tensor y = Tensor::Allocate(to, x.dims());
  const int bits = BitWidth(to);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int v = x.bytes()[i] & ((1 << bits) - 1);
    if (IsSignedInt(to) && v >> (bits - 1))
      v -= 1 << bits;
    y.mutable_bytes()[i] = static_cast<uint8_t>(v);
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

} // namespace

OpDef TfIdfVectorizerDef() {
  return {.domain = "",
          .name = "TfIdfVectorizer",
          .since_version = 9,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("max_gram_length", true),
                    IntAttr("max_skip_count", true),
                    IntAttr("min_gram_length", true),
                    StringAttr("mode", true),
                    IntsAttr("ngram_counts", true),
                    IntsAttr("ngram_indexes", true),
                    IntsAttr("pool_int64s"),
                    {"pool_strings", AttrKind::Strings},
                    FloatsAttr("weights")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyTfIdf,
          .infer = InferTfIdf,
          .evaluate = EvaluateTfIdf,
          .doc = "Counts (or weights) of a pool's n-grams."};
}

OpDef BitCastDef() {
  return {.domain = "",
          .name = "BitCast",
          .since_version = 26,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("to", true)},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyBitCast,
          .infer = InferBitCast,
          .evaluate = EvaluateBitCast,
          .doc = "The same bits as another element type of the same width."};
}

} // namespace npuc::ops
