// Whole models: bindings of steps, layers, captures.
#include <gtest/gtest.h>

#include <functional>

#include "backend/verify/verify.h"
#include "compiler/support/diagnostic.h"

namespace npuc::verify {
namespace {

using container::ModelFile;
using isa::Region;

ModelFile Good() {
  const Target target = *Target::FromPreset("edge-2t");
  ModelFile m;
  m.target_name = target.name;
  m.target_text = target.ToCanonicalYaml();
  m.origins = {"a", "b"};
  const Type f32 = Type::Tensor(DType::F32, Shape({1, 4}));
  m.inputs.push_back({"x", f32, 16, -1});
  m.inputs.push_back({"s", Type::Sequence(f32), 0, 0});
  m.outputs.push_back({"y", f32, 16, -1});
  m.outputs.push_back({"t", Type::Sequence(f32), 0, 1});
  m.num_slots = 2;
  m.layers = {{0, "copy", "Identity", {0}}};
  isa::Dma d;
  d.src = isa::NhwcView({Region::Io, 0, 0}, DType::F32, 1, 1, 1, 4);
  d.dst = isa::NhwcView({Region::Arena, 0, 0}, DType::F32, 1, 1, 1, 4);
  isa::Command c;
  c.body = d;
  m.steps.push_back(container::NpuStep{{c, isa::Command()}});
  container::HostStep h;
  h.ir = "...";
  h.inputs = {{"x", f32, {Region::Arena, 0, 0}, -1}, {"s", Type::Sequence(f32), {}, 0}};
  h.outputs = {
      {"y", f32, {Region::Io, 2, 0}, -1}, {"t", Type::Sequence(f32), {}, 1}, {"u", f32, {Region::Arena, 0, 0}, -1}};
  h.nodes = {{"Add", {1}}};
  m.steps.push_back(h);
  m.captures.push_back({"x", f32, d.dst, 0, 0});
  m.arena_bytes = 16;
  m.sram_bytes = target.sram.bytes;
  return m;
}

std::string Changed(const std::function<void(ModelFile &)> &change) {
  ModelFile m = Good();
  change(m);
  std::string text;
  for (const Finding &f : VerifyModel(m))
    text += f.text + "\n";
  return text;
}
container::HostStep &Host(ModelFile &m) {
  return std::get<container::HostStep>(m.steps[1]);
}
isa::Stream &Npu(ModelFile &m) {
  return std::get<container::NpuStep>(m.steps[0]).stream;
}
testing::AssertionResult Has(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}

TEST(VerifyModel, SoundModelsPass) {
  EXPECT_EQ(Changed([](ModelFile &) {}), "");
  EXPECT_TRUE(ToStatus(VerifyModel(Good())).ok());
}

TEST(VerifyModel, Streams) {
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.arena_bytes = 15; }),
                  "step 0: command 0 (DMA): dst bytes 0 to 16 are outside arena, which has 15 bytes"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Npu(m)[0].layer = 1; }), "step 0: command 0 is of layer 1, there are 1"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) {
                    std::get<isa::Dma>(Npu(m)[0].body).dst.address = {Region::Io, 1, 0};
                  }),
                  "io1, a model input"));
  // A slot has no bytes.
  EXPECT_TRUE(Has(Changed([](ModelFile &m) {
                    std::get<isa::Dma>(Npu(m)[0].body).dst.address = {Region::Io, 3, 0};
                  }),
                  "outside io3, which has 0 bytes"));
  ModelFile m = Good();
  m.arena_bytes = 15;
  const Status s = ToStatus(VerifyModel(m));
  EXPECT_EQ(ErrorCode(s), "E0604");
  EXPECT_TRUE(Has(std::string(Message(s)), "(and "));
}

TEST(VerifyModel, Target) {
  EXPECT_TRUE(
      Has(Changed([](ModelFile &m) { m.target_text = "name: x\n"; }), "the embedded target description is not valid"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.target_name = "edge-6t"; }),
                  "the target is named edge-6t, its description edge-2t"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.sram_bytes *= 2; }), "bytes of sram, edge-2t has"));
}

TEST(VerifyModel, HostSteps) {
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).inputs[0].address.offset = 4; }),
                  "step 1: 'x' has 16 bytes at 4, the region has 16"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).inputs[0].address.offset = -4; }), "'x' has 16 bytes at -4"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).inputs[0].address = {Region::Sram, 0, 0}; }), "'x' lies in sram"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) {
                    Host(m).inputs[0].address = {Region::Io, 9, 0};
                  }),
                  "'x' lies in io9, the model has 4"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) {
                    Host(m).outputs[0].address = {Region::Io, 0, 0};
                  }),
                  "'y' is written to io0, a model input"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).inputs[1].slot = 1; }),
                  "'s' is read from slot 1, which nothing has written"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).outputs[1].slot = 2; }), "slot 2 of 2"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).outputs[1].slot = 0; }), "output 't' is never written"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) {
                    Host(m).outputs[0].address = {Region::Arena, 0, 0};
                  }),
                  "two results share bytes"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).inputs[0].type = Type::Tensor(DType::String, Shape({1})); }),
                  "its type is"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { Host(m).nodes[0].origins = {2}; }), "'Add' stands for node 2 of 2"));
}

TEST(VerifyModel, LayersAndCaptures) {
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.layers[0].origins = {7}; }), "'copy' stands for node 7 of 2"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.captures[0].step = 1; }), "capture 'x' names step 1"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.captures[0].command = 2; }), "capture 'x' names step 0, command 2"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) {
                    m.captures[0].view.c = 5;
                    m.captures[0].view.c_block = 5;
                  }),
                  "capture 'x' bytes 0 to 20 are outside arena"));
  EXPECT_TRUE(Has(Changed([](ModelFile &m) { m.inputs[0].bytes = 12; }), "'x' has 12 bytes, its type needs 16"));
}

} // namespace
} // namespace npuc::verify
