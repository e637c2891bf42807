// OneHot, Range, EyeLike, NonZero, Unique: tensors made from values or positions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status InferOneHot(InferContext &ctx) {
  const Shape index = ShapeOf(ctx, 0);
  Shape out = Shape::Unranked();
  if (index.ranked()) {
    int64_t at = ctx.attrs().Int("axis", -1);
    if (at < 0)
      at += index.rank() + 1;
    NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(at, index.rank(), "axis", true));
    Dim depth = Dim::Unknown();
    if (auto d = ctx.dims(1); d && d->size() == 1)
      depth = (*d)[0];
    else if (const Tensor *t = ctx.constant(1); t && t->num_elements() == 1)
      depth = Dim(static_cast<int64_t>(t->AsDouble(0)));
    out = Shape();
    for (int i = 0; i <= index.rank(); ++i)
      out.push_back(i == axis ? depth : index[i < axis ? i : i - 1]);
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 2), out);
  return OkStatus();
}
Status EvaluateOneHot(EvalContext &ctx) {
  const Tensor &index = ctx.operand(0), &values = ctx.operand(2);
  if (ctx.operand(1).num_elements() != 1 || values.num_elements() != 2)
    return ShapeError("depth is one number, values are two");
  const int64_t depth = static_cast<int64_t>(ctx.operand(1).AsDouble(0));
  if (depth < 0)
    return Error("E0703", fmt::format("depth is {}", depth));
  int64_t at = ctx.attrs().Int("axis", -1);
  if (at < 0)
    at += index.rank() + 1;
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(at, index.rank(), "axis", true));
  Dims dims(index.dims());
  dims.insert(dims.begin() + axis, depth);
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(values.dtype(), dims));
  const int64_t outer = NumElements(index.dims().take_front(axis)), inner = NumElements(index.dims().drop_front(axis));
  for (int64_t o = 0; o < outer; ++o) {
    out.Fill(o * depth * inner, values, 0, depth * inner);
    for (int64_t i = 0; i < inner; ++i) {
      // Indices may be of any numeric type; those out of [-depth, depth) set nothing.
      int64_t hot = static_cast<int64_t>(index.AsDouble(o * inner + i));
      if (hot < 0)
        hot += depth;
      if (hot >= 0 && hot < depth)
        out.Copy((o * depth + hot) * inner + i, values, 1);
    }
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status InferRange(InferContext &ctx) {
  Dim n = Dim::Unknown();
  const Tensor *a = ctx.constant(0), *b = ctx.constant(1), *s = ctx.constant(2);
  if (a && b && s && a->num_elements() == 1 && b->num_elements() == 1 && s->num_elements() == 1) {
    const double step = s->AsDouble(0), count = std::ceil((b->AsDouble(0) - a->AsDouble(0)) / step);
    if (step != 0 && count < 1e15)
      n = Dim(static_cast<int64_t>(std::max(count, 0.0)));
  } else {
    auto first = ctx.dims(0), limit = ctx.dims(1), step = ctx.dims(2);
    auto one = [](const auto &d) { return d && d->size() == 1; };
    if (one(first) && one(limit) && one(step) && (*step)[0].is_static() && (*first)[0].is_static()) {
      const int64_t st = (*step)[0].value(), fi = (*first)[0].value();
      if ((*limit)[0].is_static() && st != 0) {
        const int64_t d = (*limit)[0].value() - fi;
        n = Dim(std::max<int64_t>(st > 0 ? (d + st - 1) / st : (d + st + 1) / st, 0));
      } else if (!(*limit)[0].is_static() && st == 1 && fi == 0) {
        n = (*limit)[0];
      }
    }
  }
  Shape shape;
  shape.push_back(n);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), shape);
  return OkStatus();
}
Status EvaluateRange(EvalContext &ctx) {
  for (int i = 0; i < 3; ++i)
    if (ctx.operand(i).num_elements() != 1 || ctx.operand(i).dtype() != ctx.operand(0).dtype())
      return ShapeError("start, limit and delta are scalars of one type");
  return DispatchNumeric(ctx.operand(0).dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    const T start = ctx.operand(0).data<T>()[0], limit = ctx.operand(1).data<T>()[0],
            delta = ctx.operand(2).data<T>()[0];
    if (delta == 0)
      return Error("E0703", "delta is 0");
    int64_t n;
    if constexpr (std::is_integral_v<T>) {
      const __int128 span = static_cast<__int128>(limit) - start, step = delta;
      const __int128 count = step > 0 ? (span + step - 1) / step : (span + step + 1) / step;
      if (count > INT32_MAX)
        return Error("E0703", "the range has too many elements");
      n = std::max<int64_t>(static_cast<int64_t>(count), 0);
    } else {
      const double count = std::ceil((static_cast<double>(limit) - start) / delta);
      if (!(count < INT32_MAX))
        return Error("E0703", "the range has too many elements");
      n = std::max<int64_t>(static_cast<int64_t>(count), 0);
    }
    Tensor y = Tensor::Allocate(ctx.operand(0).dtype(), {n});
    for (int64_t i = 0; i < n; ++i)
      y.mutable_data<T>()[i] = static_cast<T>(start + static_cast<T>(i) * delta);
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status InferEyeLike(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 2, 2));
  const DType dtype =
      ctx.attrs().Has("dtype") ? static_cast<DType>(ctx.attrs().Int("dtype", 0)) : DTypeOfOperand(ctx, 0);
  SetTensor(ctx, 0, dtype, ShapeOf(ctx, 0));
  return OkStatus();
}
Status VerifyEyeLike(const Node &n) {
  const int64_t t = n.attrs().Int("dtype", 1);
  if (t < 1 || t >= kNumDTypes)
    return AttrError(fmt::format("dtype is {}", t));
  return OkStatus();
}
Status EvaluateEyeLike(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (x.rank() != 2)
    return ShapeError(fmt::format("EyeLike of {}", ToString(x.dims())));
  const DType dtype = ctx.attrs().Has("dtype") ? static_cast<DType>(ctx.attrs().Int("dtype", 0)) : x.dtype();
  const int64_t rows = x.dims()[0], columns = x.dims()[1], k = ctx.attrs().Int("k", 0);
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(dtype, x.dims()));
  auto fill = [&](auto one) {
    using T = decltype(one);
    for (int64_t i = 0; i < rows; ++i)
      if (i + k >= 0 && i + k < columns)
        y.mutable_data<T>()[i * columns + i + k] = one;
  };
  switch (dtype) {
  case DType::F32:
    fill(1.0f);
    break;
  case DType::F64:
    fill(1.0);
    break;
  case DType::F16:
    fill(uint16_t{0x3c00});
    break;
  case DType::BF16:
    fill(uint16_t{0x3f80});
    break;
  case DType::Bool:
    fill(uint8_t{1});
    break;
  default:
    NPUC_RETURN_IF_ERROR(DispatchInt(dtype, [&](auto tag) {
      fill(TypeOf<decltype(tag)>{1});
      return OkStatus();
    }));
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status InferNonZero(InferContext &ctx) {
  const Shape s = ShapeOf(ctx, 0);
  SetTensor(ctx, 0, DType::I64, Shape({s.ranked() ? Dim(s.rank()) : Dim::Unknown(), Dim::Unknown()}));
  return OkStatus();
}
Status EvaluateNonZero(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const int64_t n = x.num_elements(), rank = x.rank();
  const int size = ByteSize(x.dtype());
  std::vector<int64_t> hits;
  for (int64_t i = 0; i < n; ++i) {
    bool set;
    if (x.dtype() == DType::String)
      set = !x.strings()[i].empty();
    else if (IsFloat(x.dtype()))
      set = x.AsDouble(i) != 0;
    else
      set = std::any_of(x.bytes() + i * size, x.bytes() + (i + 1) * size, [](uint8_t b) { return b != 0; });
    if (set)
      hits.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(hits.size());
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(DType::I64, {rank, count}));
  const Dims strides = RowMajorStrides(x.dims());
  for (int64_t h = 0; h < count; ++h)
    for (int64_t k = 0; k < rank; ++k)
      y.mutable_data<int64_t>()[k * count + h] = hits[h] / strides[k] % x.dims()[k];
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status InferUnique(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (!ctx.attrs().Has("axis")) {
    s = Shape::UnknownDims(1);
  } else if (s.ranked()) {
    NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), s.rank()));
    s[axis] = Dim::Unknown();
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), s);
  for (int i = 1; i < 4; ++i)
    SetTensor(ctx, i, DType::I64, Shape::UnknownDims(1));
  return OkStatus();
}

// NaN comes last.
int CompareFloats(double u, double v) {
  if (u < v)
    return -1;
  if (v < u)
    return 1;
  return (u != u) == (v != v) ? 0 : u != u ? 1 : -1;
}

// Orders two slices of axis items (element by element).
int Compare(const Tensor &x, const AxisSplit &split, int64_t a, int64_t b) {
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      const int64_t p = (o * split.n + a) * split.inner + i, q = (o * split.n + b) * split.inner + i;
      if (x.dtype() == DType::String) {
        if (const int c = x.strings()[p].compare(x.strings()[q]))
          return c;
      } else if (IsFloat(x.dtype())) {
        if (const int c = CompareFloats(x.AsDouble(p), x.AsDouble(q)))
          return c;
      } else if (IsComplex(x.dtype())) { // by real parts, then by imaginary ones, as numpy
        for (int part = 0; part < 2; ++part) {
          auto at = [&](int64_t e) {
            return x.dtype() == DType::C64 ? static_cast<double>(x.data<float>()[2 * e + part])
                                           : x.data<double>()[2 * e + part];
          };
          if (const int c = CompareFloats(at(p), at(q)))
            return c;
        }
      } else if (x.dtype() == DType::U64) {
        const uint64_t u = x.data<uint64_t>()[p], v = x.data<uint64_t>()[q];
        if (u != v)
          return u < v ? -1 : 1;
      } else {
        const int64_t u = x.AsInt(p), v = x.AsInt(q);
        if (u != v)
          return u < v ? -1 : 1;
      }
    }
  return 0;
}

Status EvaluateUnique(EvalContext &ctx) {
  Tensor x = ctx.operand(0);
  int axis = 0;
  const bool has_axis = ctx.attrs().Has("axis");
  if (has_axis) {
    NPUC_ASSIGN_OR_RETURN(axis, NormalizeAxis(ctx.attrs().Int("axis", 0), x.rank()));
  } else {
    x = x.Reshaped({x.num_elements()});
  }
  const AxisSplit split(x.dims(), axis);
  std::vector<int64_t> order(split.n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return Compare(x, split, a, b) < 0; });
  // Groups in sorted order; the first of each is its first occurrence, as the sort is stable.
  std::vector<int64_t> first, group_of(split.n), counts;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || Compare(x, split, order[i - 1], order[i]) != 0) {
      first.push_back(order[i]);
      counts.push_back(0);
    }
    group_of[order[i]] = static_cast<int64_t>(first.size()) - 1;
    ++counts.back();
  }
  std::vector<int64_t> rank(first.size());
  std::iota(rank.begin(), rank.end(), 0);
  if (ctx.attrs().Int("sorted", 1) == 0)
    std::sort(rank.begin(), rank.end(), [&](int64_t a, int64_t b) { return first[a] < first[b]; });
  std::vector<int64_t> position(first.size());
  for (size_t i = 0; i < rank.size(); ++i)
    position[rank[i]] = static_cast<int64_t>(i);
  Dims dims(x.dims());
  dims[axis] = static_cast<int64_t>(first.size());
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), dims));
  std::vector<int64_t> indices, inverse(split.n), sorted_counts;
  for (size_t g = 0; g < rank.size(); ++g) {
    indices.push_back(first[rank[g]]);
    sorted_counts.push_back(counts[rank[g]]);
    for (int64_t o = 0; o < split.outer; ++o)
      out.Copy((o * dims[axis] + static_cast<int64_t>(g)) * split.inner, x,
               (o * split.n + indices.back()) * split.inner, split.inner);
  }
  for (int64_t i = 0; i < split.n; ++i)
    inverse[i] = position[group_of[i]];
  ctx.set_result(0, out.Finish());
  ctx.set_result(1, Tensor::OfI64(indices));
  ctx.set_result(2, Tensor::OfI64(inverse));
  ctx.set_result(3, Tensor::OfI64(sorted_counts));
  return OkStatus();
}

} // namespace

OpDef OneHotDef() {
  return {.domain = "",
          .name = "OneHot",
          .since_version = 11,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {IntAttr("axis")},
          .traits = kPure | kNoFloatWiden,
          .infer = InferOneHot,
          .evaluate = EvaluateOneHot,
          .doc = "A new axis with the on value at the index and the off value elsewhere."};
}

OpDef RangeDef() {
  return {.domain = "",
          .name = "Range",
          .since_version = 11,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {},
          .infer = InferRange,
          .evaluate = EvaluateRange,
          .doc = "start, start + delta, ... before limit."};
}

OpDef EyeLikeDef() {
  return {.domain = "",
          .name = "EyeLike",
          .since_version = 9,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("dtype"), IntAttr("k")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyEyeLike,
          .infer = InferEyeLike,
          .evaluate = EvaluateEyeLike,
          .doc = "Ones on the k-th diagonal of a matrix of the operand's shape."};
}

OpDef NonZeroDef() {
  return {.domain = "",
          .name = "NonZero",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {},
          .traits = kPure | kNoFloatWiden,
          .infer = InferNonZero,
          .evaluate = EvaluateNonZero,
          .doc = "Coordinates of the elements that are not zero, a row an axis."};
}

OpDef UniqueDef() {
  return {.domain = "",
          .name = "Unique",
          .since_version = 11,
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 1,
          .max_results = 4,
          .attrs = {IntAttr("axis"), IntAttr("sorted")},
          .traits = kPure | kNoFloatWiden,
          .infer = InferUnique,
          .evaluate = EvaluateUnique,
          .doc = "Distinct elements or slices, their first positions, the inverse map and counts."};
}

} // namespace npuc::ops
