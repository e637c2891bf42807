// What copies cost by the runs that are contiguous on both of their sides. Internal to timing.
#pragma once

#include <cstdint>

#include "backend/isa/view.h"
#include "compiler/target/target.h"

namespace npuc::timing {

inline constexpr int64_t kSramGranule = 16;
// Copies whose longest common run is shorter go element by element through the rearrange unit.
inline constexpr int64_t kRearrangeBelow = 16;

struct CommonRuns {
  int64_t longest = 0;                        // elements
  int64_t src_granules = 0, dst_granules = 0; // bytes of all runs, each rounded up to 16, on either side
};
// Dims of the views are equal.
CommonRuns CommonRunsOf(const isa::View &src, const isa::View &dst);

int64_t RangeDdrBytes(int64_t offset, int64_t bytes, const Target &t);
// `rows` rows of a table, which ones is not known.
int64_t RowsDdrBytes(int64_t rows, int64_t row_bytes, int64_t offset, int64_t stride, const Target &t);

} // namespace npuc::timing
