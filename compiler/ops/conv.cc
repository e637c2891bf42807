// Conv, ConvTranspose and the older whole-integer forms ConvInteger and QLinearConv: up to three spatial axes, groups,
// dilations.
//
//   Conv(x [N,C,S..], w [M,C/g,K..], b [M])             -> [N,M,O..]
//   ConvTranspose(x [N,C,S..], w [C,M/g,K..], b [M])    -> [N,M,O..]
//
// f32 and f64: one chain per output that starts at the bias, over (channel, taps). Quantised: acc = bias +
// sum((x-zx)*(w-zw)) in exact integers, then one multiply to f32, then rounding (quant_math.h). All forms share the
// kernels of kernels.h. Left alone: layouts (interpretation is on ONNX's order).
#include "compiler/ops/activation.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/ops/spatial.h"

namespace npuc::ops {
namespace {

// x, w (and the attributes) to the kernels' description, shapes checked.
StatusOr<ConvShape> MakeShape(const AttributeList &attrs, llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> w) {
  if (x.size() < 3 || x.size() > 5 || x.size() != w.size())
    return ShapeError(fmt::format("x {} and w {} must both have 1 to 3 spatial axes", ToString(x), ToString(w)));
  ConvShape s;
  s.groups = attrs.Int("group", 1);
  const int64_t m = w[0], c = x[1];
  if (s.groups < 1 || c != w[1] * s.groups || m % s.groups != 0)
    return ShapeError(
        fmt::format("x {} has {} channels, w {} and group {} need {}; the output channels must divide by group",
                    ToString(x), c, ToString(w), s.groups, w[1] * s.groups));
  NPUC_ASSIGN_OR_RETURN(Window win, ReadWindow(attrs, w.drop_front(2)));
  s.batch = x[0];
  s.ic = w[1];
  s.oc = m / s.groups;
  const int rank = win.rank(), first = 3 - rank;
  for (int i = 0; i < rank; ++i) {
    NPUC_ASSIGN_OR_RETURN(s.out[first + i], WindowOutput(win, i, x[2 + i]));
    s.in[first + i] = x[2 + i];
    s.kernel[first + i] = win.kernel[i];
    s.stride[first + i] = win.stride[i];
    s.dilation[first + i] = win.dilation[i];
    s.pad[first + i] = win.pad_begin[i];
  }
  return s;
}

// Output extent of a transposed convolution along axis i, and the leading pad (output_shape and auto_pad settle pads).
StatusOr<int64_t> TransposedOutput(const AttributeList &attrs, Window &w, int i, int64_t in) {
  const llvm::ArrayRef<int64_t> out_pad = attrs.Ints("output_padding"), out_shape = attrs.Ints("output_shape");
  const size_t rank = w.rank();
  if ((!out_pad.empty() && out_pad.size() != rank) ||
      (!out_shape.empty() && out_shape.size() != rank && out_shape.size() != rank + 2))
    return AttrError(
        fmt::format("output_padding {} or output_shape {} does not have one value for each of {} spatial axes",
                    ToString(out_pad), ToString(out_shape), rank));
  const int64_t extra = out_pad.empty() ? 0 : out_pad[i];
  if (extra < 0)
    return AttrError(fmt::format("output_padding {} must not be negative", ToString(out_pad)));
  const int64_t full = w.stride[i] * (in - 1) + extra + w.extent(i);
  const bool same = w.auto_pad == AutoPad::SameUpper || w.auto_pad == AutoPad::SameLower;
  if (!out_shape.empty() || same) {
    const int64_t out = out_shape.empty() ? in * w.stride[i] : out_shape[out_shape.size() - rank + i];
    const int64_t total = std::max<int64_t>(full - out, 0);
    w.pad_begin[i] = w.auto_pad == AutoPad::SameUpper ? total / 2 : total - total / 2;
    w.pad_end[i] = total - w.pad_begin[i];
    if (out < 0)
      return AttrError(fmt::format("output_shape {} must not be negative", ToString(out_shape)));
    return out;
  }
  const int64_t out = full - w.pad_begin[i] - w.pad_end[i];
  if (out < 0)
    return ShapeError(fmt::format("pads take more than the output has along spatial axis {}: {} of {}", i,
                                  w.pad_begin[i] + w.pad_end[i], full));
  return out;
}

StatusOr<ConvShape> MakeTransposedShape(const AttributeList &attrs, llvm::ArrayRef<int64_t> x,
                                        llvm::ArrayRef<int64_t> w) {
  if (x.size() < 3 || x.size() > 5 || x.size() != w.size())
    return ShapeError(fmt::format("x {} and w {} must both have 1 to 3 spatial axes", ToString(x), ToString(w)));
  ConvShape s;
  s.transposed = true;
  s.groups = attrs.Int("group", 1);
  if (s.groups < 1 || x[1] != w[0] || w[0] % s.groups != 0)
    return ShapeError(fmt::format("x {} has {} channels, w {} has {}; they must agree and divide by group {}",
                                  ToString(x), x[1], ToString(w), w[0], s.groups));
  NPUC_ASSIGN_OR_RETURN(Window win, ReadWindow(attrs, w.drop_front(2)));
  s.batch = x[0];
  s.ic = w[0] / s.groups;
  s.oc = w[1];
  const int rank = win.rank(), first = 3 - rank;
  for (int i = 0; i < rank; ++i) {
    NPUC_ASSIGN_OR_RETURN(s.out[first + i], TransposedOutput(attrs, win, i, x[2 + i]));
    s.in[first + i] = x[2 + i];
    s.kernel[first + i] = win.kernel[i];
    s.stride[first + i] = win.stride[i];
    s.dilation[first + i] = win.dilation[i];
    s.pad[first + i] = win.pad_begin[i];
  }
  return s;
}

Dims ResultDims(const ConvShape &s, int rank) {
  Dims d{s.batch, s.groups * s.oc};
  for (int i = 3 - rank; i < 3; ++i)
    d.push_back(s.out[i]);
  return d;
}

Status CheckBias(const Tensor &b, int64_t channels) {
  if (b.num_elements() != channels)
    return ShapeError(
        fmt::format("the bias has shape {}; {} output channels need [{}]", ToString(b.dims()), channels, channels));
  return OkStatus();
}

// Result type of a convolution with operands x, w, b at these positions.
Status InferConvAt(InferContext &ctx, int xi, int wi, int bi, DType result, bool transposed) {
  const Shape x = ShapeOf(ctx, xi), w = ShapeOf(ctx, wi), b = ShapeOf(ctx, bi);
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, xi, 3, 5));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, wi, 3, 5));
  if (!x.ranked() && !w.ranked()) {
    SetTensor(ctx, 0, result, Shape::Unranked());
    return OkStatus();
  }
  const int rank = x.ranked() ? x.rank() : w.rank();
  if (x.ranked() && w.ranked() && x.rank() != w.rank())
    return ShapeError(fmt::format("x {} and w {} must have one rank", x.ToString(), w.ToString()));
  const int64_t group = ctx.attrs().Int("group", 1);
  if (group < 1)
    return AttrError(fmt::format("group {} must be positive", group));
  Shape out = Shape::UnknownDims(rank);
  if (x.ranked())
    out[0] = x[0];
  if (w.ranked()) {
    out[1] = transposed ? (w[1].is_static() ? Dim(w[1].value() * group) : Dim::Unknown()) : w[0];
    const Dim channels = transposed ? w[0] : w[1].is_static() ? Dim(w[1].value() * group) : Dim::Unknown();
    if (x.ranked() && x[1].is_static() && channels.is_static() && x[1].value() != channels.value())
      return ShapeError(fmt::format("x {} has {} channels, w {} and group {} need {}", x.ToString(), x[1].value(),
                                    w.ToString(), group, channels.value()),
                        "check the layout of the input and the group attribute");
    const Dim divides = w[0];
    if (divides.is_static() && divides.value() % group != 0)
      return ShapeError(
          fmt::format("w {}: extent {} of axis 0 does not divide by group {}", w.ToString(), divides.value(), group));
    if (b.ranked() && b.rank() == 1 && b[0].is_static() && out[1].is_static() && b[0].value() != out[1].value())
      return ShapeError(fmt::format("the bias has shape {}; {} output channels need [{}]", b.ToString(), out[1].value(),
                                    out[1].value()));
    bool kernel_known = true;
    Dims kernel;
    for (int i = 2; i < rank; ++i) {
      kernel_known = kernel_known && w[i].is_static();
      kernel.push_back(w[i].is_static() ? w[i].value() : 0);
    }
    if (kernel_known) {
      NPUC_ASSIGN_OR_RETURN(Window win, ReadWindow(ctx.attrs(), kernel));
      if (x.ranked())
        for (int i = 2; i < rank; ++i) {
          if (!transposed) {
            NPUC_ASSIGN_OR_RETURN(out[i], WindowOutputDim(win, i - 2, x[i]));
          } else if (x[i].is_static()) {
            NPUC_ASSIGN_OR_RETURN(const int64_t extent, TransposedOutput(ctx.attrs(), win, i - 2, x[i].value()));
            out[i] = Dim(extent);
          } else if (const auto shape = ctx.attrs().Ints("output_shape"); !shape.empty()) {
            out[i] = Dim(shape[shape.size() - (rank - 2) + i - 2]);
          }
        }
    }
  }
  SetTensor(ctx, 0, result, std::move(out));
  return OkStatus();
}

Status InferConv(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1, 2}));
  return InferConvAt(ctx, 0, 1, 2, DTypeOfOperand(ctx, 0), false);
}
Status InferConvTranspose(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1, 2}));
  return InferConvAt(ctx, 0, 1, 2, DTypeOfOperand(ctx, 0), true);
}

template <bool kTransposed> Status EvaluateConv(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &w = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(const ConvShape s, kTransposed ? MakeTransposedShape(ctx.attrs(), x.dims(), w.dims())
                                                       : MakeShape(ctx.attrs(), x.dims(), w.dims()));
  if (ctx.has_operand(2))
    NPUC_RETURN_IF_ERROR(CheckBias(ctx.operand(2), s.groups * s.oc));
  Tensor y = Tensor::Allocate(x.dtype(), ResultDims(s, x.rank() - 2));
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *weights = w.data<T>();
    std::vector<T> turned;
    if (kTransposed) {
      turned.resize(w.num_elements());
      const int64_t taps = s.taps();
      for (int64_t g = 0; g < s.groups; ++g)
        for (int64_t m = 0; m < s.oc; ++m)
          for (int64_t c = 0; c < s.ic; ++c)
            for (int64_t t = 0; t < taps; ++t)
              turned[((g * s.oc + m) * s.ic + c) * taps + t] = weights[((g * s.ic + c) * s.oc + m) * taps + t];
      weights = turned.data();
    }
    const T *bias = ctx.has_operand(2) ? ctx.operand(2).data<T>() : nullptr;
    if constexpr (std::is_same_v<T, float>)
      ConvF32(s, x.data<float>(), weights, bias, y.mutable_data<float>(), ctx.threads());
    else
      ConvF64(s, x.data<double>(), weights, bias, y.mutable_data<double>(), ctx.threads());
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// Sums plus bias into the sink.
Tensor RunIntConv(const ConvShape &s, int rank, const Tensor &x, llvm::ArrayRef<int32_t> zx, const Tensor &w,
                  llvm::ArrayRef<int32_t> zw, const Tensor *bias, const AccSink &sink, ThreadPool *pool) {
  Tensor y = Tensor::Allocate(sink.dtype(), ResultDims(s, rank));
  uint8_t *const out = y.mutable_bytes();
  const int64_t channels = s.groups * s.oc, plane = s.out_plane();
  IntConvSums(
      s, x, zx, w, zw,
      [&](int64_t n, int64_t m, int64_t first, int64_t count, const int64_t *acc) {
        const int64_t b = bias ? bias->AsInt(m) : 0, at = (n * channels + m) * plane + first;
        for (int64_t j = 0; j < count; ++j)
          sink.Store(out, at + j, m, acc[j] + b);
      },
      pool);
  return y;
}

template <bool kTransposed> Status EvaluateQuantizedConv(EvalContext &ctx) {
  const QuantRef &qx = OperandQuant(ctx, 0), &qw = OperandQuant(ctx, 1);
  const bool exact = qx && qw && qx->per_tensor() && (!qw->axis || qw->per_tensor() || kTransposed) &&
                     (!ctx.has_operand(2) || IsInt(ctx.operand(2).dtype())) &&
                     (!ResultQuant(ctx, 0) || ResultQuant(ctx, 0)->per_tensor());
  if (!exact)
    return EvaluateByDequantizing(ctx);
  const Tensor &x = ctx.operand(0), &w = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(const ConvShape s, kTransposed ? MakeTransposedShape(ctx.attrs(), x.dims(), w.dims())
                                                       : MakeShape(ctx.attrs(), x.dims(), w.dims()));
  if (ctx.has_operand(2))
    NPUC_RETURN_IF_ERROR(CheckBias(ctx.operand(2), s.groups * s.oc));
  ctx.set_result(0, RunIntConv(s, x.rank() - 2, x, qx->zero_points, w, qw->zero_points,
                               ctx.has_operand(2) ? &ctx.operand(2) : nullptr, SinkOf(ctx, qx->scale(), qw->scales),
                               ctx.threads()));
  return OkStatus();
}

// ConvInteger: x, w, x_zero_point, w_zero_point -> i32.
Status InferConvInteger(InferContext &ctx) {
  return InferConvAt(ctx, 0, 1, -1, DType::I32, false);
}

llvm::SmallVector<int32_t, 4> Zeros(EvalContext &ctx, int i) {
  llvm::SmallVector<int32_t, 4> out;
  if (ctx.has_operand(i))
    for (int64_t v : AsInts(ctx.operand(i)))
      out.push_back(static_cast<int32_t>(v));
  else
    out.push_back(0);
  return out;
}

Status EvaluateConvInteger(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &w = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(const ConvShape s, MakeShape(ctx.attrs(), x.dims(), w.dims()));
  const auto zx = Zeros(ctx, 2), zw = Zeros(ctx, 3);
  if (zx.size() != 1 || (zw.size() != 1 && static_cast<int64_t>(zw.size()) != s.groups * s.oc))
    return ShapeError(fmt::format("x_zero_point must be a scalar and w_zero_point a scalar or [{}]", s.groups * s.oc));
  ctx.set_result(0, RunIntConv(s, x.rank() - 2, x, zx, w, zw, nullptr, AccSink::Int32(), ctx.threads()));
  return OkStatus();
}

// QLinearConv: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B.
Status InferQLinearConv(InferContext &ctx) {
  return InferConvAt(ctx, 0, 3, 8, DTypeOfOperand(ctx, 7), false);
}

Status EvaluateQLinearConv(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &w = ctx.operand(3);
  NPUC_ASSIGN_OR_RETURN(const ConvShape s, MakeShape(ctx.attrs(), x.dims(), w.dims()));
  const FloatView sx(ctx.operand(1)), sw(ctx.operand(4)), sy(ctx.operand(6));
  const auto zx = Zeros(ctx, 2), zw = Zeros(ctx, 5), zy = Zeros(ctx, 7);
  const int64_t channels = s.groups * s.oc;
  if (sx.size() != 1 || sy.size() != 1 || zx.size() != 1 || zy.size() != 1 ||
      (sw.size() != 1 && sw.size() != channels) || (zw.size() != 1 && static_cast<int64_t>(zw.size()) != channels))
    return ShapeError(fmt::format("scales and zero points must be scalars, those of w scalars or [{}]", channels));
  if (ctx.has_operand(8))
    NPUC_RETURN_IF_ERROR(CheckBias(ctx.operand(8), channels));
  const AccSink sink =
      AccSink::Quantized(ctx.operand(7).dtype(), sx[0], llvm::ArrayRef<float>(sw.data(), sw.size()), sy[0], zy[0]);
  ctx.set_result(0, RunIntConv(s, x.rank() - 2, x, zx, w, zw, ctx.has_operand(8) ? &ctx.operand(8) : nullptr, sink,
                               ctx.threads()));
  return OkStatus();
}

// com.microsoft.FusedConv: activation(Conv(x, w, b) + z).
Status EvaluateFusedConv(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(EvaluateConv<false>(ctx));
  return AddAndActivate(ctx, 3);
}

} // namespace

OpDef ConvDef() {
  return {.domain = "",
          .name = "Conv",
          .since_version = 22,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("group")},
          .infer = InferConv,
          .evaluate = EvaluateConv<false>,
          .evaluate_quantized = EvaluateQuantizedConv<false>,
          .doc = "Convolution over 1 to 3 spatial axes."};
}

OpDef ConvTransposeDef() {
  return {.domain = "",
          .name = "ConvTranspose",
          .since_version = 22,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("group"), IntsAttr("output_padding"), IntsAttr("output_shape")},
          .infer = InferConvTranspose,
          .evaluate = EvaluateConv<true>,
          .evaluate_quantized = EvaluateQuantizedConv<true>,
          .doc = "Transposed convolution over 1 to 3 spatial axes."};
}

OpDef ConvIntegerDef() {
  return {.domain = "",
          .name = "ConvInteger",
          .since_version = 10,
          .min_operands = 2,
          .max_operands = 4,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("group")},
          .infer = InferConvInteger,
          .evaluate = EvaluateConvInteger,
          .doc = "Convolution of 8-bit integers into int32."};
}

OpDef QLinearConvDef() {
  return {.domain = "",
          .name = "QLinearConv",
          .since_version = 10,
          .min_operands = 8,
          .max_operands = 9,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("group")},
          .infer = InferQLinearConv,
          .evaluate = EvaluateQLinearConv,
          .doc = "Quantised convolution with scales and zero points as operands."};
}

OpDef MsFusedConvDef() {
  return {.domain = "com.microsoft",
          .name = "FusedConv",
          .since_version = 1,
          .min_operands = 2,
          .max_operands = 4,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("group"), StringAttr("activation"), FloatsAttr("activation_params")},
          .infer = InferConv,
          .evaluate = EvaluateFusedConv,
          .doc = "Conv, an optional sum, and an activation."};
}

} // namespace npuc::ops
