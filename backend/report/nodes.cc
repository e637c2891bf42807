// Nodes of the user's model: where each went, why, and what that costs at the border.
#include "backend/report/nodes.h"

#include <algorithm>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace npuc::report {
namespace {

// n and every node of its bodies.
template <class Fn> void WalkFrom(const Node &n, const Fn &fn) {
  fn(n);
  for (unsigned i = 0; i < n.num_bodies(); ++i)
    WalkNodes(static_cast<const Graph &>(*n.body(i)), [&](const Node &inner) { fn(inner); });
}

int64_t BytesOf(const Value *v) {
  return v && v->type().is_static_tensor() ? v->type().num_bytes() : 0;
}

// The type that a node computes in: of its first tensor operand, else of its result.
std::string PrecisionOf(const Node &n) {
  for (const Value *v : n.operands())
    if (v && v->type().is_tensor() && !v->constant())
      return std::string(Name(v->type().dtype()));
  for (unsigned i = 0; i < n.num_results(); ++i)
    if (n.result(i)->type().is_tensor())
      return std::string(Name(n.result(i)->type().dtype()));
  return "";
}

// Values that n and its bodies read from outside of n.
template <class Fn> void ForEachRead(const Node &n, const Fn &fn) {
  llvm::DenseSet<const Value *> seen;
  WalkFrom(n, [&](const Node &inner) {
    for (const Value *v : inner.operands()) {
      if (!v || v->constant() || !seen.insert(v).second)
        continue;
      if (v->graph() == n.graph())
        fn(v);
    }
  });
}

} // namespace

std::vector<Verdict> Verdicts(const BuildInput &in) {
  std::vector<Verdict> verdicts(in.module.onnx_nodes().size(), Verdict::Eliminated);
  const container::ModelFile &file = in.emitted.file;
  for (size_t i = 0; i < file.layers.size(); ++i)
    if (in.emitted.layers[i].commands > 0)
      for (uint32_t id : file.layers[i].origins)
        verdicts[id] = Verdict::Npu;
  for (const auto &step : file.steps)
    if (const auto *host = std::get_if<container::HostStep>(&step))
      for (const auto &node : host->nodes)
        for (uint32_t id : node.origins)
          verdicts[id] = Verdict::Host;
  return verdicts;
}

void FillNodes(const BuildInput &in, const std::vector<Verdict> &verdicts, Report *r) {
  const auto &onnx_nodes = in.module.onnx_nodes();
  std::vector<int64_t> macs(onnx_nodes.size()), layer(onnx_nodes.size(), -1);
  for (const NodeWork &w : in.work.nodes)
    macs[w.origin] = w.macs;
  for (size_t i = in.emitted.file.layers.size(); i-- > 0;)
    for (uint32_t id : in.emitted.file.layers[i].origins)
      layer[id] = static_cast<int64_t>(i);

  // What each ONNX node computes in, and the node with a body that it stands in.
  std::vector<std::string> precision(onnx_nodes.size());
  std::vector<const Node *> enclosing(onnx_nodes.size());
  for (const Node &top : in.module.main().nodes())
    WalkFrom(top, [&](const Node &n) {
      const bool fused = top.Is("Fused", "npuc");
      for (OriginId id : n.origin()) {
        if (precision[id].empty() || !fused)
          precision[id] = PrecisionOf(n);
        if (&n != &top && !fused)
          enclosing[id] = &top;
      }
    });

  Coverage &c = r->coverage;
  int64_t npu_macs = 0, host_macs = 0;
  c.nodes_total = static_cast<int64_t>(onnx_nodes.size());
  r->nodes.resize(onnx_nodes.size());
  for (OriginId id = 0; id < onnx_nodes.size(); ++id) {
    NodeRow &row = r->nodes[id];
    const OnnxNode &node = onnx_nodes[id];
    row.id = node.id;
    row.name = node.name;
    row.op = node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type;
    row.macs = macs[id];
    for (const ModelGraph::Edge &e : in.graph.nodes[id].inputs)
      if (std::find(row.inputs.begin(), row.inputs.end(), int64_t{e.from}) == row.inputs.end())
        row.inputs.push_back(e.from);
    row.outputs = in.graph.nodes[id].outputs;
    switch (verdicts[id]) {
    case Verdict::Eliminated:
      row.verdict = "eliminated";
      ++c.nodes_eliminated;
      break;
    case Verdict::Npu:
      row.verdict = "npu";
      row.precision = precision[id];
      row.layer = layer[id];
      npu_macs += macs[id];
      ++c.nodes_npu;
      break;
    case Verdict::Host:
      row.verdict = "host";
      row.precision = precision[id];
      host_macs += macs[id];
      ++c.nodes_host;
      if (auto why = in.ctx.reasons().find(id); why != in.ctx.reasons().end())
        for (const Violation &v : why->second)
          row.reasons.push_back({v.rule, v.message, v.limit, v.actual, v.help});
      if (row.reasons.empty() && enclosing[id])
        row.reasons.push_back({"inside-host-node",
                               fmt::format("it is inside a body of '{}' ({}), which runs on the host",
                                           enclosing[id]->Label(), enclosing[id]->op().name),
                               "", "", "bodies of control flow run where their node runs"});
      if (row.reasons.empty())
        row.reasons.push_back({"host-neighbours", "it was left beside host nodes", "", "", ""});
      break;
    }
  }
  const int64_t placed = c.nodes_npu + c.nodes_host;
  c.node_percent = placed ? 100.0 * double(c.nodes_npu) / double(placed) : 100.0;
  // Nothing multiplies, or free dims hide how much: the nodes speak for it, else a gate would pass with all on the
  // host.
  c.mac_percent = npu_macs + host_macs ? 100.0 * double(npu_macs) / double(npu_macs + host_macs) : c.node_percent;
  r->performance.macs = npu_macs;
}

int64_t BoundaryBytes(const Module &m) {
  int64_t bytes = 0;
  const Graph &g = m.main();
  llvm::DenseSet<const Value *> crossed;
  for (const Node &n : g.nodes()) {
    if (n.is_return() || n.is_constant())
      continue;
    ForEachRead(n, [&](const Value *v) {
      const Node *def = v->def();
      if (def && def->placement() != n.placement() && crossed.insert(v).second)
        bytes += BytesOf(v);
    });
  }
  return bytes;
}

int64_t LiveBytes(const Module &m) {
  const Graph &g = m.main();
  llvm::DenseMap<const Node *, int> position;
  int count = 0;
  for (const Node &n : g.nodes())
    position[&n] = count++;
  // +bytes where an NPU node makes a tensor, -bytes behind its last reader.
  std::vector<int64_t> change(static_cast<size_t>(count) + 1);
  for (const Node &n : g.nodes()) {
    if (n.placement() != Placement::Npu || n.is_constant())
      continue;
    for (unsigned i = 0; i < n.num_results(); ++i) {
      const Value *v = n.result(i);
      int last = position[&n];
      for (const Use &use : v->uses()) {
        const Node *user = use.user;
        while (user && user->graph() != &g)
          user = user->graph()->parent();
        if (user && !user->is_return())
          last = std::max(last, position[user]);
      }
      change[static_cast<size_t>(position[&n])] += BytesOf(v);
      change[static_cast<size_t>(last) + 1] -= BytesOf(v);
    }
  }
  int64_t live = 0, peak = 0;
  for (int64_t d : change) {
    live += d;
    peak = std::max(peak, live);
  }
  return peak;
}

std::vector<HostStepRow> HostSteps(const BuildInput &in) {
  std::vector<int64_t> macs(in.module.onnx_nodes().size());
  for (const NodeWork &w : in.work.nodes)
    macs[w.origin] = w.macs;
  const double gflops = in.target.host.gflops.ToDouble(), bytes_per_ns = in.target.host.bytes_per_ns.ToDouble();
  std::vector<HostStepRow> rows;
  for (const emit::HostStepInfo &step : in.emitted.host_steps) {
    HostStepRow row;
    double ns = 0;
    llvm::DenseSet<OriginId> seen;
    for (const Node *top : step.nodes)
      WalkFrom(*top, [&](const Node &n) {
        if (n.is_return() || n.is_constant())
          return;
        int64_t node_macs = 0, bytes = 0, elements = 0;
        for (OriginId id : n.origin())
          if (seen.insert(id).second) {
            row.nodes.push_back(in.module.onnx_nodes()[id].id);
            node_macs += macs[id];
          }
        for (const Value *v : n.operands())
          bytes += BytesOf(v);
        for (unsigned i = 0; i < n.num_results(); ++i) {
          const Value *v = n.result(i);
          bytes += BytesOf(v);
          if (v->type().is_static_tensor())
            elements += v->type().shape().num_elements();
        }
        // A node is as slow as the slower of its arithmetic (one operation an element, two a MAC) and its memory
        // traffic.
        ns += std::max(double(std::max(2 * node_macs, elements)) / gflops, double(bytes) / bytes_per_ns);
        row.macs += node_macs;
        row.bytes += bytes;
      });
    row.estimated_us = ns / 1000;
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace npuc::report
