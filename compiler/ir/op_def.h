// What an operator is: one OpDef each, defined in compiler/ops (one file an operator or tight family), listed in
// ops.def.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/support/status.h"
#include "compiler/types/tensor.h"
#include "compiler/types/type.h"
#include "llvm/ADT/ArrayRef.h"

namespace npuc {

class Node;
class Graph;
class ThreadPool;

// A value at evaluation time. monostate: an absent optional operand, or an empty optional.
struct EvalMap;
struct EvalValue;
using EvalSequence = std::vector<EvalValue>;
struct EvalValue {
  std::variant<std::monostate, Tensor, std::shared_ptr<const EvalSequence>, std::shared_ptr<const EvalMap>> v;

  EvalValue() = default;
  EvalValue(Tensor t) : v(std::move(t)) {} // NOLINT
  bool has_value() const { return v.index() != 0; }
  const Tensor *tensor() const { return std::get_if<Tensor>(&v); }
  const EvalSequence *sequence() const {
    auto *p = std::get_if<std::shared_ptr<const EvalSequence>>(&v);
    return p ? p->get() : nullptr;
  }
};
struct EvalMap { // ONNX map: keys ascending
  std::vector<std::variant<int64_t, std::string>> keys;
  std::vector<EvalValue> values;
};

enum class AttrKind : uint8_t { Int, Float, String, Ints, Floats, Strings, Tensor, Graph, Type, Tensors };

struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required = false;
};

// Inference of a node's result types from what is known. Called when all operand types are in place (they may be partly
// unknown). `constant(i)`: the operand's value when the compiler knows it. `dims(i)`: the operand (an int vector or
// scalar that holds shape data) as dims, some of them symbolic, when it is known that far; nullopt else.
class InferContext {
public:
  virtual ~InferContext() = default;
  virtual const Node &node() const = 0;
  virtual const Tensor *constant(int operand) const = 0;
  virtual std::optional<llvm::SmallVector<Dim, 4>> dims(int operand) const = 0;
  virtual Status InferBody(int body, llvm::ArrayRef<Type> inputs, std::vector<Type> *outputs) = 0;

  int num_operands() const;
  bool has_operand(int i) const;         // present and not an absent optional
  const Type &operand_type(int i) const; // Type::None when absent
  int num_results() const;
  const AttributeList &attrs() const;
  void set_result(int i, Type t); // ignored when result i is absent
  llvm::ArrayRef<Type> result_types() const { return results_; }

protected:
  llvm::SmallVector<Type, 2> results_;
};

// Evaluation of one node on actual values: obviously right first; interp may swap in a faster kernel of the same
// result. Operands have static shapes; shape inference is *not* guaranteed to have run on the node's result types
// (dynamic models), so an evaluate works out its result's dims itself. Errors: Status from Error("E07xx", ...).
class EvalContext {
public:
  virtual ~EvalContext() = default;
  virtual const Node &node() const = 0;
  // Runs body i (the node's sub-graph) on inputs; captured outer values are the context's business.
  virtual StatusOr<std::vector<EvalValue>> RunBody(int body, std::vector<EvalValue> inputs) = 0;
  virtual ThreadPool *threads() const = 0; // may be null

  const AttributeList &attrs() const;
  int num_operands() const { return static_cast<int>(operands_.size()); }
  bool has_operand(int i) const { return i < num_operands() && operands_[i].has_value(); }
  const EvalValue &operand_value(int i) const { return operands_[i]; }
  // The tensor of operand i with splats expanded; only if has_operand(i) and it is a tensor.
  const Tensor &operand(int i) const { return *operands_[i].tensor(); }
  int num_results() const { return static_cast<int>(results_.size()); }
  void set_result(int i, EvalValue v) {
    if (i < num_results())
      results_[i] = std::move(v);
  }
  std::vector<EvalValue> &operands() { return operands_; }
  std::vector<EvalValue> &results() { return results_; }

protected:
  std::vector<EvalValue> operands_, results_;
};

enum OpTraits : uint32_t {
  kPure = 1u << 0,        // same inputs, same outputs, no effect: may be folded, merged, removed. Random* lack it
  kCommutative = 1u << 1, // two operands may be exchanged
  kElementwise = 1u << 2, // result element i depends on (broadcast) operand elements i alone
  kCopiesElements =
      1u << 3, // moves elements bit for bit, any dtype (Reshape, Transpose, Concat ...): quantisation passes through
  kNoFloatWiden =
      1u << 4,     // evaluate handles F16/BF16 itself; else the interpreter widens them to F32 and rounds results once
  kView = 1u << 5, // row-major bytes of the result equal the operand's (Reshape family, Identity)
};

struct OpDef {
  std::string_view domain; // "" is ai.onnx; "npuc" for our own (Fused, Constant is ai.onnx)
  std::string_view name;
  int since_version = 1;                  // the version whose meaning this is (the importer has adapted older ones)
  int min_operands = 0, max_operands = 0; // max -1: variadic
  int min_results = 1, max_results = 1;
  std::vector<AttrSpec> attrs{};
  uint32_t traits = kPure;
  Status (*verify)(const Node &) = nullptr;    // beyond what the schema says; null: nothing
  Status (*infer)(InferContext &) = nullptr;   // required
  Status (*evaluate)(EvalContext &) = nullptr; // required but for control-flow ops that interp owns
  // On quantised operands/results with the exact integer rule of the ISA's numerics page; null: the interpreter
  // dequantises each operand to f32, evaluates, quantises once (kCopiesElements: copies when parameters agree).
  Status (*evaluate_quantized)(EvalContext &) = nullptr;
  std::string_view doc{};

  bool has(OpTraits t) const { return traits & t; }
};

// From ops.def. Null when unknown. Declared here because the IR's text parser and the importer's clients need only
// this.
const OpDef *LookupOp(std::string_view domain, std::string_view name);

} // namespace npuc
