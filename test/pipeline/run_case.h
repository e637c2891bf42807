// A model of a test through the whole product: written to a file, compiled, run from the model file.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>

#include "compiler/driver/compile.h"
#include "runtime_stub/session.h"
#include "test/onnx/model_builder.h"

namespace npuc::test {

inline std::string WriteModel(const ModelBuilder &b) {
  const ::testing::TestInfo &info = *::testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path dir = std::filesystem::path(NPUC_BUILD_DIR) / "test_pipeline";
  std::filesystem::create_directories(dir);
  const std::string path = (dir / (std::string(info.test_suite_name()) + "_" + info.name() + ".onnx")).string();
  std::ofstream(path, std::ios::binary) << b.m.SerializeAsString();
  return path;
}

// Compiles and runs; a failure is the status. *report, if wanted, is the compilation's.
inline StatusOr<std::vector<Tensor>> CompileAndRun(const ModelBuilder &b, const std::vector<Tensor> &inputs,
                                                   CompilerOptions options, report::Report *report = nullptr) {
  options.model = WriteModel(b);
  options.jobs = 1;
  DiagnosticEngine diagnostics;
  auto made = Compile(options, diagnostics);
  if (!made.ok()) {
    for (const Diagnostic &d : diagnostics.All())
      if (d.severity == Severity::error)
        return Error(d.code, d.message);
    return made.status();
  }
  if (report)
    *report = std::move(made->report);
  NPUC_ASSIGN_OR_RETURN(auto model, runtime::Model::FromFile(std::move(made->file), "case"));
  runtime::SessionOptions how;
  how.threads = 1;
  how.checked = true;
  runtime::Session session(model, how);
  for (size_t i = 0; i < inputs.size(); ++i)
    NPUC_RETURN_IF_ERROR(session.SetInput(static_cast<int>(i), inputs[i]));
  NPUC_RETURN_IF_ERROR(session.Run());
  std::vector<Tensor> out;
  for (int i = 0; i < session.num_outputs(); ++i)
    out.push_back(session.Output(i).tensor()->Expand());
  // The views' buffers go with the session.
  for (Tensor &t : out)
    if (t.dtype() != DType::String) {
      Tensor own = Tensor::Allocate(t.dtype(), t.dims());
      std::memcpy(own.mutable_bytes(), t.bytes(), t.num_stored_bytes());
      t = own;
    }
  return out;
}

using Dims64 = std::vector<int64_t>;

struct Want {
  Dims64 dims;
  std::vector<float> values;
};
// fp32 within 1e-5, auto within f16's resolution of the greatest value.
inline void Expect(const ModelBuilder &b, const std::vector<Tensor> &inputs, const std::vector<Want> &want,
                   CompilerOptions options = {}) {
  for (Precision p : {Precision::Fp32, Precision::Auto}) {
    options.precision = p;
    SCOPED_TRACE(p == Precision::Fp32 ? "fp32" : "auto");
    auto got = CompileAndRun(b, inputs, options);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(DimsOf((*got)[i]), want[i].dims) << "output " << i;
      float scale = 1;
      for (float v : want[i].values)
        scale = std::max(scale, std::abs(v));
      ExpectNear((*got)[i], want[i].values, scale * (p == Precision::Fp32 ? 1e-6f : 0x1p-9f));
    }
  }
}

} // namespace npuc::test
