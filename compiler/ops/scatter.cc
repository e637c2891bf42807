// ScatterElements, ScatterND, TensorScatter: a copy of the data with updates written at indices, optionally combined
// with what is there. Updates apply in the order of the indices, so repeated indices are deterministic.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

enum class Reduction { None, Add, Mul, Min, Max };

StatusOr<Reduction> ReductionOf(const AttributeList &attrs) {
  const std::string_view r = attrs.String("reduction", "none");
  if (r == "none")
    return Reduction::None;
  if (r == "add")
    return Reduction::Add;
  if (r == "mul")
    return Reduction::Mul;
  if (r == "min")
    return Reduction::Min;
  if (r == "max")
    return Reduction::Max;
  return AttrError(fmt::format("reduction is '{}'", r), "none, add, mul, min or max");
}

Status VerifyReduction(const Node &n) {
  return ReductionOf(n.attrs()).status();
}

// A copy of data that combines elements.
class Target {
public:
  static StatusOr<Target> Create(const Tensor &data, Reduction reduction) {
    Target t;
    t.reduction_ = reduction;
    NPUC_ASSIGN_OR_RETURN(t.writer_, ElementWriter::Create(data.dtype(), data.dims()));
    t.writer_.Copy(0, data, 0, data.num_elements());
    if (reduction != Reduction::None) {
      t.tensor_ = t.writer_.Finish();
      if (data.dtype() == DType::Bool)
        return t;
      NPUC_RETURN_IF_ERROR(DispatchNumeric(data.dtype(), [](auto) { return OkStatus(); }));
    }
    return t;
  }
  void Put(int64_t at, const Tensor &updates, int64_t from, int64_t count) {
    if (reduction_ == Reduction::None) {
      writer_.Copy(at, updates, from, count);
      return;
    }
    if (tensor_.dtype() == DType::Bool) {
      for (int64_t i = 0; i < count; ++i) {
        uint8_t &d = tensor_.mutable_bytes()[at + i];
        const uint8_t u = updates.bytes()[from + i];
        d = reduction_ == Reduction::Add || reduction_ == Reduction::Max ? d | u : d & u;
      }
      return;
    }
    (void)DispatchNumeric(tensor_.dtype(), [&](auto tag) {
      using T = TypeOf<decltype(tag)>;
      T *d = tensor_.mutable_data<T>() + at;
      const T *u = updates.data<T>() + from;
      for (int64_t i = 0; i < count; ++i)
        d[i] = Combine(d[i], u[i]);
      return OkStatus();
    });
  }
  Tensor Finish() { return reduction_ == Reduction::None ? writer_.Finish() : std::move(tensor_); }

private:
  template <class T> T Combine(T a, T b) const {
    // Integers wrap; unsigned arithmetic says so.
    if constexpr (std::is_integral_v<T>) {
      if (reduction_ == Reduction::Add)
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      if (reduction_ == Reduction::Mul)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      if (reduction_ == Reduction::Add)
        return a + b;
      if (reduction_ == Reduction::Mul)
        return a * b;
      if (a != a || b != b)
        return a != a ? a : b;
    }
    return reduction_ == Reduction::Min ? std::min(a, b) : std::max(a, b);
  }

  Reduction reduction_ = Reduction::None;
  ElementWriter writer_;
  Tensor tensor_;
};

Status CheckUpdates(const Tensor &data, const Tensor &updates) {
  if (data.dtype() != updates.dtype())
    return Error("E0302", fmt::format("updates are {}, the data are {}", Name(updates.dtype()), Name(data.dtype())));
  return OkStatus();
}

Status IndexError(int64_t index, int64_t extent) {
  return Error("E0703", fmt::format("index {} is out of range of an axis of extent {}", index, extent));
}

Status InferSameAsData(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 2}));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0));
  return OkStatus();
}

Status InferScatterElements(InferContext &ctx) {
  const Shape data = ShapeOf(ctx, 0), index = ShapeOf(ctx, 1);
  if (data.ranked() && index.ranked() && data.rank() != index.rank())
    return ShapeError(fmt::format("data {} and indices {} differ in rank", data.ToString(), index.ToString()));
  return InferSameAsData(ctx);
}
Status EvaluateScatterElements(EvalContext &ctx) {
  const Tensor &data = ctx.operand(0), &index = ctx.operand(1), &updates = ctx.operand(2);
  NPUC_RETURN_IF_ERROR(CheckUpdates(data, updates));
  if (data.rank() != index.rank() || data.rank() == 0 || index.dims() != updates.dims())
    return ShapeError(fmt::format("data {}, indices {}, updates {}", ToString(data.dims()), ToString(index.dims()),
                                  ToString(updates.dims())));
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), data.rank()));
  for (int k = 0; k < data.rank(); ++k)
    if (k != axis && index.dims()[k] > data.dims()[k])
      return ShapeError(fmt::format("indices {} reach beyond data {}", ToString(index.dims()), ToString(data.dims())));
  NPUC_ASSIGN_OR_RETURN(Reduction reduction, ReductionOf(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(Target out, Target::Create(data, reduction));
  const Dims strides = RowMajorStrides(data.dims());
  const int64_t extent = data.dims()[axis];
  llvm::SmallVector<int64_t, 6> i(data.rank(), 0);
  for (int64_t n = 0; n < index.num_elements(); ++n) {
    const int64_t given = index.AsInt(n), v = given < 0 ? given + extent : given;
    if (v < 0 || v >= extent)
      return IndexError(given, extent);
    int64_t to = 0;
    for (int k = 0; k < data.rank(); ++k)
      to += (k == axis ? v : i[k]) * strides[k];
    out.Put(to, updates, n, 1);
    NextIndex(i, index.dims());
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status EvaluateScatterND(EvalContext &ctx) {
  const Tensor &data = ctx.operand(0), &index = ctx.operand(1), &updates = ctx.operand(2);
  NPUC_RETURN_IF_ERROR(CheckUpdates(data, updates));
  const int64_t depth = index.rank() ? index.dims().back() : 0;
  bool fits = index.rank() > 0 && depth <= data.rank();
  if (fits) {
    Dims want(index.dims().drop_back());
    want.append(data.dims().begin() + depth, data.dims().end());
    fits = want == Dims(updates.dims());
  }
  if (!fits)
    return ShapeError(fmt::format("data {}, indices {}, updates {}", ToString(data.dims()), ToString(index.dims()),
                                  ToString(updates.dims())));
  NPUC_ASSIGN_OR_RETURN(Reduction reduction, ReductionOf(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(Target out, Target::Create(data, reduction));
  const Dims strides = RowMajorStrides(data.dims());
  const int64_t slice = NumElements(data.dims().drop_front(depth)), count = NumElements(index.dims().drop_back());
  for (int64_t n = 0; n < count; ++n) {
    int64_t to = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = data.dims()[k], given = index.AsInt(n * depth + k), v = given < 0 ? given + extent : given;
      if (v < 0 || v >= extent)
        return IndexError(given, extent);
      to += v * strides[k];
    }
    out.Put(to, updates, n * slice, slice);
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

// Writes `update` [batch, ..., sequence, ...] into a cache at each batch element's write index along axis (linear, or
// modulo the extent).
Status EvaluateTensorScatter(EvalContext &ctx) {
  const Tensor &cache = ctx.operand(0), &update = ctx.operand(1);
  NPUC_RETURN_IF_ERROR(CheckUpdates(cache, update));
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", -2), cache.rank()));
  bool fits = cache.rank() == update.rank() && axis > 0;
  for (int k = 0; fits && k < cache.rank(); ++k)
    fits = k == axis ? update.dims()[k] <= cache.dims()[k] : update.dims()[k] == cache.dims()[k];
  if (!fits)
    return ShapeError(
        fmt::format("cache {}, update {}, axis {}", ToString(cache.dims()), ToString(update.dims()), axis));
  const bool circular = ctx.attrs().String("mode", "linear") == "circular";
  NPUC_ASSIGN_OR_RETURN(Target out, Target::Create(cache, Reduction::None));
  const int64_t batches = cache.dims()[0], extent = cache.dims()[axis], length = update.dims()[axis];
  const int64_t middle = NumElements(cache.dims().slice(1, axis - 1)),
                inner = NumElements(cache.dims().drop_front(axis + 1));
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t start = ctx.has_operand(2) ? ctx.operand(2).AsInt(b) : 0;
    for (int64_t m = 0; m < middle; ++m)
      for (int64_t s = 0; s < length; ++s) {
        int64_t at = start + s;
        if (circular)
          at = ((at % extent) + extent) % extent;
        if (at < 0 || at >= extent)
          return IndexError(at, extent);
        out.Put(((b * middle + m) * extent + at) * inner, update, ((b * middle + m) * length + s) * inner, inner);
      }
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}
Status InferTensorScatter(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1}));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0));
  return OkStatus();
}

} // namespace

OpDef ScatterElementsDef() {
  return {.domain = "",
          .name = "ScatterElements",
          .since_version = 18,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {IntAttr("axis"), StringAttr("reduction")},
          .verify = VerifyReduction,
          .infer = InferScatterElements,
          .evaluate = EvaluateScatterElements,
          .doc = "Data with updates at an index along an axis each."};
}

OpDef ScatterNDDef() {
  return {.domain = "",
          .name = "ScatterND",
          .since_version = 18,
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {StringAttr("reduction")},
          .verify = VerifyReduction,
          .infer = InferSameAsData,
          .evaluate = EvaluateScatterND,
          .doc = "Data with slices of updates at coordinates."};
}

OpDef TensorScatterDef() {
  return {.domain = "",
          .name = "TensorScatter",
          .since_version = 24,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {IntAttr("axis"), StringAttr("mode")},
          .traits = kPure | kNoFloatWiden,
          .infer = InferTensorScatter,
          .evaluate = EvaluateTensorScatter,
          .doc = "A key/value cache with new entries written at each batch element's position."};
}

} // namespace npuc::ops
