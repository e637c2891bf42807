// Quantisation of a tensor's integers: real = (q - zero_point) * scale, per tensor or per slice of one axis.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace npuc {

struct QuantParams {
  std::vector<float> scales;        // one (axis < 0), or one per slice of `axis`
  std::vector<int32_t> zero_points; // same length as scales
  int axis = -1;

  bool per_tensor() const { return axis < 0; }
  float scale(int64_t slice = 0) const { return scales[per_tensor() ? 0 : slice]; }
  int32_t zero_point(int64_t slice = 0) const { return zero_points[per_tensor() ? 0 : slice]; }
  bool operator==(const QuantParams &o) const = default;
};

using QuantRef = std::shared_ptr<const QuantParams>; // null: not quantised

inline QuantRef PerTensorQuant(float scale, int32_t zero_point) {
  return std::make_shared<const QuantParams>(QuantParams{{scale}, {zero_point}, -1});
}
inline bool SameQuant(const QuantRef &a, const QuantRef &b) {
  return a == b || (a && b && *a == *b);
}

} // namespace npuc
