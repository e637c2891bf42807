// npuc: compiles an ONNX model. A thin main over compiler/driver.
#include "compiler/driver/compile.h"

#include "backend/report/render.h"
#include "compiler/target/target.h"
#include "tools/common/flags.h"
#include "tools/common/gate_flags.h"

namespace npuc {
namespace {

int ListTargets() {
  std::string out;
  for (const std::string &name : Target::PresetNames()) {
    auto target = Target::FromPreset(name);
    NPUC_CHECK(target.ok(), "preset {}: {}", name, Message(target.status()));
    out += fmt::format("{:16} {}{}\n", name, target->description, name == kDefaultTarget ? " [default]" : "");
  }
  return cli::WriteStdout(out) ? cli::kDone : cli::kBadInput;
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
    if (!cli::WriteStdout(report::RenderText(artifact->report, console.stdout_color())))
      return console.Fail(AtFile(Error("E0102", "cannot write to stdout"), "<stdout>"));
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

} // namespace
} // namespace npuc

int main(int argc, char **argv) {
  using namespace npuc;
  cli::Console console("npuc");
  CompilerOptions o;
  bool list_targets = false;
  CLI::App app("Compiles an ONNX model into a binary for the reference NPU, with a report of what runs where and why.",
               "npuc");
  cli::AddCommonFlags(app, console);
  app.add_option("model", o.model, "The ONNX file")->type_name("MODEL.onnx");
  app.add_option("-o,--output-file", o.output, "Default: the model's name with .bin")->type_name("FILE");
  app.add_option("--target", o.target, "A preset's name or a YAML file")
      ->type_name("NAME|FILE.yaml")
      ->capture_default_str();
  app.add_flag("--list-targets", list_targets, "Print the presets");
  app.add_option_function<std::string>(
         "--precision", [&](const std::string &name) { o.precision = *ParsePrecision(name); },
         "The wish for float parts: auto (fp16, or int8 with --calib), fp16, int8, int16, fp32 (all on the host)")
      ->type_name("P")
      ->check(CLI::IsMember({"auto", "fp16", "int8", "int16", "fp32"}));

  const char *quant = "Quantisation";
  cli::AddRepeatable(app, "--calib", o.calib,
                     "Samples: .npy, .npz, .pb, images or a folder; [INPUT=]PATH; or statistics of npu-quant calibrate")
      ->type_name("PATH")
      ->group(quant);
  app.add_option("--calib-method", o.calib_method, "minmax, moving-average, percentile, entropy or mse")
      ->type_name("M")
      ->check(CLI::IsMember({"minmax", "moving-average", "percentile", "entropy", "mse"}))
      ->group(quant);
  app.add_option("--quant-config", o.quant_config, "Manual scales and precision node by node")
      ->type_name("FILE.yaml")
      ->group(quant);
  app.add_option("--preprocess", o.preprocess, "How an image becomes the input")->type_name("FILE.yaml")->group(quant);

  const char *shape = "Shapes and parts";
  cli::AddRepeatable(app, "--dim", o.dims, "Fix a symbolic dim")->type_name("NAME=N")->group(shape);
  cli::AddRepeatable(app, "--input-shape", o.input_shapes, "Fix an input's shape")
      ->type_name("NAME=1x3x224x224")
      ->group(shape);
  cli::AddRepeatable(app, "--bind", o.binds, "Make an input a constant")
      ->type_name("NAME=VALUE|NAME=@FILE")
      ->group(shape);
  cli::AddRepeatable(app, "--output", o.outputs, "Compile only up to these tensors")->type_name("TENSOR")->group(shape);
  cli::AddRepeatable(app, "--input", o.inputs, "Compile only from these tensors on")->type_name("TENSOR")->group(shape);

  const char *place = "Where nodes run";
  app.add_option("--ops", o.ops_file, "Operator lists: preferred_ops, avoid_ops")->type_name("FILE.yaml")->group(place);
  cli::AddRepeatable(app, "--deny-op", o.deny_ops, "Keep an operator off the NPU: Resize, Transpose(bytes>1MiB)")
      ->type_name("OP")
      ->group(place);
  cli::AddRepeatable(app, "--deny-node", o.deny_nodes, "Keep a node off the NPU")->type_name("ID")->group(place);
  app.add_option_function<std::string>(
         "--io", [&](const std::string &io) { o.native_io = io == "native"; },
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

  app.add_option("--report", o.report_prefix, "Prefix of the report's files")->type_name("PREFIX");
  app.add_flag("--no-report", o.no_report, "Write the binary alone");
  app.add_option("-j", o.jobs, "Threads; default: the machine's processors")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));

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

  return cli::Main(app, argc, argv, console, [&]() -> int {
    if (list_targets)
      return ListTargets();
    if (o.model.empty())
      return console.UsageError("no model is given");
    return Run(o, console);
  });
}
