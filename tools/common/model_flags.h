// Flags that several tools have: which part of a model, for which target, on how many threads.
#pragma once

#include "tools/common/flags.h"

namespace npuc::cli {

inline void AddTargetFlag(CLI::App &app, std::string &target) {
  app.add_option("--target", target, "A preset's name or a YAML file")
      ->type_name("NAME|FILE.yaml")
      ->capture_default_str();
}

// 0 (the default): the machine's processors.
inline void AddJobsFlag(CLI::App &app, int &jobs) {
  app.add_option("-j", jobs, "Threads; default: the machine's processors")->type_name("N")->check(CLI::Range(1, 1024));
}

// Shapes, values and the part of the model; `o` is anything that has dims, input_shapes, binds, inputs and outputs.
template <class Options> void AddPartFlags(CLI::App &app, Options &o, const std::string &group = "Shapes and parts") {
  AddRepeatable(app, "--dim", o.dims, "Fix a symbolic dim")->type_name("NAME=N")->group(group);
  AddRepeatable(app, "--input-shape", o.input_shapes, "Fix an input's shape")
      ->type_name("NAME=1x3x224x224")
      ->group(group);
  AddRepeatable(app, "--bind", o.binds, "Make an input a constant")->type_name("NAME=VALUE|NAME=@FILE")->group(group);
  AddRepeatable(app, "--output", o.outputs, "Only up to these tensors")->type_name("TENSOR")->group(group);
  AddRepeatable(app, "--input", o.inputs, "Only from these tensors on")->type_name("TENSOR")->group(group);
}

} // namespace npuc::cli
