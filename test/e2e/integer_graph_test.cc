// Executor, quantiser and interpreter share one definition: every tensor that a binary's stream leaves in memory has
// the bits that the interpreter gives the compiled graph. Models of ours, and real ones where they are at hand.
#include <gtest/gtest.h>

#include <fstream>

#include "compiler/driver/compare.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/sample_set.h"
#include "compiler/interp/interpreter.h"
#include "runtime_stub/session.h"
#include "test/temp_folder.h"

namespace npuc::e2e {
namespace {

namespace fs = std::filesystem;

// Compiles and runs up to eight of the samples in `inputs`. How many tensors of integers were held against the graph.
int ExpectTheGraphsBits(CompilerOptions options, const std::string &inputs) {
  options.jobs = 2;
  options.no_report = true;
  DiagnosticEngine diagnostics;
  auto compiled = Compile(options, diagnostics);
  EXPECT_TRUE(compiled.ok()) << compiled.status() << diagnostics.RenderAll();
  if (!compiled.ok())
    return 0;
  auto model = runtime::Model::FromFile(compiled->file, "model.bin");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok())
    return 0;
  const Graph &g = compiled->module->main();
  std::vector<SampleSet::Input> types;
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    types.push_back({g.input(i)->name(), g.input(i)->type()});
  auto set = SampleSet::Open({inputs}, std::move(types), {});
  EXPECT_TRUE(set.ok()) << set.status();
  int integers = 0;
  for (int64_t k = 0; set.ok() && k < std::min<int64_t>(8, set->size()); ++k) {
    auto values = set->Read(k);
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok())
      return integers;
    auto run = RunBinary(*model, *values, 2, [](const std::string &) { return true; });
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok())
      return integers;
    Interpreter interpreter(g);
    interpreter.set_observer([&](const Value &v, const EvalValue &value) {
      const auto got = run->captured.find(v.name());
      if (got == run->captured.end() || !value.tensor())
        return;
      EXPECT_TRUE(value.tensor()->Expand().SameBits(got->second.tensor)) << v.name() << " " << v.type().ToString();
      integers += got->second.type.is_quantized();
    });
    auto out = interpreter.Run(*std::move(values));
    EXPECT_TRUE(out.ok()) << out.status();
    for (size_t i = 0; out.ok() && i < out->size(); ++i)
      EXPECT_TRUE((*out)[i].tensor()->Expand().SameBits(*run->outputs[i].tensor())) << "output " << i;
  }
  return integers;
}

TEST(IntegerGraph, Digits) {
  const std::string folder = std::string(NPUC_SOURCE_DIR) + "/models/digits/";
  for (const char *target : {"edge-2t", "mcu-128"})
    for (Precision precision : {Precision::Int8, Precision::Int16}) {
      SCOPED_TRACE(target);
      CompilerOptions options;
      options.model = folder + "digits.onnx";
      options.target = target;
      options.precision = precision;
      options.calib = {folder + "calibration.npy"};
      EXPECT_GT(ExpectTheGraphsBits(options, folder + "test_images.npy"), 8);
    }
}

// Float models, quantised from their stored inputs, all layers in 8 bits; models that come quantised.
TEST(IntegerGraph, RealModels) {
  const fs::path models = fs::path(NPUC_SOURCE_DIR) / "../shared/models";
  if (!fs::exists(models))
    GTEST_SKIP() << models << " is not there";
  TempFolder folder;
  std::ofstream(folder.At("all.yaml")) << "precision: int8\n";
  const std::pair<const char *, bool> names[] = {{"mnist-cntk-op8", true},  {"kws-micro-fp32", true},
                                                 {"blazeface-front", true}, {"selfie-seg-landscape", true},
                                                 {"kws-micro-qdq", false},  {"kws-micro-qoperator", false},
                                                 {"mlperf-ic", false},      {"person-detect", false}};
  for (const auto &[name, is_float] : names)
    for (const char *target : {"edge-2t", "mcu-128"}) {
      SCOPED_TRACE(std::string(name) + " for " + target);
      CompilerOptions options;
      options.model = (models / (std::string(name) + ".onnx")).string();
      options.target = target;
      if (is_float) {
        options.precision = Precision::Int8;
        options.calib = {(models / name).string()};
        options.quant_config = folder.At("all.yaml");
      }
      EXPECT_GT(ExpectTheGraphsBits(options, (models / name).string()), 2);
    }
}

} // namespace
} // namespace npuc::e2e
