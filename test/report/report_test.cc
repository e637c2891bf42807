#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backend/report/gates.h"
#include "backend/report/json.h"
#include "backend/report/render.h"
#include "compiler/support/diagnostic.h"

namespace npuc::report {
namespace {

Report Sample() {
  Report r;
  r.tool.version = "1.2.3";
  r.model.file = "m<&>.onnx";
  r.model.opsets = {{"ai.onnx", 17}};
  r.target.name = "edge-2t";
  r.target.clock_mhz = 1000;
  r.target.sram_bytes = 2097152;
  r.target.ddr_bytes_per_cycle = 12.8;
  r.target.macs_per_cycle = 1024;
  r.inputs = {{"x", "float", {{1, ""}, {3, ""}, {0, "N"}}, "NCHW", 0.5, -128, 12}};
  r.coverage = {4, 2, 1, 1, 200.0 / 3, 87.5, 2, 1, 4096};
  NodeRow conv;
  conv.id = "conv \"1\"";
  conv.op = "Conv";
  conv.verdict = "npu";
  conv.layer = 0;
  conv.macs = 700;
  NodeRow host;
  host.id = "nms";
  host.op = "NonMaxSuppression";
  host.verdict = "host";
  host.reasons = {{"op-unsupported", "no lowering", "", "", "cut it off with --output"},
                  {"dynamic-shape", "free dims", "static", "[?,3]", ""}};
  host.inputs = {0};
  NodeRow gone;
  gone.id = "id";
  gone.op = "Identity";
  gone.inputs = {0};
  r.nodes = {conv, host, gone, conv};
  r.nodes[3].id = "conv2";
  LayerRow layer;
  layer.name = "conv \"1\"";
  layer.op = "Conv";
  layer.origins = {"conv \"1\""};
  layer.ifm = {1, 3, 8, 8};
  layer.cycles = 900;
  layer.share = 0.9;
  layer.macs = 700;
  layer.bound_by = "DDR";
  r.layers = {layer};
  r.memory.sram_bytes = 2097152;
  r.memory.sram_peak = 65536;
  r.performance.cycles = 1000;
  r.performance.macs = 700;
  r.performance.ddr_read_bytes = 300;
  r.performance.ddr_write_bytes = 100;
  r.performance.efficiency = 1.0 / 3;
  r.performance.engine_busy = {{"LD", 0.5}, {"ST", 0.1}, {"MXU", 0.25}, {"VPU", 0}};
  r.performance.host_steps = {{{"nms"}, 0, 64, 1.5}};
  r.timeline.engines = {{"LD", {{0, 100, 0}, {200, 300, 0}}}, {"MXU", {{100, 900, 0}}}};
  r.timeline.sram = {{0, 1024}, {500, 65536}};
  r.advice = {{"output-cut", "nms", "cut it off", "npuc m.onnx --output y", 0, 1000, 0.001, 0}};
  r.operators = {{"Conv", 2, 2, 0, 0, 700, ""}};
  r.compile.passes = {{"fold", 0.25, true}};
  return r;
}

TEST(ReportJson, RoundTrips) {
  const Report r = Sample();
  const std::string text = ToJson(r);
  auto back = FromJson(text, "r.json");
  ASSERT_TRUE(back.ok()) << back.status();
  std::sort(back->performance.engine_busy.begin(), back->performance.engine_busy.end());
  EXPECT_EQ(back->nodes.size(), 4u);
  EXPECT_EQ(back->nodes[1].reasons[1].actual, "[?,3]");
  EXPECT_EQ(back->inputs[0].zero_point, -128);
  EXPECT_EQ(back->inputs[0].shape, r.inputs[0].shape);
  EXPECT_NE(text.find("\"shape\": [1, 3, \"N\"]"), std::string::npos);
  EXPECT_EQ(back->performance.host_steps[0].estimated_us, 1.5);
  EXPECT_EQ(back->timeline.engines[0].second[1], (std::vector<int64_t>{200, 300, 0}));
  // Maps come back sorted by key; all else is the same text.
  EXPECT_EQ(ToJson(*FromJson(ToJson(*back), "r.json")), ToJson(*back));
}

TEST(ReportJson, EveryKeyOfTheContractIsThere) {
  const std::string text = ToJson(Sample());
  for (const char *key : {"schema",
                          "tool",
                          "model",
                          "target",
                          "options",
                          "reproducibility",
                          "inputs",
                          "outputs",
                          "coverage",
                          "nodes",
                          "layers",
                          "memory",
                          "performance",
                          "fusions",
                          "layout",
                          "quantization",
                          "advice",
                          "compile",
                          "sha256",
                          "ir_version",
                          "opsets",
                          "producer",
                          "dtype",
                          "shape",
                          "scale",
                          "zero_point",
                          "bytes",
                          "nodes_total",
                          "nodes_npu",
                          "nodes_host",
                          "nodes_eliminated",
                          "node_percent",
                          "mac_percent",
                          "npu_segments",
                          "host_segments",
                          "boundary_bytes",
                          "verdict",
                          "precision",
                          "macs",
                          "reasons",
                          "rule",
                          "message",
                          "limit",
                          "actual",
                          "help",
                          "input_layout",
                          "output_layout",
                          "ifm",
                          "ofm",
                          "tiles",
                          "cycles",
                          "share",
                          "mac_utilization",
                          "ddr_read_bytes",
                          "ddr_write_bytes",
                          "bound_by",
                          "sram_bytes",
                          "sram_peak",
                          "sram_estimate",
                          "arena_bytes",
                          "const_bytes",
                          "io_bytes",
                          "latency_ms",
                          "fps",
                          "array_bound",
                          "ppu_bound",
                          "vpu_bound",
                          "ddr_bound",
                          "bound_cycles",
                          "efficiency",
                          "ddr_compulsory_bytes",
                          "energy_uj",
                          "engine_busy",
                          "host_steps",
                          "estimated_us",
                          "latency_total_estimate_ms",
                          "conversions",
                          "transposes_removed",
                          "predicted_gain_cycles",
                          "seconds",
                          "peak_rss_bytes",
                          "passes",
                          "changed"})
    EXPECT_NE(text.find(fmt::format("\"{}\":", key)), std::string::npos) << key;
  EXPECT_EQ(text.find("null"), std::string::npos);
}

TEST(ReportJson, ARowIsALine) {
  const std::string text = ToJson(Sample());
  for (const char *line : {"\n  \"nodes\": [\n    {\"id\": \"conv \\\"1\\\"\", ", "\n    {\"id\": \"nms\", ",
                           "\n  \"coverage\": {\n    \"nodes_total\": 4,\n",
                           "\n    {\"id\": 0, \"name\": ", "\n  \"performance\": {\n    \"cycles\": 1000,\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(ReportJson, NumbersThatAreNoneDoNotBreakTheFile) {
  Report r = Sample();
  r.inputs[0].scale = std::numeric_limits<double>::quiet_NaN();
  r.performance.fps = std::numeric_limits<double>::infinity();
  auto back = FromJson(ToJson(r), "r.json");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->performance.fps, 0);
}

TEST(ReportJson, NamesThatAreNotUtf8) {
  Report r = Sample();
  r.nodes[0].id = "a\xff\x01z";
  auto back = FromJson(ToJson(r), "r.json");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->nodes[0].id, "a\xef\xbf\xbd\x01z");
}

TEST(ReportJson, OldAndNewReportsAreRead) {
  auto r = FromJson(R"({"schema": "npuc-report/1", "novelty": [1], "coverage": {"node_percent": 50, "new": null}})",
                    "r.json");
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->coverage.node_percent, 50);
}

TEST(ReportJson, SchemaVersions) {
  auto old = FromJson(R"({"schema": "npuc-report/0", "coverage": {"node_percent": 50}})", "r.json");
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->schema, "npuc-report/0");
  EXPECT_EQ(old->coverage.node_percent, 50);
  // What a newer one holds is not looked at.
  const Status newer =
      FromJson(R"({"schema": "npuc-report/2", "tool": {"version": "9.1"}, "nodes": 3})", "r.json").status();
  EXPECT_EQ(ErrorCode(newer), "E0103");
  EXPECT_NE(Message(newer).find("npuc-report/2, written by a newer npuc (9.1)"), std::string::npos) << newer;
  for (const char *bad : {R"({"schema": "other/1"})", R"({"schema": "npuc-report/x"})",
                          R"({"schema": "npuc-report/-1"})", R"({"schema": 1})"})
    EXPECT_EQ(ErrorCode(FromJson(bad, "r.json").status()), "E0103") << bad;
}

TEST(ReportJson, WrongFilesAreE0103) {
  for (const char *text :
       {"", "{", "[]", "{}", R"({"schema": "npuc-report/2"})", R"({"schema": "npuc-report/1", "nodes": 3})",
        R"({"schema": "npuc-report/1", "coverage": {"node_percent": "all"}})",
        R"({"schema": "npuc-report/1", "nodes": [{"macs": null}]})"})
    EXPECT_EQ(ErrorCode(FromJson(text, "r.json").status()), "E0103") << text;
  EXPECT_EQ(ErrorCode(ReadReport("/nonexistent/r.json").status()), "E0101");
}

TEST(ReportJson, NestingIsBoundedNotTheStack) {
  for (const char *open : {"[", "{\"a\": "}) {
    std::string text = R"({"schema": "npuc-report/1", "novelty": )";
    for (int i = 0; i < 1000000; ++i)
      text += open;
    const Status s = FromJson(text, "r.json").status();
    EXPECT_EQ(ErrorCode(s), "E0103");
  }
  // Brackets in names are no nesting.
  Report r = Sample();
  r.nodes[0].id = std::string(500, '[') + "\\\"" + std::string(500, '{');
  auto back = FromJson(ToJson(r), "r.json");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->nodes[0].id, r.nodes[0].id);
}

TEST(ReportJson, EveryTruncationIsE0103) {
  const std::string text = ToJson(Sample());
  for (size_t n = 0; n + 2 < text.size(); n += 7)
    EXPECT_EQ(ErrorCode(FromJson(text.substr(0, n), "r.json").status()), "E0103") << n;
}

TEST(ReportJson, NumbersBeyondTheirTypeAreE0103) {
  for (const char *cycles : {"1e400", "9223372036854775808", "1.5", "\"7\"", "[]", "true"})
    EXPECT_EQ(
        ErrorCode(
            FromJson(fmt::format(R"({{"schema": "npuc-report/1", "performance": {{"cycles": {}}}}})", cycles), "r.json")
                .status()),
        "E0103")
        << cycles;
}

// Rows that point outside, spans of wrong lengths, negative figures: rendered without reading beyond.
TEST(ReportJson, OddValuesRender) {
  Report r = Sample();
  r.nodes[0].layer = 99;
  r.nodes[1].inputs = {-5, 1 << 30};
  r.timeline.engines[0].second = {{}, {1}, {5, 3, 77}};
  r.timeline.sram = {{}, {1, 2, 3}};
  r.timeline.mac = {{}, {1}};
  r.layers[0].id = -7;
  r.layers[0].cycles = -1;
  r.layers[0].share = -2;
  r.memory.sram_bytes = -1;
  r.performance.waits = {{"unheard of", 5}};
  const std::function<std::string(const Report &)> renderers[] = {RenderMarkdown,
                                                                  RenderHtml,
                                                                  RenderJunit,
                                                                  [](const Report &r) { return RenderSarif(r); },
                                                                  [](const Report &r) { return RenderCodeQuality(r); },
                                                                  RenderBadge};
  for (const auto &render : renderers)
    EXPECT_FALSE(render(r).empty());
  EXPECT_FALSE(RenderText(r).empty());
}

TEST(Gates, EachPassesAtItsLimitAndFailsBeyond) {
  const Report r = Sample();
  auto passes = [&](Gates g) { return AllPassed(CheckGates(r, g, nullptr, {})); };
  Gates g;
  EXPECT_TRUE(passes(g));
  g.min_coverage = 66.6;
  EXPECT_TRUE(passes(g));
  g.min_coverage = 66.7;
  EXPECT_FALSE(passes(g));
  g = {};
  g.min_mac_coverage = 87.5;
  EXPECT_TRUE(passes(g));
  g.min_mac_coverage = 88;
  EXPECT_FALSE(passes(g));
  g = {};
  g.max_cycles = 1000;
  EXPECT_TRUE(passes(g));
  g.max_cycles = 999;
  EXPECT_FALSE(passes(g));
  g = {};
  g.max_sram = 65536;
  EXPECT_TRUE(passes(g));
  g.max_sram = 65535;
  EXPECT_FALSE(passes(g));
  g = {};
  g.max_ddr = 400; // read and written
  EXPECT_TRUE(passes(g));
  g.max_ddr = 399;
  EXPECT_FALSE(passes(g));
  g = {};
  g.fail_on_fallback = true;
  auto rows = CheckGates(r, g, nullptr, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].passed);
  EXPECT_NE(rows[0].message.find("'nms' (NonMaxSuppression): no lowering"), std::string::npos) << rows[0].message;
}

TEST(Gates, BaselineFailsWhenANodeLeavesTheNpuOrAFigureGrows) {
  const Report old = Sample();
  Gates g;
  g.baseline = "old.report.json";
  auto failure = [&](const Report &now, Tolerances t = {}) {
    auto rows = CheckGates(now, g, &old, t);
    return rows.size() == 1 && !rows[0].passed ? rows[0].message : std::string();
  };
  EXPECT_EQ(failure(old), "");
  Report now = old;
  now.nodes[0].verdict = "host";
  EXPECT_NE(failure(now).find("left the NPU"), std::string::npos);
  now.nodes[0].verdict = "eliminated"; // folded away is no loss
  EXPECT_EQ(failure(now), "");
  now = old;
  now.performance.cycles = 1020;
  EXPECT_NE(failure(now).find("cycles grew from 1000 to 1020"), std::string::npos) << failure(now);
  EXPECT_EQ(failure(now, {.cycles = 2}), "");
  EXPECT_NE(failure(now, {.cycles = 1.9}), "");
  now = old;
  now.memory.sram_peak += 1;
  EXPECT_NE(failure(now, {.cycles = 50, .ddr_bytes = 50}), "");
  now = old;
  now.performance.ddr_write_bytes += 1;
  EXPECT_NE(failure(now), "");
  now = old;
  now.performance.cycles = 1; // better in all
  EXPECT_EQ(failure(now), "");
}

TEST(Gates, Tolerances) {
  auto t = ParseTolerances({"cycles=2.5", "sram=1%"});
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->cycles, 2.5);
  EXPECT_EQ(t->sram, 1);
  for (const char *bad :
       {"cycles", "cycle=1", "cycles=", "cycles=x", "cycles=-1", "cycles=nan", "cycles=%", "cycles=1%%", "%"})
    EXPECT_EQ(ErrorCode(ParseTolerances({bad}).status()), "E0501") << bad;
}

TEST(Text, FitsATerminal) {
  Report r = Sample();
  for (int i = 0; i < 30; ++i) {
    r.nodes[1].reasons.push_back({fmt::format("rule-{}", i), std::string(300, 'x'), "", "", ""});
    r.layers.push_back(r.layers[0]);
    r.gates.push_back({"max-cycles", false, "too many"});
    r.advice.push_back({"sram", "n", "line\nbreak", "", 1, 0, 0, 0});
  }
  r.nodes[1].id = "evil\x1b[2J\nname";
  const std::string text = RenderText(r);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 25);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("66.7 %"), std::string::npos) << text;
  EXPECT_NE(text.find("[op-unsupported]"), std::string::npos) << text;
}

TEST(Text, SaysWhenNothingRunsOnTheNpuAndPrintsTheWholeCommand) {
  Report r = Sample();
  r.performance.cycles = 0;
  r.advice[0].apply = "npuc m.onnx --output " + std::string(300, 'y');
  const std::string text = RenderText(r);
  EXPECT_NE(text.find("nothing runs on the NPU"), std::string::npos) << text;
  EXPECT_EQ(text.find("efficiency"), std::string::npos) << text;
  EXPECT_NE(text.find(r.advice[0].apply), std::string::npos) << text;
}

TEST(Html, IsSelfContainedAndEscapes) {
  Report r = Sample();
  r.nodes[1].id = "<script>alert(1)</script>";
  r.nodes[1].reasons[0].message = "\"quoted\" & <b>";
  const std::string html = RenderHtml(r);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);
  EXPECT_EQ(html.find("https://"), std::string::npos);
  EXPECT_EQ(html.find("src=\""), std::string::npos);
  EXPECT_NE(html.find("m&lt;&amp;&gt;.onnx"), std::string::npos);
  EXPECT_NE(html.find("&quot;quoted&quot; &amp; &lt;b&gt;"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
  for (const char *section :
       {"time", "layers", "roofline", "sram", "graph", "fallbacks", "nodes", "model", "advice", "made"})
    EXPECT_NE(html.find(fmt::format("<h2 id=\"{}\"", section)), std::string::npos) << section;
}

TEST(Html, AnEmptyReportRenders) {
  Report r;
  EXPECT_NE(RenderHtml(r).find("Nothing runs on the NPU"), std::string::npos);
  EXPECT_FALSE(RenderText(r).empty());
  EXPECT_FALSE(RenderMarkdown(r).empty());
}

TEST(Text, Units) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1536), "1.50 KiB");
  EXPECT_EQ(Bytes(int64_t{10} << 20), "10.0 MiB");
  EXPECT_EQ(Grouped(1234567), "1 234 567");
  EXPECT_EQ(Grouped(-1234), "-1 234");
  EXPECT_EQ(Grouped(999), "999");
}

} // namespace
} // namespace npuc::report
