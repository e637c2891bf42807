// f32 functions of the vector unit. Arrays: cheap functions in SIMD (kernels.h), the rest one element after another
// through the same EvalOne, so that both forms are one definition.
#include "runtime_stub/elem_math.h"

#include <cmath>

#include "compiler/ops/scalar_math.h"
#include "compiler/support/fpmath_array.h"
#include "compiler/support/status.h"
#include "runtime_stub/kernels.h"

namespace npuc::runtime {
namespace {

using isa::ElemFn;

// Remainder with the divisor's sign (Mod, ONNX fmod=0 on floats as Python has it) and with the dividend's (Fmod).
// std::fmod is exact: its result is always representable, so every library returns the same bits.
float FloorMod(float a, float b) {
  const float r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <ElemFn kFn> float One(float a, float b, float c, float imm0, float imm1) {
  const auto truth = [](bool v) { return v ? 1.0f : 0.0f; };
  switch (kFn) {
  case ElemFn::Copy:
  case ElemFn::Cast:
  case ElemFn::Quantise:
  case ElemFn::Dequantise:
  case ElemFn::Requantise:
    return a;
  case ElemFn::Add:
    return a + b;
  case ElemFn::Sub:
    return a - b;
  case ElemFn::Mul:
    return a * b;
  case ElemFn::Div:
    return a / b;
  case ElemFn::Mod:
    return FloorMod(a, b);
  case ElemFn::Fmod:
    return std::fmod(a, b);
  case ElemFn::Min:
    return scalar::Min(a, b);
  case ElemFn::Max:
    return scalar::Max(a, b);
  case ElemFn::Pow:
    return fpmath::Pow(a, b);
  case ElemFn::Equal:
    return truth(a == b);
  case ElemFn::Less:
    return truth(a < b);
  case ElemFn::LessEqual:
    return truth(a <= b);
  case ElemFn::Greater:
    return truth(a > b);
  case ElemFn::GreaterEqual:
    return truth(a >= b);
  case ElemFn::And:
    return truth(a != 0 && b != 0);
  case ElemFn::Or:
    return truth(a != 0 || b != 0);
  case ElemFn::Xor:
    return truth((a != 0) != (b != 0));
  case ElemFn::Not:
    return truth(a == 0);
  case ElemFn::Select:
    return a != 0 ? b : c;
  case ElemFn::Clamp:
    return scalar::Clip(a, imm0, imm1);
  case ElemFn::PRelu:
    return a < 0 ? a * b : a;
  case ElemFn::LeakyRelu:
    return scalar::LeakyRelu(a, imm0);
  case ElemFn::Abs:
    return scalar::Abs(a);
  case ElemFn::Neg:
    return -a;
  case ElemFn::Sign:
    return scalar::Sign(a);
  case ElemFn::Floor:
    return std::floor(a);
  case ElemFn::Ceil:
    return std::ceil(a);
  case ElemFn::Round:
    return fpmath::RoundHalfEven(a);
  case ElemFn::Exp:
    return fpmath::Exp(a);
  case ElemFn::Log:
    return fpmath::Log(a);
  case ElemFn::Sqrt:
    return fpmath::Sqrt(a);
  case ElemFn::Rsqrt:
    return 1.0f / fpmath::Sqrt(a);
  case ElemFn::Recip:
    return 1.0f / a;
  case ElemFn::Sin:
    return fpmath::Sin(a);
  case ElemFn::Cos:
    return fpmath::Cos(a);
  case ElemFn::Erf:
    return fpmath::Erf(a);
  case ElemFn::Tanh:
    return fpmath::Tanh(a);
  case ElemFn::Sigmoid:
    return fpmath::Sigmoid(a);
  case ElemFn::Gelu:
    return fpmath::Gelu(a);
  case ElemFn::GeluTanh:
    return fpmath::GeluTanh(a);
  case ElemFn::Silu:
    return scalar::Swish(a, imm0);
  case ElemFn::HardSigmoid:
    return scalar::HardSigmoid(a, imm0, imm1);
  case ElemFn::HardSwish:
    return scalar::HardSwish(a);
  case ElemFn::Elu:
    return scalar::Elu(a, imm0);
  case ElemFn::Selu:
    return scalar::Selu(a, imm0, imm1);
  case ElemFn::Celu:
    return scalar::Celu(a, imm0);
  case ElemFn::Softplus:
    return fpmath::Softplus(a);
  case ElemFn::Softsign:
    return scalar::Softsign(a);
  case ElemFn::Mish:
    return scalar::Mish(a);
  case ElemFn::ThresholdedRelu:
    return scalar::ThresholdedRelu(a, imm0);
  case ElemFn::IsNaN:
    return truth(a != a);
  }
  return a;
}

// out = f(scale * in) through the vectorised function, in pieces that stay in cache; `then(x, y)` combines input and
// function value.
template <class Then> void Composed(fpmath::Unary f, float scale, const float *in, int64_t n, float *out, Then then) {
  float x[512], y[512];
  for (int64_t i = 0; i < n; i += 512) {
    const int64_t k = n - i < 512 ? n - i : 512;
    for (int64_t j = 0; j < k; ++j)
      x[j] = scale * in[i + j];
    fpmath::Map(f, x, y, static_cast<size_t>(k));
    for (int64_t j = 0; j < k; ++j)
      out[i + j] = then(in[i + j], y[j]);
  }
}

template <ElemFn kFn>
void Bulk(const float *a, const float *b, const float *c, const float *imm, int64_t n, float *out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = One<kFn>(a[i], b[i], c[i], imm[0], imm[1]);
}

} // namespace

float EvalElem(ElemFn fn, float a, float b, float c, float imm0, float imm1) {
  switch (fn) {
#define NPUC_X(name, row)                                                                                              \
  case ElemFn::name:                                                                                                   \
    return One<ElemFn::name>(a, b, c, imm0, imm1);
    NPUC_ELEM_FUNCTIONS(NPUC_X)
#undef NPUC_X
  }
  NPUC_CHECK(false, "function {}", static_cast<int>(fn));
  return 0;
}

void ElemBulk(ElemFn fn, const float *a, const float *b, const float *c, const float *imm, int64_t n, float *out) {
  if (ElemKernel(fn, a, b, imm, n, out))
    return;
  switch (fn) {
  case ElemFn::Exp:
    return fpmath::Map(fpmath::Unary::Exp, a, out, n);
  case ElemFn::Log:
    return fpmath::Map(fpmath::Unary::Log, a, out, n);
  case ElemFn::Tanh:
    return fpmath::Map(fpmath::Unary::Tanh, a, out, n);
  case ElemFn::Sigmoid:
    return fpmath::Map(fpmath::Unary::Sigmoid, a, out, n);
  case ElemFn::Erf:
    return fpmath::Map(fpmath::Unary::Erf, a, out, n);
  case ElemFn::Gelu:
    return fpmath::Map(fpmath::Unary::Gelu, a, out, n);
  case ElemFn::GeluTanh:
    return fpmath::Map(fpmath::Unary::GeluTanh, a, out, n);
  case ElemFn::Softplus:
    return fpmath::Map(fpmath::Unary::Softplus, a, out, n);
  case ElemFn::Silu:
    return Composed(fpmath::Unary::Sigmoid, imm[0], a, n, out, [](float x, float y) { return x * y; });
  case ElemFn::Elu:
    return Composed(fpmath::Unary::Expm1, 1.0f, a, n, out, [=](float x, float y) { return x < 0 ? imm[0] * y : x; });
  case ElemFn::Mish:
    Composed(fpmath::Unary::Softplus, 1.0f, a, n, out, [](float x, float y) { return x * fpmath::Tanh(y); });
    return;
  default:
    break;
  }
  switch (fn) {
#define NPUC_X(name, row)                                                                                              \
  case ElemFn::name:                                                                                                   \
    return Bulk<ElemFn::name>(a, b, c, imm, n, out);
    NPUC_ELEM_FUNCTIONS(NPUC_X)
#undef NPUC_X
  }
}

} // namespace npuc::runtime
