// The output stage of CONV and MATMUL: how the operators of a Fused body (or a lone anchor) become micro-operations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/pass/npu_op.h"
#include "compiler/program/lower_context.h"

namespace npuc::lower {

inline constexpr int kMaxStageOps = 8;
inline constexpr int kMaxStageOperands = 2;

// Micro-operations that `node` takes when operand `through` arrives through the chain; nullopt when it can't be part of
// an output stage.
std::optional<int> StageOpsOf(const Node &node, unsigned through, const CheckContext &ctx);

// What all lowerings of this backend have in common.
class LoweredOp : public NpuOp {
public:
  std::optional<int> StageOps(const Node &node, unsigned through, const CheckContext &ctx) const override {
    return StageOpsOf(node, through, ctx);
  }
};

// An anchor with its stage: a lone Conv/ConvTranspose/Gemm/MatMul node, or the Fused node around one.
struct Stage {
  const Node *anchor = nullptr;  // the Conv ... itself
  const Value *result = nullptr; // what the stage finally writes (outer value)
  bool requant = false;          // Scale's factors are sx*sw/sy and the first Quantise does not divide
  isa::MicroOps ops;
  // Second operands: `view` of the whole operand through the result's axes.
  struct Operand {
    isa::View full;
    isa::Quant quant;
    std::string name;
  };
  std::vector<Operand> operands;
};

// `node` may be the anchor itself. Binds body inputs in ctx. Error (internal) when the chain cannot be expressed: Check
// has excluded that.
StatusOr<Stage> BuildStage(const Node &node, LowerContext &ctx);

// A Fused body's input stands for the operand outside; others for themselves.
const Value *Outer(const Value *v);

// The anchor node of `node` (itself or the first of its body).
const Node &AnchorOf(const Node &node);

} // namespace npuc::lower
