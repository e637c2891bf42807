#include "passes/quantize/parameters.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/convert.h"
#include "compiler/support/status.h"
#include "compiler/support/thread_pool.h"
#include "compiler/types/dtype.h"

namespace npuc {
namespace {

// Position of slices: index = (outer * slices + slice) * inner + i.
struct Slices {
  int64_t outer = 1, count = 1, inner = 1;
  Slices(llvm::ArrayRef<int64_t> dims, int axis) {
    for (int i = 0; i < static_cast<int>(dims.size()); ++i)
      (axis < 0 || i > axis ? inner : i < axis ? outer : count) *= dims[i];
  }
  // f(slice, index) for the elements of slices [begin, end), as they lie in memory.
  template <class F> void ForEach(int64_t begin, int64_t end, F f) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t s = begin; s < end; ++s)
        for (int64_t i = 0; i < inner; ++i)
          f(s, (o * count + s) * inner + i);
  }
};

double Code(double x, double scale, double limit) {
  const double c = std::nearbyint(x / scale);
  return std::min(std::max(c, -limit), limit);
}

// The scale of so few levels: the best of 21 from 0.6 to 1 times the one that holds everything.
template <class ForEachValue> double BestScale(double greatest, double limit, ForEachValue for_each) {
  double best = greatest / limit, least = -1;
  for (int k = 0; k <= 20; ++k) {
    const double scale = greatest * (1.0 - 0.02 * k) / limit;
    double error = 0;
    for_each([&](double x) {
      const double d = Code(x, scale, limit) * scale - x;
      error += d * d;
    });
    if (least < 0 || error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

} // namespace

Elements::Elements(const Tensor &t)
    : f32_(t.dtype() == DType::F32 ? t : ops::ConvertTensor(t, DType::F32)), data_(f32_.data<float>()),
      step_(f32_.is_splat() ? 0 : 1) {}

QuantRef ActivationParams(ValueRange range, DType dtype) {
  range = range.Widened();
  if (dtype == DType::I16) {
    const double greatest = std::max(-range.lo, range.hi);
    const float scale = static_cast<float>(greatest / 32767);
    return PerTensorQuant(scale > 0 && std::isfinite(scale) ? scale : 1.0f, 0);
  }
  const double least = static_cast<double>(IntMin(dtype)), most = static_cast<double>(IntMax(dtype));
  const float scale = static_cast<float>((range.hi - range.lo) / (most - least));
  // Below this the product with a weight's scale is no normal float any more.
  if (!(scale > 1e-25f) || !std::isfinite(scale))
    return PerTensorQuant(1.0f, static_cast<int32_t>(range.lo < 0 ? least + 128 : least));
  const double zero = std::min(std::max(std::nearbyint(least - range.lo / scale), least), most);
  return PerTensorQuant(scale, static_cast<int32_t>(zero));
}

bool FixedRange(std::string_view op, ValueRange *range) {
  if (op == "Sigmoid" || op == "Softmax" || op == "HardSigmoid") {
    *range = {0, 1};
    return true;
  }
  if (op == "Tanh" || op == "Softsign") {
    *range = {-1, 1};
    return true;
  }
  return false;
}

QuantizedWeights QuantizeWeights(const Tensor &w, int axis, int bits, llvm::ArrayRef<double> least_scales,
                                 ThreadPool *threads) {
  const double limit = bits == 4 ? 7 : 127;
  const Elements x(w);
  Slices slices(w.dims(), axis);
  if (w.is_splat()) // one element a slice says it all
    slices.outer = slices.inner = 1;
  QuantizedWeights r;
  r.codes = Tensor::Allocate(DType::I8, w.is_splat() ? llvm::ArrayRef<int64_t>(slices.count) : w.dims());
  int8_t *codes = r.codes.mutable_data<int8_t>();
  QuantParams q;
  q.axis = axis;
  q.scales.resize(slices.count);
  q.zero_points.resize(slices.count);
  auto work = [&](size_t begin, size_t end) { // slices side by side: they may lie interleaved
    const int64_t first = static_cast<int64_t>(begin), last = static_cast<int64_t>(end);
    std::vector<double> greatest(end - begin);
    slices.ForEach(first, last,
                   [&](int64_t s, int64_t i) { greatest[s - first] = std::max(greatest[s - first], std::abs(x[i])); });
    for (int64_t s = first; s < last; ++s) {
      const double most = greatest[s - first];
      double scale = most / limit;
      if (bits == 4 && most > 0)
        scale = BestScale(most, limit, [&](auto f) { slices.ForEach(s, s + 1, [&](int64_t, int64_t i) { f(x[i]); }); });
      const double least = least_scales.empty()       ? 0
                           : least_scales.size() == 1 ? least_scales[0]
                                                      : least_scales[static_cast<size_t>(s)];
      scale = std::max(scale, std::max(least, 1e-12 * (most > 0)));
      q.scales[s] = static_cast<float>(scale > 0 ? scale : 1);
    }
    slices.ForEach(first, last, [&](int64_t s, int64_t i) {
      codes[i] = static_cast<int8_t>(Code(x[i], static_cast<double>(q.scales[s]), limit));
    });
  };
  const size_t grain = 16, count = static_cast<size_t>(slices.count);
  threads ? threads->ParallelFor(count, grain, work) : work(0, count);
  if (w.is_splat()) {
    if (std::all_of(codes, codes + count, [&](int8_t c) { return c == codes[0]; })) {
      r.codes = Tensor::Splat(DType::I8, w.dims(), codes);
    } else {
      Tensor all = Tensor::Allocate(DType::I8, w.dims());
      Slices(w.dims(), axis).ForEach(0, slices.count, [&](int64_t s, int64_t i) {
        all.mutable_data<int8_t>()[i] = codes[s];
      });
      r.codes = std::move(all);
    }
  }
  r.quant = std::make_shared<const QuantParams>(std::move(q));
  return r;
}

std::vector<double> LeastScales(const Tensor *bias, double sx, int64_t channels) {
  if (!bias)
    return {};
  NPUC_CHECK(bias->num_elements() == 1 || bias->num_elements() == channels, "bias of {} elements for {} channels",
             bias->num_elements(), channels);
  std::vector<double> r;
  for (int64_t c = 0; c < channels; ++c)
    r.push_back(std::abs(bias->AsDouble(bias->num_elements() == 1 ? 0 : c)) / (sx * 1073741824.0));
  return r;
}

Tensor RoundToGroups(const Tensor &w, int channel_axis, int input_axis, int64_t group, int bits) {
  const double limit = bits == 4 ? 7 : 127;
  const Elements x(w);
  Tensor out = Tensor::Allocate(DType::F32, w.dims());
  float *y = out.mutable_data<float>();
  // Members of (channel, group) in memory order.
  const auto dims = w.dims();
  std::vector<int64_t> stride(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i)
    stride[i] = stride[i + 1] * dims[i + 1];
  const int64_t channels = dims[channel_axis], groups = (dims[input_axis] + group - 1) / group;
  std::vector<std::vector<int64_t>> members(channels * groups);
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t c = i / stride[channel_axis] % dims[channel_axis], k = i / stride[input_axis] % dims[input_axis];
    members[c * groups + k / group].push_back(i);
  }
  for (const auto &m : members) {
    double greatest = 0;
    for (int64_t i : m)
      greatest = std::max(greatest, std::abs(x[i]));
    const float scale = static_cast<float>(greatest > 0 ? BestScale(greatest, limit,
                                                                    [&](auto f) {
                                                                      for (int64_t i : m)
                                                                        f(x[i]);
                                                                    })
                                                        : 1.0);
    for (int64_t i : m)
      y[i] = static_cast<float>(Code(x[i], scale, limit)) * scale;
  }
  return w.dtype() == DType::F32 ? out : ops::ConvertTensor(out, w.dtype());
}

} // namespace npuc
