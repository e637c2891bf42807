// Gives the operators that follow a Conv, ConvTranspose, Gemm or MatMul to its output stage: npuc::Fused.
//
//   %a = Conv(%x, w): f16; %b = Relu(%a): f16                 ->  %b: f16 = npuc::Fused { Conv: f32; Relu: f32; Cast
//   f16 } %a = Conv(%x, w): u8{..}; %b = Add(%a, %r): u8{..}        ->  %b = npuc::Fused { Conv: u8; Dequantize; Add(.,
//   r): f32; Quantize }
//
// An operator joins when the value before it has it as its only reader and is no graph output, the hardware has a
// micro-operation for it (NpuOp::StageOps), the stage has room (max_stage_ops), and the whole is still legal. Of two
// anchors that meet in an Add the one computed later takes it: its own result is the one that is fresh.
//
// Left alone: anchors that the NPU refuses, float nodes that stay f32 (host), chains beyond --max-fusion-chain.
// Numerics: f16 values inside a chain are no longer rounded one by one but once at the end; integers stay exactly what
// the nodes say.
//
// Cost: near-linear; each anchor tries its chain once, and shorter ones only when the whole is refused.
#include "passes/fuse/output_stage.h"

namespace npuc {
namespace {

bool OnNpuType(const Type &t) {
  return t.is_static_tensor() && (t.is_quantized() || t.dtype() == DType::F16);
}

// Says what kept operators out that have a micro-operation: readers of `end`, the last value of the stage of `anchor`.
void RemarkNearMisses(const Node &anchor, const Value &end, const StageBuilder &stage, PassContext &ctx) {
  const CheckContext check{ctx.target};
  for (const Use &use : end.uses()) {
    const Node &reader = *use.user;
    const NpuOp *op = ctx.npu->Find(reader.op());
    if (reader.is_return() || !op || op->HasOutputStage() || reader.graph() != anchor.graph() ||
        reader.num_results() != 1 || !OnNpuType(reader.result()->type()) || !op->StageOps(reader, use.operand, check))
      continue;
    std::string why;
    if (DeniedBy(reader, ctx))
      why = "it is denied the NPU";
    else if (end.is_graph_output())
      why = fmt::format("'{}' is an output of the model", end.name());
    else if (!SoleUser(const_cast<Value *>(&end)))
      why = fmt::format("'{}' has {} readers", end.name(), end.uses().size());
    else if (!(reader.result()->type().shape() == end.type().shape()))
      why = "it broadcasts the stage's value";
    else if (stage.TooLong(reader))
      why =
          fmt::format("with it the layer has more ONNX nodes than --max-fusion-chain {}", ctx.options.max_fusion_chain);
    else
      why = "the stage is full, or cannot read the other operand";
    ctx.AddRemark(reader, fmt::format("not in the output stage of '{}': {}", anchor.Label(), why));
  }
}

Node *Fuse(Node &anchor, PassContext &ctx) {
  const NpuOp *op = ctx.npu->Find(anchor.op());
  if (!op || !op->HasOutputStage() || !OnNpuType(anchor.result()->type()) ||
      !ctx.npu->Check(anchor, CheckContext{ctx.target}).empty())
    return nullptr;
  auto side = [](Value *v) -> Value * { return v->constant() || OnNpuType(v->type()) ? v : nullptr; };
  llvm::SmallVector<Node *, 8> chain;
  unsigned limit = UINT_MAX; // nodes here; the builder minds --max-fusion-chain
  while (limit > 1) {
    chain.clear();
    StageBuilder stage(anchor, anchor.operands(), ctx);
    Value *v = anchor.result();
    while (stage.num_nodes() < limit) {
      Node *next = SoleUser(v);
      if (!next || next->num_results() != 1 || next->num_bodies() != 0 || !OnNpuType(next->result()->type()))
        break;
      if (DeniedBy(*next, ctx))
        break;
      if (!stage.Append(*next, v->uses()[0].operand, side))
        break;
      chain.push_back(next);
      v = next->result();
    }
    if (limit == UINT_MAX)
      RemarkNearMisses(anchor, *v, stage, ctx);
    if (chain.empty() || !ctx.MayRewrite())
      return nullptr;
    if (Node *fused = stage.Finish(v->type(), chain.back())) {
      Rewriter rw(chain.back());
      TakeName(*chain.back()->result(), *fused->result());
      chain.back()->result()->ReplaceAllUsesWith(fused->result());
      rw.EraseIfDead(chain.back());
      ctx.Count("fuse: fuse-output-stage");
      return fused;
    }
    limit = chain.size(); // one operator less
  }
  return nullptr;
}

} // namespace

StatusOr<bool> FuseOutputStages(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  bool changed = false;
  Graph &g = m.main(); // bodies are host work
  for (auto it = g.nodes().end(); it != g.nodes().begin();) {
    Node &n = *--it;
    if (n.is_return() || n.is_constant() || IsNpucOp(n, "Fused") || DeniedBy(n, ctx))
      continue;
    if (Node *fused = Fuse(n, ctx)) {
      it = fused->getIterator();
      changed = true;
    }
  }
  return changed;
}

} // namespace npuc
