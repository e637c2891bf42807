// From ranges and weights to scales, zero points and integers. Everything here is arithmetic in double with one
// rounding to f32, in a fixed order: the same on every machine.
#pragma once

#include "compiler/types/quant.h"
#include "compiler/types/tensor.h"
#include "llvm/ADT/ArrayRef.h"

namespace npuc {

class ThreadPool;

// The elements of a float constant as doubles, one of a splat for all; f32 ones are read where they lie.
class Elements {
public:
  explicit Elements(const Tensor &t);
  double operator[](int64_t i) const { return static_cast<double>(data_[i * step_]); }
  int64_t size() const { return f32_.num_elements(); }
  int64_t stored() const { return step_ ? size() : 1; } // different ones at most

private:
  Tensor f32_;
  const float *data_;
  int64_t step_; // 0: a splat
};

// What an activation takes on; lo <= 0 <= hi after Widened().
struct ValueRange {
  double lo = 0, hi = 0;
  ValueRange Widened() const { return {lo < 0 ? lo : 0, hi > 0 ? hi : 0}; }
  void Join(const ValueRange &o) {
    lo = o.lo < lo ? o.lo : lo;
    hi = o.hi > hi ? o.hi : hi;
  }
  bool operator==(const ValueRange &) const = default;
};

// Parameters that hold the range, with zero as an exact code. u8, i8: asymmetric, 256 codes between lo and hi. i16:
// symmetric, zero point 0, as sums of 16-bit products have no room to spare. A range of nothing but zero gets scale 1.
QuantRef ActivationParams(ValueRange range, DType dtype);

// The fixed range that an operator's result has whatever its input: Sigmoid, Softmax, HardSigmoid [0, 1]; Tanh,
// Softsign [-1, 1].
bool FixedRange(std::string_view op, ValueRange *range);

struct QuantizedWeights {
  Tensor codes; // i8, dims of w
  QuantRef quant;
};
// Symmetric integers of `bits` (4: -7..7, 8: -127..127) of float weights: one scale per slice of `axis`, or one for all
// (axis < 0). least_scales (empty, one, or one per slice): scales are at least so much; see LeastScales. The scale of a
// slice: its greatest magnitude is the greatest code; 4 bits: the scale with the least square error among fractions of
// that one. A slice of zeros takes the least scale, or 1. A splat gives a splat where the least scales let it.
QuantizedWeights QuantizeWeights(const Tensor &w, int axis, int bits, llvm::ArrayRef<double> least_scales = {},
                                 ThreadPool *threads = nullptr);

// Weight scales that keep every |bias| / (sx * sw) below 2^30, so that i32 sums hold it. Empty without bias.
std::vector<double> LeastScales(const Tensor *bias, double sx, int64_t channels);

// w with each `group` consecutive elements of its input-channel axis (for each output channel) rounded to integers of
// `bits` and back: what weight-only quantisation computes with. The last group may be shorter.
Tensor RoundToGroups(const Tensor &w, int channel_axis, int input_axis, int64_t group, int bits);

} // namespace npuc
