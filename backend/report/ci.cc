// What CI services read: Markdown for a step summary, JUnit, SARIF, a badge.
#include <algorithm>

#include "backend/report/render.h"
#include "compiler/support/json.h"
#include "compiler/support/status.h"

namespace npuc::report {
namespace {

// A cell of a Markdown table.
std::string Cell(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '_' || c == '<' || c == '[')
      out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

} // namespace

std::string RenderMarkdown(const Report &r) {
  const Coverage &c = r.coverage;
  const Performance &p = r.performance;
  std::string out = fmt::format("## {} on {}\n\n", Cell(r.model.file), Cell(r.target.name));
  for (const GateRow &g : r.gates)
    out += fmt::format("- {} **{}**: {}\n", g.passed ? "passed" : "FAILED", g.gate, Cell(g.message));
  if (!r.gates.empty())
    out += '\n';
  out += "| | |\n|---|---|\n";
  auto row = [&](std::string_view key, const std::string &value) { out += fmt::format("| {} | {} |\n", key, value); };
  row("nodes on the NPU", fmt::format("{:.1f} % ({} NPU, {} host, {} eliminated)", c.node_percent, c.nodes_npu,
                                      c.nodes_host, c.nodes_eliminated));
  row("MACs on the NPU", fmt::format("{:.1f} %", c.mac_percent));
  row("segments", fmt::format("{} NPU, {} host", c.npu_segments, c.host_segments));
  row("NPU time", fmt::format("{} cycles, {:.3f} ms, {:.1f} per second", Grouped(p.cycles), p.latency_ms, p.fps));
  row("total with host estimate", fmt::format("{:.3f} ms", p.latency_total_estimate_ms));
  row("efficiency", fmt::format("{:.1f} %", 100 * p.efficiency));
  row("DDR", fmt::format("{} read, {} written", Bytes(p.ddr_read_bytes), Bytes(p.ddr_write_bytes)));
  row("SRAM", fmt::format("{} of {}", Bytes(r.memory.sram_peak), Bytes(r.memory.sram_bytes)));

  std::vector<const LayerRow *> top;
  for (const LayerRow &layer : r.layers)
    if (layer.cycles > 0)
      top.push_back(&layer);
  std::stable_sort(top.begin(), top.end(), [](auto *a, auto *b) { return a->cycles > b->cycles; });
  if (!top.empty())
    out += "\n### Where time goes\n\n| share | cycles | layer | op | bound by |\n|---:|---:|---|---|---|\n";
  for (size_t i = 0; i < top.size() && i < 10; ++i)
    out += fmt::format("| {:.1f} % | {} | {} | {} | {} |\n", 100 * top[i]->share, Grouped(top[i]->cycles),
                       Cell(top[i]->name), Cell(top[i]->op), top[i]->bound_by);

  if (c.nodes_host)
    out += "\n### Nodes on the host\n\n| node | op | rule | why |\n|---|---|---|---|\n";
  size_t shown = 0;
  constexpr size_t kMost = 200; // a step summary has a size limit
  for (const NodeRow &node : r.nodes) {
    if (node.verdict != "host")
      continue;
    if (++shown > kMost)
      continue;
    for (const Reason &reason : node.reasons)
      out +=
          fmt::format("| {} | {} | {} | {} |\n", Cell(node.id), Cell(node.op), Cell(reason.rule), Cell(reason.message));
  }
  if (shown > kMost)
    out += fmt::format("\n{} more are in the report.\n", shown - kMost);
  if (!r.advice.empty())
    out += "\n### Advice\n\n";
  for (const Advice &a : r.advice)
    out += fmt::format("- {}{}\n", a.node.empty() ? "" : "`" + a.node + "`: ", Cell(a.message));
  return out;
}

std::string RenderJunit(const Report &r) {
  size_t failures = 0, tests = r.gates.size();
  for (const NodeRow &node : r.nodes)
    if (node.verdict != "eliminated") {
      ++tests;
      failures += node.verdict == "host";
    }
  for (const GateRow &g : r.gates)
    failures += !g.passed;
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuites><testsuite name=\"npuc {}\" tests=\"{}\" failures=\"{}\">\n", Escaped(r.model.file),
                     tests, failures);
  for (const NodeRow &node : r.nodes) {
    if (node.verdict == "eliminated")
      continue;
    out += fmt::format("<testcase classname=\"{}\" name=\"{}\"", Escaped(node.op), Escaped(node.id));
    if (node.verdict != "host") {
      out += "/>\n";
      continue;
    }
    std::string text;
    for (const Reason &reason : node.reasons)
      text += fmt::format("[{}] {}\n", reason.rule, reason.message);
    out += fmt::format("><failure message=\"runs on the host\">{}</failure></testcase>\n", Escaped(text));
  }
  for (const GateRow &g : r.gates) {
    out += fmt::format("<testcase classname=\"gate\" name=\"{}\"", Escaped(g.gate));
    out += g.passed ? "/>\n" : fmt::format("><failure message=\"{}\"/></testcase>\n", Escaped(g.message));
  }
  return out + "</testsuite></testsuites>\n";
}

std::string RenderSarif(const Report &r) {
  std::vector<const Reason *> rules; // first of each id
  std::string results;
  for (const NodeRow &node : r.nodes)
    for (const Reason &reason : node.reasons) {
      size_t index = 0;
      while (index < rules.size() && rules[index]->rule != reason.rule)
        ++index;
      if (index == rules.size())
        rules.push_back(&reason);
      results += fmt::format(
          "{}\n      {{\"ruleId\": {}, \"ruleIndex\": {}, \"level\": \"warning\", \"message\": {{\"text\": {}}}, "
          "\"locations\": [{{\"physicalLocation\": {{\"artifactLocation\": {{\"uri\": {}}}}}, "
          "\"logicalLocations\": [{{\"name\": {}, \"kind\": \"node\"}}]}}]}}",
          results.empty() ? "" : ",", JsonQuoted(reason.rule), index,
          JsonQuoted(fmt::format("node '{}' ({}): {}", node.id, node.op, reason.message)), JsonQuoted(r.model.file),
          JsonQuoted(node.id));
    }
  std::string list;
  for (const Reason *rule : rules)
    list += fmt::format("{}\n        {{\"id\": {}, \"help\": {{\"text\": {}}}}}", list.empty() ? "" : ",",
                        JsonQuoted(rule->rule), JsonQuoted(rule->help.empty() ? rule->message : rule->help));
  return fmt::format(
      "{{\n  \"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n  \"version\": \"2.1.0\",\n"
      "  \"runs\": [{{\n    \"tool\": {{\"driver\": {{\"name\": \"npuc\", \"version\": {}, \"rules\": [{}]}}}},\n"
      "    \"results\": [{}]\n  }}]\n}}\n",
      JsonQuoted(r.tool.version), list, results);
}

std::string RenderBadge(const Report &r) {
  const double percent = r.coverage.node_percent;
  // Never rounded up to a full hundred.
  const std::string value = fmt::format("{} %", percent >= 100 ? 100 : std::min(99, static_cast<int>(percent)));
  const char *colour = percent >= 95 ? "#2e7d32" : percent >= 70 ? "#9a6700" : "#b3261e";
  const int left = 92, right = 46;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"20\" role=\"img\" aria-label=\"NPU coverage: "
      "{1}\">"
      "<title>NPU coverage: {1}</title><rect width=\"{2}\" height=\"20\" fill=\"#444\"/>"
      "<rect x=\"{2}\" width=\"{3}\" height=\"20\" fill=\"{4}\"/>"
      "<g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" text-anchor=\"middle\">"
      "<text x=\"{5}\" y=\"14\">NPU coverage</text><text x=\"{6}\" y=\"14\">{1}</text></g></svg>\n",
      left + right, value, left, right, colour, left / 2, left + right / 2);
}

} // namespace npuc::report
