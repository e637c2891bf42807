// Finds LayerNormalization that exporters wrote out in parts, by what the parts compute.
//
//   d = x - mean(x); y = d / sqrt(mean(d^2) + epsilon) * gamma + beta                       ->  %y =
//   LayerNormalization(%x, gamma, beta) s = sum(x)/n; v = max(sum(x^2)/n - s^2, 0); y = (x - s) * (rsqrt(v + epsilon) *
//   gamma) + beta      ->  the same the same over one axis that isn't the last ->  Transpose - LayerNormalization -
//   Transpose
//
// gamma and beta are optional. Why: the parts are slow, and in f16 mean(x^2) - mean(x)^2 cancels to nothing, while the
// operator computes in f32.
//
// Method: cones (passes/fuse/cone.h) of elementwise, reducing and reshaping nodes with one mouth x that hold two means
// and a root. The axes are those of the reductions, epsilon is a scalar in front of the root, gamma and beta are
// constants that lie over the normalised axes alone. A cone is taken when it agrees with the operator on noise (two
// samples of different offset and size, to 2e-4); so no variant has to be listed, and a gamma that lies over other
// axes, a mean over all axes, or a reader in between make the match fail or stop before them.
//
// Left alone: parts that are read from outside or are graph outputs, dynamic shapes, F64, tensors above 16 Mi elements.
// Cost: evaluates cones of at most 28 nodes that have the parts; linear otherwise.
#include <cmath>

#include "compiler/ops/convert.h"
#include "passes/fuse/cone.h"

namespace npuc {
namespace {

bool IsPart(const Node &n) {
  return IsOneOf(n, {"Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Reciprocal", "ReduceMean", "ReduceSum", "Relu", "Clip",
                     "Max", "Reshape", "Squeeze", "Unsqueeze", "Neg"}) &&
         n.num_results() == 1 && HasStaticShape(n.result()) && !n.result()->type().is_quantized();
}
bool IsMean(const Node &n) {
  return IsOneOf(n, {"ReduceMean", "ReduceSum"});
}
bool IsRoot(const Node &n) {
  if (n.Is("Sqrt"))
    return true;
  return n.Is("Pow") && n.operand(1) && ScalarConstant(n.operand(1)) == -0.5;
}

std::vector<int64_t> AxesOf(const Node &n, int rank) {
  std::vector<int64_t> axes;
  if (n.operand(1)) {
    const auto given = MatchConstantInts(n.operand(1));
    if (!given)
      return {};
    axes.assign(given->begin(), given->end());
  } else {
    axes.assign(n.attrs().Ints("axes").begin(), n.attrs().Ints("axes").end());
  }
  if (axes.empty() && !n.attrs().Int("noop_with_empty_axes", 0))
    for (int i = 0; i < rank; ++i)
      axes.push_back(i);
  for (int64_t &a : axes)
    a = a < 0 ? a + rank : a;
  llvm::sort(axes);
  return axes;
}

// A constant that has extents over `axes` of a tensor of `dims` only, as a tensor of those extents.
std::optional<Tensor> OverAxes(const Value *v, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> axes) {
  const Tensor *t = v->constant();
  if (!t || v->type().is_quantized() || t->rank() > static_cast<int>(dims.size()))
    return std::nullopt;
  Dims tail;
  for (int64_t a : axes)
    tail.push_back(dims[a]);
  for (int i = 0; i < t->rank(); ++i) {
    const int64_t axis = i + static_cast<int64_t>(dims.size()) - t->rank();
    if (t->dims()[i] != (llvm::is_contained(axes, axis) ? dims[axis] : 1))
      return std::nullopt;
  }
  if (t->num_elements() != NumElements(tail))
    return std::nullopt;
  return t->Expand().Reshaped(tail);
}

struct Norm {
  std::vector<int64_t> axes;
  double epsilon = 0;
  std::optional<Tensor> gamma, beta;
};

Tensor Noise(llvm::ArrayRef<int64_t> dims, float offset, float size, uint32_t seed) {
  Tensor t = Tensor::Allocate(DType::F32, dims);
  for (int64_t i = 0, n = t.num_elements(); i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.mutable_data<float>()[i] = offset + size * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return t;
}

// Whether y is the normalisation of x.
bool Agrees(const Norm &n, const Tensor &x, const Tensor &y) {
  const Dims dims(x.dims().begin(), x.dims().end());
  if (y.dims() != x.dims())
    return false;
  const Dims strides = RowMajorStrides(dims);
  int64_t count = 1;
  for (int64_t a : n.axes)
    count *= dims[a];
  // Elements grouped by their index outside of the axes.
  std::vector<double> sum(x.num_elements()), square(x.num_elements());
  std::vector<int64_t> group(x.num_elements()), inner(x.num_elements());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t g = 0, k = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t index = i / strides[d] % dims[d];
      if (llvm::is_contained(n.axes, static_cast<int64_t>(d)))
        k = k * dims[d] + index;
      else
        g += index * strides[d];
    }
    group[i] = g;
    inner[i] = k;
    sum[g] += x.data<float>()[i];
  }
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double d = x.data<float>()[i] - sum[group[i]] / static_cast<double>(count);
    square[group[i]] += d * d;
  }
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double mean = sum[group[i]] / static_cast<double>(count);
    double want = (x.data<float>()[i] - mean) / std::sqrt(square[group[i]] / static_cast<double>(count) + n.epsilon);
    const double g = n.gamma ? n.gamma->AsDouble(inner[i]) : 1;
    want = want * g + (n.beta ? n.beta->AsDouble(inner[i]) : 0);
    if (!(std::abs(want - y.AsDouble(i)) <= 2e-4 * std::max(std::abs(g), std::abs(want)) + 1e-6))
      return false;
  }
  return true;
}

std::optional<Norm> Recognise(const Cone &cone) {
  const Type &type = cone.mouth->type();
  const Dims dims = type.shape().static_dims();
  const int rank = static_cast<int>(dims.size());
  Norm norm;
  std::vector<double> epsilons = {0};
  std::vector<Value *> constants;
  for (Node *n : cone.nodes) {
    if (IsMean(*n) && n->operand(0)->type().shape() == type.shape() && norm.axes.empty())
      norm.axes = AxesOf(*n, rank);
    for (Value *v : n->operands()) {
      if (!v || !v->constant() || IsMean(*n) || IsOneOf(*n, {"Reshape", "Squeeze", "Unsqueeze"}))
        continue;
      if (n->Is("Add") && ScalarConstant(v) && *ScalarConstant(v) > 0 && *ScalarConstant(v) < 0.1)
        epsilons.push_back(*ScalarConstant(v));
      if (!llvm::is_contained(constants, v))
        constants.push_back(v);
    }
  }
  if (norm.axes.empty() || NumElements(dims) > 16 << 20)
    return std::nullopt;
  int64_t count = 1;
  for (int64_t a : norm.axes)
    count *= dims[a];
  if (count < 2)
    return std::nullopt;
  const bool trailing =
      norm.axes.front() == rank - static_cast<int64_t>(norm.axes.size()) && norm.axes.back() == rank - 1;
  if (!trailing && norm.axes.size() != 1)
    return std::nullopt;
  std::vector<std::optional<Tensor>> affine = {std::nullopt};
  for (Value *v : constants)
    if (auto t = OverAxes(v, dims, norm.axes))
      affine.push_back(t);
  if (affine.size() > 5)
    return std::nullopt;

  const Tensor x1 = Noise(dims, 0.5f, 2.0f, 1), x2 = Noise(dims, -1.0f, 0.5f, 2);
  const Tensor y1 = EvaluateCone(cone, ops::ConvertTensor(x1, type.dtype())),
               y2 = EvaluateCone(cone, ops::ConvertTensor(x2, type.dtype()));
  if (!y1 || !y2)
    return std::nullopt;
  for (double e : llvm::reverse(epsilons)) {
    norm.epsilon = e;
    for (const auto &gamma : affine)
      for (const auto &beta : affine) {
        norm.gamma = gamma;
        norm.beta = beta;
        if (Agrees(norm, x1, y1) && Agrees(norm, x2, y2))
          return norm;
      }
  }
  return std::nullopt;
}

bool Form(Node &root, PassContext &ctx) {
  if (!IsOneOf(root, {"Add", "Sub", "Mul", "Div"}) || !HasStaticShape(root.result()))
    return false;
  const Type &type = root.result()->type();
  if (type.dtype() != DType::F32 && type.dtype() != DType::F16)
    return false;
  for (const Cone &cone : ConesOf(
           root, IsPart, [](const Value *v) { return v->constant() != nullptr; }, 28)) {
    if (!SameTensorType(cone.mouth->type(), type) ||
        llvm::count_if(cone.nodes, [](const Node *n) { return IsMean(*n); }) < 2 ||
        llvm::none_of(cone.nodes, [](const Node *n) { return IsRoot(*n); }))
      continue;
    const auto norm = Recognise(cone);
    if (!norm || !ctx.MayRewrite())
      return false;
    const int rank = type.shape().rank();
    const Dims dims = type.shape().static_dims();
    const bool trailing =
        norm->axes.back() == rank - 1 && norm->axes.front() == rank - static_cast<int64_t>(norm->axes.size());
    Dims tail;
    for (int64_t a : norm->axes)
      tail.push_back(dims[a]);
    Rewriter rw(&root);
    const float one = 1;
    Value *scale = rw.Constant(norm->gamma ? *norm->gamma
                                           : ops::ConvertTensor(Tensor::Splat(DType::F32, tail, &one), type.dtype()));
    Value *bias = norm->beta ? rw.Constant(*norm->beta) : nullptr;
    const Origin origin = OriginOf(cone);
    Value *x = cone.mouth;
    std::vector<int64_t> perm;
    Type inner = type;
    auto transpose = [&](Value *v, const Type &t) {
      AttributeList attrs;
      attrs.Set("perm", perm);
      return rw.Create("Transpose", {v}, origin, {t}, std::move(attrs))->result();
    };
    if (!trailing) { // exchange the axis with the last
      for (int i = 0; i < rank; ++i)
        perm.push_back(i);
      std::swap(perm[norm->axes[0]], perm[rank - 1]);
      Dims moved = dims;
      std::swap(moved[norm->axes[0]], moved[rank - 1]);
      inner.set_shape(Shape::Of(moved));
      x = transpose(x, inner);
    }
    AttributeList attrs;
    attrs.Set("axis", static_cast<int64_t>(trailing ? norm->axes.front() : rank - 1));
    attrs.Set("epsilon", static_cast<float>(norm->epsilon));
    Value *y = rw.Create("LayerNormalization", {x, scale, bias}, origin, {inner}, std::move(attrs))->result();
    if (!trailing)
      y = transpose(y, type);
    rw.ReplaceNode(&root, {y});
    ctx.Count("fuse: form-LayerNormalization");
    return true;
  }
  return false;
}

} // namespace

StatusOr<bool> FormLayerNorm(Module &m, PassContext &ctx) {
  return ForEachGraph(m.main(), [&](Graph &g) -> StatusOr<bool> {
    bool changed = false;
    // From the back, so that gamma and beta are seen before the bare normalisation.
    for (auto it = g.return_node()->getIterator(); it != g.nodes().begin();) {
      Node &n = *--it;
      const auto after = std::next(it);
      if (!Form(n, ctx))
        continue;
      changed = true;
      it = after;
    }
    return changed;
  });
}

} // namespace npuc
