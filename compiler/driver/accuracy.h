// How near a binary's outputs come to the float model's: --min-cosine.
#pragma once

#include <string>

#include "backend/container/model_file.h"
#include "compiler/driver/calibration.h"

namespace npuc {

struct Accuracy {
  double cosine = 1;  // the least over samples and outputs
  std::string output; // where: the output's name and the sample's
  std::string sample;
};

// Runs the binary by the reference executor and the float model (the module as SimplifyPipeline leaves it) by the
// interpreter on every sample. Likeness of two values: the cosine of the angle between them; for one or two elements,
// which have no angle to speak of, 1 minus the error relative to the float value; for integers and strings the share of
// equal elements. `samples` may be null: options.calib is opened then. Errors: of samples and of either run; E0501 when
// --calib is a statistics file.
StatusOr<Accuracy> MeasureAccuracy(const CompilerOptions &options, const container::ModelFile &file,
                                   const SampleSet *samples, DiagnosticEngine &diagnostics,
                                   const ProgressFn &progress = {});

// That of two tensors of the same dims.
double Likeness(const Tensor &got, const Tensor &want);

} // namespace npuc
