// Tiling: from a partitioned, laid-out graph to a Program of commands on symbolic buffers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/pass/npu_op.h"
#include "compiler/program/program.h"
#include "compiler/target/target.h"
#include "passes/tile/split_rows.h"

namespace npuc::tile {

struct TileOptions {
  const RowParts *parts = nullptr; // layers that are computed in stripes
  bool keep_on_chip = true;        // -O0: every tensor goes through DDR
  // By position in the order of all nodes; empty: none. Emission asks again where fragments don't fit.
  std::vector<int64_t> withheld; // bytes of SRAM that residents and tiles do without
  std::vector<bool> alone;       // no tensor stays on chip beside the node's own tiles
  // --tile: by the id of an ONNX node of the layer, rows and columns of one command's output. In NHWC layers those of
  // the picture; in row-major ones the axes before the last. E0520 where it cannot be.
  std::map<std::string, std::pair<int64_t, int64_t>> tiles;
};

// Inserts copies where a model output cannot be written in place: outputs that are inputs, constants, or returned
// twice. Returns whether it changed the graph. Copies carry no origin.
bool MakeOutputsOwn(Module &m);

// Every node is placed. Errors: what lowerings report, with node context (E0405: a tile does not fit); `failed` is then
// the node's position.
StatusOr<program::Program> TileModule(Module &m, const NpuOps &npu, const Target &target, const TileOptions &options,
                                      size_t *failed = nullptr);

} // namespace npuc::tile
