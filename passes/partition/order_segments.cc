// Orders the nodes so that as few NPU segments as possible arise, and sends islands that aren't worth their copies to
// the host.
//
//   A(npu) U(host) B(npu, from A) C(npu, from B) D(npu, from C and U)    ->    A B C | U | D   or   U | A B C D: one
//   NPU segment
//
// Order: list scheduling with two ready queues. Take every ready node of one side, in the present order, until none is
// left; then the other side. With the better of the two first sides the number of changes is the least possible: it is
// the longest chain of alternations in the graph. Nodes with bodies depend on what their bodies read.
//
// Islands: a connected group of NPU nodes inside one segment that reads from host nodes and feeds host nodes, has no
// matrix operator and at most kIslandNodes nodes goes to the host when the NPU's time (its cycles, its boundary's bytes
// over DDR) is not below the host's estimate; groups that only cast, view and move always do. Rule `island`. Then the
// order is made anew.
//
// f16 nodes that are on the host now compute in f32: casts that then face each other go.
//
// Left alone: constants, which are moved to just before their first user.
// Cost: n log n, for each round of islands (at most 4).
#include <queue>

#include "compiler/ops/convert.h"
#include "passes/common.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace npuc {
namespace {

constexpr unsigned kIslandNodes = 6;

class Orderer {
public:
  Orderer(Graph &g, PassContext &ctx) : g_(g), ctx_(ctx) {}

  Status Run() {
    if (ctx_.npu && ctx_.options.precision != Precision::Fp32)
      WidenHost();
    for (int round = 0;; ++round) {
      Index();
      const std::vector<int> npu_first = Schedule(Placement::Npu), host_first = Schedule(Placement::Host);
      if (npu_first.size() != nodes_.size())
        return Error("E0207", "the graph has a cycle");
      order_ = Segments(npu_first) <= Segments(host_first) ? npu_first : host_first;
      const bool last = round == 4 || !ctx_.npu || ctx_.options.precision == Precision::Fp32 || !MoveIslands();
      if (last)
        break;
      changed_ = true;
      WidenHost();
    }
    return OkStatus();
  }

  // Nodes inside a host node's bodies, and whatever else ended on the host without a rule of its own.
  void CompleteReasons() {
    for (Node &n : g_.nodes()) {
      if (n.is_constant() || n.placement() != Placement::Host)
        continue;
      for (unsigned i = 0; i < n.num_bodies(); ++i)
        WalkNodes(*n.body(i), [&](Node &inner) {
          if (!inner.is_constant())
            ctx_.AddReasons(inner.origin(),
                            {{"host-body",
                              fmt::format("it is part of '{}' ({}), which the host runs whole", n.Label(), n.op().name),
                              "", "", "give the condition or trip count a known value (--bind)"}});
        });
      for (OriginId id : n.origin())
        if (!ctx_.reasons().count(id))
          ctx_.AddReasons({id},
                          {{"host-neighbour", "it is computed together with nodes that the host runs", "", "", ""}});
    }
  }

  // Puts the nodes into order; whether anything moved.
  bool Apply() {
    std::vector<Node *> wanted;
    llvm::DenseMap<const Node *, bool> placed;
    for (int i : order_) {
      ForEachRead(*nodes_[i], [&](Value *v) {
        if (v->def() && v->def()->is_constant() && v->graph() == &g_ && !placed.count(v->def())) {
          placed[v->def()] = true;
          wanted.push_back(v->def());
        }
      });
      wanted.push_back(nodes_[i]);
    }
    for (Node &n : g_.nodes())
      if (n.is_constant() && !placed.count(&n))
        wanted.push_back(&n);
    bool changed = changed_;
    auto it = g_.nodes().begin();
    for (Node *n : wanted) {
      if (&*it == n) {
        ++it;
        continue;
      }
      n->MoveBefore(&*it);
      changed = true;
    }
    return changed;
  }

  // Segments of the order, NPU ones.
  int npu_segments() const { return Segments(order_, true); }

private:
  static void ForEachRead(const Node &n, llvm::function_ref<void(Value *)> fn) {
    for (Value *v : n.operands())
      if (v)
        fn(v);
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      WalkNodes(static_cast<const Graph &>(*n.body(i)), [&](const Node &inner) {
        for (Value *v : inner.operands())
          if (v)
            fn(v);
      });
  }

  void Index() {
    nodes_.clear();
    index_.clear();
    for (Node &n : g_.nodes()) {
      if (n.is_return() || n.is_constant())
        continue;
      index_[&n] = static_cast<int>(nodes_.size());
      nodes_.push_back(&n);
    }
    readers_.assign(nodes_.size(), {});
    pending_.assign(nodes_.size(), 0);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      llvm::SmallVector<int, 8> from;
      ForEachRead(*nodes_[i], [&](Value *v) {
        auto found = v->def() ? index_.find(v->def()) : index_.end();
        if (found != index_.end() && found->second != static_cast<int>(i))
          from.push_back(found->second);
      });
      llvm::sort(from);
      from.erase(std::unique(from.begin(), from.end()), from.end());
      for (int f : from)
        readers_[f].push_back(static_cast<int>(i));
      pending_[i] = static_cast<int>(from.size());
    }
  }

  bool OnNpu(int i) const { return nodes_[i]->placement() == Placement::Npu; }

  std::vector<int> Schedule(Placement first) const {
    using Queue = std::priority_queue<int, std::vector<int>, std::greater<>>;
    Queue ready[2]; // host, npu
    std::vector<int> pending = pending_, order;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (pending[i] == 0)
        ready[OnNpu(i)].push(static_cast<int>(i));
    int side = first == Placement::Npu;
    while (!ready[0].empty() || !ready[1].empty()) {
      if (ready[side].empty()) {
        side = 1 - side;
        continue;
      }
      const int i = ready[side].top();
      ready[side].pop();
      order.push_back(i);
      for (int r : readers_[i])
        if (--pending[r] == 0)
          ready[OnNpu(r)].push(r);
    }
    return order;
  }

  int Segments(const std::vector<int> &order, bool npu_only = true) const {
    int n = 0;
    for (size_t k = 0; k < order.size(); ++k)
      if ((k == 0 || OnNpu(order[k]) != OnNpu(order[k - 1])) && (!npu_only || OnNpu(order[k])))
        ++n;
    return n;
  }

  static bool IsMove(const Node &n) {
    return n.op().has(kCopiesElements) || n.op().has(kView) || n.Is("Cast") || IsNpucOp(n, "Quantize") ||
           IsNpucOp(n, "Dequantize") || IsNpucOp(n, "Requantize") || IsNpucOp(n, "QuantCast");
  }

  bool MoveIslands() {
    // Connected NPU nodes of one segment.
    std::vector<int> segment(nodes_.size(), 0);
    int s = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      if (k > 0 && OnNpu(order_[k]) != OnNpu(order_[k - 1]))
        ++s;
      segment[order_[k]] = s;
    }
    llvm::EquivalenceClasses<int> groups;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!OnNpu(i))
        continue;
      groups.insert(static_cast<int>(i));
      for (int r : readers_[i])
        if (OnNpu(r) && segment[r] == segment[i])
          groups.unionSets(static_cast<int>(i), r);
    }
    std::vector<std::vector<int>> members(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (OnNpu(i))
        members[groups.getLeaderValue(static_cast<int>(i))].push_back(static_cast<int>(i));
    bool moved = false;
    for (const std::vector<int> &group : members)
      if (!group.empty() && !WorthIt(group)) {
        Violation why{
            "island",
            fmt::format("{} of the NPU between host steps would not pay for their copies",
                        group.size() == 1 ? "one cheap operator" : fmt::format("{} cheap operators", group.size())),
            "", "", "put the neighbours on the NPU too"};
        for (int i : group) {
          nodes_[i]->set_placement(Placement::Host);
          ctx_.AddReasons(nodes_[i]->origin(), {why});
        }
        moved = true;
      }
    return moved;
  }

  bool WorthIt(const std::vector<int> &group) const {
    if (group.size() > kIslandNodes)
      return true;
    llvm::SmallPtrSet<const Node *, 8> inside;
    for (int i : group)
      inside.insert(nodes_[i]);
    bool from_host = false, to_host = false, only_moves = true;
    double bytes = 0, cycles = 0, traffic = 0;
    llvm::SmallPtrSet<const Value *, 8> seen;
    auto size = [](const Value *v) {
      return v->type().is_static_tensor() ? static_cast<double>(v->type().num_bytes()) : 0.0;
    };
    for (int i : group) {
      const Node &n = *nodes_[i];
      if (IsOneOf(n, {"Conv", "ConvTranspose", "Gemm", "MatMul"}) || IsNpucOp(n, "Fused"))
        return true;
      if (IsPreferred(n, ctx_))
        return true;
      only_moves &= IsMove(n);
      if (const NpuOp *op = ctx_.npu->Find(n.op()))
        cycles += static_cast<double>(op->EstimateCycles(n, ctx_.target));
      for (const Value *v : n.operands()) {
        if (!v)
          continue;
        traffic += size(v);
        if (v->constant())
          continue;
        if (!v->def() || !inside.contains(v->def())) {
          from_host |= v->def() && v->def()->placement() == Placement::Host;
          if (seen.insert(v).second)
            bytes += size(v);
        }
      }
      for (unsigned r = 0; r < n.num_results(); ++r) {
        traffic += size(n.result(r));
        bool outside = false;
        for (const Use &u : n.result(r)->uses()) {
          if (inside.contains(u.user))
            continue;
          outside = true;
          to_host |= !u.user->is_return() && u.user->placement() != Placement::Npu;
        }
        if (outside)
          bytes += size(n.result(r));
      }
    }
    if (!from_host || !to_host)
      return true;
    if (only_moves)
      return false;
    const double cycles_ns = 1000.0 / ctx_.target.clock_mhz.ToDouble();
    const double npu_ns = (cycles + static_cast<double>(ctx_.target.dma.read_latency + ctx_.target.dma.write_latency) +
                           bytes / ctx_.target.dma.ddr_bytes_per_cycle.ToDouble()) *
                          cycles_ns;
    const double host_ns = traffic / ctx_.target.host.bytes_per_ns.ToDouble();
    return npu_ns < host_ns;
  }

  // Host nodes without bodies compute in f32.
  void WidenHost() {
    for (Node &n : g_.nodes_early_inc()) {
      if (n.placement() != Placement::Host || n.num_bodies() != 0 || n.is_constant() || n.is_return())
        continue;
      auto half = [](const Value *v) { return v && v->type().is_tensor() && v->type().dtype() == DType::F16; };
      if (n.Is("Cast")) {
        if (half(n.operand(0)) && n.result()->type().dtype() == DType::F32) {
          // f32 -> f16 -> f32 on one side
          Node *inner = DefinedBy(n.operand(0), "Cast");
          if (inner && inner->operand(0)->type().dtype() == DType::F32 && inner->placement() == Placement::Host) {
            Rewriter(&n).ReplaceNode(&n, {inner->operand(0)});
            changed_ = true;
          }
        }
        continue;
      }
      bool any = false;
      for (const Value *v : n.operands())
        any |= half(v);
      for (unsigned i = 0; i < n.num_results(); ++i)
        any |= half(n.result(i));
      if (!any)
        continue;
      changed_ = true;
      Rewriter rw(&n);
      for (unsigned i = 0; i < n.num_operands(); ++i) {
        Value *const v = n.operand(i);
        if (!half(v))
          continue;
        if (const Tensor *t = v->constant()) {
          n.set_operand(i, rw.Constant(WidenHalf(*t), v->name() + "_f32"));
          continue;
        }
        Node *const cast = DefinedBy(v, "Cast");
        if (cast && cast->operand(0)->type().dtype() == DType::F32) {
          n.set_operand(i, cast->operand(0));
          rw.EraseIfDead(cast);
        } else {
          n.set_operand(i, MakeCast(v, DType::F32, rw));
        }
      }
      Rewriter after(&*std::next(n.getIterator()));
      for (unsigned i = 0; i < n.num_results(); ++i) {
        Value *const r = n.result(i);
        if (!half(r))
          continue;
        Type t = r->type();
        t.set_dtype(DType::F32);
        r->set_type(t);
        llvm::SmallVector<Use, 4> uses(r->uses().begin(), r->uses().end());
        Value *narrow = nullptr;
        llvm::SmallVector<Node *, 2> casts;
        for (const Use &u : uses) {
          if (u.user->Is("Cast") && u.user->result()->type().dtype() == DType::F32) {
            casts.push_back(u.user);
            continue;
          }
          if (!narrow)
            narrow = MakeCast(r, DType::F16, after);
          u.user->set_operand(u.operand, narrow);
        }
        for (Node *c : casts) {
          if (c->result()->is_graph_output())
            TakeName(*c->result(), *r);
          c->result()->ReplaceAllUsesWith(r); // dead now, swept at the end
        }
      }
    }
    changed_ |= EraseDeadNodes(g_);
  }

  static Tensor WidenHalf(const Tensor &t);

  Value *MakeCast(Value *v, DType to, Rewriter &rw) {
    AttributeList attrs;
    attrs.Set("to", static_cast<int64_t>(to));
    Type t = v->type();
    t.set_dtype(to);
    Node *n = rw.Create("Cast", {v}, {}, {t}, std::move(attrs));
    n->set_placement(ctx_.npu && ctx_.npu->Check(*n, CheckContext{ctx_.target}).empty() ? Placement::Npu
                                                                                        : Placement::Host);
    return n->result();
  }

  Graph &g_;
  PassContext &ctx_;
  std::vector<Node *> nodes_;
  llvm::DenseMap<const Node *, int> index_;
  std::vector<llvm::SmallVector<int, 4>> readers_;
  std::vector<int> pending_;
  std::vector<int> order_;
  bool changed_ = false;
};

Tensor Orderer::WidenHalf(const Tensor &t) {
  return ops::ConvertTensor(t, DType::F32);
}

} // namespace

StatusOr<bool> OrderSegments(Module &m, PassContext &ctx) {
  Orderer orderer(m.main(), ctx);
  NPUC_RETURN_IF_ERROR(orderer.Run());
  const bool changed = orderer.Apply();
  orderer.CompleteReasons();
  ctx.Count("partition: npu segments", orderer.npu_segments());
  return changed;
}

} // namespace npuc
