// Where 8 bits are too few: which layers a calibrated compilation takes out of them by itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/report/report.h"
#include "compiler/driver/compare.h"

namespace npuc {

// Enough for a binary that nobody looks into: the cosine of each output, and for outputs of one or two elements 1 minus
// the relative error, on a few calibration samples.
inline constexpr double kEnoughCosine = 0.995, kEnoughAgreement = 0.96;
inline constexpr int64_t kProbeSamples = 6;
inline constexpr double kHopeless = 20; // an output that is all but zero has no direction to keep

// The float model's outputs on a few samples, and how far a binary is from them.
class AccuracyProbe {
public:
  static StatusOr<std::unique_ptr<AccuracyProbe>> Make(const CompilerOptions &options, const SampleSet &samples,
                                                       DiagnosticEngine &diagnostics);
  struct Result {
    double lack = 0;  // of the worst output: how much of (1 - enough) it exceeds; at most 1 is enough
    double total = 0; // of all outputs and samples, each at most kHopeless
    double agreement = 1;
    std::string output;
  };
  StatusOr<Result> Measure(const container::ModelFile &file, const CompilerOptions &options) const;

private:
  struct Sample {
    std::vector<EvalValue> inputs, want;
  };
  std::vector<Sample> samples_;
};

// Layers that may leave 8 bits, those whose loss alone (by simulation, on two samples) is greatest for their cycles
// first, until they have kMostShare of the cycles of all matrix layers. Of each the node ids.
inline constexpr double kMostShare = 0.25;
StatusOr<std::vector<std::vector<std::string>>> RankLayers(const CompilerOptions &options, const SampleSet &samples,
                                                           const container::ModelFile &file,
                                                           const report::Report &report, DiagnosticEngine &diagnostics);

} // namespace npuc
