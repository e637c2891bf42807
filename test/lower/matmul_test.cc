// MATMUL with a computed second operand against the interpreter: batches that share a command, broadcast batches,
// blocks, element types.
#include <gtest/gtest.h>

#include "test/lower/conformance.h"

namespace npuc::lower {
namespace {

std::string Product(const std::string &a, const std::string &b, const std::string &y) {
  return "graph (%a: " + a + ", %b: " + b + ") {\n  %y: " + y + " = MatMul(%a, %b)\n  return %y\n}";
}

TEST(MatMul, BatchItemsShareACommand) {
  EXPECT_EQ(ExpectConforms({Product("f16[16,4,1,9]", "f16[16,4,9,5]", "f16[16,4,1,5]")}), 1);
  EXPECT_EQ(ExpectConforms({Product("i8[3,4,6,7]{s=0.1,z=2}", "i8[3,4,7,5]{s=0.2,z=-3}", "i8[3,4,6,5]{s=0.5,z=1}")}),
            1);
  // 49 x 64 accumulators an item, 8192 a bank: two items a command, over H and then N.
  EXPECT_EQ(ExpectConforms({Product("f16[3,5,49,32]", "f16[3,5,32,49]", "f16[3,5,49,49]")}), 9);
  EXPECT_EQ(ExpectConforms({Product("f16[5,1,49,32]", "f16[5,1,32,49]", "f16[5,1,49,49]")}), 3);
}
TEST(MatMul, BroadcastBatches) {
  for (const auto &[a, b] : {std::pair("1,4", "3,4"), {"3,4", "1,4"}, {"3,4", "3,1"}, {"3,1", "1,4"}, {"1,1", "3,4"}})
    ExpectConforms({Product("u8[" + std::string(a) + ",6,7]{s=0.1,z=100}",
                            "u8[" + std::string(b) + ",7,5]{s=0.2,z=128}", "u8[3,4,6,5]{s=0.5,z=90}")});
  ExpectConforms({Product("f16[4,6,7]", "f16[3,4,7,5]", "f16[3,4,6,5]")});
}
TEST(MatMul, InBlocks) {
  EXPECT_GT(ExpectConforms({Product("f16[8,4,20,64]", "f16[8,4,64,24]", "f16[8,4,20,24]"), 32768}), 8);
  EXPECT_GT(ExpectConforms(
                {Product("i8[2,300,64]{s=0.1,z=2}", "i8[2,64,200]{s=0.2,z=-3}", "i8[2,300,200]{s=0.9,z=1}"), 65536}),
            10);
}

} // namespace
} // namespace npuc::lower
