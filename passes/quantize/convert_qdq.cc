// Dequantize - operator - Quantize becomes the operator on quantised types.
//
//   %xf = Dequantize(%x); %wf = Dequantize(const w); %yf = Conv(%xf, %wf); %y = Quantize(%yf)   ->   %y: u8{..} =
//   Conv(%x, w)
//   ... Relu(%yf) in between: dropped when the clamp of the result type does it (zero point = least integer), else an
//   output stage:
//         npuc::Fused { Conv -> f32; Relu; Quantize }
//   %yf = Add(Dequantize(%a), Dequantize(%b)); Quantize(%yf)                                   ->   Add(%a, %b) on
//   integers
//   %y = Conv(Dequantize(%x), Dequantize(const w)); no Quantize reads %y                       ->   npuc::Fused { Conv
//   -> f32; Cast f16 }, Cast f32 behind it
//   Dequantize -> Reshape / Transpose / MaxPool / Concat of equals ... -> anything             ->   the move
//   on integers, Dequantize behind it Quantize(Dequantize(%x)) ->   %x, or npuc::Requantize
//
// Exactness: an operator becomes an integer one only when every float operand comes from a Dequantize (or is a constant
// that integers represent exactly, or a bias), and its result goes to Quantize nodes of one type only. A float value
// with another reader, or that is a graph output, is wanted as it is: the operator stays a float one there. An
// activation is dropped only where quantise(f(x)) = quantise(x) for every x, that is where the bounds of f quantise to
// the ends of the integer type. Bias: i32 in units of sx*sw[c] (the accumulator's). One that was quantised so keeps its
// integers; others are rounded to it, unless they don't fit 32 bits: then the operator stays float.
//
// Left alone: what NpuOps refuses on integers (its float form may run, or the host computes what ONNX says),
// per-channel activations, weights whose channel axis isn't the operator's, Gemm with alpha or beta, dynamic
// quantisation. Origins: Q and DQ that vanish leave none; the integer operator has those of the operator and of
// absorbed activations. The quantised result carries the name of Q's result.
//
// Cost: one sweep; a bounded number of steps a node.
#include <cmath>
#include <limits>

#include "passes/fuse/output_stage.h"
#include "passes/quantize/quant_rewrite.h"
#include "llvm/ADT/DenseSet.h"

namespace npuc {
namespace {

// The typed integers behind a Dequantize; null else.
Value *Source(const Value *v) {
  const Node *d = DefinedBy(v, "Dequantize", "npuc");
  return d ? d->operand(0) : nullptr;
}
bool PerTensor(const Value *v) {
  return v->type().quant()->per_tensor();
}

// Quantize nodes of one result type that are all the users of v; empty when there are others.
llvm::SmallVector<Node *, 2> OnlyQuantizes(const Value *v) {
  llvm::SmallVector<Node *, 2> r;
  if (v->is_graph_output() || !v->has_uses())
    return r;
  for (const Use &u : v->uses()) {
    if (!IsNpucOp(*u.user, "Quantize") || u.user->graph() != v->graph())
      return {};
    if (!r.empty() && !(r[0]->result()->type() == u.user->result()->type()))
      return {};
    r.push_back(u.user);
  }
  // uses() has no order: the earliest in the graph comes first.
  for (size_t i = 1; i < r.size(); ++i)
    if (r[i]->result()->name() < r[0]->result()->name())
      std::swap(r[0], r[i]);
  return r;
}

class Converter {
public:
  explicit Converter(PassContext &ctx) : ctx_(ctx) {}

  bool Run(Graph &g) {
    for (Node &n : g.nodes_early_inc()) {
      if (n.is_return() || n.is_constant() || IsNpucOp(n, "Fused") || !AnyUsed(n))
        continue;
      for (unsigned i = 0; i < n.num_bodies(); ++i)
        Run(*n.body(i));
      if (IsNpucOp(n, "Quantize")) {
        changed_ |= Requantize(n);
      } else if (n.op().domain.empty()) {
        changed_ |= Sink(n) || Index(n) || Form(n);
      }
    }
    return changed_;
  }

private:
  bool Requantize(Node &n) {
    Value *const t = Source(n.operand(0));
    if (!t || !PerTensor(t))
      return false;
    Value *with = t;
    if (t->type().dtype() != n.result()->type().dtype() || !SameQuant(t->type().quant(), n.result()->type().quant())) {
      if (t->constant())
        return false; // folded instead
      Rewriter rw(&n);
      Node *r = rw.Create("Requantize", {t}, n.origin(), {n.result()->type()}, {}, "npuc");
      if (!Runs(*r)) {
        r->Erase();
        return false;
      }
      with = r->result();
      rw.ReplaceNode(&n, {with});
      return true;
    }
    if (sunk_.contains(with)) { // it has no name of its own
      TakeName(*n.result(), *with);
      sunk_.erase(with);
    }
    Rewriter(&n).ReplaceNode(&n, {with});
    return true;
  }

  // The greatest of dequantised numbers stands where the greatest code does.
  bool Index(Node &n) {
    if (!IsOneOf(n, {"ArgMax", "ArgMin"}))
      return false;
    Value *const t = Source(n.operand(0));
    if (!t || !PerTensor(t) || t->constant() || !(t->type().quant()->scale() > 0))
      return false;
    Rewriter rw(&n);
    Node *made = rw.Create(&n.op(), {t}, n.origin(), {n.result()->type()}, n.attrs());
    if (HasStaticShape(n.result()) && !Runs(*made)) {
      made->Erase();
      return false;
    }
    rw.ReplaceNode(&n, {made->result()});
    return true;
  }

  // The NPU takes the node; without an NPU (plain rewriting) everything goes.
  bool Runs(const Node &n) const {
    if (!ctx_.npu)
      return true;
    return ctx_.npu->Check(n, CheckContext{ctx_.target}).empty();
  }

  static bool AnyUsed(const Node &n) {
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (n.result(i)->has_uses())
        return true;
    return false;
  }

  // Dequantize moves behind operators that only move elements.
  bool Sink(Node &n) {
    const bool pad = n.Is("Pad") && n.attrs().String("mode", "constant") == "constant";
    if (!pad && !PassesQuantThrough(n))
      return false;
    QuantRef quant;
    llvm::SmallVector<Value *, 4> operands(n.operands().begin(), n.operands().end());
    DType dtype = DType::Undefined;
    bool per_axis = false;
    for (unsigned i : DataOperands(n)) {
      Value *const t = Source(n.operand(i));
      if (!t)
        return false;
      if (quant && (!SameQuant(quant, t->type().quant()) || t->type().dtype() != dtype))
        return false;
      quant = t->type().quant();
      dtype = t->type().dtype();
      per_axis |= !quant->per_tensor();
      operands[i] = t;
    }
    if (!quant)
      return false;
    if (per_axis) {
      if (!n.Is("Transpose") || !operands[0]->constant())
        return false;
      const auto perm = n.attrs().Ints("perm");
      auto moved = std::make_shared<QuantParams>(*quant);
      const int rank = operands[0]->type().shape().rank();
      moved->axis = -1;
      for (int i = 0; i < rank; ++i)
        if ((perm.empty() ? rank - 1 - i : perm[i]) == quant->axis)
          moved->axis = i;
      if (moved->axis < 0)
        return false;
      quant = moved;
    }
    if (dtype == DType::I32)
      return false; // a bias
    Rewriter rw(&n);
    if (pad) {
      const auto v = n.operand(2) ? ScalarConstant(n.operand(2)) : std::optional<double>(0);
      if (!v || std::isnan(*v))
        return false;
      const float value = static_cast<float>(*v);
      int64_t code;
      if (std::isinf(value)) {
        return false;
      } else {
        code = QuantizeScalar(value, quant->scale(), quant->zero_point(), dtype);
        if (static_cast<float>(code - quant->zero_point()) * quant->scale() != value)
          return false;
      }
      operands.resize(std::max<size_t>(operands.size(), 3), nullptr);
      operands[2] = rw.Constant(ScalarCode(dtype, code), "", quant);
    }
    llvm::SmallVector<Type, 2> types;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      Type t = n.result(i)->type();
      if (!t.is_tensor() || !IsFloat(t.dtype()))
        return false;
      t.set_dtype(dtype);
      t.set_quant(quant);
      types.push_back(t);
    }
    Node *made = rw.Create(&n.op(), operands, n.origin(), types, n.attrs());
    if (!operands[0]->constant() && HasStaticShape(n.result()) && !Runs(*made)) {
      made->Erase();
      return false;
    }
    llvm::SmallVector<Value *, 2> with;
    for (unsigned i = 0; i < n.num_results(); ++i)
      sunk_.insert(made->result(i));
    for (unsigned i = 0; i < n.num_results(); ++i)
      with.push_back(rw.Create("Dequantize", {made->result(i)}, {}, {n.result(i)->type()}, {}, "npuc")->result());
    rw.ReplaceNode(&n, with);
    return true;
  }

  static Tensor ScalarCode(DType t, int64_t code) {
    Tensor c = Tensor::Allocate(t, {});
    std::memcpy(c.mutable_bytes(), &code, ByteSize(t)); // little-endian
    return c;
  }

  // A scalar float constant c as one integer: +-1 in units of |c|, or 0.
  Value *ExactScalar(const Value *v, DType like, Rewriter &rw) {
    const Tensor *t = v->constant();
    if (!t || t->num_elements() != 1 || (like != DType::I8 && like != DType::U8 && like != DType::I16))
      return nullptr;
    const float c = static_cast<float>(t->AsDouble(0));
    if (!std::isfinite(c))
      return nullptr;
    const float scale = c == 0 ? 1.0f : std::abs(c);
    const int32_t zero = like == DType::U8 && c < 0 ? 1 : 0;
    const int64_t code = c == 0 ? 0 : c > 0 ? 1 : zero - 1;
    return rw.Constant(ScalarCode(like, code).Reshaped(t->dims()), "", PerTensorQuant(scale, zero));
  }

  // bias in units of sx*sw[c], i32; null when it can't be.
  Value *IntegerBias(const Value *bias, const Value *x, const Value *w, int64_t channels, Rewriter &rw, bool *fits) {
    *fits = true;
    if (!bias)
      return nullptr;
    const QuantParams &qx = *x->type().quant();
    const QuantParams &qw = *w->type().quant();
    auto unit = [&](int64_t c) { return qx.scale() * qw.scale(c); };
    *fits = false;
    const Value *typed = Source(bias);
    const Tensor *t = typed ? typed->constant() : bias->constant();
    if (!t || (t->num_elements() != channels && t->num_elements() != 1))
      return nullptr;
    std::vector<int32_t> codes(channels);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = t->num_elements() == 1 ? 0 : c;
      if (typed) {
        const QuantParams &q = *typed->type().quant();
        const float s = q.scale(i), u = unit(c);
        if (typed->type().dtype() == DType::I32 && q.zero_point(i) == 0 && std::abs(s - u) <= 1e-6f * u) {
          codes[c] = static_cast<int32_t>(t->AsInt(i));
          continue;
        }
      }
      const double real = typed ? static_cast<double>(t->AsInt(i) - typed->type().quant()->zero_point(i)) *
                                      typed->type().quant()->scale(i)
                                : t->AsDouble(i);
      const double code = std::nearbyint(real / unit(c));
      if (!(std::abs(code) <= 2147483647.0))
        return nullptr;
      codes[c] = static_cast<int32_t>(code);
    }
    *fits = true;
    return rw.Constant(Tensor::Of<int32_t>(DType::I32, {channels}, codes), (typed ? typed : bias)->name() + "_i32");
  }

  // The integer operands of n; empty when one can't be had.
  llvm::SmallVector<Value *, 4> IntegerOperands(Node &n, Rewriter &rw, DType like) {
    llvm::SmallVector<Value *, 4> r;
    if (IsMatrixOp(n)) {
      Value *const x = Source(n.operand(0)), *const w = Source(n.operand(1));
      if (!x || !w || !PerTensor(x) || x->constant() || !w->type().is_static_tensor())
        return {};
      if (!PerTensor(w) && (!w->constant() || w->type().quant()->axis != WeightChannelAxis(n)))
        return {};
      if (!PerTensor(w) && n.Is("ConvTranspose") && n.attrs().Int("group", 1) != 1)
        return {};
      if (n.Is("Gemm") && (n.attrs().Float("alpha", 1) != 1 || (n.operand(2) && n.attrs().Float("beta", 1) != 1)))
        return {};
      r = {x, w};
      if (n.operand(2)) {
        int64_t channels = w->type().shape()[WeightChannelAxis(n)].value();
        if (n.Is("ConvTranspose"))
          channels *= n.attrs().Int("group", 1);
        bool fits;
        Value *bias = IntegerBias(n.operand(2), x, w, channels, rw, &fits);
        if (!fits)
          return {};
        r.push_back(bias);
      }
      return r;
    }
    bool any = false;
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      Value *const v = n.operand(i);
      if (!v) {
        r.push_back(nullptr);
        continue;
      }
      if (!v->type().is_tensor())
        return {};
      if (Value *t = Source(v)) {
        if (!PerTensor(t))
          return {};
        any |= !t->constant();
        r.push_back(t);
        continue;
      }
      if (!IsFloat(v->type().dtype())) { // indices, shapes, conditions
        r.push_back(v);
        continue;
      }
      if (!v->constant())
        return {};
      if (IsQuantParameter(n, i)) {
        r.push_back(v);
        continue;
      }
      Value *exact =
          IsOneOf(n, {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"}) ? ExactScalar(v, like, rw) : nullptr;
      if (!exact)
        return {};
      r.push_back(exact);
    }
    if (!any)
      return {};
    return r;
  }

  bool Form(Node &n) {
    if (!HasIntegerForm(n) || n.num_bodies() != 0)
      return false;
    for (unsigned i = 1; i < n.num_results(); ++i)
      if (n.result(i)->has_uses())
        return false;
    if (!llvm::any_of(n.operands(), [](Value *v) { return v && Source(v); }))
      return false;
    // Through activations that the clamp does, to the Quantize nodes.
    Node *last = &n;
    llvm::SmallVector<Node *, 2> absorbed, quantizes;
    for (;;) {
      quantizes = OnlyQuantizes(last->result());
      if (!quantizes.empty())
        break;
      Node *const act = SoleUser(last->result());
      if (!act || !IsOneOf(*act, {"Relu", "Clip"}) || act->operand(0) != last->result() || absorbed.size() == 4)
        break;
      absorbed.push_back(act);
      last = act;
    }
    if (!ctx_.MayRewrite())
      return false;
    if (quantizes.empty())
      return FormStage(n);
    const Type type = quantizes[0]->result()->type();
    if (!llvm::all_of(absorbed, [&](Node *a) { return AbsorbedByClamp(*a, type); }))
      return FormStage(n);

    Rewriter rw(&n);
    auto operands = IntegerOperands(n, rw, type.dtype());
    if (operands.empty())
      return false;
    if (n.Is("Concat")) // copies after each operand has been brought to the result's parameters
      for (Value *&v : operands) {
        if (SameQuant(v->type().quant(), type.quant()) && v->type().dtype() == type.dtype())
          continue;
        Type t = v->type();
        t.set_dtype(type.dtype());
        t.set_quant(type.quant());
        v = rw.Create("Requantize", {v}, {}, {t}, {}, "npuc")->result();
      }
    Origin origin = n.origin();
    for (Node *a : absorbed)
      origin = MergeOrigins(origin, a->origin());
    Node *made = rw.Create(&n.op(), operands, std::move(origin), {type}, n.attrs());
    if (!Runs(*made)) {
      rw.EraseIfDead(made);
      return FormStage(n);
    }
    // n, the activations and the Quantize nodes stand behind the sweep's place: dead code elimination takes them.
    for (Node *q : quantizes)
      q->result()->ReplaceAllUsesWith(made->result());
    TakeName(*quantizes[0]->result(), *made->result());
    ctx_.Count("fuse: convert-qdq");
    return true;
  }

  // A matrix operator whose float result reaches a Quantize through activations and side operands, or is read as a
  // float alone: an output stage.
  bool FormStage(Node &n) {
    if (!IsMatrixOp(n))
      return false;
    Rewriter rw(&n);
    auto operands = IntegerOperands(n, rw, DType::I8);
    if (operands.empty())
      return false;
    if (!FuseQuantizedStage(n, operands, ctx_) && !FuseFloatStage(n, operands, ctx_)) {
      for (Value *v : operands)
        if (v && v->constant() && !v->has_uses())
          rw.EraseIfDead(v->def());
      return false;
    }
    ctx_.Count("fuse: fuse-output-stage");
    return true;
  }

  PassContext &ctx_;
  llvm::DenseSet<Value *> sunk_; // integers that a moved Dequantize left behind
  bool changed_ = false;
};

} // namespace

StatusOr<bool> ConvertQdq(Module &m, PassContext &ctx) {
  Converter converter(ctx);
  const bool changed = converter.Run(m.main());
  if (changed)
    EraseDeadNodes(m.main());
  return changed;
}

} // namespace npuc
