// Node by node by id, layer by layer by origin, figure by figure by key.
//
// A regression is what the baseline gate fails on: a node that was on the NPU and now runs on the host (a node that
// became `eliminated` or vanished did not leave the NPU for the worse), or cycles, DDR bytes or SRAM grown beyond the
// tolerance. Other figures are shown, not judged.
//
// Layers are matched in three rounds, each in order: the same origins, then the same first origin, then any origin in
// common. Layers without origin (conversions at the model's ends) match by name and operator. Linear but for the last
// round, which looks at layers that share a node only.
#include "backend/report/diff.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/report/render.h"
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
    {"quantization.cosine", [](const Report &r) { return r.quantization.cosine; }, Better::More},
};

void CompareSetup(const Report &a, const Report &b, Diff *diff) {
  auto note = [&](std::string key, std::string before, std::string after) {
    if (before != after)
      diff->setup.push_back({std::move(key), std::move(before), std::move(after)});
  };
  auto number = [](auto v) { return fmt::format("{}", v); };
  note("model.file", a.model.file, b.model.file);
  if (a.model.file == b.model.file)
    note("model.sha256", a.model.sha256.substr(0, 12), b.model.sha256.substr(0, 12));
  const size_t before_target = diff->setup.size();
  note("target.name", a.target.name, b.target.name);
  note("target.clock_mhz", number(a.target.clock_mhz), number(b.target.clock_mhz));
  note("target.sram_bytes", number(a.target.sram_bytes), number(b.target.sram_bytes));
  note("target.ddr_bytes_per_cycle", number(a.target.ddr_bytes_per_cycle), number(b.target.ddr_bytes_per_cycle));
  note("target.macs_per_cycle", number(a.target.macs_per_cycle), number(b.target.macs_per_cycle));
  if (diff->setup.size() == before_target) // something else in its description
    note("target.sha256", a.target.sha256.substr(0, 12), b.target.sha256.substr(0, 12));
  std::map<std::string, std::pair<std::string, std::string>> options;
  for (const auto &[key, value] : a.options)
    options[key].first = value;
  for (const auto &[key, value] : b.options)
    options[key].second = value;
  for (const auto &[key, values] : options)
    if (key != "target") // said above
      note("options." + key, values.first, values.second);
  note("tool.version", a.tool.version, b.tool.version);
}

bool SameReasons(const std::vector<Reason> &a, const std::vector<Reason> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Reason &x, const Reason &y) { return x.rule == y.rule && x.message == y.message; });
}

void CompareNodes(const Report &before, const Report &after, Diff *diff) {
  llvm::StringMap<const NodeRow *> old_rows;
  for (const NodeRow &node : before.nodes)
    old_rows[node.id] = &node;
  std::map<std::string, int64_t> precisions;
  for (const NodeRow &node : after.nodes) {
    const NodeRow *old = nullptr;
    if (auto it = old_rows.find(node.id); it != old_rows.end()) {
      old = it->second;
      old_rows.erase(it);
    }
    const std::string was = old ? old->verdict : "";
    if (was == node.verdict) {
      if (was == "npu" && old->precision != node.precision)
        ++precisions[old->precision + " -> " + node.precision];
      if (SameReasons(old->reasons, node.reasons))
        continue;
    }
    diff->nodes.push_back({node.id, node.op, was, node.verdict, node.reasons});
    if (was == "npu" && node.verdict == "host")
      diff->regressions.push_back(fmt::format("node '{}' ({}) left the NPU{}", node.id, node.op,
                                              node.reasons.empty() ? "" : ": " + node.reasons[0].message));
  }
  for (const NodeRow &node : before.nodes)
    if (old_rows.count(node.id))
      diff->nodes.push_back({node.id, node.op, node.verdict, "", {}});
  diff->precisions.assign(precisions.begin(), precisions.end());
}

// For each newer layer the older one that it is compared with, or null.
std::vector<const LayerRow *> MatchLayers(const Report &before, const Report &after) {
  std::vector<const LayerRow *> match(after.layers.size(), nullptr);
  std::vector<bool> taken(before.layers.size(), false);
  // `keys(layer)`: what two layers may have in common, the first that is free counts.
  auto round = [&](const auto &keys) {
    llvm::StringMap<std::vector<size_t>> by_key; // in order
    for (size_t i = 0; i < before.layers.size(); ++i)
      if (!taken[i])
        for (const std::string &key : keys(before.layers[i]))
          by_key[key].push_back(i);
    for (size_t i = 0; i < after.layers.size(); ++i) {
      if (match[i])
        continue;
      for (const std::string &key : keys(after.layers[i])) {
        auto it = by_key.find(key);
        if (it == by_key.end())
          continue;
        auto free = std::find_if(it->second.begin(), it->second.end(), [&](size_t k) { return !taken[k]; });
        if (free == it->second.end())
          continue;
        match[i] = &before.layers[*free];
        taken[*free] = true;
        it->second.erase(it->second.begin(), free + 1);
        break;
      }
    }
  };
  using Keys = std::vector<std::string>;
  round([](const LayerRow &l) {
    std::vector<std::string> ids = l.origins;
    std::sort(ids.begin(), ids.end());
    return Keys{ids.empty() ? fmt::format("{}\n{}", l.name, l.op) : fmt::format("\n{}", fmt::join(ids, "\n"))};
  });
  round([](const LayerRow &l) { return l.origins.empty() ? Keys{} : Keys{l.origins[0]}; });
  round([](const LayerRow &l) { return l.origins; });
  return match;
}

void CompareLayers(const Report &before, const Report &after, Diff *diff) {
  const auto match = MatchLayers(before, after);
  auto add = [&](const LayerRow *a, const LayerRow *b) {
    LayerChange c;
    c.name = (b ? b : a)->name;
    if (a)
      c.op_before = a->op, c.dtype_before = a->dtype, c.cycles_before = a->cycles, c.tiles_before = a->tiles,
      c.ddr_before = a->ddr_read_bytes + a->ddr_write_bytes;
    if (b)
      c.op_after = b->op, c.dtype_after = b->dtype, c.cycles_after = b->cycles, c.tiles_after = b->tiles,
      c.ddr_after = b->ddr_read_bytes + b->ddr_write_bytes;
    if (c.op_before != c.op_after || c.dtype_before != c.dtype_after || c.cycles_before != c.cycles_after ||
        c.ddr_before != c.ddr_after || c.tiles_before != c.tiles_after)
      diff->layers.push_back(std::move(c));
  };
  std::vector<const LayerRow *> used;
  for (size_t i = 0; i < after.layers.size(); ++i) {
    add(match[i], &after.layers[i]);
    used.push_back(match[i]);
  }
  std::sort(used.begin(), used.end());
  for (const LayerRow &l : before.layers)
    if (!std::binary_search(used.begin(), used.end(), &l))
      add(&l, nullptr);
}

std::string OrNone(const std::string &s, const char *none) {
  return s.empty() ? none : s;
}

std::string Change(double before, double after) {
  return before != 0 ? fmt::format("{:+.2f} %", 100 * (after / before - 1)) : "";
}

// "Conv+Relu", or "Conv -> Conv+Relu".
std::string Both(const std::string &before, const std::string &after) {
  return before == after ? after : OrNone(before, "absent") + " -> " + OrNone(after, "absent");
}

struct ShownLayers {
  std::vector<const LayerChange *> shown;
  size_t rest = 0;
  int64_t rest_cycles = 0; // by how much the others changed
};
ShownLayers Shown(const Diff &diff, size_t most) {
  ShownLayers s;
  for (const LayerChange &l : diff.layers)
    s.shown.push_back(&l);
  std::stable_sort(s.shown.begin(), s.shown.end(), [](auto *a, auto *b) {
    return std::abs(a->cycles_after - a->cycles_before) > std::abs(b->cycles_after - b->cycles_before);
  });
  for (; s.shown.size() > most; s.shown.pop_back(), ++s.rest)
    s.rest_cycles += s.shown.back()->cycles_after - s.shown.back()->cycles_before;
  return s;
}

} // namespace

Diff Compare(const Report &before, const Report &after, const Tolerances &tolerances) {
  Diff diff;
  CompareSetup(before, after, &diff);
  CompareNodes(before, after, &diff);
  CompareLayers(before, after, &diff);
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

std::string RenderDiff(const Diff &diff, size_t most_layers) {
  std::string out;
  for (const SetupChange &s : diff.setup)
    out += fmt::format("  {}: {} -> {}\n", s.key, OrNone(s.before, "none"), OrNone(s.after, "none"));
  for (const FigureChange &f : diff.figures) {
    const std::string change = Change(f.before, f.after);
    out += fmt::format("{} {:38} {:>14.10g} -> {:<14.10g}{}\n", f.worse ? '-' : '+', f.key, f.before, f.after,
                       change.empty() ? "" : " (" + change + ")");
  }
  for (const auto &[change, nodes] : diff.precisions)
    out += fmt::format("  precision {}: {} node{}\n", change, nodes, nodes == 1 ? "" : "s");
  for (const NodeChange &n : diff.nodes) {
    out += fmt::format("  node '{}' ({}): {}{}\n", n.id, n.op, Both(n.before, n.after),
                       n.before == n.after ? ", for other reasons" : "");
    for (const Reason &r : n.reasons)
      out += fmt::format("      [{}] {}\n", r.rule, r.message);
  }
  const ShownLayers layers = Shown(diff, most_layers);
  for (const LayerChange *l : layers.shown) {
    const std::string change = Change(double(l->cycles_before), double(l->cycles_after));
    out += fmt::format("  layer '{}' ({}): {} -> {} cycles{}", l->name, Both(l->op_before, l->op_after),
                       l->cycles_before, l->cycles_after, change.empty() ? "" : " (" + change + ")");
    if (l->ddr_before != l->ddr_after)
      out += fmt::format(", {} -> {} DDR bytes", l->ddr_before, l->ddr_after);
    if (l->tiles_before != l->tiles_after)
      out += fmt::format(", {} -> {} tiles", l->tiles_before, l->tiles_after);
    if (l->dtype_before != l->dtype_after && !l->op_before.empty() && !l->op_after.empty())
      out += ", " + Both(l->dtype_before, l->dtype_after);
    out += '\n';
  }
  if (layers.rest)
    out += fmt::format("  {} more layers changed, by {:+} cycles together\n", layers.rest, layers.rest_cycles);
  if (diff.empty())
    out = "no difference in setup, coverage, verdicts, layers, cycles and memory\n";
  for (const std::string &r : diff.regressions)
    out += "regression: " + r + "\n";
  return out;
}

std::string RenderDiffMarkdown(const Diff &diff, size_t most_layers) {
  std::string out = diff.regressions.empty() ? "### No regression\n" : "### Regressions\n\n";
  for (const std::string &r : diff.regressions)
    out += "- " + MarkdownText(r) + "\n";
  auto table = [&](std::string_view head, std::string_view rule) { out += fmt::format("\n{}\n{}\n", head, rule); };
  if (!diff.setup.empty())
    table("| setup | before | after |", "|---|---|---|");
  for (const SetupChange &s : diff.setup)
    out += fmt::format("| {} | {} | {} |\n", MarkdownText(s.key), MarkdownText(OrNone(s.before, "none")),
                       MarkdownText(OrNone(s.after, "none")));
  if (!diff.figures.empty())
    table("| figure | before | after | change | |", "|---|---:|---:|---:|---|");
  for (const FigureChange &f : diff.figures)
    out += fmt::format("| {} | {:.10g} | {:.10g} | {} | {} |\n", MarkdownText(f.key), f.before, f.after,
                       Change(f.before, f.after), f.worse ? "worse" : "better");
  if (!diff.nodes.empty())
    table("| node | op | verdict | why |", "|---|---|---|---|");
  for (const NodeChange &n : diff.nodes) {
    std::string why;
    for (const Reason &r : n.reasons)
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", r.rule, r.message);
    out += fmt::format("| {} | {} | {} | {} |\n", MarkdownText(n.id), MarkdownText(n.op), Both(n.before, n.after),
                       MarkdownText(why));
  }
  const ShownLayers layers = Shown(diff, most_layers);
  if (!layers.shown.empty())
    table("| layer | op | cycles before | after | change |", "|---|---|---:|---:|---:|");
  for (const LayerChange *l : layers.shown)
    out += fmt::format("| {} | {} | {} | {} | {} |\n", MarkdownText(l->name),
                       MarkdownText(Both(l->op_before, l->op_after)), l->cycles_before, l->cycles_after,
                       Change(double(l->cycles_before), double(l->cycles_after)));
  if (layers.rest)
    out += fmt::format("\n{} more layers changed, by {:+} cycles together.\n", layers.rest, layers.rest_cycles);
  if (diff.empty())
    out = "### No difference\n";
  return out;
}

} // namespace npuc::report
