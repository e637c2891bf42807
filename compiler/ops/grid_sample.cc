// GridSample and AffineGrid: sampling at coordinates in [-1, 1] (last grid axis x, y, z), over two or three spatial
// axes.
//
// Coordinates are brought to pixels, then into the padding's range (border: clamped, reflection: mirrored at the
// border), then interpolated: one, two or four neighbours an axis; neighbours outside count as the padding says. All in
// double, rounded once.
#include <cmath>

#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

enum class Padding { Zeros, Border, Reflection };

double Reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0)
    return low;
  if (x < low) {
    const double d = low - x, n = std::floor(d / range), r = d - n * range;
    return std::fmod(n, 2) == 0 ? low + r : high - r;
  }
  if (x > high) {
    const double d = x - high, n = std::floor(d / range), r = d - n * range;
    return std::fmod(n, 2) == 0 ? high - r : low + r;
  }
  return x;
}

// Index of pixel i of an axis under the padding; -1: zero.
int64_t Pixel(int64_t i, int64_t extent, Padding padding, double low, double high) {
  if (i >= 0 && i < extent)
    return i;
  if (padding == Padding::Zeros)
    return -1;
  if (padding == Padding::Border)
    return std::clamp<int64_t>(i, 0, extent - 1);
  return std::clamp<int64_t>(static_cast<int64_t>(Reflect(static_cast<double>(i), low, high)), 0, extent - 1);
}

void CubicWeights(double r, double w[4]) {
  constexpr double a = -0.75;
  auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  w[0] = far(r + 1);
  w[1] = near(r);
  w[2] = near(1 - r);
  w[3] = far(2 - r);
}

Status VerifyGridSample(const Node &n) {
  const std::string_view mode = n.attrs().String("mode", "linear"), padding = n.attrs().String("padding_mode", "zeros");
  if (!llvm::is_contained({"linear", "nearest", "cubic", "bilinear", "bicubic"}, mode))
    return AttrError(fmt::format("mode is '{}'", mode), "linear, nearest or cubic");
  if (!llvm::is_contained({"zeros", "border", "reflection"}, padding))
    return AttrError(fmt::format("padding_mode is '{}'", padding), "zeros, border or reflection");
  return OkStatus();
}

Status InferGridSample(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0), grid = ShapeOf(ctx, 1);
  Shape out = Shape::Unranked();
  if (x.ranked() && grid.ranked()) {
    if (x.rank() != grid.rank() || x.rank() < 3)
      return ShapeError(fmt::format("X {} and grid {}", x.ToString(), grid.ToString()),
                        "both have rank N, the grid's last axis has N - 2 coordinates");
    NPUC_ASSIGN_OR_RETURN(Dim n, MergeDim(x[0], grid[0], "the batch of X and grid"));
    out = Shape({n, x[1]});
    for (int i = 1; i < grid.rank() - 1; ++i)
      out.push_back(grid[i]);
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}

Status EvaluateGridSample(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &grid = ctx.operand(1);
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || grid.rank() != x.rank() || grid.dims().back() != spatial ||
      grid.dims()[0] != x.dims()[0])
    return ShapeError(fmt::format("X {} and grid {}", ToString(x.dims()), ToString(grid.dims())));
  const std::string_view mode = ctx.attrs().String("mode", "linear"), pad = ctx.attrs().String("padding_mode", "zeros");
  const Padding padding = pad == "zeros" ? Padding::Zeros : pad == "border" ? Padding::Border : Padding::Reflection;
  const bool corners = ctx.attrs().Int("align_corners", 0) != 0;
  const int taps = mode == "nearest" ? 1 : mode == "cubic" || mode == "bicubic" ? 4 : 2;
  const int64_t batch = x.dims()[0], channels = x.dims()[1], points = NumElements(grid.dims().slice(1, spatial)),
                plane = NumElements(x.dims().drop_front(2));
  Dims dims{batch, channels};
  dims.append(grid.dims().begin() + 1, grid.dims().end() - 1);
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), dims));
  const auto in = x.dims().drop_front(2);
  const Dims strides = RowMajorStrides(in);
  return DispatchNumeric(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t p = 0; p < points; ++p) {
        int64_t index[3][4];
        double weight[3][4];
        for (int k = 0; k < spatial; ++k) {
          const double extent = static_cast<double>(in[k]), low = corners ? 0 : -0.5,
                       high = corners ? extent - 1 : extent - 0.5;
          const double g = grid.AsDouble((b * points + p) * spatial + (spatial - 1 - k));
          double at = corners ? (g + 1) / 2 * (extent - 1) : ((g + 1) * extent - 1) / 2;
          if (!std::isfinite(at))
            at = -2;
          if (taps == 1)
            at = std::nearbyint(at);
          if (at < low || at > high) {
            if (padding == Padding::Border)
              at = std::clamp(at, 0.0, extent - 1);
            else if (padding == Padding::Reflection)
              at = Reflect(at, low, high);
          }
          at = std::clamp(at, -1e15, 1e15);
          if (taps == 1) {
            index[k][0] = Pixel(static_cast<int64_t>(std::nearbyint(at)), in[k], padding, low, high);
            weight[k][0] = 1;
            continue;
          }
          const double floor = std::floor(at), r = at - floor;
          const int64_t first = static_cast<int64_t>(floor) - (taps == 4 ? 1 : 0);
          if (taps == 4) {
            CubicWeights(r, weight[k]);
          } else {
            weight[k][0] = 1 - r;
            weight[k][1] = r;
          }
          for (int t = 0; t < taps; ++t)
            index[k][t] = Pixel(first + t, in[k], padding, low, high);
        }
        for (int64_t c = 0; c < channels; ++c) {
          const T *from = x.data<T>() + (b * channels + c) * plane;
          double sum = 0;
          int total = 1;
          for (int k = 0; k < spatial; ++k)
            total *= taps;
          for (int t = 0; t < total; ++t) {
            int64_t at = 0;
            double w = 1;
            for (int k = spatial, rest = t; k-- > 0; rest /= taps) {
              const int i = rest % taps;
              if (index[k][i] < 0)
                w = 0;
              at += std::max<int64_t>(index[k][i], 0) * strides[k];
              w *= weight[k][i];
            }
            if (w != 0)
              sum += w * static_cast<double>(from[at]);
          }
          y.mutable_data<T>()[(b * channels + c) * points + p] = static_cast<T>(sum);
        }
      }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status InferAffineGrid(InferContext &ctx) {
  Shape out = Shape::Unranked();
  if (auto size = ctx.dims(1)) {
    if (size->size() != 4 && size->size() != 5)
      return ShapeError(fmt::format("size has {} entries", size->size()), "[N,C,H,W] or [N,C,D,H,W]");
    out = Shape();
    out.push_back((*size)[0]);
    for (size_t i = 2; i < size->size(); ++i)
      out.push_back((*size)[i]);
    out.push_back(Dim(static_cast<int64_t>(size->size()) - 2));
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateAffineGrid(EvalContext &ctx) {
  const Tensor &theta = ctx.operand(0);
  const auto size = AsInts(ctx.operand(1));
  const int spatial = static_cast<int>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) || theta.rank() != 3 || theta.dims()[0] != size[0] || theta.dims()[1] != spatial ||
      theta.dims()[2] != spatial + 1)
    return ShapeError(fmt::format("theta {} and size {}", ToString(theta.dims()), ToString(size)));
  const bool corners = ctx.attrs().Int("align_corners", 0) != 0;
  Dims dims{size[0]};
  dims.append(size.begin() + 2, size.end());
  const Dims space(llvm::ArrayRef<int64_t>(dims).drop_front());
  dims.push_back(spatial);
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(theta.dtype(), dims));
  return DispatchFloat(theta.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    T *out = y.mutable_data<T>();
    if (y.num_elements() == 0) {
      ctx.set_result(0, std::move(y));
      return OkStatus();
    }
    for (int64_t b = 0; b < size[0]; ++b) {
      llvm::SmallVector<int64_t, 3> index(spatial, 0);
      do {
        double base[4];
        for (int k = 0; k < spatial; ++k) {
          const int axis = spatial - 1 - k; // x is the last axis
          const double extent = static_cast<double>(space[axis]), i = static_cast<double>(index[axis]);
          base[k] = corners ? (extent > 1 ? -1 + 2 * i / (extent - 1) : 0) : (2 * i + 1) / extent - 1;
        }
        base[spatial] = 1;
        for (int r = 0; r < spatial; ++r) {
          double sum = 0;
          for (int c = 0; c <= spatial; ++c)
            sum += static_cast<double>(theta.data<T>()[(b * spatial + r) * (spatial + 1) + c]) * base[c];
          *out++ = static_cast<T>(sum);
        }
      } while (NextIndex(index, space));
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

} // namespace

OpDef GridSampleDef() {
  return {.domain = "",
          .name = "GridSample",
          .since_version = 20,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("align_corners"), StringAttr("mode"), StringAttr("padding_mode")},
          .verify = VerifyGridSample,
          .infer = InferGridSample,
          .evaluate = EvaluateGridSample,
          .doc = "The input sampled at the grid's coordinates."};
}

OpDef AffineGridDef() {
  return {.domain = "",
          .name = "AffineGrid",
          .since_version = 20,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("align_corners")},
          .infer = InferAffineGrid,
          .evaluate = EvaluateAffineGrid,
          .doc = "A grid of coordinates under an affine map."};
}

} // namespace npuc::ops
