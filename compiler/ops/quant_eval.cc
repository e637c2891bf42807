// Quantised evaluation: the default rule, and the integer accumulations of Conv, ConvTranspose, Gemm and MatMul.
#include "compiler/ops/quant_eval.h"

#include "compiler/ops/convert.h"
#include "compiler/ops/op_helpers.h"

namespace npuc::ops {
namespace {

// The evaluation of a quantised node's float meaning.
class FloatContext final : public EvalContext {
public:
  explicit FloatContext(EvalContext &outer) : outer_(outer) {
    operands_ = outer.operands();
    results_.resize(outer.num_results());
  }
  const Node &node() const override { return outer_.node(); }
  StatusOr<std::vector<EvalValue>> RunBody(int body, std::vector<EvalValue> inputs) override {
    return outer_.RunBody(body, std::move(inputs));
  }
  ThreadPool *threads() const override { return outer_.threads(); }

private:
  EvalContext &outer_;
};

template <class F> void ForEachSlice(const Tensor &t, int axis, size_t slices, F &&f) {
  if (slices <= 1 || axis < 0) {
    f(0, 0, t.num_elements());
    return;
  }
  const AxisSplit a(t.dims(), axis);
  for (int64_t o = 0; o < a.outer; ++o)
    for (int64_t c = 0; c < a.n; ++c)
      f(c, (o * a.n + c) * a.inner, a.inner);
}

template <class To> std::vector<To> MinusZero(const Tensor &tensor, llvm::ArrayRef<int32_t> zero, int axis) {
  const Tensor t = tensor.Expand();
  std::vector<To> out(t.num_elements());
  const Status s = DispatchInt(t.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *p = t.data<T>();
    ForEachSlice(t, axis, zero.size(), [&](int64_t c, int64_t at, int64_t n) {
      const int64_t z = zero.empty() ? 0 : zero[c];
      for (int64_t i = at; i < at + n; ++i)
        out[i] = static_cast<To>(static_cast<int64_t>(p[i]) - z);
    });
    return OkStatus();
  });
  NPUC_CHECK(s.ok(), "zero points of {}", Name(t.dtype()));
  return out;
}

// [C, M/g, K...] to [g][M/g][C/g][K...].
template <class T> std::vector<T> TransposedWeights(const ConvShape &s, const std::vector<T> &w) {
  const int64_t taps = s.taps();
  std::vector<T> out(w.size());
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t m = 0; m < s.oc; ++m)
      for (int64_t c = 0; c < s.ic; ++c)
        for (int64_t t = 0; t < taps; ++t)
          out[((g * s.oc + m) * s.ic + c) * taps + t] = w[((g * s.ic + c) * s.oc + m) * taps + t];
  return out;
}

// Zero points per output channel of transposed weights belong to axis 1 within each group.
template <class T> std::vector<T> ConvWeights(const ConvShape &s, const Tensor &w, llvm::ArrayRef<int32_t> zw) {
  if (!s.transposed)
    return MinusZero<T>(w, zw, 0);
  std::vector<T> plain = TransposedWeights(s, MinusZero<T>(w, {}, -1));
  const int64_t k = s.ic * s.taps();
  for (int64_t m = 0; m < s.groups * s.oc; ++m)
    for (int64_t i = 0; i < k; ++i)
      plain[m * k + i] =
          static_cast<T>(plain[m * k + i] - (zw.empty() ? 0
                                                        : zw[zw.size() == 1                           ? 0
                                                             : zw.size() == static_cast<size_t>(s.oc) ? m % s.oc
                                                                                                      : m]));
  return plain;
}

bool SameValues(const QuantRef &a, const QuantRef &b) {
  return a == b || (a->scales == b->scales && a->zero_points == b->zero_points);
}

} // namespace

bool IsByteSized(DType t) {
  return ByteSize(t) == 1;
}

std::vector<int16_t> MinusZero16(const Tensor &t, llvm::ArrayRef<int32_t> zero, int axis) {
  return MinusZero<int16_t>(t, zero, axis);
}
std::vector<int32_t> MinusZero32(const Tensor &t, llvm::ArrayRef<int32_t> zero, int axis) {
  return MinusZero<int32_t>(t, zero, axis);
}

Tensor DequantizeTensor(const Tensor &tensor, const QuantParams &p) {
  const Tensor q = tensor.Expand();
  Tensor out = Tensor::Allocate(DType::F32, q.dims());
  float *o = out.mutable_data<float>();
  const Status s = DispatchInt(q.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *v = q.data<T>();
    ForEachSlice(q, p.axis, p.scales.size(), [&](int64_t c, int64_t at, int64_t n) {
      const float scale = p.scales[c];
      const int32_t zero = p.zero_points[c];
      for (int64_t i = at; i < at + n; ++i)
        o[i] = DequantizeValue(static_cast<int32_t>(v[i]), scale, zero);
    });
    return OkStatus();
  });
  NPUC_CHECK(s.ok(), "dequantising {}", Name(q.dtype()));
  return out;
}

Tensor QuantizeTensor(const Tensor &tensor, DType dtype, const QuantParams &p) {
  const Tensor v = tensor.Expand();
  Tensor out = Tensor::Allocate(dtype, v.dims());
  const QuantRange range = QuantRangeOf(dtype);
  const float *in = v.data<float>();
  const Status s = DispatchInt(dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    T *o = out.template mutable_data<T>();
    ForEachSlice(v, p.axis, p.scales.size(), [&](int64_t c, int64_t at, int64_t n) {
      const float scale = p.scales[c];
      const int32_t zero = p.zero_points[c];
      for (int64_t i = at; i < at + n; ++i)
        o[i] = static_cast<T>(QuantizeValue(in[i], scale, zero, range));
    });
    return OkStatus();
  });
  NPUC_CHECK(s.ok(), "quantising to {}", Name(dtype));
  return out;
}

const QuantRef &OperandQuant(const EvalContext &ctx, int i) {
  static const QuantRef none;
  const Value *v = ctx.node().operand(i);
  return v && v->type().is_tensor() ? v->type().quant() : none;
}
const QuantRef &ResultQuant(const EvalContext &ctx, int i) {
  static const QuantRef none;
  if (i >= static_cast<int>(ctx.node().num_results()))
    return none;
  const Type &t = ctx.node().result(i)->type();
  return t.is_tensor() ? t.quant() : none;
}
bool QuantizedOperand(const EvalContext &ctx, int i) {
  return OperandQuant(ctx, i) != nullptr;
}

bool SameQuantThroughout(const EvalContext &ctx, int operands, int results) {
  const QuantRef &first = OperandQuant(ctx, 0);
  if (!first || !first->per_tensor())
    return false;
  const DType dtype = ctx.operand(0).dtype();
  for (int i = 1; i < operands; ++i)
    if (ctx.has_operand(i) && (!SameQuant(OperandQuant(ctx, i), first) || ctx.operand(i).dtype() != dtype))
      return false;
  for (int i = 0; i < results; ++i)
    if (!SameQuant(ResultQuant(ctx, i), first) || ctx.node().result(i)->type().dtype() != dtype)
      return false;
  return true;
}

Status EvaluateByDequantizing(EvalContext &ctx) {
  const Node &node = ctx.node();
  if (node.op().has(kCopiesElements)) {
    QuantRef shared;
    DType dtype = DType::Undefined;
    bool same = true;
    auto meet = [&](const QuantRef &q, DType t) {
      if (!q)
        return;
      if (!shared) {
        shared = q;
        dtype = t;
      }
      same = same && SameValues(shared, q) && dtype == t;
    };
    for (int i = 0; i < ctx.num_operands(); ++i)
      if (ctx.has_operand(i))
        meet(OperandQuant(ctx, i), node.operand(i)->type().dtype());
    for (int i = 0; i < ctx.num_results(); ++i) {
      // A result without quantisation of a quantised operand is its float meaning.
      same = same &&
             (ResultQuant(ctx, i) || !node.result(i)->type().is_tensor() || !IsFloat(node.result(i)->type().dtype()));
      meet(ResultQuant(ctx, i), node.result(i)->type().dtype());
    }
    if (same)
      return node.op().evaluate(ctx);
  }
  FloatContext inner(ctx);
  for (int i = 0; i < ctx.num_operands(); ++i)
    if (ctx.has_operand(i) && QuantizedOperand(ctx, i))
      inner.operands()[i] = DequantizeTensor(ctx.operand(i), *OperandQuant(ctx, i));
    else if (ctx.has_operand(i) && ctx.operand_value(i).tensor() &&
             (ctx.operand(i).dtype() == DType::F16 || ctx.operand(i).dtype() == DType::BF16))
      inner.operands()[i] = ConvertTensor(ctx.operand(i), DType::F32);
  NPUC_RETURN_IF_ERROR(node.op().evaluate(inner));
  for (int i = 0; i < ctx.num_results(); ++i) {
    EvalValue &r = inner.results()[i];
    if (const QuantRef &q = ResultQuant(ctx, i); q && r.tensor()) {
      const Tensor f = r.tensor()->dtype() == DType::F32 ? *r.tensor() : ConvertTensor(*r.tensor(), DType::F32);
      r = QuantizeTensor(f, node.result(i)->type().dtype(), *q);
    }
    ctx.set_result(i, std::move(r));
  }
  return OkStatus();
}

void IntConvSums(const ConvShape &s, const Tensor &x, llvm::ArrayRef<int32_t> zx, const Tensor &w,
                 llvm::ArrayRef<int32_t> zw, EmitAcc emit, ThreadPool *pool) {
  if (IsByteSized(x.dtype()) && IsByteSized(w.dtype()))
    ConvI16(s, MinusZero16(x, zx, -1).data(), ConvWeights<int16_t>(s, w, zw).data(), emit, pool);
  else
    ConvI32(s, MinusZero32(x, zx, -1).data(), ConvWeights<int32_t>(s, w, zw).data(), emit, pool);
}

AccSink AccSink::Quantized(DType dtype, float sx, llvm::ArrayRef<float> sw, float sy, int32_t zy) {
  AccSink s;
  s.kind_ = Kind::Quantized;
  s.dtype_ = dtype;
  for (float w : sw)
    s.scale_.push_back(RequantScale(sx, w, sy));
  s.zero_ = zy;
  s.range_ = QuantRangeOf(dtype);
  return s;
}

AccSink AccSink::Float(float sx, llvm::ArrayRef<float> sw) {
  AccSink s;
  s.kind_ = Kind::Float;
  s.dtype_ = DType::F32;
  for (float w : sw)
    s.scale_.push_back(sx * w);
  return s;
}

AccSink AccSink::Int32() {
  return AccSink();
}

void AccSink::Store(void *out, int64_t at, int64_t c, int64_t acc) const {
  if (kind_ == Kind::Int32) {
    static_cast<int32_t *>(out)[at] = static_cast<int32_t>(acc);
    return;
  }
  const float scale = scale_[scale_.size() == 1 ? 0 : c % scale_.size()];
  if (kind_ == Kind::Float) {
    static_cast<float *>(out)[at] = static_cast<float>(acc) * scale;
    return;
  }
  const int32_t q = RequantizeAcc(acc, scale, zero_, range_);
  switch (ByteSize(dtype_)) {
  case 1:
    static_cast<uint8_t *>(out)[at] = static_cast<uint8_t>(q);
    break;
  case 2:
    static_cast<uint16_t *>(out)[at] = static_cast<uint16_t>(q);
    break;
  default:
    static_cast<int32_t *>(out)[at] = q;
    break;
  }
}

AccSink SinkOf(const EvalContext &ctx, float sx, llvm::ArrayRef<float> sw) {
  if (const QuantRef &q = ResultQuant(ctx, 0))
    return AccSink::Quantized(ctx.node().result(0)->type().dtype(), sx, sw, q->scale(), q->zero_point());
  return AccSink::Float(sx, sw);
}

} // namespace npuc::ops
