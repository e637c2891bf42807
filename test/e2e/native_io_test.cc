// --io native: camera frames into the NPU's own element type and layout, by the same --preprocess file that serves
// floats. Colours, codes and halves are worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/support/half.h"
#include "compiler/support/json.h"
#include "compiler/support/npy.h"
#include "test/e2e/run_tool.h"
#include "test/e2e/tiny_onnx.h"

namespace npuc::e2e {
namespace {

// NV12, full range, 4 x 2. BT.601: R = Y + 1.402 V', G = Y - 0.344136 U' - 0.714136 V', B = Y + 1.772 U', with
// U' = U - 128. Left: Y 50, V' 100: 190.2, -21.4, 50. Right: Y 200, U' -100: 200, 234.4, 22.8.
const std::string kFrame("\x32\x32\xc8\xc8\x32\x32\xc8\xc8\x80\xe4\x1c\x80", 12);
constexpr int kLeft[3] = {190, 0, 50}, kRight[3] = {200, 234, 23};
constexpr int kSide = 4;

// The letterboxed picture: a row of 114 above and below.
int Pixel(int row, int column, int channel) {
  return row == 0 || row == 3 ? 114 : column < 2 ? kLeft[channel] : kRight[channel];
}

struct Case {
  const char *name;
  bool channels_last;
  const char *colour;
  double mean, std;
};

class NativeIo : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!HaveTool("npuc") || !HaveTool("npu-run"))
      GTEST_SKIP() << "the tools are not built";
    dir_ = FreshFolder();
    WriteAll(dir_ / "frame.nv12", kFrame);
    const std::vector<int64_t> dims =
        GetParam().channels_last ? std::vector<int64_t>{1, kSide, kSide, 3} : std::vector<int64_t>{1, 3, kSide, kSide};
    WriteAll(dir_ / "m.onnx", TinyModel({{"Add", "double", {"x", "x"}, {"y"}}}, {{"x", dims}}, {{"y", dims}}));
    std::string pre =
        "frame: {format: nv12, size: [2, 4], range: full}\nletterbox: {pad: 114}\nscale: 0.00392156862745098\n";
    pre += std::string("color: ") + GetParam().colour + "\n";
    pre += "mean: " + std::to_string(GetParam().mean) + "\nstd: " + std::to_string(GetParam().std) + "\n";
    if (GetParam().channels_last)
      pre += "layout: nhwc\n";
    WriteAll(dir_ / "pre.yaml", pre);
    WriteAll(dir_ / "quant.yaml", "precision: int8\n"
                                  "tensors:\n"
                                  "  - {tensor: x, scale: 0.0078125, zero_point: 100}\n"
                                  "  - {tensor: y, scale: 0.015625, zero_point: 100}\n");
  }

  // What the model sees, in the order of its input.
  std::vector<double> Values() const {
    std::vector<double> v;
    const bool bgr = std::string(GetParam().colour) == "bgr";
    for (int i = 0; i < 3 * kSide * kSide; ++i) {
      const int channel = GetParam().channels_last ? i % 3 : i / (kSide * kSide),
                at = GetParam().channels_last ? i / 3 : i % (kSide * kSide);
      const int p = Pixel(at / kSide, at % kSide, bgr ? 2 - channel : channel);
      v.push_back((p / 255.0 - GetParam().mean) / GetParam().std);
    }
    return v;
  }

  NpyArray Compile(std::vector<std::string> flags, const std::string &name) {
    flags.insert(flags.begin(), {"m.onnx", "-o", name + ".bin", "-q"});
    const Outcome made = RunTool("npuc", flags, dir_);
    EXPECT_EQ(made.code, 0) << made.err;
    return Feed(name, "frame.nv12");
  }
  NpyArray Feed(const std::string &name, const std::string &input) {
    const Outcome ran = RunTool("npu-run",
                                {name + ".bin", "--input", "x=" + input, "--preprocess", "pre.yaml", "--output-dir",
                                 name + "_out", "-q", "--checked"},
                                dir_);
    EXPECT_EQ(ran.code, 0) << ran.err;
    auto y = ReadNpy((dir_ / (name + "_out") / "y.npy").string());
    EXPECT_TRUE(y.ok()) << y.status();
    return y.ok() ? *std::move(y) : NpyArray();
  }
  std::string InputType(const std::string &name) {
    auto report = ParseJson(ReadAll(dir_ / (name + ".report.json")), "report");
    if (!report.ok())
      return "no report";
    const llvm::json::Array *inputs = report->getAsObject()->getArray("inputs");
    return inputs->front().getAsObject()->getString("dtype").value_or("").str();
  }
  fs::path dir_;
};

TEST_P(NativeIo, IntegersOfAFrame) {
  const NpyArray y = Compile({"--quant-config", "quant.yaml", "--io", "native"}, "native");
  EXPECT_EQ(InputType("native"), "uint8");
  ASSERT_EQ(y.descr, "|u1");
  const std::vector<double> x = Values();
  ASSERT_EQ(y.bytes.size(), x.size());
  // x + x has twice the scale: the same codes.
  std::string codes;
  for (size_t i = 0; i < x.size(); ++i) {
    const int code = static_cast<int>(std::clamp(std::nearbyint(x[i] * 128) + 100, 0.0, 255.0));
    EXPECT_EQ(y.bytes[i], code) << i;
    codes += static_cast<char>(code);
  }
  // The codes by themselves are an input too.
  const std::vector<int64_t> shape(y.shape.begin(), y.shape.end());
  ASSERT_TRUE(WriteNpy((dir_ / "codes.npy").string(), "|u1", shape,
                       {reinterpret_cast<const uint8_t *>(codes.data()), codes.size()})
                  .ok());
  const NpyArray again = Feed("native", "codes.npy");
  EXPECT_TRUE(std::equal(again.bytes.begin(), again.bytes.end(), y.bytes.begin(), y.bytes.end()));

  // The float interface of the same integers.
  const NpyArray f = Compile({"--quant-config", "quant.yaml"}, "float");
  EXPECT_EQ(InputType("float"), "float");
  ASSERT_EQ(f.descr, "<f4");
  for (size_t i = 0; i < x.size(); ++i) {
    float v;
    std::memcpy(&v, f.bytes.data() + 4 * i, 4);
    EXPECT_EQ(v, (static_cast<int>(y.bytes[i]) - 100) / 64.0f) << i;
  }
}

TEST_P(NativeIo, HalvesOfAFrame) {
  const NpyArray y = Compile({"--precision", "fp16", "--io", "native"}, "native16");
  EXPECT_EQ(InputType("native16"), "float16");
  ASSERT_EQ(y.descr, "<f2");
  const std::vector<double> x = Values();
  ASSERT_EQ(y.bytes.size(), 2 * x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, y.bytes.data() + 2 * i, 2);
    EXPECT_NEAR(HalfToFloat(bits), 2 * x[i], std::abs(x[i]) * 0x1p-10 + 1e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, NativeIo,
                         testing::Values(Case{"nchw_rgb", false, "rgb", 0, 1},
                                         Case{"nchw_bgr_mean", false, "bgr", 0.25, 1.5},
                                         Case{"nhwc_rgb_mean", true, "rgb", 0.5, 0.75}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace npuc::e2e
