// Quantisation simulated in float: operators of the float graph on values rounded to the integers in which a binary
// stores them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/interp/interpreter.h"
#include "compiler/ir/graph.h"
#include "compiler/types/tensor.h"

namespace npuc {

class ThreadPool;

using Tensors = std::map<std::string, Tensor>; // by ONNX name

class Simulator {
public:
  // `stored`: types of the tensors that the binary stores as integers. A graph input may stand there as NAME_q. Both
  // must outlive this.
  Simulator(const Graph &g, const std::map<std::string, Type> &stored, ThreadPool *threads);

  // `name` computed from the stored tensors and inputs before it, which `known` has as floats, each rounded; 8-bit
  // weights. Nullopt where more than kMostIsolated operators lie between, or one can't be run alone.
  static constexpr int kMostIsolated = 24;
  std::optional<Tensor> Isolated(const std::string &name, const Tensors &known);
  // ONNX nodes of the operators that Isolated(name) runs, and whether a matrix operator is among them.
  std::vector<OriginId> NodesOf(const std::string &name, bool *matrix) const;

  // Every tensor of the graph, each from the rounded ones before it.
  Tensors All(const Tensors &known);
  // The graph's outputs when only `name` is as Isolated() makes it, and all else float: what that layer alone does.
  std::vector<Tensor> OutputsWith(const std::string &name, const Tensor &value, const Tensors &known);

private:
  const Type *Stored(const std::string &name) const;
  static Tensor Weights(const Node &n, unsigned i);
  std::optional<Tensor> Of(const Value *v, const Tensors &known, bool target);
  StatusOr<std::vector<EvalValue>> Evaluate(const Node &n, const Tensors &values, bool quantised_weights);

  const Graph &g_;
  const std::map<std::string, Type> &stored_;
  std::map<std::string, const Value *> values_;
  std::map<const Value *, Tensor> memo_;
  EvalOptions options_;
  int budget_ = 0;
};

} // namespace npuc
