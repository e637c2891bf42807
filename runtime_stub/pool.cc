// POOL. Max: on integers as they are, then requantised if scales differ; floats in f32, NaN stays, from -infinity on.
// Average: i32 sum of (x - zx), or one f32 chain over (kh, kw), then quantise(f32(sum) * sx / f32(count)). Fast: one
// output row at a time from dense input lines; stride 1 adds whole lines. Cost: KH times the input lines, KH * KW times
// the output.
#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/ops/quant_math.h"
#include "compiler/ops/scalar_math.h"
#include "runtime_stub/kernels.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Pool;

// Taps that count for an output coordinate.
int64_t Counted(int64_t at, int64_t kernel, int64_t dilation, int64_t lo, int64_t hi) {
  int64_t count = 0;
  for (int64_t k = 0; k < kernel; ++k)
    count += at + k * dilation >= lo && at + k * dilation < hi;
  return count;
}
int64_t Count(const Pool &c, int64_t oh, int64_t ow) {
  const int64_t y = oh * c.stride_h - c.pad_top, x = ow * c.stride_w - c.pad_left;
  const int64_t top = c.count_include_pad ? c.pad_top : 0, bottom = c.count_include_pad ? c.pad_bottom : 0;
  const int64_t left = c.count_include_pad ? c.pad_left : 0, right = c.count_include_pad ? c.pad_right : 0;
  return Counted(y, c.kernel_h, c.dilation_h, -top, c.in.h + bottom) *
         Counted(x, c.kernel_w, c.dilation_w, -left, c.in.w + right);
}

void Reference(const Pool &c, const Context &x) {
  const Memory &m = x.memory;
  const bool real = IsFloat(c.in.dtype), max = c.kind == isa::PoolKind::Max;
  for (int64_t n = 0; n < c.out.n; ++n)
    for (int64_t oh = 0; oh < c.out.h; ++oh)
      for (int64_t ow = 0; ow < c.out.w; ++ow)
        for (int64_t ch = 0; ch < c.out.c; ++ch) {
          float v = max ? -std::numeric_limits<float>::infinity() : 0.0f;
          int64_t q = max && !real ? IntMin(c.in.dtype) : 0;
          for (int64_t kh = 0; kh < c.kernel_h; ++kh)
            for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
              const int64_t ih = oh * c.stride_h - c.pad_top + kh * c.dilation_h,
                            iw = ow * c.stride_w - c.pad_left + kw * c.dilation_w;
              if (ih < 0 || ih >= c.in.h || iw < 0 || iw >= c.in.w)
                continue;
              if (real) {
                const float e = ReadReal(m, c.in, {}, n, ih, iw, ch);
                v = max ? scalar::Max(v, e) : v + e;
              } else {
                const int64_t e = ReadInt(m.At(c.in, n, ih, iw, ch), c.in.dtype);
                q = max ? std::max(q, e) : q + (e - c.in_quant.zero);
              }
            }
          uint8_t *to = m.At(c.out, n, oh, ow, ch);
          if (max && !real && c.in.dtype == c.out.dtype && c.in_quant == c.out_quant) {
            WriteInt(to, c.out.dtype, q);
          } else {
            if (max && !real)
              v = DequantizeValue(static_cast<int32_t>(q), c.in_quant.scale, c.in_quant.zero);
            if (!max)
              v = (real ? v : static_cast<float>(q) * c.in_quant.scale) / static_cast<float>(Count(c, oh, ow));
            WriteReal(to, c.out.dtype, c.out_quant, v);
          }
        }
}

void Max(const float *x, int64_t n, float *out) {
  MaxF32(x, n, out);
}
void Max(const int32_t *x, int64_t n, int32_t *out) {
  MaxI32(x, n, out);
}
void Add(const float *x, int64_t n, float *out) {
  AddF32(x, n, out);
}
void Add(const int32_t *x, int64_t n, int32_t *out) {
  AddI32(x, n, out);
}

template <class T> void Fast(const Pool &c, const Context &x) {
  constexpr bool kReal = std::is_same_v<T, float>;
  const Memory &m = x.memory;
  const bool max = c.kind == isa::PoolKind::Max,
             raw = max && !kReal && c.in.dtype == c.out.dtype && c.in_quant == c.out_quant;
  const int64_t ch = c.out.c, ow_count = c.out.w;
  const T start = !max    ? T(0)
                  : kReal ? static_cast<T>(-std::numeric_limits<float>::infinity())
                          : static_cast<T>(kReal ? 0 : IntMin(c.in.dtype));
  x.ParallelFor(int64_t{c.out.n} * c.out.h, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> line(c.in.w * ch), acc(ow_count * ch);
    std::vector<float> result(ow_count * ch);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / c.out.h, oh = r % c.out.h;
      std::fill(acc.begin(), acc.end(), start);
      for (int64_t kh = 0; kh < c.kernel_h; ++kh) {
        const int64_t ih = oh * c.stride_h - c.pad_top + kh * c.dilation_h;
        if (ih < 0 || ih >= c.in.h)
          continue;
        if constexpr (kReal)
          LoadReal(m, c.in, {}, n, ih, 0, c.in.w, line.data(), ch);
        else
          LoadI32(m, c.in, max ? 0 : c.in_quant.zero, n, ih, 0, c.in.w, line.data(), ch);
        for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
          const int64_t shift = kw * c.dilation_w - c.pad_left; // iw = ow * stride + shift
          int64_t lo = shift < 0 ? (-shift + c.stride_w - 1) / c.stride_w : 0;
          int64_t hi = c.in.w - shift <= 0 ? 0 : std::min<int64_t>(ow_count, (c.in.w - shift - 1) / c.stride_w + 1);
          if (lo >= hi)
            continue;
          const auto op = [&](const T *from, int64_t count, T *to) {
            max ? Max(from, count, to) : Add(from, count, to);
          };
          if (c.stride_w == 1)
            op(line.data() + (lo + shift) * ch, (hi - lo) * ch, acc.data() + lo * ch);
          else
            for (int64_t ow = lo; ow < hi; ++ow)
              op(line.data() + (ow * c.stride_w + shift) * ch, ch, acc.data() + ow * ch);
        }
      }
      if (raw) {
        if constexpr (!kReal)
          StoreI32(m, c.out, n, oh, 0, ow_count, acc.data(), ch);
        continue;
      }
      for (int64_t ow = 0; ow < ow_count; ++ow) {
        const float count = max ? 1.0f : static_cast<float>(Count(c, oh, ow));
        for (int64_t i = ow * ch; i < (ow + 1) * ch; ++i) {
          if constexpr (kReal)
            result[i] = max ? acc[i] : acc[i] / count;
          else
            result[i] = max ? DequantizeValue(acc[i], c.in_quant.scale, c.in_quant.zero)
                            : static_cast<float>(acc[i]) * c.in_quant.scale / count;
        }
      }
      StoreReal(m, c.out, c.out_quant, true, n, oh, 0, ow_count, result.data(), ch);
    }
  });
}

} // namespace

void ExecutePool(const Pool &c, const Context &x) {
  if (x.reference)
    Reference(c, x);
  else if (IsFloat(c.in.dtype))
    Fast<float>(c, x);
  else
    Fast<int32_t>(c, x);
  FillTail(x.memory, c.out);
}

} // namespace npuc::runtime
