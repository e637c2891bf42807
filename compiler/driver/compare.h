// How far a binary's own run is from the float model: what --min-cosine, npu-quant compare and npu-quant search
// measure.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/container/model_file.h"
#include "compiler/driver/options.h"
#include "compiler/driver/sample_set.h"
#include "compiler/interp/interpreter.h"
#include "compiler/types/tensor.h"

namespace npuc {

namespace runtime {
class Model;
}

// Error of a tensor against its float reference, over any number of samples. Sums in double, in element order.
struct ErrorStatistics {
  int64_t count = 0;
  double dot = 0, want2 = 0, got2 = 0, error2 = 0; // sums of products and squares
  double max_abs = 0;

  // Elements of equally many; numeric dtypes. Elements that are not finite in `want` are left out.
  void Add(const Tensor &want, const Tensor &got);
  double Cosine() const; // 1 for two tensors of zeros, 0 when one of them is
  // 1 - |error| / |want|, at least 0: what says more than a direction for one or two elements.
  double RelativeAgreement() const;
  double Mse() const;
  double Sqnr() const; // dB; 200 at most, where there is no error
  // Cosine, or RelativeAgreement for tensors of one or two elements (of a sample).
  double Agreement(int64_t elements_per_sample) const;
};

// A tensor as f32: integers with parameters are dequantised, others converted.
Tensor AsReal(const Tensor &t, const QuantRef &quant);

// The model as the interpreter runs it in float: imported and simplified, nothing of ours changed.
class FloatReference {
public:
  static StatusOr<std::unique_ptr<FloatReference>> Make(const CompilerOptions &options, DiagnosticEngine &diagnostics);
  const Module &module() const { return *module_; }
  std::vector<SampleSet::Input> inputs() const;
  // The outputs in order. `observe`, if given, sees every float tensor by its ONNX name.
  StatusOr<std::vector<EvalValue>>
  Run(std::vector<EvalValue> inputs, ThreadPool *threads,
      const std::function<void(const std::string &, const Tensor &)> &observe = {}) const;

private:
  std::unique_ptr<Module> module_;
};

// One run of a binary: outputs in order, and what its stream left of intermediate tensors, by ONNX name (those that
// `want` names; null: none).
struct CapturedTensor {
  Tensor tensor; // in its own dtype
  Type type;
};
struct BinaryRun {
  std::vector<EvalValue> outputs;
  std::map<std::string, CapturedTensor> captured;
};
StatusOr<BinaryRun> RunBinary(const std::shared_ptr<const runtime::Model> &model, const std::vector<EvalValue> &inputs,
                              int threads, const std::function<bool(const std::string &)> &want = {});

} // namespace npuc
