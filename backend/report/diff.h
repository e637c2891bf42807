// What changed from one report to another.
#pragma once

#include <string>
#include <vector>

#include "backend/report/gates.h"
#include "backend/report/report.h"

namespace npuc::report {

// What was compiled, and how: "target.name", "target.sram_bytes", "options.deny-node", "model.sha256".
struct SetupChange {
  std::string key, before, after; // "" where it was not given
};

struct NodeChange {
  std::string id, op;
  std::string before, after;   // verdicts; "" where the node does not exist; the same: host nodes with other reasons
  std::vector<Reason> reasons; // of the newer one
};

struct FigureChange {
  std::string key; // "performance.cycles"
  double before = 0, after = 0;
  bool worse = false; // grew where less is better, or shrank where more is
};

// Layers that stand for the same ONNX nodes, or for some of the same. What is compared: operator, dtype, cycles, DDR
// bytes and tiles.
struct LayerChange {
  std::string name;                // of the newer one, where there is one
  std::string op_before, op_after; // "" where the layer does not exist
  std::string dtype_before, dtype_after;
  int64_t cycles_before = 0, cycles_after = 0;
  int64_t ddr_before = 0, ddr_after = 0; // bytes read and written
  int64_t tiles_before = 0, tiles_after = 0;
};

struct Diff {
  std::vector<SetupChange> setup;                          // in the order of the report's keys
  std::vector<NodeChange> nodes;                           // in the order of the newer report, then removed ones
  std::vector<std::pair<std::string, int64_t>> precisions; // "f16 -> i8": nodes that stayed on the NPU
  std::vector<LayerChange> layers;                         // in the order of the newer report, then removed ones
  std::vector<FigureChange> figures;                       // that differ
  std::vector<std::string> regressions; // a node left the NPU; cycles, DDR bytes or SRAM grew beyond the tolerance

  bool empty() const {
    return setup.empty() && nodes.empty() && precisions.empty() && layers.empty() && figures.empty();
  }
};

Diff Compare(const Report &before, const Report &after, const Tolerances &tolerances = {});
// For a terminal: everything but layers, of which the `most_layers` with the greatest change of cycles are shown.
std::string RenderDiff(const Diff &diff, size_t most_layers = 20);
// The same for a CI step summary or a merge request's comment.
std::string RenderDiffMarkdown(const Diff &diff, size_t most_layers = 20);

} // namespace npuc::report
