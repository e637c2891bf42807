// Packing: [OC/oc][IC/c2][KH][KW][c2][oc] (dense, per group), [C/oc][KH][KW][oc] (depthwise), lanes past the end hold
// the channel's zero point. Four-bit types lie two in a byte, the low nibble first.
#include "backend/lower/weights.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "compiler/support/half.h"
#include "compiler/support/status.h"

namespace npuc::lower {
namespace {

int32_t Code(const Tensor &t, int64_t i) {
  if (t.is_splat())
    i = 0;
  switch (t.dtype()) {
  case DType::I8:
  case DType::I4:
    return t.data<int8_t>()[i];
  case DType::U8:
  case DType::U4:
    return t.data<uint8_t>()[i];
  case DType::I16:
    return t.data<int16_t>()[i];
  case DType::F16:
    return t.data<uint16_t>()[i];
  case DType::F32:
    return FloatToHalf(t.data<float>()[i]);
  default:
    NPUC_CHECK(false, "weights of {}", Name(t.dtype()));
    return 0;
  }
}

template <class T> void Put(uint8_t *&dst, int32_t v) {
  const T x = static_cast<T>(v);
  std::memcpy(dst, &x, sizeof x);
  dst += sizeof x;
}

// `lanes` output channels of `depth` input channels each, as they lie in the tensor.
template <class T>
void PutBlock(uint8_t *&dst, const T *from, int64_t s_oc, int64_t s_ic, int64_t lanes, int64_t depth) {
  for (int64_t c = 0; c < depth; ++c)
    for (int64_t o = 0; o < lanes; ++o, dst += sizeof(T))
      std::memcpy(dst, from + o * s_oc + c * s_ic, sizeof(T));
}

} // namespace

std::optional<int32_t> UniformWeight(const WeightSource &w) {
  if (!w.tensor.is_splat() || w.merged_oc)
    return std::nullopt;
  return Code(w.tensor, 0);
}

PackWeights MakePackWeights(const MxuProblem &p, const Target &t, WeightSource w, std::vector<int32_t> zero) {
  const int64_t lanes = t.mxu.oc, c2 = p.matmul || p.mode != isa::ConvMode::Depthwise ? t.C2(p.x) : 1;
  const int bits = BitWidth(p.w);
  NPUC_CHECK(bits == 4 || bits == 8 || bits == 16, "weights of {}", Name(p.w));
  return [p, lanes, c2, bits, w = std::move(w), zero = std::move(zero)](int64_t oc0, int64_t noc, int64_t ic0,
                                                                        int64_t nic, uint8_t *dst) {
    const bool is_float = p.w == DType::F16;
    auto zw = [&](int64_t oc) { return is_float || zero.empty() ? 0 : zero.size() == 1 ? zero[0] : zero[oc]; };
    bool high = false; // the nibble that comes next
    auto put = [&](int32_t v) {
      if (bits == 8) {
        Put<uint8_t>(dst, v);
      } else if (bits == 16) {
        Put<uint16_t>(dst, v);
      } else if (high) {
        *dst++ |= static_cast<uint8_t>(v << 4);
        high = false;
      } else {
        *dst = static_cast<uint8_t>(v & 15);
        high = true;
      }
    };
    auto value = [&](int64_t oc, int64_t ic, int64_t kh, int64_t kw) -> int32_t {
      if (w.merged_oc) {
        const int64_t in_group = oc % p.group_oc(); // within the merged group
        if (in_group / w.merged_oc != ic / w.merged_ic)
          return zw(oc);
        ic %= w.merged_ic;
      }
      return Code(w.tensor, w.base + oc * w.s_oc + ic * w.s_ic + kh * w.s_kh + kw * w.s_kw);
    };
    const bool depthwise = p.mode == isa::ConvMode::Depthwise && !p.matmul;
    const int64_t group_oc = p.mode == isa::ConvMode::Grouped ? p.group_oc() : noc;
    const int64_t ics = depthwise ? 1 : nic;
    const bool as_it_lies = !w.merged_oc && !w.tensor.is_splat() && bits != 4 && ByteSize(w.tensor.dtype()) * 8 == bits;
    for (int64_t g = 0; g < noc; g += group_oc) {
      for (int64_t ob = 0; ob < group_oc; ob += lanes)
        for (int64_t ib = 0; ib < ics; ib += c2)
          for (int64_t kh = 0; kh < p.kh; ++kh)
            for (int64_t kw = 0; kw < p.kw; ++kw) {
              if (as_it_lies && ob + lanes <= group_oc && ib + c2 <= ics) {
                const int64_t at =
                    w.base + (oc0 + g + ob) * w.s_oc + (depthwise ? 0 : ic0 + ib) * w.s_ic + kh * w.s_kh + kw * w.s_kw;
                bits == 8 ? PutBlock(dst, w.tensor.data<uint8_t>() + at, w.s_oc, w.s_ic, lanes, c2)
                          : PutBlock(dst, w.tensor.data<uint16_t>() + at, w.s_oc, w.s_ic, lanes, c2);
                continue;
              }
              for (int64_t ic = ib; ic < ib + c2; ++ic)
                for (int64_t o = ob; o < ob + lanes; ++o) {
                  const int64_t oc = oc0 + g + o;
                  put(o >= group_oc ? zw(oc0 + g + group_oc - 1)
                      : ic >= ics   ? zw(oc)
                                    : value(oc, depthwise ? 0 : ic0 + ic, kh, kw));
                }
            }
      if (high) { // each group begins with a byte
        ++dst;
        high = false;
      }
    }
  };
}

PackTable MakePackTable(const MxuProblem &p, ChannelData d) {
  const bool is_float = p.acc == isa::AccType::F32;
  return [is_float, d = std::move(d)](int64_t oc0, int64_t noc, uint8_t *dst) {
    for (int64_t i = oc0; i < oc0 + noc; ++i, dst += isa::kTableEntryBytes) {
      int64_t bias = 0;
      if (is_float) {
        const float f = d.float_bias.empty() ? 0.0f : d.float_bias[i];
        std::memcpy(&bias, &f, sizeof f);
      } else if (!d.int_bias.empty()) {
        bias = d.int_bias[i];
      }
      const float scale = d.scale.size() == 1 ? d.scale[0] : d.scale[i];
      const int32_t zero = is_float || d.zero.empty() ? 0 : d.zero.size() == 1 ? d.zero[0] : d.zero[i];
      std::memcpy(dst, &bias, 8);
      std::memcpy(dst + 8, &scale, 4);
      std::memcpy(dst + 12, &zero, 4);
    }
  };
}

std::vector<float> ProductScales(float sx, llvm::ArrayRef<float> sw, std::optional<float> sy) {
  std::vector<float> r;
  for (float s : sw) {
    const float product = sx * s;
    r.push_back(sy ? product / *sy : product);
  }
  return r;
}

isa::AccType ProveAccumulator(const MxuProblem &p, const WeightSource &w, const ChannelData &d) {
  if (p.x == DType::F16)
    return isa::AccType::F32;
  if (p.x == DType::I16)
    return isa::AccType::I48;
  const int64_t max_x = std::max(IntMax(p.x) - p.in_zero, p.in_zero - IntMin(p.x));
  const int64_t ics = w.merged_ic ? w.merged_ic : p.mode == isa::ConvMode::Depthwise ? 1 : p.group_ic();
  const int64_t taps = ics * p.kh * p.kw;
  for (int64_t oc = 0; oc < p.oc; ++oc) {
    const int64_t zw = d.zero.empty() ? 0 : d.zero.size() == 1 ? d.zero[0] : d.zero[oc];
    const int64_t bias = d.int_bias.empty() ? 0 : std::abs(d.int_bias[oc]);
    auto fits = [&](int64_t sum) { // of |w - zw|
      return sum <= (std::numeric_limits<int64_t>::max() - bias) / max_x &&
             sum * max_x + bias <= std::numeric_limits<int32_t>::max();
    };
    auto distance = [&](int64_t code) { return std::abs(code - zw); };
    // Whatever the weights are; else they are counted.
    if (fits(taps * std::max(distance(IntMin(p.w)), distance(IntMax(p.w)))))
      continue;
    int64_t sum = 0;
    if (w.tensor.is_splat())
      sum = taps * distance(Code(w.tensor, 0));
    else
      for (int64_t ic = 0; ic < ics; ++ic)
        for (int64_t kh = 0; kh < p.kh; ++kh)
          for (int64_t kw = 0; kw < p.kw; ++kw)
            sum += distance(Code(w.tensor, w.base + oc * w.s_oc + ic * w.s_ic + kh * w.s_kh + kw * w.s_kw));
    if (!fits(sum))
      return isa::AccType::I48;
  }
  return isa::AccType::I32;
}

} // namespace npuc::lower
