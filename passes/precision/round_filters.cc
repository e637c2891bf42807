// Weights to f16 by error diffusion: what rounding a weight takes from a filter's sum is given to the next one.
//
// Inputs of a filter lie mostly on one side of 0 (images, what comes out of a Relu), so a filter's answer moves with
// the sum of its weights more than with any one of them. Rounded each to its nearest, n weights of size w move that sum
// by some sqrt(n) * w * 2^-12, which trained depthwise filters (differences of large weights) and every layer behind
// them amplify. Method: weights of a filter from the greatest exponent (the coarsest step) to the least, the error of
// each added to the next before that is rounded; the last weight leaves an error of half the finest step. Cost: linear,
// a counting sort a filter.
#include "passes/precision/round_filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "compiler/support/half.h"
#include "compiler/support/thread_pool.h"
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

namespace {

// One filter, contiguous. `sorted` is scratch of as many elements.
void RoundFilter(llvm::ArrayRef<float> from, uint16_t *to, std::vector<int32_t> &sorted) {
  // Weights by exponent, the greatest first, else in their order.
  const auto bucket = [&](size_t i) { return 255 - (llvm::bit_cast<uint32_t>(from[i]) >> 23 & 255); };
  std::array<int32_t, 257> start{};
  for (size_t i = 0; i < from.size(); ++i)
    ++start[bucket(i) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  for (size_t i = 0; i < from.size(); ++i)
    sorted[start[bucket(i)]++] = static_cast<int32_t>(i);
  double error = 0;
  for (int32_t i : sorted) {
    to[i] = 0;
    if (from[i] == 0) // pruned weights stay so
      continue;
    const double want = static_cast<double>(from[i]) + error;
    to[i] = DoubleToHalf(want);
    error = want - static_cast<double>(HalfToFloat(to[i]));
    if (!std::isfinite(error))
      error = 0;
  }
}

constexpr int64_t kSide = 16; // filters gathered at a time: a row of them is a cache line

} // namespace

Tensor RoundFilters(const Tensor &weights, int axis, ThreadPool *threads) {
  Tensor half = Tensor::Allocate(DType::F16, weights.dims());
  const float *const from = weights.data<float>();
  uint16_t *const to = half.mutable_data<uint16_t>();
  const int64_t filters = weights.dims()[axis];
  int64_t inner = 1;
  for (int i = axis + 1; i < weights.rank(); ++i)
    inner *= weights.dims()[i];
  const int64_t n = weights.num_elements();
  if (n == 0)
    return half;
  const int64_t outer = n / filters / inner, count = outer * inner;
  const auto round = [&](size_t begin, size_t end) { // in units of kSide filters
    std::vector<int32_t> sorted(count);
    std::vector<float> gathered(outer > 1 ? kSide * count : 0);
    std::vector<uint16_t> rounded(outer > 1 ? kSide * count : 0);
    for (int64_t f0 = begin * kSide; f0 < std::min<int64_t>(end * kSide, filters); f0 += kSide) {
      const int64_t side = std::min(kSide, filters - f0);
      if (outer == 1) {
        for (int64_t f = f0; f < f0 + side; ++f)
          RoundFilter({from + f * count, static_cast<size_t>(count)}, to + f * count, sorted);
        continue;
      }
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t f = 0; f < side; ++f)
          std::copy_n(from + (o * filters + f0 + f) * inner, inner, gathered.data() + f * count + o * inner);
      for (int64_t f = 0; f < side; ++f)
        RoundFilter({gathered.data() + f * count, static_cast<size_t>(count)}, rounded.data() + f * count, sorted);
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t f = 0; f < side; ++f)
          std::copy_n(rounded.data() + f * count + o * inner, inner, to + (o * filters + f0 + f) * inner);
    }
  };
  const size_t units = static_cast<size_t>((filters + kSide - 1) / kSide);
  threads ? threads->ParallelFor(units, 1, round) : round(0, units);
  return half;
}

} // namespace npuc
