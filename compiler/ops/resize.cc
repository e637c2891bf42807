// Resize: nearest, linear and cubic interpolation over any axes.
//
// The interpolations are separable: each resized axis becomes a list of taps (input index, weight) per output
// coordinate, worked out in double from the coordinate transformation, and the axes are applied one after another in
// double, rounded once at the end. Nearest has one tap of weight 1 and copies elements of any type. antialias widens
// the filter where the axis shrinks. The linear form of f32 elements that the NPU has too is a sum over corners in
// f32 (backend/isa/resize_math.h). tf_crop_and_resize fills coordinates outside the region's source with
// extrapolation_value. Cost: elements of each intermediate times taps. Formulas: the operator's page in the ONNX
// specification.
#include <cmath>

#include "backend/isa/resize_math.h"
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

struct Plan {
  Dims dims;                  // of the result
  std::vector<double> scales; // by axis, 1 where nothing changes
  std::vector<double> roi;    // start of every axis, then end
};

// Attribute axes, all of them by default.
StatusOr<llvm::SmallVector<int, 4>> Axes(const AttributeList &attrs, int rank) {
  llvm::SmallVector<int, 4> axes;
  if (!attrs.Has("axes"))
    for (int i = 0; i < rank; ++i)
      axes.push_back(i);
  for (int64_t a : attrs.Ints("axes")) {
    NPUC_ASSIGN_OR_RETURN(int n, NormalizeAxis(a, rank));
    if (llvm::is_contained(axes, n))
      return AttrError(fmt::format("axis {} is there twice", n));
    axes.push_back(n);
  }
  return axes;
}

StatusOr<Plan> MakePlan(const AttributeList &attrs, llvm::ArrayRef<int64_t> in, const Tensor *roi, const Tensor *scales,
                        const Tensor *sizes) {
  const int rank = static_cast<int>(in.size());
  NPUC_ASSIGN_OR_RETURN(auto axes, Axes(attrs, rank));
  Plan p;
  p.dims.assign(in.begin(), in.end());
  p.scales.assign(rank, 1);
  p.roi.assign(2 * rank, 0);
  std::fill(p.roi.begin() + rank, p.roi.end(), 1);
  const int64_t count = static_cast<int64_t>(axes.size());
  if (scales && scales->num_elements() == 0)
    scales = nullptr;
  if (sizes && sizes->num_elements() == 0)
    sizes = nullptr;
  if (!scales == !sizes)
    return ShapeError("give one of scales and sizes");
  if ((scales ? scales : sizes)->num_elements() != count)
    return ShapeError(fmt::format("{} {} for {} axes", (scales ? scales : sizes)->num_elements(),
                                  scales ? "scales" : "sizes", count));
  if (roi && roi->num_elements() == 2 * count)
    for (int64_t i = 0; i < count; ++i) {
      p.roi[axes[i]] = roi->AsDouble(i);
      p.roi[rank + axes[i]] = roi->AsDouble(count + i);
    }
  if (scales) {
    for (int64_t i = 0; i < count; ++i) {
      const double s = scales->AsDouble(i);
      if (!(s > 0) || s > 1e6)
        return Error("E0703", fmt::format("the scale of axis {} is {}", axes[i], s), "scales are above 0");
      p.scales[axes[i]] = s;
      // The product is taken in the operand's own precision: 3 * 0.33333334f is 1.
      const double product = scales->dtype() == DType::F32
                                 ? static_cast<double>(static_cast<float>(s) * static_cast<float>(in[axes[i]]))
                                 : s * static_cast<double>(in[axes[i]]);
      p.dims[axes[i]] = static_cast<int64_t>(std::floor(product));
    }
    return p;
  }
  const std::string_view policy = attrs.String("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t extent = in[axes[i]], want = sizes->AsInt(i);
    if (want < 0 || (extent == 0 && want > 0))
      return Error("E0703", fmt::format("size {} of an axis of extent {}", want, extent));
    const double s = extent ? static_cast<double>(want) / static_cast<double>(extent) : 1;
    p.scales[axes[i]] = s;
    p.dims[axes[i]] = want;
    common = i == 0 ? s : policy == "not_larger" ? std::min(common, s) : std::max(common, s);
  }
  if (policy != "stretch")
    for (int64_t i = 0; i < count; ++i) {
      p.scales[axes[i]] = common;
      p.dims[axes[i]] = static_cast<int64_t>(std::floor(common * static_cast<double>(in[axes[i]]) + 0.5));
    }
  return p;
}

constexpr int64_t kOutside = INT64_MIN; // tap index: the extrapolation value

struct Taps {
  int width = 1;
  std::vector<int64_t> index; // width per output coordinate
  std::vector<double> weight;
};

// Where output coordinate x lies in the input.
double Original(std::string_view mode, double x, double scale, int64_t in, int64_t out, double start, double end) {
  const double length = scale * static_cast<double>(in), extent = static_cast<double>(in);
  if (mode == "align_corners")
    return length == 1 || out == 1 ? 0 : x * (extent - 1) / (length - 1);
  if (mode == "asymmetric")
    return x / scale;
  if (mode == "tf_half_pixel_for_nn")
    return (x + 0.5) / scale;
  if (mode == "tf_crop_and_resize") {
    const double at = length == 1 ? (end - start) * (extent - 1) / 2 : x * (end - start) * (extent - 1) / (length - 1);
    return at + start * (extent - 1);
  }
  if (mode == "pytorch_half_pixel" && length <= 1)
    return 0;
  if (mode == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(out) / length;
    return extent / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5;
  }
  return (x + 0.5) / scale - 0.5;
}

double Cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2)
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

Taps MakeTaps(const AttributeList &attrs, double scale, int64_t in, int64_t out, double start, double end) {
  const std::string_view mode = attrs.String("mode", "nearest"),
                         transform = attrs.String("coordinate_transformation_mode", "half_pixel");
  const bool cubic = mode == "cubic", exclude = attrs.Int("exclude_outside", 0) != 0;
  const double a = attrs.Float("cubic_coeff_a", -0.75f);
  const double shrink = attrs.Int("antialias", 0) ? std::min(scale, 1.0) : 1.0;
  Taps t;
  const int reach =
      mode == "nearest" ? 0 : static_cast<int>(-std::floor((cubic ? -2 : -1) / shrink)) - 1; // taps left of floor(x)
  t.width = mode == "nearest" ? 1 : 2 * reach + 2;
  for (int64_t x = 0; x < out; ++x) {
    const double at = Original(transform, static_cast<double>(x), scale, in, out, start, end);
    if (transform == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(in - 1))) {
      for (int k = 0; k < t.width; ++k) {
        t.index.push_back(kOutside);
        t.weight.push_back(k == 0);
      }
      continue;
    }
    const double low = std::floor(at), ratio = at - low;
    const int64_t first = static_cast<int64_t>(low);
    auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i, 0, in - 1); };
    if (mode == "nearest") {
      const std::string_view round = attrs.String("nearest_mode", "round_prefer_floor");
      const bool up = ratio != 0 && (round == "ceil" || (round == "round_prefer_floor" && ratio > 0.5) ||
                                     (round == "round_prefer_ceil" && ratio >= 0.5));
      t.index.push_back(clamp(first + up));
      t.weight.push_back(1);
      continue;
    }
    double sum = 0;
    const size_t base = t.weight.size();
    for (int k = 0; k < t.width; ++k) {
      const int64_t i = first - reach + k;
      const double d = (static_cast<double>(k - reach) - ratio) * shrink;
      double w = cubic ? Cubic(d, a) : std::max(0.0, 1 - std::fabs(d));
      if (exclude && (i < 0 || i >= in))
        w = 0;
      t.index.push_back(clamp(i));
      t.weight.push_back(w);
      sum += w;
    }
    if ((exclude || shrink < 1) && sum != 0)
      for (int k = 0; k < t.width; ++k)
        t.weight[base + k] /= sum;
  }
  return t;
}

void Apply(const Taps &t, const double *in, double *out, int64_t outer, int64_t n, int64_t m, int64_t inner,
           double fill) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t x = 0; x < m; ++x) {
      double *to = out + (o * m + x) * inner;
      std::fill(to, to + inner, 0.0);
      for (int k = 0; k < t.width; ++k) {
        const int64_t i = t.index[x * t.width + k];
        const double w = t.weight[x * t.width + k];
        if (w == 0)
          continue;
        if (i == kOutside) {
          std::fill(to, to + inner, fill);
          break;
        }
        const double *from = in + (o * n + i) * inner;
        for (int64_t c = 0; c < inner; ++c)
          to[c] += w * from[c];
      }
    }
}

// f32 elements resampled along the axes that change, linearly: the corners' sum of backend/isa/resize_math.h.
void MixCorners(const float *in, llvm::ArrayRef<int64_t> dims, const std::vector<bool> &changes, const Plan &p,
                isa::Coordinates coordinates, float *out) {
  const int rank = static_cast<int>(dims.size());
  int first = 0, last = rank;
  while (first < rank && !changes[first])
    ++first;
  while (last > first && !changes[last - 1])
    --last;
  // The axes first to last - 1 are resampled (one of them may keep its extent), the others are loops around them.
  int64_t outer = 1, inner = 1, plane = 1, plane_out = 1;
  for (int k = 0; k < rank; ++k)
    (k < first ? outer : k < last ? plane : inner) *= dims[k];
  std::vector<std::vector<ResizeTaps>> taps(rank);
  for (int k = first; k < last; ++k) {
    plane_out *= p.dims[k];
    taps[k].reserve(p.dims[k]);
    for (int64_t x = 0; x < p.dims[k]; ++x)
      taps[k].emplace_back(changes[k] ? ResizeSourceOf({coordinates, p.scales[k], dims[k], p.dims[k]},
                                                       isa::ResizeKind::Linear, isa::Nearest::Floor, x)
                                      : ResizeSource{x, x, 0});
  }
  struct Corner {
    int64_t at; // elements from the plane's start, `inner` each
    float weight;
  };
  llvm::SmallVector<int64_t, 6> index(rank, 0);
  llvm::SmallVector<Corner, 8> corners, next;
  for (int64_t position = 0; position < plane_out; ++position) {
    corners.assign({{0, 1.0f}});
    for (int k = first; k < last; ++k) {
      const ResizeTaps &t = taps[k][index[k]];
      next.clear();
      for (const Corner &c : corners)
        for (int i = 0; i < t.count; ++i)
          next.push_back({c.at * dims[k] + t.at[i], c.weight * t.weight[i]});
      corners.swap(next);
    }
    for (int64_t o = 0; o < outer; ++o) {
      float *to = out + (o * plane_out + position) * inner;
      for (size_t k = 0; k < corners.size(); ++k) {
        const float *from = in + (o * plane + corners[k].at) * inner;
        const float w = corners[k].weight;
        for (int64_t c = 0; c < inner; ++c)
          to[c] = k == 0 ? w * from[c] : to[c] + w * from[c];
      }
    }
    for (int k = last; k-- > first && ++index[k] == p.dims[k];)
      index[k] = 0;
  }
}

Status VerifyResize(const Node &n) {
  auto one_of = [&](std::string_view attr, std::string_view otherwise,
                    std::initializer_list<std::string_view> allowed) -> Status {
    const std::string_view v = n.attrs().String(attr, otherwise);
    if (llvm::is_contained(allowed, v))
      return OkStatus();
    return AttrError(fmt::format("{} is '{}'", attr, v));
  };
  NPUC_RETURN_IF_ERROR(one_of("mode", "nearest", {"nearest", "linear", "cubic"}));
  NPUC_RETURN_IF_ERROR(
      one_of("nearest_mode", "round_prefer_floor", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  NPUC_RETURN_IF_ERROR(one_of("keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"}));
  return one_of("coordinate_transformation_mode", "half_pixel",
                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                 "tf_half_pixel_for_nn", "tf_crop_and_resize"});
}

Status InferResize(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  Shape out = in.ranked() ? Shape::UnknownDims(in.rank()) : in;
  if (in.ranked()) {
    NPUC_ASSIGN_OR_RETURN(auto axes, Axes(ctx.attrs(), in.rank()));
    // Axis by axis: unknown extents stay unknown unless nothing scales them.
    const Tensor *scales = ctx.constant(2);
    auto sizes = ctx.dims(3);
    for (int i = 0; i < in.rank(); ++i)
      if (!llvm::is_contained(axes, i))
        out[i] = in[i];
    if (in.is_static() && (scales || KnownInts(ctx, 3))) {
      Tensor wanted;
      if (auto v = KnownInts(ctx, 3))
        wanted = Tensor::OfI64(*v);
      NPUC_ASSIGN_OR_RETURN(Plan p,
                            MakePlan(ctx.attrs(), in.static_dims(), nullptr, scales, wanted ? &wanted : nullptr));
      out = Shape::Of(p.dims);
    } else if (scales && scales->num_elements() == static_cast<int64_t>(axes.size())) {
      for (size_t i = 0; i < axes.size(); ++i) {
        const double s = scales->AsDouble(static_cast<int64_t>(i));
        if (s == 1)
          out[axes[i]] = in[axes[i]];
        else if (in[axes[i]].is_static())
          out[axes[i]] =
              Dim(static_cast<int64_t>(std::floor(static_cast<float>(s) * static_cast<float>(in[axes[i]].value()))));
      }
    } else if (sizes && sizes->size() == axes.size() &&
               ctx.attrs().String("keep_aspect_ratio_policy", "stretch") == "stretch") {
      for (size_t i = 0; i < axes.size(); ++i)
        out[axes[i]] = (*sizes)[i];
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}

Status EvaluateResize(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const AttributeList &attrs = ctx.attrs();
  auto optional = [&](int i) { return ctx.has_operand(i) ? &ctx.operand(i) : nullptr; };
  NPUC_ASSIGN_OR_RETURN(Plan p, MakePlan(attrs, x.dims(), optional(1), optional(2), optional(3)));
  const int rank = x.rank();
  const bool crop = attrs.String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  const bool nearest = attrs.String("mode", "nearest") == "nearest";
  std::vector<Taps> taps(rank);
  std::vector<bool> changes(rank);
  for (int k = 0; k < rank; ++k) {
    changes[k] = p.dims[k] != x.dims()[k] || p.scales[k] != 1 || (crop && (p.roi[k] != 0 || p.roi[rank + k] != 1));
    if (changes[k])
      taps[k] = MakeTaps(attrs, p.scales[k], x.dims()[k], p.dims[k], p.roi[k], p.roi[rank + k]);
  }
  if (nearest && !crop) {
    NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), p.dims));
    const int64_t n = NumElements(p.dims);
    const Dims strides = RowMajorStrides(x.dims());
    if (n > 0) {
      llvm::SmallVector<int64_t, 6> index(rank, 0);
      int64_t at = 0;
      do {
        int64_t from = 0;
        for (int k = 0; k < rank; ++k)
          from += (changes[k] ? taps[k].index[index[k]] : index[k]) * strides[k];
        out.Copy(at++, x, from);
      } while (NextIndex(index, p.dims));
    }
    ctx.set_result(0, out.Finish());
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), p.dims));
  const auto coordinates = ResizeCoordinatesOf(attrs.String("coordinate_transformation_mode", "half_pixel"));
  if (x.dtype() == DType::F32 && coordinates && attrs.String("mode", "nearest") == "linear" &&
      attrs.Int("antialias", 0) == 0 && attrs.Int("exclude_outside", 0) == 0 && x.num_elements() > 0) {
    MixCorners(x.data<float>(), x.dims(), changes, p, *coordinates, y.mutable_data<float>());
    ctx.set_result(0, std::move(y));
    return OkStatus();
  }
  return DispatchNumeric(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    std::vector<double> from(x.data<T>(), x.data<T>() + x.num_elements()), to;
    Dims dims(x.dims());
    const double fill = attrs.Float("extrapolation_value", 0);
    // The axis that shrinks most goes first, that keeps intermediates small; ties by position.
    std::vector<int> order;
    for (int k = 0; k < rank; ++k)
      if (changes[k])
        order.push_back(k);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return p.scales[a] < p.scales[b]; });
    for (int k : order) {
      const AxisSplit split(dims, k);
      dims[k] = p.dims[k];
      to.resize(NumElements(dims));
      Apply(taps[k], from.data(), to.data(), split.outer, split.n, dims[k], split.inner, fill);
      from.swap(to);
    }
    for (int64_t i = 0; i < y.num_elements(); ++i) {
      double v = from[i];
      if constexpr (std::is_integral_v<T>)
        v = std::clamp<double>(v, static_cast<double>(std::numeric_limits<T>::min()),
                               static_cast<double>(std::numeric_limits<T>::max()));
      y.mutable_data<T>()[i] = static_cast<T>(v);
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

} // namespace

OpDef ResizeDef() {
  return {.domain = "",
          .name = "Resize",
          .since_version = 19,
          .min_operands = 1,
          .max_operands = 4,
          .attrs = {IntAttr("antialias"), IntsAttr("axes"), StringAttr("coordinate_transformation_mode"),
                    FloatAttr("cubic_coeff_a"), IntAttr("exclude_outside"), FloatAttr("extrapolation_value"),
                    StringAttr("keep_aspect_ratio_policy"), StringAttr("mode"), StringAttr("nearest_mode")},
          .verify = VerifyResize,
          .infer = InferResize,
          .evaluate = EvaluateResize,
          .doc = "The tensor resampled to other extents: nearest, linear or cubic."};
}

} // namespace npuc::ops
