// ReduceSum, Mean, Max, Min, Prod, SumSquare, L1, L2 and ArgMax, ArgMin: one REDUCE a block of outputs. LogSum is a sum
// in f32 and its logarithm; LogSumExp takes the maximum out first, as the interpreter does.
//
// Operand and result are seen through the operand's axes (a result without the reduced axes has stride 0 there), so
// keepdims, rank and layout need no case of their own: a result whose axes lie in another order is written through
// strides. ArgMax gives i32 on chip, which a DMA widens to the i64 of the result. A set that is reduced together is
// never split, so it must fit on chip (rule). Leaves alone: sets larger than the chip's memory.
#include <algorithm>
#include <limits>

#include "backend/lower/axes.h"
#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::ElemFn;
using isa::ReduceKind;
using isa::View;
using program::Box;

const RuleDoc kAxes{"reduce-axes",
                    "axes must be constants, and the tensor seen as at most four dims with the reduced axes whole",
                    "fold the axes into an initializer, or reshape around the node"};
const RuleDoc kSize{"reduce-size", "the elements that are reduced together must fit on chip",
                    "reduce in two steps, or use a target with more SRAM"};
const RuleDoc kType{"reduce-type", "the operand must be float, or quantised with one scale",
                    "cast or quantise the operand"};

struct NamedKind {
  std::string_view name;
  ReduceKind kind;
};
constexpr NamedKind kKinds[] = {
    {"ReduceSum", ReduceKind::Sum},       {"ReduceMean", ReduceKind::Mean}, {"ReduceMax", ReduceKind::Max},
    {"ReduceMin", ReduceKind::Min},       {"ReduceProd", ReduceKind::Prod}, {"ReduceSumSquare", ReduceKind::SumSquare},
    {"ReduceL1", ReduceKind::L1},         {"ReduceL2", ReduceKind::L2},     {"ReduceLogSum", ReduceKind::Sum},
    {"ReduceLogSumExp", ReduceKind::Sum}, {"ArgMax", ReduceKind::ArgMax},   {"ArgMin", ReduceKind::ArgMin}};
ReduceKind KindOf(const Node &n) {
  for (const NamedKind &k : kKinds)
    if (n.Is(k.name))
      return k.kind;
  NPUC_CHECK(false, "{} is no reduction", n.op().name);
  return ReduceKind::Sum;
}
bool IsArg(ReduceKind k) {
  return k == ReduceKind::ArgMax || k == ReduceKind::ArgMin;
}
bool IsLog(const Node &n) {
  return n.Is("ReduceLogSum") || n.Is("ReduceLogSumExp");
}
// Integers: results that do not depend on the order of the elements.
bool IsExact(const Node &n) {
  const ReduceKind k = KindOf(n);
  return !n.Is("ReduceLogSumExp") &&
         (k == ReduceKind::Sum || k == ReduceKind::Mean || k == ReduceKind::Max || k == ReduceKind::Min || IsArg(k));
}

// Which axes are reduced; nullopt when that is not constant.
std::optional<std::vector<bool>> ReducedAxes(const Node &n) {
  const int rank = n.operand(0)->type().shape().rank();
  std::vector<bool> chosen(rank, false);
  if (IsArg(KindOf(n))) {
    const int64_t a = n.attrs().Int("axis", 0);
    if (rank > 0)
      chosen[a < 0 ? a + rank : a] = true;
    return chosen;
  }
  llvm::SmallVector<int64_t, 4> axes(n.attrs().Ints("axes").begin(), n.attrs().Ints("axes").end());
  if (const Value *v = n.operand(1)) {
    if (!v->constant())
      return std::nullopt;
    axes.clear();
    for (int64_t i = 0; i < v->constant()->num_elements(); ++i)
      axes.push_back(v->constant()->AsInt(i));
  }
  if (axes.empty() && n.attrs().Int("noop_with_empty_axes", 0) == 0)
    chosen.assign(rank, true);
  for (int64_t a : axes)
    chosen[a < 0 ? a + rank : a] = true;
  return chosen;
}

// Operand and result through the operand's axes.
std::vector<AxisPiece> Pieces(const Node &n, const Strided &x, const Strided &y, const std::vector<bool> &chosen,
                              const Target &target) {
  Strided to = y;
  to.dims = x.dims;
  to.strides.assign(x.dims.size(), 0);
  const bool keep = n.attrs().Int("keepdims", 1) != 0;
  for (size_t i = 0, k = 0; i < x.dims.size(); ++i) {
    if (!chosen[i])
      to.strides[i] = y.strides[k];
    if (!chosen[i] || keep)
      ++k;
  }
  return PiecesOverAxes({x, to}, chosen, target);
}

// LogSumExp holds its exponents in f32 beside the operand.
int64_t LeastBytes(const Node &n, const std::vector<bool> &chosen) {
  const Dims dims = n.operand(0)->type().shape().static_dims();
  int64_t set = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    if (chosen[i])
      set *= dims[i];
  return set * (ByteSize(n.operand(0)->type().dtype()) + (n.Is("ReduceLogSumExp") ? 4 : 0)) + 64;
}

class ReduceOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Type &x = n.operand(0)->type();
    const ReduceKind kind = KindOf(n);
    if (IsArg(kind)) {
      const DType d = ctx.dtype(n.operand(0));
      report.Require(x.is_quantized() ? x.quant()->per_tensor() : d == DType::F16 || d == DType::F32, kType,
                     "f16 or quantised per tensor", x.ToString());
    } else {
      RequireArithmeticTypes(n, ctx, 0b10, report);
    }
    const auto chosen = ReducedAxes(n);
    if (!report.Require(chosen.has_value(), kAxes, "constants", "computed ones"))
      return;
    const Type &y = n.result()->type();
    const auto pieces = Pieces(n, StridedOf(program::ViewOfType(x, {}, ctx.target), x),
                               StridedOf(program::ViewOfType(y, {}, ctx.target), y), *chosen, ctx.target);
    report.Require(!pieces.empty(), kAxes, "4 dims", x.shape().ToString());
    const int64_t bytes = LeastBytes(n, *chosen), limit = MaxWorkingBytes(ctx.target);
    report.Require(bytes <= limit, kSize, fmt::format("{} bytes", limit), fmt::format("{} bytes", bytes));
  }
  LayoutRule layout_rule(const Node &n) const override {
    // f32 sums over channels and positions together take the elements in memory's order; quantised results must not
    // depend on it.
    const auto chosen = ReducedAxes(n);
    if (!chosen || !n.operand(0)->type().is_quantized() || IsExact(n) || chosen->size() < 3)
      return LayoutRule::Any;
    const bool spatial = std::any_of(chosen->begin() + 2, chosen->end(), [](bool b) { return b; });
    return (*chosen)[1] && spatial ? LayoutRule::RowMajor : LayoutRule::Any;
  }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const DType d = n.operand(0)->type().dtype();
    const double lanes = t.vpu.lanes.Has(d) ? t.vpu.Lanes(d).ToDouble() : 1.0;
    return static_cast<int64_t>(static_cast<double>(n.operand(0)->type().shape().num_elements()) / lanes) +
           t.issue_cycles;
  }
  int64_t WorkingBytes(const Node &n, const Target &) const override {
    const auto chosen = ReducedAxes(n);
    return chosen ? LeastBytes(n, *chosen) : 0;
  }
  std::vector<RuleDoc> rules() const override { return {kAxes, kSize, kType}; }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Value *x = n.operand(0), *y = n.result();
    const auto chosen = ReducedAxes(n);
    NPUC_CHECK(chosen.has_value(), "axes of '{}'", y->name());
    const auto pieces =
        Pieces(n, StridedOf(ctx.ViewOf(x), x->type()), StridedOf(ctx.ViewOf(y), y->type()), *chosen, ctx.target());
    NPUC_CHECK(!pieces.empty(), "dims of '{}'", y->name());
    const ReduceKind kind = KindOf(n);
    for (const AxisPiece &piece : pieces) {
      const View in = piece.views[0], out = WithoutAxes(piece.views[1], piece.axes);
      auto bytes = [&](const Box &b) {
        const Box whole = Whole(b, in, piece.axes);
        return FetchBytes(ctx, in, whole) + (n.Is("ReduceLogSumExp") ? whole.elements() * 4 : 0) +
               b.elements() * (IsArg(kind) ? 4 : (IsLog(n) ? 8 : 0) + (ctx.OnChip(out) ? 0 : out.elem_bytes()));
      };
      BlockLimits limits;
      limits.bytes = BlockBudget(ctx, bytes(Box{{0, 0, 0, 0}, {1, 1, 1, 1}}));
      limits.overlap_elements = std::max<int64_t>(16, limits.overlap_elements * out.elements() / in.elements());
      NPUC_RETURN_IF_ERROR(ForEachBlock(program::DimsOf(out), limits, bytes, [&](const Box &b) {
        isa::Reduce r;
        r.kind = kind;
        r.axes = piece.axes;
        if (!r.axes)
          r.axes = in.n == 1 ? isa::kAxisN : in.h == 1 ? isa::kAxisH : in.w == 1 ? isa::kAxisW : isa::kAxisC;
        r.in = ctx.Fetch(in, Whole(b, in, piece.axes), x->name());
        r.in_quant = LowerContext::QuantOf(x);
        r.select_last = IsArg(kind) && n.attrs().Int("select_last_index", 0) != 0;
        if (IsArg(kind)) {
          const View index = ctx.AllocTile(DType::I32, b.size[0], b.size[1], b.size[2], b.size[3], y->name() + "/i32");
          r.out = index;
          ctx.Vpu(std::move(r));
          isa::Dma widen;
          widen.src = index;
          widen.dst = program::Sub(out, b);
          widen.mode = isa::DmaMode::WidenI32;
          ctx.Emit(ctx.OnChip(widen.dst) ? isa::Engine::LD : isa::Engine::ST, std::move(widen));
          return;
        }
        if (IsLog(n)) {
          EmitLog(n, std::move(r), out, b, ctx);
          return;
        }
        r.out = ctx.Tile(out, b, y->name());
        r.out_quant = LowerContext::QuantOf(y);
        const View tile = r.out;
        ctx.Vpu(std::move(r));
        ctx.Store(tile, out, b);
      }));
    }
    return absl::OkStatus();
  }

private:
  // `sum`: a REDUCE of the block's operand that lacks its result.
  static void EmitLog(const Node &n, isa::Reduce sum, const View &out, const Box &b, LowerContext &ctx) {
    const std::string &name = n.result()->name();
    const isa::Quant qy = LowerContext::QuantOf(n.result());
    auto scratch = [&](const View &like, const char *what) {
      return ctx.AllocTile(DType::F32, like.n, like.h, like.w, like.c, name + what);
    };
    auto elem = [&](ElemFn fn, const View &to, isa::Quant q, const View &a, const View &c, isa::Quant qa = {}) {
      isa::Elem e;
      e.fn = fn;
      e.in[0] = a;
      e.in_quant[0] = qa;
      e.in[1] = c;
      e.out = to;
      e.out_quant = q;
      ctx.Vpu(std::move(e));
    };
    const View to = ctx.Tile(out, b, name), total = scratch(to, "/sum");
    sum.out = total;
    if (n.Is("ReduceLogSum")) {
      ctx.Vpu(std::move(sum));
      elem(ElemFn::Log, to, qy, total, {});
    } else {
      const View greatest = scratch(to, "/max"), exponents = scratch(sum.in, "/exp");
      isa::Reduce max = sum;
      max.kind = ReduceKind::Max;
      max.out = greatest;
      ctx.Vpu(std::move(max));
      // An infinite maximum would leave NaN where it meets itself.
      isa::Elem finite;
      finite.fn = ElemFn::Clamp;
      finite.in[0] = finite.out = greatest;
      finite.imm = {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
      ctx.Vpu(std::move(finite));
      elem(ElemFn::Sub, exponents, {}, sum.in, SpreadOver(greatest, sum.in, sum.axes), sum.in_quant);
      elem(ElemFn::Exp, exponents, {}, exponents, {});
      sum.in = exponents;
      sum.in_quant = {};
      ctx.Vpu(std::move(sum));
      elem(ElemFn::Log, total, {}, total, {});
      elem(ElemFn::Add, to, qy, total, greatest);
    }
    ctx.Store(to, out, b);
  }
};

} // namespace

const NpuOp *ReduceLowering() {
  static const ReduceOp op;
  return &op;
}

} // namespace npuc::lower
