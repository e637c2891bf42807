// Statistics of a model's float tensors, from samples or from a file: what --calib means.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compiler/calibration/statistics_file.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/sample_set.h"

namespace npuc {

class ThreadPool;

// Part `index` of `count`: of the samples 0, 1, ... those whose number modulo count is index - 1.
struct Shard {
  int64_t index = 1, count = 1;
};
// "2/8". Errors: E0501.
StatusOr<Shard> ParseShard(std::string_view text);

// The samples of options.calib, by options.preprocess, for the inputs of a graph.
StatusOr<std::unique_ptr<SampleSet>> OpenSamples(const CompilerOptions &options, const Graph &g);

struct CalibrationData {
  StatisticsFile statistics;
  std::unique_ptr<SampleSet> samples; // null: the statistics came from a file
};

// Statistics of the values of `m`, the module as CalibrationPipeline leaves it. Samples of options.calib are run, or,
// when that is one statistics file, it is read. Errors: what SampleSet::Open and Calibrate say; E0511 for statistics of
// another model or with other flags. Warnings: fewer than 8 samples, shards that are missing.
StatusOr<CalibrationData> CollectStatistics(const CompilerOptions &options, const Module &m, const Shard &shard,
                                            ThreadPool *threads, DiagnosticEngine &diagnostics,
                                            const ProgressFn &progress = {});

// Import, the passes before calibration, and CollectStatistics: npu-quant calibrate.
StatusOr<StatisticsFile> CalibrateModel(const CompilerOptions &options, const Shard &shard,
                                        DiagnosticEngine &diagnostics, const ProgressFn &progress = {});

} // namespace npuc
