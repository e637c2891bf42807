// Edges by ONNX node. An ONNX node may have become several IR nodes and an IR node may stand for none (a constant of an
// adapter), so a value's maker is its definition's first origin, or, without one, the maker of what that definition
// reads.
#include "backend/report/model_graph.h"

#include <algorithm>

#include "llvm/ADT/DenseMap.h"

namespace npuc::report {
namespace {

bool Contains(const Origin &origin, OriginId id) {
  return std::find(origin.begin(), origin.end(), id) != origin.end();
}

// The node itself, or the one whose (nested) body it stands in, that has an origin.
const Node *OriginNode(const Node *n) {
  while (n && n->origin().empty())
    n = n->graph()->parent();
  return n;
}

} // namespace

ModelGraph GraphOf(const Module &imported) {
  ModelGraph g;
  g.nodes.resize(imported.onnx_nodes().size());
  llvm::DenseMap<const Value *, int64_t> maker; // OriginId; of values of the model
  const Graph &main = imported.main();
  constexpr int64_t kInput = -1;
  for (unsigned i = 0; i < main.num_inputs(); ++i)
    maker[main.input(i)] = kInput;
  WalkNodes(main, [&](const Node &n) {
    if (n.is_return())
      return;
    int64_t through = -2; // nothing that is not constant
    const bool has_origin = !n.origin().empty();
    for (const Value *v : n.operands()) {
      auto from = v ? maker.find(v) : maker.end();
      if (from == maker.end())
        continue;
      through = std::max(through, from->second);
      if (!has_origin)
        continue;
      ModelGraph::OnnxNodeEdges &row = g.nodes[n.origin()[0]];
      if (from->second == kInput)
        row.reads_model_input = true;
      else if (from->second != n.origin()[0] &&
               std::none_of(row.inputs.begin(), row.inputs.end(), [&](auto &e) { return e.tensor == v->name(); }))
        row.inputs.push_back({static_cast<OriginId>(from->second), v->name()});
    }
    const int64_t made_by = has_origin ? int64_t{n.origin()[0]} : through;
    if (has_origin)
      g.nodes[n.origin()[0]].top = n.graph() == &main;
    if (made_by < kInput)
      return;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const Value *v = n.result(i);
      maker[v] = made_by;
      if (!has_origin)
        continue;
      const bool leaves = v->is_graph_output() || std::any_of(v->uses().begin(), v->uses().end(), [&](const Use &u) {
                            const Node *reader = OriginNode(u.user);
                            return !reader || !Contains(reader->origin(), n.origin()[0]);
                          });
      if (leaves)
        g.nodes[n.origin()[0]].outputs.push_back(v->name());
    }
  });
  for (unsigned i = 0; i < main.num_outputs(); ++i) {
    auto from = maker.find(main.output(i));
    g.outputs.push_back({main.output_names()[i], from == maker.end() ? -1 : from->second});
  }
  return g;
}

Cut CutTail(const ModelGraph &graph, const std::vector<NodeRow> &nodes, Tail tail) {
  const size_t n = nodes.size();
  auto is = [&](size_t i, std::string_view verdict) { return nodes[i].verdict == verdict; };
  std::vector<bool> in_tail(n), constant(n);
  if (tail == Tail::HostTail) {
    std::vector<bool> feeds_npu(n);
    for (size_t i = n; i-- > 0;) {
      feeds_npu[i] = feeds_npu[i] || is(i, "npu");
      for (const auto &e : graph.nodes[i].inputs)
        if (feeds_npu[i])
          feeds_npu[e.from] = true;
    }
    for (size_t i = 0; i < n; ++i)
      in_tail[i] = is(i, "host") && !feeds_npu[i];
  } else {
    for (size_t i = 0; i < n; ++i)
      in_tail[i] = is(i, "host");
  }
  for (size_t i = 0; i < n; ++i) {
    const auto &row = graph.nodes[i];
    constant[i] = is(i, "eliminated") && (nodes[i].op == "Shape" || !row.reads_model_input);
    for (const auto &e : row.inputs) {
      if (nodes[i].op != "Shape" && !constant[e.from])
        constant[i] = false;
      // What hangs on the tail goes with it; the NPU part of a host tail never does.
      if (in_tail[e.from])
        in_tail[i] = true;
    }
  }
  auto border = [&] {
    std::vector<std::pair<std::string, OriginId>> tensors;
    for (size_t i = 0; i < n; ++i)
      if (in_tail[i])
        for (const auto &e : graph.nodes[i].inputs)
          if (!in_tail[e.from] && !constant[e.from] && graph.nodes[e.from].top &&
              std::find(tensors.begin(), tensors.end(), std::pair(e.tensor, e.from)) == tensors.end())
            tensors.emplace_back(e.tensor, e.from);
    return tensors;
  };
  // Many tensors (a score a class, say): the tail takes in what multiplies nothing and feeds it alone, while that makes
  // fewer.
  constexpr size_t kMany = 8;
  auto tensors = border();
  for (auto wider = in_tail; tensors.size() > kMany; in_tail = wider) {
    std::vector<bool> feeds_others(n);
    for (size_t i = 0; i < n; ++i)
      for (const auto &e : graph.nodes[i].inputs)
        feeds_others[e.from] = feeds_others[e.from] || !in_tail[i];
    for (const auto &output : graph.outputs)
      if (output.from >= 0)
        feeds_others[size_t(output.from)] = true;
    bool grown = false;
    for (const auto &[tensor, from] : tensors)
      if (!wider[from] && !feeds_others[from] && nodes[from].macs == 0)
        wider[from] = grown = true;
    if (!grown)
      break;
    std::swap(in_tail, wider);
    auto fewer = border();
    std::swap(in_tail, wider);
    if (fewer.size() > tensors.size())
      break;
    tensors = std::move(fewer);
  }

  bool rest = false;
  Cut cut;
  for (size_t i = 0; i < n; ++i) {
    if (in_tail[i])
      cut.left_out.push_back(static_cast<OriginId>(i));
    rest = rest || (!in_tail[i] && is(i, "npu"));
  }
  if (!rest || cut.left_out.empty())
    return {};
  for (const auto &[tensor, from] : tensors)
    cut.tensors.push_back(tensor);
  cut.cut = cut.tensors;
  for (const auto &output : graph.outputs)
    if (output.from >= 0 && !in_tail[size_t(output.from)] &&
        std::find(cut.tensors.begin(), cut.tensors.end(), output.tensor) == cut.tensors.end())
      cut.tensors.push_back(output.tensor);
  return cut.tensors.empty() ? Cut{} : cut;
}

} // namespace npuc::report
