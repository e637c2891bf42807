// Evaluates IR: one node, or a graph with its bodies. The oracle, the constant folder, the calibrator and the host
// steps of the executor all use it; what an operator computes is its own evaluate() (compiler/ops), the rules around it
// are here:
//
//  - Splat operands are expanded.
//  - Quantised nodes (a quantised type on any operand or result, no bodies): OpDef::evaluate_quantized, else
//    ops::EvaluateByDequantizing (quant_eval.h).
//  - F16 and BF16 operands of ops without kNoFloatWiden / kCopiesElements are widened to F32, and F32 results are
//  rounded once to
//    the result type of the node (where that is unknown, to the type of the first widened operand).
//
// Results do not depend on the number of threads or on the processor: the kernels (compiler/ops/kernels.h) are
// vectorised, but each output is one chain in a fixed order. So host steps, folding and calibration share them, and all
// are bit-identical.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/status.h"

namespace npuc {

class ThreadPool;

struct EvalOptions {
  ThreadPool *threads = nullptr;
};

// The value of an outer graph's Value that a body captures; null when it is not known.
using CapturedValues = std::function<const EvalValue *(const Value *)>;

// One node on actual operands (absent optionals: EvalValue()). Captured values of its bodies: constants by themselves,
// others from `captured`. Errors carry the node's id.
StatusOr<std::vector<EvalValue>> EvaluateNode(const Node &node, std::vector<EvalValue> operands,
                                              const EvalOptions &options = {},
                                              const CapturedValues &captured = nullptr);

// Runs a graph. The graph must not change while the interpreter lives. One Run at a time.
class Interpreter {
public:
  explicit Interpreter(const Graph &graph, EvalOptions options = {});
  ~Interpreter();

  // Called with each value as it becomes known: the graph's inputs, then every node's results (absent ones excepted),
  // those in bodies each time the body runs.
  using Observer = std::function<void(const Value &, const EvalValue &)>;
  void set_observer(Observer observer);

  // One value per graph input; the values of the graph's outputs in order. Values are freed after their last use.
  // E0701 / E0702 when an input is missing or its element type or static dims differ from the graph's.
  StatusOr<std::vector<EvalValue>> Run(std::vector<EvalValue> inputs);
  StatusOr<std::vector<EvalValue>> Run(const std::vector<Tensor> &inputs);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace npuc
