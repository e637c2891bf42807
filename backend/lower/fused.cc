// Fused: an anchor with an output stage. Legal when its anchor is and the chain fits the stage; lowered by the anchor's
// own lowering.
#include "backend/lower/conv.h"
#include "backend/lower/registry.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

const RuleDoc kChain{"fused-chain", "the operators after the anchor must fit one output stage",
                     "lower --max-fusion-chain"};

const NpuOp &AnchorOp(const Node &n) {
  const NpuOp *op = ReferenceNpuOps().Find(AnchorOf(n).op());
  NPUC_CHECK(op != nullptr && op->HasOutputStage(), "Fused body starts with {}", AnchorOf(n).op().name);
  return *op;
}

class FusedOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Node &anchor = AnchorOf(n);
    AnchorOp(n).Check(anchor, ctx, out);
    int ops = anchor.result()->type().is_quantized() ? 2 : 1;
    for (const Value *v = anchor.result(); !v->is_graph_output();) {
      if (!report.Require(v->has_one_use(), kChain, "one reader",
                          fmt::format("{} readers of '{}'", v->uses().size(), v->name())))
        return;
      const Use use = v->uses()[0];
      const std::optional<int> k = StageOpsOf(*use.user, use.operand, ctx);
      if (!report.Require(k.has_value(), kChain, "output-stage operators", std::string(use.user->op().name)))
        return;
      ops += *k;
      v = use.user->result();
    }
    report.Require(ops <= kMaxStageOps, kChain, std::to_string(kMaxStageOps), std::to_string(ops));
  }
  LayoutRule layout_rule(const Node &n) const override { return AnchorOp(n).layout_rule(AnchorOf(n)); }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    return AnchorOp(n).EstimateCycles(AnchorOf(n), t);
  }
  Status Lower(const Node &n, LowerContext &ctx) const override { return AnchorOp(n).Lower(n, ctx); }
  std::vector<RuleDoc> rules() const override { return {kChain}; }
};

} // namespace

const NpuOp *FusedLowering() {
  static const FusedOp op;
  return &op;
}

} // namespace npuc::lower
