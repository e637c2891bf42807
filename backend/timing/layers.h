// What each source layer takes: the one attribution that the report, npu-run --profile and the C API share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/timing/timing.h"

namespace npuc::timing {

struct LayerTime {
  // By how much the layer's commands move the end of everything before them in stream order: sums to the timeline's
  // total. A layer that runs entirely in the shadow of earlier ones has 0.
  Units units = 0;
  std::array<Units, isa::kNumEngines> busy{}; // sum of end - start of its commands
  int64_t commands = 0;
  int64_t ddr_read_bytes = 0, ddr_write_bytes = 0, stream_bytes = 0, sram_bytes = 0, macs = 0;
};

// Adds the commands of one segment to `layers`, which is as long as the model has layers. Commands of other layer ids
// are left out.
void AddLayerTimes(const isa::Stream &s, const Timeline &t, const Target &target, std::vector<LayerTime> *layers);

// Whole cycles per layer whose sum is CyclesCeil of the sum of units.
std::vector<int64_t> LayerCycles(const std::vector<LayerTime> &layers);

} // namespace npuc::timing
