#include "compiler/driver/options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/support/diagnostic.h"
#include "test/temp_folder.h"

namespace npuc {
namespace {
namespace fs = std::filesystem;

CompilerOptions For(const std::string &model, const std::string &output = "") {
  CompilerOptions o;
  o.model = model;
  o.output = output;
  return o;
}

std::string Code(const Status &s) {
  return ErrorCode(s);
}

class Options : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directories(dir_.path() / "sub");
    std::ofstream(At("m.onnx")) << "x";
  }
  std::string At(const char *name) { return dir_.At(name); }
  TempFolder dir_;
};

TEST_F(Options, OutputsStandBesideTheBinary) {
  auto p = ResolveOutputs(For(At("m.onnx"), At("sub/net.v2.bin")));
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->binary, At("sub/net.v2.bin"));
  EXPECT_EQ(p->json, At("sub/net.v2.report.json"));
  EXPECT_EQ(p->html, At("sub/net.v2.report.html"));
  p = ResolveOutputs(For(At("m.onnx"), At("plain")));
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->json, At("plain.report.json"));
}

TEST_F(Options, TheDefaultIsTheModelsNameInTheCurrentFolder) {
  auto p = ResolveOutputs(For(At("m.onnx")));
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->binary, "m.bin");
  EXPECT_EQ(p->json, "m.report.json");
}

TEST_F(Options, ReportPrefixAndNoReport) {
  CompilerOptions o = For(At("m.onnx"), At("m.bin"));
  o.report_prefix = At("sub/r");
  EXPECT_EQ(ResolveOutputs(o)->html, At("sub/r.report.html"));
  o.no_report = true;
  EXPECT_EQ(ResolveOutputs(o)->json, "");
}

TEST_F(Options, WhatCannotBeWrittenIsRefusedBeforeTheWork) {
  EXPECT_EQ(Code(ResolveOutputs(For("", "x")).status()), "E0501");
  EXPECT_EQ(Code(ResolveOutputs(For(At("m.onnx"), "-")).status()), "E0501");
  EXPECT_EQ(Code(ResolveOutputs(For("-", "x.bin")).status()), "E0501");
  EXPECT_EQ(Code(ResolveOutputs(For(At("m.onnx"), At("m.onnx"))).status()), "E0501");
  EXPECT_EQ(Code(ResolveOutputs(For(At("m.onnx"), At("sub/../m.onnx"))).status()), "E0501");
  EXPECT_EQ(Code(ResolveOutputs(For(At("m.onnx"), At("sub"))).status()), "E0102");
  EXPECT_EQ(Code(ResolveOutputs(For(At("m.onnx"), At("nowhere/m.bin"))).status()), "E0102");
  CompilerOptions o = For(At("m.onnx"), At("r.report.json"));
  o.report_prefix = At("r");
  EXPECT_EQ(Code(ResolveOutputs(o).status()), "E0501"); // binary and report would be one file
}

TEST_F(Options, Contradictions) {
  CompilerOptions o = For("m.onnx");
  EXPECT_TRUE(CheckOptions(o).ok());
  o.calib_method = "max";
  EXPECT_EQ(Code(CheckOptions(o)), "E0501");
  o = For("m.onnx");
  o.gates.min_cosine = 0.9;
  EXPECT_EQ(Code(CheckOptions(o)), "E0501");
  o = For("m.onnx");
  o.opt_level = 4;
  EXPECT_EQ(Code(CheckOptions(o)), "E0501");
  o = For("m.onnx");
  o.max_fusion_chain = 0;
  EXPECT_EQ(Code(CheckOptions(o)), "E0501");
}

TEST_F(Options, AnUnknownPassNamesTheNearest) {
  CompilerOptions o = For("m.onnx");
  o.disabled_passes = {"eliminate-dead-node"};
  const Status s = CheckOptions(o);
  EXPECT_EQ(Code(s), "E0501");
  EXPECT_NE(FromStatus(s).help.find("eliminate-dead-nodes"), std::string::npos) << FromStatus(s).help;
  o.disabled_passes = {"eliminate-dead-nodes"};
  EXPECT_TRUE(CheckOptions(o).ok());
}

struct Nodes {
  Module m;
  Nodes() {
    m.onnx_nodes() = {{"conv1", "conv1", "Conv", ""},
                      {"Relu@r1", "act", "Relu", ""},
                      {"Relu@r2", "act", "Relu", ""},
                      {"a=b", "a=b", "Conv", ""}};
  }
};

TEST_F(Options, NodeArguments) {
  const Nodes nodes;
  const Module &m = nodes.m;
  EXPECT_EQ(*FindNode(m, "conv1", "--deny-node"), 0u);
  EXPECT_EQ(*FindNode(m, "Relu@r2", "--deny-node"), 2u);
  const Status ambiguous = FindNode(m, "act", "--deny-node").status();
  EXPECT_EQ(Code(ambiguous), "E0507");
  EXPECT_NE(FromStatus(ambiguous).help.find("Relu@r1, Relu@r2"), std::string::npos);
  const Status unknown = FindNode(m, "conv2", "--deny-node").status();
  EXPECT_EQ(Code(unknown), "E0507");
  EXPECT_NE(FromStatus(unknown).help.find("conv1"), std::string::npos);
}

TEST_F(Options, Tiles) {
  const Nodes nodes;
  const Module &m = nodes.m;
  CompilerOptions o = For("m.onnx");
  o.tiles = {"conv1=8x16", "a=b=2x3"};
  auto p = MakePassOptions(o, m);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->tiles["conv1"], (std::pair<int64_t, int64_t>(8, 16)));
  EXPECT_EQ(p->tiles["a=b"], (std::pair<int64_t, int64_t>(2, 3)));
  for (const char *bad : {"conv1", "conv1=8", "conv1=8x", "conv1=0x4", "conv1=8x16x1", "conv1=x", "conv1=-1x4"}) {
    o.tiles = {bad};
    EXPECT_EQ(Code(MakePassOptions(o, m).status()), "E0501") << bad;
  }
  o.tiles = {"conv1=8x8", "conv1=4x4"}; // one node, two tiles
  EXPECT_EQ(Code(MakePassOptions(o, m).status()), "E0501");
  o.tiles = {"conv9=8x8"};
  EXPECT_EQ(Code(MakePassOptions(o, m).status()), "E0507");
}

TEST_F(Options, OpsFile) {
  const Nodes nodes;
  const Module &m = nodes.m;
  std::ofstream(At("ops.yaml")) << "avoid_ops: [Constant]\npreferred_ops:\n  - Constant\n";
  CompilerOptions o = For("m.onnx");
  o.ops_file = At("ops.yaml");
  auto p = MakePassOptions(o, m);
  if (p.ok()) { // the operators of the list must be known
    EXPECT_EQ(p->deny_ops.size(), 1u);
    EXPECT_EQ(p->preferred_ops.size(), 1u);
  }
  std::ofstream(At("ops.yaml")) << "avoid: [Constant]\n";
  const Status s = MakePassOptions(o, m).status();
  EXPECT_EQ(Code(s), "E0508");
  o.ops_file = At("none.yaml");
  EXPECT_EQ(Code(MakePassOptions(o, m).status()), "E0101");
}

TEST_F(Options, TheCommandHasNoFoldersAndNoJobs) {
  CompilerOptions o = For("/some/where/my model.onnx", "/else/x.bin");
  o.jobs = 7;
  o.target = "/t/mine.yaml";
  o.binds = {"w=@/data/w.npy"};
  o.calib = {"x=/data/set"};
  EXPECT_EQ(CanonicalCommand(o),
            "npuc 'my model.onnx' --target mine.yaml --precision auto --calib x=set --calib-method mse "
            "--bind w=@w.npy --io float -O2 --max-fusion-chain 5");
}

} // namespace
} // namespace npuc
