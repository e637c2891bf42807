// Building npuc::Fused around an anchor (an operator with an output stage) and the operators that follow it.
//
// The body, in the form that backend/lower reads (BuildStage): anchor first, then a chain; each value of the chain has
// one reader. Chain values are f32 or quantised: a float operator works on f32 whatever its type outside (one rounding,
// by the Cast at the end), an operator on integers is spelled out as Dequantize - operator on f32 - Quantize, but for
// Relu and Clip that keep the parameters. Second operands are body inputs of their own type (f16, or quantised: the
// hardware dequantises them); scalar constants are constants in the body.
#pragma once

#include "passes/common.h"

namespace npuc {

// Whether ONNX nodes `more` make a chain of `chain` longer than `limit`. What stands for no ONNX node, or for one that
// is in already, makes it no longer.
inline bool IsChainTooLong(const Origin &chain, const Origin &more, int limit) {
  const size_t all = MergeOrigins(chain, more).size();
  return all > chain.size() && static_cast<int>(all) > limit;
}

class StageBuilder {
public:
  // `anchor` with operands `operands` (which may differ from the node's: integers instead of floats). Its value in the
  // chain is its own result when that is quantised and `operands` are the node's own, else f32.
  StageBuilder(Node &anchor, llvm::ArrayRef<Value *> operands, PassContext &ctx);
  ~StageBuilder();
  StageBuilder(const StageBuilder &) = delete;

  // Appends `op`, whose operand `through` is the chain's value. `side(v)` maps a second operand to what the stage
  // reads. False (and nothing changed) when the hardware has no such stage.
  bool Append(Node &op, unsigned through, llvm::function_ref<Value *(Value *)> side);
  // With `op` the chain has more ONNX nodes than --max-fusion-chain allows.
  bool TooLong(const Node &op) const;
  unsigned num_nodes() const { return nodes_; } // anchor included

  // Closes the body: the result has `type` (f16: a Cast; quantised: as the chain ends). Moves the Fused node before
  // `at` and returns it; null, with everything undone, when NpuOps refuses the whole.
  Node *Finish(const Type &type, Node *at);

private:
  Value *Input(Value *outer);
  std::optional<int> Cost(const Node &n, unsigned through) const;

  PassContext &ctx_;
  CheckContext check_;
  Node *fused_ = nullptr;
  Graph *body_ = nullptr;
  Value *current_ = nullptr;
  Origin origin_;
  int stage_ops_ = 1; // Scale
  unsigned nodes_ = 1;
  llvm::DenseMap<Value *, Value *> inputs_;
};

// For convert-qdq: n is a float matrix operator with integer operands `operands`; follows the float chain behind it to
// a Quantize and makes all of it one Fused. The replaced nodes are left without uses. False when the chain doesn't end
// so or isn't taken.
bool FuseQuantizedStage(Node &n, llvm::ArrayRef<Value *> operands, PassContext &ctx);

// For convert-qdq likewise: n's result, or that of the activations behind it, is read as a float and by no Quantize.
// The sums stay integers and leave the accumulator as f16, with a Cast to the wanted type where that is another. Only
// on targets with f16.
bool FuseFloatStage(Node &n, llvm::ArrayRef<Value *> operands, PassContext &ctx);

} // namespace npuc
