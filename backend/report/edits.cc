// What a user could change in the model, done to the imported module so that the cost model can speak.
#include <algorithm>
#include <cstring>

#include "backend/report/what_if.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/infer.h"

namespace npuc::report {
namespace {

bool IsScalarConstant(const Value *v) {
  const Tensor *t = v ? v->constant() : nullptr;
  return t && t->num_elements() == 1;
}

// Passes a tensor on, element by element, with the same parameters for all channels.
bool FollowsThrough(const Node &n, const Value *v) {
  const std::string_view op = n.op().name;
  if (op == "Cast" || op == "Relu" || op == "Identity")
    return true;
  if (op == "QuantizeLinear" || op == "DequantizeLinear")
    return n.operand(0) == v && IsScalarConstant(n.operand(1));
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div")
    return IsScalarConstant(n.operand(n.operand(0) == v ? 1 : 0));
  return false;
}

// The operand slot that holds the constant weights [M, C, ...] of a convolution of v, looking through DequantizeLinear.
std::pair<Node *, unsigned> WeightsOf(Node &n, const Value *v) {
  const std::string_view op = n.op().name;
  if ((op != "Conv" && op != "QLinearConv") || n.operand(0) != v || n.attrs().Int("group", 1) != 1)
    return {};
  Node *at = &n;
  unsigned slot = op == "Conv" ? 1 : 3;
  if (const Value *w = n.operand(slot); w && w->def() && w->def()->op().name == "DequantizeLinear") {
    if (!w->has_one_use())
      return {};
    at = w->def();
    slot = 0;
  }
  const Value *w = at->operand(slot);
  const Tensor *t = w ? w->constant() : nullptr;
  return t && t->rank() >= 3 && ByteSize(t->dtype()) > 0 ? std::pair(at, slot) : std::pair<Node *, unsigned>{};
}

Shape Fixed(llvm::ArrayRef<int64_t> dims) {
  return Shape(llvm::SmallVector<Dim, 4>(dims.begin(), dims.end()));
}

Tensor WithChannels(const Tensor &narrow, int64_t channels) {
  const Tensor t = narrow.Expand();
  Dims dims(t.dims().begin(), t.dims().end());
  const int64_t m = dims[0], row = t.num_elements() / m * ByteSize(t.dtype());
  dims[1] = channels;
  Tensor wide = Tensor::Allocate(t.dtype(), dims);
  const int64_t wide_row = wide.num_elements() / m * ByteSize(t.dtype());
  std::memset(wide.mutable_bytes(), 0, static_cast<size_t>(m * wide_row));
  for (int64_t i = 0; i < m; ++i)
    std::memcpy(wide.mutable_bytes() + i * wide_row, t.bytes() + i * row, static_cast<size_t>(row));
  return wide;
}

} // namespace

bool PadInputChannels(Module &m, int64_t channels) {
  bool changed = false;
  Graph &g = m.main();
  for (unsigned i = 0; i < g.num_inputs(); ++i) {
    Value *input = g.input(i);
    if (!input->type().is_static_tensor() || input->type().shape().rank() != 4)
      continue;
    Dims dims = input->type().shape().static_dims();
    if (dims[1] < 2 || dims[1] > 3 || dims[1] >= channels)
      continue;
    std::vector<Value *> wide = {input};
    std::vector<std::pair<Node *, unsigned>> weights;
    bool all = true;
    for (size_t k = 0; k < wide.size() && all; ++k)
      for (const Use &use : wide[k]->uses()) {
        if (auto w = WeightsOf(*use.user, wide[k]); w.first)
          weights.push_back(w);
        else if (!use.user->is_return() && use.user->graph() == &g && FollowsThrough(*use.user, wide[k]))
          wide.push_back(use.user->result());
        else
          all = false;
      }
    if (!all || weights.empty())
      continue;
    dims[1] = channels;
    input->set_type(Type::Tensor(input->type().dtype(), Fixed(dims))); // inference carries it on
    for (auto &[node, slot] : weights) {
      Rewriter rw(node);
      node->set_operand(slot, rw.Constant(WithChannels(*node->operand(slot)->constant(), channels)));
    }
    changed = true;
  }
  return changed && InferShapes(g).ok();
}

bool SwishToHardSwish(Module &m) {
  bool changed = false;
  for (Node &mul : m.main().nodes_early_inc()) {
    if (!mul.Is("Mul"))
      continue;
    for (unsigned side = 0; side < 2; ++side) {
      Value *x = mul.operand(1 - side);
      const Node *gate = mul.operand(side)->def();
      // Through what a quantised model has between.
      for (int k = 0; k < 2 && gate && (gate->Is("DequantizeLinear") || gate->Is("QuantizeLinear")); ++k)
        gate = gate->operand(0)->def();
      if (!gate || !gate->Is("Sigmoid") || gate->operand(0) != x)
        continue;
      Rewriter rw(&mul);
      Node *hard = rw.Create("HardSwish", {x}, MergeOrigins(mul.origin(), gate->origin()), {mul.result()->type()});
      rw.ReplaceNode(&mul, {hard->result()});
      changed = true;
      break;
    }
  }
  return changed;
}

} // namespace npuc::report
