// Splits groups of layers into stripes of rows:
//
//   %t = Conv(%x); %u = Conv(%t); %y = Conv(%u)
//     ->  %x0 = Slice(%x, rows of stripe 0 and halo); %t0 = Conv(%x0); %u0 = Conv(%t0); %y0 = Conv(%u0)
//         %x1 = Slice(%x, ...) ...
//         %y = Concat(%y0, %y1, ...) along H
//
// Slices read where the tensor lies and Concat's operands are written where they belong (places.cc), so neither moves
// anything. What is won: tensors inside of a group that are too large for the chip never see DDR, and layers that wait
// for DDR run beside layers that wait for the array. What it costs: rows that two stripes need (the halo) are computed
// twice, weights are loaded once a stripe, commands are smaller.
//
// A group is a run of neighbouring nodes whose inner results nobody else reads. Which groups, and how many stripes, is
// one shortest path over the nodes of a run, with estimates of array, vector and DDR time: a node alone takes the
// greater of its compute and its transfers, a group the greater of their sums.
//
// Left alone: nodes whose rows aren't windows of their operands' rows (resizing, transposition, reductions, matrix
// products), kernels beyond the machine's limits, average pooling that counts padding, ceil_mode.
// Cost: nodes x kMostNodes x stripe counts x stripes, each a few sums.
// Source: layer fusion by overlapped tiles (Alwani et al., "Fused-layer CNN accelerators"), with recomputed halos.
#include "passes/tile/split_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "backend/timing/timing.h"
#include "compiler/program/views.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"
#include "passes/common.h"
#include "passes/tile/places.h"

namespace npuc::tile {
namespace {

constexpr int kMostNodes = 12;
constexpr int kRows = 2; // logical axis
// Cycles that a command of a stripe takes beside its work: issue, pipeline fill, a transfer's latency that nobody
// hides.
constexpr double kCommandCycles = 60;
// A group must be this much faster than its nodes one by one: the estimates are no better.
constexpr double kGain = 0.95;
// Share of the free memory that a stripe's tensors may take: transfers run ahead in the rest.
constexpr double kMemory = 0.6;

struct Rows {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Rows &) const = default;
};
Rows Hull(const Rows &a, const Rows &b) {
  return a.size() == 0 ? b : b.size() == 0 ? a : Rows{std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

bool IsImage(const Value *v) {
  return v && v->type().is_static_tensor() && v->type().shape().rank() == 4;
}
int64_t RowsOf(const Value *v) {
  return v->type().shape()[kRows].value();
}
double BytesOf(const Value *v, int64_t rows) {
  return static_cast<double>(v->type().num_bytes()) / static_cast<double>(RowsOf(v)) * static_cast<double>(rows);
}

// How rows of a node's result depend on rows of its operands.
struct Window {
  int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  unsigned operand = 0;      // the one that is seen through the window
  std::vector<bool> by_rows; // operands that are read at the result's own rows (or, `operand`, through the window)

  // Rows of the operand, of `extent`, and the padding that is left; nullopt when there is none but padding.
  struct Source {
    Rows rows;
    int64_t before, after;
  };
  std::optional<Source> SourceOf(const Rows &out, int64_t extent) const {
    const int64_t lo = out.begin * stride - before, hi = (out.end - 1) * stride - before + (kernel - 1) * dilation + 1;
    const Rows rows{std::max<int64_t>(lo, 0), std::min(hi, extent)};
    if (rows.begin >= rows.end)
      return std::nullopt;
    return Source{rows, std::max<int64_t>(0, -lo), std::min(after, std::max<int64_t>(0, hi - extent))};
  }
};

const Node &AnchorOf(const Node &n) {
  if (IsNpucOp(n, "Fused"))
    for (const Node &inner : n.body(0)->nodes())
      if (!inner.is_constant())
        return inner;
  return n;
}

// Concat and Relayout take their operand into another tensor's memory, whole: where rows of it lie by themselves it
// would be copied instead.
bool IsTakenIn(const Value *v) {
  return llvm::any_of(v->uses(), [](const Use &u) { return u.user->Is("Concat") || IsNpucOp(*u.user, "Relayout"); });
}

bool IsElementwise(const Node &n) {
  return IsOneOf(n, {"Add",   "Sub",         "Mul",     "Div",       "Min",   "Max",  "Relu", "LeakyRelu",
                     "PRelu", "Clip",        "Sigmoid", "HardSwish", "Swish", "Tanh", "Elu",  "Gelu",
                     "Mish",  "HardSigmoid", "Cast",    "Softplus",  "Abs",   "Neg",  "Exp",  "Sqrt"}) ||
         IsNpucOp(n, "Quantize") || IsNpucOp(n, "Dequantize") || IsNpucOp(n, "Requantize");
}

std::optional<Window> WindowOf(const Node &n, const Target &t) {
  if (n.num_results() < 1 || !IsImage(n.result()))
    return std::nullopt;
  for (unsigned i = 1; i < n.num_results(); ++i)
    if (n.result(i)->has_uses())
      return std::nullopt;
  Window w;
  w.by_rows.assign(n.num_operands(), false);
  const int64_t rows = RowsOf(n.result());
  const Node &anchor = AnchorOf(n);
  const bool conv = anchor.Is("Conv");
  if (conv || IsOneOf(n, {"MaxPool", "AveragePool"})) {
    const Value *x = anchor.operand(0);
    if (!IsImage(x))
      return std::nullopt;
    if (&anchor != &n) {
      if (x->def() || !x->has_one_use())
        return std::nullopt;
      w.operand = x->index();
    }
    const AttributeList &a = anchor.attrs();
    const auto strides = a.Ints("strides"), dilations = a.Ints("dilations"), pads = a.Ints("pads");
    const auto kernel = a.Ints("kernel_shape");
    w.kernel = conv ? anchor.operand(1)->type().shape()[kRows].value() : kernel[0];
    w.stride = strides.empty() ? 1 : strides[0];
    w.dilation = dilations.empty() ? 1 : dilations[0];
    if (!pads.empty())
      w.before = pads[0], w.after = pads[2];
    if (w.kernel > t.limits.kernel_max[0] || w.stride > t.limits.stride_max[0] || w.dilation > t.limits.dilation_max[0])
      return std::nullopt;
    const bool padded = w.before || w.after;
    if (a.Int("ceil_mode", 0) || (padded && a.Int("count_include_pad", 0)))
      return std::nullopt;
    w.by_rows[w.operand] = true;
  } else if (n.Is("Concat")) {
    const int64_t axis = n.attrs().Int("axis", 0);
    if (axis != 1 && axis != -3)
      return std::nullopt;
  } else if (!IsElementwise(n)) {
    return std::nullopt;
  }
  for (unsigned i = 0; i < n.num_operands(); ++i) {
    const Value *v = n.operand(i);
    if (!v || w.by_rows[i])
      continue;
    const Type &type = v->type();
    if (!type.is_static_tensor())
      return std::nullopt;
    // A convolution's weights and bias don't lie over rows.
    if (conv &&
        (&anchor == &n || llvm::any_of(n.body(0)->input(i)->uses(), [&](const Use &u) { return u.user == &anchor; })))
      continue;
    const int rank = type.shape().rank();
    if (rank < 2 || rank > 4 || type.shape()[rank - 2].value() == 1)
      continue; // broadcast over rows
    if (rank != 4 || v->constant() || RowsOf(v) != rows)
      return std::nullopt;
    w.by_rows[i] = true;
  }
  return llvm::is_contained(w.by_rows, true) ? std::optional(w) : std::nullopt;
}

// Passes of an output stage's dear functions, at least 1.
double StagePasses(const Node &n, const Target &t) {
  double sum = 0;
  if (IsNpucOp(n, "Fused"))
    for (const Node &b : n.body(0)->nodes()) {
      if (IsOneOf(b, {"Sigmoid", "Swish"}))
        sum += t.vpu.Passes(VpuFunction::Sigmoid).ToDouble();
      else if (IsOneOf(b, {"Tanh", "Mish"}))
        sum += t.vpu.Passes(VpuFunction::Tanh).ToDouble();
      else if (IsOneOf(b, {"Gelu"}))
        sum += t.vpu.Passes(VpuFunction::Gelu).ToDouble();
      else if (IsOneOf(b, {"Exp", "Elu"}))
        sum += t.vpu.Passes(VpuFunction::Exp).ToDouble();
    }
  return std::max(1.0, sum);
}

// Cycles of the whole node on array or vector unit, and bytes of its constants.
struct Work {
  double cycles = 0, constant_bytes = 0;
};
Work WorkOf(const Node &n, const NpuOps &npu, const Target &t) {
  Work w;
  const Node &anchor = AnchorOf(n);
  const Type &y = n.result()->type();
  if (!anchor.Is("Conv") || !IsImage(n.result())) {
    const NpuOp *op = npu.Find(n.op());
    w.cycles = op ? static_cast<double>(op->EstimateCycles(n, t)) : 0;
    return w;
  }
  const Shape &weights = anchor.operand(1)->type().shape();
  const int64_t oc = weights[0].value(), icg = weights[1].value(), groups = anchor.attrs().Int("group", 1);
  timing::ConvShape s;
  s.mode = groups == 1                ? isa::ConvMode::Dense
           : icg == 1 && groups == oc ? isa::ConvMode::Depthwise
                                      : isa::ConvMode::Grouped;
  s.x = anchor.operand(0)->type().dtype();
  s.positions = y.shape()[0].value() * y.shape()[2].value() * y.shape()[3].value();
  s.oc = oc;
  s.ic = icg * groups;
  s.groups = groups;
  s.kh = weights[2].value();
  s.kw = weights[3].value();
  const double array = static_cast<double>(timing::ConvMac(s, t)) / timing::kUnitsPerCycle;
  const double output =
      static_cast<double>(y.shape().num_elements()) * StagePasses(n, t) / t.mxu.PpuRate(s.x).ToDouble();
  w.cycles = std::max(array, output);
  w.constant_bytes = static_cast<double>(weights.num_elements() * ByteSize(s.x) + oc * isa::kTableEntryBytes);
  return w;
}

class Splitter {
public:
  Splitter(Module &m, const NpuOps &npu, const Target &target, llvm::function_ref<bool(const Node &)> keep)
      : g_(m.main()), npu_(npu), t_(target), keep_(keep) {}

  RowParts Run() {
    const std::vector<tile::Run> runs = SplitRuns(g_);
    Places places(g_, runs, t_);
    std::vector<int64_t> reserve;
    for (const tile::Run &run : runs)
      reserve.insert(reserve.end(), run.nodes.size(), t_.sram.bytes / 16);
    used_ = ChooseOnChip(places, runs, reserve, t_.sram.bytes);
    for (const Value *v : places.values()) {
      const Root &r = places.roots()[places.view(v).address.index];
      in_ddr_[v] = !r.on_chip;
    }
    std::vector<Group> groups;
    size_t start = 0;
    for (const tile::Run &run : runs) {
      if (run.placement == Placement::Npu)
        Plan(run, start, &groups);
      start += run.nodes.size();
    }
    for (const Group &g : groups)
      Split(g);
    return std::move(parts_);
  }

private:
  struct Group {
    std::vector<const Node *> nodes;
    int64_t stripes = 0;
  };

  double DdrCycles(double bytes) const { return bytes / t_.dma.ddr_bytes_per_cycle.ToDouble(); }
  bool InDdr(const Value *v) const {
    auto it = in_ddr_.find(v);
    return it != in_ddr_.end() && it->second;
  }

  // A node on its own: weights arrive while its neighbours compute.
  double Alone(const Node &n) const {
    double bytes = 0;
    for (const Value *v : n.operands())
      if (v && InDdr(v))
        bytes += static_cast<double>(v->type().num_bytes());
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (InDdr(n.result(i)))
        bytes += static_cast<double>(n.result(i)->type().num_bytes());
    return std::max(work_.lookup(&n).cycles, DdrCycles(bytes));
  }

  // Least cost of the run's nodes, group by group.
  void Plan(const tile::Run &run, size_t start, std::vector<Group> *out) {
    const size_t n = run.nodes.size();
    std::vector<std::optional<Window>> windows;
    position_.clear();
    for (size_t k = 0; k < n; ++k) {
      position_[run.nodes[k]] = k;
      work_[run.nodes[k]] = WorkOf(*run.nodes[k], npu_, t_);
      windows.push_back(keep_(*run.nodes[k]) ? std::nullopt : WindowOf(*run.nodes[k], t_));
      if (windows.back())
        windows_[run.nodes[k]] = *windows.back();
    }
    struct Best {
      double cycles = 0;
      size_t from = 0;
      int64_t stripes = 0;
    };
    std::vector<Best> best(n + 1);
    for (size_t end = 1; end <= n; ++end) {
      best[end] = {best[end - 1].cycles + Alone(*run.nodes[end - 1]), end - 1, 0};
      double alone = 0;
      for (size_t from = end; from-- > 0 && end - from <= kMostNodes && windows[from];) {
        alone += Alone(*run.nodes[from]);
        if (end - from < 2)
          continue;
        const llvm::ArrayRef<const Node *> nodes(run.nodes.data() + from, end - from);
        if (!IsClosed(nodes))
          continue;
        for (int64_t stripes : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
          const auto cycles = Cost(nodes, stripes, start + from);
          if (!cycles)
            continue;
          // More stripes cost more.
          if (*cycles < kGain * alone && best[from].cycles + *cycles < best[end].cycles)
            best[end] = {best[from].cycles + *cycles, from, stripes};
          break;
        }
      }
    }
    for (size_t end = n; end > 0; end = best[end].from)
      if (best[end].stripes)
        out->push_back({{run.nodes.begin() + best[end].from, run.nodes.begin() + end}, best[end].stripes});
  }

  // Nobody outside reads a result but the last one's, and that is read outside.
  bool IsClosed(llvm::ArrayRef<const Node *> nodes) const {
    const size_t first = position_.lookup(nodes.front()), last = position_.lookup(nodes.back());
    for (const Node *n : nodes.drop_back()) {
      if (!n->result()->has_uses())
        return false;
      for (const Use &u : n->result()->uses()) {
        auto it = position_.find(u.user);
        if (it == position_.end() || it->second < first || it->second > last)
          return false;
      }
    }
    if (IsTakenIn(nodes.back()->result()))
      return false;
    for (const Node *n : nodes)
      for (unsigned i = 0; i < n->num_operands(); ++i)
        if (windows_.find(n)->second.by_rows[i] && !IsInner(n->operand(i), nodes) && IsTakenIn(n->operand(i)))
          return false;
    return true;
  }

  // Rows of every value that a stripe needs; false when some node sees padding alone.
  bool NeedsOf(llvm::ArrayRef<const Node *> nodes, const Rows &out, llvm::DenseMap<const Value *, Rows> *needs) const {
    needs->clear();
    (*needs)[nodes.back()->result()] = out;
    for (const Node *n : llvm::reverse(nodes)) {
      const Rows rows = needs->lookup(n->result());
      const Window &w = windows_.find(n)->second;
      for (unsigned i = 0; i < n->num_operands(); ++i) {
        if (!w.by_rows[i])
          continue;
        const Value *v = n->operand(i);
        Rows need = rows;
        if (i == w.operand) {
          const auto source = w.SourceOf(rows, RowsOf(v));
          if (!source)
            return false;
          need = source->rows;
        }
        Rows &all = (*needs)[v];
        all = Hull(all, need);
      }
    }
    return true;
  }

  static Rows Stripe(int64_t extent, int64_t stripes, int64_t k) {
    return {extent * k / stripes, extent * (k + 1) / stripes};
  }

  // Cycles of the group in that many stripes; nullopt when it cannot be, or the stripes don't fit.
  std::optional<double> Cost(llvm::ArrayRef<const Node *> nodes, int64_t stripes, size_t position) const {
    const Value *y = nodes.back()->result();
    if (RowsOf(y) < 2 * stripes)
      return std::nullopt;
    double compute = 0, bytes = 0;
    llvm::DenseMap<const Value *, Rows> needs;
    // The first and the last have less halo than those between, which are all alike.
    for (int64_t k = 0; k < stripes; k = k == 1 && stripes > 3 ? stripes - 1 : k + 1) {
      const double alike = k == 0 || k + 1 == stripes ? 1 : static_cast<double>(stripes - 2);
      if (!NeedsOf(nodes, Stripe(RowsOf(y), stripes, k), &needs))
        return std::nullopt;
      double live = 0;
      for (size_t at = 0; at < nodes.size(); ++at) {
        const Node *n = nodes[at];
        const Work &w = work_.find(n)->second;
        const Rows rows = needs.lookup(n->result());
        compute += alike * (w.cycles * static_cast<double>(rows.size()) / static_cast<double>(RowsOf(n->result())) +
                            kCommandCycles);
        bytes += alike * w.constant_bytes;
        double fetched = w.constant_bytes;
        for (const Value *v : n->operands())
          if (v && InDdr(v) && !IsInner(v, nodes)) {
            const auto need = needs.find(v);
            const double b =
                need == needs.end() ? static_cast<double>(v->type().num_bytes()) : BytesOf(v, need->second.size());
            bytes += alike * b;
            fetched += b;
          }
        const double made = BytesOf(n->result(), rows.size());
        if (at + 1 < nodes.size() || InDdr(y))
          live += made;
        if (at + 1 == nodes.size() && InDdr(y))
          bytes += alike * made;
        // What is resident here but for the group's own tensors, which come in stripes now.
        double resident = static_cast<double>(used_[position + at]);
        for (const Node *m : nodes.drop_back())
          if (!InDdr(m->result()) && AliveAt(m->result(), nodes, at))
            resident -= static_cast<double>(m->result()->type().num_bytes());
        if (live + fetched > kMemory * (static_cast<double>(t_.sram.bytes) - std::max(0.0, resident)))
          return std::nullopt;
        for (const Node *m : nodes.take_front(at + 1))
          if (m != nodes.back() && LastUse(m->result(), nodes) == at)
            live -= BytesOf(m->result(), needs.lookup(m->result()).size());
      }
    }
    return std::max(compute, DdrCycles(bytes));
  }

  bool IsInner(const Value *v, llvm::ArrayRef<const Node *> nodes) const {
    return v->def() && llvm::is_contained(nodes, v->def());
  }
  size_t LastUse(const Value *v, llvm::ArrayRef<const Node *> nodes) const {
    size_t last = 0;
    for (const Use &u : v->uses())
      last = std::max(last, position_.lookup(u.user) - position_.lookup(nodes.front()));
    return last;
  }
  bool AliveAt(const Value *v, llvm::ArrayRef<const Node *> nodes, size_t at) const {
    return position_.lookup(v->def()) - position_.lookup(nodes.front()) <= at && at <= LastUse(v, nodes);
  }

  // The rows of a tensor from outside of the group.
  Value *RowsFromOutside(Value *v, const Rows &rows, Rewriter &rw) {
    if (rows == Rows{0, RowsOf(v)})
      return v;
    auto ints = [&](int64_t i) { return rw.Constant(Tensor::OfI64({i})); };
    Node *slice =
        rw.Create("Slice", {v, ints(rows.begin), ints(rows.end), ints(kRows)}, {}, {WithRows(v->type(), rows)});
    slice->set_placement(Placement::Npu);
    return slice->result();
  }
  static Type WithRows(const Type &t, const Rows &rows) {
    Dims d = t.shape().static_dims();
    d[kRows] = rows.size();
    Type r = t;
    r.set_shape(Shape::Of(d));
    return r;
  }

  void Split(const Group &group) {
    Node *const last = const_cast<Node *>(group.nodes.back());
    Value *const y = last->result();
    Rewriter rw(last);
    llvm::SmallVector<Value *, 8> pieces;
    std::vector<Node *> made;
    bool legal = true;
    llvm::DenseMap<const Value *, Rows> needs;
    for (int64_t k = 0; k < group.stripes && legal; ++k) {
      NeedsOf(group.nodes, Stripe(RowsOf(y), group.stripes, k), &needs);
      ValueMap values;
      for (size_t at = 0; at < group.nodes.size() && legal; ++at) {
        const Node *n = group.nodes[at];
        const Window &w = windows_.find(n)->second;
        const Rows rows = needs.lookup(n->result());
        ValueMap map;
        for (unsigned i = 0; i < n->num_operands(); ++i) {
          Value *v = n->operand(i);
          if (!v || !w.by_rows[i])
            continue;
          // What others of the stripe need of the same tensor is more than this node reads.
          Rows read = rows;
          if (i == w.operand)
            read = w.SourceOf(rows, RowsOf(v))->rows;
          Value *&whole = values[v];
          const Rows have = needs.lookup(v);
          if (!whole)
            whole = RowsFromOutside(v, have, rw);
          map[v] = read == have ? whole : RowsFromOutside(whole, {read.begin - have.begin, read.end - have.begin}, rw);
        }
        Node *copy = CopyNode(*n, g_, last, map);
        copy->set_placement(Placement::Npu);
        SetRows(*copy, *n, w, rows);
        parts_[copy] = {next_ + static_cast<int>(at), DimsOrNone(n->operand(0)),
                        n->result()->type().shape().static_dims()};
        made.push_back(copy);
        values[n->result()] = copy->result();
        legal = npu_.Check(*copy, CheckContext{t_}).empty();
      }
      pieces.push_back(values[y]);
    }
    if (!legal) {
      for (Node *n : llvm::reverse(made)) {
        parts_.erase(n);
        rw.EraseIfDead(n);
      }
      return;
    }
    next_ += static_cast<int>(group.nodes.size());
    AttributeList attrs;
    attrs.Set("axis", int64_t{kRows});
    Node *concat = rw.Create("Concat", pieces, {}, {y->type()}, std::move(attrs));
    concat->set_placement(Placement::Npu);
    TakeName(*y, *concat->result());
    y->ReplaceAllUsesWith(concat->result());
    for (const Node *n : llvm::reverse(group.nodes))
      const_cast<Node *>(n)->Erase();
  }

  static Dims DimsOrNone(const Value *v) {
    return v && v->type().is_static_tensor() ? v->type().shape().static_dims() : Dims{};
  }

  // Types and padding of a copy of `n` that computes `rows`.
  static void SetRows(Node &copy, const Node &n, const Window &w, const Rows &rows) {
    copy.result()->set_type(WithRows(n.result()->type(), rows));
    Node *anchor = &copy;
    if (IsNpucOp(copy, "Fused")) {
      Graph &body = *copy.body(0);
      for (unsigned i = 0; i < body.num_inputs(); ++i)
        body.input(i)->set_type(copy.operand(i)->type());
      const int64_t whole = RowsOf(n.result());
      for (Node &inner : body.nodes()) {
        if (inner.is_constant())
          continue;
        for (unsigned i = 0; i < inner.num_results(); ++i)
          if (IsImage(inner.result(i)) && RowsOf(inner.result(i)) == whole)
            inner.result(i)->set_type(WithRows(inner.result(i)->type(), rows));
      }
      anchor = const_cast<Node *>(&AnchorOf(copy));
    }
    const auto pads = anchor->attrs().Ints("pads");
    if (pads.empty())
      return;
    const auto source = w.SourceOf(rows, RowsOf(n.operand(w.operand)));
    std::vector<int64_t> p(pads.begin(), pads.end());
    p[0] = source->before;
    p[2] = source->after;
    anchor->attrs().Set("pads", p);
  }

  Graph &g_;
  const NpuOps &npu_;
  const Target &t_;
  llvm::function_ref<bool(const Node &)> keep_;
  std::vector<int64_t> used_; // by position in the order of all nodes
  llvm::DenseMap<const Value *, bool> in_ddr_;
  llvm::DenseMap<const Node *, size_t> position_; // in the run
  llvm::DenseMap<const Node *, Work> work_;
  llvm::DenseMap<const Node *, Window> windows_;
  RowParts parts_;
  int next_ = 0;
};

} // namespace

RowParts SplitRows(Module &m, const NpuOps &npu, const Target &target, llvm::function_ref<bool(const Node &)> keep) {
  return Splitter(m, npu, target, keep).Run();
}

} // namespace npuc::tile
