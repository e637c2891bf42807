// Sum, Mean, Max and Min of any number of operands: a chain of ELEM from left to right in f32, rounded once at its end.
// Max and Min of two go the way of the other elementwise operators (8-bit tables for scalars).
#include <algorithm>

#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/support/status.h"

namespace npuc::lower {

const NpuOp *ElementwiseLowering();

namespace {

using isa::ElemFn;
using isa::View;
using program::Box;

const RuleDoc kBroadcast{"variadic-broadcast", "operands must broadcast within the four dims of the result's view",
                         "reshape to at most four dims around the node"};
const RuleDoc kCount{"variadic-operands", "there must be at most 64 operands", "add them in groups"};

ElemFn FnOf(const Node &n) {
  return n.Is("Max") ? ElemFn::Max : n.Is("Min") ? ElemFn::Min : ElemFn::Add;
}
bool IsPlain(const Node &n) {
  return (n.Is("Max") || n.Is("Min")) && n.num_operands() == 2;
}

class VariadicOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    if (IsPlain(n))
      return ElementwiseLowering()->Check(n, ctx, out);
    RuleReport report(out);
    RequireArithmeticTypes(n, ctx, 0, report);
    report.Require(n.num_operands() <= 64, kCount, "64", std::to_string(n.num_operands()));
    for (const Value *v : n.operands())
      report.Require(
          BroadcastView(program::ViewOfType(v->type(), {}, ctx.target), v->type(), n.result()->type()).has_value(),
          kBroadcast, n.result()->type().shape().ToString(), v->type().shape().ToString());
  }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const double lanes = t.vpu.lanes.Has(DType::F32) ? t.vpu.Lanes(DType::F32).ToDouble() : 1.0;
    return static_cast<int64_t>(static_cast<double>(n.result()->type().shape().num_elements() * n.num_operands()) /
                                lanes) +
           t.issue_cycles;
  }
  std::vector<RuleDoc> rules() const override {
    std::vector<RuleDoc> r = ElementwiseLowering()->rules();
    r.push_back(kBroadcast);
    r.push_back(kCount);
    return r;
  }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    if (IsPlain(n))
      return ElementwiseLowering()->Lower(n, ctx);
    const Value *y = n.result();
    const View out = ctx.ViewOf(y);
    std::vector<View> full;
    for (const Value *v : n.operands()) {
      const std::optional<View> b =
          BroadcastView(v->constant() ? ctx.ConstView(v) : ctx.ViewOf(v), v->type(), y->type());
      NPUC_CHECK(b.has_value(), "broadcast of '{}'", v->name());
      full.push_back(*b);
    }
    const bool mean = n.Is("Mean");
    const size_t steps =
        full.size() - 1 + (mean && full.size() > 1 ? 1 : 0); // one operand alone: a copy (or requantisation)
    auto bytes = [&](const Box &b) {
      int64_t r = (ctx.OnChip(out) ? 0 : b.elements() * out.elem_bytes()) + (steps > 1 ? b.elements() * 4 : 0);
      for (const View &v : full)
        r += FetchBytes(ctx, v, b);
      return r;
    };
    BlockLimits limits;
    limits.bytes = ctx.budget() / 2;
    limits.tile = ctx.AskTile();
    const isa::Quant qy = LowerContext::QuantOf(y);
    return ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
      const View to = ctx.Tile(out, b, y->name());
      const View sum =
          steps > 1 ? ctx.AllocTile(DType::F32, b.size[0], b.size[1], b.size[2], b.size[3], y->name() + "/f32") : to;
      auto operand = [&](size_t i) {
        return FetchBroadcast(ctx, full[i], b, n.operand(static_cast<unsigned>(i))->name());
      };
      isa::Elem e;
      e.in[0] = operand(0);
      e.in_quant[0] = LowerContext::QuantOf(n.operand(0));
      auto emit = [&](bool last) {
        e.out = last ? to : sum;
        e.out_quant = last ? qy : isa::Quant{};
        ctx.Vpu(e);
        e.in = {sum, {}, {}};
        e.in_quant = {};
      };
      if (full.size() == 1) {
        e.fn = full[0].dtype == out.dtype && e.in_quant[0] == qy            ? ElemFn::Copy
               : full[0].dtype == DType::F16 || full[0].dtype == DType::F32 ? ElemFn::Cast
                                                                            : ElemFn::Requantise;
        emit(true);
      }
      for (size_t i = 1; i < full.size(); ++i) {
        e.fn = FnOf(n);
        e.in[1] = operand(i);
        e.in_quant[1] = LowerContext::QuantOf(n.operand(static_cast<unsigned>(i)));
        emit(!mean && i + 1 == full.size());
      }
      if (mean && full.size() > 1) {
        e.fn = ElemFn::Div;
        e.scalar[1] = static_cast<float>(full.size());
        emit(true);
      }
      ctx.Store(to, out, b);
    });
  }
};

} // namespace

const NpuOp *VariadicLowering() {
  static const VariadicOp op;
  return &op;
}

} // namespace npuc::lower
