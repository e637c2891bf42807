// Adapters of elementwise, reduction and normalisation operators.
//
//   Add/Sub/Mul/Div/Pow/And/Or/Xor/Equal/Less/Greater < 7: broadcast and axis attributes -> a reshaped second operand
//   PRelu < 7: slope [C] -> [C,1,1]        Clip < 11: min, max attributes -> operands       Cast < 6: type names ->
//   numbers Softmax, LogSoftmax, Hardmax < 13: flattened from axis on -> last axis of a matrix Reduce* < 18 (ReduceSum
//   < 13): axes attribute -> operand    Dropout < 12, TopK < 10: attributes -> operands BatchNormalization < 14:
//   is_test, spatial, extra outputs      GroupNormalization < 21: per-group scale -> per channel
#include "compiler/onnx/adapters.h"
#include "compiler/types/dtype.h"

namespace npuc::onnx_import {
namespace {

// Moves an ints attribute to operand i as an int64 vector.
void AttrToOperand(AdaptedNode &n, std::string_view attr, unsigned i) {
  if (!n.attrs.Has(attr))
    return;
  const std::vector<int64_t> v = n.attrs.Ints(attr).vec();
  n.attrs.Erase(attr);
  if (!v.empty())
    n.set_input(i, n.Ints(v));
}

Status LegacyBroadcast(AdaptedNode &n) {
  const bool broadcast = n.attrs.Int("broadcast", 0) != 0;
  const int64_t axis = n.attrs.Int("axis", INT64_MAX);
  n.attrs.Erase("broadcast");
  n.attrs.Erase("axis");
  if (!broadcast || axis == INT64_MAX || n.inputs.size() < 2)
    return OkStatus();
  const auto a = n.Rank(0), b = n.Rank(1);
  if (!a || !b)
    return Error("E0402", "broadcast along an axis of tensors whose rank is not known",
                 "export the model for opset 7 or later");
  const int64_t at = axis < 0 ? axis + *a : axis;
  if (at < 0 || at + *b > *a)
    return Error("E0203", fmt::format("axis {} with operands of rank {} and {}", axis, *a, *b));
  std::vector<int64_t> axes;
  for (int64_t i = *b; i < *a - at; ++i)
    axes.push_back(i);
  if (axes.empty())
    return OkStatus();
  NPUC_ASSIGN_OR_RETURN(Value * wide, n.Add("Unsqueeze", {n.input(1), n.Ints(axes)}));
  n.set_input(1, wide);
  return OkStatus();
}

Status PRelu6(AdaptedNode &n) {
  const auto x = n.Rank(0), s = n.Rank(1);
  if (!x || !s || *s != 1 || *x < 3)
    return OkStatus();
  auto dims = n.StaticDims(1);
  if (dims && (*dims)[0] == 1)
    return OkStatus();
  std::vector<int64_t> axes;
  for (int i = 1; i < *x - 1; ++i)
    axes.push_back(i);
  NPUC_ASSIGN_OR_RETURN(Value * wide, n.Add("Unsqueeze", {n.input(1), n.Ints(axes)}));
  n.set_input(1, wide);
  return OkStatus();
}

Status Clip6(AdaptedNode &n) {
  // The older defaults are the least and greatest float: no bound.
  for (unsigned i = 0; i < 2; ++i) {
    const std::string_view name = i ? "max" : "min";
    if (!n.attrs.Has(name))
      continue;
    const float v = n.attrs.Float(name, 0);
    n.attrs.Erase(name);
    n.set_input(1 + i, n.ScalarLikeInput(v));
  }
  return OkStatus();
}

Status Cast1(AdaptedNode &n) {
  const Attribute *to = n.attrs.Find("to");
  if (!to || !std::holds_alternative<std::string>(*to))
    return OkStatus();
  std::string name = std::get<std::string>(*to);
  for (char &c : name)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (int t = 1; t < kNumDTypes; ++t)
    if (OnnxName(static_cast<DType>(t)) == name) {
      n.attrs.Set("to", int64_t{t});
      return OkStatus();
    }
  return Error("E0203", fmt::format("attribute 'to' is '{}', which is no element type", std::get<std::string>(*to)));
}

// y = reshape(softmax(flatten(x, axis)), shape of x). Where axis is the last one that is just Softmax(axis=-1).
Status FlatSoftmax(AdaptedNode &n) {
  int64_t axis = n.attrs.Int("axis", 1);
  n.attrs.Set("axis", int64_t{-1});
  const auto rank = n.Rank(0);
  if (rank && axis < 0)
    axis += *rank;
  if (rank && axis == *rank - 1)
    return OkStatus();
  if (rank && (axis < 0 || axis > *rank))
    return Error("E0203", fmt::format("axis {} of a tensor of rank {}", axis, *rank));
  // All dims behind the axis being 1, the axis alone is normalised.
  if (auto dims = n.StaticDims(0); dims && axis < *rank) {
    bool ones = true;
    for (int i = static_cast<int>(axis) + 1; i < *rank; ++i)
      ones &= (*dims)[i] == 1;
    if (ones) {
      n.attrs.Set("axis", axis);
      return OkStatus();
    }
  }
  AttributeList flat;
  flat.Set("axis", axis);
  NPUC_ASSIGN_OR_RETURN(Value * matrix, n.Add("Flatten", {n.input(0)}, flat));
  NPUC_ASSIGN_OR_RETURN(Value * soft, n.Add(n.op, {matrix}, n.attrs));
  NPUC_ASSIGN_OR_RETURN(Value * shape, n.Add("Shape", {n.input(0)}));
  AttributeList keep_zeros;
  keep_zeros.Set("allowzero", int64_t{1});
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Reshape", {soft, shape}, keep_zeros));
  n.results = {y};
  return OkStatus();
}

Status ReduceAxes(AdaptedNode &n) {
  AttrToOperand(n, "axes", 1);
  return OkStatus();
}

Status Dropout11(AdaptedNode &n) {
  // An exported Dropout is one that does nothing; older ones say so by is_test, which few exporters set.
  n.attrs.Erase("is_test");
  n.attrs.Erase("ratio");
  return OkStatus();
}

Status TopK9(AdaptedNode &n) {
  if (!n.attrs.Has("k"))
    return Error("E0203", "the required attribute 'k' is missing");
  n.set_input(1, n.Ints({n.attrs.Int("k", 0)}));
  n.attrs.Erase("k");
  return OkStatus();
}

Status BatchNormalization13(AdaptedNode &n) {
  const bool spatial = n.attrs.Int("spatial", 1) != 0;
  n.attrs.Erase("spatial");
  n.attrs.Erase("is_test");
  for (unsigned i = 1; i < n.num_outputs; ++i)
    if (n.output_used[i])
      return Error("E0402", fmt::format("output {} of a training BatchNormalization is used", i),
                   "export the model for inference");
  if (spatial) {
    // One output is left; the IR pads absent ones itself.
    NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("BatchNormalization", n.inputs, [&] {
      AttributeList a;
      a.Set("epsilon", n.attrs.Float("epsilon", 1e-5f));
      a.Set("momentum", n.attrs.Float("momentum", 0.9f));
      return a;
    }()));
    n.results = {y};
    return OkStatus();
  }
  // spatial = 0: statistics for each element of [C, ...]; plain broadcasting says it.
  if (n.inputs.size() < 5)
    return Error("E0203", fmt::format("{} inputs; BatchNormalization takes 5", n.inputs.size()));
  NPUC_ASSIGN_OR_RETURN(Value * var, n.Add("Add", {n.input(4), n.ScalarLikeInput(n.attrs.Float("epsilon", 1e-5f))}));
  NPUC_ASSIGN_OR_RETURN(Value * deviation, n.Add("Sqrt", {var}));
  NPUC_ASSIGN_OR_RETURN(Value * centred, n.Add("Sub", {n.input(0), n.input(3)}));
  NPUC_ASSIGN_OR_RETURN(Value * normal, n.Add("Div", {centred, deviation}));
  NPUC_ASSIGN_OR_RETURN(Value * scaled, n.Add("Mul", {normal, n.input(1)}));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Add", {scaled, n.input(2)}));
  n.results = {y};
  return OkStatus();
}

Status GroupNormalization20(AdaptedNode &n) {
  const int64_t groups = n.attrs.Int("num_groups", 0);
  if (!n.input(0) || !n.input(0)->type().is_tensor() || n.Rank(0).value_or(0) < 2 ||
      !n.input(0)->type().shape()[1].is_static() || groups < 1)
    return Error("E0402", "GroupNormalization of opset 18 on an unknown number of channels",
                 "export the model for opset 21 or later");
  const int64_t channels = n.input(0)->type().shape()[1].value();
  if (channels % groups)
    return Error("E0203", fmt::format("{} channels in {} groups", channels, groups));
  for (unsigned i = 1; i < 3; ++i) {
    NPUC_ASSIGN_OR_RETURN(Value * column, n.Add("Unsqueeze", {n.input(i), n.Ints({1})}));
    NPUC_ASSIGN_OR_RETURN(Value * wide, n.Add("Expand", {column, n.Ints({groups, channels / groups})}));
    NPUC_ASSIGN_OR_RETURN(Value * flat, n.Add("Reshape", {wide, n.Ints({channels})}));
    n.set_input(i, flat);
  }
  return OkStatus();
}

Status Gemm6(AdaptedNode &n) {
  n.attrs.Erase("broadcast");
  return OkStatus();
}

// Experimental operators of the first opsets, which Core ML's converter used.
Status Affine1(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * scaled, n.Add("Mul", {n.input(0), n.ScalarLikeInput(n.attrs.Float("alpha", 1))}));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Add", {scaled, n.ScalarLikeInput(n.attrs.Float("beta", 0))}));
  n.results = {y};
  return OkStatus();
}

Status ImageScaler1(AdaptedNode &n) {
  const auto bias = n.attrs.Floats("bias");
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Mul", {n.input(0), n.ScalarLikeInput(n.attrs.Float("scale", 1))}));
  if (!bias.empty()) {
    Tensor t = Tensor::Of<float>(DType::F32, {1, static_cast<int64_t>(bias.size()), 1, 1}, bias);
    NPUC_ASSIGN_OR_RETURN(y, n.Add("Add", {y, n.Constant(std::move(t))}));
  }
  n.results = {y};
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"", "Affine", kAlways, Affine1},
    {"", "ImageScaler", kAlways, ImageScaler1},
    {"", "Add", 7, LegacyBroadcast},
    {"", "Sub", 7, LegacyBroadcast},
    {"", "Mul", 7, LegacyBroadcast},
    {"", "Div", 7, LegacyBroadcast},
    {"", "Pow", 7, LegacyBroadcast},
    {"", "And", 7, LegacyBroadcast},
    {"", "Or", 7, LegacyBroadcast},
    {"", "Xor", 7, LegacyBroadcast},
    {"", "Equal", 7, LegacyBroadcast},
    {"", "Less", 7, LegacyBroadcast},
    {"", "Greater", 7, LegacyBroadcast},
    {"", "PRelu", 7, PRelu6},
    {"", "Gemm", 7, Gemm6},
    {"", "Clip", 11, Clip6},
    {"", "Cast", 6, Cast1},
    {"", "Softmax", 13, FlatSoftmax},
    {"", "LogSoftmax", 13, FlatSoftmax},
    {"", "Hardmax", 13, FlatSoftmax},
    {"", "ReduceSum", 13, ReduceAxes},
    {"", "ReduceL1", 18, ReduceAxes},
    {"", "ReduceL2", 18, ReduceAxes},
    {"", "ReduceLogSum", 18, ReduceAxes},
    {"", "ReduceLogSumExp", 18, ReduceAxes},
    {"", "ReduceMax", 18, ReduceAxes},
    {"", "ReduceMean", 18, ReduceAxes},
    {"", "ReduceMin", 18, ReduceAxes},
    {"", "ReduceProd", 18, ReduceAxes},
    {"", "ReduceSumSquare", 18, ReduceAxes},
    {"", "Dropout", 12, Dropout11},
    {"", "TopK", 10, TopK9},
    {"", "BatchNormalization", 14, BatchNormalization13},
    {"", "GroupNormalization", 21, GroupNormalization20},
};

} // namespace

llvm::ArrayRef<AdapterRow> ElementwiseAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
