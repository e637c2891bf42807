// The model's own graph as it was imported: who reads whom through which tensor, before any pass. The report's picture,
// the cut of the tail and the checklist are about this graph.
#pragma once

#include <string>
#include <vector>

#include "backend/report/report.h"
#include "compiler/ir/graph.h"
#include "compiler/target/target.h"

namespace npuc::report {

struct ModelGraph {
  struct Edge {
    OriginId from = 0;
    std::string tensor;
  };
  struct OnnxNodeEdges {
    std::vector<Edge> inputs;         // each once; operands of bodies count as their node's
    std::vector<std::string> outputs; // tensors that others read or that the model returns
    bool reads_model_input = false;
    bool top = true; // of the main graph, not of a body
  };
  std::vector<OnnxNodeEdges> nodes; // by OriginId
  struct Output {
    std::string tensor;
    int64_t from = -1; // OriginId; -1: a model input or a constant
  };
  std::vector<Output> outputs;
};
// Of a module fresh from the importer. Linear.
ModelGraph GraphOf(const Module &imported);

// Where to end the model so that the application does the rest.
struct Cut {
  std::vector<std::string> tensors; // for --output, in the order of the model: cut tensors and outputs that stay
  std::vector<std::string> cut;     // of these, the ones that were inside
  std::vector<OriginId> left_out;   // nodes of the tail
};
// `verdicts`: npu, host or eliminated, by OriginId. The tail is
//   HostTail:   host nodes behind which no NPU node comes;
//   BehindHost: everything that depends on a host node.
// Empty when there is no tail, or nothing but it.
enum class Tail { HostTail, BehindHost };
Cut CutTail(const ModelGraph &graph, const std::vector<NodeRow> &nodes, Tail tail);

// The friendliness checklist. `simplified`: after shape inference and folding, before other passes.
std::vector<CheckRow> ChecklistOf(const Module &simplified, const Target &target);

// The histogram of operators, from finished rows.
std::vector<OperatorRow> OperatorsOf(const std::vector<NodeRow> &nodes);

} // namespace npuc::report
