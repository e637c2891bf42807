// The compiler as a library: from options to a model file and its report, in memory or on disk.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/container/model_file.h"
#include "backend/report/report.h"
#include "compiler/driver/options.h"
#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace npuc {

// What a compilation makes. `file` may point into `module`'s constants.
struct Compilation {
  std::unique_ptr<Module> module;
  container::ModelFile file;
  report::Report report; // gates and binary_sha256 are not filled in
};

// Called with what is at work ("import", a pass's name, "emit"), from one thread at a time.
using ProgressFn = std::function<void(std::string)>;

// Import, passes, emission, report. Reads files, writes none (but what --dump-ir asks for). Warnings and notes go to
// `diagnostics`, and so do errors that come in numbers (the status is then AlreadyReported()).
StatusOr<Compilation> Compile(const CompilerOptions &options, DiagnosticEngine &diagnostics,
                              const ProgressFn &progress = {});

struct Artifact {
  OutputPaths paths;
  report::Report report; // complete; a gate that was not met is in report.gates
};

// Compile, check gates, write binary and report. All files appear, or (on an error) none of them; earlier files of
// those names stay as they were then. A failed gate is no error: everything is written.
StatusOr<Artifact> CompileToFiles(const CompilerOptions &options, DiagnosticEngine &diagnostics,
                                  const ProgressFn &progress = {});

} // namespace npuc
