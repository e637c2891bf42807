// Measuring images and choosing among them.
#include "compiler/calibration/select.h"

#include <gtest/gtest.h>

#include <set>

namespace npuc {
namespace {

Image Grey(int width, int height, auto pixel) {
  Image image{width, height, 1, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      image.pixels.push_back(static_cast<uint8_t>(pixel(x, y)));
  return image;
}

TEST(MeasureImage, BrightnessAndEdges) {
  const ImageTraits flat = MeasureImage(Grey(20, 10, [](int, int) { return 51; }));
  EXPECT_NEAR(flat.brightness, 0.2, 1e-6);
  EXPECT_EQ(flat.edge_density, 0);
  // One step between columns 9 and 10: the two columns beside it see it.
  const ImageTraits step = MeasureImage(Grey(20, 10, [](int x, int) { return x < 10 ? 0 : 255; }));
  EXPECT_NEAR(step.brightness, 0.5, 1e-6);
  EXPECT_NEAR(step.edge_density, 2.0 / 20, 1e-9);
  // A step of 20 of 255 is none: 4 * 20 < 127.5.
  EXPECT_EQ(MeasureImage(Grey(20, 10, [](int x, int) { return x < 10 ? 100 : 120; })).edge_density, 0);
  // Red counts 0.299.
  EXPECT_NEAR(MeasureImage(Image{1, 1, 3, {255, 0, 0}}).brightness, 0.299, 1e-6);
}

TEST(MeasureImage, ResolutionDoesNotCount) {
  auto checks = [](int scale) {
    return MeasureImage(
        Grey(256 * scale, 128 * scale, [&](int x, int y) { return (x / scale / 32 + y / scale / 32) % 2 * 200; }));
  };
  EXPECT_NEAR(checks(1).brightness, checks(5).brightness, 1e-6);
  EXPECT_NEAR(checks(1).edge_density, checks(5).edge_density, 1e-6);
}

std::vector<ImageTraits> Spread() {
  std::vector<ImageTraits> images;
  for (int b = 0; b < 5; ++b)
    for (int e = 0; e < 5; ++e)
      for (int k = 0; k < 4; ++k)
        images.push_back({(b + 0.5) / 5, (e + 0.5) / 10});
  return images;
}

TEST(SelectImages, EachBucketGivesItsShare) {
  SelectOptions o;
  o.count = 50;
  const Selection s = SelectImages(Spread(), o);
  EXPECT_EQ(s.have, std::vector<int64_t>(25, 4));
  EXPECT_EQ(s.picked_in, std::vector<int64_t>(25, 2));
  EXPECT_EQ(std::set<int64_t>(s.picked.begin(), s.picked.end()).size(), 50u);
  EXPECT_FALSE(s.dominant);
}

TEST(SelectImages, SmallBucketsAreNotLost) {
  std::vector<ImageTraits> images(97, ImageTraits{0.5, 0.15});
  images.push_back({0.05, 0.0});
  images.push_back({0.95, 0.0});
  images.push_back({0.95, 0.45});
  SelectOptions o;
  o.count = 8;
  const Selection s = SelectImages(images, o);
  for (int64_t rare : {97, 98, 99})
    EXPECT_TRUE(std::count(s.picked.begin(), s.picked.end(), rare)) << rare;
  EXPECT_EQ(s.picked.size(), 8u);
}

TEST(SelectImages, TheSeedDecidesAndRepeats) {
  SelectOptions a, b;
  a.count = b.count = 25;
  EXPECT_EQ(SelectImages(Spread(), a).picked, SelectImages(Spread(), b).picked);
  b.seed = 1;
  EXPECT_NE(SelectImages(Spread(), a).picked, SelectImages(Spread(), b).picked);
  b.count = 1000;
  EXPECT_EQ(SelectImages(Spread(), b).picked.size(), 100u);
}

TEST(SelectImages, ANightOnlySetIsFlagged) {
  std::vector<ImageTraits> night;
  for (int i = 0; i < 30; ++i)
    night.push_back({0.02 + 0.005 * i, 0.01 * i});
  const Selection s = SelectImages(night, {});
  ASSERT_TRUE(s.dominant);
  EXPECT_EQ(s.dominant->what, "brightness 0-20 %");
  EXPECT_EQ(s.dominant->share, 1);
  night.resize(7);
  EXPECT_FALSE(SelectImages(night, {}).dominant) << "seven images say nothing";
}

TEST(SelectImages, OneCellOrOneEdgeBucketIsFlagged) {
  std::vector<ImageTraits> flat;
  for (int i = 0; i < 20; ++i)
    flat.push_back({0.05 * i, 0.02});
  ASSERT_TRUE(SelectImages(flat, {}).dominant);
  EXPECT_EQ(SelectImages(flat, {}).dominant->what, "edge density 0-10 %");
  std::vector<ImageTraits> same(11, ImageTraits{0.3, 0.25});
  for (int i = 0; i < 5; ++i) {
    same.push_back({0.1 + 0.2 * i, 0.05});
    same.push_back({0.1 + 0.2 * i, 0.45});
  }
  ASSERT_TRUE(SelectImages(same, {}).dominant); // 11 of 21
  EXPECT_EQ(SelectImages(same, {}).dominant->what, "brightness 20-40 %, edge density 20-30 %");
}

} // namespace
} // namespace npuc
