// ai.onnx.ml's linear models and what all its models share (ml_models.h). Host only.
//
//   LinearRegressor(x [N, F]) = x W^T + b, f32 [N, targets]; LinearClassifier: the label of the greatest score, and the
//   scores. With one score for two labels the second is won by a score above 0 (above 0.5 with LOGISTIC, which is the
//   same), and the scores are 1 - s and s. Sums are in double.
#include "compiler/ops/ml_models.h"

#include "compiler/support/fpmath.h"

namespace npuc::ops {

StatusOr<PostTransform> PostTransformOf(const AttributeList &attrs) {
  const std::string_view name = attrs.String("post_transform", "NONE");
  static constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i])
      return static_cast<PostTransform>(i);
  return AttrError(fmt::format("post_transform is '{}'", name), "NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
}

namespace {

// Inverse of the normal distribution by bisection of erfc: rare, and exact enough.
double Probit(double p) {
  if (!(p >= 0 && p <= 1))
    return std::numeric_limits<double>::quiet_NaN();
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double mid = (low + high) / 2;
    (fpmath::Erfc(-mid / 1.4142135623730951) / 2 < p ? low : high) = mid;
  }
  return (low + high) / 2;
}

} // namespace

void Apply(PostTransform transform, std::vector<double> &v) {
  switch (transform) {
  case PostTransform::None:
    return;
  case PostTransform::Softmax:
  case PostTransform::SoftmaxZero: { // zeros stay
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double x : v)
      top = std::max(top, x);
    for (double &x : v) {
      const bool zero = transform == PostTransform::SoftmaxZero && x == 0;
      x = zero ? 0 : fpmath::Exp(x - top);
      sum += x;
    }
    if (sum != 0)
      for (double &x : v)
        x /= sum;
    return;
  }
  case PostTransform::Logistic:
    for (double &x : v)
      x = fpmath::Sigmoid(x);
    return;
  case PostTransform::Probit:
    for (double &x : v)
      x = Probit(x);
    return;
  }
}

Tensor ClassLabels(const AttributeList &attrs, std::string_view ints, std::string_view strings) {
  if (const auto s = attrs.StringList(strings); !s.empty())
    return Tensor::Strings({static_cast<int64_t>(s.size())}, s.vec());
  return Tensor::OfI64(attrs.Ints(ints));
}

void SetClassifierTypes(InferContext &ctx, const Tensor &labels, Dim columns) {
  const Shape x = ShapeOf(ctx, 0);
  const Dim rows = !x.ranked() ? Dim::Unknown() : x.rank() == 1 ? Dim(1) : x.rank() > 0 ? x[0] : Dim::Unknown();
  SetTensor(ctx, 0, labels.dtype(), Shape(llvm::ArrayRef<Dim>(rows)));
  SetTensor(ctx, 1, DType::F32, Shape({rows, columns}));
}

StatusOr<Rows> Rows::Of(const Tensor &x) {
  if (x.rank() != 1 && x.rank() != 2)
    return ShapeError(fmt::format("features are {}, not [rows, columns]", ToString(x.dims())));
  if (!IsFloat(x.dtype()) && !IsInt(x.dtype()))
    return UnsupportedDType(x.dtype());
  Rows r;
  r.rows = x.rank() == 1 ? 1 : x.dims()[0];
  r.columns = x.dims().back();
  r.x_ = x;
  return r;
}

namespace {

struct Linear {
  llvm::ArrayRef<float> coefficients, intercepts;
  int64_t outputs = 0, features = 0;

  static StatusOr<Linear> Of(const AttributeList &attrs, int64_t outputs) {
    Linear l;
    l.coefficients = attrs.Floats("coefficients");
    l.intercepts = attrs.Floats("intercepts");
    l.outputs = outputs;
    const int64_t n = static_cast<int64_t>(l.coefficients.size());
    if (outputs < 1 || n == 0 || n % outputs)
      return AttrError(fmt::format("{} coefficients for {} outputs", n, outputs));
    if (!l.intercepts.empty() && static_cast<int64_t>(l.intercepts.size()) != outputs)
      return AttrError(fmt::format("{} intercepts for {} outputs", l.intercepts.size(), outputs));
    l.features = n / outputs;
    return l;
  }
  std::vector<double> Scores(const Rows &x, int64_t row) const {
    std::vector<double> s(outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      s[o] = intercepts.empty() ? 0.0 : static_cast<double>(intercepts[o]);
      for (int64_t f = 0; f < features; ++f)
        s[o] += x.At(row, f) * static_cast<double>(coefficients[o * features + f]);
    }
    return s;
  }
};

Status CheckColumns(const Rows &x, int64_t features) {
  if (x.columns == features)
    return OkStatus();
  return ShapeError(fmt::format("{} columns for a model of {} features", x.columns, features));
}

Status VerifyRegressor(const Node &n) {
  NPUC_RETURN_IF_ERROR(PostTransformOf(n.attrs()).status());
  return Linear::Of(n.attrs(), n.attrs().Int("targets", 1)).status();
}
Status InferRegressor(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  SetTensor(ctx, 0, DType::F32,
            Shape({x.ranked() && x.rank() == 2 ? x[0]
                   : x.ranked()                ? Dim(1)
                                               : Dim::Unknown(),
                   Dim(ctx.attrs().Int("targets", 1))}));
  return OkStatus();
}
Status EvaluateRegressor(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const Rows x, Rows::Of(ctx.operand(0)));
  NPUC_ASSIGN_OR_RETURN(const Linear model, Linear::Of(ctx.attrs(), ctx.attrs().Int("targets", 1)));
  NPUC_ASSIGN_OR_RETURN(const PostTransform transform, PostTransformOf(ctx.attrs()));
  NPUC_RETURN_IF_ERROR(CheckColumns(x, model.features));
  Tensor y = Tensor::Allocate(DType::F32, {x.rows, model.outputs});
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> s = model.Scores(x, r);
    Apply(transform, s);
    for (int64_t o = 0; o < model.outputs; ++o)
      y.mutable_data<float>()[r * model.outputs + o] = static_cast<float>(s[o]);
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

struct Classifier {
  Tensor labels;
  Linear model;
  bool one_score = false; // for two labels
  static StatusOr<Classifier> Of(const AttributeList &attrs) {
    Classifier c;
    c.labels = ClassLabels(attrs, "classlabels_ints", "classlabels_strings");
    const int64_t classes = c.labels.num_elements();
    // As many scores as intercepts; without any, as labels.
    const int64_t outputs =
        attrs.Floats("intercepts").empty() ? classes : static_cast<int64_t>(attrs.Floats("intercepts").size());
    NPUC_ASSIGN_OR_RETURN(c.model, Linear::Of(attrs, outputs));
    c.one_score = outputs == 1 && classes == 2;
    if (outputs != classes && !c.one_score)
      return AttrError(fmt::format("{} scores for {} class labels", outputs, classes));
    return c;
  }
};

Status VerifyClassifier(const Node &n) {
  NPUC_RETURN_IF_ERROR(PostTransformOf(n.attrs()).status());
  return Classifier::Of(n.attrs()).status();
}
Status InferClassifier(InferContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const Classifier c, Classifier::Of(ctx.attrs()));
  SetClassifierTypes(ctx, c.labels, Dim(c.labels.num_elements()));
  return OkStatus();
}
Status EvaluateClassifier(EvalContext &ctx) {
  NPUC_ASSIGN_OR_RETURN(const Rows x, Rows::Of(ctx.operand(0)));
  NPUC_ASSIGN_OR_RETURN(const Classifier c, Classifier::Of(ctx.attrs()));
  NPUC_ASSIGN_OR_RETURN(const PostTransform transform, PostTransformOf(ctx.attrs()));
  NPUC_RETURN_IF_ERROR(CheckColumns(x, c.model.features));
  const int64_t classes = c.labels.num_elements();
  NPUC_ASSIGN_OR_RETURN(auto label, ElementWriter::Create(c.labels.dtype(), {x.rows}));
  Tensor scores = Tensor::Allocate(DType::F32, {x.rows, classes});
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> s = c.model.Scores(x, r);
    int64_t best = 0;
    if (c.one_score) {
      best = s[0] > 0 ? 1 : 0;
      if (transform == PostTransform::Logistic || transform == PostTransform::Probit)
        Apply(transform, s);
      s = {1 - s[0], s[0]};
    } else {
      for (int64_t i = 1; i < classes; ++i)
        if (s[i] > s[best])
          best = i;
      Apply(transform, s);
    }
    label.Copy(r, c.labels, best);
    for (int64_t i = 0; i < classes; ++i)
      scores.mutable_data<float>()[r * classes + i] = static_cast<float>(s[i]);
  }
  ctx.set_result(0, label.Finish());
  ctx.set_result(1, std::move(scores));
  return OkStatus();
}

} // namespace

OpDef MlLinearRegressorDef() {
  return {.domain = "ai.onnx.ml",
          .name = "LinearRegressor",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {FloatsAttr("coefficients", true), FloatsAttr("intercepts"), IntAttr("targets"),
                    StringAttr("post_transform")},
          .verify = VerifyRegressor,
          .infer = InferRegressor,
          .evaluate = EvaluateRegressor,
          .doc = "x W^T + b, one column per target."};
}

OpDef MlLinearClassifierDef() {
  return {.domain = "ai.onnx.ml",
          .name = "LinearClassifier",
          .min_operands = 1,
          .max_operands = 1,
          .min_results = 2,
          .max_results = 2,
          .attrs = {FloatsAttr("coefficients", true),
                    FloatsAttr("intercepts"),
                    IntAttr("multi_class"),
                    IntsAttr("classlabels_ints"),
                    {"classlabels_strings", AttrKind::Strings},
                    StringAttr("post_transform")},
          .verify = VerifyClassifier,
          .infer = InferClassifier,
          .evaluate = EvaluateClassifier,
          .doc = "The label of the greatest linear score, and the scores."};
}

} // namespace npuc::ops
