// npuc through its command line: exit codes, diagnostics, files that appear or don't.
#include <gtest/gtest.h>

#include "backend/report/json.h"
#include "test/e2e/run_tool.h"
#include "test/e2e/tiny_onnx.h"

namespace npuc::e2e {
namespace {

const std::string kDigits = std::string(NPUC_SOURCE_DIR) + "/models/digits/digits.onnx";

class Npuc : public testing::Test {
protected:
  void SetUp() override {
    if (!HaveTool("npuc"))
      GTEST_SKIP() << "npuc is not built";
    dir_ = FreshFolder();
  }
  Outcome Run(std::vector<std::string> args) { return RunTool("npuc", args, dir_); }
  // Fails with exit code 1 and the code, and leaves nothing beside `before`.
  void ExpectRefused(const std::vector<std::string> &args, const std::string &code) {
    const auto before = Entries(dir_);
    const Outcome o = Run(args);
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_NE(o.err.find("error[" + code + "]"), std::string::npos) << o.err;
    EXPECT_EQ(Entries(dir_), before);
  }
  std::string Write(const std::string &name, const std::string &bytes) {
    WriteAll(dir_ / name, bytes);
    return (dir_ / name).string();
  }
  std::string Relu(const std::vector<int64_t> &dims) {
    return Write("relu.onnx", TinyModel({{"Relu", "r", {"x"}, {"y"}}}, {{"x", dims}}, {{"y", dims}}));
  }
  fs::path dir_;
};

TEST_F(Npuc, WritesBinaryAndReportsAndASummary) {
  const Outcome o = Run({kDigits, "-o", "d.bin"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Entries(dir_), (std::vector<std::string>{"d.bin", "d.report.html", "d.report.json"}));
  EXPECT_LE(std::count(o.out.begin(), o.out.end(), '\n'), 25);
  EXPECT_NE(o.out.find("coverage"), std::string::npos);
  auto report = report::ReadReport((dir_ / "d.report.json").string());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->coverage.nodes_total, 11);
  EXPECT_EQ(report->coverage.nodes_host, 0);
  EXPECT_GT(report->performance.cycles, 0);
  EXPECT_GT(report->performance.efficiency, 0);
  EXPECT_LE(report->performance.efficiency, 1);
  // Convolutions 8x8x16x9, 8x8x16x144, 4x4x32x144, Gemm 128x10.
  EXPECT_EQ(report->performance.macs, 9216 + 147456 + 73728 + 1280);
}

TEST_F(Npuc, QuietSaysNothing) {
  const Outcome o = Run({kDigits, "-o", "d.bin", "-q"});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.out + o.err, "");
}

TEST_F(Npuc, TheDefaultOutputIsInTheCurrentFolder) {
  EXPECT_EQ(Run({kDigits, "-q", "--no-report"}).code, 0);
  EXPECT_EQ(Entries(dir_), (std::vector<std::string>{"digits.bin"}));
}

TEST_F(Npuc, SameBytesWhateverThreadsNameAndFolder) { // N121
  fs::create_directories(dir_ / "sub");
  ASSERT_EQ(Run({kDigits, "-o", "a.bin", "-q", "-j", "1"}).code, 0);
  ASSERT_EQ(Run({kDigits, "-o", "sub/b.bin", "-q", "-j", "4"}).code, 0);
  EXPECT_TRUE(ReadAll(dir_ / "a.bin") == ReadAll(dir_ / "sub/b.bin"));
  auto a = report::ReadReport((dir_ / "a.report.json").string()),
       b = report::ReadReport((dir_ / "sub/b.report.json").string());
  ASSERT_TRUE(a.ok() && b.ok());
  a->compile = b->compile = {};
  EXPECT_TRUE(report::ToJson(*a) == report::ToJson(*b)) << "the reports differ beyond `compile`";
}

TEST_F(Npuc, Fp32IsOneHostStepWithoutNpu) {
  ASSERT_EQ(Run({kDigits, "-o", "d.bin", "-q", "--precision", "fp32"}).code, 0);
  auto r = report::ReadReport((dir_ / "d.report.json").string());
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->coverage.nodes_npu, 0);
  EXPECT_EQ(r->coverage.node_percent, 0);
  EXPECT_EQ(r->coverage.npu_segments, 0);
  EXPECT_EQ(r->coverage.host_segments, 1);
  EXPECT_EQ(r->performance.cycles, 0);
  EXPECT_EQ(r->performance.efficiency, 1);
  for (const auto &node : r->nodes)
    if (node.verdict == "host") {
      ASSERT_FALSE(node.reasons.empty()) << node.id;
      EXPECT_EQ(node.reasons[0].rule, "precision-fp32");
    }
}

TEST_F(Npuc, Usage) {
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({kDigits, "--no-such-flag"}).code, 2);
  EXPECT_EQ(Run({kDigits, "--precision", "int7"}).code, 2);
  EXPECT_EQ(Run({kDigits, "--min-coverage", "101"}).code, 2);
  EXPECT_EQ(Run({kDigits, "--min-coverage", "nan"}).code, 2);
  const Outcome negative = Run({kDigits, "--max-cycles", "-1"});
  EXPECT_EQ(negative.code, 2);
  EXPECT_NE(negative.err.find("--max-cycles: '-1' is not a number from 0 on"), std::string::npos) << negative.err;
  EXPECT_EQ(Run({kDigits, "-o"}).code, 2);
  EXPECT_EQ(Run({kDigits, "-o", ""}).code, 2);
  EXPECT_EQ(Run({kDigits, "--report", ""}).code, 2);
  EXPECT_EQ(Run({kDigits, "extra.onnx"}).code, 2);
  EXPECT_EQ(Run({kDigits, "-O4"}).code, 2);
  EXPECT_EQ(Run({"--help"}).code, 0);
  EXPECT_NE(Run({"--version"}).out.find("npuc "), std::string::npos);
  const Outcome targets = Run({"--list-targets"});
  EXPECT_EQ(targets.code, 0);
  EXPECT_NE(targets.out.find("edge-2t"), std::string::npos);
  EXPECT_TRUE(Entries(dir_).empty());
}

// What a flag would say how to do is not asked for.
TEST_F(Npuc, FlagsWithoutEffectAreSaid) {
  const Outcome o = Run({kDigits, "-o", "d.bin", "--no-report", "--calib-method", "minmax", "--preprocess", "none.yaml",
                         "--tolerance", "cycles=2"});
  for (const char *flag : {"--calib-method", "--preprocess", "--tolerance"})
    EXPECT_NE(o.err.find(std::string("warning: ") + flag + " has no effect without"), std::string::npos) << o.err;
}

// Every refusal says what to do.
TEST_F(Npuc, RefusalsHaveARemedy) {
  fs::create_directories(dir_ / "folder");
  Write("text", "hello");
  const std::string model =
      Write("free.onnx", TinyModel({{"Relu", "r", {"x"}, {"y"}}}, {{"x", {-1, 4}}}, {{"y", {-1, 4}}}));
  const std::vector<std::vector<std::string>> calls = {
      {"folder"},
      {model, "--quant-config", "folder"},
      {model, "--dim", "N"},
      {model, "--input-shape", "x"},
      {model, "--input-shape", "x=1x2x3"},
      {model, "--bind", "x"},
      {model, "--baseline", "text"},
      {model, "--tile", "r=1x1", "--tile", "r=2x2"},
  };
  for (std::vector<std::string> args : calls) {
    args.insert(args.end(), {"-o", "m.bin", "-q"});
    const auto before = Entries(dir_);
    const Outcome o = Run(args);
    EXPECT_EQ(o.code, 1) << args[1] << " " << args[2] << o.err;
    EXPECT_NE(o.err.find("help: "), std::string::npos) << args[1] << " " << args[2] << o.err;
    EXPECT_EQ(Entries(dir_), before);
  }
}

TEST_F(Npuc, BadModels) {
  ExpectRefused({"none.onnx", "-o", "m.bin"}, "E0101");
  ExpectRefused({dir_.string(), "-o", "m.bin"}, "E0101");
  const std::string good = ReadAll(kDigits);
  ExpectRefused({Write("empty.onnx", ""), "-o", "m.bin"}, "E0201");
  ExpectRefused({Write("garbage.onnx", std::string(1000, '\x7f')), "-o", "m.bin"}, "E0201");
  ExpectRefused({Write("text.onnx", "this is not a model\n"), "-o", "m.bin"}, "E0201");
}

TEST_F(Npuc, EveryTruncationIsRefusedOrCompiles) {
  const std::string good = ReadAll(kDigits);
  for (size_t size : {size_t{1}, size_t{7}, size_t{100}, good.size() / 2, good.size() - 1000, good.size() - 1}) {
    const std::string path = Write("cut.onnx", good.substr(0, size));
    const auto before = Entries(dir_);
    const Outcome o = Run({path, "-o", "m.bin", "-q"});
    EXPECT_EQ(o.code, 1) << size << ": " << o.err;
    EXPECT_NE(o.err.find("cut.onnx: error[E0"), std::string::npos) << o.err;
    EXPECT_EQ(Entries(dir_), before) << size;
  }
}

TEST_F(Npuc, AnUnknownOperatorNamesTheNode) {
  const std::string path =
      Write("m.onnx", TinyModel({{"Frobnicate", "f1", {"x"}, {"t"}}, {"Twiddle", "", {"t"}, {"y"}}}, {{"x", {1, 4}}},
                                {{"y", {1, 4}}}));
  const Outcome o = Run({path, "-o", "m.bin"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("error[E0401]"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("Frobnicate"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("Twiddle"), std::string::npos) << "all of them at once: " << o.err;
  EXPECT_EQ(Entries(dir_), (std::vector<std::string>{"m.onnx"}));
}

TEST_F(Npuc, ACycleAndAnUnknownTensorAreNoGraphs) {
  EXPECT_EQ(Run({Write("c.onnx", TinyModel({{"Relu", "a", {"q"}, {"p"}}, {"Relu", "b", {"p"}, {"q"}}}, {{"x", {1}}},
                                           {{"q", {1}}})),
                 "-o", "m.bin"})
                .code,
            1);
  EXPECT_EQ(
      Run({Write("u.onnx", TinyModel({{"Relu", "a", {"nowhere"}, {"y"}}}, {{"x", {1}}}, {{"y", {1}}})), "-o", "m.bin"})
          .code,
      1);
}

TEST_F(Npuc, OutputsThatCannotBeWritten) {
  fs::create_directories(dir_ / "folder.bin");
  ExpectRefused({kDigits, "-o", "folder.bin"}, "E0102");
  ExpectRefused({kDigits, "-o", "nowhere/m.bin"}, "E0102");
  ExpectRefused({kDigits, "-o", "m.bin", "--report", "nowhere/r"}, "E0102");
  ExpectRefused({kDigits, "-o", "-"}, "E0501");
  ExpectRefused({kDigits, "-o", "m.bin", "--report", "folder.bin/"}, "E0501");
  WriteAll(dir_ / "file", "");
  ExpectRefused({kDigits, "-o", "m.bin", "--dump-ir", "file/ir"}, "E0102");
  const std::string copy = Write("m.onnx", ReadAll(kDigits));
  ExpectRefused({copy, "-o", "m.onnx"}, "E0501");
  EXPECT_TRUE(ReadAll(copy) == ReadAll(kDigits));
}

TEST_F(Npuc, AFullDiskLeavesEarlierFilesAlone) {
  WriteAll(dir_ / "m.bin", "earlier");
  WriteAll(dir_ / "m.report.json", "earlier report");
  const auto before = Entries(dir_);
  for (rlim_t limit : {rlim_t{2048}, rlim_t{8192}, rlim_t{20000}}) { // within the binary; within the report
    const Outcome o = RunTool("npuc", {kDigits, "-o", "m.bin", "-q"}, dir_, limit);
    EXPECT_EQ(o.code, 1) << limit << o.err;
    EXPECT_NE(o.err.find("error[E0102]"), std::string::npos) << o.err;
    EXPECT_EQ(Entries(dir_), before) << limit;
    EXPECT_EQ(ReadAll(dir_ / "m.bin"), "earlier");
    EXPECT_EQ(ReadAll(dir_ / "m.report.json"), "earlier report");
  }
  const Outcome full = Run({kDigits, "-o", "/dev/full", "--no-report", "-q"});
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("error[E0102]"), std::string::npos) << full.err;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Npuc, Targets) {
  ExpectRefused({kDigits, "-o", "m.bin", "--target", "edge-3t"}, "E0506");
  ExpectRefused({kDigits, "-o", "m.bin", "--target", "none.yaml"}, "E0101");
  std::string yaml = ReadAll(std::string(NPUC_SOURCE_DIR) + "/targets/edge-2t.yaml");
  const size_t at = yaml.find("px: 4");
  ASSERT_NE(at, std::string::npos);
  std::string bad = yaml;
  bad.replace(at, 5, "px: -4");
  Write("bad.yaml", bad);
  const Outcome o = Run({kDigits, "-o", "m.bin", "--target", "bad.yaml"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("bad.yaml:"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("error[E0505]"), std::string::npos) << o.err;
  Write("own.yaml", yaml);
  EXPECT_EQ(Run({kDigits, "-o", "m.bin", "--target", "own.yaml", "-q"}).code, 0);
}

TEST_F(Npuc, FreeDims) {
  // A leading free dim becomes 1, with a note; another one keeps its node on the host.
  Outcome o = Run({Relu({-1, 4}), "-o", "m.bin"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("note"), std::string::npos) << o.err;
  auto r = report::ReadReport((dir_ / "m.report.json").string());
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->nodes[0].verdict, "npu");
  ASSERT_EQ(Run({Relu({1, -1}), "-o", "m.bin", "-q"}).code, 0);
  r = report::ReadReport((dir_ / "m.report.json").string());
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->nodes[0].verdict, "host");
  ASSERT_FALSE(r->nodes[0].reasons.empty());
  EXPECT_EQ(r->nodes[0].reasons[0].rule, "dynamic-shape");
  ASSERT_EQ(Run({Relu({1, -1}), "-o", "m.bin", "-q", "--dim", "N=8"}).code, 0);
  EXPECT_EQ(report::ReadReport((dir_ / "m.report.json").string())->nodes[0].verdict, "npu");
  const std::string model = Relu({1, -1});
  ASSERT_EQ(Run({model, "-o", "m.bin", "-q", "--input-shape", "x=1x6"}).code, 0);
  for (const char *bad : {"M=8", "N=-1", "N=x", "N"})
    EXPECT_EQ(Run({model, "-o", "bad.bin", "-q", "--dim", bad}).code, 1) << bad;
  for (const char *bad : {"z=1x6", "x=1x6x2", "x=2x6", "x=1xx"})
    EXPECT_EQ(Run({model, "-o", "bad.bin", "-q", "--input-shape", bad}).code, 1) << bad;
  EXPECT_FALSE(fs::exists(dir_ / "bad.bin"));
}

TEST_F(Npuc, NamesThatDoNotExist) {
  ExpectRefused({kDigits, "-o", "m.bin", "--deny-node", "conv9"}, "E0507");
  ExpectRefused({kDigits, "-o", "m.bin", "--output", "nothing"}, "E0507");
  ExpectRefused({kDigits, "-o", "m.bin", "--disable-pass", "no-such-pass"}, "E0501");
  ExpectRefused({kDigits, "-o", "m.bin", "--tile", "conv9=8x8"}, "E0507");
  ExpectRefused({kDigits, "-o", "m.bin", "--precision", "int8"}, "E0509");
  ExpectRefused({kDigits, "-o", "m.bin", "--baseline", "none.json"}, "E0101");
}

TEST_F(Npuc, DenyingANodeSendsItToTheHostWithTheReason) {
  ASSERT_EQ(Run({kDigits, "-o", "m.bin", "-q", "--deny-node", "pool1"}).code, 0);
  auto r = report::ReadReport((dir_ / "m.report.json").string());
  ASSERT_TRUE(r.ok());
  for (const auto &node : r->nodes)
    if (node.id == "pool1") {
      EXPECT_EQ(node.verdict, "host");
      ASSERT_FALSE(node.reasons.empty());
      EXPECT_EQ(node.reasons[0].rule, "denied");
    } else {
      EXPECT_NE(node.verdict, "host") << node.id;
    }
  EXPECT_EQ(r->coverage.npu_segments, 2);
  EXPECT_GT(r->coverage.boundary_bytes, 0);
}

TEST_F(Npuc, AFailedGateExitsWithThreeAndStillWrites) {
  const Outcome o = Run({kDigits, "-o", "m.bin", "--max-cycles", "1"});
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_NE(o.err.find("max-cycles"), std::string::npos) << o.err;
  EXPECT_EQ(Entries(dir_).size(), 3u);
  auto r = report::ReadReport((dir_ / "m.report.json").string());
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->gates.size(), 1u);
  EXPECT_FALSE(r->gates[0].passed);
  EXPECT_EQ(
      Run({kDigits, "-o", "n.bin", "-q", "--min-coverage", "100", "--fail-on-fallback", "--baseline", "m.report.json"})
          .code,
      0);
  EXPECT_EQ(Run({kDigits, "-o", "n.bin", "-q", "--baseline", "m.report.json", "--deny-node", "conv1"}).code, 3);
}

TEST_F(Npuc, TheReportToolAgrees) {
  ASSERT_EQ(Run({kDigits, "-o", "m.bin", "-q"}).code, 0);
  auto report = [&](std::vector<std::string> args) { return RunTool("npu-report", args, dir_); };
  EXPECT_EQ(report({"show", "m.report.json"}).code, 0);
  EXPECT_EQ(report({"check", "m.report.json", "--max-cycles", "1"}).code, 3);
  EXPECT_EQ(report({"check", "m.report.json", "--min-coverage", "100"}).code, 0);
  EXPECT_EQ(report({"check", "m.report.json"}).code, 2);
  EXPECT_EQ(report({"show", "m.bin"}).code, 1);
  EXPECT_EQ(report({"diff", "m.report.json", "m.report.json", "--fail-on-regression"}).code, 0);
  for (const char *format : {"html", "markdown", "junit", "sarif", "badge"})
    EXPECT_EQ(report({format, "m.report.json", "-o", std::string("out.") + format}).code, 0) << format;
  // The page written by npuc is the one that the report gives.
  EXPECT_GT(fs::file_size(dir_ / "out.html"), 5000u);
}

} // namespace
} // namespace npuc::e2e
