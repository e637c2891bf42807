// What the quantisation passes share: typed and raw views of integer tensors, and reading scales and zero points.
//
// "Raw" integers are what ONNX sees: u8[1,8]. "Typed" ones carry the parameters that ONNX gives to the operators around
// them: u8[1,8]{s=0.5,z=128}. npuc::QuantCast turns one into the other without touching a byte.
#pragma once

#include "passes/common.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc {

// The parameters that constants `scale` and `zero` (may be null: 0) give to a tensor of `dtype`; null when they aren't
// constants, or not positive and finite, or when there are several and `axis` is not one of type's. axis is only looked
// at for several.
QuantRef ReadQuant(const Value *scale, const Value *zero, int64_t axis, const Type &type);

class QuantRewriter {
public:
  // raw as a value with these parameters: the value that a QuantCast made raw from, a typed copy of a constant (2 bits
  // become 4, the fewest that the NPU reads), or a QuantCast. `before`: where a copy or cast may stand (the user).
  Value *Typed(Value *raw, const QuantRef &quant, Node *before);
  // The raw view of a typed value, just behind its definition.
  Value *Raw(Value *typed, Node *before);
};

// Whether a DequantizeLinear or its like has parameters that types can carry: constant, positive, per tensor or per
// slice of one axis, for integers of up to 32 bits. Several only for constants. *quant, if wanted: the parameters.
bool HasTypedForm(const Node &dequantize, QuantRef *quant = nullptr);

// If v is QuantCast(typed) to raw: the typed value; else null.
Value *TypedSource(const Value *v);

bool IsRawInteger(const Type &t); // 4..32-bit integer tensor without parameters

// Whether the operator hands elements of operand 0 (of all operands, for Concat) on without arithmetic, so that it
// works on typed integers as it does on raw ones: the copying ones, and max pooling and maxima, since a scale is
// positive.
bool PassesQuantThrough(const Node &n);
// The operands that must share the parameters (data operands).
llvm::SmallVector<unsigned, 4> DataOperands(const Node &n);

// q(x) with the clamp, as the machine computes it: round_half_even(x / s) + z in f32.
int64_t QuantizeScalar(float x, float scale, int32_t zero, DType t);

// Operators whose integer form means "dequantise, compute, quantise once".
bool HasIntegerForm(const Node &n);
inline bool IsMatrixOp(const Node &n) {
  return IsOneOf(n, {"Conv", "ConvTranspose", "Gemm", "MatMul"});
}
// Operands that stay float constants (or absent) in an integer form, as parameters.
bool IsQuantParameter(const Node &n, unsigned i);
// Of a matrix operator: the axis of its second operand that holds output channels.
int WeightChannelAxis(const Node &n);
// Whether clamping to the integers of type q does what the Relu or Clip does.
bool AbsorbedByClamp(const Node &act, const Type &q);

} // namespace npuc
