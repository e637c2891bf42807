// Weights to f16 by error diffusion: what rounding a weight takes from a filter's sum is given to the next one.
//
// Inputs of a filter lie mostly on one side of 0 (images, what comes out of a Relu), so a filter's answer moves with
// the sum of its weights more than with any one of them. Rounded each to its nearest, n weights of size w move that sum
// by some sqrt(n) * w * 2^-12, which trained depthwise filters (differences of large weights) and every layer behind
// them amplify. Method: weights of a filter from the greatest to the least, the error of each added to the next before
// that is rounded; the last, least weight leaves an error of half its own, finest step. Cost: a sort a filter.
#include "passes/precision/round_filters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/support/half.h"

namespace npuc {

std::optional<int> FilterAxis(const Node &n, unsigned i) {
  const Value *v = n.operand(i);
  if (i != 1 || !v || !v->constant() || v->constant()->is_splat())
    return std::nullopt;
  const int rank = v->constant()->rank();
  if (n.Is("Conv") && rank >= 3)
    return 0;
  if (n.Is("Gemm") && rank == 2)
    return n.attrs().Int("transB", 0) ? 0 : 1;
  if (n.Is("MatMul") && rank == 2)
    return 1;
  return std::nullopt;
}

Tensor RoundFilters(const Tensor &weights, int axis) {
  Tensor half = Tensor::Allocate(DType::F16, weights.dims());
  const float *from = weights.data<float>();
  uint16_t *to = half.mutable_data<uint16_t>();
  const int64_t filters = weights.dims()[axis];
  int64_t inner = 1;
  for (int i = axis + 1; i < weights.rank(); ++i)
    inner *= weights.dims()[i];
  const int64_t n = weights.num_elements();
  if (n == 0)
    return half;
  std::vector<int64_t> at(n / filters);
  for (int64_t f = 0; f < filters; ++f) {
    for (int64_t k = 0, count = static_cast<int64_t>(at.size()); k < count; ++k)
      at[k] = (k / inner * filters + f) * inner + k % inner;
    std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) { return std::abs(from[a]) > std::abs(from[b]); });
    double error = 0;
    for (int64_t i : at) {
      if (from[i] == 0) // pruned weights stay so
        continue;
      const double want = static_cast<double>(from[i]) + error;
      to[i] = DoubleToHalf(want);
      error = want - static_cast<double>(HalfToFloat(to[i]));
      if (!std::isfinite(error))
        error = 0;
    }
  }
  return half;
}

} // namespace npuc
