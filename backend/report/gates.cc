#include "backend/report/gates.h"

#include <charconv>

#include "backend/report/diff.h"
#include "compiler/support/diagnostic.h"

namespace npuc::report {

StatusOr<Tolerances> ParseTolerances(const std::vector<std::string> &items) {
  Tolerances t;
  for (const std::string &item : items) {
    const size_t eq = item.find('=');
    const std::string key = item.substr(0, eq);
    double *slot = key == "cycles" ? &t.cycles : key == "ddr_bytes" ? &t.ddr_bytes : key == "sram" ? &t.sram : nullptr;
    if (eq == std::string::npos || !slot)
      return Error("E0501", fmt::format("--tolerance {}: not KEY=PCT with a known key", item),
                   "the keys are cycles, ddr_bytes and sram: --tolerance cycles=2.5%");
    const char *end = item.data() + item.size() - (item.back() == '%');
    auto [stop, error] = std::from_chars(item.data() + eq + 1, end, *slot);
    if (error != std::errc() || stop != end || !(*slot >= 0))
      return Error("E0501",
                   fmt::format("--tolerance {}: '{}' is not a percentage from 0 on", item, item.substr(eq + 1)),
                   "for example --tolerance cycles=2.5%");
  }
  return t;
}

std::vector<GateRow> CheckGates(const Report &report, const Gates &gates, const Report *baseline,
                                const Tolerances &tolerances) {
  std::vector<GateRow> rows;
  auto at_least = [&](const char *gate, const char *what, std::optional<double> want, double have) {
    if (want)
      rows.push_back(
          {gate, have >= *want, fmt::format("{} is {:.6g}, at least {:.6g} is asked for", what, have, *want)});
  };
  auto at_most = [&](const char *gate, const char *what, std::optional<int64_t> want, int64_t have) {
    if (want)
      rows.push_back({gate, have <= *want, fmt::format("{} is {}, at most {} is asked for", what, have, *want)});
  };
  at_least("min-coverage", "node coverage (percent)", gates.min_coverage, report.coverage.node_percent);
  at_least("min-mac-coverage", "MAC coverage (percent)", gates.min_mac_coverage, report.coverage.mac_percent);
  if (gates.fail_on_fallback) {
    GateRow row{"fail-on-fallback", report.coverage.nodes_host == 0, "no node runs on the host"};
    if (!row.passed) {
      row.message =
          fmt::format("{} of {} nodes run on the host", report.coverage.nodes_host, report.coverage.nodes_total);
      for (const NodeRow &node : report.nodes)
        if (node.verdict == "host") {
          row.message += fmt::format("; the first is '{}' ({})", node.id, node.op);
          if (!node.reasons.empty())
            row.message += ": " + node.reasons[0].message;
          break;
        }
    }
    rows.push_back(row);
  }
  at_most("max-cycles", "cycles", gates.max_cycles, report.performance.cycles);
  at_most("max-sram", "SRAM peak (bytes)", gates.max_sram, report.memory.sram_peak);
  at_most("max-ddr", "DDR traffic (bytes)", gates.max_ddr,
          report.performance.ddr_read_bytes + report.performance.ddr_write_bytes);
  at_least("min-cosine", "cosine against the float reference", gates.min_cosine, report.quantization.cosine);
  if (baseline) {
    const Diff diff = Compare(*baseline, report, tolerances);
    std::string message = fmt::format("no worse than {}", gates.baseline);
    for (size_t i = 0; i < diff.regressions.size(); ++i)
      message = (i ? message + "; " : std::string()) + diff.regressions[i];
    rows.push_back({"baseline", diff.regressions.empty(), message});
  }
  return rows;
}

Status CheckMeasured(const Report &report, const Gates &gates) {
  if (!gates.min_cosine)
    return OkStatus();
  for (const GateRow &row : report.gates)
    if (row.gate == "min-cosine")
      return OkStatus();
  return Error("E0501", "--min-cosine: the report has no cosine, it was written without measuring one",
               "compile with --calib PATH and --min-cosine X, which runs the binary on the samples");
}

bool AllPassed(const std::vector<GateRow> &rows) {
  for (const GateRow &row : rows)
    if (!row.passed)
      return false;
  return true;
}

} // namespace npuc::report
