#include "backend/report/build.h"

#include <algorithm>

#include "backend/report/advice.h"
#include "backend/report/nodes.h"
#include "backend/report/timeline.h"

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
        row.ifm = DimsOf(*x);
      }
      if (const Type *y = info.node->num_results() ? TensorType(info.node->result()) : nullptr) {
        row.output_layout = Name(y->layout());
        row.ofm = DimsOf(*y);
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
    size_t busiest = 0;
    for (size_t e = 1; e < cost.busy.size(); ++e)
      if (cost.busy[e] > cost.busy[busiest])
        busiest = e;
    row.bound_by = cost.busy[busiest] > 0 ? kEngines[busiest] : "";
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
  // mW * ms = uJ.
  p.energy_uj =
      1e-6 * (b.pj_macs + double(costs.sram_bytes) * in.target.energy.pj_sram_byte.ToDouble() +
              double(costs.ddr_read_bytes + costs.ddr_write_bytes) * in.target.energy.pj_ddr_byte.ToDouble()) +
      in.target.energy.idle_mw.ToDouble() * p.latency_ms;
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

void FillQuantization(const BuildInput &in, Report *r) {
  Quantization &q = r->quantization;
  bool quantised = false;
  for (const OnnxNode &n : in.module.onnx_nodes())
    quantised = quantised || n.op_type == "QuantizeLinear" || n.op_type == "DequantizeLinear" ||
                n.op_type.rfind("QLinear", 0) == 0 || n.op_type == "ConvInteger" || n.op_type == "MatMulInteger";
  q.method = quantised ? "model" : "none";
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
  r.reproducibility = {in.command, in.model_sha256, r.target.sha256, ""};
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
  r.memory = {in.target.sram.bytes,        in.emitted.sram_peak,        LiveBytes(in.module),
              in.emitted.file.arena_bytes, in.emitted.file.const_bytes, io_bytes};
  FillPerformance(in, costs, verdicts, &r);
  r.timeline = TimelineOf(in.emitted, in.target);
  FillCounters(in.ctx, &r);
  FillQuantization(in, &r);
  FillAdvice(in.target, &r);
  return r;
}

} // namespace npuc::report
