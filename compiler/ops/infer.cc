// The inference driver: presents a node to its OpDef::infer, then merges what comes back with the stored types (see
// infer.h).
#include "compiler/ops/infer.h"

#include "compiler/ops/op_helpers.h"

namespace npuc {
namespace {

// Whether everything that `old` knows of a shape holds for `now` too.
bool Refines(const Type &now, const Type &old) {
  if (old.is_none() || old.kind() != now.kind())
    return old.is_none();
  if (!old.is_tensor())
    return old == now;
  if (!old.shape().ranked())
    return true;
  if (!now.shape().ranked() || now.shape().rank() != old.shape().rank())
    return false;
  for (int i = 0; i < old.shape().rank(); ++i)
    if (old.shape()[i].symbol() != "?" && !(old.shape()[i] == now.shape()[i]) &&
        !(now.shape()[i].is_static() && !old.shape()[i].is_static()))
      return false;
  return true;
}

class Context final : public InferContext {
public:
  Context(Node &node, DiagnosticEngine *warnings) : node_(node), warnings_(warnings) {
    results_.resize(node.num_results());
  }
  const Node &node() const override { return node_; }
  const Tensor *constant(int i) const override {
    const Value *v = node_.operand(i);
    return v ? v->constant() : nullptr;
  }
  std::optional<llvm::SmallVector<Dim, 4>> dims(int i) const override {
    const Value *v = node_.operand(i);
    return v ? ShapeData(v) : std::nullopt;
  }
  Status InferBody(int body, llvm::ArrayRef<Type> inputs, std::vector<Type> *outputs) override {
    Graph *g = node_.body(body);
    if (inputs.size() != g->num_inputs())
      return Error("E0203", fmt::format("body {} takes {} inputs, the operator gives it {}", body, g->num_inputs(),
                                        inputs.size()));
    bool widened = false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].is_none()) {
        widened = widened || !Refines(inputs[i], g->input(i)->type());
        g->input(i)->set_type(inputs[i]);
      }
    // What the body's values were inferred to be from narrower inputs (an earlier round over a loop) must not stay as a
    // hint.
    if (widened)
      WalkNodes(*g, [](Node &n) {
        for (unsigned i = 0; i < n.num_results(); ++i)
          if (Type &t = n.result(i)->type(); !n.is_constant())
            t = t.is_tensor() ? Type::Tensor(t.dtype(), Shape::Unranked(), t.quant()) : Type();
      });
    // Shapes of an earlier call, for other inputs, are no hints.
    for (Node &n : g->nodes())
      for (unsigned i = 0; i < n.num_results(); ++i)
        if (!n.is_constant() && n.result(i)->type().is_tensor())
          n.result(i)->type().set_shape(Shape::Unranked());
    NPUC_RETURN_IF_ERROR(InferShapes(*g, warnings_));
    outputs->clear();
    for (unsigned i = 0; i < g->num_outputs(); ++i)
      outputs->push_back(g->output(i) ? g->output(i)->type() : Type());
    return OkStatus();
  }

private:
  Node &node_;
  DiagnosticEngine *warnings_;
};

// The inferred type, its unknown parts filled from the hint. `clash` is set when they contradict.
Type Merge(const Type &inferred, const Type &hint, bool *clash) {
  if (inferred.is_none())
    return hint;
  if (hint.is_none())
    return inferred;
  if (inferred.kind() != hint.kind()) {
    *clash = true;
    return inferred;
  }
  switch (inferred.kind()) {
  case Type::Kind::Sequence:
    return Type::Sequence(Merge(inferred.element(), hint.element(), clash));
  case Type::Kind::Optional:
    return Type::Optional(Merge(inferred.element(), hint.element(), clash));
  case Type::Kind::Map:
    return Type::Map(inferred.dtype(), Merge(inferred.element(), hint.element(), clash));
  default:
    break;
  }
  Type t = inferred;
  if (t.dtype() == DType::Undefined)
    t.set_dtype(hint.dtype());
  else if (hint.dtype() != DType::Undefined && hint.dtype() != t.dtype())
    *clash = true;
  t.set_layout(hint.layout());
  if (!hint.shape().ranked())
    return t;
  if (!t.shape().ranked()) {
    t.set_shape(hint.shape());
    return t;
  }
  if (t.shape().rank() != hint.shape().rank()) {
    *clash = true;
    t.set_layout(Layout::RowMajor);
    return t;
  }
  for (int i = 0; i < t.shape().rank(); ++i) {
    Dim &d = t.shape()[i];
    const Dim &h = hint.shape()[i];
    if (d.is_static()) {
      if (h.is_static() && h.value() != d.value())
        *clash = true;
    } else if (h.is_static() || d.symbol() == "?") {
      d = h;
    }
  }
  return t;
}

// Gives the inferred type the quantisation that the stored type or the operands prescribe.
Type Quantised(const Node &node, Type inferred, const Type &stored) {
  if (!inferred.is_tensor())
    return inferred;
  if (stored.is_quantized()) {
    inferred.set_dtype(stored.dtype());
    inferred.set_quant(stored.quant());
    return inferred;
  }
  const Value *quantised = nullptr;
  for (const Value *v : node.operands())
    if (v && v->type().is_quantized()) {
      quantised = v;
      break;
    }
  if (!quantised)
    return inferred;
  if (stored.is_tensor() && stored.dtype() != DType::Undefined) {
    inferred.set_dtype(stored.dtype());
    return inferred;
  }
  if (node.op().has(kCopiesElements) && inferred.dtype() == quantised->type().dtype()) {
    if (quantised->type().quant()->per_tensor())
      inferred.set_quant(quantised->type().quant());
  } else if (inferred.dtype() == quantised->type().dtype()) {
    inferred.set_dtype(DType::F32);
  }
  return inferred;
}

} // namespace

std::string NodeId(const Node &node) {
  if (!node.origin().empty()) {
    const auto &table = node.graph()->module().onnx_nodes();
    if (node.origin()[0] < table.size())
      return table[node.origin()[0]].id;
  }
  return node.num_results() > 0 ? node.result(0)->name() : std::string(node.op().name);
}

// Past this no memory can hold a tensor, and sums of sizes stay far from the end of 64 bits.
static constexpr int64_t kMaxTensorBytes = int64_t{1} << 40;

Status CheckTensorSize(const Value &v) {
  const Type &type = v.type();
  if (!type.is_tensor() || !type.shape().is_static())
    return OkStatus();
  const auto n = CheckedNumElements(type.shape().static_dims());
  if (n && *n <= kMaxTensorBytes / std::max(ByteSize(type.dtype()), 1))
    return OkStatus();
  return Error("E0304",
               fmt::format("tensor '{}' {} of {} has more than {} bytes", v.name(), type.shape().ToString(),
                           Name(type.dtype()), kMaxTensorBytes),
               "correct the extent in the model, or give the true one with --dim or --input-shape");
}

Status InferNode(Node &node, DiagnosticEngine *warnings) {
  if (node.is_return())
    return OkStatus();
  Context ctx(node, warnings);
  if (Status s = node.op().infer(ctx); !s.ok())
    return AtNode(std::move(s), NodeId(node), node.op().name);
  for (unsigned i = 0; i < node.num_results(); ++i) {
    Value *v = node.result(i);
    bool clash = false;
    const Type inferred = Quantised(node, ctx.result_types()[i], v->type());
    Type merged = Merge(inferred, v->type(), &clash);
    if (clash && warnings) {
      Diagnostic d;
      d.severity = Severity::warning;
      d.node = NodeId(node);
      d.op = node.op().name;
      d.message = fmt::format("the model declares tensor '{}' as {}, but it is {}; the declaration is ignored",
                              v->name(), v->type().ToString(), inferred.ToString());
      warnings->Report(std::move(d));
    }
    v->set_type(std::move(merged));
    if (Status s = CheckTensorSize(*v); !s.ok())
      return AtNode(std::move(s), NodeId(node), node.op().name);
  }
  return OkStatus();
}

Status InferShapes(Graph &g, DiagnosticEngine *warnings) {
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    NPUC_RETURN_IF_ERROR(CheckTensorSize(*g.input(i)));
  for (Node &node : g.nodes())
    NPUC_RETURN_IF_ERROR(InferNode(node, warnings));
  return OkStatus();
}

} // namespace npuc
