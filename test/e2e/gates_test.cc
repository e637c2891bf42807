// Gates and comparisons as CI sees them: exit codes of npuc and npu-report, and what is written all the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/report/json.h"
#include "test/e2e/run_tool.h"

namespace npuc::e2e {
namespace {

const std::string kDigits = std::string(NPUC_SOURCE_DIR) + "/models/digits/digits.onnx";

class Gate : public testing::Test {
protected:
  void SetUp() override { dir_ = FreshFolder(); }
  Outcome Npuc(std::vector<std::string> args) {
    args.insert(args.begin(), {kDigits, "-q"});
    return RunTool("npuc", args, dir_);
  }
  Outcome Tool(const std::vector<std::string> &args) { return RunTool("npu-report", args, dir_); }
  report::Report Read(const std::string &name) {
    auto r = report::ReadReport((dir_ / name).string());
    EXPECT_TRUE(r.ok()) << r.status();
    return r.ok() ? *r : report::Report{};
  }
  void Binary(const std::string &name) { EXPECT_TRUE(fs::exists(dir_ / name)) << name; }
  fs::path dir_;
};

// Softmax on the host: 10 of 11 nodes are on the NPU, Flatten among them or eliminated.
TEST_F(Gate, EveryGatePassesAndFailsInBothTools) {
  ASSERT_EQ(Npuc({"-o", "m.bin", "--deny-node", "softmax"}).code, 0);
  ASSERT_EQ(Npuc({"-o", "clean.bin"}).code, 0);
  const report::Report r = Read("m.report.json");
  ASSERT_EQ(r.coverage.nodes_host, 1);
  const int64_t ddr = r.performance.ddr_read_bytes + r.performance.ddr_write_bytes;
  auto n = [](int64_t v) { return std::to_string(v); };
  struct Row {
    const char *flag;
    std::vector<std::string> pass, fail;
  };
  const std::vector<Row> rows = {
      {"--min-coverage", {fmt::format("{}", r.coverage.node_percent)}, {"99"}},
      {"--min-mac-coverage", {"100"}, {}},
      {"--max-cycles", {n(r.performance.cycles)}, {n(r.performance.cycles - 1)}},
      {"--max-sram", {n(r.memory.sram_peak)}, {n(r.memory.sram_peak - 1)}},
      {"--max-ddr", {n(ddr)}, {n(ddr - 1)}},
      {"--baseline", {"m.report.json"}, {"clean.report.json"}}, // softmax left the NPU
  };
  auto both = [&](const std::vector<std::string> &gate, int code) {
    std::vector<std::string> compile = {"-o", "g.bin", "--deny-node", "softmax"}, check = {"check", "m.report.json"};
    compile.insert(compile.end(), gate.begin(), gate.end());
    check.insert(check.end(), gate.begin(), gate.end());
    for (const char *file : {"g.bin", "g.report.json", "g.report.html"})
      fs::remove(dir_ / file);
    const Outcome a = Npuc(compile), b = Tool(check);
    EXPECT_EQ(a.code, code) << gate[0] << a.err;
    EXPECT_EQ(b.code, code) << gate[0] << b.out << b.err;
    EXPECT_NE((code ? a.err : b.out).find(gate[0].substr(2)), std::string::npos) << gate[0];
    for (const char *file : {"g.bin", "g.report.json", "g.report.html"})
      Binary(file);
    const report::Report now = Read("g.report.json");
    ASSERT_EQ(now.gates.size(), 1u);
    EXPECT_EQ(now.gates[0].passed, code == 0);
  };
  for (const Row &row : rows) {
    both({row.flag, row.pass[0]}, 0);
    if (!row.fail.empty())
      both({row.flag, row.fail[0]}, 3);
  }
  both({"--fail-on-fallback"}, 3);
  ASSERT_EQ(Npuc({"-o", "m.bin", "--deny-node", "fc"}).code, 0); // has MACs
  EXPECT_EQ(Tool({"check", "m.report.json", "--min-mac-coverage", "100"}).code, 3);
  EXPECT_EQ(Npuc({"-o", "g.bin", "--deny-node", "fc", "--min-mac-coverage", "100"}).code, 3);
  EXPECT_EQ(Tool({"check", "clean.report.json", "--fail-on-fallback"}).code, 0);
  EXPECT_EQ(Npuc({"-o", "g.bin", "--fail-on-fallback"}).code, 0);
}

TEST_F(Gate, ToleranceOfTheBaseline) {
  ASSERT_EQ(Npuc({"-o", "m.bin"}).code, 0);
  report::Report r = Read("m.report.json");
  const int64_t cycles = r.performance.cycles;
  r.performance.cycles = cycles * 100 / 102; // as if the model had become 2 % slower since
  WriteAll(dir_ / "old.report.json", report::ToJson(r));
  const std::vector<std::string> gate = {"--baseline", "old.report.json"};
  for (const auto &[tolerance, code] :
       {std::pair("", 3), {"cycles=1%", 3}, {"cycles=2.1%", 0}, {"cycles=3", 0}, {"sram=50%", 3}}) {
    std::vector<std::string> compile = {"-o", "g.bin", "--baseline", "old.report.json"},
                             check = {"check", "m.report.json", "--baseline", "old.report.json"};
    if (*tolerance)
      for (auto *args : {&compile, &check})
        args->insert(args->end(), {"--tolerance", tolerance});
    EXPECT_EQ(Npuc(compile).code, code) << tolerance;
    EXPECT_EQ(Tool(check).code, code) << tolerance;
  }
  EXPECT_EQ(Npuc({"-o", "x.bin", "--baseline", "old.report.json", "--tolerance", "cycles=2%%"}).code, 1);
  EXPECT_FALSE(fs::exists(dir_ / "x.bin"));
}

TEST_F(Gate, ACosineThatWasNotMeasuredIsNoPass) {
  ASSERT_EQ(Npuc({"-o", "m.bin"}).code, 0);
  const Outcome o = Tool({"check", "m.report.json", "--min-cosine", "0.5"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("error[E0501]"), std::string::npos) << o.err;
}

std::vector<std::string> LinesWith(const std::string &text, const std::string &what) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.size(), text.find('\n', at));
    if (const std::string line = text.substr(at, end - at); line.find(what) != std::string::npos)
      lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

// A model against its changed twin: one operator made unsupported, one change of the target.
void CheckTwin(const std::string &model, const std::string &node, const std::string &op, const fs::path &dir) {
  std::string yaml = ReadAll(std::string(NPUC_SOURCE_DIR) + "/targets/edge-2t.yaml");
  const size_t at = yaml.find("ddr_bytes_per_cycle: 12.8");
  ASSERT_NE(at, std::string::npos);
  WriteAll(dir / "edge-2t.yaml", yaml.replace(at, 25, "ddr_bytes_per_cycle: 6.4"));
  ASSERT_EQ(RunTool("npuc", {model, "-o", "old.bin", "-q"}, dir).code, 0);
  ASSERT_EQ(RunTool("npuc", {model, "-o", "new.bin", "-q", "--deny-node", node, "--target", "edge-2t.yaml"}, dir).code,
            0);
  const std::vector<std::string> diff = {"diff", "old.report.json", "new.report.json"};
  const Outcome plain = RunTool("npu-report", diff, dir);
  EXPECT_EQ(plain.code, 0) << plain.err;
  std::vector<std::string> strict = diff;
  strict.push_back("--fail-on-regression");
  const Outcome o = RunTool("npu-report", strict, dir);
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.out, plain.out);
  // Just those changes.
  EXPECT_EQ(LinesWith(o.out, "  node '"),
            (std::vector<std::string>{fmt::format("  node '{}' ({}): npu -> host", node, op)}))
      << o.out;
  EXPECT_EQ(LinesWith(o.out, "      ["), (std::vector<std::string>{LinesWith(o.out, "[denied]")})) << o.out;
  EXPECT_EQ(LinesWith(o.out, "  target."), (std::vector<std::string>{"  target.ddr_bytes_per_cycle: 12.8 -> 6.4"}))
      << o.out;
  EXPECT_EQ(LinesWith(o.out, "  options."), (std::vector<std::string>{"  options.deny-node: none -> " + node}))
      << o.out;
  EXPECT_TRUE(LinesWith(o.out, "  model.").empty() && LinesWith(o.out, "  tool.").empty()) << o.out;
  EXPECT_EQ(LinesWith(o.out, "left the NPU").size(), 1u) << o.out;
  const Outcome markdown =
      RunTool("npu-report", {"diff", "old.report.json", "new.report.json", "--markdown", "-o", "d.md"}, dir);
  EXPECT_EQ(markdown.code, 0);
  EXPECT_NE(ReadAll(dir / "d.md").find("### Regressions"), std::string::npos);
  // And nothing against itself.
  const Outcome same =
      RunTool("npu-report", {"diff", "new.report.json", "new.report.json", "--fail-on-regression"}, dir);
  EXPECT_EQ(same.code, 0);
  EXPECT_NE(same.out.find("no difference"), std::string::npos) << same.out;
}

TEST_F(Gate, DiffOfATwinListsJustItsChanges) {
  CheckTwin(kDigits, "pool1", "MaxPool", dir_);
}

TEST_F(Gate, DiffOfARealTwinListsJustItsChanges) {
  const fs::path model = fs::path(NPUC_SOURCE_DIR).parent_path() / "shared/models/squeezenet-fp16.onnx";
  if (!fs::exists(model))
    GTEST_SKIP() << "no shared models beside the checkout";
  CheckTwin(model.string(), "MaxPool@pool3_1", "MaxPool", dir_);
}

} // namespace
} // namespace npuc::e2e
