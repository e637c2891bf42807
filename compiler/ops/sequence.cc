// Sequences and optionals: SequenceConstruct/Empty/At/Insert/Erase/Length, SplitToSequence, ConcatFromSequence,
// SequenceMap, Optional, OptionalHasElement, OptionalGetElement. Host only.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

StatusOr<const EvalSequence *> SequenceOperand(EvalContext &ctx, int i) {
  const EvalSequence *s = i < ctx.num_operands() ? ctx.operand_value(i).sequence() : nullptr;
  if (!s)
    return Error("E0703", fmt::format("operand {} is not a sequence", i));
  return s;
}

EvalValue MakeSequence(EvalSequence s) {
  EvalValue v;
  v.v = std::make_shared<const EvalSequence>(std::move(s));
  return v;
}

// A position in [-size, size), or also at the end when inserting.
StatusOr<int64_t> Position(EvalContext &ctx, int operand, int64_t size, bool end, int64_t otherwise) {
  if (!ctx.has_operand(operand))
    return otherwise;
  const int64_t given = ctx.operand(operand).AsInt(0), at = given < 0 ? given + size : given;
  if (at < 0 || at > size || (at == size && !end))
    return Error("E0703", fmt::format("position {} in a sequence of {}", given, size));
  return at;
}

Type ElementType(InferContext &ctx, int i) {
  const Type &t = ctx.operand_type(i);
  return t.kind() == Type::Kind::Sequence ? t.element() : Type();
}

// A tensor type that holds for a and b.
Type Common(const Type &a, const Type &b) {
  if (a.is_none())
    return b;
  if (b.is_none() || !a.is_tensor() || !b.is_tensor())
    return a;
  Type t = Type::Tensor(a.dtype() == DType::Undefined ? b.dtype() : a.dtype(), a.shape());
  if (!a.shape().ranked() || !b.shape().ranked() || a.shape().rank() != b.shape().rank())
    t.set_shape(Shape::Unranked());
  else
    for (int i = 0; i < a.shape().rank(); ++i)
      if (!(a.shape()[i] == b.shape()[i]))
        t.shape()[i] = Dim::Unknown();
  return t;
}

Status InferSequenceConstruct(InferContext &ctx) {
  Type element;
  for (int i = 0; i < ctx.num_operands(); ++i)
    element = Common(element, ctx.operand_type(i));
  if (!element.is_none())
    ctx.set_result(0, Type::Sequence(element));
  return OkStatus();
}
Status EvaluateSequenceConstruct(EvalContext &ctx) {
  ctx.set_result(0, MakeSequence(EvalSequence(ctx.operands().begin(), ctx.operands().end())));
  return OkStatus();
}

Status InferSequenceEmpty(InferContext &ctx) {
  ctx.set_result(0, Type::Sequence(Type::Tensor(static_cast<DType>(ctx.attrs().Int("dtype", 1)), Shape::Unranked())));
  return OkStatus();
}
Status VerifySequenceEmpty(const Node &n) {
  const int64_t t = n.attrs().Int("dtype", 1);
  return t > 0 && t < kNumDTypes ? OkStatus() : AttrError(fmt::format("dtype is {}", t));
}
Status EvaluateSequenceEmpty(EvalContext &ctx) {
  ctx.set_result(0, MakeSequence({}));
  return OkStatus();
}

Status InferSequenceAt(InferContext &ctx) {
  ctx.set_result(0, ElementType(ctx, 0));
  return OkStatus();
}
Status EvaluateSequenceAt(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const EvalSequence *s, SequenceOperand(ctx, 0));
  NPUC_ASSIGN_OR_RETURN(int64_t at, Position(ctx, 1, static_cast<int64_t>(s->size()), false, 0));
  ctx.set_result(0, (*s)[at]);
  return OkStatus();
}

Status InferSequenceInsert(InferContext &ctx) {
  const Type e = ElementType(ctx, 0);
  const Type t = Common(e, ctx.operand_type(1));
  if (!t.is_none())
    ctx.set_result(0, Type::Sequence(t));
  return OkStatus();
}
Status EvaluateSequenceInsert(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const EvalSequence *s, SequenceOperand(ctx, 0));
  const int64_t size = static_cast<int64_t>(s->size());
  NPUC_ASSIGN_OR_RETURN(int64_t at, Position(ctx, 2, size, true, size));
  EvalSequence out = *s;
  out.insert(out.begin() + at, ctx.operand_value(1));
  ctx.set_result(0, MakeSequence(std::move(out)));
  return OkStatus();
}

Status InferSameSequence(InferContext &ctx) {
  ctx.set_result(0, ctx.operand_type(0));
  return OkStatus();
}
Status EvaluateSequenceErase(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const EvalSequence *s, SequenceOperand(ctx, 0));
  const int64_t size = static_cast<int64_t>(s->size());
  if (size == 0)
    return Error("E0703", "an empty sequence has nothing to erase");
  NPUC_ASSIGN_OR_RETURN(int64_t at, Position(ctx, 1, size, false, size - 1));
  EvalSequence out = *s;
  out.erase(out.begin() + at);
  ctx.set_result(0, MakeSequence(std::move(out)));
  return OkStatus();
}

Status InferSequenceLength(InferContext &ctx) {
  SetTensor(ctx, 0, DType::I64, Shape());
  return OkStatus();
}
Status EvaluateSequenceLength(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const EvalSequence *s, SequenceOperand(ctx, 0));
  ctx.set_result(0, Tensor::ScalarI64(static_cast<int64_t>(s->size())));
  return OkStatus();
}

Status InferSplitToSequence(InferContext &ctx) {
  Shape s = ShapeOf(ctx, 0);
  if (s.ranked()) {
    NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), s.rank()));
    if (ctx.has_operand(1)) {
      s[axis] = Dim::Unknown();
    } else if (ctx.attrs().Int("keepdims", 1)) {
      s[axis] = Dim(1);
    } else {
      llvm::SmallVector<Dim, 4> d(s.dims());
      d.erase(d.begin() + axis);
      s = Shape(d);
    }
  }
  if (const DType t = DTypeOfOperand(ctx, 0); t != DType::Undefined)
    ctx.set_result(0, Type::Sequence(Type::Tensor(t, s)));
  return OkStatus();
}
Status EvaluateSplitToSequence(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), x.rank()));
  const int64_t extent = x.dims()[axis];
  std::vector<int64_t> sizes;
  bool drop = false;
  if (!ctx.has_operand(1)) {
    sizes.assign(extent, 1);
    drop = ctx.attrs().Int("keepdims", 1) == 0;
  } else if (ctx.operand(1).rank() == 0) {
    const int64_t each = ctx.operand(1).AsInt(0);
    if (each < 1)
      return Error("E0703", fmt::format("split is {}", each));
    for (int64_t at = 0; at < extent; at += each)
      sizes.push_back(std::min(each, extent - at));
  } else {
    int64_t sum = 0;
    for (int64_t v : AsInts(ctx.operand(1))) {
      if (v < 0 || v > extent - sum)
        return Error("E0703",
                     fmt::format("split {} of an axis of extent {}", ToString(AsInts(ctx.operand(1))), extent));
      sizes.push_back(v);
      sum += v;
    }
    if (sum != extent)
      return Error("E0703", fmt::format("split {} of an axis of extent {}", ToString(AsInts(ctx.operand(1))), extent));
  }
  const Dims strides = RowMajorStrides(x.dims());
  EvalSequence out;
  int64_t offset = 0;
  for (int64_t size : sizes) {
    Dims dims(x.dims());
    dims[axis] = size;
    NPUC_ASSIGN_OR_RETURN(Tensor part, Materialize(x, dims, strides, offset * strides[axis]));
    if (drop) {
      dims.erase(dims.begin() + axis);
      part = part.Reshaped(dims);
    }
    out.emplace_back(std::move(part));
    offset += size;
  }
  ctx.set_result(0, MakeSequence(std::move(out)));
  return OkStatus();
}

Status InferConcatFromSequence(InferContext &ctx) {
  const Type e = ElementType(ctx, 0);
  if (!e.is_tensor())
    return OkStatus();
  Shape s = Shape::Unranked();
  if (e.shape().ranked()) {
    const bool fresh = ctx.attrs().Int("new_axis", 0) != 0;
    const int rank = e.shape().rank() + fresh;
    NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), rank));
    s = Shape();
    for (int i = 0, k = 0; i < rank; ++i) {
      if (i == axis) {
        s.push_back(Dim::Unknown());
        if (!fresh)
          ++k;
      } else {
        s.push_back(e.shape()[k++]);
      }
    }
  }
  SetTensor(ctx, 0, e.dtype(), s);
  return OkStatus();
}
Status EvaluateConcatFromSequence(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const EvalSequence *s, SequenceOperand(ctx, 0));
  if (s->empty() || !(*s)[0].tensor())
    return Error("E0703", "the sequence to join has no tensors");
  const bool fresh = ctx.attrs().Int("new_axis", 0) != 0;
  const Tensor &first = *(*s)[0].tensor();
  NPUC_ASSIGN_OR_RETURN(int axis, NormalizeAxis(ctx.attrs().Int("axis", 0), first.rank() + fresh));
  std::vector<Tensor> parts;
  Dims dims;
  int64_t total = 0;
  for (const EvalValue &v : *s) {
    Tensor t = v.tensor()->Expand();
    if (fresh) {
      Dims d(t.dims());
      d.insert(d.begin() + std::min(axis, t.rank()), 1);
      t = t.Reshaped(d);
    }
    if (parts.empty())
      dims.assign(t.dims().begin(), t.dims().end());
    bool fits = t.rank() == static_cast<int>(dims.size()) && t.dtype() == first.dtype();
    for (int k = 0; fits && k < t.rank(); ++k)
      fits = k == axis || t.dims()[k] == dims[k];
    if (!fits)
      return ShapeError(fmt::format("{} and {} cannot be joined", ToString(first.dims()), ToString(t.dims())));
    total += t.dims()[axis];
    parts.push_back(std::move(t));
  }
  dims[axis] = total;
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(first.dtype(), dims));
  const AxisSplit split(dims, axis);
  int64_t offset = 0;
  for (const Tensor &t : parts) {
    const int64_t run = t.dims()[axis] * split.inner;
    for (int64_t o = 0; o < split.outer; ++o)
      out.Copy(o * split.n * split.inner + offset, t, o * run, run);
    offset += run;
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status VerifySequenceMap(const Node &n) {
  if (n.num_bodies() != 1)
    return AttrError("SequenceMap has one body");
  if (n.body(0)->num_inputs() != n.num_operands() || n.body(0)->num_outputs() != n.num_results())
    return AttrError(fmt::format("the body has {} inputs and {} outputs, the node {} and {}", n.body(0)->num_inputs(),
                                 n.body(0)->num_outputs(), n.num_operands(), n.num_results()));
  return OkStatus();
}
Status InferSequenceMap(InferContext &ctx) {
  std::vector<Type> inputs, outputs;
  for (int i = 0; i < ctx.num_operands(); ++i)
    inputs.push_back(ctx.operand_type(i).kind() == Type::Kind::Sequence ? ElementType(ctx, i) : ctx.operand_type(i));
  NPUC_RETURN_IF_ERROR(ctx.InferBody(0, inputs, &outputs));
  for (int i = 0; i < ctx.num_results(); ++i)
    if (!outputs[i].is_none())
      ctx.set_result(i, Type::Sequence(outputs[i]));
  return OkStatus();
}
Status EvaluateSequenceMap(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const EvalSequence *first, SequenceOperand(ctx, 0));
  std::vector<EvalSequence> out(ctx.num_results());
  for (size_t k = 0; k < first->size(); ++k) {
    std::vector<EvalValue> inputs;
    for (int i = 0; i < ctx.num_operands(); ++i) {
      const EvalSequence *s = ctx.operand_value(i).sequence();
      if (s && k >= s->size())
        return Error("E0703", fmt::format("sequences of {} and {} elements", first->size(), s->size()));
      inputs.push_back(s ? (*s)[k] : ctx.operand_value(i));
    }
    NPUC_ASSIGN_OR_RETURN(auto values, ctx.RunBody(0, std::move(inputs)));
    for (size_t i = 0; i < out.size(); ++i)
      out[i].push_back(std::move(values[i]));
  }
  for (size_t i = 0; i < out.size(); ++i)
    ctx.set_result(static_cast<int>(i), MakeSequence(std::move(out[i])));
  return OkStatus();
}

Status InferOptional(InferContext &ctx) {
  if (const Attribute *a = ctx.attrs().Find("type")) {
    if (const Type *t = std::get_if<Type>(a))
      ctx.set_result(0, Type::Optional(*t));
  } else if (!ctx.operand_type(0).is_none()) {
    ctx.set_result(0, Type::Optional(ctx.operand_type(0)));
  }
  return OkStatus();
}
Status EvaluateOptional(EvalContext &ctx) {
  ctx.set_result(0, ctx.has_operand(0) ? ctx.operand_value(0) : EvalValue());
  return OkStatus();
}
Status InferOptionalHasElement(InferContext &ctx) {
  SetTensor(ctx, 0, DType::Bool, Shape());
  return OkStatus();
}
Status EvaluateOptionalHasElement(EvalContext &ctx) {
  const uint8_t has = ctx.has_operand(0);
  ctx.set_result(0, Tensor::Of<uint8_t>(DType::Bool, {}, has));
  return OkStatus();
}
Status InferOptionalGetElement(InferContext &ctx) {
  const Type &t = ctx.operand_type(0);
  ctx.set_result(0, t.kind() == Type::Kind::Optional ? t.element() : t);
  return OkStatus();
}
Status EvaluateOptionalGetElement(EvalContext &ctx) {
  if (!ctx.has_operand(0))
    return Error("E0703", "an empty optional has no element");
  ctx.set_result(0, ctx.operand_value(0));
  return OkStatus();
}

constexpr uint32_t kMoves = kPure | kNoFloatWiden;

OpDef Sequence(std::string_view name, int min, int max, std::vector<AttrSpec> attrs, Status (*infer)(InferContext &),
               Status (*evaluate)(EvalContext &), std::string_view doc) {
  OpDef op;
  op.name = name;
  op.since_version = 11;
  op.min_operands = min;
  op.max_operands = max;
  op.attrs = std::move(attrs);
  op.traits = kMoves;
  op.infer = infer;
  op.evaluate = evaluate;
  op.doc = doc;
  return op;
}

} // namespace

OpDef SequenceConstructDef() {
  return Sequence("SequenceConstruct", 1, -1, {}, InferSequenceConstruct, EvaluateSequenceConstruct,
                  "A sequence of the operands.");
}
OpDef SequenceEmptyDef() {
  OpDef op = Sequence("SequenceEmpty", 0, 0, {IntAttr("dtype")}, InferSequenceEmpty, EvaluateSequenceEmpty,
                      "A sequence without elements.");
  op.verify = VerifySequenceEmpty;
  return op;
}
OpDef SequenceAtDef() {
  return Sequence("SequenceAt", 2, 2, {}, InferSequenceAt, EvaluateSequenceAt, "The element at a position.");
}
OpDef SequenceInsertDef() {
  return Sequence("SequenceInsert", 2, 3, {}, InferSequenceInsert, EvaluateSequenceInsert,
                  "The sequence with an element put in (at the end by default).");
}
OpDef SequenceEraseDef() {
  return Sequence("SequenceErase", 1, 2, {}, InferSameSequence, EvaluateSequenceErase,
                  "The sequence without an element (the last by default).");
}
OpDef SequenceLengthDef() {
  return Sequence("SequenceLength", 1, 1, {}, InferSequenceLength, EvaluateSequenceLength,
                  "The number of elements as int64.");
}
OpDef SplitToSequenceDef() {
  return Sequence("SplitToSequence", 1, 2, {IntAttr("axis"), IntAttr("keepdims")}, InferSplitToSequence,
                  EvaluateSplitToSequence, "Parts of a tensor along an axis.");
}
OpDef ConcatFromSequenceDef() {
  return Sequence("ConcatFromSequence", 1, 1, {IntAttr("axis", true), IntAttr("new_axis")}, InferConcatFromSequence,
                  EvaluateConcatFromSequence, "A sequence's tensors joined along an axis, or stacked.");
}
OpDef SequenceMapDef() {
  OpDef op = Sequence("SequenceMap", 1, -1, {{"body", AttrKind::Graph, true}}, InferSequenceMap, EvaluateSequenceMap,
                      "A body applied to each element.");
  op.max_results = -1;
  op.verify = VerifySequenceMap;
  return op;
}
OpDef OptionalDef() {
  return Sequence("Optional", 0, 1, {{"type", AttrKind::Type}}, InferOptional, EvaluateOptional,
                  "An optional that holds the operand, or nothing.");
}
OpDef OptionalHasElementDef() {
  return Sequence("OptionalHasElement", 0, 1, {}, InferOptionalHasElement, EvaluateOptionalHasElement,
                  "Whether the optional holds something.");
}
OpDef OptionalGetElementDef() {
  return Sequence("OptionalGetElement", 1, 1, {}, InferOptionalGetElement, EvaluateOptionalGetElement,
                  "What the optional holds.");
}

} // namespace npuc::ops
