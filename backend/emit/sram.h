// SRAM addresses for one segment's buffers.
#pragma once

#include <functional>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/target/target.h"

namespace npuc::emit {

struct SramPlan {
  bool fits = false;
  std::vector<int64_t> offsets; // by BufferId; -1 where the segment does not use the buffer
  int64_t peak = 0;
  // Where it does not fit: buffers that lie beyond the end, alive from command `first` to `last`.
  struct Misfit {
    int64_t first, last, bytes; // bytes beyond
  };
  std::vector<Misfit> misfits;
};

// `cycles(i)`: estimated time of command i on its own. With `run_ahead`, buffers of transfers stay reserved long enough
// for the transfer to overlap computation; where that does not fit, less of it.
SramPlan PlanSram(const program::Program &p, const program::NpuSegment &segment, const Target &target, bool run_ahead,
                  const std::function<double(size_t)> &cycles);

} // namespace npuc::emit
