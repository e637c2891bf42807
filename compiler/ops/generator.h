// The product's random numbers: a counter, so that they depend on neither threads nor order (see random.cc).
#pragma once

#include <cmath>
#include <cstring>

#include "compiler/ir/graph.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {

class Generator {
public:
  explicit Generator(EvalContext &ctx) {
    if (const Attribute *seed = ctx.attrs().Find("seed")) { // Dropout's is an int, the others' a float
      if (const int64_t *whole = std::get_if<int64_t>(seed)) {
        seed_ = static_cast<uint64_t>(*whole);
      } else {
        uint32_t bits;
        const float f = ctx.attrs().Float("seed", 0);
        std::memcpy(&bits, &f, sizeof bits);
        seed_ = bits;
      }
    } else {
      seed_ = 0xcbf29ce484222325u;
      if (ctx.num_results())
        for (char c : ctx.node().result()->name())
          seed_ = (seed_ ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    }
    seed_ = Mix(seed_);
  }
  // In [0, 1).
  double Uniform(uint64_t i) const { return static_cast<double>(Mix(seed_ + i * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53; }
  double Normal(uint64_t i) const {
    const double u = 1 - Uniform(2 * i), v = Uniform(2 * i + 1);
    return std::sqrt(-2 * fpmath::Log(u)) * fpmath::Cos(6.283185307179586 * v);
  }

private:
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t seed_;
};

} // namespace npuc::ops
