// Which float work becomes integer work.
//
// 1. Candidates: operators with an integer form whose integer node the NPU takes (NpuOps::Check on a probe), whose
// ranges are
//    known, that the user has not kept float, and that are not quantised already. On a target with floats, operators
//    whose result spans decades (Exp, Log, Div, normalisations ...) stay float: eight bits hold two decades.
// 2. The tail stays float where the target has floats: what stands behind the last matrix operator, up to the outputs,
// costs little and
//    is where scores and coordinates of very different size meet in one tensor. The matrix operators before it compute
//    on integers and hand their accumulators on as floats.
// 3. An operator that is not a matrix one, all of whose producers or all of whose readers are float, is float too:
// conversions around it would
//    cost more than they save.
// 4. Output stages: unary activations, and additions or multiplications of stored values, that can follow a matrix
// operator inside the
//    machine's output stage do so on its float accumulator. What lies between them is never rounded to integers.
// 5. Classes: values that must share parameters (operands and results of operators that copy elements, of Concat, Max,
// Min) are joined by
//    union-find; a class takes the union of its ranges. A Concat joins an operand only if that costs it at most two
//    bits: else the operand keeps its own scale and is requantised on the way.
//
// Cost: one probe a candidate, a few sweeps; near-linear.
#include "passes/quantize/quant_plan.h"

#include <algorithm>
#include <cmath>

#include "compiler/calibration/methods.h"
#include "passes/fuse/output_stage.h"

namespace npuc {
namespace {

bool IsFloatTensor(const Value *v) {
  return v && v->type().is_static_tensor() && !v->type().is_quantized() &&
         (v->type().dtype() == DType::F32 || v->type().dtype() == DType::F16);
}

// Results that eight bits hold badly.
bool SpansDecades(const Node &n) {
  if (n.Is("Div"))
    return !(n.operand(1) && n.operand(1)->constant());
  return IsOneOf(n, {"Exp",
                     "Log",
                     "LogSoftmax",
                     "Pow",
                     "Sqrt",
                     "Reciprocal",
                     "LayerNormalization",
                     "RMSNormalization",
                     "InstanceNormalization",
                     "GroupNormalization",
                     "BatchNormalization",
                     "LpNormalization",
                     "ReduceL1",
                     "ReduceL2",
                     "ReduceSum",
                     "ReduceProd",
                     "ReduceSumSquare",
                     "LpPool",
                     "Softplus",
                     "Floor",
                     "Ceil",
                     "Round",
                     "Erf"});
}

// Copies elements of its data operands into its results, on integers too.
bool Copies(const Node &n) {
  if (n.Is("Pad"))
    return n.attrs().String("mode", "constant") != "constant" || !n.operand(2) || IsConstantOf(n.operand(2), 0);
  return PassesQuantThrough(n) && !IsOneOf(n, {"ReverseSequence"});
}

// Two bits.
constexpr double kMostConcatLoss = 4;

} // namespace

bool IsDataOperand(const Node &n, unsigned i) {
  const Value *v = n.operand(i);
  if (!IsFloatTensor(v) || IsQuantParameter(n, i))
    return false;
  if (IsMatrixOp(n))
    return i < 2;
  if (n.Is("Pad"))
    return i == 0;
  return true;
}

TensorQuant RangeSource::Say(const Value &v) const {
  const QuantConfig &config = ctx_.options.quant_config;
  TensorQuant q;
  if (auto it = config.tensors.find(v.name()); it != config.tensors.end())
    q = it->second;
  if (v.def() && v.index() == 0) {
    const TensorQuant node = config.ForNode(*v.def()).result;
    if (!q.method)
      q.method = node.method;
    if (!q.range && !q.scale) {
      q.range = node.range;
      q.scale = node.scale;
      q.zero_point = node.zero_point;
    }
  }
  return q;
}

QuantRef RangeSource::Given(const Value &v, DType dtype) const {
  const TensorQuant q = Say(v);
  if (!q.scale)
    return nullptr;
  const int32_t zero = dtype == DType::I16 ? 0 : q.zero_point.value_or(0);
  return PerTensorQuant(*q.scale, zero);
}

std::optional<ValueRange> RangeSource::Of(const Value &v, DType dtype) const {
  const TensorQuant said = Say(v);
  if (said.range)
    return ValueRange{said.range->first, said.range->second}.Widened();
  if (said.scale) {
    const double least = static_cast<double>(IntMin(dtype)), most = static_cast<double>(IntMax(dtype));
    const double zero = said.zero_point.value_or(0);
    return ValueRange{(least - zero) * *said.scale, (most - zero) * *said.scale}.Widened();
  }
  ValueRange fixed;
  if (v.def() && v.def()->op().domain.empty() && FixedRange(v.def()->op().name, &fixed))
    return fixed.Widened();
  if (const auto it = measured_.find(v.name()); it != measured_.end())
    return it->second.Widened();
  if (const TensorStatistics *t = ctx_.calibration ? ctx_.calibration->Find(v.name()) : nullptr; t && t->count > 0) {
    MethodOptions method = ctx_.options.calibration;
    if (said.method)
      method.method = ParseCalibrationMethod(*said.method).value_or(method.method);
    method.levels = dtype == DType::I16 ? 65536 : 256;
    if (dtype == DType::I16)
      method.method = CalibrationMethod::MinMax;
    const Range r = ChooseRange(*t, method);
    return ValueRange{r.min, r.max}.Widened();
  }
  // What one reader or the operator itself bounds.
  if (const Node *reader = SoleUser(&v); reader && IsOneOf(*reader, {"Relu", "Clip"}) && reader->operand(0) == &v)
    return Of(*reader->result(), dtype);
  if (v.def() && Copies(*v.def()) && !v.def()->Is("Concat") && v.def()->operand(0))
    return Of(*v.def()->operand(0), dtype);
  if (v.def() && v.def()->Is("Concat")) {
    ValueRange all;
    for (const Value *o : v.def()->operands()) {
      const auto r = Of(*o, dtype);
      if (!r)
        return std::nullopt;
      all.Join(*r);
    }
    return all;
  }
  return std::nullopt;
}

namespace {

class Planner {
public:
  Planner(Graph &g, const PassContext &ctx, const std::map<std::string, ValueRange> &measured)
      : g_(g), ctx_(ctx), ranges_(ctx, measured) {}

  QuantPlan Run() {
    for (Node &n : g_.nodes())
      if (!n.is_return() && !n.is_constant())
        Consider(n);
    if (ctx_.target.HasFloat()) {
      KeepTail();
      DropLonely();
    }
    ChooseTypes();
    Stages();
    FloatResults();
    Classes();
    SortReasons();
    return std::move(plan_);
  }

private:
  bool Integer(const Node *n) const { return n && plan_.integer.count(n); }
  void Keep(const Node &n, std::string why) {
    plan_.integer.erase(&n);
    if (said_.insert(&n).second)
      plan_.kept_float.emplace_back(&n, std::move(why));
  }

  // ---- 1

  Precision Wish(const Node &n) const {
    const QuantConfig &config = ctx_.options.quant_config;
    const NodeQuant own = config.ForNode(n);
    if (own.precision)
      return *own.precision;
    if (config.precision)
      return *config.precision;
    return ctx_.options.precision == Precision::Auto ? Precision::Int8 : ctx_.options.precision;
  }

  void Consider(Node &n) {
    if (!HasIntegerForm(n) || n.num_bodies() != 0 || DeniedBy(n, ctx_))
      return;
    bool any = false;
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      if (!IsDataOperand(n, i))
        continue;
      if (DefinedBy(n.operand(i), "Dequantize", "npuc") && !n.operand(i)->def()->operand(0)->constant())
        return; // quantised by its author
      any |= !n.operand(i)->constant();
    }
    for (unsigned i = 0; i < n.num_results(); ++i) {
      if (!n.result(i)->has_uses())
        continue;
      if (i > 0 && !n.Is("Split"))
        return;
      if (!IsFloatTensor(n.result(i)))
        return;
      for (const Use &u : n.result(i)->uses())
        if (IsNpucOp(*u.user, "Quantize"))
          return; // likewise
    }
    if (!any || !IsFloatTensor(n.result()) || (IsMatrixOp(n) && n.operand(0)->constant()))
      return;
    const Precision wish = Wish(n);
    if (wish != Precision::Int8 && wish != Precision::Int16) {
      if (ctx_.options.precision != Precision::Fp16)
        Keep(n, fmt::format("--quant-config asks for {}", Name(wish)));
      return;
    }
    if (ctx_.options.quant_config.ForNode(n).weight_only.value_or(false)) {
      Keep(n, "--quant-config asks for quantised weights only");
      return;
    }
    if (ctx_.target.HasFloat() && SpansDecades(n) && !ctx_.options.quant_config.ForNode(n).precision) {
      Keep(n, "its result spans more decades than 8 bits hold");
      return;
    }
    const DType dtype = wish == Precision::Int16 ? DType::I16 : DType::U8;
    for (unsigned i = 0; i < n.num_operands(); ++i)
      if (IsDataOperand(n, i) && !n.operand(i)->constant() && !ranges_.Of(*n.operand(i), dtype))
        return Keep(n, fmt::format("no range is known of '{}'", n.operand(i)->name()));
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (n.result(i)->has_uses() && !ranges_.Of(*n.result(i), dtype))
        return Keep(n, fmt::format("no range is known of '{}'", n.result(i)->name()));
    std::string why = Refused(n, dtype);
    if (!why.empty())
      return Keep(n, std::move(why));
    plan_.integer[&n] = dtype;
  }

  // What the NPU says of n on integers; "" when it takes it.
  std::string Refused(Node &n, DType dtype) {
    if (n.Is("Gemm") && n.operand(2) && !n.operand(2)->constant())
      return "its C is computed";
    if (n.Is("Pad") && !Copies(n))
      return "it pads with another value than 0";
    if (!ctx_.npu)
      return "";
    Rewriter rw(&n);
    const QuantRef quant = PerTensorQuant(1.0f, 0);
    auto typed = [&](const Type &t) {
      Type r = t;
      r.set_dtype(dtype);
      r.set_quant(quant);
      return r;
    };
    llvm::SmallVector<Value *, 4> operands(n.operands().begin(), n.operands().end());
    llvm::SmallVector<Node *, 4> made;
    for (unsigned i = 0; i < operands.size(); ++i) {
      Value *const v = operands[i];
      if (IsMatrixOp(n) && v && i > 0 && v->constant()) {
        const DType code = i == 1 ? DType::I8 : DType::I32;
        const int64_t zero = 0;
        operands[i] = rw.Constant(Tensor::Splat(code, v->constant()->dims(), &zero), "probe", i == 1 ? quant : nullptr);
        made.push_back(operands[i]->def());
      } else if (IsDataOperand(n, i) && v->constant() && ScalarConstant(v)) {
        const int64_t zero = 0;
        operands[i] = rw.Constant(Tensor::Splat(dtype, v->constant()->dims(), &zero), "probe", quant);
        made.push_back(operands[i]->def());
      } else if (IsDataOperand(n, i)) {
        made.push_back(rw.Create("Quantize", {v}, {}, {typed(v->type())}, {}, "npuc"));
        operands[i] = made.back()->result();
      }
    }
    llvm::SmallVector<Type, 2> types;
    for (unsigned i = 0; i < n.num_results(); ++i)
      types.push_back(IsFloatTensor(n.result(i)) ? typed(n.result(i)->type()) : n.result(i)->type());
    Node *probe = rw.Create(&n.op(), operands, n.origin(), types, n.attrs());
    if (probe->Is("Gemm")) {
      probe->attrs().Erase("alpha");
      probe->attrs().Erase("beta");
    }
    const std::vector<Violation> broken = ctx_.npu->Check(*probe, CheckContext{ctx_.target});
    probe->Erase();
    for (Node *m : llvm::reverse(made))
      m->Erase();
    return broken.empty() ? "" : "on integers: " + broken[0].message;
  }

  // ---- 2, 3

  void KeepTail() {
    bool any_matrix = false;
    llvm::DenseSet<const Node *> tail; // no matrix operator behind
    for (const Node &n : llvm::reverse(g_.nodes())) {
      if (n.is_constant())
        continue;
      bool behind = false;
      if (!n.is_return())
        for (unsigned i = 0; i < n.num_results(); ++i)
          for (const Use &u : n.result(i)->uses())
            behind |= u.user->graph() != &g_ || !tail.contains(u.user) || IsMatrixOp(*u.user);
      if (!behind)
        tail.insert(&n);
      any_matrix |= IsMatrixOp(n) && Integer(&n);
    }
    if (!any_matrix)
      return;
    for (const Node &n : g_.nodes())
      if (tail.contains(&n) && !IsMatrixOp(n) && Integer(&n) && !ctx_.options.quant_config.ForNode(n).precision)
        Keep(n, "it stands behind the last matrix operator: outputs keep their resolution");
  }

  void DropLonely() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node &n : g_.nodes()) {
        if (!Integer(&n) || IsMatrixOp(n) || ctx_.options.quant_config.ForNode(n).precision)
          continue;
        bool made = false, read = false;
        for (unsigned i = 0; i < n.num_operands(); ++i)
          if (IsDataOperand(n, i) && !n.operand(i)->constant())
            made |= !n.operand(i)->def() || Integer(n.operand(i)->def());
        for (unsigned i = 0; i < n.num_results(); ++i)
          for (const Use &u : n.result(i)->uses())
            read |= u.user->is_return() || Integer(u.user);
        if (made && read)
          continue;
        Keep(n, made ? "all its readers are float" : "all it reads is float");
        changed = true;
      }
    }
  }

  // ---- 4

  bool StoredSomewhere(const Value *v) const {
    // A value that integers stand for: its producer is an integer node and it is not inside a stage, or it is made by
    // floats and read by an integer node besides.
    if (!v->def())
      return true;
    return Integer(v->def()) && !plan_.internal.contains(v);
  }

  void Stages() {
    if (!ctx_.npu)
      return;
    const CheckContext check{ctx_.target};
    // The later of two operators that meet in an addition takes it: its result is the fresh one.
    for (Node &n : llvm::reverse(g_.nodes())) {
      if (!Integer(&n) || !IsMatrixOp(n))
        continue;
      const NpuOp *op = ctx_.npu->Find(n.op());
      if (!op || !op->HasOutputStage())
        continue;
      int cost = 2; // scale, quantise
      Origin chain = n.origin();
      Value *v = n.result();
      llvm::SmallVector<Value *, 4> inside;
      for (;;) {
        Node *next = SoleUser(v);
        if (!next || !Integer(next) || IsMatrixOp(*next) ||
            IsChainTooLong(chain, next->origin(), ctx_.options.max_fusion_chain) || claimed_.contains(next) ||
            next->num_results() != 1 || !IsFloatTensor(next->result()))
          break;
        const NpuOp *lowering = ctx_.npu->Find(next->op());
        const unsigned through = v->uses()[0].operand;
        const auto own = lowering ? lowering->StageOps(*next, through, check) : std::nullopt;
        if (!own || cost + *own > ctx_.npu->max_stage_ops())
          break;
        bool stored = true;
        for (unsigned i = 0; i < next->num_operands(); ++i)
          if (i != through && next->operand(i) && !next->operand(i)->constant())
            stored &= next->operand(i) != v && StoredSomewhere(next->operand(i));
        if (!stored)
          break;
        cost += *own;
        chain = MergeOrigins(chain, next->origin());
        inside.push_back(v);
        claimed_.insert(next);
        plan_.internal_operands.insert(next);
        v = next->result();
      }
      for (Value *value : inside)
        plan_.internal.insert(value);
    }
    // Bounds behind other integer operators are the clamp of the result's type. 16-bit types are symmetric: there they
    // are nodes.
    for (Node &n : g_.nodes()) {
      if (!Integer(&n) || IsMatrixOp(n) || claimed_.contains(&n) || Copies(n) || n.num_results() != 1)
        continue;
      for (Value *v = n.result();;) {
        Node *next = SoleUser(v);
        if (!next || !Integer(next) || !IsOneOf(*next, {"Relu", "Clip"}) || next->operand(0) != v ||
            wide_.contains(next->result()))
          break;
        plan_.internal.insert(v);
        claimed_.insert(next);
        clamped_.emplace_back(v, next);
        v = next->result();
      }
    }
  }

  // Matrix results that only floats read leave the accumulator as floats.
  void FloatResults() {
    if (!ctx_.target.HasFloat() || !ctx_.npu)
      return;
    for (Node &n : g_.nodes()) {
      if (!Integer(&n) || !(IsMatrixOp(n) || claimed_.contains(&n)))
        continue;
      Value *const v = n.result();
      if (plan_.internal.contains(v) || !v->has_uses())
        continue;
      bool integer_reader = false;
      for (const Use &u : v->uses())
        integer_reader |= Integer(u.user);
      const auto range = ranges_.Of(*v, DType::U8);
      const bool fits_half = range && range->lo > -60000 && range->hi < 60000;
      const bool given = ranges_.Given(*v, DType::U8) != nullptr;
      if (!integer_reader && fits_half && !given)
        plan_.float_results.insert(v);
    }
  }

  // ---- 5

  // 16 bits where either side asks for them, so that a 16-bit reader gets what an 8-bit producer's accumulator holds.
  void ChooseTypes() {
    for (const Node &n : g_.nodes()) {
      if (!Integer(&n) || plan_.integer[&n] != DType::I16)
        continue;
      for (unsigned i = 0; i < n.num_operands(); ++i)
        if (IsDataOperand(n, i))
          wide_.insert(n.operand(i));
      for (unsigned i = 0; i < n.num_results(); ++i)
        wide_.insert(n.result(i));
    }
  }

  unsigned Class(const Value *v) {
    auto [it, fresh] = class_of_.try_emplace(v, static_cast<unsigned>(parent_.size()));
    if (fresh) {
      parent_.push_back(static_cast<unsigned>(parent_.size()));
      members_.push_back({v});
    }
    return Root(it->second);
  }
  unsigned Root(unsigned i) {
    while (parent_[i] != i)
      i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(const Value *a, const Value *b) {
    unsigned x = Class(a), y = Class(b);
    if (x == y)
      return;
    if (x > y)
      std::swap(x, y);
    parent_[y] = x;
    members_[x].insert(members_[x].end(), members_[y].begin(), members_[y].end());
    members_[y].clear();
  }

  DType TypeOf(unsigned c) {
    for (const Value *v : members_[c])
      if (wide_.contains(v))
        return DType::I16;
    return DType::U8;
  }

  // The range of a class: of its values that are computed, not copied.
  ValueRange RangeOf(unsigned c) {
    ValueRange all;
    const DType dtype = TypeOf(c);
    for (const Value *v : members_[c]) {
      if (v->def() && Integer(v->def()) && Copies(*v->def()) && members_[c].size() > 1 && !v->def()->Is("Concat"))
        continue;
      if (v->def() && Integer(v->def()) && v->def()->Is("Concat") && joined_concats_.contains(v->def()))
        continue;
      if (const auto r = ranges_.Of(*v, dtype))
        all.Join(*r);
    }
    return all;
  }

  void Classes() {
    // Operators that copy.
    for (const Node &n : g_.nodes()) {
      if (!Integer(&n))
        continue;
      for (unsigned i = 0; i < n.num_operands(); ++i)
        if (IsDataOperand(n, i) && !n.operand(i)->constant())
          Class(n.operand(i));
      for (unsigned i = 0; i < n.num_results(); ++i)
        if (n.result(i)->has_uses() && !plan_.internal.contains(n.result(i)) &&
            !plan_.float_results.contains(n.result(i)))
          Class(n.result(i));
      if (!Copies(n) || n.Is("Concat") || plan_.internal.contains(n.result()))
        continue;
      for (unsigned i : DataOperands(n)) {
        if (n.operand(i)->constant() || plan_.internal.contains(n.operand(i)))
          continue;
        for (unsigned k = 0; k < n.num_results(); ++k)
          if (n.result(k)->has_uses())
            Join(n.operand(i), n.result(k));
      }
    }
    // Concats, from the back: what a later one joins, an earlier one finds in its result's range.
    for (const Node &n : llvm::reverse(g_.nodes())) {
      if (!Integer(&n) || !n.Is("Concat"))
        continue;
      ValueRange all = RangeOf(Class(n.result()));
      for (const Value *v : n.operands())
        if (!v->constant())
          all.Join(RangeOf(Class(v)));
      bool every = true;
      for (const Value *v : n.operands()) {
        if (v->constant())
          continue;
        const ValueRange own = RangeOf(Class(v));
        // A value that only the Concat reads loses nothing: it would be rounded to the Concat's codes anyway.
        const bool alone = members_[Class(v)].size() == 1 && v->has_one_use();
        if (alone || (all.hi - all.lo) <= kMostConcatLoss * (own.hi - own.lo))
          Join(v, n.result());
        else
          every = false;
      }
      if (every)
        joined_concats_.insert(&n);
    }
    // Parameters.
    for (unsigned c = 0; c < parent_.size(); ++c) {
      if (Root(c) != c)
        continue;
      const DType dtype = TypeOf(c);
      QuantRef quant;
      for (const Value *v : members_[c])
        if (!quant)
          quant = ranges_.Given(*v, dtype);
      if (!quant)
        quant = ActivationParams(RangeOf(c), dtype);
      for (const Value *v : members_[c]) {
        Type t = v->type();
        t.set_dtype(dtype);
        t.set_quant(quant);
        plan_.stored[v] = t;
        if (dtype != DType::I16)
          continue;
        for (const Use &u : v->uses()) {
          if (!plan_.ReadsNarrow(u) || !IsDataOperand(*u.user, u.operand))
            continue;
          t.set_dtype(DType::U8);
          t.set_quant(ActivationParams(RangeOf(c), DType::U8));
          plan_.narrow[v] = t;
        }
      }
    }
    // A bound that the clamp does not do after all is a node, between stored values.
    for (const auto &[v, bound] : llvm::reverse(clamped_)) {
      const auto result = plan_.stored.find(bound->result());
      if (result == plan_.stored.end() || AbsorbedByClamp(*bound, result->second))
        continue;
      plan_.internal.erase(v);
      Type t = result->second;
      if (const auto range = ranges_.Of(*v, t.dtype()))
        t.set_quant(ActivationParams(*range, t.dtype()));
      plan_.stored[v] = t;
    }
    for (const Value *v : plan_.internal)
      plan_.stored.erase(v);
  }

  void SortReasons() {
    llvm::DenseMap<const Node *, int> order;
    int k = 0;
    for (const Node &n : g_.nodes())
      order[&n] = k++;
    std::stable_sort(plan_.kept_float.begin(), plan_.kept_float.end(),
                     [&](const auto &a, const auto &b) { return order[a.first] < order[b.first]; });
  }

  Graph &g_;
  const PassContext &ctx_;
  RangeSource ranges_;
  QuantPlan plan_;
  llvm::DenseSet<const Node *> said_, claimed_, joined_concats_;
  llvm::DenseSet<const Value *> wide_;
  std::vector<std::pair<const Value *, const Node *>> clamped_;
  llvm::DenseMap<const Value *, unsigned> class_of_;
  std::vector<unsigned> parent_;
  std::vector<std::vector<const Value *>> members_;
};

} // namespace

QuantPlan MakeQuantPlan(Graph &g, const PassContext &ctx, const std::map<std::string, ValueRange> &measured) {
  return Planner(g, ctx, measured).Run();
}

} // namespace npuc
