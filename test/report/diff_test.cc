#include "backend/report/diff.h"

#include <gtest/gtest.h>

namespace npuc::report {
namespace {

NodeRow Row(std::string id, std::string op, std::string verdict, std::vector<Reason> reasons = {}) {
  NodeRow n;
  n.id = std::move(id);
  n.op = std::move(op);
  n.verdict = std::move(verdict);
  n.reasons = std::move(reasons);
  n.precision = n.verdict == "npu" ? "f16" : "";
  return n;
}

LayerRow LayerOf(std::vector<std::string> origins, std::string op, int64_t cycles) {
  LayerRow l;
  l.name = origins.empty() ? op : origins[0];
  l.op = std::move(op);
  l.origins = std::move(origins);
  l.cycles = cycles;
  l.tiles = 1;
  l.dtype = "f16";
  return l;
}

Report Sample() {
  Report r;
  r.model.file = "m.onnx";
  r.target.name = "edge-2t";
  r.target.sram_bytes = 1000;
  r.options = {{"target", "edge-2t"}, {"precision", "auto"}};
  r.nodes = {Row("conv", "Conv", "npu"), Row("relu", "Relu", "npu"), Row("pool", "MaxPool", "npu"),
             Row("nms", "NonMaxSuppression", "host", {{"op-unsupported", "no lowering", "", "", ""}})};
  r.layers = {LayerOf({}, "Cast", 5), LayerOf({"conv", "relu"}, "Conv+Relu", 100), LayerOf({"pool"}, "MaxPool", 30)};
  r.performance.cycles = 135;
  return r;
}

TEST(Diff, NothingChanged) {
  const Diff d = Compare(Sample(), Sample());
  EXPECT_TRUE(d.empty());
  EXPECT_TRUE(d.regressions.empty());
  EXPECT_NE(RenderDiff(d).find("no difference"), std::string::npos);
}

TEST(Diff, NodesThatChangeComeAndGo) {
  const Report old = Sample();
  Report now = old;
  now.nodes[3] = Row("nms", "NonMaxSuppression", "npu");
  now.nodes[2].id = "pool2";
  const Diff d = Compare(old, now);
  ASSERT_EQ(d.nodes.size(), 3u);
  EXPECT_EQ(d.nodes[0].id + " " + d.nodes[0].before + ">" + d.nodes[0].after, "pool2 >npu");
  EXPECT_EQ(d.nodes[1].id + " " + d.nodes[1].before + ">" + d.nodes[1].after, "nms host>npu");
  EXPECT_EQ(d.nodes[2].id + " " + d.nodes[2].before + ">" + d.nodes[2].after, "pool npu>");
  EXPECT_TRUE(d.regressions.empty());
}

TEST(Diff, OtherReasonsAndPrecisions) {
  const Report old = Sample();
  Report now = old;
  now.nodes[3].reasons[0].rule = "denied";
  now.nodes[0].precision = now.nodes[1].precision = "i8";
  const Diff d = Compare(old, now);
  ASSERT_EQ(d.nodes.size(), 1u);
  EXPECT_EQ(d.nodes[0].before, d.nodes[0].after);
  EXPECT_NE(RenderDiff(d).find("'nms' (NonMaxSuppression): host, for other reasons"), std::string::npos);
  ASSERT_EQ(d.precisions.size(), 1u);
  EXPECT_EQ(d.precisions[0], (std::pair<std::string, int64_t>("f16 -> i8", 2)));
}

TEST(Diff, TargetAndOptions) {
  const Report old = Sample();
  Report now = old;
  now.target.sram_bytes = 2000;
  now.target.sha256 = "abc"; // follows from the above
  now.options.emplace_back("deny-node", "pool");
  const Diff d = Compare(old, now);
  ASSERT_EQ(d.setup.size(), 2u);
  EXPECT_EQ(d.setup[0].key + " " + d.setup[0].before + " " + d.setup[0].after, "target.sram_bytes 1000 2000");
  EXPECT_EQ(d.setup[1].key + " " + d.setup[1].before + " " + d.setup[1].after, "options.deny-node  pool");
  now = old;
  now.target.sha256 = "0123456789abcdef";
  ASSERT_EQ(Compare(old, now).setup.size(), 1u);
  EXPECT_EQ(Compare(old, now).setup[0].key, "target.sha256");
}

TEST(Diff, LayersAreMatchedByOrigin) {
  const Report old = Sample();
  Report now = old;
  // Another name and place, the same nodes; the fused pair comes apart; one that is new, one that is gone.
  now.layers = {LayerOf({"pool"}, "MaxPool", 33), LayerOf({"conv"}, "Conv", 90), LayerOf({"relu"}, "Relu", 20),
                LayerOf({"nms"}, "NonMaxSuppression", 7)};
  now.layers[0].name = "renamed";
  const Diff d = Compare(old, now);
  ASSERT_EQ(d.layers.size(), 5u);
  EXPECT_EQ(d.layers[0].name, "renamed");
  EXPECT_EQ(d.layers[0].cycles_before, 30);
  EXPECT_EQ(d.layers[0].cycles_after, 33);
  EXPECT_EQ(d.layers[1].op_before + ">" + d.layers[1].op_after, "Conv+Relu>Conv");
  EXPECT_EQ(d.layers[1].cycles_before, 100);
  EXPECT_EQ(d.layers[2].op_before + ">" + d.layers[2].op_after, ">Relu");
  EXPECT_EQ(d.layers[3].op_before + ">" + d.layers[3].op_after, ">NonMaxSuppression");
  EXPECT_EQ(d.layers[4].op_before + ">" + d.layers[4].op_after, "Cast>");
}

TEST(Diff, SeveralLayersOfOneNodeMatchInOrder) {
  Report old = Sample();
  old.layers = {LayerOf({"lstm"}, "Gemm", 10), LayerOf({"lstm"}, "Gemm", 20), LayerOf({"lstm"}, "Add", 30)};
  Report now = old;
  now.layers[1].cycles = 25;
  const Diff d = Compare(old, now);
  ASSERT_EQ(d.layers.size(), 1u);
  EXPECT_EQ(d.layers[0].cycles_before, 20);
  EXPECT_EQ(d.layers[0].cycles_after, 25);
}

TEST(Diff, ManyLayersAreSummedUp) {
  Report old = Sample();
  old.layers.clear();
  for (int i = 0; i < 30; ++i)
    old.layers.push_back(LayerOf({"n" + std::to_string(i)}, "Conv", 100));
  Report now = old;
  for (int i = 0; i < 30; ++i)
    now.layers[static_cast<size_t>(i)].cycles += i + 1;
  const Diff d = Compare(old, now);
  EXPECT_EQ(d.layers.size(), 30u);
  const std::string text = RenderDiff(d, 5);
  EXPECT_NE(text.find("layer 'n29' (Conv): 100 -> 130 cycles (+30.00 %)"), std::string::npos) << text;
  EXPECT_EQ(text.find("layer 'n24'"), std::string::npos) << text;
  EXPECT_NE(text.find("25 more layers changed, by +325 cycles together"), std::string::npos) << text; // 1 + ... + 25
  EXPECT_NE(RenderDiffMarkdown(d, 5).find("25 more layers"), std::string::npos);
}

TEST(Diff, FiguresSayWhichWayIsWorse) {
  const Report old = Sample();
  Report now = old;
  now.performance.cycles = 100;
  now.quantization.cosine = 0.9;
  const Diff d = Compare(old, now);
  ASSERT_EQ(d.figures.size(), 2u);
  EXPECT_EQ(d.figures[0].key, "performance.cycles");
  EXPECT_FALSE(d.figures[0].worse);
  EXPECT_EQ(d.figures[1].key, "quantization.cosine");
  EXPECT_TRUE(d.figures[1].worse);
  EXPECT_TRUE(d.regressions.empty()); // shown, not judged
}

} // namespace
} // namespace npuc::report
