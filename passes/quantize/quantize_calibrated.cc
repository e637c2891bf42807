// Quantises a float graph from ranges: Quantize and Dequantize nodes around the float operators that are to compute on
// integers, and integer weights behind Dequantize. convert-qdq makes the integer operators of them, as it does of a
// model that came quantised: there is one path for both.
//
//   %c = Conv(%x, w, b); %y = Relu(%c); MaxPool(%y)      ->   %xd = Dequantize(Quantize(%x: f32): u8{..}): f32
//                                                             %c = Conv(%xd, Dequantize(w: i8{axis=0,..}), b)
//                                                             %y.float = Relu(%c); %y = Quantize(%y.float)
//                                                             MaxPool(Dequantize(%y))
//
// What becomes integer, and with which parameters, is quant_plan.h's business. Activations: u8, asymmetric, per tensor
// (i16, symmetric, where int16 is asked for). Weights: i8 in -127..127, per output channel (per tensor for a grouped
// ConvTranspose, whose channel axis does not tell them apart). Bias: stays float here; convert-qdq rounds it to i32 in
// units of sx * sw[c], and weight scales are enlarged where that would overflow. The integers take the ONNX tensor's
// name, the float before them gets ".float": captures speak of what is stored.
//
// Weights are rounded by the covariance of what they are multiplied with, and what rounding shifts the mean of an
// output by is given back in its bias (round_weights.h): from samples; from statistics alone only the bias is
// corrected.
//
// Left alone: everything without ranges (no --calib, no --quant-config), what came quantised, bodies of control flow.
// Cost: linear but for the plan.
#include <cmath>
#include <map>

#include "compiler/ops/convert.h"
#include "passes/quantize/equalize.h"
#include "passes/quantize/quant_plan.h"
#include "passes/quantize/quant_rewrite.h"
#include "passes/quantize/round_weights.h"

namespace npuc {
namespace {

class Quantizer {
public:
  Quantizer(Graph &g, PassContext &ctx, const QuantPlan &plan, const std::map<const Node *, InputMoments> &moments)
      : g_(g), ctx_(ctx), plan_(plan), moments_(moments) {}

  bool Run() {
    std::vector<Value *> values;
    for (unsigned i = 0; i < g_.num_inputs(); ++i)
      values.push_back(g_.input(i));
    for (Node &n : g_.nodes())
      for (unsigned i = 0; i < n.num_results(); ++i)
        values.push_back(n.result(i));
    std::vector<Node *> nodes;
    for (Node &n : g_.nodes())
      if (!n.is_return() && !n.is_constant())
        nodes.push_back(&n);
    for (Value *v : values)
      Activation(v);
    for (Node *n : nodes) {
      if (plan_.integer.count(n))
        IsMatrixOp(*n) ? Weights(*n) : Constants(*n);
      WeightOnly(*n);
    }
    return changed_;
  }

private:
  Value *Dequantized(Rewriter &rw, Value *q, Type type, std::string name) {
    Node *d = rw.Create("Dequantize", {q}, {}, {std::move(type)}, {}, "npuc");
    g_.module().RenameValue(d->result(), name);
    return d->result();
  }

  void Activation(Value *v) {
    const auto found = plan_.stored.find(v);
    if (found == plan_.stored.end())
      return;
    const bool fresh = v->def() && plan_.integer.count(v->def());
    llvm::SmallVector<Use, 4> uses;
    for (const Use &u : v->uses())
      if (fresh || (plan_.integer.count(u.user) && u.user->graph() == &g_ && IsDataOperand(*u.user, u.operand)))
        uses.push_back(u);
    if (uses.empty())
      return;
    changed_ = true;
    Node *const at = v->def() ? &*std::next(v->def()->getIterator()) : &*g_.nodes().begin();
    Rewriter rw(at);
    Module &m = g_.module();
    const std::string name = v->name();
    Value *const q = rw.Create("Quantize", {v}, {}, {found->second}, {}, "npuc")->result();
    if (fresh) {
      m.RenameValue(v, name + ".float");
      m.RenameValue(q, name);
    } else {
      m.RenameValue(q, name + "_q");
    }
    Value *const d = Dequantized(rw, q, v->type(), name + "_dq");
    Value *narrow = nullptr;
    for (const Use &u : uses) {
      Value *with = d;
      if (const auto n = plan_.narrow.find(v); n != plan_.narrow.end() && plan_.ReadsNarrow(u)) {
        if (!narrow) {
          Value *const q8 = rw.Create("Quantize", {d}, {}, {n->second}, {}, "npuc")->result();
          m.RenameValue(q8, name + "_q8");
          narrow = Dequantized(rw, q8, v->type(), name + "_dq8");
        }
        with = narrow;
      }
      u.user->set_operand(u.operand, with);
    }
  }

  // Scale of what a matrix operator reads.
  static float OperandScale(const Node &n) {
    const Node *d = DefinedBy(n.operand(0), "Dequantize", "npuc");
    return d && d->operand(0)->type().is_quantized() ? d->operand(0)->type().quant()->scale() : 1.0f;
  }

  static Tensor Scaled(const Tensor &t, float factor) {
    const Elements x(t);
    Tensor r = Tensor::Allocate(DType::F32, t.is_splat() ? llvm::ArrayRef<int64_t>() : t.dims());
    for (int64_t i = 0; i < x.stored(); ++i)
      r.mutable_data<float>()[i] = static_cast<float>(x[i]) * factor;
    return t.is_splat() ? Tensor::Splat(DType::F32, t.dims(), r.bytes()) : r;
  }

  // Values that an estimate does not ask for.
  bool Unknown(const Tensor &t) const { return ctx_.estimate_only && !t.is_splat(); }

  // alpha and beta go into the constants.
  void FoldGemm(Node &n) {
    const float alpha = n.attrs().Float("alpha", 1), beta = n.attrs().Float("beta", 1);
    Rewriter rw(&n);
    if (alpha != 1 && n.operand(1)->constant()) {
      const Tensor &w = *n.operand(1)->constant();
      n.set_operand(1, rw.Constant(Unknown(w) ? ctx_.Unconverted(DType::F32, w.dims()) : Scaled(w, alpha),
                                   n.operand(1)->name() + "_alpha"));
      n.attrs().Erase("alpha");
    }
    if (beta != 1 && n.operand(2) && n.operand(2)->constant()) {
      n.set_operand(2, rw.Constant(Scaled(*n.operand(2)->constant(), beta), n.operand(2)->name() + "_beta"));
      n.attrs().Erase("beta");
    }
  }

  void Weights(Node &n) {
    if (n.Is("Gemm"))
      FoldGemm(n);
    Value *const w = n.operand(1);
    const Tensor *t = w->constant();
    if (!t || w->type().is_quantized())
      return;
    const int64_t groups = n.Is("ConvTranspose") ? n.attrs().Int("group", 1) : 1;
    const int axis = groups > 1 ? -1 : WeightChannelAxis(n);
    const NodeQuant own = ctx_.options.quant_config.ForNode(n);
    const Tensor *bias = n.operand(2) ? n.operand(2)->constant() : nullptr;
    const int64_t channels = t->dims()[WeightChannelAxis(n)] * groups;
    std::vector<double> least = LeastScales(bias, OperandScale(n), channels);
    if (axis < 0 && least.size() > 1)
      least = {*std::max_element(least.begin(), least.end())};
    const int bits = own.weight_bits.value_or(8);
    if (Unknown(*t)) {
      QuantParams any; // magnitudes up to 1
      any.axis = axis;
      for (int64_t c = 0, slices = axis < 0 ? 1 : t->dims()[axis]; c < slices; ++c)
        any.scales.push_back(
            static_cast<float>(std::max(1.0 / 127, least.empty() ? 0 : least[least.size() == 1 ? 0 : c])));
      any.zero_points.resize(any.scales.size());
      SetConstant(n, 1, ctx_.Unconverted(DType::I8, t->dims()), std::make_shared<const QuantParams>(std::move(any)));
      return;
    }
    QuantizedWeights q = QuantizeWeights(*t, axis, bits, least, ctx_.threads);
    const bool has_bias = n.Is("Conv") || (n.Is("Gemm") && (!n.operand(2) || bias));
    std::vector<double> means;
    if (const auto m = moments_.find(&n); m != moments_.end() && m->second.rows > 1) {
      RoundByMoments(n, *t, axis, bits, m->second, !has_bias, &q);
      for (double sum : m->second.sum)
        means.push_back(sum / static_cast<double>(m->second.rows));
    } else {
      means = MeansFromStatistics(n, ctx_.calibration);
    }
    if (has_bias && !means.empty() && !ctx_.estimate_only)
      CorrectBias(n, MeanShift(n, *t, q, means, n.Is("Conv") ? n.attrs().Int("group", 1) : 1));
    SetConstant(n, 1, bits == 4 ? AsFourBits(q.codes) : std::move(q.codes), q.quant);
  }

  static Tensor AsFourBits(const Tensor &codes) {
    Tensor r = Tensor::Allocate(DType::I4, codes.dims()); // one byte an element in memory, half a byte for the NPU
    std::memcpy(r.mutable_bytes(), codes.bytes(), codes.num_stored_bytes());
    return r;
  }

  // Adds what rounding took from each channel's mean.
  void CorrectBias(Node &n, const std::vector<double> &shift) {
    const Value *const old = n.operand(2);
    const Tensor *const b = old ? old->constant() : nullptr;
    const int64_t channels = static_cast<int64_t>(shift.size());
    if (channels == 0 || (b && b->num_elements() != channels && b->num_elements() != 1))
      return;
    Tensor sum = Tensor::Allocate(DType::F32, {channels});
    for (int64_t c = 0; c < channels; ++c)
      sum.mutable_data<float>()[c] =
          static_cast<float>((b ? b->AsDouble(b->num_elements() == 1 ? 0 : c) : 0.0) + shift[c]);
    const DType dtype = n.operand(0)->type().dtype();
    Rewriter rw(&n);
    n.set_operand(2, rw.Constant(dtype == DType::F32 ? sum : ops::ConvertTensor(sum, dtype),
                                 old ? old->name() + "_corrected" : n.result()->name() + "_bias"));
  }

  void SetConstant(Node &n, unsigned i, Tensor codes, const QuantRef &quant) {
    Value *const v = n.operand(i);
    Rewriter rw(&n);
    Value *const q = rw.Constant(std::move(codes), v->name() + "_q", quant);
    n.set_operand(i, Dequantized(rw, q, v->type(), v->name() + "_dq"));
    changed_ = true;
  }

  // Constant operands of element-wise operators. One element: convert-qdq has an exact integer for it. Else 8 bits, or
  // 16 where those are too few.
  void Constants(Node &n) {
    if (plan_.internal_operands.contains(&n))
      return;
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      if (!IsDataOperand(n, i) || !n.operand(i)->constant())
        continue;
      const Tensor &t = *n.operand(i)->constant();
      if (t.num_elements() == 1 && IsOneOf(n, {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"}))
        continue;
      const Elements x(t);
      ValueRange range;
      for (int64_t k = 0; k < x.stored(); ++k)
        range.Join({x[k], x[k]});
      for (DType dtype : {DType::U8, DType::I16}) {
        const QuantRef quant = ActivationParams(range, dtype);
        Tensor codes = Tensor::Allocate(dtype, t.is_splat() ? llvm::ArrayRef<int64_t>() : t.dims());
        double signal = 0, noise = 0;
        for (int64_t k = 0; k < x.stored(); ++k) {
          const int64_t code = QuantizeScalar(static_cast<float>(x[k]), quant->scale(), quant->zero_point(), dtype);
          std::memcpy(codes.mutable_bytes() + k * ByteSize(dtype), &code, ByteSize(dtype)); // little-endian
          const double d = static_cast<double>(code - quant->zero_point()) * quant->scale() - x[k];
          signal += x[k] * x[k];
          noise += d * d;
        }
        if (dtype == DType::U8 && noise > signal * 1e-4) // 40 dB
          continue;
        SetConstant(n, i, t.is_splat() ? Tensor::Splat(dtype, t.dims(), codes.bytes()) : codes, quant);
        break;
      }
    }
  }

  void WeightOnly(Node &n) {
    const NodeQuant own = ctx_.options.quant_config.ForNode(n);
    if (!own.weight_only.value_or(false) || !IsMatrixOp(n))
      return;
    Value *const w = n.operand(1);
    const Tensor *t = w ? w->constant() : nullptr;
    if (!t || w->type().is_quantized() || !IsFloat(t->dtype()) || t->rank() < 2)
      return;
    const int channel = WeightChannelAxis(n);
    const int input = n.Is("Conv") ? 1 : n.Is("ConvTranspose") ? 0 : n.Is("Gemm") ? 1 - channel : t->rank() - 2;
    const int64_t group = own.group.value_or(t->dims()[input]);
    Rewriter rw(&n);
    n.set_operand(1, rw.Constant(Unknown(*t) ? ctx_.Unconverted(t->dtype(), t->dims())
                                             : RoundToGroups(*t, channel, input, group, own.weight_bits.value_or(8)),
                                 w->name() + "_wo"));
    changed_ = true;
  }

  Graph &g_;
  PassContext &ctx_;
  const QuantPlan &plan_;
  const std::map<const Node *, InputMoments> &moments_;
  bool changed_ = false;
};

} // namespace

StatusOr<bool> QuantizeCalibrated(Module &m, PassContext &ctx) {
  if (!ctx.calibration && ctx.options.quant_config.empty())
    return false;
  QuantPlan plan = MakeQuantPlan(m.main(), ctx);
  // What it does to weights and ranges takes no cycles.
  const auto equalised = ctx.estimate_only ? std::map<std::string, ValueRange>() : Equalize(m.main(), plan, ctx);
  if (!equalised.empty())
    plan = MakeQuantPlan(m.main(), ctx, equalised);
  for (const auto &[node, why] : plan.kept_float)
    ctx.kept_float.push_back({node->origin(), why});
  std::vector<Node *> matrices;
  for (Node &n : m.main().nodes())
    if (plan.integer.count(&n) && IsMatrixOp(n))
      matrices.push_back(&n);
  NPUC_ASSIGN_OR_RETURN(const auto moments, CollectMoments(m.main(), matrices, ctx));
  const bool changed = Quantizer(m.main(), ctx, plan, moments).Run();
  if (changed || !equalised.empty())
    EraseDeadNodes(m.main());
  return changed || !equalised.empty();
}

} // namespace npuc
