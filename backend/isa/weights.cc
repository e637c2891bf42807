// Sizes of packed weights; backend/lower packs them, the verifier checks the sizes that commands name.
#include "backend/isa/isa.h"
#include "compiler/support/int_math.h"

namespace npuc::isa {
namespace {

// 4-bit types lie two per byte.
int64_t Bytes(DType w, int64_t elements) {
  return BitWidth(w) == 4 ? (elements + 1) / 2 : elements * ByteSize(w);
}

} // namespace

int64_t PackedConvWeightBytes(const Target &t, DType x, DType w, ConvMode mode, int64_t oc, int64_t ic_per_group,
                              int64_t kh, int64_t kw, int64_t groups) {
  switch (mode) {
  case ConvMode::Depthwise:
    return Bytes(w, RoundUp(oc, t.mxu.oc) * kh * kw);
  case ConvMode::Dense:
    return Bytes(w, RoundUp(oc, t.mxu.oc) * RoundUp(ic_per_group, t.C2(x)) * kh * kw);
  case ConvMode::Grouped:
    return groups * Bytes(w, RoundUp(oc / groups, t.mxu.oc) * RoundUp(ic_per_group, t.C2(x)) * kh * kw);
  }
  return 0;
}

int64_t PackedMatMulWeightBytes(const Target &t, DType x, DType w, int64_t k, int64_t n) {
  return Bytes(w, RoundUp(n, t.mxu.oc) * RoundUp(k, t.C2(x)));
}

} // namespace npuc::isa
