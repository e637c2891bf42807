// Einsum: sums of products over named axes.
//
//   "bij,bjk->bik", "...ij->...ji", "ii->i"; without "->" the result has the ellipsis, then the letters that occur
//   once, sorted.
//
// Method: strides per label and operand (0 where the operand lacks the label or has extent 1), then loops over the
// result's labels and, inside, over the summed ones; one chain per element. Cost: the product of all extents.
#include <array>

#include "compiler/ops/op_helpers.h"

namespace npuc::ops {
namespace {

// Labels are letters; the axes of the ellipsis are the labels kDots, kDots + 1, ... aligned at the right.
constexpr int kDots = 256;

struct Equation {
  std::vector<std::vector<int>> terms; // labels per operand, the ellipsis not expanded yet (-1)
  std::vector<int> result;
  bool explicit_result = false;
};

StatusOr<Equation> Parse(std::string_view text) {
  Equation e;
  e.terms.emplace_back();
  std::vector<int> *current = &e.terms.back();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ')
      continue;
    if (c == ',' && !e.explicit_result) {
      e.terms.emplace_back();
      current = &e.terms.back();
    } else if (c == '-' && i + 1 < text.size() && text[i + 1] == '>' && !e.explicit_result) {
      e.explicit_result = true;
      current = &e.result;
      ++i;
    } else if (text.substr(i, 3) == "...") {
      if (llvm::is_contained(*current, -1))
        return AttrError(fmt::format("equation '{}' has two ellipses in one term", text));
      current->push_back(-1);
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      current->push_back(c);
    } else {
      return AttrError(fmt::format("equation '{}' has an unexpected '{}'", text, c));
    }
  }
  return e;
}

// The ellipses expanded: `ranks` of the operands are known.
Status Expand(std::string_view text, Equation &e, llvm::ArrayRef<int> ranks) {
  if (e.terms.size() != ranks.size())
    return AttrError(fmt::format("equation '{}' has {} terms for {} operands", text, e.terms.size(), ranks.size()));
  int dots = 0;
  for (size_t k = 0; k < ranks.size(); ++k) {
    const bool has = llvm::is_contained(e.terms[k], -1);
    const int letters = static_cast<int>(e.terms[k].size()) - (has ? 1 : 0);
    if (has ? ranks[k] < letters : ranks[k] != letters)
      return ShapeError(fmt::format("term {} of equation '{}' does not fit an operand of rank {}", k, text, ranks[k]));
    if (has)
      dots = std::max(dots, ranks[k] - letters);
  }
  auto expand = [&](std::vector<int> &labels, int count) {
    std::vector<int> out;
    for (int l : labels)
      if (l >= 0)
        out.push_back(l);
      else
        for (int i = dots - count; i < dots; ++i)
          out.push_back(kDots + i);
    labels = out;
  };
  std::array<int, 128> seen{};
  for (size_t k = 0; k < ranks.size(); ++k) {
    for (int l : e.terms[k])
      if (l >= 0)
        ++seen[l];
    expand(e.terms[k], ranks[k] - (static_cast<int>(e.terms[k].size()) - 1));
  }
  if (!e.explicit_result) {
    e.result = {-1};
    for (int l = 0; l < 128; ++l)
      if (seen[l] == 1)
        e.result.push_back(l);
  }
  for (int l : e.result)
    if (l >= 0 && !seen[l])
      return AttrError(
          fmt::format("equation '{}': the result's label '{}' is in no operand", text, static_cast<char>(l)));
  expand(e.result, dots);
  return OkStatus();
}

Status InferEinsum(InferContext &ctx) {
  const std::string_view text = ctx.attrs().String("equation", "");
  NPUC_ASSIGN_OR_RETURN(Equation e, Parse(text));
  std::vector<int> ranks;
  for (int i = 0; i < ctx.num_operands(); ++i) {
    if (!ShapeOf(ctx, i).ranked()) {
      SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), Shape::Unranked());
      return OkStatus();
    }
    ranks.push_back(ShapeOf(ctx, i).rank());
  }
  NPUC_RETURN_IF_ERROR(Expand(text, e, ranks));
  std::vector<Dim> extent(kDots + 64, Dim(1));
  for (int i = 0; i < ctx.num_operands(); ++i)
    for (size_t d = 0; d < e.terms[i].size(); ++d) {
      Dim &have = extent[e.terms[i][d]];
      const Dim dim = ShapeOf(ctx, i)[static_cast<int>(d)];
      if (have.is_static() && have.value() == 1) {
        have = dim;
      } else if (!(dim.is_static() && dim.value() == 1)) {
        NPUC_ASSIGN_OR_RETURN(have, MergeDim(have, dim, fmt::format("extents in equation '{}' differ", text)));
      }
    }
  Shape out;
  for (int l : e.result)
    out.push_back(extent[l]);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(out));
  return OkStatus();
}

Status EvaluateEinsum(EvalContext &ctx) {
  const std::string_view text = ctx.attrs().String("equation", "");
  NPUC_ASSIGN_OR_RETURN(Equation e, Parse(text));
  const int n = ctx.num_operands();
  std::vector<int> ranks;
  for (int i = 0; i < n; ++i)
    ranks.push_back(ctx.operand(i).rank());
  NPUC_RETURN_IF_ERROR(Expand(text, e, ranks));
  std::vector<int64_t> extent(kDots + 64, 1);
  std::vector<int> labels = e.result; // the result's labels, then the summed ones in order of appearance
  for (int i = 0; i < n; ++i)
    for (size_t d = 0; d < e.terms[i].size(); ++d) {
      const int l = e.terms[i][d];
      const int64_t dim = ctx.operand(i).dims()[d];
      if (extent[l] != 1 && dim != 1 && extent[l] != dim)
        return ShapeError(fmt::format("extents {} and {} of one label in equation '{}' differ", extent[l], dim, text));
      if (dim != 1)
        extent[l] = dim;
      if (!llvm::is_contained(labels, l))
        labels.push_back(l);
    }
  // strides[i][label position]
  std::vector<std::vector<int64_t>> strides(n, std::vector<int64_t>(labels.size(), 0));
  for (int i = 0; i < n; ++i) {
    const Dims own = RowMajorStrides(ctx.operand(i).dims());
    for (size_t d = 0; d < e.terms[i].size(); ++d)
      if (ctx.operand(i).dims()[d] != 1)
        strides[i][llvm::find(labels, e.terms[i][d]) - labels.begin()] += own[d];
  }
  Dims dims;
  for (int l : e.result)
    dims.push_back(extent[l]);
  int64_t terms = 1;
  for (size_t k = e.result.size(); k < labels.size(); ++k)
    terms *= extent[labels[k]];
  const DType dtype = ctx.operand(0).dtype();
  for (int i = 1; i < n; ++i)
    if (ctx.operand(i).dtype() != dtype)
      return Error("E0302", fmt::format("the operands are {} and {}; they must have one element type", OnnxName(dtype),
                                        OnnxName(ctx.operand(i).dtype())));
  Tensor y = Tensor::Allocate(dtype, dims);
  const size_t kept = e.result.size();
  return DispatchNumeric(dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    T *out = y.template mutable_data<T>();
    std::vector<const T *> data(n);
    for (int i = 0; i < n; ++i)
      data[i] = ctx.operand(i).template data<T>();
    // A step to the next position of labels [first, end): offsets move along.
    auto step = [&](std::vector<int64_t> &index, std::vector<int64_t> &at, size_t first, size_t end) {
      for (size_t k = end; k-- > first;) {
        for (int i = 0; i < n; ++i)
          at[i] += strides[i][k];
        if (++index[k] < extent[labels[k]])
          return;
        for (int i = 0; i < n; ++i)
          at[i] -= strides[i][k] * extent[labels[k]];
        index[k] = 0;
      }
    };
    ParallelFor(ctx.threads(), y.num_elements(), 256, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> index(labels.size(), 0), at(n, 0);
      int64_t rest = begin;
      for (size_t k = kept; k-- > 0;) {
        index[k] = rest % extent[labels[k]];
        rest /= extent[labels[k]];
        for (int i = 0; i < n; ++i)
          at[i] += index[k] * strides[i][k];
      }
      for (int64_t o = begin; o < end; ++o) {
        T sum = 0;
        std::vector<int64_t> inner = at;
        for (int64_t t = 0; t < terms; ++t) {
          T product = data[0][inner[0]];
          for (int i = 1; i < n; ++i)
            product = static_cast<T>(product * data[i][inner[i]]);
          sum = static_cast<T>(sum + product);
          step(index, inner, kept, labels.size());
        }
        out[o] = sum;
        step(index, at, 0, kept);
      }
    });
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

} // namespace

OpDef EinsumDef() {
  return {.domain = "",
          .name = "Einsum",
          .since_version = 12,
          .min_operands = 1,
          .max_operands = -1,
          .attrs = {StringAttr("equation", true)},
          .infer = InferEinsum,
          .evaluate = EvaluateEinsum,
          .doc = "Sums of products over named axes."};
}

} // namespace npuc::ops
