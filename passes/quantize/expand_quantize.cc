// Rounding of activations to integers that no type carries, and back, becomes arithmetic.
//
//   DequantizeLinear(QuantizeLinear(%x, s, z), s, z)   ->  Mul(Clip(Round(Div(%x, s)), lo - z, hi - z), s)
//
// for scales per slice of an axis or in blocks, and for types of fewer than 8 bits: the numbers between are whole and
// at most 255, which f16 holds exactly. Zero points that differ make Max and Min of the Clip.
//
// Left alone: what type-quantized took (one scale, 8 or 16 bits), integers that something else reads, 16 bits in
// several scales, float8, parameters that are computed or differ between the two. The host computes these.
// Cost: one sweep.
#include <cmath>

#include "passes/quantize/quant_rewrite.h"

namespace npuc {
namespace {

struct Grid {
  Tensor scale, lo, hi; // f32, ready to broadcast with x; lo, hi: codes less the zero point
  bool one_zero = true;
};

// Where the element `at` of x, seen as dims, finds its scale: by axis, or by axis and block.
std::optional<Grid> GridOf(const Node &q) {
  const Tensor *const s = q.operand(1)->constant();
  const Tensor *const z = q.operand(2) ? q.operand(2)->constant() : nullptr;
  const DType code = q.result()->type().dtype();
  const Dims dims = StaticDims(q.operand(0));
  const int64_t block = q.attrs().Int("block_size", 0);
  if (!s || (q.operand(2) && !z) || (z && z->num_elements() != s->num_elements()) || !IsInt(code) || BitWidth(code) > 8)
    return std::nullopt;
  Dims over; // the grid's own dims, to broadcast
  int64_t axis = q.attrs().Int("axis", 1), inner = 1, blocks = 1;
  const int rank = static_cast<int>(dims.size());
  if (s->num_elements() > 1 || block > 0) {
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
      return std::nullopt;
    if (block > 0) {
      over = dims;
      blocks = (dims[axis] + block - 1) / block;
      for (int i = static_cast<int>(axis) + 1; i < rank; ++i)
        inner *= dims[i];
      if (NumElements(dims) / dims[axis] * blocks != s->num_elements())
        return std::nullopt;
    } else {
      if (s->rank() != 1 || s->num_elements() != dims[axis])
        return std::nullopt;
      over.assign(rank - axis, 1);
      over[0] = dims[axis];
    }
  }
  Grid g{Tensor::Allocate(DType::F32, over), Tensor::Allocate(DType::F32, over), Tensor::Allocate(DType::F32, over)};
  for (int64_t i = 0; i < g.scale.num_elements(); ++i) {
    int64_t k = i;
    if (block > 0) {
      const int64_t in = i % inner, at = i / inner % dims[axis], out = i / inner / dims[axis];
      k = (out * blocks + at / block) * inner + in;
    }
    const float scale = static_cast<float>(s->AsDouble(k));
    if (!(scale > 0) || !std::isfinite(scale))
      return std::nullopt;
    const int64_t zero = z ? z->AsInt(k) : 0;
    g.scale.mutable_data<float>()[i] = scale;
    g.lo.mutable_data<float>()[i] = static_cast<float>(IntMin(code) - zero);
    g.hi.mutable_data<float>()[i] = static_cast<float>(IntMax(code) - zero);
    g.one_zero &= g.lo.data<float>()[i] == g.lo.data<float>()[0];
  }
  return g;
}

bool SameConstant(const Value *a, const Value *b) {
  if (a == b)
    return true;
  const Tensor *const s = a ? a->constant() : nullptr, *const t = b ? b->constant() : nullptr;
  if (!s || !t || s->dtype() != t->dtype() || s->dims() != t->dims())
    return false;
  for (int64_t i = 0; i < s->num_elements(); ++i)
    if (s->AsDouble(i) != t->AsDouble(i))
      return false;
  return true;
}

bool Undoes(const Node &d, const Node &q) {
  return d.Is("DequantizeLinear") && d.graph() == q.graph() && SameConstant(d.operand(1), q.operand(1)) &&
         SameConstant(d.operand(2), q.operand(2)) && d.attrs().Int("block_size", 0) == q.attrs().Int("block_size", 0) &&
         d.attrs().Int("axis", 1) == q.attrs().Int("axis", 1) &&
         d.result()->type().dtype() == q.operand(0)->type().dtype();
}

bool Expand(Graph &g) {
  bool changed = false;
  for (Node &n : g.nodes_early_inc()) {
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      changed |= Expand(*n.body(i));
    if (!n.Is("QuantizeLinear") || !n.result()->has_uses() || !HasStaticShape(n.operand(0)) ||
        n.operand(0)->type().dtype() != DType::F32)
      continue;
    if (!llvm::all_of(n.result()->uses(), [&](const Use &u) { return u.operand == 0 && Undoes(*u.user, n); }))
      continue;
    const std::optional<Grid> grid = GridOf(n);
    if (!grid)
      continue;
    changed = true;
    Rewriter rw(&n);
    const Type type = n.operand(0)->type();
    Value *const scale = rw.Constant(grid->scale);
    Value *v = rw.Create("Div", {n.operand(0), scale}, n.origin(), {type})->result();
    v = rw.Create("Round", {v}, n.origin(), {type})->result();
    if (grid->one_zero) {
      Value *const lo = rw.Constant(Tensor::ScalarF32(grid->lo.data<float>()[0]));
      Value *const hi = rw.Constant(Tensor::ScalarF32(grid->hi.data<float>()[0]));
      v = rw.Create("Clip", {v, lo, hi}, n.origin(), {type})->result();
    } else {
      v = rw.Create("Max", {v, rw.Constant(grid->lo)}, n.origin(), {type})->result();
      v = rw.Create("Min", {v, rw.Constant(grid->hi)}, n.origin(), {type})->result();
    }
    llvm::SmallVector<Node *, 2> readers;
    for (const Use &u : n.result()->uses())
      readers.push_back(u.user);
    Origin origin;
    for (const Node *d : readers)
      origin = MergeOrigins(origin, d->origin());
    v = rw.Create("Mul", {v, scale}, std::move(origin), {type})->result();
    TakeName(*readers[0]->result(), *v);
    for (Node *d : readers)
      d->result()->ReplaceAllUsesWith(v);
  }
  return changed;
}

} // namespace

StatusOr<bool> ExpandQuantize(Module &m, PassContext &) {
  const bool changed = Expand(m.main());
  if (changed)
    EraseDeadNodes(m.main());
  return changed;
}

} // namespace npuc
