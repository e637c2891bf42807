// Closed forms of compute work. Every rate is an exact decimal num/den; work is rounded up once, at the end.
#include <algorithm>
#include <numeric>

#include "backend/isa/names.h"
#include "backend/timing/timing.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"

namespace npuc::timing {
namespace {

using Wide = __int128;

// ceil(amount * 256 * num / den)
Units Scaled(int64_t amount, Wide num, Wide den) {
  const Wide v = Wide{amount} * kUnitsPerCycle * num;
  return static_cast<Units>((v + den - 1) / den);
}

// The array's rate for x; 48-bit accumulation of 8-bit inputs takes two passes.
Units AtMacRate(int64_t array_steps, DType x, isa::AccType acc, const Target &t) {
  const Rational &r = t.mxu.MacRate(x);
  const int half = acc == isa::AccType::I48 && ByteSize(x) == 1 ? 2 : 1;
  return Scaled(array_steps, Wide{r.den} * half, r.num);
}

// Functions that an output stage does not do along with everything else.
bool IsCostly(VpuFunction f) {
  switch (f) {
  case VpuFunction::Exp:
  case VpuFunction::Log:
  case VpuFunction::Sqrt:
  case VpuFunction::Rsqrt:
  case VpuFunction::Recip:
  case VpuFunction::Div:
  case VpuFunction::Mod:
  case VpuFunction::Pow:
  case VpuFunction::Sin:
  case VpuFunction::Cos:
  case VpuFunction::Erf:
  case VpuFunction::Gelu:
  case VpuFunction::Tanh:
  case VpuFunction::Sigmoid:
    return true;
  default:
    return false;
  }
}

Rational Sum(const Rational &a, const Rational &b) {
  return Rational(a.num * b.den + b.num * a.den, a.den * b.den);
}

} // namespace

Units Work(int64_t amount, const Rational &rate) {
  return Scaled(amount, rate.den, rate.num);
}

int64_t ConvSteps(const ConvShape &s, const Target &t) {
  const int64_t ic = s.mode == isa::ConvMode::Grouped ? s.ic / s.groups : s.ic;
  if (s.mode == isa::ConvMode::Depthwise)
    return CeilDiv(CeilDiv(s.kh * s.kw, t.mxu.dw_taps), t.mxu.dw_granule) * t.mxu.dw_granule;
  switch (s.traversal) {
  case isa::Traversal::Depth:
    return CeilDiv(ic, t.mxu.ic) * s.kh * s.kw;
  case isa::Traversal::Row:
    return CeilDiv(ic * s.kw, t.mxu.ic) * s.kh;
  case isa::Traversal::Kernel:
    return CeilDiv(ic * s.kh * s.kw, t.mxu.ic);
  case isa::Traversal::PartKernel:
    return 4 * CeilDiv(s.kh * s.kw, 4) * CeilDiv(ic, 8);
  }
  return 0;
}

Units ConvMac(const ConvShape &s, const Target &t) {
  const int64_t groups = s.mode == isa::ConvMode::Grouped ? s.groups : 1;
  return AtMacRate(groups * CeilDiv(s.positions, t.mxu.px) * CeilDiv(s.oc / groups, t.mxu.oc) * ConvSteps(s, t), s.x,
                   s.acc, t);
}

Units MatMulMac(int64_t batch, int64_t m, int64_t n, int64_t k, DType x, isa::AccType acc, const Target &t) {
  return AtMacRate(batch * CeilDiv(m, t.mxu.px) * CeilDiv(n, t.mxu.oc) * CeilDiv(k, t.mxu.ic), x, acc, t);
}

Rational StagePasses(const isa::MicroOps &stage, const Target &t) {
  Rational sum;
  for (const isa::MicroOp &m : stage)
    if (m.kind == isa::MicroKind::Act)
      if (const VpuFunction f = isa::PassesRow(m.fn); IsCostly(f))
        sum = Sum(sum, t.vpu.Passes(f));
  return std::max(Rational(1), sum);
}

Units OutputTime(int64_t elements, const Rational &passes, DType x, const Target &t) {
  const Rational &r = t.mxu.PpuRate(x);
  return Scaled(elements, Wide{passes.num} * r.den, Wide{passes.den} * r.num);
}

Units WeightTime(int64_t bytes, const Target &t) {
  return Work(bytes, t.mxu.weight_bytes_per_cycle);
}

Units VpuTime(int64_t elements, VpuFunction f, DType widest, const Target &t, int64_t scale) {
  const DType lanes_type = widest == DType::Bool ? DType::U8 : t.vpu.lanes.Has(widest) ? widest : DType::F32;
  const Rational &p = t.vpu.Passes(f), &l = t.vpu.Lanes(lanes_type);
  return Scaled(elements, Wide{p.num} * scale * l.den, Wide{p.den} * l.num);
}

int64_t PoolTaps(isa::PoolKind kind, int64_t kh, int64_t kw) {
  return kind == isa::PoolKind::Max ? std::min(kh * kw, kh + kw) : kh * kw;
}

} // namespace npuc::timing
