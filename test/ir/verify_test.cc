#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

struct Case {
  const char *text, *code, *message;
};

TEST(Verify, SchemaAndTypes) {
  const Case cases[] = {
      {"graph (%x) { %y = Relu() return }", "E0204", "0 operands (Relu takes 1)"},
      {"graph (%x) { %y = Relu(%x, %x) return }", "E0204", "2 operands (Relu takes 1)"},
      {"graph (%x) { %y = Clip() return }", "E0204", "0 operands (Clip takes 1 to 3)"},
      {"graph (%x) { %y = Add(_, %x) return }", "E0204", "operand 0 is absent (Add needs it)"},
      {"graph (%x) { Relu(%x) return }", "E0204", "0 results (Relu has 1)"},
      {"graph (%x) { %y = Concat(%x) return }", "E0204", "attribute 'axis' is missing"},
      {"graph (%x) { %y = Concat(%x) {axis = 0, axes = 1} return }", "E0204", "Concat has no attribute 'axes'"},
      {"graph (%x) { %y = Concat(%x) {axis = [0]} return }", "E0204", "attribute 'axis' is not an int"},
      {"graph (%x) { %y = Conv(%x, %x) {pads = 1.5} return }", "E0204", "attribute 'pads' is not a list of ints"},
      {"graph (%x) { %y = If(%x) return }", "E0204", "0 bodies (If has 2)"},
      {"graph (%x) { %y = Relu(%x) graph () { return } return }", "E0204", "1 bodies (Relu has 0)"},
      {"graph (%x: string[2]) { %y = Relu(%x) return }", "E0302", "Relu of strings"},
      {"graph () { %y: f32[3] = Constant() {value = dense<f32[2]: 1, 2>} return }", "E0204",
       "the constant's data is f32[2], its type f32[3]"},
      {"graph () { %y: f32[2] = Constant() {value = dense<i32[2]: 1, 2>} return }", "E0204",
       "the constant's data is i32[2], its type f32[2]"},
      {"graph () { %y = Constant() {value = dense<>} return }", "E0204", "the constant has no value"},
      {"graph (%x: f32[2]{s=1,z=0}) { return }", "E0204", "has quantisation parameters on f32 elements"},
      {"graph (%x: i8[2]{axis=0,s=(1,2,3),z=(0,0,0)}) { return }", "E0204", "has 3 scales for 2 slices of axis 0"},
      {"graph (%x: i8[2]{axis=1,s=(1),z=(0)}) { return }", "E0204", "is quantised along axis 1 at rank 1"},
      {"graph (%x: i8[2]{axis=0,s=(1,2),z=(0)}) { return }", "E0204", "has 2 scales and 1 zero points"},
      {"graph (%x: seq<i8[2]{axis=-1,s=(1,2),z=(0,0)}>) { return }", "E0204", "has 2 scales for the whole tensor"},
      {"graph (%x: f32[2,3]:NHWC) { return }", "E0204", "has layout NHWC at rank 2"},
      {"graph (%x, %y) { return %x as \"a\", %y as \"a\" }", "E0204", "two outputs of the model are called 'a'"},
  };
  for (const Case &c : cases) {
    auto m = ParseModule(c.text);
    ASSERT_TRUE(m.ok()) << m.status() << c.text;
    const Status s = Verify(**m);
    EXPECT_EQ(ErrorCode(s), c.code) << c.text;
    EXPECT_NE(Message(s).find(c.message), std::string::npos) << c.text << "\n" << s;
  }
}

TEST(Verify, NamesTheOnnxNode) {
  auto m = ParseModule(R"(module "" { nodes { 0: If "if0" 1: Relu "if0/then_branch/r" }
    graph (%c) { %y = If(%c) graph () { %r = Relu() origin(1) return %r } graph () { return %c } origin(0) return } })");
  ASSERT_TRUE(m.ok()) << m.status();
  const Diagnostic d = FromStatus(Verify(**m));
  EXPECT_EQ(d.node, "if0/then_branch/r");
  EXPECT_EQ(d.op, "Relu");
}

TEST(Verify, OrderAndVisibility) {
  auto m = ParseModule("graph (%c) { %a = Relu(%c) %b = Relu(%a) %i = If(%c) graph () { %r = Relu(%b) return %r } "
                       "graph () { return %a } return %i }");
  ASSERT_TRUE(m.ok()) << m.status();
  Graph &g = (*m)->main();
  ASSERT_TRUE(Verify(**m).ok()) << Verify(**m);
  Node *i = g.output(0)->def();
  Node *b = i->body(0)->nodes().front().operand(0)->def();
  Value *r = i->body(0)->output(0);

  b->MoveBefore(i->graph()->return_node()); // now after its captured use
  EXPECT_NE(Message(Verify(**m)).find("operand 0 is not defined before the node"), std::string::npos) << Verify(**m);
  b->MoveBefore(i);
  ASSERT_TRUE(Verify(**m).ok());

  g.AddOutput(r, "escaped"); // a body's value outside
  EXPECT_NE(Message(Verify(**m)).find("a graph that the node can't see"), std::string::npos) << Verify(**m);
  g.RemoveOutput(1);

  i->body(1)->return_node()->set_operand(0, r); // a sibling body's
  EXPECT_NE(Message(Verify(**m)).find("a graph that the node can't see"), std::string::npos) << Verify(**m);
}

TEST(Verify, Origins) {
  Module m;
  Value *x = m.main().AddInput("x", Type());
  Node *n = m.main().AddNode(LookupOp("", "Relu"), {x}, 1, {3});
  EXPECT_NE(Message(Verify(m)).find("origin 3 of 0 ONNX nodes"), std::string::npos);
  m.onnx_nodes().resize(4);
  n->set_origin({2, 1});
  EXPECT_NE(Message(Verify(m)).find("origins are not sorted"), std::string::npos);
  n->set_origin({1, 2});
  EXPECT_TRUE(Verify(m).ok());
}

} // namespace
} // namespace npuc
