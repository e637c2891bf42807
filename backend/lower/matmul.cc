// MatMul and Gemm. A constant second operand makes the product a 1x1 convolution over the rows of A (see mxu.h); a
// computed one is read as a view, batch item by batch item.
//
//   Gemm: alpha folds into the table's scale (floats), beta and C into its bias; transB into the packing.
// Leaves alone: Gemm with transA or a C that is not one row; simplify splits those.
#include <algorithm>

#include "backend/lower/broadcast.h"
#include "backend/lower/conv.h"
#include "backend/lower/stage.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/int_math.h"

namespace npuc::lower {
namespace {

using isa::View;
using program::Box;

const RuleDoc kRank{"matmul-rank", "operands must have two to four dims", "reshape, or unroll the outer batch dims"};
const RuleDoc kWeights{"matmul-weights",
                       "a constant second operand must be a matrix of a type the target multiplies (int8, uint8, "
                       "float16; int4, uint4 as a "
                       "matrix)",
                       "export it as a 2-D initializer"};
const RuleDoc kWeightAxis{"matmul-weight-axis", "weights must be quantised per tensor or per column",
                          "re-quantise per column"};
const RuleDoc kBatch{"matmul-batch", "batch dims of a computed second operand must equal the first's, or be 1",
                     "broadcast with Expand first"};
const RuleDoc kTransA{"gemm-trans-a", "transA must be 0", "transpose A with a Transpose node"};
const RuleDoc kAlpha{"gemm-alpha", "alpha and beta of a quantised Gemm must be 1", "fold alpha into the scales"};
const RuleDoc kBias{"gemm-bias", "C must be a constant with one value per column", "add C with an Add node"};
const RuleDoc kDynamicB{"gemm-weights", "B must be a constant", "use MatMul for computed matrices"};
const RuleDoc kSize{"matmul-size", "one row of A and the matching columns of B must fit on chip", "split the product"};

int64_t Estimate(const Node &n, const Target &t, int64_t k) {
  const double macs = static_cast<double>(n.result()->type().shape().num_elements() * k);
  return static_cast<int64_t>(macs / static_cast<double>(t.mxu.px * t.mxu.oc * t.mxu.ic)) + 100;
}

// [.., M, K] with dense rows as one long matrix.
View FlattenRows(View v) {
  if (!program::IsDense(v) || int64_t{v.n} * v.h * v.w > 65536)
    return v;
  v.w = v.n * v.h * v.w;
  v.n = v.h = 1;
  return v;
}

Status LowerConstant(Stage &stage, const Value *x, const Value *w, WeightSource source, ChannelData data,
                     LowerContext &ctx) {
  MxuProblem p;
  p.matmul = true;
  p.name = stage.result->name();
  FillTypes(p, x, w, stage);
  const View in = ctx.ViewOf(x), out = ctx.ViewOf(stage.result);
  p.in = FlattenRows(in);
  p.result = FlattenRows(out);
  bool flat = p.in.w == p.result.w && p.in.h == 1 && p.result.h == 1 && p.in.n == 1 && p.result.n == 1;
  std::vector<Stage::Operand> operands = stage.operands;
  for (Stage::Operand &o : operands) {
    // A full-size operand flattens like the result; one row for all stays broadcast.
    const View f = FlattenRows(o.full);
    const bool row = o.full.stride_n == 0 && o.full.stride_h == 0 && o.full.stride_w == 0;
    if (row) {
      o.full.w = p.result.w;
      o.full.n = o.full.h = 1;
    } else if (f.w == p.result.w && f.h == 1) {
      o.full = f;
    } else {
      flat = flat && out.n == 1 && out.h == 1;
    }
  }
  if (flat) {
    stage.operands = operands;
  } else {
    p.in = in;
    p.result = out;
  }
  p.n = p.result.n;
  p.ih = p.oh = p.result.h;
  p.iw = p.ow = p.result.w;
  p.ic = p.in.c, p.oc = p.result.c;
  p.ifm_on_chip = ctx.OnChip(p.in);
  p.ofm_on_chip = ctx.OnChip(p.result);
  FillStageCost(p, stage, ctx);
  p.acc = ProveAccumulator(p, source, data);
  p.uniform_weight = UniformWeight(source);
  p.tile = ctx.AskTile();
  NPUC_ASSIGN_OR_RETURN(const MxuTiles tiles, ChooseTiles(p, ctx.target(), ctx.budget()));
  const std::vector<int32_t> zero = data.zero;
  return EmitMxu(p, tiles, stage, MakePackWeights(p, ctx.target(), std::move(source), zero),
                 MakePackTable(p, std::move(data)), ctx);
}

// `v` for every batch item of `out`: stride 0 where it has one for all.
View SpreadOverBatch(View v, const View &out) {
  if (v.n != out.n) {
    v.n = out.n;
    v.stride_n = 0;
  }
  if (v.h != out.h) {
    v.h = out.h;
    v.stride_h = 0;
  }
  return v;
}

// A x B, B computed or a batch of constants. Blocks of rows of A and columns of B; K whole. Batch items whose product
// is one block share a command as far as an accumulator bank goes.
Status LowerDynamic(Stage &stage, const Value *a, const Value *b, LowerContext &ctx) {
  const Target &t = ctx.target();
  auto operand = [&](const Value *v) { return v->constant() ? ctx.ConstView(v) : ctx.ViewOf(v); };
  const View out = ctx.ViewOf(stage.result), av = SpreadOverBatch(operand(a), out),
             bv = SpreadOverBatch(operand(b), out);
  const int64_t m = out.w, k = av.c, cols = out.c;
  const int64_t acc_bytes = a->type().dtype() == DType::I16 ? 8 : 4;
  const isa::AccType acc = IsFloat(a->type().dtype())    ? isa::AccType::F32
                           : acc_bytes == 8 || k > 32000 ? isa::AccType::I48
                                                         : isa::AccType::I32;
  const int64_t bank = t.mxu.acc_bytes / 2 / (acc == isa::AccType::I48 ? 8 : 4);

  ChannelData data;
  isa::Quant qa = LowerContext::QuantOf(a), qb = LowerContext::QuantOf(b);
  if (a->type().is_quantized()) {
    const Value *y = stage.anchor->result();
    data.scale = ProductScales(qa.scale, {qb.scale},
                               stage.requant ? std::optional<float>(y->type().quant()->scale()) : std::nullopt);
  } else {
    data.scale = {1.0f};
  }
  // Column blocks: bank and budget; row blocks: what is left.
  int64_t tn = std::min(cols, std::max<int64_t>(t.mxu.oc, bank / 16 / t.mxu.oc * t.mxu.oc));
  int64_t tm = std::max<int64_t>(1, std::min(m, bank / ((tn + t.mxu.oc - 1) / t.mxu.oc * t.mxu.oc)));
  int64_t tb_h = 1, tb_n = 1;
  if (tm == m && tn == cols) {
    const int64_t items = std::max<int64_t>(1, bank / (m * RoundUp(cols, t.mxu.oc)));
    tb_h = std::min<int64_t>(out.h, items);
    tb_n = tb_h == out.h ? std::clamp<int64_t>(items / tb_h, 1, out.n) : 1;
  }
  auto bytes = [&] {
    const Box all = Box::All(out);
    const Box result{all.start, {tb_n, tb_h, tm, tn}};
    int64_t r = ctx.OnChip(out) ? 0 : result.elements() * out.elem_bytes();
    r += FetchBytes(ctx, av, Box{all.start, {tb_n, tb_h, tm, k}}) +
         FetchBytes(ctx, bv, Box{all.start, {tb_n, tb_h, k, tn}});
    for (const Stage::Operand &o : stage.operands)
      r += FetchBytes(ctx, o.full, result);
    return 2 * r + tn * isa::kTableEntryBytes;
  };
  while (bytes() > ctx.budget() && (tb_n > 1 || tb_h > 1 || tm > 1 || tn > 1)) {
    int64_t &largest = tb_n > 1 ? tb_n : tb_h > 1 ? tb_h : tm >= tn && tm > 1 ? tm : tn;
    largest = CeilDiv(largest, 2);
  }
  if (bytes() > ctx.budget())
    return Error("E0405",
                 fmt::format("a row of {} elements does not fit the on-chip memory of {} bytes", k, ctx.budget()),
                 "use a target with more SRAM");

  MxuProblem p;
  p.acc = acc;
  p.oc = tn;
  const program::BufferId table = ctx.AddConst(tn * isa::kTableEntryBytes, stage.result->name() + "/table",
                                               [pack = MakePackTable(p, data), tn](uint8_t *dst) { pack(0, tn, dst); });
  const isa::Address tab = ctx.LoadConst(table, 0, tn * isa::kTableEntryBytes, stage.result->name() + "/table");
  for (int64_t n = 0; n < out.n; n += tb_n)
    for (int64_t h = 0; h < out.h; h += tb_h) {
      const int64_t bn = std::min<int64_t>(tb_n, out.n - n), bh = std::min<int64_t>(tb_h, out.h - h);
      for (int64_t c = 0; c < cols; c += tn) {
        const int64_t nc = std::min(tn, cols - c);
        const View bt = FetchBroadcast(ctx, bv, Box{{n, h, 0, c}, {bn, bh, k, nc}}, b->name());
        for (int64_t r = 0; r < m; r += tm) {
          const int64_t nr = std::min(tm, m - r);
          const Box out_box{{n, h, r, c}, {bn, bh, nr, nc}};
          isa::MatMul mm;
          mm.a = FetchBroadcast(ctx, av, Box{{n, h, r, 0}, {bn, bh, nr, k}}, a->name());
          mm.b = bt;
          mm.out = ctx.Tile(out, out_box, stage.result->name());
          mm.weight_dtype = bv.dtype;
          mm.table = tab;
          mm.a_zero = qa.zero;
          mm.b_zero = qb.zero;
          mm.acc = acc;
          mm.stage = stage.ops;
          for (size_t i = 0; i < stage.operands.size(); ++i)
            mm.operands[i] = {FetchBroadcast(ctx, stage.operands[i].full, out_box, stage.operands[i].name),
                              stage.operands[i].quant};
          const View result = mm.out;
          ctx.Mxu(std::move(mm));
          ctx.Store(result, out, out_box);
        }
      }
    }
  return absl::OkStatus();
}

bool IsConstantMatrix(const Value *v) {
  return v->constant() && v->type().shape().rank() == 2;
}

class MatMulOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Value *a = n.operand(0), *b = Outer(n.operand(1));
    const int ra = a->type().shape().rank(), rb = b->type().shape().rank();
    if (!report.Require(ra >= 2 && ra <= 4 && rb >= 2 && rb <= 4, kRank, "2 to 4", fmt::format("{} and {}", ra, rb)))
      return;
    if (b->constant() && rb == 2) {
      RequireArithmeticTypes(n, ctx, 0b10, report);
      CheckWeights(n, ctx, b, 1, kWeights, kWeightAxis, report);
      return;
    }
    RequireArithmeticTypes(n, ctx, 0, report);
    const View av = program::ViewOfType(a->type(), {}, ctx.target), bv = program::ViewOfType(b->type(), {}, ctx.target);
    const View ov = program::ViewOfType(n.result()->type(), {}, ctx.target);
    for (auto [x, y, o] : {std::array<uint32_t, 3>{av.n, bv.n, ov.n}, {av.h, bv.h, ov.h}})
      report.Require((x == o || x == 1) && (y == o || y == 1), kBatch, "equal or 1", fmt::format("{} and {}", x, y));
    report.Require((int64_t{av.c} * (av.elem_bytes() + bv.elem_bytes()) * 2 + 4096) * 2 <= ctx.target.sram.bytes, kSize,
                   std::to_string(ctx.target.sram.bytes / 2), std::to_string(int64_t{av.c} * 4));
  }
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::RowMajor; }
  bool HasOutputStage() const override { return true; }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const Shape &s = n.operand(0)->type().shape();
    return Estimate(n, t, s[s.rank() - 1].value());
  }
  Status Lower(const Node &n, LowerContext &ctx) const override { return LowerMatMul(n, ctx); }
  std::vector<RuleDoc> rules() const override { return {kRank, kWeights, kWeightAxis, kBatch, kSize}; }
};

class GemmOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    RequireArithmeticTypes(n, ctx, 0b110, report);
    report.Require(n.attrs().Int("transA", 0) == 0, kTransA, "0", "1");
    CheckWeights(n, ctx, n.operand(1), n.attrs().Int("transB", 0) ? 0 : 1, kWeights, kWeightAxis, report);
    const float alpha = n.attrs().Float("alpha", 1), beta = n.attrs().Float("beta", 1);
    if (n.operand(0)->type().is_quantized())
      report.Require(alpha == 1 && beta == 1, kAlpha, "1 and 1", fmt::format("{} and {}", alpha, beta));
    else
      report.Require(alpha != 0, kAlpha, "not 0", "0");
    if (const Value *c = n.operand(2)) {
      CheckBias(n, ctx, c, kBias, report);
      const int64_t cols = n.result()->type().shape()[1].value(), count = c->type().shape().num_elements();
      const int rank = c->type().shape().rank();
      const bool row = count == 1 || (count == cols && (rank == 1 || c->type().shape()[rank - 1].value() == cols));
      report.Require(row, kBias, fmt::format("[{}]", cols), c->type().shape().ToString());
    }
  }
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::RowMajor; }
  bool HasOutputStage() const override { return true; }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    return Estimate(n, t, n.operand(0)->type().shape()[1].value());
  }
  Status Lower(const Node &n, LowerContext &ctx) const override { return LowerGemm(n, ctx); }
  std::vector<RuleDoc> rules() const override { return {kTransA, kAlpha, kWeights, kWeightAxis, kBias}; }
};

} // namespace

Status LowerMatMul(const Node &n, LowerContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Stage stage, BuildStage(n, ctx));
  const Value *a = ctx.Resolve(stage.anchor->operand(0));
  const Value *b = ctx.Resolve(stage.anchor->operand(1));
  if (!IsConstantMatrix(b))
    return LowerDynamic(stage, a, b, ctx);
  const int64_t cols = b->type().shape()[1].value();
  WeightSource source{*b->constant(), 0, 1, cols, 0, 0};
  ChannelData data = ChannelDataOf(*stage.anchor, stage, a, b, nullptr, cols);
  return LowerConstant(stage, a, b, std::move(source), std::move(data), ctx);
}

Status LowerGemm(const Node &n, LowerContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Stage stage, BuildStage(n, ctx));
  const Node &g = *stage.anchor;
  const Value *a = ctx.Resolve(g.operand(0));
  const Value *b = ctx.Resolve(g.operand(1));
  const Value *c = g.operand(2) ? ctx.Resolve(g.operand(2)) : nullptr;
  const bool trans = g.attrs().Int("transB", 0) != 0;
  const int64_t cols = b->type().shape()[trans ? 0 : 1].value(), k = b->type().shape()[trans ? 1 : 0].value();
  WeightSource source{*b->constant(), 0, trans ? k : 1, trans ? 1 : cols, 0, 0};
  ChannelData data = ChannelDataOf(g, stage, a, b, c, cols);
  const float alpha = g.attrs().Float("alpha", 1), beta = g.attrs().Float("beta", 1);
  if (alpha != 1 || beta != 1) {
    data.scale = {alpha};
    for (float &f : data.float_bias)
      f = beta * f / alpha;
  }
  return LowerConstant(stage, a, b, std::move(source), std::move(data), ctx);
}

const NpuOp *MatMulLowering() {
  static const MatMulOp op;
  return &op;
}

const NpuOp *GemmLowering() {
  static const GemmOp op;
  return &op;
}

} // namespace npuc::lower
