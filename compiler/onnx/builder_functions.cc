// Model-local functions, and the list of operators that nobody knows.
//
// A call is expanded into the graph that calls it: the function's nodes are built in a scope of their own (inputs bound
// to the call's values, absent ones absent), with the function's own opsets and with the call's attributes for
// ref_attr_name. An operator that compiler/ops knows is not expanded, even if the model brings a function for it.
#include "compiler/onnx/attributes.h"
#include "compiler/onnx/builder.h"

namespace npuc::onnx_import {
namespace {

constexpr int kMaxCallDepth = 64;
constexpr int64_t kMaxNodes = 1'000'000;

} // namespace

const ::onnx::FunctionProto *Builder::FindFunction(const ::onnx::NodeProto &n) const {
  const std::string domain = NormalDomain(n.domain());
  if (model_.proto.functions_size() == 0 || LookupOp(domain, n.op_type()) || HasAdapter(domain, n.op_type()))
    return nullptr;
  for (const auto &f : model_.proto.functions())
    if (f.name() == n.op_type() && NormalDomain(f.domain()) == domain && f.overload() == n.overload())
      return &f;
  return nullptr;
}

StatusOr<const Opsets *> Builder::FunctionOpsets(const ::onnx::FunctionProto &f) {
  auto it = function_opsets_.find(&f);
  if (it == function_opsets_.end()) {
    NPUC_ASSIGN_OR_RETURN(Opsets o, Opsets::Of(f.opset_import(), INT64_MAX));
    it = function_opsets_.emplace(&f, std::move(o)).first;
  }
  return &it->second;
}

void Builder::CollectUnknown(const NodeList &nodes, const Opsets &opsets, std::set<const ::onnx::FunctionProto *> &seen,
                             std::map<std::string, std::vector<std::string>> &unknown) {
  for (const auto &n : nodes) {
    const std::string domain = NormalDomain(n.domain());
    const bool known = LookupOp(domain, n.op_type()) || HasAdapter(domain, n.op_type()) || IsGradient(n);
    if (const auto *f = FindFunction(n)) {
      if (seen.insert(f).second)
        CollectUnknown(f->node(), opsets, seen, unknown);
    } else if (!known) {
      std::string label =
          (domain.empty() ? "" : domain + "::") + n.op_type() + (n.overload().empty() ? "" : ":" + n.overload());
      unknown[label].push_back(n.name().empty() ? (n.output_size() ? n.op_type() + "@" + n.output(0) : n.op_type())
                                                : n.name());
    }
    for (const auto &a : n.attribute())
      if (a.has_g())
        CollectUnknown(a.g().node(), opsets, seen, unknown);
  }
}

// Nodes that a list stands for with every call expanded; counted before anything is built, as a few functions that call
// each other twice can stand for more nodes than any machine holds.
StatusOr<int64_t> Builder::ExpandedCount(const NodeList &nodes, int depth) {
  if (depth > kMaxCallDepth)
    return Error("E0207", fmt::format("function calls are nested more than {} deep", kMaxCallDepth));
  int64_t sum = 0;
  for (const auto &n : nodes) {
    ++sum;
    if (const auto *f = FindFunction(n)) {
      auto [it, fresh] = expanded_.emplace(f, -1);
      if (fresh) {
        NPUC_ASSIGN_OR_RETURN(const int64_t count, ExpandedCount(f->node(), depth + 1));
        expanded_[f] = count;
      } else if (it->second < 0) {
        return Error("E0207", fmt::format("function {} calls itself", f->name()),
                     "ONNX functions may not be recursive");
      }
      sum += expanded_[f];
    }
    for (const auto &a : n.attribute())
      if (a.has_g()) {
        NPUC_ASSIGN_OR_RETURN(const int64_t count, ExpandedCount(a.g().node(), depth));
        sum += count;
      }
    if (sum > kMaxNodes)
      return Error("E0207", fmt::format("with its functions expanded the model has more than {} nodes", kMaxNodes));
  }
  return sum;
}

Status Builder::CheckOperators() {
  NPUC_RETURN_IF_ERROR(ExpandedCount(model_.proto.graph().node(), 0).status());
  std::map<std::string, std::vector<std::string>> unknown;
  std::set<const ::onnx::FunctionProto *> seen;
  CollectUnknown(model_.proto.graph().node(), opsets_, seen, unknown);
  for (const auto &[label, nodes] : unknown) {
    const size_t colon = label.find("::");
    const std::string domain = colon == std::string::npos ? "" : label.substr(0, colon);
    Diagnostic d;
    d.code = "E0401";
    d.file = model_.base_name;
    std::string list;
    for (size_t i = 0; i < nodes.size() && i < 4; ++i)
      list += (i ? ", '" : "'") + nodes[i] + "'";
    if (nodes.size() > 4)
      list += ", ...";
    d.message = fmt::format("operator {} is not supported ({} node{}: {})", label, nodes.size(),
                            nodes.size() == 1 ? "" : "s", list);
    if (domain.empty())
      d.help = "replace it by standard operators, or compile the part without it (--input, --output)";
    else
      d.help = fmt::format("domain '{}' is not part of ONNX{}; export without it, add its definition as a model-local "
                           "function, or compile the part "
                           "without it (--input, --output)",
                           domain, opsets_.Version(domain) ? "" : " and the model does not import it");
    diagnostics_.Report(std::move(d));
  }
  if (!unknown.empty())
    return AlreadyReported();
  if (!opsets_.Version("") && model_.proto.ir_version() >= 3)
    for (const auto &n : model_.proto.graph().node())
      if (NormalDomain(n.domain()).empty())
        return Error("E0202",
                     fmt::format("the model uses {} but imports no version of the ai.onnx operator set", n.op_type()),
                     "add opset_import { domain: \"\" version: ... } of the opset it was made for");
  return OkStatus();
}

Status Builder::InlineFunction(const ::onnx::FunctionProto &f, const ::onnx::NodeProto &n, OriginId id,
                               llvm::ArrayRef<Value *> inputs, Scope &scope) {
  const std::string id_text = module_->onnx_nodes()[id].id;
  if (scope.frame->depth >= kMaxCallDepth)
    return Error(
        "E0207",
        fmt::format("function {} calls itself, or calls are nested more than {} deep", f.name(), kMaxCallDepth),
        "ONNX functions may not be recursive");
  if (static_cast<int>(inputs.size()) > f.input_size() || n.output_size() > f.output_size())
    return Error("E0207", fmt::format("the call has {} inputs and {} outputs; function {} has {} and {}", inputs.size(),
                                      n.output_size(), f.name(), f.input_size(), f.output_size()));
  Frame frame;
  frame.is_function = true;
  frame.depth = scope.frame->depth + 1;
  NPUC_ASSIGN_OR_RETURN(frame.opsets, FunctionOpsets(f));
  std::set<std::string> declared(f.attribute().begin(), f.attribute().end());
  for (const auto &a : f.attribute_proto()) {
    declared.insert(a.name());
    frame.attributes[a.name()] = a;
  }
  for (const auto &a : n.attribute()) {
    if (!declared.count(a.name()))
      return Error("E0207", fmt::format("attribute '{}' is not one of function {}'s", a.name(), f.name()));
    if (a.ref_attr_name().empty()) {
      frame.attributes[a.name()] = a;
    } else if (auto it = scope.frame->attributes.find(a.ref_attr_name()); it != scope.frame->attributes.end()) {
      frame.attributes[a.name()] = it->second;
    }
  }
  Scope inner;
  inner.graph = scope.graph;
  inner.frame = &frame;
  inner.prefix = id_text + "/";
  inner.optional_errors = scope.optional_errors;
  for (int i = 0; i < f.input_size(); ++i)
    inner.values[f.input(i)] = i < static_cast<int>(inputs.size()) ? inputs[i] : nullptr;
  for (const auto &node : f.node())
    inner.used.merge(NamesRead(node));
  inner.used.insert(f.output().begin(), f.output().end());
  NPUC_RETURN_IF_ERROR(BuildNodes(f.node(), inner));
  llvm::SmallVector<Value *, 2> results;
  for (int i = 0; i < f.output_size(); ++i) {
    Value *v = inner.Find(f.output(i));
    if (!v && i < n.output_size() && !n.output(i).empty())
      return Error("E0207", fmt::format("output '{}' of function {} is made by nothing", f.output(i), f.name()));
    // The caller's name, unless the function hands through one of its inputs.
    bool handed = false;
    for (Value *in : inputs)
      handed |= in == v;
    for (Value *earlier : results)
      handed |= earlier == v;
    if (v && v->def() && !handed && i < n.output_size() && !n.output(i).empty())
      module_->RenameValue(v, n.output(i));
    results.push_back(v);
  }
  return OutputsOf(n, scope, results);
}

} // namespace npuc::onnx_import
