// From a finished compilation to its report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/emit/emit.h"
#include "backend/report/model_graph.h"
#include "backend/report/report.h"
#include "backend/report/what_if.h"
#include "backend/report/work.h"
#include "compiler/ir/graph.h"
#include "compiler/pass/pass.h"
#include "compiler/target/target.h"

namespace npuc::report {

struct BuildInput {
  const Module &module; // as emitted
  const Target &target;
  const ModelWork &work;   // of the model before any fusion
  const ModelGraph &graph; // as imported
  const std::vector<CheckRow> &checklist;
  const emit::EmitResult &emitted;
  const PassContext &ctx; // reasons and counters
  std::string model_sha256;
  Map<std::string> options; // that can change the result
  std::string command;
  std::vector<InputFile> files;             // that options name
  TryFn try_change;                         // none: no advice
  std::vector<KeptFloatRow> imported_float; // FloatReasons of the model
};

// For products whose operands came quantised: what would keep them from integers, in graph order. Of the model as
// imported.
std::vector<KeptFloatRow> FloatReasons(const Module &imported);

// All of the report but `gates`, `compile`, `warnings` and binary_sha256.
//
// Verdicts are read off what was emitted, not off what passes meant: npu when a layer with commands carries the node
// and no host step does, host when a host step does, eliminated else.
Report BuildReport(const BuildInput &in);

} // namespace npuc::report
