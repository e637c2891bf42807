#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "compiler/ir/matchers.h"
#include "compiler/ir/rewriter.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

const OpDef *Op(std::string_view name, std::string_view domain = "") {
  return LookupOp(domain, name);
}
Type F32(Shape s) {
  return Type::Tensor(DType::F32, std::move(s));
}

TEST(MergeOrigins, UnitesSortedSets) {
  EXPECT_EQ(MergeOrigins({1, 5, 7}, {2, 5, 9}), (Origin{1, 2, 5, 7, 9}));
  EXPECT_EQ(MergeOrigins({}, {3}), (Origin{3}));
}

TEST(Graph, UseListsFollowOperands) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", F32({2}));
  Value *y = g.AddInput("y", F32({2}));
  Node *add = g.AddNode(Op("Add"), {x, x}, 1, {});
  EXPECT_EQ(x->uses().size(), 2u);
  EXPECT_FALSE(x->has_one_use());
  add->set_operand(0, y);
  ASSERT_TRUE(x->has_one_use());
  EXPECT_EQ(x->uses()[0].user, add);
  EXPECT_EQ(x->uses()[0].operand, 1u);
  EXPECT_EQ(SoleUser(y), add);
  x->ReplaceAllUsesWith(y);
  EXPECT_FALSE(x->has_uses());
  EXPECT_EQ(y->uses().size(), 2u);
  g.AddOutput(add->result(), "out");
  EXPECT_TRUE(add->result()->is_graph_output());
  EXPECT_EQ(SoleUser(add->result()), nullptr);
  EXPECT_TRUE(Verify(m).ok()) << Verify(m);
}

TEST(Graph, ReplaceAllUsesCoversOutputsAndBodies) {
  Module m;
  Graph &g = m.main();
  Value *c = g.AddInput("c", Type::Tensor(DType::Bool, Shape({})));
  Value *x = g.AddInput("x", F32({2}));
  Node *i = g.AddNode(Op("If"), {c}, 1, {});
  for (int b = 0; b < 2; ++b) {
    Graph *body = i->AddBody();
    body->AddOutput(body->AddNode(Op("Relu"), {x}, 1, {})->result());
  }
  g.AddOutput(x, "also_x");
  g.AddOutput(i->result());
  EXPECT_EQ(x->uses().size(), 3u);
  Node *r = g.AddNode(Op("Relu"), {x}, 1, {}, i);
  x->ReplaceAllUsesWith(r->result());
  r->set_operand(0, x);
  EXPECT_TRUE(x->has_one_use());
  EXPECT_EQ(g.output(0), r->result());
  EXPECT_EQ(g.output_names()[0], "also_x");
  EXPECT_EQ(g.output_names()[1], i->result()->name());
  EXPECT_TRUE(Verify(m).ok()) << Verify(m);
}

TEST(Graph, OptionalOperands) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", F32({2}));
  Value *hi = g.AddInput("hi", F32({}));
  Node *clip = g.AddNode(Op("Clip"), {x, nullptr, hi}, 1, {});
  EXPECT_EQ(clip->num_operands(), 3u);
  EXPECT_EQ(clip->operand(1), nullptr);
  EXPECT_EQ(clip->operand(7), nullptr);
  clip->set_operand(2, nullptr); // leaves no trailing absent operand
  EXPECT_EQ(clip->num_operands(), 1u);
  EXPECT_FALSE(hi->has_uses());
  clip->set_operand(2, hi);
  EXPECT_EQ(clip->num_operands(), 3u);
  EXPECT_EQ(clip->operand(1), nullptr);
  Node *trailing = g.AddNode(Op("Clip"), {x, nullptr, nullptr}, 1, {});
  EXPECT_EQ(trailing->num_operands(), 1u);
  EXPECT_TRUE(Verify(m).ok()) << Verify(m);
}

TEST(Graph, RemoveOperandMovesTheLaterOnes) {
  Module m;
  Graph &g = m.main();
  Value *a = g.AddInput("a", F32({2}));
  Value *b = g.AddInput("b", F32({2}));
  Node *cat = g.AddNode(Op("Concat"), {a, b, a, b, a}, 1, {});
  cat->attrs().Set("axis", int64_t{0});
  cat->RemoveOperand(0);
  cat->RemoveOperand(1);
  EXPECT_EQ(cat->operands(), (llvm::ArrayRef<Value *>{b, b, a}));
  g.AddOutput(a, "A");
  g.AddOutput(cat->result(), "C");
  g.AddOutput(b, "B");
  g.RemoveOutput(1);
  EXPECT_EQ(g.output_names(), (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(g.output(1), b);
  EXPECT_TRUE(Verify(m).ok()) << Verify(m);
}

TEST(Graph, NamesAreUniqueAcrossBodiesAndFreedOnErase) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", F32({2}));
  Node *r = g.AddNode(Op("Relu"), {x}, 1, {}, nullptr, {std::string("x")});
  EXPECT_EQ(r->result()->name(), "x_1");
  Node *s = g.AddNode(Op("Relu"), {x}, 1, {});
  EXPECT_EQ(s->result()->name(), "Relu");
  EXPECT_EQ(m.UniqueValueName("x_1"), "x_1_1");
  r->Erase();
  EXPECT_EQ(m.UniqueValueName("x_1"), "x_1");
  m.RenameValue(s->result(), "x");
  EXPECT_EQ(s->result()->name(), "x_1");
  m.RenameValue(s->result(), "x_1"); // its own name
  EXPECT_EQ(s->result()->name(), "x_1");
  EXPECT_EQ(m.UniqueValueName(""), "v");
}

TEST(GraphDeathTest, EraseOfAUsedNodeIsACompilerBug) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", F32({2}));
  Node *r = g.AddNode(Op("Relu"), {x}, 1, {});
  g.AddOutput(r->result());
  EXPECT_DEATH(r->Erase(), "'Relu' is erased while");
}

TEST(Graph, ConstantCarriesTypeAndData) {
  Module m;
  Value *c = m.main().AddConstant(Tensor::Of<int8_t>(DType::I8, {2}, {3, -4}), "w", nullptr, PerTensorQuant(0.5f, 1));
  ASSERT_NE(c->constant(), nullptr);
  EXPECT_EQ(c->constant()->AsInt(1), -4);
  EXPECT_EQ(c->type().ToString(), "i8[2]{s=0.5,z=1}");
  EXPECT_EQ(*MatchConstantInts(c), (llvm::SmallVector<int64_t, 8>{3, -4}));
  EXPECT_EQ(MatchConstantScalar(c), std::nullopt);
  const float half = 0.5f;
  EXPECT_EQ(MatchConstantScalar(m.main().AddConstant(Tensor::Splat(DType::F32, {4, 4}, &half))), 0.5);
  EXPECT_EQ(MatchConstantScalar(m.main().AddConstant(Tensor::ScalarI64(-7))), -7.0);
}

TEST(Attributes, SortedSetFindErase) {
  AttributeList a;
  a.Set("pads", std::vector<int64_t>{1, 2});
  a.Set("alpha", 0.5f);
  a.Set("mode", std::string("x"));
  a.Set("alpha", 0.25f);
  std::string order;
  for (const auto &e : a)
    order += e.name + " ";
  EXPECT_EQ(order, "alpha mode pads ");
  EXPECT_EQ(a.Float("alpha", 9), 0.25f);
  EXPECT_EQ(a.Int("absent", 9), 9);
  EXPECT_EQ(a.Ints("pads").size(), 2u);
  EXPECT_TRUE(a.Ints("absent").empty());
  a.Erase("mode");
  EXPECT_FALSE(a.Has("mode"));
  EXPECT_FALSE(SameAttribute(0.0f, -0.0f));
  EXPECT_TRUE(SameAttribute(std::nanf(""), std::nanf("")));
  EXPECT_FALSE(SameAttribute(int64_t{1}, 1.0f));
}

// ---- Sorting

TEST(SortTopologically, IsStableAndSeesCaptures) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", F32({2}));
  Value *c = g.AddInput("c", Type::Tensor(DType::Bool, Shape({})));
  Node *a = g.AddNode(Op("Relu"), {x}, 1, {}, nullptr, {std::string("a")});
  Node *b = g.AddNode(Op("Relu"), {x}, 1, {}, nullptr, {std::string("b")});
  Node *d = g.AddNode(Op("Relu"), {x}, 1, {}, nullptr, {std::string("d")});
  Node *i = g.AddNode(Op("If"), {c}, 1, {}, a, {std::string("i")}); // first in the list
  for (int k = 0; k < 2; ++k)
    i->AddBody()->AddOutput(b->result()); // captures b
  g.AddOutput(d->result());
  g.AddOutput(i->result());
  EXPECT_EQ(ErrorCode(Verify(m)), "E0204");
  ASSERT_TRUE(SortTopologically(g).ok());
  std::string order;
  for (Node &n : g.nodes())
    if (!n.is_return())
      order += n.result()->name();
  EXPECT_EQ(order, "abid"); // i as soon as b is there; d stays behind
  EXPECT_TRUE(Verify(m).ok()) << Verify(m);
  (void)a;
}

TEST(SortTopologically, NamesNodeAndTensorOfACycle) {
  Module m;
  m.onnx_nodes() = {
      {"first", "first", "Relu", ""}, {"p", "p", "Add", ""}, {"q", "q", "Relu", ""}, {"after", "after", "Relu", ""}};
  Graph &g = m.main();
  Value *x = g.AddInput("x", F32({2}));
  Node *after = g.AddNode(Op("Relu"), {x}, 1, {3});
  Node *p = g.AddNode(Op("Add"), {x, x}, 1, {1}, nullptr, {std::string("tp")});
  Node *q = g.AddNode(Op("Relu"), {p->result()}, 1, {2}, nullptr, {std::string("tq")});
  p->set_operand(1, q->result());
  after->set_operand(0, q->result());
  const Status s = SortTopologically(g);
  const Diagnostic d = FromStatus(s);
  EXPECT_EQ(d.code, "E0204");
  EXPECT_TRUE((d.node == "p" && d.message.find("'tq'") != std::string::npos) ||
              (d.node == "q" && d.message.find("'tp'") != std::string::npos))
      << Render(d);
}

// ---- Copies

TEST(Clone, IsEqualAndApart) {
  auto m = ParseModule(R"(module "m.onnx" { opset "" 17 nodes { 0: If "i" 1: Relu "r" }
    graph (%c: bool[], %x: f32[2]) {
      %w: f32[2] = Constant() {value = dense<1, 2>}
      %i: f32[2] = If(%c) graph () { %r: f32[2] = Relu(%x) origin(1) return %r } graph () { return %w } origin(0) @host
      return %i as "y" } })");
  ASSERT_TRUE(m.ok()) << m.status();
  auto c = Clone(**m);
  EXPECT_EQ(Hash(**m), Hash(*c));
  EXPECT_EQ(Print(**m), Print(*c));
  EXPECT_TRUE(Verify(*c).ok()) << Verify(*c);
  m->reset(); // constants keep their bytes
  Graph &g = c->main();
  EXPECT_EQ(g.nodes().begin()->result()->constant()->AsDouble(1), 2.0);
}

TEST(InlineGraph, MapsInputsKeepsCapturesAndRenames) {
  auto m = ParseModule(R"(graph (%c: bool[], %x: f32[2]) {
      %i: f32[2] = If(%c) graph () { %r: f32[2] = Relu(%x)  %s: f32[2] = Add(%r, %x) return %s } graph () { return %x }
      return %i as "y" })");
  ASSERT_TRUE(m.ok()) << m.status();
  Graph &g = (*m)->main();
  Node &i = g.nodes().front();
  auto out = InlineGraph(*i.body(0), g, &i, {});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0]->name(), "s_1");
  Rewriter(g).ReplaceNode(&i, out);
  EXPECT_EQ(Print(**m), R"(module "" {
  graph (%c: bool[], %x: f32[2]) {
    %r_1: f32[2] = Relu(%x)
    %i: f32[2] = Add(%r_1, %x)
    return %i as "y"
  }
}
)");
  EXPECT_TRUE(Verify(**m).ok()) << Verify(**m);
}

// ---- Rewriter

TEST(Rewriter, ReplacementTakesTheNameAndDeadNodesGo) {
  auto m = ParseModule(R"(graph (%x: f32[2]) {
      %lo: f32[] = Constant() {value = dense<0>}
      %a: f32[2] = Relu(%x)
      %y: f32[2] = Clip(%a, %lo)
      return %y })");
  ASSERT_TRUE(m.ok()) << m.status();
  Graph &g = (*m)->main();
  Node *clip = g.output(0)->def();
  Rewriter rw(clip);
  Node *fresh = rw.Create("Relu", {g.input(0)}, {}, {clip->result()->type()});
  rw.ReplaceNode(clip, {fresh->result()});
  EXPECT_TRUE(rw.changed());
  EXPECT_EQ(g.nodes().size(), 2u);
  EXPECT_EQ(g.output(0), fresh->result());
  EXPECT_EQ(fresh->result()->name(), "y");
  EXPECT_EQ(g.output_names()[0], "y");
  EXPECT_TRUE(Verify(**m).ok()) << Verify(**m);
}

TEST(Rewriter, InputsKeepTheirNamesWhenReturned) {
  auto m = ParseModule("graph (%x: f32[2]) { %y: f32[2] = Relu(%x) return %y }");
  Graph &g = (*m)->main();
  Rewriter rw(g);
  rw.ReplaceNode(g.output(0)->def(), {g.input(0)});
  EXPECT_EQ(g.input(0)->name(), "x");
  EXPECT_EQ(g.output_names()[0], "y");
  EXPECT_TRUE(Verify(**m).ok());
}

TEST(Rewriter, InputsKeepTheirNamesWhenReplaced) {
  auto m = ParseModule("graph (%x: f32[2]) { %y: f32[2] = Relu(%x) return %y }");
  Graph &g = (*m)->main();
  Rewriter rw(&g.nodes().front());
  Value *in = g.input(0);
  Node *clip = rw.Create("Clip", {in}, {}, {in->type()});
  rw.ReplaceValue(in, clip->result());
  clip->set_operand(0, in);
  EXPECT_EQ(in->name(), "x");
  EXPECT_EQ(g.output(0)->def()->operand(0), clip->result());
  EXPECT_EQ(clip->result()->name(), "Clip");
  EXPECT_TRUE(Verify(**m).ok()) << Verify(**m);
}

TEST(Rewriter, ExistingValueTakesOverAnOutputsNameButNotAnothers) {
  auto m = ParseModule(R"(graph (%x: f32[2]) {
      %a: f32[2] = Relu(%x)
      %b: f32[2] = Relu(%a)
      %z: f32[2] = Relu(%b)
      return %z, %b })");
  Graph &g = (*m)->main();
  Value *z = g.output(0), *b = g.output(1);
  Rewriter rw(g);
  rw.ReplaceNode(z->def(), {b}); // b is an output itself: both names stay
  EXPECT_EQ(b->name(), "b");
  EXPECT_EQ(g.output_names(), (std::vector<std::string>{"z", "b"}));
  rw.ReplaceNode(b->def(), {b->def()->operand(0)});
  EXPECT_EQ(g.output(0)->name(), "b");
  EXPECT_TRUE(Verify(**m).ok());
}

TEST(EraseDeadNodes, WorksFromTheBackAndInBodies) {
  auto m = ParseModule(R"(graph (%c: bool[], %x: f32[2]) {
      %a: f32[2] = Relu(%x)
      %b: f32[2] = Relu(%a)
      %i: f32[2] = If(%c) graph () { %r: f32[2] = Relu(%b) return %x } graph () { return %x }
      return %i })");
  Graph &g = (*m)->main();
  EXPECT_TRUE(EraseDeadNodes(g));
  EXPECT_EQ(g.nodes().size(), 2u);
  EXPECT_FALSE(EraseDeadNodes(g));
}

TEST(Matchers, ConstantOperandOfEitherSide) {
  auto m = ParseModule(R"(graph (%x: f32[2]) {
      %k: f32[] = Constant() {value = dense<2>}
      %a: f32[2] = Add(%k, %x)
      %b: f32[2] = Add(%a, %a)
      return %b })");
  Graph &g = (*m)->main();
  Node *b = g.output(0)->def();
  Node *a = DefinedBy(b->operand(0), "Add");
  ASSERT_NE(a, nullptr);
  auto match = MatchConstantOperand(*a);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->other, g.input(0));
  EXPECT_EQ(match->index, 0u);
  EXPECT_FALSE(MatchConstantOperand(*b).has_value());
  EXPECT_EQ(SoleUser(a->result()), nullptr); // two uses by one node
  EXPECT_EQ(DefinedBy(g.input(0), "Add"), nullptr);
}

} // namespace
} // namespace npuc
