// The inference driver: hints, shape data, quantised types, unknown shapes.
#include "compiler/ops/infer.h"

#include "compiler/ops/registry.h"
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

struct Builder {
  Module m;
  Graph &g = m.main();

  Value *Input(std::string_view name, std::vector<Dim> dims, DType t = DType::F32) {
    return g.AddInput(name, Type::Tensor(t, Shape(dims)));
  }
  Value *Ints(std::vector<int64_t> v) { return g.AddConstant(Tensor::OfI64(v)); }
  Node *Add(std::string_view op, std::vector<Value *> operands, AttributeList attrs = {}, int results = 1) {
    Node *n = g.AddNode(LookupOp("", op), operands, results, {});
    n->attrs() = std::move(attrs);
    return n;
  }
  std::string TypeAfterInference(Node *n) {
    const Status s = InferShapes(g);
    EXPECT_TRUE(s.ok()) << s;
    return n->result()->type().ToString();
  }
};
AttributeList Attr(std::string_view name, Attribute v) {
  AttributeList a;
  a.Set(name, std::move(v));
  return a;
}

TEST(Registry, SortedCompleteAndFound) {
  const auto all = AllOps();
  ASSERT_GT(all.size(), 150u);
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_TRUE(std::pair(all[i - 1].domain, all[i - 1].name) < std::pair(all[i].domain, all[i].name));
  EXPECT_EQ(LookupOp("", "Conv")->name, "Conv");
  EXPECT_EQ(LookupOp("ai.onnx", "Conv"), LookupOp("", "Conv"));
  EXPECT_NE(LookupOp("com.microsoft", "Gelu"), LookupOp("", "Gelu"));
  EXPECT_EQ(LookupOp("", "conv"), nullptr);
  for (const OpDef &op : all)
    EXPECT_FALSE(op.doc.empty()) << op.name;
}

TEST(Infer, SymbolicDimsPassThrough) {
  Builder b;
  Value *x = b.Input("x", {Dim::Symbol("n"), 3, Dim::Symbol("h"), 32}), *w = b.Input("w", {8, 3, 3, 3});
  Node *same = b.Add("Conv", {x, w}, Attr("pads", std::vector<int64_t>{1, 1, 1, 1}));
  Node *valid = b.Add("Conv", {x, w});
  EXPECT_EQ(b.TypeAfterInference(same), "f32[n,8,h,32]");
  EXPECT_EQ(valid->result()->type().ToString(), "f32[n,8,?,30]");
}

TEST(Infer, UnknownOperandsGiveUnknownResults) {
  Builder b;
  Value *x = b.g.AddInput("x", Type()), *w = b.Input("w", {8, 3, 3, 3});
  Node *conv = b.Add("Conv", {x, w});
  EXPECT_EQ(b.TypeAfterInference(conv), "none");
  Value *u = b.g.AddInput("u", Type::Tensor(DType::F32, Shape::Unranked()));
  EXPECT_EQ(b.TypeAfterInference(b.Add("Add", {u, w})), "f32[*]");
}

TEST(Infer, HintsFillGapsAndLoseContradictions) {
  Builder b;
  Value *x = b.Input("x", {2, 3}), *u = b.g.AddInput("u", Type::Tensor(DType::F32, Shape::Unranked()));
  Node *a = b.Add("Relu", {x}), *c = b.Add("Relu", {u});
  a->result()->set_type(Type::Tensor(DType::F32, Shape::Of({5, 3})));
  c->result()->set_type(Type::Tensor(DType::F32, Shape::Of({7})));
  DiagnosticEngine engine;
  ASSERT_TRUE(InferShapes(b.g, &engine).ok());
  EXPECT_EQ(a->result()->type().ToString(), "f32[2,3]");
  EXPECT_EQ(c->result()->type().ToString(), "f32[7]");
  EXPECT_EQ(engine.WarningCount(), 1u);
  EXPECT_EQ(engine.ErrorCount(), 0u);
}

TEST(Infer, ShapeDataThroughTheUsualChain) {
  // x.view(x.shape[0], -1): Shape -> Gather -> Unsqueeze -> Concat -> Reshape
  Builder b;
  Value *x = b.Input("x", {Dim::Symbol("n"), 4, 5});
  Value *shape = b.Add("Shape", {x})->result();
  const int64_t zero = 0;
  Value *index = b.g.AddConstant(Tensor::Of<int64_t>(DType::I64, {}, zero));
  Value *n = b.Add("Gather", {shape, index})->result();
  Value *un = b.Add("Unsqueeze", {n, b.Ints({0})})->result();
  Value *target = b.Add("Concat", {un, b.Ints({-1})}, Attr("axis", int64_t{0}))->result();
  Node *reshape = b.Add("Reshape", {x, target});
  EXPECT_EQ(b.TypeAfterInference(reshape), "f32[n,20]");
  const auto data = ShapeData(target);
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ((*data)[0].symbol(), "n");
  EXPECT_EQ((*data)[1].value(), -1);
}

TEST(Infer, ShapeDataArithmetic) {
  Builder b;
  Value *x = b.Input("x", {Dim::Symbol("n"), 6, 8});
  Value *shape = b.Add("Shape", {x})->result();
  Value *twice = b.Add("Mul", {shape, b.Ints({1, 2, 2})})->result();
  Value *half = b.Add("Div", {twice, b.Ints({1, 3, 5})})->result();
  Value *minus = b.Add("Sub", {half, b.Ints({0, 1, 1})})->result();
  ASSERT_TRUE(InferShapes(b.g).ok());
  auto d = ShapeData(minus);
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ((*d)[0].symbol(), "n");
  EXPECT_EQ((*d)[1].value(), 3);
  EXPECT_EQ((*d)[2].value(), 2);
  // Division by zero is not known, not a crash.
  auto z = ShapeData(b.Add("Div", {twice, b.Ints({1, 0, 5})})->result());
  ASSERT_TRUE(z.has_value());
  EXPECT_FALSE((*z)[1].is_static());
}

TEST(Infer, TypeErrorsNameTheNode) {
  Builder b;
  b.m.onnx_nodes().push_back({"block/add", "block/add", "Add", ""});
  Value *x = b.Input("x", {2}), *y = b.Input("y", {3});
  b.g.AddNode(LookupOp("", "Add"), {x, y}, 1, {0});
  const Status s = InferShapes(b.g);
  EXPECT_EQ(ErrorCode(s), "E0301");
  EXPECT_EQ(FromStatus(s).node, "block/add");
}

// 2^40 bytes are the most: 2^38 floats pass, one row more does not, nor does a product that leaves 64 bits.
TEST(Infer, TensorsHaveALargestSize) {
  Builder b;
  Value *x = b.Input("x", {int64_t{1} << 37, 2});
  b.Add("Relu", {x});
  EXPECT_TRUE(InferShapes(b.g).ok());
  b.Add("Concat", {x, b.Input("row", {1, 2})})->attrs().Set("axis", int64_t{0});
  EXPECT_EQ(ErrorCode(InferShapes(b.g)), "E0304");
  Builder c;
  c.Input("x", {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(ErrorCode(InferShapes(c.g)), "E0304");
}

TEST(Infer, QuantisedResultsKeepTheirTypeAndTakeTheShape) {
  Builder b;
  Value *x = b.g.AddInput("x", Type::Tensor(DType::U8, Shape({1, 3, 8, 8}), PerTensorQuant(0.5f, 0)));
  Value *w = b.g.AddInput("w", Type::Tensor(DType::I8, Shape({4, 3, 3, 3}), PerTensorQuant(0.25f, 0)));
  Value *bias = b.Input("b", {4}, DType::I32);
  Node *q = b.Add("Conv", {x, w, bias}), *f = b.Add("Conv", {x, w, bias}), *none = b.Add("Conv", {x, w, bias});
  q->result()->set_type(Type::Tensor(DType::I8, Shape::Unranked(), PerTensorQuant(1.0f, 3)));
  f->result()->set_type(Type::Tensor(DType::F16, Shape::Unranked()));
  EXPECT_EQ(b.TypeAfterInference(q), "i8[1,4,6,6]{s=1,z=3}");
  EXPECT_EQ(f->result()->type().ToString(), "f16[1,4,6,6]");
  EXPECT_EQ(none->result()->type().ToString(), "f32[1,4,6,6]");
}

TEST(Infer, ReduceWithUnknownAxes) {
  Builder b;
  Value *x = b.Input("x", {2, 3, 4}), *axes = b.Input("axes", {1}, DType::I64);
  EXPECT_EQ(b.TypeAfterInference(b.Add("ReduceSum", {x, axes})), "f32[?,?,?]");
  EXPECT_EQ(b.TypeAfterInference(b.Add("ReduceSum", {x, axes}, Attr("keepdims", int64_t{0}))), "f32[?,?]");
}

TEST(Infer, TopKWithSymbolicK) {
  Builder b;
  Value *x = b.Input("x", {2, Dim::Symbol("boxes")}), *k = b.Ints({5});
  EXPECT_EQ(b.TypeAfterInference(b.Add("TopK", {x, k}, {}, 2)), "f32[2,5]");
}

} // namespace
} // namespace npuc
