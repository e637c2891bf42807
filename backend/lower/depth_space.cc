// DepthToSpace and SpaceToDepth: pure movement, a copy of six logical dims [n, bh, bw, c, h, w].
//
//   DCR   channel = (bh * b + bw) * C + c        CRD   channel = (c * b + bh) * b + bw        (SpaceToDepth: as DCR)
// In NHWC the DCR form moves rows of b * C elements and is one DMA; which axis becomes the outer loop where six dims do
// not merge into four is whichever takes the fewest commands.
#include <algorithm>

#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "backend/lower/strided.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

const RuleDoc kSameQuant{"depth-space-quantisation",
                         "operand and result must have the same element type, scale and zero point",
                         "use the same quantisation on both sides of the node"};
const RuleDoc kElem{"depth-space-type", "elements must have 1, 2 or 4 bytes", "cast the tensor"};

// `deep`: the tensor with many channels; `wide`: the one with the larger plane. Both as [n, bh, bw, c, h, w].
struct Pair {
  Strided deep, wide;
};

Pair SixDims(const Strided &deep, const Strided &wide, int64_t b, bool crd) {
  const int64_t n = deep.dims[0], c = wide.dims[1], h = deep.dims[2], w = deep.dims[3];
  const int64_t sc = deep.strides[1];
  Pair p{deep, wide};
  for (Strided *s : {&p.deep, &p.wide}) {
    s->dims.clear();
    s->dims.append({n, b, b, c, h, w});
    s->strides.clear();
  }
  if (crd)
    p.deep.strides.append({deep.strides[0], sc * b, sc, sc * b * b, deep.strides[2], deep.strides[3]});
  else
    p.deep.strides.append({deep.strides[0], sc * c * b, sc * c, sc, deep.strides[2], deep.strides[3]});
  p.wide.strides.append(
      {wide.strides[0], wide.strides[2], wide.strides[3], wide.strides[1], wide.strides[2] * b, wide.strides[3] * b});
  return p;
}

Strided Permuted(const Strided &s, llvm::ArrayRef<int> order) {
  Strided r = s;
  for (size_t i = 0; i < order.size(); ++i) {
    r.dims[i] = s.dims[order[i]];
    r.strides[i] = s.strides[order[i]];
  }
  return r;
}

class DepthSpaceOp : public LoweredOp {
public:
  LayoutRule layout_rule(const Node &) const override { return LayoutRule::Image; }
  std::vector<RuleDoc> rules() const override { return {kSameQuant, kElem}; }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    return static_cast<int64_t>(static_cast<double>(n.result()->type().num_bytes()) /
                                t.sram.bytes_per_cycle.ToDouble()) +
           t.issue_cycles;
  }
  void Check(const Node &n, const CheckContext &, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const Type &x = n.operand(0)->type(), &y = n.result()->type();
    const int bytes = ByteSize(y.dtype());
    report.Require(bytes == 1 || bytes == 2 || bytes == 4, kElem, "1, 2, 4", std::to_string(bytes));
    report.Require(x.dtype() == y.dtype() && SameQuant(x.quant(), y.quant()), kSameQuant, y.ToString(), x.ToString());
  }
  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Value *x = n.operand(0), *y = n.result();
    const Strided from = StridedOf(ctx.ViewOf(x), x->type()), to = StridedOf(ctx.ViewOf(y), y->type());
    const int64_t b = n.attrs().Int("blocksize", 1);
    const bool to_space = n.Is("DepthToSpace");
    const bool crd = to_space && n.attrs().String("mode", "DCR") == "CRD";
    const Pair p = to_space ? SixDims(from, to, b, crd) : SixDims(to, from, b, crd);
    const Strided &src = to_space ? p.deep : p.wide, &dst = to_space ? p.wide : p.deep;
    // n, h, bh, w, bw, c is NHWC's order; the others put a block axis outside.
    static constexpr int kOrders[][6] = {{0, 4, 1, 5, 2, 3}, {0, 1, 4, 5, 2, 3}, {0, 2, 4, 1, 5, 3}, {0, 1, 2, 4, 5, 3},
                                         {0, 1, 2, 3, 4, 5}, {0, 3, 4, 1, 5, 2}, {1, 2, 0, 3, 4, 5}};
    const int *best = nullptr;
    int64_t fewest = 0;
    for (const auto &order : kOrders) {
      const int64_t count = NumCopies(ctx, Permuted(src, order), Permuted(dst, order));
      if (!best || count < fewest) {
        best = order;
        fewest = count;
      }
    }
    const llvm::ArrayRef<int> order(best, 6);
    CopyStrided(ctx, Permuted(src, order), Permuted(dst, order));
    return absl::OkStatus();
  }
};

} // namespace

const NpuOp *DepthSpaceLowering() {
  static const DepthSpaceOp op;
  return &op;
}

} // namespace npuc::lower
