// Graph by graph, node by node: names to values, node ids, adaptation, bodies, inference.
//
// A Scope maps the tensor names of one graph (or of one function call) to IR values; bodies look outward, functions do
// not. Nodes are built in dependency order, so everything a node reads is there, typed as well as inference can:
// adapters rely on ranks. What is checked here, not by the verifier of the IR, is what a model file can get wrong:
// names, counts, attributes, cycles.
#include "compiler/onnx/builder.h"

#include "compiler/onnx/attributes.h"
#include "compiler/onnx/gradient.h"
#include "compiler/ops/infer.h"

namespace npuc::onnx_import {
namespace {

constexpr int kMaxReported = 20; // errors of one model before giving up

Type ElementOf(const Type &t, int64_t axis) {
  if (!t.is_tensor() || !t.shape().ranked() || t.shape().rank() == 0)
    return Type::Tensor(t.is_tensor() ? t.dtype() : DType::Undefined, Shape::Unranked());
  const int rank = t.shape().rank();
  const int64_t a = axis < 0 ? axis + rank : axis;
  Shape s;
  for (int i = 0; i < rank; ++i)
    if (i != a)
      s.push_back(t.shape()[i]);
  return Type::Tensor(t.dtype(), s);
}

// What the operator will feed to its body, as far as rank and dtype go (shapes may change from turn to turn).
llvm::SmallVector<Type, 4> BodyInputTypes(const AdaptedNode &a) {
  llvm::SmallVector<Type, 4> types;
  auto loose = [](Type t) {
    if (t.is_tensor() && t.shape().ranked())
      t.set_shape(Shape::UnknownDims(t.shape().rank()));
    return t;
  };
  auto type = [&](unsigned i) { return a.input(i) ? a.input(i)->type() : Type(); };
  if (a.op == "Loop") {
    types.push_back(Type::Tensor(DType::I64, Shape()));
    types.push_back(Type::Tensor(DType::Bool, Shape()));
    for (unsigned i = 2; i < a.inputs.size(); ++i)
      types.push_back(loose(type(i)));
  } else if (a.op == "Scan") {
    const unsigned scans = static_cast<unsigned>(std::max<int64_t>(a.attrs.Int("num_scan_inputs", 0), 0));
    const unsigned states = a.inputs.size() >= scans ? a.inputs.size() - scans : 0;
    const auto axes = a.attrs.Ints("scan_input_axes");
    for (unsigned i = 0; i < a.inputs.size(); ++i)
      types.push_back(i < states ? loose(type(i))
                                 : ElementOf(type(i), i - states < axes.size() ? axes[i - states] : 0));
  } else if (a.op == "SequenceMap") {
    for (unsigned i = 0; i < a.inputs.size(); ++i)
      types.push_back(type(i).kind() == Type::Kind::Sequence ? loose(type(i).element()) : type(i));
  }
  return types;
}

} // namespace

std::string NormalDomain(const std::string &domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

StatusOr<Opsets> Opsets::Of(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &list,
                            int64_t ir_version) {
  Opsets o;
  for (const auto &entry : list) {
    const std::string domain = NormalDomain(entry.domain());
    if (entry.version() < 1)
      return Error("E0202", fmt::format("operator set '{}' has version {}", domain, entry.version()));
    auto [it, fresh] = o.versions_.emplace(domain, entry.version());
    if (!fresh && it->second != entry.version())
      return Error("E0202", fmt::format("operator set '{}' is imported as version {} and as {}",
                                        domain.empty() ? "ai.onnx" : domain, it->second, entry.version()));
  }
  // Before IR version 3 there was one operator set, and no way to name it.
  if (ir_version < 3 && !o.versions_.count(""))
    o.versions_[""] = 1;
  return o;
}

std::optional<int64_t> Opsets::Version(const std::string &domain) const {
  auto it = versions_.find(domain);
  if (it == versions_.end())
    return std::nullopt;
  return it->second;
}

Value *Builder::Scope::Find(const std::string &name) const {
  for (const Scope *s = this; s; s = s->outer)
    if (auto it = s->values.find(name); it != s->values.end())
      return it->second;
  return nullptr;
}

Value *Builder::Lookup(const std::string &name) const {
  return main_scope_ ? main_scope_->Find(name) : nullptr;
}

std::vector<OriginId> Builder::AssignIds(const NodeList &nodes, const std::string &prefix) {
  std::map<std::string, int> names;
  for (const auto &n : nodes)
    ++names[n.name()];
  std::vector<OriginId> ids;
  for (const auto &n : nodes) {
    std::string first;
    for (const auto &o : n.output())
      if (first.empty())
        first = o;
    const std::string by_output = prefix + n.op_type() + "@" + first;
    std::string id = !n.name().empty() && names[n.name()] == 1 ? prefix + n.name() : by_output;
    if (ids_.count(id))
      id = by_output;
    for (int k = 2; !ids_.insert(id).second; ++k)
      id = fmt::format("{}#{}", by_output, k);
    ids.push_back(static_cast<OriginId>(module_->onnx_nodes().size()));
    module_->onnx_nodes().push_back({std::move(id), n.name(), n.op_type(), NormalDomain(n.domain())});
  }
  return ids;
}

Status Builder::BuildNodes(const NodeList &nodes, Scope &scope) {
  const std::vector<OriginId> ids = AssignIds(nodes, scope.prefix);
  NPUC_ASSIGN_OR_RETURN(std::vector<int> order, Order(nodes, scope, ids));
  for (int i : order) {
    const OnnxNode &info = module_->onnx_nodes()[ids[i]];
    const std::string id = info.id, op = info.op_type; // the table may grow
    NPUC_RETURN_IF_ERROR(AtNode(BuildNode(nodes[i], ids[i], scope), id, op));
  }
  return OkStatus();
}

// Binds a node's output names to values; values made for this node take the names.
Status Builder::OutputsOf(const ::onnx::NodeProto &n, Scope &scope, llvm::ArrayRef<Value *> results) {
  for (int i = 0; i < n.output_size(); ++i) {
    if (n.output(i).empty())
      continue;
    if (i >= static_cast<int>(results.size()) || !results[i])
      return Error("E0203", fmt::format("{} has no output {} ('{}')", n.op_type(), i, n.output(i)));
    scope.values[n.output(i)] = results[i];
  }
  return OkStatus();
}

Status Builder::BuildNode(const ::onnx::NodeProto &n, OriginId id, Scope &scope) {
  AdaptedNode a;
  a.domain = NormalDomain(n.domain());
  a.op = n.op_type();
  a.graph = scope.graph;
  a.origin = {id};
  a.diagnostics = &diagnostics_;
  a.version = scope.frame->opsets->Version(a.domain).value_or(1);

  for (const auto &name : n.input()) {
    Value *v = nullptr;
    if (!name.empty()) {
      bool known = false;
      for (const Scope *s = &scope; s && !known; s = s->outer)
        if (auto it = s->values.find(name); it != s->values.end()) {
          known = true;
          v = it->second;
        }
      if (!known)
        return Error("E0204", fmt::format("the node reads tensor '{}', which nothing makes", name),
                     "the model lacks a node, an input or an initializer of this name");
    }
    a.inputs.push_back(v);
  }
  while (!a.inputs.empty() && !a.inputs.back())
    a.inputs.pop_back();
  int outputs = n.output_size();
  while (outputs > 0 && n.output(outputs - 1).empty())
    --outputs;
  a.num_outputs = outputs;
  for (int i = 0; i < outputs; ++i)
    a.output_used.push_back(!n.output(i).empty() && scope.used.count(n.output(i)));

  if (const auto *f = FindFunction(n))
    return InlineFunction(*f, n, id, a.inputs, scope);

  // Attributes; graphs apart.
  std::map<std::string, const ::onnx::GraphProto *> graphs;
  std::set<std::string> names;
  for (const auto &written : n.attribute()) {
    const ::onnx::AttributeProto *attr = &written;
    if (!written.ref_attr_name().empty()) {
      if (!scope.frame->is_function)
        return Error("E0203",
                     fmt::format("attribute '{}' refers to an attribute of a function, but the node is in none",
                                 written.name()));
      auto it = scope.frame->attributes.find(written.ref_attr_name());
      if (it == scope.frame->attributes.end())
        continue; // not given by the call: absent here
      attr = &it->second;
    }
    if (!names.insert(written.name()).second)
      return Error("E0203", fmt::format("attribute '{}' is there twice", written.name()));
    NPUC_ASSIGN_OR_RETURN(auto kind, KindOf(*attr));
    if (!kind) {
      // Neither type nor value: an empty list, if the operator takes one.
      const OpDef *def = LookupOp(a.domain, a.op);
      if (def)
        for (const AttrSpec &s : def->attrs)
          if (s.name == written.name())
            kind = s.kind;
      if (!kind || *kind == AttrKind::Graph || *kind == AttrKind::Tensor || *kind == AttrKind::Type)
        continue;
    }
    if (*kind == AttrKind::Graph) {
      graphs[written.name()] = &attr->g();
      continue;
    }
    auto value = ReadAttribute(*attr, *kind, model_.tensors);
    if (!value.ok())
      return Prefix(value.status(), fmt::format("attribute '{}'", written.name()));
    a.attrs.Set(written.name(), std::move(*value));
  }

  if (HasAdapter(a.domain, a.op) || a.op == "Scan" || IsGradient(n))
    NPUC_RETURN_IF_ERROR(CheckReadKinds(a.attrs, a.op));
  if (a.domain.empty() && a.op == "Scan" && a.version < 9) {
    auto body = graphs.find("body");
    if (body == graphs.end())
      return Error("E0203", "the required attribute 'body' is missing");
    NPUC_RETURN_IF_ERROR(BuildBatchedScan(n, a, *body->second, id, scope));
    return OutputsOf(n, scope, a.results);
  }
  if (IsGradient(n)) {
    llvm::SmallVector<Value *, 2> xs;
    for (const std::string &name : a.attrs.StringList("xs"))
      xs.push_back(scope.Find(name));
    Value *y = scope.Find(std::string(a.attrs.String("y", "")));
    if (!y || llvm::is_contained(xs, nullptr))
      return Error("E0203", "attributes xs and y do not name tensors of the graph");
    if (llvm::ArrayRef<Value *>(xs) != llvm::ArrayRef<Value *>(a.inputs).take_front(xs.size()) || a.attrs.Has("zs"))
      return Error("E0402", "Gradient at other values than those of the graph", "export the model for inference");
    NPUC_RETURN_IF_ERROR(BuildGradient(a, xs, y));
  } else {
    NPUC_RETURN_IF_ERROR(Adapt(a));
  }
  if (!a.results.empty()) {
    for (int i = 0; i < outputs && i < static_cast<int>(a.results.size()); ++i) {
      Value *v = a.results[i];
      // A value that this node made takes the tensor's name.
      if (v && v->def() && !n.output(i).empty() &&
          (v->def()->origin() == a.origin || (v->constant() && !v->has_uses())) && v->name() != n.output(i)) {
        bool named = false;
        for (int k = 0; k < i; ++k)
          named |= a.results[k] == v;
        for (Value *in : a.inputs)
          named |= in == v;
        if (!named)
          module_->RenameValue(v, n.output(i));
      }
    }
    return OutputsOf(n, scope, a.results);
  }

  const OpDef *def = LookupOp(a.domain, a.op);
  if (!def)
    return Error("E0401", fmt::format("operator {}{}{} is not known", a.domain, a.domain.empty() ? "" : "::", a.op));
  while (!a.inputs.empty() && !a.inputs.back())
    a.inputs.pop_back();
  const int inputs = static_cast<int>(a.inputs.size());
  if (inputs < def->min_operands || (def->max_operands >= 0 && inputs > def->max_operands))
    return Error("E0203",
                 def->max_operands < 0 ? fmt::format("{} inputs; {} takes at least {}", inputs, a.op, def->min_operands)
                 : def->min_operands == def->max_operands
                     ? fmt::format("{} inputs; {} takes {}", inputs, a.op, def->min_operands)
                     : fmt::format("{} inputs; {} takes {} to {}", inputs, a.op, def->min_operands, def->max_operands));
  if (def->max_results >= 0 && outputs > def->max_results)
    return Error("E0203", fmt::format("{} outputs; {} has at most {}", outputs, a.op, def->max_results));
  NPUC_ASSIGN_OR_RETURN(auto unknown, CheckAttributes(*def, a.attrs));
  for (const auto &name : unknown) {
    Diagnostic d;
    d.severity = Severity::warning;
    d.file = model_.base_name;
    d.node = module_->onnx_nodes()[id].id;
    d.op = n.op_type();
    d.message = fmt::format("attribute '{}' is not one of {}'s and is ignored", name, a.op);
    diagnostics_.Report(std::move(d));
  }
  llvm::SmallVector<std::string, 2> result_names;
  for (int i = 0; i < outputs; ++i)
    result_names.push_back(n.output(i));
  const unsigned results = std::max(outputs, def->min_results);
  result_names.resize(results);
  Node *node = scope.graph->AddNode(def, a.inputs, results, a.origin, nullptr, result_names);
  node->attrs() = a.attrs;

  const auto body_types = BodyInputTypes(a);
  for (const AttrSpec &s : def->attrs) {
    if (s.kind != AttrKind::Graph)
      continue;
    auto it = graphs.find(std::string(s.name));
    if (it == graphs.end() && !s.required) {
      // An absent optional body hands its input through.
      Graph &same = *node->AddBody();
      same.AddOutput(same.AddInput("", Type()));
      continue;
    }
    if (it == graphs.end())
      return Error("E0203", fmt::format("the required attribute '{}' is missing", s.name));
    NPUC_RETURN_IF_ERROR(BuildBody(*it->second, *node->AddBody(), scope,
                                   fmt::format("{}/{}/", module_->onnx_nodes()[id].id, s.name),
                                   scope.optional_errors || a.op == "If", body_types));
  }
  if (def->verify)
    NPUC_RETURN_IF_ERROR(def->verify(*node));
  if (Status s = InferNode(*node); !s.ok() && !scope.optional_errors) {
    diagnostics_.ReportStatus(s, model_.base_name);
    if (diagnostics_.ErrorCount() >= kMaxReported)
      return AlreadyReported();
  }
  llvm::SmallVector<Value *, 2> values;
  for (unsigned i = 0; i < node->num_results(); ++i)
    values.push_back(node->result(i));
  return OutputsOf(n, scope, values);
}

Status Builder::BuildBody(const ::onnx::GraphProto &g, Graph &body, Scope &outer, const std::string &prefix,
                          bool optional_errors, llvm::ArrayRef<Type> input_types) {
  Scope scope;
  scope.outer = &outer;
  scope.graph = &body;
  scope.frame = outer.frame;
  scope.prefix = prefix;
  scope.optional_errors = optional_errors;
  for (const auto &n : g.node())
    scope.used.merge(NamesRead(n));
  for (const auto &o : g.output())
    scope.used.insert(o.name());
  for (int i = 0; i < g.input_size(); ++i) {
    NPUC_ASSIGN_OR_RETURN(Type type, InputType(g.input(i)));
    if (i < static_cast<int>(input_types.size()) && !input_types[i].is_none())
      type = input_types[i];
    NPUC_RETURN_IF_ERROR(Define(scope, g.input(i).name(), body.AddInput(g.input(i).name(), type), "a body's input"));
  }
  NPUC_RETURN_IF_ERROR(BuildInitializers(g, scope));
  NPUC_RETURN_IF_ERROR(BuildNodes(g.node(), scope));
  for (const auto &o : g.output()) {
    Value *v = scope.Find(o.name());
    if (!v)
      return Error("E0204", fmt::format("the body's output '{}' is made by nothing", o.name()));
    body.AddOutput(v, o.name());
  }
  return OkStatus();
}

// Scan of opset 8 has a batch axis (0) on every state and input, and sequence lengths as input 0. Written as one Scan
// of today a batch element, each with the body of its own.
Status Builder::BuildBatchedScan(const ::onnx::NodeProto &n, AdaptedNode &a, const ::onnx::GraphProto &body,
                                 OriginId id, Scope &scope) {
  constexpr int64_t kMaxBatch = 64;
  if (a.input(0))
    return Error("E0402", "Scan of opset 8 with sequence lengths", "convert the model to opset 9 or later");
  const OpDef *scan = LookupOp("", "Scan");
  std::optional<int64_t> batch;
  for (unsigned i = 1; i < a.inputs.size(); ++i)
    if (Value *v = a.input(i); v && v->type().is_tensor() && v->type().shape().ranked() &&
                               v->type().shape().rank() > 0 && v->type().shape()[0].is_static())
      batch = v->type().shape()[0].value();
  if (!batch || *batch < 1 || *batch > kMaxBatch)
    return Error("E0402", fmt::format("Scan of opset 8 needs a static batch from 1 to {}", kMaxBatch),
                 "convert the model to opset 9 or later");
  const int64_t scans = a.attrs.Int("num_scan_inputs", 0);
  const unsigned states =
      static_cast<unsigned>(std::max<int64_t>(0, static_cast<int64_t>(a.inputs.size()) - 1 - scans));
  AttributeList attrs;
  attrs.Set("num_scan_inputs", scans);
  if (a.attrs.Has("directions"))
    attrs.Set("scan_input_directions", *a.attrs.Find("directions"));
  std::vector<llvm::SmallVector<Value *, 4>> parts(a.num_outputs);
  for (int64_t b = 0; b < *batch; ++b) {
    AdaptedNode one = a;
    one.op = "Scan";
    one.inputs.clear();
    for (unsigned i = 1; i < a.inputs.size(); ++i) {
      AttributeList axis;
      axis.Set("axis", int64_t{0});
      NPUC_ASSIGN_OR_RETURN(Value * element, a.Add("Gather", {a.input(i), a.Constant(Tensor::ScalarI64(b))}, axis));
      one.inputs.push_back(element);
    }
    one.attrs = attrs;
    Node *node = scope.graph->AddNode(scan, one.inputs, a.num_outputs, a.origin);
    node->attrs() = attrs;
    NPUC_RETURN_IF_ERROR(BuildBody(body, *node->AddBody(), scope,
                                   b == 0 ? fmt::format("{}/body/", module_->onnx_nodes()[id].id)
                                          : fmt::format("{}/body[{}]/", module_->onnx_nodes()[id].id, b),
                                   scope.optional_errors, BodyInputTypes(one)));
    NPUC_RETURN_IF_ERROR(InferNode(*node));
    for (unsigned i = 0; i < a.num_outputs; ++i) {
      NPUC_ASSIGN_OR_RETURN(Value * back, a.Add("Unsqueeze", {node->result(i), a.Ints({0})}));
      parts[i].push_back(back);
    }
  }
  (void)states;
  for (unsigned i = 0; i < a.num_outputs; ++i) {
    AttributeList axis;
    axis.Set("axis", int64_t{0});
    NPUC_ASSIGN_OR_RETURN(Value * all, a.Add("Concat", parts[i], axis));
    if (static_cast<int>(i) < n.output_size() && !n.output(i).empty())
      module_->RenameValue(all, n.output(i));
    a.results.push_back(all);
  }
  return OkStatus();
}

Status Builder::Build() {
  const auto &proto = model_.proto;
  module_->file = model_.base_name;
  module_->ir_version = proto.ir_version();
  module_->producer = proto.producer_name() + (proto.producer_version().empty() ? "" : " " + proto.producer_version());
  for (const auto &o : proto.opset_import())
    module_->opsets.emplace_back(o.domain(), o.version());
  if (module_->opsets.empty())
    module_->opsets.emplace_back("", 1);
  for (const auto &m : proto.metadata_props())
    module_->metadata.emplace_back(m.key(), m.value());

  NPUC_ASSIGN_OR_RETURN(opsets_, Opsets::Of(proto.opset_import(), proto.ir_version()));
  if (auto v = opsets_.Version(""); v && *v > kNewestOpset)
    return Error("E0202", fmt::format("the model uses opset {}, the newest known one is {}", *v, kNewestOpset),
                 "export the model for an older opset");
  NPUC_RETURN_IF_ERROR(DropUnknownOutsidePart());
  NPUC_RETURN_IF_ERROR(CheckOperators());
  NPUC_RETURN_IF_ERROR(ResolveDims());

  main_frame_ = std::make_unique<Frame>();
  main_frame_->opsets = &opsets_;
  main_scope_ = std::make_unique<Scope>();
  Scope &scope = *main_scope_;
  scope.graph = &module_->main();
  scope.frame = main_frame_.get();
  for (const auto &n : proto.graph().node())
    scope.used.merge(NamesRead(n));
  for (const auto &o : proto.graph().output())
    scope.used.insert(o.name());
  scope.used.insert(options_.inputs.begin(), options_.inputs.end());
  scope.used.insert(options_.outputs.begin(), options_.outputs.end());
  NPUC_RETURN_IF_ERROR(BuildInputs(scope));
  NPUC_RETURN_IF_ERROR(BuildInitializers(proto.graph(), scope));
  NPUC_RETURN_IF_ERROR(BuildNodes(proto.graph().node(), scope));
  if (proto.graph().output_size() == 0 && options_.outputs.empty())
    return Error("E0204", "the model has no outputs");
  for (const auto &o : proto.graph().output()) {
    Value *v = scope.Find(o.name());
    if (!v)
      return Error("E0204", fmt::format("output '{}' is made by nothing", o.name()),
                   "the model lacks a node of this output");
    module_->main().AddOutput(v, o.name());
  }
  return OkStatus();
}

} // namespace npuc::onnx_import
