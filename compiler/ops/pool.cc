// Pooling: MaxPool (with indices), AveragePool, LpPool, and the global forms; com.microsoft.QLinearAveragePool and
// QLinearGlobalAveragePool.
//
//   pool(x [N,C,S..]) -> [N,C,O..] over up to three spatial axes; the global forms take any number and leave extents
//   of 1.
//
// Max starts at -inf and propagates NaN; the first of equal maxima gives the index. Average divides by the elements
// inside the input, or with count_include_pad by those inside input and pads (what ceil_mode adds behind the pads never
// counts). Quantised: averages are exact integer sums and one rounding, maxima stay integers when parameters agree.
#include <algorithm>
#include <limits>

#include "compiler/ops/quant_eval.h"
#include "compiler/ops/reduce_math.h"
#include "compiler/ops/spatial.h"

namespace npuc::ops {
namespace {

// A pool over three spatial axes (missing ones in front are 1).
struct PoolShape {
  int64_t planes = 1; // N * C
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, begin{0, 0, 0},
      end{0, 0, 0};
  Dims result;
  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
};

StatusOr<PoolShape> MakePool(const AttributeList &attrs, llvm::ArrayRef<int64_t> x) {
  if (x.size() < 3 || x.size() > 5)
    return ShapeError(fmt::format("x {} must have 1 to 3 spatial axes", ToString(x)));
  NPUC_ASSIGN_OR_RETURN(Window w, ReadWindow(attrs, {}));
  if (w.rank() + 2 != static_cast<int>(x.size()))
    return AttrError(fmt::format("kernel_shape {} does not fit x {}", ToString(w.kernel), ToString(x)));
  PoolShape p;
  p.planes = x[0] * x[1];
  p.result = {x[0], x[1]};
  for (int i = 0; i < w.rank(); ++i) {
    const int d = 3 - w.rank() + i;
    NPUC_ASSIGN_OR_RETURN(p.out[d], WindowOutput(w, i, x[2 + i]));
    p.result.push_back(p.out[d]);
    p.in[d] = x[2 + i];
    p.kernel[d] = w.kernel[i];
    p.stride[d] = w.stride[i];
    p.dilation[d] = w.dilation[i];
    p.begin[d] = w.pad_begin[i];
    p.end[d] = w.pad_end[i];
  }
  return p;
}

PoolShape GlobalPool(llvm::ArrayRef<int64_t> x) {
  PoolShape p;
  p.planes = x[0] * x[1];
  p.in[2] = p.kernel[2] = NumElements(x.drop_front(2));
  p.result.assign(x.size(), 1);
  p.result[0] = x[0];
  p.result[1] = x[1];
  return p;
}

// The part of a window that lies inside the input, and its size with pads.
struct WindowAt {
  std::array<int64_t, 3> first, last; // taps [first, last) that hit the input
  int64_t start[3];
  int64_t padded; // taps that hit input or pads
};

// The windows along one axis.
struct AxisWindow {
  int64_t first, last, start, padded;
};
std::vector<AxisWindow> AxisWindows(const PoolShape &p, int d) {
  std::vector<AxisWindow> out;
  for (int64_t o = 0; o < p.out[d]; ++o) {
    const int64_t start = o * p.stride[d] - p.begin[d], dil = p.dilation[d], limit = p.in[d] + p.end[d];
    out.push_back({start >= 0 ? 0 : std::min(p.kernel[d], (-start + dil - 1) / dil),
                   start >= p.in[d] ? 0 : std::min(p.kernel[d], (p.in[d] - start + dil - 1) / dil), start,
                   start >= limit ? 0 : std::min(p.kernel[d], (limit - start + dil - 1) / dil)});
  }
  return out;
}

// fn(plane, output offset within the plane, window) for all outputs, planes in parallel.
template <class F> void ForEachWindow(const PoolShape &p, ThreadPool *pool, F &&fn) {
  const std::vector<AxisWindow> axes[3] = {AxisWindows(p, 0), AxisWindows(p, 1), AxisWindows(p, 2)};
  ParallelFor(pool, p.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      int64_t at = 0;
      for (const AxisWindow &a : axes[0])
        for (const AxisWindow &b : axes[1])
          for (const AxisWindow &c : axes[2])
            fn(plane, at++,
               WindowAt{{a.first, b.first, c.first},
                        {a.last, b.last, c.last},
                        {a.start, b.start, c.start},
                        a.padded * b.padded * c.padded});
    }
  });
}

// tap(offset within the input plane) for each tap inside the input, in order.
template <class F> inline void ForEachTap(const PoolShape &p, const WindowAt &w, F &&tap) {
  for (int64_t a = w.first[0]; a < w.last[0]; ++a)
    for (int64_t b = w.first[1]; b < w.last[1]; ++b) {
      const int64_t row =
          ((w.start[0] + a * p.dilation[0]) * p.in[1] + w.start[1] + b * p.dilation[1]) * p.in[2] + w.start[2];
      for (int64_t c = w.first[2]; c < w.last[2]; ++c)
        tap(row + c * p.dilation[2]);
    }
}

// ---- Inference

Status InferPool(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 3, 5));
  NPUC_ASSIGN_OR_RETURN(Window w, ReadWindow(ctx.attrs(), {}));
  Shape out = Shape::UnknownDims(w.rank() + 2);
  if (x.ranked()) {
    if (x.rank() != w.rank() + 2)
      return AttrError(fmt::format("kernel_shape {} does not fit x {}", ToString(w.kernel), x.ToString()),
                       "kernel_shape needs one value for each spatial axis");
    out[0] = x[0];
    out[1] = x[1];
    for (int i = 0; i < w.rank(); ++i) {
      NPUC_ASSIGN_OR_RETURN(out[2 + i], WindowOutputDim(w, i, x[2 + i]));
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  if (ctx.num_results() > 1)
    SetTensor(ctx, 1, DType::I64, out);
  return OkStatus();
}

Status InferGlobal(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 2, 1 << 20));
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked())
    for (int i = 2; i < s.rank(); ++i)
      s[i] = Dim(1);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}

Status CheckGlobal(const Tensor &x) {
  if (x.rank() < 2)
    return ShapeError(fmt::format("x {} must have a batch and a channel axis", ToString(x.dims())));
  return OkStatus();
}

// ---- Max

template <class T> T Lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

// Index of an element of the whole tensor; column-major within the plane when storage_order is 1.
int64_t IndexOf(const PoolShape &p, int64_t plane, int64_t offset, bool column_major) {
  if (column_major) {
    const int64_t c = offset % p.in[2], b = offset / p.in[2] % p.in[1], a = offset / p.in[2] / p.in[1];
    offset = a + p.in[0] * (b + p.in[1] * c);
  }
  return plane * p.in_plane() + offset;
}

Status MaxOf(EvalContext &ctx, const PoolShape &p, bool column_major) {
  const Tensor &x = ctx.operand(0);
  Tensor y = Tensor::Allocate(x.dtype(), p.result), index;
  if (ctx.num_results() > 1)
    index = Tensor::Allocate(DType::I64, p.result);
  NPUC_RETURN_IF_ERROR(DispatchNumeric(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    int64_t *idx = index ? index.mutable_data<int64_t>() : nullptr;
    const int64_t in_plane = p.in_plane(), out_plane = p.out_plane();
    ForEachWindow(p, ctx.threads(), [&](int64_t plane, int64_t at, const WindowAt &w) {
      const T *from = in + plane * in_plane;
      T best = Lowest<T>();
      int64_t where = -1;
      ForEachTap(p, w, [&](int64_t offset) {
        const T v = from[offset];
        if (where < 0 || (best == best && (v > best || v != v))) {
          best = v;
          where = offset;
        }
      });
      out[plane * out_plane + at] = best;
      if (idx)
        idx[plane * out_plane + at] = where < 0 ? -1 : IndexOf(p, plane, where, column_major);
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  if (index)
    ctx.set_result(1, std::move(index));
  return OkStatus();
}

Status EvaluateMaxPool(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const PoolShape p, MakePool(ctx.attrs(), ctx.operand(0).dims()));
  return MaxOf(ctx, p, ctx.attrs().Int("storage_order", 0) != 0);
}
Status EvaluateGlobalMaxPool(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckGlobal(ctx.operand(0)));
  return MaxOf(ctx, GlobalPool(ctx.operand(0).dims()), false);
}
template <Status (*kEvaluate)(EvalContext &)> Status EvaluateQuantizedMax(EvalContext &ctx) {
  return SameQuantThroughout(ctx, 1, 1) ? kEvaluate(ctx) : EvaluateByDequantizing(ctx);
}

// ---- Average

Status AverageOf(EvalContext &ctx, const PoolShape &p, bool include_pad, bool global) {
  const Tensor &x = ctx.operand(0);
  Tensor y = Tensor::Allocate(x.dtype(), p.result);
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    const int64_t in_plane = p.in_plane(), out_plane = p.out_plane();
    ForEachWindow(p, ctx.threads(), [&](int64_t plane, int64_t at, const WindowAt &w) {
      const T *from = in + plane * in_plane;
      T sum = 0;
      int64_t count = 0;
      if (global) {
        count = in_plane;
        sum = SumOf<T>(count, [&](int64_t i) { return from[i]; });
      } else {
        ForEachTap(p, w, [&](int64_t offset) {
          sum += from[offset];
          ++count;
        });
      }
      // A window of padding alone (its taps step over the input) is 0.
      out[plane * out_plane + at] = sum / static_cast<T>(std::max<int64_t>(1, include_pad ? w.padded : count));
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// Exact sums of x - zx; store(output, sum, count).
template <class Store>
Status IntegerAverages(const Tensor &x, int32_t zx, const PoolShape &p, bool include_pad, ThreadPool *pool,
                       Store &&store) {
  return DispatchInt(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *in = x.data<T>();
    const int64_t in_plane = p.in_plane(), out_plane = p.out_plane();
    ForEachWindow(p, pool, [&](int64_t plane, int64_t at, const WindowAt &w) {
      const T *from = in + plane * in_plane;
      int64_t sum = 0, count = 0;
      ForEachTap(p, w, [&](int64_t offset) {
        sum += static_cast<int64_t>(from[offset]) - zx;
        ++count;
      });
      store(plane * out_plane + at, sum, std::max<int64_t>(1, include_pad ? w.padded : count));
    });
    return OkStatus();
  });
}

void StoreQuantised(Tensor &y, int64_t at, int32_t q) {
  switch (ByteSize(y.dtype())) {
  case 1:
    y.mutable_data<uint8_t>()[at] = static_cast<uint8_t>(q);
    break;
  case 2:
    y.mutable_data<uint16_t>()[at] = static_cast<uint16_t>(q);
    break;
  default:
    y.mutable_data<int32_t>()[at] = q;
    break;
  }
}

Status QuantizedAverage(EvalContext &ctx, const PoolShape &p, bool include_pad) {
  const QuantRef &qx = OperandQuant(ctx, 0), &qy = ResultQuant(ctx, 0);
  const DType dtype = qy ? ctx.node().result(0)->type().dtype() : DType::F32;
  Tensor y = Tensor::Allocate(dtype, p.result);
  const QuantRange range = QuantRangeOf(dtype);
  NPUC_RETURN_IF_ERROR(IntegerAverages(
      ctx.operand(0), qx->zero_point(), p, include_pad, ctx.threads(), [&](int64_t at, int64_t sum, int64_t count) {
        if (qy)
          StoreQuantised(y, at, QuantizeAverage(sum, qx->scale(), count, qy->scale(), qy->zero_point(), range));
        else
          y.mutable_data<float>()[at] = static_cast<float>(sum) * qx->scale() / static_cast<float>(count);
      }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

bool ExactAverage(const EvalContext &ctx) {
  return OperandQuant(ctx, 0) && OperandQuant(ctx, 0)->per_tensor() &&
         (!ResultQuant(ctx, 0) || ResultQuant(ctx, 0)->per_tensor());
}

Status EvaluateAveragePool(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const PoolShape p, MakePool(ctx.attrs(), ctx.operand(0).dims()));
  return AverageOf(ctx, p, ctx.attrs().Int("count_include_pad", 0) != 0, false);
}
Status EvaluateQuantizedAveragePool(EvalContext &ctx) {
  if (!ExactAverage(ctx))
    return EvaluateByDequantizing(ctx);
  NPUC_ASSIGN_OR_RETURN(const PoolShape p, MakePool(ctx.attrs(), ctx.operand(0).dims()));
  return QuantizedAverage(ctx, p, ctx.attrs().Int("count_include_pad", 0) != 0);
}
Status EvaluateGlobalAveragePool(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckGlobal(ctx.operand(0)));
  return AverageOf(ctx, GlobalPool(ctx.operand(0).dims()), false, true);
}
Status EvaluateQuantizedGlobalAveragePool(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckGlobal(ctx.operand(0)));
  return ExactAverage(ctx) ? QuantizedAverage(ctx, GlobalPool(ctx.operand(0).dims()), false)
                           : EvaluateByDequantizing(ctx);
}

// ---- Lp

Status LpOf(EvalContext &ctx, const PoolShape &p, int64_t power) {
  const Tensor &x = ctx.operand(0);
  if (power < 1)
    return AttrError(fmt::format("p {} must be positive", power));
  Tensor y = Tensor::Allocate(x.dtype(), p.result);
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *in = x.data<T>();
    T *out = y.template mutable_data<T>();
    const int64_t in_plane = p.in_plane(), out_plane = p.out_plane();
    ForEachWindow(p, ctx.threads(), [&](int64_t plane, int64_t at, const WindowAt &w) {
      const T *from = in + plane * in_plane;
      T sum = 0;
      ForEachTap(p, w, [&](int64_t offset) {
        const T v = from[offset] < 0 ? -from[offset] : from[offset];
        sum += power == 1 ? v : power == 2 ? v * v : fpmath::Pow(v, static_cast<T>(power));
      });
      out[plane * out_plane + at] = power == 1   ? sum
                                    : power == 2 ? fpmath::Sqrt(sum)
                                                 : fpmath::Pow(sum, static_cast<T>(1) / static_cast<T>(power));
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status EvaluateLpPool(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const PoolShape p, MakePool(ctx.attrs(), ctx.operand(0).dims()));
  return LpOf(ctx, p, ctx.attrs().Int("p", 2));
}
Status EvaluateGlobalLpPool(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckGlobal(ctx.operand(0)));
  return LpOf(ctx, GlobalPool(ctx.operand(0).dims()), ctx.attrs().Int("p", 2));
}

// ---- com.microsoft: x, x_scale, x_zero, y_scale, y_zero

// channels_last puts C behind the spatial axes: [N,S..,C]. The kernels are channel-first, so data is turned around
// them.
Tensor Turned(const Tensor &x, bool to_first) {
  const llvm::ArrayRef<int64_t> d = x.dims();
  const int64_t n = d[0], c = to_first ? d.back() : d[1],
                spatial = c ? x.num_elements() / std::max<int64_t>(n * c, 1) : 0;
  Dims dims{n};
  if (to_first) {
    dims.push_back(c);
    dims.append(d.begin() + 1, d.end() - 1);
  } else {
    dims.append(d.begin() + 2, d.end());
    dims.push_back(c);
  }
  Tensor out = Tensor::Allocate(x.dtype(), dims);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < c; ++k)
      for (int64_t s = 0; s < spatial; ++s) {
        const int64_t first = (i * c + k) * spatial + s, last = (i * spatial + s) * c + k;
        out.mutable_bytes()[to_first ? first : last] = x.bytes()[to_first ? last : first];
      }
  return out;
}

Status QLinearAverage(EvalContext &ctx, bool global) {
  const bool last = ctx.attrs().Int("channels_last", 0) != 0;
  NPUC_RETURN_IF_ERROR(CheckGlobal(ctx.operand(0)));
  const Tensor x = last ? Turned(ctx.operand(0), true) : ctx.operand(0);
  PoolShape p = GlobalPool(x.dims());
  if (!global) {
    NPUC_ASSIGN_OR_RETURN(p, MakePool(ctx.attrs(), x.dims()));
  }
  const float sx = FloatView(ctx.operand(1))[0], sy = FloatView(ctx.operand(3))[0];
  const int32_t zx = ctx.has_operand(2) ? static_cast<int32_t>(ctx.operand(2).AsInt(0)) : 0;
  const int32_t zy = ctx.has_operand(4) ? static_cast<int32_t>(ctx.operand(4).AsInt(0)) : 0;
  Tensor y = Tensor::Allocate(x.dtype(), p.result);
  const QuantRange range = QuantRangeOf(x.dtype());
  NPUC_RETURN_IF_ERROR(IntegerAverages(x, zx, p, !global && ctx.attrs().Int("count_include_pad", 0) != 0, ctx.threads(),
                                       [&](int64_t at, int64_t sum, int64_t count) {
                                         StoreQuantised(y, at, QuantizeAverage(sum, sx, count, sy, zy, range));
                                       }));
  ctx.set_result(0, last ? Turned(y, false) : y);
  return OkStatus();
}
Status EvaluateQLinearAveragePool(EvalContext &ctx) {
  return QLinearAverage(ctx, false);
}
Status EvaluateQLinearGlobalAveragePool(EvalContext &ctx) {
  return QLinearAverage(ctx, true);
}

Shape ChannelTo(const Shape &s, bool first) {
  if (!s.ranked() || s.rank() < 3)
    return s;
  Shape out({});
  out.push_back(s[0]);
  if (first)
    out.push_back(s[s.rank() - 1]);
  for (int i = first ? 1 : 2; i < s.rank() - (first ? 1 : 0); ++i)
    out.push_back(s[i]);
  if (!first)
    out.push_back(s[1]);
  return out;
}

Status InferQLinearAveragePool(InferContext &ctx) {
  const bool last = ctx.attrs().Int("channels_last", 0) != 0;
  const Shape x = last ? ChannelTo(ShapeOf(ctx, 0), true) : ShapeOf(ctx, 0);
  NPUC_ASSIGN_OR_RETURN(Window w, ReadWindow(ctx.attrs(), {}));
  Shape out = Shape::UnknownDims(w.rank() + 2);
  if (x.ranked() && x.rank() == w.rank() + 2) {
    out[0] = x[0];
    out[1] = x[1];
    for (int i = 0; i < w.rank(); ++i) {
      NPUC_ASSIGN_OR_RETURN(out[2 + i], WindowOutputDim(w, i, x[2 + i]));
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), last ? ChannelTo(out, false) : out);
  return OkStatus();
}

Status InferQLinearGlobalAveragePool(InferContext &ctx) {
  const bool last = ctx.attrs().Int("channels_last", 0) != 0;
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked())
    for (int i = last ? 1 : 2; i < s.rank() - (last ? 1 : 0); ++i)
      s[i] = Dim(1);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}

} // namespace

OpDef MaxPoolDef() {
  return {.domain = "",
          .name = "MaxPool",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .max_results = 2,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("ceil_mode"), IntAttr("storage_order")},
          .infer = InferPool,
          .evaluate = EvaluateMaxPool,
          .evaluate_quantized = EvaluateQuantizedMax<EvaluateMaxPool>,
          .doc = "Maximum over a sliding window; optionally the indices of the maxima."};
}
OpDef AveragePoolDef() {
  return {.domain = "",
          .name = "AveragePool",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("ceil_mode"), IntAttr("count_include_pad")},
          .infer = InferPool,
          .evaluate = EvaluateAveragePool,
          .evaluate_quantized = EvaluateQuantizedAveragePool,
          .doc = "Mean over a sliding window."};
}
OpDef LpPoolDef() {
  return {.domain = "",
          .name = "LpPool",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("ceil_mode"), IntAttr("p")},
          .infer = InferPool,
          .evaluate = EvaluateLpPool,
          .doc = "Lp norm over a sliding window."};
}
OpDef GlobalMaxPoolDef() {
  return {.domain = "",
          .name = "GlobalMaxPool",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .infer = InferGlobal,
          .evaluate = EvaluateGlobalMaxPool,
          .evaluate_quantized = EvaluateQuantizedMax<EvaluateGlobalMaxPool>,
          .doc = "Maximum over all spatial axes."};
}
OpDef GlobalAveragePoolDef() {
  return {.domain = "",
          .name = "GlobalAveragePool",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .infer = InferGlobal,
          .evaluate = EvaluateGlobalAveragePool,
          .evaluate_quantized = EvaluateQuantizedGlobalAveragePool,
          .doc = "Mean over all spatial axes."};
}
OpDef GlobalLpPoolDef() {
  return {.domain = "",
          .name = "GlobalLpPool",
          .since_version = 22,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("p")},
          .infer = InferGlobal,
          .evaluate = EvaluateGlobalLpPool,
          .doc = "Lp norm over all spatial axes."};
}
OpDef MsQLinearAveragePoolDef() {
  return {.domain = "com.microsoft",
          .name = "QLinearAveragePool",
          .min_operands = 4,
          .max_operands = 5,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("ceil_mode"), IntAttr("count_include_pad"), IntAttr("channels_last")},
          .infer = InferQLinearAveragePool,
          .evaluate = EvaluateQLinearAveragePool,
          .doc = "Quantised AveragePool."};
}
OpDef MsQLinearGlobalAveragePoolDef() {
  return {.domain = "com.microsoft",
          .name = "QLinearGlobalAveragePool",
          .min_operands = 4,
          .max_operands = 5,
          .attrs = {IntAttr("channels_last")},
          .infer = InferQLinearGlobalAveragePool,
          .evaluate = EvaluateQLinearGlobalAveragePool,
          .doc = "Quantised GlobalAveragePool."};
}

} // namespace npuc::ops
