// Runs one operator on tensors, as a node of a small module: inference first, then evaluation, and what inference said
// is held against what came out.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/graph.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/support/diagnostic.h"

namespace npuc {

inline Tensor F32(llvm::ArrayRef<int64_t> dims, std::vector<float> v) {
  return Tensor::Of<float>(DType::F32, dims, v);
}
inline Tensor F64(llvm::ArrayRef<int64_t> dims, std::vector<double> v) {
  return Tensor::Of<double>(DType::F64, dims, v);
}
inline Tensor I64(llvm::ArrayRef<int64_t> dims, std::vector<int64_t> v) {
  return Tensor::Of<int64_t>(DType::I64, dims, v);
}
inline Tensor I32(llvm::ArrayRef<int64_t> dims, std::vector<int32_t> v) {
  return Tensor::Of<int32_t>(DType::I32, dims, v);
}
inline Tensor U8(llvm::ArrayRef<int64_t> dims, std::vector<uint8_t> v) {
  return Tensor::Of<uint8_t>(DType::U8, dims, v);
}
inline Tensor I8(llvm::ArrayRef<int64_t> dims, std::vector<int8_t> v) {
  return Tensor::Of<int8_t>(DType::I8, dims, v);
}
inline Tensor Bool(llvm::ArrayRef<int64_t> dims, std::vector<uint8_t> v) {
  return Tensor::Of<uint8_t>(DType::Bool, dims, v);
}
inline Tensor Absent() {
  return Tensor();
}
// 0, 1, 2, ...
inline Tensor Iota(llvm::ArrayRef<int64_t> dims, float first = 0, float step = 1) {
  std::vector<float> v(NumElements(dims));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = first + step * static_cast<float>(i);
  return F32(dims, v);
}

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

class TestContext final : public EvalContext {
public:
  TestContext(const Node &node, const std::vector<Tensor> &inputs) : node_(node) {
    for (const Tensor &t : inputs)
      operands_.push_back(t ? EvalValue(t.Expand()) : EvalValue());
    results_.resize(node.num_results());
  }
  const Node &node() const override { return node_; }
  StatusOr<std::vector<EvalValue>> RunBody(int, std::vector<EvalValue>) override {
    return absl::InternalError("no bodies here");
  }
  ThreadPool *threads() const override { return nullptr; }

private:
  const Node &node_;
};

struct OpRunner {
  std::string name, domain;
  AttributeList attrs;
  int results = 1;
  // Quantisation of operands and results; null: none. result_types: dtype of quantised results.
  std::vector<QuantRef> operand_quant;
  QuantRef result_quant;
  DType result_dtype = DType::Undefined;

  OpRunner(std::string n, std::string d = "") : name(std::move(n)), domain(std::move(d)) {}
  OpRunner &Ints(std::string_view n, std::vector<int64_t> v) {
    attrs.Set(n, std::move(v));
    return *this;
  }
  OpRunner &Int(std::string_view n, int64_t v) {
    attrs.Set(n, v);
    return *this;
  }
  OpRunner &Float(std::string_view n, float v) {
    attrs.Set(n, v);
    return *this;
  }
  OpRunner &Str(std::string_view n, std::string v) {
    attrs.Set(n, std::move(v));
    return *this;
  }
  OpRunner &Results(int n) {
    results = n;
    return *this;
  }
  OpRunner &Quant(std::vector<QuantRef> operands, QuantRef result, DType dtype) {
    operand_quant = std::move(operands);
    result_quant = std::move(result);
    result_dtype = dtype;
    return *this;
  }

  StatusOr<std::vector<Tensor>> Run(const std::vector<Tensor> &inputs) const {
    const OpDef *op = LookupOp(domain, name);
    if (!op)
      return absl::InternalError("no operator " + name);
    Module m;
    std::vector<Value *> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) {
        operands.push_back(nullptr);
        continue;
      }
      Type t = Type::Tensor(inputs[i].dtype(), Shape::Of(inputs[i].dims()),
                            i < operand_quant.size() ? operand_quant[i] : nullptr);
      operands.push_back(m.main().AddInput("x" + std::to_string(i), t));
    }
    while (!operands.empty() && !operands.back())
      operands.pop_back();
    Node *node = m.main().AddNode(op, operands, results, {});
    node->attrs() = attrs;
    if (result_dtype != DType::Undefined)
      node->result()->set_type(Type::Tensor(result_dtype, Shape::Unranked(), result_quant));
    NPUC_RETURN_IF_ERROR(InferNode(*node));
    TestContext ctx(*node, inputs);
    const bool quantised = result_quant || llvm::any_of(operand_quant, [](const QuantRef &q) { return q != nullptr; });
    NPUC_RETURN_IF_ERROR(!quantised               ? op->evaluate(ctx)
                         : op->evaluate_quantized ? op->evaluate_quantized(ctx)
                                                  : ops::EvaluateByDequantizing(ctx));
    std::vector<Tensor> out;
    for (int i = 0; i < results; ++i) {
      const Tensor *t = ctx.results()[i].tensor();
      if (!t)
        return absl::InternalError("a result is missing");
      const Type &type = node->result(i)->type();
      EXPECT_TRUE(type.is_tensor()) << name;
      if (type.is_tensor()) {
        EXPECT_EQ(Name(type.dtype()), Name(t->dtype())) << name << " result " << i;
        if (type.shape().is_static())
          EXPECT_EQ(type.shape().static_dims(), Dims(t->dims().begin(), t->dims().end())) << name << " result " << i;
        else if (type.shape().ranked())
          EXPECT_EQ(type.shape().rank(), t->rank()) << name << " result " << i;
      }
      out.push_back(*t);
    }
    return out;
  }

  // Result 0; a failure of the test when there is an error.
  Tensor operator()(const std::vector<Tensor> &inputs) const {
    auto r = Run(inputs);
    EXPECT_TRUE(r.ok()) << name << ": " << r.status().ToString();
    return r.ok() ? (*r)[0] : Tensor::Allocate(DType::F32, {0});
  }
  // The code of the error.
  std::string Fails(const std::vector<Tensor> &inputs) const {
    auto r = Run(inputs);
    EXPECT_FALSE(r.ok()) << name << " was expected to fail";
    return r.ok() ? "" : ErrorCode(r.status());
  }
};

inline void ExpectDims(const Tensor &t, std::vector<int64_t> dims) {
  EXPECT_EQ(std::vector<int64_t>(t.dims().begin(), t.dims().end()), dims);
}
// Element for element; NaN equals NaN; tolerance relative to the expected magnitude (0: exact).
inline void ExpectValues(const Tensor &t, std::vector<double> want, double tolerance = 0) {
  ASSERT_EQ(t.num_elements(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    const double got = t.AsDouble(i);
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got)) << "element " << i << " is " << got;
    else if (std::isinf(want[i]) || tolerance == 0)
      EXPECT_EQ(got, want[i]) << "element " << i;
    else
      EXPECT_NEAR(got, want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "element " << i;
  }
}

} // namespace npuc
