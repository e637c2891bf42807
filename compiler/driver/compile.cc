// The way of a model, top to bottom: import, look at the untouched work, passes, emission, report.
#include "compiler/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "backend/emit/emit.h"
#include "backend/lower/registry.h"
#include "backend/report/build.h"
#include "backend/report/work.h"
#include "compiler/driver/accuracy.h"
#include "compiler/driver/calibration.h"
#include "compiler/driver/front.h"
#include "compiler/driver/raise.h"
#include "compiler/onnx/import.h"
#include "compiler/pass/pass_manager.h"
#include "compiler/support/hash.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/thread_pool.h"
#include "passes/pipelines.h"

namespace npuc {
namespace {

// Whether float operators are to compute on integers.
bool IsInteger(Precision p, bool have_samples) {
  return p == Precision::Int8 || p == Precision::Int16 || (p == Precision::Auto && have_samples);
}

// What float operators will compute in, for the bounds.
DType FloatView(Precision precision, bool have_samples) {
  switch (precision) {
  case Precision::Int8:
    return DType::I8;
  case Precision::Int16:
    return DType::I16;
  case Precision::Auto:
    return have_samples ? DType::I8 : DType::F16;
  case Precision::Fp16:
  case Precision::Fp32:
    return DType::F16;
  }
  return DType::F16;
}

bool ComesQuantized(const Module &m) {
  for (const OnnxNode &n : m.onnx_nodes())
    if (n.op_type == "DequantizeLinear" || n.op_type.rfind("QLinear", 0) == 0 || n.op_type == "ConvInteger" ||
        n.op_type == "MatMulInteger" || n.op_type == "DynamicQuantizeLinear")
      return true;
  return false;
}

// Integers need ranges: of a model that came with them, or from samples.
Status CheckQuantization(const CompilerOptions &o, const QuantConfig &config, const Module &m) {
  const bool integer = o.precision == Precision::Int8 || o.precision == Precision::Int16;
  if (integer && o.calib.empty() && !config.HasRanges() && !ComesQuantized(m))
    return Error("E0509",
                 fmt::format("--precision {} needs samples or ranges, and the model brings none", Name(o.precision)),
                 "give --calib PATH, or ranges in --quant-config FILE.yaml, or a quantised model (QDQ)");
  return OkStatus();
}

} // namespace

StatusOr<std::unique_ptr<Module>> ImportFor(const CompilerOptions &options, DiagnosticEngine &diagnostics,
                                            std::shared_ptr<std::map<uint64_t, Tensor>> copies) {
  ImportOptions import;
  import.copies = std::move(copies);
  import.dims = options.dims;
  import.input_shapes = options.input_shapes;
  import.binds = options.binds;
  import.inputs = options.inputs;
  import.outputs = options.outputs;
  auto module = ImportModel(options.model, import, diagnostics);
  NPUC_RETURN_IF_ERROR(module);
  NPUC_RETURN_IF_ERROR(diagnostics.ToStatus());
  return module;
}

PassManagerOptions ManagerOptions(const CompilerOptions &o, const Target &target) {
  PassManagerOptions m;
  m.verify_each = o.verify_each;
  m.print_after = o.print_after;
  m.dump_ir_dir = o.dump_ir;
  m.time_passes = o.time_passes;
  m.disabled = o.disabled_passes;
  m.pass_limit = o.pass_limit;
  m.target_name = target.name;
  return m;
}

namespace {

// SHA-256 of a file; of a folder's files by name, in name order.
StatusOr<std::string> HashOf(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return Sha256OfFile(path);
  }
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file(error))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string &name : names) {
    NPUC_ASSIGN_OR_RETURN(const std::string hash, Sha256OfFile(path + "/" + name));
    all += name + " " + hash + "\n";
  }
  return Sha256Hex(all);
}

// The files besides model and target that options name.
StatusOr<std::vector<report::InputFile>> InputFiles(const CompilerOptions &o) {
  std::vector<report::InputFile> files;
  auto add = [&](const char *option, const std::string &path) -> Status {
    if (path.empty())
      return OkStatus();
    NPUC_ASSIGN_OR_RETURN(std::string hash, HashOf(path));
    std::filesystem::path name(path);
    if (name.filename().empty()) // "images/"
      name = name.parent_path();
    files.push_back({option, name.filename().string(), std::move(hash)});
    return OkStatus();
  };
  for (const std::string &calib : o.calib) { // PATH or input=PATH
    const size_t eq = calib.find('=');
    const bool plain = eq == std::string::npos || std::filesystem::exists(calib);
    NPUC_RETURN_IF_ERROR(add("calib", plain ? calib : calib.substr(eq + 1)));
  }
  NPUC_RETURN_IF_ERROR(add("quant-config", o.quant_config));
  NPUC_RETURN_IF_ERROR(add("preprocess", o.preprocess));
  NPUC_RETURN_IF_ERROR(add("ops", o.ops_file));
  for (const std::string &bind : o.binds)
    if (const size_t at = bind.find("=@"); at != std::string::npos)
      NPUC_RETURN_IF_ERROR(add("bind", bind.substr(at + 2)));
  return files;
}

// What the unchanged compilation leaves to the changed ones.
struct Kept {
  CalibrationData calibration;
  bool calibrated = false;
  std::map<std::string, Precision> raised;            // nodes that are not int8, see raise.h
  std::shared_ptr<std::map<uint64_t, Tensor>> copies; // ImportOptions; null: there is one compilation
};

// A range for each value that could be quantised: what integers cost does not depend on which.
CalibrationTable AnyRanges(const Graph &g) {
  CalibrationTable table;
  auto add = [&](const Value *v) {
    if (!v->type().is_tensor() || !IsFloat(v->type().dtype()))
      return;
    TensorStatistics &t = table[v->name()];
    t.count = 2;
    t.min = -4;
    t.max = 4;
    t.samples = {{0, -4, 4}};
  };
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    add(g.input(i));
  for (const Node &n : g.nodes())
    for (unsigned i = 0; i < n.num_results(); ++i)
      add(n.result(i));
  return table;
}

// One compilation, changed as `change` says (null: as it is).
StatusOr<Compilation> CompileChanged(const CompilerOptions &options, const report::WhatIf *change,
                                     const report::TryFn &try_change, Kept &kept, DiagnosticEngine &diagnostics,
                                     const ProgressFn &progress) {
  auto say = [&](const char *what) {
    if (progress)
      progress(what);
  };
  NPUC_RETURN_IF_ERROR(CheckOptions(options));
  NPUC_ASSIGN_OR_RETURN(Target target, Target::FromNameOrFile(options.target));
  if (change && change->sram_bytes > 0)
    target.sram.bytes = change->sram_bytes;

  // The hash of a big model takes seconds; it has a thread of its own. A changed model has no use for one.
  std::future<std::string> model_sha256 =
      std::async(change ? std::launch::deferred : std::launch::async,
                 [&]() -> std::string { return change ? "" : Sha256OfFile(options.model).value_or(""); });

  say("import");
  Compilation c;
  NPUC_ASSIGN_OR_RETURN(c.module, ImportFor(options, diagnostics, kept.copies));

  if (change && change->edit && !change->edit(*c.module))
    return Error("E0501", "the change does not apply");
  const report::ModelGraph graph = report::GraphOf(*c.module);
  std::vector<report::KeptFloatRow> imported_float = report::FloatReasons(*c.module);

  ThreadPool threads(options.jobs);
  PassContext ctx(target, diagnostics);
  NPUC_ASSIGN_OR_RETURN(ctx.options, MakePassOptions(options, *c.module));
  NPUC_RETURN_IF_ERROR(CheckQuantization(options, ctx.options.quant_config, *c.module));
  for (const auto &[id, precision] : kept.raised)
    if (auto &own = ctx.options.quant_config.nodes[id].precision; !own)
      own = precision;
  ctx.threads = &threads;
  ctx.estimate_only = change != nullptr;
  const bool int8 = change && change->int8;
  CalibrationTable any_ranges;
  if (int8)
    ctx.options.have_samples = true;
  ctx.npu = &lower::ReferenceNpuOps();
  ctx.rewrite_limit = options.rewrite_limit;
  std::vector<PassRecord> records;
  PassManagerOptions manager = ManagerOptions(options, target);

  // The yardstick is what the model asks for after shape inference, constant folding and dead code: after the first
  // stages, before anything that is ours.
  const report::WorkView view{FloatView(options.precision, ctx.options.have_samples),
                              ctx.options.quant_config.AnyFourBits()};
  report::ModelWork work;
  std::vector<report::CheckRow> checklist;
  bool analyzed = false;
  const size_t simplified = SimplifyPipeline().size() - 1, calibrated = CalibrationPipeline(ctx.options).size() - 1;
  manager.after_stage = [&](size_t stage, const Module &m) -> Status {
    if (stage == simplified) {
      work = report::AnalyzeWork(m, target, view);
      if (!change && !options.no_report)
        checklist = report::ChecklistOf(m, target);
      analyzed = true;
    }
    if (stage == calibrated && int8) {
      any_ranges = AnyRanges(m.main());
      ctx.calibration = &any_ranges;
    }
    if (stage == calibrated && !options.calib.empty() && IsInteger(options.precision, true)) {
      if (!kept.calibrated) {
        kept.calibrated = true;
        NPUC_ASSIGN_OR_RETURN(kept.calibration,
                              CollectStatistics(options, m, Shard{}, &threads, diagnostics, progress));
      }
      ctx.calibration = &kept.calibration.statistics.table;
      ctx.samples = change ? nullptr : kept.calibration.samples.get(); // what a change costs does not
                                                                       // depend on rounding
      say("passes");
    }
    return OkStatus();
  };
  say("passes");
  NPUC_RETURN_IF_ERROR(RunPasses(*c.module, DefaultPipeline(ctx.options), ctx, manager, &records));
  NPUC_RETURN_IF_ERROR(diagnostics.ToStatus());
  if (!analyzed) { // --pass-limit stopped before
    work = report::AnalyzeWork(*c.module, target, view);
    if (!options.no_report)
      checklist = report::ChecklistOf(*c.module, target);
  }
  // So did it before what follows was placed.
  for (Node &n : c.module->main().nodes())
    if (n.placement() == Placement::Unassigned && !n.is_constant() && !n.is_return())
      n.set_placement(Placement::Host);

  say("emit");
  const auto start = std::chrono::steady_clock::now();
  emit::EmitOptions emit_options;
  emit_options.opt_level = options.opt_level;
  emit_options.tiles = ctx.options.tiles;
  NPUC_ASSIGN_OR_RETURN(emit::EmitResult emitted,
                        emit::Emit(*c.module, lower::ReferenceNpuOps(), target, emit_options));
  records.push_back({"emit", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), true});

  report::BuildInput in{*c.module, target, work, graph, checklist, emitted, ctx, {}, {}, {}, {}, try_change, {}};
  in.model_sha256 = model_sha256.get();
  in.imported_float = std::move(imported_float);
  for (const auto &[flag, value] : NormalizedOptions(options)) {
    const std::string key = flag.substr(flag.find_first_not_of('-'));
    auto have = std::find_if(in.options.begin(), in.options.end(), [&](auto &o) { return o.first == key; });
    if (have == in.options.end())
      in.options.emplace_back(key, value);
    else
      have->second += ", " + value;
  }
  in.command = CanonicalCommand(options);
  NPUC_ASSIGN_OR_RETURN(in.files, InputFiles(options));
  say("report");
  c.report = report::BuildReport(in);
  for (const PassRecord &r : records)
    c.report.compile.passes.push_back({r.pass, r.seconds, r.changed});
  for (const Diagnostic &d : diagnostics.All())
    if (d.severity == Severity::warning)
      c.report.warnings.push_back(Render(d));

  c.file = std::move(emitted.file);
  c.file.metadata = {{"tool", "npuc " NPUC_VERSION}, {"model", c.module->file}, {"model_sha256", in.model_sha256}};
  return c;
}

// Where 8 bits are too few on the calibration samples themselves, the cheapest layers leave them, more and more, until
// they are enough; else what was best is taken. `c` is the compilation as int8, and is replaced.
Status RaiseWhereNeeded(const CompilerOptions &options, Kept &kept, Compilation &c, const report::TryFn &try_change,
                        DiagnosticEngine &diagnostics, const ProgressFn &progress) {
  if (progress)
    progress("accuracy");
  NPUC_ASSIGN_OR_RETURN(const auto probe, AccuracyProbe::Make(options, *kept.calibration.samples, diagnostics));
  NPUC_ASSIGN_OR_RETURN(const AccuracyProbe::Result alone, probe->Measure(c.file, options));
  if (alone.lack <= 1)
    return OkStatus();
  NPUC_ASSIGN_OR_RETURN(const Target target, Target::FromNameOrFile(options.target));
  const Precision precision = target.HasFloat() ? Precision::Fp16 : Precision::Int16;
  NPUC_ASSIGN_OR_RETURN(const auto ranked,
                        RankLayers(options, *kept.calibration.samples, c.file, c.report, diagnostics));
  std::map<std::string, Precision> best;
  double least = alone.total;
  AccuracyProbe::Result reached = alone;
  // The shortest list that is enough, by bisection; first whether the whole is.
  size_t lo = 0, hi = ranked.size();
  for (size_t count = hi; hi > lo && count > lo; count = lo + (hi - lo) / 2) {
    kept.raised.clear();
    for (size_t i = 0; i < count; ++i)
      for (const std::string &id : ranked[i])
        kept.raised[id] = precision;
    DiagnosticEngine quiet;
    NPUC_ASSIGN_OR_RETURN(const Compilation tried, CompileChanged(options, nullptr, {}, kept, quiet, progress));
    NPUC_ASSIGN_OR_RETURN(const AccuracyProbe::Result r, probe->Measure(tried.file, options));
    const bool enough = r.lack <= 1;
    if (enough || r.total < 0.8 * least) { // worth its cycles
      least = enough ? 0 : r.total;
      best = kept.raised;
      reached = r;
    }
    if (enough)
      hi = count;
    else if (count == ranked.size())
      break;
    else
      lo = count;
  }
  kept.raised = best;
  if (best.empty())
    return OkStatus();
  DiagnosticEngine quiet;
  std::vector<std::string> warnings = std::move(c.report.warnings);
  NPUC_ASSIGN_OR_RETURN(c, CompileChanged(options, nullptr, try_change, kept, quiet, progress));
  c.report.warnings = std::move(warnings);
  const std::string why = fmt::format(
      "in 8 bits output '{}' is too far from the float model: {:.4f} on calibration samples, {:.4f} with this layer "
      "and others raised to {}",
      alone.output, alone.agreement, reached.agreement, Name(precision));
  for (auto &row : c.report.quantization.kept_float)
    if (best.count(row.node))
      row.why = why;
  diagnostics.Note(fmt::format("{} nodes are {} instead of int8: {}", best.size(), Name(precision), why));
  return OkStatus();
}

} // namespace

StatusOr<Compilation> Compile(const CompilerOptions &options, DiagnosticEngine &diagnostics,
                              const ProgressFn &progress) {
  // Advice compiles changed models; whoever turns optimisation down or bisects passes does not want it.
  report::TryFn try_change;
  Kept kept;
  if (options.opt_level >= 2 && !options.no_report && options.pass_limit == INT64_MAX &&
      options.rewrite_limit == INT64_MAX) {
    kept.copies = std::make_shared<std::map<uint64_t, Tensor>>();
    try_change = [&](const report::WhatIf &change) -> StatusOr<report::Answer> {
      CompilerOptions changed = options;
      if (!change.outputs.empty())
        changed.outputs = change.outputs;
      changed.input_shapes.insert(changed.input_shapes.end(), change.input_shapes.begin(), change.input_shapes.end());
      changed.dump_ir.clear();
      changed.print_after.clear();
      changed.time_passes = changed.verify_each = false;
      DiagnosticEngine quiet;
      NPUC_ASSIGN_OR_RETURN(Compilation c, CompileChanged(changed, &change, {}, kept, quiet, {}));
      return report::Answer{std::move(c.report), ShortCommand(changed)};
    };
  }
  NPUC_ASSIGN_OR_RETURN(Compilation c, CompileChanged(options, nullptr, try_change, kept, diagnostics, progress));
  if (kept.calibration.samples && options.precision != Precision::Int16 && options.opt_level > 0 &&
      options.quant_config.empty() && options.pass_limit == INT64_MAX && options.rewrite_limit == INT64_MAX)
    NPUC_RETURN_IF_ERROR(RaiseWhereNeeded(options, kept, c, try_change, diagnostics, progress));
  if (options.gates.min_cosine) {
    NPUC_ASSIGN_OR_RETURN(const Accuracy a,
                          MeasureAccuracy(options, c.file, kept.calibration.samples.get(), diagnostics, progress));
    c.report.quantization.cosine = a.cosine;
    if (a.cosine < 1)
      diagnostics.Note(
          fmt::format("the least cosine is {:.6g}: output '{}', sample '{}'", a.cosine, a.output, a.sample));
  }
  return c;
}

} // namespace npuc
