// Slice, Pad, CenterCropPad: windows of a tensor, and borders around it.
//
// Pad is one map per axis from output to input coordinate (-1: fill), made by mode: constant, reflect (no repeat of the
// edge), edge, wrap. Negative pads crop, so the map also starts inside. O(elements of the result).
#include "compiler/ops/movement.h"
#include "compiler/ops/quant_eval.h"

namespace npuc::ops {
namespace {

using Ints = llvm::SmallVector<int64_t, 4>;

struct Range {
  int64_t start, step, count;
};

// ONNX's clamping of start and end, which differs with the sign of the step.
Range Clamp(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (start < 0)
    start += extent;
  if (end < 0)
    end += extent; // INT64_MIN + extent stays far below
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    end = std::clamp<int64_t>(end, 0, extent);
    return {start, step, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp<int64_t>(start, -1, extent - 1);
  end = std::clamp<int64_t>(end, -1, extent - 1);
  const uint64_t stride = 0 - static_cast<uint64_t>(step);
  return {start, step, start > end ? static_cast<int64_t>(static_cast<uint64_t>(start - end - 1) / stride) + 1 : 0};
}

// One entry an axis of the result of NormalizeAxes-like order: axes as given, which may repeat no axis.
StatusOr<Ints> SliceAxes(const std::optional<Ints> &axes, size_t count, int rank) {
  Ints out;
  llvm::SmallVector<bool, 8> seen(rank, false);
  if (axes && axes->size() != count)
    return ShapeError(fmt::format("{} axes for {} starts", axes->size(), count));
  for (size_t i = 0; i < count; ++i) {
    NPUC_ASSIGN_OR_RETURN(int a, NormalizeAxis(axes ? (*axes)[i] : static_cast<int64_t>(i), rank));
    if (seen[a])
      return AttrError(fmt::format("axis {} is there twice", a));
    seen[a] = true;
    out.push_back(a);
  }
  return out;
}

Status InferSlice(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  const DType dtype = DTypeOfOperand(ctx, 0);
  if (!in.ranked()) {
    SetTensor(ctx, 0, dtype, in);
    return OkStatus();
  }
  auto axes = KnownInts(ctx, 3);
  auto starts = ctx.dims(1), ends = ctx.dims(2);
  std::optional<Ints> steps = KnownInts(ctx, 4);
  auto count = KnownLength(ctx, 1);
  if (starts)
    count = static_cast<int64_t>(starts->size());
  if ((ctx.has_operand(3) && !axes) || !count) {
    SetTensor(ctx, 0, dtype, Shape::UnknownDims(in.rank()));
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(Ints at, SliceAxes(axes, *count, in.rank()));
  if ((ends && static_cast<int64_t>(ends->size()) != *count) ||
      (steps && static_cast<int64_t>(steps->size()) != *count))
    return ShapeError("starts, ends and steps differ in length");
  Shape out = in;
  for (int64_t i = 0; i < *count; ++i) {
    Dim &d = out[static_cast<int>(at[i])];
    const int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0)
      return AttrError("a step is 0");
    if (!starts || !ends || (ctx.has_operand(4) && !steps)) {
      d = Dim::Unknown();
      continue;
    }
    const Dim s = (*starts)[i], e = (*ends)[i];
    if (d.is_static() && s.is_static() && e.is_static()) {
      d = Dim(Clamp(s.value(), e.value(), step, d.value()).count);
    } else if (s.is_static() && s.value() == 0 && step == 1 &&
               ((e.is_static() && e.value() >= INT32_MAX) || (!e.is_static() && e == d))) {
      // The whole axis.
    } else if (s.is_static() && e.is_static() && step == 1 && s.value() < 0 && e.value() >= INT32_MAX &&
               !d.is_static()) {
      d = Dim::Unknown(); // min(-start, extent)
    } else if (d.is_static() && s.is_static() && s.value() == 0 && step == 1 && !e.is_static()) {
      d = Dim::Unknown();
    } else {
      d = Dim::Unknown();
    }
  }
  SetTensor(ctx, 0, dtype, out);
  return OkStatus();
}

Status EvaluateSlice(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const Ints starts = AsInts(ctx.operand(1)), ends = AsInts(ctx.operand(2));
  std::optional<Ints> axes, steps;
  if (ctx.has_operand(3))
    axes = AsInts(ctx.operand(3));
  if (ctx.has_operand(4))
    steps = AsInts(ctx.operand(4));
  if (ends.size() != starts.size() || (steps && steps->size() != starts.size()))
    return ShapeError("starts, ends and steps differ in length");
  NPUC_ASSIGN_OR_RETURN(Ints at, SliceAxes(axes, starts.size(), x.rank()));
  Dims dims(x.dims()), strides = RowMajorStrides(x.dims());
  int64_t base = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0)
      return AttrError("a step is 0");
    const Range r = Clamp(starts[i], ends[i], step, dims[at[i]]);
    if (r.count > 0)
      base += r.start * strides[at[i]];
    // A step that leaves the axis at once is only ever taken zero times.
    strides[at[i]] = r.count > 1 ? strides[at[i]] * step : 0;
    dims[at[i]] = r.count;
  }
  NPUC_ASSIGN_OR_RETURN(Tensor y, Materialize(x, dims, strides, base));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// Pads of every axis from those of the named axes: begin and end.
StatusOr<std::pair<Ints, Ints>> FullPads(llvm::ArrayRef<int64_t> pads, const std::optional<Ints> &axes, int rank) {
  const size_t count = axes ? axes->size() : rank;
  if (pads.size() != 2 * count)
    return ShapeError(fmt::format("{} pads for {} axes", pads.size(), count));
  Ints begin(rank, 0), end(rank, 0);
  for (size_t i = 0; i < count; ++i) {
    NPUC_ASSIGN_OR_RETURN(int a, NormalizeAxis(axes ? (*axes)[i] : static_cast<int64_t>(i), rank));
    begin[a] = pads[i];
    end[a] = pads[count + i];
    if (begin[a] < INT32_MIN || begin[a] > INT32_MAX || end[a] < INT32_MIN || end[a] > INT32_MAX)
      return ShapeError(fmt::format("pads are {}", ToString(pads)));
  }
  return std::pair(begin, end);
}

Status VerifyPad(const Node &n) {
  const std::string_view mode = n.attrs().String("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return AttrError(fmt::format("mode is '{}'", mode), "constant, reflect, edge or wrap");
  return OkStatus();
}
Status InferPad(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  const DType dtype = DTypeOfOperand(ctx, 0);
  auto pads = KnownInts(ctx, 1), axes = KnownInts(ctx, 3);
  if (!in.ranked() || !pads || (ctx.has_operand(3) && !axes)) {
    SetTensor(ctx, 0, dtype, in.ranked() ? Shape::UnknownDims(in.rank()) : in);
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(auto full, FullPads(*pads, axes, in.rank()));
  Shape out = in;
  for (int i = 0; i < in.rank(); ++i) {
    if (full.first[i] == 0 && full.second[i] == 0)
      continue;
    if (!in[i].is_static()) {
      out[i] = Dim::Unknown();
      continue;
    }
    const int64_t extent = in[i].value() + full.first[i] + full.second[i];
    if (extent < 0)
      return ShapeError(
          fmt::format("pads {} and {} leave nothing of extent {}", full.first[i], full.second[i], in[i].value()));
    out[i] = Dim(extent);
  }
  SetTensor(ctx, 0, dtype, out);
  return OkStatus();
}

// Input coordinate of every output coordinate of an axis, -1 for the fill value. Negative pads crop first; what is left
// is reflected, repeated or wrapped.
std::vector<int64_t> SourcesOf(std::string_view mode, int64_t begin, int64_t end, int64_t extent) {
  const int64_t first = std::max<int64_t>(0, -begin), size = extent - first - std::max<int64_t>(0, -end);
  const int64_t period = mode == "reflect" ? std::max<int64_t>(1, 2 * (size - 1)) : size;
  std::vector<int64_t> out;
  for (int64_t i = -std::max<int64_t>(0, begin), n = 0; n < extent + begin + end; ++i, ++n) {
    if (i >= 0 && i < size) {
      out.push_back(first + i);
    } else if (mode == "constant") {
      out.push_back(-1);
    } else if (mode == "edge") {
      out.push_back(first + (i < 0 ? 0 : size - 1));
    } else {
      const int64_t at = ((i % period) + period) % period;
      out.push_back(first + (at < size ? at : period - at));
    }
  }
  return out;
}

Status EvaluatePad(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  std::optional<Ints> axes;
  if (ctx.has_operand(3))
    axes = AsInts(ctx.operand(3));
  NPUC_ASSIGN_OR_RETURN(auto full, FullPads(AsInts(ctx.operand(1)), axes, x.rank()));
  const std::string_view mode = ctx.attrs().String("mode", "constant");
  Dims dims(x.dims());
  for (int i = 0; i < x.rank(); ++i) {
    dims[i] += full.first[i] + full.second[i];
    if (dims[i] < 0)
      return ShapeError(fmt::format("pads leave nothing of extent {}", x.dims()[i]));
    if (mode != "constant" && dims[i] > 0 &&
        x.dims()[i] + std::min<int64_t>(0, full.first[i]) + std::min<int64_t>(0, full.second[i]) <= 0)
      return ShapeError(fmt::format("mode {}: pads {} and {} leave nothing of extent {} to pad with", mode,
                                    full.first[i], full.second[i], x.dims()[i]));
  }
  Tensor fill = ctx.has_operand(2) ? ctx.operand(2) : Tensor();
  if (fill && (fill.num_elements() != 1 || fill.dtype() != x.dtype()))
    return Error("E0302", fmt::format("the value is {}{}, the data are {}", Name(fill.dtype()), ToString(fill.dims()),
                                      Name(x.dtype())));
  // Without a value the border is real 0: a quantised tensor's zero point.
  if (const QuantRef &q = OperandQuant(ctx, 0); !fill && q && q->per_tensor() && IsInt(x.dtype())) {
    fill = Tensor::Allocate(x.dtype(), {});
    const int32_t zero = q->zero_point();
    std::memcpy(fill.mutable_bytes(), &zero, std::min<size_t>(sizeof zero, ByteSize(x.dtype())));
  }
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), dims));
  const int64_t n = NumElements(dims);
  if (n == 0) {
    ctx.set_result(0, out.Finish());
    return OkStatus();
  }
  const int rank = x.rank();
  if (rank == 0) {
    out.Copy(0, x, 0);
    ctx.set_result(0, out.Finish());
    return OkStatus();
  }
  const Dims strides = RowMajorStrides(x.dims());
  std::vector<std::vector<int64_t>> map(rank);
  for (int k = 0; k < rank; ++k)
    map[k] = SourcesOf(mode, full.first[k], full.second[k], x.dims()[k]);
  // Rows of the last axis: the stretch that lies in the input is one copy.
  const std::vector<int64_t> &last = map[rank - 1];
  llvm::SmallVector<int64_t, 6> index(rank - 1, 0);
  const Dims outer(llvm::ArrayRef<int64_t>(dims).drop_back());
  const int64_t row = dims[rank - 1];
  for (int64_t at = 0; at < n; at += row) {
    int64_t base = 0;
    for (int k = 0; k + 1 < rank && base >= 0; ++k)
      base = map[k][index[k]] < 0 ? -1 : base + map[k][index[k]] * strides[k];
    for (int64_t o = 0; o < row;) {
      if (base < 0 || last[o] < 0) {
        int64_t e = o + 1;
        while (e < row && (base < 0 || last[e] < 0))
          ++e;
        if (fill)
          out.Fill(at + o, fill, 0, e - o);
        o = e;
        continue;
      }
      int64_t e = o + 1;
      while (e < row && last[e] == last[e - 1] + 1)
        ++e;
      out.Copy(at + o, x, base + last[o], e - o);
      o = e;
    }
    NextIndex(index, outer);
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

StatusOr<Ints> CropAxes(const AttributeList &attrs, int rank) {
  Ints axes;
  if (!attrs.Has("axes")) {
    for (int i = 0; i < rank; ++i)
      axes.push_back(i);
    return axes;
  }
  for (int64_t a : attrs.Ints("axes")) {
    NPUC_ASSIGN_OR_RETURN(int n, NormalizeAxis(a, rank));
    axes.push_back(n);
  }
  return axes;
}

Status InferCenterCropPad(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked()) {
    NPUC_ASSIGN_OR_RETURN(Ints axes, CropAxes(ctx.attrs(), s.rank()));
    auto target = ctx.dims(1);
    if (target && target->size() != axes.size())
      return ShapeError(fmt::format("{} extents for {} axes", target->size(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i)
      s[static_cast<int>(axes[i])] = target ? (*target)[i] : Dim::Unknown();
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), s);
  return OkStatus();
}
Status EvaluateCenterCropPad(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(Ints axes, CropAxes(ctx.attrs(), x.rank()));
  const Ints target = AsInts(ctx.operand(1));
  if (target.size() != axes.size())
    return ShapeError(fmt::format("{} extents for {} axes", target.size(), axes.size()));
  Dims crop(x.dims()), dims(x.dims());
  Ints from(x.rank(), 0), to(x.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axes[i], have = x.dims()[a], want = target[i];
    if (want < 0)
      return ShapeError(fmt::format("the wanted extents are {}", ToString(target)));
    dims[a] = want;
    if (have > want) {
      from[a] = (have - want) / 2;
      crop[a] = want;
    } else {
      to[a] = (want - have) / 2;
    }
  }
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), dims));
  const Dims in_strides = RowMajorStrides(x.dims()), out_strides = RowMajorStrides(dims);
  if (NumElements(crop) > 0) {
    llvm::SmallVector<int64_t, 6> index(x.rank(), 0);
    do {
      int64_t i = 0, o = 0;
      for (int k = 0; k < x.rank(); ++k) {
        i += (index[k] + from[k]) * in_strides[k];
        o += (index[k] + to[k]) * out_strides[k];
      }
      out.Copy(o, x, i);
    } while (NextIndex(index, crop));
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

constexpr uint32_t kMoves = kPure | kCopiesElements | kNoFloatWiden;

} // namespace

OpDef SliceDef() {
  return {.domain = "",
          .name = "Slice",
          .since_version = 13,
          .min_operands = 3,
          .max_operands = 5,
          .attrs = {},
          .traits = kMoves,
          .infer = InferSlice,
          .evaluate = EvaluateSlice,
          .doc = "From starts to ends by steps along axes (steps may be negative)."};
}

OpDef PadDef() {
  return {.domain = "",
          .name = "Pad",
          .since_version = 19,
          .min_operands = 2,
          .max_operands = 4,
          .attrs = {StringAttr("mode")},
          .traits = kMoves,
          .verify = VerifyPad,
          .infer = InferPad,
          .evaluate = EvaluatePad,
          .doc = "A border around the tensor: constant, reflected, edge or wrapped; negative pads crop."};
}

OpDef CenterCropPadDef() {
  return {.domain = "",
          .name = "CenterCropPad",
          .since_version = 18,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntsAttr("axes")},
          .traits = kMoves,
          .infer = InferCenterCropPad,
          .evaluate = EvaluateCenterCropPad,
          .doc = "Cropped or zero-padded around the centre to the given extents."};
}

} // namespace npuc::ops
