// The gate flags that npuc and npu-report check share.
#pragma once

#include "backend/report/gates.h"
#include "tools/common/flags.h"

namespace npuc::cli {

inline void AddGateFlags(CLI::App &app, report::Gates &gates) {
  const char *group = "Gates (exit code 3)";
  app.add_option("--min-coverage", gates.min_coverage, "Least share of nodes on the NPU, in percent")
      ->type_name("PCT")
      ->check(Number(0, 100))
      ->group(group);
  app.add_option("--min-mac-coverage", gates.min_mac_coverage, "Least share of MACs on the NPU, in percent")
      ->type_name("PCT")
      ->check(Number(0, 100))
      ->group(group);
  app.add_flag("--fail-on-fallback", gates.fail_on_fallback, "No node may run on the host")->group(group);
  app.add_option("--max-cycles", gates.max_cycles, "Most modelled cycles")
      ->type_name("N")
      ->check(Number(0))
      ->group(group);
  app.add_option("--max-sram", gates.max_sram, "Most SRAM in use, in bytes")
      ->type_name("BYTES")
      ->check(Number(0))
      ->group(group);
  app.add_option("--max-ddr", gates.max_ddr, "Most DDR traffic of one inference, read and written, in bytes")
      ->type_name("BYTES")
      ->check(Number(0))
      ->group(group);
  app.add_option("--min-cosine", gates.min_cosine,
                 "Least cosine of the binary's outputs against the float model's on the calibration samples")
      ->type_name("X")
      ->check(Number(-1, 1))
      ->group(group);
  app.add_option("--baseline", gates.baseline,
                 "An older report: no node may leave the NPU; cycles, DDR bytes and SRAM may not grow")
      ->type_name("OLD.report.json")
      ->group(group);
  AddRepeatable(app, "--tolerance", gates.tolerances,
                "How much cycles, ddr_bytes or sram may grow over the baseline, in percent")
      ->type_name("KEY=PCT")
      ->group(group);
}

} // namespace npuc::cli
