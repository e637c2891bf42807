// DeformConv: a convolution whose taps are moved by learned offsets and read by bilinear interpolation; zero outside
// the input.
//
//   y[n,m,i,j] = b[m] + sum over (c, kh, kw) w[m,c,kh,kw] * mask * x(n, c, i*s - p + kh*d + offset_h, j*s - p + kw*d +
//   offset_w)
//
// offset [N, offset_group*KH*KW*2, OH, OW], mask [N, offset_group*KH*KW, OH, OW]. Two spatial axes.
#include <cmath>

#include "compiler/ops/spatial.h"

namespace npuc::ops {
namespace {

Status InferDeform(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 4, 4));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 4, 4));
  const Shape x = ShapeOf(ctx, 0), w = ShapeOf(ctx, 1), o = ShapeOf(ctx, 2);
  Shape y = Shape::UnknownDims(4);
  if (x.ranked())
    y[0] = x[0];
  if (w.ranked())
    y[1] = w[0];
  if (o.ranked() && o.rank() == 4) {
    y[2] = o[2];
    y[3] = o[3];
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(y));
  return OkStatus();
}

Status EvaluateDeform(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &w = ctx.operand(1), &offset = ctx.operand(2);
  if (x.rank() != 4 || w.rank() != 4 || offset.rank() != 4)
    return ShapeError(fmt::format("x {}, w {} and offset {} must have rank 4", ToString(x.dims()), ToString(w.dims()),
                                  ToString(offset.dims())));
  NPUC_ASSIGN_OR_RETURN(Window win, ReadWindow(ctx.attrs(), w.dims().drop_front(2)));
  const int64_t group = ctx.attrs().Int("group", 1), offset_group = ctx.attrs().Int("offset_group", 1);
  const int64_t n = x.dims()[0], c = x.dims()[1], h = x.dims()[2], wd = x.dims()[3], m = w.dims()[0], ic = w.dims()[1];
  NPUC_ASSIGN_OR_RETURN(const int64_t oh, WindowOutput(win, 0, h));
  NPUC_ASSIGN_OR_RETURN(const int64_t ow, WindowOutput(win, 1, wd));
  const int64_t taps = win.kernel[0] * win.kernel[1], plane = oh * ow;
  if (group < 1 || offset_group < 1 || c != ic * group || m % group || c % offset_group)
    return ShapeError(fmt::format("x {} and w {} do not fit group {} and offset_group {}", ToString(x.dims()),
                                  ToString(w.dims()), group, offset_group));
  if (offset.dims()[0] != n || offset.dims()[1] != offset_group * taps * 2 || offset.dims()[2] != oh ||
      offset.dims()[3] != ow ||
      (ctx.has_operand(4) && ctx.operand(4).num_elements() != n * offset_group * taps * plane))
    return ShapeError(fmt::format("offset {} must be [{},{},{},{}], the mask half of it", ToString(offset.dims()), n,
                                  offset_group * taps * 2, oh, ow));
  Tensor y = Tensor::Allocate(x.dtype(), {n, m, oh, ow});
  NPUC_RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    ParallelFor(ctx.threads(), n * oh, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> sample(c * taps);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t b = row / oh, i = row % oh;
        for (int64_t j = 0; j < ow; ++j) {
          for (int64_t k = 0; k < c; ++k)
            for (int64_t t = 0; t < taps; ++t) {
              const int64_t og = k / (c / offset_group), at = i * ow + j, base = (b * offset_group + og) * taps + t;
              const T py = static_cast<T>(i * win.stride[0] - win.pad_begin[0] + t / win.kernel[1] * win.dilation[0]) +
                           offset.data<T>()[2 * base * plane + at];
              const T px = static_cast<T>(j * win.stride[1] - win.pad_begin[1] + t % win.kernel[1] * win.dilation[1]) +
                           offset.data<T>()[(2 * base + 1) * plane + at];
              const T fy = std::floor(py), fx = std::floor(px), ly = py - fy, lx = px - fx;
              auto read = [&](T yy, T xx) -> T {
                if (!(yy >= T(0) && yy < static_cast<T>(h) && xx >= T(0) && xx < static_cast<T>(wd)))
                  return T(0);
                return x.data<T>()[((b * c + k) * h + static_cast<int64_t>(yy)) * wd + static_cast<int64_t>(xx)];
              };
              const T top = read(fy, fx) * (T(1) - lx) + read(fy, fx + T(1)) * lx;
              const T bottom = read(fy + T(1), fx) * (T(1) - lx) + read(fy + T(1), fx + T(1)) * lx;
              T v = top * (T(1) - ly) + bottom * ly;
              if (ctx.has_operand(4))
                v *= ctx.operand(4).data<T>()[base * plane + at];
              sample[k * taps + t] = v;
            }
          for (int64_t o = 0; o < m; ++o) {
            T sum = ctx.has_operand(3) ? ctx.operand(3).data<T>()[o] : T(0);
            const T *from = sample.data() + o / (m / group) * ic * taps, *weights = w.data<T>() + o * ic * taps;
            for (int64_t q = 0; q < ic * taps; ++q)
              sum += weights[q] * from[q];
            y.template mutable_data<T>()[((b * m + o) * oh + i) * ow + j] = sum;
          }
        }
      }
    });
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

} // namespace

OpDef DeformConvDef() {
  return {.domain = "",
          .name = "DeformConv",
          .since_version = 22,
          .min_operands = 3,
          .max_operands = 5,
          .attrs = {NPUC_WINDOW_ATTRS, IntAttr("group"), IntAttr("offset_group")},
          .infer = InferDeform,
          .evaluate = EvaluateDeform,
          .doc = "Convolution with moved, interpolated taps."};
}

} // namespace npuc::ops
