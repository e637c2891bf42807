// Emission: a placed, laid-out Module becomes a model file. Tiles it, gives every buffer an address, derives every wait
// from the byte sets of the commands, packs the constants, and writes host steps as IR text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/container/model_file.h"
#include "backend/timing/timing.h"
#include "compiler/ir/graph.h"
#include "compiler/pass/npu_op.h"
#include "compiler/support/thread_pool.h"
#include "compiler/target/target.h"
#include "passes/tile/tile.h"

namespace npuc::emit {

struct EmitOptions {
  int opt_level = 2; // 0: nothing stays on chip between layers, nothing runs ahead
  std::map<std::string, std::pair<int64_t, int64_t>> tiles; // --tile, see tile::TileOptions
};

// One row per NPU layer, in order; index = container::Layer::id.
struct LayerInfo {
  const Node *node = nullptr; // the IR node (may be a Fused); lives as long as the Module
  int64_t tiles = 0;          // compute commands
  int64_t commands = 0;
  Dims ifm, ofm; // of the whole layer where `node` computes some of its rows; else empty
};

struct HostStepInfo {
  std::vector<const Node *> nodes;
};

struct EmitResult {
  container::ModelFile file;
  std::vector<LayerInfo> layers;
  std::vector<HostStepInfo> host_steps;    // in order of the host steps among file.steps
  std::vector<timing::Timeline> timelines; // one per NPU step, in order
  int64_t sram_peak = 0;                   // bytes
};

// Changes the module by MakeOutputsOwn and SplitRows. Errors: with node context.
StatusOr<EmitResult> Emit(Module &m, const NpuOps &npu, const Target &target, const EmitOptions &options);

} // namespace npuc::emit
