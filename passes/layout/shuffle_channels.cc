// The pieces of a channel shuffle that is taken apart at once are strided slices.
//
//   x[1,C,H,W] -> Reshape [C/g,g,H*W] -> Transpose [1,0,2] -> Reshape [g,1,C/g,H,W] -> Gather(k) on axis 0
//       ->  Slice of the channels k, k+g, k+2g ...         (each piece of a shuffle that is taken apart at once)
//
// The same elements: nothing is rounded. Only where the NPU takes the Slice. (Whole shuffles: reshape-channels-last.)
//
// Left alone: other perms, inner tensors with other readers (the Gathers of one shuffle apart), quantisation per axis,
// dynamic shapes. Cost: one sweep.
#include "passes/common.h"

namespace npuc {
namespace {

bool Is(llvm::ArrayRef<int64_t> a, std::initializer_list<int64_t> b) {
  return a == llvm::ArrayRef<int64_t>(b.begin(), b.size());
}

class Shuffles {
public:
  explicit Shuffles(PassContext &ctx) : ctx_(ctx) {}

  bool Piece(Node &gather) {
    if (!gather.Is("Gather") || gather.attrs().Int("axis", 0) != 0)
      return false;
    const auto index = MatchConstantInts(gather.operand(1));
    if (!index || index->size() != 1 || gather.operand(1)->constant()->rank() != 0)
      return false;
    Node *const last = DefinedBy(gather.operand(0), "Reshape");
    Node *const transpose = last ? DefinedBy(last->operand(0), "Transpose") : nullptr;
    Node *const first =
        transpose && SoleUser(transpose->result()) == last ? DefinedBy(transpose->operand(0), "Reshape") : nullptr;
    if (!first || SoleUser(first->result()) != transpose || !Is(transpose->attrs().Ints("perm"), {1, 0, 2}))
      return false;
    if (!HasStaticShape(first->operand(0)) || !HasStaticShape(gather.result()))
      return false;
    const Type &type = first->operand(0)->type();
    const Dims in = StaticDims(first->operand(0)), mid = StaticDims(first->result()), out = StaticDims(last->result());
    if (in.size() != 4 || in[0] != 1 || mid.size() != 3 || out.size() != 5)
      return false;
    const int64_t g = mid[1], c = in[1];
    if (mid[0] * g != c || mid[2] != in[2] * in[3] || !Is(out, {g, 1, c / g, in[2], in[3]}))
      return false;
    if (type.quant() && !type.quant()->per_tensor())
      return false;
    const int64_t k = (*index)[0] < 0 ? (*index)[0] + g : (*index)[0];
    if (k < 0 || k >= g)
      return false;
    rw_.emplace(&gather);
    made_.clear();
    auto ints = [&](int64_t x) { return rw_->Constant(Tensor::OfI64({x})); };
    Node *slice = rw_->Create("Slice", {first->operand(0), ints(k), ints(c), ints(1), ints(g)},
                              MergeOrigins({first, transpose, last, &gather}), {gather.result()->type()});
    made_.push_back(slice);
    return Accept(gather, slice->result());
  }

private:
  bool Accept(Node &old, Value *with) {
    const CheckContext check{ctx_.target, ctx_.target.HasFloat() ? DType::F16 : DType::Undefined};
    if (!llvm::all_of(made_, [&](Node *n) { return ctx_.npu->Check(*n, check).empty(); })) {
      rw_->EraseIfDead(made_.back());
      return false;
    }
    rw_->ReplaceNode(&old, {with});
    ctx_.Count("layout: shuffles");
    return true;
  }

  PassContext &ctx_;
  std::optional<Rewriter> rw_;
  std::vector<Node *> made_;
};

} // namespace

StatusOr<bool> ShuffleChannels(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  Shuffles shuffles(ctx);
  bool changed = false;
  for (Node &n : m.main().nodes_early_inc())
    changed |= shuffles.Piece(n);
  return changed;
}

} // namespace npuc
