// Adapters of windows (convolution, pooling) and recurrent operators.
//
//   auto_pad -> pads where the spatial dims are known (else it stays, and shape inference resolves it); kernel_shape of
//   Conv from W; strides, dilations and pads written out, so that passes see one form. ConvTranspose: output_shape ->
//   pads. LpPool, GlobalLpPool < 2: p is a float. RNN, GRU, LSTM < 7: output_sequence.
#include "compiler/onnx/adapters.h"

namespace npuc::onnx_import {
namespace {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
};

// Spatial dims of operand 0 when its rank is known (unknown ones -1).
std::optional<std::vector<int64_t>> Spatial(const AdaptedNode &n) {
  const auto rank = n.Rank(0);
  if (!rank || *rank < 3)
    return std::nullopt;
  std::vector<int64_t> d;
  for (int i = 2; i < *rank; ++i) {
    const Dim &dim = n.input(0)->type().shape()[i];
    d.push_back(dim.is_static() ? dim.value() : -1);
  }
  return d;
}

Status KernelFromWeights(AdaptedNode &n) {
  if (n.attrs.Has("kernel_shape") && !n.attrs.Ints("kernel_shape").empty())
    return OkStatus();
  if (auto w = n.StaticDims(n.op == "QLinearConv" ? 3 : 1); w && w->size() > 2)
    n.attrs.Set("kernel_shape", std::vector<int64_t>(w->begin() + 2, w->end()));
  return OkStatus();
}

// Attributes with their defaults, checked for length and sign. nullopt: the rank is not known yet.
StatusOr<std::optional<Window>> ReadWindow(AdaptedNode &n) {
  Window w;
  w.kernel = n.attrs.Ints("kernel_shape").vec();
  size_t rank = w.kernel.size();
  if (rank == 0) {
    const auto spatial = Spatial(n);
    if (!spatial)
      return std::optional<Window>();
    rank = spatial->size();
  } else if (const auto x = n.Rank(0); x && static_cast<size_t>(*x) != rank + 2) {
    return Error("E0301",
                 fmt::format("kernel_shape {} has {} dims; the input of rank {} has {} spatial ones",
                             ToString(w.kernel), rank, *x, *x - 2),
                 "kernel_shape, strides and dilations have one entry a spatial dim");
  }
  auto list = [&](std::string_view name, size_t size, int64_t otherwise, int64_t least,
                  std::vector<int64_t> &out) -> Status {
    out = n.attrs.Ints(name).vec();
    if (out.empty())
      out.assign(size, otherwise);
    if (out.size() != size)
      return Error("E0203", fmt::format("{} has {} entries, not {}", name, out.size(), size));
    for (int64_t v : out)
      if (v < least || v > INT32_MAX)
        return Error("E0203", fmt::format("{} {} has an entry out of range", name, ToString(out)));
    n.attrs.Set(name, out);
    return OkStatus();
  };
  NPUC_RETURN_IF_ERROR(list("strides", rank, 1, 1, w.strides));
  NPUC_RETURN_IF_ERROR(list("dilations", rank, 1, 1, w.dilations));
  if (n.attrs.String("auto_pad", "NOTSET") == "NOTSET" && !n.attrs.Has("output_shape")) {
    n.attrs.Erase("auto_pad");
    NPUC_RETURN_IF_ERROR(list("pads", 2 * rank, 0, INT32_MIN, w.pads));
  }
  return std::optional<Window>(std::move(w));
}

Status SetPads(AdaptedNode &n, std::vector<int64_t> pads) {
  n.attrs.Set("pads", std::move(pads));
  n.attrs.Erase("auto_pad");
  return OkStatus();
}

Status ForwardWindow(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(auto window, ReadWindow(n));
  const std::string mode(n.attrs.String("auto_pad", "NOTSET"));
  if (mode == "NOTSET" || !window)
    return OkStatus();
  const size_t rank = window->strides.size();
  if (mode == "VALID")
    return SetPads(n, std::vector<int64_t>(2 * rank, 0));
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return Error("E0203", fmt::format("auto_pad is '{}'", mode), "NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  const auto x = Spatial(n);
  if (!x || window->kernel.empty())
    return OkStatus();
  std::vector<int64_t> pads(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    if ((*x)[i] < 0) {
      // A stride of 1 pads alike whatever the extent is.
      if (window->strides[i] != 1)
        return OkStatus();
    }
    const int64_t stride = window->strides[i], reach = (window->kernel[i] - 1) * window->dilations[i] + 1;
    const int64_t in = (*x)[i] < 0 ? 1 : (*x)[i], out = (in + stride - 1) / stride;
    const int64_t total = std::max<int64_t>((out - 1) * stride + reach - in, 0);
    pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[rank + i] = total - pads[i];
  }
  // ceil(in / stride) outputs exactly: rounding up once more would add one.
  if (n.attrs.Has("ceil_mode"))
    n.attrs.Erase("ceil_mode");
  return SetPads(n, std::move(pads));
}

Status Conv(AdaptedNode &n) {
  NPUC_RETURN_IF_ERROR(KernelFromWeights(n));
  return ForwardWindow(n);
}

Status Pool(AdaptedNode &n) {
  if (!n.attrs.Has("kernel_shape"))
    return Error("E0203", "the required attribute 'kernel_shape' is missing");
  return ForwardWindow(n);
}

Status ConvTranspose(AdaptedNode &n) {
  NPUC_RETURN_IF_ERROR(KernelFromWeights(n));
  NPUC_ASSIGN_OR_RETURN(auto window, ReadWindow(n));
  const std::string mode(n.attrs.String("auto_pad", "NOTSET"));
  std::vector<int64_t> target = n.attrs.Ints("output_shape").vec();
  if (!window || (mode == "NOTSET" && target.empty()))
    return OkStatus();
  const size_t rank = window->strides.size();
  if (mode == "VALID" && target.empty())
    return SetPads(n, std::vector<int64_t>(2 * rank, 0));
  const auto x = Spatial(n);
  if (!x || window->kernel.empty())
    return OkStatus();
  std::vector<int64_t> extra = n.attrs.Ints("output_padding").vec();
  if (extra.empty())
    extra.assign(rank, 0);
  if (extra.size() != rank)
    return Error("E0203", fmt::format("output_padding has {} entries, not {}", extra.size(), rank));
  if (target.size() == rank + 2)
    target.erase(target.begin(), target.begin() + 2); // some exporters name all dims
  if (!target.empty() && target.size() != rank)
    return Error("E0203", fmt::format("output_shape has {} entries, not {}", target.size(), rank));
  std::vector<int64_t> pads(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    if ((*x)[i] < 0)
      return OkStatus();
    const int64_t full =
        window->strides[i] * ((*x)[i] - 1) + extra[i] + (window->kernel[i] - 1) * window->dilations[i] + 1;
    const int64_t out = target.empty() ? (*x)[i] * window->strides[i] : target[i];
    int64_t total = full - out;
    if (total < 0) {
      extra[i] -= total; // the output is larger than the taps reach: zeros (and bias) at the end
      total = 0;
    }
    pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[rank + i] = total - pads[i];
  }
  n.attrs.Set("output_padding", extra);
  n.attrs.Erase("output_shape");
  return SetPads(n, std::move(pads));
}

Status IntP(AdaptedNode &n) {
  if (const Attribute *p = n.attrs.Find("p"))
    if (const float *f = std::get_if<float>(p))
      n.attrs.Set("p", static_cast<int64_t>(*f));
  return OkStatus();
}

Status Recurrent6(AdaptedNode &n) {
  n.attrs.Erase("output_sequence");
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"", "LpPool", 2, IntP},
    {"", "GlobalLpPool", 2, IntP},
    {"", "Conv", kAlways, Conv},
    {"", "ConvInteger", kAlways, Conv},
    {"", "QLinearConv", kAlways, Conv},
    {"", "ConvTranspose", kAlways, ConvTranspose},
    {"", "MaxPool", kAlways, Pool},
    {"", "AveragePool", kAlways, Pool},
    {"", "LpPool", kAlways, Pool},
    {"", "RNN", 7, Recurrent6},
    {"", "GRU", 7, Recurrent6},
    {"", "LSTM", 7, Recurrent6},
};

} // namespace

llvm::ArrayRef<AdapterRow> NnAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
