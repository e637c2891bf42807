// Small things that several passes need: classifying values, scalar constants, elementwise shape facts.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/ir/matchers.h"
#include "compiler/ir/rewriter.h"
#include "compiler/pass/pass.h"

namespace npuc {

inline bool IsOneOf(const Node &n, std::initializer_list<std::string_view> names) {
  if (!n.op().domain.empty())
    return false;
  for (std::string_view name : names)
    if (n.op().name == name)
      return true;
  return false;
}
inline bool IsNpucOp(const Node &n, std::string_view name) {
  return n.Is(name, "npuc");
}

// The node's one used result, when no other result has uses; null else.
Value *SoleUsedResult(const Node &n);

// Both static tensors of the same dtype, shape and quantisation (layouts apart).
bool SameTensorType(const Type &a, const Type &b);
inline bool HasStaticShape(const Value *v) {
  return v && v->type().is_static_tensor();
}
inline Dims StaticDims(const Value *v) {
  return v->type().shape().static_dims();
}

// The element of a constant with one element, or of a splat (quantised constants: nullopt).
std::optional<double> ScalarConstant(const Value *v);
// Whether every element of the constant equals x (looks at all elements of small ones, at splats of any size).
bool IsConstantOf(const Value *v, double x);

// The two operands of a binary node whose other operand is a scalar constant.
struct ScalarOperand {
  Value *other;
  double scalar;
  unsigned index; // of the constant
};
std::optional<ScalarOperand> MatchScalarOperand(const Node &n);

// How a constant of `dims` lies over a tensor of `rank` whose channel axis is `axis`: true when all its extents but the
// one over the channel axis are 1 and broadcasting leaves the tensor's shape alone; *per_channel tells a vector from
// one element.
bool LiesOverChannels(llvm::ArrayRef<int64_t> dims, int rank, int axis, int64_t channels, bool *per_channel);

// Runs fn on g and on the bodies of its nodes, innermost first. Bodies of npuc::Fused are left out.
StatusOr<bool> ForEachGraph(Graph &g, const std::function<StatusOr<bool>(Graph &)> &fn);

// Runs fn, which may replace or erase its node, on each node of g and of the bodies, innermost first; whether any
// returned true. Bodies of npuc::Fused are left out.
bool RewriteEachNode(Graph &g, llvm::function_ref<bool(Node &)> fn);

// What the user said that keeps the node off the NPU ("--deny-op Resize"), if anything.
std::optional<std::string> DeniedBy(const Node &n, const PassContext &ctx);
bool IsPreferred(const Node &n, const PassContext &ctx);

// Whether the NPU (ctx.npu) would take a node that computes, floats being f16: what bodies are looked for.
bool IsNpuWork(const Node &n, const PassContext &ctx);

// `with` takes the name of `old`, which gets another.
void TakeName(Value &old, Value &with);

} // namespace npuc
