// --tile through the command line: the report's layers show that it was obeyed.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/report/json.h"
#include "test/e2e/run_tool.h"

namespace npuc::e2e {
namespace {

const std::string kDigits = std::string(NPUC_SOURCE_DIR) + "/models/digits/digits.onnx";

class Tile : public testing::Test {
protected:
  void SetUp() override { dir_ = FreshFolder(); }
  Outcome Run(std::vector<std::string> args) {
    args.insert(args.begin(), {kDigits, "-o", "m.bin", "-q"});
    return RunTool("npuc", args, dir_);
  }
  // Compute commands of the layer that holds a node.
  int64_t Tiles(const std::string &id) {
    auto r = report::ReadReport((dir_ / "m.report.json").string());
    if (r.ok())
      for (const report::LayerRow &layer : r->layers)
        if (std::count(layer.origins.begin(), layer.origins.end(), id))
          return layer.tiles;
    return -1;
  }
  void ExpectRefused(const std::string &tile, const std::string &why) {
    const Outcome o = Run({"--tile", tile});
    EXPECT_EQ(o.code, 1) << tile;
    EXPECT_NE(o.err.find("error[E0520]"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find(why), std::string::npos) << o.err;
    EXPECT_TRUE(Entries(dir_).empty());
  }
  fs::path dir_;
};

// conv1 makes 8x8 pixels of 16 channels, which are one command as far as rows and columns go.
TEST_F(Tile, ChangesTheNumberOfCommandsAndNotTheResult) {
  ASSERT_EQ(Run({}).code, 0);
  const int64_t whole = Tiles("conv1");
  const std::string run_input = std::string(NPUC_SOURCE_DIR) + "/models/digits/sample.npy";
  ASSERT_EQ(RunTool("npu-run", {"m.bin", "--input", run_input, "--output-dir", "whole", "-q"}, dir_).code, 0);
  for (const auto &[tile, pieces] :
       {std::pair("4x8", 2), {"8x4", 2}, {"4x4", 4}, {"3x8", 3}, {"1x1", 64}, {"99x99", 1}}) {
    const Outcome o = Run({"--tile", std::string("conv1=") + tile});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(Tiles("conv1"), pieces * whole) << tile;
    ASSERT_EQ(RunTool("npu-run", {"m.bin", "--input", run_input, "--output-dir", "tiled", "-q"}, dir_).code, 0);
    EXPECT_TRUE(ReadAll(dir_ / "whole/probabilities.npy") == ReadAll(dir_ / "tiled/probabilities.npy")) << tile;
  }
}

TEST_F(Tile, OfAnyNodeOfTheLayerAndOfPools) {
  ASSERT_EQ(Run({"--tile", "relu1=2x8"}).code, 0);
  EXPECT_EQ(Tiles("conv1"), 4);
  ASSERT_EQ(Run({"--tile", "pool1=1x4"}).code, 0); // its output is 4x4
  EXPECT_EQ(Tiles("pool1"), 4);
  ASSERT_EQ(Run({"--tile", "conv1=4x8", "--tile", "relu1=4x8"}).code, 0);
  EXPECT_EQ(Run({"--tile", "conv1=4x8", "--tile", "relu1=2x8"}).code, 1);
}

TEST_F(Tile, WhatCannotBeIsRefused) {
  ExpectRefused("flatten=1x1", "");
  ExpectRefused("softmax=1x1", "no rows and columns to choose");
  const Outcome o = Run({"--tile", "conv1=4x4", "--deny-node", "conv1"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("in no layer of the NPU"), std::string::npos) << o.err;
}

} // namespace
} // namespace npuc::e2e
