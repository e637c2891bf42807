// From statistics to the range that a tensor's integers will cover.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "compiler/calibration/statistics.h"

namespace npuc {

// Real numbers [min, max]; min <= 0 <= max always, so that zero is one of the codes.
struct Range {
  float min = 0, max = 0;
  bool operator==(const Range &) const = default;
};

enum class CalibrationMethod : uint8_t {
  MinMax,        // what was seen
  MovingAverage, // range of the first sample, moved towards each following one: r += momentum * (sample - r)
  Percentile,    // on each side, all but (100 - percentile) % of the elements
  Entropy,       // symmetric threshold with the least Kullback-Leibler divergence between the distribution and its
                 // quantised form (Migacz, "8-bit inference with TensorRT", 2017)
  Mse,           // least expected squared error, rounding plus clipping; both ends are searched
};
std::string_view Name(CalibrationMethod m); // "minmax", "moving-average", "percentile", "entropy", "mse"
std::optional<CalibrationMethod> ParseCalibrationMethod(std::string_view name);

struct MethodOptions {
  CalibrationMethod method = CalibrationMethod::MinMax;
  double percentile = 99.99;
  double momentum = 0.01;
  int levels = 256;       // codes that the range will have
  bool symmetric = false; // the range will be [-a, a]
  bool operator==(const MethodOptions &) const = default;
};

// The range for a tensor; never wider than what was seen (but symmetric ones: [-a, a]). A tensor without finite
// elements, or of zeros alone: [0, 0].
Range ChooseRange(const TensorStatistics &t, const MethodOptions &options);

// The expected squared error of quantising the tensor with `levels` codes over `range` (zero is a code), from the
// histogram: what Mse minimises, and the measure by which other methods can be held against each other.
double ExpectedSquaredError(const TensorStatistics &t, Range range, int levels);

} // namespace npuc
