// Layers in stripes of rows: the graph computes the same, whatever halo, stride and padding; groups that must not be.
#include "passes/tile/split_rows.h"
#include "test/passes/testing.h"

namespace npuc::testing {
namespace {

std::string Weights(const std::string &name, const std::string &dims, int count) {
  std::string v;
  for (int i = 0; i < count; ++i)
    v += (i ? ", " : "") + std::to_string((i * 37 + 11) % 23 - 11);
  return "  %" + name + ": i8[" + dims + "]{s=0.01,z=0} = Constant() {value = dense<" + v + ">}\n";
}

// Everything on the NPU, images channels-last.
std::unique_ptr<Module> Placed(const std::string &text) {
  auto m = Load(text);
  Graph &g = m->main();
  auto lay = [](Value *v) {
    if (v->type().is_static_tensor() && v->type().shape().rank() == 4)
      v->type().set_layout(Layout::NHWC);
  };
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    lay(g.input(i));
  for (Node &n : g.nodes()) {
    if (n.is_constant() || n.is_return())
      continue;
    n.set_placement(Placement::Npu);
    for (unsigned i = 0; i < n.num_results(); ++i)
      lay(n.result(i));
  }
  return m;
}

Tensor Codes(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  std::vector<int8_t> v;
  for (int64_t i = 0; i < n; ++i)
    v.push_back(static_cast<int8_t>(i * 29 % 251 - 125));
  return Ints<int8_t>(DType::I8, dims, v);
}

// The stripes of the first layer that was split; 0 when none was. Holds the result against the whole's.
int64_t SplitAndCompare(const std::string &text, int64_t sram, llvm::ArrayRef<int64_t> input) {
  SCOPED_TRACE(sram);
  Env env;
  env.target.sram.bytes = sram;
  const auto whole = Placed(text), split = Placed(text);
  const tile::RowParts parts = tile::SplitRows(*split, env.npu, env.target);
  const auto want = Eval(*whole, {Codes(input)}), got = Eval(*split, {Codes(input)});
  EXPECT_EQ(want.size(), got.size());
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i)
    ExpectSame(got[i], want[i]);
  int64_t stripes = 0;
  for (const auto &[node, part] : parts)
    stripes += part.layer == 0;
  return stripes;
}

const char *const kIn = "i8[1,4,24,16]{s=0.1,z=3}";
std::string Block(const std::string &first, const std::string &second, const std::string &last) {
  return "graph (%x: " + std::string(kIn) + ") {\n" + Weights("a", "24,4,1,1", 96) + Weights("b", "24,1,3,3", 216) +
         Weights("c", "4,24,1,1", 96) + first + second + last + "}\n";
}

TEST(SplitRows, ExpansionDepthwiseProjectionWithShortcut) {
  const std::string text = Block("  %t: i8[1,24,24,16]{s=0.1,z=-2} = Conv(%x, %a)\n",
                                 "  %u: i8[1,24,24,16]{s=0.1,z=1} = Conv(%t, %b) {group = 24, pads = [1, 1, 1, 1]}\n",
                                 "  %v: i8[1,4,24,16]{s=0.1,z=0} = Conv(%u, %c)\n"
                                 "  %y: i8[1,4,24,16]{s=0.2,z=0} = Add(%v, %x)\n  return %y\n");
  EXPECT_GE(SplitAndCompare(text, 12 << 10, {1, 4, 24, 16}), 2);
  // All of it fits: nothing is gained.
  EXPECT_EQ(SplitAndCompare(text, 8 << 20, {1, 4, 24, 16}), 0);
}
TEST(SplitRows, StridesDilationsAndUnevenPads) {
  const std::string strided =
      Block("  %t: i8[1,24,24,16]{s=0.1,z=-2} = Conv(%x, %a)\n",
            "  %u: i8[1,24,12,8]{s=0.1,z=1} = Conv(%t, %b) {group = 24, pads = [0, 0, 1, 1], strides = [2, 2]}\n",
            "  %y: i8[1,4,12,8]{s=0.1,z=0} = Conv(%u, %c)\n  return %y\n");
  const std::string dilated =
      Block("  %t: i8[1,24,24,16]{s=0.1,z=-2} = Conv(%x, %a)\n",
            "  %u: i8[1,24,23,16]{s=0.1,z=1} = Conv(%t, %b) {group = 24, pads = [1, 2, 2, 2], dilations = [2, 2]}\n",
            "  %p: i8[1,24,11,8]{s=0.1,z=1} = MaxPool(%u) {kernel_shape = [3, 2], strides = [2, 2]}\n"
            "  %y: i8[1,4,11,8]{s=0.1,z=0} = Conv(%p, %c)\n  return %y\n");
  for (const std::string &text : {strided, dilated}) {
    int64_t stripes = 0;
    for (int64_t sram : {7 << 10, 8 << 10, 9 << 10, 10 << 10})
      stripes += SplitAndCompare(text, sram, {1, 4, 24, 16});
    EXPECT_GE(stripes, 2);
  }
}
TEST(SplitRows, AnInnerTensorThatOthersReadStaysWhole) {
  const std::string text = Block("  %t: i8[1,24,24,16]{s=0.1,z=-2} = Conv(%x, %a)\n",
                                 "  %u: i8[1,24,24,16]{s=0.1,z=1} = Conv(%t, %b) {group = 24, pads = [1, 1, 1, 1]}\n",
                                 "  %y: i8[1,4,24,16]{s=0.1,z=0} = Conv(%u, %c)\n  return %y, %t, %u\n");
  EXPECT_EQ(SplitAndCompare(text, 12 << 10, {1, 4, 24, 16}), 0);
}

} // namespace
} // namespace npuc::testing
