// Chooses calibration images that are spread over brightness and edge density, and says when a set is one-sided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/image.h"

namespace npuc {

// Both from 0 to 1, of the image averaged down to at most 256 pixels a side (so that resolution does not count).
struct ImageTraits {
  double brightness = 0;   // mean luma
  double edge_density = 0; // share of pixels whose Sobel gradient of luma, |gx| + |gy|, is at least 127.5
};
ImageTraits MeasureImage(const Image &image);

struct SelectOptions {
  int brightness_buckets = 5;
  int edge_buckets = 5;
  int64_t count = 64;
  uint64_t seed = 0;
};

// Buckets are equal steps of brightness over [0, 1] and of edge density over [0, kMostEdges], the last one open.
inline constexpr double kMostEdges = 0.5;

struct Selection {
  int brightness_buckets = 0, edge_buckets = 0;
  std::vector<int64_t> have, picked_in; // by bucket: brightness * edge_buckets + edge
  std::vector<int> bucket;              // of each image
  std::vector<int64_t> picked;          // numbers of images, ascending

  // What makes the set one-sided: one brightness or edge bucket with more than 3/4 of the images, or one cell with more
  // than half of them. Sets below kFewImages say nothing.
  static constexpr int64_t kFewImages = 8;
  struct Dominant {
    std::string what; // "brightness 0-20 %", "edge density 10-20 %", or both with ", "
    double share;
  };
  std::optional<Dominant> dominant;
};

// Buckets in turn give one image each, the fullest ones last to run dry; which of a bucket's images is drawn by the
// seed. All images when `count` asks for as many. The same input gives the same choice everywhere.
Selection SelectImages(const std::vector<ImageTraits> &images, const SelectOptions &options);

// "brightness 0-20 %", "edge density 40 % and more".
std::string BrightnessLabel(int bucket, int buckets);
std::string EdgeLabel(int bucket, int buckets);

} // namespace npuc
