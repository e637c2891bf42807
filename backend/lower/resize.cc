// Resize: nearest and linear interpolation along H and W, in blocks of output with the source rows and columns that
// they read.
//
//   all extents kept, all scales 1    a copy
//   else                              RESIZE; which rows a block reads is asked of the same arithmetic that reads them
//   (backend/isa/resize_math.h)
// Leaves alone: cubic, antialias, exclude_outside, tf_crop_and_resize, tf_half_pixel_for_nn, other axes than H and W.
#include <algorithm>

#include "backend/isa/resize_math.h"
#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "backend/lower/strided.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::View;
using program::Box;

const RuleDoc kRank{"resize-rank", "the operand must be (N, C, W) or (N, C, H, W), and N and C must keep their extents",
                    "resize spatial axes only"};
const RuleDoc kMode{"resize-mode",
                    "the mode must be nearest or linear, without antialias, exclude_outside and a region of interest",
                    "export with mode=linear"};
const RuleDoc kCoordinates{"resize-coordinates",
                           "the coordinate transformation must be half_pixel, half_pixel_symmetric, "
                           "pytorch_half_pixel, align_corners or asymmetric",
                           "export with half_pixel"};
const RuleDoc kScales{"resize-scales",
                      "scales or sizes must be constants, and keep_aspect_ratio_policy must be stretch",
                      "fold them into initializers, or bind them with --bind"};

isa::Nearest NearestOf(std::string_view s) {
  if (s == "round_prefer_ceil")
    return isa::Nearest::RoundPreferCeil;
  if (s == "floor")
    return isa::Nearest::Floor;
  if (s == "ceil")
    return isa::Nearest::Ceil;
  return isa::Nearest::RoundPreferFloor;
}

const Tensor *Given(const Node &n, unsigned i) {
  const Tensor *t = n.operand(i) ? n.operand(i)->constant() : nullptr;
  return t && t->num_elements() > 0 ? t : nullptr;
}

// The scale of each axis as the command's field says it: an f32, or 0 for "by the extents". Axes that are not named: 1.
std::vector<float> Scales(const Node &n) {
  const int rank = n.operand(0)->type().shape().rank();
  std::vector<float> r(rank, 1.0f);
  std::vector<int64_t> axes(n.attrs().Ints("axes").begin(), n.attrs().Ints("axes").end());
  if (axes.empty())
    for (int i = 0; i < rank; ++i)
      axes.push_back(i);
  const Tensor *scales = Given(n, 2);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axes[i] < 0 ? axes[i] + rank : axes[i];
    const bool same = n.operand(0)->type().shape()[a].value() == n.result()->type().shape()[a].value();
    r[a] = scales ? static_cast<float>(scales->AsDouble(static_cast<int64_t>(i))) : same ? 1.0f : 0.0f;
  }
  return r;
}

bool KeepsAll(const Node &n) {
  if (!(n.operand(0)->type().shape() == n.result()->type().shape()))
    return false;
  const std::vector<float> scales = Scales(n);
  return std::all_of(scales.begin(), scales.end(), [](float s) { return s == 1.0f; });
}

class ResizeOp : public LoweredOp {
public:
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::Image; }
  std::vector<RuleDoc> rules() const override { return {kRank, kMode, kCoordinates, kScales}; }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const DType d = n.result()->type().dtype();
    const double lanes = t.vpu.lanes.Has(d) ? t.vpu.Lanes(d).ToDouble() : 1.0;
    const bool nearest = n.attrs().String("mode", "nearest") == "nearest";
    const double passes = t.vpu.Passes(nearest ? VpuFunction::ResizeNearest : VpuFunction::ResizeLinear).ToDouble();
    return static_cast<int64_t>(static_cast<double>(n.result()->type().shape().num_elements()) * passes / lanes) +
           t.issue_cycles;
  }

  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    RequireArithmeticTypes(n, ctx, 0b1110, report);
    for (unsigned i = 2; i < 4; ++i)
      if (n.operand(i))
        report.Require(n.operand(i)->constant() != nullptr, kScales, "constants", "a computed tensor");
    const std::string_view mode = n.attrs().String("mode", "nearest"),
                           policy = n.attrs().String("keep_aspect_ratio_policy", "stretch");
    const std::string_view transform = n.attrs().String("coordinate_transformation_mode", "half_pixel");
    if (Given(n, 3))
      report.Require(policy == "stretch", kScales, "stretch", std::string(policy));
    const Shape &x = n.operand(0)->type().shape(), &y = n.result()->type().shape();
    const int rank = x.rank();
    if (!report.Require(rank == 3 || rank == 4, kRank, "rank 3 or 4", std::to_string(rank)))
      return;
    const std::vector<float> scales = Scales(n);
    for (int i = 0; i < 2; ++i)
      report.Require(x[i] == y[i] && scales[i] == 1.0f, kRank, x.ToString(), y.ToString());
    if (KeepsAll(n) && transform != "tf_crop_and_resize")
      return;
    report.Require(mode == "nearest" || mode == "linear", kMode, "nearest, linear", std::string(mode));
    report.Require(ResizeCoordinatesOf(transform).has_value(), kCoordinates, "half_pixel ... asymmetric",
                   std::string(transform));
    if (mode == "linear") {
      report.Require(n.attrs().Int("antialias", 0) == 0, kMode, "antialias 0", "1");
      report.Require(n.attrs().Int("exclude_outside", 0) == 0, kMode, "exclude_outside 0", "1");
    }
  }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Value *x = n.operand(0), *y = n.result();
    const View in = ctx.ViewOf(x), out = ctx.ViewOf(y);
    if (KeepsAll(n) && x->type().dtype() == y->type().dtype() && SameQuant(x->type().quant(), y->type().quant())) {
      CopyStrided(ctx, StridedOf(in, x->type()), StridedOf(out, y->type()));
      return absl::OkStatus();
    }
    const std::vector<float> scales = Scales(n);
    isa::Resize r;
    r.kind = n.attrs().String("mode", "nearest") == "nearest" ? isa::ResizeKind::Nearest : isa::ResizeKind::Linear;
    // A copy that changes the quantisation only may have come with any transformation: all agree at scale 1.
    r.coordinates = ResizeCoordinatesOf(n.attrs().String("coordinate_transformation_mode", "half_pixel"))
                        .value_or(isa::Coordinates::HalfPixel);
    r.nearest = NearestOf(n.attrs().String("nearest_mode", "round_prefer_floor"));
    r.in_quant = LowerContext::QuantOf(x);
    r.out_quant = LowerContext::QuantOf(y);
    const int rank = static_cast<int>(scales.size());
    r.scale_h = rank == 4 ? scales[2] : 1.0f;
    r.scale_w = scales[rank - 1];
    r.full_in_h = in.h, r.full_in_w = in.w, r.full_out_h = out.h, r.full_out_w = out.w;
    const ResizeAxis rows{r.coordinates, ResizeScale(r.scale_h, in.h, out.h), in.h, out.h};
    const ResizeAxis columns{r.coordinates, ResizeScale(r.scale_w, in.w, out.w), in.w, out.w};

    struct Range {
      int64_t lo, hi; // inclusive
    };
    auto sources = [&](const ResizeAxis &a, int64_t first, int64_t count) {
      Range s{a.in, -1};
      for (int64_t o = first; o < first + count; ++o) {
        const ResizeSource at = ResizeSourceOf(a, r.kind, r.nearest, o);
        s.lo = std::min({s.lo, at.a, at.b});
        s.hi = std::max({s.hi, at.a, at.b});
      }
      return s;
    };
    auto in_box = [&](const Box &b) {
      const Range h = sources(rows, b.start[1], b.size[1]), w = sources(columns, b.start[2], b.size[2]);
      return Box{{b.start[0], h.lo, w.lo, b.start[3]}, {b.size[0], h.hi - h.lo + 1, w.hi - w.lo + 1, b.size[3]}};
    };
    // Blocks elsewhere may read a row more than the first one: the block that is asked for is taken as the worst, plus
    // one row and column.
    auto bytes = [&](const Box &b) {
      Box i = in_box(b);
      i.size[1] = std::min<int64_t>(in.h, i.size[1] + 1);
      i.size[2] = std::min<int64_t>(in.w, i.size[2] + 1);
      return (ctx.OnChip(in) ? 0 : i.elements() * in.elem_bytes()) +
             (ctx.OnChip(out) ? 0 : b.elements() * out.elem_bytes());
    };
    BlockLimits limits;
    limits.bytes = ctx.budget() / 2;
    limits.tile = ctx.AskTile();
    return ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
      const Box i = in_box(b);
      isa::Resize c = r;
      c.in = ctx.Fetch(in, i, x->name());
      c.out = ctx.Tile(out, b, y->name());
      c.out_h0 = b.start[1], c.out_w0 = b.start[2];
      c.in_h0 = i.start[1], c.in_w0 = i.start[2];
      const View tile = c.out;
      ctx.Vpu(std::move(c));
      ctx.Store(tile, out, b);
    });
  }
};

} // namespace

const NpuOp *ResizeLowering() {
  static const ResizeOp op;
  return &op;
}

} // namespace npuc::lower
