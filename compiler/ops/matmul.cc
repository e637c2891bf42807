// MatMul, Gemm, their whole-integer forms (MatMulInteger, QLinearMatMul) and com.microsoft's fused ones.
//
//   MatMul(a [..,M,K], b [..,K,N]) -> [..,M,N], batch axes broadcast as in numpy; a vector operand loses its axis
//   again. Gemm(a, b, c) = alpha * op(a) op(b) + beta * c, c broadcast one way to [M,N].
//
// Float: one chain per output over k, from 0. Quantised: exact integer sums, one multiply, one rounding (quant_math.h).
#include "compiler/ops/activation.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_eval.h"

namespace npuc::ops {
namespace {

struct MatMulPlan {
  int64_t m = 1, k = 1, n = 1;
  Dims batch;                               // broadcast
  llvm::SmallVector<int64_t, 8> a_at, b_at; // first element of each batch item
  Dims result;
  GemmShape gemm;
};

// trans_a/b exchange the last two axes (FusedMatMul).
StatusOr<MatMulPlan> Plan(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, bool trans_a = false,
                          bool trans_b = false) {
  if (a.empty() || b.empty())
    return ShapeError(fmt::format("operands {} and {} must have rank 1 or more", ToString(a), ToString(b)));
  Dims da(a.begin(), a.end()), db(b.begin(), b.end());
  if (a.size() == 1)
    da.insert(da.begin(), 1);
  if (b.size() == 1)
    db.push_back(1);
  trans_a = trans_a && a.size() > 1;
  trans_b = trans_b && b.size() > 1;
  const size_t ra = da.size(), rb = db.size();
  MatMulPlan p;
  p.m = da[ra - (trans_a ? 1 : 2)];
  p.k = da[ra - (trans_a ? 2 : 1)];
  p.n = db[rb - (trans_b ? 2 : 1)];
  if (const int64_t kb = db[rb - (trans_b ? 1 : 2)]; kb != p.k)
    return ShapeError(
        fmt::format("inner extents differ: {} times {} sums over {} against {}", ToString(a), ToString(b), p.k, kb));
  const llvm::ArrayRef<int64_t> ba(da.data(), ra - 2), bb(db.data(), rb - 2);
  NPUC_ASSIGN_OR_RETURN(p.batch, BroadcastDims(ba, bb));
  if (NumElements(p.batch) > 0) {
    const BroadcastPlan<2> plan(p.batch, {ba, bb});
    const int64_t inner = plan.dims.back();
    plan.ForEachRow([&](int64_t, const std::array<int64_t, 2> &from) {
      for (int64_t i = 0; i < inner; ++i) {
        p.a_at.push_back((from[0] + i * plan.strides[0].back()) * p.m * p.k);
        p.b_at.push_back((from[1] + i * plan.strides[1].back()) * p.k * p.n);
      }
    });
  }
  p.result = p.batch;
  if (a.size() > 1)
    p.result.push_back(p.m);
  if (b.size() > 1)
    p.result.push_back(p.n);
  p.gemm.m = p.m;
  p.gemm.n = p.n;
  p.gemm.k = p.k;
  p.gemm.a_m = trans_a ? 1 : p.k;
  p.gemm.a_k = trans_a ? p.m : 1;
  p.gemm.b_k = trans_b ? 1 : p.n;
  p.gemm.b_n = trans_b ? p.k : 1;
  // One matrix against the whole batch of a: more rows instead of more products.
  const bool b_shared = llvm::all_of(p.b_at, [](int64_t at) { return at == 0; });
  if (b_shared && !trans_a && p.a_at.size() > 1 && NumElements(ba) == static_cast<int64_t>(p.a_at.size())) {
    p.gemm.m *= static_cast<int64_t>(p.a_at.size());
    p.a_at.resize(1);
    p.b_at.resize(1);
  }
  return p;
}

StatusOr<Shape> InferProduct(const Shape &a, const Shape &b, bool trans_a = false, bool trans_b = false) {
  if (!a.ranked() || !b.ranked())
    return Shape::Unranked();
  if (a.rank() == 0 || b.rank() == 0)
    return ShapeError(fmt::format("operands {} and {} must have rank 1 or more", a.ToString(), b.ToString()));
  trans_a = trans_a && a.rank() > 1;
  trans_b = trans_b && b.rank() > 1;
  const Dim ka = a.rank() == 1 ? a[0] : a[a.rank() - (trans_a ? 2 : 1)];
  const Dim kb = b.rank() == 1 ? b[0] : b[b.rank() - (trans_b ? 1 : 2)];
  NPUC_RETURN_IF_ERROR(
      MergeDim(ka, kb, fmt::format("inner extents of {} and {} differ", a.ToString(), b.ToString())).status());
  const Shape ba(a.dims().drop_back(std::min(2, a.rank()))), bb(b.dims().drop_back(std::min(2, b.rank())));
  std::optional<Shape> out = BroadcastShapes(ba, bb);
  if (!out)
    return ShapeError(fmt::format("batch axes of {} and {} do not broadcast together", a.ToString(), b.ToString()));
  if (a.rank() > 1)
    out->push_back(a[a.rank() - (trans_a ? 1 : 2)]);
  if (b.rank() > 1)
    out->push_back(b[b.rank() - (trans_b ? 2 : 1)]);
  return *out;
}

Status InferMatMul(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1}));
  NPUC_ASSIGN_OR_RETURN(Shape s, InferProduct(ShapeOf(ctx, 0), ShapeOf(ctx, 1)));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}

// The product of numeric tensors.
StatusOr<Tensor> Product(const Tensor &a, const Tensor &b, bool trans_a, bool trans_b, ThreadPool *pool) {
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(a.dims(), b.dims(), trans_a, trans_b));
  Tensor y = Tensor::Allocate(a.dtype(), p.result);
  NPUC_RETURN_IF_ERROR(DispatchNumeric(a.dtype(), [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const int64_t size = p.gemm.m * p.gemm.n;
    for (size_t i = 0; i < p.a_at.size(); ++i) {
      const T *pa = a.data<T>() + p.a_at[i], *pb = b.data<T>() + p.b_at[i];
      T *c = y.template mutable_data<T>() + i * size;
      if constexpr (std::is_same_v<T, float>)
        GemmF32(p.gemm, pa, pb, c, pool);
      else if constexpr (std::is_same_v<T, double>)
        GemmF64(p.gemm, pa, pb, c, pool);
      else
        GemmInt<T>(p.gemm, pa, pb, c);
    }
    return OkStatus();
  }));
  return y;
}

Status EvaluateMatMul(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Tensor y, Product(ctx.operand(0), ctx.operand(1), false, false, ctx.threads()));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// Sums of (a - za) * (b - zb), batch by batch: emit(first element of the result, sums [m][n]).
template <class Emit>
void IntProduct(const MatMulPlan &p, const Tensor &a, llvm::ArrayRef<int32_t> za, int za_axis, const Tensor &b,
                llvm::ArrayRef<int32_t> zb, int zb_axis, ThreadPool *pool, Emit &&emit) {
  const int64_t size = p.gemm.m * p.gemm.n;
  std::vector<int64_t> acc(size);
  auto run = [&](const auto &va, const auto &vb, auto kernel) {
    for (size_t i = 0; i < p.a_at.size(); ++i) {
      std::fill(acc.begin(), acc.end(), 0);
      kernel(p.gemm, va.data() + p.a_at[i], vb.data() + p.b_at[i], acc.data(), pool);
      emit(static_cast<int64_t>(i) * size, acc.data());
    }
  };
  if (IsByteSized(a.dtype()) && IsByteSized(b.dtype()))
    run(MinusZero16(a, za, za_axis), MinusZero16(b, zb, zb_axis), GemmI16);
  else
    run(MinusZero32(a, za, za_axis), MinusZero32(b, zb, zb_axis), GemmI32);
}

Tensor RunIntProduct(const MatMulPlan &p, const Tensor &a, llvm::ArrayRef<int32_t> za, int za_axis, const Tensor &b,
                     llvm::ArrayRef<int32_t> zb, int zb_axis, const AccSink &sink, ThreadPool *pool) {
  Tensor y = Tensor::Allocate(sink.dtype(), p.result);
  uint8_t *const out = y.mutable_bytes();
  IntProduct(p, a, za, za_axis, b, zb, zb_axis, pool, [&](int64_t at, const int64_t *acc) {
    for (int64_t i = 0; i < p.gemm.m * p.gemm.n; ++i)
      sink.Store(out, at + i, i % p.n, acc[i]);
  });
  return y;
}

Status EvaluateQuantizedMatMul(EvalContext &ctx) {
  const QuantRef &qa = OperandQuant(ctx, 0), &qb = OperandQuant(ctx, 1);
  const Tensor &a = ctx.operand(0), &b = ctx.operand(1);
  const bool exact = qa && qb && qa->per_tensor() &&
                     (qb->per_tensor() || (b.rank() >= 2 && qb->axis == b.rank() - 1)) &&
                     (!ResultQuant(ctx, 0) || ResultQuant(ctx, 0)->per_tensor());
  if (!exact)
    return EvaluateByDequantizing(ctx);
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(a.dims(), b.dims()));
  ctx.set_result(0, RunIntProduct(p, a, qa->zero_points, -1, b, qb->zero_points, qb->axis,
                                  SinkOf(ctx, qa->scale(), qb->scales), ctx.threads()));
  return OkStatus();
}

// ---- Zero points and scales as operands

llvm::SmallVector<int32_t, 4> ZerosAt(EvalContext &ctx, int i) {
  llvm::SmallVector<int32_t, 4> out;
  if (!ctx.has_operand(i))
    return {0};
  for (int64_t v : AsInts(ctx.operand(i)))
    out.push_back(static_cast<int32_t>(v));
  return out;
}

// A parameter of a matrix operand: one value, one per row (a: [..,M] or [..,M,1]) or per column (b: [N], [..,1,N]),
// possibly for each batch item. Expanded to the operand's own shape minus nothing: values[i] belongs to element i of
// the operand.
template <class T> StatusOr<std::vector<T>> PerElement(const Tensor &param, const Tensor &operand, bool rows) {
  Dims dims(param.dims().begin(), param.dims().end());
  const int64_t n = param.num_elements();
  std::vector<T> values(n);
  const FloatView f(param);
  for (int64_t i = 0; i < n; ++i)
    values[i] = std::is_floating_point_v<T> ? static_cast<T>(f[i]) : static_cast<T>(param.AsInt(i));
  if (n == 1)
    dims.clear();
  else if (dims.size() == 1 && rows && operand.rank() > 1)
    dims.push_back(1); // [M] is a column
  NPUC_ASSIGN_OR_RETURN(const Dims all, BroadcastDims(dims, operand.dims()));
  if (llvm::ArrayRef<int64_t>(all) != operand.dims())
    return ShapeError(fmt::format("a scale or zero point of shape {} does not fit the operand {}",
                                  ToString(param.dims()), ToString(operand.dims())));
  std::vector<T> out(operand.num_elements());
  if (out.empty())
    return out;
  const BroadcastPlan<1> plan(all, {llvm::ArrayRef<int64_t>(dims)});
  const int64_t inner = plan.dims.back(), stride = plan.strides[0].back();
  plan.ForEachRow([&](int64_t at, const std::array<int64_t, 1> &from) {
    for (int64_t i = 0; i < inner; ++i)
      out[at + i] = values[from[0] + i * stride];
  });
  return out;
}

// operand - zero, any broadcast form of zero, as an i32 tensor.
StatusOr<Tensor> Centered(EvalContext &ctx, int operand, int zero, bool rows) {
  const Tensor x = ConvertTensor(ctx.operand(operand), DType::I32);
  if (!ctx.has_operand(zero))
    return x;
  NPUC_ASSIGN_OR_RETURN(const std::vector<int32_t> z,
                        PerElement<int32_t>(ctx.operand(zero), ctx.operand(operand), rows));
  Tensor out = Tensor::Allocate(DType::I32, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i)
    out.mutable_data<int32_t>()[i] = x.data<int32_t>()[i] - z[i];
  return out;
}

Status InferMatMulInteger(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Shape s, InferProduct(ShapeOf(ctx, 0), ShapeOf(ctx, 1)));
  SetTensor(ctx, 0, DType::I32, std::move(s));
  return OkStatus();
}

// The i32 sums of operands 0 and 1 with zero points at za, zb.
StatusOr<Tensor> IntegerSums(EvalContext &ctx, int ai, int bi, int za, int zb) {
  const Tensor &a = ctx.operand(ai), &b = ctx.operand(bi);
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(a.dims(), b.dims()));
  const auto scalar_or_columns = [&](int i, int64_t columns) {
    return !ctx.has_operand(i) || ctx.operand(i).num_elements() == 1 ||
           (ctx.operand(i).rank() == 1 && ctx.operand(i).num_elements() == columns && b.rank() == 2);
  };
  if (scalar_or_columns(za, -1) && scalar_or_columns(zb, p.n)) {
    const auto z = ZerosAt(ctx, zb);
    return RunIntProduct(p, a, ZerosAt(ctx, za), -1, b, z, z.size() > 1 ? b.rank() - 1 : -1, AccSink::Int32(),
                         ctx.threads());
  }
  NPUC_ASSIGN_OR_RETURN(const Tensor ca, Centered(ctx, ai, za, true));
  NPUC_ASSIGN_OR_RETURN(const Tensor cb, Centered(ctx, bi, zb, false));
  return RunIntProduct(p, ca, {}, -1, cb, {}, -1, AccSink::Int32(), ctx.threads());
}

Status EvaluateMatMulInteger(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Tensor y, IntegerSums(ctx, 0, 1, 2, 3));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// QLinearMatMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
Status InferQLinearMatMul(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Shape s, InferProduct(ShapeOf(ctx, 0), ShapeOf(ctx, 3)));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 7), std::move(s));
  return OkStatus();
}

Status EvaluateQLinearMatMul(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0), &b = ctx.operand(3);
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(a.dims(), b.dims()));
  const FloatView sa(ctx.operand(1)), sb(ctx.operand(4)), sy(ctx.operand(6));
  const DType dtype = ctx.operand(7).dtype();
  const auto zy = ZerosAt(ctx, 7);
  if (sy.size() != 1 || zy.size() != 1)
    return ShapeError("y_scale and y_zero_point must be scalars");
  const bool simple = sa.size() == 1 && ctx.operand(2).num_elements() == 1 &&
                      (sb.size() == 1 || (ctx.operand(4).rank() == 1 && sb.size() == p.n)) &&
                      (ctx.operand(5).num_elements() == 1 || (ctx.operand(5).rank() == 1 && b.rank() == 2));
  if (simple) {
    const auto zb = ZerosAt(ctx, 5);
    const AccSink sink = AccSink::Quantized(dtype, sa[0], llvm::ArrayRef<float>(sb.data(), sb.size()), sy[0], zy[0]);
    ctx.set_result(
        0, RunIntProduct(p, a, ZerosAt(ctx, 2), -1, b, zb, zb.size() > 1 ? b.rank() - 1 : -1, sink, ctx.threads()));
    return OkStatus();
  }
  // Per row or per batch item: element (m, n) has the scale of row m of a and column n of b.
  NPUC_ASSIGN_OR_RETURN(const Tensor ca, Centered(ctx, 0, 2, true));
  NPUC_ASSIGN_OR_RETURN(const Tensor cb, Centered(ctx, 3, 5, false));
  NPUC_ASSIGN_OR_RETURN(const std::vector<float> ea, PerElement<float>(ctx.operand(1), a, true));
  NPUC_ASSIGN_OR_RETURN(const std::vector<float> eb, PerElement<float>(ctx.operand(4), b, false));
  Tensor q = Tensor::Allocate(DType::I32, p.result);
  const QuantRange range = QuantRangeOf(dtype);
  const int64_t rows = p.gemm.m;
  int64_t item = 0;
  IntProduct(p, ca, {}, -1, cb, {}, -1, ctx.threads(), [&](int64_t at, const int64_t *acc) {
    for (int64_t m = 0; m < rows; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        const float scale = RequantScale(ea[p.a_at[item] + m * p.k], eb[p.b_at[item] + n], sy[0]);
        q.mutable_data<int32_t>()[at + m * p.n + n] = RequantizeAcc(acc[m * p.n + n], scale, zy[0], range);
      }
    ++item;
  });
  ctx.set_result(0, ConvertTensor(q, dtype));
  return OkStatus();
}

// ---- Gemm

Status InferGemm(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1, 2}));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 2, 2));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 2, 2));
  const bool ta = ctx.attrs().Int("transA", 0) != 0, tb = ctx.attrs().Int("transB", 0) != 0;
  Shape a = ShapeOf(ctx, 0), b = ShapeOf(ctx, 1), out = Shape::UnknownDims(2);
  if (a.ranked())
    out[0] = a[ta ? 1 : 0];
  if (b.ranked())
    out[1] = b[tb ? 0 : 1];
  if (a.ranked() && b.ranked())
    NPUC_RETURN_IF_ERROR(MergeDim(a[ta ? 0 : 1], b[tb ? 1 : 0],
                                  fmt::format("inner extents of {} and {} differ", a.ToString(), b.ToString()))
                             .status());
  const Shape c = ShapeOf(ctx, 2);
  if (ctx.has_operand(2) && c.ranked()) {
    const auto merged = BroadcastShapes(out, c);
    bool ok = merged && merged->rank() == 2;
    for (int i = 0; ok && i < 2; ++i)
      ok = !out[i].is_static() || !(*merged)[i].is_static() || (*merged)[i].value() == out[i].value();
    if (!ok)
      return ShapeError(fmt::format("C {} does not broadcast to the product's shape {}", c.ToString(), out.ToString()));
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(out));
  return OkStatus();
}

// alpha * product + beta * c
template <class T> StatusOr<Tensor> AlphaBeta(const Tensor &product, float alpha, float beta, const Tensor *c) {
  Tensor y = product;
  auto scale = [](const Tensor &t, float f) {
    if (f == 1.0f)
      return t;
    return UnaryMap<T, T>(t, t.dtype(), [f](T v) {
      return static_cast<T>(std::is_floating_point_v<T> ? v * static_cast<T>(f)
                                                        : static_cast<T>(static_cast<double>(v) * f));
    });
  };
  y = scale(y, alpha);
  if (!c || beta == 0.0f)
    return y;
  NPUC_ASSIGN_OR_RETURN(const Dims dims, BroadcastDims(y.dims(), c->dims()));
  if (llvm::ArrayRef<int64_t>(dims) != y.dims())
    return ShapeError(
        fmt::format("C {} does not broadcast to the product's shape {}", ToString(c->dims()), ToString(y.dims())));
  return BinaryMap<T, T, T>(y, scale(*c, beta), y.dtype(), [](T a, T b) { return static_cast<T>(a + b); });
}

Status EvaluateGemm(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0), &b = ctx.operand(1);
  if (a.rank() != 2 || b.rank() != 2)
    return ShapeError(fmt::format("A {} and B {} must be matrices", ToString(a.dims()), ToString(b.dims())));
  const auto &attrs = ctx.attrs();
  NPUC_ASSIGN_OR_RETURN(Tensor y,
                        Product(a, b, attrs.Int("transA", 0) != 0, attrs.Int("transB", 0) != 0, ctx.threads()));
  NPUC_RETURN_IF_ERROR(DispatchNumeric(a.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    NPUC_ASSIGN_OR_RETURN(y, AlphaBeta<T>(y, attrs.Float("alpha", 1), attrs.Float("beta", 1),
                                          ctx.has_operand(2) ? &ctx.operand(2) : nullptr));
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// acc = c + sum, c raw i32 broadcast to [M,N]; alpha and beta must be 1.
Status EvaluateQuantizedGemm(EvalContext &ctx) {
  const QuantRef &qa = OperandQuant(ctx, 0), &qb = OperandQuant(ctx, 1);
  const auto &attrs = ctx.attrs();
  const bool ta = attrs.Int("transA", 0) != 0, tb = attrs.Int("transB", 0) != 0;
  const bool exact = qa && qb && qa->per_tensor() && (qb->per_tensor() || qb->axis == (tb ? 0 : 1)) &&
                     attrs.Float("alpha", 1) == 1.0f && (attrs.Float("beta", 1) == 1.0f || !ctx.has_operand(2)) &&
                     (!ctx.has_operand(2) || IsInt(ctx.operand(2).dtype())) &&
                     (!ResultQuant(ctx, 0) || ResultQuant(ctx, 0)->per_tensor());
  if (!exact)
    return EvaluateByDequantizing(ctx);
  const Tensor &a = ctx.operand(0), &b = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(a.dims(), b.dims(), ta, tb));
  std::vector<int64_t> bias(p.m * p.n, 0);
  if (ctx.has_operand(2)) {
    NPUC_ASSIGN_OR_RETURN(const Tensor c,
                          BinaryMap<int64_t, int64_t, int64_t>(ConvertTensor(ctx.operand(2), DType::I64),
                                                               Tensor::Allocate(DType::I64, {p.m, p.n}), DType::I64,
                                                               [](int64_t x, int64_t) { return x; }));
    if (c.num_elements() != p.m * p.n)
      return ShapeError(fmt::format("C {} does not broadcast to [{},{}]", ToString(ctx.operand(2).dims()), p.m, p.n));
    std::memcpy(bias.data(), c.bytes(), bias.size() * sizeof(int64_t));
  }
  const AccSink sink = SinkOf(ctx, qa->scale(), qb->scales);
  Tensor y = Tensor::Allocate(sink.dtype(), p.result);
  uint8_t *out = y.mutable_bytes();
  IntProduct(p, a, qa->zero_points, -1, b, qb->zero_points, qb->axis, ctx.threads(),
             [&](int64_t at, const int64_t *acc) {
               for (int64_t i = 0; i < p.m * p.n; ++i)
                 sink.Store(out, at + i, i % p.n, acc[i] + bias[i]);
             });
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// ---- com.microsoft

bool Flag(const AttributeList &attrs, std::string_view name) {
  return attrs.Int(name, 0) != 0;
}

// transBatchA/B exchange the batch axes with M (K): [M, batch.., K] -> [batch.., M, K].
Tensor BatchToFront(const Tensor &t, bool on) {
  if (!on || t.rank() < 3)
    return t;
  const llvm::ArrayRef<int64_t> d = t.dims();
  const int64_t first = d[0], last = d.back(), middle = NumElements(d.drop_front().drop_back());
  Dims dims(d.begin() + 1, d.end() - 1);
  dims.push_back(first);
  dims.push_back(last);
  Tensor out = Tensor::Allocate(t.dtype(), dims);
  const int64_t row = last * ByteSize(t.dtype());
  for (int64_t i = 0; i < first; ++i)
    for (int64_t j = 0; j < middle; ++j)
      std::memcpy(out.mutable_bytes() + (j * first + i) * row, t.bytes() + (i * middle + j) * row, row);
  return out;
}

Shape BatchToFront(const Shape &s, bool on) {
  if (!on || !s.ranked() || s.rank() < 3)
    return s;
  Shape out(s.dims().drop_front().drop_back());
  out.push_back(s[0]);
  out.push_back(s[s.rank() - 1]);
  return out;
}

Status InferFusedMatMul(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckSameDType(ctx, {0, 1}));
  const auto &a = ctx.attrs();
  NPUC_ASSIGN_OR_RETURN(Shape s, InferProduct(BatchToFront(ShapeOf(ctx, 0), Flag(a, "transBatchA")),
                                              BatchToFront(ShapeOf(ctx, 1), Flag(a, "transBatchB")), Flag(a, "transA"),
                                              Flag(a, "transB")));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}

Status EvaluateFusedMatMul(EvalContext &ctx) {
  const auto &a = ctx.attrs();
  NPUC_ASSIGN_OR_RETURN(Tensor y, Product(BatchToFront(ctx.operand(0), Flag(a, "transBatchA")),
                                          BatchToFront(ctx.operand(1), Flag(a, "transBatchB")), Flag(a, "transA"),
                                          Flag(a, "transB"), ctx.threads()));
  NPUC_RETURN_IF_ERROR(DispatchFloat(y.dtype(), [&](auto tag) -> Status {
    NPUC_ASSIGN_OR_RETURN(y, AlphaBeta<TypeOf<decltype(tag)>>(y, a.Float("alpha", 1), 0, nullptr));
    return OkStatus();
  }));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status EvaluateFusedGemm(EvalContext &ctx) {
  NPUC_RETURN_IF_ERROR(EvaluateGemm(ctx));
  return AddAndActivate(ctx, -1);
}

// QGemm: A, a_scale, a_zero, B, b_scale, b_zero, C (i32), y_scale, y_zero. Without y_scale the result is f32.
Status InferQGemm(InferContext &ctx) {
  const Shape a = ShapeOf(ctx, 0), b = ShapeOf(ctx, 3);
  const bool ta = Flag(ctx.attrs(), "transA"), tb = Flag(ctx.attrs(), "transB");
  Shape out = Shape::UnknownDims(2);
  if (a.ranked() && a.rank() == 2)
    out[0] = a[ta ? 1 : 0];
  if (b.ranked() && b.rank() == 2)
    out[1] = b[tb ? 0 : 1];
  SetTensor(ctx, 0,
            ctx.has_operand(7) ? (ctx.has_operand(8) ? DTypeOfOperand(ctx, 8) : DTypeOfOperand(ctx, 0)) : DType::F32,
            std::move(out));
  return OkStatus();
}

Status EvaluateQGemm(EvalContext &ctx) {
  const Tensor &a = ctx.operand(0), &b = ctx.operand(3);
  const bool ta = Flag(ctx.attrs(), "transA"), tb = Flag(ctx.attrs(), "transB");
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(a.dims(), b.dims(), ta, tb));
  const FloatView sa(ctx.operand(1)), sb(ctx.operand(4));
  const auto za = ZerosAt(ctx, 2), zb = ZerosAt(ctx, 5);
  // alpha multiplies the scale, as onnxruntime does.
  const float alpha = ctx.attrs().Float("alpha", 1);
  std::vector<float> scale(sb.data(), sb.data() + sb.size());
  AccSink sink = AccSink::Float(sa[0] * alpha, scale);
  if (ctx.has_operand(7)) {
    const DType dtype = ctx.has_operand(8) ? ctx.operand(8).dtype() : a.dtype();
    sink = AccSink::Quantized(dtype, sa[0] * alpha, scale, FloatView(ctx.operand(7))[0], ZerosAt(ctx, 8)[0]);
  }
  std::vector<int64_t> bias(p.m * p.n, 0);
  if (ctx.has_operand(6)) {
    NPUC_ASSIGN_OR_RETURN(const Dims dims, BroadcastDims(ctx.operand(6).dims(), {p.m, p.n}));
    const BroadcastPlan<1> plan(dims, {ctx.operand(6).dims()});
    plan.ForEachRow([&](int64_t at, const std::array<int64_t, 1> &from) {
      for (int64_t i = 0; i < plan.dims.back(); ++i)
        bias[at + i] = ctx.operand(6).AsInt(from[0] + i * plan.strides[0].back());
    });
  }
  Tensor y = Tensor::Allocate(sink.dtype(), p.result);
  uint8_t *out = y.mutable_bytes();
  IntProduct(p, a, za, -1, b, zb, zb.size() > 1 ? (tb ? 0 : 1) : -1, ctx.threads(),
             [&](int64_t at, const int64_t *acc) {
               for (int64_t i = 0; i < p.m * p.n; ++i)
                 sink.Store(out, at + i, i % p.n, acc[i] + bias[i]);
             });
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// f32(sum) * (a_scale * b_scale[n]) + bias[n]
StatusOr<Tensor> SumsToFloat(const Tensor &sums, const FloatView &sa, const FloatView &sb, const Tensor *bias) {
  const int64_t n = sums.dims().back();
  if (sa.size() != 1 || (sb.size() != 1 && sb.size() != n))
    return ShapeError("a_scale must be a scalar, b_scale a scalar or one value per column");
  Tensor y = Tensor::Allocate(DType::F32, sums.dims());
  for (int64_t i = 0; i < sums.num_elements(); ++i)
    y.mutable_data<float>()[i] = static_cast<float>(sums.data<int32_t>()[i]) * (sa[0] * sb[sb.size() == 1 ? 0 : i % n]);
  if (!bias)
    return y;
  return BinaryMap<float, float, float>(y, *bias, DType::F32, [](float a, float b) { return a + b; });
}

// MatMulIntegerToFloat: A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias.
Status InferMatMulIntegerToFloat(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Shape s, InferProduct(ShapeOf(ctx, 0), ShapeOf(ctx, 1)));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 2), std::move(s));
  return OkStatus();
}
Status EvaluateMatMulIntegerToFloat(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const Tensor sums, IntegerSums(ctx, 0, 1, 4, 5));
  NPUC_ASSIGN_OR_RETURN(Tensor y, SumsToFloat(sums, FloatView(ctx.operand(2)), FloatView(ctx.operand(3)),
                                              ctx.has_operand(6) ? &ctx.operand(6) : nullptr));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

// DynamicQuantizeMatMul: A (f32), B (8 bit), b_scale, b_zero_point, bias: A is quantised to u8 over its own range
// first.
Status InferDynamicQuantizeMatMul(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(Shape s, InferProduct(ShapeOf(ctx, 0), ShapeOf(ctx, 1)));
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), std::move(s));
  return OkStatus();
}
Status EvaluateDynamicQuantizeMatMul(EvalContext &ctx) {
  const FloatView a(ctx.operand(0)), sb(ctx.operand(2));
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    lo = a[i] < lo ? a[i] : lo;
    hi = a[i] > hi ? a[i] : hi;
  }
  const float scale = hi == lo ? 1.0f : (hi - lo) / 255.0f;
  const int32_t zero = RoundAndClamp(-lo / scale, 0, QuantRangeOf(DType::U8));
  const Tensor q = QuantizeTensor(ctx.operand(0), DType::U8, QuantParams{{scale}, {zero}, -1});
  const Tensor &b = ctx.operand(1);
  NPUC_ASSIGN_OR_RETURN(const MatMulPlan p, Plan(q.dims(), b.dims()));
  const auto zb = ZerosAt(ctx, 3);
  const Tensor sums =
      RunIntProduct(p, q, {zero}, -1, b, zb, zb.size() > 1 ? b.rank() - 1 : -1, AccSink::Int32(), ctx.threads());
  const Tensor s = Tensor::ScalarF32(scale);
  NPUC_ASSIGN_OR_RETURN(Tensor y, SumsToFloat(sums, FloatView(s), sb, ctx.has_operand(4) ? &ctx.operand(4) : nullptr));
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

} // namespace

OpDef MatMulDef() {
  return {.domain = "",
          .name = "MatMul",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 2,
          .infer = InferMatMul,
          .evaluate = EvaluateMatMul,
          .evaluate_quantized = EvaluateQuantizedMatMul,
          .doc = "Matrix product with numpy's batch broadcasting."};
}
OpDef GemmDef() {
  return {.domain = "",
          .name = "Gemm",
          .since_version = 13,
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {FloatAttr("alpha"), FloatAttr("beta"), IntAttr("transA"), IntAttr("transB")},
          .infer = InferGemm,
          .evaluate = EvaluateGemm,
          .evaluate_quantized = EvaluateQuantizedGemm,
          .doc = "alpha * A' * B' + beta * C."};
}
OpDef MatMulIntegerDef() {
  return {.domain = "",
          .name = "MatMulInteger",
          .since_version = 10,
          .min_operands = 2,
          .max_operands = 4,
          .infer = InferMatMulInteger,
          .evaluate = EvaluateMatMulInteger,
          .doc = "Matrix product of 8-bit integers into int32."};
}
OpDef QLinearMatMulDef() {
  return {.domain = "",
          .name = "QLinearMatMul",
          .since_version = 21,
          .min_operands = 8,
          .max_operands = 8,
          .infer = InferQLinearMatMul,
          .evaluate = EvaluateQLinearMatMul,
          .doc = "Quantised matrix product with scales and zero points as operands."};
}
OpDef MsFusedMatMulDef() {
  return {.domain = "com.microsoft",
          .name = "FusedMatMul",
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {FloatAttr("alpha"), IntAttr("transA"), IntAttr("transB"), IntAttr("transBatchA"),
                    IntAttr("transBatchB")},
          .infer = InferFusedMatMul,
          .evaluate = EvaluateFusedMatMul,
          .doc = "alpha times a product of possibly transposed operands."};
}
OpDef MsFusedGemmDef() {
  return {.domain = "com.microsoft",
          .name = "FusedGemm",
          .min_operands = 2,
          .max_operands = 3,
          .attrs = {FloatAttr("alpha"), FloatAttr("beta"), IntAttr("transA"), IntAttr("transB"),
                    StringAttr("activation"), FloatAttr("activation_alpha"), FloatAttr("activation_beta"),
                    FloatAttr("activation_gamma")},
          .infer = InferGemm,
          .evaluate = EvaluateFusedGemm,
          .doc = "Gemm and an activation."};
}
OpDef MsQGemmDef() {
  return {.domain = "com.microsoft",
          .name = "QGemm",
          .min_operands = 6,
          .max_operands = 9,
          .attrs = {FloatAttr("alpha"), IntAttr("transA"), IntAttr("transB")},
          .infer = InferQGemm,
          .evaluate = EvaluateQGemm,
          .doc = "Quantised Gemm."};
}
OpDef MsMatMulIntegerToFloatDef() {
  return {.domain = "com.microsoft",
          .name = "MatMulIntegerToFloat",
          .min_operands = 4,
          .max_operands = 7,
          .infer = InferMatMulIntegerToFloat,
          .evaluate = EvaluateMatMulIntegerToFloat,
          .doc = "MatMulInteger scaled to float."};
}
OpDef MsDynamicQuantizeMatMulDef() {
  return {.domain = "com.microsoft",
          .name = "DynamicQuantizeMatMul",
          .min_operands = 3,
          .max_operands = 5,
          .infer = InferDynamicQuantizeMatMul,
          .evaluate = EvaluateDynamicQuantizeMatMul,
          .doc = "MatMul of an operand quantised on the fly with 8-bit weights."};
}

} // namespace npuc::ops
