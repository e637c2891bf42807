// REDUCE. Elements are taken in the order n, h, w, c of the reduced axes (c innermost), whatever the layout. Integers:
// sum and mean add q - zx exactly, max, min, argmax and argmin compare q; prod, sum of squares, L1 and L2 work on
// dequantised f32, floats all do, in 16 partials (partials.h). Fast: spatial sums add lines of 16 partials by channels;
// everything else streams dense lines. Cost: one pass over the input.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/ops/quant_math.h"
#include "compiler/ops/scalar_math.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/partials.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Reduce;
using isa::ReduceKind;

// One output's running state; `Take` in element order, `Store` once.
class Reducer {
public:
  Reducer(const Reduce &c, const Memory &m)
      : c_(c), m_(m), real_(IsFloat(c.in.dtype)), partials_(c.kind == ReduceKind::Prod ? 1.0f : 0.0f) {}

  // Whether lines come as f32 (dequantised) or as raw i32 minus Zero().
  static bool TakesReal(const Reduce &c) {
    switch (c.kind) {
    case ReduceKind::Prod:
    case ReduceKind::SumSquare:
    case ReduceKind::L1:
    case ReduceKind::L2:
      return true;
    default:
      return IsFloat(c.in.dtype);
    }
  }
  static int32_t Zero(const Reduce &c) {
    return c.kind == ReduceKind::Sum || c.kind == ReduceKind::Mean ? c.in_quant.zero : 0;
  }

  void Take(const float *v, int64_t n) {
    switch (c_.kind) {
    case ReduceKind::Sum:
    case ReduceKind::Mean:
      partials_.Add(v, n);
      break;
    case ReduceKind::Prod:
      partials_.Multiply(v, n);
      break;
    case ReduceKind::SumSquare:
    case ReduceKind::L2:
      for (int64_t i = 0; i < n; ++i) {
        const float s = v[i] * v[i];
        partials_.Add(&s, 1);
      }
      break;
    case ReduceKind::L1:
      for (int64_t i = 0; i < n; ++i) {
        const float s = scalar::Abs(v[i]);
        partials_.Add(&s, 1);
      }
      break;
    case ReduceKind::Max:
      for (int64_t i = 0; i < n; ++i)
        best_real_ = count_ + i ? scalar::Max(best_real_, v[i]) : v[i];
      break;
    case ReduceKind::Min:
      for (int64_t i = 0; i < n; ++i)
        best_real_ = count_ + i ? scalar::Min(best_real_, v[i]) : v[i];
      break;
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      for (int64_t i = 0; i < n; ++i) {
        const float e = v[i];
        const bool nan = best_real_ != best_real_,
                   better = c_.kind == ReduceKind::ArgMax ? e > best_real_ : e < best_real_;
        // A NaN is the extreme, as numpy has it.
        const bool takes = count_ + i == 0 ||
                           (nan ? c_.select_last && e != e : e != e || better || (c_.select_last && e == best_real_));
        if (takes)
          best_real_ = e, index_ = count_ + i;
      }
      break;
    }
    count_ += n;
  }

  void Take(const int32_t *v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const bool first = count_ + i == 0;
      switch (c_.kind) {
      case ReduceKind::Max:
        best_ = first ? v[i] : std::max(best_, v[i]);
        break;
      case ReduceKind::Min:
        best_ = first ? v[i] : std::min(best_, v[i]);
        break;
      case ReduceKind::ArgMax:
        if (first || v[i] > best_ || (c_.select_last && v[i] == best_))
          best_ = v[i], index_ = count_ + i;
        break;
      case ReduceKind::ArgMin:
        if (first || v[i] < best_ || (c_.select_last && v[i] == best_))
          best_ = v[i], index_ = count_ + i;
        break;
      default:
        sum_ += v[i];
      }
    }
    count_ += n;
  }
  void SetSum(int64_t sum, int64_t count) { sum_ = sum, count_ = count; }

  void Store(uint8_t *to) const {
    const DType t = c_.out.dtype;
    const bool same = t == c_.in.dtype && (real_ || c_.in_quant == c_.out_quant);
    switch (c_.kind) {
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      return WriteInt(to, t, index_);
    case ReduceKind::Max:
    case ReduceKind::Min: {
      const bool max = c_.kind == ReduceKind::Max;
      if (!real_ && same) {
        int64_t v = best_;
        if (c_.combine)
          v = max ? std::max<int64_t>(v, ReadInt(to, t)) : std::min<int64_t>(v, ReadInt(to, t));
        return WriteInt(to, t, v);
      }
      float v = real_ ? best_real_ : DequantizeValue(best_, c_.in_quant.scale, c_.in_quant.zero);
      if (c_.combine)
        v = max ? scalar::Max(ReadReal(to, t, c_.out_quant), v) : scalar::Min(ReadReal(to, t, c_.out_quant), v);
      return WriteReal(to, t, c_.out_quant, v);
    }
    case ReduceKind::Sum:
      // An i32 result in the input's own scale is the integer sum itself.
      if (!real_ && t == DType::I32 && c_.in_quant.scale == c_.out_quant.scale)
        return WriteInt(to, t, sum_ + (c_.combine ? ReadInt(to, t) : int64_t{c_.out_quant.zero}));
      break;
    default:
      break;
    }
    float v = 0;
    switch (c_.kind) {
    case ReduceKind::Sum:
      v = real_ ? partials_.Sum() : static_cast<float>(sum_) * c_.in_quant.scale;
      break;
    case ReduceKind::Mean:
      v = (real_ ? partials_.Sum() : static_cast<float>(sum_) * c_.in_quant.scale) / static_cast<float>(count_);
      break;
    case ReduceKind::Prod:
      v = partials_.Product();
      break;
    case ReduceKind::L2:
      v = fpmath::Sqrt(partials_.Sum());
      break;
    default:
      v = partials_.Sum();
      break;
    }
    if (c_.combine)
      v = ReadReal(to, t, c_.out_quant) + v;
    WriteReal(to, t, c_.out_quant, v);
  }

private:
  const Reduce &c_;
  const Memory &m_;
  bool real_;
  Partials partials_;
  float best_real_ = 0;
  int32_t best_ = 0;
  int64_t sum_ = 0, count_ = 0, index_ = 0;
};

struct Extents {
  int64_t n, h, w, c;
};
Extents Reduced(const Reduce &c) {
  return {c.axes & isa::kAxisN ? c.in.n : 1, c.axes & isa::kAxisH ? c.in.h : 1, c.axes & isa::kAxisW ? c.in.w : 1,
          c.axes & isa::kAxisC ? c.in.c : 1};
}

void Reference(const Reduce &c, const Context &x) {
  const Memory &m = x.memory;
  const Extents e = Reduced(c);
  const bool real = Reducer::TakesReal(c);
  for (int64_t n = 0; n < c.out.n; ++n)
    for (int64_t h = 0; h < c.out.h; ++h)
      for (int64_t w = 0; w < c.out.w; ++w)
        for (int64_t ch = 0; ch < c.out.c; ++ch) {
          Reducer r(c, m);
          for (int64_t a = 0; a < e.n; ++a)
            for (int64_t b = 0; b < e.h; ++b)
              for (int64_t d = 0; d < e.w; ++d)
                for (int64_t f = 0; f < e.c; ++f) {
                  if (real) {
                    const float v = ReadReal(m, c.in, c.in_quant, n + a, h + b, w + d, ch + f);
                    r.Take(&v, 1);
                  } else {
                    const int32_t v =
                        static_cast<int32_t>(ReadInt(m.At(c.in, n + a, h + b, w + d, ch + f), c.in.dtype)) -
                        Reducer::Zero(c);
                    r.Take(&v, 1);
                  }
                }
          r.Store(m.At(c.out, n, h, w, ch));
        }
}

// C is reduced: each output streams whole lines.
void ReduceLines(const Reduce &c, const Context &x) {
  const Memory &m = x.memory;
  const Extents e = Reduced(c);
  const bool real = Reducer::TakesReal(c);
  const int64_t outputs = int64_t{c.out.n} * c.out.h * c.out.w, line = e.w * e.c;
  x.ParallelFor(outputs, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, e.n * e.h * line)),
                [&](int64_t begin, int64_t end) {
                  std::vector<float> reals(real ? line : 0);
                  std::vector<int32_t> ints(real ? 0 : line);
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t n = u / (int64_t{c.out.h} * c.out.w), h = u / c.out.w % c.out.h, w = u % c.out.w;
                    Reducer r(c, m);
                    for (int64_t a = 0; a < e.n; ++a)
                      for (int64_t b = 0; b < e.h; ++b) {
                        if (real) {
                          LoadReal(m, c.in, c.in_quant, n + a, h + b, w, e.w, reals.data(), e.c);
                          r.Take(reals.data(), line);
                        } else {
                          LoadI32(m, c.in, Reducer::Zero(c), n + a, h + b, w, e.w, ints.data(), e.c);
                          r.Take(ints.data(), line);
                        }
                      }
                    r.Store(m.At(c.out, n, h, w, 0));
                  }
                });
}

// C is kept: lines of channels, in pieces of up to 64, collected position by position.
void ReduceColumns(const Reduce &c, const Context &x) {
  const Memory &m = x.memory;
  const Extents e = Reduced(c);
  const bool real = Reducer::TakesReal(c);
  const int64_t piece = std::min<int64_t>(64, c.out.c), pieces = (c.out.c + piece - 1) / piece;
  const int64_t outputs = int64_t{c.out.n} * c.out.h * c.out.w, count = e.n * e.h * e.w;
  const bool sum = !real && (c.kind == ReduceKind::Sum || c.kind == ReduceKind::Mean);
  x.ParallelFor(outputs * pieces, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, count * piece)),
                [&](int64_t begin, int64_t end) {
                  std::vector<float> reals, column(real ? count : 0);
                  std::vector<int32_t> ints, int_column(real ? 0 : count);
                  if (real)
                    reals.resize(count * piece);
                  else
                    ints.resize(sum ? e.w * piece : count * piece);
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t o = u / pieces, c0 = u % pieces * piece,
                                  lanes = std::min<int64_t>(piece, c.out.c - c0);
                    const int64_t n = o / (int64_t{c.out.h} * c.out.w), h = o / c.out.w % c.out.h, w = o % c.out.w;
                    const isa::View in = c.in.Sub(0, 0, 0, c0, c.in.n, c.in.h, c.in.w, lanes);
                    std::array<int64_t, 64> sums{};
                    for (int64_t a = 0, at = 0; a < e.n; ++a)
                      for (int64_t b = 0; b < e.h; ++b, at += e.w * piece) {
                        if (real) {
                          LoadReal(m, in, c.in_quant, n + a, h + b, w, e.w, reals.data() + at, piece);
                        } else if (sum) {
                          LoadI32(m, in, Reducer::Zero(c), n + a, h + b, w, e.w, ints.data(), piece);
                          for (int64_t d = 0; d < e.w; ++d)
                            for (int64_t l = 0; l < lanes; ++l)
                              sums[l] += ints[d * piece + l];
                        } else {
                          LoadI32(m, in, Reducer::Zero(c), n + a, h + b, w, e.w, ints.data() + at, piece);
                        }
                      }
                    for (int64_t l = 0; l < lanes; ++l) {
                      Reducer r(c, m);
                      if (sum) {
                        r.SetSum(sums[l], count);
                      } else if (real) {
                        for (int64_t i = 0; i < count; ++i)
                          column[i] = reals[i * piece + l];
                        r.Take(column.data(), count);
                      } else {
                        for (int64_t i = 0; i < count; ++i)
                          int_column[i] = ints[i * piece + l];
                        r.Take(int_column.data(), count);
                      }
                      r.Store(m.At(c.out, n, h, w, c0 + l));
                    }
                  }
                });
}

} // namespace

void ExecuteReduce(const Reduce &c, const Context &x) {
  if (x.reference)
    Reference(c, x);
  else if (c.axes & isa::kAxisC)
    ReduceLines(c, x);
  else
    ReduceColumns(c, x);
  FillTail(x.memory, c.out);
}

} // namespace npuc::runtime
