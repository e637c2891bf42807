// The functions of ELEM and of the output stage's Act on f32: one definition, made of compiler/ops/scalar_math.h and
// support/fpmath.h. Operands are dequantised already; comparisons and logic give 0 or 1.
#pragma once

#include <cstdint>

#include "backend/isa/commands.h"

namespace npuc::runtime {

// f(a, b, c) with immediates imm0, imm1; operands beyond NumElem's are ignored. Copy, Cast, Quantise, Dequantise and
// Requantise are the identity on reals (Cast to an integer dtype has its own rule in elem.cc).
float EvalElem(isa::ElemFn fn, float a, float b, float c, float imm0, float imm1);
// The same over arrays; out may be any of the operands.
void ElemBulk(isa::ElemFn fn, const float *a, const float *b, const float *c, const float *imm, int64_t n, float *out);

} // namespace npuc::runtime
