// Shape data: integer vectors that describe shapes, followed symbolically through the operators that exporters use to
// compute them (Shape -> Gather/Slice -> arithmetic -> Concat -> Reshape). Pure look-back from a value; each call
// memoises, so a DAG of k nodes costs O(k). Leaves alone anything of rank above 1 or longer than 64.
#include <map>

#include "compiler/ops/infer.h"
#include "compiler/ops/op_helpers.h"

namespace npuc {
namespace {

using Data = std::optional<llvm::SmallVector<Dim, 4>>;
constexpr size_t kMaxElements = 64;
constexpr int kMaxDepth = 200;

Dim Arith(std::string_view op, const Dim &a, const Dim &b) {
  if (a.is_static() && b.is_static()) {
    const int64_t x = a.value(), y = b.value();
    int64_t r = 0;
    bool overflow = false;
    if (op == "Add")
      overflow = __builtin_add_overflow(x, y, &r);
    else if (op == "Sub")
      overflow = __builtin_sub_overflow(x, y, &r);
    else if (op == "Mul")
      overflow = __builtin_mul_overflow(x, y, &r);
    else if (op == "Div") {
      if (y == 0 || (y == -1 && x == INT64_MIN))
        return Dim::Unknown();
      r = x / y;
    } else if (op == "Mod") {
      if (y == 0 || y == -1)
        return y == 0 ? Dim::Unknown() : Dim(0);
      r = x % y;
      if (r != 0 && (r < 0) != (y < 0))
        r += y;
    } else if (op == "Min")
      r = std::min(x, y);
    else if (op == "Max")
      r = std::max(x, y);
    else if (op == "Equal")
      r = x == y;
    else if (op == "Less")
      r = x < y;
    else if (op == "Greater")
      r = x > y;
    else
      return Dim::Unknown();
    return overflow ? Dim::Unknown() : Dim(r);
  }
  if ((op == "Mul" || op == "Div") && b.is_static() && b.value() == 1)
    return a;
  if (op == "Mul" && a.is_static() && a.value() == 1)
    return b;
  if (op == "Mul" && ((a.is_static() && a.value() == 0) || (b.is_static() && b.value() == 0)))
    return Dim(0);
  if ((op == "Add" || op == "Sub") && b.is_static() && b.value() == 0)
    return a;
  if (op == "Add" && a.is_static() && a.value() == 0)
    return b;
  if ((op == "Min" || op == "Max") && a == b)
    return a;
  if (op == "Sub" && a == b)
    return Dim(0);
  // An extent is never negative, so Equal(dim, -1) is known to be false.
  if (op == "Equal" && ((a.is_static() && a.value() < 0) || (b.is_static() && b.value() < 0)))
    return Dim(0);
  return Dim::Unknown();
}

class Walker {
public:
  Data Get(const Value *v, int depth) {
    if (!v || depth > kMaxDepth)
      return std::nullopt;
    if (auto it = memo_.find(v); it != memo_.end())
      return it->second;
    Data d = Compute(v, depth);
    if (d && d->size() > kMaxElements)
      d = std::nullopt;
    memo_[v] = d;
    return d;
  }

private:
  static Data FromTensor(const Tensor &t) {
    if (t.rank() > 1 || t.num_elements() > static_cast<int64_t>(kMaxElements) ||
        (!IsInt(t.dtype()) && t.dtype() != DType::Bool))
      return std::nullopt;
    llvm::SmallVector<Dim, 4> out;
    for (int64_t i = 0; i < t.num_elements(); ++i)
      out.push_back(Dim(t.AsInt(i)));
    return out;
  }

  // The elements of a value whose number alone is known: all unknown.
  static Data Unknowns(const Value *v) {
    const Type &t = v->type();
    if (!t.is_static_tensor() || t.shape().rank() > 1 || !IsInt(t.dtype()) ||
        t.shape().num_elements() > static_cast<int64_t>(kMaxElements))
      return std::nullopt;
    return llvm::SmallVector<Dim, 4>(t.shape().num_elements(), Dim::Unknown());
  }

  Data Compute(const Value *v, int depth) {
    if (const Tensor *t = v->constant())
      return FromTensor(*t);
    const Node *n = v->def();
    if (n && n->op().domain.empty())
      if (Data d = FromNode(*n, v, depth + 1))
        return d;
    return Unknowns(v);
  }

  static int RankOf(const Value *v) {
    if (const Tensor *t = v->constant())
      return t->rank();
    return v->type().is_tensor() && v->type().shape().ranked() ? v->type().shape().rank() : -1;
  }

  Data FromNode(const Node &n, const Value *v, int depth) {
    const std::string_view op = n.op().name;
    const auto &attrs = n.attrs();
    if (v->index() != 0)
      return std::nullopt;
    if (op == "Shape" || op == "Size") {
      const Type &t = n.operand(0)->type();
      if (!t.is_tensor() || !t.shape().ranked())
        return std::nullopt;
      const int64_t rank = t.shape().rank();
      if (op == "Size") {
        Dim product(1);
        for (const Dim &d : t.shape().dims())
          product = Arith("Mul", product, d);
        return llvm::SmallVector<Dim, 4>{product};
      }
      auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
      const int64_t start = clamp(attrs.Int("start", 0)), end = clamp(attrs.Int("end", rank));
      llvm::SmallVector<Dim, 4> out;
      for (int64_t i = start; i < end; ++i)
        out.push_back(t.shape()[static_cast<int>(i)]);
      return out;
    }
    if (op == "Identity" || op == "Cast" || op == "Unsqueeze" || op == "Squeeze" || op == "Reshape") {
      if (op == "Cast" && (!v->type().is_tensor() || !(IsInt(v->type().dtype()) || v->type().dtype() == DType::Bool)))
        return std::nullopt;
      if ((op == "Unsqueeze" || op == "Reshape") && RankOf(v) > 1)
        return std::nullopt;
      return Get(n.operand(0), depth);
    }
    if (op == "Gather") {
      if (attrs.Int("axis", 0) != 0 && attrs.Int("axis", 0) != -1)
        return std::nullopt;
      if (RankOf(n.operand(0)) != 1 || RankOf(n.operand(1)) > 1)
        return std::nullopt;
      Data data = Get(n.operand(0), depth), index = Get(n.operand(1), depth);
      if (!data || !index)
        return std::nullopt;
      llvm::SmallVector<Dim, 4> out;
      const int64_t size = data->size();
      for (const Dim &d : *index) {
        if (!d.is_static()) {
          out.push_back(Dim::Unknown());
          continue;
        }
        const int64_t i = d.value() < 0 ? d.value() + size : d.value();
        if (i < 0 || i >= size)
          return std::nullopt;
        out.push_back((*data)[i]);
      }
      return out;
    }
    if (op == "Concat") {
      llvm::SmallVector<Dim, 4> out;
      for (const Value *o : n.operands()) {
        if (RankOf(o) > 1)
          return std::nullopt;
        Data d = Get(o, depth);
        if (!d)
          return std::nullopt;
        out.append(d->begin(), d->end());
      }
      return out;
    }
    if (op == "Slice") {
      if (RankOf(n.operand(0)) != 1)
        return std::nullopt;
      Data data = Get(n.operand(0), depth);
      auto scalar = [&](unsigned i, int64_t otherwise) -> std::optional<int64_t> {
        if (!n.operand(i))
          return otherwise;
        Data d = Get(n.operand(i), depth);
        if (!d || d->size() != 1 || !(*d)[0].is_static())
          return std::nullopt;
        return (*d)[0].value();
      };
      const auto start = scalar(1, 0), end = scalar(2, 0), step = scalar(4, 1);
      if (!data || !start || !end || !step || *step == 0)
        return std::nullopt;
      const int64_t size = data->size();
      auto wrap = [&](int64_t i) { return i < 0 ? i + size : i; };
      llvm::SmallVector<Dim, 4> out;
      if (*step > 0) {
        const int64_t e = std::clamp<int64_t>(wrap(*end), 0, size);
        for (int64_t i = std::clamp<int64_t>(wrap(*start), 0, size); i < e; i += std::min(*step, size + 1))
          out.push_back((*data)[i]);
      } else {
        const int64_t e = std::clamp<int64_t>(wrap(*end), -1, size - 1);
        for (int64_t i = std::clamp<int64_t>(wrap(*start), -1, size - 1); i > e; i += std::max(*step, -size - 1))
          out.push_back((*data)[i]);
      }
      return out;
    }
    if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Mod" || op == "Min" || op == "Max" ||
        op == "Equal" || op == "Less" || op == "Greater") {
      if (op == "Mod" && attrs.Int("fmod", 0) != 0)
        return std::nullopt;
      if (n.num_operands() != 2)
        return n.num_operands() == 1 ? Get(n.operand(0), depth) : std::nullopt;
      if (RankOf(v) > 1)
        return std::nullopt;
      Data a = Get(n.operand(0), depth), b = Get(n.operand(1), depth);
      if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1))
        return std::nullopt;
      llvm::SmallVector<Dim, 4> out;
      const size_t size = a->size() == 1 ? b->size() : a->size();
      for (size_t i = 0; i < size; ++i)
        out.push_back(Arith(op, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]));
      return out;
    }
    if (op == "Neg") {
      Data a = Get(n.operand(0), depth);
      if (a)
        for (Dim &d : *a)
          d = Arith("Sub", Dim(0), d);
      return a;
    }
    if (op == "Where") {
      if (RankOf(v) > 1)
        return std::nullopt;
      Data c = Get(n.operand(0), depth), a = Get(n.operand(1), depth), b = Get(n.operand(2), depth);
      if (!c || !a || !b)
        return std::nullopt;
      const size_t size = std::max({c->size(), a->size(), b->size()});
      llvm::SmallVector<Dim, 4> out;
      for (size_t i = 0; i < size; ++i) {
        auto at = [&](const Data &d) {
          return d->size() == size ? (*d)[i] : d->size() == 1 ? (*d)[0] : Dim::Unknown();
        };
        const Dim cond = at(c);
        out.push_back(!cond.is_static() ? (at(a) == at(b) ? at(a) : Dim::Unknown()) : cond.value() ? at(a) : at(b));
      }
      return out;
    }
    if (op == "ConstantOfShape" || op == "Expand") {
      const Type &t = v->type();
      if (!t.is_static_tensor() || t.shape().rank() > 1 ||
          t.shape().num_elements() > static_cast<int64_t>(kMaxElements))
        return std::nullopt;
      Dim fill(0);
      if (op == "Expand") {
        Data a = Get(n.operand(0), depth);
        if (!a)
          return std::nullopt;
        if (a->size() != 1)
          return static_cast<int64_t>(a->size()) == t.shape().num_elements() ? a : std::nullopt;
        fill = (*a)[0];
      } else if (const Tensor *value = attrs.TensorOrNull("value")) {
        if (!IsInt(value->dtype()))
          return std::nullopt;
        fill = Dim(value->AsInt(0));
      } else {
        return std::nullopt; // the default is a float
      }
      return llvm::SmallVector<Dim, 4>(t.shape().num_elements(), fill);
    }
    if (op == "Range") {
      Data a = Get(n.operand(0), depth), b = Get(n.operand(1), depth), s = Get(n.operand(2), depth);
      if (!a || !b || !s || a->size() != 1 || b->size() != 1 || s->size() != 1 || !(*a)[0].is_static() ||
          !(*b)[0].is_static() || !(*s)[0].is_static())
        return std::nullopt;
      const int64_t step = (*s)[0].value(), end = (*b)[0].value();
      llvm::SmallVector<Dim, 4> out;
      if (step == 0)
        return std::nullopt;
      for (int64_t i = (*a)[0].value(); (step > 0 ? i < end : i > end) && out.size() <= kMaxElements; i += step)
        out.push_back(Dim(i));
      return out;
    }
    if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin") {
      if (RankOf(n.operand(0)) != 1 || (attrs.Int("noop_with_empty_axes", 0) != 0 && !n.operand(1)))
        return std::nullopt;
      Data a = Get(n.operand(0), depth);
      if (!a || a->empty())
        return std::nullopt;
      Dim acc = (*a)[0];
      const std::string_view fold = op == "ReduceProd"  ? "Mul"
                                    : op == "ReduceSum" ? "Add"
                                    : op == "ReduceMax" ? "Max"
                                                        : "Min";
      for (size_t i = 1; i < a->size(); ++i)
        acc = Arith(fold, acc, (*a)[i]);
      return llvm::SmallVector<Dim, 4>{acc};
    }
    return std::nullopt;
  }

  std::map<const Value *, Data> memo_; // looked up only, never iterated
};

} // namespace

std::optional<llvm::SmallVector<Dim, 4>> ShapeData(const Value *value) {
  return Walker().Get(value, 0);
}

} // namespace npuc
