// Gates: conditions on a report that CI asks for. npuc checks them after it has written its files, npu-report check on
// a stored report; a failed gate is exit code 3.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/report/report.h"
#include "compiler/support/status.h"

namespace npuc::report {

struct Gates {
  std::optional<double> min_coverage;     // percent of nodes, coverage.node_percent
  std::optional<double> min_mac_coverage; // percent of MACs, coverage.mac_percent
  bool fail_on_fallback = false;          // any host node
  std::optional<int64_t> max_cycles;      // performance.cycles
  std::optional<int64_t> max_sram;        // bytes, memory.sram_peak
  std::optional<int64_t> max_ddr;         // bytes moved in one inference, read and written
  std::optional<double> min_cosine;       // quantization.cosine
  std::string baseline;                   // path of an older report
  std::vector<std::string> tolerances;    // KEY=PCT, with or without '%'; KEY: cycles, ddr_bytes, sram

  bool any() const {
    return min_coverage || min_mac_coverage || fail_on_fallback || max_cycles || max_sram || max_ddr || min_cosine ||
           !baseline.empty();
  }
};

// How much a figure may grow over the baseline, in percent.
struct Tolerances {
  double cycles = 0, ddr_bytes = 0, sram = 0;
};
// Errors: E0501 (no '=', unknown key, not a number from 0 on), with the keys that exist.
StatusOr<Tolerances> ParseTolerances(const std::vector<std::string> &items);

// One row a gate that was asked for, in the order of the struct. `baseline` is the report that gates.baseline names,
// null if it names none.
std::vector<GateRow> CheckGates(const Report &report, const Gates &gates, const Report *baseline,
                                const Tolerances &tolerances);
// Whether a stored report has what the gates look at: E0501 for min_cosine where the compilation did not measure it.
Status CheckMeasured(const Report &report, const Gates &gates);
bool AllPassed(const std::vector<GateRow> &rows);

} // namespace npuc::report
