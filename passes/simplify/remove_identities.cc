// Removes nodes that hand their operand on unchanged, and joins chains of views.
//
//   Identity, Dropout (inference), Cast to the same type, Reshape/Flatten/Squeeze/Unsqueeze/Expand/Tile/Slice/Pad to
//   the same shape, Transpose by the identity, Concat/Sum/Max/Min of one operand, Split in one part, x+0, 0+x, x-0,
//   x*1, 1*x, x/1, x**1, Clip without bounds, pooling over a window of one, Resize/Upsample to the same size,
//   Transpose-Transpose (composed: perm[i] = p1[p2[i]]), view of a view (one Reshape)
//
// Arithmetic with a neutral constant goes only where dtype and shape of the other operand are the result's: ones[2,1,1]
// may broadcast [1,4] to [2,1,4]. x + 0 turns -0.0 into 0.0; dropping it may keep the -0.0, which compares equal.
//
// Left alone: anything whose shapes aren't static (but Identity, Dropout and Cast), quantised arithmetic (it may
// requantise). Graph outputs keep their names; an input or another output may stand behind one.
//
// Cost: one sweep; a rewrite is seen by the nodes after it, so chains go in the same sweep.
#include "passes/common.h"

namespace npuc {
namespace {

bool IsView(const Node &n) {
  return IsOneOf(n, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"});
}

llvm::SmallVector<int64_t, 6> PermOf(const Node &n, int rank) {
  llvm::SmallVector<int64_t, 6> perm(n.attrs().Ints("perm").begin(), n.attrs().Ints("perm").end());
  if (perm.empty())
    for (int i = rank - 1; i >= 0; --i)
      perm.push_back(i);
  return perm;
}

bool AllEqual(llvm::ArrayRef<int64_t> v, int64_t x) {
  return llvm::all_of(v, [&](int64_t e) { return e == x; });
}

bool IsNeutralWindow(const Node &n) {
  const auto kernel = n.attrs().Ints("kernel_shape");
  return !kernel.empty() && AllEqual(kernel, 1) && AllEqual(n.attrs().Ints("strides"), 1) &&
         AllEqual(n.attrs().Ints("pads"), 0) && (n.num_results() == 1 || !n.result(1)->has_uses());
}

// The operand that result 0 equals; null when there is none.
Value *SameAs(const Node &n) {
  Value *const x = n.operand(0);
  if (!x)
    return nullptr;
  for (unsigned i = 1; i < n.num_results(); ++i)
    if (n.result(i)->has_uses())
      return nullptr;
  if (n.Is("Identity"))
    return x;
  if (n.Is("Dropout")) {
    const Value *training = n.operand(2);
    return !training || IsConstantOf(training, 0) ? x : nullptr;
  }
  if (n.Is("Cast"))
    return x->type().is_tensor() && x->type().dtype() == n.result()->type().dtype() &&
                   x->type().dtype() != DType::Undefined
               ? x
               : nullptr;
  const Type &out = n.result()->type();
  if (!out.is_static_tensor())
    return nullptr;
  const bool same = SameTensorType(x->type(), out);
  if (IsView(n) || IsOneOf(n, {"Expand", "Tile"}))
    return same ? x : nullptr;
  if (n.Is("Transpose")) {
    const auto perm = PermOf(n, out.shape().rank());
    for (size_t i = 0; i < perm.size(); ++i)
      if (perm[i] != static_cast<int64_t>(i))
        return nullptr;
    return same ? x : nullptr;
  }
  if (n.Is("Slice")) {
    // Same shape can still mean a reversal.
    if (!same)
      return nullptr;
    if (!n.operand(4))
      return x;
    return IsConstantOf(n.operand(4), 1) ? x : nullptr;
  }
  if (n.Is("Pad")) {
    return same && IsConstantOf(n.operand(1), 0) ? x : nullptr;
  }
  if (IsOneOf(n, {"Concat", "Sum", "Max", "Min", "Mean"}))
    return n.num_operands() == 1 && same ? x : nullptr;
  if (n.Is("Split"))
    return n.num_results() == 1 && same ? x : nullptr;
  if (n.Is("Clip"))
    return !n.operand(1) && !n.operand(2) && same ? x : nullptr;
  if (IsOneOf(n, {"MaxPool", "AveragePool"}))
    return same && IsNeutralWindow(n) ? x : nullptr;
  if (IsOneOf(n, {"GlobalAveragePool", "GlobalMaxPool"}))
    return same && out.shape().rank() > 2 ? x : nullptr;
  if (IsOneOf(n, {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"})) {
    // Over axes of extent 1 only: the shape says so, unless no axes are reduced at all, which is a copy too.
    return same ? x : nullptr;
  }
  if (IsOneOf(n, {"Resize", "Upsample"})) {
    const std::string_view mode = n.attrs().String("mode", "nearest");
    const std::string_view coord = n.attrs().String("coordinate_transformation_mode", "half_pixel");
    if (!same || (mode != "nearest" && mode != "linear") || coord == "tf_crop_and_resize" ||
        coord == "half_pixel_symmetric")
      return nullptr;
    const Value *scales = n.operand(n.Is("Upsample") ? 1 : 2);
    return !scales || IsConstantOf(scales, 1) ? x : nullptr;
  }
  if (out.is_quantized() || n.num_operands() != 2)
    return nullptr;
  Value *const y = n.operand(1);
  if (!y || x->type().is_quantized() || y->type().is_quantized())
    return nullptr;
  if (n.Is("Add")) {
    if (same && IsConstantOf(y, 0))
      return x;
    if (SameTensorType(y->type(), out) && IsConstantOf(x, 0))
      return y;
  } else if (n.Is("Mul")) {
    if (same && IsConstantOf(y, 1))
      return x;
    if (SameTensorType(y->type(), out) && IsConstantOf(x, 1))
      return y;
  } else if (n.Is("Sub")) {
    if (same && IsConstantOf(y, 0))
      return x;
  } else if (IsOneOf(n, {"Div", "Pow"})) {
    if (same && IsConstantOf(y, 1))
      return x;
  }
  return nullptr;
}

// A view of a view, or a view whose operand's view made a detour: one Reshape from the first operand.
bool JoinViews(Node &n) {
  if (!IsView(n) || !HasStaticShape(n.result()))
    return false;
  Node *const inner = n.operand(0) ? n.operand(0)->def() : nullptr;
  if (!inner || !IsView(*inner) || !HasStaticShape(inner->operand(0)) || inner->graph() != n.graph())
    return false;
  if (n.result()->type().quant() && !n.result()->type().quant()->per_tensor())
    return false;
  Rewriter rw(&n);
  const Dims dims = StaticDims(n.result());
  Origin origin = n.origin();
  if (inner->result()->has_one_use())
    origin = MergeOrigins(origin, inner->origin());
  if (SameTensorType(inner->operand(0)->type(), n.result()->type())) { // there and back
    rw.ReplaceNode(&n, {inner->operand(0)});
    return true;
  }
  Value *shape = rw.Constant(Tensor::OfI64(dims));
  AttributeList attrs;
  // A zero extent must not mean "copy the operand's".
  if (llvm::is_contained(dims, 0))
    attrs.Set("allowzero", int64_t{1});
  Node *r = rw.Create("Reshape", {inner->operand(0), shape}, std::move(origin), {n.result()->type()}, std::move(attrs));
  rw.ReplaceNode(&n, {r->result()});
  return true;
}

bool JoinTransposes(Node &n) {
  if (!n.Is("Transpose"))
    return false;
  Node *const inner = DefinedBy(n.operand(0), "Transpose");
  if (!inner || inner->graph() != n.graph() || !inner->operand(0)->type().is_tensor() ||
      !inner->operand(0)->type().shape().ranked())
    return false;
  const int rank = inner->operand(0)->type().shape().rank();
  const auto p1 = PermOf(*inner, rank), p2 = PermOf(n, rank);
  std::vector<int64_t> perm(rank);
  for (int i = 0; i < rank; ++i)
    perm[i] = p1[p2[i]];
  Rewriter rw(&n);
  Origin origin = n.origin();
  if (inner->result()->has_one_use())
    origin = MergeOrigins(origin, inner->origin());
  AttributeList attrs;
  attrs.Set("perm", std::move(perm));
  Node *t = rw.Create("Transpose", {inner->operand(0)}, std::move(origin), {n.result()->type()}, std::move(attrs));
  Value *with = t->result();
  if (Value *same = SameAs(*t)) {
    with = same;
    rw.ReplaceNode(&n, {with});
    rw.EraseIfDead(t);
    return true;
  }
  rw.ReplaceNode(&n, {with});
  return true;
}

} // namespace

StatusOr<bool> RemoveIdentities(Module &m, PassContext &) {
  return ForEachGraph(m.main(), [](Graph &g) -> StatusOr<bool> {
    bool changed = false;
    for (Node &n : g.nodes_early_inc()) {
      if (n.is_return() || n.is_constant() || n.num_bodies() != 0)
        continue;
      if (Value *same = SameAs(n)) {
        // Between a graph's input (or an outer value) and its output something has to carry the bytes and the name.
        const bool from_outside = !same->def() || same->graph() != &g;
        if (g.parent() != nullptr && from_outside && n.result()->is_graph_output())
          continue;
        Rewriter rw(&n);
        llvm::SmallVector<Value *, 2> with(n.num_results(), nullptr);
        with[0] = same;
        rw.ReplaceNode(&n, with);
        changed = true;
        continue;
      }
      changed |= JoinTransposes(n) || JoinViews(n);
    }
    return changed;
  });
}

} // namespace npuc
