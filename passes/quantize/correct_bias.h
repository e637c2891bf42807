// What rounding weights adds to the mean of a matrix operator's results.
#pragma once

#include <vector>

#include "compiler/calibration/statistics.h"
#include "compiler/ir/graph.h"
#include "passes/quantize/parameters.h"

namespace npuc {

// For each output channel of a Conv, ConvTranspose or Gemm with weights `w`: the expected value of (rounded - w) * x,
// for x of the channel means that samples had. Taking it off the bias keeps the mean of every channel (bias correction:
// Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, with measured means).
// Taps that fall on padding are counted as if they did not. Empty where the means are not those of n's input channels.
std::vector<double> ExpectedShift(const Node &n, const Tensor &w, const QuantizedWeights &rounded,
                                  const ChannelStatistics &x);

} // namespace npuc
