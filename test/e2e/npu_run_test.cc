// npu-run and npu-objdump through their command lines, on the bundled digits model.
#include <gtest/gtest.h>

#include "compiler/support/json.h"
#include "compiler/support/npy.h"
#include "test/e2e/run_tool.h"

namespace npuc::e2e {
namespace {

const std::string kDigits = std::string(NPUC_SOURCE_DIR) + "/models/digits/digits.onnx";

class NpuRun : public testing::Test {
protected:
  void SetUp() override {
    for (const char *tool : {"npuc", "npu-run", "npu-objdump"})
      if (!HaveTool(tool))
        GTEST_SKIP() << tool << " is not built";
    dir_ = FreshFolder();
    const Outcome o = RunTool("npuc", {kDigits, "-o", "d.bin", "--no-report", "-q"}, dir_);
    ASSERT_EQ(o.code, 0) << o.err;
    const llvm::json::Value dump = Json(RunTool("npu-objdump", {"d.bin", "--json"}, dir_).out);
    const auto &input = *dump.getAsObject()->getArray("inputs")->front().getAsObject();
    const auto &output = *dump.getAsObject()->getArray("outputs")->front().getAsObject();
    in_ = input.getString("name")->str();
    out_ = output.getString("name")->str();
    ASSERT_EQ(*input.getString("dtype"), "f32");
    for (const llvm::json::Value &d : *input.getArray("shape"))
      shape_.push_back(*d.getAsInteger());
    for (const int64_t d : shape_)
      count_ *= d;
  }
  static llvm::json::Value Json(const std::string &text) {
    auto v = ParseJson(text, "json");
    EXPECT_TRUE(v.ok()) << text;
    return v.ok() ? *v : llvm::json::Value(nullptr);
  }
  Outcome Run(std::vector<std::string> args) {
    args.insert(args.begin(), "d.bin");
    return RunTool("npu-run", args, dir_);
  }
  std::string WriteInput(const std::string &name, float scale, std::vector<int64_t> shape = {},
                         const char *descr = "<f4") {
    if (shape.empty())
      shape = shape_;
    std::vector<float> v(count_);
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = scale * static_cast<float>(i % 17);
    EXPECT_TRUE(
        WriteNpy((dir_ / name).string(), descr, shape, {reinterpret_cast<const uint8_t *>(v.data()), v.size() * 4})
            .ok());
    return name;
  }
  void ExpectRefused(const std::vector<std::string> &args, const std::string &code, const std::string &text) {
    const Outcome o = Run(args);
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_NE(o.err.find("error[" + code + "]"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
  }
  fs::path dir_;
  std::string in_, out_;
  std::vector<int64_t> shape_;
  int64_t count_ = 1;
};

TEST_F(NpuRun, OutputsReadBackAndCompare) {
  WriteInput("x.npy", 1);
  ASSERT_EQ(Run({"--input", in_ + "=x.npy", "--output-dir", "o", "-q"}).code, 0);
  ASSERT_EQ(Entries(dir_ / "o"), (std::vector<std::string>{out_ + ".npy"}));
  const std::string npy = "o/" + out_ + ".npy";
  // The same input by position, other thread counts, checked mode: the same bits.
  for (const std::vector<std::string> &flags :
       {std::vector<std::string>{"--threads", "1"}, {"--threads", "3"}, {"--checked"}, {"--repeat", "2"}}) {
    std::vector<std::string> args = {"--input", "x.npy", "--expect", out_ + "=" + npy, "--rtol", "0", "--atol", "0"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Outcome o = Run(args);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
  }
  WriteInput("other.npy", -3);
  const Outcome differs = Run({"--input", "other.npy", "--expect", npy});
  EXPECT_EQ(differs.code, 3);
  EXPECT_NE(differs.out.find("FAIL " + out_), std::string::npos) << differs.out;
  // As protobuf and back in.
  ASSERT_EQ(Run({"--input", "x.npy", "--output-dir", "pb", "--output-format", "pb", "-q"}).code, 0);
  EXPECT_EQ(Entries(dir_ / "pb"), (std::vector<std::string>{"output_0.pb"}));
  EXPECT_EQ(Run({"--input", "x.npy", "--expect", "pb/output_0.pb", "--rtol", "0", "--atol", "0"}).code, 0);
}

TEST_F(NpuRun, RandomIsDeterministic) {
  ASSERT_EQ(Run({"--random", "7", "--output-dir", "a", "-q"}).code, 0);
  EXPECT_EQ(Run({"--random", "7", "--expect", "a/" + out_ + ".npy", "--rtol", "0", "--atol", "0"}).code, 0);
  EXPECT_EQ(Run({"--random", "8", "--expect", "a/" + out_ + ".npy"}).code, 3);
}

TEST_F(NpuRun, ProfileTraceAndCaptures) {
  ASSERT_EQ(Run({"--random", "1", "--profile", "p/p.json", "--trace", "t.json", "--capture", "c", "-q"}).code, 0);
  const llvm::json::Value profile = Json(ReadAll(dir_ / "p/p.json"));
  const int64_t cycles = *profile.getAsObject()->getObject("modelled")->getInteger("cycles");
  EXPECT_GT(cycles, 0);
  int64_t sum = 0;
  for (const llvm::json::Value &l : *profile.getAsObject()->getArray("layers"))
    sum += *l.getAsObject()->getInteger("cycles");
  EXPECT_EQ(sum, cycles);
  EXPECT_GT(Json(ReadAll(dir_ / "t.json")).getAsObject()->getArray("traceEvents")->size(), 10u);
  const llvm::json::Value captures = Json(ReadAll(dir_ / "c/captures.json"));
  for (const llvm::json::Value &c : *captures.getAsArray())
    EXPECT_TRUE(fs::exists(dir_ / "c" / c.getAsObject()->getString("file")->str()));
}

TEST_F(NpuRun, SaysWhatIsWrongWithInputs) {
  ExpectRefused({}, "E0701", "input '" + in_ + "'");
  ExpectRefused({"--input", "nope=x.npy"}, "E0701", "no input 'nope'");
  ExpectRefused({"--input", "missing.npy"}, "E0101", "missing.npy");
  WriteInput("flat.npy", 1, {count_});
  ExpectRefused({"--input", "flat.npy"}, "E0702", "given was f32[" + std::to_string(count_) + "]");
  WriteInput("ints.npy", 1, {}, "<i4");
  ExpectRefused({"--input", "ints.npy"}, "E0702", "given was i32");
  WriteAll(dir_ / "short.raw", "abc");
  ExpectRefused({"--input", "short.raw"}, "E0702", "the file has 3");
  WriteAll(dir_ / "broken.npy", "\x93NUMPY\x01");
  ExpectRefused({"--input", "broken.npy"}, "E0103", "broken.npy");
  WriteInput("x.npy", 1);
  ExpectRefused({"--input", "x.npy", "--input", "x.npy"}, "E0701", "one file too many");
  ExpectRefused({"--input", in_ + "=x.npy", "--input", in_ + "=x.npy"}, "E0701", "given twice");
  ExpectRefused({"--random", "1", "--expect", "nope=x.npy"}, "E0701", "no output 'nope'");
  EXPECT_EQ(Run({"--frobnicate"}).code, 2);
  EXPECT_EQ(Run({"--random", "1", "--repeat", "0"}).code, 2);
  EXPECT_EQ(Run({"--random", "1", "--rtol", "0.1"}).code, 2); // without --expect
  EXPECT_EQ(Run({"--random", "1", "--expect", "x.npy", "--rtol", "nan"}).code, 2);
  ExpectRefused({"--input", ""}, "E0101", "name is empty");
}

TEST_F(NpuRun, RefusesDamagedBinaries) {
  std::string bytes = ReadAll(dir_ / "d.bin");
  WriteAll(dir_ / "cut.bin", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(RunTool("npu-run", {"cut.bin", "--random", "1"}, dir_).code, 1);
  bytes[bytes.size() / 2] ^= 0x10;
  WriteAll(dir_ / "flipped.bin", bytes);
  const Outcome o = RunTool("npu-run", {"flipped.bin", "--random", "1"}, dir_);
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("error[E0603]"), std::string::npos) << o.err;
  EXPECT_EQ(RunTool("npu-run", {kDigits, "--random", "1"}, dir_).code, 1);
}

TEST_F(NpuRun, ObjdumpKeepsTheContract) {
  const llvm::json::Value dump = Json(RunTool("npu-objdump", {"d.bin", "--json"}, dir_).out);
  const llvm::json::Object &o = *dump.getAsObject();
  for (const char *key : {"inputs", "outputs", "target", "steps", "layers"})
    EXPECT_TRUE(o.get(key)) << key;
  int64_t commands = 0, of_layers = 0;
  for (const llvm::json::Value &s : *o.getArray("steps")) {
    ASSERT_EQ(*s.getAsObject()->getString("kind"), "npu");
    commands += *s.getAsObject()->getInteger("commands") - 1; // END belongs to no layer
    EXPECT_GT(*s.getAsObject()->getInteger("words"), 0);
  }
  for (const llvm::json::Value &l : *o.getArray("layers")) {
    of_layers += *l.getAsObject()->getInteger("commands");
    EXPECT_TRUE(l.getAsObject()->getArray("origins"));
  }
  EXPECT_EQ(commands, of_layers);
  EXPECT_EQ(RunTool("npu-objdump", {"d.bin", "--verify"}, dir_).code, 0);
  const Outcome d = RunTool("npu-objdump", {"d.bin", "-d"}, dir_);
  EXPECT_NE(d.out.find("MXU CONV"), std::string::npos);
  EXPECT_NE(RunTool("npu-objdump", {"d.bin"}, dir_).out.find("layers:"), std::string::npos);
}

} // namespace
} // namespace npuc::e2e
