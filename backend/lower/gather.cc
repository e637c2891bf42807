// Gather.
//
//   constant indices, any axis     copies: indices that step evenly are one strided run, equal runs that step evenly
//   are one two-dimensional run, so
//                                  a channel shuffle is one copy whatever the number of channels
//   computed indices               GATHER: rows of a table in DDR or SRAM by i32 indices; i64 ones are narrowed on the
//   way on chip. An axis other than
//                                  0 is one GATHER for each outer position
// Leaves alone: GatherElements, GatherND, Compress, indices of other types.
#include <algorithm>
#include <vector>

#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "backend/lower/strided.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::View;
using program::Box;

const RuleDoc kSameQuant{"gather-quantisation",
                         "table and result must have the same element type, scale and zero point",
                         "use the same quantisation on both sides of the node"};
const RuleDoc kElem{"gather-type", "elements must have 1, 2 or 4 bytes", "cast the table"};
const RuleDoc kIndexType{"gather-indices", "indices must be i32 or i64", "cast them"};
const RuleDoc kRows{"gather-table",
                    "computed indices: the gathered axis, and the elements behind it, must be within the machine's "
                    "greatest extent, with at most 64 positions before it",
                    "gather along the first axis"};
const RuleDoc kRuns{"gather-runs", "constant indices must fall into at most 1024 evenly stepping runs",
                    "reorder the tensor by Reshape and Transpose"};

constexpr int64_t kMaxOuter = 64, kMaxRuns = 1024;

int AxisOf(const Node &n) {
  const int rank = n.operand(0)->type().shape().rank();
  const int64_t a = n.attrs().Int("axis", 0);
  return static_cast<int>(a < 0 ? a + rank : a);
}

std::vector<int64_t> ConstantIndices(const Node &n) {
  const Tensor &t = *n.operand(1)->constant();
  const int64_t extent = n.operand(0)->type().shape()[AxisOf(n)].value();
  std::vector<int64_t> r(t.num_elements());
  for (size_t i = 0; i < r.size(); ++i) {
    const int64_t v = t.AsInt(static_cast<int64_t>(i));
    r[i] = std::clamp<int64_t>(v < 0 ? v + extent : v, 0, extent - 1);
  }
  return r;
}

// Positions [at, at + count * length) read from + outer * outer_step + inner * step.
struct Run {
  int64_t at, from, step, length, outer_step, count;
};

// Greedy: longest even run, then equal runs that follow one another evenly. `row`: runs may not cross multiples of it.
std::vector<Run> RunsOf(llvm::ArrayRef<int64_t> index, int64_t row) {
  std::vector<Run> runs;
  const int64_t n = static_cast<int64_t>(index.size());
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, (i / row + 1) * row);
    Run r{i, index[i], 1, 1, 0, 1};
    if (i + 1 < end) {
      r.step = index[i + 1] - index[i];
      while (i + r.length < end && index[i + r.length] - index[i + r.length - 1] == r.step)
        ++r.length;
      // A break after two is more likely the start of the next run's first element.
      if (r.length == 2 && i + 3 < end && index[i + 2] - index[i + 1] == index[i + 3] - index[i + 2])
        r.length = 1, r.step = 1;
    }
    i += r.length;
    if (!runs.empty()) {
      Run &last = runs.back();
      const bool same =
          last.length == r.length && (last.step == r.step || r.length == 1) && last.at / row == r.at / row;
      if (same && (last.count == 1 || r.from - (last.from + (last.count - 1) * last.outer_step) == last.outer_step)) {
        if (last.count == 1)
          last.outer_step = r.from - last.from;
        ++last.count;
        continue;
      }
    }
    runs.push_back(r);
  }
  return runs;
}

class GatherOp : public LoweredOp {
public:
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::RowMajor; }
  std::vector<RuleDoc> rules() const override { return {kSameQuant, kElem, kIndexType, kRows, kRuns}; }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    return static_cast<int64_t>(static_cast<double>(n.result()->type().num_bytes()) /
                                t.sram.bytes_per_cycle.ToDouble()) +
           t.issue_cycles;
  }

  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Type &x = n.operand(0)->type(), &y = n.result()->type();
    const int bytes = ByteSize(y.dtype());
    report.Require(y.dtype() != DType::String && (bytes == 1 || bytes == 2 || bytes == 4), kElem, "1, 2, 4",
                   std::string(Name(y.dtype())));
    report.Require(x.dtype() == y.dtype() && SameQuant(x.quant(), y.quant()), kSameQuant, y.ToString(), x.ToString());
    const DType t = n.operand(1)->type().dtype();
    if (!report.Require(t == DType::I32 || t == DType::I64, kIndexType, "i32, i64", std::string(Name(t))))
      return;
    if (n.operand(1)->constant()) {
      const int64_t runs = static_cast<int64_t>(RunsOf(ConstantIndices(n), LastDim(n)).size());
      report.Require(runs <= kMaxRuns, kRuns, std::to_string(kMaxRuns), std::to_string(runs));
      return;
    }
    const Sizes s = SizesOf(n);
    const int64_t limit = ctx.target.limits.dims_max;
    report.Require(s.outer <= kMaxOuter && s.rows <= limit && s.inner <= limit, kRows,
                   fmt::format("{} x {} x {}", kMaxOuter, limit, limit),
                   fmt::format("{} x {} x {}", s.outer, s.rows, s.inner));
  }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    if (n.operand(1)->constant())
      LowerConstant(n, ctx);
    else
      LowerComputed(n, ctx);
    return absl::OkStatus();
  }

private:
  struct Sizes {
    int64_t outer = 1, rows = 1, inner = 1;
  };
  static Sizes SizesOf(const Node &n) {
    Sizes s;
    const int axis = AxisOf(n);
    const Dims d = n.operand(0)->type().shape().static_dims();
    for (int i = 0; i < static_cast<int>(d.size()); ++i)
      (i < axis ? s.outer : i == axis ? s.rows : s.inner) *= d[i];
    return s;
  }
  // Extent of the innermost axis of the indices.
  static int64_t LastDim(const Node &n) {
    const Shape &s = n.operand(1)->type().shape();
    return s.rank() == 0 ? 1 : s[s.rank() - 1].value();
  }
  static View SourceView(LowerContext &ctx, const Value *v) { return v->constant() ? ctx.ConstView(v) : ctx.ViewOf(v); }

  static void LowerConstant(const Node &n, LowerContext &ctx) {
    const Value *data = n.operand(0), *y = n.result();
    const int axis = AxisOf(n);
    const Strided x = StridedOf(SourceView(ctx, data), data->type()), to = StridedOf(ctx.ViewOf(y), y->type());
    const int index_rank = n.operand(1)->type().shape().rank();
    // All rows of the indices at once where the result's axes allow it, else row by row.
    int64_t row = NumElements(n.operand(1)->type().shape().static_dims());
    const int64_t step = index_rank ? to.strides[axis + index_rank - 1] : 0;
    auto offset_of = [&](int64_t position) {
      int64_t offset = 0;
      for (int i = axis + index_rank - 1; i >= axis; --i) {
        offset += position % to.dims[i] * to.strides[i];
        position /= to.dims[i];
      }
      return offset;
    };
    if (row > 1 && offset_of(row - 1) != step * (row - 1))
      row = LastDim(n);
    for (const Run &r : RunsOf(ConstantIndices(n), row)) {
      Strided from = x, part = to;
      from.dims.clear(), from.strides.clear(), part.dims.clear(), part.strides.clear();
      auto add = [&](int64_t extent, int64_t s, int64_t d) {
        from.dims.push_back(extent);
        part.dims.push_back(extent);
        from.strides.push_back(s);
        part.strides.push_back(d);
      };
      for (int i = 0; i < axis; ++i)
        add(x.dims[i], x.strides[i], to.strides[i]);
      add(r.count, r.outer_step * x.strides[axis], r.length * step);
      add(r.length, r.step * x.strides[axis], step);
      for (size_t i = axis + 1; i < x.dims.size(); ++i)
        add(x.dims[i], x.strides[i], to.strides[i - 1 + index_rank]);
      from.base.offset += r.from * x.strides[axis];
      part.base.offset += offset_of(r.at);
      CopyStrided(ctx, from, part);
    }
  }

  // The tensor itself, or a copy on chip where it lies inside another one with gaps.
  static View Dense(LowerContext &ctx, const View &v, const Value *value) {
    if (program::IsDense(v))
      return v;
    const Strided from = StridedOf(v, value->type());
    Strided to = from;
    to.base = ctx.AllocSram(v.elements() * v.elem_bytes(), value->name() + "/dense");
    to.strides.clear();
    for (int64_t e : RowMajorStrides(to.dims))
      to.strides.push_back(e * v.elem_bytes());
    to.like.address = to.base;
    CopyStrided(ctx, from, to);
    return isa::NhwcView(to.base, v.dtype, v.n, v.h, v.w, v.c);
  }

  // The operand's (or result's) elements as [outer, rows, inner], dense.
  static View Table(const View &v, int64_t outer, int64_t rows, int64_t inner) {
    View r = isa::NhwcView(v.address, v.dtype, 1, outer, rows, inner);
    if (v.c0)
      r.address.offset += int64_t{v.c0} * v.elem_bytes();
    r.zero = v.zero;
    return r;
  }

  static void LowerComputed(const Node &n, LowerContext &ctx) {
    const Value *data = n.operand(0), *y = n.result(), *index = n.operand(1);
    const Sizes s = SizesOf(n);
    const int64_t count = index->type().shape().num_elements();
    const View x = Dense(ctx, SourceView(ctx, data), data), out = ctx.ViewOf(y),
               indices = Dense(ctx, ctx.ViewOf(index), index);
    const View table = Table(x, s.outer, s.rows, s.inner);
    const bool dense_out = program::IsDense(out);
    View to = Table(out, s.outer, count, s.inner);
    // Indices per piece: the machine's extent, and the result's rows on chip.
    const int64_t row_bytes = s.inner * out.elem_bytes();
    const int64_t room = std::max<int64_t>(1, ctx.budget() / 2 / (row_bytes + 8));
    const int64_t piece = std::min<int64_t>({count, room, ctx.target().limits.dims_max});
    const View list = Table(indices, 1, 1, count);
    View dense = to;
    if (!dense_out)
      dense =
          Table(ctx.AllocTile(out.dtype, 1, s.outer, count, s.inner, y->name() + "/dense"), s.outer, count, s.inner);
    for (int64_t at = 0; at < count; at += piece) {
      const int64_t k = std::min(piece, count - at);
      View part = list.Sub(0, 0, 0, at, 1, 1, 1, k);
      View on_chip = isa::NhwcView(ctx.AllocSram(k * 4, y->name() + "/indices"), DType::I32, 1, 1, 1, k);
      isa::Dma load;
      load.src = part;
      load.dst = on_chip;
      load.mode = indices.dtype == DType::I64 ? isa::DmaMode::NarrowI64 : isa::DmaMode::Copy;
      ctx.Emit(isa::Engine::LD, std::move(load));
      const View column = isa::NhwcView(on_chip.address, DType::I32, 1, 1, k, 1);
      for (int64_t o = 0; o < s.outer; ++o) {
        isa::Gather g;
        g.table = table.Sub(0, o, 0, 0, 1, 1, s.rows, s.inner);
        g.indices = column;
        const Box box{{0, o, at, 0}, {1, 1, k, s.inner}};
        g.out = ctx.Tile(dense, box, y->name());
        const View tile = g.out;
        ctx.Emit(isa::Engine::LD, std::move(g));
        ctx.Store(tile, dense, box);
      }
    }
    if (!dense_out) {
      Strided from = StridedOf(out, y->type());
      const Strided result = from;
      from.base = dense.address;
      from.strides.clear();
      for (int64_t e : RowMajorStrides(from.dims))
        from.strides.push_back(e * out.elem_bytes());
      CopyStrided(ctx, from, result);
    }
  }
};

} // namespace

const NpuOp *GatherLowering() {
  static const GatherOp op;
  return &op;
}

} // namespace npuc::lower
