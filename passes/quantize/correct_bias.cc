// Bias correction: linear in the weights.
#include "passes/quantize/correct_bias.h"

#include "passes/common.h"

namespace npuc {

std::vector<double> ExpectedShift(const Node &n, const Tensor &w, const QuantizedWeights &rounded,
                                  const ChannelStatistics &x) {
  const int rank = w.rank();
  const bool gemm = n.Is("Gemm"), transposed = n.Is("ConvTranspose");
  if (!(gemm || transposed || n.Is("Conv")) || rank < 2 || x.size() == 0)
    return {};
  // Weights as [outer][inner][taps]: outer is the output channel of a Conv, the input channel of a ConvTranspose.
  const int64_t outer = w.dims()[0], inner = w.dims()[1], groups = gemm ? 1 : n.attrs().Int("group", 1);
  int64_t taps = 1;
  for (int d = 2; d < rank; ++d)
    taps *= w.dims()[d];
  const bool outer_is_input = transposed || (gemm && n.attrs().Int("transB", 0) == 0);
  if (gemm && n.attrs().Int("transA", 0) != 0)
    return {};
  const int64_t inputs = outer_is_input ? outer : inner * groups, outputs = outer_is_input ? inner * groups : outer;
  if (x.axis != 1 || x.size() != inputs) // rank 2 has its channels on axis 1, too
    return {};
  // Of a transposed convolution each result sees one tap in so many.
  double share = 1;
  if (transposed)
    if (const auto strides = n.attrs().Ints("strides"); !strides.empty())
      for (int64_t s : strides)
        share /= static_cast<double>(s);
  std::vector<double> mean(inputs), shift(outputs);
  for (int64_t c = 0; c < inputs; ++c)
    mean[c] = x.Mean(c);
  const std::vector<double> exact = Elements(w);
  const int8_t *code = rounded.codes.data<int8_t>();
  const QuantParams &q = *rounded.quant;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t group = o / (outer / groups);
      const int64_t in = outer_is_input ? o : group * inner + i, out = outer_is_input ? group * inner + i : o;
      const double scale = q.scale(q.axis == 0 ? o : q.axis == 1 ? i : 0);
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t at = (o * inner + i) * taps + t;
        shift[out] += (code[at] * scale - exact[at]) * mean[in] * share;
      }
    }
  return shift;
}

} // namespace npuc
