#include "compiler/pass/quant_config.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

std::unique_ptr<Module> Model() {
  auto m = ParseModule("graph (%x: f32[2]) {\n %y: f32[2] = Relu(%x)\n return %y\n}");
  EXPECT_TRUE(m.ok()) << m.status();
  (*m)->onnx_nodes() = {
      {"/head/conv", "/head/conv", "Conv", ""}, {"/head/fc", "/head/fc", "Gemm", ""}, {"Relu@y", "", "Relu", ""}};
  for (Node &n : (*m)->main().nodes())
    if (n.Is("Relu"))
      n.set_origin({2});
  return std::move(*m);
}

StatusOr<QuantConfig> Parse(std::string_view text) {
  auto m = Model();
  return ParseQuantConfig(text, "q.yaml", *m);
}

TEST(QuantConfig, PatternsAndLaterEntries) {
  const auto c = Parse("precision: int8\nnodes:\n- node: /head/*\n  precision: int16\n  method: mse\n- node: "
                       "/head/fc\n  precision: fp16\n"
                       "tensors:\n- tensor: x\n  range: [-1, 2]\n");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(*c->precision, Precision::Int8);
  EXPECT_EQ(*c->nodes.at("/head/conv").precision, Precision::Int16);
  EXPECT_EQ(*c->nodes.at("/head/fc").precision, Precision::Fp16);
  EXPECT_EQ(*c->nodes.at("/head/fc").result.method, "mse");
  EXPECT_EQ(c->tensors.at("x").range->second, 2.0f);
  EXPECT_TRUE(c->HasRanges());
  // What is written reads back.
  const auto again = Parse(WriteQuantConfig(*c));
  ASSERT_TRUE(again.ok()) << again.status() << WriteQuantConfig(*c);
  EXPECT_EQ(*again, *c);
}

TEST(QuantConfig, EntriesOfANode) {
  auto m = Model();
  const auto c = ParseQuantConfig("nodes:\n- {node: Relu@y, scale: 0.5, zero_point: 7}\n", "q.yaml", *m);
  ASSERT_TRUE(c.ok()) << c.status();
  for (const Node &n : m->main().nodes())
    if (n.Is("Relu")) {
      EXPECT_EQ(*c->ForNode(n).result.scale, 0.5f);
      EXPECT_EQ(*c->ForNode(n).result.zero_point, 7);
    }
}

void ExpectError(std::string_view text, std::string_view code, std::string_view part) {
  SCOPED_TRACE(text);
  const auto c = Parse(text);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(ErrorCode(c.status()), code);
  const Diagnostic d = FromStatus(c.status());
  EXPECT_NE((d.message + " " + d.help).find(part), std::string::npos) << d.message << " / " << d.help;
}

TEST(QuantConfig, MistakesAreNamed) {
  ExpectError("nodes:\n- node: /head/convv\n  precision: int8\n", "E0507", "did you mean /head/conv?");
  ExpectError("nodes:\n- node: nowhere*\n", "E0507", "/head/conv, /head/fc, Relu@y");
  ExpectError("tensors:\n- tensor: z\n  range: [0, 1]\n", "E0507", "'z'");
  ExpectError("nodes:\n- node: /head/fc\n  precison: int8\n", "E0508", "precision");
  ExpectError("nodes:\n- node: /head/fc\n  precision: int7\n", "E0508", "int8, int16 or fp16");
  ExpectError("nodes:\n- node: /head/fc\n  range: [1, 0]\n", "E0508", "low < high");
  ExpectError("nodes:\n- node: /head/fc\n  zero_point: 3\n", "E0508", "without scale");
  ExpectError("nodes:\n- node: /head/fc\n  group: 32\n", "E0508", "weight_only");
}

TEST(QuantConfig, Globs) {
  EXPECT_TRUE(MatchesGlob("*", ""));
  EXPECT_TRUE(MatchesGlob("/a/*/c", "/a/b/b/c"));
  EXPECT_TRUE(MatchesGlob("*conv?", "xconvconv1"));
  EXPECT_FALSE(MatchesGlob("conv", "conv1"));
  EXPECT_FALSE(MatchesGlob("?", ""));
}

} // namespace
} // namespace npuc
