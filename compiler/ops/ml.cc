// ai.onnx.ml operators: ArrayFeatureExtractor, Binarizer, LabelEncoder, TreeEnsemble. Host only.
#include <cmath>
#include <map>

#include "compiler/ops/movement.h"
#include "compiler/support/fpmath.h"

namespace npuc::ops {
namespace {

Status InferExtractor(InferContext &ctx) {
  Shape x = ShapeOf(ctx, 0);
  if (x.ranked() && x.rank() > 0) {
    const Shape y = ShapeOf(ctx, 1);
    x[x.rank() - 1] = y.is_static() ? Dim(y.num_elements()) : Dim::Unknown();
    if (x.rank() == 1)
      x = Shape({Dim(1), x[0]});
  }
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0), x);
  return OkStatus();
}
Status EvaluateExtractor(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0), &y = ctx.operand(1);
  if (x.rank() == 0)
    return ShapeError("ArrayFeatureExtractor of a scalar");
  const int64_t row = x.dims().back(), count = y.num_elements(), rows = NumElements(x.dims().drop_back());
  Dims dims(x.dims());
  dims.back() = count;
  if (x.rank() == 1)
    dims.insert(dims.begin(), 1);
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(x.dtype(), dims));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = y.AsInt(i);
      if (at < 0 || at >= row)
        return Error("E0703", fmt::format("index {} of {} columns", at, row));
      out.Copy(r * count + i, x, r * row + at);
    }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

Status EvaluateBinarizer(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const double threshold = ctx.attrs().Float("threshold", 0);
  Tensor y = Tensor::Allocate(x.dtype(), x.dims());
  return DispatchNumeric(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t i = 0; i < x.num_elements(); ++i)
      y.mutable_data<T>()[i] = static_cast<double>(x.data<T>()[i]) > threshold ? T{1} : T{0};
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

// ---- LabelEncoder: keys and values are given as lists of one type each, or as tensors.

// An attribute family ("keys", "values") as one tensor; empty when absent.
Tensor Table(const AttributeList &attrs, const std::string &prefix) {
  if (const Tensor *t = attrs.TensorOrNull(prefix + "_tensor"))
    return t->Expand();
  if (attrs.Has(prefix + "_strings")) {
    const auto s = attrs.StringList(prefix + "_strings");
    return Tensor::Strings({static_cast<int64_t>(s.size())}, s.vec());
  }
  if (attrs.Has(prefix + "_int64s"))
    return Tensor::OfI64(attrs.Ints(prefix + "_int64s"));
  if (attrs.Has(prefix + "_floats")) {
    const auto f = attrs.Floats(prefix + "_floats");
    return Tensor::Of<float>(DType::F32, {static_cast<int64_t>(f.size())}, f);
  }
  return Tensor();
}

Status VerifyLabelEncoder(const Node &n) {
  const Tensor k = Table(n.attrs(), "keys"), v = Table(n.attrs(), "values");
  if (!k || !v || k.num_elements() != v.num_elements())
    return AttrError("keys_* and values_* are missing or differ in length");
  return OkStatus();
}
Status InferLabelEncoder(InferContext &ctx) {
  SetTensor(ctx, 0, Table(ctx.attrs(), "values").dtype(), ShapeOf(ctx, 0));
  return OkStatus();
}
// Something to compare keys of any type by; NaN equals NaN.
std::string KeyOf(const Tensor &t, int64_t i) {
  if (t.dtype() == DType::String)
    return t.strings()[i];
  if (IsFloat(t.dtype())) {
    const double d = t.AsDouble(i);
    return std::isnan(d) ? "nan" : fmt::format("{:a}", d == 0 ? 0.0 : d);
  }
  return std::to_string(t.AsInt(i));
}
Status EvaluateLabelEncoder(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const Tensor keys = Table(ctx.attrs(), "keys"), values = Table(ctx.attrs(), "values");
  if (keys.dtype() != x.dtype())
    return Error("E0302", fmt::format("keys are {}, the data are {}", Name(keys.dtype()), Name(x.dtype())));
  Tensor otherwise;
  if (const Tensor *t = ctx.attrs().TensorOrNull("default_tensor"))
    otherwise = t->Expand();
  else if (values.dtype() == DType::String)
    otherwise = Tensor::Strings({}, {std::string(ctx.attrs().String("default_string", "_Unused"))});
  else if (values.dtype() == DType::I64)
    otherwise = Tensor::ScalarI64(ctx.attrs().Int("default_int64", -1));
  else
    otherwise = Tensor::ScalarF32(ctx.attrs().Float("default_float", -0.0f));
  if (otherwise.dtype() != values.dtype() || otherwise.num_elements() < 1)
    return Error("E0302", "the default is of another type than the values");
  std::map<std::string, int64_t> index;
  for (int64_t i = 0; i < keys.num_elements(); ++i)
    index.emplace(KeyOf(keys, i), i);
  NPUC_ASSIGN_OR_RETURN(auto out, ElementWriter::Create(values.dtype(), x.dims()));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    auto it = index.find(KeyOf(x, i));
    if (it != index.end())
      out.Copy(i, values, it->second);
    else
      out.Copy(i, otherwise, 0);
  }
  ctx.set_result(0, out.Finish());
  return OkStatus();
}

// ---- TreeEnsemble (ai.onnx.ml 5)

enum Mode : int { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember };

Status VerifyTrees(const Node &n) {
  const AttributeList &a = n.attrs();
  const size_t nodes = a.Ints("nodes_featureids").size();
  const Tensor *splits = a.TensorOrNull("nodes_splits"), *modes = a.TensorOrNull("nodes_modes"),
               *weights = a.TensorOrNull("leaf_weights");
  const auto targets = a.Ints("leaf_targetids");
  bool good = splits && modes && weights && static_cast<size_t>(splits->num_elements()) == nodes &&
              static_cast<size_t>(modes->num_elements()) == nodes &&
              static_cast<size_t>(weights->num_elements()) == targets.size();
  for (const char *name : {"nodes_trueleafs", "nodes_falseleafs", "nodes_truenodeids", "nodes_falsenodeids"})
    good &= a.Ints(name).size() == nodes;
  if (!good)
    return AttrError("the tree attributes are missing or differ in length");
  for (const auto &[leaf, id] :
       {std::pair("nodes_trueleafs", "nodes_truenodeids"), std::pair("nodes_falseleafs", "nodes_falsenodeids")})
    for (size_t i = 0; i < nodes; ++i) {
      const int64_t to = a.Ints(id)[i], count = static_cast<int64_t>(a.Ints(leaf)[i] ? targets.size() : nodes);
      // Children come behind their parents: no walk can go round.
      if (to < 0 || to >= count || (!a.Ints(leaf)[i] && to <= static_cast<int64_t>(i)))
        return AttrError(fmt::format("{} of node {} is {}", id, i, to));
    }
  for (int64_t r : a.Ints("tree_roots"))
    if (r < 0 || r >= static_cast<int64_t>(nodes))
      return AttrError(fmt::format("tree root {}", r));
  const int64_t outputs = a.Int("n_targets", 1);
  for (int64_t t : targets)
    if (t < 0 || t >= outputs)
      return AttrError(fmt::format("leaf target {} of {}", t, outputs));
  if (outputs < 1)
    return AttrError(fmt::format("n_targets is {}", outputs));
  for (int64_t f : a.Ints("nodes_featureids"))
    if (f < 0)
      return AttrError(fmt::format("feature {}", f));
  return OkStatus();
}
Status InferTrees(InferContext &ctx) {
  const Shape x = ShapeOf(ctx, 0);
  SetTensor(ctx, 0, DTypeOfOperand(ctx, 0),
            Shape({x.ranked() && x.rank() > 0 ? x[0] : Dim::Unknown(), Dim(ctx.attrs().Int("n_targets", 1))}));
  return OkStatus();
}

double Probit(double p) {
  // Inverse of the normal distribution by bisection of erfc: rare, and exact enough.
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double mid = (low + high) / 2;
    (fpmath::Erfc(-mid / 1.4142135623730951) / 2 < p ? low : high) = mid;
  }
  return (low + high) / 2;
}

void PostTransform(int64_t kind, std::vector<double> &v) {
  if (kind == 1 || kind == 3) { // SOFTMAX, SOFTMAX_ZERO (zeros stay)
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double x : v)
      top = std::max(top, x);
    for (double &x : v) {
      const bool zero = kind == 3 && x == 0;
      x = zero ? 0 : fpmath::Exp(x - top);
      sum += x;
    }
    if (sum != 0)
      for (double &x : v)
        x /= sum;
  } else if (kind == 2) {
    for (double &x : v)
      x = fpmath::Sigmoid(x);
  } else if (kind == 4) {
    for (double &x : v)
      x = Probit(x);
  }
}

Status EvaluateTrees(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const AttributeList &a = ctx.attrs();
  if (x.rank() != 2)
    return ShapeError(fmt::format("TreeEnsemble of {}", ToString(x.dims())));
  const int64_t rows = x.dims()[0], columns = x.dims()[1], targets = a.Int("n_targets", 1);
  const auto features = a.Ints("nodes_featureids"), true_leaf = a.Ints("nodes_trueleafs"),
             false_leaf = a.Ints("nodes_falseleafs"), true_id = a.Ints("nodes_truenodeids"),
             false_id = a.Ints("nodes_falsenodeids"), leaf_target = a.Ints("leaf_targetids"),
             roots = a.Ints("tree_roots"), missing = a.Ints("nodes_missing_value_tracks_true");
  const Tensor &splits = *a.TensorOrNull("nodes_splits"), &modes = *a.TensorOrNull("nodes_modes"),
               &weights = *a.TensorOrNull("leaf_weights");
  for (int64_t f : features)
    if (f >= columns)
      return Error("E0703", fmt::format("feature {} of {} columns", f, columns));
  // Member sets in the order of the nodes that use them, NaN between.
  std::vector<std::vector<double>> sets(features.size());
  if (const Tensor *m = a.TensorOrNull("membership_values")) {
    int64_t at = 0;
    for (size_t i = 0; i < features.size(); ++i) {
      if (modes.AsInt(static_cast<int64_t>(i)) != kMember)
        continue;
      for (; at < m->num_elements() && !std::isnan(m->AsDouble(at)); ++at)
        sets[i].push_back(m->AsDouble(at));
      ++at;
    }
  }
  const int64_t aggregate = a.Int("aggregate_function", 1);
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(x.dtype(), {rows, targets}));
  return DispatchFloat(x.dtype(), [&](auto tag) -> Status {
    using T = TypeOf<decltype(tag)>;
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> sum(targets, 0);
      std::vector<bool> any(targets, false);
      for (int64_t root : roots) {
        int64_t at = root;
        bool leaf = false;
        while (!leaf) {
          const double v = static_cast<double>(x.data<T>()[r * columns + features[at]]), s = splits.AsDouble(at);
          bool take;
          switch (modes.AsInt(at)) {
          case kLessEqual:
            take = v <= s;
            break;
          case kLess:
            take = v < s;
            break;
          case kGreaterEqual:
            take = v >= s;
            break;
          case kGreater:
            take = v > s;
            break;
          case kEqual:
            take = v == s;
            break;
          case kNotEqual:
            take = v != s;
            break;
          default:
            take = llvm::is_contained(sets[at], v);
            break;
          }
          if (std::isnan(v) && at < static_cast<int64_t>(missing.size()) && missing[at])
            take = true;
          leaf = (take ? true_leaf : false_leaf)[at] != 0;
          at = (take ? true_id : false_id)[at];
        }
        const int64_t t = leaf_target[at];
        const double w = weights.AsDouble(at);
        sum[t] = !any[t] ? w : aggregate == 2 ? std::min(sum[t], w) : aggregate == 3 ? std::max(sum[t], w) : sum[t] + w;
        any[t] = true;
      }
      if (aggregate == 0 && !roots.empty())
        for (double &v : sum)
          v /= static_cast<double>(roots.size());
      PostTransform(a.Int("post_transform", 0), sum);
      for (int64_t t = 0; t < targets; ++t)
        y.mutable_data<T>()[r * targets + t] = static_cast<T>(sum[t]);
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  });
}

AttrSpec TensorAttr(std::string_view name) {
  return {name, AttrKind::Tensor};
}

} // namespace

OpDef MlArrayFeatureExtractorDef() {
  return {.domain = "ai.onnx.ml",
          .name = "ArrayFeatureExtractor",
          .min_operands = 2,
          .max_operands = 2,
          .attrs = {},
          .traits = kPure | kNoFloatWiden,
          .infer = InferExtractor,
          .evaluate = EvaluateExtractor,
          .doc = "Columns by index."};
}

OpDef MlBinarizerDef() {
  return {.domain = "ai.onnx.ml",
          .name = "Binarizer",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {FloatAttr("threshold")},
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateBinarizer,
          .doc = "1 above the threshold, else 0."};
}

OpDef MlLabelEncoderDef() {
  return {.domain = "ai.onnx.ml",
          .name = "LabelEncoder",
          .since_version = 4,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {TensorAttr("keys_tensor"),
                    {"keys_strings", AttrKind::Strings},
                    IntsAttr("keys_int64s"),
                    FloatsAttr("keys_floats"),
                    TensorAttr("values_tensor"),
                    {"values_strings", AttrKind::Strings},
                    IntsAttr("values_int64s"),
                    FloatsAttr("values_floats"),
                    TensorAttr("default_tensor"),
                    StringAttr("default_string"),
                    IntAttr("default_int64"),
                    FloatAttr("default_float")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyLabelEncoder,
          .infer = InferLabelEncoder,
          .evaluate = EvaluateLabelEncoder,
          .doc = "Each element's value in a table, or the default."};
}

OpDef MlTreeEnsembleDef() {
  return {.domain = "ai.onnx.ml",
          .name = "TreeEnsemble",
          .since_version = 5,
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntAttr("aggregate_function"), IntsAttr("leaf_targetids", true), TensorAttr("leaf_weights"),
                    TensorAttr("membership_values"), IntAttr("n_targets"), IntsAttr("nodes_falseleafs", true),
                    IntsAttr("nodes_falsenodeids", true), IntsAttr("nodes_featureids", true),
                    TensorAttr("nodes_hitrates"), IntsAttr("nodes_missing_value_tracks_true"),
                    TensorAttr("nodes_modes"), TensorAttr("nodes_splits"), IntsAttr("nodes_trueleafs", true),
                    IntsAttr("nodes_truenodeids", true), IntAttr("post_transform"), IntsAttr("tree_roots", true)},
          .verify = VerifyTrees,
          .infer = InferTrees,
          .evaluate = EvaluateTrees,
          .doc = "Decision trees, summed (or averaged, least, greatest) per target."};
}

} // namespace npuc::ops
