// Type inference over a graph.
//
// Each node's infer() is asked once, in order, with a context that knows constants and shape values:
//   ConstantOf  a pure node whose operands are all known and small is evaluated with the operator's own evaluate(); Shape and
//               Size of a static tensor are constants. So Shape -> Gather -> Cast -> Mul -> Floor -> Concat comes out exactly.
//   DimsOf      the same with symbolic dims, for the integer operators that exporters use on shapes (list in ComputeDims).
// Not done here: folding of the graph itself (a pass), data-dependent shapes, equations between symbols ("N"/2*2 is unknown).
// Cost: one infer a node; each value's constant and dims are computed once.
#include "compiler/ir/type_inference.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

constexpr int64_t kMaxKnownElements = 1024;
constexpr int kMaxDepth = 2000;  // of the recursion along a chain of shape computations

using DimList = llvm::SmallVector<Dim, 4>;

class Context final : public InferContext {
 public:
  Context(Node& n, TypeInference& inference) : node_(n), inference_(inference) { results_.resize(n.num_results()); }
  const Node& node() const override { return node_; }
  const Tensor* constant(int i) const override {
    const Value* v = node_.operand(i);
    return v ? inference_.ConstantOf(v) : nullptr;
  }
  std::optional<DimList> dims(int i) const override {
    const Value* v = node_.operand(i);
    return v ? inference_.DimsOf(v) : std::nullopt;
  }
  Status InferBody(int body, llvm::ArrayRef<Type> inputs, std::vector<Type>* outputs) override {
    Graph& g = *node_.body(body);
    for (unsigned i = 0; i < g.num_inputs() && i < inputs.size(); ++i)
      if (!inputs[i].is_none()) g.input(i)->set_type(inputs[i]);
    TypeInference inner;  // the body's input types may differ from an earlier call's
    NPUC_RETURN_IF_ERROR(inner.InferGraph(g));
    outputs->clear();
    for (unsigned i = 0; i < g.num_outputs(); ++i) outputs->push_back(g.output(i)->type());
    return OkStatus();
  }

 private:
  Node& node_;
  TypeInference& inference_;
};

class FoldContext final : public EvalContext {
 public:
  FoldContext(const Node& n, std::vector<EvalValue> operands) : node_(n) {
    operands_ = std::move(operands);
    results_.resize(n.num_results());
  }
  const Node& node() const override { return node_; }
  StatusOr<std::vector<EvalValue>> RunBody(int, std::vector<EvalValue>) override {
    return absl::InternalError("no bodies here");
  }
  ThreadPool* threads() const override { return nullptr; }

 private:
  const Node& node_;
};

bool Small(llvm::ArrayRef<int64_t> dims) {
  auto n = CheckedNumElements(dims);
  return n && *n <= kMaxKnownElements;
}

bool IsShapeDType(DType t) { return t == DType::I64 || t == DType::I32; }

std::optional<DimList> FromTensor(const Tensor& t) {
  if (!IsShapeDType(t.dtype()) && t.dtype() != DType::Bool) return std::nullopt;
  if (t.rank() > 1 || t.num_elements() > kMaxKnownElements) return std::nullopt;
  DimList d;
  for (int64_t i = 0; i < t.num_elements(); ++i) d.push_back(Dim(t.AsInt(i)));
  return d;
}

// a op b on dims; unknown where it cannot be said.
Dim Arithmetic(std::string_view op, const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) {
    const int64_t x = a.value(), y = b.value();
    int64_t r = 0;
    if (op == "Add") return __builtin_add_overflow(x, y, &r) ? Dim::Unknown() : Dim(r);
    if (op == "Sub") return __builtin_sub_overflow(x, y, &r) ? Dim::Unknown() : Dim(r);
    if (op == "Mul") return __builtin_mul_overflow(x, y, &r) ? Dim::Unknown() : Dim(r);
    if (op == "Div") return y == 0 || y == -1 ? Dim::Unknown() : Dim(x / y);
    if (op == "Max") return Dim(std::max(x, y));
    if (op == "Min") return Dim(std::min(x, y));
    if (op == "Equal") return Dim(x == y);
    return Dim::Unknown();
  }
  auto is = [](const Dim& d, int64_t v) { return d.is_static() && d.value() == v; };
  if ((op == "Add" && is(b, 0)) || (op == "Sub" && is(b, 0)) || ((op == "Mul" || op == "Div") && is(b, 1))) return a;
  if ((op == "Add" && is(a, 0)) || (op == "Mul" && is(a, 1))) return b;
  if (op == "Mul" && (is(a, 0) || is(b, 0))) return Dim(0);
  if (op == "Equal" && ((a.is_static() && a.value() < 0) || (b.is_static() && b.value() < 0))) return Dim(0);  // a dim is >= 0
  if (op == "Equal" && a == b) return Dim(1);
  if ((op == "Max" || op == "Min") && a == b) return a;
  return Dim::Unknown();
}

}  // namespace

std::string NodeId(const Node& n) {
  const auto& table = n.graph()->module().onnx_nodes();
  if (!n.origin().empty() && n.origin()[0] < table.size()) return table[n.origin()[0]].id;
  return n.num_results() ? n.result()->name() : std::string(n.op().name);
}

Type RefineType(const Type& better, const Type& known) {
  if (better.is_none()) return known;
  if (!better.is_tensor() || !known.is_tensor()) return better;
  Type t = better;
  if (t.dtype() == DType::Undefined) t.set_dtype(known.dtype());
  if (!t.shape().ranked()) {
    t.set_shape(known.shape());
  } else if (known.shape().ranked() && known.shape().rank() == t.shape().rank()) {
    for (int i = 0; i < t.shape().rank(); ++i)
      if (!t.shape()[i].is_static() && (known.shape()[i].is_static() || t.shape()[i].symbol() == "?"))
        t.shape()[i] = known.shape()[i];
  }
  if (t.dtype() == known.dtype()) {
    if (!t.quant()) t.set_quant(known.quant());
    if (t.layout() == Layout::RowMajor) t.set_layout(known.layout());
  }
  return t;
}

Status TypeInference::InferNode(Node& n) {
  if (n.is_return()) return OkStatus();
  if (n.is_constant()) {
    if (const Tensor* t = n.result()->constant())
      n.result()->set_type(RefineType(Type::Tensor(t->dtype(), Shape::Of(t->dims())), n.result()->type()));
    return OkStatus();
  }
  if (!n.op().infer) return OkStatus();
  Context ctx(n, *this);
  if (Status s = n.op().infer(ctx); !s.ok()) return AtNode(s, NodeId(n), n.op().name);
  for (unsigned i = 0; i < n.num_results(); ++i)
    n.result(i)->set_type(RefineType(ctx.result_types()[i], n.result(i)->type()));
  return OkStatus();
}

Status TypeInference::InferGraph(Graph& g) {
  for (Node& n : g.nodes()) NPUC_RETURN_IF_ERROR(InferNode(n));
  return OkStatus();
}

const Tensor* TypeInference::ConstantOf(const Value* v) {
  if (const Tensor* t = v->constant()) return t;
  if (!v->def() || depth_ > kMaxDepth) return nullptr;
  auto it = constants_.find(v);
  if (it == constants_.end()) {
    ++depth_;
    auto computed = ComputeConstant(v);
    --depth_;
    it = constants_.emplace(v, std::move(computed)).first;
  }
  return it->second ? &*it->second : nullptr;
}

std::optional<Tensor> TypeInference::ComputeConstant(const Value* v) {
  const Node& n = *v->def();
  if (n.Is("Shape") || n.Is("Size")) {
    // The operand's shape says it all, whatever its elements.
    auto dims = DimsOf(v);
    if (!dims || !std::all_of(dims->begin(), dims->end(), [](const Dim& d) { return d.is_static(); })) return std::nullopt;
    llvm::SmallVector<int64_t, 4> values;
    for (const Dim& d : *dims) values.push_back(d.value());
    return n.Is("Size") ? Tensor::ScalarI64(values[0]) : Tensor::OfI64(values);
  }
  if (!n.op().has(kPure) || !n.op().evaluate || n.num_bodies() || n.num_operands() == 0) return std::nullopt;
  // Large results of small operands (ConstantOfShape, Expand, Tile) are not worked out.
  if (v->type().is_static_tensor() && !Small(v->type().shape().static_dims())) return std::nullopt;
  if (!v->type().is_static_tensor()) return std::nullopt;
  std::vector<EvalValue> operands;
  for (Value* o : n.operands()) {
    if (!o) {
      operands.emplace_back();
      continue;
    }
    if (o->type().is_quantized()) return std::nullopt;
    const Tensor* t = ConstantOf(o);
    if (!t || !Small(t->dims()) || t->dtype() == DType::F16 || t->dtype() == DType::BF16) return std::nullopt;
    operands.emplace_back(t->Expand());
  }
  FoldContext ctx(n, std::move(operands));
  if (!n.op().evaluate(ctx).ok()) return std::nullopt;
  const Tensor* t = ctx.results()[v->index()].tensor();
  if (!t || !Small(t->dims())) return std::nullopt;
  return *t;
}

std::optional<DimList> TypeInference::DimsOf(const Value* v) {
  if (const Tensor* t = v->constant()) return FromTensor(*t);
  if (!v->def() || depth_ > kMaxDepth) return std::nullopt;
  auto it = dims_.find(v);
  if (it == dims_.end()) {
    ++depth_;
    auto computed = ComputeDims(v);
    --depth_;
    it = dims_.emplace(v, std::move(computed)).first;
  }
  return it->second;
}

std::optional<DimList> TypeInference::ComputeDims(const Value* v) {
  const Node& n = *v->def();
  const std::string_view op = n.op().domain.empty() ? n.op().name : std::string_view();
  auto ints = [&](unsigned i) -> std::optional<llvm::SmallVector<int64_t, 4>> {
    if (!n.operand(i)) return std::nullopt;
    const Tensor* t = ConstantOf(n.operand(i));
    if (!t || !IsShapeDType(t->dtype()) || t->rank() > 1) return std::nullopt;
    llvm::SmallVector<int64_t, 4> out;
    for (int64_t k = 0; k < t->num_elements(); ++k) out.push_back(t->AsInt(k));
    return out;
  };
  if (op == "Shape" || op == "Size") {
    const Type& t = n.operand(0)->type();
    if (!t.is_tensor() || !t.shape().ranked()) return std::nullopt;
    if (op == "Size") {
      if (!t.shape().is_static()) return DimList{Dim::Unknown()};
      auto count = CheckedNumElements(t.shape().static_dims());
      return DimList{count ? Dim(*count) : Dim::Unknown()};
    }
    const int64_t rank = t.shape().rank();
    auto clamp = [&](int64_t x) { return std::clamp<int64_t>(x < 0 ? x + rank : x, 0, rank); };
    const int64_t begin = clamp(n.attrs().Int("start", 0)), end = clamp(n.attrs().Int("end", rank));
    DimList d;
    for (int64_t i = begin; i < end; ++i) d.push_back(t.shape()[i]);
    return d;
  }
  // Static values of any integer chain.
  if (const Tensor* t = ConstantOf(v)) return FromTensor(*t);
  if (n.num_operands() == 0 || !n.operand(0)) return std::nullopt;
  auto operand = [&](unsigned i) { return n.operand(i) ? DimsOf(n.operand(i)) : std::nullopt; };
  if (op == "Identity" || op == "Unsqueeze" || op == "Squeeze" || op == "Reshape" || op == "Flatten") {
    if (v->type().is_tensor() && v->type().shape().ranked() && v->type().shape().rank() > 1) return std::nullopt;
    return operand(0);
  }
  if (op == "Cast") {
    const auto to = static_cast<DType>(n.attrs().Int("to", 0));
    return IsShapeDType(to) || to == DType::Bool ? operand(0) : std::nullopt;
  }
  if (op == "Concat") {
    DimList all;
    for (unsigned i = 0; i < n.num_operands(); ++i) {
      auto d = operand(i);
      if (!d) return std::nullopt;
      all.append(d->begin(), d->end());
    }
    return all;
  }
  if (op == "Gather") {
    auto data = operand(0);
    auto index = ints(1);
    if (!data || !index || n.operand(0)->type().shape().rank() != 1) return std::nullopt;
    const int64_t size = static_cast<int64_t>(data->size());
    DimList d;
    for (int64_t i : *index) {
      if (i < 0) i += size;
      if (i < 0 || i >= size) return std::nullopt;
      d.push_back((*data)[i]);
    }
    return d;
  }
  if (op == "Slice") {
    auto data = operand(0);
    auto starts = ints(1), ends = ints(2);
    if (!data || !starts || !ends || starts->size() != 1 || ends->size() != 1) return std::nullopt;
    int64_t step = 1;
    if (n.operand(4)) {
      auto steps = ints(4);
      if (!steps || steps->size() != 1 || (*steps)[0] == 0) return std::nullopt;
      step = (*steps)[0];
    }
    const int64_t size = static_cast<int64_t>(data->size());
    int64_t b = (*starts)[0], e = (*ends)[0];
    if (b < 0) b += size;
    if (e < 0) e = e < -size ? -1 : e + size;
    DimList d;
    if (step > 0) {
      for (b = std::clamp<int64_t>(b, 0, size), e = std::min(e, size); b < e; b += std::min(step, size)) d.push_back((*data)[b]);
    } else {
      step = std::max(step, -size - 1);
      for (b = std::clamp<int64_t>(b, -1, size - 1), e = std::max<int64_t>(e, -1); b > e; b += step) d.push_back((*data)[b]);
    }
    return d;
  }
  if (op == "Split") {
    auto data = operand(0);
    if (!data) return std::nullopt;
    int64_t offset = 0, size = 0;
    if (auto sizes = ints(1)) {
      if (sizes->size() != n.num_results()) return std::nullopt;
      for (unsigned i = 0; i < v->index(); ++i) offset += (*sizes)[i];
      size = (*sizes)[v->index()];
    } else {
      const int64_t total = static_cast<int64_t>(data->size()), parts = n.num_results();
      const int64_t each = (total + parts - 1) / parts;
      offset = each * v->index();
      size = std::min(each, total - offset);
    }
    if (offset < 0 || size < 0 || offset + size > static_cast<int64_t>(data->size())) return std::nullopt;
    return DimList(data->begin() + offset, data->begin() + offset + size);
  }
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Equal" || ((op == "Max" || op == "Min") && n.num_operands() == 2)) {
    auto a = operand(0), b = operand(1);
    if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return std::nullopt;
    DimList d;
    for (size_t i = 0; i < (a->size() == 1 ? b->size() : a->size()); ++i)
      d.push_back(Arithmetic(op, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]));
    return d;
  }
  if (op == "Where") {
    auto c = operand(0), a = operand(1), b = operand(2);
    if (!c || !a || !b) return std::nullopt;
    const size_t size = std::max({c->size(), a->size(), b->size()});
    auto at = [&](const DimList& l, size_t i) -> std::optional<Dim> {
      if (l.size() == 1) return l[0];
      return l.size() == size ? std::optional<Dim>(l[i]) : std::nullopt;
    };
    DimList d;
    for (size_t i = 0; i < size; ++i) {
      auto ci = at(*c, i), ai = at(*a, i), bi = at(*b, i);
      if (!ci || !ai || !bi) return std::nullopt;
      d.push_back(!ci->is_static() ? (*ai == *bi ? *ai : Dim::Unknown()) : ci->value() ? *ai : *bi);
    }
    return d;
  }
  // The number of elements may still be known: as many unknown dims.
  const Type& t = v->type();
  if (t.is_static_tensor() && IsShapeDType(t.dtype()) && t.shape().rank() <= 1 && t.shape().num_elements() <= 64)
    return DimList(t.shape().num_elements(), Dim::Unknown());
  return std::nullopt;
}

}  // namespace npuc
