// Calibration statistics as a file (.npqs): which model, which samples, and a CalibrationTable. The bytes are a
// function of model and samples alone: not of threads, machine, folder, or of how the samples were shared out and
// merged.
//
//   magic "NPUQSTAT", version u32, 0 u32, body, XXH3-64 of all before; little-endian. Whole numbers of the body are
//   base-128 varints; histograms list runs of bins that are not empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/calibration/statistics.h"
#include "compiler/support/status.h"

namespace npuc {

inline constexpr std::string_view kStatisticsMagic = "NPUQSTAT";

struct StatisticsFile {
  std::string model;        // base name, for messages
  std::string model_sha256; // of the ONNX file, hex
  uint64_t graph_hash = 0;  // of the graph that ran: shapes and rewrites that other options give make another
  uint64_t set_hash = 0;    // of the names of all samples and how they are preprocessed
  int64_t set_size = 0;     // samples of the whole set
  struct Sample {
    int64_t index;
    std::string name;
    uint64_t hash; // of the values
    bool operator==(const Sample &) const = default;
  };
  std::vector<Sample> samples; // the ones in here, ascending
  CalibrationTable table;

  bool complete() const { return static_cast<int64_t>(samples.size()) == set_size; }
  bool operator==(const StatisticsFile &) const = default;
};

std::string StatisticsBytes(const StatisticsFile &file);
// Errors: E0103 (not such a file, another version, damaged).
StatusOr<StatisticsFile> ParseStatistics(std::string_view bytes, std::string_view name);
// Errors: E0101, E0103.
StatusOr<StatisticsFile> ReadStatistics(const std::string &path);

// Whether a file's first bytes are those of statistics; false when it cannot be read.
bool LooksLikeStatistics(const std::string &path);

// Shards of one set, in any order. Errors: E0511 when they are of different models, graphs or sets, or share a sample.
// `names` are for messages.
StatusOr<StatisticsFile> MergeStatistics(std::vector<StatisticsFile> files, std::span<const std::string> names);

} // namespace npuc
