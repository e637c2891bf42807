// Transpose, DepthToSpace, SpaceToDepth: permutations of dims.
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

StatusOr<llvm::SmallVector<int, 4>> Permutation(const AttributeList &attrs, int rank) {
  llvm::SmallVector<int, 4> perm;
  if (!attrs.Has("perm")) {
    for (int i = rank; i-- > 0;)
      perm.push_back(i);
    return perm;
  }
  const auto p = attrs.Ints("perm");
  llvm::SmallVector<bool, 8> seen(rank, false);
  bool good = static_cast<int>(p.size()) == rank;
  for (size_t i = 0; good && i < p.size(); ++i) {
    const int64_t a = p[i] < 0 ? p[i] + rank : p[i];
    good = a >= 0 && a < rank && !seen[a];
    if (good)
      seen[a] = true;
    perm.push_back(static_cast<int>(a));
  }
  if (!good)
    return AttrError(fmt::format("perm {} is no permutation of {} dims", ToString(p), rank));
  return perm;
}

Status InferTranspose(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  if (!in.ranked()) {
    SetTensor(ctx, 0, DTypeOfOperand(ctx, 0),
              ctx.attrs().Has("perm") ? Shape::UnknownDims(static_cast<int>(ctx.attrs().Ints("perm").size()))
                                      : Shape::Unranked());
    return OkStatus();
  }
  NPUC_ASSIGN_OR_RETURN(auto perm, Permutation(ctx.attrs(), in.rank()));
  Shape out;
  for (int p : perm)
    out.push_back(in[p]);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
StatusOr<Tensor> Permute(const Tensor &x, llvm::ArrayRef<int> perm) {
  const Dims strides = RowMajorStrides(x.dims());
  Dims dims, steps;
  for (int p : perm) {
    dims.push_back(x.dims()[p]);
    steps.push_back(strides[p]);
  }
  return Materialize(x, dims, steps);
}
Status EvaluateTranspose(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  NPUC_ASSIGN_OR_RETURN(auto perm, Permutation(ctx.attrs(), x.rank()));
  NPUC_ASSIGN_OR_RETURN(Tensor y, Permute(x, perm));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status VerifyBlock(const Node &n) {
  const int64_t b = n.attrs().Int("blocksize", 0);
  if (b < 1 || b > 4096)
    return AttrError(fmt::format("blocksize is {}", b));
  if (const std::string_view mode = n.attrs().String("mode", "DCR"); mode != "DCR" && mode != "CRD")
    return AttrError(fmt::format("mode is '{}', not DCR or CRD", mode));
  return OkStatus();
}

Dim Scale(const Dim &d, int64_t mul, int64_t div) {
  if (!d.is_static())
    return mul == div ? d : Dim::Unknown();
  return Dim(d.value() * mul / div);
}

Status InferDepthToSpace(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 4, 4));
  const int64_t b = ctx.attrs().Int("blocksize", 1);
  Shape out = Shape::UnknownDims(4);
  if (in.ranked()) {
    if (in[1].is_static() && in[1].value() % (b * b))
      return ShapeError(fmt::format("{} channels are not a multiple of {}", in[1].value(), b * b));
    out = Shape({in[0], Scale(in[1], 1, b * b), Scale(in[2], b, 1), Scale(in[3], b, 1)});
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateDepthToSpace(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const int64_t b = ctx.attrs().Int("blocksize", 1);
  if (x.rank() != 4 || x.dims()[1] % (b * b))
    return ShapeError(fmt::format("DepthToSpace of {} with blocks of {}", ToString(x.dims()), b));
  const int64_t n = x.dims()[0], c = x.dims()[1] / (b * b), h = x.dims()[2], w = x.dims()[3];
  const bool crd = ctx.attrs().String("mode", "DCR") == "CRD";
  const Tensor split = x.Reshaped(crd ? Dims{n, c, b, b, h, w} : Dims{n, b, b, c, h, w});
  NPUC_ASSIGN_OR_RETURN(
      Tensor y, Permute(split, crd ? llvm::ArrayRef<int>{0, 1, 4, 2, 5, 3} : llvm::ArrayRef<int>{0, 3, 4, 1, 5, 2}));
  ctx.set_result(0, y.Reshaped({n, c, h * b, w * b}));
  return OkStatus();
}

Status InferSpaceToDepth(InferContext &ctx) {
  const Shape in = ShapeOf(ctx, 0);
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 4, 4));
  const int64_t b = ctx.attrs().Int("blocksize", 1);
  Shape out = Shape::UnknownDims(4);
  if (in.ranked()) {
    for (int i = 2; i < 4; ++i)
      if (in[i].is_static() && in[i].value() % b)
        return ShapeError(fmt::format("extent {} is not a multiple of {}", in[i].value(), b));
    out = Shape({in[0], Scale(in[1], b * b, 1), Scale(in[2], 1, b), Scale(in[3], 1, b)});
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  return OkStatus();
}
Status EvaluateSpaceToDepth(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const int64_t b = ctx.attrs().Int("blocksize", 1);
  if (x.rank() != 4 || x.dims()[2] % b || x.dims()[3] % b)
    return ShapeError(fmt::format("SpaceToDepth of {} with blocks of {}", ToString(x.dims()), b));
  const int64_t n = x.dims()[0], c = x.dims()[1], h = x.dims()[2] / b, w = x.dims()[3] / b;
  NPUC_ASSIGN_OR_RETURN(Tensor y, Permute(x.Reshaped({n, c, h, b, w, b}), {0, 3, 5, 1, 2, 4}));
  ctx.set_result(0, y.Reshaped({n, c * b * b, h, w}));
  return OkStatus();
}

constexpr uint32_t kMoves = kPure | kCopiesElements | kNoFloatWiden;

} // namespace

OpDef TransposeDef() {
  return {.domain = "",
          .name = "Transpose",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntsAttr("perm")},
          .traits = kMoves,
          .infer = InferTranspose,
          .evaluate = EvaluateTranspose,
          .doc = "Dims in the order of perm (reversed when absent)."};
}

OpDef DepthToSpaceDef() {
  return {.domain = "",
          .name = "DepthToSpace",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("blocksize", true), StringAttr("mode")},
          .traits = kMoves,
          .verify = VerifyBlock,
          .infer = InferDepthToSpace,
          .evaluate = EvaluateDepthToSpace,
          .doc = "Channels rearranged into blocks of pixels."};
}

OpDef SpaceToDepthDef() {
  return {.domain = "",
          .name = "SpaceToDepth",
          .since_version = 13,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("blocksize", true)},
          .traits = kMoves,
          .verify = VerifyBlock,
          .infer = InferSpaceToDepth,
          .evaluate = EvaluateSpaceToDepth,
          .doc = "Blocks of pixels rearranged into channels."};
}

} // namespace npuc::ops
