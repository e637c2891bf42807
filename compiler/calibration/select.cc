// Measuring and choosing of calibration images.
#include "compiler/calibration/select.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/support/hash.h"
#include "compiler/support/status.h"

namespace npuc {
namespace {

constexpr int kMaxSide = 256;

// Luma averaged over equal cells; at most kMaxSide cells a side.
struct Luma {
  int h, w;
  std::vector<float> v;
  float at(int y, int x) const { return v[static_cast<size_t>(std::clamp(y, 0, h - 1)) * w + std::clamp(x, 0, w - 1)]; }
};

Luma Shrink(const Image &image) {
  const int longest = std::max(image.width, image.height), step = (longest + kMaxSide - 1) / kMaxSide;
  Luma out{std::max(1, image.height / step), std::max(1, image.width / step), {}};
  out.v.resize(static_cast<size_t>(out.h) * out.w);
  for (int y = 0; y < out.h; ++y)
    for (int x = 0; x < out.w; ++x) {
      int64_t sum = 0, n = 0; // thousandths
      for (int j = y * step; j < std::min(image.height, (y + 1) * step); ++j)
        for (int i = x * step; i < std::min(image.width, (x + 1) * step); ++i, ++n) {
          const uint8_t *px = image.pixels.data() + (static_cast<size_t>(j) * image.width + i) * image.channels;
          sum += image.channels >= 3 ? 299 * px[0] + 587 * px[1] + 114 * px[2] : 1000 * px[0];
        }
      out.v[static_cast<size_t>(y) * out.w + x] = static_cast<float>(sum) / static_cast<float>(n * 1000);
    }
  return out;
}

// SplitMix64.
uint64_t Next(uint64_t &state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::string Label(std::string_view what, int bucket, int buckets, double all, bool open) {
  auto percent = [&](int b) { return static_cast<int>(std::floor(100 * all * b / buckets + 0.5)); };
  return open && bucket == buckets - 1 ? fmt::format("{} {} % and more", what, percent(bucket))
                                       : fmt::format("{} {}-{} %", what, percent(bucket), percent(bucket + 1));
}

} // namespace

std::string BrightnessLabel(int bucket, int buckets) {
  return Label("brightness", bucket, buckets, 1, false);
}
std::string EdgeLabel(int bucket, int buckets) {
  return Label("edge density", bucket, buckets, kMostEdges, true);
}

ImageTraits MeasureImage(const Image &image) {
  const Luma l = Shrink(image);
  double sum = 0;
  int64_t edges = 0;
  for (int y = 0; y < l.h; ++y)
    for (int x = 0; x < l.w; ++x) {
      sum += l.at(y, x);
      const float gx = l.at(y - 1, x + 1) - l.at(y - 1, x - 1) + 2 * (l.at(y, x + 1) - l.at(y, x - 1)) +
                       l.at(y + 1, x + 1) - l.at(y + 1, x - 1);
      const float gy = l.at(y + 1, x - 1) - l.at(y - 1, x - 1) + 2 * (l.at(y + 1, x) - l.at(y - 1, x)) +
                       l.at(y + 1, x + 1) - l.at(y - 1, x + 1);
      edges += std::fabs(gx) + std::fabs(gy) >= 127.5f;
    }
  const double n = static_cast<double>(l.v.size());
  return {sum / n / 255.0, static_cast<double>(edges) / n};
}

Selection SelectImages(const std::vector<ImageTraits> &images, const SelectOptions &o) {
  Selection s;
  s.brightness_buckets = o.brightness_buckets;
  s.edge_buckets = o.edge_buckets;
  const int buckets = o.brightness_buckets * o.edge_buckets;
  s.have.assign(buckets, 0);
  s.picked_in.assign(buckets, 0);
  auto bucket_of = [](double v, double all, int n) { return std::clamp(static_cast<int>(v / all * n), 0, n - 1); };
  std::vector<std::vector<int64_t>> members(buckets);
  for (size_t i = 0; i < images.size(); ++i) {
    const int b = bucket_of(images[i].brightness, 1, o.brightness_buckets) * o.edge_buckets +
                  bucket_of(images[i].edge_density, kMostEdges, o.edge_buckets);
    s.bucket.push_back(b);
    members[b].push_back(static_cast<int64_t>(i));
    ++s.have[b];
  }

  for (int b = 0; b < buckets; ++b) {
    uint64_t state = HashCombine(o.seed, static_cast<uint64_t>(b));
    for (size_t i = members[b].size(); i > 1; --i)
      std::swap(members[b][i - 1], members[b][Next(state) % i]);
  }
  const int64_t want = std::min<int64_t>(o.count, static_cast<int64_t>(images.size()));
  for (size_t round = 0; static_cast<int64_t>(s.picked.size()) < want; ++round)
    for (int b = 0; b < buckets && static_cast<int64_t>(s.picked.size()) < want; ++b)
      if (round < members[b].size()) {
        s.picked.push_back(members[b][round]);
        ++s.picked_in[b];
      }
  std::sort(s.picked.begin(), s.picked.end());

  const int64_t total = static_cast<int64_t>(images.size());
  if (total < Selection::kFewImages)
    return s;
  auto look = [&](int64_t n, double limit, std::string what) {
    const double share = static_cast<double>(n) / static_cast<double>(total);
    if (!s.dominant && share > limit)
      s.dominant = {std::move(what), share};
  };
  for (int b = 0; b < o.brightness_buckets; ++b) {
    int64_t n = 0;
    for (int e = 0; e < o.edge_buckets; ++e)
      n += s.have[b * o.edge_buckets + e];
    if (o.brightness_buckets > 1)
      look(n, 0.75, BrightnessLabel(b, o.brightness_buckets));
  }
  for (int e = 0; e < o.edge_buckets; ++e) {
    int64_t n = 0;
    for (int b = 0; b < o.brightness_buckets; ++b)
      n += s.have[b * o.edge_buckets + e];
    if (o.edge_buckets > 1)
      look(n, 0.75, EdgeLabel(e, o.edge_buckets));
  }
  for (int b = 0; b < buckets; ++b)
    if (buckets > 1)
      look(s.have[b], 0.5,
           BrightnessLabel(b / o.edge_buckets, o.brightness_buckets) + ", " +
               EdgeLabel(b % o.edge_buckets, o.edge_buckets));
  return s;
}

} // namespace npuc
