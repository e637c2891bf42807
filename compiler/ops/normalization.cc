// Normalisations: Batch (inference and training), Instance, Group, Layer, RMS, Lp, MeanVariance;
// com.microsoft.SkipLayerNormalization.
//
//   mean = sum / n;  var = sum((x - mean)^2) / n;  inv = 1 / sqrt(var + eps);  y = ((x - mean) * inv) * scale + bias
//
// in that order of operations, sums as reduce_math.h; RMS leaves the mean out. BatchNormalization in inference takes
// mean and var from its operands; in training from the batch, and its further results are old * momentum + batch * (1 -
// momentum).
#include "compiler/ops/convert.h"
#include "compiler/ops/op_helpers.h"
#include "compiler/ops/reduce_math.h"
#include "compiler/ops/scalar_math.h"

namespace npuc::ops {
namespace {

template <class T> T InvStd(T var, T eps) {
  return T(1) / fpmath::Sqrt(var + eps);
}

// Operand i as T values; an empty view when absent.
template <class T> class Values {
public:
  Values(EvalContext &ctx, int i) {
    if (i >= 0 && ctx.has_operand(i))
      t_ = ConvertTensor(ctx.operand(i), DTypeOf<T>());
  }
  explicit operator bool() const { return static_cast<bool>(t_); }
  const T *data() const { return t_.template data<T>(); }
  int64_t size() const { return t_ ? t_.num_elements() : 0; }
  T operator[](int64_t i) const { return data()[i]; }

private:
  Tensor t_;
};

template <class T> struct Stats { T mean, var; };
// Of f(0) ... f(n-1).
template <class T, class F> Stats<T> StatsOf(int64_t n, F f) {
  const T mean = SumOf<T>(n, f) / static_cast<T>(n);
  const T var = SumOf<T>(n,
                         [&](int64_t i) {
                           const T d = f(i) - mean;
                           return d * d;
                         }) /
                static_cast<T>(n);
  return {mean, var};
}

Status WantSize(EvalContext &ctx, int operand, int64_t n, std::string_view what) {
  if (ctx.has_operand(operand) && ctx.operand(operand).num_elements() != n)
    return ShapeError(
        fmt::format("{} has shape {}; {} values are needed", what, ToString(ctx.operand(operand).dims()), n));
  return OkStatus();
}

// ---- Batch

Status InferBatch(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  const Dim channels = !x.ranked() ? Dim::Unknown() : x.rank() < 2 ? Dim(1) : x[1];
  for (int i = 1; i <= 4; ++i)
    if (const Shape s = ShapeOf(ctx, i); s.ranked() && s.rank() == 1)
      NPUC_RETURN_IF_ERROR(
          MergeDim(channels, s[0], fmt::format("channels of x {} and operand {} differ", x.ToString(), i)).status());
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), x);
  for (int i = 1; i < ctx.num_results() && i < 3; ++i)
    SetTensor(ctx, i, DTypeOfOperand(ctx, i + 2), ShapeOf(ctx, i + 2));
  return OkStatus();
}

Status EvaluateBatch(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const int64_t n = x.rank() > 0 ? x.dims()[0] : 1, c = x.rank() < 2 ? 1 : x.dims()[1];
  const int64_t plane = x.rank() < 2 ? 1 : NumElements(x.dims().drop_front(2));
  for (int i = 1; i <= 4; ++i)
    NPUC_RETURN_IF_ERROR(WantSize(ctx, i, c, "a per-channel operand"));
  const bool training = ctx.attrs().Int("training_mode", 0) != 0;
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T eps = static_cast<T>(ctx.attrs().Float("epsilon", 1e-5f)),
            momentum = static_cast<T>(ctx.attrs().Float("momentum", 0.9f));
    const Values<T> scale(ctx, 1), bias(ctx, 2), mean(ctx, 3), var(ctx, 4);
    Tensor new_mean = Tensor::Allocate(DTypeOf<T>(), ctx.operand(3).dims()),
           new_var = Tensor::Allocate(DTypeOf<T>(), ctx.operand(4).dims());
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    ParallelFor(ctx.threads(), c, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        Stats<T> s{mean[k], var[k]};
        if (training) {
          s = StatsOf<T>(n * plane, [&](int64_t i) { return in[(i / plane * c + k) * plane + i % plane]; });
          new_mean.mutable_data<T>()[k] = mean[k] * momentum + s.mean * (T(1) - momentum);
          new_var.mutable_data<T>()[k] = var[k] * momentum + s.var * (T(1) - momentum);
        }
        const T inv = InvStd(s.var, eps);
        for (int64_t b = 0; b < n; ++b)
          for (int64_t i = (b * c + k) * plane, e = i + plane; i < e; ++i)
            out[i] = ((in[i] - s.mean) * inv) * scale[k] + bias[k];
      }
    });
    ctx.set_result(0, std::move(y));
    if (training) {
      ctx.set_result(1, ConvertTensor(new_mean, ctx.operand(3).dtype()));
      ctx.set_result(2, ConvertTensor(new_var, ctx.operand(4).dtype()));
    }
    return OkStatus();
  });
}

// ---- Instance and Group: groups of neighbouring channels over all their spatial elements.

Status Grouped(EvalContext &ctx, int64_t groups) {
  const Tensor &x = ctx.operand(0);
  if (x.rank() < 2)
    return ShapeError(fmt::format("x {} must have a batch and a channel axis", ToString(x.dims())));
  const int64_t n = x.dims()[0], c = x.dims()[1], plane = NumElements(x.dims().drop_front(2));
  if (groups == 0)
    groups = c; // instance normalisation
  if (groups < 1 || c % groups != 0)
    return AttrError(fmt::format("num_groups {} does not divide {} channels", groups, c));
  // Version 18 of GroupNormalization had one scale per group.
  const int64_t params = ctx.operand(1).num_elements() == groups ? groups : c;
  NPUC_RETURN_IF_ERROR(WantSize(ctx, 1, params, "scale"));
  NPUC_RETURN_IF_ERROR(WantSize(ctx, 2, params, "bias"));
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T eps = static_cast<T>(ctx.attrs().Float("epsilon", 1e-5f));
    const Values<T> scale(ctx, 1), bias(ctx, 2);
    const int64_t per = c / groups, size = per * plane;
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    ParallelFor(ctx.threads(), n * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const T *from = in + k * size;
        T *to = out + k * size;
        const Stats<T> s = StatsOf<T>(size, [&](int64_t i) { return from[i]; });
        const T inv = InvStd(s.var, eps);
        for (int64_t j = 0; j < per; ++j) {
          const int64_t channel = k % groups * per + j, p = params == c ? channel : k % groups;
          for (int64_t i = j * plane; i < (j + 1) * plane; ++i)
            to[i] = ((from[i] - s.mean) * inv) * scale[p] + bias[p];
        }
      }
    });
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status EvaluateInstance(EvalContext &ctx) {
  return Grouped(ctx, 0);
}
Status EvaluateGroup(EvalContext &ctx) {
  const int64_t groups = ctx.attrs().Int("num_groups", 0);
  if (groups < 1)
    return AttrError(fmt::format("num_groups {} must be positive", groups));
  return Grouped(ctx, groups);
}

// ---- Layer and RMS: over the axes from `axis` on.

Status InferLayer(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), x);
  Shape stats = Shape::Unranked();
  if (x.ranked()) {
    NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", -1), x.rank()));
    stats = x;
    for (int i = axis; i < x.rank(); ++i)
      stats[i] = Dim(1);
  }
  for (int i = 1; i < ctx.num_results(); ++i)
    SetTensor(ctx, i, DTypeOfOperand(ctx, 0) == DType::F64 ? DType::F64 : DType::F32, stats);
  return OkStatus();
}

// x normalised over its last `n` elements; scale and bias are broadcast forms of those n (any shape that broadcasts to
// x).
template <bool kMean>
Status LayerLike(EvalContext &ctx, const Tensor &x, int64_t axis_attr, int scale_operand, int bias_operand,
                 float epsilon) {
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_attr, x.rank()));
  const int64_t outer = NumElements(x.dims().take_front(axis)), n = NumElements(x.dims().drop_front(axis));
  Dims stats(x.dims().begin(), x.dims().end());
  for (int i = axis; i < x.rank(); ++i)
    stats[i] = 1;
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    const Values<T> scale(ctx, scale_operand), bias(ctx, bias_operand);
    // The usual case: parameters of exactly n elements. Others are indexed by broadcasting to x.
    auto strides = [&](int operand) -> StatusOr<Dims> {
      Dims s(x.rank(), 0);
      if (operand < 0 || !ctx.has_operand(operand))
        return s;
      const llvm::ArrayRef<int64_t> d = ctx.operand(operand).dims();
      const Dims own = RowMajorStrides(d);
      if (d.size() > x.dims().size())
        return ShapeError(
            fmt::format("a parameter of shape {} does not broadcast to x {}", ToString(d), ToString(x.dims())));
      for (size_t i = 0; i < d.size(); ++i) {
        const size_t at = x.rank() - d.size() + i;
        if (d[i] != 1 && d[i] != x.dims()[at])
          return ShapeError(
              fmt::format("a parameter of shape {} does not broadcast to x {}", ToString(d), ToString(x.dims())));
        s[at] = d[i] == 1 ? 0 : own[i];
      }
      return s;
    };
    NPUC_ASSIGN_OR_RETURN(const Dims scale_strides, strides(scale_operand));
    NPUC_ASSIGN_OR_RETURN(const Dims bias_strides, strides(bias_operand));
    const Dims x_strides = RowMajorStrides(x.dims());
    auto at = [&](const Dims &s, int64_t element) {
      int64_t offset = 0;
      for (int i = 0; i < x.rank(); ++i)
        offset += element / x_strides[i] % x.dims()[i] * s[i];
      return offset;
    };
    const bool scale_plain = scale && scale.size() == n && ctx.has_operand(scale_operand) &&
                             ctx.operand(scale_operand).rank() <= x.rank() - axis;
    const bool bias_plain = bias && bias.size() == n && ctx.operand(bias_operand).rank() <= x.rank() - axis;
    Tensor means = Tensor::Allocate(DTypeOf<T>(), stats), invs = Tensor::Allocate(DTypeOf<T>(), stats);
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    const T eps = static_cast<T>(epsilon);
    ParallelFor(ctx.threads(), outer, 8, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T *from = in + o * n;
        T *to = out + o * n;
        T mean = 0, var;
        if constexpr (kMean) {
          const Stats<T> s = StatsOf<T>(n, [&](int64_t i) { return from[i]; });
          mean = s.mean;
          var = s.var;
        } else {
          var = SumOf<T>(n, [&](int64_t i) { return from[i] * from[i]; }) / static_cast<T>(n);
        }
        const T inv = InvStd(var, eps);
        means.mutable_data<T>()[o] = mean;
        invs.mutable_data<T>()[o] = inv;
        for (int64_t i = 0; i < n; ++i) {
          T v = kMean ? (from[i] - mean) * inv : from[i] * inv;
          if (scale)
            v = v * scale[scale_plain ? i : at(scale_strides, o * n + i)];
          if (bias)
            v = v + bias[bias_plain ? i : at(bias_strides, o * n + i)];
          to[i] = v;
        }
      }
    });
    ctx.set_result(0, std::move(y));
    if (kMean) {
      ctx.set_result(1, std::move(means));
      ctx.set_result(2, std::move(invs));
    }
    return OkStatus();
  });
}

Status EvaluateLayer(EvalContext &ctx) {
  return LayerLike<true>(ctx, ctx.operand(0), ctx.attrs().Int("axis", -1), 1, 2, ctx.attrs().Float("epsilon", 1e-5f));
}
Status EvaluateRms(EvalContext &ctx) {
  return LayerLike<false>(ctx, ctx.operand(0), ctx.attrs().Int("axis", -1), 1, -1, ctx.attrs().Float("epsilon", 1e-5f));
}

// SkipLayerNormalization(x, skip, gamma, beta, bias) -> y, mean, inv_std, x + skip + bias.
Status InferSkipLayer(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  const DType t = DTypeOfOperand(ctx, 0);
  SetTensor(ctx, 0, t, x);
  Shape stats = x;
  if (stats.ranked() && stats.rank() > 0)
    stats[stats.rank() - 1] = Dim(1);
  SetTensor(ctx, 1, DType::F32, stats);
  SetTensor(ctx, 2, DType::F32, stats);
  SetTensor(ctx, 3, t, x);
  return OkStatus();
}
Status EvaluateSkipLayer(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &skip = ctx.operand(1);
  const int64_t n = x.num_elements(), period = skip.num_elements();
  if (x.rank() < 1 || period == 0 || n % period != 0)
    return ShapeError(
        fmt::format("skip {} does not broadcast to the input {}", ToString(skip.dims()), ToString(x.dims())));
  const int64_t width = x.dims().back();
  NPUC_RETURN_IF_ERROR(WantSize(ctx, 4, width, "bias"));
  const FloatView a(x), b(skip);
  std::optional<FloatView> bias;
  if (ctx.has_operand(4))
    bias.emplace(ctx.operand(4));
  Tensor sum = Tensor::Allocate(DType::F32, x.dims());
  for (int64_t i = 0; i < n; ++i)
    sum.mutable_data<float>()[i] = a[i] + b[i % period] + (bias ? (*bias)[i % width] : 0.0f);
  NPUC_RETURN_IF_ERROR(LayerLike<true>(ctx, sum, -1, 2, 3, ctx.attrs().Float("epsilon", 1e-12f)));
  ctx.set_result(3, std::move(sum));
  return OkStatus();
}

// ---- Lp, MeanVariance

Status EvaluateLp(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(ctx.attrs().Int("axis", -1), x.rank()));
  const int64_t p = ctx.attrs().Int("p", 2);
  if (p != 1 && p != 2)
    return AttrError(fmt::format("p {} must be 1 or 2", p));
  const AxisSplit s(x.dims(), axis);
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t k = 0; k < s.outer * s.inner; ++k) {
      const int64_t base = k / s.inner * s.n * s.inner + k % s.inner;
      const T *from = x.data<T>() + base;
      T *to = y.template mutable_data<T>() + base;
      T norm = SumOf<T>(s.n, [&](int64_t i) {
        const T v = from[i * s.inner];
        return p == 1 ? scalar::Abs(v) : v * v;
      });
      if (p == 2)
        norm = fpmath::Sqrt(norm);
      for (int64_t i = 0; i < s.n; ++i)
        to[i * s.inner] = norm == T(0) ? T(0) : from[i * s.inner] / norm;
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// (x - mean) / (sqrt(mean(x^2) - mean^2) + 1e-9) over `axes`, as ONNX's function body; the variance in its stable form.
Status EvaluateMeanVariance(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  llvm::SmallVector<int64_t, 4> given(ctx.attrs().Ints("axes").begin(), ctx.attrs().Ints("axes").end());
  if (given.empty())
    given = {0, 2, 3};
  NPUC_ASSIGN_OR_RETURN(const auto axes, NormalizeAxes(given, x.rank()));
  const Dims strides = RowMajorStrides(x.dims());
  // Offsets of the kept and of the reduced positions.
  std::vector<int64_t> kept{0}, reduced{0};
  for (int i = 0; i < x.rank(); ++i) {
    std::vector<int64_t> &list = llvm::is_contained(axes, i) ? reduced : kept;
    std::vector<int64_t> next;
    for (int64_t base : list)
      for (int64_t k = 0; k < x.dims()[i]; ++k)
        next.push_back(base + k * strides[i]);
    list = std::move(next);
  }
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    for (int64_t base : kept) {
      const T *from = x.data<T>() + base;
      const Stats<T> s = StatsOf<T>(static_cast<int64_t>(reduced.size()), [&](int64_t i) { return from[reduced[i]]; });
      const T d = fpmath::Sqrt(s.var) + T(1e-9);
      for (int64_t r : reduced)
        y.template mutable_data<T>()[base + r] = (from[r] - s.mean) / d;
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- LRN over channels

Status EvaluateLrn(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const int64_t size = ctx.attrs().Int("size", 0);
  if (size < 1 || x.rank() < 2)
    return AttrError(fmt::format("size {} must be positive and x {} have a channel axis", size, ToString(x.dims())));
  const AxisSplit s(x.dims(), 1);
  const int64_t before = (size - 1) / 2, after = size - 1 - before;
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T alpha = static_cast<T>(ctx.attrs().Float("alpha", 1e-4f)),
            beta = static_cast<T>(ctx.attrs().Float("beta", 0.75f)),
            bias = static_cast<T>(ctx.attrs().Float("bias", 1.0f));
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t c = 0; c < s.n; ++c)
        for (int64_t i = 0; i < s.inner; ++i) {
          const T *from = x.data<T>() + o * s.n * s.inner + i;
          T sum = 0;
          for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(s.n - 1, c + after); ++k)
            sum += from[k * s.inner] * from[k * s.inner];
          y.template mutable_data<T>()[(o * s.n + c) * s.inner + i] =
              from[c * s.inner] / fpmath::Pow(bias + alpha / static_cast<T>(size) * sum, beta);
        }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

} // namespace

OpDef BatchNormalizationDef() {
  return {.domain = "",
          .name = "BatchNormalization",
          .since_version = 15,
          .min_operands = 5,
          .max_operands = 5,
          .max_results = 3,
          .attrs = {FloatAttr("epsilon"), FloatAttr("momentum"), IntAttr("training_mode")},
          .infer = InferBatch,
          .evaluate = EvaluateBatch,
          .doc = "Normalisation with given (or, in training, the batch's) statistics."};
}
OpDef InstanceNormalizationDef() {
  return {.domain = "",
          .name = "InstanceNormalization",
          .since_version = 22,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {FloatAttr("epsilon")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateInstance,
          .doc = "Normalisation of each channel of each image."};
}
OpDef GroupNormalizationDef() {
  return {.domain = "",
          .name = "GroupNormalization",
          .since_version = 21,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {FloatAttr("epsilon"), IntAttr("num_groups", true), IntAttr("stash_type")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateGroup,
          .doc = "Normalisation of groups of channels."};
}
OpDef LayerNormalizationDef() {
  return {.domain = "",
          .name = "LayerNormalization",
          .since_version = 17,
          .min_operands = 2,
          .max_operands = 3,
          .max_results = 3,
          .attrs = {IntAttr("axis"), FloatAttr("epsilon"), IntAttr("stash_type")},
          .infer = InferLayer,
          .evaluate = EvaluateLayer,
          .doc = "Normalisation over the last axes."};
}
OpDef RMSNormalizationDef() {
  return {.domain = "",
          .name = "RMSNormalization",
          .since_version = 23,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("axis"), FloatAttr("epsilon"), IntAttr("stash_type")},
          .infer = InferLayer,
          .evaluate = EvaluateRms,
          .doc = "Division by the root mean square over the last axes."};
}
OpDef MsSkipLayerNormalizationDef() {
  return {.domain = "com.microsoft",
          .name = "SkipLayerNormalization",
          .min_operands = 3,
          .max_operands = 5,
          .max_results = 4,
          .attrs = {FloatAttr("epsilon")},
          .infer = InferSkipLayer,
          .evaluate = EvaluateSkipLayer,
          .doc = "LayerNormalization of a sum."};
}
OpDef LpNormalizationDef() {
  return {.domain = "",
          .name = "LpNormalization",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("axis"), IntAttr("p")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateLp,
          .doc = "Division by the Lp norm along an axis."};
}
OpDef MeanVarianceNormalizationDef() {
  return {.domain = "",
          .name = "MeanVarianceNormalization",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntsAttr("axes")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateMeanVariance,
          .doc = "Normalisation over axes without scale."};
}
OpDef LRNDef() {
  return {.domain = "",
          .name = "LRN",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("size", true), FloatAttr("alpha"), FloatAttr("beta"), FloatAttr("bias")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateLrn,
          .doc = "Local response normalisation over channels."};
}

} // namespace npuc::ops
