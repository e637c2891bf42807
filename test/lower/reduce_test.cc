// Reductions and ArgMax against the interpreter: axes, keepdims, layouts, element types, blocks; near-misses.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "test/lower/conformance.h"

namespace npuc::lower {
namespace {

std::string Reduction(const std::string &in, const std::string &op, const std::string &axes, bool keep,
                      const std::string &out = "") {
  const std::string count = std::to_string(1 + std::count(axes.begin(), axes.end(), ','));
  return "graph (%x: " + in + ") {\n  %a: i64[" + count + "] = Constant() {value = dense<" + axes + ">}\n  %y" +
         (out.empty() ? "" : ": " + out) + " = " + op + "(%x, %a) {keepdims = " + (keep ? "1" : "0") +
         "}\n  return %y\n}";
}

TEST(Reduce, EveryKind) {
  for (const char *op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"}) {
    ExpectConforms({Reduction("f16[3,5,7]", op, "1", true)});
    ExpectConforms({Reduction("i8[3,5,7]{s=0.05,z=3}", op, "2", false, "i8[3,5]{s=0.2,z=-1}")});
    ExpectConforms({Reduction("u8[2,3,4,5]{s=0.02,z=128}", op, "1, 2, 3", true, "u8[2,1,1,1]{s=0.5,z=100}")});
  }
}
TEST(Reduce, Logarithms) {
  for (const char *op : {"ReduceLogSum", "ReduceLogSumExp"}) {
    const bool exp = std::string(op) == "ReduceLogSumExp";
    // Sums of a plain logarithm are of positive numbers: u8 with zero point 0.
    ExpectConforms({Reduction("u8[3,5,7]{s=0.05,z=0}", op, "1", true, "u8[3,1,7]{s=0.05,z=10}")});
    ExpectConforms({Reduction("u8[2,3,4,5]{s=0.02,z=0}", op, "1, 2, 3", true, "u8[2,1,1,1]{s=0.05,z=0}")});
    if (exp) {
      ExpectConforms({Reduction("f16[3,5,7]", op, "1, 2", false), 0, "edge-2t", false});
      EXPECT_GT(ExpectConforms({Reduction("f16[200,300]", op, "1", false), 16384, "edge-2t", false}), 20);
    }
  }
}
TEST(Reduce, EveryAxisSet) {
  for (const char *axes : {"0", "1", "2", "3", "0, 1", "1, 2", "2, 3", "1, 3", "0, 3", "0, 1, 2, 3", "-1"})
    for (const bool keep : {true, false}) {
      std::string out = "i8[";
      for (int i = 0; i < 4; ++i) {
        const std::string a = std::to_string(i);
        const bool reduced = std::string(axes).find(a) != std::string::npos || (i == 3 && std::string(axes) == "-1");
        const std::string extent = std::to_string(2 + i);
        if (!reduced || keep)
          out += (out.back() == '[' ? "" : ",") + (reduced ? "1" : extent);
      }
      ExpectConforms({Reduction("i8[2,3,4,5]{s=0.05,z=3}", "ReduceMean", axes, keep, out + "]{s=0.05,z=3}")});
    }
}
TEST(Reduce, OfAnImageInItsOwnLayout) {
  // A convolution before: the operand lies channels-last.
  const std::string w = RandomConstant("w", "f16[12,8,1,1]", 96, -1, 1, true);
  for (const char *axes : {"1", "2", "3", "2, 3", "1, 2, 3"})
    for (const char *keep : {"0", "1"}) {
      const std::string count = std::to_string(1 + std::count(axes, axes + std::string(axes).size(), ','));
      ExpectConforms({"graph (%x: f16[2,8,6,5]) {\n" + w + "  %a: i64[" + count + "] = Constant() {value = dense<" +
                          axes + ">}\n  %c = Conv(%x, %w)\n  %y = ReduceMean(%c, %a) {keepdims = " + keep +
                          "}\n  return %y\n}",
                      0, "edge-2t", false, 3});
    }
}
TEST(Reduce, InBlocks) {
  EXPECT_GT(
      ExpectConforms(
          {Reduction("i8[1,64,40,40]{s=0.05,z=3}", "ReduceMean", "2, 3", true, "i8[1,64,1,1]{s=0.05,z=3}"), 16384}),
      4);
  EXPECT_GT(ExpectConforms({Reduction("f16[200,300]", "ReduceSum", "1", false), 16384}), 4);
}
TEST(Reduce, NearMisses) {
  EXPECT_EQ(BrokenRules("graph (%x: f16[4,4], %a: i64[1]) {\n  %y: f16[4,1] = ReduceSum(%x, %a)\n  return %y\n}"),
            "reduce-axes");
  EXPECT_EQ(BrokenRules(Reduction("f16[9,256,256]", "ReduceSum", "0, 1, 2", true)), "reduce-size");
  EXPECT_EQ(BrokenRules(Reduction("f16[7,256,256]", "ReduceSum", "0, 1, 2", true)), "");
  EXPECT_EQ(BrokenRules(Reduction("i32[4,4]", "ReduceSum", "0", true)), "dtype");
}

std::string Arg(const std::string &in, const std::string &op, int axis, int keep, int last) {
  return "graph (%x: " + in + ") {\n  %y = " + op + "(%x) {axis = " + std::to_string(axis) +
         ", keepdims = " + std::to_string(keep) + ", select_last_index = " + std::to_string(last) + "}\n  return %y\n}";
}
TEST(ArgMax, AxesAndTies) {
  for (const char *op : {"ArgMax", "ArgMin"})
    for (int axis = 0; axis < 4; ++axis)
      for (int flags = 0; flags < 4; ++flags)
        ExpectConforms({Arg("i8[2,3,50,5]{s=0.05,z=3}", op, axis, flags & 1, flags >> 1)});
  ExpectConforms({Arg("f16[1,1000]", "ArgMax", -1, 0, 0)});
  ExpectConforms({Arg("f16[1,21,33,33]", "ArgMax", 1, 0, 0), 32768});
}

} // namespace
} // namespace npuc::lower
