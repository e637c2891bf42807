// Operators that only move elements: Reshape family, Identity, QuantCast, Relayout, Transpose, Concat, Split, Slice,
// Expand, Pad.
//
// Where tiling could share bytes (passes/tile/places.cc) operand and result lie in the same place and nothing is
// emitted; else one DMA per piece. Pad by reflect, edge and wrap copies the operand into the middle, then axis by axis
// the strips on both sides out of what is there already. Leaves alone: quantisation that differs between operand and
// result (quantize inserts Requantize first).
#include <algorithm>
#include <limits>

#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "backend/lower/strided.h"
#include "compiler/support/half.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

const RuleDoc kSameQuant{"same-quantisation",
                         "operand and result must have the same element type, scale and zero point",
                         "use the same quantisation on both sides of the node"};
const RuleDoc kElemSize{"movable-type", "elements must have 1, 2 or 4 bytes (or be 64-bit integers)",
                        "cast the tensor"};
const RuleDoc kReshapeLayout{"reshape-layout", "the operand must lie in ONNX's order",
                             "internal: the layout pass sees to it"};
const RuleDoc kConstants{"constant-parameters", "starts, ends, axes, steps, pads, repeats and shapes must be constants",
                         "fold them into initializers, or bind them with --bind"};
const RuleDoc kPadMode{
    "pad-mode",
    "pads of reflect, edge and wrap must not be negative, and those of reflect and wrap not beyond the axis",
    "use mode=constant, or keep the Pad on the host"};
const RuleDoc kPadCrop{"pad-crop", "negative pads must leave some of the operand", "slice, or fill with a constant"};
const RuleDoc kPadRank{"pad-rank", "padded axes must be among the last three, or the first of at most four dims",
                       "reshape around the Pad"};

int64_t Bits(DType t, double value) {
  switch (t) {
  case DType::F32: {
    const float f = static_cast<float>(value);
    int32_t i;
    std::memcpy(&i, &f, 4);
    return i;
  }
  case DType::F16:
    return FloatToHalf(static_cast<float>(value));
  default:
    return static_cast<int64_t>(value);
  }
}

// Operands that hold elements (others are parameters).
llvm::SmallVector<unsigned, 4> DataOperands(const Node &n) {
  llvm::SmallVector<unsigned, 4> r;
  if (n.Is("Concat")) {
    for (unsigned i = 0; i < n.num_operands(); ++i)
      r.push_back(i);
  } else {
    r.push_back(0);
  }
  return r;
}

bool IsMovable(DType t) {
  return t != DType::String && !IsComplex(t) &&
         (ByteSize(t) == 1 || ByteSize(t) == 2 || ByteSize(t) == 4 || t == DType::I64);
}

class MovementOp : public LoweredOp {
public:
  explicit MovementOp(LayoutRule layout) : layout_(layout) {}
  LayoutRule layout_rule(const Node &) const override { return layout_; }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const double bytes = static_cast<double>(n.result()->type().num_bytes());
    return static_cast<int64_t>(bytes / t.sram.bytes_per_cycle.ToDouble()) + t.issue_cycles;
  }
  std::vector<RuleDoc> rules() const override { return {kSameQuant, kElemSize}; }
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Type &y = n.result()->type();
    report.Require(IsMovable(y.dtype()), kElemSize, "1, 2, 4 bytes or i64", std::string(Name(y.dtype())));
    for (unsigned i : DataOperands(n)) {
      const Type &x = n.operand(i)->type();
      report.Require(n.Is("QuantCast", "npuc") || (x.dtype() == y.dtype() && SameQuant(x.quant(), y.quant())),
                     kSameQuant, y.ToString(), x.ToString());
    }
    CheckParameters(n, ctx, report);
  }

protected:
  virtual void CheckParameters(const Node &, const CheckContext &, RuleReport &) const {}
  static isa::View SourceView(LowerContext &ctx, const Value *v) {
    return v->constant() ? ctx.ConstView(v) : ctx.ViewOf(v);
  }
  static Strided Source(LowerContext &ctx, const Value *v) { return StridedOf(SourceView(ctx, v), v->type()); }
  static Strided Target_(LowerContext &ctx, const Value *v) { return StridedOf(ctx.ViewOf(v), v->type()); }

private:
  LayoutRule layout_;
};

// Same elements in the same (row-major) order, other dims.
class ReshapeOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    Strided x = Source(ctx, n.operand(0)), y = Target_(ctx, n.result());
    // Copy as one row when both are dense; else through the finer of the two shapes is not needed: one side always is.
    auto dense = [](const Strided &s) {
      int64_t run = s.like.elem_bytes();
      for (size_t i = s.dims.size(); i-- > 0;) {
        if (s.dims[i] != 1 && s.strides[i] != run)
          return false;
        run *= s.dims[i];
      }
      return true;
    };
    if (x.dims != y.dims) {
      const Dims by = dense(y) ? x.dims : y.dims;
      NPUC_CHECK(dense(y) || dense(x), "reshape between two strided tensors");
      Strided &plain = dense(y) ? y : x;
      plain.dims = by;
      plain.strides.clear();
      for (int64_t e : RowMajorStrides(by))
        plain.strides.push_back(e * plain.like.elem_bytes());
    }
    CopyStrided(ctx, x, y);
    return absl::OkStatus();
  }
};

// Same logical dims, any layouts.
class IdentityOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    CopyStrided(ctx, Source(ctx, n.operand(0)), Target_(ctx, n.result()));
    return absl::OkStatus();
  }
};

class TransposeOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Strided x = Source(ctx, n.operand(0));
    Strided from = x;
    auto perm = n.attrs().Ints("perm");
    for (size_t i = 0; i < x.dims.size(); ++i) {
      const size_t k = perm.empty() ? x.dims.size() - 1 - i : static_cast<size_t>(perm[i]);
      from.dims[i] = x.dims[k];
      from.strides[i] = x.strides[k];
    }
    CopyStrided(ctx, from, Target_(ctx, n.result()));
    return absl::OkStatus();
  }
};

class ConcatOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Strided y = Target_(ctx, n.result());
    int64_t axis = n.attrs().Int("axis", 0);
    if (axis < 0)
      axis += static_cast<int64_t>(y.dims.size());
    int64_t at = 0;
    for (const Value *v : n.operands()) {
      const Strided x = Source(ctx, v);
      Strided part = y;
      part.dims[axis] = x.dims[axis];
      part.base.offset += at * y.strides[axis];
      at += x.dims[axis];
      CopyStrided(ctx, x, part);
    }
    return absl::OkStatus();
  }
};

class SplitOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Strided x = Source(ctx, n.operand(0));
    int64_t axis = n.attrs().Int("axis", 0);
    if (axis < 0)
      axis += static_cast<int64_t>(x.dims.size());
    int64_t at = 0;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const Dims dims = n.result(i)->type().shape().static_dims();
      if (n.result(i)->has_uses()) {
        Strided part = x;
        part.dims[axis] = dims[axis];
        part.base.offset += at * x.strides[axis];
        CopyStrided(ctx, part, Target_(ctx, n.result(i)));
      }
      at += dims[axis];
    }
    return absl::OkStatus();
  }
};

bool Constants(const Node &n, unsigned first) {
  for (unsigned i = first; i < n.num_operands(); ++i)
    if (n.operand(i) && !n.operand(i)->constant())
      return false;
  return true;
}

class SliceOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  void CheckParameters(const Node &n, const CheckContext &, RuleReport &report) const override {
    report.Require(Constants(n, 1), kConstants, "constants", "computed ones");
  }
  Status Lower(const Node &n, LowerContext &ctx) const override {
    Strided x = Source(ctx, n.operand(0));
    const Strided y = Target_(ctx, n.result());
    const Tensor &starts = *n.operand(1)->constant();
    const Tensor *axes = n.operand(3) ? n.operand(3)->constant() : nullptr;
    const Tensor *steps = n.operand(4) ? n.operand(4)->constant() : nullptr;
    for (int64_t i = 0; i < starts.num_elements(); ++i) {
      int64_t axis = axes ? axes->AsInt(i) : i;
      if (axis < 0)
        axis += static_cast<int64_t>(x.dims.size());
      const int64_t step = steps ? steps->AsInt(i) : 1, extent = x.dims[axis];
      int64_t s = starts.AsInt(i);
      if (s < 0)
        s += extent;
      s = step > 0 ? std::clamp<int64_t>(s, 0, extent) : std::clamp<int64_t>(s, 0, extent - 1);
      x.base.offset += s * x.strides[axis];
      x.strides[axis] *= step;
    }
    x.dims = y.dims;
    CopyStrided(ctx, x, y);
    return absl::OkStatus();
  }
};

class ExpandOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Strided x = Source(ctx, n.operand(0)), y = Target_(ctx, n.result());
    Strided from = x;
    from.dims = y.dims;
    from.strides.assign(y.dims.size(), 0);
    const size_t lead = y.dims.size() - x.dims.size();
    for (size_t i = 0; i < x.dims.size(); ++i)
      from.strides[lead + i] = x.dims[i] == 1 ? 0 : x.strides[i];
    CopyStrided(ctx, from, y);
    return absl::OkStatus();
  }
};

// Copies of the whole tensor side by side along axes.
class TileOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Strided x = Source(ctx, n.operand(0)), y = Target_(ctx, n.result());
    // Each axis as (repeat, extent): repeats step by nothing in the operand.
    Strided from = x, to = y;
    from.dims.clear(), from.strides.clear(), to.dims.clear(), to.strides.clear();
    for (size_t i = 0; i < x.dims.size(); ++i) {
      from.dims.append({y.dims[i] / x.dims[i], x.dims[i]});
      from.strides.append({0, x.strides[i]});
      to.strides.append({y.strides[i] * x.dims[i], y.strides[i]});
    }
    to.dims = from.dims;
    CopyStrided(ctx, from, to);
    return absl::OkStatus();
  }
};

class PadOp : public MovementOp {
public:
  using MovementOp::MovementOp;
  std::vector<RuleDoc> rules() const override {
    return {kSameQuant, kElemSize, kConstants, kPadMode, kPadCrop, kPadRank};
  }
  void CheckParameters(const Node &n, const CheckContext &ctx, RuleReport &report) const override {
    if (!report.Require(Constants(n, 1), kConstants, "constants", "computed ones"))
      return;
    const int rank = n.operand(0)->type().shape().rank();
    const Dims pads = Pads(n);
    const std::string_view mode = n.attrs().String("mode", "constant");
    if (mode != "constant") {
      for (int i = 0; i < rank; ++i) {
        const int64_t extent = n.operand(0)->type().shape()[i].value();
        const int64_t most = mode == "reflect" ? extent - 1
                             : mode == "wrap"  ? extent
                                               : std::numeric_limits<int64_t>::max();
        for (int64_t p : {pads[i], pads[rank + i]})
          report.Require(p >= 0 && p <= most, kPadMode, fmt::format("0 to {}", most),
                         fmt::format("{} on axis {} ({})", p, i, mode));
      }
      return;
    }
    for (int i = 0; i < rank; ++i) {
      const int64_t extent = n.operand(0)->type().shape()[i].value(),
                    cropped = std::max<int64_t>(0, -pads[i]) + std::max<int64_t>(0, -pads[rank + i]);
      report.Require(cropped < extent, kPadCrop, fmt::format("{} of extent {}", extent - 1, extent),
                     fmt::format("{} and {} on axis {}", pads[i], pads[rank + i], i));
    }
    for (int i = 0; i < rank - 4; ++i)
      report.Require(pads[i] == 0 && pads[rank + i] == 0, kPadRank, "0",
                     fmt::format("{} and {} on axis {}", pads[i], pads[rank + i], i));
    if (rank > 4)
      report.Require(pads[rank - 4] == 0 && pads[2 * rank - 4] == 0, kPadRank, "0", "pads on a merged axis");
    (void)ctx;
  }
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Value *x = n.operand(0), *y = n.result();
    const int rank = x->type().shape().rank();
    const Layout layout = x->type().layout();
    const Dims pads = Pads(n);
    if (const std::string_view mode = n.attrs().String("mode", "constant"); mode != "constant") {
      LowerStrips(Source(ctx, x), Target_(ctx, y), pads, mode, ctx);
      return absl::OkStatus();
    }
    isa::Dma dma;
    program::Box box = program::Box::All(SourceView(ctx, x));
    for (int i = 0; i < rank; ++i) {
      const program::ViewAxis a = program::AxisOf(rank, layout, i);
      if (rank > 4 && i < rank - 3)
        continue;
      const int64_t before = pads[i], after = pads[rank + i];
      box.start[a] += std::max<int64_t>(0, -before);
      box.size[a] -= std::max<int64_t>(0, -before) + std::max<int64_t>(0, -after);
      dma.pad_before[a] = static_cast<uint32_t>(std::max<int64_t>(0, before));
      dma.pad_after[a] = static_cast<uint32_t>(std::max<int64_t>(0, after));
    }
    dma.src = program::Sub(SourceView(ctx, x), box);
    dma.dst = ctx.ViewOf(y);
    const Value *fill = n.operand(2);
    // A quantised pad value is a code of the tensor's own; an absent one is real 0.
    const double value = fill                       ? fill->constant()->AsDouble(0)
                         : y->type().is_quantized() ? y->type().quant()->zero_point()
                                                    : 0.0;
    dma.fill = Bits(y->type().dtype(), value);
    ctx.Emit(ctx.OnChip(dma.dst) ? isa::Engine::LD : isa::Engine::ST, std::move(dma));
    return absl::OkStatus();
  }

private:
  static void LowerStrips(const Strided &x, const Strided &y, const Dims &pads, std::string_view mode,
                          LowerContext &ctx) {
    const size_t rank = x.dims.size();
    Strided middle = y;
    middle.dims = x.dims;
    for (size_t i = 0; i < rank; ++i)
      middle.base.offset += pads[i] * y.strides[i];
    CopyStrided(ctx, x, middle);
    // What is filled so far: x's box, grown axis by axis to y's.
    Strided filled = middle;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t extent = x.dims[i], step = y.strides[i];
      for (const bool after : {false, true}) {
        const int64_t count = pads[after ? rank + i : i];
        if (count == 0)
          continue;
        Strided from = filled, to = filled;
        from.dims[i] = to.dims[i] = count;
        to.base.offset += (after ? extent : -count) * step;
        // First source element of the strip, counted from the middle's first, and the step from one to the next.
        int64_t first = after ? extent - 1 : 0;
        from.strides[i] = 0;
        if (mode == "reflect") {
          first = after ? extent - 2 : count;
          from.strides[i] = -step;
        } else if (mode == "wrap") {
          first = after ? 0 : extent - count;
          from.strides[i] = step;
        }
        from.base.offset += first * step;
        CopyStrided(ctx, from, to);
      }
      filled.base.offset -= pads[i] * step;
      filled.dims[i] = y.dims[i];
    }
  }

  // Begin and end of every axis.
  static Dims Pads(const Node &n) {
    const int64_t rank = n.operand(0)->type().shape().rank();
    Dims r(2 * rank, 0);
    const Tensor &p = *n.operand(1)->constant();
    const Tensor *axes = n.operand(3) ? n.operand(3)->constant() : nullptr;
    const int64_t count = p.num_elements() / 2;
    for (int64_t i = 0; i < count; ++i) {
      int64_t axis = axes ? axes->AsInt(i) : i;
      if (axis < 0)
        axis += rank;
      r[axis] = p.AsInt(i);
      r[rank + axis] = p.AsInt(count + i);
    }
    return r;
  }
};

} // namespace

#define NPUC_MOVEMENT(fn, cls, rule)                                                                                   \
  const NpuOp *fn() {                                                                                                  \
    static const cls op(rule);                                                                                         \
    return &op;                                                                                                        \
  }
NPUC_MOVEMENT(ReshapeLowering, ReshapeOp, LayoutRule::RowMajor)
NPUC_MOVEMENT(IdentityLowering, IdentityOp, LayoutRule::Any)
NPUC_MOVEMENT(RelayoutLowering, IdentityOp, LayoutRule::Any)
NPUC_MOVEMENT(TransposeLowering, TransposeOp, LayoutRule::Permutes)
NPUC_MOVEMENT(ConcatLowering, ConcatOp, LayoutRule::Any)
NPUC_MOVEMENT(SplitLowering, SplitOp, LayoutRule::Any)
NPUC_MOVEMENT(SliceLowering, SliceOp, LayoutRule::Any)
NPUC_MOVEMENT(ExpandLowering, ExpandOp, LayoutRule::Any)
NPUC_MOVEMENT(TileLowering, TileOp, LayoutRule::Any)
NPUC_MOVEMENT(PadLowering, PadOp, LayoutRule::Any)
#undef NPUC_MOVEMENT

} // namespace npuc::lower
