// Everything that a user can ask of a compilation: npuc's flags as plain data, for npuc and for bindings alike.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/report/gates.h"
#include "compiler/ir/graph.h"
#include "compiler/pass/pass.h"
#include "compiler/support/status.h"
#include "compiler/target/target.h"

namespace npuc {

struct CompilerOptions {
  std::string model;                  // the ONNX file
  std::string output;                 // -o; "": the model's name with .bin, in the current folder
  std::string target{kDefaultTarget}; // preset or YAML file
  Precision precision = Precision::Auto;

  // Quantisation.
  std::vector<std::string> calib; // PATH, or input=PATH
  std::string calib_method = "mse", quant_config, preprocess;

  // Shapes, values and the part of the model.
  std::vector<std::string> dims, input_shapes, binds, inputs, outputs;

  // Where nodes run.
  std::string ops_file;
  std::vector<std::string> deny_ops, deny_nodes;

  bool native_io = false; // --io native
  int opt_level = 2, max_fusion_chain = 5;
  std::vector<std::string> disabled_passes, tiles; // tiles: ID=HxW

  report::Gates gates;
  std::string report_prefix; // "": the output without its last suffix
  bool no_report = false;

  int jobs = 0; // 0: the machine's processors
  bool time_passes = false, verify_each = false;
  std::string dump_ir;
  std::vector<std::string> print_after;
  int64_t pass_limit = INT64_MAX, rewrite_limit = INT64_MAX;
};

// The files that a compilation writes.
struct OutputPaths {
  std::string binary, json, html; // json and html: "" with no_report
};
// Errors: E0501 (the model or output is "" or "-", two outputs are one file, an output is the model itself), E0102 (an
// output is a folder, or its folder does not exist): all that can be known before the work begins.
StatusOr<OutputPaths> ResolveOutputs(const CompilerOptions &options);

// What cannot be read from single flags, nor needs the model: contradictions, numbers out of range, passes that do not
// exist (E0501).
Status CheckOptions(const CompilerOptions &options);

// What passes need of the options; reads --ops. `module` resolves node arguments: E0507 for one that does not exist
// (with the nearest that does) or is ambiguous (with the ids).
StatusOr<PassOptions> MakePassOptions(const CompilerOptions &options, const Module &module);

// A node argument as an index of module.onnx_nodes(): an id, or a name that one node has.
StatusOr<OriginId> FindNode(const Module &module, std::string_view argument, std::string_view flag);

// The options that can change the result, as (flag, text without folders), in the order of the flags; and the command
// line that they make (without -o, -j and reports).
std::vector<std::pair<std::string, std::string>> NormalizedOptions(const CompilerOptions &options);
std::string CanonicalCommand(const CompilerOptions &options);
// The same without what is the default.
std::string ShortCommand(const CompilerOptions &options);

} // namespace npuc
