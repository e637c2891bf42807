// Advice is never computed on paper: a change is compiled and its report says what it brings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/report/report.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace npuc::report {

// A change to what is being compiled; what is empty stays.
struct WhatIf {
  std::vector<std::string> outputs;      // instead of the present --output
  std::vector<std::string> input_shapes; // besides the present ones
  int64_t sram_bytes = 0;                // of the target
  bool int8 = false;                     // float parts are quantised, with ranges that are as good as any for timing
  std::function<bool(Module &)> edit;    // of the imported module; false: there was nothing to change
};
struct Answer {
  Report report;       // of the changed compilation, without advice
  std::string command; // npuc with what differs from the defaults
};
// Compiles the changed model. An error: the change cannot be made.
using TryFn = std::function<StatusOr<Answer>(const WhatIf &)>;

// Edits of an imported module (WhatIf::edit) that a user can make to the model.

// Inputs N,C,H,W with two or three channels get `channels` of them; the weights of the convolutions that read them
// (also through quantisation, casts and scalars) get zeros. False, and nothing changed, when something else reads the
// input.
bool PadInputChannels(Module &m, int64_t channels);
// x * Sigmoid(x) becomes HardSwish(x): other values, so the model must be trained or tuned again.
bool SwishToHardSwish(Module &m);

} // namespace npuc::report
