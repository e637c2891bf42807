// NpuOp: what passes ask of the hardware. backend/lower implements one per operator (lowerings.def); the driver hands
// the set in through PassContext, so that passes never include a backend header.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/target/target.h"

namespace npuc {

class LowerContext; // compiler/program/lower_context.h

// A broken rule. The same texts make the diagnostic, the report's reason and the row of docs/supported_ops.md.
struct Violation {
  std::string rule;    // id, e.g. "conv-dilation"
  std::string message; // "dilations [4,4] are above the NPU's limit [2,2]"
  std::string limit;   // "[2,2]"
  std::string actual;  // "[4,4]"
  std::string help;
};

struct RuleDoc {
  std::string rule;
  std::string text; // the constraint, for docs/supported_ops.md
  std::string help;
};

// How Check sees types: with `float_as` F16, a value of type F32 counts as F16 (precision asks before it converts).
struct CheckContext {
  const Target &target;
  DType float_as = DType::Undefined;

  DType dtype(const Value *v) const {
    const DType t = v->type().dtype();
    return t == DType::F32 && float_as != DType::Undefined ? float_as : t;
  }
};

// Which physical layouts a node works on (see types/layout.h).
enum class LayoutRule : uint8_t {
  Any, // every rank-3/4 operand and result of full rank in one common layout, whichever; axes are mapped (elementwise,
       // Concat, Slice, Softmax ...)
  Image,    // NHWC (or NC1HWC2): convolutions, pooling, resize, depth/space
  RowMajor, // ONNX's order: MatMul, Gemm, Reshape that moves the channel axis, Gather
  Permutes, // Transpose: free when result layout = permuted operand layout
};

class NpuOp {
public:
  virtual ~NpuOp() = default;
  // All rules that the node breaks, not just the first. Empty: the NPU runs it. The node's types are static tensors.
  virtual void Check(const Node &node, const CheckContext &ctx, std::vector<Violation> *out) const = 0;
  virtual LayoutRule layout_rule(const Node &node) const {
    (void)node;
    return LayoutRule::Any;
  }
  // Micro-operations that the node takes in an output stage when operand `through` arrives through the chain; nullopt
  // when it can't be there. The Quantize/Dequantize around quantised values are counted by the caller (1 each).
  virtual std::optional<int> StageOps(const Node &node, unsigned through, const CheckContext &ctx) const {
    (void)node, (void)through, (void)ctx;
    return std::nullopt;
  }
  // May start a Fused body: its accumulator ends in an output stage (Conv, ConvTranspose, Gemm, MatMul).
  virtual bool HasOutputStage() const { return false; }
  // Rough cycles of the node alone, tensors on chip.
  virtual int64_t EstimateCycles(const Node &node, const Target &target) const = 0;
  // Bytes of SRAM that the node needs alive at once at the very least, when that is much: the tiler keeps as many free
  // of resident tensors.
  virtual int64_t WorkingBytes(const Node &node, const Target &target) const {
    (void)node, (void)target;
    return 0;
  }
  virtual Status Lower(const Node &node, LowerContext &ctx) const = 0;
  virtual std::vector<RuleDoc> rules() const = 0;
};

// The set of operators that a backend runs.
class NpuOps {
public:
  virtual ~NpuOps() = default;
  virtual const NpuOp *Find(const OpDef &op) const = 0; // null: the backend has no lowering
  // Every operator with a lowering, in name order, for the documentation.
  virtual std::vector<std::pair<const OpDef *, const NpuOp *>> All() const = 0;

  // Rules common to all operators (no lowering, dynamic shape, dtype not on the target, rank, extents) and then the
  // operator's own.
  virtual std::vector<Violation> Check(const Node &node, const CheckContext &ctx) const = 0;
  // Most micro-operations in an output stage, Scale included.
  virtual int max_stage_ops() const = 0;
};

} // namespace npuc
