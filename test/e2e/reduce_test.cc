// npu-reduce with planted faults whose smallest part is known.
#include <gtest/gtest.h>

#include <set>

#include "compiler/onnx/model_file.h"
#include "compiler/support/mapped_file.h"
#include "test/e2e/run_tool.h"
#include "test/e2e/tiny_onnx.h"

namespace npuc::e2e {
namespace {

const std::string kDigits = std::string(NPUC_SOURCE_DIR) + "/models/digits/digits.onnx";

class Reduce : public testing::Test {
protected:
  void SetUp() override { dir_ = FreshFolder(); }
  // A chain of `n` nodes x -> t1 -> ... -> y, Relu but for the named ones.
  std::string Chain(int n, const std::map<int, std::string> &ops) {
    std::vector<TinyNode> nodes;
    for (int i = 0; i < n; ++i) {
      const auto it = ops.find(i);
      nodes.push_back({it == ops.end() ? "Relu" : it->second,
                       "n" + std::to_string(i),
                       {i == 0 ? "x" : "t" + std::to_string(i - 1)},
                       {i == n - 1 ? "y" : "t" + std::to_string(i)}});
    }
    WriteAll(dir_ / "m.onnx", TinyModel(nodes, {{"x", {1, 64}}}, {{"y", {1, 64}}}));
    return "m.onnx";
  }
  Outcome Run(std::vector<std::string> args, const std::vector<std::string> &command) {
    args.insert(args.end(), {"-q", "--"});
    args.insert(args.end(), command.begin(), command.end());
    return RunTool("npu-reduce", args, dir_);
  }
  ::onnx::ModelProto Read(const std::string &name) {
    auto file = onnx_import::ReadModelFile((dir_ / name).string());
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? (*file)->proto : ::onnx::ModelProto();
  }
  static std::string Ops(const ::onnx::ModelProto &m) {
    std::string ops;
    for (const auto &n : m.graph().node())
      ops += (ops.empty() ? "" : " ") + n.op_type();
    return ops;
  }
  fs::path dir_;
};

TEST_F(Reduce, OneNodeOfAChain) {
  Chain(100, {{37, "Sigmoid"}});
  const Outcome o = Run({"m.onnx", "-o", "r.onnx"}, {"grep", "-q", "Sigmoid"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto m = Read("r.onnx");
  EXPECT_EQ(Ops(m), "Sigmoid");
  ASSERT_EQ(m.graph().input_size(), 1);
  EXPECT_EQ(m.graph().input(0).name(), "t36");
  EXPECT_EQ(m.graph().output(0).name(), "t37");
  // Shapes were inferred between, and made small.
  EXPECT_EQ(m.graph().input(0).type().tensor_type().shape().dim(1).dim_value(), 1);
  EXPECT_EQ(RunTool("npuc", {"r.onnx", "-o", "r.bin", "-q"}, dir_).code, 0); // a model like any other
}

TEST_F(Reduce, TwoNodesFarApart) {
  Chain(60, {{3, "Sigmoid"}, {51, "Tanh"}});
  ASSERT_EQ(Run({"m.onnx", "-o", "r.onnx"}, {"sh", "-c", "grep -q Sigmoid $0 && grep -q Tanh $0"}).code, 0);
  EXPECT_EQ(Ops(Read("r.onnx")), "Sigmoid Tanh");
}

// The fault needs the two in one chain (apart they would be two outputs): what lies between is bypassed.
TEST_F(Reduce, TwoNodesThatMustStayConnected) {
  Chain(12, {{3, "Sigmoid"}, {9, "Tanh"}});
  const std::string opt = (fs::path(NPUC_BUILD_DIR) / "bin/npu-opt").string();
  ASSERT_EQ(Run({"m.onnx", "-o", "r.onnx"}, {"sh", "-c", opt + R"( $0 > $0.ir && grep -q Sigmoid $0.ir &&
                                                  grep -q Tanh $0.ir && grep -qE 'return [^,]*$' $0.ir)"})
                .code,
            0);
  const auto m = Read("r.onnx");
  EXPECT_EQ(Ops(m), "Sigmoid Tanh");
  EXPECT_EQ(m.graph().node(1).input(0), m.graph().node(0).output(0));
}

TEST_F(Reduce, ARealModelDownToTheNodeThatIsDenied) {
  const Outcome o = Run({kDigits, "-o", "r.onnx", "-j", "2", "--exit-code", "3", "--match", "fail-on-fallback"},
                        {(fs::path(NPUC_BUILD_DIR) / "bin/npuc").string(), "{}", "-o", (dir_ / "x.bin").string(),
                         "--no-report", "--deny-op", "MaxPool", "--fail-on-fallback"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto m = Read("r.onnx");
  EXPECT_EQ(Ops(m), "MaxPool");
  EXPECT_EQ(m.graph().initializer_size(), 0);
}

TEST_F(Reduce, TheResultDoesNotDependOnJobs) {
  Chain(40, {{3, "Sigmoid"}, {20, "Tanh"}, {33, "Sigmoid"}});
  std::set<std::string> results;
  for (const char *jobs : {"1", "3", "8"}) {
    ASSERT_EQ(Run({"m.onnx", "-o", "r.onnx", "-j", jobs}, {"sh", "-c", "grep -q Sigmoid $0 && grep -q Tanh $0"}).code,
              0);
    results.insert(ReadAll(dir_ / "r.onnx"));
  }
  EXPECT_EQ(results.size(), 1u);
}

TEST_F(Reduce, IrText) {
  WriteAll(dir_ / "m.ir", R"(graph (%x: f32[2,16], %z: f32[2,16]) {
    %w: f32[2,16] = Constant() {value = base64<"AACAPwAAAEAAAEBAAACAQAAAoEAAAMBAAADgQAAAAEEAABBBAAAgQQAAMEEAAEBBAABQQQAAYEEAAHBBAACAQQAAgD8AAABAAABAQAAAgEAAAKBAAADAQAAA4EAAAABBAAAQQQAAIEEAADBBAABAQQAAUEEAAGBBAABwQQAAgEE=">}
    %a: f32[2,16] = Relu(%x)
    %b: f32[2,16] = Sigmoid(%a)
    %c: f32[2,16] = Add(%b, %w)
    %d: f32[2,16] = Relu(%c)
    %e: f32[2,16] = Tanh(%d)
    %f: f32[2,16] = Mul(%e, %z)
    return %f, %b
  })");
  // Sigmoid's result must reach Add, whatever lies there.
  ASSERT_EQ(Run({"m.ir", "-o", "r.ir"}, {"sh", "-c", "grep -q 'Add(%b' $0 && grep -q Sigmoid $0"}).code, 0);
  const std::string text = ReadAll(dir_ / "r.ir");
  EXPECT_NE(text.find("Sigmoid("), std::string::npos) << text;
  EXPECT_NE(text.find("Add(%b"), std::string::npos) << text;
  for (const char *gone : {"Relu", "Tanh", "Mul", "base64"})
    EXPECT_EQ(text.find(gone), std::string::npos) << text;
  EXPECT_EQ(RunTool("npu-opt", {"r.ir"}, dir_).code, 0); // parses and verifies
}

TEST_F(Reduce, CrashesAndTimeouts) {
  Chain(12, {{5, "Sigmoid"}});
  // Dies of a signal where the node is.
  ASSERT_EQ(
      Run({"m.onnx", "-o", "r.onnx", "--exit-code", "139"}, {"sh", "-c", "grep -q Sigmoid $0 && kill -SEGV $$; exit 0"})
          .code,
      0);
  EXPECT_EQ(Ops(Read("r.onnx")), "Sigmoid");
  // Hangs where it is not: those candidates are not interesting.
  fs::remove(dir_ / "r.onnx");
  ASSERT_EQ(
      Run({"m.onnx", "-o", "r.onnx", "-j", "8", "--timeout", "1.5"}, {"sh", "-c", "grep -q Sigmoid $0 || sleep 60"})
          .code,
      0);
  EXPECT_EQ(Ops(Read("r.onnx")), "Sigmoid");
}

TEST_F(Reduce, WhatIsWrongFromTheStartIsSaid) {
  Chain(3, {});
  const auto before = Entries(dir_);
  Outcome o = Run({"m.onnx", "-o", "r.onnx"}, {"grep", "-q", "Sigmoid"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("does not find what it looks for"), std::string::npos) << o.err;
  o = Run({"m.onnx", "-o", "r.onnx"}, {"./no-such-program"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("cannot be run"), std::string::npos) << o.err;
  o = Run({"m.onnx", "-o", "r.onnx", "--timeout", "0.2"}, {"sleep", "60"});
  EXPECT_EQ(o.code, 1);
  WriteAll(dir_ / "bad.onnx", "no model");
  EXPECT_EQ(Run({"bad.onnx", "-o", "r.onnx"}, {"true"}).code, 1);
  EXPECT_EQ(Run({"m.onnx", "-o", "m.onnx"}, {"true"}).code, 1);
  EXPECT_EQ(RunTool("npu-reduce", {"m.onnx"}, dir_).code, 2);
  fs::remove(dir_ / "bad.onnx");
  EXPECT_EQ(Entries(dir_), before);
}

} // namespace
} // namespace npuc::e2e
