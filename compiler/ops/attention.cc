// Attention (scaled dot product, with masks, caches and grouped heads) and ai.onnx.preview's FlexAttention.
//
//   scores = scale Q K^T -> softcap -> + bias (mask, causal, padding) -> softmax -> probabilities V
// The bias is -inf where nothing may be attended to; a row whose bias is -inf throughout gives zeros, not NaN. Query
// head h reads key/value head h / (query heads / kv heads). Each score row is worked out in double and rounded to the
// element type per stage. Not made out of smaller operators on import: the NPU runs none of it, so it is a host step.
#include <cmath>

#include "compiler/ops/convert.h"
#include "compiler/ops/movement.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

// [batch, heads, length, size] of a rank-4 operand or a rank-3 one with heads folded into the last axis.
struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  int64_t stride_b = 0, stride_h = 0, stride_l = 0;
  static StatusOr<Heads> Of(llvm::ArrayRef<int64_t> dims, int64_t heads, std::string_view what) {
    Heads h;
    if (dims.size() == 4) {
      h.batch = dims[0], h.heads = dims[1], h.length = dims[2], h.size = dims[3];
      h.stride_l = h.size, h.stride_h = h.length * h.size, h.stride_b = h.heads * h.stride_h;
      return h;
    }
    if (dims.size() != 3 || heads < 1 || dims[2] % heads)
      return ShapeError(fmt::format("{} is {} with {} heads", what, ToString(dims), heads));
    h.batch = dims[0], h.heads = heads, h.length = dims[1], h.size = dims[2] / heads;
    h.stride_h = h.size, h.stride_l = dims[2], h.stride_b = h.length * dims[2];
    return h;
  }
  int64_t At(int64_t b, int64_t h, int64_t l) const { return b * stride_b + h * stride_h + l * stride_l; }
};

Dim ProductDim(const Dim &a, const Dim &b) {
  return a.is_static() && b.is_static() ? Dim(a.value() * b.value()) : Dim::Unknown();
}

// q, k, v as [batch, heads, length, size].
Shape AsHeads(const Shape &s, int64_t heads) {
  if (!s.ranked())
    return Shape::UnknownDims(4);
  if (s.rank() == 4)
    return s;
  if (s.rank() != 3 || heads < 1)
    return Shape::UnknownDims(4);
  return Shape({s[0], Dim(heads), s[1], s[2].is_static() ? Dim(s[2].value() / heads) : Dim::Unknown()});
}

Status InferAttention(InferContext &ctx) {
  const int64_t q_heads = ctx.attrs().Int("q_num_heads", 0), kv_heads = ctx.attrs().Int("kv_num_heads", 0);
  const Shape q = AsHeads(ShapeOf(ctx, 0), q_heads), k = AsHeads(ShapeOf(ctx, 1), kv_heads),
              v = AsHeads(ShapeOf(ctx, 2), kv_heads);
  Dim total = k[2];
  if (ctx.has_operand(4)) {
    const Shape past = ShapeOf(ctx, 4);
    total = past.ranked() && past.rank() == 4 && past[2].is_static() && k[2].is_static()
                ? Dim(past[2].value() + k[2].value())
                : Dim::Unknown();
  }
  const DType t = DTypeOfOperand(ctx, 0);
  const Shape given = ShapeOf(ctx, 0);
  if (!given.ranked())
    SetTensor(ctx, 0, t, given);
  else
    SetTensor(ctx, 0, t,
              given.rank() == 3 ? Shape({q[0], q[2], ProductDim(q[1], v[3])}) : Shape({q[0], q[1], q[2], v[3]}));
  SetTensor(ctx, 1, DTypeOfOperand(ctx, 1), Shape({k[0], k[1], total, k[3]}));
  SetTensor(ctx, 2, DTypeOfOperand(ctx, 2), Shape({v[0], v[1], total, v[3]}));
  SetTensor(ctx, 3, t, Shape({q[0], q[1], q[2], total}));
  return OkStatus();
}

// Past and new keys (or values), as [batch, heads, total, size].
template <class T> StatusOr<Tensor> Present(const Tensor &x, const Heads &h, const Tensor *past) {
  const int64_t before = past ? past->dims()[2] : 0, total = before + h.length;
  if (past &&
      (past->rank() != 4 || past->dims()[0] != h.batch || past->dims()[1] != h.heads || past->dims()[3] != h.size))
    return ShapeError(fmt::format("a cache of {} for {} heads of {}", ToString(past->dims()), h.heads, h.size));
  NPUC_ASSIGN_OR_RETURN(Tensor out, AllocateResult(x.dtype(), {h.batch, h.heads, total, h.size}));
  T *to = out.mutable_data<T>();
  for (int64_t b = 0; b < h.batch; ++b)
    for (int64_t n = 0; n < h.heads; ++n) {
      if (past)
        to = std::copy_n(past->data<T>() + (b * h.heads + n) * before * h.size, before * h.size, to);
      for (int64_t l = 0; l < h.length; ++l)
        to = std::copy_n(x.data<T>() + h.At(b, n, l), h.size, to);
    }
  return out;
}

// Element of a mask that broadcasts (from the right) to [batch, heads, rows, columns]; its last axis may be shorter.
struct Mask {
  const Tensor *t = nullptr;
  int64_t dims[4] = {1, 1, 1, 1}, strides[4] = {0, 0, 0, 0};
  static StatusOr<Mask> Of(const Tensor *t, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
    Mask m;
    if (!t)
      return m;
    m.t = t;
    if (t->rank() < 1 || t->rank() > 4)
      return ShapeError(fmt::format("attn_mask is {}", ToString(t->dims())));
    const Dims own = RowMajorStrides(t->dims());
    const int64_t limit[4] = {batch, heads, rows, columns};
    for (int i = 0; i < t->rank(); ++i) {
      const int k = 4 - t->rank() + i;
      m.dims[k] = t->dims()[i];
      m.strides[k] = m.dims[k] == 1 && limit[k] != 1 && k != 3 ? 0 : own[i];
      if (m.dims[k] != 1 && m.dims[k] != limit[k] && !(k == 3 && m.dims[k] < limit[k]))
        return ShapeError(
            fmt::format("attn_mask {} for scores [{},{},{},{}]", ToString(t->dims()), batch, heads, rows, columns));
    }
    if (m.dims[3] == 1 && columns != 1)
      m.strides[3] = 0;
    return m;
  }
  double Bias(int64_t b, int64_t h, int64_t r, int64_t c) const {
    if (!t)
      return 0;
    if (c >= dims[3] && dims[3] != 1)
      return -std::numeric_limits<double>::infinity();
    const int64_t i = b * strides[0] + h * strides[1] + r * strides[2] + c * strides[3];
    if (t->dtype() == DType::Bool)
      return t->bytes()[i] ? 0 : -std::numeric_limits<double>::infinity();
    return t->AsDouble(i);
  }
};

template <class T> Status RunAttention(EvalContext &ctx) {
  const AttributeList &attrs = ctx.attrs();
  const Tensor &q = ctx.operand(0), &k = ctx.operand(1), &v = ctx.operand(2);
  auto optional = [&](int i) { return ctx.has_operand(i) ? &ctx.operand(i) : nullptr; };
  NPUC_ASSIGN_OR_RETURN(const Heads hq, Heads::Of(q.dims(), attrs.Int("q_num_heads", 0), "Q"));
  NPUC_ASSIGN_OR_RETURN(const Heads hk, Heads::Of(k.dims(), attrs.Int("kv_num_heads", 0), "K"));
  NPUC_ASSIGN_OR_RETURN(const Heads hv, Heads::Of(v.dims(), attrs.Int("kv_num_heads", 0), "V"));
  if (hq.size != hk.size || hk.heads != hv.heads || hk.length != hv.length || hq.batch != hk.batch ||
      hk.batch != hv.batch || hk.heads == 0 || hq.heads % hk.heads)
    return ShapeError(fmt::format("Q {}, K {}, V {}", ToString(q.dims()), ToString(k.dims()), ToString(v.dims())));
  NPUC_ASSIGN_OR_RETURN(Tensor keys, Present<T>(k, hk, optional(4)));
  NPUC_ASSIGN_OR_RETURN(Tensor values, Present<T>(v, hv, optional(5)));
  const int64_t total = keys.dims()[2], rows = hq.length, group = hq.heads / hk.heads, past = total - hk.length;
  if (values.dims()[2] != total)
    return ShapeError("past_key and past_value differ in length");
  const Tensor *lengths = optional(6);
  if (lengths && lengths->num_elements() != hq.batch)
    return ShapeError(fmt::format("nonpad_kv_seqlen is {}", ToString(lengths->dims())));
  NPUC_ASSIGN_OR_RETURN(const Mask mask, Mask::Of(optional(3), hq.batch, hq.heads, rows, total));
  double scale = attrs.Float("scale", 0);
  if (!attrs.Has("scale"))
    scale = 1 / std::sqrt(static_cast<double>(hq.size));
  const double cap = attrs.Float("softcap", 0), infinity = std::numeric_limits<double>::infinity();
  const bool causal = attrs.Int("is_causal", 0) != 0;
  const int64_t mode = attrs.Int("qk_matmul_output_mode", 0);
  const bool flat = q.rank() == 3;
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(q.dtype(), flat ? Dims{hq.batch, rows, hq.heads * hv.size}
                                                                 : Dims{hq.batch, hq.heads, rows, hv.size}));
  Tensor qk;
  if (ctx.num_results() > 3) {
    NPUC_ASSIGN_OR_RETURN(qk, AllocateResult(q.dtype(), {hq.batch, hq.heads, rows, total}));
  }
  std::vector<double> score(total), bias(total), sum(hv.size);
  for (int64_t b = 0; b < hq.batch; ++b) {
    const int64_t valid = lengths ? lengths->AsInt(b) : total, offset = lengths ? valid - rows : past;
    for (int64_t h = 0; h < hq.heads; ++h)
      for (int64_t r = 0; r < rows; ++r) {
        const T *query = q.data<T>() + hq.At(b, h, r);
        const T *key = keys.data<T>() + (b * hk.heads + h / group) * total * hk.size;
        T *out_row = qk ? qk.mutable_data<T>() + ((b * hq.heads + h) * rows + r) * total : nullptr;
        double top = -infinity;
        bool masked = true;
        for (int64_t c = 0; c < total; ++c) {
          double s = 0;
          for (int64_t i = 0; i < hq.size; ++i)
            s += static_cast<double>(query[i]) * static_cast<double>(key[c * hk.size + i]);
          s *= scale;
          if (out_row && mode == 0)
            out_row[c] = static_cast<T>(s);
          if (cap != 0)
            s = fpmath::Tanh(s / cap) * cap;
          if (out_row && mode == 1)
            out_row[c] = static_cast<T>(s);
          bias[c] = mask.Bias(b, h, r, c);
          if (causal && r + offset < c)
            bias[c] = -infinity;
          if (c >= valid)
            bias[c] = -infinity;
          masked &= bias[c] == -infinity;
          // -inf wins over whatever the score is, NaN of garbage in masked rows included.
          s = bias[c] == -infinity ? -infinity : s + bias[c];
          if (out_row && mode == 2)
            out_row[c] = static_cast<T>(s);
          score[c] = s;
          top = std::max(top, s);
        }
        double norm = 0;
        for (int64_t c = 0; c < total; ++c)
          norm += score[c] = score[c] == -infinity ? 0 : fpmath::Exp(score[c] - top);
        if (masked || norm == 0)
          norm = 1;
        std::fill(sum.begin(), sum.end(), 0.0);
        const T *value = values.data<T>() + (b * hv.heads + h / group) * total * hv.size;
        for (int64_t c = 0; c < total; ++c) {
          const double p = masked ? 0 : score[c] / norm;
          if (out_row && mode == 3)
            out_row[c] = static_cast<T>(p);
          if (p != 0)
            for (int64_t i = 0; i < hv.size; ++i)
              sum[i] += p * static_cast<double>(value[c * hv.size + i]);
        }
        T *to = y.mutable_data<T>() +
                (flat ? (b * rows + r) * hq.heads * hv.size + h * hv.size : ((b * hq.heads + h) * rows + r) * hv.size);
        for (int64_t i = 0; i < hv.size; ++i)
          to[i] = static_cast<T>(sum[i]);
      }
  }
  ctx.set_result(0, std::move(y));
  ctx.set_result(1, std::move(keys));
  ctx.set_result(2, std::move(values));
  if (qk)
    ctx.set_result(3, std::move(qk));
  return OkStatus();
}

Status EvaluateAttention(EvalContext &ctx) {
  return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) { return RunAttention<TypeOf<decltype(tag)>>(ctx); });
}

// ---- FlexAttention: the caller's own functions on scores and probabilities

Status InferFlex(InferContext &ctx) {
  const Shape q = ShapeOf(ctx, 0), k = ShapeOf(ctx, 1), v = ShapeOf(ctx, 2);
  Shape scores = Shape::UnknownDims(4), y = Shape::UnknownDims(4);
  if (q.ranked() && q.rank() == 4 && k.ranked() && k.rank() == 4 && v.ranked() && v.rank() == 4) {
    scores = Shape({q[0], q[1], q[2], k[2]});
    y = Shape({q[0], q[1], q[2], v[3]});
  }
  for (int b = 0; b < 2; ++b) {
    std::vector<Type> out;
    NPUC_RETURN_IF_ERROR(ctx.InferBody(b, {Type::Tensor(DTypeOfOperand(ctx, 0), scores)}, &out));
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), y);
  return OkStatus();
}

Status VerifyFlex(const Node &n) {
  for (unsigned b = 0; b < n.num_bodies(); ++b)
    if (n.body(b)->num_inputs() != 1 || n.body(b)->num_outputs() != 1)
      return AttrError("score_mod and prob_mod take one tensor to one");
  return n.num_bodies() == 2 ? OkStatus() : AttrError("FlexAttention has two bodies");
}

template <class T> Status RunFlex(EvalContext &ctx) {
  const Tensor &q = ctx.operand(0), &k = ctx.operand(1), &v = ctx.operand(2);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4 || q.dims()[0] != k.dims()[0] || k.dims()[0] != v.dims()[0] ||
      k.dims()[1] == 0 || q.dims()[1] % k.dims()[1] || k.dims()[1] != v.dims()[1] || q.dims()[3] != k.dims()[3] ||
      k.dims()[2] != v.dims()[2])
    return ShapeError(fmt::format("Q {}, K {}, V {}", ToString(q.dims()), ToString(k.dims()), ToString(v.dims())));
  const int64_t batch = q.dims()[0], heads = q.dims()[1], rows = q.dims()[2], size = q.dims()[3], columns = k.dims()[2],
                depth = v.dims()[3];
  const int64_t kv_heads = k.dims()[1], group = heads / kv_heads;
  const double scale =
      ctx.attrs().Has("scale") ? ctx.attrs().Float("scale", 0) : 1 / std::sqrt(static_cast<double>(size));
  NPUC_ASSIGN_OR_RETURN(Tensor scores, AllocateResult(q.dtype(), {batch, heads, rows, columns}));
  auto kv = [&](int64_t b, int64_t h) { return (b * kv_heads + h / group) * columns; };
  for (int64_t b = 0, at = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c, ++at) {
          double s = 0;
          for (int64_t i = 0; i < size; ++i)
            s += static_cast<double>(q.data<T>()[((b * heads + h) * rows + r) * size + i]) *
                 static_cast<double>(k.data<T>()[(kv(b, h) + c) * size + i]);
          scores.mutable_data<T>()[at] = static_cast<T>(s * scale);
        }
  // Bodies see the model's own element type.
  const Type &declared = ctx.node().operand(0)->type();
  const DType own = declared.is_tensor() && declared.dtype() != DType::Undefined ? declared.dtype() : q.dtype();
  auto apply = [&](int body, Tensor x) -> StatusOr<Tensor> {
    const Dims dims(x.dims());
    NPUC_ASSIGN_OR_RETURN(auto out, ctx.RunBody(body, {EvalValue(ConvertTensor(x, own))}));
    const Tensor *t = out.empty() ? nullptr : out[0].tensor();
    if (!t || Dims(t->dims()) != dims)
      return ShapeError("score_mod and prob_mod keep their tensor's shape");
    return ConvertTensor(t->Expand(), q.dtype());
  };
  NPUC_ASSIGN_OR_RETURN(scores, apply(0, std::move(scores)));
  NPUC_ASSIGN_OR_RETURN(Tensor probabilities, AllocateResult(q.dtype(), scores.dims()));
  for (int64_t row = 0; row < batch * heads * rows; ++row) {
    const T *s = scores.data<T>() + row * columns;
    T *p = probabilities.mutable_data<T>() + row * columns;
    double top = -std::numeric_limits<double>::infinity(), norm = 0;
    for (int64_t c = 0; c < columns; ++c)
      top = std::max(top, static_cast<double>(s[c]));
    std::vector<double> e(columns);
    for (int64_t c = 0; c < columns; ++c)
      norm += e[c] = fpmath::Exp(static_cast<double>(s[c]) - top);
    for (int64_t c = 0; c < columns; ++c)
      p[c] = static_cast<T>(e[c] / norm);
  }
  NPUC_ASSIGN_OR_RETURN(probabilities, apply(1, std::move(probabilities)));
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(q.dtype(), {batch, heads, rows, depth}));
  std::vector<double> sum(depth);
  for (int64_t b = 0, row = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t r = 0; r < rows; ++r, ++row) {
        std::fill(sum.begin(), sum.end(), 0.0);
        for (int64_t c = 0; c < columns; ++c)
          for (int64_t i = 0; i < depth; ++i)
            sum[i] += static_cast<double>(probabilities.data<T>()[row * columns + c]) *
                      static_cast<double>(v.data<T>()[(kv(b, h) + c) * depth + i]);
        for (int64_t i = 0; i < depth; ++i)
          y.mutable_data<T>()[row * depth + i] = static_cast<T>(sum[i]);
      }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}
Status EvaluateFlex(EvalContext &ctx) {
  // A node with bodies gets its operands as they are: half precision is widened here.
  if (const DType t = ctx.operand(0).dtype(); t == DType::F16 || t == DType::BF16) {
    for (EvalValue &v : ctx.operands())
      v = ConvertTensor(*v.tensor(), DType::F32);
    NPUC_RETURN_IF_ERROR(RunFlex<float>(ctx));
    ctx.set_result(0, ConvertTensor(*ctx.results()[0].tensor(), t));
    return OkStatus();
  }
  return DispatchFloat(ctx.operand(0).dtype(), [&](auto tag) { return RunFlex<TypeOf<decltype(tag)>>(ctx); });
}

} // namespace

OpDef AttentionDef() {
  return {.domain = "",
          .name = "Attention",
          .since_version = 24,
          .min_operands = 3,
          .max_operands = 7,
          .min_results = 1,
          .max_results = 4,
          .attrs = {IntAttr("is_causal"), IntAttr("kv_num_heads"), IntAttr("q_num_heads"),
                    IntAttr("qk_matmul_output_mode"), FloatAttr("scale"), FloatAttr("softcap"),
                    IntAttr("softmax_precision")},
          .infer = InferAttention,
          .evaluate = EvaluateAttention,
          .doc = "Scaled dot-product attention with masks, a key/value cache and grouped heads."};
}

OpDef PreviewFlexAttentionDef() {
  return {.domain = "ai.onnx.preview",
          .name = "FlexAttention",
          .min_operands = 3,
          .max_operands = 3,
          .attrs = {{"score_mod", AttrKind::Graph},
                    {"prob_mod", AttrKind::Graph},
                    FloatAttr("scale"),
                    IntAttr("softmax_precision")},
          .verify = VerifyFlex,
          .infer = InferFlex,
          .evaluate = EvaluateFlex,
          .doc = "Attention with bodies that change scores and probabilities."};
}

} // namespace npuc::ops
