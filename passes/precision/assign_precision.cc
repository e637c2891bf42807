// Chooses, node by node, whether float work is f16 on the NPU or f32 on the host, and puts casts where the two meet.
//
//   %y = Conv(%x: f32, w: f32): f32          ->  %x_f16 = Cast(%x); %y: f16 = Conv(%x_f16, w: f16)      where
//   NpuOps::Check allows it as f16 host node or graph output reading %y     ->  one Cast to f32 a value, shared by all
//   such readers Dequantize(%q): f32                      ->  f16 for f16 readers, f32 for the others
//
// A node is asked as if every f32 in it were f16 (CheckContext::float_as); what it breaks is kept as the reasons of its
// ONNX nodes. Constants are rounded to f16 once, weights so that a filter keeps its sum (round_filters.h). Operands
// that the machine reads as f32 tables stay f32: bias, normalisation parameters; scales of Resize too.
//
// Constants that f16 doesn't hold: an additive mask, a bound or a fill beyond its range (-1e9, the least f32) becomes
// its greatest finite value; a bound of Clip becomes none; weights and factors beyond the range, and a scalar that
// would become 0 (an epsilon of 1e-12), keep their node in f32 on the host, rule f16-range, with a warning.
//
// Numbers that f16 can't be trusted with stay f32 with whoever reads them: floats cast from integers of more than 8
// bits (sums of products, positions), the scales of DynamicQuantizeLinear, and what a constant beyond the range has
// made large, until an operator compresses it: Log(1 + 1048576 * x). Such a constant says that x is small: the
// elementwise operators that make x stay f32 too, where f16 would lose their low bits (the square of 1e-4). Rule
// f16-range.
//
// Left alone: values that are f16 already, f64, bodies of control flow (host), integers, and everything with
// --precision fp32 or on a target without f16 (rule float-on-integer-target comes from Check). Quantize takes f32 or
// f16, whatever its operand is.
//
// Cost: one Check a float node, then linear.
#include <cmath>

#include "compiler/ops/convert.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/target_clones.h"
#include "passes/common.h"
#include "passes/precision/round_filters.h"
#include "llvm/ADT/bit.h"

namespace npuc {
namespace {

constexpr double kMaxHalf = 65504.0;

bool IsF32(const Value *v) {
  return v && v->type().is_tensor() && v->type().dtype() == DType::F32;
}
bool TouchesF32(const Node &n) {
  for (const Value *v : n.operands())
    if (IsF32(v) && !v->constant())
      return true;
  for (unsigned i = 0; i < n.num_results(); ++i)
    if (IsF32(n.result(i)))
      return true;
  return false;
}

// Converts between floats and other types, with either float type on its float side.
bool IsFlexible(const Node &n) {
  return IsNpucOp(n, "Quantize") || IsNpucOp(n, "Dequantize") || n.Is("Cast");
}

// Operands that stay f32 when the node computes in f16.
bool StaysF32(const Node &n, unsigned i) {
  if (IsOneOf(n, {"Conv", "ConvTranspose", "Gemm"}))
    return i == 2;
  if (IsNpucOp(n, "Fused")) // constants of an integer product's output stage
    return n.operand(i)->constant() != nullptr;
  if (n.Is("BatchNormalization"))
    return i >= 1;
  if (IsOneOf(n, {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"}))
    return i >= 1;
  if (IsOneOf(n, {"Resize", "Upsample"}))
    return i >= 1;
  return false;
}

// Operands where a value beyond f16's range only has to be as far out as f16 goes.
bool Saturates(const Node &n, unsigned i) {
  return IsOneOf(n, {"Add", "Sub", "Where", "Max", "Min", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"}) ||
         (n.Is("Pad") && i == 2);
}
bool IsBound(const Node &n, unsigned i) {
  return n.Is("Clip") && i >= 1;
}

// Of kBlock floats without their signs, the greatest bit pattern: ordered as the magnitudes are.
constexpr int64_t kBlock = 1024;
NPUC_CLONES("avx2") uint32_t GreatestBits(const float *p) {
  uint32_t greatest = 0;
  for (int64_t i = 0; i < kBlock; ++i)
    greatest = std::max(greatest, llvm::bit_cast<uint32_t>(p[i]) & 0x7fffffffu);
  return greatest;
}

struct RangeFault {
  double value = 0;
  bool beyond = false;
};

std::optional<RangeFault> OutOfRange(const Tensor &t, bool may_saturate) {
  const int64_t n = t.is_splat() ? 1 : t.num_elements();
  const float *p = t.data<float>();
  for (int64_t at = 0; at < n && !may_saturate; at += kBlock) {
    // Most blocks hold nothing of that size, which is found out fast.
    const int64_t end = std::min(at + kBlock, n);
    if (end - at == kBlock && GreatestBits(p + at) < llvm::bit_cast<uint32_t>(65520.0f))
      continue;
    for (int64_t i = at; i < end; ++i)
      if (std::abs(p[i]) >= 65520.0f && std::isfinite(p[i]))
        return RangeFault{p[i], true};
  }
  if (n == 1) {
    const double a = std::abs(static_cast<double>(p[0]));
    if (a != 0 && a <= 0x1p-25)
      return RangeFault{p[0], false};
  }
  return std::nullopt;
}

// Results are of the size of the operands, about.
bool KeepsSize(const Node &n) {
  return n.op().has(kCopiesElements) || IsOneOf(n, {"Add",         "Sub",           "Sum",
                                                    "Mean",        "Neg",           "Abs",
                                                    "Relu",        "LeakyRelu",     "PRelu",
                                                    "Elu",         "Max",           "Mul",
                                                    "Div",         "Conv",          "ConvTranspose",
                                                    "MatMul",      "Gemm",          "Where",
                                                    "ReduceSum",   "ReduceMean",    "ReduceMax",
                                                    "ReduceL1",    "ReduceL2",      "MaxPool",
                                                    "AveragePool", "GlobalMaxPool", "GlobalAveragePool",
                                                    "Pow",         "Exp",           "ReduceSumSquare",
                                                    "CumSum"});
}

class PrecisionAssigner {
public:
  PrecisionAssigner(Graph &g, PassContext &ctx) : g_(g), ctx_(ctx) {}

  bool Run() {
    for (Node &n : g_.nodes()) {
      if (n.is_return() || n.is_constant() || IsFlexible(n) || !TouchesF32(n))
        continue;
      if (Accepts(n))
        half_.insert(&n);
      NoteGrowth(n);
    }
    KeepSmall();
    std::vector<Node *> flexible;
    for (Node &n : g_.nodes())
      if (IsFlexible(n))
        flexible.push_back(&n);
    for (Node &n : g_.nodes())
      if (half_.contains(&n))
        Convert(n);
    for (Node *n : flexible)
      Adapt(*n);
    return changed_;
  }

private:
  bool Accepts(const Node &n) {
    if (DeniedBy(n, ctx_))
      return false; // partition says so with the rule
    const std::vector<Violation> broken = ctx_.npu->Check(n, CheckContext{ctx_.target, DType::F16});
    if (!broken.empty()) {
      ctx_.AddReasons(n.origin(), broken);
      return false;
    }
    for (const Value *v : n.operands())
      if (IsF32(v) && IsWide(v)) {
        ctx_.AddReasons(
            n.origin(),
            {{"f16-range", fmt::format("'{}' comes from wide integers, whose range float16 does not hold", v->name()),
              "65504", "", "quantise the model statically"}});
        return false;
      }
    for (const Value *v : n.operands())
      if (v && growth_.count(v)) {
        ctx_.AddReasons(n.origin(),
                        {{"f16-range",
                          fmt::format("'{}' was multiplied by {:.6g}, which takes it beyond float16's greatest value",
                                      v->name(), growth_.lookup(v)),
                          "65504", fmt::format("{:.6g}", growth_.lookup(v)), "rescale the model's constants"}});
        return false;
      }
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      const Value *v = n.operand(i);
      if (!IsF32(v) || !v->constant() || StaysF32(n, i) || IsBound(n, i))
        continue;
      const auto fault = Saturates(n, i) ? OutOfRange(*v->constant(), true) : FaultOf(v);
      if (!fault)
        continue;
      Violation why;
      why.rule = "f16-range";
      why.message =
          fault->beyond
              ? fmt::format("constant '{}' holds {}, beyond float16's greatest value 65504", v->name(), fault->value)
              : fmt::format("constant '{}' = {} would become 0 in float16", v->name(), fault->value);
      why.limit = fault->beyond ? "65504" : "5.96e-08";
      why.actual = fmt::format("{}", fault->value);
      why.help = "rescale the model's constants, or quantise the model";
      ctx_.diagnostics.Warning(fmt::format("node '{}': {}; it stays in float32 on the host", n.Label(), why.message),
                               why.help);
      ctx_.AddReasons(n.origin(), {why});
      return false;
    }
    return true;
  }

  // Of a constant that must not saturate. Each is looked through once, however many ask.
  std::optional<RangeFault> FaultOf(const Value *v) {
    auto [it, fresh] = faults_.try_emplace(v);
    if (fresh)
      it->second = OutOfRange(*v->constant(), false);
    return it->second;
  }

  // How much larger than common values constants have made n's results, from the first constant beyond f16's range on.
  // Later factors count too: x * 1048576 / 1048576 is common again.
  void NoteGrowth(const Node &n) {
    if (!KeepsSize(n))
      return;
    double growth = 1;
    for (const Value *v : n.operands())
      if (v && growth_.count(v))
        growth = std::max(growth, growth_.lookup(v));
    const bool grown = growth > 1;
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      const Value *v = n.operand(i);
      if (!IsF32(v) || !v->constant() || Saturates(n, i) || StaysF32(n, i) || v->constant()->num_elements() == 0)
        continue;
      const bool divides = n.Is("Div") && i == 1;
      const auto fault = FaultOf(v);
      double factor = fault ? std::abs(fault->value) : 1;
      if (!fault && grown && (divides || n.Is("Mul")) && ScalarConstant(v))
        factor = std::abs(*ScalarConstant(v));
      growth = divides ? growth / std::max(factor, 1e-30) : growth * factor;
    }
    if (growth > kMaxHalf && !grown)
      growers_.push_back(&n);
    if (growth > kMaxHalf)
      for (unsigned i = 0; i < n.num_results(); ++i)
        growth_[n.result(i)] = growth;
  }

  // What elementwise operators make for a node that multiplies beyond the range.
  void KeepSmall() {
    while (!growers_.empty()) {
      const Node *n = growers_.pop_back_val();
      for (const Value *v : n->operands()) {
        Node *const d = v ? v->def() : nullptr;
        if (!d || !(d->op().has(kElementwise) || d->op().has(kCopiesElements)) || !half_.erase(d))
          continue;
        ctx_.AddReasons(d->origin(), {{"f16-range",
                                       fmt::format("'{}' is small: '{}' multiplies it beyond float16's greatest value",
                                                   v->name(), n->Label()),
                                       "65504", "", "rescale the model's constants"}});
        growers_.push_back(d);
      }
    }
  }

  // f32 values whose range or resolution f16 does not have; through operators that only move elements.
  static bool IsWide(const Value *v) {
    for (int depth = 0; depth < 8; ++depth) {
      const Node *d = v->def();
      if (!d)
        return false;
      if (d->Is("DynamicQuantizeLinear"))
        return v->index() == 1;
      if (d->Is("Cast")) {
        const Type &t = d->operand(0)->type();
        return t.is_tensor() && (IsInt(t.dtype()) && ByteSize(t.dtype()) > 1);
      }
      if (!d->op().has(kCopiesElements) || d->num_operands() == 0 || !d->operand(0))
        return false;
      v = d->operand(0);
    }
    return false;
  }

  Type Half(const Type &t) {
    Type h = t;
    h.set_dtype(DType::F16);
    return h;
  }

  // v as f16: itself once its node is converted, a rounded constant, or a cast.
  Value *AsHalf(Value *v, std::optional<int> filter_axis = std::nullopt) {
    auto [it, fresh] = as_half_.try_emplace(v, nullptr);
    if (!fresh)
      return it->second;
    Value *h;
    if (const Tensor *t = v->constant()) {
      Tensor half = ctx_.estimate_only && filter_axis ? ctx_.Unconverted(DType::F16, t->dims())
                    : filter_axis                     ? RoundFilters(*t, *filter_axis, ctx_.threads)
                                                      : RoundToHalf(*t);
      GiveBack(t->bytes(), static_cast<uint64_t>(t->num_stored_bytes()));
      h = v->graph()->AddConstant(std::move(half), v->name() + "_f16", v->def());
    } else {
      Node *const at = v->def() ? &*std::next(v->def()->getIterator()) : &*g_.nodes().begin();
      h = MakeCast(v, DType::F16, at);
    }
    as_half_[v] = h;
    return h;
  }

  static Tensor RoundToHalf(const Tensor &t) {
    bool beyond = false;
    const int64_t n = t.is_splat() ? 1 : t.num_elements();
    for (int64_t i = 0; i < n && !beyond; ++i)
      beyond = std::isfinite(t.data<float>()[i]) && std::abs(t.data<float>()[i]) > kMaxHalf;
    if (!beyond)
      return ops::ConvertTensor(t, DType::F16);
    Tensor c = Tensor::Allocate(DType::F32, t.is_splat() ? llvm::ArrayRef<int64_t>() : t.dims());
    for (int64_t i = 0; i < n; ++i) {
      const float x = t.data<float>()[i];
      c.mutable_data<float>()[i] = std::isfinite(x) ? std::min(std::max(x, -65504.0f), 65504.0f) : x;
    }
    if (!t.is_splat())
      return ops::ConvertTensor(c, DType::F16);
    const Tensor h = ops::ConvertTensor(c, DType::F16);
    return Tensor::Splat(DType::F16, t.dims(), h.bytes());
  }

  Value *MakeCast(Value *v, DType to, Node *at) {
    Rewriter rw(at);
    AttributeList attrs;
    attrs.Set("to", static_cast<int64_t>(to));
    Type t = v->type();
    t.set_dtype(to);
    changed_ = true;
    return rw.Create("Cast", {v}, {}, {t}, std::move(attrs))->result();
  }

  void Convert(Node &n) {
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      Value *const v = n.operand(i);
      if (!IsF32(v))
        continue;
      if (v->constant() && StaysF32(n, i))
        continue;
      if (v->constant() && IsBound(n, i) && std::abs(v->constant()->AsDouble(0)) > kMaxHalf &&
          std::isfinite(v->constant()->AsDouble(0))) {
        n.set_operand(i, nullptr); // as good as no bound
        continue;
      }
      n.set_operand(i, AsHalf(v, FilterAxis(n, i)));
      if (v->constant() && !v->has_uses()) { // big ones are not kept twice
        as_half_.erase(v);
        v->def()->Erase();
      }
    }
    if (IsNpucOp(n, "Fused"))
      for (unsigned i = 0; i < n.num_operands(); ++i)
        n.body(0)->input(i)->set_type(n.operand(i)->type());
    for (unsigned i = 0; i < n.num_results(); ++i) {
      Value *const r = n.result(i);
      if (!IsF32(r))
        continue;
      r->set_type(Half(r->type()));
      as_half_[r] = r;
      changed_ = true;
      // Readers that stay f32 share one cast. Flexible ones take it as it comes.
      llvm::SmallVector<Use, 4> readers;
      for (const Use &u : r->uses())
        if (!half_.contains(u.user) && !IsFlexible(*u.user))
          readers.push_back(u);
      if (readers.empty())
        continue;
      Value *const cast = MakeCast(r, DType::F32, &*std::next(n.getIterator()));
      bool output = false;
      for (const Use &u : readers) {
        output |= u.user->is_return() && u.user->graph() == &g_;
        u.user->set_operand(u.operand, cast);
      }
      if (output) {
        TakeName(*r, *cast);
        g_.module().RenameValue(r, cast->name() + ".f16");
      }
    }
  }

  // A conversion whose float result is read as f16 makes f16 itself.
  void Adapt(Node &n) {
    Value *const r = n.result();
    if (!IsF32(r) || IsF32(n.operand(0)))
      return;
    auto found = as_half_.find(r);
    if (found == as_half_.end() || found->second == r)
      return;
    Value *const cast = found->second;
    if (n.operand(0)->type().dtype() == DType::F16) { // f16 -> f32 -> f16
      Rewriter(&n).ReplaceNode(cast->def(), {n.operand(0)});
      return;
    }
    if (!ctx_.npu->Check(n, CheckContext{ctx_.target, DType::F16}).empty())
      return;
    AttributeList attrs = n.attrs();
    if (n.Is("Cast"))
      attrs.Set("to", static_cast<int64_t>(DType::F16));
    Rewriter rw(&n);
    Node *half = rw.Create(&n.op(), {n.operand(0)}, n.origin(), {Half(r->type())}, std::move(attrs));
    rw.ReplaceNode(cast->def(), {half->result()}); // may erase n too, when it has no f32 readers
    changed_ = true;
  }

  Graph &g_;
  PassContext &ctx_;
  llvm::SmallPtrSet<const Node *, 32> half_;
  llvm::DenseMap<Value *, Value *> as_half_;
  llvm::DenseMap<const Value *, std::optional<RangeFault>> faults_;
  llvm::DenseMap<const Value *, double> growth_; // see NoteGrowth
  llvm::SmallVector<const Node *, 4> growers_;   // where it begins
  bool changed_ = false;
};

} // namespace

StatusOr<bool> AssignPrecision(Module &m, PassContext &ctx) {
  if (!ctx.npu || ctx.options.precision == Precision::Fp32)
    return false;
  return PrecisionAssigner(m.main(), ctx).Run();
}

} // namespace npuc
