// The summary on a terminal. It says the answer first (how much runs on the NPU, how fast), then what would change it.
#include <algorithm>

#include "backend/report/render.h"
#include "compiler/support/status.h"

namespace npuc::report {

std::string Bytes(int64_t n) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(n);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", n)
                   : fmt::format("{:.{}f} {}", value,
                                 value < 10    ? 2
                                 : value < 100 ? 1
                                               : 0,
                                 units[unit]);
}

std::string Grouped(int64_t n) {
  std::string s = std::to_string(n);
  for (int i = static_cast<int>(s.size()) - 3; i > (n < 0 ? 1 : 0); i -= 3)
    s.insert(static_cast<size_t>(i), 1, ' ');
  return s;
}

std::string Escaped(std::string_view s) {
  std::string out;
  for (char c : s)
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    case '\n':
    case '\t':
      out += c;
      break;
    default:
      out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  return out;
}

namespace {

// One line, at most `width` bytes.
std::string Clip(std::string s, size_t width) {
  for (char &c : s)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) // names are the model's: no control over the terminal
      c = ' ';
  if (s.size() <= width)
    return s;
  size_t cut = width - 3;
  while (cut > 0 && (static_cast<unsigned char>(s[cut]) & 0xc0) == 0x80) // not inside a UTF-8 sequence
    --cut;
  return s.substr(0, cut) + "...";
}

// Rules of host nodes by how many nodes break them, most first.
std::vector<std::pair<int64_t, const Reason *>> TopRules(const Report &r, std::vector<const NodeRow *> *examples) {
  std::vector<std::pair<int64_t, const Reason *>> rules;
  std::vector<const NodeRow *> first, last; // of each rule's nodes
  for (const NodeRow &node : r.nodes)
    for (const Reason &reason : node.reasons) {
      const size_t k =
          std::find_if(rules.begin(), rules.end(), [&](auto &x) { return x.second->rule == reason.rule; }) -
          rules.begin();
      if (k == rules.size()) {
        rules.emplace_back(0, &reason);
        first.push_back(&node);
        last.push_back(nullptr);
      }
      if (last[k] != &node) // a node breaks a rule once, at however many tensors
        ++rules[k].first;
      last[k] = &node;
    }
  std::vector<size_t> order(rules.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rules[a].first > rules[b].first; });
  std::vector<std::pair<int64_t, const Reason *>> out;
  for (size_t i : order) {
    out.push_back(rules[i]);
    examples->push_back(first[i]);
  }
  return out;
}

} // namespace

std::string RenderText(const Report &r, bool colour) {
  const char *bold = colour ? "\x1b[1m" : "", *green = colour ? "\x1b[32m" : "", *red = colour ? "\x1b[31m" : "",
             *yellow = colour ? "\x1b[33m" : "", *reset = colour ? "\x1b[0m" : "";
  const Coverage &c = r.coverage;
  const Performance &p = r.performance;
  std::string out;
  out += fmt::format("{}{}{} on {} ({} MHz)\n", bold, r.model.file, reset, r.target.name, r.target.clock_mhz);
  out += fmt::format(
      "  coverage    {}{:.1f} %{} of nodes on the NPU ({} NPU, {} host, {} eliminated of {}), {:.1f} % of MACs\n",
      c.nodes_host ? yellow : green, c.node_percent, reset, c.nodes_npu, c.nodes_host, c.nodes_eliminated,
      c.nodes_total, c.mac_percent);
  out += fmt::format("  segments    {} NPU, {} host; {} cross the boundary\n", c.npu_segments, c.host_segments,
                     Bytes(c.boundary_bytes));
  const std::string rate = fmt::format(" ({:.1f} per second)", p.fps);
  if (p.cycles == 0) {
    out += fmt::format("  NPU time    {}nothing runs on the NPU{}\n", red, reset);
  } else {
    out += fmt::format("  NPU time    {} cycles = {:.3f} ms{}\n", Grouped(p.cycles), p.latency_ms,
                       p.host_steps.empty() ? rate : "");
    out += fmt::format(
        "  efficiency  {:.1f} % of the bound ({} cycles); MAC array used {:.1f} %, {:.0f} % of that on padding\n",
        100 * p.efficiency, Grouped(static_cast<int64_t>(p.bound_cycles)), 100 * p.mac_utilization,
        100 * p.padding_waste);
    std::vector<std::pair<int64_t, std::string>> waits;
    for (const auto &[name, cycles] : p.waits)
      waits.emplace_back(cycles, name);
    std::stable_sort(waits.begin(), waits.end(), [](auto &x, auto &y) { return x.first > y.first; });
    std::string text;
    for (size_t i = 0; i < waits.size() && i < 4; ++i)
      text +=
          fmt::format("{}{} {:.0f} %", i ? ", " : "", waits[i].second, 100 * double(waits[i].first) / double(p.cycles));
    if (!text.empty())
      out += fmt::format("  waits for   {}\n", text);
  }
  if (!p.host_steps.empty()) {
    double us = 0;
    for (const HostStepRow &h : p.host_steps)
      us += h.estimated_us;
    out += fmt::format("  host time   {:.3f} ms estimated in {} steps; total {:.3f} ms{}\n", us / 1000,
                       p.host_steps.size(), p.latency_total_estimate_ms, rate);
  }
  out += fmt::format("  DDR         {} read, {} written ({} compulsory)\n", Bytes(p.ddr_read_bytes),
                     Bytes(p.ddr_write_bytes), Bytes(p.ddr_compulsory_bytes));
  out += fmt::format("  memory      SRAM {} of {}, arena {}, constants {}\n", Bytes(r.memory.sram_peak),
                     Bytes(r.memory.sram_bytes), Bytes(r.memory.arena_bytes), Bytes(r.memory.const_bytes));
  if (p.cycles > 0)
    out += fmt::format("  energy      {:.1f} uJ (estimate)\n", p.energy_uj);

  std::vector<const LayerRow *> top;
  for (const LayerRow &layer : r.layers)
    if (layer.cycles > 0)
      top.push_back(&layer);
  std::stable_sort(top.begin(), top.end(), [](auto *a, auto *b) { return a->cycles > b->cycles; });
  if (!top.empty())
    out += fmt::format("{}  where time goes{}\n", bold, reset);
  for (size_t i = 0; i < top.size() && i < 3; ++i)
    out += fmt::format("    {:5.1f} %  {:<40} {:<18} {}\n", 100 * top[i]->share, Clip(top[i]->name, 40),
                       Clip(top[i]->op, 18), top[i]->bound_by);

  std::vector<const NodeRow *> examples;
  const auto rules = TopRules(r, &examples);
  if (!rules.empty())
    out += fmt::format("{}  why nodes run on the host{}\n", bold, reset);
  for (size_t i = 0; i < rules.size() && i < 3; ++i)
    out += fmt::format("    {:4} x [{}] {}\n", rules[i].first, rules[i].second->rule,
                       Clip("'" + examples[i]->id + "': " + rules[i].second->message, 90));
  if (rules.size() > 3)
    out += fmt::format("    and {} rules more\n", rules.size() - 3);
  if (!r.advice.empty())
    out += fmt::format("{}  what to change{}{}\n", bold, reset,
                       r.advice.size() > 2 ? fmt::format(" (2 of {}; the report has all)", r.advice.size()) : "");
  for (size_t i = 0; i < r.advice.size() && i < 2; ++i) {
    const Advice &a = r.advice[i];
    const double now = p.latency_total_estimate_ms;
    std::string gain;
    if (a.nodes_to_npu > 0)
      gain = fmt::format("{} nodes", a.nodes_to_npu);
    else if (now > 0)
      gain = fmt::format("{:+.1f} %", 100 * (a.predicted_latency_ms / now - 1));
    out += fmt::format("    {:>8}  {}\n", gain, Clip(a.message, 170));
    if (a.apply.rfind("npuc ", 0) == 0) // a command is of no use in part
      out += fmt::format("              {}\n", Clip(a.apply, 2000));
  }
  // One line of gates, so that 25 lines hold.
  std::string failed;
  for (const GateRow &g : r.gates)
    if (!g.passed)
      failed += (failed.empty() ? "" : "; ") + g.gate + ": " + g.message;
  if (!failed.empty())
    out += fmt::format("{}  gate failed{} {}\n", red, reset, Clip(failed, 200));
  return out;
}

} // namespace npuc::report
