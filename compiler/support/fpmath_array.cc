// One loop a function, compiled at -O3 once for each instruction set (GCC's target_clones); fused multiply-add is never
// used (-ffp-contract=off), so the clones differ in width only.
#include "compiler/support/fpmath_array.h"

#include "compiler/support/fpmath.h"
#include "compiler/support/target_clones.h"

namespace npuc::fpmath {
namespace {

#define NPUC_LOOP(F)                                                                                                   \
  NPUC_CLONES("avx512f", "avx2") void F##Loop(const float *in, float *out, size_t n) {                                 \
    for (size_t i = 0; i < n; ++i)                                                                                     \
      out[i] = F(in[i]);                                                                                               \
  }
NPUC_LOOP(Exp)
NPUC_LOOP(Expm1)
NPUC_LOOP(Log)
NPUC_LOOP(Log1p)
NPUC_LOOP(Tanh)
NPUC_LOOP(Sigmoid)
NPUC_LOOP(Erf)
NPUC_LOOP(Gelu)
NPUC_LOOP(GeluTanh)
NPUC_LOOP(Softplus)
NPUC_LOOP(Sqrt)
NPUC_LOOP(RoundHalfEven)

} // namespace

void Map(Unary f, const float *in, float *out, size_t n) {
  switch (f) {
#define NPUC_CASE(F)                                                                                                   \
  case Unary::F:                                                                                                       \
    return F##Loop(in, out, n);
    NPUC_CASE(Exp)
    NPUC_CASE(Expm1)
    NPUC_CASE(Log)
    NPUC_CASE(Log1p)
    NPUC_CASE(Tanh)
    NPUC_CASE(Sigmoid)
    NPUC_CASE(Erf)
    NPUC_CASE(Gelu)
    NPUC_CASE(GeluTanh)
    NPUC_CASE(Softplus)
    NPUC_CASE(Sqrt)
    NPUC_CASE(RoundHalfEven)
  }
}

} // namespace npuc::fpmath
