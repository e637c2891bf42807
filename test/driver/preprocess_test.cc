// Images as input values, by hand arithmetic.
#include "compiler/driver/preprocess.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/driver/samples.h"
#include "compiler/support/diagnostic.h"
#include "test/temp_folder.h"

namespace npuc {
namespace {

class PreprocessFile : public testing::Test {
protected:
  StatusOr<Preprocess> Read(const std::string &text) {
    path_ = folder_.At("preprocess_test.yaml");
    std::ofstream(path_) << text;
    return ReadPreprocess(path_);
  }
  Preprocess Good(const std::string &text) {
    auto p = Read(text);
    EXPECT_TRUE(p.ok()) << p.status();
    return p.ok() ? *p : Preprocess();
  }
  void ExpectWrong(const std::string &text, const std::string &place, const std::string &words) {
    auto p = Read(text);
    ASSERT_FALSE(p.ok()) << text;
    EXPECT_EQ(ErrorCode(p.status()), "E0508") << p.status();
    const std::string rendered = Render(FromStatus(p.status()));
    EXPECT_NE(rendered.find("preprocess_test.yaml:" + place), std::string::npos) << rendered;
    EXPECT_NE(rendered.find(words), std::string::npos) << rendered;
  }
  TempFolder folder_;
  std::string path_;
};

Type F32(std::initializer_list<int64_t> dims) {
  return Type::Tensor(DType::F32, Shape(dims));
}

std::vector<float> Values(const Image &image, const Type &type, const Preprocess &pre) {
  auto t = TensorFromImage(image, "x", type, pre);
  EXPECT_TRUE(t.ok()) << t.status();
  return t.ok() ? t->values<float>().vec() : std::vector<float>();
}

// Two pixels: red, and (1, 2, 3).
const Image kTwo{2, 1, 3, {255, 0, 0, 1, 2, 3}};

TEST_F(PreprocessFile, ColourAndLayout) {
  const Preprocess raw = Good("scale: 1"), last = Good("{scale: 1, layout: nhwc}");
  EXPECT_EQ(Values(kTwo, F32({1, 3, 1, 2}), raw), (std::vector<float>{255, 1, 0, 2, 0, 3}));
  EXPECT_EQ(Values(kTwo, F32({1, 1, 2, 3}), last), (std::vector<float>{255, 0, 0, 1, 2, 3}));
  EXPECT_EQ(Values(kTwo, F32({1, 2, 3}), last), (std::vector<float>{255, 0, 0, 1, 2, 3})) << "without N";
  EXPECT_EQ(Values(kTwo, F32({1, 3, 1, 2}), Good("{color: bgr, scale: 1}")), (std::vector<float>{0, 3, 0, 2, 255, 1}));
  // 0.299 * 255 = 76.2; 0.299 + 1.174 + 0.342 = 1.8.
  EXPECT_EQ(Values(kTwo, F32({1, 1, 1, 2}), raw), (std::vector<float>{76, 2}));
  // Four channels: alpha, 255 where the file has none.
  EXPECT_EQ(Values(kTwo, F32({1, 1, 2, 4}), last), (std::vector<float>{255, 0, 0, 255, 1, 2, 3, 255}));
  EXPECT_EQ(Values(Image{1, 1, 4, {9, 8, 7, 6}}, F32({1, 4, 1, 1}), Good("{color: bgra, scale: 1}")),
            (std::vector<float>{7, 8, 9, 6}));
}

TEST_F(PreprocessFile, ScaleMeanStd) {
  const Image grey{1, 1, 1, {51}};
  EXPECT_EQ(Values(grey, F32({1, 1, 1, 1}), {}), std::vector<float>{51 * static_cast<float>(1.0 / 255)});
  // (51 * 1 - 127.5) / 127.5
  EXPECT_EQ(Values(grey, F32({1, 1, 1, 1}), Good("{scale: 1, mean: 127.5, std: 127.5}")), std::vector<float>{-0.6f});
  EXPECT_EQ(
      Values(Image{1, 1, 3, {10, 20, 30}}, F32({1, 3, 1, 1}), Good("{scale: 1, mean: [2, 4, 6], std: [1, 2, 4]}")),
      (std::vector<float>{8, 8, 6}));
}

TEST_F(PreprocessFile, ResizeIsBilinearWithHalfPixelCentres) {
  // Centres of 4 in 2: -0.25, 0.25, 0.75, 1.25 -> 0, 25, 75, 100 percent of the way.
  const Image ramp{2, 1, 1, {0, 100}};
  EXPECT_EQ(Values(ramp, F32({1, 1, 1, 4}), Good("scale: 1")), (std::vector<float>{0, 25, 75, 100}));
  EXPECT_EQ(Values(ramp, F32({1, 1, 1, 4}), Good("{scale: 1, interpolation: nearest}")),
            (std::vector<float>{0, 0, 100, 100}));
  // Down to the middle one of three.
  EXPECT_EQ(Values(Image{3, 1, 1, {1, 5, 9}}, F32({1, 1, 1, 1}), Good("{scale: 1, interpolation: nearest}")),
            std::vector<float>{5});
}

TEST_F(PreprocessFile, CropIsFromTheCentre) {
  const Image row{5, 1, 1, {1, 2, 3, 4, 5}};
  EXPECT_EQ(Values(row, F32({1, 1, 1, 3}), Good("{scale: 1, crop: [1, 3]}")), (std::vector<float>{2, 3, 4}));
  auto small = TensorFromImage(row, "x", F32({1, 1, 4, 4}), Good("{scale: 1, crop: [4, 4]}"));
  EXPECT_EQ(ErrorCode(small.status()), "E0702");
}

TEST_F(PreprocessFile, LetterboxKeepsProportionsAndPads) {
  const Image wide{4, 2, 1, {8, 8, 8, 8, 8, 8, 8, 8}};
  // 2x4 into 4x4: two rows of padding, one above and one below.
  const std::vector<float> centred = {7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7};
  EXPECT_EQ(Values(wide, F32({1, 1, 4, 4}), Good("{scale: 1, letterbox: {pad: 7}}")), centred);
  const std::vector<float> top = {8, 8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7, 7, 7, 7};
  EXPECT_EQ(Values(wide, F32({1, 1, 4, 4}), Good("{scale: 1, letterbox: {pad: 7, align: top-left}}")), top);
  // 2x4 into 3x2: one row of it, a row of padding on each side; pixels of the padding are scaled like all others.
  EXPECT_EQ(Values(wide, F32({1, 1, 3, 2}), Good("{scale: 2, letterbox: {size: [3, 2], pad: 1}}")),
            (std::vector<float>{2, 2, 16, 16, 2, 2}));
  EXPECT_EQ(Values(Image{1, 1, 3, {1, 2, 3}}, F32({1, 1, 2, 3}),
                   Good("{scale: 1, layout: nhwc, letterbox: {pad: [4, 5, 6], align: top-left}}")),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(PreprocessFile, QuantisedAndIntegerInputs) {
  // 51 / 255 = 0.2; 0.2 / 0.01 = 20; plus zero point 3. Unquantised integers keep the pixel.
  const Image grey{1, 1, 1, {51}};
  auto q = TensorFromImage(grey, "x", Type::Tensor(DType::U8, Shape({1, 1, 1, 1}), PerTensorQuant(0.01f, 3)), {});
  ASSERT_TRUE(q.ok()) << q.status();
  EXPECT_EQ(q->dtype(), DType::U8);
  EXPECT_EQ(q->AsInt(0), 23);
  auto plain = TensorFromImage(grey, "x", Type::Tensor(DType::U8, Shape({1, 1, 1, 1})), {});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->AsInt(0), 51);
}

TEST_F(PreprocessFile, InputsOfTheirOwn) {
  const Preprocess p = Good("{scale: 1, inputs: {y: {scale: 2}}}");
  EXPECT_EQ(p.For("x").scale, 1);
  EXPECT_EQ(p.For("y").scale, 2);
}

TEST_F(PreprocessFile, CameraFrames) {
  // BT.601, limited range: Y 81, U 90, V 240 is red (ITU-R BT.601's colour bars), within rounding of the codes.
  Preprocess::Frame nv12{Preprocess::FrameFormat::Nv12, 2, 2, false, false};
  ASSERT_EQ(nv12.bytes(), 6);
  const Image red = DecodeFrame(std::vector<uint8_t>{81, 81, 81, 81, 90, 240}, nv12);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(red.pixels[3 * i], 255, 1);
    EXPECT_NEAR(red.pixels[3 * i + 1], 0, 1);
    EXPECT_NEAR(red.pixels[3 * i + 2], 0, 1);
  }
  // The same in the other orders of bytes.
  const std::pair<Preprocess::FrameFormat, std::vector<uint8_t>> others[] = {
      {Preprocess::FrameFormat::Nv21, {81, 81, 81, 81, 240, 90}},
      {Preprocess::FrameFormat::I420, {81, 81, 81, 81, 90, 240}},
      {Preprocess::FrameFormat::Yuyv, {81, 90, 81, 240, 81, 90, 81, 240}},
      {Preprocess::FrameFormat::Uyvy, {90, 81, 240, 81, 90, 81, 240, 81}}};
  for (const auto &[format, bytes] : others)
    EXPECT_EQ(DecodeFrame(bytes, {format, 2, 2, false, false}).pixels, red.pixels) << static_cast<int>(format);
  // Full range: luma is the grey itself; limited range: 16 is black, 235 white.
  EXPECT_EQ(
      DecodeFrame(std::vector<uint8_t>{0, 100, 200, 255, 128, 128}, {Preprocess::FrameFormat::Nv12, 2, 2, true, true})
          .pixels,
      (std::vector<uint8_t>{0, 0, 0, 100, 100, 100, 200, 200, 200, 255, 255, 255}));
  EXPECT_EQ(DecodeFrame(std::vector<uint8_t>{16, 235, 0, 255, 128, 128}, nv12).pixels,
            (std::vector<uint8_t>{0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}));
}

TEST_F(PreprocessFile, FramesFromFiles) {
  const Preprocess p = Good("{frame: {format: nv12, size: [2, 2], range: full}, scale: 1, color: gray}");
  const std::string path = folder_.At("frame.nv12");
  const uint8_t bytes[] = {10, 20, 30, 40, 128, 128};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes), 6);
  auto v = ReadInputValue(path, "x", F32({1, 1, 2, 2}), p);
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(v->tensor()->values<float>().vec(), (std::vector<float>{10, 20, 30, 40}));
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes), 5);
  auto cut = ReadInputValue(path, "x", F32({1, 1, 2, 2}), p);
  EXPECT_EQ(ErrorCode(cut.status()), "E0702");
  EXPECT_NE(Message(cut.status()).find("has 6 bytes, the file has 5"), std::string_view::npos) << cut.status();
}

TEST_F(PreprocessFile, MistakesAreFound) {
  ExpectWrong("color: pink", "1:8", "rgb, bgr, gray");
  ExpectWrong("scale: 1\nresise: 3", "2:1", "resise");
  ExpectWrong("resize: [1, 2, 3]", "1:9", "[height, width]");
  ExpectWrong("std: [1, 0, 1]", "1:6", "other than 0");
  ExpectWrong("resize: 10\nletterbox: 10", "2:12", "letterbox alone");
  ExpectWrong("mean: 127.5", "1:7", "scale: 1 for pixels in [0, 255]");
  ExpectWrong("frame: {format: nv12, size: [3, 2]}", "1:29", "even");
  ExpectWrong("frame: {format: nv12}", "1:8", "size");
  ExpectWrong("letterbox: {align: left}", "1:20", "center, top-left");
  ExpectWrong("inputs: {y: {inputs: {z: {}}}}", "1:14", "inputs");
}

TEST_F(PreprocessFile, WhatDoesNotFitTheInputIsRefused) {
  auto refused = [](const Type &type, const Preprocess &pre, std::string_view words) {
    auto t = TensorFromImage(kTwo, "x", type, pre);
    ASSERT_FALSE(t.ok()) << words;
    EXPECT_EQ(ErrorCode(t.status()), "E0702");
    EXPECT_NE(Message(t.status()).find(words), std::string_view::npos) << t.status();
  };
  refused(F32({2, 3, 4, 4}), {}, "the batch is not 1");
  refused(F32({1, 7, 4, 5}), {}, "no axis has 1, 3 or 4 channels");
  refused(F32({1, 10}), {}, "an image needs [N,C,H,W]");
  refused(F32({1, 3, 4, 4}), Good("color: gray"), "no axis has 1 channels");
  refused(F32({1, 3, 4, 4}), Good("mean: [0.5, 0.5]"), "2 numbers for mean, std or pad; there are 3 channels");
  refused(F32({1, 3, 4, 4}), Good("resize: [3, 3]"), "smaller than the crop");
}

} // namespace
} // namespace npuc
