// Finds pixel shuffles that exporters wrote as Reshape - Transpose - Reshape.
//
//   [N,C,H,W] -> Reshape [N,c,r,r,H,W] -> Transpose [0,1,4,2,5,3] -> Reshape [N,c,rH,rW]    ->  DepthToSpace(blocksize
//   r, mode CRD) [N,C,H,W] -> Reshape [N,r,r,c,H,W] -> Transpose [0,3,4,1,5,2] -> Reshape [N,c,rH,rW]    ->
//   DepthToSpace(blocksize r, mode DCR) [N,c,rH,rW] -> Reshape [N,c,H,r,W,r] -> Transpose [0,3,5,1,2,4] -> Reshape
//   [N,r*r*c,H,W] ->  SpaceToDepth(blocksize r)
//
// Left alone: channel shuffles (rank 5) and other perms, inner tensors with other users, dynamic shapes.
#include "passes/common.h"

namespace npuc {
namespace {

bool Form(Node &last, PassContext &ctx) {
  if (!last.Is("Reshape") || !HasStaticShape(last.result()) || last.result()->type().shape().rank() != 4)
    return false;
  Node *const transpose = DefinedBy(last.operand(0), "Transpose");
  if (!transpose || SoleUser(transpose->result()) != &last || !HasStaticShape(transpose->operand(0)))
    return false;
  Node *const first = DefinedBy(transpose->operand(0), "Reshape");
  if (!first || SoleUser(first->result()) != transpose || !HasStaticShape(first->operand(0)))
    return false;
  const Dims in = StaticDims(first->operand(0)), mid = StaticDims(first->result()), out = StaticDims(last.result());
  const auto perm = transpose->attrs().Ints("perm");
  if (in.size() != 4 || mid.size() != 6 || perm.size() != 6)
    return false;
  if (first->operand(0)->type().is_quantized() && !first->operand(0)->type().quant()->per_tensor())
    return false;
  auto is = [](llvm::ArrayRef<int64_t> a, std::initializer_list<int64_t> b) {
    return a == llvm::ArrayRef<int64_t>(b.begin(), b.size());
  };

  const char *op = "DepthToSpace";
  AttributeList attrs;
  int64_t r = 0;
  if (is(perm, {0, 1, 4, 2, 5, 3})) {
    r = mid[2];
    const int64_t c = mid[1];
    if (!is(mid, {in[0], c, r, r, in[2], in[3]}) || !is(out, {in[0], c, r * in[2], r * in[3]}) || c * r * r != in[1])
      return false;
    attrs.Set("mode", std::string("CRD"));
  } else if (is(perm, {0, 3, 4, 1, 5, 2})) {
    r = mid[1];
    const int64_t c = mid[3];
    if (!is(mid, {in[0], r, r, c, in[2], in[3]}) || !is(out, {in[0], c, r * in[2], r * in[3]}) || c * r * r != in[1])
      return false;
    attrs.Set("mode", std::string("DCR"));
  } else if (is(perm, {0, 3, 5, 1, 2, 4})) {
    r = mid[3];
    const int64_t h = mid[2], w = mid[4];
    if (r < 1 || !is(mid, {in[0], in[1], h, r, w, r}) || h * r != in[2] || w * r != in[3] ||
        !is(out, {in[0], in[1] * r * r, h, w}))
      return false;
    op = "SpaceToDepth";
  } else {
    return false;
  }
  if (r < 2 || !ctx.MayRewrite())
    return false;
  attrs.Set("blocksize", r);
  Rewriter rw(&last);
  Node *made = rw.Create(op, {first->operand(0)},
                         MergeOrigins(MergeOrigins(first->origin(), transpose->origin()), last.origin()),
                         {last.result()->type()}, std::move(attrs));
  rw.ReplaceNode(&last, {made->result()});
  ctx.Count(fmt::format("fuse: form-{}", op));
  return true;
}

} // namespace

StatusOr<bool> FormDepthToSpace(Module &m, PassContext &ctx) {
  return RewriteEachNode(m.main(), [&](Node &n) { return Form(n, ctx); });
}

} // namespace npuc
