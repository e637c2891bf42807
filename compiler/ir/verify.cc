// The IR verifier: what every pass may rely on.
//
// One walk in order with the set of values visible so far (a body sees what its node sees, its own values vanish with
// it), then the use lists against the operands that the walk saw. Linear. It reads only pointers that it has seen to be
// alive: a dangling operand is reported, not followed.
#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace npuc {
namespace {

std::string_view KindName(AttrKind k) {
  constexpr std::string_view kNames[] = {"an int",           "a float",           "a string", "a list of ints",
                                         "a list of floats", "a list of strings", "a tensor", "a graph",
                                         "a type",           "a list of tensors"};
  return kNames[static_cast<int>(k)];
}

bool KindFits(AttrKind kind, const Attribute &a) {
  switch (kind) {
  case AttrKind::Int:
    return std::holds_alternative<int64_t>(a);
  case AttrKind::Float:
    return std::holds_alternative<float>(a);
  case AttrKind::String:
    return std::holds_alternative<std::string>(a);
  case AttrKind::Ints:
    return std::holds_alternative<std::vector<int64_t>>(a);
  case AttrKind::Floats:
    return std::holds_alternative<std::vector<float>>(a);
  case AttrKind::Strings:
    return std::holds_alternative<std::vector<std::string>>(a);
  case AttrKind::Tensor:
    return std::holds_alternative<Tensor>(a);
  case AttrKind::Type:
    return std::holds_alternative<Type>(a);
  case AttrKind::Tensors:
    return std::holds_alternative<std::vector<Tensor>>(a);
  case AttrKind::Graph:
    return false;
  }
  return false;
}

Status Bad(std::string message) {
  return Error("E0204", std::move(message));
}

std::string CheckType(const Type &t) {
  if (!t.is_tensor())
    return t.kind() == Type::Kind::None || t.kind() == Type::Kind::Map ? "" : CheckType(t.element());
  if (t.dtype() == DType::Undefined)
    return "has no element type";
  if (t.shape().ranked())
    for (const Dim &d : t.shape().dims())
      if (d.is_static() && d.value() < 0)
        return fmt::format("has the negative extent {}", d.value());
  if (t.layout() != Layout::RowMajor && t.shape().ranked() && t.shape().rank() != 3 && t.shape().rank() != 4)
    return fmt::format("has layout {} at rank {} (3 or 4 can have it)", Name(t.layout()), t.shape().rank());
  if (!t.quant())
    return "";
  const QuantParams &q = *t.quant();
  if (!IsInt(t.dtype()))
    return fmt::format("has quantisation parameters on {} elements", Name(t.dtype()));
  if (q.scales.size() != q.zero_points.size())
    return fmt::format("has {} scales and {} zero points", q.scales.size(), q.zero_points.size());
  if (q.per_tensor()) {
    if (q.scales.size() != 1)
      return fmt::format("has {} scales for the whole tensor", q.scales.size());
  } else if (t.shape().ranked()) {
    if (q.axis >= t.shape().rank())
      return fmt::format("is quantised along axis {} at rank {}", q.axis, t.shape().rank());
    const Dim d = t.shape()[q.axis];
    if (d.is_static() && static_cast<size_t>(d.value()) != q.scales.size())
      return fmt::format("has {} scales for {} slices of axis {}", q.scales.size(), d.value(), q.axis);
  }
  return "";
}

class Verifier {
public:
  explicit Verifier(const Module &m) : module_(m) {}

  Status Run() {
    if (module_.main().parent())
      return Bad("the main graph is the body of a node");
    NPUC_RETURN_IF_ERROR(CheckGraph(module_.main()));
    return CheckUses();
  }

private:
  Status CheckGraph(const Graph &g);
  Status CheckNode(const Graph &g, const Node &n);
  Status CheckSchema(const Node &n);
  Status CheckUses();
  Status Define(const Value &v, const Graph &g, const Node *def, unsigned index);

  const Module &module_;
  llvm::DenseSet<const Value *> visible_;
  llvm::DenseSet<const Node *> nodes_;
  std::vector<const Value *> all_;
  llvm::StringSet<> names_;
  size_t links_ = 0;
};

Status Verifier::Define(const Value &v, const Graph &g, const Node *def, unsigned index) {
  if (v.name().empty())
    return Bad("a value has no name");
  if (!names_.insert(v.name()).second)
    return Bad(fmt::format("two values are called '{}'", v.name()));
  if (v.graph() != &g || v.def() != def || v.index() != index)
    return Bad(fmt::format("value '{}' does not know where it is defined", v.name()));
  if (std::string what = CheckType(v.type()); !what.empty())
    return Bad(fmt::format("value '{}' of type {} {}", v.name(), v.type().ToString(), what));
  visible_.insert(&v);
  all_.push_back(&v);
  return OkStatus();
}

Status Verifier::CheckGraph(const Graph &g) {
  if (&g.module() != &module_)
    return Bad("a graph belongs to another module");
  const size_t first = all_.size();
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    NPUC_RETURN_IF_ERROR(Define(*g.input(i), g, nullptr, i));
  if (g.nodes().empty() || &g.nodes().back() != g.return_node() || !g.return_node()->is_return())
    return Bad("a graph does not end in its Return");
  for (const Node &n : g.nodes()) {
    if (n.is_return() && &n != g.return_node())
      return Bad("a graph has two Returns");
    // Errors of inner nodes carry their place already: AtNode keeps it.
    if (Status s = CheckNode(g, n); !s.ok())
      return AtNode(s, n.Label(), n.op().name);
  }
  if (g.output_names().size() != g.num_outputs())
    return Bad(fmt::format("a graph has {} outputs and {} names for them", g.num_outputs(), g.output_names().size()));
  if (!g.parent()) {
    // The same value may be listed twice, under one name or several.
    llvm::StringMap<const Value *> seen;
    for (unsigned i = 0; i < g.num_outputs(); ++i) {
      auto [it, fresh] = seen.try_emplace(g.output_names()[i], g.output(i));
      if (!fresh && it->second != g.output(i))
        return Bad(fmt::format("two outputs of the model are called '{}'", g.output_names()[i]));
    }
  }
  for (size_t i = first; i < all_.size(); ++i)
    visible_.erase(all_[i]);
  return OkStatus();
}

Status Verifier::CheckNode(const Graph &g, const Node &n) {
  if (n.graph() != &g)
    return Bad("the node does not know its graph");
  nodes_.insert(&n);
  for (unsigned i = 0; i < n.num_operands(); ++i) {
    const Value *v = n.operand(i);
    if (!v)
      continue;
    ++links_;
    if (!visible_.contains(v))
      return Bad(
          fmt::format("operand {} is not defined before the node, or lies in a graph that the node can't see", i));
  }
  if (n.num_operands() != 0 && !n.operand(n.num_operands() - 1))
    return Bad("the last operand is absent");
  for (size_t i = 0; i < n.origin().size(); ++i) {
    if (n.origin()[i] >= module_.onnx_nodes().size())
      return Bad(fmt::format("origin {} of {} ONNX nodes", n.origin()[i], module_.onnx_nodes().size()));
    if (i && n.origin()[i - 1] >= n.origin()[i])
      return Bad("origins are not sorted");
  }
  if (!n.is_return())
    NPUC_RETURN_IF_ERROR(CheckSchema(n));
  for (unsigned i = 0; i < n.num_bodies(); ++i) {
    if (n.body(i)->parent() != &n)
      return Bad(fmt::format("body {} does not know its node", i));
    NPUC_RETURN_IF_ERROR(CheckGraph(*n.body(i)));
  }
  for (unsigned i = 0; i < n.num_results(); ++i)
    NPUC_RETURN_IF_ERROR(Define(*n.result(i), g, &n, i));
  if (n.is_constant()) {
    const Tensor *t = n.attrs().TensorOrNull("value");
    if (!t || !*t)
      return Bad("the constant has no value");
    const Type &type = n.result()->type();
    if (!type.is_none() && (!type.is_tensor() || type.dtype() != t->dtype() ||
                            (type.shape().is_static() && !(type.shape() == Shape::Of(t->dims())))))
      return Bad(fmt::format("the constant's data is {}{}, its type {}", Name(t->dtype()), ToString(t->dims()),
                             type.ToString()));
  }
  if (n.op().verify)
    return n.op().verify(n);
  return OkStatus();
}

Status Verifier::CheckSchema(const Node &n) {
  const OpDef &op = n.op();
  const int operands = n.num_operands(), results = n.num_results();
  auto count = [](int least, int most) {
    return least == most ? std::to_string(least)
           : most < 0    ? fmt::format("{} or more", least)
                         : fmt::format("{} to {}", least, most);
  };
  if (operands < op.min_operands || (op.max_operands >= 0 && operands > op.max_operands))
    return Bad(fmt::format("{} operands ({} takes {})", operands, op.name, count(op.min_operands, op.max_operands)));
  for (int i = 0; i < op.min_operands; ++i)
    if (!n.operand(i))
      return Bad(fmt::format("operand {} is absent ({} needs it)", i, op.name));
  if (results < op.min_results || (op.max_results >= 0 && results > op.max_results))
    return Bad(fmt::format("{} results ({} has {})", results, op.name, count(op.min_results, op.max_results)));
  unsigned bodies = 0, required_bodies = 0;
  for (const AttrSpec &spec : op.attrs) {
    if (spec.kind == AttrKind::Graph) {
      ++bodies;
      required_bodies += spec.required;
    } else if (spec.required && !n.attrs().Has(spec.name)) {
      return Bad(fmt::format("attribute '{}' is missing", spec.name));
    }
  }
  if (n.num_bodies() < required_bodies || n.num_bodies() > bodies)
    return Bad(fmt::format("{} bodies ({} has {})", n.num_bodies(), op.name, count(required_bodies, bodies)));
  for (const auto &a : n.attrs()) {
    const AttrSpec *spec = nullptr;
    for (const AttrSpec &s : op.attrs)
      if (s.name == a.name)
        spec = &s;
    if (!spec)
      return Bad(fmt::format("{} has no attribute '{}'", op.name, a.name));
    if (!KindFits(spec->kind, a.value))
      return Bad(fmt::format("attribute '{}' is not {}", a.name, KindName(spec->kind)));
  }
  return OkStatus();
}

Status Verifier::CheckUses() {
  size_t uses = 0;
  for (const Value *v : all_) {
    uses += v->uses().size();
    unsigned returned = 0;
    for (const Use &u : v->uses()) {
      if (!nodes_.contains(u.user))
        return Bad(fmt::format("value '{}' is used by a node that is not in the module", v->name()));
      if (u.user->operand(u.operand) != v)
        return Bad(
            fmt::format("value '{}' thinks that it is operand {} of '{}'", v->name(), u.operand, u.user->Label()));
      returned += u.user->is_return();
    }
    if (v->is_graph_output() != (returned != 0))
      return Bad(fmt::format("value '{}' miscounts its uses as output", v->name()));
  }
  // Every use is an operand, no two uses are the same operand if there are as many of the ones as of the others.
  if (uses != links_)
    return Bad(fmt::format("{} operands, but {} uses", links_, uses));
  return OkStatus();
}

} // namespace

Status Verify(const Module &m) {
  return Verifier(m).Run();
}

} // namespace npuc
