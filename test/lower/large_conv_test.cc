// Convolutions beyond the machine's limits (kernel 16, stride 4, dilation 8) against the interpreter; near-misses.
#include <gtest/gtest.h>

#include "test/lower/conformance.h"

namespace npuc::lower {
namespace {

const std::string kQx = "{s=0.05,z=3}", kQw = "{s=0.01,z=0}", kQy = "{s=1.3,z=-5}";

std::string Int8(const std::string &x, const std::string &w, int64_t count, int64_t oc, const std::string &y,
                 const std::string &attrs) {
  return "graph (%x: i8" + x + kQx + ") {\n" + RandomConstant("w", "i8" + w + kQw, count, -120, 120, false) +
         RandomConstant("b", "i32[" + std::to_string(oc) + "]", oc, -2000, 2000, false) + "  %y: i8" + y + kQy +
         " = Conv(%x, %w, %b) {" + attrs + "}\n  return %y\n}";
}

TEST(LargeConv, PatchEmbedding) {
  ExpectConforms({Int8("[1,3,48,64]", "[20,3,16,16]", 15360, 20, "[1,20,3,4]", "strides = [16, 16]")});
  ExpectConforms({Int8("[2,3,35,43]", "[5,3,7,7]", 735, 5, "[2,5,5,6]", "strides = [7, 7]")});
  EXPECT_GT(ExpectConforms({Int8("[1,3,64,64]", "[24,3,8,8]", 4608, 24, "[1,24,8,8]", "strides = [8, 8]"), 16384}), 16);
  const std::string w = RandomConstant("w", "f16[12,3,16,16]", 9216, -0.1, 0.1, true);
  ExpectConforms({"graph (%x: f16[1,3,32,48]) {\n" + w + "  %y = Conv(%x, %w) {strides = [16, 16]}\n  return %y\n}", 0,
                  "edge-2t", false, 8});
}
TEST(LargeConv, KernelsInPieces) {
  ExpectConforms({Int8("[1,4,40,9]", "[3,4,17,1]", 204, 3, "[1,3,24,9]", "")});
  ExpectConforms({Int8("[1,2,36,36]", "[3,2,33,33]", 6534, 3, "[1,3,36,36]", "pads = [16, 16, 16, 16]")});
  ExpectConforms({Int8("[1,6,30,30]", "[6,1,21,21]", 2646, 6, "[1,6,15,15]",
                       "group = 6, strides = [2, 2], pads = [10, 10, 10, 10]")});
  ExpectConforms({Int8("[1,6,30,30]", "[4,3,19,5]", 1140, 4, "[1,4,12,26]", "group = 2")});
  EXPECT_GT(
      ExpectConforms(
          {Int8("[1,6,64,30]", "[6,1,31,31]", 5766, 6, "[1,6,64,30]", "group = 6, pads = [15, 15, 15, 15]"), 32768}),
      8);
}
TEST(LargeConv, Strides) {
  ExpectConforms({Int8("[1,4,33,29]", "[5,4,3,3]", 180, 5, "[1,5,7,6]", "strides = [5, 5], pads = [1, 1, 1, 1]")});
  ExpectConforms({Int8("[1,6,33,29]", "[6,1,3,3]", 54, 6, "[1,6,4,4]", "group = 6, strides = [9, 8]")});
}
TEST(LargeConv, Dilations) {
  ExpectConforms(
      {Int8("[1,4,40,40]", "[5,4,3,3]", 180, 5, "[1,5,40,40]", "dilations = [12, 18], pads = [12, 18, 12, 18]")});
  ExpectConforms(
      {Int8("[1,4,20,20]", "[5,4,3,3]", 180, 5, "[1,5,20,20]", "dilations = [24, 24], pads = [24, 24, 24, 24]")});
}
// Frames of a signal: windows wider than any kernel, lying over each other in the input.
TEST(LargeConv, RowProducts) {
  EXPECT_LE(ExpectConforms({Int8("[1,1,1000]", "[33,1,256]", 8448, 33, "[1,33,12]", "strides = [64]")}), 8);
  ExpectConforms({Int8("[2,3,301]", "[5,3,70]", 1050, 5, "[2,5,24]", "strides = [10]")});
  ExpectConforms({Int8("[1,2,6,200]", "[4,2,1,100]", 800, 4, "[1,4,6,21]", "strides = [1, 5]")});
  ExpectConforms({Int8("[1,1,40000]", "[8,1,400]", 3200, 8, "[1,8,248]", "strides = [160]"), 32768});
  const std::string w = RandomConstant("w", "f16[20,1,200]", 4000, -0.1, 0.1, true);
  ExpectConforms({"graph (%x: f16[1,1,900]) {\n" + w + "  %y = Conv(%x, %w) {strides = [100]}\n  return %y\n}", 0,
                  "edge-2t", false, 8});
  // A piece of a wider tensor: its pixels don't lie side by side.
  const std::string w3 = RandomConstant("w", "i8[6,3,90]" + kQw, 1620, -120, 120, false);
  ExpectConforms({"graph (%x: i8[1,5,400]" + kQx + ") {\n" + w3 + "  %l: i8[1,5,400]" + kQx +
                  " = Relu(%x)\n"
                  "  %n: i64[2] = Constant() {value = dense<2, 3>}\n"
                  "  %a: i8[1,2,400]" +
                  kQx + ", %c: i8[1,3,400]" + kQx +
                  " = Split(%l, %n) {axis = 1}\n"
                  "  %y: i8[1,6,32]" +
                  kQy +
                  " = Conv(%c, %w) {strides = [10]}\n"
                  "  return %a, %y\n}"});
}
TEST(LargeConv, NearMisses) {
  EXPECT_EQ(BrokenRules(Int8("[1,1,70]", "[1,1,65]", 65, 1, "[1,1,6]", "")), "");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70]", "[1,1,65]", 65, 1, "[1,1,8]", "pads = [1, 1]")), "conv-kernel");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70]", "[1,1,2]", 2, 1, "[1,1,2]", "strides = [65]")), "");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70,1]", "[1,1,65,1]", 65, 1, "[1,1,6,1]", "")), "conv-kernel");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70,1]", "[1,1,64,1]", 64, 1, "[1,1,7,1]", "")), "");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70,1]", "[1,1,2,1]", 2, 1, "[1,1,2,1]", "strides = [65, 1]")), "conv-stride");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70,1]", "[1,1,2,1]", 2, 1, "[1,1,5,1]", "dilations = [65, 1]")), "conv-dilation");
  EXPECT_EQ(BrokenRules(Int8("[1,1,70,1]", "[1,1,2,1]", 2, 1, "[1,1,6,1]", "dilations = [64, 1]")), "");
}

} // namespace
} // namespace npuc::lower
