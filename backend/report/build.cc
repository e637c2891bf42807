#include "backend/report/build.h"

#include <algorithm>
#include <set>

#include "backend/report/advice.h"
#include "backend/report/nodes.h"
#include "backend/report/timeline.h"
#include "compiler/support/hash.h"

namespace npuc::report {
namespace {

constexpr std::array<const char *, 4> kEngines = {"LD", "ST", "MXU", "VPU"};

TargetInfo TargetOf(const Target &t) {
  TargetInfo info;
  info.name = t.name;
  info.sha256 = t.Sha256();
  info.description = t.description;
  info.clock_mhz = t.clock_mhz.ToDouble();
  info.sram_bytes = t.sram.bytes;
  info.ddr_bytes_per_cycle = t.dma.ddr_bytes_per_cycle.ToDouble();
  info.macs_per_cycle = t.MacsPerCycle();
  for (DType d : t.dtypes)
    if (t.mxu.mac_rate.Has(d))
      info.mac_rate.emplace_back(Name(d), t.mxu.MacRate(d).ToDouble());
  return info;
}

std::vector<IoRow> IoOf(const std::vector<container::IoTensor> &tensors, int64_t *bytes) {
  std::vector<IoRow> rows;
  for (const container::IoTensor &t : tensors) {
    IoRow row;
    row.name = t.name;
    row.bytes = t.bytes;
    *bytes += t.bytes;
    if (t.type.is_tensor()) {
      row.dtype = OnnxName(t.type.dtype());
      row.layout = Name(t.type.layout());
      if (t.type.shape().ranked())
        for (const Dim &d : t.type.shape().dims())
          row.shape.push_back(d.is_static() ? Extent{d.value(), ""} : Extent{0, std::string(d.symbol())});
      if (const QuantRef &q = t.type.quant(); q && q->per_tensor()) {
        row.scale = q->scale();
        row.zero_point = q->zero_point();
      }
    } else {
      row.dtype = t.type.ToString();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<int64_t> DimsOf(const Type &t) {
  if (!t.shape().is_static())
    return {};
  const Dims dims = t.shape().static_dims();
  return {dims.begin(), dims.end()};
}

const Type *TensorType(const Value *v) {
  return v && v->type().is_tensor() ? &v->type() : nullptr;
}

// Of the array's work, the part that multiplies padding lanes and taps.
double PaddingWaste(const timing::LayerTime &cost, DType dtype, const Target &target) {
  if (cost.array <= 0 || cost.macs <= 0 || !target.mxu.mac_rate.Has(dtype))
    return 0;
  const double slots = double(cost.array) / timing::kUnitsPerCycle * double(target.MacsPerCycle()) *
                       target.mxu.MacRate(dtype).ToDouble();
  return std::clamp(1 - double(cost.macs) / slots, 0.0, 1.0);
}

Map<int64_t> BoundCycles(const std::array<timing::Units, timing::kNumBounds> &bound) {
  Map<int64_t> out;
  for (size_t i = 0; i < bound.size(); ++i)
    if (const int64_t cycles = (bound[i] + timing::kUnitsPerCycle / 2) / timing::kUnitsPerCycle; cycles > 0)
      out.emplace_back(kBoundNames[i], cycles);
  return out;
}

std::vector<LayerRow> LayersOf(const BuildInput &in, const StreamCosts &costs) {
  std::vector<LayerRow> rows;
  for (size_t i = 0; i < in.emitted.file.layers.size(); ++i) {
    const container::Layer &layer = in.emitted.file.layers[i];
    const emit::LayerInfo &info = in.emitted.layers[i];
    const timing::LayerTime &cost = costs.layers[i];
    const int64_t cycles = costs.layer_cycles[i];
    LayerRow row;
    row.id = static_cast<int64_t>(i);
    row.name = layer.name;
    row.op = layer.op;
    for (uint32_t id : layer.origins)
      row.origins.push_back(in.emitted.file.origins[id]);
    DType dtype = DType::Undefined;
    if (info.node) {
      if (const Type *x = TensorType(info.node->operand(0))) {
        dtype = x->dtype();
        row.input_layout = Name(x->layout());
        row.ifm = info.ifm.empty() ? DimsOf(*x) : std::vector<int64_t>(info.ifm.begin(), info.ifm.end());
      }
      if (const Type *y = info.node->num_results() ? TensorType(info.node->result()) : nullptr) {
        row.output_layout = Name(y->layout());
        row.ofm = info.ofm.empty() ? DimsOf(*y) : std::vector<int64_t>(info.ofm.begin(), info.ofm.end());
      }
    }
    row.dtype = dtype == DType::Undefined ? "" : Name(dtype);
    row.tiles = info.tiles;
    row.cycles = cycles;
    row.share = costs.cycles ? double(cycles) / double(costs.cycles) : 0;
    row.macs = cost.macs;
    if (cycles > 0 && in.target.mxu.mac_rate.Has(dtype))
      row.mac_utilization = double(cost.macs) / (double(cycles) * double(in.target.MacsPerCycle()) *
                                                 in.target.mxu.MacRate(dtype).ToDouble());
    row.ddr_read_bytes = cost.ddr_read_bytes + cost.stream_bytes;
    row.ddr_write_bytes = cost.ddr_write_bytes;
    row.padding_waste = PaddingWaste(cost, dtype, in.target);
    size_t busiest = 0;
    for (size_t e = 1; e < cost.busy.size(); ++e)
      if (cost.busy[e] > cost.busy[busiest])
        busiest = e;
    row.engine = cost.busy[busiest] > 0 ? kEngines[busiest] : "";
    row.waits = BoundCycles(cost.bound);
    if (cycles > 0)
      row.bound_by = kBoundNames[size_t(std::max_element(cost.bound.begin(), cost.bound.end()) - cost.bound.begin())];
    rows.push_back(std::move(row));
  }
  return rows;
}

void FillPerformance(const BuildInput &in, const StreamCosts &costs, const std::vector<Verdict> &verdicts, Report *r) {
  Performance &p = r->performance;
  const double cycles_per_ms = in.target.clock_mhz.ToDouble() * 1000;
  p.cycles = costs.cycles;
  p.latency_ms = double(p.cycles) / cycles_per_ms;
  p.ddr_read_bytes = costs.ddr_read_bytes;
  p.ddr_write_bytes = costs.ddr_write_bytes;
  for (size_t e = 0; e < kEngines.size(); ++e)
    p.engine_busy.emplace_back(kEngines[e], costs.busy[e]);

  std::vector<int64_t> input_bytes, output_bytes;
  for (const container::IoTensor &t : in.emitted.file.inputs)
    input_bytes.push_back(t.bytes);
  for (const container::IoTensor &t : in.emitted.file.outputs)
    output_bytes.push_back(t.bytes);
  const Bounds b = ComputeBounds(
      in.work, in.target, [&](OriginId id) { return verdicts[id] == Verdict::Npu; }, input_bytes, output_bytes);
  p.array_bound = b.array;
  p.ppu_bound = b.ppu;
  p.vpu_bound = b.vpu;
  p.ddr_bound = b.ddr;
  p.ddr_compulsory_bytes = b.ddr_compulsory_bytes;
  p.bound_cycles = b.cycles;
  p.efficiency = p.cycles ? b.cycles / double(p.cycles) : 1.0;
  p.mac_utilization = p.cycles ? b.weighted_macs / (double(p.cycles) * double(in.target.MacsPerCycle())) : 0;
  const EnergyTarget &energy = in.target.energy;
  p.energy_parts = {
      {"mac", 1e-6 * b.pj_macs},
      {"sram", 1e-6 * double(costs.sram_bytes) * energy.pj_sram_byte.ToDouble()},
      {"ddr", 1e-6 * double(costs.ddr_read_bytes + costs.ddr_write_bytes) * energy.pj_ddr_byte.ToDouble()},
      {"idle", energy.idle_mw.ToDouble() * p.latency_ms}}; // mW * ms = uJ
  for (const auto &[part, uj] : p.energy_parts)
    p.energy_uj += uj;
  std::array<timing::Units, timing::kNumBounds> bound{};
  double slots = 0;
  int64_t macs = 0;
  for (size_t i = 0; i < costs.layers.size(); ++i) {
    for (size_t k = 0; k < bound.size(); ++k)
      bound[k] += costs.layers[i].bound[k];
    if (const LayerRow &row = r->layers[i]; row.padding_waste > 0 || row.macs > 0) {
      slots += double(row.macs) / (1 - std::min(row.padding_waste, 0.999999));
      macs += row.macs;
    }
  }
  p.waits = BoundCycles(bound);
  p.padding_waste = slots > 0 ? 1 - double(macs) / slots : 0;
  p.host_steps = HostSteps(in);
  p.latency_total_estimate_ms = p.latency_ms;
  for (const HostStepRow &step : p.host_steps)
    p.latency_total_estimate_ms += step.estimated_us / 1000;
  p.fps = p.latency_total_estimate_ms > 0 ? 1000 / p.latency_total_estimate_ms : 0;
}

void FillCounters(const PassContext &ctx, Report *r) {
  constexpr std::string_view kFuse = "fuse: ";
  for (const auto &[name, count] : ctx.counters()) {
    if (name.rfind(kFuse, 0) == 0)
      r->fusions.push_back({name.substr(kFuse.size()), count});
    else if (name == "layout: conversions")
      r->layout.conversions = count;
    else if (name == "layout: transposes removed")
      r->layout.transposes_removed = count;
  }
}

// Near-fusions, and each Transpose of the model: gone, or left and why.
void FillRemarks(const BuildInput &in, Report *r) {
  constexpr std::string_view kLayout = "assign-layouts";
  for (const Remark &remark : in.ctx.remarks())
    if (remark.pass != kLayout)
      r->near_fusions.push_back({remark.pass, remark.node, remark.message});
  for (const NodeRow &n : r->nodes) {
    if (n.op != "Transpose")
      continue;
    TransposeRow row{n.id, n.verdict == "host",
                     n.verdict == "host" ? "runs on the host" : "its result lies in memory as its operand does"};
    if (n.verdict == "eliminated")
      row.why = "folded into a constant or a neighbour, or nobody needs it";
    for (const Remark &remark : in.ctx.remarks())
      if (remark.pass == kLayout && remark.node == n.id && n.verdict == "npu") {
        row.moves_data = true;
        row.why = remark.message;
      }
    r->layout.transposes.push_back(std::move(row));
  }
}

void FillQuantization(const BuildInput &in, Report *r) {
  Quantization &q = r->quantization;
  bool quantised = false;
  for (const OnnxNode &n : in.module.onnx_nodes())
    quantised = quantised || n.op_type == "QuantizeLinear" || n.op_type == "DequantizeLinear" ||
                n.op_type.rfind("QLinear", 0) == 0 || n.op_type == "ConvInteger" || n.op_type == "MatMulInteger";
  q.method = quantised ? "model" : "none";
  if (in.ctx.calibration) {
    q.method = std::string(Name(in.ctx.options.calibration.method));
    for (const auto &[name, t] : in.ctx.calibration->tensors())
      q.samples = std::max(q.samples, static_cast<int64_t>(t.samples.size()));
  } else if (in.ctx.options.quant_config.HasRanges()) {
    q.method = "config";
  }
  for (const PassContext::KeptFloat &k : in.ctx.kept_float)
    for (OriginId id : k.origin)
      if (id < in.module.onnx_nodes().size())
        q.kept_float.push_back({in.module.onnx_nodes()[id].id, k.why});
  std::set<std::string_view> on_npu, said;
  for (const NodeRow &n : r->nodes)
    if (n.verdict == "npu" && n.precision == "f16")
      on_npu.insert(n.id);
  for (const KeptFloatRow &k : q.kept_float)
    said.insert(k.node);
  std::vector<KeptFloatRow> came_so;
  for (const KeptFloatRow &k : in.imported_float)
    if (on_npu.count(k.node) && !said.count(k.node))
      came_so.push_back(k);
  q.kept_float.insert(q.kept_float.end(), came_so.begin(), came_so.end());
  for (const NodeRow &n : r->nodes) {
    if (n.verdict == "npu" && (n.precision == "i8" || n.precision == "u8"))
      ++q.nodes_int8;
    else if (n.verdict == "npu" && (n.precision == "i16" || n.precision == "u16"))
      ++q.nodes_int16;
    else if (n.verdict == "npu" && n.precision == "f16")
      ++q.nodes_f16;
    else if (n.verdict == "host" && (n.precision == "f32" || n.precision == "f64" || n.precision == "f16"))
      ++q.nodes_host_float;
  }
}

} // namespace

Report BuildReport(const BuildInput &in) {
  Report r;
  r.tool.version = NPUC_VERSION;
  r.model.file = in.module.file;
  r.model.sha256 = in.model_sha256;
  r.model.ir_version = in.module.ir_version;
  for (const auto &[domain, version] : in.module.opsets)
    r.model.opsets.emplace_back(domain.empty() ? "ai.onnx" : domain, version);
  r.model.producer = in.module.producer;
  r.model.nodes = static_cast<int64_t>(in.module.onnx_nodes().size());
  r.target = TargetOf(in.target);
  r.options = in.options;
  r.reproducibility.tool_version = r.tool.version;
  r.reproducibility.command = in.command;
  r.reproducibility.model_sha256 = in.model_sha256;
  r.reproducibility.target_sha256 = r.target.sha256;
  std::string config;
  for (const auto &[option, value] : in.options)
    config += option + "=" + value + "\n";
  r.reproducibility.config_sha256 = Sha256Hex(config);
  r.reproducibility.files = in.files;
  int64_t io_bytes = 0;
  r.inputs = IoOf(in.emitted.file.inputs, &io_bytes);
  r.outputs = IoOf(in.emitted.file.outputs, &io_bytes);

  const std::vector<Verdict> verdicts = Verdicts(in);
  FillNodes(in, verdicts, &r);
  for (const auto &step : in.emitted.file.steps)
    ++(std::holds_alternative<container::NpuStep>(step) ? r.coverage.npu_segments : r.coverage.host_segments);
  r.coverage.boundary_bytes = BoundaryBytes(in.module);

  const StreamCosts costs = CostsOf(in.emitted, in.target);
  r.layers = LayersOf(in, costs);
  r.memory.sram_bytes = in.target.sram.bytes;
  r.memory.sram_peak = in.emitted.sram_peak;
  r.memory.live_bytes = LiveBytes(in.module);
  r.memory.sram_estimate = (in.emitted.file.const_bytes + r.memory.live_bytes) * 13 / 10;
  r.memory.arena_bytes = in.emitted.file.arena_bytes;
  r.memory.const_bytes = in.emitted.file.const_bytes;
  r.memory.io_bytes = io_bytes;
  r.memory.spilled = SpilledOf(in.emitted.file);
  FillPerformance(in, costs, verdicts, &r);
  r.timeline = TimelineOf(in.emitted, in.target);
  FillCounters(in.ctx, &r);
  FillQuantization(in, &r);
  r.performance.mac_flatness = Flatness(r.timeline);
  FillRemarks(in, &r);
  r.operators = OperatorsOf(r.nodes);
  r.checklist = in.checklist;
  if (in.try_change)
    FillAdvice(in.target, in.graph, in.try_change, &r);
  return r;
}

} // namespace npuc::report
