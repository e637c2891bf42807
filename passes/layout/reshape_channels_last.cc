// Reshapes that split or join channels and pixels apart from each other, seen from where images lie as NHWC.
//
//   x [N,C,H,W] -> Reshape [N, c.., s..]      (c.. multiply to C, s.. to H*W)
//       ->  Transpose to [N,H,W,C] -> Reshape [N, s.., c..] -> Transpose to [N, c.., s..]        behind an operator
//       that works on images
//   [N, c.., s..] -> Reshape [N,C,H,W]
//       ->  Transpose to [N, s.., c..] -> Reshape [N,H,W,C] -> Transpose to [N,C,H,W]            before an operator
//       that works on images
//
// The Transpose at the image's side is free where the image lies as NHWC, and the other one joins the Transposes that
// exporters put there: of a detection head (Reshape [N,a,b,H,W], Transpose [0,1,3,4,2]) one rearrangement is left of
// two, of a channel shuffle one of three, and tokens of a vision transformer (Reshape [N,C,HW], Transpose [0,2,1]) cost
// nothing. Where no Transpose follows, the one that is made costs what the Relayout would have.
//
// Exact: the same elements. Only where the NPU takes every node of the new form.
//
// Left alone: reshapes across the channel border, one channel or one pixel (any order is the same), quantisation per
// axis, dynamic shapes. Cost: one sweep.
#include "passes/layout/image.h"

namespace npuc {
namespace {

// The number k of dims behind the first that multiply to `channels` while the rest multiply to `pixels`; 0 when there
// is none.
int SplitAt(llvm::ArrayRef<int64_t> dims, int64_t n, int64_t channels, int64_t pixels) {
  if (dims.size() < 3 || dims[0] != n)
    return 0;
  for (size_t k = 1; k + 1 < dims.size(); ++k) {
    if (NumElements(dims.slice(1, k)) == channels && NumElements(dims.drop_front(k + 1)) == pixels)
      return static_cast<int>(k);
  }
  return 0;
}

struct Builder {
  Rewriter rw;
  const Origin &origin;
  Type type;
  std::vector<Node *> made;

  Value *Transpose(Value *v, const std::vector<int64_t> &perm) {
    const Dims in = StaticDims(v);
    Dims out;
    for (int64_t p : perm)
      out.push_back(in[p]);
    type.set_shape(Shape::Of(out));
    AttributeList attrs;
    attrs.Set("perm", perm);
    made.push_back(rw.Create("Transpose", {v}, origin, {type}, std::move(attrs)));
    return made.back()->result();
  }
  Value *Reshape(Value *v, llvm::ArrayRef<int64_t> dims) {
    type.set_shape(Shape::Of(dims));
    Value *shape = rw.Constant(Tensor::OfI64(dims));
    made.push_back(rw.Create("Reshape", {v, shape}, origin, {type}));
    return made.back()->result();
  }
};

// 0, then [1 + first, ...): the axes behind the first k ones, then those.
std::vector<int64_t> Rotate(int rank, int k) {
  std::vector<int64_t> perm = {0};
  for (int i = k + 1; i < rank; ++i)
    perm.push_back(i);
  for (int i = 1; i <= k; ++i)
    perm.push_back(i);
  return perm;
}

bool Rewrite(Node &n, PassContext &ctx) {
  if (!IsOneOf(n, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}) || !HasStaticShape(n.operand(0)) ||
      !HasStaticShape(n.result()))
    return false;
  Value *const x = n.operand(0);
  if (x->constant() || (x->type().quant() && !x->type().quant()->per_tensor()))
    return false;
  const Dims in = StaticDims(x), out = StaticDims(n.result());
  if (in == out)
    return false;
  Builder b{Rewriter(&n), n.origin(), x->type(), {}};
  Value *v = nullptr;
  if (in.size() == 4 && in[1] > 1 && in[2] * in[3] > 1 && ComesFromImage(x, *ctx.npu)) {
    const int k = SplitAt(out, in[0], in[1], in[2] * in[3]);
    if (k == 0)
      return false;
    const int rank = static_cast<int>(out.size());
    Dims mid = {out[0]};
    mid.append(out.begin() + k + 1, out.end());
    mid.append(out.begin() + 1, out.begin() + k + 1);
    v = b.Transpose(x, {0, 2, 3, 1});
    v = b.Reshape(v, mid);
    v = b.Transpose(v, Rotate(rank, rank - 1 - k));
  } else if (out.size() == 4 && out[1] > 1 && out[2] * out[3] > 1 && GoesToImage(n.result(), *ctx.npu)) {
    const int k = SplitAt(in, out[0], out[1], out[2] * out[3]);
    if (k == 0)
      return false;
    v = b.Transpose(x, Rotate(static_cast<int>(in.size()), k));
    v = b.Reshape(v, {out[0], out[2], out[3], out[1]});
    v = b.Transpose(v, {0, 3, 1, 2});
  } else {
    return false;
  }
  const CheckContext check{ctx.target, ctx.target.HasFloat() ? DType::F16 : DType::Undefined};
  if (!llvm::all_of(b.made, [&](Node *m) { return ctx.npu->Check(*m, check).empty(); }) ||
      !ctx.npu->Check(n, check).empty()) {
    b.rw.EraseIfDead(b.made.back());
    return false;
  }
  b.rw.ReplaceNode(&n, {v});
  ctx.Count("layout: reshapes turned");
  return true;
}

} // namespace

StatusOr<bool> ReshapeChannelsLast(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  bool changed = false;
  for (Node &n : m.main().nodes_early_inc())
    changed |= Rewrite(n, ctx);
  return changed;
}

} // namespace npuc
