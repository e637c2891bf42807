// Conv: one- and two-dimensional, dense, grouped and depthwise, with an output stage when it anchors a Fused body.
//
//   groups = 1                         dense
//   groups = channels in = out         depthwise
//   else                               grouped; integer weights of small groups are merged into fewer, larger groups
//   with zero weights
//                                      between them, where the formula says that is faster (exact: a zero weight adds
//                                      nothing)
// Kernels, strides and dilations above the target's limits are accumulated steps, up to 64 of each, or products of rows
// of any width where they lie in the input (large_conv.h). Leaves alone: three spatial dims, what is larger still.
#include <algorithm>

#include "backend/lower/conv.h"
#include "backend/lower/large_conv.h"
#include "backend/lower/mxu.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "backend/lower/weights.h"
#include "backend/timing/timing.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

const RuleDoc kRank{"conv-rank", "the convolution must have one or two spatial dims",
                    "reshape a 3-D convolution whose depth is 1"};
const RuleDoc kKernel{"conv-kernel",
                      "the kernel must be at most 64 in each direction (any width in one row, without padding or "
                      "dilation), and take at most 1024 steps where it is beyond the NPU's limits",
                      "split the kernel into several convolutions"};
const RuleDoc kStride{"conv-stride",
                      "strides must be at most 64 (any in one row of kernel without padding or dilation)",
                      "use smaller strides"};
const RuleDoc kDilation{"conv-dilation", "dilations must be at most 64", "use smaller dilations"};
const RuleDoc kPads{"conv-pads", "pads must be smaller than the dilated kernel", "pad with a Pad node first"};
const RuleDoc kWeights{"conv-weights",
                       "weights must be a constant of a type the target multiplies (int8, uint8, int4, uint4, float16)",
                       "export the weights as initializers"};
const RuleDoc kWeightAxis{"conv-weight-axis", "weights must be quantised per tensor or per output channel",
                          "re-quantise per output channel"};
const RuleDoc kBias{"conv-bias", "the bias must be a constant (int32 with scale x*w, or float)",
                    "fold the bias into an initializer"};

using Geometry = ConvGeometry;

Geometry GeometryOf(const Node &n) {
  Geometry g;
  const int spatial = n.operand(0)->type().shape().rank() - 2;
  const int first = 2 - spatial;
  const Shape &w = n.operand(1)->type().shape();
  auto strides = n.attrs().Ints("strides"), dilations = n.attrs().Ints("dilations"), pads = n.attrs().Ints("pads");
  for (int i = 0; i < spatial; ++i) {
    g.kernel[first + i] = w[2 + i].value();
    if (!strides.empty())
      g.stride[first + i] = strides[i];
    if (!dilations.empty())
      g.dilation[first + i] = dilations[i];
    if (!pads.empty()) {
      g.pad_before[first + i] = pads[i];
      g.pad_after[first + i] = pads[spatial + i];
    }
  }
  return g;
}

class ConvOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const int rank = n.operand(0)->type().shape().rank();
    if (!report.Require(rank == 3 || rank == 4, kRank, "rank 3 or 4", std::to_string(rank)))
      return;
    RequireArithmeticTypes(n, ctx, 0b110, report);
    CheckWeights(n, ctx, n.operand(1), /*channel_axis=*/0, kWeights, kWeightAxis, report);
    CheckBias(n, ctx, n.operand(2), kBias, report);
    const Geometry g = GeometryOf(n);
    if (IsRowProduct(g, n.operand(0)->type().shape()[1].value(), n.attrs().Int("group", 1), ctx.target))
      return;
    if (NeedsSteps(g, ctx.target))
      report.Require(NumSteps(g, ctx.target) <= kMaxSteps, kKernel, fmt::format("{} steps", kMaxSteps),
                     fmt::format("{} steps for {}", NumSteps(g, ctx.target), DimsText(g.kernel)));
    for (int i = 0; i < 2; ++i) {
      report.Require(g.kernel[i] <= kMaxSteppedKernel, kKernel, std::to_string(kMaxSteppedKernel), DimsText(g.kernel));
      report.Require(g.stride[i] <= kMaxSteppedStride, kStride, std::to_string(kMaxSteppedStride), DimsText(g.stride));
      report.Require(g.dilation[i] <= kMaxSteppedDilation, kDilation, std::to_string(kMaxSteppedDilation),
                     DimsText(g.dilation));
      const int64_t reach = (g.kernel[i] - 1) * g.dilation[i] + 1;
      report.Require(g.pad_before[i] >= 0 && g.pad_after[i] >= 0 && g.pad_before[i] < std::max<int64_t>(reach, 1) &&
                         g.pad_after[i] < std::max<int64_t>(reach, 1),
                     kPads, fmt::format("0 to {}", reach - 1),
                     fmt::format("{} and {}", g.pad_before[i], g.pad_after[i]));
      // Steps that see padding alone are left out, and something must be left to accumulate.
      if (NeedsSteps(g, ctx.target) && i >= 4 - rank)
        RequireSeeingWindows({g.kernel[i], g.stride[i], g.dilation[i], g.pad_before[i]},
                             n.operand(0)->type().shape()[i + rank - 2].value(),
                             n.result()->type().shape()[i + rank - 2].value(), report);
    }
  }

  LayoutRule layout_rule(const Node &) const override { return LayoutRule::Image; }
  bool HasOutputStage() const override { return true; }
  std::vector<RuleDoc> rules() const override {
    return {kRank, kKernel, kStride, kDilation, kPads, kWeights, kWeightAxis, kBias, kRuleWindow};
  }

  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const double macs =
        static_cast<double>(n.result()->type().shape().num_elements()) *
        static_cast<double>(n.operand(1)->type().shape().num_elements() / n.operand(1)->type().shape()[0].value());
    return static_cast<int64_t>(macs / static_cast<double>(t.mxu.px * t.mxu.oc * t.mxu.ic)) + 100;
  }

  Status Lower(const Node &n, LowerContext &ctx) const override { return LowerConv(n, ctx); }
};

// Group count after merging small groups of an integer convolution: the divisor of `groups` with the least array time.
int64_t MergedGroups(int64_t groups, int64_t ic, int64_t oc, int64_t taps, const Target &t) {
  int64_t best = groups, best_cost = -1;
  for (int64_t g = 1; g <= groups; ++g) {
    if (groups % g != 0)
      continue;
    const int64_t cost = g * ((oc / g + t.mxu.oc - 1) / t.mxu.oc) * ((ic / g + t.mxu.ic - 1) / t.mxu.ic) * taps;
    if (best_cost < 0 || cost <= best_cost) {
      best = g;
      best_cost = cost;
    }
  }
  return best;
}

} // namespace

void MergeGroups(MxuProblem &p, WeightSource &w, const Target &t) {
  if (p.mode != isa::ConvMode::Grouped || IsFloat(p.x))
    return;
  const int64_t merged = MergedGroups(p.groups, p.ic, p.oc, p.kh * p.kw, t);
  if (merged == p.groups)
    return;
  w.merged_oc = p.oc / p.groups;
  w.merged_ic = p.ic / p.groups;
  p.groups = merged;
  if (merged == 1)
    p.mode = isa::ConvMode::Dense;
}

void CheckWeights(const Node &n, const CheckContext &ctx, const Value *w, int channel_axis, const RuleDoc &weights,
                  const RuleDoc &axis, RuleReport &report) {
  const bool quantized = n.operand(0)->type().is_quantized();
  const DType t = ctx.dtype(w);
  report.Require(Outer(w)->constant() != nullptr, weights, "a constant",
                 fmt::format("the computed tensor '{}'", w->name()));
  if (quantized) {
    const bool narrow = t == DType::I8 || t == DType::U8 || t == DType::I4 || t == DType::U4;
    report.Require(w->type().is_quantized() && narrow, weights, "quantised i8, u8, i4 or u4",
                   w->type().is_quantized() ? std::string(Name(t)) : "float");
    if (w->type().is_quantized() && !w->type().quant()->per_tensor())
      report.Require(w->type().quant()->axis == channel_axis, axis, fmt::format("axis {}", channel_axis),
                     fmt::format("axis {}", w->type().quant()->axis));
  } else {
    report.Require(!w->type().is_quantized() && (t == DType::F16 || t == DType::F32), weights, "f16",
                   std::string(Name(t)));
  }
}

void CheckBias(const Node &n, const CheckContext &ctx, const Value *b, const RuleDoc &rule, RuleReport &report) {
  if (!b)
    return;
  const DType t = ctx.dtype(b);
  report.Require(Outer(b)->constant() != nullptr, rule, "a constant",
                 fmt::format("the computed tensor '{}'", b->name()));
  const bool quantized = n.operand(0)->type().is_quantized();
  report.Require(quantized ? t == DType::I32 : t == DType::F16 || t == DType::F32, rule,
                 quantized ? "i32" : "f16 or f32", std::string(Name(t)));
}

void FillTypes(MxuProblem &p, const Value *x, const Value *w, const Stage &stage) {
  p.x = x->type().dtype();
  p.w = w->type().dtype() == DType::F32 ? DType::F16 : w->type().dtype();
  p.out = stage.result->type().dtype();
  if (x->type().is_quantized())
    p.in_zero = x->type().quant()->zero_point();
}

void FillStageCost(MxuProblem &p, const Stage &stage, const LowerContext &ctx) {
  p.stage_passes = timing::StagePasses(stage.ops, ctx.target()).ToDouble();
  for (const Stage::Operand &o : stage.operands)
    if (!ctx.OnChip(o.full) && o.full.elements() > 2048)
      p.operand_bytes += o.full.elem_bytes();
}

ChannelData ChannelDataOf(const Node &anchor, const Stage &stage, const Value *x, const Value *w, const Value *bias,
                          int64_t oc) {
  ChannelData d;
  if (x->type().is_quantized()) {
    const QuantParams &qw = *w->type().quant();
    const Value *y = anchor.result();
    d.scale = ProductScales(x->type().quant()->scale(), qw.scales,
                            stage.requant ? std::optional<float>(y->type().quant()->scale()) : std::nullopt);
    d.zero = qw.zero_points;
    if (bias)
      for (int64_t i = 0; i < oc; ++i)
        d.int_bias.push_back(bias->constant()->AsInt(bias->constant()->num_elements() == 1 ? 0 : i));
  } else {
    d.scale = {1.0f};
    if (bias)
      for (int64_t i = 0; i < oc; ++i)
        d.float_bias.push_back(
            static_cast<float>(bias->constant()->AsDouble(bias->constant()->num_elements() == 1 ? 0 : i)));
  }
  return d;
}

Status LowerConv(const Node &n, LowerContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Stage stage, BuildStage(n, ctx));
  const Node &conv = *stage.anchor;
  const Value *x = ctx.Resolve(conv.operand(0));
  const Value *w = ctx.Resolve(conv.operand(1));
  const Value *b = conv.operand(2) ? ctx.Resolve(conv.operand(2)) : nullptr;
  const Geometry g = GeometryOf(conv);
  const Shape &ws = w->type().shape();

  MxuProblem p;
  p.name = stage.result->name();
  FillTypes(p, x, w, stage);
  p.in = ctx.ViewOf(x);
  p.result = ctx.ViewOf(stage.result);
  p.n = p.result.n;
  p.ih = p.in.h, p.iw = p.in.w, p.oh = p.result.h, p.ow = p.result.w;
  p.ic = p.in.c, p.oc = p.result.c;
  p.kh = g.kernel[0], p.kw = g.kernel[1];
  p.stride_h = g.stride[0], p.stride_w = g.stride[1];
  p.dilation_h = g.dilation[0], p.dilation_w = g.dilation[1];
  p.pad_top = g.pad_before[0], p.pad_left = g.pad_before[1];
  p.groups = conv.attrs().Int("group", 1);
  p.mode = p.groups == 1                          ? isa::ConvMode::Dense
           : p.groups == p.ic && p.groups == p.oc ? isa::ConvMode::Depthwise
                                                  : isa::ConvMode::Grouped;
  p.ifm_on_chip = ctx.OnChip(p.in);
  p.ofm_on_chip = ctx.OnChip(p.result);
  FillStageCost(p, stage, ctx);

  const int64_t icg = ws[1].value();
  WeightSource source{*w->constant(), 0, icg * p.kh * p.kw, p.kh * p.kw, p.kw, 1};
  const bool steps = NeedsSteps(g, ctx.target());
  if (!steps)
    MergeGroups(p, source, ctx.target());
  p.uniform_weight = UniformWeight(source);
  ChannelData data = ChannelDataOf(conv, stage, x, w, b, p.oc);
  p.acc = ProveAccumulator(p, source, data);
  if (IsRowProduct(g, p.ic, p.groups, ctx.target()))
    NPUC_RETURN_IF_ERROR(MakeRowProduct(g, p, source, ctx));
  else if (steps)
    return LowerLargeConv(p, g, stage, source, data, ctx);
  p.tile = ctx.AskTile();
  NPUC_ASSIGN_OR_RETURN(const MxuTiles tiles, ChooseTiles(p, ctx.target(), ctx.budget()));
  const std::vector<int32_t> zero = data.zero;
  return EmitMxu(p, tiles, stage, MakePackWeights(p, ctx.target(), std::move(source), zero),
                 MakePackTable(p, std::move(data)), ctx);
}

const NpuOp *ConvLowering() {
  static const ConvOp op;
  return &op;
}

} // namespace npuc::lower
