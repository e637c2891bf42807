// LRN on the VPU: y = x * (bias + alpha / size * sum of x^2 over `size` neighbouring channels) ^ -beta.
//
// The squares of a block of pixels lie in f32 with their channels innermost; seen as rows of C elements, the sum over
// neighbours is average pooling over a row, which counts its padding: alpha times that average. Everything stays in f32
// to the last multiplication. Leaves alone: windows beyond the pooling limit, ranks other than 3 and 4.
#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::ElemFn;
using isa::View;
using program::Box;

const RuleDoc kRank{"lrn-rank", "the operand must have rank 3 or 4", "reshape around the node"};
const RuleDoc kWindow{"lrn-size", "the window must be within the NPU's pooling limit", "use a smaller size"};

class LrnOp : public LoweredOp {
public:
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::Image; }
  std::vector<RuleDoc> rules() const override { return {kRank, kWindow}; }

  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const int rank = n.operand(0)->type().shape().rank();
    if (!report.Require(rank == 3 || rank == 4, kRank, "rank 3 or 4", std::to_string(rank)))
      return;
    RequireArithmeticTypes(n, ctx, 0, report);
    const int64_t size = n.attrs().Int("size", 1), most = ctx.target.limits.kernel_max[1];
    report.Require(size <= most, kWindow, std::to_string(most), std::to_string(size));
  }

  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const double lanes = t.vpu.lanes.Has(DType::F32) ? t.vpu.Lanes(DType::F32).ToDouble() : 1.0;
    const double passes = static_cast<double>(n.attrs().Int("size", 1)) + t.vpu.Passes(VpuFunction::Pow).ToDouble() + 4;
    return static_cast<int64_t>(static_cast<double>(n.result()->type().shape().num_elements()) * passes / lanes) +
           t.issue_cycles;
  }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Value *x = n.operand(0), *y = n.result();
    const View in = ctx.ViewOf(x), out = ctx.ViewOf(y);
    const int64_t size = n.attrs().Int("size", 1);
    auto bytes = [&](const Box &b) {
      return FetchBytes(ctx, in, b) + (ctx.OnChip(out) ? 0 : b.elements() * out.elem_bytes()) + 8 * b.elements();
    };
    BlockLimits limits;
    limits.bytes = ctx.budget() / 2;
    limits.split[program::kC] = false; // neighbours
    return ForEachBlock(program::DimsOf(in), limits, bytes, [&](const Box &b) {
      const View from = ctx.Fetch(in, b, x->name()), to = ctx.Tile(out, b, y->name());
      const isa::Quant qx = LowerContext::QuantOf(x);
      const auto [bn, bh, bw, bc] = b.size;
      const View squares = ctx.AllocTile(DType::F32, bn, bh, bw, bc, y->name() + "/squares");
      View norm = ctx.AllocTile(DType::F32, bn, bh, bw, bc, y->name() + "/norm");
      isa::Elem square;
      square.fn = ElemFn::Mul;
      square.in = {from, from, {}};
      square.in_quant = {qx, qx, {}};
      square.out = squares;
      ctx.Vpu(square);

      isa::Pool mean;
      mean.kind = isa::PoolKind::Average;
      mean.in = isa::NhwcView(squares.address, DType::F32, bn * bh, bw, bc, 1);
      mean.out = isa::NhwcView(norm.address, DType::F32, bn * bh, bw, bc, 1);
      mean.kernel_w = size;
      mean.pad_left = (size - 1) / 2;
      mean.pad_right = size / 2;
      mean.count_include_pad = true;
      ctx.Vpu(std::move(mean));

      auto scalar = [&](ElemFn fn, float by) {
        isa::Elem e;
        e.fn = fn;
        e.in[0] = e.out = norm;
        e.scalar[1] = by;
        ctx.Vpu(std::move(e));
      };
      scalar(ElemFn::Mul, n.attrs().Float("alpha", 1e-4f));
      scalar(ElemFn::Add, n.attrs().Float("bias", 1.0f));
      scalar(ElemFn::Pow, -n.attrs().Float("beta", 0.75f));
      isa::Elem scale;
      scale.fn = ElemFn::Mul;
      scale.in = {from, norm, {}};
      scale.in_quant[0] = qx;
      scale.out = to;
      scale.out_quant = LowerContext::QuantOf(y);
      ctx.Vpu(std::move(scale));
      ctx.Store(to, out, b);
    });
  }
};

} // namespace

const NpuOp *LrnLowering() {
  static const LrnOp op;
  return &op;
}

} // namespace npuc::lower
