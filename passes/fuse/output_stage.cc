#include "passes/fuse/output_stage.h"

namespace npuc {
namespace {

Type AsF32(const Type &t) {
  Type r = t;
  r.set_dtype(DType::F32);
  r.set_quant(nullptr);
  return r;
}

bool IsClampOnIntegers(const Node &op) {
  return IsOneOf(op, {"Relu", "Clip"}) && SameQuant(op.operand(0)->type().quant(), op.result()->type().quant()) &&
         op.operand(0)->type().dtype() == op.result()->type().dtype();
}

} // namespace

StageBuilder::StageBuilder(Node &anchor, llvm::ArrayRef<Value *> operands, PassContext &ctx)
    : ctx_(ctx), check_{ctx.target} {
  fused_ = anchor.graph()->AddNode(LookupOp("npuc", "Fused"), {}, 1, {}, &anchor);
  body_ = fused_->AddBody();
  llvm::SmallVector<Value *, 4> inner;
  for (Value *v : operands)
    inner.push_back(v ? Input(v) : nullptr);
  Node *a = body_->AddNode(&anchor.op(), inner, anchor.num_results(), anchor.origin());
  a->attrs() = anchor.attrs();
  const bool own = operands == anchor.operands();
  const Type &t = anchor.result()->type();
  a->result()->set_type(own && t.is_quantized() ? t : AsF32(t));
  current_ = a->result();
  if (current_->type().is_quantized())
    ++stage_ops_;
  origin_ = anchor.origin();
}

StageBuilder::~StageBuilder() {
  if (fused_)
    fused_->Erase();
}

Value *StageBuilder::Input(Value *outer) {
  if (outer->constant() && outer->constant()->num_elements() == 1 && outer->constant()->rank() == 0 &&
      !outer->type().is_quantized())
    return body_->AddConstant(*outer->constant(), outer->name(),
                              body_->nodes().empty() ? nullptr : &body_->nodes().front());
  auto [it, fresh] = inputs_.try_emplace(outer, nullptr);
  if (fresh) {
    it->second = body_->AddInput(outer->name(), outer->type());
    fused_->AddOperand(outer);
  }
  return it->second;
}

std::optional<int> StageBuilder::Cost(const Node &n, unsigned through) const {
  const NpuOp *op = ctx_.npu->Find(n.op());
  // Quantize, Dequantize and Cast need no lowering of their own to stand in a stage.
  if (IsNpucOp(n, "Quantize") || IsNpucOp(n, "Dequantize"))
    return 1;
  return op ? op->StageOps(n, through, check_) : std::nullopt;
}

bool StageBuilder::TooLong(const Node &op) const {
  return IsChainTooLong(origin_, op.origin(), ctx_.options.max_fusion_chain);
}

bool StageBuilder::Append(Node &op, unsigned through, llvm::function_ref<Value *(Value *)> side) {
  const Type &out = op.result()->type();
  if (!out.is_static_tensor() || !current_->type().is_static_tensor() || !(out.shape() == current_->type().shape()))
    return false;
  llvm::SmallVector<Node *, 3> added;
  const unsigned old_inputs = body_->num_inputs();
  Value *const before = current_;
  int cost = 0;
  auto add = [&](const OpDef *def, llvm::ArrayRef<Value *> operands, Type type, Origin origin) {
    Node *n = body_->AddNode(def, operands, 1, std::move(origin));
    n->result()->set_type(std::move(type));
    added.push_back(n);
    current_ = n->result();
    return n;
  };
  auto undo = [&] {
    while (!added.empty())
      added.pop_back_val()->Erase();
    for (unsigned i = body_->num_inputs(); i-- > old_inputs;) {
      inputs_.erase(fused_->operand(i));
      body_->RemoveInput(i);
      fused_->RemoveOperand(i);
    }
    current_ = before;
    return false;
  };

  if (IsNpucOp(op, "Quantize") || IsNpucOp(op, "Dequantize")) {
    const bool q = IsNpucOp(op, "Quantize");
    if (q == current_->type().is_quantized() || (q && !out.quant()->per_tensor()))
      return false;
    add(&op.op(), {current_}, q ? out : AsF32(out), op.origin());
    cost = 1;
  } else if (IsNpucOp(op, "Requantize")) {
    if (!current_->type().is_quantized() || !out.quant()->per_tensor())
      return false;
    add(LookupOp("npuc", "Dequantize"), {current_}, AsF32(out), op.origin());
    add(LookupOp("npuc", "Quantize"), {current_}, out, op.origin());
    cost = 2;
  } else {
    const bool clamp = current_->type().is_quantized() && IsClampOnIntegers(op);
    if (current_->type().is_quantized() && !clamp) {
      if (!out.is_quantized() || !out.quant()->per_tensor())
        return false;
      add(LookupOp("npuc", "Dequantize"), {current_}, AsF32(out), {});
      ++cost;
    }
    llvm::SmallVector<Value *, 3> operands;
    for (unsigned i = 0; i < op.num_operands(); ++i) {
      Value *const v = op.operand(i);
      if (i == through) {
        operands.push_back(current_);
      } else if (!v) {
        operands.push_back(nullptr);
      } else {
        Value *const s = side(v);
        if (!s || s == op.operand(through))
          return undo();
        operands.push_back(Input(s));
      }
    }
    Node *made = add(&op.op(), operands, clamp ? out : AsF32(out), op.origin());
    made->attrs() = op.attrs();
    const auto own = Cost(*made, through);
    if (!own)
      return undo();
    cost += *own;
    if (!clamp && out.is_quantized()) {
      add(LookupOp("npuc", "Quantize"), {current_}, out, {});
      ++cost;
    }
  }
  if (stage_ops_ + cost > ctx_.npu->max_stage_ops())
    return undo();
  if (TooLong(op))
    return undo();
  stage_ops_ += cost;
  ++nodes_;
  origin_ = MergeOrigins(origin_, op.origin());
  return true;
}

Node *StageBuilder::Finish(const Type &type, Node *at) {
  if (!type.is_quantized() && type.dtype() != DType::F32) {
    Node *cast = body_->AddNode(LookupOp("", "Cast"), {current_}, 1, {});
    cast->attrs().Set("to", static_cast<int64_t>(type.dtype()));
    Type t = type;
    t.set_layout(Layout::RowMajor);
    cast->result()->set_type(t);
    current_ = cast->result();
  }
  body_->AddOutput(current_);
  fused_->result()->set_type(type);
  fused_->set_origin(origin_);
  fused_->MoveBefore(at);
  if (!ctx_.npu->Check(*fused_, check_).empty())
    return nullptr; // the destructor takes it away
  Node *done = fused_;
  fused_ = nullptr;
  return done;
}

namespace {

// What a stage of integers reads for a second operand: the integers behind a Dequantize, or a constant.
Value *TypedSide(Value *s) {
  if (s->constant())
    return s;
  const Node *d = DefinedBy(s, "Dequantize", "npuc");
  return d && d->operand(0)->type().quant()->per_tensor() ? d->operand(0) : nullptr;
}

} // namespace

bool FuseQuantizedStage(Node &n, llvm::ArrayRef<Value *> operands, PassContext &ctx) {
  if (!ctx.npu || !ctx.npu->Find(n.op()) || !ctx.npu->Find(n.op())->HasOutputStage())
    return false;
  StageBuilder stage(n, operands, ctx);
  Value *v = n.result();
  for (;;) {
    // Several Quantize nodes of one type are one.
    if (v->is_graph_output() || !v->has_uses())
      return false;
    Node *next = v->uses()[0].user;
    const bool last = IsNpucOp(*next, "Quantize");
    for (const Use &u : v->uses())
      if (u.user != next &&
          !(last && IsNpucOp(*u.user, "Quantize") && u.user->result()->type() == next->result()->type()))
        return false;
    if ((!last && !v->has_one_use()) || next->graph() != n.graph() || next->num_results() != 1)
      return false;
    if (!stage.Append(*next, v->uses()[0].operand, TypedSide))
      return false;
    if (!last) {
      v = next->result();
      continue;
    }
    llvm::SmallVector<Node *, 2> quantizes;
    for (const Use &u : v->uses())
      quantizes.push_back(u.user);
    // The first of them in the graph: all their users stand behind it, and all operands before.
    Node *at = quantizes[0];
    if (quantizes.size() > 1)
      for (Node &m : n.graph()->nodes())
        if (llvm::is_contained(quantizes, &m)) {
          at = &m;
          break;
        }
    const Type type = at->result()->type();
    Node *fused = stage.Finish(type, at);
    if (!fused)
      return false;
    for (Node *q : quantizes)
      q->result()->ReplaceAllUsesWith(fused->result());
    TakeName(*at->result(), *fused->result());
    return true;
  }
}

bool FuseFloatStage(Node &n, llvm::ArrayRef<Value *> operands, PassContext &ctx) {
  if (!ctx.npu || !ctx.target.HasFloat() || !ctx.npu->Find(n.op()) || !ctx.npu->Find(n.op())->HasOutputStage())
    return false;
  StageBuilder stage(n, operands, ctx);
  Node *last = &n;
  // A computed factor for all elements (a scale that is known at run time) is read as it is, in f16 at last.
  auto side = [&](Value *s) -> Value * {
    if (Value *typed = TypedSide(s))
      return typed;
    return HasStaticShape(s) && s->type().shape().num_elements() == 1 && IsFloat(s->type().dtype()) ? s : nullptr;
  };
  for (;;) {
    Node *const next = SoleUser(last->result());
    if (!next || IsNpucOp(*next, "Quantize") || next->num_results() != 1 || DeniedBy(*next, ctx) ||
        !stage.Append(*next, last->result()->uses()[0].operand, side))
      break;
    last = next;
  }
  Value *const result = last->result();
  for (const Use &u : result->uses())
    if (IsNpucOp(*u.user, "Quantize"))
      return false;
  if (!result->has_uses() || !IsFloat(result->type().dtype()))
    return false;
  Type half = result->type();
  half.set_dtype(DType::F16);
  Node *const fused = stage.Finish(half, last);
  if (!fused)
    return false;
  Module &m = n.graph()->module();
  if (result->type().dtype() == DType::F16) {
    TakeName(*result, *fused->result());
    result->ReplaceAllUsesWith(fused->result());
    return true;
  }
  AttributeList attrs;
  attrs.Set("to", static_cast<int64_t>(result->type().dtype()));
  Rewriter rw(last);
  Value *const cast = rw.Create("Cast", {fused->result()}, {}, {result->type()}, std::move(attrs))->result();
  TakeName(*result, *cast);
  m.RenameValue(fused->result(), cast->name() + ".f16");
  result->ReplaceAllUsesWith(cast);
  return true;
}

} // namespace npuc
