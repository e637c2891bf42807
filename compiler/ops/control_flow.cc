// If, Loop, Scan: operators with bodies. The bodies run through EvalContext::RunBody; what they capture is the
// context's business.
//
// Inference of a loop: the states' types enter the body, what comes out is compared with what went in, extents that
// differ become unknown (rank that differs: unranked), until nothing changes; at most one round a dim. A branch of If
// that does not fit (exporters leave such dead branches for other ranks) only makes the result unknown: the one that
// runs reports its errors then.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

// What holds for both types.
Type Widen(const Type &a, const Type &b) {
  if (a.is_none() || b.is_none() || a.kind() != b.kind())
    return Type();
  if (a.kind() == Type::Kind::Sequence)
    return Type::Sequence(Widen(a.element(), b.element()));
  if (a.kind() == Type::Kind::Optional)
    return Type::Optional(Widen(a.element(), b.element()));
  if (!a.is_tensor())
    return a;
  Type t = Type::Tensor(a.dtype() == b.dtype() ? a.dtype() : DType::Undefined, a.shape());
  if (!a.shape().ranked() || !b.shape().ranked() || a.shape().rank() != b.shape().rank()) {
    t.set_shape(Shape::Unranked());
    return t;
  }
  for (int i = 0; i < a.shape().rank(); ++i)
    if (!(a.shape()[i] == b.shape()[i]))
      t.shape()[i] = Dim::Unknown();
  return t;
}

// Equality in which the unknown dim equals itself.
bool Same(const Type &a, const Type &b) {
  return a.ToString() == b.ToString();
}

StatusOr<bool> Truth(const EvalValue &v, std::string_view what) {
  const Tensor *t = v.tensor();
  if (!t || t->dtype() != DType::Bool || t->num_elements() != 1)
    return Error("E0703", fmt::format("{} is not one bool", what));
  return t->AsInt(0) != 0;
}

Tensor BoolScalar(bool b) {
  const uint8_t v = b;
  return Tensor::Of<uint8_t>(DType::Bool, {}, v);
}

Status InferIf(InferContext &ctx) {
  const int results = ctx.num_results();
  std::vector<Type> types[2];
  Status status[2];
  for (int b = 0; b < 2; ++b) {
    status[b] = ctx.InferBody(b, {}, &types[b]);
    if (status[b].ok() && static_cast<int>(types[b].size()) < results)
      return AttrError(
          fmt::format("the {} branch has {} outputs, the node {}", b ? "else" : "then", types[b].size(), results));
  }
  if (const Tensor *c = ctx.constant(0); c && c->dtype() == DType::Bool && c->num_elements() == 1) {
    const int taken = c->AsInt(0) ? 0 : 1;
    NPUC_RETURN_IF_ERROR(status[taken]);
    for (int i = 0; i < results; ++i)
      ctx.set_result(i, types[taken][i]);
    return OkStatus();
  }
  if (!status[0].ok() && !status[1].ok())
    return status[0];
  for (int i = 0; i < results; ++i)
    if (status[0].ok() && status[1].ok())
      ctx.set_result(i, Widen(types[0][i], types[1][i]));
  return OkStatus();
}
Status EvaluateIf(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(bool c, Truth(ctx.operand_value(0), "the condition"));
  NPUC_ASSIGN_OR_RETURN(auto values, ctx.RunBody(c ? 0 : 1, {}));
  for (int i = 0; i < ctx.num_results() && i < static_cast<int>(values.size()); ++i)
    ctx.set_result(i, std::move(values[i]));
  return OkStatus();
}
Status VerifyIf(const Node &n) {
  for (unsigned b = 0; b < n.num_bodies(); ++b) {
    if (n.body(b)->num_inputs())
      return AttrError("a branch of If has inputs");
    if (n.body(b)->num_outputs() != n.num_results())
      return AttrError(fmt::format("the {} branch has {} outputs, the node {}", b ? "else" : "then",
                                   n.body(b)->num_outputs(), n.num_results()));
  }
  return OkStatus();
}

// The body goes round at least once a state dim; more rounds mean a type that never settles.
constexpr int kMaxRounds = 40;

// Types of the body's outputs with the states' settled. states: in/out; first: index of the states among inputs and
// outputs.
Status Settle(InferContext &ctx, std::vector<Type> inputs, size_t first_in, size_t first_out, size_t states,
              std::vector<Type> *outputs) {
  for (int round = 0;; ++round) {
    NPUC_RETURN_IF_ERROR(ctx.InferBody(0, inputs, outputs));
    if (outputs->size() < first_out + states)
      return AttrError(fmt::format("the body has {} outputs for {} states", outputs->size(), states));
    bool changed = false;
    for (size_t i = 0; i < states; ++i) {
      Type &in = inputs[first_in + i];
      if (in.is_none())
        continue;
      Type wide = round < kMaxRounds ? Widen(in, (*outputs)[first_out + i]) : Type();
      if (wide.is_none())
        wide = in.is_tensor() ? Type::Tensor(in.dtype(), Shape::Unranked()) : in;
      if (Same(wide, in))
        continue;
      in = wide;
      changed = true;
    }
    if (!changed) {
      // A state may change its kind (an absent optional becomes a sequence): what the body makes is what comes out.
      for (size_t i = 0; i < states; ++i)
        if (inputs[first_in + i].kind() == (*outputs)[first_out + i].kind())
          (*outputs)[first_out + i] = inputs[first_in + i];
      return OkStatus();
    }
    if (round > 2 * kMaxRounds)
      return absl::InternalError("loop types do not settle");
  }
}

// Element type with a new leading (or other) axis of extent n.
Type Stacked(const Type &element, Dim n, int64_t axis = 0) {
  if (!element.is_tensor())
    return Type();
  Shape s = Shape::Unranked();
  if (element.shape().ranked()) {
    const int rank = element.shape().rank() + 1;
    if (axis < 0)
      axis += rank;
    s = Shape();
    for (int i = 0, k = 0; i < rank; ++i)
      s.push_back(i == axis ? n : element.shape()[k++]);
  }
  return Type::Tensor(element.dtype(), s);
}

StatusOr<Tensor> Stack(const std::vector<Tensor> &parts, int64_t axis, bool reverse, const Type &element) {
  if (parts.empty()) {
    // No turn was made: the body's declared element shape, unknown extents 0.
    Dims dims;
    if (element.is_tensor() && element.shape().ranked())
      for (const Dim &d : element.shape().dims())
        dims.push_back(d.is_static() ? d.value() : 0);
    if (axis < 0)
      axis += static_cast<int64_t>(dims.size()) + 1;
    dims.insert(dims.begin() + std::clamp<int64_t>(axis, 0, static_cast<int64_t>(dims.size())), 0);
    return Tensor::Allocate(element.is_tensor() && element.dtype() != DType::Undefined ? element.dtype() : DType::F32,
                            dims);
  }
  const Tensor &one = parts[0];
  if (axis < 0)
    axis += one.rank() + 1;
  if (axis < 0 || axis > one.rank())
    return AttrError(fmt::format("output axis {} of elements of rank {}", axis, one.rank()));
  Dims dims(one.dims());
  dims.insert(dims.begin() + axis, static_cast<int64_t>(parts.size()));
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(one.dtype(), dims));
  const int64_t outer = NumElements(one.dims().take_front(axis)), inner = NumElements(one.dims().drop_front(axis));
  for (size_t p = 0; p < parts.size(); ++p) {
    const Tensor part = parts[reverse ? parts.size() - 1 - p : p].Expand();
    if (part.dims() != one.dims() || part.dtype() != one.dtype())
      return ShapeError(
          fmt::format("turns gave {} and {}: they cannot be stacked", ToString(one.dims()), ToString(part.dims())));
    for (int64_t o = 0; o < outer; ++o)
      out.Copy((o * static_cast<int64_t>(parts.size()) + static_cast<int64_t>(p)) * inner, part, o * inner, inner);
  }
  return out.Finish();
}

Status VerifyLoop(const Node &n) {
  const unsigned states = n.num_operands() > 2 ? n.num_operands() - 2 : 0;
  if (n.num_bodies() != 1)
    return AttrError("Loop has one body");
  if (n.body(0)->num_inputs() != states + 2)
    return AttrError(
        fmt::format("the body has {} inputs; with {} states it takes {}", n.body(0)->num_inputs(), states, states + 2));
  if (n.body(0)->num_outputs() < states + 1 || n.body(0)->num_outputs() - 1 < n.num_results())
    return AttrError(fmt::format("the body has {} outputs; the node has {} states and {} outputs",
                                 n.body(0)->num_outputs(), states, n.num_results()));
  return OkStatus();
}

// The number of turns when the condition can never end the loop early.
Dim TripCount(InferContext &ctx) {
  const Tensor *m = ctx.constant(0);
  if (!m || m->num_elements() != 1)
    return Dim::Unknown();
  if (ctx.has_operand(1)) {
    const Tensor *c = ctx.constant(1);
    if (!c || c->num_elements() != 1 || !c->AsInt(0))
      return Dim::Unknown();
  }
  const Graph &body = *ctx.node().body(0);
  const Value *go_on = body.output(0);
  while (go_on->def() && go_on->def()->Is("Identity"))
    go_on = go_on->def()->operand(0);
  if (const Tensor *c = go_on->constant()) {
    if (c->num_elements() != 1 || !c->AsInt(0))
      return Dim::Unknown();
  } else if (go_on != body.input(1)) {
    return Dim::Unknown();
  }
  return Dim(std::max<int64_t>(m->AsInt(0), 0));
}

Status InferLoop(InferContext &ctx) {
  const size_t states = ctx.num_operands() > 2 ? ctx.num_operands() - 2 : 0;
  std::vector<Type> inputs{Type::Tensor(DType::I64, Shape()), Type::Tensor(DType::Bool, Shape())}, outputs;
  for (size_t i = 0; i < states; ++i)
    inputs.push_back(ctx.operand_type(static_cast<int>(i) + 2));
  NPUC_RETURN_IF_ERROR(Settle(ctx, std::move(inputs), 2, 1, states, &outputs));
  const Dim turns = TripCount(ctx);
  for (int i = 0; i < ctx.num_results(); ++i)
    ctx.set_result(i, static_cast<size_t>(i) < states ? outputs[1 + i] : Stacked(outputs[1 + i], turns));
  return OkStatus();
}
Status EvaluateLoop(EvalContext &ctx) {
  int64_t limit = INT64_MAX;
  if (ctx.has_operand(0)) {
    if (ctx.operand(0).num_elements() != 1)
      return Error("E0703", "the trip count is not one number");
    limit = ctx.operand(0).AsInt(0);
  }
  bool go_on = true;
  if (ctx.has_operand(1)) {
    NPUC_ASSIGN_OR_RETURN(go_on, Truth(ctx.operand_value(1), "the condition"));
  }
  std::vector<EvalValue> states;
  for (int i = 2; i < ctx.num_operands(); ++i)
    states.push_back(ctx.operand_value(i));
  const Graph &body = *ctx.node().body(0);
  const size_t scans = body.num_outputs() - 1 - states.size();
  std::vector<std::vector<Tensor>> parts(scans);
  for (int64_t turn = 0; turn < limit && go_on; ++turn) {
    std::vector<EvalValue> inputs{Tensor::ScalarI64(turn), BoolScalar(true)};
    for (EvalValue &s : states)
      inputs.push_back(std::move(s));
    NPUC_ASSIGN_OR_RETURN(auto outputs, ctx.RunBody(0, std::move(inputs)));
    NPUC_ASSIGN_OR_RETURN(go_on, Truth(outputs[0], "the body's condition"));
    for (size_t i = 0; i < states.size(); ++i)
      states[i] = std::move(outputs[1 + i]);
    for (size_t k = 0; k < scans; ++k) {
      const Tensor *t = outputs[1 + states.size() + k].tensor();
      if (!t)
        return Error("E0703", "a loop's scan output is not a tensor");
      parts[k].push_back(*t);
    }
  }
  const int first = static_cast<int>(states.size());
  for (int i = 0; i < first; ++i)
    ctx.set_result(i, std::move(states[i]));
  for (size_t k = 0; k < scans; ++k) {
    NPUC_ASSIGN_OR_RETURN(Tensor all, Stack(parts[k], 0, false, body.output(1 + first + static_cast<int>(k))->type()));
    ctx.set_result(first + static_cast<int>(k), std::move(all));
  }
  return OkStatus();
}

struct ScanShape {
  int scans, states; // inputs
  int outs;          // scan outputs
  explicit ScanShape(const Node &n)
      : scans(static_cast<int>(n.attrs().Int("num_scan_inputs", 0))),
        states(static_cast<int>(n.num_operands()) - scans), outs(static_cast<int>(n.body(0)->num_outputs()) - states) {}
};
int64_t Entry(const AttributeList &attrs, std::string_view name, int i) {
  const auto v = attrs.Ints(name);
  return i < static_cast<int>(v.size()) ? v[i] : 0;
}

Status VerifyScan(const Node &n) {
  if (n.num_bodies() != 1)
    return AttrError("Scan has one body");
  const int64_t scans = n.attrs().Int("num_scan_inputs", 0);
  if (scans < 1 || scans > static_cast<int64_t>(n.num_operands()))
    return AttrError(fmt::format("num_scan_inputs is {} of {} inputs", scans, n.num_operands()));
  const ScanShape s(n);
  if (n.body(0)->num_inputs() != n.num_operands())
    return AttrError(fmt::format("the body has {} inputs, the node {}", n.body(0)->num_inputs(), n.num_operands()));
  if (s.outs < 0 || n.num_results() > n.body(0)->num_outputs())
    return AttrError(fmt::format("the body has {} outputs, the node {} with {} states", n.body(0)->num_outputs(),
                                 n.num_results(), s.states));
  return OkStatus();
}
Status InferScan(InferContext &ctx) {
  const ScanShape s(ctx.node());
  std::vector<Type> inputs, outputs;
  Dim turns = Dim::Unknown();
  for (int i = 0; i < s.states; ++i)
    inputs.push_back(ctx.operand_type(i));
  for (int k = 0; k < s.scans; ++k) {
    const Shape shape = ShapeOf(ctx, s.states + k);
    if (!shape.ranked()) {
      inputs.push_back(Type::Tensor(DTypeOfOperand(ctx, s.states + k), Shape::Unranked()));
      continue;
    }
    NPUC_ASSIGN_OR_RETURN(int axis,
                          NormalizeAxis(Entry(ctx.attrs(), "scan_input_axes", k), shape.rank(), "scan_input_axes"));
    Shape element;
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis)
        element.push_back(shape[i]);
    NPUC_ASSIGN_OR_RETURN(turns, MergeDim(turns, shape[axis], "the sequence length of Scan"));
    inputs.push_back(Type::Tensor(DTypeOfOperand(ctx, s.states + k), element));
  }
  NPUC_RETURN_IF_ERROR(Settle(ctx, std::move(inputs), 0, 0, s.states, &outputs));
  for (int i = 0; i < ctx.num_results(); ++i)
    ctx.set_result(i, i < s.states ? outputs[i]
                                   : Stacked(outputs[i], turns, Entry(ctx.attrs(), "scan_output_axes", i - s.states)));
  return OkStatus();
}
Status EvaluateScan(EvalContext &ctx) {
  const ScanShape s(ctx.node());
  std::vector<EvalValue> states;
  for (int i = 0; i < s.states; ++i)
    states.push_back(ctx.operand_value(i));
  int64_t turns = -1;
  std::vector<int> axes;
  for (int k = 0; k < s.scans; ++k) {
    const Tensor &x = ctx.operand(s.states + k);
    NPUC_ASSIGN_OR_RETURN(int axis,
                          NormalizeAxis(Entry(ctx.attrs(), "scan_input_axes", k), x.rank(), "scan_input_axes"));
    axes.push_back(axis);
    if (turns >= 0 && x.dims()[axis] != turns)
      return ShapeError(fmt::format("scanned inputs of length {} and {}", turns, x.dims()[axis]));
    turns = x.dims()[axis];
  }
  std::vector<std::vector<Tensor>> parts(s.outs);
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::vector<EvalValue> inputs = std::move(states);
    states.clear();
    for (int k = 0; k < s.scans; ++k) {
      const Tensor &x = ctx.operand(s.states + k);
      const int64_t at = Entry(ctx.attrs(), "scan_input_directions", k) ? turns - 1 - turn : turn;
      Dims dims(x.dims()), strides = RowMajorStrides(x.dims());
      const int64_t base = at * strides[axes[k]];
      dims.erase(dims.begin() + axes[k]);
      strides.erase(strides.begin() + axes[k]);
      NPUC_ASSIGN_OR_RETURN(Tensor element, Materialize(x, dims, strides, base));
      inputs.emplace_back(std::move(element));
    }
    NPUC_ASSIGN_OR_RETURN(auto outputs, ctx.RunBody(0, std::move(inputs)));
    for (int i = 0; i < s.states; ++i)
      states.push_back(std::move(outputs[i]));
    for (int k = 0; k < s.outs; ++k) {
      const Tensor *t = outputs[s.states + k].tensor();
      if (!t)
        return Error("E0703", "a scan output is not a tensor");
      parts[k].push_back(*t);
    }
  }
  for (int i = 0; i < s.states; ++i)
    ctx.set_result(i, std::move(states[i]));
  for (int k = 0; k < s.outs; ++k) {
    NPUC_ASSIGN_OR_RETURN(Tensor all, Stack(parts[k], Entry(ctx.attrs(), "scan_output_axes", k),
                                            Entry(ctx.attrs(), "scan_output_directions", k) != 0,
                                            ctx.node().body(0)->output(s.states + k)->type()));
    ctx.set_result(s.states + k, std::move(all));
  }
  return OkStatus();
}

} // namespace

OpDef IfDef() {
  return {.domain = "",
          .name = "If",
          .since_version = 16,
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 1,
          .max_results = -1,
          .attrs = {{"then_branch", AttrKind::Graph, true}, {"else_branch", AttrKind::Graph, true}},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyIf,
          .infer = InferIf,
          .evaluate = EvaluateIf,
          .doc = "One of two bodies, by a condition."};
}

OpDef LoopDef() {
  return {.domain = "",
          .name = "Loop",
          .since_version = 16,
          .min_operands = 0 /* trip count and condition are optional */,
          .max_operands = -1,
          .min_results = 1,
          .max_results = -1,
          .attrs = {{"body", AttrKind::Graph, true}},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyLoop,
          .infer = InferLoop,
          .evaluate = EvaluateLoop,
          .doc =
              "A body repeated up to a trip count while a condition holds; states go round, scan outputs are stacked."};
}

OpDef ScanDef() {
  return {.domain = "",
          .name = "Scan",
          .since_version = 16,
          .min_operands = 1,
          .max_operands = -1,
          .min_results = 1,
          .max_results = -1,
          .attrs = {{"body", AttrKind::Graph, true},
                    IntAttr("num_scan_inputs", true),
                    IntsAttr("scan_input_axes"),
                    IntsAttr("scan_input_directions"),
                    IntsAttr("scan_output_axes"),
                    IntsAttr("scan_output_directions")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyScan,
          .infer = InferScan,
          .evaluate = EvaluateScan,
          .doc = "A body applied to the slices of its inputs along an axis; states go round, outputs are stacked."};
}

} // namespace npuc::ops
