// Rounding weights by what they are multiplied with, and correcting the bias by what rounding shifts.
#pragma once

#include <map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/pass/pass.h"
#include "passes/quantize/parameters.h"

namespace npuc {

// What the input vectors of a matrix operator's weights look like: of each group of channels (one but for grouped
// convolutions), mean and second moments of its k inputs, in the order of a filter's elements.
struct InputMoments {
  int64_t groups = 1, k = 0, rows = 0;
  std::vector<double> sum;     // [groups][k]
  std::vector<double> product; // [groups][k][k], upper triangle
};

// Moments for `nodes` of g (Conv, Gemm, MatMul with constant weights; others are left out) from at most kMomentSamples
// of ctx.samples, evenly spread; rows (output positions) are sampled. Deterministic whatever the threads. Empty without
// samples. By the node's result.
inline constexpr int64_t kMomentSamples = 16;
StatusOr<std::map<const Node *, InputMoments>> CollectMoments(Graph &g, const std::vector<Node *> &nodes,
                                                              const PassContext &ctx);

// Quantises the weights w of n as QuantizeWeights does, but rounds each filter so that the expected squared error of
// its output, under the covariance of the inputs, is small: elements in order, each taking up the errors of those
// before it through the factors of the covariance (adaptive rounding with linear feedback: Frantar et al., "GPTQ",
// 2023; Chee et al., "QuIP", 2023). `mean_matters`: there is no bias to correct, so that the mean counts too.
void RoundByMoments(const Node &n, const Tensor &w, int axis, int bits, const InputMoments &m, bool mean_matters,
                    QuantizedWeights *q);

// What rounding takes from each output's mean: sum over k of (w - codes * scale) * mean(x_k); what a bias gives back.
// `means`: [groups][k]. Zeros for operators whose weights are not filters of known inputs.
std::vector<double> MeanShift(const Node &n, const Tensor &w, const QuantizedWeights &q,
                              const std::vector<double> &means, int64_t groups);

// means for MeanShift from the statistics of operand 0's channels; empty when there are none.
std::vector<double> MeansFromStatistics(const Node &n, const CalibrationTable *table);

} // namespace npuc
