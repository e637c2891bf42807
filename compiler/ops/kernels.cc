// Multiply-accumulate kernels. Method: the columns of the result (output positions of a convolution, columns of a
// product) are taken in blocks of 64; a block's operand is packed so that the inner loop reads it contiguously (padding
// becomes zero), and rows (output channels) run over it four at a time in registers (depthwise convolutions go row by
// row instead). Float: packed [k][16], one chain per output over k. 8-bit integers: packed [column][k] as i16, dot
// products in i32 over at most 16384 terms (16384 * 255 * 255 < 2^31), summed in i64. Cost: m*n*k multiply-adds plus
// n*k packing. Compiled for AVX2 and for the baseline; the same bits either way, since products and sums are rounded
// separately (-ffp-contract=off) and the order of each chain is fixed.
#include "compiler/ops/kernels.h"

#include <algorithm>
#include <cstring>

#include "compiler/ops/op_helpers.h"
#include "compiler/support/target_clones.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace npuc::ops {
namespace {

constexpr int64_t kStrip = 16;    // columns of a packed float strip
constexpr int64_t kBlock = 64;    // columns of a block: the unit of work
constexpr int64_t kChunk = 16384; // terms that an i32 sum of 8-bit products holds

typedef float V8 __attribute__((vector_size(32), aligned(4)));

// acc[rows][16] += a[rows][k] * strip[k][16]; rows 1..4
template <int kRows>
inline __attribute__((always_inline)) void StripRows(int64_t k, const float *a, int64_t lda, int64_t ldk,
                                                     const float *strip, float *acc, int64_t ldacc) {
  V8 s[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    s[r][0] = *reinterpret_cast<const V8 *>(acc + r * ldacc);
    s[r][1] = *reinterpret_cast<const V8 *>(acc + r * ldacc + 8);
  }
  for (int64_t i = 0; i < k; ++i) {
    const V8 b0 = *reinterpret_cast<const V8 *>(strip + i * kStrip),
             b1 = *reinterpret_cast<const V8 *>(strip + i * kStrip + 8);
    for (int r = 0; r < kRows; ++r) {
      const float w = a[r * lda + i * ldk];
      s[r][0] += b0 * w;
      s[r][1] += b1 * w;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    *reinterpret_cast<V8 *>(acc + r * ldacc) = s[r][0];
    *reinterpret_cast<V8 *>(acc + r * ldacc + 8) = s[r][1];
  }
}

// acc [m][kBlock]; block [strips][k][16]
NPUC_CLONES("avx2")
void BlockF32(int64_t m, int64_t k, int64_t strips, const float *a, int64_t lda, int64_t ldk, const float *block,
              float *acc) {
  int64_t r = 0;
  for (; r + 4 <= m; r += 4)
    for (int64_t t = 0; t < strips; ++t)
      StripRows<4>(k, a + r * lda, lda, ldk, block + t * k * kStrip, acc + r * kBlock + t * kStrip, kBlock);
  for (; r < m; ++r)
    for (int64_t t = 0; t < strips; ++t)
      StripRows<1>(k, a + r * lda, lda, ldk, block + t * k * kStrip, acc + r * kBlock + t * kStrip, kBlock);
}

// acc[m][kBlock] += a[m][k] . block[columns][k]
NPUC_CLONES("avx2")
void BlockI16(int64_t m, int64_t k, int64_t columns, const int16_t *a, const int16_t *block, int64_t *acc) {
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t k0 = 0; k0 < k; k0 += kChunk) {
      const int64_t n = std::min(kChunk, k - k0);
      const int16_t *w = a + r * k + k0;
      int64_t c = 0;
      for (; c + 4 <= columns; c += 4) {
        const int16_t *p0 = block + c * k + k0, *p1 = p0 + k, *p2 = p1 + k, *p3 = p2 + k;
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (int64_t i = 0; i < n; ++i) {
          const int32_t x = w[i];
          s0 += x * p0[i];
          s1 += x * p1[i];
          s2 += x * p2[i];
          s3 += x * p3[i];
        }
        acc[r * kBlock + c] += s0;
        acc[r * kBlock + c + 1] += s1;
        acc[r * kBlock + c + 2] += s2;
        acc[r * kBlock + c + 3] += s3;
      }
      for (; c < columns; ++c) {
        const int16_t *p = block + c * k + k0;
        int32_t s = 0;
        for (int64_t i = 0; i < n; ++i)
          s += static_cast<int32_t>(w[i]) * p[i];
        acc[r * kBlock + c] += s;
      }
    }
  }
}

NPUC_CLONES("avx2")
void BlockI32(int64_t m, int64_t k, int64_t columns, const int32_t *a, const int32_t *block, int64_t *acc) {
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t s = 0;
      for (int64_t i = 0; i < k; ++i)
        s += static_cast<int64_t>(a[r * k + i]) * block[c * k + i];
      acc[r * kBlock + c] += s;
    }
}

// Where the outputs [first, first+count) of a convolution read an input plane through one tap; -1 is padding.
class TapReader {
public:
  TapReader(const ConvShape &s, int64_t first, int64_t count) : s_(s), count_(count) {
    int64_t o[3] = {first / s.out[2] / s.out[1], first / s.out[2] % s.out[1], first % s.out[2]};
    for (int64_t j = 0; j < count; ++j) {
      for (int d = 0; d < 3; ++d)
        at_[d][j] = s.transposed ? o[d] + s.pad[d] : o[d] * s.stride[d] - s.pad[d];
      for (int d = 2; d >= 0 && ++o[d] == s.out[d]; --d)
        o[d] = 0;
    }
  }
  // Returns true when all are inside and consecutive.
  bool Offsets(int64_t tap, int64_t *offsets) const {
    const int64_t k[3] = {tap / (s_.kernel[1] * s_.kernel[2]) * s_.dilation[0],
                          tap / s_.kernel[2] % s_.kernel[1] * s_.dilation[1], tap % s_.kernel[2] * s_.dilation[2]};
    bool run = true;
    for (int64_t j = 0; j < count_; ++j) {
      int64_t offset = 0;
      for (int d = 0; d < 3; ++d) {
        int64_t i;
        if (s_.transposed) {
          const int64_t t = at_[d][j] - k[d];
          i = t >= 0 && t % s_.stride[d] == 0 ? t / s_.stride[d] : -1;
        } else {
          i = at_[d][j] + k[d];
        }
        if (i < 0 || i >= s_.in[d]) {
          offset = -1;
          break;
        }
        offset = offset * s_.in[d] + i;
      }
      offsets[j] = offset;
      run = run && offset >= 0 && offset == offsets[0] + j;
    }
    return run;
  }

private:
  const ConvShape &s_;
  int64_t count_;
  int64_t at_[3][kBlock];
};

// acc[0..n) += w * x[0], x[stride], ...
template <class Acc, class T>
inline __attribute__((always_inline)) void AddRow(Acc *acc, const T *x, int64_t stride, Acc w, int64_t n) {
  if (stride == 1)
    for (int64_t i = 0; i < n; ++i)
      acc[i] += w * static_cast<Acc>(x[i]);
  else if (stride == 2)
    for (int64_t i = 0; i < n; ++i)
      acc[i] += w * static_cast<Acc>(x[2 * i]);
  else
    for (int64_t i = 0; i < n; ++i)
      acc[i] += w * static_cast<Acc>(x[stride * i]);
}
NPUC_CLONES("avx2") void AddRowF32(float *acc, const float *x, int64_t stride, float w, int64_t n) {
  AddRow(acc, x, stride, w, n);
}
NPUC_CLONES("avx2") void AddRowI16(int32_t *acc, const int16_t *x, int64_t stride, int32_t w, int64_t n) {
  AddRow(acc, x, stride, w, n);
}
NPUC_CLONES("avx2") void AddRowI32(int64_t *acc, const int32_t *x, int64_t stride, int64_t w, int64_t n) {
  AddRow(acc, x, stride, w, n);
}

// Depthwise convolutions have one input channel a group: nothing is shared between channels, so packing would cost more
// than the sums. Row by row instead, tap by tap. done(n, m, first output, count, sums).
bool IsDepthwise(const ConvShape &s) {
  return s.ic == 1 && !s.transposed && s.oc <= 8;
}

template <class Acc, class T, class Add, class Done>
void DepthwiseRows(const ConvShape &s, const T *x, const T *w, ThreadPool *pool,
                   llvm::function_ref<Acc(int64_t m)> start, Add add, Done done) {
  const int64_t channels = s.groups * s.oc, taps = s.taps();
  ParallelFor(pool, s.batch * channels, 1, [&](int64_t begin, int64_t end) {
    std::vector<Acc> acc(s.out[2]);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t n = p / channels, m = p % channels;
      const T *const plane = x + (n * s.groups + m / s.oc) * s.in_plane();
      for (int64_t row = 0; row < s.out[0] * s.out[1]; ++row) {
        std::fill(acc.begin(), acc.end(), start(m));
        const int64_t z0 = row / s.out[1] * s.stride[0] - s.pad[0], y0 = row % s.out[1] * s.stride[1] - s.pad[1];
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t z = z0 + t / (s.kernel[1] * s.kernel[2]) * s.dilation[0],
                        y = y0 + t / s.kernel[2] % s.kernel[1] * s.dilation[1];
          if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1])
            continue;
          // Outputs first ... last-1 read column o * stride + shift inside the input.
          const int64_t shift = t % s.kernel[2] * s.dilation[2] - s.pad[2], stride = s.stride[2];
          const int64_t first = shift >= 0 ? 0 : std::min(s.out[2], (-shift + stride - 1) / stride);
          const int64_t last = s.in[2] <= shift ? 0 : std::min(s.out[2], (s.in[2] - shift + stride - 1) / stride);
          if (last > first)
            add(acc.data() + first, plane + (z * s.in[1] + y) * s.in[2] + first * stride + shift, stride,
                static_cast<Acc>(w[m * taps + t]), last - first);
        }
        done(n, m, row * s.out[2], s.out[2], acc.data());
      }
    }
  });
}

// Runs work(image, group, first, count) over all blocks of columns.
template <class F> void ForEachBlock(const ConvShape &s, ThreadPool *pool, F &&work) {
  const int64_t plane = s.out_plane(), blocks = (plane + kBlock - 1) / kBlock;
  ParallelFor(pool, s.batch * s.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kBlock;
      work(i / blocks / s.groups, i / blocks % s.groups, first, std::min(kBlock, plane - first));
    }
  });
}

// Packs a block as [column][k], k = channel-major over taps.
template <class T>
void PackColumns(const ConvShape &s, const T *x, int64_t first, int64_t count, std::vector<T> &block) {
  const int64_t taps = s.taps(), k = s.ic * taps, plane = s.in_plane();
  block.assign(count * k, T(0));
  const TapReader reader(s, first, count);
  int64_t offsets[kBlock];
  for (int64_t tap = 0; tap < taps; ++tap) {
    reader.Offsets(tap, offsets);
    for (int64_t j = 0; j < count; ++j)
      if (offsets[j] >= 0)
        for (int64_t c = 0; c < s.ic; ++c)
          block[j * k + c * taps + tap] = x[c * plane + offsets[j]];
  }
}

template <class T, class Kernel>
void ConvInt(const ConvShape &s, const T *x, const T *w, EmitAcc emit, ThreadPool *pool, Kernel kernel) {
  const int64_t k = s.ic * s.taps(), plane = s.in_plane();
  ForEachBlock(s, pool, [&](int64_t n, int64_t g, int64_t first, int64_t count) {
    thread_local std::vector<T> block;
    std::vector<int64_t> acc(s.oc * kBlock, 0);
    PackColumns(s, x + (n * s.groups + g) * s.ic * plane, first, count, block);
    kernel(s.oc, k, count, w + g * s.oc * k, block.data(), acc.data());
    for (int64_t m = 0; m < s.oc; ++m)
      emit(n, g * s.oc + m, first, count, acc.data() + m * kBlock);
  });
}

template <class T, class Kernel>
void GemmAcc(const GemmShape &s, const T *a, const T *b, int64_t *c, ThreadPool *pool, Kernel kernel) {
  std::vector<T> packed; // a as [m][k]
  if (s.a_k != 1 || s.a_m != s.k) {
    packed.resize(s.m * s.k);
    for (int64_t m = 0; m < s.m; ++m)
      for (int64_t k = 0; k < s.k; ++k)
        packed[m * s.k + k] = a[m * s.a_m + k * s.a_k];
    a = packed.data();
  }
  ParallelFor(pool, (s.n + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> block(kBlock * s.k);
    std::vector<int64_t> acc(s.m * kBlock);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kBlock, count = std::min(kBlock, s.n - first);
      for (int64_t j = 0; j < count; ++j)
        for (int64_t k = 0; k < s.k; ++k)
          block[j * s.k + k] = b[k * s.b_k + (first + j) * s.b_n];
      std::fill(acc.begin(), acc.end(), 0);
      kernel(s.m, s.k, count, a, block.data(), acc.data());
      for (int64_t m = 0; m < s.m; ++m)
        for (int64_t j = 0; j < count; ++j)
          c[m * s.n + first + j] += acc[m * kBlock + j];
    }
  });
}

} // namespace

void ConvF32(const ConvShape &s, const float *x, const float *w, const float *bias, float *y, ThreadPool *pool) {
  const int64_t taps = s.taps(), k = s.ic * taps, plane = s.in_plane(), out_plane = s.out_plane();
  if (IsDepthwise(s)) {
    DepthwiseRows<float>(
        s, x, w, pool, [&](int64_t m) { return bias ? bias[m] : 0.0f; }, AddRowF32,
        [&](int64_t n, int64_t m, int64_t first, int64_t count, const float *acc) {
          std::memcpy(y + (n * s.groups * s.oc + m) * out_plane + first, acc, count * sizeof(float));
        });
    return;
  }
  ForEachBlock(s, pool, [&](int64_t n, int64_t g, int64_t first, int64_t count) {
    thread_local std::vector<float> block, acc;
    const int64_t strips = (count + kStrip - 1) / kStrip;
    block.assign(strips * k * kStrip, 0.0f);
    const float *const xg = x + (n * s.groups + g) * s.ic * plane;
    for (int64_t t = 0; t < strips; ++t) {
      const int64_t columns = std::min(kStrip, count - t * kStrip);
      const TapReader reader(s, first + t * kStrip, columns);
      float *const strip = block.data() + t * k * kStrip;
      int64_t offsets[kBlock];
      for (int64_t tap = 0; tap < taps; ++tap) {
        const bool run = reader.Offsets(tap, offsets);
        for (int64_t c = 0; c < s.ic; ++c) {
          float *const to = strip + (c * taps + tap) * kStrip;
          const float *const from = xg + c * plane;
          if (run) {
            std::memcpy(to, from + offsets[0], columns * sizeof(float));
          } else {
            for (int64_t j = 0; j < columns; ++j)
              if (offsets[j] >= 0)
                to[j] = from[offsets[j]];
          }
        }
      }
    }
    acc.resize(s.oc * kBlock);
    for (int64_t m = 0; m < s.oc; ++m)
      std::fill_n(acc.data() + m * kBlock, kBlock, bias ? bias[g * s.oc + m] : 0.0f);
    BlockF32(s.oc, k, strips, w + g * s.oc * k, k, 1, block.data(), acc.data());
    for (int64_t m = 0; m < s.oc; ++m)
      std::memcpy(y + ((n * s.groups + g) * s.oc + m) * out_plane + first, acc.data() + m * kBlock,
                  count * sizeof(float));
  });
}

void ConvF64(const ConvShape &s, const double *x, const double *w, const double *bias, double *y, ThreadPool *pool) {
  const int64_t k = s.ic * s.taps(), plane = s.in_plane(), out_plane = s.out_plane();
  ForEachBlock(s, pool, [&](int64_t n, int64_t g, int64_t first, int64_t count) {
    std::vector<double> block;
    PackColumns(s, x + (n * s.groups + g) * s.ic * plane, first, count, block);
    for (int64_t m = 0; m < s.oc; ++m)
      for (int64_t j = 0; j < count; ++j) {
        double acc = bias ? bias[g * s.oc + m] : 0.0;
        for (int64_t i = 0; i < k; ++i)
          acc += w[(g * s.oc + m) * k + i] * block[j * k + i];
        y[((n * s.groups + g) * s.oc + m) * out_plane + first + j] = acc;
      }
  });
}

void ConvI16(const ConvShape &s, const int16_t *x, const int16_t *w, EmitAcc emit, ThreadPool *pool) {
  if (!IsDepthwise(s) || s.taps() > kChunk) {
    ConvInt(s, x, w, emit, pool, BlockI16);
    return;
  }
  DepthwiseRows<int32_t>(
      s, x, w, pool, [](int64_t) { return 0; }, AddRowI16,
      [&](int64_t n, int64_t m, int64_t first, int64_t count, const int32_t *acc) {
        int64_t wide[kBlock];
        for (int64_t at = 0; at < count; at += kBlock) {
          const int64_t part = std::min(kBlock, count - at);
          std::copy_n(acc + at, part, wide);
          emit(n, m, first + at, part, wide);
        }
      });
}

void ConvI32(const ConvShape &s, const int32_t *x, const int32_t *w, EmitAcc emit, ThreadPool *pool) {
  if (IsDepthwise(s))
    DepthwiseRows<int64_t>(
        s, x, w, pool, [](int64_t) { return int64_t{0}; }, AddRowI32, emit);
  else
    ConvInt(s, x, w, emit, pool, BlockI32);
}

void GemmF32(const GemmShape &s, const float *a, const float *b, float *c, ThreadPool *pool) {
  if (s.m < 4 && s.b_n == 1) { // few rows: packing would cost as much as the product
    ParallelFor(pool, s.n, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t m = 0; m < s.m; ++m)
        for (int64_t k = 0; k < s.k; ++k) {
          const float x = a[m * s.a_m + k * s.a_k];
          const float *const row = b + k * s.b_k;
          float *const to = c + m * s.n;
          for (int64_t n = begin; n < end; ++n)
            to[n] += x * row[n];
        }
    });
    return;
  }
  ParallelFor(pool, (s.n + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> block(kBlock * s.k), acc(s.m * kBlock);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kBlock, count = std::min(kBlock, s.n - first), strips = (count + kStrip - 1) / kStrip;
      std::fill(block.begin(), block.end(), 0.0f);
      for (int64_t t = 0; t < strips; ++t) {
        const int64_t columns = std::min(kStrip, count - t * kStrip);
        for (int64_t k = 0; k < s.k; ++k)
          for (int64_t j = 0; j < columns; ++j)
            block[(t * s.k + k) * kStrip + j] = b[k * s.b_k + (first + t * kStrip + j) * s.b_n];
      }
      for (int64_t m = 0; m < s.m; ++m)
        std::memcpy(acc.data() + m * kBlock, c + m * s.n + first, count * sizeof(float));
      BlockF32(s.m, s.k, strips, a, s.a_m, s.a_k, block.data(), acc.data());
      for (int64_t m = 0; m < s.m; ++m)
        std::memcpy(c + m * s.n + first, acc.data() + m * kBlock, count * sizeof(float));
    }
  });
}

void GemmF64(const GemmShape &s, const double *a, const double *b, double *c, ThreadPool *pool) {
  ParallelFor(pool, s.m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      for (int64_t k = 0; k < s.k; ++k) {
        const double x = a[m * s.a_m + k * s.a_k];
        for (int64_t n = 0; n < s.n; ++n)
          c[m * s.n + n] += x * b[k * s.b_k + n * s.b_n];
      }
  });
}

void GemmI16(const GemmShape &s, const int16_t *a, const int16_t *b, int64_t *c, ThreadPool *pool) {
  GemmAcc(s, a, b, c, pool, BlockI16);
}

void GemmI32(const GemmShape &s, const int32_t *a, const int32_t *b, int64_t *c, ThreadPool *pool) {
  GemmAcc(s, a, b, c, pool, BlockI32);
}

} // namespace npuc::ops
