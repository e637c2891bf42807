// RoiAlign and MaxRoiPool: fixed-size windows of feature maps.
//
// RoiAlign samples each output cell at a grid of points with bilinear interpolation, and takes their mean, or (max) the
// greatest weighted neighbour, as ONNX's own implementation does. MaxRoiPool rounds regions to pixels first.
#include <cmath>

#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

Status VerifyRoiAlign(const Node &n) {
  const std::string_view mode = n.attrs().String("mode", "avg"),
                         transform = n.attrs().String("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max")
    return AttrError(fmt::format("mode is '{}'", mode), "avg or max");
  if (transform != "half_pixel" && transform != "output_half_pixel")
    return AttrError(fmt::format("coordinate_transformation_mode is '{}'", transform));
  if (n.attrs().Int("output_height", 1) < 1 || n.attrs().Int("output_width", 1) < 1 ||
      n.attrs().Int("sampling_ratio", 0) < 0)
    return AttrError("output_height, output_width or sampling_ratio is out of range");
  return OkStatus();
}
Status InferRoiAlign(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 4, 4));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 2, 2));
  const Shape x = ShapeOf(ctx, 0), rois = ShapeOf(ctx, 1);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0),
            Shape({rois.ranked() ? rois[0] : Dim::Unknown(), x.ranked() ? x[1] : Dim::Unknown(),
                   Dim(ctx.attrs().Int("output_height", 1)), Dim(ctx.attrs().Int("output_width", 1))}));
  return OkStatus();
}
Status EvaluateRoiAlign(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &rois = ctx.operand(1), &batch = ctx.operand(2);
  if (x.rank() != 4 || rois.rank() != 2 || rois.dims()[1] != 4 || batch.num_elements() != rois.dims()[0])
    return ShapeError(fmt::format("X {}, rois {}, batch_indices {}", ToString(x.dims()), ToString(rois.dims()),
                                  ToString(batch.dims())));
  const int64_t count = rois.dims()[0], channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  const int64_t out_h = ctx.attrs().Int("output_height", 1), out_w = ctx.attrs().Int("output_width", 1),
                ratio = ctx.attrs().Int("sampling_ratio", 0);
  const double scale = ctx.attrs().Float("spatial_scale", 1.0f);
  const bool half = ctx.attrs().String("coordinate_transformation_mode", "half_pixel") == "half_pixel",
             max = ctx.attrs().String("mode", "avg") == "max";
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), {count, channels, out_h, out_w}));
  if (height == 0 || width == 0)
    return ShapeError(fmt::format("X {} is empty", ToString(x.dims())));
  struct Sample {
    int64_t at[4];
    double weight[4];
  };
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t b = batch.AsInt(r);
      if (b < 0 || b >= x.dims()[0])
        return Error("E0703", fmt::format("batch index {} of {}", b, x.dims()[0]));
      const double shift = half ? 0.5 : 0;
      const double x1 = rois.AsDouble(4 * r) * scale - shift, y1 = rois.AsDouble(4 * r + 1) * scale - shift;
      double roi_w = rois.AsDouble(4 * r + 2) * scale - shift - x1,
             roi_h = rois.AsDouble(4 * r + 3) * scale - shift - y1;
      if (!half) {
        roi_w = std::max(roi_w, 1.0);
        roi_h = std::max(roi_h, 1.0);
      }
      const double cell_h = roi_h / static_cast<double>(out_h), cell_w = roi_w / static_cast<double>(out_w);
      const int64_t grid_h = ratio ? ratio : static_cast<int64_t>(std::ceil(cell_h)),
                    grid_w = ratio ? ratio : static_cast<int64_t>(std::ceil(cell_w));
      if (grid_h * grid_w > 1 << 20)
        return Error("E0703", "a region is too large");
      const double points = static_cast<double>(std::max<int64_t>(grid_h * grid_w, 1));
      for (int64_t ph = 0; ph < out_h; ++ph)
        for (int64_t pw = 0; pw < out_w; ++pw) {
          std::vector<Sample> samples;
          for (int64_t iy = 0; iy < grid_h; ++iy)
            for (int64_t ix = 0; ix < grid_w; ++ix) {
              double py = y1 + static_cast<double>(ph) * cell_h +
                          (static_cast<double>(iy) + 0.5) * cell_h / static_cast<double>(grid_h);
              double px = x1 + static_cast<double>(pw) * cell_w +
                          (static_cast<double>(ix) + 0.5) * cell_w / static_cast<double>(grid_w);
              if (!(py >= -1 && py <= static_cast<double>(height) && px >= -1 && px <= static_cast<double>(width)))
                continue;
              py = std::max(py, 0.0);
              px = std::max(px, 0.0);
              int64_t low_y = static_cast<int64_t>(py), low_x = static_cast<int64_t>(px), high_y = low_y + 1,
                      high_x = low_x + 1;
              if (low_y >= height - 1) {
                high_y = low_y = height - 1;
                py = static_cast<double>(low_y);
              }
              if (low_x >= width - 1) {
                high_x = low_x = width - 1;
                px = static_cast<double>(low_x);
              }
              const double ly = py - static_cast<double>(low_y), lx = px - static_cast<double>(low_x);
              samples.push_back(
                  {{low_y * width + low_x, low_y * width + high_x, high_y * width + low_x, high_y * width + high_x},
                   {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx}});
            }
          for (int64_t c = 0; c < channels; ++c) {
            const T *plane = x.data<T>() + (b * channels + c) * height * width;
            double v = 0;
            bool first = true;
            for (const Sample &s : samples) {
              if (max) {
                for (int k = 0; k < 4; ++k) {
                  const double one = s.weight[k] * static_cast<double>(plane[s.at[k]]);
                  v = first ? one : std::max(v, one);
                  first = false;
                }
              } else {
                for (int k = 0; k < 4; ++k)
                  v += s.weight[k] * static_cast<double>(plane[s.at[k]]);
              }
            }
            if (!max)
              v /= points;
            y.mutable_data<T>()[((r * channels + c) * out_h + ph) * out_w + pw] = static_cast<T>(v);
          }
        }
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status VerifyMaxRoiPool(const Node &n) {
  const auto p = n.attrs().Ints("pooled_shape");
  if (p.size() != 2 || p[0] < 1 || p[1] < 1)
    return AttrError(fmt::format("pooled_shape is {}", ToString(p)));
  return OkStatus();
}
Status InferMaxRoiPool(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 4, 4));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 2, 2));
  const Shape x = ShapeOf(ctx, 0), rois = ShapeOf(ctx, 1);
  const auto p = ctx.attrs().Ints("pooled_shape");
  SetTensor(
      ctx, 0, DTypeOfOperand(ctx, 0),
      Shape({rois.ranked() ? rois[0] : Dim::Unknown(), x.ranked() ? x[1] : Dim::Unknown(), Dim(p[0]), Dim(p[1])}));
  return OkStatus();
}
Status EvaluateMaxRoiPool(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &rois = ctx.operand(1);
  const auto p = ctx.attrs().Ints("pooled_shape");
  if (x.rank() != 4 || rois.rank() != 2 || rois.dims()[1] != 5)
    return ShapeError(fmt::format("X {} and rois {}", ToString(x.dims()), ToString(rois.dims())));
  const int64_t count = rois.dims()[0], channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  const double scale = ctx.attrs().Float("spatial_scale", 1.0f);
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), {count, channels, p[0], p[1]}));
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t r = 0; r < count; ++r) {
      auto at = [&](int k) { return std::round(rois.AsDouble(5 * r + k) * scale); };
      const int64_t b = rois.AsInt(5 * r);
      if (b < 0 || b >= x.dims()[0])
        return Error("E0703", fmt::format("batch index {} of {}", b, x.dims()[0]));
      const double x1 = at(1), y1 = at(2), roi_w = std::max(at(3) - x1 + 1, 1.0), roi_h = std::max(at(4) - y1 + 1, 1.0);
      auto clamp = [](double v, int64_t extent) {
        return static_cast<int64_t>(std::clamp(v, 0.0, static_cast<double>(extent)));
      };
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t ph = 0; ph < p[0]; ++ph)
          for (int64_t pw = 0; pw < p[1]; ++pw) {
            const double bin_h = roi_h / static_cast<double>(p[0]), bin_w = roi_w / static_cast<double>(p[1]);
            const int64_t h0 = clamp(std::floor(static_cast<double>(ph) * bin_h) + y1, height),
                          h1 = clamp(std::ceil(static_cast<double>(ph + 1) * bin_h) + y1, height);
            const int64_t w0 = clamp(std::floor(static_cast<double>(pw) * bin_w) + x1, width),
                          w1 = clamp(std::ceil(static_cast<double>(pw + 1) * bin_w) + x1, width);
            T best = 0;
            bool any = false;
            for (int64_t h = h0; h < h1; ++h)
              for (int64_t w = w0; w < w1; ++w) {
                const T v = x.data<T>()[((b * channels + c) * height + h) * width + w];
                if (!any || v > best)
                  best = v;
                any = true;
              }
            y.mutable_data<T>()[((r * channels + c) * p[0] + ph) * p[1] + pw] = best;
          }
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

} // namespace

OpDef RoiAlignDef() {
  return {.domain = "",
          .name = "RoiAlign",
          .since_version = 16,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {StringAttr("coordinate_transformation_mode"), StringAttr("mode"), IntAttr("output_height"),
                    IntAttr("output_width"), IntAttr("sampling_ratio"), FloatAttr("spatial_scale")},
          .verify = VerifyRoiAlign,
          .infer = InferRoiAlign,
          .evaluate = EvaluateRoiAlign,
          .doc = "Regions resampled to one size with bilinear interpolation."};
}

OpDef MaxRoiPoolDef() {
  return {.domain = "",
          .name = "MaxRoiPool",
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntsAttr("pooled_shape", true), FloatAttr("spatial_scale")},
          .verify = VerifyMaxRoiPool,
          .infer = InferMaxRoiPool,
          .evaluate = EvaluateMaxRoiPool,
          .doc = "Regions, rounded to pixels, max-pooled to one size."};
}

} // namespace npuc::ops
