// What CI services read: Markdown for a step summary, JUnit, SARIF, code quality, a badge.
#include <algorithm>
#include <map>
#include <string>

#include "backend/report/render.h"
#include "compiler/support/hash.h"
#include "compiler/support/json.h"
#include "compiler/support/status.h"

namespace npuc::report {
namespace {

// A relative path as a URI reference.
std::string UriPath(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// What code review tools show: a broken rule of a host node, a gate that was not met.
struct Finding {
  std::string rule, message, help, node; // node: "" for gates
  bool error = false;
  int number = 0; // among those of the same rule and node
  // The same for the same finding of later reports, whatever else changes.
  std::string Fingerprint() const {
    return Sha256Hex(rule + '\n' + node + (number ? fmt::format("\n{}", number) : "")).substr(0, 32);
  }
};
std::vector<Finding> FindingsOf(const Report &r) {
  std::vector<Finding> findings;
  for (const NodeRow &node : r.nodes) {
    std::map<std::string, int> broken; // by rule
    for (const Reason &reason : node.reasons)
      findings.push_back({reason.rule, fmt::format("node '{}' ({}): {}", node.id, node.op, reason.message), reason.help,
                          node.id, false, broken[reason.rule]++});
  }
  for (const GateRow &gate : r.gates)
    if (!gate.passed)
      findings.push_back({"gate-" + gate.gate, fmt::format("--{}: {}", gate.gate, gate.message),
                          "npu-report diff shows what changed since the last good report", "", true, 0});
  return findings;
}

} // namespace

std::string MarkdownText(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (std::string_view("|\\`*_<[").find(c) != std::string_view::npos)
      out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

std::string RenderMarkdown(const Report &r) {
  const Coverage &c = r.coverage;
  const Performance &p = r.performance;
  std::string out = fmt::format("## {} on {}\n\n", MarkdownText(r.model.file), MarkdownText(r.target.name));
  for (const GateRow &g : r.gates)
    out += fmt::format("- {} **{}**: {}\n", g.passed ? "passed" : "FAILED", g.gate, MarkdownText(g.message));
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
                       MarkdownText(top[i]->name), MarkdownText(top[i]->op), top[i]->bound_by);

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
      out += fmt::format("| {} | {} | {} | {} |\n", MarkdownText(node.id), MarkdownText(node.op),
                         MarkdownText(reason.rule), MarkdownText(reason.message));
  }
  if (shown > kMost)
    out += fmt::format("\n{} more are in the report.\n", shown - kMost);
  if (!r.advice.empty())
    out += "\n### Advice\n\n";
  for (const Advice &a : r.advice)
    out += fmt::format("- {}{}\n", a.node.empty() ? "" : "`" + a.node + "`: ", MarkdownText(a.message));
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
  const std::string counts = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"0\"", tests, failures);
  out += fmt::format("<testsuites name=\"npuc\" {0}>\n<testsuite name=\"npuc {1}\" {0} skipped=\"0\">\n", counts,
                     Escaped(r.model.file));
  auto test = [&](std::string_view group, std::string_view name) {
    out += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"0\"", Escaped(group), Escaped(name));
  };
  for (const NodeRow &node : r.nodes) {
    if (node.verdict == "eliminated")
      continue;
    test(node.op, node.id);
    if (node.verdict != "host") {
      out += "/>\n";
      continue;
    }
    std::string text;
    for (const Reason &reason : node.reasons)
      text += fmt::format("[{}] {}\n", reason.rule, reason.message);
    out += fmt::format("><failure type=\"{}\" message=\"runs on the host\">{}</failure></testcase>\n",
                       Escaped(node.reasons.empty() ? "host" : node.reasons[0].rule), Escaped(text));
  }
  for (const GateRow &g : r.gates) {
    test("gate", g.gate);
    out += g.passed ? "/>\n" : fmt::format("><failure type=\"gate\" message=\"{}\"/></testcase>\n", Escaped(g.message));
  }
  return out + "</testsuite>\n</testsuites>\n";
}

std::string RenderSarif(const Report &r, std::string_view path) {
  const std::vector<Finding> findings = FindingsOf(r);
  std::vector<const Finding *> rules; // first of each
  std::string out;
  JsonWriter w(&out);
  w.BeginObject().Field("$schema", "https://json.schemastore.org/sarif-2.1.0.json").Field("version", "2.1.0");
  w.Key("runs").BeginArray().BeginObject();
  // Uploads of several models and targets stand beside one another.
  w.Key("automationDetails").BeginLine().BeginObject();
  w.Field("id", fmt::format("npuc/{}/{}/", r.model.file, r.target.name)).EndObject();
  w.Field("columnKind", "utf16CodeUnits").Key("results").BeginArray();
  for (const Finding &f : findings) {
    size_t index = 0;
    while (index < rules.size() && rules[index]->rule != f.rule)
      ++index;
    if (index == rules.size())
      rules.push_back(&f);
    w.BeginLine().BeginObject().Field("ruleId", f.rule).Field("ruleIndex", index);
    w.Field("level", f.error ? "error" : "warning").Key("message").BeginObject().Field("text", f.message).EndObject();
    w.Key("locations").BeginArray().BeginObject().Key("physicalLocation").BeginObject();
    w.Key("artifactLocation").BeginObject().Field("uri", UriPath(path.empty() ? r.model.file : path)).EndObject();
    w.Key("region").BeginObject().Field("startLine", 1).EndObject().EndObject(); // some readers insist on a line
    if (!f.node.empty()) {
      w.Key("logicalLocations").BeginArray().BeginObject();
      w.Field("fullyQualifiedName", f.node).Field("kind", "node").EndObject().EndArray();
    }
    w.EndObject().EndArray();
    w.Key("partialFingerprints").BeginObject().Field("primaryLocationLineHash", f.Fingerprint() + ":1").EndObject();
    w.EndObject();
  }
  w.EndArray();
  w.Key("tool").BeginObject().Key("driver").BeginObject().Field("name", "npuc").Field("version", r.tool.version);
  w.Key("rules").BeginArray();
  for (const Finding *f : rules) {
    w.BeginLine().BeginObject().Field("id", f->rule);
    w.Key("shortDescription").BeginObject().Field("text", f->rule).EndObject();
    w.Key("help").BeginObject().Field("text", f->help.empty() ? f->message : f->help).EndObject();
    w.Key("defaultConfiguration").BeginObject().Field("level", f->error ? "error" : "warning").EndObject().EndObject();
  }
  w.EndArray().EndObject().EndObject();
  w.EndObject().EndArray().EndObject();
  return out + "\n";
}

std::string RenderCodeQuality(const Report &r, std::string_view path) {
  std::string out;
  JsonWriter w(&out);
  w.BeginArray();
  for (const Finding &f : FindingsOf(r)) {
    w.BeginLine().BeginObject().Field("description", f.message).Field("check_name", f.rule);
    w.Field("fingerprint", f.Fingerprint()).Field("severity", f.error ? "critical" : "minor");
    w.Key("location").BeginObject().Field("path", path.empty() ? r.model.file : std::string(path));
    w.Key("lines").BeginObject().Field("begin", 1).EndObject().EndObject().EndObject();
  }
  w.EndArray();
  return out + "\n";
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
