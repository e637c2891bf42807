// Offsets for pieces of memory whose lifetimes are known in advance. Knows nothing of NPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace npuc::memory {

struct Request {
  int64_t size = 0;                            // bytes; 0 takes no space
  int64_t align = 1;                           // of the offset, > 0
  int64_t first = 0, last = 0;                 // alive at the times first .. last, both included; first <= last
  std::optional<int64_t> fixed = std::nullopt; // lies there and nowhere else
};

struct Allocation {
  bool fits = false;            // peak <= capacity and the fixed ones don't collide
  std::vector<int64_t> offsets; // one per request, valid for `peak` bytes of memory even when that is above the
                                // capacity; empty when two fixed requests collide
  int64_t peak = 0;             // end of the highest piece
  int64_t live_bytes = 0;       // most bytes alive at one time: no allocation has a lower peak (fixed offsets aside)
  int64_t live_time = 0;        // the first time at which that is so
};

// The best of several greedy orders (see allocate.cc); when the best is above the capacity, small inputs are searched
// further. The same answer for the same input. About n log n, plus the pairs of requests alive together while those are
// few.
Allocation Allocate(const std::vector<Request> &requests, int64_t capacity);

} // namespace npuc::memory
