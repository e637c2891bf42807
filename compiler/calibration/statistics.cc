// Statistics of one tensor. A value is read twice: once for range, zeros and sums by channel, once for the histogram,
// whose range must be known first. Both loops go eight elements at a time in vectors; sums have eight chains (element i
// is in chain i modulo 8) whatever the machine, so their bits are the same everywhere. Values with NaN or infinity take
// a scalar path with the same chains. Cost: about a nanosecond an element.
#include "compiler/calibration/statistics.h"
#include "compiler/support/target_clones.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace npuc {
namespace {

typedef float V8 __attribute__((vector_size(32), aligned(4)));
typedef int32_t I8x __attribute__((vector_size(32)));
typedef double D8 __attribute__((vector_size(64)));

// 2^e as a float; e from -126 to 127.
float PowerOfTwo(int e) {
  return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
}

bool IsFinite(float v) {
  return (std::bit_cast<uint32_t>(v) & 0x7f800000u) != 0x7f800000u;
}

NPUC_CLONES("avx2") bool AllFinite(const float *v, int64_t n) {
  int32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    int32_t bits;
    std::memcpy(&bits, v + i, 4);
    bad |= (bits & 0x7f800000) == 0x7f800000;
  }
  return bad == 0;
}

// What one contiguous row of a sample has.
struct Row {
  float min = INFINITY, max = -INFINITY;
  int64_t zeros = 0, count = 0;
  double sum = 0;
};

double AddChains(const double (&s)[8]) {
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

NPUC_CLONES("avx2") void ReadFinite(const float *v, int64_t n, Row &row) {
  V8 lo = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}, hi = -lo;
  I8x zeros = {};
  D8 sums = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const V8 x = *reinterpret_cast<const V8 *>(v + i);
    lo = x < lo ? x : lo;
    hi = x > hi ? x : hi;
    zeros -= x == V8{};
    sums += __builtin_convertvector(x, D8);
  }
  double s[8];
  for (int k = 0; k < 8; ++k) {
    row.min = std::min(row.min, lo[k]);
    row.max = std::max(row.max, hi[k]);
    row.zeros += zeros[k];
    s[k] = sums[k];
  }
  for (; i < n; ++i) {
    row.min = std::min(row.min, v[i]);
    row.max = std::max(row.max, v[i]);
    row.zeros += v[i] == 0;
    s[i % 8] += v[i];
  }
  row.count += n;
  row.sum += AddChains(s);
}

void ReadSome(const float *v, int64_t n, Row &row) {
  double s[8] = {};
  for (int64_t i = 0; i < n; ++i) {
    if (!IsFinite(v[i]))
      continue;
    row.min = std::min(row.min, v[i]);
    row.max = std::max(row.max, v[i]);
    row.zeros += v[i] == 0;
    ++row.count;
    s[i % 8] += v[i];
  }
  row.sum += AddChains(s);
}

// Rows of one element each, channel after channel: into row[0], row[1], ...
void ReadInterleaved(const float *v, int64_t n, Row *row) {
  for (int64_t i = 0; i < n; ++i) {
    if (!IsFinite(v[i]))
      continue;
    row[i].min = std::min(row[i].min, v[i]);
    row[i].max = std::max(row[i].max, v[i]);
    row[i].zeros += v[i] == 0;
    ++row[i].count;
    row[i].sum += v[i];
  }
}

// The bin of each magnitude, plus kBins for negative numbers.
NPUC_CLONES("avx2") void BinsOf(const float *v, int64_t n, float scale, int32_t *bins) {
  for (int64_t i = 0; i < n; ++i)
    bins[i] = static_cast<int32_t>(std::fabs(v[i]) * scale) + (v[i] < 0 ? Histogram::kBins : 0);
}

__int128 ToFixed(double sum) {
  // A mean beyond 2^62 (a mask of -3e38, say) has no use, and sums of 2^24 samples must still fit.
  const double limited = std::clamp(sum, -0x1p62, 0x1p62);
  return static_cast<__int128>(
      std::floor(limited * static_cast<double>(int64_t{1} << ChannelStatistics::kSumBits) + 0.5));
}

void AddSample(std::vector<SampleRange> &samples, const SampleRange &r) {
  auto at = std::lower_bound(samples.begin(), samples.end(), r.sample,
                             [](const SampleRange &a, int64_t sample) { return a.sample < sample; });
  if (at == samples.end() || at->sample != r.sample) {
    samples.insert(at, r);
    return;
  }
  at->min = std::min(at->min, r.min);
  at->max = std::max(at->max, r.max);
}

} // namespace

double Histogram::BinWidth() const {
  return std::ldexp(1.0, exponent) / kBins;
}

int Histogram::ExponentOf(float magnitude) {
  return std::max(kMinExponent, static_cast<int>(std::bit_cast<uint32_t>(magnitude) >> 23 & 255) - 126);
}

void Histogram::Grow(int to) {
  if (to <= exponent)
    return;
  const int shift = std::min(to - exponent, 31);
  for (std::vector<uint64_t> *side : {&negative, &positive})
    for (size_t i = 1; i < side->size(); ++i)
      if ((*side)[i]) {
        const uint64_t n = (*side)[i];
        (*side)[i] = 0;
        (*side)[i >> shift] += n;
      }
  exponent = to;
}

void Histogram::Add(llvm::ArrayRef<float> values) {
  float largest = 0;
  for (float v : values)
    largest = std::max(largest, std::fabs(v));
  if (largest == 0)
    return;
  Grow(ExponentOf(largest));
  const float scale = PowerOfTwo(12 - exponent);
  static_assert(kBins == 1 << 12);
  constexpr size_t kChunk = 512;
  int32_t bins[kChunk];
  // Two tables, taken in turn: equal neighbours would wait for each other's sum.
  const bool large = values.size() >= kBins;
  std::vector<uint32_t> tables(large ? 4 * kBins : 0);
  uint64_t zeros = 0;
  for (size_t at = 0; at < values.size(); at += kChunk) {
    const size_t n = std::min(kChunk, values.size() - at);
    BinsOf(values.data() + at, static_cast<int64_t>(n), scale, bins);
    if (large) {
      for (size_t i = 0; i < n; ++i)
        ++tables[static_cast<size_t>(bins[i]) + (i & 1) * (2 * kBins)];
      for (size_t i = 0; i < n; ++i)
        zeros += values[at + i] == 0;
    } else {
      for (size_t i = 0; i < n; ++i) {
        if (values[at + i] == 0)
          continue;
        std::vector<uint64_t> &side = bins[i] >= kBins ? negative : positive;
        if (side.empty())
          side.resize(kBins);
        ++side[bins[i] % kBins];
      }
    }
  }
  if (!large)
    return;
  tables[0] -= static_cast<uint32_t>(zeros); // the sum of both tables is what counts, modulo 2^32
  for (int s = 0; s < 2; ++s) {
    std::vector<uint64_t> &side = s ? negative : positive;
    for (int i = 0; i < kBins; ++i)
      if (const uint32_t n = tables[s * kBins + i] + tables[2 * kBins + s * kBins + i]) {
        if (side.empty())
          side.resize(kBins);
        side[i] += n;
      }
  }
}

void Histogram::Merge(const Histogram &other) {
  if (other.exponent < exponent) {
    Histogram grown = other;
    grown.Grow(exponent);
    Merge(grown);
    return;
  }
  Grow(other.exponent);
  auto add = [](std::vector<uint64_t> &to, const std::vector<uint64_t> &from) {
    if (to.empty())
      to = from;
    else
      for (size_t i = 0; i < from.size(); ++i)
        to[i] += from[i];
  };
  add(negative, other.negative);
  add(positive, other.positive);
}

double ChannelStatistics::Mean(int64_t channel) const {
  return count[channel] == 0
             ? 0.0
             : std::ldexp(static_cast<double>(sum[channel]), -kSumBits) / static_cast<double>(count[channel]);
}

void ChannelStatistics::Merge(const ChannelStatistics &o) {
  if (axis == kUnset) {
    *this = o;
    return;
  }
  if (o.axis == kUnset || axis == kNone)
    return;
  if (o.axis != axis || o.size() != size()) {
    *this = {};
    axis = kNone;
    return;
  }
  for (int64_t c = 0; c < size(); ++c) {
    if (o.count[c] == 0)
      continue;
    min[c] = count[c] ? std::min(min[c], o.min[c]) : o.min[c];
    max[c] = count[c] ? std::max(max[c], o.max[c]) : o.max[c];
    sum[c] += o.sum[c];
    count[c] += o.count[c];
  }
}

void TensorStatistics::Add(int64_t sample, llvm::ArrayRef<float> values, llvm::ArrayRef<int64_t> dims, int axis) {
  if (values.empty())
    return;
  const int64_t total = static_cast<int64_t>(values.size());
  const bool by_channel =
      axis >= 0 && axis < static_cast<int>(dims.size()) && dims[axis] <= ChannelStatistics::kMaxChannels;
  const int64_t channels = by_channel ? dims[axis] : 1;
  int64_t inner = total;
  if (by_channel) {
    inner = 1;
    for (size_t d = axis + 1; d < dims.size(); ++d)
      inner *= dims[d];
  }
  const bool finite = AllFinite(values.data(), total);
  std::vector<Row> rows(channels);
  for (int64_t at = 0; at < total; at += channels * inner) {
    if (inner == 1) {
      ReadInterleaved(values.data() + at, channels, rows.data());
      continue;
    }
    for (int64_t c = 0; c < channels; ++c)
      (finite ? ReadFinite : ReadSome)(values.data() + at + c * inner, inner, rows[c]);
  }

  TensorStatistics piece;
  ChannelStatistics &by = piece.channels;
  by.axis = by_channel ? axis : ChannelStatistics::kNone;
  Row all;
  // + 0: a zero has one sign here, so which of -0 and 0 was met first says nothing.
  for (const Row &r : rows) {
    all.min = std::min(all.min, r.min);
    all.max = std::max(all.max, r.max);
    all.zeros += r.zeros;
    all.count += r.count;
    if (!by_channel)
      continue;
    by.min.push_back(r.count ? r.min + 0.0f : 0);
    by.max.push_back(r.count ? r.max + 0.0f : 0);
    by.sum.push_back(ToFixed(r.sum));
    by.count.push_back(r.count);
  }
  piece.count = all.count;
  piece.zero_count = all.zeros;
  if (all.count) {
    piece.min = all.min + 0.0f;
    piece.max = all.max + 0.0f;
    piece.samples.push_back({sample, piece.min, piece.max});
  }
  if (finite) {
    histogram.Add(values);
  } else {
    std::vector<float> some;
    some.reserve(all.count);
    for (float v : values) {
      if (IsFinite(v))
        some.push_back(v);
      else
        ++(v != v ? piece.nan_count : piece.inf_count);
    }
    histogram.Add(some);
  }
  Merge(piece);
}

void TensorStatistics::Merge(const TensorStatistics &o) {
  if (o.count) {
    min = count ? std::min(min, o.min) : o.min;
    max = count ? std::max(max, o.max) : o.max;
  }
  count += o.count;
  zero_count += o.zero_count;
  nan_count += o.nan_count;
  inf_count += o.inf_count;
  if (!o.histogram.empty())
    histogram.Merge(o.histogram);
  channels.Merge(o.channels);
  for (const SampleRange &r : o.samples)
    AddSample(samples, r);
}

int64_t TensorStatistics::CountOutside(float lo, float hi) const {
  const double width = histogram.BinWidth();
  uint64_t n = 0;
  auto beyond = [&](const std::vector<uint64_t> &side, double end) {
    for (size_t i = 0; i < side.size(); ++i)
      if ((static_cast<double>(i) + 0.5) * width > end)
        n += side[i];
  };
  if (hi < max)
    beyond(histogram.positive, hi);
  if (lo > min)
    beyond(histogram.negative, -static_cast<double>(lo));
  return static_cast<int64_t>(n);
}

const TensorStatistics *CalibrationTable::Find(std::string_view name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

TensorStatistics &CalibrationTable::operator[](std::string_view name) {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? tensors_[std::string(name)] : it->second;
}

void CalibrationTable::Merge(const CalibrationTable &other) {
  for (const auto &[name, statistics] : other.tensors_)
    (*this)[name].Merge(statistics);
}

} // namespace npuc
