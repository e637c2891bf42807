// Recurrent layers of few, known steps become the operators that their equations are made of, so that the NPU can run
// them.
//
//   LSTM(%x: f32[T,B,I], w, r, b, h0, c0)   ->   one Gemm for all steps' inputs; then per step
//       g = Gemm(h, r) + gx[t]; i,o,f = Sigmoid(g[:3H]); c~ = Tanh(g[3H:]); c = f*c + i*c~; h = o * Tanh(c)
//   GRU: z,r = Sigmoid(...); h~ = Tanh(...), with the reset gate before or behind the recurrent product
//   (linear_before_reset); h = (1-z)*h~ + z*h RNN: h = Tanh(...)
//
// Equations and the orders of gates (iofc, zrh) are ONNX's. Absent initial states are zero, so the first step has no
// recurrent product. All made nodes have the layer's origin.
//
// Left alone: more than 128 steps over both directions, dynamic shapes, weights that aren't constants, sequence_lens
// that cut a sequence, peepholes, clip, activations but the default ones, batch-first layout, layers that the NPU runs
// as they are or targets without f16 (the host's kernel is better than its parts), bodies of control flow.
//
// Cost: linear in the steps.
#include "passes/common.h"

namespace npuc {
namespace {

constexpr int64_t kMaxSteps = 128;

struct Layer {
  enum Kind { Rnn, Gru, Lstm } kind;
  int64_t gates, steps, batch, inputs, hidden, directions;
  bool reverse_first = false, linear_before_reset = false;
};

bool HasDefaultActivations(const Node &n, llvm::ArrayRef<std::string_view> one_direction) {
  const auto given = n.attrs().StringList("activations");
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string_view want = one_direction[i % one_direction.size()];
    if (given[i].size() != want.size())
      return false;
    for (size_t k = 0; k < want.size(); ++k)
      if (std::tolower(given[i][k]) != std::tolower(want[k]))
        return false;
  }
  return true;
}

std::optional<Layer> Match(const Node &n) {
  Layer l;
  if (n.Is("LSTM")) {
    l.kind = Layer::Lstm;
    l.gates = 4;
  } else if (n.Is("GRU")) {
    l.kind = Layer::Gru;
    l.gates = 3;
  } else if (n.Is("RNN")) {
    l.kind = Layer::Rnn;
    l.gates = 1;
  } else {
    return std::nullopt;
  }
  const AttributeList &a = n.attrs();
  if (a.Int("layout", 0) != 0 || a.Float("clip", 0) != 0 || a.Int("input_forget", 0) != 0)
    return std::nullopt;
  const bool fine = l.kind == Layer::Lstm  ? HasDefaultActivations(n, {"Sigmoid", "Tanh", "Tanh"})
                    : l.kind == Layer::Gru ? HasDefaultActivations(n, {"Sigmoid", "Tanh"})
                                           : HasDefaultActivations(n, {"Tanh"});
  if (!fine || !a.Floats("activation_alpha").empty() || !a.Floats("activation_beta").empty())
    return std::nullopt;
  if (!HasStaticShape(n.operand(0)) || n.operand(0)->type().dtype() != DType::F32 ||
      n.operand(0)->type().shape().rank() != 3)
    return std::nullopt;
  const Dims x = StaticDims(n.operand(0));
  l.steps = x[0];
  l.batch = x[1];
  l.inputs = x[2];
  for (unsigned i : {1u, 2u})
    if (!n.operand(i) || !n.operand(i)->constant() || n.operand(i)->constant()->rank() != 3)
      return std::nullopt;
  if (n.operand(3) && !n.operand(3)->constant())
    return std::nullopt;
  const auto w = n.operand(1)->constant()->dims();
  l.directions = w[0];
  l.hidden = w[1] / l.gates;
  if (w[2] != l.inputs || l.hidden * l.gates != w[1])
    return std::nullopt;
  if (n.operand(4)) {
    const auto lens = MatchConstantInts(n.operand(4));
    if (!lens || llvm::any_of(*lens, [&](int64_t v) { return v != l.steps; }))
      return std::nullopt;
  }
  if (l.kind == Layer::Lstm && n.operand(7))
    return std::nullopt;
  for (unsigned i : {5u, 6u})
    if (n.operand(i) &&
        (l.kind != Layer::Lstm && i == 6 ? true
                                         : !HasStaticShape(n.operand(i)) || n.operand(i)->type().dtype() != DType::F32))
      return std::nullopt;
  const std::string_view direction = a.String("direction", "forward");
  if (l.directions != (direction == "bidirectional" ? 2 : 1))
    return std::nullopt;
  l.reverse_first = direction == "reverse";
  l.linear_before_reset = a.Int("linear_before_reset", 0) != 0;
  if (l.steps < 1 || l.batch < 1 || l.steps * l.directions > kMaxSteps)
    return std::nullopt;
  return l;
}

class Unroller {
public:
  Unroller(Node &n, const Layer &l) : n_(n), l_(l), rw_(&n) {}

  void Run() {
    const int64_t t = l_.steps, b = l_.batch, h = l_.hidden, d = l_.directions;
    Value *x = Reshape(n_.operand(0), {t * b, l_.inputs});
    llvm::SmallVector<Value *, 2> sequences, last_h, last_c;
    for (int64_t k = 0; k < d; ++k) {
      const bool reverse = k == 1 || l_.reverse_first;
      std::vector<Value *> states(t);
      Value *hidden = Initial(5, k), *cell = l_.kind == Layer::Lstm ? Initial(6, k) : nullptr;
      Prepare(k, x);
      for (int64_t s = 0; s < t; ++s) {
        const int64_t at = reverse ? t - 1 - s : s;
        Step(at, hidden, cell);
        states[at] = hidden;
      }
      if (n_.result(0)->has_uses())
        sequences.push_back(Reshape(t == 1 ? states[0] : Concat(states, 0), {t, 1, b, h}));
      last_h.push_back(Reshape(hidden, {1, b, h}));
      if (cell)
        last_c.push_back(Reshape(cell, {1, b, h}));
    }
    llvm::SmallVector<Value *, 3> with(n_.num_results(), nullptr);
    if (n_.result(0)->has_uses())
      with[0] = d == 1 ? sequences[0] : Concat({sequences[0], sequences[1]}, 1);
    if (n_.num_results() > 1 && n_.result(1)->has_uses())
      with[1] = d == 1 ? last_h[0] : Concat({last_h[0], last_h[1]}, 0);
    if (n_.num_results() > 2 && n_.result(2)->has_uses())
      with[2] = d == 1 ? last_c[0] : Concat({last_c[0], last_c[1]}, 0);
    rw_.ReplaceNode(&n_, with);
  }

private:
  Value *Make(std::string_view op, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<int64_t> dims,
              AttributeList attrs = {}) {
    return rw_.Create(op, operands, n_.origin(), {Type::Tensor(DType::F32, Shape::Of(dims))}, std::move(attrs))
        ->result();
  }
  Value *Reshape(Value *v, llvm::ArrayRef<int64_t> dims) {
    if (StaticDims(v) == Dims(dims.begin(), dims.end()))
      return v;
    return Make("Reshape", {v, rw_.Constant(Tensor::OfI64(dims))}, dims);
  }
  Value *Slice(Value *v, int axis, int64_t from, int64_t to) {
    Dims dims = StaticDims(v);
    if (from == 0 && to == dims[axis])
      return v;
    dims[axis] = to - from;
    auto ints = [&](int64_t i) { return rw_.Constant(Tensor::OfI64({i})); };
    return Make("Slice", {v, ints(from), ints(to), ints(axis), ints(1)}, dims);
  }
  Value *Concat(llvm::ArrayRef<Value *> parts, int64_t axis) {
    Dims dims = StaticDims(parts[0]);
    dims[axis] = 0;
    for (Value *p : parts)
      dims[axis] += StaticDims(p)[axis];
    AttributeList attrs;
    attrs.Set("axis", axis);
    return Make("Concat", parts, dims, std::move(attrs));
  }
  Value *Gemm(Value *x, Value *w, Value *bias) {
    AttributeList attrs;
    attrs.Set("transB", int64_t{1});
    return Make("Gemm", {x, w, bias}, {StaticDims(x)[0], w->constant()->dims()[0]}, std::move(attrs));
  }
  Value *Unary(std::string_view op, Value *x) { return Make(op, {x}, StaticDims(x)); }
  Value *Binary(std::string_view op, Value *x, Value *y) { return Make(op, {x, y}, StaticDims(x)); }

  // Rows [from, to) of direction k of a [D, rows, ...] constant, as [rows, cols].
  Value *Rows(const Tensor &t, int64_t k, int64_t from, int64_t to, std::string_view name) {
    const int64_t cols = t.dims()[2], rows = t.dims()[1];
    Tensor part = Tensor::Allocate(DType::F32, {to - from, cols});
    const Tensor all = t.Expand();
    std::memcpy(part.mutable_bytes(), all.data<float>() + (k * rows + from) * cols, (to - from) * cols * sizeof(float));
    return rw_.Constant(std::move(part), fmt::format("{}_{}", name, k));
  }
  float Bias(int64_t k, bool recurrent, int64_t i) const {
    if (!n_.operand(3))
      return 0;
    const int64_t rows = l_.gates * l_.hidden;
    return static_cast<float>(n_.operand(3)->constant()->AsDouble(k * 2 * rows + (recurrent ? rows : 0) + i));
  }
  Value *Initial(unsigned operand, int64_t k) {
    Value *v = n_.operand(operand);
    if (!v || IsConstantOf(v, 0))
      return nullptr; // zero
    return Reshape(Slice(v, 0, k, k + 1), {l_.batch, l_.hidden});
  }

  // Input products of all steps, with whatever bias may be added at once.
  void Prepare(int64_t k, Value *x) {
    const int64_t rows = l_.gates * l_.hidden, h = l_.hidden;
    const std::string &name = n_.result(0)->name();
    std::vector<float> bias(rows), late(h);
    for (int64_t i = 0; i < rows; ++i) {
      bias[i] = Bias(k, false, i);
      if (l_.kind == Layer::Gru && l_.linear_before_reset && i >= 2 * h)
        late[i - 2 * h] = Bias(k, true, i);
      else
        bias[i] += Bias(k, true, i);
    }
    const Tensor &w = *n_.operand(1)->constant(), &r = *n_.operand(2)->constant();
    product_ = Gemm(x, Rows(w, k, 0, rows, name + "_w"),
                    rw_.Constant(Tensor::Of<float>(DType::F32, {rows}, bias), fmt::format("{}_b_{}", name, k)));
    if (l_.kind == Layer::Gru) {
      recurrent_ = Rows(r, k, 0, 2 * h, name + "_r_zr");
      recurrent_h_ = Rows(r, k, 2 * h, 3 * h, name + "_r_h");
      late_bias_ = l_.linear_before_reset
                       ? rw_.Constant(Tensor::Of<float>(DType::F32, {h}, late), fmt::format("{}_rb_{}", name, k))
                       : nullptr;
    } else {
      recurrent_ = Rows(r, k, 0, rows, name + "_r");
    }
  }

  void Step(int64_t t, Value *&hidden, Value *&cell) {
    const int64_t h = l_.hidden, b = l_.batch;
    Value *const gx = Slice(product_, 0, t * b, (t + 1) * b);
    if (l_.kind == Layer::Rnn) {
      hidden = Unary("Tanh", hidden ? Binary("Add", Gemm(hidden, recurrent_, nullptr), gx) : gx);
    } else if (l_.kind == Layer::Lstm) {
      Value *g = hidden ? Binary("Add", Gemm(hidden, recurrent_, nullptr), gx) : gx;
      Value *iof = Unary("Sigmoid", Slice(g, 1, 0, 3 * h));
      Value *candidate = Unary("Tanh", Slice(g, 1, 3 * h, 4 * h));
      Value *fresh = Binary("Mul", Slice(iof, 1, 0, h), candidate);
      cell = cell ? Binary("Add", Binary("Mul", Slice(iof, 1, 2 * h, 3 * h), cell), fresh) : fresh;
      hidden = Binary("Mul", Slice(iof, 1, h, 2 * h), Unary("Tanh", cell));
    } else {
      Value *gzr = Slice(gx, 1, 0, 2 * h);
      Value *zr = Unary("Sigmoid", hidden ? Binary("Add", Gemm(hidden, recurrent_, nullptr), gzr) : gzr);
      Value *z = Slice(zr, 1, 0, h), *r = Slice(zr, 1, h, 2 * h), *gh = Slice(gx, 1, 2 * h, 3 * h);
      Value *candidate;
      if (l_.linear_before_reset) {
        Value *inner = hidden ? Gemm(hidden, recurrent_h_, late_bias_) : late_bias_;
        candidate = Unary("Tanh", Binary("Add", Binary("Mul", r, inner), gh));
      } else {
        candidate =
            Unary("Tanh", hidden ? Binary("Add", Gemm(Binary("Mul", r, hidden), recurrent_h_, nullptr), gh) : gh);
      }
      // (1-z)*c + z*h = c + z*(h - c)
      if (hidden) {
        hidden = Binary("Add", Binary("Mul", z, Binary("Sub", hidden, candidate)), candidate);
      } else {
        hidden = Binary("Sub", candidate, Binary("Mul", z, candidate));
      }
    }
  }

  Node &n_;
  const Layer &l_;
  Rewriter rw_;
  Value *product_ = nullptr, *recurrent_ = nullptr, *recurrent_h_ = nullptr, *late_bias_ = nullptr;
};

} // namespace

StatusOr<bool> UnrollRecurrent(Module &m, PassContext &ctx) {
  if (!ctx.npu || !ctx.target.HasFloat())
    return false;
  bool changed = false;
  for (Node &n : m.main().nodes_early_inc()) {
    const auto layer = Match(n);
    if (!layer || DeniedBy(n, ctx) || ctx.npu->Find(n.op()) || !ctx.npu->Find(*LookupOp("", "Gemm")))
      continue;
    Unroller(n, *layer).Run();
    ctx.Count("fuse: unroll-recurrent");
    changed = true;
  }
  return changed;
}

} // namespace npuc
