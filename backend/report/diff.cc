// Node by node by id, figure by figure by key.
//
// A regression is what the baseline gate fails on: a node that was on the NPU and now runs on the host (a node that
// became `eliminated` or vanished did not leave the NPU for the worse), or cycles, DDR bytes or SRAM grown beyond the
// tolerance. Other figures are shown, not judged.
#include "backend/report/diff.h"

#include "llvm/ADT/StringMap.h"

namespace npuc::report {
namespace {

enum class Better { More, Less };

struct Figure {
  const char *key;
  double (*get)(const Report &);
  Better better;
};

double DdrBytes(const Report &r) {
  return static_cast<double>(r.performance.ddr_read_bytes + r.performance.ddr_write_bytes);
}

constexpr Figure kFigures[] = {
    {"coverage.node_percent", [](const Report &r) { return r.coverage.node_percent; }, Better::More},
    {"coverage.mac_percent", [](const Report &r) { return r.coverage.mac_percent; }, Better::More},
    {"coverage.nodes_host", [](const Report &r) { return double(r.coverage.nodes_host); }, Better::Less},
    {"coverage.npu_segments", [](const Report &r) { return double(r.coverage.npu_segments); }, Better::Less},
    {"coverage.boundary_bytes", [](const Report &r) { return double(r.coverage.boundary_bytes); }, Better::Less},
    {"performance.cycles", [](const Report &r) { return double(r.performance.cycles); }, Better::Less},
    {"performance.efficiency", [](const Report &r) { return r.performance.efficiency; }, Better::More},
    {"performance.ddr_bytes", DdrBytes, Better::Less},
    {"performance.energy_uj", [](const Report &r) { return r.performance.energy_uj; }, Better::Less},
    {"performance.latency_total_estimate_ms", [](const Report &r) { return r.performance.latency_total_estimate_ms; },
     Better::Less},
    {"memory.sram_peak", [](const Report &r) { return double(r.memory.sram_peak); }, Better::Less},
    {"memory.arena_bytes", [](const Report &r) { return double(r.memory.arena_bytes); }, Better::Less},
    {"memory.const_bytes", [](const Report &r) { return double(r.memory.const_bytes); }, Better::Less},
};

} // namespace

Diff Compare(const Report &before, const Report &after, const Tolerances &tolerances) {
  Diff diff;
  llvm::StringMap<const NodeRow *> old_rows;
  for (const NodeRow &node : before.nodes)
    old_rows[node.id] = &node;
  for (const NodeRow &node : after.nodes) {
    const NodeRow *old = nullptr;
    if (auto it = old_rows.find(node.id); it != old_rows.end()) {
      old = it->second;
      old_rows.erase(it);
    }
    const std::string was = old ? old->verdict : "";
    if (was == node.verdict)
      continue;
    diff.nodes.push_back({node.id, node.op, was, node.verdict, node.reasons});
    if (was == "npu" && node.verdict == "host")
      diff.regressions.push_back(fmt::format("node '{}' ({}) left the NPU{}", node.id, node.op,
                                             node.reasons.empty() ? "" : ": " + node.reasons[0].message));
  }
  for (const NodeRow &node : before.nodes)
    if (old_rows.count(node.id))
      diff.nodes.push_back({node.id, node.op, node.verdict, "", {}});

  for (const Figure &f : kFigures) {
    const double was = f.get(before), is = f.get(after);
    if (was != is)
      diff.figures.push_back({f.key, was, is, f.better == Better::Less ? is > was : is < was});
  }
  auto grown = [&](const char *what, double was, double is, double percent) {
    if (is > was * (1 + percent / 100))
      diff.regressions.push_back(fmt::format("{} grew from {:.0f} to {:.0f}{}, tolerance {:.6g} %", what, was, is,
                                             was > 0 ? fmt::format(" (+{:.2f} %)", 100 * (is / was - 1)) : "",
                                             percent));
  };
  grown("cycles", double(before.performance.cycles), double(after.performance.cycles), tolerances.cycles);
  grown("DDR bytes", DdrBytes(before), DdrBytes(after), tolerances.ddr_bytes);
  grown("SRAM peak", double(before.memory.sram_peak), double(after.memory.sram_peak), tolerances.sram);
  return diff;
}

std::string RenderDiff(const Diff &diff) {
  std::string out;
  for (const FigureChange &f : diff.figures)
    out += fmt::format("{} {:38} {:>14.10g} -> {:<14.10g}{}\n", f.worse ? '-' : '+', f.key, f.before, f.after,
                       f.before != 0 ? fmt::format(" ({:+.2f} %)", 100 * (f.after / f.before - 1)) : "");
  for (const NodeChange &n : diff.nodes) {
    out += fmt::format("  node '{}' ({}): {} -> {}\n", n.id, n.op, n.before.empty() ? "absent" : n.before,
                       n.after.empty() ? "absent" : n.after);
    for (const Reason &r : n.reasons)
      out += fmt::format("      [{}] {}\n", r.rule, r.message);
  }
  if (out.empty())
    out = "no difference in coverage, verdicts, cycles and memory\n";
  for (const std::string &r : diff.regressions)
    out += "regression: " + r + "\n";
  return out;
}

} // namespace npuc::report
