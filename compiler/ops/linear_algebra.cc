// CumSum, CumProd, Trilu, Det, TopK, Dropout: what walks along axes or over matrices and is not a reduction.
#include <algorithm>
#include <numeric>

#include "compiler/ops/generator.h"
#include "compiler/ops/op_helpers.h"
#include "compiler/ops/quant_eval.h"

namespace npuc::ops {
namespace {

// ---- CumSum(x, axis), CumProd: running sums and products, integers wrap.

template <bool kSum> Status EvaluateCumulative(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (ctx.operand(1).num_elements() != 1)
    return ShapeError(fmt::format("the axis has shape {}; it must be a scalar", ToString(ctx.operand(1).dims())));
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.operand(1).AsInt(0), x.rank()));
  const bool exclusive = ctx.attrs().Int("exclusive", 0) != 0, reverse = ctx.attrs().Int("reverse", 0) != 0;
  const AxisSplit s(x.dims(), axis);
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchNumeric(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t k = 0; k < s.outer * s.inner; ++k) {
      const int64_t base = k / s.inner * s.n * s.inner + k % s.inner;
      T running = kSum ? T(0) : T(1);
      for (int64_t i = 0; i < s.n; ++i) {
        const int64_t at = base + (reverse ? s.n - 1 - i : i) * s.inner;
        const T v = x.data<T>()[at];
        T next;
        if constexpr (std::is_floating_point_v<T>)
          next = kSum ? running + v : running * v;
        else
          next = static_cast<T>(kSum ? static_cast<uint64_t>(running) + static_cast<uint64_t>(v)
                                     : static_cast<uint64_t>(running) * static_cast<uint64_t>(v));
        y.template mutable_data<T>()[at] = exclusive ? running : next;
        running = next;
      }
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- Trilu(x, k): keeps the upper or lower triangle of each matrix.

Status InferTrilu(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 2, 1 << 20));
  return SameTypeAsOperand(ctx);
}

Status EvaluateTrilu(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (x.rank() < 2)
    return ShapeError(fmt::format("x {} must be a matrix or a batch of them", ToString(x.dims())));
  const int64_t k = ctx.has_operand(1) ? ctx.operand(1).AsInt(0) : 0;
  const bool upper = ctx.attrs().Int("upper", 1) != 0;
  const int64_t rows = x.dims()[x.rank() - 2], columns = x.dims()[x.rank() - 1],
                batch = NumElements(x.dims().drop_back(2));
  const int size = ByteSize(x.dtype());
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  for (int64_t r = 0; r < batch * rows; ++r) {
    // Column c is kept when c - row >= k (upper) or <= k (lower).
    const int64_t row = r % rows;
    const int64_t begin = upper ? std::clamp<int64_t>(k > columns ? columns : row + k, 0, columns) : 0;
    const int64_t end = upper ? columns : std::clamp<int64_t>(k > columns ? columns : row + k + 1, 0, columns);
    if (end > begin)
      std::memcpy(y.mutable_bytes() + (r * columns + begin) * size, x.bytes() + (r * columns + begin) * size,
                  (end - begin) * size);
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// ---- Det: LU with partial pivoting.

Status InferDet(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 2, 1 << 20));
  const Shape x = ShapeOf(ctx, 0);
  if (!x.ranked()) {
    SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), Shape::Unranked());
    return OkStatus();
  }
  NPUC_RETURN_IF_ERROR(
      MergeDim(x[x.rank() - 2], x[x.rank() - 1], fmt::format("the matrices of {} are not square", x.ToString()))
          .status());
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), Shape(x.dims().drop_back(2)));
  return OkStatus();
}

Status EvaluateDet(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (x.rank() < 2 || x.dims()[x.rank() - 1] != x.dims()[x.rank() - 2])
    return ShapeError(fmt::format("x {} must be a square matrix or a batch of them", ToString(x.dims())));
  const int64_t n = x.dims().back();
  Tensor y = Tensor::Allocate(x.dtype(), x.dims().drop_back(2));
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t b = 0; b < y.num_elements(); ++b) {
      std::vector<T> a(x.data<T>() + b * n * n, x.data<T>() + (b + 1) * n * n);
      T det = 1;
      for (int64_t c = 0; c < n; ++c) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; ++r)
          if (std::abs(a[r * n + c]) > std::abs(a[pivot * n + c]))
            pivot = r;
        if (a[pivot * n + c] == T(0)) {
          det = 0;
          break;
        }
        if (pivot != c) {
          std::swap_ranges(a.begin() + c * n, a.begin() + (c + 1) * n, a.begin() + pivot * n);
          det = -det;
        }
        det *= a[c * n + c];
        for (int64_t r = c + 1; r < n; ++r) {
          const T f = a[r * n + c] / a[c * n + c];
          for (int64_t k = c; k < n; ++k)
            a[r * n + k] -= f * a[c * n + k];
        }
      }
      y.template mutable_data<T>()[b] = det;
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- TopK(x, k) -> values, indices; equal elements in the order of their indices, NaN above all numbers.

Status InferTopK(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked()) {
    NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", -1), s.rank()));
    const auto k = ctx.dims(1);
    if (k && k->size() == 1 && (*k)[0].is_static()) {
      const int64_t want = (*k)[0].value();
      if (want < 0 || (s[axis].is_static() && want > s[axis].value()))
        return ShapeError(fmt::format("k {} is not in [0, {}], the extent of axis {}", want, s[axis].value(), axis));
      s[axis] = Dim(want);
    } else {
      s[axis] = k && k->size() == 1 ? (*k)[0] : Dim::Unknown();
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), s);
  SetTensor(ctx, 1, DType::I64, s);
  return OkStatus();
}

Status EvaluateTopK(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", -1), x.rank()));
  const AxisSplit s(x.dims(), axis);
  const int64_t k = ctx.operand(1).num_elements() == 1 ? ctx.operand(1).AsInt(0) : -1;
  if (k < 0 || k > s.n)
    return ShapeError(fmt::format("k {} is not in [0, {}], the extent of axis {}", k, s.n, axis));
  const bool largest = ctx.attrs().Int("largest", 1) != 0;
  Dims dims(x.dims().begin(), x.dims().end());
  dims[axis] = k;
  Tensor values = Tensor::Allocate(x.dtype(), dims), indices = Tensor::Allocate(DType::I64, dims);
  return DispatchNumeric(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    std::vector<int64_t> order(s.n);
    for (int64_t o = 0; o < s.outer * s.inner; ++o) {
      const int64_t line = o / s.inner, i = o % s.inner;
      const T *from = x.data<T>() + line * s.n * s.inner + i;
      std::iota(order.begin(), order.end(), 0);
      auto before = [&](int64_t a, int64_t b) {
        const T va = from[a * s.inner], vb = from[b * s.inner];
        const bool na = va != va, nb = vb != vb;
        if (na != nb)
          return largest ? na : nb;
        if (!na && va != vb)
          return largest ? va > vb : va < vb;
        return a < b;
      };
      std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t to = (line * k + j) * s.inner + i;
        values.mutable_data<T>()[to] = from[order[j] * s.inner];
        indices.mutable_data<int64_t>()[to] = order[j];
      }
    }
    ctx.set_result(0, std::move(values));
    ctx.set_result(1, std::move(indices));
    return OkStatus();
  });
}

// Order survives quantisation: on the integers when x and the values share parameters.
Status EvaluateQuantizedTopK(EvalContext &ctx) {
  const QuantRef &q = OperandQuant(ctx, 0);
  const bool same = q && q->per_tensor() && SameQuant(q, ResultQuant(ctx, 0)) &&
                    ctx.node().result(0)->type().dtype() == ctx.operand(0).dtype();
  return same ? EvaluateTopK(ctx) : EvaluateByDequantizing(ctx);
}

// ---- Dropout: outside training the identity and a mask of true. In training, element i is kept when random number i
// is at least the ratio, and scaled by 1 / (1 - ratio).

Status InferDropout(InferContext &ctx) {
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0));
  SetTensor(ctx, 1, DType::Bool, ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateDropout(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const bool training = ctx.has_operand(2) && ctx.operand(2).AsInt(0) != 0;
  const double ratio = ctx.has_operand(1) ? ctx.operand(1).AsDouble(0) : ctx.attrs().Float("ratio", 0.5f);
  if (!(ratio >= 0 && ratio < 1))
    return AttrError(fmt::format("ratio {} is not in [0, 1)", ratio));
  Tensor mask = Tensor::Allocate(DType::Bool, x.dims());
  std::memset(mask.mutable_bytes(), 1, mask.num_elements());
  Tensor y = x;
  if (training && ratio > 0) {
    const Generator random(ctx);
    for (int64_t i = 0; i < x.num_elements(); ++i)
      mask.mutable_bytes()[i] = random.Uniform(static_cast<uint64_t>(i)) >= ratio;
    y = Tensor::Allocate(x.dtype(), x.dims());
    NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
      using T = TypeOf<decltype(tag)>;
      const T scale = static_cast<T>(1.0 / (1.0 - ratio));
      for (int64_t i = 0; i < x.num_elements(); ++i)
        y.template mutable_data<T>()[i] = mask.bytes()[i] ? x.data<T>()[i] * scale : T(0);
      return OkStatus();
    }));
  }
  ctx.set_result(0, std::move(y));
  ctx.set_result(1, std::move(mask));
  return OkStatus();
}

} // namespace

OpDef CumSumDef() {
  return {.domain = "",
          .name = "CumSum",
          .since_version = 14,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("exclusive"), IntAttr("reverse")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateCumulative<true>,
          .doc = "Running sums along an axis."};
}
OpDef CumProdDef() {
  return {.domain = "",
          .name = "CumProd",
          .since_version = 26,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("exclusive"), IntAttr("reverse")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateCumulative<false>,
          .doc = "Running products along an axis."};
}
OpDef TriluDef() {
  return {.domain = "",
          .name = "Trilu",
          .since_version = 14,
          .min_operands = 1,
          .max_operands = 2,
          .attrs = {IntAttr("upper")},
          .traits = kPure | kNoFloatWiden,
          .infer = InferTrilu,
          .evaluate = EvaluateTrilu,
          .doc = "Upper or lower triangle of matrices."};
}
OpDef DetDef() {
  return {.domain = "",
          .name = "Det",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .infer = InferDet,
          .evaluate = EvaluateDet,
          .doc = "Determinant."};
}
OpDef TopKDef() {
  return {.domain = "",
          .name = "TopK",
          .since_version = 24,
          .min_operands = 2,
          .max_operands = 2,
          .min_results = 2,
          .max_results = 2,
          .attrs = {IntAttr("axis"), IntAttr("largest"), IntAttr("sorted")},
          .infer = InferTopK,
          .evaluate = EvaluateTopK,
          .evaluate_quantized = EvaluateQuantizedTopK,
          .doc = "The k greatest or least elements along an axis and their indices."};
}
OpDef DropoutDef() {
  return {.domain = "",
          .name = "Dropout",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 3,
          .max_results = 2,
          .attrs = {IntAttr("seed"), FloatAttr("ratio")},
          .infer = InferDropout,
          .evaluate = EvaluateDropout,
          .doc = "The identity outside training; in training drops elements at random."};
}

} // namespace npuc::ops
