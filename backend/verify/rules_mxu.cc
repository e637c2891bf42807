// CONV and MATMUL: types, limits, capacities, sizes of packed weights, output stages.
#include "backend/verify/check.h"

namespace npuc::verify {

using isa::AccType;
using isa::Accumulate;
using isa::MicroKind;
using isa::View;

namespace {

bool Stores(Accumulate a) {
  return a == Accumulate::Single || a == Accumulate::Finish;
}

// Types of inputs, weights and accumulator, and the accumulator's room.
bool CheckTypes(Checker &c, DType x, DType w, AccType acc, int32_t zero, const View &out) {
  bool ok = c.Require(c.t.Supports(x) && c.t.mxu.mac_rate.Has(x), "inputs of {} are not for the MXU of {}",
                      npuc::Name(x), c.t.name);
  if (!ok)
    return false;
  const bool is_float = x == DType::F16;
  if (is_float)
    ok &= c.Require(w == DType::F16, "weights of {} for inputs of f16", npuc::Name(w));
  else
    ok &= c.Require(w == DType::I8 || w == DType::U8 || w == DType::I16 || w == DType::I4 || w == DType::U4,
                    "weights of {} for inputs of {}", npuc::Name(w), npuc::Name(x));
  if (is_float)
    ok &= c.Require(acc == AccType::F32, "accumulator {} for inputs of f16", isa::EnumName(acc));
  else if (x == DType::I16)
    ok &= c.Require(acc == AccType::I48, "accumulator {} for inputs of i16, I48 is needed", isa::EnumName(acc));
  else
    ok &= c.Require(acc != AccType::F32, "accumulator F32 for inputs of {}", npuc::Name(x));
  if (is_float)
    ok &= c.Require(zero == 0, "inputs of f16 with zero point {}", zero);
  else
    ok &= c.Require(zero >= IntMin(x) && zero <= IntMax(x), "zero point {} is outside {}", zero, npuc::Name(x));
  // A partial accumulation's output is in no memory that would bound its dims.
  const __int128 wide = __int128{out.n} * out.h * out.w * out.c * (acc == AccType::I48 ? 8 : 4);
  const int64_t need = wide > INT64_MAX ? INT64_MAX : static_cast<int64_t>(wide), bank = c.t.mxu.acc_bytes / 2;
  ok &= c.Require(need <= bank, "output {} needs {} accumulator bytes, a bank has {}", DimsText(out), need, bank);
  return ok;
}

bool ActFunction(isa::ElemFn f) {
  switch (f) {
  case isa::ElemFn::Cast:
  case isa::ElemFn::Quantise:
  case isa::ElemFn::Dequantise:
  case isa::ElemFn::Requantise:
  case isa::ElemFn::Not:
  case isa::ElemFn::IsNaN:
    return false;
  default:
    return isa::NumOperands(f) == 1;
  }
}

void CheckStage(Checker &c, Accumulate accumulate, const isa::MicroOps &stage,
                const std::array<isa::StageOperand, 2> &operands, const View &out) {
  if (!Stores(accumulate)) {
    c.Require(stage.empty(), "{} has an output stage", isa::EnumName(accumulate));
    for (const isa::StageOperand &o : operands)
      c.Require(!o.view.present(), "{} has a second operand", isa::EnumName(accumulate));
    return;
  }
  if (!c.Require(!stage.empty() && stage.size() <= isa::kMaxMicroOps,
                 "the output stage has {} micro-operations, 1 to {} are allowed", stage.size(), isa::kMaxMicroOps))
    return;
  // The value's type as it goes through: Undefined stands for the accumulator.
  DType type = DType::Undefined;
  std::array<bool, 2> used{};
  for (size_t i = 0; i < stage.size(); ++i) {
    const isa::MicroOp &m = stage[i];
    const std::string at = fmt::format("micro-operation {} ({})", i, isa::EnumName(m.kind));
    if (!c.Require((m.kind == MicroKind::Scale) == (i == 0), "{}: Scale stands first and nowhere else", at))
      return;
    const bool wants_q = m.kind == MicroKind::Lut || m.kind == MicroKind::ClampQ || m.kind == MicroKind::Dequantise;
    if (i > 0 && !c.Require(wants_q == (type != DType::F32), "{} gets {}", at, npuc::Name(type)))
      return;
    c.Require(!m.reversed || m.kind == MicroKind::Sub, "{} is reversed", at);
    c.Require(!m.requant || m.kind == MicroKind::Quantise, "{} is a requantisation", at);
    switch (m.kind) {
    case MicroKind::Scale:
      type = DType::F32;
      break;
    case MicroKind::Add:
    case MicroKind::Sub:
    case MicroKind::Mul:
    case MicroKind::PRelu: {
      if (!c.Require(m.operand < operands.size() && operands[m.operand].view.present(),
                     "{} takes operand {}, which is absent", at, m.operand))
        return;
      used[m.operand] = true;
      break;
    }
    case MicroKind::Clamp:
      break;
    case MicroKind::Act:
      c.Require(ActFunction(m.fn), "{}: {} is no function of one number", at, isa::EnumName(m.fn));
      break;
    case MicroKind::Quantise: {
      const DType q = m.dtype;
      if (!c.Require((q == DType::I8 || q == DType::U8 || q == DType::I16) && c.t.Supports(q), "{} makes {}", at,
                     npuc::Name(q)))
        return;
      View v;
      v.dtype = q;
      CheckQuant(c, v, m.quant, at);
      c.Require(!m.requant || i < 2 || stage[i - 1].kind != MicroKind::Dequantise, "{} requantises a dequantised value",
                at);
      type = q;
      break;
    }
    case MicroKind::Lut:
      c.Require(ByteSize(type) == 1, "{} looks {} up", at, npuc::Name(type));
      break;
    case MicroKind::ClampQ:
      c.Require(m.a >= static_cast<float>(IntMin(type)) && m.b <= static_cast<float>(IntMax(type)) && m.a <= m.b,
                "{}: bounds {} and {} of {}", at, m.a, m.b, npuc::Name(type));
      break;
    case MicroKind::Dequantise: {
      View v;
      v.dtype = type;
      CheckQuant(c, v, m.quant, at);
      type = DType::F32;
      break;
    }
    }
  }
  if (type == DType::F32)
    c.Require(out.dtype == DType::F32 || (out.dtype == DType::F16 && c.t.Supports(DType::F16)),
              "the output stage ends in f32, the output is {}", npuc::Name(out.dtype));
  else
    c.Require(out.dtype == type, "the output stage ends in {}, the output is {}", npuc::Name(type),
              npuc::Name(out.dtype));
  for (size_t i = 0; i < operands.size(); ++i) {
    const View &v = operands[i].view;
    if (!v.present())
      continue;
    c.Require(used[i], "operand {} is not used", i);
    c.Require(SameDims(v, out), "operand {} has dims {}, the output {}", i, DimsText(v), DimsText(out));
    c.Require(c.t.Supports(v.dtype) || v.dtype == DType::F32 || v.dtype == DType::I32, "operand {} is {}", i,
              npuc::Name(v.dtype));
    CheckQuant(c, v, operands[i].quant, fmt::format("operand {}", i));
  }
}

// Rows (columns) that the taps reach must be there or padding.
void CheckWindow(Checker &c, std::string_view axis, int64_t in, int64_t out, int64_t before, int64_t after,
                 int64_t kernel, int64_t stride, int64_t dilation) {
  const int64_t reach = (out - 1) * stride + (kernel - 1) * dilation + 1;
  c.Require(reach <= before + in + after, "{} of the output need {} of the input, {} are there with padding", axis,
            reach, before + in + after);
}

bool Nhwc(const View &v) {
  return int64_t{v.c0} + v.c <= v.c_block;
}

} // namespace

void CheckCommand(Checker &c, const isa::Conv &v) {
  const auto &l = c.t.limits;
  // Start and Continue do not touch the output: its dims are checked here, as accesses check the others.
  const bool dims = c.Require(v.out.n && v.out.h && v.out.w && v.out.c &&
                                  std::max({v.out.n, v.out.h, v.out.w, v.out.c}) <= l.dims_max,
                              "output dims {}, each must be 1 to {}", DimsText(v.out), l.dims_max);
  bool ok = dims;
  ok &= c.Require(v.kernel_h >= 1 && v.kernel_h <= l.kernel_max[0] && v.kernel_w >= 1 && v.kernel_w <= l.kernel_max[1],
                  "kernel [{},{}] is outside the limit [{},{}]", v.kernel_h, v.kernel_w, l.kernel_max[0],
                  l.kernel_max[1]);
  ok &= c.Require(v.stride_h >= 1 && v.stride_h <= l.stride_max[0] && v.stride_w >= 1 && v.stride_w <= l.stride_max[1],
                  "strides [{},{}] are outside the limit [{},{}]", v.stride_h, v.stride_w, l.stride_max[0],
                  l.stride_max[1]);
  ok &= c.Require(v.dilation_h >= 1 && v.dilation_h <= l.dilation_max[0] && v.dilation_w >= 1 &&
                      v.dilation_w <= l.dilation_max[1],
                  "dilations [{},{}] are outside the limit [{},{}]", v.dilation_h, v.dilation_w, l.dilation_max[0],
                  l.dilation_max[1]);
  ok &= c.Require(v.in.n == v.out.n, "batch {} of the input, {} of the output", v.in.n, v.out.n);
  ok &= CheckTypes(c, v.in.dtype, v.weight_dtype, v.acc, v.in_zero, v.out);
  int64_t group_ic = v.in.c;
  switch (v.mode) {
  case isa::ConvMode::Dense:
    ok &= c.Require(v.groups == 1, "a dense convolution of {} groups", v.groups);
    break;
  case isa::ConvMode::Depthwise:
    ok &= c.Require(v.in.c == v.out.c, "a depthwise convolution of {} channels to {}", v.in.c, v.out.c);
    group_ic = 1;
    break;
  case isa::ConvMode::Grouped:
    if (c.Require(v.groups >= 1 && v.in.c % v.groups == 0 && v.out.c % v.groups == 0, "{} groups of {} to {} channels",
                  v.groups, v.in.c, v.out.c))
      group_ic = v.in.c / v.groups;
    else
      ok = false;
    break;
  }
  if (ok) {
    CheckWindow(c, "rows", v.in.h, v.out.h, v.pad_top, v.pad_bottom, v.kernel_h, v.stride_h, v.dilation_h);
    CheckWindow(c, "columns", v.in.w, v.out.w, v.pad_left, v.pad_right, v.kernel_w, v.stride_w, v.dilation_w);
    const int64_t need = isa::PackedConvWeightBytes(c.t, v.in.dtype, v.weight_dtype, v.mode, v.out.c, group_ic,
                                                    v.kernel_h, v.kernel_w, v.groups);
    c.Require(v.weight_bytes == need, "{} weight bytes, the packed form has {}", v.weight_bytes, need);
    c.Require(c.t.mxu.HasTraversal(static_cast<npuc::Traversal>(v.traversal)), "traversal {} is not one of {}'s",
              isa::EnumName(v.traversal), c.t.name);
    if (v.mode != isa::ConvMode::Depthwise) {
      if (v.traversal == isa::Traversal::Row)
        c.Require(group_ic <= c.t.mxu.ic && Nhwc(v.in),
                  "traversal Row needs at most {} input channels in one block, there are {}", c.t.mxu.ic, group_ic);
      if (v.traversal == isa::Traversal::Kernel)
        c.Require(group_ic <= 4 && Nhwc(v.in),
                  "traversal Kernel needs at most 4 input channels in one block, there are {}", group_ic);
    }
  }
  if (dims)
    CheckStage(c, v.accumulate, v.stage, v.operands, v.out);
}

void CheckCommand(Checker &c, const isa::MatMul &m) {
  const auto limit = c.t.limits.dims_max;
  const bool dims =
      c.Require(m.out.n && m.out.h && m.out.w && m.out.c && std::max({m.out.n, m.out.h, m.out.w, m.out.c}) <= limit,
                "output dims {}, each must be 1 to {}", DimsText(m.out), limit);
  bool ok = dims;
  ok &= c.Require(m.a.n == m.out.n && m.a.h == m.out.h && m.a.w == m.out.w, "a has dims {}, the output {}",
                  DimsText(m.a), DimsText(m.out));
  const DType w = m.b.present() ? m.b.dtype : m.weight_dtype;
  ok &= CheckTypes(c, m.a.dtype, w, m.acc, m.a_zero, m.out);
  if (m.b.present()) {
    const int64_t k = m.transposed_b ? m.b.c : m.b.w, n = m.transposed_b ? m.b.w : m.b.c;
    c.Require(m.b.n == m.out.n && m.b.h == m.out.h && k == m.a.c && n == m.out.c,
              "b has dims {} for a {} and output {}", DimsText(m.b), DimsText(m.a), DimsText(m.out));
    c.Require(c.t.Supports(w), "b of {} is not for {}", npuc::Name(w), c.t.name);
    if (IsInt(w))
      c.Require(m.b_zero >= IntMin(w) && m.b_zero <= IntMax(w), "b's zero point {} is outside {}", m.b_zero,
                npuc::Name(w));
    else
      c.Require(m.b_zero == 0, "b of {} with zero point {}", npuc::Name(w), m.b_zero);
    c.Require(m.weight_bytes == 0, "weights and a dynamic b");
  } else if (ok) {
    const int64_t need = isa::PackedMatMulWeightBytes(c.t, m.a.dtype, w, m.a.c, m.out.c);
    c.Require(m.weight_bytes == need, "{} weight bytes, the packed form has {}", m.weight_bytes, need);
    c.Require(!m.transposed_b && m.b_zero == 0, "transposed_b and b_zero are for a dynamic b");
  }
  if (dims)
    CheckStage(c, m.accumulate, m.stage, m.operands, m.out);
}

} // namespace npuc::verify
