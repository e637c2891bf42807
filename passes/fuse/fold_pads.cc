// Folds an explicit Pad into the window operator that reads it.
//
//   Pad(constant 0)  -> Conv                        pads of the Conv grow
//   Pad(constant 0)  -> AveragePool                 count_include_pad = 1 (the explicit zeros were counted)
//   Pad(-inf)        -> MaxPool                     pads grow; also Pad(0) over values that are never negative (Relu,
//   Sigmoid, ...),
//                                                   where a zero can't beat any of them
// On quantised types the pad is real 0 (the zero point), which is what a skipped tap contributes.
//
// Left alone: negative pads (a crop), pads of batch or channels, other values and modes, AveragePool that has pads of
// its own or ceil_mode (windows would be counted otherwise), MaxPool windows that could lie in padding alone, and
// whatever the NPU would then refuse although it took the operator before.
//
// A Pad with other users stays for them; each window operator folds it for itself.
#include <limits>

#include "passes/common.h"

namespace npuc {
namespace {

// Pads per axis (begin, end) of a constant-mode Pad; nullopt when they aren't known.
struct PadAmounts {
  llvm::SmallVector<int64_t, 4> begin, end;
  double value = 0;
};
std::optional<PadAmounts> AmountsOf(const Node &pad) {
  if (pad.attrs().String("mode", "constant") != "constant" || !HasStaticShape(pad.operand(0)))
    return std::nullopt;
  const auto pads = MatchConstantInts(pad.operand(1));
  if (!pads)
    return std::nullopt;
  const int rank = pad.operand(0)->type().shape().rank();
  llvm::SmallVector<int64_t, 4> axes;
  if (pad.operand(3)) {
    const auto given = MatchConstantInts(pad.operand(3));
    if (!given)
      return std::nullopt;
    for (int64_t a : *given)
      axes.push_back(a < 0 ? a + rank : a);
  } else {
    for (int i = 0; i < rank; ++i)
      axes.push_back(i);
  }
  if (pads->size() != 2 * axes.size())
    return std::nullopt;
  PadAmounts p;
  p.begin.assign(rank, 0);
  p.end.assign(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank)
      return std::nullopt;
    p.begin[axes[i]] = (*pads)[i];
    p.end[axes[i]] = (*pads)[i + axes.size()];
  }
  if (pad.operand(2)) {
    const auto v = pad.operand(2)->type().is_quantized() ? std::nullopt : ScalarConstant(pad.operand(2));
    if (!v)
      return std::nullopt;
    p.value = *v;
  }
  return p;
}

bool NeverNegative(const Value *v) {
  if (v->type().is_quantized()) {
    const QuantParams &q = *v->type().quant();
    if (q.per_tensor() && q.zero_points[0] == IntMin(v->type().dtype()))
      return true;
  }
  const Node *n = v->def();
  if (!n)
    return false;
  if (IsOneOf(*n, {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Softplus"}))
    return true;
  if (n->Is("Clip")) {
    const auto lo = ScalarConstant(n->operand(1));
    return lo && *lo >= 0;
  }
  if (IsOneOf(*n, {"MaxPool", "AveragePool"}))
    return NeverNegative(n->operand(0));
  return false;
}

bool Fold(Node &n, PassContext &ctx) {
  const bool conv = n.Is("Conv"), average = n.Is("AveragePool"), max = n.Is("MaxPool");
  if (!conv && !average && !max)
    return false;
  Node *const pad = DefinedBy(n.operand(0), "Pad");
  if (!pad || pad->graph() != n.graph())
    return false;
  if (max && n.num_results() > 1 && n.result(1)->has_uses())
    return false; // indices count the padded image
  if (!SameQuant(pad->operand(0)->type().quant(), n.operand(0)->type().quant()))
    return false;
  const auto amounts = AmountsOf(*pad);
  if (!amounts)
    return false;
  const int rank = static_cast<int>(amounts->begin.size()), spatial = rank - 2;
  if (spatial < 1)
    return false;
  for (int i = 0; i < rank; ++i) {
    if (amounts->begin[i] < 0 || amounts->end[i] < 0)
      return false;
    if (i < 2 && (amounts->begin[i] != 0 || amounts->end[i] != 0))
      return false;
  }
  const bool zero = amounts->value == 0;
  const auto old = n.attrs().Ints("pads");
  std::vector<int64_t> pads(2 * spatial, 0);
  if (!old.empty() && static_cast<int>(old.size()) != 2 * spatial)
    return false;
  for (int i = 0; i < spatial; ++i) {
    pads[i] = (old.empty() ? 0 : old[i]) + amounts->begin[i + 2];
    pads[i + spatial] = (old.empty() ? 0 : old[i + spatial]) + amounts->end[i + 2];
  }
  bool include = false;
  if (conv) {
    if (!zero)
      return false;
  } else {
    if (n.attrs().Int("ceil_mode", 0))
      return false;
    const auto kernel = n.attrs().Ints("kernel_shape");
    const auto dilations = n.attrs().Ints("dilations");
    if (static_cast<int>(kernel.size()) != spatial)
      return false;
    for (int i = 0; i < spatial; ++i) {
      // Each window must keep a real element. (Pads as large as a dilated window's first tap could miss the image.)
      if (!dilations.empty() && dilations[i] != 1)
        return false;
      if (pads[i] >= kernel[i] || pads[i + spatial] >= kernel[i])
        return false;
    }
    if (average) {
      if (!zero)
        return false;
      for (int64_t p : old)
        if (p != 0)
          return false;
      include = true;
    } else if (!(amounts->value == -std::numeric_limits<double>::infinity() ||
                 (zero && NeverNegative(pad->operand(0))))) {
      return false;
    }
  }

  if (!ctx.MayRewrite())
    return false;
  Rewriter rw(&n);
  AttributeList attrs = n.attrs();
  attrs.Set("pads", std::move(pads));
  if (include)
    attrs.Set("count_include_pad", int64_t{1});
  llvm::SmallVector<Value *, 4> operands(n.operands().begin(), n.operands().end());
  operands[0] = pad->operand(0);
  Origin origin = pad->result()->has_one_use() ? MergeOrigins(pad->origin(), n.origin()) : n.origin();
  Node *made = rw.Create(&n.op(), operands, std::move(origin), {n.result()->type()}, std::move(attrs));
  if (ctx.npu && made->result()->type().is_static_tensor()) {
    const CheckContext check{ctx.target, ctx.target.HasFloat() ? DType::F16 : DType::Undefined};
    if (!ctx.npu->Check(*made, check).empty() && ctx.npu->Check(n, check).empty()) {
      made->Erase();
      return false;
    }
  }
  llvm::SmallVector<Value *, 2> with(n.num_results(), nullptr);
  with[0] = made->result();
  rw.ReplaceNode(&n, with);
  return true;
}

} // namespace

StatusOr<bool> FoldPads(Module &m, PassContext &ctx) {
  return RewriteEachNode(m.main(), [&](Node &n) {
    if (!Fold(n, ctx))
      return false;
    ctx.Count("fuse: fold-pads");
    return true;
  });
}

} // namespace npuc
