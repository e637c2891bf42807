// Memory sharing by meaning of operators, before any address:
//
//   Reshape family, QuantCast, Identity, free Transpose/Relayout   result = the operand's bytes
//   Concat                                                         operands are written where they belong in the result
//   Slice (forward), Split                                         results are read where they lie in the operand
//   Relayout at a model input or output                            the DDR tensor seen through the other layout's
//   strides
//
// Every value is written once, so sharing never needs an order. What cannot be shared (a value wanted in two places,
// quantisation that differs, io at both ends) stays a copy: the operator's lowering emits a DMA when operand and result
// do not lie in the same place. Residency is greedy: values with short lives first, as bytes saved per byte-time
// occupied is highest for them. Cost: linear in nodes, and in live spans for residency.
#include "passes/tile/places.h"

#include <algorithm>
#include <numeric>

#include "compiler/program/views.h"
#include "compiler/support/status.h"

namespace npuc::tile {

using isa::View;
using program::AxisOf;

namespace {

// Memory order of the axes that have extent, outermost first, as logical axis numbers; nullopt for blocked layouts that
// are not trivial.
std::optional<llvm::SmallVector<int, 6>> MemoryOrder(const Type &t) {
  const Dims d = t.shape().static_dims();
  const int rank = static_cast<int>(d.size());
  llvm::SmallVector<int, 6> axes;
  if (t.layout() == Layout::RowMajor) {
    for (int i = 0; i < rank; ++i)
      axes.push_back(i);
  } else if (t.layout() == Layout::NHWC) {
    axes.push_back(0);
    for (int i = 2; i < rank; ++i)
      axes.push_back(i);
    axes.push_back(1);
  } else {
    return std::nullopt;
  }
  llvm::SmallVector<int, 6> r;
  for (int a : axes)
    if (d[a] != 1)
      r.push_back(a);
  return r;
}

bool InRowMajorOrder(const Type &t) {
  const auto order = MemoryOrder(t);
  return order && std::is_sorted(order->begin(), order->end());
}

bool IsReshapeLike(const Node &n) {
  return n.Is("Reshape") || n.Is("Flatten") || n.Is("Squeeze") || n.Is("Unsqueeze");
}

bool SameElements(const Type &a, const Type &b) {
  return ByteSize(a.dtype()) == ByteSize(b.dtype());
}

// Result lies in the operand's bytes in the same order.
bool SameBytes(const Node &n) {
  const Value *x = n.operand(0), *y = n.result();
  if (!x || !x->type().is_static_tensor() || !y->type().is_static_tensor() || !SameElements(x->type(), y->type()))
    return false;
  if (IsReshapeLike(n))
    return InRowMajorOrder(x->type()) && InRowMajorOrder(y->type());
  if (n.Is("Identity") || n.Is("QuantCast", "npuc") || n.Is("Dropout"))
    return x->type().layout() == y->type().layout();
  if (n.Is("Relayout", "npuc")) {
    const auto a = MemoryOrder(x->type()), b = MemoryOrder(y->type());
    return a && b && *a == *b;
  }
  if (n.Is("Transpose")) {
    auto a = MemoryOrder(x->type()), b = MemoryOrder(y->type());
    if (!a || !b)
      return false;
    auto perm = n.attrs().Ints("perm");
    const int rank = x->type().shape().rank();
    for (int &axis : *b)
      axis = perm.empty() ? rank - 1 - axis : static_cast<int>(perm[axis]);
    return *a == *b;
  }
  return false;
}

// A tensor of `x`'s type seen through `y`'s layout: same logical dims, x's bytes. Only RowMajor <-> NHWC of rank 3
// and 4.
std::optional<View> SeenThrough(const Type &x, const Type &y, const Target &target) {
  if (x.layout() == Layout::NC1HWC2 || y.layout() == Layout::NC1HWC2)
    return std::nullopt;
  const Dims d = x.shape().static_dims();
  const int rank = static_cast<int>(d.size());
  if (rank != 3 && rank != 4)
    return std::nullopt;
  // Strides of the logical axes in x.
  std::array<int64_t, 4> dims{1, 1, 1, 1}, strides{0, 0, 0, 0};
  const View xv = program::ViewOfType(x, {}, target);
  const std::array<int64_t, 4> xs{xv.stride_n, xv.stride_h, xv.stride_w, xv.elem_bytes()};
  for (int i = 0; i < rank; ++i) {
    const auto to = AxisOf(rank, y.layout(), i);
    dims[to] = d[i];
    strides[to] = xs[AxisOf(rank, x.layout(), i)];
  }
  View v = program::ViewOfType(y, {}, target);
  v.stride_n = strides[0];
  v.stride_h = strides[1];
  v.stride_w = strides[2];
  if (strides[3] == v.elem_bytes()) {
    v.c_block = v.c;
    v.stride_c1 = 0;
  } else {
    v.c_block = 1;
    v.stride_c1 = strides[3];
  }
  return v;
}

int AxisAttr(const Node &n, int rank) {
  const int64_t a = n.attrs().Int("axis", 0);
  return static_cast<int>(a < 0 ? a + rank : a);
}

bool SameQuantType(const Value *a, const Value *b) {
  return a->type().dtype() == b->type().dtype() && SameQuant(a->type().quant(), b->type().quant());
}

} // namespace

std::vector<Run> SplitRuns(const Graph &g) {
  std::vector<Run> runs;
  for (const Node &n : g.nodes()) {
    if (n.is_constant() || n.is_return())
      continue;
    NPUC_CHECK(n.placement() != Placement::Unassigned, "node '{}' was not placed", n.result()->name());
    if (runs.empty() || runs.back().placement != n.placement())
      runs.push_back({n.placement(), {}});
    runs.back().nodes.push_back(&n);
  }
  return runs;
}

int Places::NewRoot(const Value *v) {
  Root r;
  r.bytes = program::StorageBytes(v->type(), target_);
  r.name = v->name();
  roots_.push_back(std::move(r));
  members_.push_back({v});
  return static_cast<int>(roots_.size() - 1);
}

void Places::AddValue(const Value *v) {
  if (!v || v->constant() || !v->type().is_static_tensor() || v->type().dtype() == DType::String || has(v))
    return;
  // What no view can hold no rule lets onto the NPU: the host keeps it by itself, like a tensor of unknown shape.
  if (llvm::any_of(program::ViewExtents(v->type()), [](int64_t e) { return e > UINT32_MAX; }))
    return;
  const int root = NewRoot(v);
  value_root_[v] = {root, program::ViewOfType(v->type(), {isa::Region::Buffer, 0, 0}, target_)};
  values_.push_back(v);
}

View Places::view(const Value *v) const {
  const auto it = value_root_.find(v);
  NPUC_CHECK(it != value_root_.end(), "'{}' has no place", v->name());
  View view = it->second.view;
  int root = it->second.root;
  while (roots_[root].parent >= 0) {
    const Root &r = roots_[root];
    if (program::IsDense(r.in_parent)) {
      view.address.offset += r.in_parent.address.offset;
      if (r.in_parent.c0)
        view.address.offset += int64_t{r.in_parent.c0} * view.elem_bytes();
    } else {
      // One member that is the root's own shape: it takes the strides of the box.
      const View own = view;
      view = r.in_parent;
      view.dtype = own.dtype;
      view.zero = own.zero;
    }
    root = r.parent;
  }
  view.address.region = isa::Region::Buffer;
  view.address.index = static_cast<uint32_t>(root);
  return view;
}

bool Places::Merge(const Value *a, const Value *b, const View &b_view) {
  const int ra = value_root_[a].root, rb = value_root_[b].root;
  if (ra == rb)
    return true;
  Root &x = roots_[ra], &y = roots_[rb];
  if ((x.io >= 0 && y.io >= 0) || x.parent >= 0 || y.parent >= 0)
    return false;
  if (!program::IsDense(value_root_[a].view) || members_[rb].size() != 1)
    return false;
  if (x.io < 0)
    x.io = y.io;
  value_root_[b] = {ra, b_view};
  members_[ra].push_back(b);
  members_[rb].clear();
  y.bytes = 0;
  return true;
}

bool Places::TouchedByHost(const Value *v) const {
  if (v->def() && v->def()->placement() == Placement::Host)
    return true;
  return llvm::any_of(v->uses(), [&](const Use &u) {
    const Node *user = u.user; // a use inside a body is a use by the body's outermost node
    while (user->graph() != &graph_)
      user = user->graph()->parent();
    return user->placement() == Placement::Host;
  });
}

bool Places::PlaceInside(const Value *inner, int ro, const View &view_in_outer) {
  const int ri = value_root_[inner].root;
  if (ri == ro)
    return false;
  Root &r = roots_[ri];
  if (r.io >= 0 || r.parent >= 0)
    return false;
  // Other members would have to see the box through their own dims: only a dense box allows that. A box that is seen
  // through strides must hold the one value alone.
  if (!program::IsDense(view_in_outer) && members_[ri].size() != 1)
    return false;
  // Host steps are given an address, not strides.
  if (!program::IsDense(view_in_outer) && TouchedByHost(inner))
    return false;
  // Children of `inner` were placed relative to a dense root.
  if (r.has_children && !program::IsDense(view_in_outer))
    return false;
  for (int up = ro; up >= 0; up = roots_[up].parent)
    if (up == ri)
      return false;
  // The outer root must itself be plain, or densely placed, for strides to compose.
  if (roots_[ro].parent >= 0 && !program::IsDense(roots_[ro].in_parent))
    return false;
  r.parent = ro;
  roots_[ro].has_children = true;
  r.in_parent = view_in_outer;
  return true;
}

void Places::ShareThrough(const Node &n) {
  if (n.Is("Concat")) {
    const Value *y = n.result();
    if (!has(y))
      return;
    const int rank = y->type().shape().rank(), axis = AxisAttr(n, rank);
    const View whole = value_root_[y].view;
    const auto va = AxisOf(rank, y->type().layout(), axis);
    int64_t at = 0;
    for (const Value *x : n.operands()) {
      const int64_t extent = x->type().shape()[axis].value();
      if (has(x) && x->def() && x->def()->placement() == Placement::Npu && SameQuantType(x, y) &&
          x->type().layout() == y->type().layout() && !(rank > 4 && axis < rank - 3)) {
        program::Box box = program::Box::All(program::ViewOfType(x->type(), {}, target_));
        box.start[va] = at;
        const View piece = program::Sub(whole, box);
        if (PlaceInside(x, value_root_[y].root, piece) && !program::IsDense(piece))
          roots_[value_root_[y].root].written_in_pieces = true;
      }
      at += extent;
    }
    return;
  }
  if (n.Is("Split") || n.Is("Slice")) {
    const Value *x = n.operand(0);
    if (!x || !has(x))
      return;
    const int rank = x->type().shape().rank();
    if (rank > 4)
      return;
    std::array<int64_t, 4> start{};
    int root = value_root_[x].root;
    View whole = value_root_[x].view; // steps become strides
    // What is seen through strides lies in the root around it.
    for (; roots_[root].parent >= 0 && !program::IsDense(roots_[root].in_parent); root = roots_[root].parent) {
      if (members_[root].size() != 1)
        return;
      const View own = whole;
      whole = roots_[root].in_parent;
      whole.dtype = own.dtype;
      whole.zero = own.zero;
    }
    const std::array<int64_t *, 4> strides{&whole.stride_n, &whole.stride_h, &whole.stride_w, nullptr};
    if (n.Is("Slice")) {
      const Value *starts = n.operand(1), *axes = n.operand(3), *steps = n.operand(4);
      if (!starts || !starts->constant() || (axes && !axes->constant()) || (steps && !steps->constant()))
        return;
      for (int64_t i = 0; i < starts->constant()->num_elements(); ++i) {
        int64_t axis = axes ? axes->constant()->AsInt(i) : i;
        if (axis < 0)
          axis += rank;
        const int64_t extent = x->type().shape()[axis].value();
        int64_t s = starts->constant()->AsInt(i);
        if (s < 0)
          s += extent;
        const int64_t step = steps ? steps->constant()->AsInt(i) : 1;
        const program::ViewAxis va = AxisOf(rank, x->type().layout(), static_cast<int>(axis));
        if (step < 1 || (step > 1 && va == program::kC))
          return;
        s = std::clamp<int64_t>(s, 0, extent);
        // Sub counts in steps: a start that no step reaches moves the base.
        if (step > 1) {
          whole.address.offset += s * *strides[va];
          *strides[va] *= step;
          s = 0;
        }
        start[va] = s;
      }
    }
    const int axis = n.Is("Split") ? AxisAttr(n, rank) : 0;
    const auto va = AxisOf(rank, x->type().layout(), axis);
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const Value *y = n.result(i);
      if (!has(y))
        continue;
      program::Box box{start, program::DimsOf(program::ViewOfType(y->type(), {}, target_))};
      if (SameQuantType(x, y) && x->type().layout() == y->type().layout())
        PlaceInside(y, root, program::Sub(whole, box));
      if (n.Is("Split"))
        start[va] += y->type().shape()[axis].value();
    }
    return;
  }
  if (n.num_operands() == 0 || !n.operand(0) || !has(n.operand(0)) || !has(n.result()))
    return;
  const Value *x = n.operand(0), *y = n.result();
  if (SameBytes(n)) {
    Merge(x, y, program::ViewOfType(y->type(), {isa::Region::Buffer, 0, 0}, target_));
    return;
  }
  if (n.Is("Relayout", "npuc") && SameElements(x->type(), y->type())) {
    const Root &rx = roots_[value_root_[x].root], &ry = roots_[value_root_[y].root];
    if (rx.io >= 0 && !x->def() && members_[value_root_[x].root].size() == 1) {
      if (auto v = SeenThrough(x->type(), y->type(), target_))
        PlaceInside(y, value_root_[x].root, *v);
    } else if (ry.io >= 0 && x->def() && x->def()->placement() == Placement::Npu && x->has_one_use()) {
      if (auto v = SeenThrough(y->type(), x->type(), target_))
        PlaceInside(x, value_root_[y].root, *v);
    }
  }
}

Places::Places(const Graph &g, const std::vector<Run> &runs, const Target &target) : graph_(g), target_(target) {
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    AddValue(g.input(i));
  for (const Run &run : runs)
    for (const Node *n : run.nodes) {
      for (unsigned i = 0; i < n->num_results(); ++i)
        AddValue(n->result(i));
      if (run.placement == Placement::Npu)
        for (const Value *v : n->operands())
          AddValue(v);
    }
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    if (has(g.input(i)))
      roots_[value_root_[g.input(i)].root].io = static_cast<int>(i);
  for (unsigned i = 0; i < g.num_outputs(); ++i)
    if (has(g.output(i))) {
      Root &r = roots_[value_root_[g.output(i)].root];
      NPUC_CHECK(r.io < 0, "output '{}' lies in two places", g.output(i)->name());
      r.io = static_cast<int>(g.num_inputs() + i);
    }
  for (const Run &run : runs)
    if (run.placement == Placement::Npu)
      for (const Node *n : run.nodes)
        ShareThrough(*n);

  // Live spans in the order of all nodes.
  llvm::DenseMap<const Node *, int> position;
  int at = 0;
  for (const Run &run : runs)
    for (const Node *n : run.nodes)
      position[n] = at++;
  std::vector<bool> seen(roots_.size(), false);
  for (const Value *v : values_) {
    int first = v->def() ? position[v->def()] : 0, last = first;
    for (const Use &u : v->uses()) {
      // A use inside a body is a use by the body's outermost node.
      const Node *user = u.user;
      while (user->graph() != &g)
        user = user->graph()->parent();
      last = std::max(last, user->is_return() ? at : position.lookup(user));
    }
    for (int r = value_root_[v].root; r >= 0; r = roots_[r].parent) {
      Root &root = roots_[r];
      root.first = seen[r] ? std::min(root.first, first) : first;
      root.last = seen[r] ? std::max(root.last, last) : last;
      seen[r] = true;
    }
  }
}

std::vector<int64_t> ChooseOnChip(Places &places, const std::vector<Run> &runs, llvm::ArrayRef<int64_t> reserve,
                                  int64_t sram_bytes) {
  // Which run each position belongs to; a root must begin and end in one NPU run.
  std::vector<int> run_of;
  for (size_t r = 0; r < runs.size(); ++r)
    run_of.insert(run_of.end(), runs[r].nodes.size(), static_cast<int>(r));
  auto &roots = places.roots();
  std::vector<int> order;
  std::vector<bool> used(roots.size(), false);
  for (const Value *v : places.values())
    used[places.view(v).address.index] = true;
  for (size_t i = 0; i < roots.size(); ++i) {
    const Root &r = roots[i];
    if (!used[i] || r.io >= 0 || r.parent >= 0 || r.last >= static_cast<int>(run_of.size()))
      continue;
    if (run_of[r.first] != run_of[r.last] || runs[run_of[r.first]].placement != Placement::Npu)
      continue;
    order.push_back(static_cast<int>(i));
  }
  // A root that others are written into piece by piece goes first: in DDR its pieces would be short runs.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (roots[a].written_in_pieces != roots[b].written_in_pieces)
      return roots[a].written_in_pieces;
    const int sa = roots[a].last - roots[a].first, sb = roots[b].last - roots[b].first;
    return sa != sb ? sa < sb : roots[a].bytes < roots[b].bytes;
  });
  std::vector<int64_t> used_bytes(run_of.size(), 0);
  for (int i : order) {
    Root &r = roots[i];
    const int64_t bytes = (r.bytes + 63) / 64 * 64;
    bool fits = true;
    for (int p = r.first; p <= r.last && fits; ++p)
      fits = used_bytes[p] + bytes + reserve[p] <= sram_bytes;
    if (!fits)
      continue;
    for (int p = r.first; p <= r.last; ++p)
      used_bytes[p] += bytes;
    r.on_chip = true;
  }
  return used_bytes;
}

} // namespace npuc::tile
