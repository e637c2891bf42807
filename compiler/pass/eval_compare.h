// Runs two versions of a module on the same random inputs and compares the outputs: the manager's eval_each.
#pragma once

#include "compiler/ir/graph.h"

namespace npuc {

class ThreadPool;

struct EvalCompareOptions {
  uint64_t seed = 1;
  // Floats: |a - b| <= atol + rtol * the greatest finite |a| of the tensor, NaN equal to NaN, infinities to themselves.
  // Quantised and 8-bit integers may differ by one step, other values not at all.
  double rtol = 1e-3, atol = 1e-4;
  int64_t free_dim = 2; // what symbolic dims of inputs become (the same for the same symbol)
  ThreadPool *threads = nullptr;
};

// One tensor per input: floats in [-1, 1), integers in [0, 8) (in their whole range where quantised), bools. nullopt
// when an input is not a tensor of numbers with a known rank. The same for the same signature and seed.
std::optional<std::vector<Tensor>> RandomInputs(const Graph &g, const EvalCompareOptions &options);

// OK when the outputs agree, and when the comparison can't be made: other inputs than before, inputs that RandomInputs
// does not make, or a `before` that fails on them. Else an internal error that names the output, the element and both
// values, or says how `after` failed.
Status CompareByEvaluation(const Module &before, const Module &after, const EvalCompareOptions &options = {});

} // namespace npuc
