// The parts of BuildReport that look at the streams and their simulated times.
#pragma once

#include <array>
#include <vector>

#include "backend/emit/emit.h"
#include "backend/report/report.h"
#include "backend/timing/layers.h"
#include "compiler/target/target.h"

namespace npuc::report {

struct StreamCosts {
  int64_t cycles = 0;                                              // of all segments, each rounded up
  std::vector<timing::LayerTime> layers;                           // by layer id
  std::vector<int64_t> layer_cycles;                               // add up to `cycles` but for that rounding
  int64_t sram_bytes = 0, ddr_read_bytes = 0, ddr_write_bytes = 0; // fetching the streams counts as reading
  std::array<double, isa::kNumEngines> busy{};                     // share of all cycles
};
StreamCosts CostsOf(const emit::EmitResult &emitted, const Target &target);

// NPU tensors that lie in DDR when their layer ends and that no host step reads or writes, the largest first.
std::vector<SpilledTensor> SpilledOf(const container::ModelFile &file);

// Mean over peak of timeline.mac; 0 without MACs.
double Flatness(const Timeline &timeline);

// At most a few thousand spans; short ones are merged in long timelines.
Timeline TimelineOf(const emit::EmitResult &emitted, const Target &target);

} // namespace npuc::report
