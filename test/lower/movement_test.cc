// Gather, Pad by reflection, Sum and Mean of many operands, Mod, IsNaN against the interpreter; near-misses.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "test/lower/conformance.h"

namespace npuc::lower {
namespace {

std::string Indexed(const std::string &in, const std::string &index_type, const std::string &index, int axis) {
  return "graph (%x: " + in + ") {\n  %i: " + index_type + " = Constant() {value = dense<" + index +
         ">}\n  %y = Gather(%x, %i) {axis = " + std::to_string(axis) + "}\n  return %y\n}";
}

TEST(Gather, ConstantIndices) {
  ExpectConforms({Indexed("i8[2,6,5]{s=0.1,z=1}", "i64[3]", "4, -1, 0", 1)});
  ExpectConforms({Indexed("f16[7,5]", "i64[]", "3", 0)});
  ExpectConforms({Indexed("f16[7,5]", "i64[2,3]", "3, 1, 6, 6, 6, 0", 0)});
  ExpectConforms({Indexed("f16[4,9]", "i32[2,4]", "8, 6, 4, 2, 0, 3, 6, 1", 1)});
  ExpectConforms({Indexed("f16[2,3,4,5,6]", "i64[3]", "2, 1, 2", 2)});
  ExpectConforms({Indexed("i8[1,8,6,6]{s=0.1,z=1}", "i64[8]", "0, 4, 1, 5, 2, 6, 3, 7", 1)});
}
TEST(Gather, ChannelShuffleIsOneCopy) {
  // 3 groups of 40: 0 40 80 1 41 81 ...
  std::string index;
  for (int i = 0; i < 120; ++i)
    index += (i ? ", " : "") + std::to_string(i % 3 * 40 + i / 3);
  EXPECT_EQ(BrokenRules(Indexed("f16[1,120,8,8]", "i64[120]", index, 1)), "");
  ExpectConforms({Indexed("f16[1,120,8,8]", "i64[120]", index, 1)});
}
TEST(Gather, RowsOfATable) {
  const std::string table = RandomConstant("t", "f16[50,12]", 600, -1, 1, true);
  const Case c{
      "graph (%i: i64[2,5]) {\n" + table + "  %y = Gather(%t, %i)\n  return %y\n}", 0, "edge-2t", true, 0, -50, 50};
  ExpectConforms(c);
  Case small{
      "graph (%i: i32[300]) {\n" + table + "  %y = Gather(%t, %i)\n  return %y\n}", 4096, "edge-2t", true, 0, 0, 50};
  ExpectConforms(small);
  ExpectConforms({"graph (%x: i8[3,20,4]{s=0.1,z=1}, %i: i64[7]) {\n  %y = Gather(%x, %i) {axis = 1}\n  return %y\n}",
                  0, "edge-2t", true, 0, 0, 20});
  ExpectConforms({"graph (%x: i8[20]{s=0.1,z=1}, %i: i64[7]) {\n  %y = Gather(%x, %i)\n  return %y\n}", 0, "edge-2t",
                  true, 0, 0, 20});
}
TEST(Gather, ByComputedArgMax) {
  const std::string table = RandomConstant("t", "f16[30,4]", 120, -1, 1, true);
  ExpectConforms({"graph (%x: f16[5,30]) {\n" + table +
                  "  %i = ArgMax(%x) {axis = 1, keepdims = 0}\n  %y = Gather(%t, %i)\n  return %y\n}"});
}
TEST(Gather, NearMisses) {
  EXPECT_EQ(BrokenRules("graph (%x: f16[65,20], %i: i64[7]) {\n  %y = Gather(%x, %i) {axis = 1}\n  return %y\n}"),
            "gather-table");
  EXPECT_EQ(BrokenRules("graph (%x: f16[64,20], %i: i64[7]) {\n  %y = Gather(%x, %i) {axis = 1}\n  return %y\n}"), "");
  EXPECT_EQ(BrokenRules("graph (%x: i64[64], %i: i64[7]) {\n  %y = Gather(%x, %i)\n  return %y\n}"), "gather-type");
}

TEST(Pad, EveryMode) {
  for (const char *mode : {"reflect", "edge", "wrap", "constant"})
    for (const auto &[type, pads, count] :
         {std::tuple<std::string, std::string, int>{"i8[1,3,5,6]{s=0.1,z=7}", "0, 0, 2, 3, 0, 0, 1, 4", 8},
          {"f16[2,3,4]", "1, 0, 2, 1, 2, 3", 6}})
      ExpectConforms({"graph (%x: " + type + ") {\n  %p: i64[" + std::to_string(count) +
                      "] = Constant() {value = dense<" + pads + ">}\n  %y = Pad(%x, %p) {mode = \"" + mode +
                      "\"}\n  return %y\n}"});
  const std::string p = "  %p: i64[2] = Constant() {value = dense<";
  EXPECT_EQ(
      BrokenRules("graph (%x: f16[4]) {\n" + p + "4, 0>}\n  %y = Pad(%x, %p) {mode = \"reflect\"}\n  return %y\n}"),
      "pad-mode");
  EXPECT_EQ(BrokenRules("graph (%x: f16[4]) {\n" + p + "4, 0>}\n  %y = Pad(%x, %p) {mode = \"wrap\"}\n  return %y\n}"),
            "");
}

TEST(Variadic, SumsAndMeans) {
  for (const char *op : {"Sum", "Mean", "Max", "Min"}) {
    ExpectConforms({"graph (%a: f16[2,3,4], %b: f16[3,1], %c: f16[1], %d: f16[2,3,4]) {\n  %y = " + std::string(op) +
                    "(%a, %b, %c, %d)\n  return %y\n}"});
    ExpectConforms({"graph (%a: i8[2,6]{s=0.1,z=1}, %b: i8[2,6]{s=0.2,z=-3}, %c: i8[2,6]{s=0.05,z=0}) {\n  %y: "
                    "i8[2,6]{s=0.3,z=2} = " +
                    std::string(op) + "(%a, %b, %c)\n  return %y\n}"});
    ExpectConforms({"graph (%a: f16[2,6], %b: f16[2,6]) {\n  %y = " + std::string(op) + "(%a, %b)\n  return %y\n}"});
    ExpectConforms(
        {"graph (%a: i8[2,6]{s=0.1,z=1}) {\n  %y: i8[2,6]{s=0.2,z=1} = " + std::string(op) + "(%a)\n  return %y\n}"});
  }
}
TEST(Elementwise, ModAndIsNaN) {
  ExpectConforms({"graph (%a: f16[40], %b: f16[40]) {\n  %y = Mod(%a, %b) {fmod = 1}\n  return %y\n}"});
  ExpectConforms(
      {"graph (%a: f16[40], %b: f16[40]) {\n  %d = Sub(%a, %b)\n  %e = Log(%d)\n  %y = IsNaN(%e)\n  return %y\n}"});
}

} // namespace
} // namespace npuc::lower
