// What quantize-calibrated decides before it changes anything: which nodes compute on integers, which values are stored
// as integers, and with which parameters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/calibration/statistics.h"
#include "passes/common.h"
#include "passes/quantize/parameters.h"
#include "passes/quantize/quant_rewrite.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace npuc {

// Ranges of values: what --quant-config says, else samples by the method wished for, else what the operator bounds.
class RangeSource {
public:
  // `measured`: ranges by value name that stand before those of the samples.
  RangeSource(const PassContext &ctx, const std::map<std::string, ValueRange> &measured)
      : ctx_(ctx), measured_(measured) {}
  // Widened to hold zero; nullopt when nothing is known of v. `dtype`: of the integers, for methods that count levels.
  std::optional<ValueRange> Of(const Value &v, DType dtype) const;
  // Scale and zero point as the user gave them; null: none.
  QuantRef Given(const Value &v, DType dtype) const;

private:
  TensorQuant Say(const Value &v) const;
  const PassContext &ctx_;
  const std::map<std::string, ValueRange> &measured_;
};

struct QuantPlan {
  // Nodes that compute on integers: the element type of what they read.
  llvm::DenseMap<const Node *, DType> integer;
  // Values inside an output stage: computed and never stored.
  llvm::DenseSet<const Value *> internal;
  // Results of integer matrix operators that leave the accumulator as floats, for float readers.
  llvm::DenseSet<const Value *> float_results;
  // Type of the integers that stand for a value: of every operand and stored result of an integer node.
  llvm::DenseMap<const Value *, Type> stored;
  // The 8-bit type in which matrix operators with 8-bit sums read a value that is stored with 16 bits.
  llvm::DenseMap<const Value *, Type> narrow;
  bool ReadsNarrow(const Use &u) const {
    const auto n = integer.find(u.user);
    return n != integer.end() && n->second == DType::U8 && IsMatrixOp(*u.user);
  }
  // Operators inside an output stage: their constants stay float.
  llvm::DenseSet<const Node *> internal_operands;
  // Nodes that could have been integer ones and why they are not, in graph order.
  std::vector<std::pair<const Node *, std::string>> kept_float;
};

// The plan for g. Depends on the graph, ctx.target, ctx.npu, ctx.options and ctx.calibration alone.
QuantPlan MakeQuantPlan(Graph &g, const PassContext &ctx, const std::map<std::string, ValueRange> &measured = {});

// Operand i of n as data that integers stand for: a float tensor that is neither a parameter, nor a bias.
bool IsDataOperand(const Node &n, unsigned i);

} // namespace npuc
