// The modelled profile of a model: what the timing model says, per model and per layer. It depends on nothing but the
// file.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/timing/layers.h"
#include "runtime_stub/model.h"

namespace npuc::runtime {

struct Profile {
  int64_t cycles = 0;      // NPU segments one after another
  double milliseconds = 0; // at the target's clock
  std::array<double, isa::kNumEngines> busy_share{};
  int64_t ddr_read_bytes = 0, ddr_write_bytes = 0, stream_bytes = 0, sram_bytes = 0, macs = 0;
  size_t npu_steps = 0, host_steps = 0, commands = 0;
  std::vector<timing::LayerTime> layers; // as ModelFile::layers
  std::vector<int64_t> layer_cycles;
};
Profile ModelledProfile(const Model &model);

// JSON of `--profile`: model, engines, layers, and the host steps with `step_seconds` (per step, empty: not run) as
// measured times.
std::string ProfileJson(const Model &model, const std::vector<double> &step_seconds);
// Chrome trace-event JSON: one track an engine, one event a command, named by layer; opens in Perfetto and
// chrome://tracing. Host steps stand between segments with their measured times.
std::string TraceJson(const Model &model, const std::vector<double> &step_seconds);

} // namespace npuc::runtime
