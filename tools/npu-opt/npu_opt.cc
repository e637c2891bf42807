// npu-opt: runs passes on IR text (or on an imported model) and prints the result. What pass tests are written with,
// and what a reproducer's command line calls.
#include <cstdio>

#include "backend/lower/registry.h"
#include "compiler/onnx/import.h"
#include "compiler/ops/infer.h"
#include "compiler/pass/eval_compare.h"
#include "compiler/pass/pass_manager.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/thread_pool.h"
#include "compiler/target/target.h"
#include "passes/pipelines.h"
#include "tools/common/model_flags.h"

namespace npuc {
namespace {

struct Options {
  std::string input, output, passes, pipeline, target = "edge-2t", precision = "auto", io = "float", quant_config;
  std::vector<std::string> deny_ops, preferred_ops, tiles, disabled, print_after;
  bool list_passes = false, no_data = false, no_verify = false, infer = false, remarks = false, counters = false,
       have_samples = false;
  bool eval_each = false;
  EvalCompareOptions eval;
  int threads = 1;
  ImportOptions import;
  PassOptions pass_options;
  PassManagerOptions manager;
  int64_t rewrite_limit = INT64_MAX;
};

StatusOr<std::string> ReadInput(const std::string &path) {
  if (path != "-") {
    NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    return std::string(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  }
  std::string text;
  char buffer[1 << 16];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, stdin))
    text.append(buffer, n);
  return text;
}

std::string_view BaseName(std::string_view path) {
  if (path == "-")
    return "<stdin>";
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

StatusOr<std::unique_ptr<Module>> Load(const Options &o, DiagnosticEngine &diagnostics) {
  if (std::string_view(o.input).ends_with(".onnx"))
    return ImportModel(o.input, o.import, diagnostics);
  NPUC_ASSIGN_OR_RETURN(const std::string text, ReadInput(o.input));
  return ParseModule(text, BaseName(o.input));
}

Status Resolve(Options &o) {
  const auto precision = ParsePrecision(o.precision);
  if (!precision)
    return Error("E0501", fmt::format("--precision: '{}' is not one of auto, fp16, int8, int16, fp32", o.precision));
  o.pass_options.precision = *precision;
  o.pass_options.have_samples = o.have_samples;
  o.pass_options.native_io = o.io == "native";
  for (const std::string &s : o.deny_ops) {
    NPUC_ASSIGN_OR_RETURN(OpSelector selector, ParseOpSelector(s));
    o.pass_options.deny_ops.push_back(std::move(selector));
  }
  for (const std::string &s : o.preferred_ops) {
    NPUC_ASSIGN_OR_RETURN(OpSelector selector, ParseOpSelector(s));
    o.pass_options.preferred_ops.push_back(std::move(selector));
  }
  for (const std::string &s : o.tiles) {
    const size_t eq = s.rfind('=');
    int64_t h = 0, w = 0;
    char end = 0;
    if (eq == std::string::npos || std::sscanf(s.c_str() + eq + 1, "%ldx%ld%c", &h, &w, &end) != 2 || h <= 0 || w <= 0)
      return Error("E0501", fmt::format("--tile: found '{}', expected ID=HxW", s));
    o.pass_options.tiles[s.substr(0, eq)] = {h, w};
  }
  o.manager.disabled = o.disabled;
  o.manager.print_after = o.print_after;
  o.manager.target_name = o.target;
  return OkStatus();
}

int Run(Options &o, const cli::Console &console) {
  if (o.list_passes) {
    std::string text;
    for (const Pass &p : AllPasses())
      text += fmt::format("{:<32} {}\n", p.name, p.doc);
    return console.Out(text);
  }
  if (o.input.empty())
    return console.UsageError("no input (a file of IR text, a model, or - for stdin)");
  if (Status s = Resolve(o); !s.ok()) {
    console.Fail(s);
    return cli::kUsage;
  }
  auto target = Target::FromNameOrFile(o.target);
  if (!target.ok())
    return console.Fail(target.status());
  auto pipeline = ParsePipeline(o.passes);
  if (!pipeline.ok()) {
    console.Fail(pipeline.status());
    return cli::kUsage;
  }
  DiagnosticEngine diagnostics;
  if (o.pipeline == "default")
    *pipeline = DefaultPipeline(o.pass_options);
  if (o.pipeline == "simplify")
    *pipeline = SimplifyPipeline();
  auto module = Load(o, diagnostics);
  if (!module.ok()) {
    console.PrintAll(diagnostics);
    return console.Fail(module.status(), BaseName(o.input));
  }
  if (o.infer)
    if (Status s = InferShapes((*module)->main(), &diagnostics); !s.ok())
      return console.Fail(s, BaseName(o.input));
  if (!o.no_verify)
    if (Status s = Verify(**module); !s.ok())
      return console.Fail(s, BaseName(o.input));

  if (!o.quant_config.empty()) {
    auto config = ReadQuantConfig(o.quant_config, **module);
    if (!config.ok())
      return console.Fail(config.status());
    o.pass_options.quant_config = *std::move(config);
  }
  ThreadPool threads(o.threads);
  PassContext ctx(*target, diagnostics);
  ctx.options = o.pass_options;
  ctx.threads = &threads;
  ctx.npu = &lower::ReferenceNpuOps();
  ctx.rewrite_limit = o.rewrite_limit;
  if (o.eval_each) {
    o.eval.threads = &threads;
    o.manager.eval_each = [&](std::string_view, const Module &before, const Module &after) {
      return CompareByEvaluation(before, after, o.eval);
    };
  }
  const Status status = RunPasses(**module, *pipeline, ctx, o.manager);
  console.PrintAll(diagnostics);
  if (!status.ok())
    return console.Fail(status, BaseName(o.input));
  if (diagnostics.ErrorCount())
    return cli::kBadInput;

  std::string text = Print(**module, !o.no_data);
  if (o.remarks)
    for (const Remark &r : ctx.remarks())
      text += fmt::format("// remark: {}: {}: {}\n", r.pass, r.node, r.message);
  if (o.counters)
    for (const auto &[name, count] : ctx.counters())
      text += fmt::format("// {}: {}\n", name, count);
  if (o.output.empty() || o.output == "-")
    return console.Out(text);
  if (Status s = WriteFile(o.output, text); !s.ok())
    return console.Fail(s, o.output);
  return cli::kDone;
}

int Main(int argc, char **argv) {
  cli::Console console("npu-opt");
  CLI::App app("Runs passes on IR text and prints the result.", "npu-opt");
  Options o;
  cli::AddCommonFlags(app, console);
  app.add_option("input", o.input, "IR text, or a model (.onnx); - for text on stdin")->type_name("FILE");
  app.add_option("-o", o.output, "Where the result goes (default: stdout)")->type_name("FILE");
  app.add_option("--passes", o.passes, "Passes to run, in order")->type_name("A,B,...");
  app.add_option("--pipeline", o.pipeline, "Run npuc's passes (default) or the first part of them (simplify)")
      ->check(CLI::IsMember({"default", "simplify"}))
      ->excludes("--passes");
  app.add_flag("--list-passes", o.list_passes, "Print every pass");
  cli::AddTargetFlag(app, o.target);
  cli::AddPartFlags(app, o.import);
  app.add_flag("--infer", o.infer, "Infer types before the first pass");
  app.add_flag("--no-verify", o.no_verify, "Don't verify the input");
  app.add_flag("--no-data", o.no_data, "Print big constants as their hash");
  app.add_flag("--remarks", o.remarks, "Print the passes' remarks behind the result, as comments");
  app.add_flag("--counters", o.counters, "Print the passes' counters behind the result, as comments");

  app.add_flag("--verify-each", o.manager.verify_each,
               "Verify the IR after each pass, and hold 'changed' against a hash");
  app.add_flag("--eval-each", o.eval_each, "Interpret the IR before and after each pass on random inputs, and compare");
  app.add_option("--eval-seed", o.eval.seed, "Of the random inputs")->type_name("N")->capture_default_str();
  app.add_option("--eval-rtol", o.eval.rtol, "Tolerance of --eval-each, of the output's greatest value")
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--eval-atol", o.eval.atol, "Absolute tolerance of --eval-each")
      ->type_name("X")
      ->capture_default_str();
  cli::AddRepeatable(app, "--print-after", o.print_after, "Print the IR after this pass ('all': after each) on stderr")
      ->type_name("NAME");
  app.add_option("--dump-ir", o.manager.dump_ir_dir, "Write the IR after each pass that changed it into this folder")
      ->type_name("DIR");
  app.add_option("--stop-after", o.manager.stop_after, "Stop after this pass")->type_name("NAME");
  cli::AddRepeatable(app, "--disable-pass", o.disabled, "Leave this pass out")->type_name("NAME");
  app.add_option("--pass-limit", o.manager.pass_limit, "Run so many passes only")->type_name("N");
  app.add_option("--rewrite-limit", o.rewrite_limit, "Allow so many optional rewrites only")->type_name("N");
  app.add_flag("--time-passes", o.manager.time_passes, "Print a table of the passes' times on stderr");
  app.add_option("-j", o.threads, "Threads (0: all processors)")->type_name("N")->capture_default_str();

  app.add_option("--precision", o.precision, "auto, fp16, int8, int16, fp32")->capture_default_str();
  app.add_option("--quant-config", o.quant_config, "Ranges and precisions for quantize-calibrated")->type_name("FILE");
  app.add_flag("--have-samples", o.have_samples, "As if --calib had been given to npuc");
  app.add_option("-O", o.pass_options.opt_level, "Effort, 0 to 3")->check(CLI::Range(0, 3))->capture_default_str();
  app.add_option("--max-fusion-chain", o.pass_options.max_fusion_chain, "Most ONNX nodes in one fused node")
      ->capture_default_str();
  cli::AddRepeatable(app, "--deny-op", o.deny_ops, "Operators that go to the host: Resize(mode=cubic)")
      ->type_name("OP");
  cli::AddRepeatable(app, "--prefer-op", o.preferred_ops, "Operators that should be on the NPU")->type_name("OP");
  cli::AddRepeatable(app, "--deny-node", o.pass_options.deny_nodes, "Nodes that go to the host")->type_name("ID");
  cli::AddRepeatable(app, "--tile", o.tiles, "Tile of a node")->type_name("ID=HxW");
  app.add_option("--io", o.io, "native or float")->check(CLI::IsMember({"native", "float"}))->capture_default_str();
  return cli::Main(app, argc, argv, console, [&] { return Run(o, console); });
}

} // namespace
} // namespace npuc

int main(int argc, char **argv) {
  return npuc::Main(argc, argv);
}
