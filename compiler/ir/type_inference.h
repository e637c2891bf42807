// Inference of result types over a graph, by the operators' own infer functions, with the values of shape computations
// (Shape -> Gather -> Concat -> Reshape and the like) worked out on the way, symbolic dims included.
#pragma once

#include <optional>
#include <unordered_map>

#include "compiler/ir/graph.h"

namespace npuc {

// One sweep's knowledge. Values are remembered by address: make a new one after nodes were changed or erased (adding nodes
// is fine). Not thread-safe.
class TypeInference {
 public:
  // Result types of n from its operands' types, bodies included. What was known more exactly before stays; quantisation and
  // layout stay when the dtype does. Errors (E03xx, E02xx) carry the node's id.
  Status InferNode(Node& n);
  // All nodes of g in order.
  Status InferGraph(Graph& g);

  // The value's elements when they follow from constants and static shapes and are few (<= 1024); null else.
  const Tensor* ConstantOf(const Value* v);
  // An integer vector or scalar as dims, as far as they are known; nullopt when not even their number is.
  std::optional<llvm::SmallVector<Dim, 4>> DimsOf(const Value* v);

 private:
  std::optional<Tensor> ComputeConstant(const Value* v);
  std::optional<llvm::SmallVector<Dim, 4>> ComputeDims(const Value* v);

  std::unordered_map<const Value*, std::optional<Tensor>> constants_;
  std::unordered_map<const Value*, std::optional<llvm::SmallVector<Dim, 4>>> dims_;
  int depth_ = 0;
};

// The id of the (first) ONNX node that n stands for, else the name of its first result.
std::string NodeId(const Node& n);

// `better` refined by what only `known` says: unknown dims, rank, dtype; quantisation and layout when the dtype agrees.
Type RefineType(const Type& better, const Type& known);

}  // namespace npuc
