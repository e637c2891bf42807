// Host steps: nodes of a graph as a Module of their own, in text, with constants in the const section.
#pragma once

#include <functional>

#include "backend/container/model_file.h"
#include "compiler/ir/graph.h"

namespace npuc::emit {

struct HostGraph {
  std::unique_ptr<Module> module;
  std::vector<const Value *> inputs, outputs; // values of the outer graph, in the order of the module's
};

// `nodes`: a run of g's nodes. Inputs: values from outside that they (or their bodies) read, constants copied in.
// Outputs: results read by later nodes or returned.
HostGraph ExtractHostGraph(const Graph &g, llvm::ArrayRef<const Node *> nodes);

} // namespace npuc::emit
