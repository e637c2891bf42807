// Delta debugging: the core of npu-reduce and of pass bisection.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace npuc {

struct DeltaOptions {
  size_t max_tests = 100000; // stop after so many and return the best so far
};

struct DeltaResult {
  std::vector<size_t> kept; // ascending
  size_t tests = 0;         // calls made
  bool minimal = true;      // no single index can go; false when max_tests ended the search
};

// The ddmin algorithm (Zeller and Hildebrandt, 2002): a subset of {0 .. n-1} that `interesting` still accepts and of
// which no single index can be left out. `interesting` must accept the whole set (checked by the first call; if it does
// not, the whole set comes back with minimal = false). Each subset is tried once; the order is deterministic. Cost:
// about k log n calls when k indices matter and the others do not, at worst n^2.
DeltaResult DeltaMinimise(size_t n, const std::function<bool(const std::vector<size_t> &kept)> &interesting,
                          const DeltaOptions &options = {});

// The least k in [0, n] for which bad(k), given bad(n) and that bad is false before and true after: binary search, n +
// 1 if not even bad(n). For "after which pass, at which rewrite does it break".
size_t FirstBad(size_t n, const std::function<bool(size_t)> &bad);

} // namespace npuc
