// ELEM, LUT, POOL, REDUCE, NORM, RESIZE.
#include "backend/isa/resize_math.h"
#include "backend/verify/check.h"

namespace npuc::verify {

using isa::View;

namespace {

bool CheckVpuType(Checker &c, const View &v, std::string_view what) {
  return c.Require(VpuType(c.t, v.dtype), "{} of {} is not for the VPU of {}", what, npuc::Name(v.dtype), c.t.name);
}

// Integer tensors that are numbers, not flags or indices, carry a quantisation.
void CheckOperand(Checker &c, const View &v, const isa::Quant &q, std::string_view what) {
  CheckVpuType(c, v, what);
  CheckQuant(c, v, q, what);
}

// Every window must see a tap: inside the input, or in the padding if that counts.
void CheckTaps(Checker &c, std::string_view axis, int64_t in, int64_t out, int64_t before, int64_t after,
               int64_t kernel, int64_t stride, int64_t dilation, bool padding_counts) {
  const int64_t lo = padding_counts ? -before : 0, hi = padding_counts ? in + after : in;
  auto sees = [&](int64_t o) {
    for (int64_t k = 0; k < kernel; ++k)
      if (const int64_t at = o * stride - before + k * dilation; at >= lo && at < hi)
        return true;
    return false;
  };
  // Only windows that start before `lo` or end after `hi` can miss: those at the two ends, unless dilation steps over a
  // narrow input.
  const int64_t span = (kernel - 1) * dilation;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * stride - before;
    if (first >= lo && first < hi) { // its first tap counts: go to the first window whose first tap does not
      o = std::max(o, (hi - 1 + before) / stride);
      continue;
    }
    if (first + span >= lo && first + span < hi)
      continue;
    if (!c.Require(sees(o), "window {} of the {} sees padding alone", o, axis))
      return;
  }
}

void CheckAxes(Checker &c, uint8_t axes) {
  c.Require(axes >= 1 && axes <= 15, "axes mask {}, 1 to 15 are allowed", axes);
}

void CheckSources(Checker &c, const isa::Resize &r, std::string_view axis, float scale, int64_t in, int64_t out,
                  int64_t in0, int64_t out0, int64_t full_in, int64_t full_out) {
  // A scale of 0 stands for the quotient of the extents.
  if (!c.Require(std::isfinite(scale) && scale >= 0 && full_in >= 1 && full_out >= 1, "scale {} of {} {}", scale,
                 full_in, axis))
    return;
  if (!c.Require(out0 + out <= full_out && in0 + in <= full_in && full_in <= 1 << 24 && full_out <= 1 << 24,
                 "{} {} + {} of {} from {} + {} of {}", axis, out0, out, full_out, in0, in, full_in))
    return;
  const ResizeAxis a{r.coordinates, ResizeScale(scale, full_in, full_out), full_in, full_out};
  for (int64_t o = out0; o < out0 + out; ++o) {
    const double at = ResizeCoordinate(a, o);
    if (!c.Require(std::isfinite(at) && std::abs(at) < 1e15, "output {} of the {} comes from {}", o, axis, at))
      return;
    const ResizeSource source = ResizeSourceOf(a, r.kind, r.nearest, o);
    for (int64_t s : {source.a, source.b})
      if (!c.Require(s >= in0 && s < in0 + in, "output {} of the {} comes from {}, the input has {} to {}", o, axis, s,
                     in0, in0 + in - 1))
        return;
  }
}

} // namespace

void CheckCommand(Checker &c, const isa::Elem &e) {
  CheckOperand(c, e.out, e.out_quant, "out");
  for (int i = 0; i < 3; ++i) {
    const View &v = e.in[i];
    if (!v.present())
      continue;
    if (!c.Require(i < isa::NumOperands(e.fn), "operand {} of {}, which takes {}", i, isa::EnumName(e.fn),
                   isa::NumOperands(e.fn)))
      continue;
    c.Require(SameDims(v, e.out), "operand {} has dims {}, the output {}", i, DimsText(v), DimsText(e.out));
    CheckOperand(c, v, e.in_quant[i], fmt::format("operand {}", i));
  }
}

void CheckCommand(Checker &c, const isa::Lut &l) {
  c.Require(SameDims(l.in, l.out), "in has dims {}, out {}", DimsText(l.in), DimsText(l.out));
  const bool bytes = l.in.elem_bytes() == 1 && l.out.elem_bytes() == 1,
             words = l.in.dtype == DType::I16 && l.out.dtype == DType::I16;
  c.Require(bytes || words, "a table from {} to {}; 8-bit types or i16 are allowed", npuc::Name(l.in.dtype),
            npuc::Name(l.out.dtype));
  CheckVpuType(c, l.in, "in");
  CheckVpuType(c, l.out, "out");
}

void CheckCommand(Checker &c, const isa::Pool &p) {
  const auto &l = c.t.limits;
  CheckOperand(c, p.in, p.in_quant, "in");
  CheckOperand(c, p.out, p.out_quant, "out");
  c.Require(p.in.n == p.out.n && p.in.c == p.out.c, "in has dims {}, out {}", DimsText(p.in), DimsText(p.out));
  bool ok = c.Require(
      p.kernel_h >= 1 && p.kernel_h <= l.kernel_max[0] && p.kernel_w >= 1 && p.kernel_w <= l.kernel_max[1],
      "window [{},{}] is outside the limit [{},{}]", p.kernel_h, p.kernel_w, l.kernel_max[0], l.kernel_max[1]);
  ok &= c.Require(p.stride_h >= 1 && p.stride_h <= l.stride_max[0] && p.stride_w >= 1 && p.stride_w <= l.stride_max[1],
                  "strides [{},{}] are outside the limit [{},{}]", p.stride_h, p.stride_w, l.stride_max[0],
                  l.stride_max[1]);
  ok &= c.Require(p.dilation_h >= 1 && p.dilation_h <= l.dilation_max[0] && p.dilation_w >= 1 &&
                      p.dilation_w <= l.dilation_max[1],
                  "dilations [{},{}] are outside the limit [{},{}]", p.dilation_h, p.dilation_w, l.dilation_max[0],
                  l.dilation_max[1]);
  if (!ok)
    return;
  const bool counts = p.kind == isa::PoolKind::Average && p.count_include_pad;
  CheckTaps(c, "rows", p.in.h, p.out.h, p.pad_top, p.pad_bottom, p.kernel_h, p.stride_h, p.dilation_h, counts);
  CheckTaps(c, "columns", p.in.w, p.out.w, p.pad_left, p.pad_right, p.kernel_w, p.stride_w, p.dilation_w, counts);
}

void CheckCommand(Checker &c, const isa::Reduce &r) {
  CheckAxes(c, r.axes);
  CheckOperand(c, r.in, r.in_quant, "in");
  const uint32_t in[] = {r.in.n, r.in.h, r.in.w, r.in.c}, out[] = {r.out.n, r.out.h, r.out.w, r.out.c};
  for (int i = 0; i < 4; ++i)
    if (!c.Require(out[i] == (r.axes >> i & 1 ? 1 : in[i]), "out has dims {} for in {} and axes mask {}",
                   DimsText(r.out), DimsText(r.in), r.axes))
      break;
  if (r.kind == isa::ReduceKind::ArgMax || r.kind == isa::ReduceKind::ArgMin) {
    c.Require((r.axes & (r.axes - 1)) == 0, "{} over axes mask {}, one axis is allowed", isa::EnumName(r.kind), r.axes);
    c.Require(r.out.dtype == DType::I32, "indices of {}, i32 is allowed", npuc::Name(r.out.dtype));
    c.Require(!r.combine, "{} is not combined", isa::EnumName(r.kind));
    return;
  }
  CheckOperand(c, r.out, r.out_quant, "out");
  c.Require(!r.select_last, "select_last is for ArgMax and ArgMin");
  if (!r.combine)
    return;
  c.Require(r.kind == isa::ReduceKind::Sum || r.kind == isa::ReduceKind::Max || r.kind == isa::ReduceKind::Min,
            "{} is not combined", isa::EnumName(r.kind));
  // A partial sum must not be rounded on the way; extremes are exact in any type.
  c.Require(r.kind != isa::ReduceKind::Sum || r.out.dtype == DType::F32 || r.out.dtype == DType::I32,
            "a sum is combined in {}, f32 and i32 are allowed", npuc::Name(r.out.dtype));
}

void CheckCommand(Checker &c, const isa::Norm &n) {
  CheckAxes(c, n.axes);
  CheckOperand(c, n.in, n.in_quant, "in");
  CheckOperand(c, n.out, n.out_quant, "out");
  c.Require(SameDims(n.in, n.out), "in has dims {}, out {}", DimsText(n.in), DimsText(n.out));
  c.Require(n.groups >= 1 && n.in.c % std::max(1u, n.groups) == 0, "{} groups of {} channels", n.groups, n.in.c);
  c.Require(n.groups == 1 || (n.kind == isa::NormKind::Layer && (n.axes & isa::kAxisC)),
            "{} groups are for Layer over C", n.groups);
  c.Require(std::isfinite(n.epsilon) && n.epsilon >= 0, "epsilon {}", n.epsilon);
  const bool scaled = n.kind == isa::NormKind::Layer || n.kind == isa::NormKind::Rms;
  const std::pair<const View *, std::string_view> parameters[] = {{&n.gamma, "gamma"}, {&n.beta, "beta"}};
  for (const auto &[v, name] : parameters) {
    if (!v->present())
      continue;
    c.Require(scaled, "{} has {}", isa::EnumName(n.kind), name);
    c.Require(SameDims(*v, n.in), "{} has dims {}, in {}", name, DimsText(*v), DimsText(n.in));
    c.Require(v->dtype == DType::F32 || v->dtype == DType::F16, "{} of {}, f32 and f16 are allowed", name,
              npuc::Name(v->dtype));
  }
}

void CheckCommand(Checker &c, const isa::Resize &r) {
  CheckOperand(c, r.in, r.in_quant, "in");
  CheckOperand(c, r.out, r.out_quant, "out");
  c.Require(r.in.n == r.out.n && r.in.c == r.out.c, "in has dims {}, out {}", DimsText(r.in), DimsText(r.out));
  CheckSources(c, r, "rows", r.scale_h, r.in.h, r.out.h, r.in_h0, r.out_h0, r.full_in_h, r.full_out_h);
  CheckSources(c, r, "columns", r.scale_w, r.in.w, r.out.w, r.in_w0, r.out_w0, r.full_in_w, r.full_out_w);
}

} // namespace npuc::verify
