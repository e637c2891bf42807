// Advice is arithmetic on figures that the report already has, so it never promises more than they show; gains are
// upper bounds of what the change could save, in cycles of this target.
#include "backend/report/advice.h"

#include <algorithm>

#include "compiler/support/status.h"

namespace npuc::report {
namespace {

// Free dims are the commonest and cheapest thing to repair.
void FixShapes(Report *r) {
  int64_t count = 0;
  const NodeRow *first = nullptr;
  for (const NodeRow &node : r->nodes)
    for (const Reason &reason : node.reasons)
      if (reason.rule == "dynamic-shape") {
        first = first ? first : &node;
        ++count;
        break;
      }
  if (!first)
    return;
  std::string help;
  for (const Reason &reason : first->reasons)
    if (reason.rule == "dynamic-shape")
      help = reason.help;
  r->advice.push_back({first->id,
                       fmt::format("{} nodes run on the host because their shape is free: {}", count,
                                   help.empty() ? "fix it with --dim or --input-shape" : help),
                       0});
}

// Host nodes that stand behind all NPU nodes can be left to the application.
void CutTheTail(Report *r) {
  if (r->coverage.nodes_npu == 0 || r->coverage.nodes_host == 0)
    return;
  std::vector<bool> reads_host(r->nodes.size());
  for (size_t i = 0; i < r->nodes.size(); ++i) {
    const NodeRow &n = r->nodes[i];
    bool host_before = n.verdict == "host";
    for (int64_t from : n.inputs)
      host_before = host_before || (from >= 0 && size_t(from) < i && reads_host[size_t(from)]);
    reads_host[i] = host_before;
    if (n.verdict == "npu" && host_before)
      return; // the NPU goes on behind the host
  }
  for (const NodeRow &n : r->nodes)
    if (n.verdict == "host") {
      r->advice.push_back(
          {n.id,
           fmt::format("all host nodes ({}) stand behind the NPU's last layer: --output ends the model before them "
                       "and leaves them to the application",
                       r->coverage.nodes_host),
           0});
      return;
    }
}

// Float layers that are bound by the array would run at the integer rate.
void Quantise(const Target &target, Report *r) {
  if (!target.mxu.mac_rate.Has(DType::F16) || !target.mxu.mac_rate.Has(DType::I8))
    return;
  const double ratio = target.mxu.MacRate(DType::F16).ToDouble() / target.mxu.MacRate(DType::I8).ToDouble();
  int64_t gain = 0;
  for (const LayerRow &layer : r->layers)
    if (layer.dtype == "f16" && layer.bound_by == "MXU" && ratio < 1)
      gain += static_cast<int64_t>(double(layer.cycles) * (1 - ratio));
  if (gain * 20 >= r->performance.cycles && gain > 0)
    r->advice.push_back(
        {"",
         "layers that the MAC array bounds compute in f16; quantised to 8 bits (--calib, or a QDQ model) they run "
         "at the integer rate",
         gain});
}

// Traffic beyond what must move, while the DMA queues are what everything waits for.
void Traffic(const Target &target, Report *r) {
  const Performance &p = r->performance;
  const int64_t extra = p.ddr_read_bytes + p.ddr_write_bytes - p.ddr_compulsory_bytes;
  double dma = 0;
  for (const auto &[engine, busy] : p.engine_busy)
    if (engine == "LD" || engine == "ST")
      dma = std::max(dma, busy);
  if (dma < 0.6 || extra * 5 < p.ddr_compulsory_bytes || r->memory.sram_estimate <= r->memory.sram_bytes)
    return;
  r->advice.push_back(
      {"",
       fmt::format(
           "tensors that are alive at once need {} bytes, the chip has {}: {} bytes travel through DDR beyond the "
           "compulsory ones; smaller inputs or a target with more SRAM avoid that",
           r->memory.sram_estimate, r->memory.sram_bytes, extra),
       static_cast<int64_t>(double(extra) / target.dma.ddr_bytes_per_cycle.ToDouble())});
}

// One node that splits the model costs a segment and two crossings.
void SplittingRule(Report *r) {
  if (r->coverage.npu_segments < 2)
    return;
  std::vector<std::pair<std::string, int64_t>> rules;
  std::vector<const NodeRow *> first;
  for (const NodeRow &node : r->nodes)
    if (!node.reasons.empty()) {
      const std::string &rule = node.reasons[0].rule;
      auto it = std::find_if(rules.begin(), rules.end(), [&](auto &x) { return x.first == rule; });
      if (it == rules.end()) {
        rules.emplace_back(rule, 1);
        first.push_back(&node);
      } else {
        ++it->second;
      }
    }
  if (rules.empty())
    return;
  const auto most = std::max_element(rules.begin(), rules.end(), [](auto &a, auto &b) { return a.second < b.second; });
  const NodeRow *node = first[size_t(most - rules.begin())];
  const std::string help = node->reasons[0].help;
  r->advice.push_back(
      {node->id,
       fmt::format("the NPU's work is in {} segments; the commonest cause is rule {} ({} nodes){}",
                   r->coverage.npu_segments, most->first, most->second, help.empty() ? "" : ": " + help),
       0});
}

} // namespace

void FillAdvice(const Target &target, Report *r) {
  FixShapes(r);
  CutTheTail(r);
  SplittingRule(r);
  Quantise(target, r);
  Traffic(target, r);
  std::stable_sort(r->advice.begin(), r->advice.end(),
                   [](const Advice &a, const Advice &b) { return a.predicted_gain_cycles > b.predicted_gain_cycles; });
}

} // namespace npuc::report
