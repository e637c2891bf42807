// Window attributes and extents; see spatial.h.
#include "compiler/ops/spatial.h"

#include <algorithm>

namespace npuc::ops {

// Products of two attributes and an extent stay within 64 bits.
constexpr int64_t kMost = int64_t{1} << 30;

StatusOr<Window> ReadWindow(const AttributeList &attrs, llvm::ArrayRef<int64_t> kernel) {
  Window w;
  const llvm::ArrayRef<int64_t> stated = attrs.Ints("kernel_shape");
  if (kernel.empty() && stated.empty())
    return AttrError("attribute kernel_shape is missing");
  if (!kernel.empty() && !stated.empty() && stated != kernel)
    return AttrError(
        fmt::format("kernel_shape {} differs from the weights' kernel {}", ToString(stated), ToString(kernel)),
        "drop kernel_shape or correct it");
  const llvm::ArrayRef<int64_t> k = kernel.empty() ? stated : kernel;
  const size_t rank = k.size();
  w.kernel.assign(k.begin(), k.end());
  auto read = [&](std::string_view name, size_t size, int64_t least, int64_t otherwise,
                  llvm::SmallVector<int64_t, 6> *out) -> Status {
    const llvm::ArrayRef<int64_t> v = attrs.Ints(name);
    if (v.empty()) {
      out->assign(size, otherwise);
      return OkStatus();
    }
    if (v.size() != size)
      return AttrError(
          fmt::format("{} {} has {} values; {} spatial axes need {}", name, ToString(v), v.size(), rank, size));
    for (int64_t x : v)
      if (x < least || x > kMost)
        return AttrError(fmt::format("{} {} must be from {} to {}", name, ToString(v), least, kMost));
    out->assign(v.begin(), v.end());
    return OkStatus();
  };
  llvm::SmallVector<int64_t, 6> v;
  for (int64_t x : w.kernel)
    if (x < 1 || x > kMost)
      return AttrError(fmt::format("kernel {} must be from 1 to {}", ToString(w.kernel), kMost));
  NPUC_RETURN_IF_ERROR(read("strides", rank, 1, 1, &v));
  w.stride.assign(v.begin(), v.end());
  NPUC_RETURN_IF_ERROR(read("dilations", rank, 1, 1, &v));
  w.dilation.assign(v.begin(), v.end());
  // Negative pads crop; some exporters write them.
  NPUC_RETURN_IF_ERROR(read("pads", 2 * rank, -kMost, 0, &v));
  w.pad_begin.assign(v.begin(), v.begin() + rank);
  w.pad_end.assign(v.begin() + rank, v.end());
  const std::string_view pad = attrs.String("auto_pad", "NOTSET");
  if (pad == "VALID")
    w.auto_pad = AutoPad::Valid;
  else if (pad == "SAME_UPPER")
    w.auto_pad = AutoPad::SameUpper;
  else if (pad == "SAME_LOWER")
    w.auto_pad = AutoPad::SameLower;
  else if (pad != "NOTSET" && !pad.empty())
    return AttrError(fmt::format("auto_pad '{}' is not NOTSET, VALID, SAME_UPPER or SAME_LOWER", pad));
  if (w.auto_pad != AutoPad::NotSet)
    for (size_t i = 0; i < rank; ++i)
      w.pad_begin[i] = w.pad_end[i] = 0;
  w.ceil_mode = attrs.Int("ceil_mode", 0) != 0;
  return w;
}

StatusOr<int64_t> WindowOutput(Window &w, int i, int64_t in) {
  const int64_t s = w.stride[i], extent = w.extent(i);
  if (w.auto_pad == AutoPad::SameUpper || w.auto_pad == AutoPad::SameLower) {
    const int64_t out = (in + s - 1) / s;
    const int64_t total = std::max<int64_t>((out - 1) * s + extent - in, 0);
    w.pad_begin[i] = w.auto_pad == AutoPad::SameUpper ? total / 2 : total - total / 2;
    w.pad_end[i] = total - w.pad_begin[i];
    return out;
  }
  const int64_t padded = in + w.pad_begin[i] + w.pad_end[i], room = padded - extent;
  if (room < 0) {
    if (in == 0)
      return 0;
    // Rounded up, a window that begins inside and ends behind everything counts.
    if (w.ceil_mode && room + s > 0 && in + w.pad_begin[i] > 0)
      return 1;
    return ShapeError(
        fmt::format("the kernel extent {} along spatial axis {} is larger than the padded input {}", extent, i, padded),
        "use a smaller kernel or dilation, or more padding");
  }
  int64_t out = (w.ceil_mode ? (room + s - 1) / s : room / s) + 1;
  // A last window that would start behind the input and its leading padding is dropped.
  if (w.ceil_mode && (out - 1) * s >= in + w.pad_begin[i])
    --out;
  return out;
}

StatusOr<Dim> WindowOutputDim(Window &w, int i, const Dim &in) {
  if (in.is_static()) {
    NPUC_ASSIGN_OR_RETURN(int64_t out, WindowOutput(w, i, in.value()));
    return Dim(out);
  }
  const bool same = w.auto_pad == AutoPad::SameUpper || w.auto_pad == AutoPad::SameLower;
  if (w.stride[i] == 1 && (same || w.pad_begin[i] + w.pad_end[i] == w.extent(i) - 1))
    return in;
  return Dim::Unknown();
}

} // namespace npuc::ops
