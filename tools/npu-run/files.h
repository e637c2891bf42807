// Inputs from files, outputs to files, and comparison with expected values.
#pragma once

#include <string>
#include <vector>

#include "compiler/driver/samples.h"
#include "runtime_stub/session.h"
#include "tools/common/console.h"

namespace npuc::run {

struct Options {
  std::string model;
  std::vector<std::string> inputs, expect;
  std::string preprocess, output_dir, output_format = "npy", capture, profile, trace;
  bool random = false;
  uint64_t seed = 0;
  double rtol = 1e-3, atol = 1e-5;
  int threads = 0, repeat = 1;
  bool checked = false;
};

// Gives the session all its inputs. Every problem is reported to `diagnostics`.
Status LoadInputs(const Options &o, runtime::Session &session, DiagnosticEngine &diagnostics);

// A file name for a tensor: '/' and other characters than letters, digits, '.', '-', '_' become '_'; names that meet
// get "_2", ...
class FileNames {
public:
  std::string Of(std::string_view tensor);

private:
  std::vector<std::string> used_;
};

// One value as <stem>.npy; sequences, optionals and maps, which .npy cannot hold, as <stem>.pb.
Status WriteNamed(const std::string &stem, const EvalValue &value, const Type &type, const std::string &name);
Status WriteOutputs(const Options &o, const runtime::Session &session);

// Compares outputs with --expect files; prints a table. False: something differs.
StatusOr<bool> CompareOutputs(const Options &o, const runtime::Session &session, const cli::Console &console);

} // namespace npuc::run
