// Adapters of operators outside ONNX that exporters and quantisers write, where ONNX has the meaning.
#include "compiler/onnx/adapters.h"

namespace npuc::onnx_import {
namespace {

Status Gelu(AdaptedNode &n) {
  n.domain = "";
  n.version = kNewestOpset;
  return OkStatus();
}

// Gelu's tanh form of x + bias.
Status FastGelu(AdaptedNode &n) {
  Value *x = n.input(0);
  if (n.input(1)) {
    NPUC_ASSIGN_OR_RETURN(x, n.Add("Add", {x, n.input(1)}));
  }
  AttributeList tanh;
  tanh.Set("approximate", std::string("tanh"));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Gelu", {x}, tanh));
  n.results = {y};
  return OkStatus();
}

Status BiasGelu(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * x, n.Add("Add", {n.input(0), n.input(1)}));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Gelu", {x}));
  n.results = {y};
  return OkStatus();
}

// x * sigmoid(alpha * x)
Status QuickGelu(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * scaled, n.Add("Mul", {n.input(0), n.ScalarLikeInput(n.attrs.Float("alpha", 1.702f))}));
  NPUC_ASSIGN_OR_RETURN(Value * gate, n.Add("Sigmoid", {scaled}));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Mul", {n.input(0), gate}));
  n.results = {y};
  return OkStatus();
}

// LayerNormalization(x + skip + bias); output 3 is the sum.
Status SkipLayerNorm(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * sum, n.Add("Add", {n.input(0), n.input(1)}));
  if (n.input(4)) {
    NPUC_ASSIGN_OR_RETURN(sum, n.Add("Add", {sum, n.input(4)}));
  }
  for (unsigned i = 1; i < n.num_outputs && i < 3; ++i)
    if (n.output_used[i])
      return Error("E0402", fmt::format("output {} of SkipLayerNormalization (a training statistic) is used", i));
  AttributeList attrs;
  attrs.Set("axis", int64_t{-1});
  attrs.Set("epsilon", n.attrs.Float("epsilon", 1e-12f));
  llvm::SmallVector<Value *, 3> operands{sum, n.input(2)};
  if (n.input(3))
    operands.push_back(n.input(3));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("LayerNormalization", operands, attrs));
  n.results = {y, nullptr, nullptr, sum};
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"com.microsoft", "Gelu", kAlways, Gelu},
    {"com.microsoft", "FastGelu", kAlways, FastGelu},
    {"com.microsoft", "BiasGelu", kAlways, BiasGelu},
    {"com.microsoft", "QuickGelu", kAlways, QuickGelu},
    {"com.microsoft", "SkipLayerNormalization", kAlways, SkipLayerNorm},
};

} // namespace

llvm::ArrayRef<AdapterRow> ContribAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
