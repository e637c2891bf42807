// Opset adapters: a node's older meaning rewritten to the newest one, by a table of (domain, op, versions).
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace npuc::onnx_import {

// The newest ai.onnx opset whose operators the table and compiler/ops know; ai.onnx.ml likewise.
inline constexpr int64_t kNewestOpset = 28;
inline constexpr int64_t kNewestMlOpset = 5;

// A node on its way into the graph. Adapters change it in place, add nodes before it, or replace it by filling
// `results`.
struct AdaptedNode {
  std::string domain, op;
  int64_t version = 0; // of its domain
  AttributeList attrs;
  llvm::SmallVector<Value *, 4> inputs; // null: absent
  unsigned num_outputs = 0;
  std::vector<bool> output_used; // by anyone; size num_outputs

  Graph *graph = nullptr;
  Origin origin;
  DiagnosticEngine *diagnostics = nullptr;

  // When not empty: the values of the outputs; the node itself is not made.
  llvm::SmallVector<Value *, 2> results;

  Value *input(unsigned i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  void set_input(unsigned i, Value *v) {
    if (i >= inputs.size())
      inputs.resize(i + 1, nullptr);
    inputs[i] = v;
  }
  // Of input i, when known.
  std::optional<int> Rank(unsigned i) const;
  std::optional<Dims> StaticDims(unsigned i) const;
  DType InputDType(unsigned i) const; // Undefined when not known
  // Helpers that build before the node. Add infers the new node's types.
  Value *Constant(Tensor t);
  Value *Ints(llvm::ArrayRef<int64_t> v) { return Constant(Tensor::OfI64(v)); }
  // A scalar of input 0's dtype (f32 when that is not known).
  Value *ScalarLikeInput(double v);
  StatusOr<Value *> Add(std::string_view op, llvm::ArrayRef<Value *> operands, AttributeList attrs = {},
                        std::string_view domain = "");
};

// Applies all rows that match, in table order.
Status Adapt(AdaptedNode &node);
// Whether some row starts from this operator (so it need not be in the registry).
bool HasAdapter(std::string_view domain, std::string_view op);

// The families of the table (adapt_*.cc). Each returns E0203 or E0402 where the old form cannot be expressed.
struct AdapterRow {
  std::string_view domain, op;
  int64_t before; // applies to versions below this; kAlways: to all
  Status (*adapt)(AdaptedNode &);
};
inline constexpr int64_t kAlways = INT64_MAX;
llvm::ArrayRef<AdapterRow> ElementwiseAdapters();
llvm::ArrayRef<AdapterRow> ShapeAdapters();
llvm::ArrayRef<AdapterRow> NnAdapters();
llvm::ArrayRef<AdapterRow> ContribAdapters();
llvm::ArrayRef<AdapterRow> AttentionAdapters();
llvm::ArrayRef<AdapterRow> MlAdapters();

} // namespace npuc::onnx_import
