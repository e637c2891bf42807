// MaxUnpool, Col2Im, ReverseSequence: placements that the attributes and operands spell out.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

using Ints = llvm::SmallVector<int64_t, 4>;

Ints Defaulted(const AttributeList &attrs, std::string_view name, size_t size, int64_t otherwise) {
  Ints v(attrs.Ints(name));
  if (v.empty())
    v.assign(size, otherwise);
  return v;
}

Status VerifyMaxUnpool(const Node &n) {
  const size_t rank = n.attrs().Ints("kernel_shape").size();
  if (Defaulted(n.attrs(), "strides", rank, 1).size() != rank ||
      Defaulted(n.attrs(), "pads", 2 * rank, 0).size() != 2 * rank)
    return AttrError("kernel_shape, strides and pads differ in length");
  return OkStatus();
}

StatusOr<Dims> UnpooledDims(const AttributeList &attrs, llvm::ArrayRef<int64_t> in) {
  const auto kernel = attrs.Ints("kernel_shape");
  if (in.size() != kernel.size() + 2)
    return ShapeError(fmt::format("kernel_shape {} for an input {}", ToString(kernel), ToString(in)));
  const Ints strides = Defaulted(attrs, "strides", kernel.size(), 1),
             pads = Defaulted(attrs, "pads", 2 * kernel.size(), 0);
  Dims out{in[0], in[1]};
  for (size_t i = 0; i < kernel.size(); ++i)
    out.push_back((in[i + 2] - 1) * strides[i] - pads[i] - pads[kernel.size() + i] + kernel[i]);
  return out;
}

Status InferMaxUnpool(InferContext &ctx) {
  Shape out = ShapeOf(ctx, 0);
  if (out.ranked()) {
    if (auto given = ctx.dims(2)) {
      NPUC_ASSIGN_OR_RETURN(out, ShapeFromDims(*given, "output_shape"));
    } else if (!ctx.has_operand(2) && out.is_static()) {
      NPUC_ASSIGN_OR_RETURN(Dims d, UnpooledDims(ctx.attrs(), out.static_dims()));
      out = Shape::Of(d);
    } else {
      out = Shape::UnknownDims(out.rank());
    }
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateMaxUnpool(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &index = ctx.operand(1);
  if (index.dims() != x.dims())
    return ShapeError(fmt::format("X {} and I {}", ToString(x.dims()), ToString(index.dims())));
  NPUC_ASSIGN_OR_RETURN(Dims inferred, UnpooledDims(ctx.attrs(), x.dims()));
  Dims dims = inferred;
  if (ctx.has_operand(2))
    dims = Dims(AsInts(ctx.operand(2)));
  if (dims.size() != inferred.size())
    return ShapeError(fmt::format("output_shape {}", ToString(dims)));
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0 || inferred[i] < 1)
      return ShapeError(fmt::format("output_shape {}", ToString(dims)));
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), dims));
  // Indices count in the tensor that the pooling saw, of the inferred dims; a larger output_shape surrounds it at the
  // ends.
  const Dims from = RowMajorStrides(inferred), to = RowMajorStrides(dims);
  const int64_t n = NumElements(inferred);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t flat = index.AsInt(i);
    if (flat < 0 || flat >= n)
      return Error("E0703", fmt::format("index {} of {} elements", flat, n));
    int64_t at = 0;
    for (size_t k = 0; k < dims.size(); ++k) {
      const int64_t coordinate = flat / from[k] % inferred[k];
      if (coordinate >= dims[k])
        return Error("E0703", fmt::format("index {} lies outside output_shape {}", flat, ToString(dims)));
      at += coordinate * to[k];
    }
    out.Copy(at, x, i);
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status InferCol2Im(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  auto image = ctx.dims(1), block = ctx.dims(2);
  Shape out = Shape::Unranked();
  if (image) {
    out = Shape({x.ranked() ? x[0] : Dim::Unknown(), Dim::Unknown()});
    int64_t taps = 1;
    bool known = block && x.ranked() && x.rank() == 3 && x[1].is_static();
    if (known)
      for (const Dim &d : *block)
        known &= d.is_static() && d.value() > 0 && !__builtin_mul_overflow(taps, d.value(), &taps);
    if (known) {
      if (x[1].value() % taps)
        return ShapeError(fmt::format("{} rows are not a multiple of a block of {}", x[1].value(), taps));
      out[1] = Dim(x[1].value() / taps);
    }
    for (const Dim &d : *image)
      out.push_back(d);
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateCol2Im(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const Ints image = AsInts(ctx.operand(1)), block = AsInts(ctx.operand(2));
  const size_t rank = image.size();
  const Ints strides = Defaulted(ctx.attrs(), "strides", rank, 1),
             dilations = Defaulted(ctx.attrs(), "dilations", rank, 1),
             pads = Defaulted(ctx.attrs(), "pads", 2 * rank, 0);
  int64_t taps = 1, positions = 1;
  bool fits = x.rank() == 3 && block.size() == rank && rank > 0 && strides.size() == rank && dilations.size() == rank &&
              pads.size() == 2 * rank;
  Ints count;
  for (size_t i = 0; fits && i < rank; ++i) {
    fits = block[i] > 0 && image[i] > 0 && strides[i] > 0 && dilations[i] > 0;
    if (!fits)
      break;
    const int64_t span = image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1;
    fits = span >= 0;
    count.push_back(span / strides[i] + 1);
    taps *= block[i];
    positions *= count.back();
  }
  if (!fits || x.dims()[1] % taps || x.dims()[2] != positions)
    return ShapeError(
        fmt::format("columns {} for image {} and blocks {}", ToString(x.dims()), ToString(image), ToString(block)));
  const int64_t batch = x.dims()[0], channels = x.dims()[1] / taps;
  Dims dims{batch, channels};
  dims.append(image.begin(), image.end());
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), dims));
  const Dims image_strides = RowMajorStrides(image);
  const int64_t plane = NumElements(image);
  return DispatchNumeric(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t bc = 0; bc < batch * channels; ++bc) {
      const T *from = x.data<T>() + bc * taps * positions;
      T *to = y.mutable_data<T>() + bc * plane;
      llvm::SmallVector<int64_t, 3> tap(rank, 0);
      do {
        llvm::SmallVector<int64_t, 3> p(rank, 0);
        do {
          int64_t at = 0;
          bool inside = true;
          for (size_t k = 0; k < rank; ++k) {
            const int64_t i = p[k] * strides[k] - pads[k] + tap[k] * dilations[k];
            inside &= i >= 0 && i < image[k];
            at += i * image_strides[k];
          }
          if (inside)
            to[at] = static_cast<T>(to[at] + *from);
          ++from;
        } while (NextIndex(p, count));
      } while (NextIndex(tap, block));
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status InferReverseSequence(InferContext &ctx) {
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateReverseSequence(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &lengths = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(int batch, NormalizeAxis(ctx.attrs().Int("batch_axis", 1), x.rank(), "batch_axis"));
  NPUC_ASSIGN_OR_RETURN(int time, NormalizeAxis(ctx.attrs().Int("time_axis", 0), x.rank(), "time_axis"));
  if (batch == time || lengths.num_elements() != x.dims()[batch])
    return ShapeError(fmt::format("lengths {} for {}", ToString(lengths.dims()), ToString(x.dims())));
  for (int64_t i = 0; i < lengths.num_elements(); ++i)
    if (const int64_t l = lengths.AsInt(i); l < 0 || l > x.dims()[time])
      return Error("E0703", fmt::format("length {} of an axis of extent {}", l, x.dims()[time]));
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), x.dims()));
  const Dims strides = RowMajorStrides(x.dims());
  llvm::SmallVector<int64_t, 6> index(x.rank(), 0);
  for (int64_t i = 0, n = x.num_elements(); i < n; ++i) {
    const int64_t length = lengths.AsInt(index[batch]), t = index[time], from = t < length ? length - 1 - t : t;
    out.Copy(i, x, i + (from - t) * strides[time]);
    NextIndex(index, x.dims());
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

} // namespace

OpDef MaxUnpoolDef() {
  return {.domain = "",
          .name = "MaxUnpool",
          .since_version = 11,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {IntsAttr("kernel_shape", true), IntsAttr("pads"), IntsAttr("strides")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyMaxUnpool,
          .infer = InferMaxUnpool,
          .evaluate = EvaluateMaxUnpool,
          .doc = "Values back at the positions that a MaxPool took them from, zeros elsewhere."};
}

OpDef Col2ImDef() {
  return {.domain = "",
          .name = "Col2Im",
          .since_version = 18,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {IntsAttr("dilations"), IntsAttr("pads"), IntsAttr("strides")},
          .infer = InferCol2Im,
          .evaluate = EvaluateCol2Im,
          .doc = "Columns of blocks added up into an image."};
}

OpDef ReverseSequenceDef() {
  return {.domain = "",
          .name = "ReverseSequence",
          .since_version = 10,
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {IntAttr("batch_axis"), IntAttr("time_axis")},
          .traits = kPure | kCopiesElements | kNoFloatWiden,
          .infer = InferReverseSequence,
          .evaluate = EvaluateReverseSequence,
          .doc = "Each batch element's first steps reversed."};
}

} // namespace npuc::ops
