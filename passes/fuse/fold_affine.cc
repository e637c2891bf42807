// Folds y = scale[c] * x + shift[c] into the weights and bias of the layer that computes x.
//
//   Conv / ConvTranspose / Gemm / MatMul  ->  BatchNormalization (inference)          W' = W * scale, b' = b * scale +
//   shift
//   ...                                   ->  Mul / Div / Add / Sub by a constant that is one element or lies over the
//   channels MatMul (matrix x constant matrix)     ->  Gemm, when it takes a bias
//
// Products are formed in double and rounded once to the weights' dtype.
//
// Left alone:
//  - a layer whose result has another user or is a graph output: they read the plain result
//  - constants that vary over space (a bias of [1,C,H,W] is no bias) or that broadcast the result to another shape
//  - weights or constants that aren't known, quantised layers (their accumulators' scales are given), training-mode
//  BatchNormalization
//  - Div/Mul of a constant *by* the layer, Gemm with alpha or beta other than 1
//  - BatchNormalization with non-finite parameters
// Weights that several layers share are copied for the one that changes.
//
// convert-batch-norm makes a BatchNormalization that found no layer one of its own:
//
//   BatchNormalization(x[N,C,...])  ->  Conv(x, scale[C,1,...], shift) {group = C}
//
// One multiplication in the array instead of four vector operations, with an output stage for what follows. Left alone:
// ranks other than 3 and 4, and what reads a Dequantize (the vector engine normalises integers without a detour).
//
// Cost: linear in the weights that change.
#include <cmath>

#include "compiler/ops/convert.h"
#include "compiler/support/thread_pool.h"
#include "passes/common.h"

namespace npuc {
namespace {

struct Layer {
  Node *node;
  const Tensor *weights;
  int channel_axis; // of the result
  int64_t channels;
  int64_t groups = 1;
};

std::optional<Layer> LayerOf(Node *n) {
  if (!n)
    return std::nullopt;
  const bool conv = n->Is("Conv"), deconv = n->Is("ConvTranspose"), gemm = n->Is("Gemm"), matmul = n->Is("MatMul");
  if (!conv && !deconv && !gemm && !matmul)
    return std::nullopt;
  const Tensor *w = n->operand(1) ? n->operand(1)->constant() : nullptr;
  const Type &out = n->result()->type();
  if (!w || n->operand(1)->type().is_quantized() || out.is_quantized() || !out.is_tensor() || !out.shape().ranked())
    return std::nullopt;
  if (w->dtype() != DType::F32 && w->dtype() != DType::F16)
    return std::nullopt;
  if (n->operand(2) && (!n->operand(2)->constant() || n->operand(2)->type().is_quantized()))
    return std::nullopt;
  Layer l{n, w, 1, 0, n->attrs().Int("group", 1)};
  if (conv) {
    l.channels = w->dims()[0];
  } else if (deconv) {
    l.channels = w->dims()[1] * l.groups;
  } else {
    if (w->rank() != 2 || !out.shape().is_static())
      return std::nullopt;
    if (gemm && (n->attrs().Float("alpha", 1) != 1 || (n->operand(2) && n->attrs().Float("beta", 1) != 1)))
      return std::nullopt;
    if (gemm && n->operand(2)) {
      // C may be [N], [1,N], [M,N], [M,1], ...: only a row over N, or one element, is a bias.
      bool per_channel;
      if (!LiesOverChannels(n->operand(2)->constant()->dims(), 2, 1, out.shape()[1].value(), &per_channel))
        return std::nullopt;
    }
    l.channel_axis = out.shape().rank() - 1;
    l.channels = gemm && n->attrs().Int("transB", 0) ? w->dims()[0] : w->dims()[1];
  }
  return l;
}

// The channel of element i of the weights.
class ChannelOfWeight {
public:
  explicit ChannelOfWeight(const Layer &l) {
    const auto d = l.weights->dims();
    const Node &n = *l.node;
    if (n.Is("Conv") || (n.Is("Gemm") && n.attrs().Int("transB", 0))) {
      inner_ = l.channels ? l.weights->num_elements() / l.channels : 1;
    } else if (n.Is("ConvTranspose")) {
      per_group_ = d[1];
      inner_ = 1;
      for (size_t i = 2; i < d.size(); ++i)
        inner_ *= d[i];
      rows_per_group_ = l.groups ? d[0] / l.groups : 1;
    } else {
      per_group_ = d[1];
      inner_ = 1;
      rows_per_group_ = d[0];
    }
  }
  int64_t operator()(int64_t i) const {
    if (!per_group_)
      return i / inner_;
    const int64_t row = i / (inner_ * per_group_);
    return row / rows_per_group_ * per_group_ + i / inner_ % per_group_;
  }

private:
  int64_t inner_ = 1, per_group_ = 0, rows_per_group_ = 1;
};

struct Affine {
  std::vector<double> scale, shift; // one a channel
  bool scales = false, shifts = false;
};

Tensor FromDoubles(DType t, llvm::ArrayRef<int64_t> dims, const std::vector<double> &v) {
  return ops::ConvertTensor(Tensor::Of<double>(DType::F64, dims, v), t);
}

bool AllFinite(const Tensor &t) {
  for (int64_t i = 0, n = t.is_splat() ? 1 : t.num_elements(); i < n; ++i)
    if (!std::isfinite(t.AsDouble(i)))
      return false;
  return true;
}

Tensor ScaledWeights(const Layer &layer, const Affine &a, PassContext &ctx) {
  if (ctx.estimate_only)
    return ctx.Unconverted(layer.weights->dtype(), layer.weights->dims());
  const ChannelOfWeight channel(layer);
  if (layer.weights->dtype() == DType::F32 && !layer.weights->is_splat()) {
    Tensor r = Tensor::Allocate(DType::F32, layer.weights->dims());
    const float *const from = layer.weights->data<float>();
    float *const to = r.mutable_data<float>();
    const auto work = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        to[i] = static_cast<float>(static_cast<double>(from[i]) * a.scale[channel(static_cast<int64_t>(i))]);
    };
    const size_t n = static_cast<size_t>(r.num_elements());
    ctx.threads ? ctx.threads->ParallelFor(n, 1 << 16, work) : work(0, n);
    return r;
  }
  std::vector<double> w(layer.weights->num_elements());
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = layer.weights->AsDouble(i) * a.scale[channel(i)];
  return FromDoubles(layer.weights->dtype(), layer.weights->dims(), w);
}
Tensor UniformWeights(const Layer &layer, const Affine &a) {
  const double w = layer.weights->AsDouble(0) * a.scale[0];
  return ops::ConvertTensor(Tensor::Splat(DType::F64, layer.weights->dims(), &w), layer.weights->dtype());
}

// Makes `layer` compute what `user` computes, and puts it in user's place.
void Apply(const Layer &layer, const Affine &a, Node &user, Value *result, PassContext &ctx) {
  Node &n = *layer.node;
  Rewriter rw(&n);
  Value *weights = n.operand(1);
  if (a.scales) {
    // A splat stays one.
    const bool uniform = layer.weights->is_splat() && std::equal(a.scale.begin() + 1, a.scale.end(), a.scale.begin());
    weights =
        rw.Constant(uniform ? UniformWeights(layer, a) : ScaledWeights(layer, a, ctx), weights->name() + "_scaled");
  }
  Value *bias = n.operand(2);
  if (bias || a.shifts) {
    std::vector<double> b(layer.channels, 0.0);
    for (int64_t c = 0; c < layer.channels; ++c) {
      if (bias)
        b[c] = bias->constant()->AsDouble(bias->constant()->num_elements() == 1 ? 0 : c);
      b[c] = b[c] * a.scale[c] + a.shift[c];
    }
    const DType t = bias ? bias->constant()->dtype() : layer.weights->dtype();
    bias = rw.Constant(FromDoubles(t, {layer.channels}, b),
                       (bias ? bias->name() : n.result()->name() + "_bias") + "_folded");
  }
  const bool to_gemm = n.Is("MatMul") && bias;
  const OpDef *op = to_gemm ? LookupOp("", "Gemm") : &n.op();
  Node *made = rw.Create(op, {n.operand(0), weights, bias}, MergeOrigins(n.origin(), user.origin()), {result->type()},
                         n.attrs());
  llvm::SmallVector<Value *, 4> with(user.num_results(), nullptr);
  with[0] = made->result();
  rw.ReplaceNode(&user, with);
}

std::optional<Affine> OfBatchNorm(const Node &bn, int64_t channels) {
  if (bn.attrs().Int("training_mode", 0))
    return std::nullopt;
  for (unsigned i = 1; i < bn.num_results(); ++i)
    if (bn.result(i)->has_uses())
      return std::nullopt;
  const Tensor *p[4];
  for (int i = 0; i < 4; ++i) {
    p[i] = bn.operand(i + 1) ? bn.operand(i + 1)->constant() : nullptr;
    if (!p[i] || p[i]->num_elements() != channels || !AllFinite(*p[i]))
      return std::nullopt;
  }
  const double epsilon = bn.attrs().Float("epsilon", 1e-5f);
  Affine a;
  a.scales = a.shifts = true;
  for (int64_t c = 0; c < channels; ++c) {
    const double variance = p[3]->AsDouble(c) + epsilon;
    if (!(variance > 0))
      return std::nullopt;
    const double s = p[0]->AsDouble(c) / std::sqrt(variance);
    a.scale.push_back(s);
    a.shift.push_back(p[1]->AsDouble(c) - p[2]->AsDouble(c) * s);
  }
  return a;
}

// user is Mul, Div, Add or Sub with a constant; `x` is the operand that the layer computes.
std::optional<Affine> OfArithmetic(const Node &user, const Value *x, const Layer &layer) {
  if (user.num_operands() != 2 || user.operand(0) == user.operand(1))
    return std::nullopt;
  const bool left = user.operand(0) == x;
  const Value *other = user.operand(left ? 1 : 0);
  const Tensor *c = other ? other->constant() : nullptr;
  if (!c || other->type().is_quantized() || c->num_elements() == 0 || !AllFinite(*c))
    return std::nullopt;
  const Type &t = x->type();
  bool per_channel;
  if (!LiesOverChannels(c->dims(), t.shape().rank(), layer.channel_axis, layer.channels, &per_channel))
    return std::nullopt;
  Affine a;
  a.scale.assign(layer.channels, 1);
  a.shift.assign(layer.channels, 0);
  for (int64_t i = 0; i < layer.channels; ++i) {
    const double v = c->AsDouble(per_channel ? i : 0);
    if (user.Is("Mul")) {
      a.scale[i] = v;
    } else if (user.Is("Div")) {
      if (!left || v == 0)
        return std::nullopt;
      a.scale[i] = 1 / v;
    } else if (user.Is("Add")) {
      a.shift[i] = v;
    } else { // x - v, v - x
      a.shift[i] = left ? -v : v;
      a.scale[i] = left ? 1 : -1;
    }
  }
  a.scales = user.Is("Mul") || user.Is("Div") || (user.Is("Sub") && !left);
  a.shifts = user.Is("Add") || user.Is("Sub");
  return a;
}

bool Fold(Node &user, PassContext &ctx) {
  const bool bn = user.Is("BatchNormalization");
  if (!bn && !IsOneOf(user, {"Mul", "Div", "Add", "Sub"}))
    return false;
  Value *const result = user.result();
  if (result->type().is_quantized())
    return false;
  for (Value *x : user.operands().take_front(bn ? 1 : 2)) {
    if (!x || SoleUser(x) != &user)
      continue;
    const auto layer = LayerOf(x->def());
    if (!layer || layer->channels == 0 || x->type().dtype() != result->type().dtype())
      continue;
    // Also keeps constants away that broadcast the layer's result: its shape must be the result's (dims that aren't
    // known yet may differ).
    if (!(x->type().shape() == result->type().shape()) && !(bn && x->type().shape().ranked()))
      continue;
    // A MatMul that takes a bias becomes a Gemm, which is for matrices.
    const bool shifts = bn || IsOneOf(user, {"Add", "Sub"});
    if (layer->node->Is("MatMul") && shifts && x->type().shape().rank() != 2)
      continue;
    const auto affine = bn ? (layer->channel_axis == 1 ? OfBatchNorm(user, layer->channels) : std::nullopt)
                           : OfArithmetic(user, x, *layer);
    if (!affine || !ctx.MayRewrite())
      continue;
    Apply(*layer, *affine, user, result, ctx);
    return true;
  }
  return false;
}

// Makes `bn` a layer: a convolution of one tap over each channel.
bool ConvertToConv(Node &bn) {
  Value *const x = bn.operand(0);
  const Type &t = x->type();
  if (!t.is_static_tensor() || t.is_quantized() || (t.shape().rank() != 3 && t.shape().rank() != 4) ||
      t.dtype() != bn.result()->type().dtype() || DefinedBy(x, "Dequantize", "npuc"))
    return false;
  const int64_t channels = t.shape()[1].value();
  const auto affine = channels ? OfBatchNorm(bn, channels) : std::nullopt;
  if (!affine)
    return false;
  Dims kernel(t.shape().rank(), 1);
  kernel[0] = channels;
  AttributeList attrs;
  attrs.Set("group", channels);
  Rewriter rw(&bn);
  const std::string &name = bn.result()->name();
  Value *const weights = rw.Constant(FromDoubles(t.dtype(), kernel, affine->scale), name + "_scale");
  Value *const bias = rw.Constant(FromDoubles(t.dtype(), {channels}, affine->shift), name + "_shift");
  Node *const conv = rw.Create("Conv", {x, weights, bias}, bn.origin(), {bn.result()->type()}, std::move(attrs));
  llvm::SmallVector<Value *, 4> with(bn.num_results(), nullptr);
  with[0] = conv->result();
  rw.ReplaceNode(&bn, with);
  return true;
}

} // namespace

StatusOr<bool> ConvertBatchNorm(Module &m, PassContext &ctx) {
  return RewriteEachNode(m.main(), [&](Node &n) {
    if (!n.Is("BatchNormalization") || !ConvertToConv(n))
      return false;
    ctx.Count("fuse: convert-batch-norm");
    return true;
  });
}

StatusOr<bool> FoldAffine(Module &m, PassContext &ctx) {
  return RewriteEachNode(m.main(), [&](Node &n) {
    if (!Fold(n, ctx))
      return false;
    ctx.Count("fuse: fold-affine");
    return true;
  });
}

} // namespace npuc
