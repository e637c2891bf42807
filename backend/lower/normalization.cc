// Softmax, LogSoftmax, Layer-, RMS-, Instance-, Group- and LpNormalization, and BatchNormalization that was not folded.
//
//   Softmax, LogSoftmax   NORM over the axis, whichever view axis that is
//   Layer, RMS            NORM over the axes from `axis` on, scale and bias as broadcast views
//   MeanVariance          NORM over the chosen axes
//   Instance, Group       channels seen as [groups, channels of a group]: NORM over the latter and the spatial axes
//   Lp                    REDUCE l1 or l2 to f32, at least 1e-38 so that a zero vector gives zeros, ELEM division
//   Batch                 ELEM sub, mul, mul, add in f32, in the operator's own order
//
// A set that is normalised together is never split: blocks are cut along the other axes, so a set must fit on chip
// (rule). Leaves alone: computed scale and bias, the further results of LayerNormalization (mean, inverse deviation),
// training mode.
#include <algorithm>
#include <cmath>

#include "backend/lower/axes.h"
#include "backend/lower/blocks.h"
#include "backend/lower/broadcast.h"
#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

using isa::View;
using program::Box;

const RuleDoc kRank{"norm-rank", "the operand must have an axis to normalise over", "reshape the scalar"};
const RuleDoc kAxes{"norm-axes", "the tensor must be seen as at most four dims with the normalised axes whole",
                    "reshape around the node"};
const RuleDoc kParameters{"norm-parameters",
                          "scale, bias, mean and variance must be constants that broadcast to the operand",
                          "export them as initializers"};
const RuleDoc kResults{"norm-results", "only the first result may be used",
                       "compute mean and deviation with ReduceMean"};
const RuleDoc kSize{"norm-size", "the elements that are normalised together must fit on chip",
                    "normalise over fewer elements, or use a target with more SRAM"};
const RuleDoc kTraining{"norm-training", "training mode must be off", "export the model for inference"};

struct Plan {
  isa::NormKind kind = isa::NormKind::Softmax;
  bool lp = false, batch = false;
  Strided x, y;
  std::vector<bool> chosen;
  std::vector<Strided> parameters; // scale, bias (batch: mean, variance as 1/sqrt, scale, bias), seen through x's dims
  float epsilon = 0;
};

int Normalized(int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// Axis `axis` as [outer, extent / outer].
void SplitAxis(Strided &s, int axis, int64_t outer) {
  const int64_t inner = s.dims[axis] / outer, stride = s.strides[axis];
  s.dims[axis] = inner;
  s.dims.insert(s.dims.begin() + axis, outer);
  s.strides.insert(s.strides.begin() + axis, stride * inner);
}

bool IsChannelwise(const Node &n) {
  return n.Is("InstanceNormalization") || n.Is("GroupNormalization") || n.Is("BatchNormalization");
}

// Parameter operands in the order in which they are applied.
llvm::SmallVector<unsigned, 4> ParameterOperands(const Node &n) {
  if (n.Is("BatchNormalization"))
    return {3, 4, 1, 2};
  if (n.Is("InstanceNormalization") || n.Is("GroupNormalization") || n.Is("LayerNormalization") ||
      n.Is("RMSNormalization")) {
    llvm::SmallVector<unsigned, 4> r{1};
    if (n.operand(2))
      r.push_back(2);
    return r;
  }
  return {};
}

// `parameter`: how a parameter operand lies. nullopt when a parameter does not broadcast.
template <class Parameter> std::optional<Plan> MakePlan(const Node &n, Strided x, Strided y, Parameter parameter) {
  Plan p;
  const int rank = static_cast<int>(x.dims.size());
  p.epsilon = n.attrs().Float("epsilon", 1e-5f);
  p.chosen.assign(rank, false);
  p.batch = n.Is("BatchNormalization");
  p.lp = n.Is("LpNormalization");
  const auto operands = ParameterOperands(n);
  if (IsChannelwise(n)) {
    const int64_t channels = rank > 1 ? x.dims[1] : 1;
    const int64_t groups = n.Is("GroupNormalization") ? n.attrs().Int("num_groups", 1) : channels;
    if (rank < 2 || groups < 1 || channels % groups != 0)
      return std::nullopt;
    SplitAxis(x, 1, groups);
    SplitAxis(y, 1, groups);
    if (!p.batch) {
      p.kind = isa::NormKind::Layer;
      p.chosen.assign(x.dims.size(), true);
      p.chosen[0] = p.chosen[1] = false;
    } else {
      p.chosen.assign(x.dims.size(), false);
    }
    for (unsigned i : operands) {
      Strided s = parameter(i);
      const int64_t count = NumElements(s.dims), step = s.like.elem_bytes();
      if (count != channels && count != groups)
        return std::nullopt;
      s.dims = x.dims;
      s.strides.assign(x.dims.size(), 0);
      s.strides[1] = step * (count == channels ? channels / groups : 1);
      if (count == channels)
        s.strides[2] = step;
      p.parameters.push_back(std::move(s));
    }
  } else {
    const bool to_end = n.Is("LayerNormalization") || n.Is("RMSNormalization");
    const int axis = Normalized(n.attrs().Int("axis", -1), rank);
    if (n.Is("MeanVarianceNormalization")) {
      // (x - mean) / (deviation + 1e-9): the square of that constant under the root matters where the deviation is 0.
      p.epsilon = 1e-18f;
      llvm::SmallVector<int64_t, 4> axes(n.attrs().Ints("axes").begin(), n.attrs().Ints("axes").end());
      if (axes.empty())
        axes = {0, 2, 3};
      for (int64_t a : axes) {
        if (a < -rank || a >= rank)
          return std::nullopt;
        p.chosen[Normalized(a, rank)] = true;
      }
    } else {
      for (int i = axis; i < (to_end ? rank : axis + 1); ++i)
        p.chosen[i] = true;
    }
    p.kind = n.Is("Softmax")            ? isa::NormKind::Softmax
             : n.Is("LogSoftmax")       ? isa::NormKind::LogSoftmax
             : n.Is("RMSNormalization") ? isa::NormKind::Rms
                                        : isa::NormKind::Layer;
    for (unsigned i : operands) {
      std::optional<Strided> s = BroadcastTo(parameter(i), x.dims);
      if (!s)
        return std::nullopt;
      p.parameters.push_back(std::move(*s));
    }
  }
  p.x = std::move(x);
  p.y = std::move(y);
  return p;
}

// As MakePlan before any memory: what Check and the sizes need.
std::optional<Plan> PlanOfTypes(const Node &n, const Target &target) {
  const Type &x = n.operand(0)->type(), &y = n.result()->type();
  return MakePlan(n, StridedOf(program::ViewOfType(x, {}, target), x), StridedOf(program::ViewOfType(y, {}, target), y),
                  [&](unsigned i) {
                    const Type t = Type::Tensor(DType::F32, n.operand(i)->type().shape());
                    return StridedOf(program::ViewOfType(t, {}, target), t);
                  });
}

std::vector<AxisPiece> Pieces(const Plan &p, const Target &t) {
  std::vector<Strided> all{p.x, p.y};
  all.insert(all.end(), p.parameters.begin(), p.parameters.end());
  return PiecesOverAxes(all, p.chosen, t);
}

// Bytes of the smallest block, everything in DDR.
int64_t LeastBytes(const Plan &p) {
  int64_t set = 1;
  for (size_t i = 0; i < p.x.dims.size(); ++i)
    if (p.chosen[i])
      set *= p.x.dims[i];
  int64_t bytes = set * (p.x.like.elem_bytes() + p.y.like.elem_bytes()) + 64;
  for (const Strided &s : p.parameters) {
    int64_t n = 4;
    for (size_t i = 0; i < s.dims.size(); ++i)
      if (p.chosen[i] && s.strides[i] != 0)
        n *= s.dims[i];
    bytes += n;
  }
  return bytes;
}

class NormalizationOp : public LoweredOp {
public:
  void Check(const Node &n, const CheckContext &ctx, std::vector<Violation> *out) const override {
    RuleReport report(out);
    const auto operands = ParameterOperands(n);
    uint32_t skip = 0;
    bool constants = true;
    for (unsigned i : operands) {
      skip |= 1u << i;
      const Value *v = n.operand(i);
      const DType t = ctx.dtype(v);
      constants &= report.Require(v->constant() != nullptr, kParameters, "a constant",
                                  fmt::format("the computed tensor '{}'", v->name())) &&
                   report.Require(v->type().is_quantized() || t == DType::F16 || t == DType::F32, kParameters,
                                  "f16, f32 or quantised", std::string(Name(t)));
    }
    RequireArithmeticTypes(n, ctx, skip, report);
    for (unsigned i = 1; i < n.num_results(); ++i)
      report.Require(!n.result(i)->has_uses(), kResults, "result 0", fmt::format("result {}", i));
    report.Require(n.attrs().Int("training_mode", 0) == 0, kTraining, "0", "1");
    if (!report.Require(n.operand(0)->type().shape().rank() > 0, kRank, "at least 1", "0") || !constants)
      return;
    const std::optional<Plan> p = PlanOfTypes(n, ctx.target);
    if (!report.Require(p.has_value(), kParameters,
                        fmt::format("broadcasts to {}", n.operand(0)->type().shape().ToString()),
                        "a parameter that does not"))
      return;
    report.Require(!Pieces(*p, ctx.target).empty(), kAxes, "4 dims", n.operand(0)->type().shape().ToString());
    const int64_t bytes = LeastBytes(*p), limit = MaxWorkingBytes(ctx.target);
    report.Require(bytes <= limit, kSize, fmt::format("{} bytes", limit), fmt::format("{} bytes", bytes));
  }

  // Sums over channels and positions take the elements in memory's order. Quantised results must not depend on it.
  LayoutRule layout_rule(const Node &n) const override {
    if (!n.operand(0)->type().is_quantized())
      return LayoutRule::Any;
    const int rank = n.operand(0)->type().shape().rank();
    const bool several =
        n.Is("GroupNormalization") || n.Is("MeanVarianceNormalization") ||
        ((n.Is("LayerNormalization") || n.Is("RMSNormalization")) && Normalized(n.attrs().Int("axis", -1), rank) == 1);
    return several ? LayoutRule::RowMajor : LayoutRule::Any;
  }
  int64_t EstimateCycles(const Node &n, const Target &t) const override {
    const DType d = n.result()->type().dtype();
    const double lanes = t.vpu.lanes.Has(d) ? t.vpu.Lanes(d).ToDouble() : 1.0;
    const bool softmax = n.Is("Softmax") || n.Is("LogSoftmax");
    const double passes = t.vpu.Passes(softmax ? VpuFunction::Softmax : VpuFunction::Norm).ToDouble();
    return static_cast<int64_t>(static_cast<double>(n.result()->type().shape().num_elements()) * passes / lanes) +
           t.issue_cycles;
  }
  int64_t WorkingBytes(const Node &n, const Target &t) const override {
    const std::optional<Plan> p = PlanOfTypes(n, t);
    return p ? LeastBytes(*p) : 0;
  }
  std::vector<RuleDoc> rules() const override { return {kRank, kAxes, kParameters, kResults, kSize, kTraining}; }

  Status Lower(const Node &n, LowerContext &ctx) const override {
    const Value *x = n.operand(0), *y = n.result();
    std::optional<Plan> plan =
        MakePlan(n, StridedOf(ctx.ViewOf(x), x->type()), StridedOf(ctx.ViewOf(y), y->type()), [&](unsigned i) {
          if (n.Is("BatchNormalization") && i == 4)
            return InverseDeviation(n, ctx);
          return FloatConstant(ctx, n.operand(i));
        });
    NPUC_CHECK(plan.has_value(), "plan of '{}'", y->name());
    const std::vector<AxisPiece> pieces = Pieces(*plan, ctx.target());
    NPUC_CHECK(!pieces.empty(), "dims of '{}'", y->name());
    for (const AxisPiece &piece : pieces)
      NPUC_RETURN_IF_ERROR(LowerPiece(n, *plan, piece, ctx));
    return absl::OkStatus();
  }

private:
  // 1 / sqrt(variance + epsilon) per channel, as the operator computes it.
  static Strided InverseDeviation(const Node &n, LowerContext &ctx) {
    const Value *v = n.operand(4);
    const Tensor t = *v->constant();
    const float epsilon = n.attrs().Float("epsilon", 1e-5f);
    const QuantRef q = v->type().quant();
    const int64_t count = t.num_elements();
    const program::BufferId buffer =
        ctx.AddConst(count * 4, v->name() + "/inverse", [t, q, epsilon, count](uint8_t *dst) {
          for (int64_t i = 0; i < count; ++i) {
            const float var = q ? static_cast<float>(t.AsInt(i) - q->zero_point(q->per_tensor() ? 0 : i)) *
                                      q->scale(q->per_tensor() ? 0 : i)
                                : static_cast<float>(t.AsDouble(i));
            const float f = 1.0f / std::sqrt(var + epsilon);
            std::memcpy(dst + i * 4, &f, 4);
          }
        });
    const Type f32 = Type::Tensor(DType::F32, v->type().shape());
    return StridedOf(program::ViewOfType(f32, {isa::Region::Buffer, buffer, 0}, ctx.target()), f32);
  }

  static Status LowerPiece(const Node &n, const Plan &plan, const AxisPiece &piece, LowerContext &ctx) {
    const Value *x = n.operand(0), *y = n.result();
    const View in = piece.views[0], out = piece.views[1];
    const llvm::ArrayRef<View> parameters = llvm::ArrayRef<View>(piece.views).drop_front(2);
    // Scale and bias come on chip once where they are small beside the rest.
    std::vector<View> whole(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Box all = Box::All(parameters[i]);
      if (FetchBytes(ctx, parameters[i], all) <= ctx.budget() / 16)
        whole[i] = FetchBroadcast(ctx, parameters[i], all, y->name() + "/parameter");
    }
    const bool scratch = plan.batch || plan.lp;
    auto bytes = [&](const Box &b) {
      int64_t r = FetchBytes(ctx, in, b) + (ctx.OnChip(out) ? 0 : b.elements() * out.elem_bytes());
      for (size_t i = 0; i < parameters.size(); ++i)
        if (!whole[i].present())
          r += FetchBytes(ctx, parameters[i], b);
      return r + (scratch ? b.elements() * 4 : 0);
    };
    BlockLimits limits;
    for (int a = 0; a < 4; ++a)
      limits.split[a] = !(piece.axes >> a & 1);
    NPUC_CHECK(piece.axes || in.n == 1 || in.h == 1 || in.w == 1 || in.c == 1, "sets of one element in four dims");
    limits.bytes = BlockBudget(ctx, bytes(Whole(Box{{0, 0, 0, 0}, {1, 1, 1, 1}}, in, piece.axes)));
    return ForEachBlock(program::DimsOf(in), limits, bytes, [&](const Box &b) {
      const View from = ctx.Fetch(in, b, x->name()), to = ctx.Tile(out, b, y->name());
      std::vector<View> p;
      for (size_t i = 0; i < parameters.size(); ++i)
        p.push_back(whole[i].present() ? program::Sub(whole[i], b)
                                       : FetchBroadcast(ctx, parameters[i], b, y->name() + "/parameter"));
      const isa::Quant qx = LowerContext::QuantOf(x), qy = LowerContext::QuantOf(y);
      if (plan.batch) {
        EmitBatch(from, to, p, qx, qy, b, y->name(), ctx);
      } else if (plan.lp) {
        EmitLp(n, from, to, piece.axes, qx, qy, b, ctx);
      } else {
        isa::Norm c;
        c.kind = plan.kind;
        c.axes = piece.axes;
        c.in = from;
        c.out = to;
        c.in_quant = qx;
        c.out_quant = qy;
        if (!p.empty())
          c.gamma = p[0];
        if (p.size() > 1)
          c.beta = p[1];
        c.epsilon = plan.epsilon;
        // Sets of one element: any axis without extent will do.
        if (!c.axes)
          c.axes = from.n == 1 ? isa::kAxisN : from.h == 1 ? isa::kAxisH : from.w == 1 ? isa::kAxisW : isa::kAxisC;
        ctx.Vpu(std::move(c));
      }
      ctx.Store(to, out, b);
    });
  }

  static View Scratch(const Box &b, const std::string &name, LowerContext &ctx) {
    return ctx.AllocTile(DType::F32, b.size[0], b.size[1], b.size[2], b.size[3], name);
  }
  static void EmitElem(isa::ElemFn fn, View out, isa::Quant qo, View a, isa::Quant qa, View b, LowerContext &ctx) {
    isa::Elem e;
    e.fn = fn;
    e.out = out;
    e.out_quant = qo;
    e.in[0] = a;
    e.in[1] = b;
    e.in_quant[0] = qa;
    ctx.Vpu(std::move(e));
  }
  static void EmitBatch(const View &from, const View &to, llvm::ArrayRef<View> p, isa::Quant qx, isa::Quant qy,
                        const Box &b, const std::string &name, LowerContext &ctx) {
    const View t = Scratch(b, name + "/centred", ctx);
    EmitElem(isa::ElemFn::Sub, t, {}, from, qx, p[0], ctx);
    EmitElem(isa::ElemFn::Mul, t, {}, t, {}, p[1], ctx);
    EmitElem(isa::ElemFn::Mul, t, {}, t, {}, p[2], ctx);
    EmitElem(isa::ElemFn::Add, to, qy, t, {}, p[3], ctx);
  }
  static void EmitLp(const Node &n, const View &from, const View &to, uint8_t axes, isa::Quant qx, isa::Quant qy,
                     const Box &b, LowerContext &ctx) {
    Box one = b;
    for (int a = 0; a < 4; ++a)
      if (axes >> a & 1)
        one.size[a] = 1;
    const View norm = Scratch(one, n.result()->name() + "/norm", ctx);
    isa::Reduce r;
    r.kind = n.attrs().Int("p", 2) == 1 ? isa::ReduceKind::L1 : isa::ReduceKind::L2;
    r.axes = axes ? axes : static_cast<uint8_t>(isa::kAxisN);
    r.in = from;
    r.in_quant = qx;
    r.out = norm;
    ctx.Vpu(std::move(r));
    isa::Elem least;
    least.fn = isa::ElemFn::Max;
    least.in[0] = least.out = norm;
    least.scalar[1] = 1e-38f;
    ctx.Vpu(std::move(least));
    EmitElem(isa::ElemFn::Div, to, qy, from, qx, SpreadOver(norm, from, axes), ctx);
  }
};

} // namespace

const NpuOp *NormalizationLowering() {
  static const NormalizationOp op;
  return &op;
}

} // namespace npuc::lower
