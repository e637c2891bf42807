// The report: what runs where and why, and what the machine's model says it costs. Schema npuc-report/1, described key
// by key in docs/report-schema.json. A plain value: made by BuildReport (build.h), written and read by json.h,
// rendered by the others. Each struct has one field list, which drives the JSON writer and the JSON reader.
//
// Nothing in it is measured but `compile`; two compilations of one input give the same bytes in all else.
// Numbers are never null: what does not apply is 0 (-1 for a missing layer).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace npuc::report {

inline constexpr std::string_view kSchema = "npuc-report/1";

// What a layer can wait for, by timing::Bound.
inline constexpr std::array<std::string_view, 9> kBoundNames = {"issue",     "MAC",     "output", "weights", "VPU",
                                                                "rearrange", "latency", "SRAM",   "DDR"};

// A JSON object whose keys are data, in the order given.
template <class T> using Map = std::vector<std::pair<std::string, T>>;

struct Tool {
  std::string name = "npuc", version;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("name", s.name);
    v("version", s.version);
  }
};

struct ModelInfo {
  std::string file, sha256;
  int64_t ir_version = 0;
  Map<int64_t> opsets; // domain ("ai.onnx" for the default one) -> version
  std::string producer;
  int64_t nodes = 0; // bodies and function calls expanded
  template <class S, class V> static void Fields(S &s, V &v) {
    v("file", s.file);
    v("sha256", s.sha256);
    v("ir_version", s.ir_version);
    v("opsets", s.opsets);
    v("producer", s.producer);
    v("nodes", s.nodes);
  }
};

struct TargetInfo {
  std::string name, sha256, description;
  double clock_mhz = 0;
  int64_t sram_bytes = 0;
  double ddr_bytes_per_cycle = 0;
  int64_t macs_per_cycle = 0; // px * oc * ic, at rate 1
  Map<double> mac_rate;       // dtype -> share of macs_per_cycle
  template <class S, class V> static void Fields(S &s, V &v) {
    v("name", s.name);
    v("sha256", s.sha256);
    v("description", s.description);
    v("clock_mhz", s.clock_mhz);
    v("sram_bytes", s.sram_bytes);
    v("ddr_bytes_per_cycle", s.ddr_bytes_per_cycle);
    v("macs_per_cycle", s.macs_per_cycle);
    v("mac_rate", s.mac_rate);
  }
};

// A file that an option names.
struct InputFile {
  std::string option, file, sha256; // a folder: of its files' names and contents, in name order
  template <class S, class V> static void Fields(S &s, V &v) {
    v("option", s.option);
    v("file", s.file);
    v("sha256", s.sha256);
  }
};

// Everything that can change the binary came from the model, the target, `options` and the files that they name.
struct Reproducibility {
  std::string tool_version;
  std::string command; // without -o, -j and what else cannot change the result
  std::string model_sha256, target_sha256, binary_sha256;
  std::string config_sha256; // of `options`
  std::vector<InputFile> files;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("tool_version", s.tool_version);
    v("command", s.command);
    v("model_sha256", s.model_sha256);
    v("target_sha256", s.target_sha256);
    v("binary_sha256", s.binary_sha256);
    v("config_sha256", s.config_sha256);
    v("files", s.files);
  }
};

// A dim: a number in JSON, or its symbol where it is free.
struct Extent {
  int64_t value = 0;
  std::string symbol; // "": `value` holds
  bool operator==(const Extent &) const = default;
};

struct IoRow {
  std::string name, dtype;
  std::vector<Extent> shape;
  std::string layout;
  double scale = 0; // 0: not quantised
  int64_t zero_point = 0, bytes = 0;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("name", s.name);
    v("dtype", s.dtype);
    v("shape", s.shape);
    v("layout", s.layout);
    v("scale", s.scale);
    v("zero_point", s.zero_point);
    v("bytes", s.bytes);
  }
};

struct Coverage {
  int64_t nodes_total = 0, nodes_npu = 0, nodes_host = 0, nodes_eliminated = 0;
  double node_percent = 100, mac_percent = 100;
  int64_t npu_segments = 0, host_segments = 0;
  int64_t boundary_bytes = 0; // tensors that cross between NPU and host steps
  template <class S, class V> static void Fields(S &s, V &v) {
    v("nodes_total", s.nodes_total);
    v("nodes_npu", s.nodes_npu);
    v("nodes_host", s.nodes_host);
    v("nodes_eliminated", s.nodes_eliminated);
    v("node_percent", s.node_percent);
    v("mac_percent", s.mac_percent);
    v("npu_segments", s.npu_segments);
    v("host_segments", s.host_segments);
    v("boundary_bytes", s.boundary_bytes);
  }
};

struct Reason {
  std::string rule, message, limit, actual, help;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("rule", s.rule);
    v("message", s.message);
    v("limit", s.limit);
    v("actual", s.actual);
    v("help", s.help);
  }
};

struct NodeRow {
  std::string id, name, op;
  std::string verdict = "eliminated"; // npu, host or eliminated
  std::string precision;              // dtype it is computed in; "" when eliminated
  int64_t layer = -1;                 // first layer that carries it
  int64_t macs = 0;
  std::vector<Reason> reasons;      // host: every rule it breaks
  std::vector<int64_t> inputs;      // rows of `nodes` that it reads in the model
  std::vector<std::string> outputs; // names of its tensors: what --output takes
  template <class S, class V> static void Fields(S &s, V &v) {
    v("id", s.id);
    v("name", s.name);
    v("op", s.op);
    v("verdict", s.verdict);
    v("precision", s.precision);
    v("layer", s.layer);
    v("macs", s.macs);
    v("reasons", s.reasons);
    v("inputs", s.inputs);
    v("outputs", s.outputs);
  }
};

struct LayerRow {
  int64_t id = 0;
  std::string name, op;
  std::vector<std::string> origins;
  std::string dtype, input_layout, output_layout;
  std::vector<int64_t> ifm, ofm; // logical dims of the first operand and result
  int64_t tiles = 0, cycles = 0;
  double share = 0; // of all cycles, 0..1
  int64_t macs = 0;
  double mac_utilization = 0;
  int64_t ddr_read_bytes = 0, ddr_write_bytes = 0;
  double padding_waste = 0; // share of the array's work that multiplies padding lanes and taps, 0..1
  std::string bound_by;     // what most of its cycles waited for (kBoundNames); "" without cycles
  std::string engine;       // busiest: MXU, VPU, LD, ST; "" when none is
  Map<int64_t> waits;       // cycles by what they waited for (kBoundNames), those that are not 0
  template <class S, class V> static void Fields(S &s, V &v) {
    v("id", s.id);
    v("name", s.name);
    v("op", s.op);
    v("origins", s.origins);
    v("dtype", s.dtype);
    v("input_layout", s.input_layout);
    v("output_layout", s.output_layout);
    v("ifm", s.ifm);
    v("ofm", s.ofm);
    v("tiles", s.tiles);
    v("cycles", s.cycles);
    v("share", s.share);
    v("macs", s.macs);
    v("mac_utilization", s.mac_utilization);
    v("ddr_read_bytes", s.ddr_read_bytes);
    v("ddr_write_bytes", s.ddr_write_bytes);
    v("padding_waste", s.padding_waste);
    v("bound_by", s.bound_by);
    v("engine", s.engine);
    v("waits", s.waits);
  }
};

struct SpilledTensor {
  std::string name;
  int64_t bytes = 0;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("name", s.name);
    v("bytes", s.bytes);
  }
};

struct Memory {
  int64_t sram_bytes = 0;    // the target's
  int64_t sram_peak = 0;     // highest byte that any segment uses
  int64_t sram_estimate = 0; // the rule of thumb before planning: (constants + live_bytes) * 1.3
  int64_t live_bytes = 0;    // what would hold every intermediate tensor of the NPU layers that is alive at once
  int64_t arena_bytes = 0, const_bytes = 0, io_bytes = 0;
  std::vector<SpilledTensor> spilled; // NPU tensors that lie in DDR between layers, the largest first, at most 20
  template <class S, class V> static void Fields(S &s, V &v) {
    v("sram_bytes", s.sram_bytes);
    v("sram_peak", s.sram_peak);
    v("sram_estimate", s.sram_estimate);
    v("live_bytes", s.live_bytes);
    v("arena_bytes", s.arena_bytes);
    v("const_bytes", s.const_bytes);
    v("io_bytes", s.io_bytes);
    v("spilled", s.spilled);
  }
};

struct HostStepRow {
  std::vector<std::string> nodes; // ids
  int64_t macs = 0, bytes = 0;
  double estimated_us = 0;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("nodes", s.nodes);
    v("macs", s.macs);
    v("bytes", s.bytes);
    v("estimated_us", s.estimated_us);
  }
};

struct Performance {
  int64_t cycles = 0; // of the NPU segments
  double latency_ms = 0, fps = 0;
  int64_t macs = 0; // true MACs of the nodes on the NPU
  double mac_utilization = 0;
  double mac_flatness = 0;  // mean over peak of timeline.mac: 1 when the array is used evenly
  double padding_waste = 0; // share of the array's work that multiplies padding lanes and taps
  double array_bound = 0, ppu_bound = 0, vpu_bound = 0, ddr_bound = 0, bound_cycles = 0, efficiency = 1;
  int64_t ddr_read_bytes = 0, ddr_write_bytes = 0, ddr_compulsory_bytes = 0;
  double energy_uj = 0;
  Map<double> energy_parts; // mac, sram, ddr, idle: uJ
  Map<int64_t> waits;       // of all layers
  Map<double> engine_busy;  // LD, ST, MXU, VPU -> share of cycles
  std::vector<HostStepRow> host_steps;
  double latency_total_estimate_ms = 0; // NPU and host steps
  template <class S, class V> static void Fields(S &s, V &v) {
    v("cycles", s.cycles);
    v("latency_ms", s.latency_ms);
    v("fps", s.fps);
    v("macs", s.macs);
    v("mac_utilization", s.mac_utilization);
    v("mac_flatness", s.mac_flatness);
    v("padding_waste", s.padding_waste);
    v("array_bound", s.array_bound);
    v("ppu_bound", s.ppu_bound);
    v("vpu_bound", s.vpu_bound);
    v("ddr_bound", s.ddr_bound);
    v("bound_cycles", s.bound_cycles);
    v("efficiency", s.efficiency);
    v("ddr_read_bytes", s.ddr_read_bytes);
    v("ddr_write_bytes", s.ddr_write_bytes);
    v("ddr_compulsory_bytes", s.ddr_compulsory_bytes);
    v("energy_uj", s.energy_uj);
    v("energy_parts", s.energy_parts);
    v("waits", s.waits);
    v("engine_busy", s.engine_busy);
    v("host_steps", s.host_steps);
    v("latency_total_estimate_ms", s.latency_total_estimate_ms);
  }
};

// Where time goes, for pictures: runs of busy cycles, neighbours of one layer merged. Segments stand one after another.
struct Timeline {
  Map<std::vector<std::vector<int64_t>>> engines; // engine -> [start, end, layer]
  std::vector<std::vector<int64_t>> sram;         // [cycle, bytes in use from here on]
  std::vector<std::vector<double>> mac;           // [cycle, MAC utilisation from here on, 0..1], even slots
  template <class S, class V> static void Fields(S &s, V &v) {
    v("engines", s.engines);
    v("sram", s.sram);
    v("mac", s.mac);
  }
};

struct FusionRow {
  std::string pass;
  int64_t matched = 0;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("pass", s.pass);
    v("matched", s.matched);
  }
};

// A thing that nearly happened and what stopped it.
struct RemarkRow {
  std::string pass, node, message;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("pass", s.pass);
    v("node", s.node);
    v("message", s.message);
  }
};

struct TransposeRow {
  std::string node;
  bool moves_data = false;
  std::string why;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("node", s.node);
    v("moves_data", s.moves_data);
    v("why", s.why);
  }
};

struct LayoutInfo {
  int64_t conversions = 0, transposes_removed = 0;
  std::vector<TransposeRow> transposes; // of the model
  template <class S, class V> static void Fields(S &s, V &v) {
    v("conversions", s.conversions);
    v("transposes_removed", s.transposes_removed);
    v("transposes", s.transposes);
  }
};

// The model's operators, the commonest first.
struct OperatorRow {
  std::string op;
  int64_t nodes = 0, npu = 0, host = 0, eliminated = 0, macs = 0;
  std::string suspect; // why this operator is worth a look, "" when it is not
  template <class S, class V> static void Fields(S &s, V &v) {
    v("op", s.op);
    v("nodes", s.nodes);
    v("npu", s.npu);
    v("host", s.host);
    v("eliminated", s.eliminated);
    v("macs", s.macs);
    v("suspect", s.suspect);
  }
};

// A property of models that NPUs like.
struct CheckRow {
  std::string check;
  bool ok = true;
  std::string found, help;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("check", s.check);
    v("ok", s.ok);
    v("found", s.found);
    v("help", s.help);
  }
};

// An operator that could have computed on integers and does not.
struct KeptFloatRow {
  std::string node, why;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("node", s.node);
    v("why", s.why);
  }
};

struct Quantization {
  std::string method; // none, model (it came quantised), config (ranges of --quant-config), or the calibration's method
  int64_t samples = 0;
  int64_t nodes_int8 = 0, nodes_int16 = 0, nodes_f16 = 0, nodes_host_float = 0;
  double cosine = 1; // --min-cosine: float reference against the binary's run; 1 when not asked for
  std::vector<KeptFloatRow> kept_float; // in graph order: where npuc quantised, then of what came so
  template <class S, class V> static void Fields(S &s, V &v) {
    v("method", s.method);
    v("samples", s.samples);
    v("nodes_int8", s.nodes_int8);
    v("nodes_int16", s.nodes_int16);
    v("nodes_f16", s.nodes_f16);
    v("nodes_host_float", s.nodes_host_float);
    v("cosine", s.cosine);
    v("kept_float", s.kept_float);
  }
};

// A change, compiled for real: its figures are those of the changed model's own report.
struct Advice {
  std::string kind;          // output-cut, fixed-shape, pad-channels, hard-swish, int8, sram, ...
  std::string node, message; // node: "" when about the whole model
  std::string apply;         // the command or the change, to copy
  // By how much the time falls, in cycles of the NPU's clock, host steps by their estimate; negative in `tried`.
  int64_t predicted_gain_cycles = 0;
  int64_t predicted_cycles = 0;    // performance.cycles then
  double predicted_latency_ms = 0; // latency_total_estimate_ms then
  int64_t nodes_to_npu = 0;        // nodes that the host has now and will not have then
  template <class S, class V> static void Fields(S &s, V &v) {
    v("kind", s.kind);
    v("node", s.node);
    v("message", s.message);
    v("apply", s.apply);
    v("predicted_gain_cycles", s.predicted_gain_cycles);
    v("predicted_cycles", s.predicted_cycles);
    v("predicted_latency_ms", s.predicted_latency_ms);
    v("nodes_to_npu", s.nodes_to_npu);
  }
};

struct PassRow {
  std::string name;
  double seconds = 0;
  bool changed = false;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("name", s.name);
    v("seconds", s.seconds);
    v("changed", s.changed);
  }
};

struct CompileInfo {
  double seconds = 0;
  int64_t peak_rss_bytes = 0;
  std::vector<PassRow> passes;
  template <class S, class V> static void Fields(S &s, V &v) {
    v("seconds", s.seconds);
    v("peak_rss_bytes", s.peak_rss_bytes);
    v("passes", s.passes);
  }
};

// A gate that was asked for and its outcome.
struct GateRow {
  std::string gate; // the flag without dashes: min-coverage, baseline ...
  bool passed = true;
  std::string message; // what was found against what is allowed
  template <class S, class V> static void Fields(S &s, V &v) {
    v("gate", s.gate);
    v("passed", s.passed);
    v("message", s.message);
  }
};

struct Report {
  std::string schema{kSchema};
  Tool tool;
  ModelInfo model;
  TargetInfo target;
  Map<std::string> options; // flags that can change the result; values of a repeated one joined by ", "
  Reproducibility reproducibility;
  std::vector<IoRow> inputs, outputs;
  Coverage coverage;
  std::vector<NodeRow> nodes;
  std::vector<LayerRow> layers;
  Memory memory;
  Performance performance;
  Timeline timeline;
  std::vector<FusionRow> fusions;
  std::vector<RemarkRow> near_fusions;
  LayoutInfo layout;
  std::vector<OperatorRow> operators;
  std::vector<CheckRow> checklist;
  Quantization quantization;
  std::vector<Advice> advice;        // the greatest gain first
  std::vector<Advice> tried;         // the same of changes that would not pay
  std::vector<std::string> warnings; // what the compiler warned of
  std::vector<GateRow> gates;
  CompileInfo compile; // the only part that is measured
  template <class S, class V> static void Fields(S &s, V &v) {
    v("schema", s.schema);
    v("tool", s.tool);
    v("model", s.model);
    v("target", s.target);
    v("options", s.options);
    v("reproducibility", s.reproducibility);
    v("inputs", s.inputs);
    v("outputs", s.outputs);
    v("coverage", s.coverage);
    v("nodes", s.nodes);
    v("layers", s.layers);
    v("memory", s.memory);
    v("performance", s.performance);
    v("timeline", s.timeline);
    v("fusions", s.fusions);
    v("near_fusions", s.near_fusions);
    v("layout", s.layout);
    v("operators", s.operators);
    v("checklist", s.checklist);
    v("quantization", s.quantization);
    v("advice", s.advice);
    v("tried", s.tried);
    v("warnings", s.warnings);
    v("gates", s.gates);
    v("compile", s.compile);
  }
};

} // namespace npuc::report
