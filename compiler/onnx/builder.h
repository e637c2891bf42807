// ModelProto -> Module.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "compiler/onnx/adapters.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/model_file.h"

namespace npuc::onnx_import {

using NodeList = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;

// Names that a graph or node list reads from around it.
std::set<std::string> FreeNames(const ::onnx::GraphProto &g);
// Names that a node reads: inputs and what its bodies take from outside; sorted, no "".
std::set<std::string> NamesRead(const ::onnx::NodeProto &n);

// Domain -> version, of a model or a function.
class Opsets {
public:
  // E0202: a domain twice or a version that is not known.
  static StatusOr<Opsets> Of(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &list,
                             int64_t ir_version);
  std::optional<int64_t> Version(const std::string &domain) const;

private:
  std::map<std::string, int64_t> versions_;
};
std::string NormalDomain(const std::string &domain); // "ai.onnx" -> ""
inline bool IsGradient(const ::onnx::NodeProto &n) {
  return n.domain() == "ai.onnx.preview.training" && n.op_type() == "Gradient";
}

class Builder {
public:
  Builder(ModelFile &model, const ImportOptions &options, DiagnosticEngine &diagnostics)
      : model_(model), options_(options), diagnostics_(diagnostics), module_(std::make_unique<Module>()) {}

  // The graph without cuts. Errors are in the diagnostics.
  Status Build();
  std::unique_ptr<Module> Take() { return std::move(module_); }
  // Main-graph values by ONNX name.
  Value *Lookup(const std::string &name) const;

private:
  // What surrounds nodes of one function (or of the model).
  struct Frame {
    const Opsets *opsets = nullptr;
    std::map<std::string, ::onnx::AttributeProto> attributes; // values for ref_attr_name
    bool is_function = false;
    int depth = 0;
  };
  struct Scope {
    Scope *outer = nullptr;
    Graph *graph = nullptr;
    Frame *frame = nullptr;
    std::string prefix;           // of node ids, "" or ending in "/"
    bool optional_errors = false; // inside If: a branch may not fit and never run
    std::unordered_map<std::string, Value *> values;
    std::set<std::string> used; // names that anything in this scope reads
    Value *Find(const std::string &name) const;
  };

  Status CheckOperators();
  // Neither the node nor anything in its bodies or function is an operator that nobody knows.
  bool IsKnown(const ::onnx::NodeProto &n, int depth) const;
  Status DropUnknownOutsidePart();
  StatusOr<int64_t> ExpandedCount(const NodeList &nodes, int depth);
  void CollectUnknown(const NodeList &nodes, const Opsets &opsets, std::set<const ::onnx::FunctionProto *> &seen,
                      std::map<std::string, std::vector<std::string>> &unknown);
  const ::onnx::FunctionProto *FindFunction(const ::onnx::NodeProto &n) const;
  StatusOr<const Opsets *> FunctionOpsets(const ::onnx::FunctionProto &f);

  Status ResolveDims();
  StatusOr<Type> InputType(const ::onnx::ValueInfoProto &v) const;
  Type Substitute(Type t) const;
  Status BuildInputs(Scope &scope);
  Status BuildInitializers(const ::onnx::GraphProto &g, Scope &scope);
  Status Define(Scope &scope, const std::string &name, Value *v, std::string_view what);
  // All nodes of one graph, sorted; ids assigned in file order first.
  Status BuildNodes(const NodeList &nodes, Scope &scope);
  StatusOr<std::vector<int>> Order(const NodeList &nodes, const Scope &scope, llvm::ArrayRef<OriginId> ids) const;
  Status BuildNode(const ::onnx::NodeProto &n, OriginId id, Scope &scope);
  Status BuildBody(const ::onnx::GraphProto &g, Graph &body, Scope &outer, const std::string &prefix,
                   bool optional_errors, llvm::ArrayRef<Type> input_types);
  Status InlineFunction(const ::onnx::FunctionProto &f, const ::onnx::NodeProto &n, OriginId id,
                        llvm::ArrayRef<Value *> inputs, Scope &scope);
  Status BuildBatchedScan(const ::onnx::NodeProto &n, AdaptedNode &a, const ::onnx::GraphProto &body, OriginId id,
                          Scope &scope);
  std::vector<OriginId> AssignIds(const NodeList &nodes, const std::string &prefix);
  Status OutputsOf(const ::onnx::NodeProto &n, Scope &scope, llvm::ArrayRef<Value *> results);

  ModelFile &model_;
  const ImportOptions &options_;
  DiagnosticEngine &diagnostics_;
  std::unique_ptr<Module> module_;
  Opsets opsets_;
  std::map<std::string, int64_t> dims_;     // symbolic dims that are fixed
  std::map<std::string, Type> input_types_; // of the model's inputs, after options
  std::map<std::string, Tensor> binds_;
  std::map<const ::onnx::FunctionProto *, Opsets> function_opsets_;
  std::set<std::string> ids_; // of nodes, to keep them unique
  std::unique_ptr<Frame> main_frame_;
  std::unique_ptr<Scope> main_scope_;
  std::map<const ::onnx::FunctionProto *, int64_t> expanded_; // nodes of a function, calls expanded; -1: being counted
};

} // namespace npuc::onnx_import
