// What calibration keeps of a float tensor over many samples, in a form that adds up exactly: statistics of two sets of
// samples, merged, are those of the union, bit for bit and in any order. So threads, shards and machines can share the
// work and still make the bytes of one run.
//
//   least and greatest value, counts, histograms   order-free: selections and sums of integers
//   sums by channel                                each sample's own sum in a fixed order, then added as integers
//   range of each sample                           kept by sample number; methods reduce them in that order
//
// NaN and infinities are counted and enter nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "llvm/ADT/ArrayRef.h"

namespace npuc {

// Magnitudes in kBins bins of equal width over [0, 2^exponent), apart for negative and positive numbers. The range is a
// power of two, so it grows by adding neighbouring bins, and the counts are a function of the set of numbers alone.
// Zeros are not in it.
struct Histogram {
  static constexpr int kBins = 4096;
  static constexpr int kMinExponent = -100; // smaller numbers share a range

  int exponent = kMinExponent;
  std::vector<uint64_t> negative, positive; // kBins counts, or none while there is no such number

  bool empty() const { return negative.empty() && positive.empty(); }
  double BinWidth() const; // 2^exponent / kBins
  // The least exponent whose range holds a magnitude.
  static int ExponentOf(float magnitude);
  // Makes the range [0, 2^exponent) unless it is that large.
  void Grow(int exponent);
  // Counts finite numbers; those equal to 0 are left out. Grows as needed.
  void Add(llvm::ArrayRef<float> values);
  void Merge(const Histogram &other);
  bool operator==(const Histogram &) const = default;
};

// Slices of one axis. Sums are whole multiples of 2^-kSumBits.
struct ChannelStatistics {
  static constexpr int kSumBits = 40;
  static constexpr int kUnset = -2; // nothing was added yet
  static constexpr int kNone = -1;  // not kept: no axis, one that changes its extent, or more than kMaxChannels
  int axis = kUnset;
  std::vector<float> min, max; // one a channel; of a channel without finite elements: 0
  std::vector<__int128> sum;
  std::vector<int64_t> count; // finite elements

  static constexpr int64_t kMaxChannels = 8192;
  int64_t size() const { return static_cast<int64_t>(min.size()); }
  double Mean(int64_t channel) const; // 0 without elements
  void Merge(const ChannelStatistics &other);
  bool operator==(const ChannelStatistics &) const = default;
};

// The finite range of one sample.
struct SampleRange {
  int64_t sample; // its number in the whole set
  float min, max;
  bool operator==(const SampleRange &) const = default;
};

struct TensorStatistics {
  int64_t count = 0;      // finite elements, zeros included
  int64_t zero_count = 0; // exactly 0
  int64_t nan_count = 0, inf_count = 0;
  float min = 0, max = 0; // of the finite elements; 0 without any
  Histogram histogram;
  ChannelStatistics channels;
  std::vector<SampleRange> samples; // by sample, ascending; samples without a finite element are not in it

  // One sample's value of this tensor. A sample may be added in several pieces (the body of a loop). `axis`: the
  // channels, -1 for none.
  void Add(int64_t sample, llvm::ArrayRef<float> values, llvm::ArrayRef<int64_t> dims, int axis);
  // Of other samples; or of other pieces of the same ones.
  void Merge(const TensorStatistics &other);

  // Elements whose value is below lo or above hi, to the resolution of the histogram: what a range would clip.
  int64_t CountOutside(float lo, float hi) const;
  bool operator==(const TensorStatistics &) const = default;
};

// Statistics by value name: the ONNX tensor's name where the value stands for one.
class CalibrationTable {
public:
  // Null for a tensor that no sample reached.
  const TensorStatistics *Find(std::string_view name) const;
  TensorStatistics &operator[](std::string_view name);
  // In name order.
  const std::map<std::string, TensorStatistics, std::less<>> &tensors() const { return tensors_; }
  void Merge(const CalibrationTable &other);
  bool operator==(const CalibrationTable &) const = default;

private:
  std::map<std::string, TensorStatistics, std::less<>> tensors_;
};

} // namespace npuc
