// Signal processing: DFT, STFT, HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix.
//
//   DFT(x [..,n,..,1 or 2], dft_length, axis): the last axis holds real (and imaginary) parts; the signal is cut or
//   padded with zeros to dft_length; inverse divides by the length; onesided keeps the first length/2 + 1 outputs, and
//   inverse with onesided takes those as input and gives a real signal.
//
// Method: a sum over n with a table of the roots of unity in double; O(n^2), enough for the frame lengths of audio
// front ends.
#include <cmath>
#include <vector>

#include "compiler/ops/convert.h"
#include "compiler/ops/op_helpers.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

struct Complex {
  double re = 0, im = 0;
};

// out[k] = sum of x[i] e^(-+ 2 pi i k / n), k < count.
std::vector<Complex> Transform(const std::vector<Complex> &x, int64_t count, bool inverse) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<Complex> root(n), out(count);
  for (int64_t i = 0; i < n; ++i) {
    const double a = kTwoPi * static_cast<double>(i) / static_cast<double>(n);
    root[i] = {fpmath::Cos(a), inverse ? fpmath::Sin(a) : -fpmath::Sin(a)};
  }
  for (int64_t k = 0; k < count; ++k) {
    Complex s;
    for (int64_t i = 0, at = 0; i < n; ++i, at = at + k >= n ? (at + k) % n : at + k) {
      s.re += x[i].re * root[at].re - x[i].im * root[at].im;
      s.im += x[i].re * root[at].im + x[i].im * root[at].re;
    }
    if (inverse) {
      s.re /= static_cast<double>(n);
      s.im /= static_cast<double>(n);
    }
    out[k] = s;
  }
  return out;
}

// ---- DFT(x, dft_length, axis)

StatusOr<int> DftAxis(int64_t axis, int rank) {
  NPUC_ASSIGN_OR_RETURN(const int a, NormalizeAxis(axis, rank));
  if (a == rank - 1)
    return AttrError(fmt::format("axis {} is the one of real and imaginary parts", axis));
  return a;
}

Status InferDft(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  const bool onesided = ctx.attrs().Int("onesided", 0) != 0, inverse = ctx.attrs().Int("inverse", 0) != 0;
  if (!x.ranked()) {
    SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), Shape::Unranked());
    return OkStatus();
  }
  int64_t axis = ctx.attrs().Int("axis", -2);
  bool known = true;
  if (ctx.has_operand(2)) {
    const Tensor *t = ctx.constant(2);
    known = t && t->num_elements() == 1;
    if (known)
      axis = t->AsInt(0);
  }
  Shape y = Shape::UnknownDims(x.rank());
  if (known) {
    NPUC_ASSIGN_OR_RETURN(const int a, DftAxis(axis, x.rank()));
    y = x;
    Dim n = x[a];
    if (ctx.has_operand(1)) {
      const auto d = ctx.dims(1);
      n = d && d->size() == 1 ? (*d)[0] : Dim::Unknown();
    } else if (inverse && onesided) {
      n = n.is_static() ? Dim(2 * (n.value() - 1)) : Dim::Unknown();
    }
    y[a] = onesided && !inverse ? (n.is_static() ? Dim(n.value() / 2 + 1) : Dim::Unknown()) : n;
  }
  y[x.rank() - 1] = Dim(inverse && onesided ? 1 : 2);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(y));
  return OkStatus();
}

Status EvaluateDft(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const bool onesided = ctx.attrs().Int("onesided", 0) != 0, inverse = ctx.attrs().Int("inverse", 0) != 0;
  if (x.rank() < 2 || (x.dims().back() != 1 && x.dims().back() != 2))
    return ShapeError(fmt::format("x {} must have 1 or 2 in its last axis", ToString(x.dims())));
  NPUC_ASSIGN_OR_RETURN(const int axis,
                        DftAxis(ctx.has_operand(2) ? ctx.operand(2).AsInt(0) : ctx.attrs().Int("axis", -2), x.rank()));
  const int64_t have = x.dims()[axis], parts = x.dims().back();
  const bool half = inverse && onesided; // the conjugate half is implied, the result is real
  const int64_t n = ctx.has_operand(1) ? ctx.operand(1).AsInt(0) : half ? 2 * (have - 1) : have;
  if (n < 1)
    return ShapeError(fmt::format("a transform of length {} is empty", n));
  const int64_t count = onesided && !inverse ? n / 2 + 1 : n, out_parts = half ? 1 : 2;
  Dims dims(x.dims().begin(), x.dims().end());
  dims[axis] = count;
  dims.back() = out_parts;
  Tensor y = Tensor::Allocate(x.dtype(), dims);
  // Between the axis and the parts.
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i)
    outer *= x.dims()[i];
  for (int i = axis + 1; i + 1 < x.rank(); ++i)
    inner *= x.dims()[i];
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ParallelFor(ctx.threads(), outer * inner, 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t o = line / inner, in = line % inner;
        std::vector<Complex> signal(n);
        auto read = [&](int64_t i) {
          const T *p = x.data<T>() + ((o * have + i) * inner + in) * parts;
          return Complex{static_cast<double>(p[0]), parts == 2 ? static_cast<double>(p[1]) : 0.0};
        };
        for (int64_t i = 0; i < std::min(have, n); ++i)
          signal[i] = read(i);
        if (half)
          for (int64_t i = n / 2 + 1; i < n; ++i) {
            const Complex mirrored = n - i < have ? read(n - i) : Complex{};
            signal[i] = {mirrored.re, -mirrored.im};
          }
        const std::vector<Complex> f = Transform(signal, count, inverse);
        for (int64_t k = 0; k < count; ++k) {
          T *to = y.template mutable_data<T>() + ((o * count + k) * inner + in) * out_parts;
          to[0] = static_cast<T>(f[k].re);
          if (out_parts == 2)
            to[1] = static_cast<T>(f[k].im);
        }
      }
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// ---- STFT(signal [B,L,1 or 2], frame_step, window, frame_length) -> [B, frames, bins, 2]

Status InferStft(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  Shape y = Shape::UnknownDims(4);
  y[3] = Dim(2);
  auto scalar = [&](int i) -> std::optional<int64_t> {
    const auto d = ctx.dims(i);
    return d && d->size() == 1 && (*d)[0].is_static() ? std::optional<int64_t>((*d)[0].value()) : std::nullopt;
  };
  std::optional<int64_t> length = scalar(3);
  const Shape window = ShapeOf(ctx, 2);
  if (!length && ctx.has_operand(2) && window.is_static() && window.rank() == 1)
    length = window[0].value();
  if (x.ranked() && x.rank() >= 2)
    y[0] = x[0];
  if (const auto step = scalar(1);
      step && length && *step > 0 && x.ranked() && x.rank() >= 2 && x[1].is_static() && x[1].value() >= *length)
    y[1] = Dim(1 + (x[1].value() - *length) / *step);
  if (length)
    y[2] = Dim(ctx.attrs().Int("onesided", 1) != 0 ? *length / 2 + 1 : *length);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(y));
  return OkStatus();
}

Status EvaluateStft(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  if (x.rank() != 2 && (x.rank() != 3 || (x.dims()[2] != 1 && x.dims()[2] != 2)))
    return ShapeError(
        fmt::format("the signal {} must be [batch, length] or [batch, length, 1 or 2]", ToString(x.dims())));
  const int64_t parts = x.rank() == 3 ? x.dims()[2] : 1, batch = x.dims()[0], total = x.dims()[1],
                step = ctx.operand(1).AsInt(0);
  const int64_t length = ctx.has_operand(3)   ? ctx.operand(3).AsInt(0)
                         : ctx.has_operand(2) ? ctx.operand(2).num_elements()
                                              : total;
  if (step < 1 || length < 1 || length > total || (ctx.has_operand(2) && ctx.operand(2).num_elements() != length))
    return ShapeError(
        fmt::format("frames of {} every {} do not fit a signal of {} and the window", length, step, total));
  const int64_t frames = 1 + (total - length) / step;
  const int64_t bins = ctx.attrs().Int("onesided", 1) != 0 ? length / 2 + 1 : length;
  Tensor y = Tensor::Allocate(x.dtype(), {batch, frames, bins, 2});
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ParallelFor(ctx.threads(), batch * frames, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        std::vector<Complex> frame(length);
        for (int64_t i = 0; i < length; ++i) {
          const T *p = x.data<T>() + (k / frames * total + k % frames * step + i) * parts;
          const double w = ctx.has_operand(2) ? static_cast<double>(ctx.operand(2).data<T>()[i]) : 1.0;
          frame[i] = {w * static_cast<double>(p[0]), parts == 2 ? w * static_cast<double>(p[1]) : 0.0};
        }
        const std::vector<Complex> f = Transform(frame, bins, false);
        for (int64_t i = 0; i < bins; ++i) {
          y.template mutable_data<T>()[(k * bins + i) * 2] = static_cast<T>(f[i].re);
          y.template mutable_data<T>()[(k * bins + i) * 2 + 1] = static_cast<T>(f[i].im);
        }
      }
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// ---- Windows(size): a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n = size (periodic) or size - 1

StatusOr<DType> OutputType(const AttributeList &attrs) {
  const int64_t t = attrs.Int("output_datatype", 1);
  if (t < 1 || t >= kNumDTypes || !IsConvertible(static_cast<DType>(t)))
    return AttrError(fmt::format("output_datatype {} is not a numeric type", t));
  return static_cast<DType>(t);
}

Status InferWindow(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const DType t, OutputType(ctx.attrs()));
  const auto d = ctx.dims(0);
  SetTensor(ctx, 0, t, d && d->size() == 1 ? Shape(llvm::ArrayRef<Dim>((*d)[0])) : Shape::UnknownDims(1));
  return OkStatus();
}

Status MakeWindow(EvalContext &ctx, double a0, double a1, double a2) {
  NPUC_ASSIGN_OR_RETURN(const DType t, OutputType(ctx.attrs()));
  const int64_t size = ctx.operand(0).AsInt(0);
  if (size < 0)
    return Error("E0703", fmt::format("a window of size {}", size));
  const double n = static_cast<double>(ctx.attrs().Int("periodic", 1) != 0 ? size : size - 1);
  Tensor w = Tensor::Allocate(DType::F64, {size});
  for (int64_t i = 0; i < size; ++i) {
    const double a = n > 0 ? kTwoPi * static_cast<double>(i) / n : 0;
    w.mutable_data<double>()[i] = a0 - a1 * fpmath::Cos(a) + a2 * fpmath::Cos(2 * a);
  }
  ctx.set_result(0, ConvertTensor(w, t));
  return OkStatus();
}
Status EvaluateHann(EvalContext &ctx) {
  return MakeWindow(ctx, 0.5, 0.5, 0);
}
Status EvaluateHamming(EvalContext &ctx) {
  return MakeWindow(ctx, 25.0 / 46.0, 1 - 25.0 / 46.0, 0);
}
Status EvaluateBlackman(EvalContext &ctx) {
  return MakeWindow(ctx, 0.42, 0.5, 0.08);
}

// ---- MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) -> [dft_length/2 + 1,
// num_mel_bins]

Status InferMel(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const DType t, OutputType(ctx.attrs()));
  Shape s = Shape::UnknownDims(2);
  if (const auto d = ctx.dims(1); d && d->size() == 1 && (*d)[0].is_static())
    s[0] = Dim((*d)[0].value() / 2 + 1);
  if (const auto d = ctx.dims(0); d && d->size() == 1)
    s[1] = (*d)[0];
  SetTensor(ctx, 0, t, std::move(s));
  return OkStatus();
}

Status EvaluateMel(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const DType type, OutputType(ctx.attrs()));
  const int64_t bins = ctx.operand(0).AsInt(0), length = ctx.operand(1).AsInt(0), rate = ctx.operand(2).AsInt(0);
  const double low = ctx.operand(3).AsDouble(0), high = ctx.operand(4).AsDouble(0);
  if (bins < 1 || length < 1 || rate < 1)
    return Error("E0703",
                 fmt::format("{} mel bins, dft_length {} and sample_rate {} must be positive", bins, length, rate));
  const int64_t spectrum = length / 2 + 1;
  auto mel = [](double hertz) { return 2595 * fpmath::Log10(1 + hertz / 700); };
  const double first = mel(low), width = (mel(high) - first) / static_cast<double>(bins + 2);
  std::vector<int64_t> edge(bins + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (fpmath::Pow(10.0, (static_cast<double>(i) * width + first) / 2595) - 1);
    edge[i] = static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate)));
    if (edge[i] < 0 || edge[i] >= spectrum)
      return Error("E0703", fmt::format("{} Hz lies outside the {} bins of the spectrum", hertz, spectrum));
  }
  Tensor y = Tensor::Allocate(DType::F64, {spectrum, bins});
  double *out = y.mutable_data<double>();
  for (int64_t b = 0; b < bins; ++b) {
    const int64_t left = edge[b], centre = edge[b + 1], right = edge[b + 2];
    if (left == centre)
      out[centre * bins + b] = 1;
    for (int64_t i = left; left < centre && i <= centre; ++i)
      out[i * bins + b] = static_cast<double>(i - left) / static_cast<double>(centre - left);
    for (int64_t i = centre; i < right; ++i)
      out[i * bins + b] = static_cast<double>(right - i) / static_cast<double>(right - centre);
  }
  ctx.set_result(0, ConvertTensor(y, type));
  return OkStatus();
}

OpDef WindowOp(std::string_view name, Status (*evaluate)(EvalContext &), std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since_version = 17,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("output_datatype"), IntAttr("periodic")},
          .infer = InferWindow,
          .evaluate = evaluate,
          .doc = doc};
}

} // namespace

OpDef DFTDef() {
  return {.domain = "",
          .name = "DFT",
          .since_version = 20,
          .min_operands = 1,
          .max_operands = 3,
          .attrs = {IntAttr("axis"), IntAttr("inverse"), IntAttr("onesided")},
          .infer = InferDft,
          .evaluate = EvaluateDft,
          .doc = "Discrete Fourier transform along an axis."};
}
OpDef STFTDef() {
  return {.domain = "",
          .name = "STFT",
          .since_version = 17,
          .min_operands = 2,
          .max_operands = 4,
          .attrs = {IntAttr("onesided")},
          .infer = InferStft,
          .evaluate = EvaluateStft,
          .doc = "Short-time Fourier transform."};
}
OpDef HannWindowDef() {
  return WindowOp("HannWindow", EvaluateHann, "Hann window.");
}
OpDef HammingWindowDef() {
  return WindowOp("HammingWindow", EvaluateHamming, "Hamming window.");
}
OpDef BlackmanWindowDef() {
  return WindowOp("BlackmanWindow", EvaluateBlackman, "Blackman window.");
}
OpDef MelWeightMatrixDef() {
  return {.domain = "",
          .name = "MelWeightMatrix",
          .since_version = 17,
          .min_operands = 5,
          .max_operands = 5,
          .attrs = {IntAttr("output_datatype")},
          .infer = InferMel,
          .evaluate = EvaluateMel,
          .doc = "Weights from a linear to a mel-scaled spectrum."};
}

} // namespace npuc::ops
