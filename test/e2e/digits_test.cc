// The bundled model, in process: what the compiled binary answers on pictures that training never saw.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/driver/compile.h"
#include "compiler/support/npy.h"
#include "runtime_stub/session.h"

namespace npuc::e2e {
namespace {

const std::string kDir = std::string(NPUC_SOURCE_DIR) + "/models/digits/";

struct Answers {
  int right = 0;
  std::vector<std::vector<float>> outputs;
};

Answers AnswersOf(Precision precision, const std::string &target, bool calibrated = false) {
  Answers answers;
  CompilerOptions options;
  options.model = kDir + "digits.onnx";
  options.precision = precision;
  options.target = target;
  options.jobs = 1;
  options.no_report = true;
  if (calibrated)
    options.calib = {kDir + "calibration.npy"};
  DiagnosticEngine diagnostics;
  auto compiled = Compile(options, diagnostics);
  EXPECT_TRUE(compiled.ok()) << compiled.status() << diagnostics.RenderAll();
  auto images = ReadNpy(kDir + "test_images.npy"), labels = ReadNpy(kDir + "test_labels.npy");
  EXPECT_TRUE(images.ok() && labels.ok());
  if (!compiled.ok() || !images.ok() || !labels.ok())
    return answers;
  auto model = runtime::Model::FromFile(std::move(compiled->file), "digits.bin");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok())
    return answers;
  runtime::Session session(*model, {.threads = 1});
  const auto *pixels = reinterpret_cast<const float *>(images->bytes.data());
  const auto *truth = reinterpret_cast<const int64_t *>(labels->bytes.data());
  EXPECT_EQ(images->shape, (std::vector<int64_t>{360, 1, 8, 8}));
  for (int64_t i = 0; i < images->shape[0]; ++i) {
    std::vector<float> out(10);
    Status s = session.BindInput(0, pixels + i * 64, 64 * 4);
    s.Update(session.BindOutput(0, out.data(), 40));
    s.Update(session.Run());
    EXPECT_TRUE(s.ok()) << s;
    if (!s.ok())
      break;
    answers.right += std::max_element(out.begin(), out.end()) - out.begin() == truth[i];
    answers.outputs.push_back(std::move(out));
  }
  return answers;
}

// models/digits/README.md: the float model reads 356 of 360.
TEST(Digits, HostReferenceIsAsGoodAsTheFloatModel) {
  EXPECT_EQ(AnswersOf(Precision::Fp32, "edge-2t").right, 356);
}

TEST(Digits, TheNpuAnswersLikeTheReferenceOnEveryTarget) {
  const Answers reference = AnswersOf(Precision::Fp32, "edge-2t");
  for (const std::string &target : Target::PresetNames()) {
    const Answers npu = AnswersOf(Precision::Auto, target);
    ASSERT_EQ(npu.outputs.size(), reference.outputs.size()) << target;
    EXPECT_GE(npu.right, 355) << target;
    float worst = 0;
    for (size_t i = 0; i < npu.outputs.size(); ++i)
      for (size_t k = 0; k < 10; ++k)
        worst = std::max(worst, std::fabs(npu.outputs[i][k] - reference.outputs[i][k]));
    EXPECT_LT(worst, 0.02f) << target; // probabilities; f16 has 11 bits
  }
}

// Half a percentage point of 360 pictures is 1.8 of them.
TEST(Digits, Int8ReadsAsWellAsFloat) {
  for (const std::string target : {"edge-2t", "mcu-128"})
    EXPECT_GE(AnswersOf(Precision::Int8, target, true).right, 355) << target;
}

} // namespace
} // namespace npuc::e2e
