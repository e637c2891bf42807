// Gives integer tensors the parameters that ONNX keeps in operands of the operators around them: quantised operators
// become the plain ones on quantised types.
//
//   %q = QuantizeLinear(%x, s, z)                    ->  %q: u8[..]{s,z} = npuc::Quantize(%x)
//   %y = DequantizeLinear(%q, s, z)                  ->  %y: f32 = npuc::Dequantize(%q: u8{s,z})
//   QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)     ->  Conv(x: u8{xs,xz}, w: i8{axis 0, ws, wz}, b: i32): u8{ys,yz}
//   QLinearMatMul, com.microsoft
//   QLinearAdd/Mul/AveragePool/GlobalAveragePool/Sigmoid/LeakyRelu/Softmax/Concat/ReduceMean, QGemm likewise
//
// Where a raw integer tensor is met, npuc::QuantCast types it (a model input, say) or untypes it (for an operator that
// takes the integers as they are); casts that meet cancel. Raw operators that only move elements (Reshape, Concat,
// MaxPool ...) between such casts work on the typed values instead, whether the parameters come from above or from
// below.
//
// Left alone: parameters that aren't constants, blocked quantisation, float8, DynamicQuantizeLinear, ConvInteger,
// MatMulInteger, QLinear* with per-row scales or channels_last. Q and DQ leave no origin where they vanish; the nodes
// that remain (Quantize, Dequantize) keep theirs. Tensors keep their names.
//
// Typed u16 becomes i16, code and zero point less 32768: the same numbers, in the 16 bits that the NPU multiplies. A
// Requantize stands where raw u16 comes in or goes out.
//
// Cost: one sweep forwards and one backwards.
#include "passes/quantize/quant_rewrite.h"

namespace npuc {
namespace {

constexpr std::string_view kMs = "com.microsoft";

class Typer {
public:
  bool Run(Graph &g) {
    for (Node &n : g.nodes_early_inc()) {
      if (n.is_return() || n.is_constant())
        continue;
      for (unsigned i = 0; i < n.num_bodies(); ++i)
        Run(*n.body(i));
      changed_ |= Quantize(n) || Dequantize(n) || QLinear(n) || PassForward(n);
    }
    for (auto it = g.nodes().end(); it != g.nodes().begin();) {
      Node &n = *--it;
      if (Node *made = PassBackward(n)) {
        changed_ = true;
        it = made->getIterator();
      }
    }
    return changed_;
  }

private:
  bool Quantize(Node &n) {
    if (!n.Is("QuantizeLinear") || n.attrs().Int("block_size", 0) != 0)
      return false;
    Type type = n.result()->type();
    if (!IsRawInteger(type) || type.dtype() == DType::I32 || BitWidth(type.dtype()) < 8 ||
        !n.operand(0)->type().is_tensor())
      return false;
    const DType from = n.operand(0)->type().dtype();
    if (from != DType::F32 && from != DType::F16)
      return false;
    const QuantRef q = ReadQuant(n.operand(1), n.operand(2), n.attrs().Int("axis", 1), type);
    if (!q || !q->per_tensor())
      return false;
    type.set_quant(q);
    Rewriter rw(&n);
    Node *made = rw.Create("Quantize", {n.operand(0)}, n.origin(), {type}, {}, "npuc");
    FinishTyped(n, made->result());
    return true;
  }

  bool Dequantize(Node &n) {
    QuantRef q;
    if (!n.Is("DequantizeLinear") || !HasTypedForm(n, &q))
      return false;
    Value *const typed = rewriter_.Typed(n.operand(0), q, &n);
    Rewriter rw(&n);
    Node *made = rw.Create("Dequantize", {typed}, n.origin(), {n.result()->type()}, {}, "npuc");
    rw.ReplaceNode(&n, {made->result()});
    return true;
  }

  // The typed result stands for n's raw one; raw users get a cast.
  void FinishTyped(Node &n, Value *typed) {
    Value *raw = rewriter_.Raw(typed, &n);
    Value *const old = n.result();
    Module &m = n.graph()->module();
    const std::string name = old->name();
    old->ReplaceAllUsesWith(raw);
    m.RenameValue(old, name + ".replaced");
    m.RenameValue(typed, name);
    m.RenameValue(raw, name + ".raw");
    llvm::SmallVector<Value *, 2> none(n.num_results(), nullptr);
    Rewriter(&n).ReplaceNode(&n, none);
  }

  struct Param {
    Value *x;
    Value *scale;
    Value *zero;
    int64_t axis = -1; // of several scales; -1: only one is allowed
  };
  Value *TypedOperand(const Param &p, Node &n) {
    if (!p.x || (!IsRawInteger(p.x->type()) && !TypedSource(p.x)))
      return nullptr;
    const QuantRef q = ReadQuant(p.scale, p.zero, p.axis, p.x->type());
    if (!q || (p.axis < 0 && !q->per_tensor()))
      return nullptr;
    return rewriter_.Typed(p.x, q, &n);
  }
  Type TypedResult(Node &n, Value *scale, Value *zero) {
    Type t = n.result()->type();
    if (!IsRawInteger(t))
      return Type();
    const QuantRef q = ReadQuant(scale, zero, -1, t);
    if (!q || !q->per_tensor())
      return Type();
    t.set_quant(q);
    return t;
  }
  bool Build(Node &n, std::string_view op, llvm::ArrayRef<Value *> operands, Type type, AttributeList attrs) {
    for (Value *v : operands.take_front(1))
      if (!v)
        return false;
    if (type.is_none())
      return false;
    Rewriter rw(&n);
    Node *made = rw.Create(op, operands, n.origin(), {type}, std::move(attrs));
    FinishTyped(n, made->result());
    return true;
  }

  bool QLinear(Node &n) {
    const std::string_view name = n.op().name;
    auto op = [&](unsigned i) { return n.operand(i); };
    if (n.Is("QLinearConv")) {
      Value *x = TypedOperand({op(0), op(1), op(2)}, n);
      Value *w = TypedOperand({op(3), op(4), op(5), 0}, n);
      if (!x || !w)
        return false;
      return Build(n, "Conv", {x, w, op(8)}, TypedResult(n, op(6), op(7)), n.attrs());
    }
    if (name == "QLinearMatMul" && (n.op().domain.empty() || n.op().domain == kMs)) {
      Value *a = TypedOperand({op(0), op(1), op(2)}, n);
      const int rank = op(3)->type().is_tensor() && op(3)->type().shape().ranked() ? op(3)->type().shape().rank() : 0;
      Value *b = rank < 2 ? nullptr : TypedOperand({op(3), op(4), op(5), rank - 1}, n);
      if (!a || !b || (!b->type().quant()->per_tensor() && !b->constant()))
        return false;
      return Build(n, "MatMul", {a, b}, TypedResult(n, op(6), op(7)), {});
    }
    if (n.op().domain != kMs)
      return false;
    if (name == "QLinearAdd" || name == "QLinearMul") {
      Value *a = TypedOperand({op(0), op(1), op(2)}, n);
      Value *b = TypedOperand({op(3), op(4), op(5)}, n);
      if (!a || !b)
        return false;
      return Build(n, name.substr(7), {a, b}, TypedResult(n, op(6), op(7)), {});
    }
    if (name == "QLinearAveragePool" || name == "QLinearGlobalAveragePool") {
      if (n.attrs().Int("channels_last", 0))
        return false;
      AttributeList attrs = n.attrs();
      attrs.Erase("channels_last");
      return Build(n, name.substr(7), {TypedOperand({op(0), op(1), op(2)}, n)}, TypedResult(n, op(3), op(4)),
                   std::move(attrs));
    }
    if (name == "QLinearSigmoid" || name == "QLinearLeakyRelu") {
      return Build(n, name.substr(7), {TypedOperand({op(0), op(1), op(2)}, n)}, TypedResult(n, op(3), op(4)),
                   n.attrs());
    }
    if (name == "QLinearSoftmax") {
      // Before opset 13 Softmax flattened at its axis: the same thing only where nothing but ones stands behind it.
      const Type &t = op(0)->type();
      if (!t.is_static_tensor())
        return false;
      const int rank = t.shape().rank();
      int64_t axis = n.attrs().Int("axis", -1);
      if (axis < 0)
        axis += rank;
      if (axis < 0 || axis >= rank)
        return false;
      if (n.attrs().Int("opset", 13) < 13)
        for (int i = static_cast<int>(axis) + 1; i < rank; ++i)
          if (t.shape()[i].value() != 1)
            return false;
      AttributeList attrs;
      attrs.Set("axis", axis);
      return Build(n, "Softmax", {TypedOperand({op(0), op(1), op(2)}, n)}, TypedResult(n, op(3), op(4)),
                   std::move(attrs));
    }
    if (name == "QLinearReduceMean") {
      const auto axes = n.attrs().Ints("axes");
      AttributeList attrs;
      attrs.Set("keepdims", n.attrs().Int("keepdims", 1));
      Value *x = TypedOperand({op(0), op(1), op(2)}, n);
      const Type type = TypedResult(n, op(3), op(4));
      if (!x || type.is_none())
        return false;
      Rewriter rw(&n);
      Value *axes_value = axes.empty() ? nullptr : rw.Constant(Tensor::OfI64(axes));
      return Build(n, "ReduceMean", {x, axes_value}, type, std::move(attrs));
    }
    if (name == "QLinearConcat") {
      llvm::SmallVector<Value *, 8> xs;
      const Type type = TypedResult(n, op(0), op(1));
      if (type.is_none())
        return false;
      for (unsigned i = 2; i < n.num_operands(); i += 3) {
        Value *x = TypedOperand({op(i), op(i + 1), op(i + 2)}, n);
        if (!x)
          return false;
        xs.push_back(x);
      }
      if (xs.empty())
        return false;
      // Each operand is brought to the result's parameters, so that the Concat itself only copies.
      for (Value *&x : xs) {
        if (SameQuant(x->type().quant(), type.quant()))
          continue;
        Type t = x->type();
        t.set_quant(type.quant());
        x = Rewriter(&n).Create("Requantize", {x}, {}, {t}, {}, "npuc")->result();
      }
      return Build(n, "Concat", xs, type, n.attrs());
    }
    if (name == "QGemm") {
      if (n.attrs().Float("alpha", 1) != 1 || !op(7))
        return false;
      const bool trans = n.attrs().Int("transB", 0);
      Value *a = TypedOperand({op(0), op(1), op(2)}, n);
      Value *b = TypedOperand({op(3), op(4), op(5), trans ? 0 : 1}, n);
      if (!a || !b)
        return false;
      AttributeList attrs;
      if (n.attrs().Int("transA", 0))
        attrs.Set("transA", int64_t{1});
      if (trans)
        attrs.Set("transB", int64_t{1});
      return Build(n, "Gemm", {a, b, op(6)}, TypedResult(n, op(7), op(8)), std::move(attrs));
    }
    return false;
  }

  // Rebuilds n (which only moves elements) on typed data operands.
  Node *Retype(Node &n, llvm::ArrayRef<Value *> data, const QuantRef &quant, bool raw_results) {
    llvm::SmallVector<Value *, 4> operands(n.operands().begin(), n.operands().end());
    const auto slots = DataOperands(n);
    for (unsigned k = 0; k < slots.size(); ++k)
      operands[slots[k]] = data[k];
    llvm::SmallVector<Type, 2> types;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      types.push_back(n.result(i)->type());
      if (types.back().is_tensor() && types.back().dtype() == data[0]->type().dtype())
        types.back().set_quant(quant);
    }
    Rewriter rw(&n);
    Node *made = rw.Create(&n.op(), operands, n.origin(), types, n.attrs());
    Module &m = n.graph()->module();
    for (unsigned i = 0; i < n.num_results(); ++i) {
      Value *const old = n.result(i);
      const std::string name = old->name();
      Value *const with =
          raw_results && made->result(i)->type().is_quantized() ? rewriter_.Raw(made->result(i), &n) : made->result(i);
      old->ReplaceAllUsesWith(with);
      m.RenameValue(old, name + ".replaced");
      m.RenameValue(made->result(i), name);
    }
    llvm::SmallVector<Value *, 2> none(n.num_results(), nullptr);
    rw.ReplaceNode(&n, none);
    return made;
  }

  // Operands are raw views of typed values with equal parameters: work on those, and give raw views of the results.
  bool PassForward(Node &n) {
    if (!PassesQuantThrough(n))
      return false;
    llvm::SmallVector<Value *, 4> data;
    QuantRef quant;
    for (unsigned i : DataOperands(n)) {
      Value *source = TypedSource(n.operand(i));
      if (!source || !source->type().quant()->per_tensor())
        return false;
      if (quant && !SameQuant(quant, source->type().quant()))
        return false;
      quant = source->type().quant();
      data.push_back(source);
    }
    if (data.empty() || !n.result()->type().is_tensor())
      return false;
    Retype(n, data, quant, true);
    return true;
  }

  // Raw data operands, and every user of the one result types it the same way: type the operands instead.
  Node *PassBackward(Node &n) {
    if (n.is_return() || !PassesQuantThrough(n) || n.num_results() != 1 || !IsRawInteger(n.result()->type()) ||
        !n.result()->has_uses())
      return nullptr;
    QuantRef quant;
    for (const Use &u : n.result()->uses()) {
      if (!IsNpucOp(*u.user, "QuantCast") || !u.user->result()->type().is_quantized())
        return nullptr;
      if (quant && !SameQuant(quant, u.user->result()->type().quant()))
        return nullptr;
      quant = u.user->result()->type().quant();
    }
    if (!quant->per_tensor())
      return nullptr;
    llvm::SmallVector<Value *, 4> data;
    for (unsigned i : DataOperands(n)) {
      if (!n.operand(i) || !(IsRawInteger(n.operand(i)->type())))
        return nullptr;
      data.push_back(n.operand(i));
    }
    for (Value *&v : data)
      v = rewriter_.Typed(v, quant, &n);
    llvm::SmallVector<Node *, 4> casts;
    for (const Use &u : n.result()->uses())
      casts.push_back(u.user);
    Node *const made = Retype(n, data, quant, false);
    for (Node *cast : casts) {
      Rewriter rw(cast);
      rw.ReplaceNode(cast, {cast->operand(0)});
    }
    return made;
  }

  QuantRewriter rewriter_;
  bool changed_ = false;
};

// u16{s, z} -> i16{s, z - 32768}.
QuantRef LessHalf(const QuantRef &q) {
  QuantParams p = *q;
  for (int32_t &z : p.zero_points)
    z -= 32768;
  return std::make_shared<const QuantParams>(std::move(p));
}
Tensor LessHalf(const Tensor &t) {
  Tensor r = Tensor::Allocate(DType::I16, t.dims());
  for (int64_t i = 0; i < t.num_elements(); ++i)
    r.mutable_data<int16_t>()[i] = static_cast<int16_t>(t.AsInt(i) - 32768);
  return r;
}
bool IsWide(const Value *v) {
  return v && v->type().is_tensor() && v->type().is_quantized() && v->type().dtype() == DType::U16;
}

bool SignedWide(Graph &g) {
  bool changed = false;
  auto signed_type = [](Type t) {
    t.set_dtype(DType::I16);
    t.set_quant(LessHalf(t.quant()));
    return t;
  };
  for (Node &n : g.nodes_early_inc()) {
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      changed |= SignedWide(*n.body(i));
    if (IsNpucOp(n, "QuantCast") && IsWide(n.operand(0)) && !IsWide(n.result()))
      continue; // its operand was dealt with where it is made
    for (unsigned i = 0; i < n.num_results(); ++i) {
      Value *const v = n.result(i);
      if (!IsWide(v))
        continue;
      changed = true;
      const Type wide = v->type();
      Node *const next = &*std::next(n.getIterator());
      Rewriter rw(next);
      llvm::SmallVector<Use, 4> raw, others;
      for (const Use &u : v->uses())
        (IsNpucOp(*u.user, "QuantCast") ? raw : others).push_back(u);
      Value *narrow = v;
      if (n.is_constant()) {
        narrow = rw.Constant(LessHalf(*v->constant()), v->name() + "_i16", signed_type(wide).quant());
      } else if (IsNpucOp(n, "QuantCast")) {
        if (others.empty())
          continue;
        narrow = rw.Create("Requantize", {v}, {}, {signed_type(wide)}, {}, "npuc")->result();
      } else {
        v->set_type(signed_type(wide));
        if (!raw.empty()) {
          Value *const out = rw.Create("Requantize", {v}, {}, {wide}, {}, "npuc")->result();
          for (const Use &u : raw)
            u.user->set_operand(u.operand, out);
        }
        continue;
      }
      for (const Use &u : others)
        u.user->set_operand(u.operand, narrow);
    }
  }
  return changed;
}

} // namespace

StatusOr<bool> TypeQuantized(Module &m, PassContext &) {
  Typer typer;
  bool changed = typer.Run(m.main());
  changed |= SignedWide(m.main());
  if (changed)
    EraseDeadNodes(m.main());
  return changed;
}

} // namespace npuc
