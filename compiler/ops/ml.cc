// ai.onnx.ml operators on columns and labels: ArrayFeatureExtractor, Binarizer, CategoryMapper, FeatureVectorizer,
// Imputer, LabelEncoder, Normalizer, OneHotEncoder, Scaler, ZipMap. Host only. Models: ml_trees.cc, ml_linear.cc.
#include <cmath>
#include <map>

#include "compiler/ops/ml_models.h"

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

// ---- Scaler, Normalizer, Imputer: columns of numbers

// Entry i of a list that has one for all columns or one a column.
template <class T> T EntryOf(llvm::ArrayRef<T> list, int64_t column) {
  return list[list.size() == 1 ? 0 : column];
}
Status CheckEntries(std::string_view name, size_t size, int64_t columns) {
  if (size == 1 || static_cast<int64_t>(size) == columns)
    return OkStatus();
  return AttrError(fmt::format("{} has {} entries for {} columns", name, size, columns));
}

Status InferFloats(InferContext &ctx) {
  SetTensor(ctx, 0, DType::F32, ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateScaler(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const auto offset = ctx.attrs().Floats("offset"), scale = ctx.attrs().Floats("scale");
  const int64_t columns = x.rank() ? x.dims().back() : 1;
  NPUC_RETURN_IF_ERROR(CheckEntries("offset", offset.size(), columns));
  NPUC_RETURN_IF_ERROR(CheckEntries("scale", scale.size(), columns));
  Tensor y = Tensor::Allocate(DType::F32, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i)
    y.mutable_data<float>()[i] =
        (static_cast<float>(x.AsDouble(i)) - EntryOf(offset, i % columns)) * EntryOf(scale, i % columns);
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status EvaluateNormalizer(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const std::string_view norm = ctx.attrs().String("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    return AttrError(fmt::format("norm is '{}'", norm), "MAX, L1 or L2");
  if (x.rank() < 1 || x.rank() > 2)
    return ShapeError(fmt::format("Normalizer of {}", ToString(x.dims())));
  const int64_t columns = x.dims().back();
  Tensor y = Tensor::Allocate(DType::F32, x.dims());
  for (int64_t row = 0; row < x.num_elements(); row += columns) {
    double size = norm == "MAX" ? -std::numeric_limits<double>::infinity() : 0;
    for (int64_t i = row; i < row + columns; ++i) {
      const double v = x.AsDouble(i);
      size = norm == "MAX" ? std::max(size, v) : norm == "L1" ? size + std::abs(v) : size + v * v;
    }
    if (norm == "L2")
      size = std::sqrt(size);
    for (int64_t i = row; i < row + columns; ++i)
      y.mutable_data<float>()[i] = static_cast<float>(size == 0 ? x.AsDouble(i) : x.AsDouble(i) / size);
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status EvaluateImputer(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const int64_t columns = x.rank() ? x.dims().back() : 1;
  Tensor y = x;
  if (x.dtype() == DType::I64) {
    const auto values = ctx.attrs().Ints("imputed_value_int64s");
    NPUC_RETURN_IF_ERROR(CheckEntries("imputed_value_int64s", values.size(), columns));
    y = Tensor::Of<int64_t>(DType::I64, x.dims(), x.values<int64_t>());
    for (int64_t i = 0; i < x.num_elements(); ++i)
      if (x.data<int64_t>()[i] == ctx.attrs().Int("replaced_value_int64", 0))
        y.mutable_data<int64_t>()[i] = EntryOf(values, i % columns);
  } else if (x.dtype() == DType::F32) {
    const auto values = ctx.attrs().Floats("imputed_value_floats");
    NPUC_RETURN_IF_ERROR(CheckEntries("imputed_value_floats", values.size(), columns));
    const float replaced = ctx.attrs().Float("replaced_value_float", 0);
    y = Tensor::Of<float>(DType::F32, x.dims(), x.values<float>());
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const float v = x.data<float>()[i];
      if (v == replaced || (std::isnan(v) && std::isnan(replaced)))
        y.mutable_data<float>()[i] = EntryOf(values, i % columns);
    }
  } else {
    return UnsupportedDType(x.dtype());
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status InferVectorizer(InferContext &ctx) {
  int64_t columns = 0;
  for (int64_t n : ctx.attrs().Ints("inputdimensions"))
    columns += n;
  const Shape x = ShapeOf(ctx, 0);
  SetTensor(ctx, 0, DType::F32,
            Shape({x.ranked() && x.rank() > 1 ? x[0]
                   : x.ranked()               ? Dim(1)
                                              : Dim::Unknown(),
                   Dim(columns)}));
  return OkStatus();
}
Status EvaluateVectorizer(EvalContext &ctx) {
  const auto widths = ctx.attrs().Ints("inputdimensions");
  if (static_cast<int>(widths.size()) != ctx.num_operands())
    return AttrError(fmt::format("inputdimensions has {} entries for {} inputs", widths.size(), ctx.num_operands()));
  int64_t rows = -1, columns = 0;
  for (int i = 0; i < ctx.num_operands(); ++i) {
    const Tensor &x = ctx.operand(i);
    const int64_t own_rows = x.rank() > 1 ? x.dims()[0] : 1;
    if (x.rank() < 1 || x.rank() > 2 || x.dims().back() != widths[i] || (rows >= 0 && own_rows != rows))
      return ShapeError(fmt::format("input {} is {}, not [rows, {}]", i, ToString(x.dims()), widths[i]));
    rows = own_rows;
    columns += widths[i];
  }
  Tensor y = Tensor::Allocate(DType::F32, {rows, columns});
  int64_t at = 0;
  for (int i = 0; i < ctx.num_operands(); at += widths[i++])
    for (int64_t k = 0; k < rows * widths[i]; ++k)
      y.mutable_data<float>()[k / widths[i] * columns + at + k % widths[i]] =
          static_cast<float>(ctx.operand(i).AsDouble(k));
  ctx.set_result(0, std::move(y));
  return OkStatus();
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

// ---- CategoryMapper, OneHotEncoder, ZipMap

Status VerifyMapper(const Node &n) {
  if (n.attrs().StringList("cats_strings").size() != n.attrs().Ints("cats_int64s").size())
    return AttrError("cats_strings and cats_int64s differ in length");
  return OkStatus();
}
Status InferMapper(InferContext &ctx) {
  const DType from = DTypeOfOperand(ctx, 0);
  SetTensor(ctx, 0,
            from == DType::String      ? DType::I64
            : from == DType::Undefined ? from
                                       : DType::String,
            ShapeOf(ctx, 0));
  return OkStatus();
}
Status EvaluateMapper(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const auto names = ctx.attrs().StringList("cats_strings");
  const auto ids = ctx.attrs().Ints("cats_int64s");
  const int64_t n = x.num_elements();
  if (x.dtype() == DType::String) {
    std::map<std::string, int64_t> table;
    for (size_t i = 0; i < names.size(); ++i)
      table.emplace(names[i], ids[i]);
    Tensor y = Tensor::Allocate(DType::I64, x.dims());
    for (int64_t i = 0; i < n; ++i) {
      auto it = table.find(x.strings()[i]);
      y.mutable_data<int64_t>()[i] = it != table.end() ? it->second : ctx.attrs().Int("default_int64", -1);
    }
    ctx.set_result(0, std::move(y));
    return OkStatus();
  }
  std::map<int64_t, std::string> table;
  for (size_t i = 0; i < names.size(); ++i)
    table.emplace(ids[i], names[i]);
  std::vector<std::string> y;
  for (int64_t i = 0; i < n; ++i) {
    auto it = table.find(x.AsInt(i));
    y.push_back(it != table.end() ? it->second : std::string(ctx.attrs().String("default_string", "_Unused")));
  }
  ctx.set_result(0, Tensor::Strings(x.dims(), std::move(y)));
  return OkStatus();
}

Status VerifyOneHot(const Node &n) {
  if (ClassLabels(n.attrs(), "cats_int64s", "cats_strings").num_elements() == 0)
    return AttrError("neither cats_int64s nor cats_strings are given");
  return OkStatus();
}
Status InferOneHot(InferContext &ctx) {
  Shape y = ShapeOf(ctx, 0);
  if (y.ranked())
    y.push_back(Dim(ClassLabels(ctx.attrs(), "cats_int64s", "cats_strings").num_elements()));
  SetTensor(ctx, 0, DType::F32, y);
  return OkStatus();
}
Status EvaluateOneHot(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const Tensor categories = ClassLabels(ctx.attrs(), "cats_int64s", "cats_strings");
  if ((x.dtype() == DType::String) != (categories.dtype() == DType::String))
    return Error("E0302", fmt::format("categories are {}, the data are {}", Name(categories.dtype()), Name(x.dtype())));
  std::map<std::string, int64_t> places;
  for (int64_t i = 0; i < categories.num_elements(); ++i)
    places.emplace(KeyOf(categories, i), i);
  Dims dims(x.dims());
  dims.push_back(categories.num_elements());
  NPUC_ASSIGN_OR_RETURN(Tensor y, AllocateResult(DType::F32, dims));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    auto it =
        places.find(x.dtype() == DType::String ? x.strings()[i] : std::to_string(static_cast<int64_t>(x.AsDouble(i))));
    if (it != places.end())
      y.mutable_data<float>()[i * dims.back() + it->second] = 1;
    else if (ctx.attrs().Int("zeros", 1) == 0)
      return Error("E0703", fmt::format("element {} is none of the {} categories", i, dims.back()));
  }
  ctx.set_result(0, std::move(y));
  return OkStatus();
}

Status VerifyZipMap(const Node &n) {
  if (ClassLabels(n.attrs(), "classlabels_int64s", "classlabels_strings").num_elements() == 0)
    return AttrError("neither classlabels_int64s nor classlabels_strings are given");
  return OkStatus();
}
Status InferZipMap(InferContext &ctx) {
  const DType key = ClassLabels(ctx.attrs(), "classlabels_int64s", "classlabels_strings").dtype();
  ctx.set_result(0, Type::Sequence(Type::Map(key, Type::Tensor(DType::F32, Shape()))));
  return OkStatus();
}
// A map of label to score a row.
Status EvaluateZipMap(EvalContext &ctx) {
  const Tensor &x = ctx.operand(0);
  const Tensor labels = ClassLabels(ctx.attrs(), "classlabels_int64s", "classlabels_strings");
  const int64_t n = labels.num_elements();
  if (x.rank() < 1 || x.rank() > 2 || x.dims().back() != n)
    return ShapeError(fmt::format("scores are {} for {} class labels", ToString(x.dims()), n));
  // A map's keys ascend.
  std::vector<int64_t> order(n);
  for (int64_t i = 0; i < n; ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return labels.dtype() == DType::String ? labels.strings()[a] < labels.strings()[b]
                                           : labels.AsInt(a) < labels.AsInt(b);
  });
  EvalSequence rows;
  for (int64_t row = 0; row < x.num_elements(); row += n) {
    auto map = std::make_shared<EvalMap>();
    for (int64_t i : order) {
      if (labels.dtype() == DType::String)
        map->keys.emplace_back(labels.strings()[i]);
      else
        map->keys.emplace_back(labels.AsInt(i));
      map->values.emplace_back(Tensor::ScalarF32(static_cast<float>(x.AsDouble(row + i))));
    }
    EvalValue value;
    value.v = std::shared_ptr<const EvalMap>(std::move(map));
    rows.push_back(std::move(value));
  }
  EvalValue result;
  result.v = std::make_shared<const EvalSequence>(std::move(rows));
  ctx.set_result(0, std::move(result));
  return OkStatus();
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

OpDef MlScalerDef() {
  return {.domain = "ai.onnx.ml",
          .name = "Scaler",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {FloatsAttr("offset", true), FloatsAttr("scale", true)},
          .infer = InferFloats,
          .evaluate = EvaluateScaler,
          .doc = "(x - offset) * scale, by column."};
}

OpDef MlNormalizerDef() {
  return {.domain = "ai.onnx.ml",
          .name = "Normalizer",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {StringAttr("norm")},
          .infer = InferFloats,
          .evaluate = EvaluateNormalizer,
          .doc = "Rows divided by their greatest element, or their L1 or L2 norm; those of norm 0 stay."};
}

OpDef MlImputerDef() {
  return {.domain = "ai.onnx.ml",
          .name = "Imputer",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {FloatsAttr("imputed_value_floats"), IntsAttr("imputed_value_int64s"),
                    FloatAttr("replaced_value_float"), IntAttr("replaced_value_int64")},
          .traits = kPure | kNoFloatWiden,
          .infer = SameTypeAsOperand,
          .evaluate = EvaluateImputer,
          .doc = "A given value replaced, by column."};
}

OpDef MlFeatureVectorizerDef() {
  return {.domain = "ai.onnx.ml",
          .name = "FeatureVectorizer",
          .min_operands = 1,
          .max_operands = -1,
          .attrs = {IntsAttr("inputdimensions", true)},
          .infer = InferVectorizer,
          .evaluate = EvaluateVectorizer,
          .doc = "Columns side by side, as floats."};
}

OpDef MlCategoryMapperDef() {
  return {.domain = "ai.onnx.ml",
          .name = "CategoryMapper",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntsAttr("cats_int64s"),
                    {"cats_strings", AttrKind::Strings},
                    IntAttr("default_int64"),
                    StringAttr("default_string")},
          .traits = kPure | kNoFloatWiden,
          .verify = VerifyMapper,
          .infer = InferMapper,
          .evaluate = EvaluateMapper,
          .doc = "Strings to their integers, or back."};
}

OpDef MlOneHotEncoderDef() {
  return {.domain = "ai.onnx.ml",
          .name = "OneHotEncoder",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntsAttr("cats_int64s"), {"cats_strings", AttrKind::Strings}, IntAttr("zeros")},
          .verify = VerifyOneHot,
          .infer = InferOneHot,
          .evaluate = EvaluateOneHot,
          .doc = "A column a category: 1 where the element is it."};
}

OpDef MlZipMapDef() {
  return {.domain = "ai.onnx.ml",
          .name = "ZipMap",
          .min_operands = 1,
          .max_operands = 1,
          .attrs = {IntsAttr("classlabels_int64s"), {"classlabels_strings", AttrKind::Strings}},
          .verify = VerifyZipMap,
          .infer = InferZipMap,
          .evaluate = EvaluateZipMap,
          .doc = "Rows of scores as maps of label to score."};
}

} // namespace npuc::ops
