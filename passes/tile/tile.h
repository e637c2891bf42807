// Tiling: from a partitioned, laid-out graph to a Program of commands on symbolic buffers.
#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/pass/npu_op.h"
#include "compiler/program/program.h"
#include "compiler/target/target.h"

namespace npuc::tile {

struct TileOptions {
  // Share of SRAM that resident tensors and tiles plan with. Emission retries with less when fragments don't fit.
  double sram_share = 1.0;
  bool keep_on_chip = true; // -O0: every tensor goes through DDR
};

// Inserts copies where a model output cannot be written in place: outputs that are inputs, constants, or returned
// twice. Returns whether it changed the graph. Copies carry no origin.
bool MakeOutputsOwn(Module &m);

// Every node is placed. Errors: what lowerings report, with node context (E0405: a tile does not fit).
StatusOr<program::Program> TileModule(Module &m, const NpuOps &npu, const Target &target, const TileOptions &options);

} // namespace npuc::tile
