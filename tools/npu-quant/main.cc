// npu-quant: calibration apart from compilation, and what quantisation did to a model.
#include "tools/common/model_flags.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {
namespace {

// The flags that decide which graph is calibrated, as npuc has them.
void AddModelFlags(CLI::App &app, CompilerOptions &o) {
  app.add_option("model", o.model, "The ONNX file")->type_name("MODEL.onnx")->required();
  cli::AddRepeatable(app, "--calib", o.calib, "Samples: .npy, .npz, .pb, images or a folder; [INPUT=]PATH")
      ->type_name("PATH")
      ->required();
  app.add_option("--preprocess", o.preprocess, "How an image becomes the input")->type_name("FILE.yaml");
  cli::AddTargetFlag(app, o.target);
  cli::AddPartFlags(app, o);
  app.add_option("-O", o.opt_level, "0 to 3")->type_name("N")->check(CLI::Range(0, 3))->capture_default_str();
  cli::AddJobsFlag(app, o.jobs);
}

int Main(int argc, char **argv) {
  cli::Console console("npu-quant");
  CLI::App app("Calibrates models for quantisation and shows what it does to them.", "npu-quant");
  cli::AddCommonFlags(app, console);
  app.require_subcommand(1);
  app.fallthrough();
  // What the command given will do.
  std::function<StatusOr<int>()> run;
  auto command = [&](const char *name, const char *help, std::function<StatusOr<int>()> body) {
    CLI::App *sub = app.add_subcommand(name, help);
    sub->callback([&run, body = std::move(body)] { run = body; });
    return sub;
  };

  CalibrateCommand calibrate;
  CLI::App *sub = command("calibrate", "Statistics of a model's float tensors over samples, to a file",
                          [&] { return Calibrate(calibrate, console); });
  AddModelFlags(*sub, calibrate.options);
  sub->add_option("-o,--output-file", calibrate.output, "Default: the model's name with .npqs")->type_name("FILE");
  sub->add_option("--shard", calibrate.shard, "Only part I of N of the samples; merge puts the parts together")
      ->type_name("I/N");

  MergeCommand merge;
  sub =
      command("merge", "Shards become the file that one run would have written", [&] { return Merge(merge, console); });
  sub->add_option("files", merge.files, "Statistics files")->type_name("FILE.npqs")->required();
  sub->add_option("-o,--output-file", merge.output, "Where the merged statistics go")->type_name("FILE")->required();

  SelectCommand select;
  sub = command("select", "A calibration set spread over brightness and edge density",
                [&] { return Select(select, console); });
  sub->add_option("images", select.paths, "Images, or folders of them")->type_name("PATH")->required();
  sub->add_option("-n,--count", select.count, "How many")->check(cli::Number(1))->capture_default_str();
  sub->add_option("--seed", select.seed, "Another seed draws other images")->capture_default_str();
  sub->add_option("--buckets", select.buckets, "Buckets of brightness x edge density")
      ->type_name("BxE")
      ->capture_default_str();
  sub->add_option("-o,--output-dir", select.output, "Copy the chosen images there")->type_name("DIR");
  sub->add_option("--list", select.list, "Write the chosen paths there, one a line; -: stdout")->type_name("FILE");
  sub->add_option("--json", select.json, "Write buckets and choice there; -: stdout")->type_name("FILE");

  CompareCommand compare;
  sub = command("compare", "The float model against the binary's own run, tensor by tensor",
                [&] { return Compare(compare, console); });
  sub->add_option("model", compare.options.model, "The ONNX file")->type_name("MODEL.onnx")->required();
  sub->add_option("binary", compare.binary, "What npuc made of it")->type_name("MODEL.bin")->required();
  cli::AddRepeatable(*sub, "--input", compare.options.calib,
                     "What to run: .npy, .npz, .pb, images or a folder; [INPUT=]PATH")
      ->type_name("PATH")
      ->required();
  sub->add_option("--preprocess", compare.options.preprocess, "How an image becomes the input")->type_name("FILE.yaml");
  cli::AddRepeatable(*sub, "--dim", compare.options.dims, "Fix a symbolic dim, as for npuc")->type_name("NAME=N");
  cli::AddRepeatable(*sub, "--input-shape", compare.options.input_shapes, "Fix an input's shape, as for npuc")
      ->type_name("NAME=1x3x224x224");
  cli::AddRepeatable(*sub, "--bind", compare.options.binds, "Make an input a constant, as for npuc")
      ->type_name("NAME=VALUE|NAME=@FILE");
  sub->add_flag("--fake-quant", compare.fake_quant, "Also the model in float with every stored tensor rounded");
  sub->add_option("--threshold", compare.threshold, "Cosine below which the first tensor is marked")
      ->check(cli::Number(0, 1))
      ->capture_default_str();
  sub->add_option("--html", compare.html, "Write a self-contained page with histograms there")->type_name("FILE");
  sub->add_option("--json", compare.json, "Write the numbers there; -: stdout")->type_name("FILE");
  sub->add_option("-j", compare.options.jobs, "Threads; default: the machine's processors")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));

  SearchCommand search;
  sub = command("search", "Which layers have to leave 8 bits so that the outputs reach a cosine, at the least cost",
                [&] { return Search(search, console); });
  AddModelFlags(*sub, search.options);
  sub->add_option("--calib-method", search.options.calib_method, "minmax, percentile, entropy or mse")
      ->capture_default_str();
  sub->add_option("--quant-config", search.options.quant_config, "What to start from")->type_name("FILE.yaml");
  sub->add_option("--target-cosine", search.target_cosine, "Of the worst output")
      ->check(cli::Number(0, 1))
      ->capture_default_str();
  sub->add_option("-o,--output-file", search.output, "The quant-config")->type_name("FILE.yaml")->required();
  sub->add_option("--json", search.json, "Write the table there; -: stdout")->type_name("FILE");

  HistogramCommand histogram;
  sub = command("histogram", "Distributions and ranges from a statistics file",
                [&] { return Histogram(histogram, console); });
  sub->add_option("file", histogram.file, "Statistics of npu-quant calibrate")->type_name("FILE.npqs")->required();
  cli::AddRepeatable(*sub, "--tensor", histogram.tensors, "Only this one")->type_name("NAME");
  sub->add_option("--html", histogram.html, "Write a self-contained page with plots there")->type_name("FILE");
  sub->add_option("--json", histogram.json, "Write the numbers there; -: stdout")->type_name("FILE");

  return cli::Main(app, argc, argv, console, [&]() -> int {
    const StatusOr<int> code = run();
    return code.ok() ? *code : console.Fail(code.status());
  });
}

} // namespace
} // namespace npuc::quant

int main(int argc, char **argv) {
  return npuc::quant::Main(argc, argv);
}
