// Resize, ConvTranspose, DepthToSpace and SpaceToDepth against the interpreter; tiles with halos forced by little
// memory; near-misses.
#include <gtest/gtest.h>

#include "test/lower/conformance.h"

namespace npuc::lower {
namespace {

std::string Scales(const std::string &in, const std::string &out, const std::string &scales, const std::string &attrs) {
  return "graph (%x: " + in + ") {\n  %s: f32[4] = Constant() {value = dense<" + scales + ">}\n  %y: " + out +
         " = Resize(%x, _, %s) {" + attrs + "}\n  return %y\n}";
}
std::string Sizes(const std::string &in, const std::string &out, const std::string &sizes, const std::string &attrs) {
  return "graph (%x: " + in + ") {\n  %s: i64[4] = Constant() {value = dense<" + sizes + ">}\n  %y: " + out +
         " = Resize(%x, _, _, %s) {" + attrs + "}\n  return %y\n}";
}

TEST(Resize, NearestInEveryMode) {
  for (const char *transform :
       {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"})
    for (const char *rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      const std::string attrs = "mode = \"nearest\", coordinate_transformation_mode = \"" + std::string(transform) +
                                "\", nearest_mode = \"" + rounding + "\"";
      ExpectConforms({Sizes("i8[2,3,5,7]{s=0.1,z=1}", "i8[2,3,11,4]{s=0.1,z=1}", "2, 3, 11, 4", attrs)});
      ExpectConforms({Scales("f16[1,3,5,7]", "f16[1,3,10,16]", "1, 1, 2, 2.4", attrs)});
    }
}
TEST(Resize, LinearInEveryMode) {
  for (const char *transform :
       {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"}) {
    const std::string attrs = "mode = \"linear\", coordinate_transformation_mode = \"" + std::string(transform) + "\"";
    ExpectConforms({Sizes("i8[2,3,5,7]{s=0.1,z=1}", "i8[2,3,11,4]{s=0.1,z=1}", "2, 3, 11, 4", attrs)});
    ExpectConforms({Scales("u8[1,3,5,7]{s=0.1,z=100}", "u8[1,3,10,14]{s=0.15,z=120}", "1, 1, 2, 2", attrs)});
    ExpectConforms({Scales("f16[1,3,5,7]", "f16[1,3,4,16]", "1, 1, 0.8, 2.4", attrs)});
  }
}
TEST(Resize, InBlocksWithHalos) {
  const std::string linear = "mode = \"linear\"";
  EXPECT_GT(
      ExpectConforms({Scales("i8[1,16,24,24]{s=0.1,z=1}", "i8[1,16,48,48]{s=0.1,z=1}", "1, 1, 2, 2", linear), 16384}),
      4);
  EXPECT_GT(ExpectConforms({Sizes("f16[1,8,64,64]", "f16[1,8,21,37]", "1, 8, 21, 37", linear), 16384}), 4);
}
TEST(Resize, ThatKeepsTheSize) {
  EXPECT_EQ(
      ExpectConforms({Scales("i8[1,3,5,7]{s=0.1,z=1}", "i8[1,3,5,7]{s=0.1,z=1}", "1, 1, 1, 1", "mode = \"cubic\"")}),
      0);
}
TEST(Resize, OneDimension) {
  ExpectConforms({"graph (%x: i8[2,3,7]{s=0.1,z=1}) {\n  %s: f32[3] = Constant() {value = dense<1, 1, 2>}\n  %y: "
                  "i8[2,3,14]{s=0.1,z=1} = Resize(%x, _, %s) {mode = \"linear\"}\n  return %y\n}"});
}
TEST(Resize, NearMisses) {
  EXPECT_EQ(BrokenRules(Scales("f16[1,3,5,7]", "f16[1,3,10,14]", "1, 1, 2, 2", "mode = \"cubic\"")), "resize-mode");
  EXPECT_EQ(BrokenRules(Scales("f16[1,3,5,7]", "f16[1,3,2,3]", "1, 1, 0.5, 0.5", "mode = \"linear\", antialias = 1")),
            "resize-mode");
  EXPECT_EQ(BrokenRules(Scales("f16[1,3,5,7]", "f16[1,6,10,14]", "1, 2, 2, 2", "")), "resize-rank");
  EXPECT_EQ(BrokenRules(Scales("f16[1,3,5,7]", "f16[1,3,10,14]", "1, 1, 2, 2",
                               "coordinate_transformation_mode = \"tf_half_pixel_for_nn\"")),
            "resize-coordinates");
}

// x [n, ic, h, w], w [ic, oc/g, kh, kw].
std::string Transposed(const std::string &x, const std::string &w, int64_t count, const std::string &y,
                       const std::string &attrs, int64_t bias, bool quantised) {
  std::string s = "graph (%x: " + x + ") {\n" +
                  RandomConstant("w", w, count, quantised ? -120 : -1, quantised ? 120 : 1, !quantised);
  if (bias)
    s += quantised ? RandomConstant("b", "i32[" + std::to_string(bias) + "]", bias, -2000, 2000, false)
                   : RandomConstant("b", "f16[" + std::to_string(bias) + "]", bias, -1, 1, true);
  return s + "  %y: " + y + " = ConvTranspose(%x, %w" + (bias ? ", %b" : "") + ") {" + attrs + "}\n  return %y\n}";
}
const std::string kQx = "{s=0.05,z=3}", kQw = "{s=0.01,z=0}", kQy = "{s=0.3,z=-5}";

TEST(ConvTranspose, KernelsStridesAndPads) {
  struct Shape {
    int k, s, pad, op;
  };
  for (const Shape &c : {Shape{2, 2, 0, 0},
                         {3, 2, 1, 1},
                         {4, 2, 1, 0},
                         {3, 2, 0, 0},
                         {3, 1, 1, 0},
                         {1, 2, 0, 0},
                         {1, 2, 0, 1},
                         {2, 3, 0, 2},
                         {5, 3, 2, 1},
                         {6, 4, 1, 3},
                         {4, 4, 0, 0}}) {
    const int oh = c.s * 4 + c.op + c.k - 2 * c.pad, ow = c.s * 6 + c.op + c.k - 2 * c.pad;
    const std::string k = std::to_string(c.k), s = std::to_string(c.s), p = std::to_string(c.pad),
                      o = std::to_string(c.op);
    const std::string attrs = "kernel_shape = [" + k + ", " + k + "], strides = [" + s + ", " + s + "], pads = [" + p +
                              ", " + p + ", " + p + ", " + p + "], output_padding = [" + o + ", " + o + "]";
    const std::string dims = "[2,3," + std::to_string(oh) + "," + std::to_string(ow) + "]";
    ExpectConforms({Transposed("i8[2,5,5,7]" + kQx, "i8[5,3," + k + "," + k + "]" + kQw, 15 * c.k * c.k,
                               "i8" + dims + kQy, attrs, 3, true)});
    ExpectConforms(
        {Transposed("f16[2,5,5,7]", "f16[5,3," + k + "," + k + "]", 15 * c.k * c.k, "f16" + dims, attrs, 3, false), 0,
         "edge-2t", false, 4});
  }
}
TEST(ConvTranspose, PerChannelScalesAndGroups) {
  const std::string attrs = "kernel_shape = [3, 3], strides = [2, 2], group = 2";
  ExpectConforms({Transposed("u8[1,6,4,5]{s=0.05,z=130}", "i8[6,2,3,3]{axis=1,s=(0.01,0.02),z=(0,0)}", 108,
                             "u8[1,4,9,11]{s=0.3,z=100}", attrs, 4, true)});
  ExpectConforms({Transposed("i8[1,6,4,5]" + kQx, "i8[6,1,3,3]" + kQw, 54, "i8[1,6,9,11]" + kQy,
                             "kernel_shape = [3, 3], strides = [2, 2], group = 6", 6, true)});
  ExpectConforms({Transposed("i8[1,6,4,5]" + kQx, "i8[6,4,3,3]{axis=1,s=(0.01,0.02,0.03,0.005),z=(28,-127,100,0)}", 216,
                             "i8[1,4,9,11]" + kQy, "kernel_shape = [3, 3], strides = [2, 2]", 0, true)});
}
TEST(ConvTranspose, Dilations) {
  for (const auto &[stride, dilation] : {std::pair<int, int>{1, 5}, {2, 3}, {2, 2}, {4, 6}, {3, 2}}) {
    const std::string s = std::to_string(stride), d = std::to_string(dilation);
    // out = s * (in - 1) + 2 * d + 1
    const int oh = stride * 4 + 2 * dilation + 1, ow = stride * 6 + 2 * dilation + 1;
    ExpectConforms({Transposed(
        "i8[1,4,5,7]" + kQx, "i8[4,3,3,3]" + kQw, 108,
        "i8[1,3," + std::to_string(oh) + "," + std::to_string(ow) + "]" + kQy,
        "kernel_shape = [3, 3], strides = [" + s + ", " + s + "], dilations = [" + d + ", " + d + "]", 3, true)});
  }
}
TEST(ConvTranspose, FewChannelsMergeTheColumns) {
  // One output channel: 2 column residues of 1 tap (f16: no zero weights), of 1 and 2 taps (integers).
  const int64_t merged = ExpectConforms({Transposed("f16[1,16,9,8]", "f16[16,1,2,2]", 64, "f16[1,1,18,16]",
                                                    "kernel_shape = [2, 2], strides = [2, 2]", 1, false),
                                         0, "edge-2t", false, 4});
  EXPECT_EQ(merged, 2); // one for each residue of the rows
  ExpectConforms(
      {Transposed("i8[1,16,9,8]" + kQx, "i8[16,1,3,3]{s=0.01,z=7}", 144, "i8[1,1,18,16]" + kQy,
                  "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]", 1, true)});
  ExpectConforms(
      {Transposed("i8[2,8,7,6]" + kQx, "i8[8,3,5,5]{axis=1,s=(0.01,0.02,0.005),z=(0,1,-1)}", 600, "i8[2,3,21,18]" + kQy,
                  "kernel_shape = [5, 5], strides = [3, 3], pads = [1, 1, 1, 1]", 3, true),
       4096});
  ExpectConforms({Transposed("i8[1,4,9]" + kQx, "i8[4,2,8]" + kQw, 64, "i8[1,2,40]" + kQy,
                             "kernel_shape = [8], strides = [4], pads = [0, 0]", 2, true)});
}
TEST(ConvTranspose, OneDimension) {
  ExpectConforms({Transposed("i8[1,4,9]" + kQx, "i8[4,3,4]" + kQw, 48, "i8[1,3,18]" + kQy,
                             "kernel_shape = [4], strides = [2], pads = [1, 1]", 3, true)});
}
TEST(ConvTranspose, OutputShape) {
  ExpectConforms({Transposed("i8[1,4,5,5]" + kQx, "i8[4,3,3,3]" + kQw, 108, "i8[1,3,10,10]" + kQy,
                             "kernel_shape = [3, 3], strides = [2, 2], output_shape = [10, 10]", 3, true)});
}
TEST(ConvTranspose, InBands) {
  const std::string attrs = "kernel_shape = [4, 4], strides = [2, 2], pads = [1, 1, 1, 1]";
  EXPECT_GT(ExpectConforms(
                {Transposed("i8[1,16,24,24]" + kQx, "i8[16,8,4,4]" + kQw, 2048, "i8[1,8,48,48]" + kQy, attrs, 8, true),
                 24576}),
            16);
  EXPECT_GT(ExpectConforms(
                {Transposed("i8[2,16,24,24]" + kQx, "i8[16,8,4,4]" + kQw, 2048, "i8[2,8,48,48]" + kQy, attrs, 8, true),
                 24576}),
            16);
}
TEST(ConvTranspose, BetweenConvolutions) {
  const std::string w1 = RandomConstant("w1", "i8[6,4,3,3]" + kQw, 216, -120, 120, false),
                    w2 = RandomConstant("w2", "i8[6,5,2,2]" + kQw, 120, -120, 120, false),
                    w3 = RandomConstant("w3x", "i8[3,5,1,1]" + kQw, 15, -120, 120, false);
  ExpectConforms({"graph (%x: i8[1,4,8,8]" + kQx + ") {\n" + w1 + w2 + w3 + "  %a: i8[1,6,8,8]" + kQy +
                  " = Conv(%x, %w1) {pads = [1, 1, 1, 1]}\n  %b: i8[1,5,16,16]" + kQx +
                  " = ConvTranspose(%a, %w2) {strides = [2, 2], kernel_shape = [2, 2]}\n  %c: i8[1,3,16,16]" + kQy +
                  " = Conv(%b, %w3x)\n  return %c\n}"});
}
TEST(ConvTranspose, WithAnOutputStage) {
  const std::string w = RandomConstant("w", "i8[6,5,3,3]" + kQw, 270, -120, 120, false);
  for (const int64_t sram : {0, 8192})
    ExpectConforms(
        {"graph (%x: i8[1,6,9,8]" + kQx + ", %r: i8[1,5,18,16]{s=0.1,z=4}) {\n" + w + "  %y: i8[1,5,18,16]" + kQy +
             " = npuc::Fused(%x, %w, %r) graph (%bx: i8[1,6,9,8]" + kQx + ", %bw: i8[6,5,3,3]" + kQw +
             ", %br: i8[1,5,18,16]{s=0.1,z=4}) {\n    %c: f32[1,5,18,16] = ConvTranspose(%bx, %bw) {kernel_shape = [3, "
             "3], strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]}\n" +
             "    %a: f32[1,5,18,16] = Add(%c, %br)\n    %u: f32[1,5,18,16] = Relu(%a)\n    %q: i8[1,5,18,16]" + kQy +
             " = npuc::Quantize(%u)\n    return %q\n  }\n  return %y\n}",
         sram});
}
TEST(Conv, BoundsOnCodesInAnOutputStage) {
  // Clip's bounds are quantised constants: (-20 - 4) * 0.1 and (30 - 4) * 0.1, whatever their codes say.
  const std::string w = RandomConstant("w", "i8[5,6,1,1]" + kQw, 30, -120, 120, false), q = "{s=0.1,z=4}",
                    p = "{s=0.2,z=-7}";
  ExpectConforms(
      {"graph (%x: i8[1,6,9,8]" + kQx + ") {\n" + w + "  %lo: i8[]" + p +
       " = Constant() {value = dense<-19>}\n  %hi: i8[]" + p + " = Constant() {value = dense<6>}\n  %y: i8[1,5,9,8]" +
       q + " = npuc::Fused(%x, %w, %lo, %hi) graph (%bx: i8[1,6,9,8]" + kQx + ", %bw: i8[5,6,1,1]" + kQw +
       ", %bl: i8[]" + p + ", %bh: i8[]" + p + ") {\n    %c: i8[1,5,9,8]" + q +
       " = Conv(%bx, %bw)\n    %q: i8[1,5,9,8]" + q + " = Clip(%c, %bl, %bh)\n    return %q\n  }\n  return %y\n}"});
}
TEST(ConvTranspose, NearMisses) {
  EXPECT_EQ(BrokenRules(Transposed("f16[1,2,4,4]", "f16[2,2,3,3]", 36, "f16[1,2,22,22]",
                                   "kernel_shape = [3, 3], dilations = [9, 9]", 0, false)),
            "conv-transpose-dilation");
  EXPECT_EQ(BrokenRules(Transposed("f16[1,2,4,4]", "f16[2,2,3,3]", 36, "f16[1,2,54,54]",
                                   "kernel_shape = [3, 3], strides = [17, 17]", 0, false)),
            "conv-transpose-stride");
  EXPECT_EQ(BrokenRules("graph (%x: f16[1,2,4,4], %w: f16[2,2,2,2]) {\n  %y = ConvTranspose(%x, %w)\n  return %y\n}"),
            "conv-transpose-weights");
  EXPECT_EQ(BrokenRules(Transposed("i8[1,4,5,5]" + kQx, "i8[4,3,3,3]{axis=0,s=(1,1,1,1),z=(0,0,0,0)}", 108,
                                   "i8[1,3,7,7]" + kQy, "", 0, true)),
            "conv-transpose-weight-axis");
}

TEST(DepthToSpace, BothModes) {
  for (const char *mode : {"DCR", "CRD"})
    for (const char *in : {"i8[1,12,5,7]{s=0.1,z=1}", "f16[2,12,5,7]", "i8[1,4,9,6]{s=0.1,z=1}", "f16[1,64,16,16]"}) {
      const std::string type(in), q = type.find('{') == std::string::npos ? "" : type.substr(type.find('{'));
      ExpectConforms({"graph (%x: " + type + ") {\n  %y = DepthToSpace(%x) {blocksize = 2, mode = \"" + mode +
                      "\"}\n  return %y\n}"});
      ExpectConforms({"graph (%x: " + type + ") {\n  %r = DepthToSpace(%x) {blocksize = 2, mode = \"" + mode +
                      "\"}\n  %y = SpaceToDepth(%r) {blocksize = 2}\n  return %y\n}"});
    }
}
TEST(SpaceToDepth, Blocks) {
  ExpectConforms({"graph (%x: i8[2,3,9,12]{s=0.1,z=1}) {\n  %y = SpaceToDepth(%x) {blocksize = 3}\n  return %y\n}"});
}

} // namespace
} // namespace npuc::lower
