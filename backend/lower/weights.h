// Constant weights, bias and scales of matrix work, and their packing into the NPU's order.
#pragma once

#include <vector>

#include "backend/lower/mxu.h"
#include "compiler/types/tensor.h"

namespace npuc::lower {

// Where weight (oc, ic, kh, kw) lies in a tensor: element index base + oc*s_oc + ic*s_ic + kh*s_kh + kw*s_kw, oc
// counted over all groups (s_oc steps across group borders too), ic within its group. i4/u4/i8/u8/i16/f16; f32 is
// rounded to f16.
struct WeightSource {
  Tensor tensor;
  int64_t base = 0, s_oc = 0, s_ic = 0, s_kh = 0, s_kw = 0;
  // Groups merged to one dense product: (oc, ic) of different original groups hold the channel's zero point.
  int64_t merged_oc = 0, merged_ic = 0; // original group sizes; 0: not merged
};

// Per output channel.
struct ChannelData {
  std::vector<float> scale;      // table's scale (requantising: sx*sw/sy); 1 entry = all
  std::vector<int32_t> zero;     // zw; 1 entry = all
  std::vector<int64_t> int_bias; // integer accumulators; empty = 0
  std::vector<float> float_bias; // float accumulators; empty = 0
};

// The raw code that all weights have (a splat with no zeros merged in between), see MxuProblem::uniform_weight.
std::optional<int32_t> UniformWeight(const WeightSource &w);
PackWeights MakePackWeights(const MxuProblem &p, const Target &t, WeightSource w, std::vector<int32_t> zero);
PackTable MakePackTable(const MxuProblem &p, ChannelData d);

// Scales of an integer product: f32(sx * sw[c]), divided by sy once more when requantising. Method: reference-npu
// numerics.
std::vector<float> ProductScales(float sx, llvm::ArrayRef<float> sw, std::optional<float> sy);

// The proof of the numerics page: I32 when sum|w - zw| * max|x - zx| + |bias| fits for every output channel, else I48.
// i16 x: I48; floats: F32. `taps`: products per output channel, ic_per_group * kh * kw.
isa::AccType ProveAccumulator(const MxuProblem &p, const WeightSource &w, const ChannelData &d);

} // namespace npuc::lower
