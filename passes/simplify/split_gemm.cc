// Gemm = alpha * A' * B' + beta * C becomes what the NPU's matrix product is: rows of A as they lie, B a constant, C a
// constant row.
//
//   Gemm(A, B) {transA}                  ->  Gemm(Transpose(A), B)
//   Gemm(A, B, C), B computed            ->  Add(MatMul(A, B or Transpose(B)) * alpha, beta * C)
//   Gemm(A, const B, C), C a matrix, a column or computed  ->  Add(Gemm(A, B), beta * C)
//   Gemm(A: dequantised, B) {alpha}      ->  Mul(Gemm(A, B), alpha)
//
// With beta = 0 there is no C, as ONNX has it. Left alone: Gemms that are such products already, ranks other than 2.
// Cost: one sweep.
#include "passes/common.h"

namespace npuc {
namespace {

// A constant, or a constant behind its Dequantize.
bool IsWeight(const Value *v) {
  const Node *d = DefinedBy(v, "Dequantize", "npuc");
  return (d ? d->operand(0) : v)->constant() != nullptr;
}

class Splitter {
public:
  bool Run(Graph &g) {
    for (Node &n : g.nodes_early_inc()) {
      for (unsigned i = 0; i < n.num_bodies(); ++i)
        Run(*n.body(i));
      if (n.Is("Gemm") && n.result()->has_uses())
        Split(n);
    }
    return changed_;
  }

private:
  static bool IsMatrix(const Value *v) {
    return HasStaticShape(v) && v->type().shape().rank() == 2 && !v->type().is_quantized();
  }
  static Value *Transposed(Rewriter &rw, Value *v, const Origin &origin) {
    AttributeList perm;
    perm.Set("perm", std::vector<int64_t>{1, 0});
    Type t = v->type();
    t.set_shape(Shape::Of({StaticDims(v)[1], StaticDims(v)[0]}));
    return rw.Create("Transpose", {v}, origin, {t}, std::move(perm))->result();
  }
  static Value *Scaled(Rewriter &rw, Value *v, float by, const Origin &origin) {
    if (by == 1)
      return v;
    Tensor factor = Tensor::ScalarF32(by);
    if (v->type().dtype() != DType::F32)
      return nullptr;
    return rw.Create("Mul", {v, rw.Constant(std::move(factor))}, origin, {v->type()})->result();
  }

  void Split(Node &n) {
    Value *a = n.operand(0), *b = n.operand(1), *c = n.operand(2);
    const float alpha = n.attrs().Float("alpha", 1), beta = n.attrs().Float("beta", 1);
    const bool trans_a = n.attrs().Int("transA", 0) != 0, trans_b = n.attrs().Int("transB", 0) != 0;
    if (!IsMatrix(a) || !IsMatrix(b) || !HasStaticShape(n.result()) || (c && !HasStaticShape(c)))
      return;
    if (c && beta == 0)
      c = nullptr;
    const Type type = n.result()->type();
    const bool other_float = type.dtype() != DType::F32;
    const int64_t columns = type.shape()[1].value();
    const bool weight = IsWeight(b), row = !c || IsRow(c, columns);
    const bool integers = DefinedBy(a, "Dequantize", "npuc") && DefinedBy(b, "Dequantize", "npuc");
    const bool scaled = integers && (alpha != 1 || (c && beta != 1));
    if (weight && row && !trans_a && !scaled)
      return;
    if (other_float && (alpha != 1 || beta != 1))
      return;
    changed_ = true;
    Rewriter rw(&n);
    const Origin &origin = n.origin();
    if (trans_a)
      a = Transposed(rw, a, origin);
    Value *y;
    if (weight) {
      AttributeList attrs;
      if (trans_b)
        attrs.Set("transB", int64_t{1});
      llvm::SmallVector<Value *, 3> operands{a, b};
      if (row && !scaled) {
        attrs.Set("alpha", alpha);
        if (c)
          attrs.Set("beta", beta);
        operands.push_back(c);
        c = nullptr;
      } else if (!scaled) {
        attrs.Set("alpha", alpha);
      }
      y = rw.Create(&n.op(), operands, origin, {type}, std::move(attrs))->result();
      if (scaled)
        y = Scaled(rw, y, alpha, origin);
    } else {
      y = rw.Create("MatMul", {a, trans_b ? Transposed(rw, b, origin) : b}, origin, {type})->result();
      y = Scaled(rw, y, alpha, origin);
    }
    if (c)
      y = rw.Create("Add", {y, Scaled(rw, c, beta, origin)}, origin, {type})->result();
    rw.ReplaceNode(&n, {y});
  }

  // One value a column, or one for all.
  static bool IsRow(const Value *c, int64_t columns) {
    if (!IsWeight(c))
      return false;
    const Shape &s = c->type().shape();
    return s.num_elements() == 1 || (s.num_elements() == columns && s[s.rank() - 1].value() == columns);
  }

  bool changed_ = false;
};

} // namespace

StatusOr<bool> SplitGemm(Module &m, PassContext &) {
  return Splitter().Run(m.main());
}

} // namespace npuc
