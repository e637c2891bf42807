// A graph of NPU nodes, compiled and run on the functional machine, against the interpreter's result of the same graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/pass/npu_op.h"
#include "compiler/target/target.h"

namespace npuc::lower {

struct Case {
  std::string text; // IR text of a graph; types of results may be left out
  int64_t sram = 0; // bytes on chip; 0: the preset's
  std::string target = "edge-2t";
  bool exact = true; // else results of f16 may differ by a rounding of `ulps` units
  int ulps = 2;
  int64_t index_lo = 0, index_hi = 1; // values of i64 and i32 inputs
  bool emits = true;                  // some command must be there
};

// Every node is checked (no rule may be broken), laid out, emitted, verified, and run in two legal orders of the
// queues. Returns the number of compute commands (tiles); -1 after a failure.
int64_t ExpectConforms(const Case &c);

// The ids of the rules that the graph's last computing node breaks, sorted, each once, joined by ' '; "" when it is
// legal.
std::string BrokenRules(const std::string &text, const std::string &target = "edge-2t");

// "  %name: TYPE = Constant() {value = dense<...>}\n" with random elements: integers in [lo, hi], or floats when
// `real`.
std::string RandomConstant(const std::string &name, const std::string &type, int64_t elements, double lo, double hi,
                           bool real);

} // namespace npuc::lower
