// npuc: compiles an ONNX model. A thin main over compiler/driver.
#include "compiler/driver/compile.h"

#include <algorithm>

#include "backend/report/render.h"
#include "compiler/target/target.h"
#include "tools/common/flags.h"
#include "tools/common/gate_flags.h"
#include "tools/common/model_flags.h"
#include "tools/npuc/manifest.h"

namespace npuc {
namespace {

int ListTargets(const cli::Console &console) {
  std::string out;
  for (const std::string &name : Target::PresetNames()) {
    auto target = Target::FromPreset(name);
    NPUC_CHECK(target.ok(), "preset {}: {}", name, Message(target.status()));
    out += fmt::format("{:16} {}{}\n", name, target->description, name == kDefaultTarget ? " [default]" : "");
  }
  return console.Out(out);
}

int Run(const CompilerOptions &options, const cli::Console &console) {
  DiagnosticEngine diagnostics;
  cli::Progress progress(console);
  auto artifact = CompileToFiles(options, diagnostics, [&](std::string what) { progress.Update(std::move(what)); });
  progress.Stop();
  console.PrintAll(diagnostics);
  if (!artifact.ok())
    return console.Fail(artifact.status(), options.model);
  if (!console.quiet) {
    if (int code = console.Out(report::RenderText(artifact->report, console.stdout_color())))
      return code;
    std::string wrote = "wrote " + artifact->paths.binary;
    if (!artifact->paths.json.empty())
      wrote += ", " + artifact->paths.json + ", " + artifact->paths.html;
    console.Say(wrote);
  }
  bool passed = true;
  for (const report::GateRow &gate : artifact->report.gates)
    if (!gate.passed) {
      passed = false;
      console.Print({.severity = Severity::error,
                     .code = {},
                     .file = options.model,
                     .node = {},
                     .op = {},
                     .message = fmt::format("gate --{}: {}", gate.gate, gate.message),
                     .help = {}});
    }
  return passed ? cli::kDone : cli::kGateFailed;
}

// Everything that says what is compiled and how: the command line's and a manifest row's.
void AddCompilerFlags(CLI::App &app, CompilerOptions &o) {
  app.add_option("model", o.model, "The ONNX file")->type_name("MODEL.onnx");
  app.add_option("-o,--output-file", o.output, "Default: the model's name with .bin")
      ->type_name("FILE")
      ->check(cli::SomeName());
  cli::AddTargetFlag(app, o.target);
  app.add_option_function<std::string>(
         "--precision", [&o](const std::string &name) { o.precision = *ParsePrecision(name); },
         "The wish for float parts: auto (fp16, or int8 with --calib), fp16, int8, int16, fp32 (all on the host)")
      ->type_name("P")
      ->check(CLI::IsMember({"auto", "fp16", "int8", "int16", "fp32"}));

  const char *quant = "Quantisation";
  cli::AddRepeatable(app, "--calib", o.calib,
                     "Samples: .npy, .npz, .pb, images or a folder; [INPUT=]PATH; or statistics of npu-quant calibrate")
      ->type_name("PATH")
      ->group(quant);
  app.add_option("--calib-method", o.calib_method, "minmax, moving-average, percentile, entropy or mse (default)")
      ->type_name("M")
      ->check(CLI::IsMember({"minmax", "moving-average", "percentile", "entropy", "mse"}))
      ->group(quant);
  app.add_option("--quant-config", o.quant_config, "Manual scales and precision node by node")
      ->type_name("FILE.yaml")
      ->group(quant);
  app.add_option("--preprocess", o.preprocess, "How an image becomes the input")->type_name("FILE.yaml")->group(quant);

  cli::AddPartFlags(app, o);

  const char *place = "Where nodes run";
  app.add_option("--ops", o.ops_file, "Operator lists: preferred_ops, avoid_ops")->type_name("FILE.yaml")->group(place);
  cli::AddRepeatable(app, "--deny-op", o.deny_ops, "Keep an operator off the NPU: Resize, Transpose(bytes>1MiB)")
      ->type_name("OP")
      ->group(place);
  cli::AddRepeatable(app, "--deny-node", o.deny_nodes, "Keep a node off the NPU")->type_name("ID")->group(place);
  app.add_option_function<std::string>(
         "--io", [&o](const std::string &io) { o.native_io = io == "native"; },
         "float: inputs and outputs keep the model's types; native: the NPU's dtype and layout")
      ->type_name("KIND")
      ->check(CLI::IsMember({"native", "float"}))
      ->group(place);

  const char *effort = "Effort";
  app.add_option("-O", o.opt_level, "0 to 3")
      ->type_name("N")
      ->check(CLI::Range(0, 3))
      ->capture_default_str()
      ->group(effort);
  app.add_option("--max-fusion-chain", o.max_fusion_chain, "Most ONNX nodes in one fused layer")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(effort);
  cli::AddRepeatable(app, "--disable-pass", o.disabled_passes, "Leave a pass out")->type_name("NAME")->group(effort);
  cli::AddRepeatable(app, "--tile", o.tiles, "Output tile of a layer")->type_name("ID=HxW")->group(effort);

  cli::AddGateFlags(app, o.gates);

  app.add_option("--report", o.report_prefix, "Prefix of the report's files")
      ->type_name("PREFIX")
      ->check(cli::SomeName());
  app.add_flag("--no-report", o.no_report, "Write the binary alone");
  cli::AddJobsFlag(app, o.jobs);

  const char *debug = "Looking into the compiler";
  app.add_flag("--time-passes", o.time_passes, "A table of passes and seconds")->group(debug);
  app.add_option("--dump-ir", o.dump_ir, "The IR after each pass that changed it")->type_name("DIR")->group(debug);
  cli::AddRepeatable(app, "--print-after", o.print_after, "Print the IR after a pass, or all")
      ->type_name("NAME")
      ->group(debug);
  app.add_flag("--verify-each", o.verify_each, "Verify the IR after each pass")->group(debug);
  app.add_option("--pass-limit", o.pass_limit, "Run only the first N passes")->type_name("N")->group(debug);
  app.add_option("--rewrite-limit", o.rewrite_limit, "Allow only the first N optional rewrites")
      ->type_name("N")
      ->group(debug);
}

// A row of a manifest is checked by the flags themselves.
std::string WrongArguments(const std::vector<std::string> &args) {
  CLI::App app;
  CompilerOptions o;
  AddCompilerFlags(app, o);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError &e) {
    return e.what();
  }
  if (auto paths = CheckOptions(o); !paths.ok())
    return std::string(Message(paths));
  return "";
}

FlagKind KindOf(const CLI::App &app, std::string_view name) {
  for (const char *ours : {"model", "output-file", "j", "quiet", "verbose", "color", "help", "version"})
    if (name == ours)
      return FlagKind::Unknown; // what a row says otherwise, or the whole run
  const CLI::Option *option = app.get_option_no_throw((name.size() == 1 ? "-" : "--") + std::string(name));
  if (!option)
    return FlagKind::Unknown;
  return option->get_expected_max() == 0                                        ? FlagKind::Switch
         : option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ? FlagKind::Repeated
                                                                                : FlagKind::Value;
}

int CompileManifest(const CLI::App &app, const ManifestOptions &options, const cli::Console &console) {
  static constexpr std::string_view kAlong[] = {"--manifest", "--only",  "--shard",   "--list-rows", "--output-dir",
                                                "-j",         "--quiet", "--verbose", "--color"};
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && std::none_of(std::begin(kAlong), std::end(kAlong), [&](std::string_view name) {
          return option->check_name(std::string(name));
        }))
      return console.UsageError(
          fmt::format("{} does not go with --manifest; write it into the manifest, in a row or under defaults",
                      option->get_name()));
  std::vector<std::string> names = {"name", "model", "output"};
  CLI::App flags;
  CompilerOptions unused;
  AddCompilerFlags(flags, unused);
  for (const CLI::Option *option : flags.get_options())
    for (const std::string &name : option->get_lnames())
      if (KindOf(flags, name) != FlagKind::Unknown)
        names.push_back(name);
  return RunManifest(
      options, [&](std::string_view name) { return KindOf(flags, name); }, names, WrongArguments, console);
}

} // namespace
} // namespace npuc

int main(int argc, char **argv) {
  using namespace npuc;
  cli::Console console("npuc");
  CompilerOptions o;
  ManifestOptions manifest;
  bool list_targets = false;
  CLI::App app("Compiles an ONNX model into a binary for the reference NPU, with a report of what runs where and why.",
               "npuc");
  cli::AddCommonFlags(app, console);
  AddCompilerFlags(app, o);
  app.add_flag("--list-targets", list_targets, "Print the presets");

  const char *several = "Several models";
  app.add_option("--manifest", manifest.path,
                 "Compile every row of a manifest, -j rows at a time: one table, one exit code")
      ->type_name("FILE.yaml")
      ->group(several);
  app.add_option("--output-dir", manifest.output_dir, "Where the rows' files go; default: the manifest's folder")
      ->type_name("DIR")
      ->group(several);
  cli::AddRepeatable(app, "--only", manifest.only, "This row only")->type_name("ROW")->group(several);
  app.add_option("--shard", manifest.shard, "Every Nth row from the Ith on, for the Ith of N jobs")
      ->type_name("I/N")
      ->group(several);
  app.add_flag("--list-rows", manifest.list, "Print the rows' names")->group(several);

  return cli::Main(app, argc, argv, console, [&]() -> int {
    if (list_targets)
      return ListTargets(console);
    if (!manifest.path.empty()) {
      manifest.jobs = o.jobs;
      return CompileManifest(app, manifest, console);
    }
    if (manifest.list || !manifest.only.empty() || !manifest.shard.empty() || !manifest.output_dir.empty())
      return console.UsageError("--output-dir, --only, --shard and --list-rows go with --manifest");
    if (o.model.empty())
      return console.UsageError("no model is given");
    return Run(o, console);
  });
}
