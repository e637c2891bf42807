// Nothing in the IR may recurse on the graph's depth: 100,000 nodes in a chain, and one value with 100,000 uses. What
// were quadratic here would run into the test's time limit; times are measured by test/bench/ir_bench.cc.
#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "compiler/ir/rewriter.h"

namespace npuc {
namespace {

constexpr int kNodes = 100000;

TEST(Scale, ChainOf100000Nodes) {
  auto m = std::make_unique<Module>();
  Graph &g = m->main();
  const Type type = Type::Tensor(DType::F32, Shape({1, 64, 56, 56}));
  Value *x = g.AddInput("x", type);
  Value *shared = g.AddConstant(Tensor::ScalarF32(1), "one");
  for (OriginId i = 0; i < kNodes; ++i) {
    m->onnx_nodes().push_back({"node" + std::to_string(i), "", "Add", ""});
    Node *n = g.AddNode(LookupOp("", "Add"), {x, shared}, 1, {i}); // all of them want to be called "Add"
    x = n->result();
    x->set_type(type);
  }
  g.AddOutput(x, "y");
  ASSERT_TRUE(Verify(*m).ok()) << Verify(*m);
  const std::string text = Print(*m);
  auto back = ParseModule(text);
  ASSERT_TRUE(back.ok()) << back.status();
  const uint64_t h = Hash(*m);
  EXPECT_EQ(Hash(**back), h);
  auto copy = Clone(*m);
  EXPECT_EQ(Hash(*copy), h);
  back->reset();
  copy.reset();

  // Reverse the list, then sort it back.
  std::vector<Node *> nodes;
  for (Node &n : g.nodes())
    if (!n.is_return())
      nodes.push_back(&n);
  for (size_t i = nodes.size() - 1; i-- > 0;)
    nodes[i]->MoveBefore(g.return_node());
  EXPECT_FALSE(Verify(*m).ok());
  ASSERT_TRUE(SortTopologically(g).ok());
  EXPECT_TRUE(Verify(*m).ok()) << Verify(*m);

  Value *other = g.AddConstant(Tensor::ScalarF32(2), "two", &g.nodes().front());
  shared->ReplaceAllUsesWith(other);
  // Unlink the uses one by one, from the front: the use list's worst order.
  for (Node &n : g.nodes())
    if (n.Is("Add"))
      n.set_operand(1, shared);
  g.return_node()->set_operand(0, g.input(0));
  EXPECT_TRUE(EraseDeadNodes(g));
  EXPECT_EQ(g.nodes().size(), 1u);
}

TEST(Scale, OneNodeWith100000Operands) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", Type());
  std::vector<Value *> operands(kNodes, x);
  Node *cat = g.AddNode(LookupOp("", "Concat"), operands, 1, {});
  cat->attrs().Set("axis", int64_t{0});
  for (int i = 0; i < kNodes; ++i)
    g.AddOutput(x, "o" + std::to_string(i));
  ASSERT_TRUE(Verify(m).ok());
  EXPECT_EQ(Hash(**ParseModule(Print(m))), Hash(m));
  cat->Erase();
}

// A chain of wishes for one name, each already taken by a name with a suffix.
TEST(Scale, NamesThatCollideWithSuffixes) {
  Module m;
  for (int i = 0; i < kNodes; ++i)
    m.main().AddInput("v_" + std::to_string(i), Type());
  for (int i = 0; i < kNodes; ++i)
    m.main().AddInput("v", Type());
  EXPECT_EQ(m.UniqueValueName("v"), "v_" + std::to_string(2 * kNodes - 1));
}

} // namespace
} // namespace npuc
