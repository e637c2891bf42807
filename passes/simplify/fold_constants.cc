// Infers every type and folds what is known at compile time, in one sweep in topological order.
//
//   %s = Shape(%x: f32[1,3,4])            ->  %s = Constant [1,3,4]           (from the type; %x may be anything)
//   %d = Gather(Shape(%x: [n,3,4]), 1)    ->  %d = Constant 3                 (partial shape data: the n is never asked
//   for) %y = Mul(Constant, Constant)          ->  %y = Constant If(Constant true) {a} {b}             ->  the nodes of
//   a
//
// A node is folded when it is pure, all operands are constants and the interpreter can evaluate it. What fails to
// evaluate (an integer division by zero, say) is left for the run. Splats stay splats: Expand, ConstantOfShape and
// elementwise arithmetic on splats compute one element however large the result.
//
// Left alone: DequantizeLinear of a constant whose scales a type can carry (it takes a weight's quantisation to
// convert-qdq; npuc::Dequantize is folded, for that pass has decided by then), random and stateful operators, Loop and
// Scan, and results that would add more than 16 MiB over their operands. Folded nodes leave no origin: they are
// eliminated.
//
// Cost: one inference and at most one evaluation a node.
#include "compiler/interp/interpreter.h"
#include "compiler/ops/infer.h"
#include "compiler/support/hash.h"
#include "passes/common.h"
#include "passes/quantize/quant_rewrite.h"
#include "llvm/ADT/Hashing.h"

namespace npuc {
namespace {

constexpr int64_t kMaxGrowth = 16 << 20;

bool IsShapeValue(const Type &t) {
  return t.is_tensor() && (t.dtype() == DType::I64 || t.dtype() == DType::I32) && t.shape().is_static() &&
         t.shape().rank() <= 1 && !t.is_quantized();
}

// The result as a constant when shape data tells all its elements.
Tensor FromShapeData(const Value *v) {
  if (!IsShapeValue(v->type()))
    return {};
  const auto dims = ShapeData(v);
  if (!dims)
    return {};
  llvm::SmallVector<int64_t, 8> values;
  for (const Dim &d : *dims) {
    if (!d.is_static())
      return {};
    values.push_back(d.value());
  }
  if (static_cast<int64_t>(values.size()) != v->type().shape().num_elements())
    return {};
  const Dims dims_of = v->type().shape().static_dims();
  if (v->type().dtype() == DType::I64)
    return Tensor::Of<int64_t>(DType::I64, dims_of, values);
  llvm::SmallVector<int32_t, 8> narrow(values.begin(), values.end());
  return Tensor::Of<int32_t>(DType::I32, dims_of, narrow);
}

class Folder {
public:
  explicit Folder(PassContext &ctx) : ctx_(ctx) {}

  Status Run(Graph &g) {
    for (auto it = g.nodes().begin(); it != g.nodes().end();) {
      Node &n = *it;
      if (n.is_return() || n.is_constant()) {
        ++it;
        continue;
      }
      llvm::SmallVector<Type, 2> old;
      for (unsigned i = 0; i < n.num_results(); ++i)
        old.push_back(n.result(i)->type());
      const uint64_t old_bodies = HashBodyTypes(n);
      if (Status s = InferNode(n, &ctx_.diagnostics); !s.ok()) {
        // A branch may contradict what is known by now: then it is the one that is never taken. Only the run can tell.
        if (g.parent() == nullptr && n.num_bodies() == 0)
          return s;
      }
      for (unsigned i = 0; i < n.num_results(); ++i)
        changed_ |= !(old[i] == n.result(i)->type());
      changed_ |= HashBodyTypes(n) != old_bodies;
      if (Node *first = InlineIf(n)) { // its nodes come next
        it = first->getIterator();
        continue;
      }
      const auto next = std::next(it);
      if (!IsNpucOp(n, "Fused"))
        for (unsigned i = 0; i < n.num_bodies(); ++i)
          NPUC_RETURN_IF_ERROR(Run(*n.body(i)));
      Fold(n);
      it = next;
    }
    return OkStatus();
  }

  bool changed() const { return changed_; }

private:
  // Inference of a node gives its bodies' values types too.
  static uint64_t HashBodyTypes(const Node &n) {
    uint64_t h = 0;
    auto add = [&](const Value *v) {
      const std::string t = v->type().ToString();
      h = llvm::hash_combine(h, Xxh3(t.data(), t.size()));
    };
    for (unsigned i = 0; i < n.num_bodies(); ++i) {
      for (unsigned k = 0; k < n.body(i)->num_inputs(); ++k)
        add(n.body(i)->input(k));
      WalkNodes(static_cast<const Graph &>(*n.body(i)), [&](const Node &inner) {
        for (unsigned k = 0; k < inner.num_results(); ++k)
          add(inner.result(k));
      });
    }
    return h;
  }

  // The first node to visit after an If with a known condition has become one of its branches; null when nothing
  // happened.
  Node *InlineIf(Node &n) {
    if (!n.Is("If"))
      return nullptr;
    const auto cond = MatchConstantInts(n.operand(0));
    if (!cond || cond->size() != 1)
      return nullptr;
    Graph &g = *n.graph();
    const bool at_front = n.getIterator() == g.nodes().begin();
    Node *const before = at_front ? nullptr : &*std::prev(n.getIterator());
    const std::vector<Value *> outputs = InlineGraph(*n.body(cond->front() ? 0 : 1), g, &n, {});
    const auto first = before ? std::next(before->getIterator()) : g.nodes().begin();
    llvm::SmallPtrSet<const Node *, 16> inlined;
    for (auto it = first; &*it != &n; ++it)
      inlined.insert(&*it);
    for (unsigned i = 0; i < n.num_results(); ++i) {
      Value *const out = outputs[i];
      n.result(i)->ReplaceAllUsesWith(out);
      // The tensor's outer name is the one that the user's other nodes speak of.
      if (!out->def() || !inlined.erase(out->def()))
        continue;
      const std::string name = n.result(i)->name();
      g.module().RenameValue(n.result(i), name + ".if");
      g.module().RenameValue(out, name);
    }
    changed_ = true;
    Node *const next = &*first == &n ? &*std::next(n.getIterator()) : &*first;
    n.Erase();
    return next;
  }

  void Replace(Node &n, std::vector<Tensor> values) {
    Rewriter rw(&n);
    llvm::SmallVector<Value *, 2> with;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      if (!n.result(i)->has_uses() && i > 0) {
        with.push_back(nullptr);
        continue;
      }
      // Quantisation of a copied constant stays with its bytes.
      with.push_back(rw.Constant(std::move(values[i]), "", n.result(i)->type().quant()));
    }
    rw.ReplaceNode(&n, with);
    changed_ = true;
  }

  void Fold(Node &n) {
    if (n.num_bodies() != 0 || !n.op().has(kPure) || (n.Is("DequantizeLinear") && HasTypedForm(n)))
      return;
    if (n.num_results() == 1) {
      if (Tensor t = FromShapeData(n.result()))
        return Replace(n, {std::move(t)});
    }
    int64_t in_bytes = 0;
    bool splats = true;
    for (const Value *v : n.operands()) {
      if (!v)
        continue;
      const Tensor *t = v->constant();
      if (!t)
        return;
      in_bytes += t->dtype() == DType::String ? 0 : t->num_stored_bytes();
      const bool data = v == n.operand(0) || !IsOneOf(n, {"Expand", "Reshape", "Tile", "Squeeze", "Unsqueeze"});
      splats &= t->is_splat() || t->num_elements() == 1 || !data || n.Is("ConstantOfShape");
    }
    if (n.num_operands() == 0 && !n.op().evaluate)
      return;
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (n.result(i)->has_uses() && !n.result(i)->type().is_tensor())
        return;
    if (splats && FoldSplat(n))
      return;
    int64_t out_bytes = 0;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const Type &t = n.result(i)->type();
      if (t.is_static_tensor()) {
        if (!CheckedNumElements(t.shape().static_dims()))
          return;
        out_bytes += t.num_bytes();
      }
    }
    if (out_bytes > in_bytes + kMaxGrowth)
      return;

    std::vector<EvalValue> operands;
    for (const Value *v : n.operands())
      operands.push_back(v ? EvalValue(v->constant()->Expand()) : EvalValue());
    auto results = EvaluateNode(n, std::move(operands));
    if (!results.ok())
      return;
    std::vector<Tensor> tensors;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const Tensor *t = i < results->size() ? (*results)[i].tensor() : nullptr;
      if (!t && n.result(i)->has_uses())
        return;
      tensors.push_back(t ? *t : Tensor());
    }
    if (!tensors.empty() && !tensors[0])
      return;
    Replace(n, std::move(tensors));
  }

  // All operands hold one value: the result of an elementwise or copying operator does too.
  bool FoldSplat(Node &n) {
    if (n.num_results() != 1 || !n.result()->type().is_static_tensor())
      return false;
    const Dims dims = n.result()->type().shape().static_dims();
    const auto count = CheckedNumElements(dims);
    if (!count || *count < 64)
      return false; // small ones are evaluated as they are
    if (IsOneOf(n, {"Expand", "Reshape", "Tile", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"})) {
      const Tensor &t = *n.operand(0)->constant();
      if (t.num_elements() == 0 || t.dtype() == DType::String)
        return false;
      Replace(n, {Tensor::Splat(t.dtype(), dims, t.bytes())});
      return true;
    }
    if (n.Is("ConstantOfShape")) {
      const Tensor *t = n.attrs().TensorOrNull("value");
      const float zero = 0;
      Replace(n, {t ? Tensor::Splat(t->dtype(), dims, t->bytes()) : Tensor::Splat(DType::F32, dims, &zero)});
      return true;
    }
    if (!n.op().has(kElementwise) || n.result()->type().is_quantized())
      return false;
    std::vector<EvalValue> operands;
    for (const Value *v : n.operands()) {
      if (!v) {
        operands.emplace_back();
        continue;
      }
      const Tensor &t = *v->constant();
      if (t.num_elements() == 0 || v->type().is_quantized())
        return false;
      operands.emplace_back(Tensor::Splat(t.dtype(), {}, t.bytes()).Expand());
    }
    auto results = EvaluateNode(n, std::move(operands));
    if (!results.ok() || results->empty() || !(*results)[0].tensor())
      return false;
    const Tensor one = (*results)[0].tensor()->Expand();
    if (one.num_elements() != 1)
      return false;
    Replace(n, {Tensor::Splat(one.dtype(), dims, one.bytes())});
    return true;
  }

  PassContext &ctx_;
  bool changed_ = false;
};

} // namespace

StatusOr<bool> FoldConstants(Module &m, PassContext &ctx) {
  Folder folder(ctx);
  NPUC_RETURN_IF_ERROR(folder.Run(m.main()));
  return folder.changed();
}

} // namespace npuc
