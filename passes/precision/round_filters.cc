// Weights to f16 by error diffusion: what rounding a weight takes from a filter's sum is given to the next one.
//
// Inputs of a filter lie mostly on one side of 0 (images, what comes out of a Relu), so a filter's answer moves with
// the sum of its weights more than with any one of them. Rounded each to its nearest, n weights of size w move that sum
// by some sqrt(n) * w * 2^-12, which trained depthwise filters (differences of large weights) and every layer behind
// them amplify. Method: weights of a filter from the greatest exponent (the coarsest step) to the least, the error of
// each added to the next before that is rounded; the last weight leaves an error of half the finest step. Cost: linear,
// a counting sort a filter.
#include "passes/precision/round_filters.h"

#include <array>
#include <cmath>
#include <numeric>

#include "compiler/support/half.h"
#include "llvm/ADT/bit.h"

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
  const int64_t count = n / filters;
  std::vector<int64_t> sorted(count);
  for (int64_t f = 0; f < filters; ++f) {
    const auto index = [&](int64_t k) { return (k / inner * filters + f) * inner + k % inner; };
    // Weights by exponent, the greatest first, else in their order.
    const auto bucket = [&](int64_t i) { return 255 - (llvm::bit_cast<uint32_t>(from[i]) >> 23 & 255); };
    std::array<int64_t, 257> start{};
    for (int64_t k = 0; k < count; ++k)
      ++start[bucket(index(k)) + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (int64_t k = 0; k < count; ++k) {
      const int64_t i = index(k);
      sorted[start[bucket(i)]++] = i;
    }
    double error = 0;
    for (int64_t i : sorted) {
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
