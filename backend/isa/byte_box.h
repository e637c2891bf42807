// The exact set of bytes of a view, as at most three strided boxes: the first, the whole and the last channel blocks.
// Verification, wait derivation and the byte counts of the timing model all reason on these instead of on elements.
#pragma once

#include <array>
#include <cstdint>

#include "backend/isa/view.h"
#include "llvm/ADT/SmallVector.h"

namespace npuc::isa {

// Runs of `run` bytes at base + sum(i_k * stride_k), 0 <= i_k < count_k.
struct ByteBox {
  struct Dim {
    int64_t count, stride;
    bool operator==(const Dim &) const = default;
  };
  int64_t base = 0;
  int64_t run = 0; // > 0
  int num_dims = 0;
  std::array<Dim, 4> dims{}; // outermost first

  void Add(int64_t count, int64_t stride) { dims[num_dims++] = {count, stride}; }
  // At most 2^62.
  int64_t NumRuns() const {
    int64_t k = 1;
    for (int i = 0; i < num_dims; ++i)
      if (__builtin_mul_overflow(k, dims[i].count, &k) || k > int64_t{1} << 62)
        return int64_t{1} << 62;
    return k;
  }
  ByteRange Bounds() const {
    ByteRange r{base, base + run};
    for (int i = 0; i < num_dims; ++i) {
      const int64_t d = (dims[i].count - 1) * dims[i].stride;
      (d < 0 ? r.lo : r.hi) += d;
    }
    return r;
  }
  // As a set: no dims of extent 1 or stride 0, strides positive and descending, adjacent runs merged into longer ones,
  // dims that continue each other merged. The same bytes, in the fewest runs that this finds.
  void Normalise();
  // Calls fn(lo, hi) for each run, in nest order.
  template <class F> void ForEachRun(F &&fn) const { Walk(0, base, fn); }

private:
  template <class F> void Walk(int d, int64_t at, F &fn) const {
    if (d == num_dims) {
      fn(at, at + run);
      return;
    }
    for (int64_t i = 0; i < dims[d].count; ++i)
      Walk(d + 1, at + i * dims[d].stride, fn);
  }
};
using ByteBoxes = llvm::SmallVector<ByteBox, 3>;

// Boxes of the elements (and Fill lanes), dims in the order n, block, h, w as the view has them, not normalised;
// offsets within the region. Dims must be positive, c0 < c_block and the arithmetic must fit 63 bits (the verifier
// proves it before it asks).
ByteBoxes ByteBoxesOf(const View &v);
// Normalised, for sets.
ByteBoxes ByteSetOf(const View &v);

// Whether two sets share a byte; both normalised. Exact; cheap for nested boxes, whatever their number of runs.
bool Overlaps(const ByteBox &a, const ByteBox &b);
// Whether the box meets [lo, hi).
bool Overlaps(const ByteBox &a, int64_t lo, int64_t hi);
// Whether two different elements of the view share a byte.
bool AliasesItself(const View &v);

} // namespace npuc::isa
