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
#include "compiler/support/thread_pool.h"
#include "passes/layout/image.h"

namespace npuc {
namespace {

// [c][hw] to [hw][c], for each of rows [begin, end) of c * hw elements.
template <class T> void PermuteRows(const T *from, T *to, int64_t c, int64_t hw, size_t begin, size_t end) {
  constexpr int64_t kSide = 32; // channels at a time: they stay in the nearest cache
  for (size_t j = begin; j < end; ++j)
    for (int64_t i0 = 0; i0 < c; i0 += kSide)
      for (int64_t p = 0; p < hw; ++p)
        for (int64_t i = i0; i < std::min(i0 + kSide, c); ++i)
          to[j * c * hw + p * c + i] = from[j * c * hw + i * hw + p];
}

// Elements of `t` ([C*H*W, N], or [N, C*H*W] with `rows_last`) reordered from c,h,w to h,w,c.
Tensor Permute(const Tensor &t, int64_t c, int64_t hw, bool rows_last, PassContext &ctx) {
  if (t.is_splat())
    return t;
  if (ctx.estimate_only)
    return ctx.Unconverted(t.dtype(), t.dims());
  Tensor to = Tensor::Allocate(t.dtype(), t.dims());
  const int64_t k = c * hw, n = t.num_elements() / k, size = ByteSize(t.dtype());
  const auto work = [&](size_t begin, size_t end) {
    if (!rows_last) { // a row is n elements, and goes as one
      for (size_t b = begin; b < end; ++b) {
        const int64_t a = static_cast<int64_t>(b) % c * hw + static_cast<int64_t>(b) / c;
        std::memcpy(to.mutable_bytes() + b * n * size, t.bytes() + a * n * size, n * size);
      }
    } else if (size == 1) {
      PermuteRows(t.data<uint8_t>(), to.mutable_data<uint8_t>(), c, hw, begin, end);
    } else if (size == 2) {
      PermuteRows(t.data<uint16_t>(), to.mutable_data<uint16_t>(), c, hw, begin, end);
    } else {
      NPUC_CHECK(size == 4, "weights of {}", Name(t.dtype()));
      PermuteRows(t.data<uint32_t>(), to.mutable_data<uint32_t>(), c, hw, begin, end);
    }
  };
  const int64_t rows = rows_last ? n : k,
                grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, t.num_elements() / rows));
  ctx.threads ? ctx.threads->ParallelFor(rows, grain, work) : work(0, rows);
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
  Value *weights = rw.Constant(Permute(*w->constant(), c, hw, rows_last, ctx), w->name() + "_hwc", w->type().quant());
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
