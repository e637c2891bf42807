// Adapters of operators that move or make elements.
//
//   Constant: value_int, value_floats, sparse_value ... -> a tensor      Reshape < 5, Slice < 10, Split < 13, Squeeze
//   and Unsqueeze < 13, Pad < 11 (and `paddings` < 2), Tile < 6: attributes -> operands     Concat < 4: axis 1 by
//   default     Scatter -> ScatterElements Upsample (1, 7, 9) -> Resize 10 -> Resize: scales, roi, coordinates   DFT <
//   20: axis attribute -> operand
#include "compiler/onnx/adapters.h"

namespace npuc::onnx_import {
namespace {

Status Constant(AdaptedNode &n) {
  int given = 0;
  Tensor t;
  for (const auto &e : n.attrs) {
    ++given;
    if (auto *v = std::get_if<Tensor>(&e.value))
      t = *v;
    else if (auto *i = std::get_if<int64_t>(&e.value))
      t = Tensor::ScalarI64(*i);
    else if (auto *f = std::get_if<float>(&e.value))
      t = Tensor::ScalarF32(*f);
    else if (auto *s = std::get_if<std::string>(&e.value))
      t = Tensor::Strings({}, {*s});
    else if (auto *is = std::get_if<std::vector<int64_t>>(&e.value))
      t = Tensor::OfI64(*is);
    else if (auto *fs = std::get_if<std::vector<float>>(&e.value))
      t = Tensor::Of<float>(DType::F32, {static_cast<int64_t>(fs->size())}, *fs);
    else if (auto *ss = std::get_if<std::vector<std::string>>(&e.value))
      t = Tensor::Strings({static_cast<int64_t>(ss->size())}, *ss);
  }
  if (given != 1 || !t)
    return Error("E0203", fmt::format("a Constant has {} values, not one", given));
  n.results = {n.Constant(std::move(t))};
  return OkStatus();
}

Status Move(AdaptedNode &n, std::string_view attr, unsigned operand, bool required) {
  if (n.attrs.Has(attr)) {
    n.set_input(operand, n.Ints(n.attrs.Ints(attr)));
    n.attrs.Erase(attr);
  } else if (required && !n.input(operand)) {
    return Error("E0203", fmt::format("the required attribute '{}' is missing", attr));
  }
  return OkStatus();
}

Status Reshape1(AdaptedNode &n) {
  return Move(n, "shape", 1, true);
}
Status Axes(AdaptedNode &n) {
  return Move(n, "axes", 1, n.op == "Unsqueeze");
}
Status Split12(AdaptedNode &n) {
  return Move(n, "split", 1, false);
}

Status SplitCount(AdaptedNode &n) {
  // Without sizes: equal parts, as many as there are outputs. Split 18 says the number.
  if (!n.input(1) && !n.attrs.Has("num_outputs"))
    n.attrs.Set("num_outputs", int64_t{n.num_outputs});
  return OkStatus();
}

Status Slice9(AdaptedNode &n) {
  NPUC_RETURN_IF_ERROR(Move(n, "starts", 1, true));
  NPUC_RETURN_IF_ERROR(Move(n, "ends", 2, true));
  return Move(n, "axes", 3, false);
}

Status Pad10(AdaptedNode &n) {
  if (n.attrs.Has("paddings")) {
    n.attrs.Set("pads", *n.attrs.Find("paddings"));
    n.attrs.Erase("paddings");
  }
  NPUC_RETURN_IF_ERROR(Move(n, "pads", 1, true));
  if (const Attribute *fill = n.attrs.Find("value")) {
    if (!std::holds_alternative<float>(*fill))
      return Error("E0203", "attribute 'value' of Pad is not a float");
    const float value = std::get<float>(*fill);
    n.attrs.Erase("value");
    if (value != 0 && n.attrs.String("mode", "constant") == "constant")
      n.set_input(2, n.ScalarLikeInput(value));
  }
  return OkStatus();
}

Status Tile1(AdaptedNode &n) {
  // Operands of version 1: a tensor, how often, along which axis.
  if (!n.input(0) || !n.input(1) || !n.input(2))
    return OkStatus();
  const Tensor *tiles = n.input(1)->constant(), *axis = n.input(2)->constant();
  const auto rank = n.Rank(0);
  if (!tiles || !axis || !rank || tiles->num_elements() != 1 || axis->num_elements() != 1)
    return Error("E0402", "Tile of opset 1 with computed tiles or axis", "export the model for opset 6 or later");
  std::vector<int64_t> repeats(*rank, 1);
  const int64_t at = axis->AsInt(0);
  if (at < 0 || at >= *rank)
    return Error("E0203", fmt::format("axis {} of a tensor of rank {}", at, *rank));
  repeats[at] = tiles->AsInt(0);
  n.inputs = {n.input(0), n.Ints(repeats)};
  return OkStatus();
}

Status Concat1(AdaptedNode &n) {
  if (!n.attrs.Has("axis"))
    n.attrs.Set("axis", int64_t{1});
  return OkStatus();
}

Status Scatter(AdaptedNode &n) {
  n.op = "ScatterElements";
  return OkStatus();
}

Status Upsample(AdaptedNode &n) {
  std::vector<float> scales = n.attrs.Floats("scales").vec();
  if (n.attrs.Has("width_scale") || n.attrs.Has("height_scale"))
    scales = {1, 1, n.attrs.Float("height_scale", 1), n.attrs.Float("width_scale", 1)};
  if (!scales.empty()) {
    n.set_input(1, n.Constant(Tensor::Of<float>(DType::F32, {static_cast<int64_t>(scales.size())}, scales)));
  } else if (!n.input(1)) {
    return Error("E0203", "the required scales are missing");
  }
  std::string mode(n.attrs.String("mode", "nearest"));
  if (mode == "bilinear" || mode == "trilinear")
    mode = "linear";
  n.attrs = {};
  n.attrs.Set("mode", mode);
  n.op = "Resize";
  n.version = 10;
  return OkStatus();
}

Status Resize10(AdaptedNode &n) {
  // Version 10 knew one rule: output i lies at i / scale, nearest rounds down.
  n.inputs = {n.input(0), nullptr, n.input(1)};
  n.attrs.Set("coordinate_transformation_mode", std::string("asymmetric"));
  if (n.attrs.String("mode", "nearest") == "nearest")
    n.attrs.Set("nearest_mode", std::string("floor"));
  return OkStatus();
}

Status ResizeOperands(AdaptedNode &n) {
  // Empty tensors stand for absent ones; roi is read by one mode alone.
  for (unsigned i = 1; i < n.inputs.size(); ++i)
    if (const Value *v = n.inputs[i])
      if (v->type().is_static_tensor() && v->type().shape().num_elements() == 0)
        n.inputs[i] = nullptr;
  if (n.input(1) && n.attrs.String("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize")
    n.inputs[1] = nullptr;
  if (!n.input(2) && !n.input(3))
    return Error("E0203", "neither scales nor sizes are given");
  return OkStatus();
}

Status RoiAlign15(AdaptedNode &n) {
  if (!n.attrs.Has("coordinate_transformation_mode"))
    n.attrs.Set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return OkStatus();
}

Status Dft17(AdaptedNode &n) {
  n.set_input(2, n.Constant(Tensor::ScalarI64(n.attrs.Int("axis", 1))));
  n.attrs.Erase("axis");
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"", "Constant", kAlways, Constant},
    {"", "Reshape", 5, Reshape1},
    {"", "Squeeze", 13, Axes},
    {"", "Unsqueeze", 13, Axes},
    {"", "Split", 13, Split12},
    {"", "Split", kAlways, SplitCount},
    {"", "Slice", 10, Slice9},
    {"", "Pad", 11, Pad10},
    {"", "Tile", 6, Tile1},
    {"", "Concat", 4, Concat1},
    {"", "Scatter", kAlways, Scatter},
    {"", "Upsample", kAlways, Upsample},
    {"", "Resize", 11, Resize10},
    {"", "Resize", kAlways, ResizeOperands},
    {"", "RoiAlign", 16, RoiAlign15},
    {"", "DFT", 20, Dft17},
};

} // namespace

llvm::ArrayRef<AdapterRow> ShapeAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
