// NORM. Each normalised set of elements is gathered into one dense f32 line in the order n, h, w, c, computed, and
// scattered:
//   softmax:     m = max; e = exp(x - m); y = e / sum(e)                 log-softmax: (x - m) - log(sum(e))
//   layer:       d = x - sum(x)/count; y = d * (1 / sqrt(sum(d*d)/count + eps)) * gamma + beta
//   RMS:         y = x * (1 / sqrt(sum(x*x)/count + eps)) * gamma + beta
// Sums in 16 partials (partials.h). Cost: a few passes over the elements; sets with C inside are lines already, sets
// without C go through a transposition of 16 channels.
#include <algorithm>
#include <vector>

#include "compiler/ops/scalar_math.h"
#include "compiler/support/fpmath_array.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/partials.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {
namespace {

using isa::Norm;
using isa::NormKind;
using isa::View;

// v in place; gamma and beta: one per element, null for 1 and 0. `t`: scratch of n.
void Normalise(const Norm &c, float *v, float *t, int64_t n, const float *gamma, const float *beta) {
  const float count = static_cast<float>(n);
  Partials sum;
  if (c.kind == NormKind::Softmax || c.kind == NormKind::LogSoftmax) {
    float m = v[0];
    for (int64_t i = 1; i < n; ++i)
      m = scalar::Max(m, v[i]);
    for (int64_t i = 0; i < n; ++i)
      v[i] = v[i] - m;
    fpmath::Map(fpmath::Unary::Exp, v, t, n);
    sum.Add(t, n);
    const float s = sum.Sum();
    if (c.kind == NormKind::Softmax) {
      for (int64_t i = 0; i < n; ++i)
        v[i] = t[i] / s;
    } else {
      const float log = fpmath::Log(s);
      for (int64_t i = 0; i < n; ++i)
        v[i] = v[i] - log;
    }
    return;
  }
  if (c.kind == NormKind::Layer) {
    sum.Add(v, n);
    const float mean = sum.Sum() / count;
    for (int64_t i = 0; i < n; ++i)
      v[i] = v[i] - mean;
  }
  for (int64_t i = 0; i < n; ++i)
    t[i] = v[i] * v[i];
  Partials squares;
  squares.Add(t, n);
  const float inverse = 1.0f / fpmath::Sqrt(squares.Sum() / count + c.epsilon);
  for (int64_t i = 0; i < n; ++i)
    v[i] = v[i] * inverse;
  if (gamma)
    for (int64_t i = 0; i < n; ++i)
      v[i] = v[i] * gamma[i];
  if (beta)
    for (int64_t i = 0; i < n; ++i)
      v[i] = v[i] + beta[i];
}

// The sets: an outer position (n, h, w, channel range), and the extents that one set spans.
struct Sets {
  bool n, h, w, c;       // axes
  int64_t group, groups; // channels of a set when c; sets along C
  int64_t en, eh, ew;    // extents of a set
  int64_t on, oh, ow;    // sets along each other axis
};
Sets SetsOf(const Norm &c) {
  Sets s;
  s.n = c.axes & isa::kAxisN, s.h = c.axes & isa::kAxisH, s.w = c.axes & isa::kAxisW, s.c = c.axes & isa::kAxisC;
  s.groups = s.c ? c.groups : 1;
  s.group = c.in.c / s.groups;
  s.en = s.n ? c.in.n : 1, s.eh = s.h ? c.in.h : 1, s.ew = s.w ? c.in.w : 1;
  s.on = s.n ? 1 : c.in.n, s.oh = s.h ? 1 : c.in.h, s.ow = s.w ? 1 : c.in.w;
  return s;
}

void Reference(const Norm &c, const Context &x) {
  const Memory &m = x.memory;
  const Sets s = SetsOf(c);
  const int64_t along_c = s.c ? s.groups : c.in.c, lanes = s.c ? s.group : 1;
  for (int64_t n = 0; n < s.on; ++n)
    for (int64_t h = 0; h < s.oh; ++h)
      for (int64_t w = 0; w < s.ow; ++w)
        for (int64_t k = 0; k < along_c; ++k) {
          std::vector<float> v, gamma, beta;
          const auto each = [&](auto fn) {
            for (int64_t a = 0; a < s.en; ++a)
              for (int64_t b = 0; b < s.eh; ++b)
                for (int64_t d = 0; d < s.ew; ++d)
                  for (int64_t e = 0; e < lanes; ++e)
                    fn(n + a, h + b, w + d, k * lanes + e);
          };
          each([&](int64_t a, int64_t b, int64_t d, int64_t e) {
            v.push_back(ReadReal(m, c.in, c.in_quant, a, b, d, e));
            if (c.gamma.present())
              gamma.push_back(ReadReal(m, c.gamma, {}, a, b, d, e));
            if (c.beta.present())
              beta.push_back(ReadReal(m, c.beta, {}, a, b, d, e));
          });
          std::vector<float> t(v.size());
          Normalise(c, v.data(), t.data(), static_cast<int64_t>(v.size()), gamma.empty() ? nullptr : gamma.data(),
                    beta.empty() ? nullptr : beta.data());
          size_t i = 0;
          each([&](int64_t a, int64_t b, int64_t d, int64_t e) {
            WriteReal(m.At(c.out, a, b, d, e), c.out.dtype, c.out_quant, v[i++]);
          });
        }
}

void Fast(const Norm &c, const Context &x) {
  const Memory &m = x.memory;
  const Sets s = SetsOf(c);
  const int64_t piece = s.c ? s.group : std::min<int64_t>(16, c.in.c);
  const int64_t along_c = (c.in.c + piece - 1) / piece, units = s.on * s.oh * s.ow * along_c,
                positions = s.en * s.eh * s.ew;
  x.ParallelFor(
      units, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, positions * piece)), [&](int64_t begin, int64_t end) {
        std::vector<float> v(positions * piece), t(positions * piece), gamma(c.gamma.present() ? positions * piece : 0),
            beta(c.beta.present() ? positions * piece : 0);
        std::vector<float> cv, cg, cb;
        if (!s.c)
          cv.resize(positions), cg.resize(positions), cb.resize(positions);
        for (int64_t u = begin; u < end; ++u) {
          const int64_t c0 = u % along_c * piece, lanes = std::min(piece, c.in.c - c0);
          const int64_t w = u / along_c % s.ow, h = u / (along_c * s.ow) % s.oh, n = u / (along_c * s.ow * s.oh);
          const auto part = [&](const View &view) { return view.Sub(0, 0, 0, c0, view.n, view.h, view.w, lanes); };
          const auto each_row = [&](auto fn) {
            for (int64_t a = 0, at = 0; a < s.en; ++a)
              for (int64_t b = 0; b < s.eh; ++b, at += s.ew * lanes)
                fn(n + a, h + b, at);
          };
          const auto load = [&](const View &view, isa::Quant q, float *to) {
            const View p = part(view);
            each_row([&](int64_t a, int64_t b, int64_t at) { LoadReal(m, p, q, a, b, w, s.ew, to + at, lanes); });
          };
          load(c.in, c.in_quant, v.data());
          if (c.gamma.present())
            load(c.gamma, {}, gamma.data());
          if (c.beta.present())
            load(c.beta, {}, beta.data());
          if (s.c) {
            Normalise(c, v.data(), t.data(), positions * lanes, gamma.empty() ? nullptr : gamma.data(),
                      beta.empty() ? nullptr : beta.data());
          } else {
            for (int64_t l = 0; l < lanes; ++l) {
              for (int64_t i = 0; i < positions; ++i)
                cv[i] = v[i * lanes + l];
              if (!gamma.empty())
                for (int64_t i = 0; i < positions; ++i)
                  cg[i] = gamma[i * lanes + l];
              if (!beta.empty())
                for (int64_t i = 0; i < positions; ++i)
                  cb[i] = beta[i * lanes + l];
              Normalise(c, cv.data(), t.data(), positions, gamma.empty() ? nullptr : cg.data(),
                        beta.empty() ? nullptr : cb.data());
              for (int64_t i = 0; i < positions; ++i)
                v[i * lanes + l] = cv[i];
            }
          }
          const View out = part(c.out);
          each_row([&](int64_t a, int64_t b, int64_t at) {
            StoreReal(m, out, c.out_quant, true, a, b, w, s.ew, v.data() + at, lanes);
          });
        }
      });
}

} // namespace

void ExecuteNorm(const Norm &c, const Context &x) {
  if (c.in.elements() == 0)
    return;
  if (x.reference)
    Reference(c, x);
  else
    Fast(c, x);
  FillTail(x.memory, c.out);
}

} // namespace npuc::runtime
