// The order of f32 reductions, that of compiler/ops/reduce_math.h, on lines: element i goes into partial sum i mod 16,
// then neighbours meet:
// ((p0+p1)+(p2+p3))+...
#pragma once

#include <cstdint>

#include "runtime_stub/kernels.h"

namespace npuc::runtime {

class Partials {
public:
  explicit Partials(float start = 0) {
    for (float &v : p_)
      v = start;
  }
  // The next n elements.
  void Add(const float *v, int64_t n) {
    int64_t i = 0;
    for (; i < n && at_ != 0; ++i)
      Next(v[i]);
    for (; i + 16 <= n; i += 16)
      for (int l = 0; l < 16; ++l)
        p_[l] = p_[l] + v[i + l];
    for (; i < n; ++i)
      Next(v[i]);
  }
  void Multiply(const float *v, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      p_[at_] = p_[at_] * v[i], at_ = (at_ + 1) & 15;
  }
  float Sum() const {
    return Tree([](float a, float b) { return a + b; });
  }
  float Product() const {
    return Tree([](float a, float b) { return a * b; });
  }

private:
  void Next(float v) { p_[at_] = p_[at_] + v, at_ = (at_ + 1) & 15; }
  template <class F> float Tree(F f) const {
    float t[16];
    for (int i = 0; i < 16; ++i)
      t[i] = p_[i];
    for (int width = 1; width < 16; width *= 2)
      for (int i = 0; i < 16; i += 2 * width)
        t[i] = f(t[i], t[i + width]);
    return t[0];
  }
  float p_[16];
  int at_ = 0;
};

} // namespace npuc::runtime
