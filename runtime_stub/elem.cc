// ELEM. Data moves as rows: operands are loaded as dense f32 lines, the function runs over the line, the result is
// quantised or rounded once and stored. Functions that work on the bits (copy, select, min, max, comparisons, logic on
// integers of equal scale and zero point; copy of any equal types) use i32 lines instead. Cost: one pass over operands
// and result.
#include <algorithm>
#include <vector>

#include "compiler/ops/convert.h"
#include "compiler/ops/quant_math.h"
#include "runtime_stub/elem_math.h"
#include "runtime_stub/kernels.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Elem;
using isa::ElemFn;
using isa::View;

bool IsInteger(DType t) {
  return !IsFloat(t);
}

// Same type and, for integers, same scale and zero point: raw values compare and copy as the reals do.
bool SameEncoding(DType a, isa::Quant qa, DType b, isa::Quant qb) {
  return a == b && (!IsInteger(a) || qa == qb);
}

// On the Bits path only Select's condition may be a scalar.
enum class Path : uint8_t { Real, Bits, CastToInt };

Path PathOf(const Elem &c) {
  const auto same = [&](int i, int j) {
    return c.in[i].present() && c.in[j].present() &&
           SameEncoding(c.in[i].dtype, c.in_quant[i], c.in[j].dtype, c.in_quant[j]);
  };
  const auto as_out = [&](int i) {
    return c.in[i].present() && SameEncoding(c.in[i].dtype, c.in_quant[i], c.out.dtype, c.out_quant);
  };
  switch (c.fn) {
  case ElemFn::Copy:
    return as_out(0) ? Path::Bits : Path::Real;
  case ElemFn::Select:
    return as_out(1) && as_out(2) ? Path::Bits : Path::Real;
  case ElemFn::Min:
  case ElemFn::Max:
    return as_out(0) && as_out(1) && IsInteger(c.out.dtype) ? Path::Bits : Path::Real;
  case ElemFn::Equal:
  case ElemFn::Less:
  case ElemFn::LessEqual:
  case ElemFn::Greater:
  case ElemFn::GreaterEqual:
    return same(0, 1) && IsInteger(c.in[0].dtype) ? Path::Bits : Path::Real;
  case ElemFn::And:
  case ElemFn::Or:
  case ElemFn::Xor:
    return same(0, 1) && IsInteger(c.in[0].dtype) ? Path::Bits : Path::Real;
  case ElemFn::Not:
    return IsInteger(c.in[0].dtype) && c.in[0].present() ? Path::Bits : Path::Real;
  case ElemFn::Cast:
    return IsInteger(c.out.dtype) ? Path::CastToInt : Path::Real;
  default:
    return Path::Real;
  }
}

int32_t EvalBits(ElemFn fn, int32_t a, int32_t b, int32_t c) {
  switch (fn) {
  case ElemFn::Select:
    return a != 0 ? b : c;
  case ElemFn::Min:
    return std::min(a, b);
  case ElemFn::Max:
    return std::max(a, b);
  case ElemFn::Equal:
    return a == b;
  case ElemFn::Less:
    return a < b;
  case ElemFn::LessEqual:
    return a <= b;
  case ElemFn::Greater:
    return a > b;
  case ElemFn::GreaterEqual:
    return a >= b;
  case ElemFn::And:
    return a != 0 && b != 0;
  case ElemFn::Or:
    return a != 0 || b != 0;
  case ElemFn::Xor:
    return (a != 0) != (b != 0);
  case ElemFn::Not:
    return a == 0;
  default:
    return a;
  }
}

// ONNX's Cast to an integer or bool, on raw values (no scales): floats toward zero, saturating, NaN gives 0; integers
// keep their low bits.
int32_t CastFloat(float v, DType to) {
  switch (to) {
  case DType::Bool:
    return v != 0;
  case DType::I8:
    return ops::FloatToInt<int8_t>(v);
  case DType::U8:
    return ops::FloatToInt<uint8_t>(v);
  case DType::I16:
    return ops::FloatToInt<int16_t>(v);
  case DType::U16:
    return ops::FloatToInt<uint16_t>(v);
  default:
    return ops::FloatToInt<int32_t>(v);
  }
}
int32_t CastInt(int32_t v, DType to) {
  switch (to) {
  case DType::Bool:
    return v != 0;
  case DType::I8:
    return static_cast<int8_t>(v);
  case DType::U8:
    return static_cast<uint8_t>(v);
  case DType::I16:
    return static_cast<int16_t>(v);
  case DType::U16:
    return static_cast<uint16_t>(v);
  default:
    return v;
  }
}

void Reference(const Elem &c, const Context &x) {
  const Memory &m = x.memory;
  const Path path = PathOf(c);
  for (int64_t n = 0; n < c.out.n; ++n)
    for (int64_t h = 0; h < c.out.h; ++h)
      for (int64_t w = 0; w < c.out.w; ++w)
        for (int64_t ch = 0; ch < c.out.c; ++ch) {
          uint8_t *to = m.At(c.out, n, h, w, ch);
          if (path == Path::Real) {
            float v[3];
            for (int i = 0; i < 3; ++i)
              v[i] = c.in[i].present() ? ReadReal(m, c.in[i], c.in_quant[i], n, h, w, ch) : c.scalar[i];
            WriteReal(to, c.out.dtype, c.out_quant, EvalElem(c.fn, v[0], v[1], v[2], c.imm[0], c.imm[1]));
          } else if (path == Path::Bits) {
            int32_t v[3] = {};
            for (int i = 0; i < 3; ++i)
              v[i] = c.in[i].present() ? static_cast<int32_t>(ReadInt(m.At(c.in[i], n, h, w, ch), c.in[i].dtype))
                                       : c.scalar[i] != 0;
            WriteInt(to, c.out.dtype, EvalBits(c.fn, v[0], v[1], v[2]));
          } else {
            const DType t = c.in[0].dtype;
            const int32_t v = !c.in[0].present() ? CastFloat(c.scalar[0], c.out.dtype)
                              : IsFloat(t)
                                  ? CastFloat(ReadReal(m, c.in[0], {}, n, h, w, ch), c.out.dtype)
                                  : CastInt(static_cast<int32_t>(ReadInt(m.At(c.in[0], n, h, w, ch), t)), c.out.dtype);
            WriteInt(to, c.out.dtype, v);
          }
        }
}

struct Lines {
  std::vector<float> real[3];
  std::vector<int32_t> bits[3];
};

void Fast(const Elem &c, const Context &x) {
  const Memory &m = x.memory;
  const Path path = PathOf(c);
  const int operands = isa::NumOperands(c.fn);
  const int64_t ch = c.out.c, rows = int64_t{c.out.n} * c.out.h;
  const int64_t piece = std::clamp<int64_t>(4096 / std::max<int64_t>(1, ch), 1, std::max<int64_t>(1, c.out.w)),
                pieces = (c.out.w + piece - 1) / piece;
  x.ParallelFor(rows * pieces, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, piece * ch)),
                [&](int64_t begin, int64_t end) {
                  Lines l;
                  const int64_t size = piece * ch;
                  for (int i = 0; i < 3; ++i) {
                    if (path != Path::Real)
                      l.bits[i].resize(size);
                    if (path != Path::Bits)
                      l.real[i].assign(size, c.scalar[i]);
                  }
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t n = u / pieces / c.out.h, h = u / pieces % c.out.h, w0 = u % pieces * piece,
                                  count = std::min<int64_t>(piece, c.out.w - w0);
                    if (path == Path::Real) {
                      for (int i = 0; i < operands; ++i)
                        if (c.in[i].present())
                          LoadReal(m, c.in[i], c.in_quant[i], n, h, w0, count, l.real[i].data(), ch);
                      float *a = l.real[0].data();
                      // The result goes to a line of its own when operand 0 is a scalar that the next piece needs
                      // again.
                      float *to = c.in[0].present() ? a : l.real[2].data();
                      const bool clobbers = !c.in[0].present() && operands == 3;
                      std::vector<float> fresh;
                      if (clobbers)
                        fresh.resize(size), to = fresh.data();
                      ElemBulk(c.fn, a, l.real[1].data(), l.real[2].data(), c.imm.data(), count * ch, to);
                      StoreReal(m, c.out, c.out_quant, true, n, h, w0, count, to, ch);
                      continue;
                    }
                    int32_t *a = l.bits[0].data();
                    if (path == Path::Bits) {
                      for (int i = 0; i < operands; ++i)
                        if (c.in[i].present())
                          LoadI32(m, c.in[i], 0, n, h, w0, count, l.bits[i].data(), ch);
                        else // the line may hold the piece before
                          std::fill_n(l.bits[i].data(), count * ch, c.scalar[i] != 0);
                      if (c.fn != ElemFn::Copy)
                        for (int64_t k = 0; k < count * ch; ++k)
                          a[k] = EvalBits(c.fn, a[k], l.bits[1][k], l.bits[2][k]);
                    } else if (c.in[0].present() && IsInteger(c.in[0].dtype)) {
                      LoadI32(m, c.in[0], 0, n, h, w0, count, a, ch);
                      for (int64_t k = 0; k < count * ch; ++k)
                        a[k] = CastInt(a[k], c.out.dtype);
                    } else {
                      if (c.in[0].present())
                        LoadReal(m, c.in[0], {}, n, h, w0, count, l.real[0].data(), ch);
                      for (int64_t k = 0; k < count * ch; ++k)
                        a[k] = CastFloat(l.real[0][k], c.out.dtype);
                    }
                    StoreI32(m, c.out, n, h, w0, count, a, ch);
                  }
                });
}

} // namespace

void ExecuteElem(const Elem &c, const Context &x) {
  if (x.reference)
    Reference(c, x);
  else
    Fast(c, x);
  FillTail(x.memory, c.out);
}

} // namespace npuc::runtime
