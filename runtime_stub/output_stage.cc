// Output stage: Scale, then f32 and integer micro-operations, then the store. Strips keep a dense [positions][16]
// buffer; lanes beyond the command's channels are computed and dropped. RunElement is the definition, Run the fast form
// of it: same operations, same order per element.
#include "runtime_stub/output_stage.h"

#include <algorithm>

#include "compiler/ops/quant_math.h"
#include "compiler/support/status.h"
#include "runtime_stub/elem_math.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {

using isa::MicroKind;
using isa::MicroOp;

namespace {
constexpr float kNoImm[2] = {0, 0};
} // namespace

void OutputStage::Run(const Strip &s, const int32_t *acc, const float *scale) const {
  alignas(64) float v[kStrip * kBlock];
  ScaleI32(acc, scale, s.count, v);
  Finish(s, v);
}
void OutputStage::Run(const Strip &s, const float *acc, const float *scale) const {
  alignas(64) float v[kStrip * kBlock];
  ScaleF32(acc, scale, s.count, v);
  Finish(s, v);
}
void OutputStage::Run(const Strip &s, const int64_t *acc, const float *scale) const {
  alignas(64) float v[kStrip * kBlock];
  for (int p = 0; p < s.count; ++p)
    for (int l = 0; l < kBlock; ++l)
      v[p * kBlock + l] = static_cast<float>(acc[p * kBlock + l]) * scale[l];
  Finish(s, v);
}

void OutputStage::Finish(const Strip &s, float *v) const {
  const int64_t n = int64_t{s.count} * kBlock;
  const isa::View out = out_.Sub(0, 0, 0, s.c0, out_.n, out_.h, out_.w, s.lanes);
  alignas(64) int32_t q[kStrip * kBlock];
  alignas(64) float other[kStrip * kBlock];
  bool real = true;
  DType qtype = DType::Undefined;
  const auto operand = [&](const MicroOp &op) {
    const isa::StageOperand &o = operands_[op.operand];
    const isa::View view = o.view.Sub(0, 0, 0, s.c0, o.view.n, o.view.h, o.view.w, s.lanes);
    LoadReal(memory_, view, o.quant, s.n, s.h, s.w0, s.count, other, kBlock);
  };
  // Lanes that hold no channel must still hold numbers: nothing traps, but reading them uninitialised would be
  // undefined.
  if (s.lanes < kBlock)
    std::fill_n(other, n, 0.0f);
  for (size_t i = 1; i < ops_.size(); ++i) {
    const MicroOp &op = ops_[i];
    switch (op.kind) {
    case MicroKind::Scale:
      break;
    case MicroKind::Add:
      operand(op);
      ElemKernel(isa::ElemFn::Add, v, other, kNoImm, n, v);
      break;
    case MicroKind::Sub:
      operand(op);
      if (op.reversed)
        ElemKernel(isa::ElemFn::Sub, other, v, kNoImm, n, v);
      else
        ElemKernel(isa::ElemFn::Sub, v, other, kNoImm, n, v);
      break;
    case MicroKind::Mul:
      operand(op);
      ElemKernel(isa::ElemFn::Mul, v, other, kNoImm, n, v);
      break;
    case MicroKind::PRelu:
      operand(op);
      ElemKernel(isa::ElemFn::PRelu, v, other, kNoImm, n, v);
      break;
    case MicroKind::Clamp: {
      const float imm[2] = {op.a, op.b};
      ElemKernel(isa::ElemFn::Clamp, v, v, imm, n, v);
      break;
    }
    case MicroKind::Act: {
      const float imm[2] = {op.a, op.b};
      ElemBulk(op.fn, v, v, v, imm, n, v);
      break;
    }
    case MicroKind::Quantise:
      if (i + 1 == ops_.size()) { // the usual end: straight into memory
        isa::Quant quant = op.quant;
        StoreReal(memory_, out, quant, !op.requant, s.n, s.h, s.w0, s.count, v, kBlock);
        return;
      }
      QuantiseToI32(op.dtype, v, n, op.quant.scale, op.quant.zero, !op.requant, q);
      qtype = op.dtype;
      real = false;
      break;
    case MicroKind::Lut: {
      const uint8_t *table = memory_.At(op.lut);
      const int32_t least = qtype == DType::I8 ? -128 : 0;
      if (qtype == DType::I8)
        for (int64_t k = 0; k < n; ++k)
          q[k] = static_cast<int8_t>(table[q[k] - least]);
      else
        for (int64_t k = 0; k < n; ++k)
          q[k] = table[q[k]];
      break;
    }
    case MicroKind::ClampQ: {
      const int32_t lo = static_cast<int32_t>(op.a), hi = static_cast<int32_t>(op.b);
      for (int64_t k = 0; k < n; ++k)
        q[k] = std::min(std::max(q[k], lo), hi);
      break;
    }
    case MicroKind::Dequantise:
      DequantiseI32(q, n, op.quant.scale, op.quant.zero, v);
      real = true;
      break;
    }
  }
  if (real)
    StoreReal(memory_, out, {}, false, s.n, s.h, s.w0, s.count, v, kBlock);
  else
    StoreI32(memory_, out, s.n, s.h, s.w0, s.count, q, kBlock);
}

void OutputStage::RunElement(float v, int64_t n, int64_t h, int64_t w, int64_t c) const {
  int32_t q = 0;
  bool real = true;
  DType qtype = DType::Undefined;
  for (const MicroOp &op : ops_) {
    const auto operand = [&] {
      return ReadReal(memory_, operands_[op.operand].view, operands_[op.operand].quant, n, h, w, c);
    };
    switch (op.kind) {
    case MicroKind::Scale:
      break;
    case MicroKind::Add:
      v = v + operand();
      break;
    case MicroKind::Sub:
      v = op.reversed ? operand() - v : v - operand();
      break;
    case MicroKind::Mul:
      v = v * operand();
      break;
    case MicroKind::PRelu:
      v = v < 0 ? v * operand() : v;
      break;
    case MicroKind::Clamp:
      v = EvalElem(isa::ElemFn::Clamp, v, 0, 0, op.a, op.b);
      break;
    case MicroKind::Act:
      v = EvalElem(op.fn, v, 0, 0, op.a, op.b);
      break;
    case MicroKind::Quantise:
      qtype = op.dtype;
      q = op.requant ? RoundAndClamp(v, op.quant.zero, QuantRangeOf(qtype))
                     : QuantizeValue(v, op.quant.scale, op.quant.zero, QuantRangeOf(qtype));
      real = false;
      break;
    case MicroKind::Lut:
      q = static_cast<int32_t>(ReadInt(memory_.At(op.lut) + (q - static_cast<int32_t>(IntMin(qtype))), qtype));
      break;
    case MicroKind::ClampQ:
      q = std::min(std::max(q, static_cast<int32_t>(op.a)), static_cast<int32_t>(op.b));
      break;
    case MicroKind::Dequantise:
      v = DequantizeValue(q, op.quant.scale, op.quant.zero);
      real = true;
      break;
    }
  }
  uint8_t *p = memory_.At(out_, n, h, w, c);
  if (real)
    WriteReal(p, out_.dtype, {}, v);
  else
    WriteInt(p, out_.dtype, q);
}

} // namespace npuc::runtime
