// The order in which the product sums floats: 16 partial sums, element i into sum i mod 16, then a pairwise tree of
// neighbours
// ((s0+s1)+(s2+s3))+... . One definition for interpreter and executor; it vectorises and keeps the error small.
#pragma once

#include <cstdint>

namespace npuc {

template <class Acc> class PartialSums {
public:
  // Element number i of the reduction.
  void Add(int64_t i, Acc v) { s_[i & 15] += v; }
  Acc Total() const {
    Acc t[16];
    for (int k = 0; k < 16; ++k)
      t[k] = s_[k];
    for (int w = 1; w < 16; w *= 2)
      for (int k = 0; k < 16; k += 2 * w)
        t[k] += t[k + w];
    return t[0];
  }

private:
  Acc s_[16] = {};
};

// sum of f(i), i in [0, n)
template <class Acc, class F> inline Acc SumOf(int64_t n, F &&f) {
  PartialSums<Acc> s;
  for (int64_t i = 0; i < n; ++i)
    s.Add(i, f(i));
  return s.Total();
}

} // namespace npuc
