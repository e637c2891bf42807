// What each source layer takes: the one attribution that the report, npu-run --profile and the C API share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/timing/timing.h"

namespace npuc::timing {

inline constexpr size_t kNumBounds = 9;

struct LayerTime {
  // By how much the layer's commands move the end of everything before them in stream order: sums to the timeline's
  // total. A layer that runs entirely in the shadow of earlier ones has 0.
  Units units = 0;
  std::array<Units, isa::kNumEngines> busy{}; // sum of end - start of its commands
  int64_t commands = 0;
  int64_t ddr_read_bytes = 0, ddr_write_bytes = 0, stream_bytes = 0, sram_bytes = 0, macs = 0;
  // `units` by what the command that moved the end waited for last; index: Bound.
  std::array<Units, kNumBounds> bound{};
  Units array = 0; // time in which the MAC array steps: `macs` and what it multiplies with padding lanes
};

// Adds the commands of one segment to `layers`, which is as long as the model has layers. Commands of other layer ids
// are left out.
void AddLayerTimes(const isa::Stream &s, const Timeline &t, const Target &target, std::vector<LayerTime> *layers);

// Time in which the MAC array steps for a CONV or MATMUL, without issue, fill, output stage and weights; 0 for others.
Units ArrayTime(const isa::Command &c, const Target &t);

// Whole cycles per layer whose sum is CyclesCeil of the sum of units.
std::vector<int64_t> LayerCycles(const std::vector<LayerTime> &layers);

} // namespace npuc::timing
