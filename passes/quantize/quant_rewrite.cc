#include "passes/quantize/quant_rewrite.h"

#include <cmath>
#include <limits>

namespace npuc {

QuantRef ReadQuant(const Value *scale, const Value *zero, int64_t axis, const Type &type) {
  const Tensor *s = scale ? scale->constant() : nullptr;
  const Tensor *z = zero ? zero->constant() : nullptr;
  if (!s || (zero && !z))
    return nullptr;
  if (s->rank() > 1 || (z && z->num_elements() != s->num_elements())) {
    // A bias's zero point may be one 0 beside several scales.
    if (s->rank() > 1 || !z || z->num_elements() != 1)
      return nullptr;
  }
  if (!IsFloat(s->dtype()) || (z && IsFloat(z->dtype())))
    return nullptr;
  QuantParams q;
  const int64_t n = s->num_elements();
  if (n < 1)
    return nullptr;
  if (s->rank() == 1 && n > 1) {
    if (!type.is_tensor() || !type.shape().ranked())
      return nullptr;
    const int rank = type.shape().rank();
    if (axis < 0)
      axis += rank;
    if (axis < 0 || axis >= rank || !type.shape()[axis].is_static() || type.shape()[axis].value() != n)
      return nullptr;
    q.axis = static_cast<int>(axis);
  }
  for (int64_t i = 0; i < n; ++i) {
    const float v = static_cast<float>(s->AsDouble(i));
    if (!(v > 0) || !std::isfinite(v))
      return nullptr;
    q.scales.push_back(v);
    q.zero_points.push_back(z ? static_cast<int32_t>(z->AsInt(z->num_elements() == 1 ? 0 : i)) : 0);
  }
  // Equal slices are one: passes look for per-tensor parameters.
  if (q.axis >= 0) {
    bool equal = true;
    for (int64_t i = 1; i < n && equal; ++i)
      equal = q.scales[i] == q.scales[0] && q.zero_points[i] == q.zero_points[0];
    if (equal)
      q = {{q.scales[0]}, {q.zero_points[0]}, -1};
  }
  return std::make_shared<const QuantParams>(std::move(q));
}

bool HasTypedForm(const Node &n, QuantRef *quant) {
  if (n.attrs().Int("block_size", 0) != 0)
    return false;
  const Value *const x = n.operand(0);
  const Type &out = n.result()->type();
  if ((!IsRawInteger(x->type()) && !TypedSource(x)) || !out.is_tensor() ||
      (out.dtype() != DType::F32 && out.dtype() != DType::F16))
    return false;
  const QuantRef q = ReadQuant(n.operand(1), n.operand(2), n.attrs().Int("axis", 1), x->type());
  // Of fewer than 8 bits or with several scales only weights are multiplied.
  if (!q || ((!q->per_tensor() || BitWidth(x->type().dtype()) < 8) && !x->constant()))
    return false;
  if (quant)
    *quant = q;
  return true;
}

Value *TypedSource(const Value *v) {
  const Node *cast = DefinedBy(v, "QuantCast", "npuc");
  return cast && !v->type().is_quantized() && cast->operand(0)->type().is_quantized() ? cast->operand(0) : nullptr;
}

bool IsRawInteger(const Type &t) {
  if (!t.is_tensor() || t.is_quantized())
    return false;
  switch (t.dtype()) {
  case DType::I8:
  case DType::U8:
  case DType::I16:
  case DType::U16:
  case DType::I4:
  case DType::U4:
  case DType::I2:
  case DType::U2:
  case DType::I32:
    return true;
  default:
    return false;
  }
}

namespace {
Tensor AtLeastFourBits(const Tensor &t) {
  if (t.dtype() != DType::I2 && t.dtype() != DType::U2)
    return t;
  const DType wide = t.dtype() == DType::I2 ? DType::I4 : DType::U4; // one byte an element, both
  if (t.is_splat())
    return Tensor::Splat(wide, t.dims(), t.bytes());
  Tensor r = Tensor::Allocate(wide, t.dims());
  std::memcpy(r.mutable_bytes(), t.bytes(), t.num_stored_bytes());
  return r;
}
} // namespace

Value *QuantRewriter::Typed(Value *raw, const QuantRef &quant, Node *before) {
  if (Value *source = TypedSource(raw)) {
    if (SameQuant(source->type().quant(), quant))
      return source;
    raw = source; // other parameters for the same integers: cast from the typed value
  }
  Type type = raw->type();
  type.set_quant(quant);
  // One cast or copy a value and parameter set.
  for (const Use &u : raw->uses())
    if (IsNpucOp(*u.user, "QuantCast") && u.user->graph() == raw->graph() && u.user->result()->type() == type)
      return u.user->result();
  Graph &g = *raw->graph();
  if (const Tensor *t = raw->constant()) {
    Value *copy = g.AddConstant(AtLeastFourBits(*t), raw->name() + "_q", raw->def(), quant);
    copy->type().set_shape(raw->type().shape());
    return copy;
  }
  Node *const at = raw->def() ? &*std::next(raw->def()->getIterator()) : &*g.nodes().begin();
  (void)before;
  Rewriter rw(at);
  return rw.Create("QuantCast", {raw}, {}, {type}, {}, "npuc")->result();
}

Value *QuantRewriter::Raw(Value *typed, Node *before) {
  Type type = typed->type();
  type.set_quant(nullptr);
  Rewriter rw(before);
  return rw.Create("QuantCast", {typed}, {}, {type}, {}, "npuc")->result();
}

bool PassesQuantThrough(const Node &n) {
  if (!n.op().domain.empty())
    return false;
  if (IsOneOf(n,
              {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Concat", "Split", "Expand", "Tile",
               "Identity", "Gather", "DepthToSpace", "SpaceToDepth", "MaxPool", "GlobalMaxPool", "ReverseSequence"}))
    return !(n.Is("MaxPool") && n.num_results() > 1 && n.result(1)->has_uses());
  if (IsOneOf(n, {"ReduceMax", "ReduceMin"}))
    return true;
  if (IsOneOf(n, {"Max", "Min"}))
    return true;
  if (IsOneOf(n, {"Resize", "Upsample"}))
    return n.attrs().String("mode", "nearest") == "nearest" &&
           n.attrs().String("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
  if (n.Is("Pad"))
    return n.attrs().String("mode", "constant") != "constant"; // with a value: see convert-qdq
  return false;
}

llvm::SmallVector<unsigned, 4> DataOperands(const Node &n) {
  llvm::SmallVector<unsigned, 4> r;
  if (IsOneOf(n, {"Concat", "Max", "Min"})) {
    for (unsigned i = 0; i < n.num_operands(); ++i)
      r.push_back(i);
  } else {
    r.push_back(0);
  }
  return r;
}

int64_t QuantizeScalar(float x, float scale, int32_t zero, DType t) {
  float v = std::nearbyint(x / scale) + static_cast<float>(zero);
  if (std::isnan(v))
    return zero;
  v = std::min(std::max(v, static_cast<float>(IntMin(t))), static_cast<float>(IntMax(t)));
  return static_cast<int64_t>(v);
}

bool HasIntegerForm(const Node &n) {
  return IsOneOf(n, {"Conv",
                     "ConvTranspose",
                     "Gemm",
                     "MatMul",
                     "Add",
                     "Sub",
                     "Mul",
                     "Div",
                     "Max",
                     "Min",
                     "Mean",
                     "Sum",
                     "AveragePool",
                     "GlobalAveragePool",
                     "MaxPool",
                     "GlobalMaxPool",
                     "ReduceMean",
                     "ReduceMax",
                     "ReduceMin",
                     "ReduceSum",
                     "ReduceL1",
                     "ReduceL2",
                     "ReduceProd",
                     "ReduceSumSquare",
                     "Concat",
                     "Softmax",
                     "LogSoftmax",
                     "Sigmoid",
                     "Tanh",
                     "HardSigmoid",
                     "HardSwish",
                     "Swish",
                     "Gelu",
                     "Erf",
                     "Exp",
                     "Log",
                     "Sqrt",
                     "Abs",
                     "Neg",
                     "Elu",
                     "Selu",
                     "Celu",
                     "LeakyRelu",
                     "PRelu",
                     "Relu",
                     "Clip",
                     "Softplus",
                     "Softsign",
                     "Mish",
                     "Pow",
                     "Resize",
                     "Upsample",
                     "Pad",
                     "Reciprocal",
                     "Floor",
                     "Ceil",
                     "Round",
                     "ThresholdedRelu",
                     "LayerNormalization",
                     "InstanceNormalization",
                     "GroupNormalization",
                     "RMSNormalization",
                     "LpNormalization",
                     "LpPool",
                     "DepthToSpace",
                     "SpaceToDepth",
                     "Transpose",
                     "Reshape",
                     "Slice",
                     "Split",
                     "Expand",
                     "Tile",
                     "Flatten",
                     "Squeeze",
                     "Unsqueeze",
                     "Gather",
                     "BatchNormalization",
                     "Where"});
}

bool IsQuantParameter(const Node &n, unsigned i) {
  if (i == 0)
    return false;
  if (n.Is("Clip"))
    return true;
  if (IsOneOf(n, {"Resize", "Upsample", "LayerNormalization", "RMSNormalization", "InstanceNormalization",
                  "GroupNormalization", "BatchNormalization"}))
    return true;
  return n.Is("Pow");
}

int WeightChannelAxis(const Node &n) {
  const int rank = n.operand(1)->type().shape().rank();
  if (n.Is("Conv"))
    return 0;
  if (n.Is("ConvTranspose"))
    return 1;
  if (n.Is("Gemm"))
    return n.attrs().Int("transB", 0) ? 0 : 1;
  return rank - 1;
}

bool AbsorbedByClamp(const Node &act, const Type &q) {
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
  if (act.Is("Relu")) {
    lo = 0;
  } else if (act.Is("Clip")) {
    for (unsigned i = 1; i < 3; ++i) {
      if (!act.operand(i))
        continue;
      const auto s = ScalarConstant(act.operand(i));
      if (!s || std::isnan(*s))
        return false;
      (i == 1 ? lo : hi) = *s;
    }
    if (lo > hi)
      return false;
  } else {
    return false;
  }
  const QuantParams &p = *q.quant();
  auto code = [&](double v, int64_t at_infinity) {
    return std::isinf(v) ? at_infinity : QuantizeScalar(static_cast<float>(v), p.scale(), p.zero_point(), q.dtype());
  };
  const int64_t least = IntMin(q.dtype()), greatest = IntMax(q.dtype());
  return code(lo, least) == least && code(hi, greatest) == greatest;
}

} // namespace npuc
