#include "compiler/support/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace npuc {
namespace {

#if defined(__x86_64__)
bool HasF16C() {
#ifdef __clang__ // clang 14 does not know f16c here; every processor with AVX2 has it
  static const bool has = __builtin_cpu_supports("avx2");
#else
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
#endif
  return has;
}

__attribute__((target("avx,f16c"))) size_t ToFloatF16C(const uint16_t *in, float *out, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(in + i))));
  return i;
}

__attribute__((target("avx,f16c"))) size_t ToHalfF16C(const float *in, uint16_t *out, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return i;
}
#endif

} // namespace

void HalfToFloat(const uint16_t *in, float *out, size_t n) {
  size_t i = 0;
#if defined(__x86_64__)
  if (HasF16C())
    i = ToFloatF16C(in, out, n);
#endif
  for (; i < n; ++i)
    out[i] = HalfToFloat(in[i]);
}

void FloatToHalf(const float *in, uint16_t *out, size_t n) {
  size_t i = 0;
#if defined(__x86_64__)
  if (HasF16C())
    i = ToHalfF16C(in, out, n);
#endif
  for (; i < n; ++i)
    out[i] = FloatToHalf(in[i]);
}

} // namespace npuc
