#include "passes/common.h"

namespace npuc {

Value *SoleUsedResult(const Node &n) {
  Value *used = nullptr;
  for (unsigned i = 0; i < n.num_results(); ++i) {
    if (!n.result(i)->has_uses())
      continue;
    if (used)
      return nullptr;
    used = n.result(i);
  }
  return used;
}

bool SameTensorType(const Type &a, const Type &b) {
  return a.is_static_tensor() && b.is_static_tensor() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         SameQuant(a.quant(), b.quant());
}

std::optional<double> ScalarConstant(const Value *v) {
  const Tensor *t = v ? v->constant() : nullptr;
  if (!t || t->dtype() == DType::String || IsComplex(t->dtype()) || v->type().is_quantized())
    return std::nullopt;
  if (t->num_elements() == 0 || (t->num_elements() != 1 && !t->is_splat()))
    return std::nullopt;
  return t->AsDouble(0);
}

bool IsConstantOf(const Value *v, double x) {
  const Tensor *t = v ? v->constant() : nullptr;
  if (!t || t->dtype() == DType::String || IsComplex(t->dtype()) || v->type().is_quantized())
    return false;
  const int64_t n = t->is_splat() ? 1 : t->num_elements();
  if (n == 0 || n > 1 << 16)
    return false;
  for (int64_t i = 0; i < n; ++i)
    if (t->AsDouble(i) != x)
      return false;
  return true;
}

std::optional<ScalarOperand> MatchScalarOperand(const Node &n) {
  if (n.num_operands() != 2)
    return std::nullopt;
  for (unsigned i : {1u, 0u})
    if (auto s = ScalarConstant(n.operand(i)); s && n.operand(1 - i) && !n.operand(1 - i)->constant())
      return ScalarOperand{n.operand(1 - i), *s, i};
  return std::nullopt;
}

bool LiesOverChannels(llvm::ArrayRef<int64_t> dims, int rank, int axis, int64_t channels, bool *per_channel) {
  const int k = static_cast<int>(dims.size());
  if (k > rank)
    return false;
  *per_channel = false;
  for (int i = 0; i < k; ++i) {
    if (dims[i] == 1)
      continue;
    if (i + rank - k != axis || dims[i] != channels)
      return false;
    *per_channel = true;
  }
  return true;
}

StatusOr<bool> ForEachGraph(Graph &g, const std::function<StatusOr<bool>(Graph &)> &fn) {
  bool changed = false;
  for (Node &n : g.nodes()) {
    if (IsNpucOp(n, "Fused"))
      continue;
    for (unsigned i = 0; i < n.num_bodies(); ++i) {
      NPUC_ASSIGN_OR_RETURN(bool c, ForEachGraph(*n.body(i), fn));
      changed |= c;
    }
  }
  NPUC_ASSIGN_OR_RETURN(bool c, fn(g));
  return changed | c;
}

bool RewriteEachNode(Graph &g, llvm::function_ref<bool(Node &)> fn) {
  auto changed = ForEachGraph(g, [&](Graph &graph) -> StatusOr<bool> {
    bool any = false;
    for (Node &n : graph.nodes_early_inc())
      any |= fn(n);
    return any;
  });
  return *changed; // fn has no errors
}

std::optional<std::string> DeniedBy(const Node &n, const PassContext &ctx) {
  for (const OpSelector &s : ctx.options.deny_ops)
    if (s.Matches(n))
      return s.text;
  if (ctx.options.deny_nodes.empty())
    return std::nullopt;
  const auto &table = n.graph()->module().onnx_nodes();
  for (OriginId id : n.origin())
    if (id < table.size() && llvm::is_contained(ctx.options.deny_nodes, table[id].id))
      return table[id].id;
  return std::nullopt;
}

bool IsPreferred(const Node &n, const PassContext &ctx) {
  return llvm::any_of(ctx.options.preferred_ops, [&](const OpSelector &s) { return s.Matches(n); });
}

bool IsNpuWork(const Node &n, const PassContext &ctx) {
  for (const Value *v : n.operands())
    if (v && !v->constant() && v->type().is_tensor() && (IsFloat(v->type().dtype()) || v->type().is_quantized()))
      return !n.op().has(kCopiesElements) && ctx.npu->Check(n, CheckContext{ctx.target, DType::F16}).empty();
  return false;
}

void TakeName(Value &old, Value &with) {
  Module &m = old.graph()->module();
  const std::string name = old.name();
  m.RenameValue(&old, name + ".replaced");
  m.RenameValue(&with, name);
}

} // namespace npuc
