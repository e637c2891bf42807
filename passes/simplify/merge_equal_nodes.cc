// Common subexpressions: of two nodes that compute the same from the same operands, the later becomes the earlier.
//
//   %a = Sigmoid(%x); %b = Sigmoid(%x)   ->   one Sigmoid, used twice
//   Constant [1.0], Constant [1.0]       ->   one Constant
//
// Equal means: same operator, same operands, attributes equal bit for bit, result types equal. Constants are equal when
// dtype, dims, quantisation and every bit agree; so f32 1.0 and i32 0x3f800000 stay apart, and 0.0 from -0.0 (NaNs by
// their bits). A body may use what the graphs around it computed before it, so tables are scoped.
//
// Left alone: impure operators, nodes with bodies, graph outputs that are constants under two names (each keeps its
// own).
//
// Cost: a hash a node; big constants hash their first and last 4 KiB and compare fully only on a hit.
#include "compiler/support/hash.h"
#include "passes/common.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"

namespace npuc {
namespace {

uint64_t HashBytes(const void *p, size_t n) {
  return Xxh3(p, n);
}

uint64_t HashTensor(const Tensor &t) {
  uint64_t h =
      llvm::hash_combine(static_cast<int>(t.dtype()), llvm::hash_combine_range(t.dims().begin(), t.dims().end()));
  if (t.dtype() == DType::String || !t)
    return h;
  if (t.num_elements() == 0)
    return h;
  // The first element: equal for a splat and its expansion. Then, for plain tensors of many elements, only what
  // SameBits settles.
  return llvm::hash_combine(h, HashBytes(t.bytes(), ByteSize(t.dtype())));
}

uint64_t HashAttribute(const Attribute &a) {
  if (auto *i = std::get_if<int64_t>(&a))
    return llvm::hash_value(*i);
  if (auto *f = std::get_if<float>(&a))
    return HashBytes(f, sizeof *f);
  if (auto *s = std::get_if<std::string>(&a))
    return HashBytes(s->data(), s->size());
  if (auto *v = std::get_if<std::vector<int64_t>>(&a))
    return HashBytes(v->data(), v->size() * sizeof(int64_t));
  if (auto *v = std::get_if<std::vector<float>>(&a))
    return HashBytes(v->data(), v->size() * sizeof(float));
  if (auto *t = std::get_if<Tensor>(&a))
    return HashTensor(*t);
  return 0; // compared when it comes to that
}

uint64_t HashNode(const Node &n) {
  uint64_t h = llvm::hash_combine(&n.op(), n.num_results());
  for (const Value *v : n.operands())
    h = llvm::hash_combine(h, v);
  for (const auto &e : n.attrs())
    h = llvm::hash_combine(h, HashBytes(e.name.data(), e.name.size()),
                           e.name == "value" && n.is_constant() ? 0 : HashAttribute(e.value));
  if (n.is_constant()) {
    const Tensor *t = n.attrs().TensorOrNull("value");
    if (!t)
      return h;
    h = llvm::hash_combine(h, HashTensor(*t));
    // Tell apart constants that begin alike (a splat must hash as its expansion, so plain ones only beyond a full
    // scan's price).
    if (t->dtype() != DType::String && !t->is_splat() && t->num_elements() > 1) {
      const int64_t bytes = t->num_stored_bytes();
      const int size = ByteSize(t->dtype());
      const bool uniform = std::memcmp(t->bytes(), t->bytes() + size, bytes - size) == 0;
      if (!uniform)
        h = llvm::hash_combine(
            h, HashBytes(t->bytes(), std::min<int64_t>(bytes, 4096)),
            HashBytes(t->bytes() + std::max<int64_t>(0, bytes - 4096), std::min<int64_t>(bytes, 4096)));
    }
  }
  return h;
}

bool SameNode(const Node &a, const Node &b) {
  if (&a.op() != &b.op() || a.operands() != b.operands() || a.num_results() != b.num_results())
    return false;
  for (unsigned i = 0; i < a.num_results(); ++i)
    if (!(a.result(i)->type() == b.result(i)->type()))
      return false;
  auto x = a.attrs().begin(), y = b.attrs().begin();
  for (; x != a.attrs().end() && y != b.attrs().end(); ++x, ++y)
    if (x->name != y->name || !SameAttribute(x->value, y->value))
      return false;
  return x == a.attrs().end() && y == b.attrs().end();
}

class Merger {
public:
  bool Run(Graph &g) {
    llvm::SmallVector<uint64_t, 16> mine;
    bool changed = false;
    for (Node &n : g.nodes_early_inc()) {
      if (n.is_return())
        continue;
      if (n.num_bodies() != 0) {
        if (!IsNpucOp(n, "Fused"))
          for (unsigned i = 0; i < n.num_bodies(); ++i)
            changed |= Run(*n.body(i));
        continue;
      }
      if (!n.op().has(kPure))
        continue;
      const uint64_t h = HashNode(n);
      auto &bucket = table_[h];
      bool merged = false;
      for (Node *earlier : bucket) {
        if (!SameNode(*earlier, n))
          continue;
        bool both_outputs = false;
        for (unsigned i = 0; i < n.num_results(); ++i)
          both_outputs |=
              n.result(i)->is_graph_output() && (earlier->result(i)->is_graph_output() || earlier->graph() != &g);
        if (both_outputs)
          continue;
        for (unsigned i = 0; i < n.num_results(); ++i) {
          // An output's tensor keeps its name.
          const bool rename = n.result(i)->is_graph_output();
          const std::string name = n.result(i)->name();
          n.result(i)->ReplaceAllUsesWith(earlier->result(i));
          if (rename) {
            g.module().RenameValue(n.result(i), name + ".merged");
            g.module().RenameValue(earlier->result(i), name);
          }
        }
        earlier->set_origin(MergeOrigins(earlier->origin(), n.origin()));
        n.Erase();
        merged = changed = true;
        break;
      }
      if (merged)
        continue;
      bucket.push_back(&n);
      mine.push_back(h);
    }
    while (!mine.empty())
      table_[mine.pop_back_val()].pop_back();
    return changed;
  }

private:
  std::unordered_map<uint64_t, llvm::SmallVector<Node *, 1>> table_; // looked up, never walked
};

} // namespace

StatusOr<bool> MergeEqualNodes(Module &m, PassContext &) {
  return Merger().Run(m.main());
}

} // namespace npuc
