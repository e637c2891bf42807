// npuc --manifest: one table, one exit code, rows that know nothing of one another.
#include <gtest/gtest.h>

#include <algorithm>

#include "test/e2e/run_tool.h"
#include "test/e2e/tiny_onnx.h"

namespace npuc::e2e {
namespace {

class Manifest : public testing::Test {
protected:
  void SetUp() override {
    dir_ = FreshFolder();
    fs::create_directory(dir_ / "nets");
    for (const char *name : {"a", "b"})
      WriteAll(
          dir_ / "nets" / (std::string(name) + ".onnx"),
          TinyModel({{"Relu", "r", {"x"}, {"y"}}, {"Sigmoid", "s", {"y"}, {"z"}}}, {{"x", {1, 4}}}, {{"z", {1, 4}}}));
  }
  Outcome Run(const std::string &yaml, std::vector<std::string> args = {}) {
    WriteAll(dir_ / "nets/m.yaml", yaml);
    args.insert(args.begin(), {"--manifest", "nets/m.yaml"});
    return RunTool("npuc", args, dir_);
  }
  // Names and results of the table.
  static std::vector<std::string> Rows(const std::string &table) {
    std::vector<std::string> rows;
    std::istringstream in(table);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("|-") || line.starts_with("| row"))
        continue;
      auto cell = [&](size_t begin, size_t end) {
        std::string s = line.substr(begin + 1, end - begin - 1);
        s.erase(0, s.find_first_not_of(' '));
        return s.substr(0, s.find_last_not_of(' ') + 1);
      };
      const size_t last = line.rfind('|');
      rows.push_back(cell(0, line.find('|', 1)) + "=" + cell(line.rfind('|', last - 1), last));
    }
    return rows;
  }
  void ExpectWrong(const std::string &yaml, const std::string &place, const std::string &what) {
    const Outcome o = Run(yaml, {"--output-dir", "out"});
    EXPECT_EQ(o.code, 1) << yaml;
    EXPECT_NE(o.err.find("nets/m.yaml:" + place + ": error[E0508]"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find(what), std::string::npos) << o.err;
    EXPECT_FALSE(fs::exists(dir_ / "out")) << yaml;
  }
  fs::path dir_;
};

const char *kRows = R"(defaults:
  target: edge-6t
models:
  - a.onnx
  - model: b.onnx
    name: gated
    max-cycles: 1
  - model: missing.onnx
  - model: b.onnx
    output: other.npu
    name: plain
    target: edge-2t
    no-report: true
    deny-op: [Relu, Sigmoid]
)";

TEST_F(Manifest, RowsAreIndependent) {
  const Outcome o = Run(kRows, {"-j", "3"});
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_EQ(Rows(o.out),
            (std::vector<std::string>{"a=ok", "gated=gate failed: max-cycles", "missing=error (1)", "plain=ok"}))
      << o.out;
  EXPECT_NE(o.err.find("== missing\nmissing.onnx: error[E0101]"), std::string::npos) << o.err;
  // Beside the manifest, whatever the current folder is.
  EXPECT_EQ(Entries(dir_ / "nets"),
            (std::vector<std::string>{"a.bin", "a.onnx", "a.report.html", "a.report.json", "b.onnx", "gated.bin",
                                      "gated.report.html", "gated.report.json", "m.yaml", "other.npu"}));
  EXPECT_EQ(Run("models: [a.onnx, {model: b.onnx, max-cycles: 1}]").code, 3);
  EXPECT_EQ(Run("models: [a.onnx, b.onnx]").code, 0);
}

TEST_F(Manifest, WritesWhatNpucWritesWithAnyNumberOfJobs) {
  ASSERT_EQ(RunTool("npuc", {"a.onnx", "-o", "../single.bin", "--target", "edge-6t"}, dir_ / "nets").code, 0);
  const std::string want = ReadAll(dir_ / "single.bin");
  std::vector<std::string> tables;
  for (const char *jobs : {"1", "2", "7"}) {
    const Outcome o = Run(kRows, {"-j", jobs, "--output-dir", std::string("out") + jobs});
    tables.push_back(o.out);
    EXPECT_TRUE(ReadAll(dir_ / (std::string("out") + jobs) / "a.bin") == want) << jobs;
  }
  EXPECT_EQ(tables[0], tables[1]);
  EXPECT_EQ(tables[0], tables[2]);
  EXPECT_EQ(Entries(dir_ / "nets").size(), 3u); // two models and the manifest
}

TEST_F(Manifest, PartsForJobSchedulers) {
  EXPECT_EQ(Run(kRows, {"--list-rows"}).out, "a\ngated\nmissing\nplain\n");
  EXPECT_EQ(Run(kRows, {"--list-rows", "--shard", "1/2"}).out, "a\nmissing\n");
  EXPECT_EQ(Run(kRows, {"--list-rows", "--shard", "2/2"}).out, "gated\nplain\n");
  EXPECT_EQ(Run(kRows, {"--list-rows", "--shard", "9/9"}).out, "");
  EXPECT_EQ(Run(kRows, {"--list-rows", "--only", "plain", "--only", "a"}).out, "a\nplain\n");
  EXPECT_EQ(Rows(Run(kRows, {"--only", "gated"}).out), (std::vector<std::string>{"gated=gate failed: max-cycles"}));
  EXPECT_EQ(Run(kRows, {"--shard", "9/9"}).code, 0);
  for (const char *bad : {"0/2", "3/2", "1", "1/", "/2", "1/2x", "a/b", "-1/2"})
    EXPECT_EQ(Run(kRows, {"--shard", bad}).code, 1) << bad;
  const Outcome o = Run(kRows, {"--only", "gatet"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("did you mean gated?"), std::string::npos) << o.err;
}

TEST_F(Manifest, MistakesAreFoundBeforeTheWork) {
  ExpectWrong("models:\n  - model: a.onnx\n    taget: edge-2t\n", "3:5", "did you mean target?");
  ExpectWrong("models:\n  - model: a.onnx\n    precision: int9\n", "2:5", "int9");
  ExpectWrong("models:\n  - model: a.onnx\n    fail-on-fallback: 3\n", "3:23", "fail-on-fallback");
  ExpectWrong("models:\n  - model: a.onnx\n    target: [a, b]\n", "3:13", "target");
  ExpectWrong("models:\n  - target: edge-2t\n", "2:5", "needs a model");
  ExpectWrong("models:\n  - a.onnx\n  - a.onnx\n", "3:5", "two rows are called 'a'");
  ExpectWrong("models:\n  - a.onnx\n  - {model: b.onnx, output: ./a.bin}\n", "3:5", "two rows write");
  ExpectWrong("models: []\n", "1:9", "empty");
  ExpectWrong("defaults: {model: a.onnx}\nmodels: [a.onnx]\n", "1:19", "every row has its own");
  ExpectWrong("model: [a.onnx]\n", "1:1", "models");
  EXPECT_EQ(RunTool("npuc", {"--manifest", "none.yaml"}, dir_).code, 1);
}

TEST_F(Manifest, FlagsOfOneModelDoNotGoWithIt) {
  EXPECT_EQ(Run(kRows, {"--target", "edge-2t"}).code, 2);
  EXPECT_EQ(Run(kRows, {"nets/a.onnx"}).code, 2);
  EXPECT_EQ(RunTool("npuc", {"nets/a.onnx", "--only", "a"}, dir_).code, 2);
}

} // namespace
} // namespace npuc::e2e
