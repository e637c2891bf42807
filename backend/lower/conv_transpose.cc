// ConvTranspose, one- and two-dimensional, dense, grouped and depthwise, with an output stage when it anchors a Fused
// body.
//
//   y[o] = sum over i, k with o = i * s - pad + k of x[i] * w[k]
//
// The outputs whose (o + pad) mod s is r see the taps k = r, r + s, r + 2s ... only. So each residue (of H and of W) is
// an ordinary convolution of stride 1 with those taps in reverse order, whose result is the strided sub-view of every
// s-th output: s_h * s_w phases that together do exactly the true products. Outputs that no tap reaches (kernels
// smaller than the stride, output_padding) are bias alone: a convolution of padding.
//
// Dilated by d, with g = gcd(s, d): the taps of a residue are s / g apart, and see inputs d / g apart.
//
// Few output channels leave the array idle. The residues of W are neighbours in NHWC, so where that takes fewer steps
// they become the channels of one convolution, whose kernel spans the taps of all (zero weights between: exact for
// integers; f16 only where there are none).
//
// Where operand or result lie in DDR, bands of output rows are assembled on chip from all phases and moved whole.
// Leaves alone: three spatial dims, sub-kernels and their dilations above the target's limits.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "backend/lower/conv.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::View;
using program::Box;

const RuleDoc kRank{"conv-transpose-rank", "the transposed convolution must have one or two spatial dims",
                    "reshape a 3-D one whose depth is 1"};
const RuleDoc kKernel{"conv-transpose-kernel", "kernel / stride, rounded up, must be within the NPU's kernel limit",
                      "split the kernel"};
const RuleDoc kStride{"conv-transpose-stride", "strides must be at most 16", "use Resize and Conv"};
const RuleDoc kDilation{"conv-transpose-dilation",
                        "dilation / gcd(dilation, stride) must be within the NPU's dilation limit",
                        "use smaller dilations"};
const RuleDoc kPads{"conv-transpose-pads", "pads must not be negative", "slice the result instead"};
const RuleDoc kWeights{"conv-transpose-weights",
                       "weights must be a constant of a type the target multiplies (int8, uint8, int4, uint4, float16)",
                       "export the weights as initializers"};
const RuleDoc kWeightAxis{"conv-transpose-weight-axis", "weights must be quantised per tensor or per output channel",
                          "re-quantise per output channel"};
const RuleDoc kBias{"conv-transpose-bias", "the bias must be a constant (int32 with scale x*w, or float)",
                    "fold the bias into an initializer"};

constexpr int64_t kMaxStride = 16;

// H and W.
struct Geometry {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad{0, 0}, in{1, 1}, out{1, 1};
};

Geometry GeometryOf(const Node &n) {
  Geometry g;
  const Shape &x = n.operand(0)->type().shape(), &w = n.operand(1)->type().shape(), &y = n.result()->type().shape();
  const int spatial = x.rank() - 2, first = 2 - spatial;
  auto strides = n.attrs().Ints("strides"), dilations = n.attrs().Ints("dilations"), pads = n.attrs().Ints("pads");
  auto output_shape = n.attrs().Ints("output_shape"), output_padding = n.attrs().Ints("output_padding");
  for (int i = 0; i < spatial; ++i) {
    const int a = first + i;
    g.kernel[a] = w[2 + i].value();
    g.in[a] = x[2 + i].value();
    g.out[a] = y[2 + i].value();
    if (!strides.empty())
      g.stride[a] = strides[i];
    if (!dilations.empty())
      g.dilation[a] = dilations[i];
    if (!pads.empty())
      g.pad[a] = pads[i];
    if (!output_shape.empty()) {
      // The output's extent is given, the pads follow from it; the odd one goes before unless SAME_UPPER.
      const int64_t extra = output_padding.empty() ? 0 : output_padding[i];
      const int64_t full = g.stride[a] * (g.in[a] - 1) + extra + (g.kernel[a] - 1) * g.dilation[a] + 1;
      const int64_t total = std::max<int64_t>(0, full - g.out[a]);
      g.pad[a] = n.attrs().String("auto_pad", "NOTSET") == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
  }
  return g;
}

// The outputs of one residue along one axis.
struct Phase {
  int64_t first = 0, count = 0;  // outputs first, first + stride, ...
  int64_t taps = 0;              // of the sub-kernel
  int64_t tap = 0, tap_step = 1; // kernel index of the sub-kernel's first tap; the next ones are `tap_step` before it
  int64_t dilation = 1;          // of the sub-kernel
  int64_t pad = 0;               // before the input; negative: the input starts later
  int64_t reached = 0;           // outputs up to the last that some tap reaches
};

std::vector<Phase> PhasesOf(const Geometry &g, int a) {
  std::vector<Phase> r;
  const int64_t s = g.stride[a], d = g.dilation[a], common = std::gcd(s, d);
  for (int64_t first = 0; first < std::min(s, g.out[a]); ++first) {
    Phase p;
    p.first = first;
    p.count = CeilDiv(g.out[a] - first, s);
    p.tap_step = s / common;
    p.dilation = d / common;
    // Output t and tap k0 + j * tap_step meet at input start + t - j * dilation.
    const int64_t at = first + g.pad[a];
    for (int64_t k0 = 0; k0 < std::min(g.kernel[a], p.tap_step); ++k0) {
      if ((at - k0 * d) % s != 0)
        continue;
      const int64_t start = (at - k0 * d) / s;
      p.taps = CeilDiv(g.kernel[a] - k0, p.tap_step);
      p.tap = k0 + p.tap_step * (p.taps - 1);
      p.pad = (p.taps - 1) * p.dilation - start;
      p.reached = std::clamp<int64_t>(g.in[a] + p.pad, 0, p.count);
      break;
    }
    r.push_back(p);
  }
  return r;
}

// Every stride-th row and column of a view.
View PhaseView(View v, const Phase &h, const Phase &w, const Geometry &g) {
  v.address.offset += h.first * v.stride_h + w.first * v.stride_w;
  v.stride_h *= g.stride[0];
  v.stride_w *= g.stride[1];
  v.h = static_cast<uint32_t>(h.count);
  v.w = static_cast<uint32_t>(w.count);
  return v;
}

// Outputs [first, first + count) of a phase that fall into rows [row0, row1) of the whole output.
struct Part {
  int64_t first = 0, count = 0;
};
Part PartOf(const Phase &p, int64_t stride, int64_t row0, int64_t row1) {
  const int64_t lo = std::clamp<int64_t>(CeilDiv(std::max<int64_t>(0, row0 - p.first), stride), 0, p.count);
  const int64_t hi = std::clamp<int64_t>(CeilDiv(std::max<int64_t>(0, row1 - p.first), stride), lo, p.count);
  return {lo, hi - lo};
}

class Lowering {
public:
  Lowering(LowerContext &ctx, Stage stage)
      : ctx_(ctx), stage_(std::move(stage)), node_(*stage_.anchor), g_(GeometryOf(node_)) {
    x_ = ctx.Resolve(node_.operand(0));
    w_ = ctx.Resolve(node_.operand(1));
    bias_ = node_.operand(2) ? ctx.Resolve(node_.operand(2)) : nullptr;
    in_ = ctx.ViewOf(x_);
    out_ = ctx.ViewOf(stage_.result);
    rows_ = PhasesOf(g_, 0);
    columns_ = PhasesOf(g_, 1);
    groups_ = node_.attrs().Int("group", 1);
    data_ = ChannelDataOf(node_, stage_, x_, w_, bias_, out_.c);
    // Weights are quantised along [OC / groups]: the same for every group.
    auto repeat = [&](auto &v) {
      const size_t own = v.size();
      if (own > 1)
        for (size_t i = own; i < out_.c; ++i)
          v.push_back(v[i % own]);
    };
    repeat(data_.scale);
    repeat(data_.zero);
    source_ = Source();
    if (groups_ == 1)
      MergeColumns();
  }

  Status Run() {
    if (ctx_.OnChip(in_) && ctx_.OnChip(out_))
      return Band(-1, in_, 0, out_, 0, g_.out[0], ctx_.budget());
    // Rows of output on chip at once, with their input: a third of the budget, or half of it when that is all.
    auto bytes = [&](int64_t count) {
      return (ctx_.OnChip(in_) ? 0 : std::min(g_.in[0], InputRows(count)) * in_.w * in_.c * in_.elem_bytes()) +
             (ctx_.OnChip(out_) ? 0 : count * out_.w * out_.c * out_.elem_bytes());
    };
    int64_t count = g_.out[0];
    if (in_.n > 1 || bytes(count) > ctx_.budget() / 2)
      while (count > g_.stride[0] && bytes(count) > ctx_.budget() / 3)
        count = std::max(g_.stride[0], CeilDiv(count, 2) / g_.stride[0] * g_.stride[0]);
    count = std::min(count, g_.out[0]);
    if (bytes(count) > ctx_.budget() / 2)
      return Band(-1, in_, 0, out_, 0, g_.out[0], ctx_.budget());
    for (int64_t n = 0; n < in_.n; ++n)
      for (int64_t row = 0; row < g_.out[0]; row += count) {
        const int64_t end = std::min(g_.out[0], row + count);
        int64_t lo = g_.in[0], hi = 0;
        for (const Phase &p : rows_) {
          const Part part = PartOf(p, g_.stride[0], row, end);
          if (p.taps == 0 || part.count == 0)
            continue;
          lo = std::min(lo, part.first - p.pad);
          hi = std::max(hi, part.first + part.count - 1 - p.pad + (p.taps - 1) * p.dilation + 1);
        }
        lo = std::clamp<int64_t>(lo, 0, g_.in[0] - 1);
        hi = std::clamp<int64_t>(hi, lo + 1, g_.in[0]);
        const View in = ctx_.Fetch(in_, Box{{n, lo, 0, 0}, {1, hi - lo, in_.w, in_.c}}, stage_.result->name() + "/in");
        const Box out_box{{n, row, 0, 0}, {1, end - row, out_.w, out_.c}};
        const View out = ctx_.Tile(out_, out_box, stage_.result->name() + "/out");
        NPUC_RETURN_IF_ERROR(Band(n, in, lo, out, row, end, ctx_.budget() / 2));
        ctx_.Store(out, out_, out_box);
      }
    return absl::OkStatus();
  }

private:
  // Input rows that `count` rows of output see at most.
  int64_t InputRows(int64_t count) const {
    return count / g_.stride[0] + CeilDiv((g_.kernel[0] - 1) * g_.dilation[0] + 1, g_.stride[0]) + 1;
  }

  // Weights seen as [OC][ICg][KH][KW]; strides of kernel axes count down, phases set base and steps.
  WeightSource Source() const {
    const Tensor t = *w_->constant();
    const int64_t ocg = t.dims()[1], taps = g_.kernel[0] * g_.kernel[1], icg = t.dims()[0] / groups_;
    WeightSource s{t, 0, taps, ocg * taps, 0, 0};
    if (groups_ == 1 || (icg == 1 && ocg == 1))
      return s;
    // [G][ICg][OCg] to [G][OCg][ICg].
    const Tensor from = t.Expand();
    Tensor turned = Tensor::Allocate(t.dtype(), {groups_ * ocg, icg, g_.kernel[0], g_.kernel[1]});
    const int64_t run = taps * ByteSize(t.dtype());
    for (int64_t g = 0; g < groups_; ++g)
      for (int64_t o = 0; o < ocg; ++o)
        for (int64_t i = 0; i < icg; ++i)
          std::memcpy(turned.mutable_bytes() + ((g * ocg + o) * icg + i) * run,
                      from.bytes() + ((g * icg + i) * ocg + o) * run, run);
    return WeightSource{turned, 0, icg * taps, taps, 0, 0};
  }

  // One row of `s` pixels as one pixel of s * C channels; nullopt where they are not neighbours.
  static std::optional<View> Widen(const View &v, int64_t s, int64_t channels) {
    View r = v;
    r.w = v.w / s;
    r.stride_w = v.stride_w * s;
    r.c = r.c_block = static_cast<uint32_t>(s * channels);
    r.stride_c1 = 0;
    const bool one_lane = v.c == 1 || (v.c_block == 1 && v.stride_c1 == 0);
    if (v.stride_w == 0 && one_lane) { // a scalar stays one
      r.c_block = 1;
      return r;
    }
    if (v.stride_w != channels * v.elem_bytes() || (v.c > 1 && v.c_block < v.c0 + v.c))
      return std::nullopt;
    if (v.c_block > 1)
      r.address.offset += int64_t{v.c0} * v.elem_bytes();
    r.c0 = 0;
    return r;
  }

  // The residues of W as channels of one convolution, where that takes fewer steps.
  void MergeColumns() {
    const int64_t s = g_.stride[1], oc = out_.c, lanes = ctx_.target().mxu.oc;
    if (s == 1 || g_.dilation[1] != 1 || g_.out[1] % s != 0 || s * oc > 4096)
      return;
    int64_t pad = 0, last = 0, most = 0, sum = 0;
    bool same = true;
    for (const Phase &p : columns_) {
      pad = std::max(pad, p.pad);
      last = std::max(last, p.taps - 1 - p.pad);
      most = std::max(most, p.taps);
      sum += p.taps;
      same &= p.taps == columns_[0].taps && p.pad == columns_[0].pad;
    }
    if (sum == 0)
      return;
    const int64_t taps = last + pad + 1;
    if (taps < most || taps > ctx_.target().limits.kernel_max[1])
      return;
    if ((IsFloat(x_->type().dtype()) && !(same && taps == most)) ||
        CeilDiv(s * oc, lanes) * taps >= CeilDiv(oc, lanes) * sum)
      return;
    const std::optional<View> out = Widen(out_, s, oc);
    if (!out)
      return;
    std::vector<View> operands;
    for (const Stage::Operand &o : stage_.operands) {
      const std::optional<View> v = Widen(o.full, s, oc);
      if (!v)
        return;
      operands.push_back(*v);
    }
    // Channel r * OC + o, tap u (last first): kernel column r + pad_begin + s * (pad - u), or nothing.
    const Tensor from = w_->constant()->Expand();
    const int64_t ic = from.dims()[0], kh = g_.kernel[0], kw = g_.kernel[1];
    Tensor wide = Tensor::Allocate(from.dtype(), {ic, s * oc, kh, taps});
    const int size = ByteSize(from.dtype());
    uint8_t *to = wide.mutable_bytes();
    for (int64_t i = 0; i < ic; ++i)
      for (int64_t r = 0; r < s; ++r)
        for (int64_t o = 0; o < oc; ++o)
          for (int64_t h = 0; h < kh; ++h)
            for (int64_t u = taps - 1; u >= 0; --u, to += size) {
              const int64_t k = r + g_.pad[1] + s * (pad - u);
              if (k >= 0 && k < kw) {
                std::memcpy(to, from.bytes() + (((i * oc + o) * kh + h) * kw + k) * size, size);
              } else {
                const int32_t zero = data_.zero.empty() ? 0 : data_.zero.size() == 1 ? data_.zero[0] : data_.zero[o];
                std::memcpy(to, &zero, size);
              }
            }
    source_ = WeightSource{wide, 0, kh * taps, s * oc * kh * taps, 0, 0};
    auto repeat = [&](auto &v) {
      const size_t own = v.size();
      if (own > 0)
        for (size_t i = own; i < static_cast<size_t>(s * oc); ++i)
          v.push_back(v[i % own]);
    };
    repeat(data_.scale);
    repeat(data_.zero);
    repeat(data_.int_bias);
    repeat(data_.float_bias);
    out_ = *out;
    for (size_t i = 0; i < operands.size(); ++i)
      stage_.operands[i].full = operands[i];
    g_.kernel[1] = taps;
    g_.stride[1] = 1;
    g_.out[1] /= s;
    Phase p;
    p.count = g_.out[1];
    p.taps = taps;
    p.tap = taps - 1;
    p.pad = pad;
    p.reached = std::clamp<int64_t>(g_.in[1] + pad, 0, p.count);
    columns_ = {p};
  }

  // Output rows [row0, row1) of batch item n (-1: all of them, whole tensors). `in` starts at input row in0, `out` at
  // row0.
  Status Band(int64_t n, const View &in, int64_t in0, const View &out, int64_t row0, int64_t row1, int64_t budget) {
    for (size_t h = 0; h < rows_.size(); ++h)
      for (size_t w = 0; w < columns_.size(); ++w) {
        const Phase &ph = rows_[h], &pw = columns_[w];
        const Part part = PartOf(ph, g_.stride[0], row0, row1);
        if (part.count == 0)
          continue;
        // Rows of the phase that taps reach, then those that none does; the same for columns.
        const int64_t rows = std::clamp<int64_t>(ph.reached - part.first, 0, part.count), columns = pw.reached;
        if (rows > 0 && columns > 0)
          NPUC_RETURN_IF_ERROR(Region(n, in, in0, out, row0, h, w, {part.first, rows}, {0, columns}, true, budget));
        if (rows > 0 && columns < pw.count)
          NPUC_RETURN_IF_ERROR(
              Region(n, in, in0, out, row0, h, w, {part.first, rows}, {columns, pw.count - columns}, false, budget));
        if (rows < part.count)
          NPUC_RETURN_IF_ERROR(Region(n, in, in0, out, row0, h, w, {part.first + rows, part.count - rows},
                                      {0, pw.count}, false, budget));
      }
    return absl::OkStatus();
  }

  Status Region(int64_t n, const View &in, int64_t in0, const View &out, int64_t row0, size_t h, size_t w, Part rows,
                Part columns, bool taps, int64_t budget) {
    const Phase &ph = rows_[h], &pw = columns_[w];
    MxuProblem p;
    p.name = stage_.result->name();
    FillTypes(p, x_, w_, stage_);
    // The phase's part of the output: its first row is an absolute one, so the view is moved by what the tile leaves
    // out.
    auto part_of = [&](View v, int64_t first_row, int64_t item) {
      const bool all = v.n == 1 || item < 0;
      View r = PhaseView(v, ph, pw, g_);
      r.address.offset -= first_row * v.stride_h;
      return r.Sub(all ? 0 : item, rows.first, columns.first, 0, item < 0 ? v.n : 1, rows.count, columns.count, v.c);
    };
    p.result = part_of(out, row0, n);
    Stage stage = stage_;
    for (Stage::Operand &o : stage.operands)
      o.full = part_of(o.full, 0, n);
    p.in = in;
    if (n >= 0 && in.n > 1)
      p.in = in.Sub(n, 0, 0, 0, 1, in.h, in.w, in.c);
    p.n = p.result.n;
    p.ih = p.in.h, p.iw = p.in.w, p.oh = p.result.h, p.ow = p.result.w;
    p.ic = p.in.c, p.oc = p.result.c;
    p.groups = groups_;
    p.mode = groups_ == 1                         ? isa::ConvMode::Dense
             : groups_ == p.ic && groups_ == p.oc ? isa::ConvMode::Depthwise
                                                  : isa::ConvMode::Grouped;
    WeightSource source = source_;
    if (taps) {
      p.kh = ph.taps, p.kw = pw.taps;
      p.pad_top = ph.pad - rows.first + in0;
      p.pad_left = pw.pad - columns.first;
      source.base += ph.tap * g_.kernel[1] + pw.tap;
      source.s_kh = -ph.tap_step * g_.kernel[1];
      source.s_kw = -pw.tap_step;
      p.dilation_h = ph.taps > 1 ? ph.dilation : 1;
      p.dilation_w = pw.taps > 1 ? pw.dilation : 1;
    } else {
      // One tap that looks at padding only.
      p.pad_top = p.oh;
      p.ih = 1;
      p.in.h = 1;
    }
    p.ifm_on_chip = ctx_.OnChip(p.in);
    p.ofm_on_chip = ctx_.OnChip(p.result);
    FillStageCost(p, stage, ctx_);
    MergeGroups(p, source, ctx_.target());
    p.acc = ProveAccumulator(p, source, data_);
    p.uniform_weight = UniformWeight(source);
    if (auto tile = ctx_.AskTile()) // a phase has every stride-th row and column
      p.tile = OutputTile{CeilDiv(tile->h, g_.stride[0]), CeilDiv(tile->w, g_.stride[1])};
    NPUC_ASSIGN_OR_RETURN(const MxuTiles tiles, ChooseTiles(p, ctx_.target(), budget));
    p.shared = &shared_[{h, w, taps ? size_t{1} : size_t{0}}];
    return EmitMxu(p, tiles, stage, MakePackWeights(p, ctx_.target(), std::move(source), data_.zero),
                   MakePackTable(p, data_), ctx_);
  }

  LowerContext &ctx_;
  Stage stage_;
  const Node &node_;
  Geometry g_;
  const Value *x_ = nullptr, *w_ = nullptr, *bias_ = nullptr;
  View in_, out_;
  std::vector<Phase> rows_, columns_;
  int64_t groups_ = 1;
  ChannelData data_;
  WeightSource source_;
  std::map<std::array<size_t, 3>, SharedWeights> shared_;
};

class ConvTransposeOp : public LoweredOp {
public:
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::Image; }
  bool HasOutputStage() const override { return true; }
  std::vector<RuleDoc> rules() const override {
    return {kRank, kKernel, kStride, kDilation, kPads, kWeights, kWeightAxis, kBias};
  }

  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const int rank = n.operand(0)->type().shape().rank();
    if (!report.Require(rank == 3 || rank == 4, kRank, "rank 3 or 4", std::to_string(rank)))
      return;
    RequireArithmeticTypes(n, ctx, 0b110, report);
    CheckWeights(n, ctx, n.operand(1), /*channel_axis=*/1, kWeights, kWeightAxis, report);
    CheckBias(n, ctx, n.operand(2), kBias, report);
    const Geometry g = GeometryOf(n);
    const auto &limits = ctx.target.limits;
    for (int i = 0; i < 2; ++i) {
      report.Require(g.stride[i] <= kMaxStride, kStride, std::to_string(kMaxStride), DimsText(g.stride));
      report.Require(CeilDiv(g.kernel[i], g.stride[i] / std::gcd(g.dilation[i], g.stride[i])) <= limits.kernel_max[i],
                     kKernel, DimsText(limits.kernel_max),
                     fmt::format("{} / {}", DimsText(g.kernel), DimsText(g.stride)));
      report.Require(g.dilation[i] / std::gcd(g.dilation[i], g.stride[i]) <= limits.dilation_max[i] || g.kernel[i] == 1,
                     kDilation, DimsText(limits.dilation_max), DimsText(g.dilation));
      report.Require(g.pad[i] >= 0, kPads, "at least 0", DimsText(g.pad));
    }
  }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const double macs =
        static_cast<double>(n.operand(0)->type().shape().num_elements()) *
        static_cast<double>(n.operand(1)->type().shape().num_elements() / n.operand(1)->type().shape()[0].value());
    return static_cast<int64_t>(macs / static_cast<double>(t.mxu.px * t.mxu.oc * t.mxu.ic)) + 100;
  }
  Status Lower(const Node &n, LowerContext &ctx) const override {
    NPUC_ASSIGN_OR_RETURN(Stage stage, BuildStage(n, ctx));
    return Lowering(ctx, std::move(stage)).Run();
  }
};

} // namespace

const NpuOp *ConvTransposeLowering() {
  static const ConvTransposeOp op;
  return &op;
}

} // namespace npuc::lower
