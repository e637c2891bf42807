// The rules around evaluation: widening, quantised nodes, bodies and captured values, lifetimes, observers, errors,
// threads.
#include "compiler/interp/interpreter.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "compiler/ops/convert.h"
#include "compiler/ops/infer.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/thread_pool.h"

namespace npuc {
namespace {

Type TensorType(DType t, std::initializer_list<int64_t> dims, QuantRef q = nullptr) {
  return Type::Tensor(t, Shape(dims), std::move(q));
}
Tensor F32(llvm::ArrayRef<int64_t> dims, std::vector<float> v) {
  return Tensor::Of<float>(DType::F32, dims, v);
}
Tensor Half(llvm::ArrayRef<int64_t> dims, std::vector<float> v) {
  return ops::ConvertTensor(F32(dims, std::move(v)), DType::F16);
}

Value *Add(Graph &g, std::string_view op, std::vector<Value *> operands, std::string_view domain = "") {
  const OpDef *def = LookupOp(domain, op);
  EXPECT_NE(def, nullptr) << op;
  Node *n = g.AddNode(def, operands, 1, {});
  return n->result();
}

std::vector<double> Eval(const Graph &g, const std::vector<Tensor> &inputs, EvalOptions options = {}) {
  Interpreter interpreter(g, options);
  auto r = interpreter.Run(inputs);
  EXPECT_TRUE(r.ok()) << r.status();
  std::vector<double> out;
  if (r.ok())
    for (int64_t i = 0; i < (*r)[0].tensor()->num_elements(); ++i)
      out.push_back((*r)[0].tensor()->AsDouble(i));
  return out;
}

TEST(Interpreter, HalfIsWidenedAndRoundedOnce) {
  // 2049 is no half: 2048 + 1 must not be rounded before the 3 is added by a fused chain, but each node rounds once.
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F16, {1, 3})), *w = g.AddInput("w", TensorType(DType::F16, {3, 1}));
  g.AddOutput(Add(g, "MatMul", {x, w}));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(g.output(0)->type().ToString(), "f16[1,1]");
  // 2048 + 1 + 1 in f32 is 2050; in half steps it would stay 2048.
  EXPECT_EQ(Eval(g, {Half({1, 3}, {2048, 1, 1}), Half({3, 1}, {1, 1, 1})}), std::vector<double>{2050});
}

TEST(Interpreter, HalfWithoutInferredTypes) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", Type());
  g.AddOutput(Add(g, "Relu", {x}));
  Interpreter interpreter(g);
  auto r = interpreter.Run(std::vector<Tensor>{Half({2}, {-1, 0.5f})});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ((*r)[0].tensor()->dtype(), DType::F16);
}

TEST(Interpreter, ComparisonsOfHalfsStayBool) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F16, {2}));
  g.AddOutput(Add(g, "Less", {x, x}));
  ASSERT_TRUE(InferShapes(g).ok());
  Interpreter interpreter(g);
  auto r = interpreter.Run(std::vector<Tensor>{Half({2}, {1, 2})});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ((*r)[0].tensor()->dtype(), DType::Bool);
}

TEST(Interpreter, QuantisedNodesUseTheTypes) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F32, {4}));
  Value *q = Add(g, "Quantize", {x}, "npuc");
  q->set_type(TensorType(DType::I8, {4}, PerTensorQuant(0.5f, 1)));
  Value *r = Add(g, "Reshape", {q, g.AddConstant(Tensor::OfI64({2, 2}))});
  Value *s = Add(g, "Relu", {r});
  s->set_type(TensorType(DType::I8, {2, 2}, PerTensorQuant(0.25f, 0)));
  Value *d = Add(g, "Dequantize", {s}, "npuc");
  d->set_type(TensorType(DType::F32, {2, 2}));
  g.AddOutput(d);
  ASSERT_TRUE(InferShapes(g).ok());
  // Reshape passed the annotation on.
  EXPECT_EQ(r->type().ToString(), "i8[2,2]{s=0.5,z=1}");
  EXPECT_EQ(Eval(g, {F32({4}, {-1, 0.3f, 1, 100})}), (std::vector<double>{0, 0.5, 1, 31.75}));
}

TEST(Interpreter, FusedRunsItsBody) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F32, {2})), *y = g.AddInput("y", TensorType(DType::F32, {2}));
  Node *fused = g.AddNode(LookupOp("npuc", "Fused"), {x, y}, 1, {});
  Graph *body = fused->AddBody();
  Value *a = body->AddInput("a", Type()), *b = body->AddInput("b", Type());
  Value *sum = Add(*body, "Add", {a, b});
  body->AddOutput(Add(*body, "Relu", {sum}));
  g.AddOutput(fused->result());
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(fused->result()->type().ToString(), "f32[2]");
  EXPECT_EQ(Eval(g, {F32({2}, {1, -5}), F32({2}, {2, 2})}), (std::vector<double>{3, 0}));
}

TEST(Interpreter, BodiesCaptureOuterValuesAndTheirLifetimes) {
  // y = x * x is used by nobody but the branch.
  Module m;
  Graph &g = m.main();
  Value *c = g.AddInput("c", TensorType(DType::Bool, {})), *x = g.AddInput("x", TensorType(DType::F32, {1}));
  Value *y = Add(g, "Mul", {x, x});
  Value *unrelated = Add(g, "Neg", {x});
  Node *branch = g.AddNode(LookupOp("", "If"), {c}, 1, {});
  Graph *then_body = branch->AddBody(), *else_body = branch->AddBody();
  then_body->AddOutput(Add(*then_body, "Add", {y, y}));
  Node *nested = else_body->AddNode(LookupOp("", "If"), {c}, 1, {});
  Graph *inner_then = nested->AddBody(), *inner_else = nested->AddBody();
  inner_then->AddOutput(Add(*inner_then, "Neg", {y}));
  inner_else->AddOutput(Add(*inner_else, "Sub", {unrelated, y}));
  else_body->AddOutput(nested->result());
  g.AddOutput(branch->result());
  ASSERT_TRUE(InferShapes(g).ok());
  const uint8_t yes = 1, no = 0;
  EXPECT_EQ(Eval(g, {Tensor::Of<uint8_t>(DType::Bool, {}, yes), F32({1}, {3})}), std::vector<double>{18});
  EXPECT_EQ(Eval(g, {Tensor::Of<uint8_t>(DType::Bool, {}, no), F32({1}, {3})}), std::vector<double>{-12});
  // Standalone: the captured value must come from the caller.
  std::vector<EvalValue> operands = {EvalValue(Tensor::Of<uint8_t>(DType::Bool, {}, yes))};
  EXPECT_FALSE(EvaluateNode(*branch, operands).ok());
  const EvalValue nine(F32({1}, {9}));
  auto r = EvaluateNode(*branch, operands, {}, [&](const Value *v) { return v == y ? &nine : nullptr; });
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ((*r)[0].tensor()->AsDouble(0), 18);
}

TEST(Interpreter, ObserverSeesEveryValueOnce) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F32, {1}));
  Value *a = Add(g, "Neg", {x}), *b = Add(g, "Abs", {a});
  Add(g, "Exp", {a}); // unused, still observed
  g.AddOutput(b);
  Interpreter interpreter(g);
  std::vector<std::string> seen;
  interpreter.set_observer([&](const Value &v, const EvalValue &value) {
    ASSERT_TRUE(value.tensor());
    seen.push_back(v.name());
  });
  ASSERT_TRUE(interpreter.Run(std::vector<Tensor>{F32({1}, {2})}).ok());
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 4u);
  EXPECT_EQ(seen[0], "x");
}

TEST(Interpreter, ConstantsSplatsAndRepeatedRuns) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F32, {2, 2}));
  const float two = 2;
  Value *c = g.AddConstant(Tensor::Splat(DType::F32, {2, 2}, &two));
  g.AddOutput(Add(g, "Mul", {x, c}));
  g.AddOutput(c);
  Interpreter interpreter(g);
  for (int i = 0; i < 2; ++i) {
    auto r = interpreter.Run(std::vector<Tensor>{F32({2, 2}, {1, 2, 3, 4})});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ((*r)[0].tensor()->AsDouble(3), 8);
    EXPECT_EQ((*r)[1].tensor()->AsDouble(3), 2);
  }
}

TEST(Interpreter, InputErrors) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", Type::Tensor(DType::F32, Shape({Dim::Symbol("n"), Dim(2)})));
  g.AddOutput(Add(g, "Neg", {x}));
  Interpreter interpreter(g);
  EXPECT_EQ(ErrorCode(interpreter.Run(std::vector<Tensor>{}).status()), "E0701");
  EXPECT_EQ(ErrorCode(interpreter.Run(std::vector<Tensor>{F32({2}, {1, 2})}).status()), "E0702");
  EXPECT_EQ(ErrorCode(interpreter.Run(std::vector<Tensor>{F32({1, 3}, {1, 2, 3})}).status()), "E0702");
  EXPECT_EQ(ErrorCode(interpreter.Run(std::vector<Tensor>{Half({1, 2}, {1, 2})}).status()), "E0702");
  EXPECT_TRUE(interpreter.Run(std::vector<Tensor>{F32({3, 2}, {1, 2, 3, 4, 5, 6})}).ok());
}

TEST(Interpreter, ErrorsNameTheNode) {
  Module m;
  m.onnx_nodes().push_back({"encoder/div", "encoder/div", "Div", ""});
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::I32, {1}));
  Node *n = g.AddNode(LookupOp("", "Div"), {x, x}, 1, {0});
  g.AddOutput(n->result());
  Interpreter interpreter(g);
  auto r = interpreter.Run(std::vector<Tensor>{Tensor::Of<int32_t>(DType::I32, {1}, std::vector<int32_t>{0})});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(FromStatus(r.status()).node, "encoder/div");
  EXPECT_EQ(FromStatus(r.status()).op, "Div");
}

TEST(Interpreter, ThreadsDoNotChangeABit) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", TensorType(DType::F32, {2, 8, 20, 20})),
        *w = g.AddInput("w", TensorType(DType::F32, {6, 8, 3, 3}));
  Value *conv = Add(g, "Conv", {x, w});
  Value *act = Add(g, "Sigmoid", {conv});
  g.AddOutput(Add(g, "GlobalAveragePool", {act}));
  std::vector<float> a(2 * 8 * 400), b(6 * 8 * 9);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i * 37 % 101) * 0.01f - 0.5f;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<float>(i * 53 % 97) * 0.01f - 0.5f;
  const std::vector<Tensor> inputs = {F32({2, 8, 20, 20}, a), F32({6, 8, 3, 3}, b)};
  const std::vector<double> one = Eval(g, inputs);
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EvalOptions options;
    options.threads = &pool;
    EXPECT_EQ(Eval(g, inputs, options), one);
  }
}

} // namespace
} // namespace npuc
