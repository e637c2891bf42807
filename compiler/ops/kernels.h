// The multiply-accumulate kernels behind Conv, ConvTranspose, MatMul, Gemm and their quantised forms. Deterministic:
// every output is one chain in a fixed order, whatever the vector width and the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc {
class ThreadPool;
}

namespace npuc::ops {

// A convolution over up to three spatial axes (missing ones are 1, in front). Data is row-major [N, groups*ic, in...];
// weights [groups*oc, ic, kernel...]; output [N, groups*oc, out...].
struct ConvShape {
  int64_t batch = 1, groups = 1, ic = 1, oc = 1; // channels per group
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
  // Transposed: output o reads input i through tap k where o = i * stride + k * dilation - pad.
  bool transposed = false;

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
};

// y = bias + sum over (channel, taps) in that order; padding adds +0. bias may be null.
void ConvF32(const ConvShape &s, const float *x, const float *w, const float *bias, float *y, ThreadPool *pool);
void ConvF64(const ConvShape &s, const double *x, const double *w, const double *bias, double *y, ThreadPool *pool);
// Exact integer sums. emit(n, m, first, count, acc): sums of the outputs [first, first+count) of image n, channel m;
// called from several threads, each output once. x and w have their zero points taken off already; |x|, |w| <= 255 for
// i16.
using EmitAcc = llvm::function_ref<void(int64_t n, int64_t m, int64_t first, int64_t count, const int64_t *acc)>;
void ConvI16(const ConvShape &s, const int16_t *x, const int16_t *w, EmitAcc emit, ThreadPool *pool);
void ConvI32(const ConvShape &s, const int32_t *x, const int32_t *w, EmitAcc emit, ThreadPool *pool);

// c[m][n] += sum over k ascending of a[m][k] * b[k][n], one matrix. b_k, b_n: strides of b; a is row-major with row
// stride a_m and element stride a_k. c is row-major [m, n] and holds the start values.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 1, b_k = 0, b_n = 1;
};
void GemmF32(const GemmShape &s, const float *a, const float *b, float *c, ThreadPool *pool);
void GemmF64(const GemmShape &s, const double *a, const double *b, double *c, ThreadPool *pool);
// Wrapping arithmetic, as ONNX's MatMul on integers.
template <class T> void GemmInt(const GemmShape &s, const T *a, const T *b, T *c);
// Exact sums, c[m][n] += ...; zero points already taken off, |a|, |b| <= 255 for i16.
void GemmI16(const GemmShape &s, const int16_t *a, const int16_t *b, int64_t *c, ThreadPool *pool);
void GemmI32(const GemmShape &s, const int32_t *a, const int32_t *b, int64_t *c, ThreadPool *pool);

template <class T> void GemmInt(const GemmShape &s, const T *a, const T *b, T *c) {
  for (int64_t m = 0; m < s.m; ++m)
    for (int64_t k = 0; k < s.k; ++k) {
      const uint64_t x = static_cast<uint64_t>(a[m * s.a_m + k * s.a_k]);
      for (int64_t n = 0; n < s.n; ++n)
        c[m * s.n + n] =
            static_cast<T>(static_cast<uint64_t>(c[m * s.n + n]) + x * static_cast<uint64_t>(b[k * s.b_k + n * s.b_n]));
    }
}

} // namespace npuc::ops
