// MaxPool, AveragePool and their global forms on the VPU.
//
// Windows are cut into blocks of output rows (and columns, and channels) with the halo they need. A global average over
// more than the pooling window's limit is a reduction over H and W (see reduce.cc's REDUCE command), exact in the same
// way: one integer sum, one quantise. Leaves alone: the second result (Indices), three spatial dims, storage_order.
#include <algorithm>

#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::View;
using program::Box;

const RuleDoc kRank{"pool-rank", "pooling must have one or two spatial dims", "reshape a 3-D pool whose depth is 1"};
const RuleDoc kIndices{"pool-indices", "MaxPool's Indices must not be used", "compute them on the host"};
const RuleDoc kKernel{"pool-kernel", "the window must be within the NPU's limit",
                      "pool in two steps, or use a global pool"};
const RuleDoc kStride{"pool-stride", "strides must be within the NPU's limit", "pool in two steps"};
const RuleDoc kDilation{"pool-dilation", "dilations must be within the NPU's limit", "use smaller dilations"};
const RuleDoc kPads{"pool-pads", "pads must be smaller than the dilated window", "pad with a Pad node first"};
const RuleDoc kMaxQuant{"pool-quantisation", "MaxPool's operand and result must have the same scale and zero point",
                        "use the same quantisation on both sides"};

struct Window {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, before{0, 0}, after{0, 0};
  bool global = false, max = false, include_pad = false;
};

Window WindowOf(const Node &n) {
  Window w;
  const Shape &x = n.operand(0)->type().shape();
  const int spatial = x.rank() - 2, first = 2 - spatial;
  w.max = n.Is("MaxPool") || n.Is("GlobalMaxPool");
  w.global = n.Is("GlobalAveragePool") || n.Is("GlobalMaxPool");
  if (w.global) {
    for (int i = 0; i < spatial; ++i)
      w.kernel[first + i] = x[2 + i].value();
    return w;
  }
  w.include_pad = n.attrs().Int("count_include_pad", 0) != 0;
  auto kernel = n.attrs().Ints("kernel_shape"), strides = n.attrs().Ints("strides"),
       dilations = n.attrs().Ints("dilations"), pads = n.attrs().Ints("pads");
  for (int i = 0; i < spatial; ++i) {
    w.kernel[first + i] = kernel[i];
    if (!strides.empty())
      w.stride[first + i] = strides[i];
    if (!dilations.empty())
      w.dilation[first + i] = dilations[i];
    if (!pads.empty()) {
      w.before[first + i] = pads[i];
      w.after[first + i] = pads[spatial + i];
    }
  }
  return w;
}

// The window covers the whole plane once.
bool IsGlobal(const Window &w, const View &in, const View &out) {
  return out.h == 1 && out.w == 1 && w.kernel[0] == in.h && w.kernel[1] == in.w && w.before[0] == 0 &&
         w.before[1] == 0 && w.dilation[0] == 1 && w.dilation[1] == 1;
}

class PoolOp : public LoweredOp {
public:
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::Image; }
  std::vector<RuleDoc> rules() const override {
    return {kRank, kIndices, kKernel, kStride, kDilation, kPads, kRuleWindow, kMaxQuant};
  }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const DType d = n.result()->type().dtype();
    const double lanes = t.vpu.lanes.Has(d) ? t.vpu.Lanes(d).ToDouble() : 1.0;
    return static_cast<int64_t>(static_cast<double>(n.operand(0)->type().shape().num_elements()) * 2 / lanes) +
           t.issue_cycles;
  }

  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Type &x = n.operand(0)->type(), &y = n.result()->type();
    const int rank = x.shape().rank();
    if (!report.Require(rank == 3 || rank == 4, kRank, "rank 3 or 4", std::to_string(rank)))
      return;
    RequireArithmeticTypes(n, ctx, 0, report);
    report.Require(n.num_results() < 2 || !n.result(1)->has_uses(), kIndices, "unused", "used");
    const Window w = WindowOf(n);
    if (w.max)
      report.Require(x.dtype() == y.dtype() && SameQuant(x.quant(), y.quant()), kMaxQuant, x.ToString(), y.ToString());
    Type xt = x, yt = y;
    xt.set_layout(Layout::NHWC);
    yt.set_layout(Layout::NHWC);
    const View in = program::ViewOfType(xt, {}, ctx.target), to = program::ViewOfType(yt, {}, ctx.target);
    if (IsGlobal(w, in, to))
      return;
    const auto &limits = ctx.target.limits;
    for (int i = 0; i < 2; ++i) {
      report.Require(w.kernel[i] <= limits.kernel_max[i], kKernel, DimsText(limits.kernel_max), DimsText(w.kernel));
      report.Require(w.stride[i] <= limits.stride_max[i], kStride, DimsText(limits.stride_max), DimsText(w.stride));
      report.Require(w.dilation[i] <= limits.dilation_max[i], kDilation, DimsText(limits.dilation_max),
                     DimsText(w.dilation));
      const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
      report.Require(w.before[i] >= 0 && w.after[i] >= 0 && w.before[i] < reach && w.after[i] < reach, kPads,
                     fmt::format("0 to {}", reach - 1), fmt::format("{} and {}", w.before[i], w.after[i]));
      RequireSeeingWindows({w.kernel[i], w.stride[i], w.dilation[i], w.before[i]}, i == 0 ? in.h : in.w,
                           i == 0 ? to.h : to.w, report);
    }
  }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Window w = WindowOf(n);
    const Value *x = n.operand(0), *y = n.result();
    const View in = ctx.ViewOf(x), out = ctx.ViewOf(y);
    BlockLimits limits;
    limits.bytes = ctx.budget() / 2;
    limits.tile = ctx.AskTile();
    if (IsGlobal(w, in, out)) {
      limits.overlap_elements = 0;
      auto bytes = [&](const Box &b) {
        return FetchBytes(ctx, in, Box{{b.start[0], 0, 0, b.start[3]}, {b.size[0], in.h, in.w, b.size[3]}}) +
               b.elements() * 2;
      };
      return ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
        isa::Reduce r;
        r.kind = w.max ? isa::ReduceKind::Max : isa::ReduceKind::Mean;
        r.axes = isa::kAxisH | isa::kAxisW;
        r.in = ctx.Fetch(in, Box{{b.start[0], 0, 0, b.start[3]}, {b.size[0], in.h, in.w, b.size[3]}}, x->name());
        r.out = ctx.Tile(out, b, y->name());
        r.in_quant = LowerContext::QuantOf(x);
        r.out_quant = LowerContext::QuantOf(y);
        const View tile = r.out;
        ctx.Vpu(std::move(r));
        ctx.Store(tile, out, b);
      });
    }
    struct Rows {
      int64_t start, size, before, after;
    };
    auto rows = [&](int axis, int64_t first, int64_t count, int64_t extent) {
      const int64_t lo = first * w.stride[axis] - w.before[axis];
      const int64_t hi = lo + (count - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1;
      Rows r;
      r.start = std::clamp<int64_t>(lo, 0, extent - 1);
      const int64_t end = std::clamp<int64_t>(hi, r.start + 1, extent);
      r.size = end - r.start;
      r.before = std::max<int64_t>(0, r.start - lo);
      // What the tensor's own padding covers; a ceil_mode window may reach further, which nobody counts.
      r.after = std::clamp<int64_t>(hi - end, 0, w.after[axis]);
      return r;
    };
    auto box_of = [&](const Box &b, const Rows &r, const Rows &c) {
      return Box{{b.start[0], r.start, c.start, b.start[3]}, {b.size[0], r.size, c.size, b.size[3]}};
    };
    auto bytes = [&](const Box &b) {
      const Rows r = rows(0, b.start[1], b.size[1], in.h), c = rows(1, b.start[2], b.size[2], in.w);
      return FetchBytes(ctx, in, box_of(b, r, c)) + (ctx.OnChip(out) ? 0 : b.elements() * out.elem_bytes());
    };
    return ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
      const Rows r = rows(0, b.start[1], b.size[1], in.h), c = rows(1, b.start[2], b.size[2], in.w);
      isa::Pool p;
      p.kind = w.max ? isa::PoolKind::Max : isa::PoolKind::Average;
      p.in = ctx.Fetch(in, box_of(b, r, c), x->name());
      p.out = ctx.Tile(out, b, y->name());
      p.in_quant = LowerContext::QuantOf(x);
      p.out_quant = LowerContext::QuantOf(y);
      p.kernel_h = w.kernel[0], p.kernel_w = w.kernel[1], p.stride_h = w.stride[0], p.stride_w = w.stride[1];
      p.dilation_h = w.dilation[0], p.dilation_w = w.dilation[1];
      p.pad_top = r.before, p.pad_bottom = r.after, p.pad_left = c.before, p.pad_right = c.after;
      p.count_include_pad = w.include_pad;
      const View tile = p.out;
      ctx.Vpu(std::move(p));
      ctx.Store(tile, out, b);
    });
  }
};

} // namespace

const NpuOp *PoolLowering() {
  static const PoolOp op;
  return &op;
}

} // namespace npuc::lower
