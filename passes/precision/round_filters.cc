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

// Indices of a filter's weights by exponent, the greatest first, else in their order.
void SortByExponent(const float *from, int64_t n, int32_t *sorted) {
  const auto bucket = [&](int64_t i) { return 255 - (llvm::bit_cast<uint32_t>(from[i]) >> 23 & 255); };
  std::array<int32_t, 257> start{};
  for (int64_t i = 0; i < n; ++i)
    ++start[bucket(i) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  for (int64_t i = 0; i < n; ++i)
    sorted[start[bucket(i)]++] = static_cast<int32_t>(i);
}

// `want` to the nearest half; *rounded is its value.
uint16_t ToHalf(double want, double *rounded) {
  const uint64_t bits = llvm::bit_cast<uint64_t>(want), exponent = bits >> 52 & 2047;
  if (exponent - 1009 < 29) { // 2^-14 to 2^15: normal, and far from the end
    // Beside a number 2^42 times as large, a double has a half's digits left.
    const double large = llvm::bit_cast<double>((exponent + 42) << 52 | uint64_t{1} << 51);
    *rounded = want + large - large;
    const uint64_t r = llvm::bit_cast<uint64_t>(*rounded);
    return static_cast<uint16_t>((r >> 48 & 0x8000) | ((r >> 42 & 0x1ffff) - (1008 << 10)));
  }
  const uint16_t half = DoubleToHalf(want);
  *rounded = static_cast<double>(HalfToFloat(half));
  return half;
}

// N filters of n weights, one after the other in `from` and `to`. They are independent: the processor works on one
// while it waits for the sums of another. `sorted` is scratch of N * n elements.
template <int N> void RoundSome(const float *from, uint16_t *to, int64_t n, int32_t *sorted) {
  for (int f = 0; f < N; ++f)
    SortByExponent(from + f * n, n, sorted + f * n);
  std::array<double, N> error{};
  for (int64_t k = 0; k < n; ++k)
    for (int f = 0; f < N; ++f) {
      const int64_t i = f * n + sorted[f * n + k];
      to[i] = 0;
      if (from[i] == 0) // pruned weights stay so
        continue;
      const double want = static_cast<double>(from[i]) + error[f];
      double rounded;
      to[i] = ToHalf(want, &rounded);
      error[f] = want - rounded;
      if (!std::isfinite(error[f]))
        error[f] = 0;
    }
}

constexpr int kAtOnce = 4;

void RoundAll(const float *from, uint16_t *to, int64_t filters, int64_t n, int32_t *sorted) {
  int64_t f = 0;
  for (; f + kAtOnce <= filters; f += kAtOnce)
    RoundSome<kAtOnce>(from + f * n, to + f * n, n, sorted);
  for (; f < filters; ++f)
    RoundSome<1>(from + f * n, to + f * n, n, sorted);
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
    std::vector<int32_t> sorted(kAtOnce * count);
    std::vector<float> gathered(outer > 1 ? kSide * count : 0);
    std::vector<uint16_t> rounded(outer > 1 ? kSide * count : 0);
    for (int64_t f0 = begin * kSide; f0 < std::min<int64_t>(end * kSide, filters); f0 += kSide) {
      const int64_t side = std::min(kSide, filters - f0);
      if (outer == 1) {
        RoundAll(from + f0 * count, to + f0 * count, side, count, sorted.data());
        continue;
      }
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t f = 0; f < side; ++f)
          std::copy_n(from + (o * filters + f0 + f) * inner, inner, gathered.data() + f * count + o * inner);
      RoundAll(gathered.data(), rounded.data(), side, count, sorted.data());
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
