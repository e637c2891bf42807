// Chooses the physical layout of every tensor on the NPU and puts npuc::Relayout where producer and reader differ.
//
//   %y = Conv(%x: f32[1,3,224,224])   ->  %r = npuc::Relayout(%x): f32[1,3,224,224]:NHWC; %y: ...:NHWC = Conv(%r)
//   %t = Transpose(%y, 0 2 3 1): f16[1,112,112,8]   with %y NHWC: same bytes, nothing to do
//
// Logical shapes stay ONNX's. Each node has wishes (NpuOp::layout_rule): Image nodes work on NHWC, RowMajor nodes on
// ONNX's order, Any nodes take whatever as long as their full-rank operands and results agree; model inputs, outputs
// (but for --io native) and host nodes are RowMajor. One variable a node says which; a value costs its bytes (half at
// the model's edge, where it is moved anyway) if some reader differs from its producer, once however many readers do.
// The labels of least total cost are a minimum cut (passes/layout/min_cut.h), so conversions land where the tensors are
// smallest and the Any nodes around follow.
//
// A Transpose is free when result and operand lie in memory in the same order of axes (extents of 1 don't count). Its
// two sides are variables of their own; since "different sides are free" is not a cut, the side that must be RowMajor
// for that is fixed to it. What remains is a Transpose that moves data: it reads and writes any layouts at the same
// price, so it takes its neighbours' and saves their Relayouts.
//
// Tensors whose bytes are the same in both layouts (one channel, or one pixel) get a Relayout that the tiler makes an
// alias.
//
// Left alone: ranks but 3 and 4, host nodes, constants (row-major, read through strides or packed), NC1HWC2 (no
// lowering asks for it), axes found by equal sizes (never: types say where axes lie). Cost: one maximum flow over nodes
// and values.
#include "passes/common.h"
#include "passes/layout/min_cut.h"

namespace npuc {
namespace {

bool MayBeNhwc(const Type &t) {
  return t.is_static_tensor() && (t.shape().rank() == 3 || t.shape().rank() == 4);
}

// The axes with extent, outermost in memory first.
llvm::SmallVector<int, 4> MemoryOrder(const Type &t, bool nhwc) {
  const int rank = t.shape().rank();
  llvm::SmallVector<int, 4> r;
  for (int i = 0; i < rank; ++i) {
    const int axis = !nhwc || i == 0 ? i : i == rank - 1 ? 1 : i + 1;
    if (t.shape()[axis].value() != 1)
      r.push_back(axis);
  }
  return r;
}
bool SameBytes(const Type &t) {
  return MemoryOrder(t, false) == MemoryOrder(t, true);
}

bool TransposeIsFree(const Node &n, bool in_nhwc, bool out_nhwc) {
  const Type &x = n.operand(0)->type(), &y = n.result()->type();
  const auto perm = n.attrs().Ints("perm");
  const int rank = x.shape().rank();
  auto a = MemoryOrder(x, in_nhwc && MayBeNhwc(x));
  auto b = MemoryOrder(y, out_nhwc && MayBeNhwc(y));
  for (int &axis : b)
    axis = perm.empty() ? rank - 1 - axis : static_cast<int>(perm[axis]);
  return a == b;
}

class LayoutAssigner {
public:
  LayoutAssigner(Graph &g, PassContext &ctx) : g_(g), ctx_(ctx) {}

  bool Run() {
    fixed_row_ = cut_.AddVariable();
    cut_.Fix(fixed_row_, false);
    for (Node &n : g_.nodes())
      if (n.placement() == Placement::Npu)
        AddNode(n);
    for (unsigned i = 0; i < g_.num_inputs(); ++i) {
      // One that is an output as it is gets copied there by the host.
      const bool free = ctx_.options.native_io && MayBeNhwc(g_.input(i)->type()) && !g_.input(i)->is_graph_output();
      producer_[g_.input(i)] = free ? cut_.AddVariable() : fixed_row_;
      AddValue(g_.input(i));
    }
    for (Node &n : g_.nodes()) {
      if (n.is_constant())
        continue;
      for (unsigned i = 0; i < n.num_results(); ++i)
        AddValue(n.result(i));
    }
    label_ = cut_.Solve();
    RelaxTransposes();
    return Apply();
  }

private:
  // Operand i of n takes part in the node's common layout.
  static bool IsImageOperand(const Node &n, unsigned i) {
    const Value *v = n.operand(i);
    if (!v || !MayBeNhwc(v->type()))
      return false;
    int rank = 0;
    for (const Value *o : n.operands())
      if (o && !o->constant() && o->type().is_tensor() && o->type().shape().ranked())
        rank = std::max(rank, o->type().shape().rank());
    return v->type().shape().rank() == rank;
  }
  static bool IsImageResult(const Node &n, unsigned i) {
    if (!MayBeNhwc(n.result(i)->type()))
      return false;
    const int rank = n.result(i)->type().shape().rank();
    for (unsigned k = 0; k < n.num_operands(); ++k)
      if (IsImageOperand(n, k))
        return n.operand(k)->type().shape().rank() == rank;
    return true;
  }

  void AddNode(Node &n) {
    const NpuOp *op = ctx_.npu->Find(n.op());
    const LayoutRule rule = op ? op->layout_rule(n) : LayoutRule::RowMajor;
    if (rule == LayoutRule::Permutes && n.Is("Transpose") && MayBeNhwc(n.operand(0)->type()))
      return AddTranspose(n);
    int v = fixed_row_;
    if (rule == LayoutRule::Image || rule == LayoutRule::Any) {
      v = cut_.AddVariable();
      if (rule == LayoutRule::Image)
        cut_.Fix(v, true);
    }
    for (unsigned i = 0; i < n.num_operands(); ++i)
      reader_[{&n, i}] = IsImageOperand(n, i) ? v : fixed_row_;
    for (unsigned i = 0; i < n.num_results(); ++i)
      producer_[n.result(i)] = IsImageResult(n, i) ? v : fixed_row_;
  }

  void AddTranspose(Node &n) {
    const int in = cut_.AddVariable(), out = cut_.AddVariable();
    reader_[{&n, 0u}] = in;
    producer_[n.result()] = out;
    const int64_t w = 4 * n.result()->type().num_bytes();
    bool free[2][2];
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 2; ++b)
        free[a][b] = TransposeIsFree(n, a, b);
    if (free[0][0] && free[1][1]) {
      cut_.Penalise(in, out, w);
      cut_.Penalise(out, in, w);
    } else if (free[1][0] &&
               !(free[0][1] && Perm(n).size() > 1 && Perm(n)[1] == static_cast<int64_t>(Perm(n).size()) - 1)) {
      // NCHW -> NHWC: the result is channels-last as it stands. (Extents of 1 can make both ways free: then the perm
      // says which is meant.)
      cut_.Fix(out, false);
      cut_.Penalise(in, fixed_true(), w);
    } else if (free[0][1]) {
      cut_.Fix(in, false);
      cut_.Penalise(out, fixed_true(), w);
    } else if (free[0][0]) {
      cut_.Penalise(fixed_row_, in, w);
      cut_.Penalise(fixed_row_, out, w);
    } else if (free[1][1]) {
      cut_.Penalise(in, fixed_true(), w);
      cut_.Penalise(out, fixed_true(), w);
    }
  }

  static llvm::ArrayRef<int64_t> Perm(const Node &n) { return n.attrs().Ints("perm"); }

  int fixed_true() {
    if (fixed_true_ < 0) {
      fixed_true_ = cut_.AddVariable();
      cut_.Fix(fixed_true_, true);
    }
    return fixed_true_;
  }

  int ReaderOf(const Use &u) const {
    if (u.user->is_return() && u.user->graph() == &g_)
      return ctx_.options.native_io ? -1 : fixed_row_;
    auto found = reader_.find({u.user, u.operand});
    return found == reader_.end() ? fixed_row_ : found->second; // host nodes and their bodies
  }
  int ProducerOf(const Value *v) const {
    auto found = producer_.find(v);
    return found == producer_.end() ? fixed_row_ : found->second;
  }

  void AddValue(Value *v) {
    if (!MayBeNhwc(v->type()))
      return;
    const int p = ProducerOf(v);
    llvm::SmallVector<int, 4> readers;
    for (const Use &u : v->uses())
      if (const int r = ReaderOf(u); r >= 0 && r != p)
        readers.push_back(r);
    if (readers.empty())
      return;
    int64_t w = 1;
    if (!SameBytes(v->type())) {
      const bool edge = !v->def() || v->is_graph_output();
      w += v->type().num_bytes() * (edge ? 1 : 2) * 2;
    }
    if (readers.size() == 1) {
      cut_.Penalise(p, readers[0], w);
      cut_.Penalise(readers[0], p, w);
      return;
    }
    const int some_true = cut_.AddVariable(), some_false = cut_.AddVariable();
    cut_.Penalise(p, some_true, w);
    cut_.Penalise(some_false, p, w);
    for (int r : readers) {
      cut_.Penalise(some_true, r, MinCut::kNever);
      cut_.Penalise(r, some_false, MinCut::kNever);
    }
  }

  // Transposes that move data anyway read their operand and write their result as the neighbours have it.
  void RelaxTransposes() {
    for (Node &n : g_.nodes()) {
      if (!n.Is("Transpose") || n.placement() != Placement::Npu)
        continue;
      auto in = reader_.find({&n, 0u});
      if (in == reader_.end() || in->second == fixed_row_)
        continue;
      const int out = producer_[n.result()];
      if (TransposeIsFree(n, label_[in->second], label_[out]))
        continue;
      const bool before = label_[ProducerOf(n.operand(0))];
      std::optional<bool> after;
      bool agree = MayBeNhwc(n.result()->type());
      for (const Use &u : n.result()->uses()) {
        const int r = ReaderOf(u);
        if (r < 0)
          continue;
        agree &= !after || *after == label_[r];
        after = label_[r];
      }
      label_[in->second] = before;
      if (agree && after)
        label_[out] = *after;
    }
  }

  static void SetLayout(Value *v, bool nhwc) {
    if (v->type().is_tensor())
      v->type().set_layout(nhwc ? Layout::NHWC : Layout::RowMajor);
  }

  bool Apply() {
    bool changed = false;
    int64_t transposes_free = 0, transposes_left = 0, conversions = 0;
    // Layouts of producers.
    for (const auto &[v, var] : producer_) {
      const bool nhwc = label_[var] && MayBeNhwc(v->type());
      if (nhwc != (v->type().layout() == Layout::NHWC))
        changed = true;
      SetLayout(const_cast<Value *>(v), nhwc);
    }
    // Relayouts where readers differ.
    llvm::SmallVector<Value *, 32> values;
    for (unsigned i = 0; i < g_.num_inputs(); ++i)
      values.push_back(g_.input(i));
    llvm::DenseMap<const Node *, int> position;
    int k = 0;
    for (Node &n : g_.nodes()) {
      position[&n] = k++;
      if (n.is_constant())
        continue;
      for (unsigned i = 0; i < n.num_results(); ++i)
        values.push_back(n.result(i));
    }
    for (Value *v : values) {
      if (!MayBeNhwc(v->type()))
        continue;
      const bool have = label_[ProducerOf(v)];
      llvm::SmallVector<Use, 4> differ;
      Node *first = nullptr;
      bool output = false;
      for (const Use &u : v->uses()) {
        const int r = ReaderOf(u);
        if (r < 0 || label_[r] == have)
          continue;
        differ.push_back(u);
        output |= u.user->is_return() && u.user->graph() == &g_;
        if (u.user->graph() == &g_ && (!first || position[u.user] < position[first]))
          first = u.user;
      }
      if (differ.empty())
        continue;
      const bool made_by_npu = v->def() && v->def()->placement() == Placement::Npu;
      Node *const at = made_by_npu ? &*std::next(v->def()->getIterator()) : first;
      NPUC_CHECK(at != nullptr, "'{}' is relaid for nobody", v->name());
      Rewriter rw(at);
      Type t = v->type();
      t.set_layout(have ? Layout::RowMajor : Layout::NHWC);
      Node *relayout = rw.Create("Relayout", {v}, {}, {t}, {}, "npuc");
      relayout->set_placement(Placement::Npu);
      for (const Use &u : differ)
        u.user->set_operand(u.operand, relayout->result());
      if (output) {
        TakeName(*v, *relayout->result());
        g_.module().RenameValue(v, relayout->result()->name() + ".nhwc");
      }
      if (!SameBytes(t))
        ++conversions;
      changed = true;
    }
    for (Node &n : g_.nodes()) {
      if (n.placement() != Placement::Npu)
        continue;
      if (n.Is("Transpose")) {
        const bool in = n.operand(0)->type().layout() == Layout::NHWC,
                   out = n.result()->type().layout() == Layout::NHWC;
        if (TransposeIsFree(n, in, out)) {
          ++transposes_free;
        } else {
          ++transposes_left;
          ctx_.AddRemark(n, fmt::format("the Transpose moves data: operand is {}, result {}",
                                        n.operand(0)->type().ToString(), n.result()->type().ToString()));
        }
      }
      if (IsNpucOp(n, "Fused"))
        LayBody(n);
    }
    ctx_.Count("layout: conversions", conversions);
    ctx_.Count("layout: transposes removed", transposes_free);
    ctx_.Count("layout: transposes left", transposes_left);
    return changed;
  }

  static void LayBody(Node &n) {
    Graph &body = *n.body(0);
    for (unsigned i = 0; i < body.num_inputs(); ++i)
      body.input(i)->set_type(n.operand(i)->type());
    const Type &out = n.result()->type();
    for (Node &inner : body.nodes()) {
      if (inner.is_constant())
        continue;
      for (unsigned i = 0; i < inner.num_results(); ++i)
        if (inner.result(i)->type().is_tensor() && inner.result(i)->type().shape().rank() == out.shape().rank())
          inner.result(i)->type().set_layout(out.layout());
    }
  }

  Graph &g_;
  PassContext &ctx_;
  MinCut cut_;
  int fixed_row_ = 0, fixed_true_ = -1;
  std::map<std::pair<const Node *, unsigned>, int> reader_; // looked up, never walked
  llvm::DenseMap<const Value *, int> producer_;             // walked only where order doesn't matter
  std::vector<bool> label_;
};

} // namespace

StatusOr<bool> AssignLayouts(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  return LayoutAssigner(m.main(), ctx).Run();
}

} // namespace npuc
