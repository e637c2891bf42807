// Quantised evaluation on tensors, made of quant_math.h's scalar definitions.
#pragma once

#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/ops/kernels.h"
#include "compiler/ops/quant_math.h"
#include "compiler/types/tensor.h"

namespace npuc::ops {

// f32(q - z) * s, per tensor or per slice of the axis. q: an integer tensor of at most 32 bits.
Tensor DequantizeTensor(const Tensor &q, const QuantParams &p);
// clamp(round_half_even(v / s) + z) of an F32 tensor.
Tensor QuantizeTensor(const Tensor &v, DType dtype, const QuantParams &p);

// The default rule: when all quantised operands and results share their parameters and the op copies elements, its
// evaluate on the integers; else every quantised operand dequantised to f32, evaluate, every quantised result quantised
// once.
Status EvaluateByDequantizing(EvalContext &ctx);

// Whether operand i / result i of the node is of quantised type.
bool QuantizedOperand(const EvalContext &ctx, int i);
const QuantRef &OperandQuant(const EvalContext &ctx, int i);
const QuantRef &ResultQuant(const EvalContext &ctx, int i);
// All quantised operands in [0, n) and results in [0, m) have the same per-tensor parameters and dtype, and there are
// no others.
bool SameQuantThroughout(const EvalContext &ctx, int operands, int results);

// Integer elements minus their zero points, as i16 where dtype has at most 8 bits, else as i32. `zero` has one entry,
// or one per slice of `axis`.
bool IsByteSized(DType t);
std::vector<int16_t> MinusZero16(const Tensor &t, llvm::ArrayRef<int32_t> zero, int axis);
std::vector<int32_t> MinusZero32(const Tensor &t, llvm::ArrayRef<int32_t> zero, int axis);

// sum((x - zx) * (w - zw)) of a convolution in its exact integers; w in its ONNX layout ([M, C/g, K] or, transposed,
// [C, M/g, K]). zw: one, or one per output channel.
void IntConvSums(const ConvShape &s, const Tensor &x, llvm::ArrayRef<int32_t> zx, const Tensor &w,
                 llvm::ArrayRef<int32_t> zw, EmitAcc emit, ThreadPool *pool);

// Where sums become results: out[i] = requantised, or scaled to float, or the plain i32.
class AccSink {
public:
  // Result quantised: m[c] = RequantScale(sx, sw[c], sy).
  static AccSink Quantized(DType dtype, float sx, llvm::ArrayRef<float> sw, float sy, int32_t zy);
  // Result f32: f32(acc) * (sx * sw[c]).
  static AccSink Float(float sx, llvm::ArrayRef<float> sw);
  // Result i32, wrapping.
  static AccSink Int32();

  DType dtype() const { return dtype_; }
  // out: the result's elements; channel c of acc.
  void Store(void *out, int64_t at, int64_t c, int64_t acc) const;

private:
  enum class Kind : uint8_t { Quantized, Float, Int32 } kind_ = Kind::Int32;
  DType dtype_ = DType::I32;
  std::vector<float> scale_;
  int32_t zero_ = 0;
  QuantRange range_{0, 0};
};
// The sink that result 0's type asks for, given x's scale and w's scales.
AccSink SinkOf(const EvalContext &ctx, float sx, llvm::ArrayRef<float> sw);

} // namespace npuc::ops
