// The commands of npu-quant, one source file each. main.cc parses; a command does its work and returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "compiler/driver/options.h"
#include "compiler/driver/preprocess.h"
#include "tools/common/console.h"

namespace npuc::quant {

struct CalibrateCommand {
  CompilerOptions options; // the model, --calib, shapes and what else makes the graph
  std::string output;      // "": the model's name with .npqs, in the current folder
  std::string shard = "1/1";
};
StatusOr<int> Calibrate(const CalibrateCommand &command, const cli::Console &console);

struct MergeCommand {
  std::vector<std::string> files;
  std::string output;
};
StatusOr<int> Merge(const MergeCommand &command, const cli::Console &console);

struct SelectCommand {
  std::vector<std::string> paths; // images and folders of them
  int64_t count = 64;
  uint64_t seed = 0;
  std::string buckets = "5x5"; // brightness x edge density
  std::string output, list, json;
};
StatusOr<int> Select(const SelectCommand &command, const cli::Console &console);

struct CompareCommand {
  CompilerOptions options; // the float model; calib: the inputs to run
  std::string binary;      // compiled from it
  std::string html, json;  // json "-": stdout
  double threshold = 0.99; // cosine below which a tensor is marked
  bool fake_quant = false;
};
StatusOr<int> Compare(const CompareCommand &command, const cli::Console &console);

struct SearchCommand {
  CompilerOptions options; // the model; --calib: samples, not statistics
  double target_cosine = 0.999;
  std::string output; // the quant-config
  std::string json;   // the table; "-": stdout
};
// Exit code 3 when even all layers raised do not reach the target.
StatusOr<int> Search(const SearchCommand &command, const cli::Console &console);

struct HistogramCommand {
  std::string file;
  std::vector<std::string> tensors; // none: all
  std::string html, json;
};
StatusOr<int> Histogram(const HistogramCommand &command, const cli::Console &console);

} // namespace npuc::quant
