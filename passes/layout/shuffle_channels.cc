// Channel shuffles in the layout that the layers around them use.
//
//   [N,C,H,W] -> Reshape [N,g,C/g,H,W] -> Transpose [0,2,1,3,4] -> Reshape [N,C,H,W]
//       ->  Transpose to [N,H,W,C] -> Reshape [N,H,W,g,C/g] -> Transpose [0,1,2,4,3] -> Reshape [N,H,W,C] -> Transpose back
//           The outer Transposes cost nothing between NHWC layers, so one rearrangement is left of three.
//   x[1,C,H,W] -> Reshape [C/g,g,H*W] -> Transpose [1,0,2] -> Reshape [g,1,C/g,H,W] -> Gather(k) on axis 0
//       ->  Slice of the channels k, k+g, k+2g ...         (each piece of a shuffle that is taken apart at once)
//
// The same elements in the same places: nothing is rounded. Only where the NPU takes every node of the new form.
//
// Left alone: other perms, inner tensors with other readers (the Gathers of one shuffle apart), quantisation per axis, dynamic shapes.
// Cost: one sweep.
#include "passes/common.h"

namespace npuc {
namespace {

bool Is(llvm::ArrayRef<int64_t> a, std::initializer_list<int64_t> b) { return a == llvm::ArrayRef<int64_t>(b.begin(), b.size()); }

class Shuffles {
 public:
  explicit Shuffles(PassContext& ctx) : ctx_(ctx) {}

  bool Whole(Node& last) {
    if (!last.Is("Reshape") || !HasStaticShape(last.result())) return false;
    Node* const transpose = DefinedBy(last.operand(0), "Transpose");
    if (!transpose || SoleUser(transpose->result()) != &last || !Is(transpose->attrs().Ints("perm"), {0, 2, 1, 3, 4})) return false;
    Node* const first = DefinedBy(transpose->operand(0), "Reshape");
    if (!first || SoleUser(first->result()) != transpose || !HasStaticShape(first->operand(0))) return false;
    const Type& type = first->operand(0)->type();
    const Dims in = StaticDims(first->operand(0)), mid = StaticDims(first->result()), out = StaticDims(last.result());
    if (in.size() != 4 || mid.size() != 5 || in != out || mid[0] != in[0] || mid[1] * mid[2] != in[1] || mid[3] != in[2] || mid[4] != in[3]) return false;
    if (type.quant() && !type.quant()->per_tensor()) return false;
    const int64_t n = in[0], c = in[1], h = in[2], w = in[3];
    rw_.emplace(&last);
    made_.clear();
    const Origin origin = MergeOrigins({first, transpose, &last});
    auto typed = [&](llvm::ArrayRef<int64_t> dims) {
      Type t = type;
      t.set_shape(Shape::Of(dims));
      return t;
    };
    Value* v = Transpose(first->operand(0), {0, 2, 3, 1}, typed({n, h, w, c}), origin);
    v = Reshape(v, typed({n, h, w, mid[1], mid[2]}), origin);
    v = Transpose(v, {0, 1, 2, 4, 3}, typed({n, h, w, mid[2], mid[1]}), origin);
    v = Reshape(v, typed({n, h, w, c}), origin);
    v = Transpose(v, {0, 3, 1, 2}, typed({n, c, h, w}), origin);
    return Accept(last, v);
  }

  bool Piece(Node& gather) {
    if (!gather.Is("Gather") || gather.attrs().Int("axis", 0) != 0) return false;
    const auto index = MatchConstantInts(gather.operand(1));
    if (!index || index->size() != 1 || gather.operand(1)->constant()->rank() != 0) return false;
    Node* const last = DefinedBy(gather.operand(0), "Reshape");
    Node* const transpose = last ? DefinedBy(last->operand(0), "Transpose") : nullptr;
    Node* const first = transpose && SoleUser(transpose->result()) == last ? DefinedBy(transpose->operand(0), "Reshape") : nullptr;
    if (!first || SoleUser(first->result()) != transpose || !Is(transpose->attrs().Ints("perm"), {1, 0, 2})) return false;
    if (!HasStaticShape(first->operand(0)) || !HasStaticShape(gather.result())) return false;
    const Type& type = first->operand(0)->type();
    const Dims in = StaticDims(first->operand(0)), mid = StaticDims(first->result()), out = StaticDims(last->result());
    if (in.size() != 4 || in[0] != 1 || mid.size() != 3 || out.size() != 5) return false;
    const int64_t g = mid[1], c = in[1];
    if (mid[0] * g != c || mid[2] != in[2] * in[3] || !Is(out, {g, 1, c / g, in[2], in[3]})) return false;
    if (type.quant() && !type.quant()->per_tensor()) return false;
    const int64_t k = (*index)[0] < 0 ? (*index)[0] + g : (*index)[0];
    if (k < 0 || k >= g) return false;
    rw_.emplace(&gather);
    made_.clear();
    auto ints = [&](int64_t x) { return rw_->Constant(Tensor::OfI64({x})); };
    Node* slice = rw_->Create("Slice", {first->operand(0), ints(k), ints(c), ints(1), ints(g)}, MergeOrigins({first, transpose, last, &gather}),
                              {gather.result()->type()});
    made_.push_back(slice);
    return Accept(gather, slice->result());
  }

 private:
  Value* Transpose(Value* v, std::vector<int64_t> perm, Type t, const Origin& origin) {
    AttributeList attrs;
    attrs.Set("perm", std::move(perm));
    made_.push_back(rw_->Create("Transpose", {v}, origin, {t}, std::move(attrs)));
    return made_.back()->result();
  }
  Value* Reshape(Value* v, Type t, const Origin& origin) {
    Value* shape = rw_->Constant(Tensor::OfI64(t.shape().static_dims()));
    made_.push_back(rw_->Create("Reshape", {v, shape}, origin, {t}));
    return made_.back()->result();
  }
  bool Accept(Node& old, Value* with) {
    const CheckContext check{ctx_.target, ctx_.target.HasFloat() ? DType::F16 : DType::Undefined};
    if (!llvm::all_of(made_, [&](Node* n) { return ctx_.npu->Check(*n, check).empty(); })) {
      rw_->EraseIfDead(made_.back());
      return false;
    }
    rw_->ReplaceNode(&old, {with});
    ctx_.Count("layout: shuffles");
    return true;
  }

  PassContext& ctx_;
  std::optional<Rewriter> rw_;
  std::vector<Node*> made_;
};

}  // namespace

StatusOr<bool> ShuffleChannels(Module& m, PassContext& ctx) {
  if (!ctx.npu) return false;
  Shuffles shuffles(ctx);
  bool changed = false;
  for (Node& n : m.main().nodes_early_inc()) changed |= shuffles.Whole(n) || shuffles.Piece(n);
  return changed;
}

}  // namespace npuc
