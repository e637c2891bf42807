// Ranges from statistics. Percentile, entropy and mean squared error look at the histogram only, as magnitudes of each
// sign in equal bins; zeros are exact in every range and left out. Sums run over bins in ascending order, in double.
#include "compiler/calibration/methods.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/fpmath.h"

namespace npuc {
namespace {

constexpr std::string_view kNames[] = {"minmax", "moving-average", "percentile", "entropy", "mse"};

Range WithZero(double lo, double hi) {
  return {static_cast<float>(std::min(lo, 0.0)), static_cast<float>(std::max(hi, 0.0))};
}

Range MovingAverage(const TensorStatistics &t, double momentum) {
  double lo = t.samples[0].min, hi = t.samples[0].max;
  for (size_t i = 1; i < t.samples.size(); ++i) {
    lo += momentum * (t.samples[i].min - lo);
    hi += momentum * (t.samples[i].max - hi);
  }
  return WithZero(lo, hi);
}

// The magnitude above which `tail` elements lie, linear within a bin.
double UpperQuantile(const std::vector<uint64_t> &side, double width, double tail) {
  double above = 0;
  for (size_t i = side.size(); i-- > 0;) {
    if (side[i] == 0)
      continue;
    const double n = static_cast<double>(side[i]);
    if (above + n > tail)
      return width * (static_cast<double>(i + 1) - (tail - above) / n);
    above += n;
  }
  return 0;
}

Range Percentile(const TensorStatistics &t, double percentile) {
  const double tail = static_cast<double>(t.count) * (100.0 - percentile) / 100.0, width = t.histogram.BinWidth();
  return WithZero(std::max<double>(t.min, -UpperQuantile(t.histogram.negative, width, tail)),
                  std::min<double>(t.max, UpperQuantile(t.histogram.positive, width, tail)));
}

// D(P || Q), P the first `bins` magnitudes with all larger ones in the last, Q what stays of them in `codes` groups of
// bins: each group's sum spread evenly over its bins that are not empty.
double Divergence(const std::vector<double> &magnitudes, size_t bins, int codes, double total) {
  double inside = 0;
  for (size_t i = 0; i < bins; ++i)
    inside += magnitudes[i];
  const double clipped = total - inside;
  double divergence = 0;
  for (int g = 0; g < codes; ++g) {
    const size_t begin = bins * g / codes, end = bins * (g + 1) / codes;
    double sum = 0, filled = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += magnitudes[i];
      filled += magnitudes[i] > 0;
    }
    for (size_t i = begin; i < end; ++i) {
      const double p = (magnitudes[i] + (i + 1 == bins ? clipped : 0)) / total;
      if (p == 0)
        continue;
      // Elements clipped to where none were: as if one in 10^9 had been.
      const double q = magnitudes[i] > 0 ? sum / filled / inside : 1e-9;
      divergence += p * fpmath::Log(p / q);
    }
  }
  return divergence;
}

Range Entropy(const TensorStatistics &t, const MethodOptions &o) {
  std::vector<double> magnitudes(Histogram::kBins);
  for (const auto *side : {&t.histogram.negative, &t.histogram.positive})
    for (size_t i = 0; i < side->size(); ++i)
      magnitudes[i] += static_cast<double>((*side)[i]);
  double total = 0;
  size_t used = 0;
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    total += magnitudes[i];
    if (magnitudes[i] > 0)
      used = i + 1;
  }
  const bool one_sided = !o.symmetric && (t.histogram.negative.empty() || t.histogram.positive.empty());
  const int codes = std::max(1, one_sided ? o.levels - 1 : o.levels / 2);
  size_t best = used;
  double least = INFINITY;
  const size_t step = std::max<size_t>(1, used / 256);
  // From the widest down: of equal ones the widest.
  for (size_t bins = used; bins >= static_cast<size_t>(codes); bins -= std::min(step, bins)) {
    const double d = Divergence(magnitudes, bins, codes, total);
    if (d < least) {
      least = d;
      best = bins;
    }
  }
  const double threshold = static_cast<double>(best) * t.histogram.BinWidth();
  return WithZero(std::max<double>(t.min, -threshold), std::min<double>(t.max, threshold));
}

// Sums over bins, to ask for the error of any range in constant time. A bin's elements are taken as evenly spread.
class SquaredError {
public:
  explicit SquaredError(const TensorStatistics &t)
      : width_(t.histogram.BinWidth()), negative_(Sums(t.histogram.negative)), positive_(Sums(t.histogram.positive)) {}

  double operator()(double lo, double hi, int levels) const {
    const double step = (hi - lo) / std::max(1, levels - 1);
    return Side(negative_, -lo, step) + Side(positive_, hi, step);
  }

private:
  struct Sum {
    double n = 0, x = 0, xx = 0; // of all bins before: elements, sum of magnitudes and of their squares
  };
  std::vector<Sum> Sums(const std::vector<uint64_t> &side) const {
    std::vector<Sum> sums(side.size() + 1);
    for (size_t i = 0; i < side.size(); ++i) {
      const double n = static_cast<double>(side[i]), x = (static_cast<double>(i) + 0.5) * width_;
      sums[i + 1] = {sums[i].n + n, sums[i].x + n * x, sums[i].xx + n * (x * x + width_ * width_ / 12)};
    }
    return sums;
  }
  // Of all bins below a magnitude; a bin that it divides counts in part.
  Sum Below(const std::vector<Sum> &sums, double magnitude) const {
    const double at = std::clamp(magnitude / width_, 0.0, static_cast<double>(sums.size() - 1));
    const size_t i = std::min(static_cast<size_t>(at), sums.size() - 1);
    Sum s = sums[i];
    if (const double part = at - static_cast<double>(i); part > 0) {
      const double n = (sums[i + 1].n - s.n) * part, x = (static_cast<double>(i) + part / 2) * width_;
      const double w = part * width_;
      s = {s.n + n, s.x + n * x, s.xx + n * (x * x + w * w / 12)};
    }
    return s;
  }
  // Magnitudes below half a step become 0, whose error is the number itself; up to the end, rounding is evenly spread
  // over a step; beyond it they are clipped.
  double Side(const std::vector<Sum> &sums, double end, double step) const {
    if (sums.size() == 1)
      return 0;
    const Sum zero = Below(sums, std::min(end, step / 2)), in = Below(sums, end), &all = sums.back();
    const double n = all.n - in.n, x = all.x - in.x, xx = all.xx - in.xx;
    return zero.xx + (in.n - zero.n) * (step * step / 12) + std::max(0.0, xx - 2 * end * x + end * end * n);
  }

  double width_;
  std::vector<Sum> negative_, positive_;
};

Range Mse(const TensorStatistics &t, const MethodOptions &o) {
  constexpr int kSteps = 128; // ends tried on each side, as parts of what was seen
  const SquaredError error(t);
  const double lo = std::min(0.0f, t.min), hi = std::max(0.0f, t.max), widest = std::max(-lo, hi);
  double least = INFINITY;
  Range best;
  auto ask = [&](double a, double b) {
    const double e = error(a, b, o.levels);
    if (e < least) {
      least = e;
      best = WithZero(a, b);
    }
  };
  // From the widest down: of equal ones the widest.
  for (int i = kSteps; i > 0; --i) {
    if (o.symmetric) {
      ask(-widest * i / kSteps, widest * i / kSteps);
      continue;
    }
    for (int j = kSteps; j > 0; --j) {
      ask(lo * i / kSteps, hi * j / kSteps);
      if (hi == 0)
        break;
    }
    if (lo == 0)
      break;
  }
  return best;
}

} // namespace

std::string_view Name(CalibrationMethod m) {
  return kNames[static_cast<int>(m)];
}

std::optional<CalibrationMethod> ParseCalibrationMethod(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name)
      return static_cast<CalibrationMethod>(i);
  return std::nullopt;
}

Range ChooseRange(const TensorStatistics &t, const MethodOptions &o) {
  if (t.count == 0 || t.histogram.empty())
    return {};
  Range r;
  switch (o.method) {
  case CalibrationMethod::MinMax:
    r = WithZero(t.min, t.max);
    break;
  case CalibrationMethod::MovingAverage:
    r = MovingAverage(t, o.momentum);
    break;
  case CalibrationMethod::Percentile:
    r = Percentile(t, o.percentile);
    break;
  case CalibrationMethod::Entropy:
    r = Entropy(t, o);
    break;
  case CalibrationMethod::Mse:
    r = Mse(t, o);
    break;
  }
  if (o.symmetric) {
    const float widest = std::max(-r.min, r.max);
    r = {-widest, widest};
  }
  return r;
}

double ExpectedSquaredError(const TensorStatistics &t, Range range, int levels) {
  if (t.count == 0)
    return 0;
  return SquaredError(t)(range.min, range.max, levels) / static_cast<double>(t.count);
}

} // namespace npuc
