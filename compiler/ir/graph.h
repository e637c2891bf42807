// Graph IR: values with use lists, nodes, sub-graphs, and the table of ONNX nodes that everything can be traced back
// to.
//
//   Module owns the main Graph and the OnnxNode table. A Graph owns its input values and a list of nodes; a Node owns
//   its results and its bodies (sub-graphs). Bodies see the values of the graphs around them. A Value knows its
//   definition and every use. Graph outputs are uses too: they are operands of the graph's one Return node (last in the
//   list), so use lists are complete and ReplaceAllUses covers outputs. Constants are nodes of op Constant (attribute
//   "value"), kept anywhere before their users.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/ir/op_def.h"
#include "compiler/types/type.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/ilist.h"
#include "llvm/ADT/ilist_node.h"
#include "llvm/ADT/iterator_range.h"

namespace npuc {

class Graph;
class Module;
class Node;

// One node of the user's model, bodies and inlined function calls included. Index in Module::onnx_nodes() is its
// OriginId.
struct OnnxNode {
  std::string id;   // unique: see the contract page
  std::string name; // as in the model, may be empty
  std::string op_type;
  std::string domain;
};
using OriginId = uint32_t;
// Sorted, unique. Which ONNX nodes this IR node computes (Q/DQ that a layer absorbs and folded constants are not in
// it).
using Origin = llvm::SmallVector<OriginId, 2>;
Origin MergeOrigins(const Origin &a, const Origin &b);

struct Use {
  Node *user;
  unsigned operand;
};

class Value {
public:
  const std::string &name() const {
    return name_;
  } // the ONNX tensor's name where it stands for one; unique in the Module, never empty
  const Type &type() const { return type_; }
  Type &type() { return type_; }
  void set_type(Type t) { type_ = std::move(t); }

  Node *def() const { return def_; }        // null: input of graph()
  unsigned index() const { return index_; } // result or input number
  Graph *graph() const { return graph_; }

  llvm::ArrayRef<Use> uses() const { return uses_; }
  bool has_uses() const { return !uses_.empty(); }
  bool has_one_use() const { return uses_.size() == 1; }
  bool is_graph_output() const { return return_uses_ != 0; } // used by a Return
  void ReplaceAllUsesWith(Value *other);                     // linear in the uses; the order of uses() has no meaning

  // The tensor when this is the result of a Constant node, else null.
  const Tensor *constant() const;

private:
  friend class Graph;
  friend class Node;
  friend class Module;
  std::string name_;
  Type type_;
  Node *def_ = nullptr;
  Graph *graph_ = nullptr;
  unsigned index_ = 0;
  unsigned return_uses_ = 0;
  llvm::SmallVector<Use, 2> uses_;
};

// Where partition put a node.
enum class Placement : uint8_t { Unassigned, Npu, Host };

class Node : public llvm::ilist_node<Node> {
public:
  ~Node();
  const OpDef &op() const { return *op_; }
  bool Is(std::string_view name, std::string_view domain = "") const {
    return op_->name == name && op_->domain == domain;
  }
  bool is_return() const;
  bool is_constant() const;
  Graph *graph() const { return graph_; }

  // Operands: null where an optional one is absent (never trailing).
  unsigned num_operands() const { return operands_.size(); }
  Value *operand(unsigned i) const { return i < operands_.size() ? operands_[i] : nullptr; }
  llvm::ArrayRef<Value *> operands() const { return operands_; }
  void set_operand(unsigned i,
                   Value *v); // i may lie beyond the end (absent ones fill the gap); a trailing null is cut off
  void AddOperand(Value *v);
  void RemoveOperand(unsigned i); // later ones move down; on a Return the output's name goes too

  // Results: every node has op().min_results at least; an unused optional result is a Value without uses.
  unsigned num_results() const { return results_.size(); }
  Value *result(unsigned i = 0) const { return results_[i].get(); }

  const AttributeList &attrs() const { return attrs_; }
  AttributeList &attrs() { return attrs_; }

  unsigned num_bodies() const { return bodies_.size(); }
  Graph *body(unsigned i) const { return bodies_[i].get(); }
  Graph *AddBody(); // in the order of the op's Graph attributes (If: then_branch, else_branch)

  // What messages call it: the id of its first ONNX node, else its first result's name, else the op.
  std::string Label() const;

  const Origin &origin() const { return origin_; }
  void set_origin(Origin o) { origin_ = std::move(o); }

  Placement placement() const { return placement_; }
  void set_placement(Placement p) { placement_ = p; }

  // Unlinks and deletes. The results must be unused.
  void Erase();
  void MoveBefore(Node *other); // within one graph

private:
  friend class Graph;
  friend class Value;
  Node() = default;
  void Link(unsigned i, Value *v);
  void Unlink(unsigned i);
  void DropReferences();

  const OpDef *op_ = nullptr;
  Graph *graph_ = nullptr;
  Placement placement_ = Placement::Unassigned;
  llvm::SmallVector<Value *, 4> operands_;
  llvm::SmallVector<unsigned, 4> slots_; // where operand i stands in its value's use list: removal is O(1)
  llvm::SmallVector<std::unique_ptr<Value>, 1> results_;
  AttributeList attrs_;
  std::vector<std::unique_ptr<Graph>> bodies_;
  Origin origin_;
};

class Graph {
public:
  explicit Graph(Module *module, Node *parent = nullptr);
  ~Graph();

  Module &module() const { return *module_; }
  Node *parent() const { return parent_; } // the node whose body this is; null for the main graph

  unsigned num_inputs() const { return inputs_.size(); }
  Value *input(unsigned i) const { return inputs_[i].get(); }
  Value *AddInput(std::string_view name, Type type);
  void RemoveInput(unsigned i); // must be unused

  // Outputs = operands of the Return node.
  Node *return_node() const { return return_; }
  unsigned num_outputs() const { return return_->num_operands(); }
  Value *output(unsigned i) const { return return_->operand(i); }
  void AddOutput(Value *v, std::string_view name = ""); // "": the value's name
  void RemoveOutput(unsigned i) { return_->RemoveOperand(i); }
  // Names under which the user knows the outputs (a value may be returned under several names). One an output, always.
  const std::vector<std::string> &output_names() const { return output_names_; }
  void set_output_name(unsigned i, std::string_view name) { output_names_[i] = name; }

  using NodeList = llvm::ilist<Node>;
  NodeList &nodes() { return nodes_; } // Return is last; definitions come before uses
  const NodeList &nodes() const { return nodes_; }
  // Iteration that survives erasing the current node.
  auto nodes_early_inc() { return llvm::make_early_inc_range(nodes_); }

  // New node before `before` (null: before Return). Result names: made unique; "" derives one from the op. Result types
  // None.
  Node *AddNode(const OpDef *op, llvm::ArrayRef<Value *> operands, unsigned num_results, Origin origin,
                Node *before = nullptr, llvm::ArrayRef<std::string> result_names = {});
  // Constant node; type from the tensor (and quant).
  Value *AddConstant(Tensor t, std::string_view name = "", Node *before = nullptr, QuantRef quant = nullptr);

private:
  friend class Node;
  friend class Module;
  Module *module_;
  Node *parent_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<std::string> output_names_;
  NodeList nodes_;
  Node *return_ = nullptr;
};

class Module {
public:
  Module();
  ~Module();
  Graph &main() { return *main_; }
  const Graph &main() const { return *main_; }

  std::vector<OnnxNode> &onnx_nodes() { return onnx_nodes_; }
  const std::vector<OnnxNode> &onnx_nodes() const { return onnx_nodes_; }

  // Model facts for the report.
  std::string file; // base name, for diagnostics
  int64_t ir_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets; // in file order
  std::string producer;
  std::vector<std::pair<std::string, std::string>> metadata;

  // `wanted` if free in the module, else wanted + "_1", ...; "" -> "v".
  std::string UniqueValueName(std::string_view wanted);
  void RenameValue(Value *v, std::string_view wanted);

private:
  friend class Graph;
  friend class Node;
  void ClaimName(Value &v, std::string_view wanted);
  void ReleaseName(Value &v);
  std::vector<OnnxNode> onnx_nodes_;
  std::unique_ptr<Graph> main_;
  struct Names;
  std::unique_ptr<Names> names_;
};

// Deep copy; constants share their bytes.
std::unique_ptr<Module> Clone(const Module &m);
// Copies the nodes of `from` into `to` before `before`, inputs mapped by `inputs`; returns the values of from's
// outputs.
std::vector<Value *> InlineGraph(const Graph &from, Graph &to, Node *before, llvm::ArrayRef<Value *> inputs);

// The operators that the IR itself knows: npuc::Return (defined here) and ai.onnx Constant (from ops.def).
const OpDef *ReturnOpDef();
const OpDef *ConstantOpDef();

// Every node of g and of all bodies, outer before inner, in order. fn may not erase.
void WalkNodes(Graph &g, const std::function<void(Node &)> &fn);
void WalkNodes(const Graph &g, const std::function<void(const Node &)> &fn);

// Stable topological order of g's nodes (ties by present order); error E0204 naming node and tensor on a cycle.
Status SortTopologically(Graph &g);

// Checks structure: definitions before uses, use lists, Return last and sole, operand and result counts against the
// schema, attribute kinds, unique names, bodies' visibility, quantisation parameters against shapes, and op.verify.
// Errors: E0204, or what op.verify says, at the node.
Status Verify(const Module &m);

// Text form. Print -> parse -> same hash. Small constants print as lists, big ones as base64, or elided (a hash)
// without data; only text printed with data parses back. Grammar: docs/ir.md.
std::string Print(const Module &m, bool with_data = true);
std::string PrintNode(const Node &n); // one line, no data
StatusOr<std::unique_ptr<Module>> ParseModule(std::string_view text, std::string_view file = "<text>");

// Constants kept outside the text, as `external<OFFSET, BYTES>`: a host step's weights lie in model.bin's const
// section.
struct ExternalRange {
  int64_t offset, bytes;
};
// The range where a tensor's bytes lie outside; nullopt: print it inside.
using ExternalWriter = std::function<std::optional<ExternalRange>(const Tensor &)>;
// The bytes at a range, kept alive by the owner; an error for ranges that are not there. `bytes` is what the type
// needs.
struct ExternalData {
  const uint8_t *data;
  std::shared_ptr<const void> owner;
};
using ExternalReader = std::function<StatusOr<ExternalData>(ExternalRange)>;
std::string PrintWithExternal(const Module &m, const ExternalWriter &external);
StatusOr<std::unique_ptr<Module>> ParseModule(std::string_view text, std::string_view file,
                                              const ExternalReader &external);
uint64_t Hash(const Module &m); // structure, types, attributes, data, origins

} // namespace npuc
