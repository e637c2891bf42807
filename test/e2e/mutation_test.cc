// Real streams, damaged one field at a time: a wait dropped or lowered, an address moved. Every damaged wait must be
// refused at load (the compiler emits no wait that is implied by others, so each one matters). A moved address must be
// refused at load, found by checked mode, or change a tensor that the model computes: then it is visible to whoever
// compares; one that does nothing of this would be an access without effect.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "backend/verify/mutations.h"
#include "backend/verify/verify.h"
#include "compiler/driver/compile.h"
#include "compiler/support/npy.h"
#include "runtime_stub/session.h"
#include "test/e2e/run_tool.h"

namespace npuc {
namespace {

namespace fs = std::filesystem;

// A preset with less SRAM, so that layers are tiled and buffers share bytes.
std::string SmallTarget(const std::string &preset, int64_t sram_bytes, const std::string &name) {
  Target t = *Target::FromPreset(preset);
  t.name = name;
  t.sram.bytes = sram_bytes;
  const fs::path file = e2e::FreshFolder(name) / (name + ".yaml");
  e2e::WriteAll(file, t.ToCanonicalYaml());
  return file.string();
}

struct Outcome {
  bool refused = false; // at load
  bool found = false;   // by checked mode
  std::vector<std::string> outputs, computed;
};

Outcome RunFile(const container::ModelFile &file) {
  Outcome o;
  auto model = runtime::Model::FromFile(file, "mutant");
  if (!model.ok()) {
    o.refused = true;
    return o;
  }
  runtime::Session session(*model, {.threads = 1, .checked = true});
  std::vector<std::string> inputs;
  for (int i = 0; i < session.num_inputs(); ++i) {
    // Fixed small values of every byte pattern that is a sane number in the input's type.
    const container::IoTensor &t = (*model)->inputs()[i];
    std::string bytes(t.bytes, '\0');
    for (int64_t k = 0; k < t.bytes / ByteSize(t.type.dtype()); ++k) {
      const int v = static_cast<int>((k * 37 + 11) % 101);
      if (t.type.dtype() == DType::F32) {
        const float f = static_cast<float>(v - 50) / 25.0f;
        std::memcpy(bytes.data() + 4 * k, &f, 4);
      } else {
        bytes[k] = static_cast<char>(v);
      }
    }
    inputs.push_back(std::move(bytes));
  }
  for (int i = 0; i < session.num_inputs(); ++i)
    EXPECT_TRUE(session.BindInput(i, inputs[i].data(), inputs[i].size()).ok());
  o.outputs.resize(session.num_outputs());
  for (int i = 0; i < session.num_outputs(); ++i) {
    o.outputs[i].assign((*model)->outputs()[i].bytes, '\x5a');
    EXPECT_TRUE(session.BindOutput(i, o.outputs[i].data(), o.outputs[i].size()).ok());
  }
  // Every tensor that the model computes, as it becomes complete.
  session.set_capture([&](const container::Capture &c, const runtime::Memory &memory) {
    const Tensor t = runtime::TensorOfView(c.view, memory, c.type);
    o.computed.emplace_back(reinterpret_cast<const char *>(t.bytes()), t.num_stored_bytes());
    return absl::OkStatus();
  });
  o.found = !session.Run().ok();
  return o;
}

void TestMutations(const std::string &model, const std::string &target, size_t at_least_waits, size_t every) {
  CompilerOptions options;
  options.model = model;
  options.target = target;
  DiagnosticEngine diagnostics;
  StatusOr<Compilation> c = Compile(options, diagnostics);
  ASSERT_TRUE(c.ok()) << c.status() << diagnostics.RenderAll();
  const Outcome good = RunFile(c->file);
  ASSERT_FALSE(good.refused);
  ASSERT_FALSE(good.found);

  size_t waits = 0, addresses = 0, refused = 0, found = 0, visible = 0;
  std::vector<std::string> silent;
  for (auto &step : c->file.steps) {
    auto *npu = std::get_if<container::NpuStep>(&step);
    if (!npu)
      continue;
    const isa::Stream original = npu->stream;
    const auto mutations = verify::EnumerateMutations(original, {64, -64});
    for (size_t k = 0; k < mutations.size(); ++k) {
      const verify::Mutation &m = mutations[k];
      const bool wait = m.kind != verify::Mutation::Kind::MoveAddress;
      if (k % every != 0 && !wait)
        continue;
      npu->stream = verify::Apply(original, m);
      if (wait) {
        ++waits;
        EXPECT_FALSE(verify::VerifyModel(c->file).empty()) << m.text;
        continue;
      }
      ++addresses;
      const Outcome o = RunFile(c->file);
      if (o.refused)
        ++refused;
      else if (o.found)
        ++found;
      else if (o.outputs != good.outputs || o.computed != good.computed)
        ++visible;
      else
        silent.push_back(m.text);
    }
    npu->stream = original;
  }
  EXPECT_GE(waits, at_least_waits);
  EXPECT_GT(addresses, 0u);
  ::testing::Test::RecordProperty("waits", static_cast<int>(waits));
  ::testing::Test::RecordProperty("refused", static_cast<int>(refused));
  ::testing::Test::RecordProperty("found", static_cast<int>(found));
  ::testing::Test::RecordProperty("visible", static_cast<int>(visible));
  std::printf("%zu waits all refused; %zu addresses: %zu refused at load, %zu found by checked mode, %zu change a "
              "tensor, %zu silent\n",
              waits, addresses, refused, found, visible, silent.size());
  // What matters is seen. A moved read may find equal bytes (a softmax saturated on both): that is no more than a rare
  // accident.
  EXPECT_LE(silent.size() * 100, addresses) << fmt::format("no effect: {}", fmt::join(silent, "; "));
}

TEST(Mutation, DigitsOnASmallFloatMachine) {
  TestMutations(std::string(NPUC_SOURCE_DIR) + "/models/digits/digits.onnx",
                SmallTarget("edge-1t", 16384, "small-edge"), 10, 1);
}

TEST(Mutation, KeywordSpottingOnASmallIntegerMachine) {
  const fs::path shared =
      std::getenv("NPUC_SHARED") ? fs::path(std::getenv("NPUC_SHARED")) : fs::path(NPUC_SOURCE_DIR) / ".." / "shared";
  const fs::path model = shared / "models" / "kws-micro-qoperator.onnx";
  if (!fs::exists(model))
    GTEST_SKIP() << model << " is not here";
  TestMutations(model.string(), SmallTarget("mcu-128", 40960, "small-mcu"), 20, 3);
}

} // namespace
} // namespace npuc
