// RandomNormal, RandomUniform, their *Like forms, Bernoulli, Multinomial.
//
// ONNX leaves the generator open; here it is a counter: element i of a node with seed s is splitmix64 of s and i, so
// results depend on neither threads nor order. Without a seed attribute the seed is a hash of the result's name: a
// model gives the same numbers every run (npuc promises that one input gives one output). Normal: Box-Muller on two
// uniform numbers.
#include "compiler/ops/convert.h"
#include "compiler/ops/generator.h"
#include "compiler/ops/movement.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

template <class F> Status Fill(EvalContext &ctx, llvm::ArrayRef<int64_t> dims, DType dtype, F value) {
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(DType::F64, dims));
  for (int64_t i = 0; i < y.num_elements(); ++i)
    y.mutable_data<double>()[i] = value(static_cast<uint64_t>(i));
  ctx.set_result(0, ConvertTensor(y, dtype));
  return OkStatus();
}

DType WantedDType(const AttributeList &attrs, DType otherwise) {
  return static_cast<DType>(attrs.Int("dtype", static_cast<int64_t>(otherwise)));
}

Status VerifyRandom(const Node &n) {
  const int64_t t = n.attrs().Int("dtype", 1);
  if (t < 1 || t >= kNumDTypes || t == static_cast<int64_t>(DType::String) || IsComplex(static_cast<DType>(t)))
    return AttrError(fmt::format("dtype is {}", t));
  return CheckedNumElements(n.attrs().Ints("shape"))
             ? OkStatus()
             : AttrError(fmt::format("shape is {}", ToString(n.attrs().Ints("shape"))));
}

Status InferShaped(InferContext &ctx) {
  SetTensor(ctx, 0, WantedDType(ctx.attrs(), DType::F32), Shape::Of(ctx.attrs().Ints("shape")));
  return OkStatus();
}
Status InferLike(InferContext &ctx) {
  SetTensor(ctx, 0, WantedDType(ctx.attrs(), DTypeOfOperand(ctx, 0)), ShapeOf(ctx, 0));
  return OkStatus();
}

Status EvaluateNormal(EvalContext &ctx) {
  const Generator g(ctx);
  const double mean = ctx.attrs().Float("mean", 0), scale = ctx.attrs().Float("scale", 1);
  const bool like = ctx.num_operands() > 0;
  return Fill(ctx, like ? ctx.operand(0).dims() : ctx.attrs().Ints("shape"),
              WantedDType(ctx.attrs(), like ? ctx.operand(0).dtype() : DType::F32),
              [&](uint64_t i) { return mean + scale * g.Normal(i); });
}
Status EvaluateUniform(EvalContext &ctx) {
  const Generator g(ctx);
  const double low = ctx.attrs().Float("low", 0), high = ctx.attrs().Float("high", 1);
  const bool like = ctx.num_operands() > 0;
  return Fill(ctx, like ? ctx.operand(0).dims() : ctx.attrs().Ints("shape"),
              WantedDType(ctx.attrs(), like ? ctx.operand(0).dtype() : DType::F32),
              [&](uint64_t i) { return low + (high - low) * g.Uniform(i); });
}
Status EvaluateBernoulli(EvalContext &ctx) {
  const Generator g(ctx);
  const Tensor &p = ctx.operand(0);
  return Fill(ctx, p.dims(), WantedDType(ctx.attrs(), p.dtype()),
              [&](uint64_t i) { return g.Uniform(i) < p.AsDouble(static_cast<int64_t>(i)) ? 1.0 : 0.0; });
}

Status InferMultinomial(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 2, 2));
  const Shape x = ShapeOf(ctx, 0);
  SetTensor(ctx, 0, WantedDType(ctx.attrs(), DType::I32),
            Shape({x.ranked() ? x[0] : Dim::Unknown(), Dim(ctx.attrs().Int("sample_size", 1))}));
  return OkStatus();
}
Status EvaluateMultinomial(EvalContext &ctx) {
  const Generator g(ctx);
  const Tensor &x = ctx.operand(0);
  if (x.rank() != 2 || x.dims()[1] == 0)
    return ShapeError(fmt::format("Multinomial of {}", ToString(x.dims())));
  const int64_t classes = x.dims()[1], samples = ctx.attrs().Int("sample_size", 1);
  return Fill(ctx, {x.dims()[0], samples}, WantedDType(ctx.attrs(), DType::I32), [&](uint64_t i) {
    // Unnormalised log probabilities: walk their exponentials' running sum.
    const int64_t row = static_cast<int64_t>(i) / samples * classes;
    double top = x.AsDouble(row), sum = 0;
    for (int64_t k = 1; k < classes; ++k)
      top = std::max(top, x.AsDouble(row + k));
    for (int64_t k = 0; k < classes; ++k)
      sum += fpmath::Exp(x.AsDouble(row + k) - top);
    double left = g.Uniform(i) * sum;
    for (int64_t k = 0; k < classes; ++k) {
      left -= fpmath::Exp(x.AsDouble(row + k) - top);
      if (left < 0)
        return static_cast<double>(k);
    }
    return static_cast<double>(classes - 1);
  });
}

OpDef Random(std::string_view name, int operands, std::vector<AttrSpec> attrs, Status (*infer)(InferContext &),
             Status (*evaluate)(EvalContext &), std::string_view doc) {
  OpDef op;
  op.name = name;
  op.since_version = 22;
  op.min_operands = op.max_operands = operands;
  op.attrs = std::move(attrs);
  op.attrs.push_back(IntAttr("dtype"));
  op.attrs.push_back(FloatAttr("seed"));
  op.traits = kNoFloatWiden; // not pure: two nodes give two tensors
  op.verify = VerifyRandom;
  op.infer = infer;
  op.evaluate = evaluate;
  op.doc = doc;
  return op;
}

} // namespace

OpDef RandomNormalDef() {
  return Random("RandomNormal", 0, {FloatAttr("mean"), FloatAttr("scale"), IntsAttr("shape", true)}, InferShaped,
                EvaluateNormal, "Normally distributed numbers.");
}
OpDef RandomUniformDef() {
  return Random("RandomUniform", 0, {FloatAttr("low"), FloatAttr("high"), IntsAttr("shape", true)}, InferShaped,
                EvaluateUniform, "Evenly distributed numbers.");
}
OpDef RandomNormalLikeDef() {
  return Random("RandomNormalLike", 1, {FloatAttr("mean"), FloatAttr("scale")}, InferLike, EvaluateNormal,
                "Normally distributed numbers in the operand's shape.");
}
OpDef RandomUniformLikeDef() {
  return Random("RandomUniformLike", 1, {FloatAttr("low"), FloatAttr("high")}, InferLike, EvaluateUniform,
                "Evenly distributed numbers in the operand's shape.");
}
OpDef BernoulliDef() {
  return Random("Bernoulli", 1, {}, InferLike, EvaluateBernoulli, "1 with the operand's probability, else 0.");
}
OpDef MultinomialDef() {
  return Random("Multinomial", 1, {IntAttr("sample_size")}, InferMultinomial, EvaluateMultinomial,
                "Classes drawn by unnormalised log probabilities.");
}

} // namespace npuc::ops
