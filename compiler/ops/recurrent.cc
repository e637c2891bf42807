// RNN, GRU, LSTM.
//
// One walk over time a direction: gates = X W^T (all steps at once) + H R^T (step by step) + biases, then the cell's
// own equations (ONNX's, in its gate order: GRU z r h, LSTM i o f c). Batch elements whose sequence has ended keep
// their state and output zeros; the reverse direction starts at each sequence's own end. layout 1 (batch first) is
// transposed on the way in and out. F64 runs in double, but activations are float functions.
#include "compiler/ops/activation.h"
#include "compiler/ops/kernels.h"
#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

struct Cell {
  int gates;       // rows of W per hidden unit
  int activations; // per direction
  std::array<const char *, 3> defaults;
};
constexpr Cell kRnn{1, 1, {"Tanh", "", ""}};
constexpr Cell kGru{3, 2, {"Sigmoid", "Tanh", ""}};
constexpr Cell kLstm{4, 3, {"Sigmoid", "Tanh", "Tanh"}};

const Cell &CellOf(const Node &n) {
  return n.Is("RNN") ? kRnn : n.Is("GRU") ? kGru : kLstm;
}

int Directions(const AttributeList &attrs) {
  return attrs.String("direction", "forward") == "bidirectional" ? 2 : 1;
}

// alpha and beta lists serve the activations that have such a parameter, in order.
StatusOr<std::vector<Activation>> Activations(const Cell &cell, const AttributeList &attrs) {
  const int count = cell.activations * Directions(attrs);
  const auto names = attrs.StringList("activations");
  const auto alphas = attrs.Floats("activation_alpha"), betas = attrs.Floats("activation_beta");
  if (!names.empty() && static_cast<int>(names.size()) != count)
    return AttrError(fmt::format("{} activations, not {}", names.size(), count));
  size_t a = 0, b = 0;
  std::vector<Activation> list;
  for (int i = 0; i < count; ++i) {
    std::string name = names.empty() ? cell.defaults[i % cell.activations] : names[i];
    std::string lower;
    for (char c : name)
      lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool two = lower == "affine" || lower == "scaledtanh" || lower == "hardsigmoid";
    const bool one = two || lower == "leakyrelu" || lower == "thresholdedrelu" || lower == "elu";
    std::optional<float> alpha, beta;
    if (one && a < alphas.size())
      alpha = alphas[a++];
    if (two && b < betas.size())
      beta = betas[b++];
    NPUC_ASSIGN_OR_RETURN(Activation act, ParseActivation(name, alpha, beta));
    list.push_back(act);
  }
  return list;
}

Status VerifyRecurrent(const Node &n) {
  const std::string_view d = n.attrs().String("direction", "forward");
  if (d != "forward" && d != "reverse" && d != "bidirectional")
    return AttrError(fmt::format("direction is '{}'", d), "forward, reverse or bidirectional");
  if (const int64_t l = n.attrs().Int("layout", 0); l != 0 && l != 1)
    return AttrError(fmt::format("layout is {}", l));
  return Activations(CellOf(n), n.attrs()).status();
}

Status InferRecurrent(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 3, 3));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 3, 3));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 2, 3, 3));
  const Shape x = ShapeOf(ctx, 0), r = ShapeOf(ctx, 2);
  const bool batch_first = ctx.attrs().Int("layout", 0) == 1;
  const Dim seq = x.ranked() ? x[batch_first ? 1 : 0] : Dim::Unknown(),
            batch = x.ranked() ? x[batch_first ? 0 : 1] : Dim::Unknown();
  const Dim hidden = ctx.attrs().Has("hidden_size") ? Dim(ctx.attrs().Int("hidden_size", 0))
                     : r.ranked()                   ? r[2]
                                                    : Dim::Unknown();
  if (r.ranked() && r[2].is_static() && hidden.is_static() && !(r[2] == hidden))
    return ShapeError(fmt::format("hidden_size {} with recurrence weights {}", hidden.value(), r.ToString()));
  const Dim dirs(Directions(ctx.attrs()));
  const DType t = DTypeOfOperand(ctx, 0);
  SetTensor(ctx, 0, t, batch_first ? Shape({batch, seq, dirs, hidden}) : Shape({seq, dirs, batch, hidden}));
  for (int i = 1; i < ctx.num_results(); ++i)
    SetTensor(ctx, i, t, batch_first ? Shape({batch, dirs, hidden}) : Shape({dirs, batch, hidden}));
  return OkStatus();
}

StatusOr<Tensor> SwapFirstTwo(const Tensor &x) {
  Dims dims(x.dims()), strides = RowMajorStrides(x.dims());
  std::swap(dims[0], dims[1]);
  std::swap(strides[0], strides[1]);
  return Materialize(x, dims, strides);
}

template <class T> void Gemm(int64_t m, int64_t n, int64_t k, const T *a, const T *b_rows, T *c, ThreadPool *pool) {
  // c[m][n] += a[m][k] * b_rows[n][k]
  GemmShape s;
  s.m = m, s.n = n, s.k = k, s.a_m = k, s.a_k = 1, s.b_k = 1, s.b_n = k;
  if constexpr (std::is_same_v<T, float>)
    GemmF32(s, a, b_rows, c, pool);
  else
    GemmF64(s, a, b_rows, c, pool);
}

template <class T> Status Run(EvalContext &ctx, const Cell &cell) {
  const AttributeList &attrs = ctx.attrs();
  const bool batch_first = attrs.Int("layout", 0) == 1, lstm = cell.gates == 4, gru = cell.gates == 3;
  const int dirs = Directions(attrs), gates = cell.gates;
  auto optional = [&](int i) { return ctx.has_operand(i) ? &ctx.operand(i) : nullptr; };
  Tensor x = ctx.operand(0);
  const Tensor &w = ctx.operand(1), &r = ctx.operand(2);
  const Tensor *bias = optional(3), *lengths = optional(4), *peephole = optional(7);
  Tensor h0 = optional(5) ? *optional(5) : Tensor(), c0 = lstm && optional(6) ? *optional(6) : Tensor();
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3)
    return ShapeError(fmt::format("X {}, W {}, R {}", ToString(x.dims()), ToString(w.dims()), ToString(r.dims())));
  if (batch_first) {
    NPUC_ASSIGN_OR_RETURN(x, SwapFirstTwo(x));
    if (h0) {
      NPUC_ASSIGN_OR_RETURN(h0, SwapFirstTwo(h0));
    }
    if (c0) {
      NPUC_ASSIGN_OR_RETURN(c0, SwapFirstTwo(c0));
    }
  }
  const int64_t seq = x.dims()[0], batch = x.dims()[1], in = x.dims()[2], hidden = r.dims()[2], rows = gates * hidden;
  auto expect = [](const Tensor *t, llvm::ArrayRef<int64_t> dims, std::string_view what) -> Status {
    if (t && *t && t->dims() != dims)
      return ShapeError(fmt::format("{} is {}, not {}", what, ToString(t->dims()), ToString(dims)));
    return OkStatus();
  };
  NPUC_RETURN_IF_ERROR(expect(&w, {dirs, rows, in}, "W"));
  NPUC_RETURN_IF_ERROR(expect(&r, {dirs, rows, hidden}, "R"));
  NPUC_RETURN_IF_ERROR(expect(bias, {dirs, 2 * rows}, "B"));
  NPUC_RETURN_IF_ERROR(expect(lengths, {batch}, "sequence_lens"));
  NPUC_RETURN_IF_ERROR(expect(&h0, {dirs, batch, hidden}, "initial_h"));
  NPUC_RETURN_IF_ERROR(expect(&c0, {dirs, batch, hidden}, "initial_c"));
  if (lstm)
    NPUC_RETURN_IF_ERROR(expect(peephole, {dirs, 3 * hidden}, "P"));
  NPUC_ASSIGN_OR_RETURN(auto acts, Activations(cell, attrs));
  const T clip = attrs.Has("clip") ? static_cast<T>(attrs.Float("clip", 0)) : std::numeric_limits<T>::infinity();
  const bool reset_after = attrs.Int("linear_before_reset", 0) != 0, coupled = attrs.Int("input_forget", 0) != 0;
  std::vector<int64_t> length(batch, seq);
  for (int64_t b = 0; lengths && b < batch; ++b) {
    length[b] = lengths->AsInt(b);
    if (length[b] < 0 || length[b] > seq)
      return Error("E0703", fmt::format("a sequence length is {}, the input has {} steps", length[b], seq));
  }
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), {seq, dirs, batch, hidden}));
  Tensor y_h = Tensor::Allocate(x.dtype(), {dirs, batch, hidden}),
         y_c = Tensor::Allocate(x.dtype(), {dirs, batch, hidden});
  auto act = [&](int d, int i, T v) { return static_cast<T>(acts[d * cell.activations + i](static_cast<float>(v))); };
  auto clamp = [&](T v) { return v > clip ? clip : v < -clip ? -clip : v; };

  for (int d = 0; d < dirs; ++d) {
    const bool reverse = d == 1 || attrs.String("direction", "forward") == "reverse";
    const T *wd = w.data<T>() + d * rows * in;
    const T *rd = r.data<T>() + d * rows * hidden;
    const T *bd = bias ? bias->data<T>() + d * 2 * rows : nullptr;
    const T *pd = peephole && lstm ? peephole->data<T>() + d * 3 * hidden : nullptr;
    // Input part of all steps, W's bias (and R's, but for the gate that GRU resets after) first.
    std::vector<T> gx(seq * batch * rows, T{0});
    for (int64_t i = 0; bd && i < seq * batch; ++i)
      for (int64_t k = 0; k < rows; ++k)
        gx[i * rows + k] = bd[k] + (gru && reset_after && k >= 2 * hidden ? T{0} : bd[rows + k]);
    Gemm<T>(seq * batch, rows, in, x.data<T>(), wd, gx.data(), ctx.threads());
    std::vector<T> h(batch * hidden, T{0}), c(batch * hidden, T{0}), gh(batch * rows), next_h(batch * hidden),
        reset(batch * hidden);
    if (h0)
      std::copy_n(h0.data<T>() + d * batch * hidden, batch * hidden, h.begin());
    if (c0)
      std::copy_n(c0.data<T>() + d * batch * hidden, batch * hidden, c.begin());
    for (int64_t step = 0; step < seq; ++step) {
      std::fill(gh.begin(), gh.end(), T{0});
      // GRU that resets before the product needs h's gate apart.
      const int64_t shared = gru && !reset_after ? 2 * hidden : rows;
      if (shared == rows) {
        Gemm<T>(batch, rows, hidden, h.data(), rd, gh.data(), ctx.threads());
      } else {
        std::vector<T> zr(batch * shared, T{0});
        Gemm<T>(batch, shared, hidden, h.data(), rd, zr.data(), ctx.threads());
        for (int64_t b = 0; b < batch; ++b)
          std::copy_n(zr.begin() + b * shared, shared, gh.begin() + b * rows);
      }
      next_h = h;
      std::vector<T> update(gru ? batch * hidden : 0), reset_gate(gru ? batch * hidden : 0);
      auto at = [&](int64_t b) { return reverse ? length[b] - 1 - step : step; };
      for (int64_t b = 0; b < batch; ++b) {
        if (step >= length[b])
          continue;
        const T *g = gx.data() + (at(b) * batch + b) * rows;
        const T *q = gh.data() + b * rows;
        for (int64_t j = 0; j < hidden; ++j) {
          const int64_t n = b * hidden + j;
          if (lstm) {
            const T prior = c[n];
            auto gate = [&](int k, T peep) { return clamp(g[k * hidden + j] + q[k * hidden + j] + peep); };
            const T i = act(d, 0, gate(0, pd ? pd[j] * prior : T{0}));
            const T f = coupled ? T{1} - i : act(d, 0, gate(2, pd ? pd[2 * hidden + j] * prior : T{0}));
            const T cell_input = act(d, 1, gate(3, T{0}));
            const T now = f * prior + i * cell_input;
            const T o = act(d, 0, gate(1, pd ? pd[hidden + j] * now : T{0}));
            c[n] = now;
            next_h[n] = o * act(d, 2, now);
          } else if (gru) {
            update[n] = act(d, 0, clamp(g[j] + q[j]));
            reset_gate[n] = act(d, 0, clamp(g[hidden + j] + q[hidden + j]));
          } else {
            next_h[n] = act(d, 0, clamp(g[j] + q[j]));
          }
        }
      }
      if (gru) {
        std::vector<T> candidate(batch * hidden, T{0});
        if (!reset_after) {
          for (size_t n = 0; n < reset.size(); ++n)
            reset[n] = reset_gate[n] * h[n];
          Gemm<T>(batch, hidden, hidden, reset.data(), rd + 2 * hidden * hidden, candidate.data(), ctx.threads());
        }
        for (int64_t b = 0; b < batch; ++b) {
          if (step >= length[b])
            continue;
          const T *g = gx.data() + (at(b) * batch + b) * rows + 2 * hidden;
          for (int64_t j = 0; j < hidden; ++j) {
            const int64_t n = b * hidden + j;
            const T recurrent =
                reset_after ? reset_gate[n] * (gh[b * rows + 2 * hidden + j] + (bd ? bd[rows + 2 * hidden + j] : T{0}))
                            : candidate[n];
            const T fresh = act(d, 1, clamp(g[j] + recurrent));
            next_h[n] = (T{1} - update[n]) * fresh + update[n] * h[n];
          }
        }
      }
      h.swap(next_h);
      for (int64_t b = 0; b < batch; ++b)
        if (step < length[b])
          std::copy_n(h.begin() + b * hidden, hidden, y.mutable_data<T>() + ((at(b) * dirs + d) * batch + b) * hidden);
    }
    std::copy(h.begin(), h.end(), y_h.mutable_data<T>() + d * batch * hidden);
    std::copy(c.begin(), c.end(), y_c.mutable_data<T>() + d * batch * hidden);
  }
  if (batch_first) {
    // [seq, dirs, batch, hidden] -> [batch, seq, dirs, hidden]
    const Dims s = RowMajorStrides(y.dims());
    NPUC_ASSIGN_OR_RETURN(y, Materialize(y, {batch, seq, dirs, hidden}, {s[2], s[0], s[1], s[3]}));
    NPUC_ASSIGN_OR_RETURN(y_h, SwapFirstTwo(y_h));
    NPUC_ASSIGN_OR_RETURN(y_c, SwapFirstTwo(y_c));
  }
  ctx.set_result(0, std::move(y));
  ctx.set_result(1, std::move(y_h));
  if (lstm)
    ctx.set_result(2, std::move(y_c));
  return OkStatus();
}

Status EvaluateRecurrent(EvalContext &ctx) {
  return DispatchFloat(ctx.operand(0).dtype(),
                       [&](auto tag) { return Run<TypeOf<decltype(tag)>>(ctx, CellOf(ctx.node())); });
}

OpDef Recurrent(std::string_view name, int max_operands, int max_results, std::vector<AttrSpec> extra,
                std::string_view doc) {
  OpDef op;
  op.name = name;
  op.since_version = 14;
  op.min_operands = 3;
  op.max_operands = max_operands;
  op.min_results = 1;
  op.max_results = max_results;
  op.attrs = {FloatsAttr("activation_alpha"),
              FloatsAttr("activation_beta"),
              {"activations", AttrKind::Strings},
              FloatAttr("clip"),
              StringAttr("direction"),
              IntAttr("hidden_size"),
              IntAttr("layout")};
  op.attrs.insert(op.attrs.end(), extra.begin(), extra.end());
  op.verify = VerifyRecurrent;
  op.infer = InferRecurrent;
  op.evaluate = EvaluateRecurrent;
  op.doc = doc;
  return op;
}

} // namespace

OpDef RNNDef() {
  return Recurrent("RNN", 6, 2, {}, "A plain recurrent layer, one or two directions.");
}
OpDef GRUDef() {
  return Recurrent("GRU", 6, 2, {IntAttr("linear_before_reset")}, "A gated recurrent layer, one or two directions.");
}
OpDef LSTMDef() {
  return Recurrent("LSTM", 8, 3, {IntAttr("input_forget")}, "A long short-term memory layer, one or two directions.");
}

} // namespace npuc::ops
