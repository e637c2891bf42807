// The ten reductions, ArgMax and ArgMin.
//
//   Reduce*(x, axes?) with keepdims and noop_with_empty_axes. No axes: all of them, or with noop none, and then every
//   element is a reduction of its own (ReduceSumSquare still squares it).
//
// Float sums: 16 partial sums in the order of the elements, then a pairwise tree (reduce_math.h). Integer sums wrap;
// ReduceMean of integers truncates. An empty reduction gives 0 (Sum, L1, L2, SumSquare), 1 (Prod), the least or
// greatest value (Max, Min), NaN (Mean), -inf (LogSum, LogSumExp). Max and Min propagate NaN. LogSumExp takes its
// maximum out first. Quantised: ReduceMean in exact integers, Max, Min, ArgMax, ArgMin on the integers when parameters
// agree.
#include <algorithm>
#include <limits>

#include "compiler/ops/op_helpers.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/ops/reduce_math.h"
#include "compiler/ops/scalar_math.h"

namespace npuc::ops {
namespace {

// How a tensor falls into groups: group g starts at base[g], its element r is offset[r] further on.
struct Groups {
  std::vector<int64_t> base;
  int64_t size = 1;
  // offset(r) = r * stride when the axes are neighbours, else from the table.
  int64_t stride = 1;
  std::vector<int64_t> table;
  Dims kept, with_ones; // result dims without and with the reduced axes

  int64_t Offset(int64_t r) const { return table.empty() ? r * stride : table[r]; }
};

std::vector<int64_t> Offsets(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides) {
  std::vector<int64_t> out{0};
  for (size_t i = 0; i < dims.size(); ++i) {
    std::vector<int64_t> next;
    next.reserve(out.size() * dims[i]);
    for (int64_t base : out)
      for (int64_t k = 0; k < dims[i]; ++k)
        next.push_back(base + k * strides[i]);
    out = std::move(next);
  }
  return out;
}

Groups MakeGroups(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int> axes) {
  Groups g;
  const Dims strides = RowMajorStrides(dims);
  Dims kept_strides, reduced, reduced_strides;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (llvm::is_contained(axes, i)) {
      g.with_ones.push_back(1);
      if (dims[i] != 1) {
        reduced.push_back(dims[i]);
        reduced_strides.push_back(strides[i]);
      }
    } else {
      g.with_ones.push_back(dims[i]);
      g.kept.push_back(dims[i]);
      kept_strides.push_back(strides[i]);
    }
  }
  g.base = Offsets(g.kept, kept_strides);
  g.size = NumElements(reduced);
  bool run = true;
  for (size_t i = 0; i + 1 < reduced.size(); ++i)
    run = run && reduced_strides[i] == reduced_strides[i + 1] * reduced[i + 1];
  g.stride = reduced_strides.empty() ? 1 : reduced_strides.back();
  if (!run)
    g.table = Offsets(reduced, reduced_strides);
  return g;
}

// ---- Axes: operand 1, or the attribute of older versions.

StatusOr<Groups> GroupsOf(EvalContext &ctx) {
  const int rank = ctx.operand(0).rank();
  llvm::SmallVector<int64_t, 4> given(ctx.attrs().Ints("axes").begin(), ctx.attrs().Ints("axes").end());
  if (ctx.has_operand(1))
    given = AsInts(ctx.operand(1));
  if (given.empty() && ctx.attrs().Int("noop_with_empty_axes", 0) == 0)
    for (int i = 0; i < rank; ++i)
      given.push_back(i);
  NPUC_ASSIGN_OR_RETURN(const auto axes, NormalizeAxes(given, rank));
  return MakeGroups(ctx.operand(0).dims(), axes);
}

const Dims &ResultDims(const EvalContext &ctx, const Groups &g) {
  return ctx.attrs().Int("keepdims", 1) != 0 ? g.with_ones : g.kept;
}

Status InferReduce(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  const bool keep = ctx.attrs().Int("keepdims", 1) != 0, noop = ctx.attrs().Int("noop_with_empty_axes", 0) != 0;
  const DType t = DTypeOfOperand(ctx, 0);
  std::optional<llvm::SmallVector<int64_t, 4>> given;
  if (!ctx.has_operand(1)) {
    given.emplace(ctx.attrs().Ints("axes").begin(), ctx.attrs().Ints("axes").end());
  } else if (const Tensor *c = ctx.constant(1)) {
    given = AsInts(*c);
  } else if (const auto dims = ctx.dims(1); dims && llvm::all_of(*dims, [](const Dim &d) { return d.is_static(); })) {
    given.emplace();
    for (const Dim &d : *dims)
      given->push_back(d.value());
  }
  if (!x.ranked()) {
    SetTensor(ctx, 0, t, given && given->empty() && !noop && !keep ? Shape() : Shape::Unranked());
    return OkStatus();
  }
  if (!given) {
    if (keep) {
      SetTensor(ctx, 0, t, Shape::UnknownDims(x.rank()));
    } else if (const Shape axes = ShapeOf(ctx, 1);
               axes.is_static() && axes.rank() == 1 && axes[0].value() > 0 && axes[0].value() <= x.rank()) {
      SetTensor(ctx, 0, t, Shape::UnknownDims(x.rank() - static_cast<int>(axes[0].value())));
    } else {
      SetTensor(ctx, 0, t, Shape::Unranked());
    }
    return OkStatus();
  }
  if (given->empty() && noop) {
    SetTensor(ctx, 0, t, x);
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(const auto axes, NormalizeAxes(*given, x.rank()));
  Shape out;
  for (int i = 0; i < x.rank(); ++i)
    if (!axes.empty() && !llvm::is_contained(axes, i))
      out.push_back(x[i]);
    else if (keep)
      out.push_back(Dim(1));
  SetTensor(ctx, 0, t, std::move(out));
  return OkStatus();
}

// ---- The reductions: Run(n, at) over the elements at(0) ... at(n-1).

template <class T>
using AccOf =
    std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
template <class T> using RealOf = std::conditional_t<std::is_same_v<T, float>, float, double>;

// Sum of f over the elements; integers wrap (in unsigned arithmetic, so that wrapping is defined).
template <class T, class At, class F> T Summed(int64_t n, At at, F f) {
  if constexpr (std::is_floating_point_v<T>) {
    return SumOf<T>(n, [&](int64_t i) { return f(at(i)); });
  } else {
    uint64_t s = 0;
    for (int64_t i = 0; i < n; ++i)
      s += static_cast<uint64_t>(f(static_cast<AccOf<T>>(at(i))));
    return static_cast<T>(s);
  }
}

struct SumR {
  template <class T, class At> static T Run(int64_t n, At at) {
    return Summed<T>(n, at, [](auto v) { return v; });
  }
};
struct MeanR {
  template <class T, class At> static T Run(int64_t n, At at) {
    if constexpr (std::is_floating_point_v<T>) {
      return SumR::Run<T>(n, at) / static_cast<T>(n);
    } else {
      AccOf<T> s = 0;
      for (int64_t i = 0; i < n; ++i)
        s += static_cast<AccOf<T>>(at(i));
      return n == 0 ? T(0) : static_cast<T>(s / static_cast<AccOf<T>>(n));
    }
  }
};
struct ProdR {
  template <class T, class At> static T Run(int64_t n, At at) {
    if constexpr (std::is_floating_point_v<T>) {
      // As sums: 16 partial products, then neighbours.
      T t[16];
      std::fill_n(t, 16, T(1));
      for (int64_t i = 0; i < n; ++i)
        t[i & 15] *= at(i);
      for (int w = 1; w < 16; w *= 2)
        for (int k = 0; k < 16; k += 2 * w)
          t[k] *= t[k + w];
      return t[0];
    } else {
      uint64_t p = 1;
      for (int64_t i = 0; i < n; ++i)
        p *= static_cast<uint64_t>(at(i));
      return static_cast<T>(p);
    }
  }
};
struct SumSquareR {
  template <class T, class At> static T Run(int64_t n, At at) {
    return Summed<T>(n, at, [](auto v) {
      if constexpr (std::is_floating_point_v<T>)
        return v * v;
      else
        return static_cast<uint64_t>(v) * static_cast<uint64_t>(v);
    });
  }
};
struct L1R {
  template <class T, class At> static T Run(int64_t n, At at) {
    return Summed<T>(n, at, [](auto v) {
      if constexpr (std::is_floating_point_v<T>)
        return scalar::Abs(v);
      else if constexpr (std::is_signed_v<T>)
        return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
      else
        return v;
    });
  }
};
// The rest is computed in a real type and converted back.
struct L2R {
  template <class T, class At> static T Run(int64_t n, At at) {
    using R = RealOf<T>;
    return static_cast<T>(
        fpmath::Sqrt(SumOf<R>(n, [&](int64_t i) { return static_cast<R>(at(i)) * static_cast<R>(at(i)); })));
  }
};
struct LogSumR {
  template <class T, class At> static T Run(int64_t n, At at) {
    using R = RealOf<T>;
    return static_cast<T>(fpmath::Log(SumOf<R>(n, [&](int64_t i) { return static_cast<R>(at(i)); })));
  }
};
struct LogSumExpR {
  template <class T, class At> static T Run(int64_t n, At at) {
    using R = RealOf<T>;
    R m = -std::numeric_limits<R>::infinity();
    for (int64_t i = 0; i < n; ++i)
      m = scalar::Max<R>(m, static_cast<R>(at(i)));
    if (!(m - m == R(0)))
      return static_cast<T>(m); // empty, infinite or NaN
    return static_cast<T>(fpmath::Log(SumOf<R>(n, [&](int64_t i) { return fpmath::Exp(static_cast<R>(at(i)) - m); })) +
                          m);
  }
};
struct MaxR {
  template <class T, class At> static T Run(int64_t n, At at) {
    T m = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    for (int64_t i = 0; i < n; ++i)
      if constexpr (std::is_floating_point_v<T>)
        m = scalar::Max<T>(m, at(i));
      else
        m = m < at(i) ? at(i) : m;
    return m;
  }
};
struct MinR {
  template <class T, class At> static T Run(int64_t n, At at) {
    T m = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    for (int64_t i = 0; i < n; ++i)
      if constexpr (std::is_floating_point_v<T>)
        m = scalar::Min<T>(m, at(i));
      else
        m = at(i) < m ? at(i) : m;
    return m;
  }
};

template <class R> Status EvaluateReduce(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(const Groups g, GroupsOf(ctx));
  Tensor y = Tensor::Allocate(x.dtype(), ResultDims(ctx, g));
  const bool is_bool = x.dtype() == DType::Bool;
  NPUC_RETURN_IF_ERROR(DispatchNumeric(is_bool ? DType::U8 : x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    ParallelFor(ctx.threads(), static_cast<int64_t>(g.base.size()), 64, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const T *from = in + g.base[k];
        if (g.table.empty() && g.stride == 1)
          out[k] = R::template Run<T>(g.size, [&](int64_t i) { return from[i]; });
        else
          out[k] = R::template Run<T>(g.size, [&](int64_t i) { return from[g.Offset(i)]; });
      }
    });
    return OkStatus();
  }));
  if (is_bool)
    for (int64_t i = 0; i < y.num_elements(); ++i)
      y.mutable_bytes()[i] = y.bytes()[i] != 0;
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

template <class R> Status EvaluateQuantizedExtremum(EvalContext &ctx) {
  const QuantRef &q = OperandQuant(ctx, 0);
  const bool same = q && q->per_tensor() && SameQuant(q, ResultQuant(ctx, 0)) &&
                    ctx.node().result(0)->type().dtype() == ctx.operand(0).dtype();
  return same ? EvaluateReduce<R>(ctx) : EvaluateByDequantizing(ctx);
}

// The integers' exact sum, scaled and rounded once; kMean divides by the count.
template <bool kMean> Status EvaluateQuantizedSum(EvalContext &ctx) {
  const QuantRef &qx = OperandQuant(ctx, 0), &qy = ResultQuant(ctx, 0);
  if (!qx || !qx->per_tensor() || (qy && !qy->per_tensor()))
    return EvaluateByDequantizing(ctx);
  NPUC_ASSIGN_OR_RETURN(const Groups g, GroupsOf(ctx));
  const Tensor &x = ctx.operand(0);
  const DType dtype = qy ? ctx.node().result(0)->type().dtype() : DType::F32;
  Tensor y = Tensor::Allocate(dtype, ResultDims(ctx, g));
  const QuantRange range = QuantRangeOf(dtype);
  NPUC_RETURN_IF_ERROR(DispatchInt(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (size_t k = 0; k < g.base.size(); ++k) {
      const T *from = x.data<T>() + g.base[k];
      int64_t sum = 0;
      for (int64_t i = 0; i < g.size; ++i)
        sum += static_cast<int64_t>(from[g.Offset(i)]) - qx->zero_point();
      if (!qy) {
        y.mutable_data<float>()[k] = static_cast<float>(sum) * qx->scale() / static_cast<float>(kMean ? g.size : 1);
        continue;
      }
      const int32_t q = QuantizeAverage(sum, qx->scale(), kMean ? g.size : 1, qy->scale(), qy->zero_point(), range);
      switch (ByteSize(dtype)) {
      case 1:
        y.mutable_bytes()[k] = static_cast<uint8_t>(q);
        break;
      case 2:
        y.mutable_data<uint16_t>()[k] = static_cast<uint16_t>(q);
        break;
      default:
        y.mutable_data<int32_t>()[k] = q;
        break;
      }
    }
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

OpDef Reduce(std::string_view name, Status (*evaluate)(EvalContext &), std::string_view doc,
             Status (*quantized)(EvalContext &) = nullptr) {
  return {.domain = "",
          .name = name,
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 2,
          .attrs = {IntAttr("keepdims"), IntAttr("noop_with_empty_axes"), IntsAttr("axes")},
          .infer = InferReduce,
          .evaluate = evaluate,
          .evaluate_quantized = quantized,
          .doc = doc};
}

// ---- ArgMax, ArgMin

Status InferArg(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked()) {
    NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), s.rank()));
    const bool keep = ctx.attrs().Int("keepdims", 1) != 0;
    if (s[axis].is_static() && s[axis].value() == 0)
      return ShapeError(fmt::format("axis {} of {} is empty; it has no greatest or least element", axis, s.ToString()));
    Shape out;
    for (int i = 0; i < s.rank(); ++i)
      if (i != axis)
        out.push_back(s[i]);
      else if (keep)
        out.push_back(Dim(1));
    s = out;
  }
  SetTensor(ctx, 0, DType::I64, std::move(s));
  return OkStatus();
}

// The first NaN counts as the extremum, as in numpy.
template <bool kMax> Status EvaluateArg(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), x.rank()));
  const AxisSplit s(x.dims(), axis);
  if (s.n == 0)
    return ShapeError(
        fmt::format("axis {} of {} is empty; it has no greatest or least element", axis, ToString(x.dims())));
  Dims dims(x.dims().begin(), x.dims().end());
  if (ctx.attrs().Int("keepdims", 1) != 0)
    dims[axis] = 1;
  else
    dims.erase(dims.begin() + axis);
  const bool last = ctx.attrs().Int("select_last_index", 0) != 0;
  Tensor y = Tensor::Allocate(DType::I64, dims);
  int64_t *out = y.mutable_data<int64_t>();
  NPUC_RETURN_IF_ERROR(DispatchNumeric(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.inner; ++i) {
        const T *from = x.data<T>() + o * s.n * s.inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < s.n; ++k) {
          const T v = from[k * s.inner], b = from[best * s.inner];
          const bool v_nan = v != v, b_nan = b != b;
          const bool better = b_nan ? false : v_nan ? true : kMax ? v > b : v < b;
          const bool equal = v == b || (v_nan && b_nan);
          if (better || (last && equal))
            best = k;
        }
        out[o * s.inner + i] = best;
      }
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

template <bool kMax> Status EvaluateQuantizedArg(EvalContext &ctx) {
  return OperandQuant(ctx, 0)->per_tensor() ? EvaluateArg<kMax>(ctx) : EvaluateByDequantizing(ctx);
}

OpDef Arg(std::string_view name, Status (*evaluate)(EvalContext &), Status (*quantized)(EvalContext &),
          std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("axis"), IntAttr("keepdims"), IntAttr("select_last_index")},
          .infer = InferArg,
          .evaluate = evaluate,
          .evaluate_quantized = quantized,
          .doc = doc};
}

} // namespace

OpDef ReduceSumDef() {
  return Reduce("ReduceSum", EvaluateReduce<SumR>, "Sum over axes.", EvaluateQuantizedSum<false>);
}
OpDef ReduceMeanDef() {
  return Reduce("ReduceMean", EvaluateReduce<MeanR>, "Mean over axes.", EvaluateQuantizedSum<true>);
}
OpDef ReduceMaxDef() {
  return Reduce("ReduceMax", EvaluateReduce<MaxR>, "Maximum over axes.", EvaluateQuantizedExtremum<MaxR>);
}
OpDef ReduceMinDef() {
  return Reduce("ReduceMin", EvaluateReduce<MinR>, "Minimum over axes.", EvaluateQuantizedExtremum<MinR>);
}
OpDef ReduceProdDef() {
  return Reduce("ReduceProd", EvaluateReduce<ProdR>, "Product over axes.");
}
OpDef ReduceSumSquareDef() {
  return Reduce("ReduceSumSquare", EvaluateReduce<SumSquareR>, "Sum of squares over axes.");
}
OpDef ReduceL1Def() {
  return Reduce("ReduceL1", EvaluateReduce<L1R>, "Sum of absolute values over axes.");
}
OpDef ReduceL2Def() {
  return Reduce("ReduceL2", EvaluateReduce<L2R>, "Square root of the sum of squares over axes.");
}
OpDef ReduceLogSumDef() {
  return Reduce("ReduceLogSum", EvaluateReduce<LogSumR>, "Logarithm of the sum over axes.");
}
OpDef ReduceLogSumExpDef() {
  return Reduce("ReduceLogSumExp", EvaluateReduce<LogSumExpR>, "Logarithm of the sum of exponentials over axes.");
}
OpDef ArgMaxDef() {
  return Arg("ArgMax", EvaluateArg<true>, EvaluateQuantizedArg<true>, "Index of the greatest element along an axis.");
}
OpDef ArgMinDef() {
  return Arg("ArgMin", EvaluateArg<false>, EvaluateQuantizedArg<false>, "Index of the least element along an axis.");
}

} // namespace npuc::ops
