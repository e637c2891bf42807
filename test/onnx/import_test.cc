// What the importer makes of a model's structure: names, ids, order, bodies, functions, options, and what it refuses.
#include <gmock/gmock.h>

#include "test/onnx/model_builder.h"

namespace npuc::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Import, NodeIds) {
  ModelBuilder b;
  b.In("x", {1, 4}).Out("y");
  b.Node("Relu", {"x"}, {"a"}, {}, "act");
  b.Node("Relu", {"a"}, {"b"}, {}, "twice");
  b.Node("Neg", {"b"}, {"c"}, {}, "twice");
  b.Node("Abs", {"c"}, {"y"});
  auto m = b.Get();
  EXPECT_THAT(Ids(*m), ElementsAre("act", "Relu@b", "Neg@c", "Abs@y"));
  // Every IR node knows its ONNX node.
  for (Node &n : m->main().nodes())
    EXPECT_EQ(n.origin().size(), n.is_return() ? 0u : 1u);
}

TEST(Import, IdsStayUniqueWhenANameLooksLikeOne) {
  ModelBuilder b;
  b.In("x", {4}).Out("z");
  b.Node("Relu", {"x"}, {"y"});
  b.Node("Neg", {"y"}, {"z"}, {}, "Relu@y");
  auto m = b.Get();
  EXPECT_THAT(Ids(*m), ElementsAre("Relu@y", "Neg@z"));
}

// N032: nodes out of order are sorted; ids and results as in the sorted model.
TEST(Import, SortsUnsortedGraphsAndBodies) {
  ModelBuilder b;
  b.In("x", {2}).Out("y").Init("one", Floats({1}, {1}));
  b.Node("Mul", {"r", "r"}, {"y"});
  b.Node("Relu", {"a"}, {"r"});
  b.Node("Add", {"x", "one"}, {"a"});
  EXPECT_THAT(AsFloats(b.Run({Floats({2}, {2, -5})})[0]), ElementsAre(9, 0));

  // Inside a Loop body that reads an outer value which is itself made later in the list.
  GraphBuilder body;
  body.In("i", {}, DType::I64).In("c", {}, DType::Bool).In("s", {2}).Out("c2").Out("s3");
  body.Node("Mul", {"s2", "outer"}, {"s3"});
  body.Node("Add", {"s", "outer"}, {"s2"});
  body.Node("Identity", {"c"}, {"c2"});
  ModelBuilder loop;
  loop.In("x", {2}).Out("y").Init("n", Int64s({}, {2})).Init("one", Floats({1}, {1}));
  loop.Node("Loop", {"n", "", "x"}, {"y"}, {G("body", body.g)});
  loop.Node("Add", {"one", "one"}, {"outer"});
  EXPECT_THAT(AsFloats(loop.Run({Floats({2}, {1, 0})})[0]), ElementsAre((3 * 2 + 2) * 2, (2 * 2 + 2) * 2));
}

TEST(Import, RefusesCycles) {
  ModelBuilder b;
  b.In("x", {2}).Out("a");
  b.Node("Add", {"b", "x"}, {"a"}, {}, "add");
  b.Node("Relu", {"a"}, {"b"}, {}, "relu");
  const Diagnostic d = b.Fail();
  EXPECT_EQ(d.code, "E0204");
  EXPECT_THAT(d.message, HasSubstr("cycle"));
  EXPECT_TRUE(d.node == "add" || d.node == "relu") << d.node;
  EXPECT_TRUE(d.message.find("'a'") != std::string::npos || d.message.find("'b'") != std::string::npos) << d.message;
}

// N038: a tensor written twice is refused by name, not resolved silently.
TEST(Import, RefusesSecondDefinitions) {
  ModelBuilder b;
  b.In("x", {2}).Out("t").Init("one", Floats({1}, {1}));
  b.Node("Relu", {"x"}, {"t"}, {}, "relu");
  b.Node("Add", {"t", "one"}, {"t"}, {}, "add");
  Diagnostic d = b.Fail();
  EXPECT_EQ(d.code, "E0204");
  EXPECT_EQ(d.node, "add");
  EXPECT_THAT(d.message, HasSubstr("'t'"));

  ModelBuilder input;
  input.In("x", {2}).Out("y");
  input.Node("Relu", {"x"}, {"x"});
  input.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(input.Fail().code, "E0204");

  ModelBuilder twice;
  twice.In("x", {2}).Out("y").Init("w", Floats({1}, {1})).Init("w", Floats({1}, {2}));
  twice.Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(twice.Fail().code, "E0204");
}

TEST(Import, RefusesMissingTensors) {
  ModelBuilder b;
  b.In("x", {2}).Out("y");
  b.Node("Add", {"x", "nowhere"}, {"y"}, {}, "add");
  Diagnostic d = b.Fail();
  EXPECT_EQ(d.code, "E0204");
  EXPECT_EQ(d.node, "add");
  EXPECT_THAT(d.message, HasSubstr("'nowhere'"));
  ModelBuilder out;
  out.In("x", {2}).Out("z");
  out.Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(out.Fail().message, HasSubstr("'z'"));
  ModelBuilder none;
  none.In("x", {2});
  none.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(none.Fail().code, "E0204");
}

// N034: names that become equal after stripping, a user's tensor with a made-up looking name, unicode, unnamed nodes of
// one type.
TEST(Import, NamesThatLookAlikeStayApart) {
  ModelBuilder b;
  b.In("x", {2}).Out("out");
  b.Init("Conv_0_out", Floats({1}, {10}))
      .Init("a-b", Floats({1}, {1}))
      .Init("ab", Floats({1}, {2}))
      .Init("a/b", Floats({1}, {4}))
      .Init("größe", Floats({1}, {8}));
  b.Node("Add", {"x", "a-b"}, {"s1"});
  b.Node("Add", {"s1", "ab"}, {"s2"});
  b.Node("Add", {"s2", "a/b"}, {"s3"});
  b.Node("Add", {"s3", "größe"}, {"s4"});
  b.Node("Add", {"s4", "Conv_0_out"}, {"out"});
  EXPECT_THAT(AsFloats(b.Run({Floats({2}, {100, 200})})[0]), ElementsAre(125, 225));
}

TEST(Import, OutputsThatAreInputsOrInitializersOrTwice) {
  ModelBuilder b;
  b.In("x", {2}).Out("x").Out("w").Out("y").Out("y").Init("w", Floats({1}, {7}));
  b.Node("Relu", {"x"}, {"y"});
  auto out = b.Run({Floats({2}, {-1, 3})});
  ASSERT_EQ(out.size(), 4u);
  EXPECT_THAT(AsFloats(out[0]), ElementsAre(-1, 3));
  EXPECT_THAT(AsFloats(out[1]), ElementsAre(7));
  EXPECT_THAT(AsFloats(out[3]), ElementsAre(0, 3));
}

// All unknown operators at once, with domain and remedy; bodies and functions included.
TEST(Import, ListsAllUnknownOperators) {
  ModelBuilder b;
  b.Opset("com.acme", 1).In("x", {2}).Out("y");
  GraphBuilder then_branch, else_branch;
  then_branch.Out("t");
  then_branch.Node("Hidden", {"x"}, {"t"}, {}, "", "com.acme");
  else_branch.Out("e");
  else_branch.Node("Identity", {"x"}, {"e"});
  b.Init("c", Tensor::Of<uint8_t>(DType::Bool, {}, llvm::ArrayRef<uint8_t>{1}));
  b.Node("Quant", {"x"}, {"q"}, {}, "q0", "com.acme");
  b.Node("Quant", {"q"}, {"r"}, {}, "q1", "com.acme");
  b.Node("Reluu", {"r"}, {"s"});
  b.Node("If", {"c"}, {"y"}, {G("then_branch", then_branch.g), G("else_branch", else_branch.g)});
  b.Fail();
  const auto all = b.diagnostics.All();
  ASSERT_EQ(all.size(), 3u) << b.diagnostics.RenderAll();
  for (const auto &d : all)
    EXPECT_EQ(d.code, "E0401");
  EXPECT_THAT(b.diagnostics.RenderAll(), HasSubstr("Reluu"));
  EXPECT_THAT(b.diagnostics.RenderAll(), HasSubstr("com.acme::Hidden"));
  EXPECT_THAT(b.diagnostics.RenderAll(), HasSubstr("com.acme::Quant is not supported (2 nodes: 'q0', 'q1')"));
}

TEST(Import, ChecksNodesAgainstTheSchema) {
  ModelBuilder inputs;
  inputs.In("x", {2}).Out("y");
  inputs.Node("Relu", {"x", "x"}, {"y"}, {}, "r");
  EXPECT_EQ(inputs.Fail().code, "E0203");
  ModelBuilder missing;
  missing.In("x", {2, 3}).Out("y");
  missing.Node("Concat", {"x", "x"}, {"y"});
  EXPECT_THAT(missing.Fail().message, HasSubstr("'axis'"));
  ModelBuilder kind;
  kind.In("x", {2, 3}).Out("y");
  kind.Node("Concat", {"x", "x"}, {"y"}, {F("axis", 1)});
  EXPECT_EQ(kind.Fail().code, "E0203");
  // An attribute that nobody knows is named and ignored.
  ModelBuilder extra;
  extra.In("x", {2}).Out("y");
  extra.Node("Relu", {"x"}, {"y"}, {I("colour", 3)});
  EXPECT_TRUE(extra.Get());
  EXPECT_EQ(extra.diagnostics.WarningCount(), 1u);
}

// Files of the first exporters leave an attribute's type out.
TEST(Import, AttributesWithoutType) {
  ModelBuilder b;
  b.In("x", {1, 2, 4}).Out("y");
  auto &n = b.Node("Transpose", {"x"}, {"y"}, {Is("perm", {2, 0, 1})});
  n.mutable_attribute(0)->clear_type();
  EXPECT_EQ(DimsOf(b.Run({Counting({1, 2, 4})})[0]), (std::vector<int64_t>{4, 1, 2}));
  n.mutable_attribute(0)->set_type(::onnx::AttributeProto::INT); // declared one thing, holds another
  EXPECT_EQ(b.Fail().code, "E0203");
}

TEST(Import, Opsets) {
  ModelBuilder newer(1000);
  newer.In("x", {2}).Out("y").Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(newer.Fail().code, "E0202");
  ModelBuilder none(0);
  none.In("x", {2}).Out("y").Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(none.Fail().code, "E0202");
  // IR version 1 and 2 had no opset_import: opset 1.
  ModelBuilder first(0, 1);
  first.In("x", {2, 3}).Out("y").Init("b", Floats({3}, {1, 2, 3}));
  first.Node("Add", {"x", "b"}, {"y"}, {I("broadcast", 1), Is("consumed_inputs", {0, 0})});
  EXPECT_THAT(AsFloats(first.Run({Counting({2, 3})})[0]), ElementsAre(2, 4, 6, 5, 7, 9));
  // A domain that is imported but not used is no one's business.
  ModelBuilder unused;
  unused.Opset("com.nobody", 7).In("x", {2}).Out("y").Node("Relu", {"x"}, {"y"});
  EXPECT_TRUE(unused.Get());
}

// ---- initializers and inputs

TEST(Import, DefaultedInputsBecomeConstants) {
  ModelBuilder old(8, 3);
  old.In("x", {2}).In("w", {1}).Out("y").Init("w", Floats({1}, {5}));
  old.Node("Add", {"x", "w"}, {"y"});
  auto m = old.Get();
  EXPECT_EQ(m->main().num_inputs(), 1u);
  EXPECT_TRUE(old.diagnostics.All().empty()) << old.diagnostics.RenderAll();
  ModelBuilder now(17, 8);
  now.In("x", {2}).In("w", {1}).Out("y").Init("w", Floats({1}, {5}));
  now.Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(now.Get()->main().num_inputs(), 1u);
  ASSERT_EQ(now.diagnostics.All().size(), 1u);
  EXPECT_EQ(now.diagnostics.All()[0].severity, Severity::note);
  EXPECT_THAT(now.diagnostics.All()[0].message, HasSubstr("'w'"));
}

TEST(Import, UnusedInitializersGo) {
  ModelBuilder b;
  b.In("x", {2}).Out("y").Init("dead", Counting({100, 100}));
  b.Node("Relu", {"x"}, {"y"});
  auto m = b.Get();
  EXPECT_EQ(std::distance(m->main().nodes().begin(), m->main().nodes().end()), 2); // Relu, Return
}

// ---- options

TEST(ImportOptions, LeadingDimsBecomeOneWithANote) {
  ModelBuilder b;
  b.In("x", {"batch", 3, "h", ""}).In("z", {"batch", 3, 1, 1}).Out("y");
  b.Node("Add", {"x", "z"}, {"y"});
  auto m = b.Get();
  EXPECT_EQ(m->main().input(0)->type().ToString(), "f32[1,3,h,?]");
  EXPECT_EQ(m->main().input(1)->type().ToString(), "f32[1,3,1,1]");
  ASSERT_EQ(b.diagnostics.All().size(), 1u);
  EXPECT_THAT(b.diagnostics.All()[0].help, HasSubstr("--dim batch=N"));
  ImportOptions keep;
  keep.default_batch = false;
  EXPECT_EQ(b.Get(keep)->main().input(0)->type().ToString(), "f32[batch,3,h,?]");
}

TEST(ImportOptions, DimsAndShapes) {
  ModelBuilder b;
  b.In("x", {"batch", 3, "h", ""}).In("z", {"batch", 3, 1, 1}).Out("y");
  b.Node("Add", {"x", "z"}, {"y"});
  ImportOptions o;
  o.dims = {"batch=4", "h=8"};
  auto m = b.Get(o);
  EXPECT_EQ(m->main().input(0)->type().ToString(), "f32[4,3,8,?]");
  EXPECT_EQ(m->main().output(0)->type().ToString(), "f32[4,3,8,?]");
  ImportOptions shape;
  shape.input_shapes = {"x=2x3x5x7"};
  EXPECT_EQ(b.Get(shape)->main().input(1)->type().ToString(), "f32[2,3,1,1]"); // the symbol is one for both
  ImportOptions bad;
  bad.dims = {"width=4"};
  EXPECT_EQ(b.Fail(bad).code, "E0507");
  EXPECT_THAT(b.diagnostics.RenderAll(), HasSubstr("'batch', 'h'"));
  bad.dims = {"batch=-1"};
  EXPECT_EQ(b.Fail(bad).code, "E0501");
  ImportOptions rank;
  rank.input_shapes = {"x=2x3"};
  EXPECT_EQ(b.Fail(rank).code, "E0501");
  rank.input_shapes = {"x=2x4x5x7"};
  EXPECT_EQ(b.Fail(rank).code, "E0501"); // 3 is not free
}

TEST(ImportOptions, BoundInputsBecomeConstants) {
  ModelBuilder b;
  b.In("x", {2}).In("a=b", {}, DType::I64).Out("y");
  b.Node("Cast", {"a=b"}, {"f"}, {I("to", 1)});
  b.Node("Mul", {"x", "f"}, {"y"});
  ImportOptions o;
  o.binds = {"a=b=16000"}; // splits at the first '=' whose left side is a known name
  auto out = b.Run({Floats({2}, {1, 2})}, o);
  EXPECT_THAT(AsFloats(out[0]), ElementsAre(16000, 32000));
  o.binds = {"a=b=1.5"};
  EXPECT_EQ(b.Fail(o).code, "E0501");
  o.binds = {"nothing=1"};
  EXPECT_EQ(b.Fail(o).code, "E0507");
  ImportOptions list;
  list.binds = {"x=3,4"};
  EXPECT_THAT(AsFloats(b.Run({Int64s({}, {2})}, list)[0]), ElementsAre(6, 8));
  list.binds = {"x=3,4,5"};
  EXPECT_EQ(b.Fail(list).code, "E0501");
}

TEST(ImportOptions, CutsTheGraph) {
  ModelBuilder b;
  b.In("x", {2}).In("other", {2}).Out("z");
  b.Node("Neg", {"x"}, {"a"});
  b.Node("Abs", {"a"}, {"b"});
  b.Node("Add", {"b", "other"}, {"z"});
  ImportOptions out;
  out.outputs = {"b"};
  auto m = b.Get(out);
  EXPECT_EQ(m->main().num_inputs(), 1u);
  EXPECT_EQ(m->main().output_names()[0], "b");
  EXPECT_THAT(AsFloats(b.Run({Floats({2}, {1, -2})}, out)[0]), ElementsAre(1, 2));
  ImportOptions in;
  in.inputs = {"b", "other"};
  m = b.Get(in);
  ASSERT_EQ(m->main().num_inputs(), 2u);
  EXPECT_THAT(AsFloats(b.Run({Floats({2}, {10, 20}), Floats({2}, {1, -2})}, in)[0]), ElementsAre(11, 18));
  in.inputs = {"b"};
  Diagnostic d = b.Fail(in);
  EXPECT_EQ(d.code, "E0507");
  EXPECT_THAT(d.message, HasSubstr("'other'"));
  in.inputs = {"nope"};
  EXPECT_EQ(b.Fail(in).code, "E0507");
}

// ---- bodies and functions

TEST(Import, BodiesHaveIdsOfTheirOwnAndSeeOuterValues) {
  ModelBuilder b;
  GraphBuilder t, e;
  t.Out("r");
  t.Node("Add", {"x", "x"}, {"r"}, {}, "double");
  e.Out("r");
  e.Node("Neg", {"x"}, {"r"});
  b.In("c", {}, DType::Bool).In("x", {2}).Out("y");
  b.Node("If", {"c"}, {"y"}, {G("then_branch", t.g), G("else_branch", e.g)}, "if");
  auto m = b.Get();
  EXPECT_THAT(Ids(*m), ElementsAre("if", "if/then_branch/double", "if/else_branch/Neg@r"));
  EXPECT_EQ(m->main().output(0)->type().ToString(), "f32[2]");
  EXPECT_THAT(
      AsFloats(b.Run({Tensor::Of<uint8_t>(DType::Bool, {}, llvm::ArrayRef<uint8_t>{0}), Floats({2}, {1, 2})})[0]),
      ElementsAre(-1, -2));
}

// A branch whose shapes do not fit, and that never runs, does not stop the model.
TEST(Import, DeadBranchesMayNotFit) {
  ModelBuilder b;
  GraphBuilder t, e;
  t.Out("r");
  t.Node("Squeeze", {"x", "axis"}, {"r"}); // axis 1 has extent 3
  e.Out("r");
  e.Node("Identity", {"x"}, {"r"});
  b.In("x", {2, 3})
      .Out("y")
      .Init("axis", Int64s({1}, {1}))
      .Init("c", Tensor::Of<uint8_t>(DType::Bool, {}, llvm::ArrayRef<uint8_t>{0}));
  b.Node("If", {"c"}, {"y"}, {G("then_branch", t.g), G("else_branch", e.g)});
  EXPECT_EQ(DimsOf(b.Run({Counting({2, 3})})[0]), (std::vector<int64_t>{2, 3}));
}

void AddFunction(ModelBuilder &b, const std::string &name, const Names &in, const Names &out, const Names &attrs = {}) {
  auto *f = b.m.add_functions();
  f->set_name(name);
  f->set_domain("local");
  for (const auto &i : in)
    f->add_input(i);
  for (const auto &o : out)
    f->add_output(o);
  for (const auto &a : attrs)
    f->add_attribute(a);
  auto *o = f->add_opset_import();
  o->set_domain("");
  o->set_version(17);
  auto *l = f->add_opset_import();
  l->set_domain("local");
  l->set_version(1);
}
::onnx::NodeProto &FunctionNode(ModelBuilder &b, int f, const std::string &op, const Names &in, const Names &out,
                                const std::string &domain = "") {
  auto *n = b.m.mutable_functions(f)->add_node();
  n->set_op_type(op);
  n->set_domain(domain);
  for (const auto &i : in)
    n->add_input(i);
  for (const auto &o : out)
    n->add_output(o);
  return *n;
}

TEST(Import, FunctionsAreInlined) {
  ModelBuilder b;
  b.Opset("local", 1).In("x", {2}).Out("y");
  AddFunction(b, "Scale", {"v"}, {"w"}, {"by"});
  auto &c = FunctionNode(b, 0, "Constant", {}, {"k"});
  auto *ref = c.add_attribute();
  ref->set_name("value_float");
  ref->set_ref_attr_name("by");
  ref->set_type(::onnx::AttributeProto::FLOAT);
  FunctionNode(b, 0, "Mul", {"v", "k"}, {"w"});
  AddFunction(b, "Twice", {"v"}, {"w"});
  SetAttr(FunctionNode(b, 1, "Scale", {"v"}, {"t"}, "local"), F("by", 2));
  SetAttr(FunctionNode(b, 1, "Scale", {"t"}, {"w"}, "local"), F("by", 3));
  b.Node("Twice", {"x"}, {"a"}, {}, "first", "local");
  b.Node("Scale", {"a"}, {"y"}, {F("by", 10)}, "second", "local");
  EXPECT_THAT(AsFloats(b.Run({Floats({2}, {1, -1})})[0]), ElementsAre(60, -60));
  auto m = b.Get();
  EXPECT_THAT(Ids(*m), ElementsAre("first", "second", "first/Scale@t", "first/Scale@w", "first/Scale@t/Constant@k",
                                   "first/Scale@t/Mul@w", "first/Scale@w/Constant@k", "first/Scale@w/Mul@w",
                                   "second/Constant@k", "second/Mul@w"));
  EXPECT_EQ(m->main().output(0)->name(), "y");
}

TEST(Import, FunctionDefaultsOverloadsAndAbsentInputs) {
  ModelBuilder b;
  b.Opset("local", 1).In("x", {2}).Out("y").Out("z");
  AddFunction(b, "Clamp", {"v", "low", "high"}, {"w"});
  FunctionNode(b, 0, "Clip", {"v", "low", "high"}, {"w"});
  AddFunction(b, "Soft", {"v"}, {"w"});
  auto *d = b.m.mutable_functions(1)->add_attribute_proto();
  d->set_name("alpha");
  d->set_type(::onnx::AttributeProto::FLOAT);
  d->set_f(0.5f);
  auto &leaky = FunctionNode(b, 1, "LeakyRelu", {"v"}, {"w"});
  auto *ref = leaky.add_attribute();
  ref->set_name("alpha");
  ref->set_ref_attr_name("alpha");
  ref->set_type(::onnx::AttributeProto::FLOAT);
  AddFunction(b, "Soft", {"v"}, {"w"});
  b.m.mutable_functions(2)->set_overload("hard");
  FunctionNode(b, 2, "Relu", {"v"}, {"w"});
  b.Init("six", Floats({}, {6}));
  b.Node("Clamp", {"x", "", "six"}, {"a"}, {}, "", "local");
  b.Node("Soft", {"a"}, {"y"}, {}, "", "local");
  b.Node("Soft", {"a"}, {"z"}, {}, "", "local").set_overload("hard");
  auto out = b.Run({Floats({2}, {-4, 9})});
  EXPECT_THAT(AsFloats(out[0]), ElementsAre(-2, 6));
  EXPECT_THAT(AsFloats(out[1]), ElementsAre(0, 6));
}

TEST(Import, RecursiveFunctionsAreRefused) {
  ModelBuilder b;
  b.Opset("local", 1).In("x", {2}).Out("y");
  AddFunction(b, "Again", {"v"}, {"w"});
  FunctionNode(b, 0, "Again", {"v"}, {"w"}, "local");
  b.Node("Again", {"x"}, {"y"}, {}, "", "local");
  EXPECT_EQ(b.Fail().code, "E0207");
}

// A function that calls the next one twice, 40 deep, would be 2^40 nodes.
TEST(Import, FunctionBombsAreRefused) {
  ModelBuilder b;
  b.Opset("local", 1).In("x", {2}).Out("y");
  for (int i = 0; i < 40; ++i) {
    AddFunction(b, "F" + std::to_string(i), {"v"}, {"w"});
    const std::string next = i == 39 ? "Relu" : "F" + std::to_string(i + 1), domain = i == 39 ? "" : "local";
    FunctionNode(b, i, next, {"v"}, {"t"}, domain);
    FunctionNode(b, i, next, {"t"}, {"w"}, domain);
  }
  b.Node("F0", {"x"}, {"y"}, {}, "", "local");
  EXPECT_EQ(b.Fail().code, "E0207");
}

} // namespace
} // namespace npuc::test
