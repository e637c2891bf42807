// A flattened feature map is multiplied by constant weights: permute the weights, once, instead of the map, every time.
//
//   %f = Reshape(%x: [N,C,H,W], [N, C*H*W]); %y = Gemm(%f, w)
//       ->  %t = Transpose(%x, 0 2 3 1); %f = Reshape(%t); %y = Gemm(%f, w with its rows in H,W,C order)
//
// The Transpose is free where %x lies as NHWC, which is where convolutions and pooling leave it; so this is done only
// behind an operator that works on images (NpuOp::layout_rule), through elementwise ones.
//
// Sums run over the same products in another order: f16 accumulates in f32, and the reference does not fix that order
// before lowering.
//
// Left alone: weights that others share are copied; maps with one channel or one pixel (any order is the same);
// flattened maps with other readers. Cost: linear in the weights that change.
#include "passes/layout/image.h"

namespace npuc {
namespace {

// Elements of rows r of `t` ([C*H*W, N], or [N, C*H*W] with `rows_last`) reordered from c,h,w to h,w,c.
Tensor Permute(const Tensor &t, int64_t c, int64_t hw, bool rows_last) {
  if (t.is_splat())
    return t;
  const Tensor &from = t;
  Tensor to = Tensor::Allocate(t.dtype(), t.dims());
  const int64_t k = c * hw, n = t.num_elements() / k, size = ByteSize(t.dtype());
  for (int64_t i = 0; i < c; ++i)
    for (int64_t p = 0; p < hw; ++p) {
      const int64_t a = i * hw + p, b = p * c + i;
      if (!rows_last) {
        std::memcpy(to.mutable_bytes() + b * n * size, from.bytes() + a * n * size, n * size);
      } else {
        for (int64_t j = 0; j < n; ++j)
          std::memcpy(to.mutable_bytes() + (j * k + b) * size, from.bytes() + (j * k + a) * size, size);
      }
    }
  return to;
}

bool Rewrite(Node &product, PassContext &ctx) {
  if (!IsOneOf(product, {"Gemm", "MatMul"}) || product.attrs().Int("transA", 0))
    return false;
  Node *const view = product.operand(0) ? product.operand(0)->def() : nullptr;
  if (!view || !IsOneOf(*view, {"Reshape", "Flatten"}) || SoleUser(view->result()) != &product ||
      !HasStaticShape(view->operand(0)))
    return false;
  Value *const x = view->operand(0), *const w = product.operand(1);
  if (!w || !w->constant() || w->constant()->rank() != 2 || !HasStaticShape(view->result()))
    return false;
  const Dims in = StaticDims(x), flat = StaticDims(view->result());
  if (in.size() != 4 || flat.size() != 2 || flat[0] != in[0])
    return false;
  const int64_t c = in[1], hw = in[2] * in[3];
  if (c == 1 || hw == 1 || !ComesFromImage(x, *ctx.npu))
    return false;
  const bool rows_last = product.Is("Gemm") && product.attrs().Int("transB", 0);
  if (w->constant()->dims()[rows_last ? 1 : 0] != c * hw)
    return false;
  if (w->type().quant() && w->type().quant()->axis == (rows_last ? 1 : 0))
    return false;

  Rewriter rw(view);
  AttributeList attrs;
  attrs.Set("perm", std::vector<int64_t>{0, 2, 3, 1});
  Type t = x->type();
  t.set_shape(Shape({in[0], in[2], in[3], c}));
  Node *transpose = rw.Create("Transpose", {x}, {}, {t}, std::move(attrs));
  const CheckContext check{ctx.target, ctx.target.HasFloat() ? DType::F16 : DType::Undefined};
  if (!ctx.npu->Check(*transpose, check).empty()) {
    transpose->Erase();
    return false;
  }
  Node *reshape = rw.Create("Reshape", {transpose->result(), rw.Constant(Tensor::OfI64(flat))}, view->origin(),
                            {view->result()->type()});
  Value *weights = rw.Constant(Permute(*w->constant(), c, hw, rows_last), w->name() + "_hwc", w->type().quant());
  weights->type().set_shape(w->type().shape());
  product.set_operand(1, weights);
  // The flattened tensor is another one now; it does not take the old name.
  product.set_operand(0, reshape->result());
  rw.EraseIfDead(view);
  ctx.Count("layout: weights permuted");
  return true;
}

} // namespace

StatusOr<bool> FlattenChannelsLast(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  bool changed = false;
  for (Node &n : m.main().nodes_early_inc())
    changed |= Rewrite(n, ctx);
  if (changed)
    EraseDeadNodes(m.main());
  return changed;
}

} // namespace npuc
