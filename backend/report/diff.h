// What changed from one report to another.
#pragma once

#include <string>
#include <vector>

#include "backend/report/gates.h"
#include "backend/report/report.h"

namespace npuc::report {

struct NodeChange {
  std::string id, op;
  std::string before, after;   // verdicts; "" where the node does not exist
  std::vector<Reason> reasons; // of the newer one
};

struct FigureChange {
  std::string key; // "performance.cycles"
  double before = 0, after = 0;
  bool worse = false; // grew where less is better, or shrank where more is
};

struct Diff {
  std::vector<NodeChange> nodes;        // verdicts that differ, in the order of the newer report, then removed ones
  std::vector<FigureChange> figures;    // that differ
  std::vector<std::string> regressions; // a node left the NPU; cycles, DDR bytes or SRAM grew beyond the tolerance
};

Diff Compare(const Report &before, const Report &after, const Tolerances &tolerances = {});
// For a terminal.
std::string RenderDiff(const Diff &diff);

} // namespace npuc::report
