// RotaryEmbedding, LinearAttention, CausalConvWithState: building blocks of language models.
#include <cmath>

#include "compiler/ops/movement.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

Status InferRotary(InferContext &ctx) {
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), ShapeOf(ctx, 0));
  return OkStatus();
}

// Pairs of each head's first rotary_embedding_dim elements turned by an angle of the position: (a, b) -> (a cos - b
// sin, a sin + b cos). Pairs are neighbours (interleaved) or halves.
Status EvaluateRotary(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &cos = ctx.operand(1), &sin = ctx.operand(2);
  const AttributeList &attrs = ctx.attrs();
  const int64_t heads_attr = attrs.Int("num_heads", 0);
  int64_t batch, heads, length, size, stride_h, stride_l;
  if (x.rank() == 4) {
    batch = x.dims()[0], heads = x.dims()[1], length = x.dims()[2], size = x.dims()[3];
    stride_l = size, stride_h = length * size;
  } else if (x.rank() == 3 && heads_attr > 0 && x.dims()[2] % heads_attr == 0) {
    batch = x.dims()[0], length = x.dims()[1], heads = heads_attr, size = x.dims()[2] / heads_attr;
    stride_l = x.dims()[2], stride_h = size;
  } else {
    return ShapeError(fmt::format("X {} with {} heads", ToString(x.dims()), heads_attr),
                      "rank 4, or rank 3 and num_heads");
  }
  int64_t turned = attrs.Int("rotary_embedding_dim", 0);
  if (turned == 0)
    turned = size;
  const int64_t half = turned / 2;
  const bool positions = ctx.has_operand(3), interleaved = attrs.Int("interleaved", 0) != 0;
  bool fits = turned <= size && turned % 2 == 0 && cos.dims() == sin.dims() && cos.rank() == (positions ? 2 : 3) &&
              cos.dims().back() >= half;
  if (fits && !positions)
    fits = (cos.dims()[0] == batch || cos.dims()[0] == 1) && cos.dims()[1] == length;
  if (fits && positions)
    fits = ctx.operand(3).num_elements() == batch * length;
  if (!fits)
    return ShapeError(fmt::format("X {}, caches {} and {}, {} dims turned", ToString(x.dims()), ToString(cos.dims()),
                                  ToString(sin.dims()), turned));
  NPUC_ASSIGN_OR_RETURN(auto copy, ElementWriter::Create(x.dtype(), x.dims()));
  copy.Copy(0, x, 0, x.num_elements());
  Tensor y = copy.Finish();
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t l = 0; l < length; ++l) {
        int64_t row = (cos.rank() == 3 && cos.dims()[0] == 1 ? 0 : b) * length + l;
        if (positions) {
          row = ctx.operand(3).AsInt(b * length + l);
          if (row < 0 || row >= cos.dims()[0])
            return Error("E0703", fmt::format("position {} of a cache of {}", row, cos.dims()[0]));
        }
        const T *c = cos.data<T>() + row * cos.dims().back(), *s = sin.data<T>() + row * cos.dims().back();
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t base = b * heads * length * size + h * stride_h + l * stride_l;
          for (int64_t i = 0; i < half; ++i) {
            const int64_t first = base + (interleaved ? 2 * i : i),
                          second = base + (interleaved ? 2 * i + 1 : half + i);
            const T p = x.data<T>()[first], q = x.data<T>()[second];
            y.mutable_data<T>()[first] = c[i] * p - s[i] * q;
            y.mutable_data<T>()[second] = s[i] * p + c[i] * q;
          }
        }
      }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

Status VerifyLinearAttention(const Node &n) {
  const std::string_view rule = n.attrs().String("update_rule", "gated_delta");
  if (!llvm::is_contained({"linear", "gated", "delta", "gated_delta"}, rule))
    return AttrError(fmt::format("update_rule is '{}'", rule));
  if (n.attrs().Int("q_num_heads", 0) < 1 || n.attrs().Int("kv_num_heads", 0) < 1 ||
      n.attrs().Int("q_num_heads", 0) % n.attrs().Int("kv_num_heads", 1))
    return AttrError("q_num_heads is not a multiple of kv_num_heads");
  return OkStatus();
}
Status InferLinearAttention(InferContext &ctx) {
  const Shape q = ShapeOf(ctx, 0), v = ShapeOf(ctx, 2);
  const int64_t hq = ctx.attrs().Int("q_num_heads", 1), hkv = ctx.attrs().Int("kv_num_heads", 1);
  Shape out = Shape::UnknownDims(3), state = Shape::UnknownDims(4);
  if (q.ranked() && v.ranked() && q.rank() == 3 && v.rank() == 3) {
    auto per = [](const Dim &d, int64_t by, int64_t times = 1) {
      return d.is_static() ? Dim(d.value() / by * times) : Dim::Unknown();
    };
    out = Shape({q[0], q[1], per(v[2], hkv, hq)});
    state = Shape({q[0], Dim(hkv), per(q[2], hq), per(v[2], hkv)});
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), out);
  SetTensor(ctx, 1, DTypeOfOperand(ctx, 0), state);
  return OkStatus();
}

// A matrix of state a head, S [key size, value size]; each step S decays (gated), is corrected towards the value
// (delta) or gains the value (linear), and is read by the query: o = scale q S. State and sums in double.
Status EvaluateLinearAttention(EvalContext &ctx) {
  const Tensor &q = ctx.operand(0), &k = ctx.operand(1), &v = ctx.operand(2);
  const AttributeList &attrs = ctx.attrs();
  const int64_t hq = attrs.Int("q_num_heads", 1), hkv = attrs.Int("kv_num_heads", 1), group = hq / hkv;
  auto optional = [&](int i) { return ctx.has_operand(i) ? &ctx.operand(i) : nullptr; };
  const Tensor *past = optional(3), *decay = optional(4), *beta = optional(5);
  const std::string_view rule = attrs.String("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  bool fits = q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && q.dims()[2] % hq == 0 && k.dims()[2] % hkv == 0 &&
              v.dims()[2] % hkv == 0 && q.dims()[2] / hq == k.dims()[2] / hkv;
  const int64_t batch = fits ? q.dims()[0] : 0, steps = fits ? q.dims()[1] : 0, dk = fits ? k.dims()[2] / hkv : 0,
                dv = fits ? v.dims()[2] / hkv : 0;
  fits = fits && k.dims()[0] == batch && v.dims()[0] == batch && k.dims()[1] == steps && v.dims()[1] == steps;
  fits = fits && (!gated || (decay && decay->rank() == 3 && decay->dims()[0] == batch && decay->dims()[1] == steps &&
                             (decay->dims()[2] == hkv * dk || decay->dims()[2] == hkv)));
  fits = fits && (!delta || (beta && beta->rank() == 3 && beta->dims()[0] == batch && beta->dims()[1] == steps &&
                             (beta->dims()[2] == hkv || beta->dims()[2] == 1)));
  fits = fits && (!past || Dims(past->dims()) == Dims{batch, hkv, dk, dv});
  if (!fits)
    return ShapeError(fmt::format("query {}, key {}, value {} and their companions", ToString(q.dims()),
                                  ToString(k.dims()), ToString(v.dims())));
  double scale = attrs.Float("scale", 0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(dk));
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(q.dtype(), {batch, steps, hq * dv}));
  NPUC_ASSIGN_OR_RETURN(Tensor present, AllocateResult(q.dtype(), {batch, hkv, dk, dv}));
  return DispatchFloat(q.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    std::vector<double> s(dk * dv), write(dv);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < hkv; ++h) {
        for (int64_t i = 0; i < dk * dv; ++i)
          s[i] = past ? static_cast<double>(past->data<T>()[(b * hkv + h) * dk * dv + i]) : 0;
        for (int64_t t = 0; t < steps; ++t) {
          const int64_t at = b * steps + t;
          const T *key = k.data<T>() + (at * hkv + h) * dk, *value = v.data<T>() + (at * hkv + h) * dv;
          if (gated)
            for (int64_t i = 0; i < dk; ++i) {
              const bool per_head = decay->dims()[2] == hkv && dk != 1;
              const double d =
                  fpmath::Exp(static_cast<double>(decay->data<T>()[per_head ? at * hkv + h : (at * hkv + h) * dk + i]));
              for (int64_t j = 0; j < dv; ++j)
                s[i * dv + j] *= d;
            }
          for (int64_t j = 0; j < dv; ++j) {
            write[j] = static_cast<double>(value[j]);
            if (!delta)
              continue;
            double have = 0;
            for (int64_t i = 0; i < dk; ++i)
              have += s[i * dv + j] * static_cast<double>(key[i]);
            write[j] =
                static_cast<double>(beta->data<T>()[beta->dims()[2] == 1 ? at : at * hkv + h]) * (write[j] - have);
          }
          for (int64_t i = 0; i < dk; ++i)
            for (int64_t j = 0; j < dv; ++j)
              s[i * dv + j] += static_cast<double>(key[i]) * write[j];
          for (int64_t g = 0; g < group; ++g) {
            const T *query = q.data<T>() + (at * hq + h * group + g) * dk;
            for (int64_t j = 0; j < dv; ++j) {
              double o = 0;
              for (int64_t i = 0; i < dk; ++i)
                o += static_cast<double>(query[i]) * s[i * dv + j];
              y.mutable_data<T>()[(at * hq + h * group + g) * dv + j] = static_cast<T>(scale * o);
            }
          }
        }
        for (int64_t i = 0; i < dk * dv; ++i)
          present.mutable_data<T>()[(b * hkv + h) * dk * dv + i] = static_cast<T>(s[i]);
      }
    ctx.set_result(0, std::move(y));
    ctx.set_result(1, std::move(present));
    return OkStatus();
  });
}

Status VerifyCausalConv(const Node &n) {
  const std::string_view a = n.attrs().String("activation", "none");
  if (!llvm::is_contained({"none", "", "silu", "swish"}, a))
    return AttrError(fmt::format("activation is '{}'", a), "none, silu or swish");
  return OkStatus();
}
Status InferCausalConv(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 3, 3));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 3, 3));
  const Shape x = ShapeOf(ctx, 0), w = ShapeOf(ctx, 1);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), x);
  Shape state = Shape::UnknownDims(3);
  if (x.ranked())
    state = Shape({x[0], x[1], w.ranked() && w[2].is_static() ? Dim(w[2].value() - 1) : Dim::Unknown()});
  SetTensor(ctx, 1, DTypeOfOperand(ctx, 0), state);
  return OkStatus();
}
// A depthwise convolution over [past, input] whose last kernel - 1 columns are the next call's past.
Status EvaluateCausalConv(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &w = ctx.operand(1);
  if (x.rank() != 3 || w.rank() != 3 || w.dims()[0] != x.dims()[1] || w.dims()[1] != 1 || w.dims()[2] < 1)
    return ShapeError(fmt::format("input {} and weight {}", ToString(x.dims()), ToString(w.dims())));
  const int64_t batch = x.dims()[0], channels = x.dims()[1], length = x.dims()[2], kernel = w.dims()[2],
                before = kernel - 1;
  const Tensor *bias = ctx.has_operand(2) ? &ctx.operand(2) : nullptr;
  const Tensor *past = ctx.has_operand(3) ? &ctx.operand(3) : nullptr;
  if ((bias && bias->num_elements() != channels) || (past && Dims(past->dims()) != Dims{batch, channels, before}))
    return ShapeError("bias or past_state do not fit");
  const std::string_view activation = ctx.attrs().String("activation", "none");
  const bool silu = activation == "silu" || activation == "swish";
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), x.dims()));
  NPUC_ASSIGN_OR_RETURN(Tensor state, AllocateResult(x.dtype(), {batch, channels, before}));
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    std::vector<T> row(before + length);
    for (int64_t n = 0; n < batch * channels; ++n) {
      for (int64_t i = 0; i < before; ++i)
        row[i] = past ? past->data<T>()[n * before + i] : T{0};
      std::copy_n(x.data<T>() + n * length, length, row.begin() + before);
      const int64_t c = n % channels;
      for (int64_t t = 0; t < length; ++t) {
        double sum = bias ? static_cast<double>(bias->data<T>()[c]) : 0;
        for (int64_t i = 0; i < kernel; ++i)
          sum += static_cast<double>(row[t + i]) * static_cast<double>(w.data<T>()[c * kernel + i]);
        if (silu)
          sum *= fpmath::Sigmoid(sum);
        y.mutable_data<T>()[n * length + t] = static_cast<T>(sum);
      }
      std::copy_n(row.begin() + length, before, state.mutable_data<T>() + n * before);
    }
    ctx.set_result(0, std::move(y));
    ctx.set_result(1, std::move(state));
    return OkStatus();
  });
}

} // namespace

OpDef RotaryEmbeddingDef() {
  return {.domain = "",
          .name = "RotaryEmbedding",
          .since_version = 23,
          .min_operands = 3,
          .max_operands = 4,
          .attrs = {IntAttr("interleaved"), IntAttr("num_heads"), IntAttr("rotary_embedding_dim")},
          .infer = InferRotary,
          .evaluate = EvaluateRotary,
          .doc = "Pairs of elements turned by an angle of their position."};
}

OpDef LinearAttentionDef() {
  return {.domain = "",
          .name = "LinearAttention",
          .since_version = 27,
          .min_operands = 3,
          .max_operands = 6,
          .min_results = 1,
          .max_results = 2,
          .attrs = {IntAttr("chunk_size"), IntAttr("kv_num_heads", true), IntAttr("q_num_heads", true),
                    FloatAttr("scale"), StringAttr("update_rule")},
          .verify = VerifyLinearAttention,
          .infer = InferLinearAttention,
          .evaluate = EvaluateLinearAttention,
          .doc = "Attention by a recurrent state matrix: linear, gated, delta rule."};
}

OpDef CausalConvWithStateDef() {
  return {.domain = "",
          .name = "CausalConvWithState",
          .since_version = 27,
          .min_operands = 2,
          .max_operands = 4,
          .min_results = 1,
          .max_results = 2,
          .attrs = {StringAttr("activation")},
          .verify = VerifyCausalConv,
          .infer = InferCausalConv,
          .evaluate = EvaluateCausalConv,
          .doc = "A causal depthwise convolution that carries its last inputs to the next call."};
}

} // namespace npuc::ops
