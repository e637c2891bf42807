// Softmax and normalisations: every layout, axis and element type against the interpreter; tiles forced by little
// memory; near-misses.
#include <gtest/gtest.h>

#include "test/lower/conformance.h"

namespace npuc::lower {
namespace {

std::string Unary(const std::string &in, const std::string &out, const std::string &op, const std::string &attrs) {
  return "graph (%x: " + in + ") {\n  %y: " + out + " = " + op + "(%x) {" + attrs + "}\n  return %y\n}";
}

TEST(Softmax, LastAxis) {
  ExpectConforms({Unary("f16[2,37]", "f16[2,37]", "Softmax", "axis = -1")});
  ExpectConforms({Unary("u8[2,37]{s=0.1,z=128}", "u8[2,37]{s=0.00390625,z=0}", "Softmax", "axis = 1")});
  ExpectConforms({Unary("i8[3,5,21]{s=0.1,z=3}", "i8[3,5,21]{s=0.2,z=100}", "LogSoftmax", "axis = -1")});
}
TEST(Softmax, AnyAxisAndRank) {
  for (int axis = 0; axis < 5; ++axis)
    ExpectConforms({Unary("i8[2,3,4,5,6]{s=0.1,z=-2}", "i8[2,3,4,5,6]{s=0.004,z=-128}", "Softmax",
                          "axis = " + std::to_string(axis))});
  for (int axis = 0; axis < 4; ++axis)
    ExpectConforms({Unary("f16[2,19,4,5]", "f16[2,19,4,5]", "Softmax", "axis = " + std::to_string(axis))});
}
TEST(Softmax, ChannelsOfAnImageAfterAConvolution) {
  const std::string w = RandomConstant("w", "f16[5,8,1,1]", 40, -1, 1, true);
  ExpectConforms({"graph (%x: f16[1,8,9,7]) {\n" + w +
                      "  %c: f16[1,5,9,7] = Conv(%x, %w)\n  %y: f16[1,5,9,7] = Softmax(%c) {axis = 1}\n  return %y\n}",
                  0, "edge-2t", false, 3});
}
TEST(Softmax, InBlocks) {
  const int64_t tiles =
      ExpectConforms({Unary("i8[1,300,64]{s=0.1,z=-2}", "i8[1,300,64]{s=0.004,z=-128}", "Softmax", "axis = -1"), 8192});
  EXPECT_GT(tiles, 8);
  // The set takes half of the memory.
  ExpectConforms({Unary("f16[3,1000]", "f16[3,1000]", "Softmax", "axis = -1"), 9008});
}
TEST(Lrn, EveryWindow) {
  for (const char *attrs :
       {"size = 1", "size = 3, alpha = 0.5", "size = 4, beta = 0.6, bias = 2.0, alpha = 2.0", "size = 16"}) {
    ExpectConforms({Unary("f16[2,7,3,5]", "f16[2,7,3,5]", "LRN", attrs), 0, "edge-2t", false});
    ExpectConforms({Unary("i8[1,20,3,5]{s=0.1,z=-2}", "i8[1,20,3,5]{s=0.05,z=3}", "LRN", attrs)});
  }
  EXPECT_GT(ExpectConforms({Unary("f16[1,32,30,30]", "f16[1,32,30,30]", "LRN", "size = 5"), 65536, "edge-2t", false}),
            12);
  EXPECT_EQ(BrokenRules(Unary("f16[1,32,3,3]", "f16[1,32,3,3]", "LRN", "size = 17")), "lrn-size");
  EXPECT_EQ(BrokenRules(Unary("f16[3,32]", "f16[3,32]", "LRN", "size = 3")), "lrn-rank");
}
TEST(MeanVarianceNormalization, Axes) {
  ExpectConforms(
      {Unary("f16[2,7,3,5]", "f16[2,7,3,5]", "MeanVarianceNormalization", "axes = [0, 2, 3]"), 0, "edge-2t", false, 4});
  ExpectConforms(
      {Unary("f16[2,7,3,5]", "f16[2,7,3,5]", "MeanVarianceNormalization", "axes = [2, 3]"), 0, "edge-2t", false, 4});
  // A set without variance gives zeros.
  ExpectConforms({Unary("f16[4,1]", "f16[4,1]", "MeanVarianceNormalization", "axes = [1]")});
}
TEST(Softmax, AxisOfExtentOne) {
  ExpectConforms({Unary("f16[4,1,5,6]", "f16[4,1,5,6]", "Softmax", "axis = 1")});
}
TEST(Softmax, SetsThatDoNotFit) {
  EXPECT_EQ(BrokenRules(Unary("f16[1,262000]", "f16[1,262000]", "Softmax", "axis = 0")), "extent");
  // 2^32 + 5: no field of 32 bits holds it.
  EXPECT_EQ(BrokenRules(Unary("f16[1,4294967301]", "f16[1,4294967301]", "Softmax", "axis = 0")), "extent");
  EXPECT_EQ(BrokenRules(Unary("f16[8,60000]", "f16[8,60000]", "Softmax", "axis = 1")), "");
  const std::string g = "  %g: f16[1] = Constant() {value = splat<1.0>}\n";
  EXPECT_EQ(BrokenRules("graph (%x: f16[1,9,256,256]) {\n" + g +
                        "  %y = LayerNormalization(%x, %g) {axis = 1}\n  return %y\n}"),
            "norm-size");
  EXPECT_EQ(BrokenRules("graph (%x: f16[1,3,256,256]) {\n" + g +
                        "  %y = LayerNormalization(%x, %g) {axis = 1}\n  return %y\n}"),
            "");
  EXPECT_EQ(BrokenRules(Unary("f16[]", "f16[]", "Softmax", "")), "norm-rank");
  EXPECT_EQ(BrokenRules(Unary("i8[4,4]{s=1,z=0}", "f16[4,4]", "Softmax", "")), "mixed-types");
}

std::string Layer(const std::string &in, const std::string &out, const std::string &param, int64_t count,
                  const std::string &op, const std::string &attrs, bool bias) {
  return "graph (%x: " + in + ") {\n" + RandomConstant("g", param, count, -2, 2, true) +
         (bias ? RandomConstant("be", param, count, -1, 1, true) : "") + "  %y: " + out + " = " + op + "(%x, %g" +
         (bias ? ", %be" : "") + ") {" + attrs + "}\n  return %y\n}";
}

TEST(LayerNorm, LastAxes) {
  ExpectConforms({Layer("f16[3,7,48]", "f16[3,7,48]", "f16[48]", 48, "LayerNormalization", "axis = -1", true)});
  ExpectConforms({Layer("f16[3,7,48]", "f16[3,7,48]", "f32[48]", 48, "LayerNormalization", "axis = -1", false)});
  ExpectConforms(
      {Layer("f16[3,4,6,5]", "f16[3,4,6,5]", "f16[6,5]", 30, "LayerNormalization", "axis = 2, epsilon = 0.01", true)});
  ExpectConforms(
      {Layer("f16[2,3,4,6,5]", "f16[2,3,4,6,5]", "f16[4,6,5]", 120, "LayerNormalization", "axis = 2", true)});
  ExpectConforms({Layer("i8[3,7,48]{s=0.05,z=3}", "i8[3,7,48]{s=0.03,z=-4}", "f32[48]", 48, "LayerNormalization",
                        "axis = -1", true)});
  ExpectConforms({Layer("i8[2,6,4,5]{s=0.05,z=3}", "i8[2,6,4,5]{s=0.03,z=-4}", "f32[6,4,5]", 120, "LayerNormalization",
                        "axis = 1", true)});
}
TEST(LayerNorm, ParametersThatBroadcast) {
  ExpectConforms({Layer("f16[3,4,6]", "f16[3,4,6]", "f16[4,1]", 4, "LayerNormalization", "axis = 1", true)});
  ExpectConforms({Layer("f16[3,4,6]", "f16[3,4,6]", "f16[1]", 1, "LayerNormalization", "axis = 1", true)});
  EXPECT_EQ(BrokenRules("graph (%x: f16[2,8], %g: f16[8]) {\n  %y = LayerNormalization(%x, %g)\n  return %y\n}"),
            "norm-parameters");
}
TEST(LayerNorm, QuantisedParameters) {
  const std::string q = "i8[16]{s=0.01,z=2}";
  ExpectConforms({"graph (%x: i8[5,16]{s=0.05,z=0}) {\n" + RandomConstant("g", q, 16, -100, 100, false) +
                  RandomConstant("be", q, 16, -100, 100, false) +
                  "  %y: i8[5,16]{s=0.02,z=1} = LayerNormalization(%x, %g, %be)\n  return %y\n}"});
}
TEST(LayerNorm, InBlocks) {
  EXPECT_GT(
      ExpectConforms(
          {Layer("f16[1,197,96]", "f16[1,197,96]", "f16[96]", 96, "LayerNormalization", "axis = -1", true), 16384}),
      4);
}
TEST(RmsNorm, LastAxis) {
  ExpectConforms({Layer("f16[3,7,48]", "f16[3,7,48]", "f16[48]", 48, "RMSNormalization", "axis = -1", false)});
}
TEST(InstanceNorm, ImagesOfAnyRank) {
  ExpectConforms(
      {Layer("f16[2,5,6,7]", "f16[2,5,6,7]", "f16[5]", 5, "InstanceNormalization", "epsilon = 0.001", true)});
  ExpectConforms({Layer("f16[2,5,11]", "f16[2,5,11]", "f16[5]", 5, "InstanceNormalization", "", true)});
  ExpectConforms({Layer("f16[2,5,3,4,3]", "f16[2,5,3,4,3]", "f16[5]", 5, "InstanceNormalization", "", true)});
  ExpectConforms(
      {Layer("i8[1,20,6,7]{s=0.05,z=3}", "i8[1,20,6,7]{s=0.03,z=-4}", "f32[20]", 20, "InstanceNormalization", "", true),
       4096});
}
TEST(GroupNorm, Groups) {
  ExpectConforms({Layer("f16[2,12,5,6]", "f16[2,12,5,6]", "f16[12]", 12, "GroupNormalization", "num_groups = 3", true),
                  0, "edge-2t", false});
  ExpectConforms({Layer("i8[2,12,5,6]{s=0.05,z=3}", "i8[2,12,5,6]{s=0.03,z=-4}", "f32[12]", 12, "GroupNormalization",
                        "num_groups = 4", true)});
}
TEST(LpNorm, BothNorms) {
  ExpectConforms({Unary("f16[3,4,20]", "f16[3,4,20]", "LpNormalization", "axis = -1, p = 2")});
  ExpectConforms({Unary("f16[3,4,20]", "f16[3,4,20]", "LpNormalization", "axis = 1, p = 1")});
  ExpectConforms({Unary("i8[3,4,20]{s=0.1,z=0}", "i8[3,4,20]{s=0.008,z=0}", "LpNormalization", "axis = 2")});
}
TEST(BatchNorm, PerChannel) {
  std::string params;
  for (const char *p : {"s", "b", "m"})
    params += RandomConstant(p, "f32[6]", 6, -1, 1, true);
  params += RandomConstant("var", "f32[6]", 6, 0.1, 2, true);
  for (const auto &[in, out] : {std::pair<std::string, std::string>{"f16[2,6,5,4]", "f16[2,6,5,4]"},
                                {"i8[2,6,5,4]{s=0.05,z=1}", "i8[2,6,5,4]{s=0.06,z=-3}"}})
    ExpectConforms({"graph (%x: " + in + ") {\n" + params + "  %y: " + out +
                        " = BatchNormalization(%x, %s, %b, %m, %var)\n  return %y\n}",
                    16384});
}

} // namespace
} // namespace npuc::lower
