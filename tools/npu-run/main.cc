// npu-run: executes a model.bin.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "compiler/support/atomic_file.h"
#include "compiler/support/json.h"
#include "runtime_stub/profile.h"
#include "tools/common/flags.h"
#include "tools/npu-run/files.h"

namespace npuc::run {
namespace {

// Captured tensors as files, with an index that says what they are.
class Captures {
public:
  explicit Captures(std::string dir) : dir_(std::move(dir)), writer_(&index_) { writer_.BeginArray(); }
  Status Add(const container::Capture &c, const runtime::Memory &memory) {
    const std::string file = names_.Of(c.name);
    NPUC_RETURN_IF_ERROR(WriteNamed(dir_ + "/" + file, runtime::TensorOfView(c.view, memory, c.type), c.type, c.name));
    writer_.BeginLine()
        .BeginObject()
        .Field("name", c.name)
        .Field("file", file + ".npy")
        .Field("type", c.type.ToString());
    if (c.type.is_quantized()) {
      std::vector<double> scales(c.type.quant()->scales.begin(), c.type.quant()->scales.end());
      writer_.Field("scales", scales)
          .Field("zero_points", c.type.quant()->zero_points)
          .Field("axis", c.type.quant()->axis);
    }
    writer_.EndObject();
    return OkStatus();
  }
  Status Finish() {
    writer_.EndArray();
    return WriteFile(dir_ + "/captures.json", index_ + "\n");
  }

private:
  std::string dir_, index_;
  JsonWriter writer_;
  FileNames names_;
};

std::string Summary(const std::string &name, const EvalValue &v) {
  if (const EvalSequence *s = v.sequence())
    return fmt::format("{}: sequence of {}\n", name, s->size());
  const Tensor *t = v.tensor();
  if (!t)
    return fmt::format("{}: {}\n", name, v.has_value() ? "map" : "empty");
  std::string line = fmt::format("{}: {}{}", name, npuc::Name(t->dtype()), ToString(t->dims()));
  if (t->dtype() != DType::String && !IsComplex(t->dtype()) && t->num_elements() > 0) {
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      const double e = t->AsDouble(i);
      lo = std::min(lo, e);
      if (e > hi)
        hi = e, at = i;
      sum += e;
    }
    line += fmt::format("  min {:.6g}, max {:.6g} at {}, mean {:.6g}", lo, hi, at,
                        sum / static_cast<double>(t->num_elements()));
  }
  return line + "\n";
}

StatusOr<int> RunModel(const Options &o, const cli::Console &console) {
  DiagnosticEngine diagnostics;
  cli::Progress progress(console);
  progress.Update("loading " + o.model);
  const auto fail = [&](const Status &s) -> Status {
    progress.Stop();
    console.PrintAll(diagnostics);
    return s;
  };
  auto model = runtime::Model::Load(o.model, &diagnostics);
  if (!model.ok())
    return fail(model.status());
  runtime::Session session(*model, {.threads = o.threads, .checked = o.checked});
  if (Status s = LoadInputs(o, session, diagnostics); !s.ok())
    return fail(s);

  std::optional<Captures> captures;
  if (!o.capture.empty()) {
    if (Status s = MakeFolder(o.capture); !s.ok())
      return fail(s);
    captures.emplace(o.capture);
    session.set_capture([&](const container::Capture &c, const runtime::Memory &m) { return captures->Add(c, m); });
  }
  std::vector<double> seconds;
  for (int i = 0; i < o.repeat; ++i) {
    progress.Update(o.repeat > 1 ? fmt::format("run {} of {}", i + 1, o.repeat) : "running");
    const auto start = std::chrono::steady_clock::now();
    if (Status s = session.Run(); !s.ok())
      return fail(AtFile(s, o.model));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (captures) {
      if (Status s = captures->Finish(); !s.ok())
        return fail(s);
      captures.reset();
      session.set_capture(nullptr);
    }
  }
  progress.Stop();
  console.PrintAll(diagnostics);

  NPUC_RETURN_IF_ERROR(WriteOutputs(o, session));
  for (const auto &[path, text] :
       {std::pair(o.profile, &runtime::ProfileJson), std::pair(o.trace, &runtime::TraceJson)}) {
    if (path.empty())
      continue;
    if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
      NPUC_RETURN_IF_ERROR(MakeFolder(folder.string()));
    NPUC_RETURN_IF_ERROR(WriteFile(path, text(**model, session.step_seconds())));
  }
  if (!console.quiet) {
    std::string text;
    if (o.expect.empty() || console.verbosity > 0)
      for (size_t i = 0; i < (*model)->outputs().size(); ++i)
        text += Summary((*model)->outputs()[i].name, session.Output(static_cast<int>(i)));
    if (o.repeat > 1 || console.verbosity > 0) {
      std::sort(seconds.begin(), seconds.end());
      const runtime::Profile p = runtime::ModelledProfile(**model);
      text += fmt::format(
          "executed here in {:.3f} ms (median of {}, best {:.3f} ms); modelled on {}: {} cycles, {:.3f} ms\n",
          seconds[seconds.size() / 2] * 1e3, seconds.size(), seconds[0] * 1e3, (*model)->file().target_name, p.cycles,
          p.milliseconds);
    }
    if (int code = console.Out(text))
      return code;
  }
  if (o.expect.empty())
    return cli::kDone;
  NPUC_ASSIGN_OR_RETURN(const bool good, CompareOutputs(o, session, console));
  return good ? cli::kDone : cli::kGateFailed;
}

} // namespace
} // namespace npuc::run

int main(int argc, char **argv) {
  using namespace npuc;
  cli::Console console("npu-run");
  run::Options o;
  CLI::App app("Executes an NPU binary bit for bit.", "npu-run");
  cli::AddCommonFlags(app, console);
  app.add_option("model", o.model, "model.bin")->required();
  cli::AddRepeatable(app, "--input", o.inputs,
                     "[NAME=]FILE: .npy, .npz, ONNX .pb, PNG or JPEG, or raw elements; without NAME, inputs in order")
      ->type_name("[NAME=]FILE");
  app.add_option("--preprocess", o.preprocess, "How an image becomes the input")->type_name("FILE.yaml");
  CLI::Option *seed =
      app.add_option("--random", o.seed, "Fill inputs that are not given with random values")->type_name("SEED");
  app.add_option("--output-dir", o.output_dir, "Write outputs there, as NAME.npy")->type_name("DIR");
  app.add_option("--output-format", o.output_format, "npy, or pb: output_K.pb")->check(CLI::IsMember({"npy", "pb"}));
  cli::AddRepeatable(app, "--expect", o.expect, "[NAME=]FILE: compare an output; exit code 3 where it differs")
      ->type_name("[NAME=]FILE");
  CLI::Option *rtol =
      app.add_option("--rtol", o.rtol, "Relative tolerance of --expect")->capture_default_str()->check(cli::Number(0));
  CLI::Option *atol =
      app.add_option("--atol", o.atol, "Absolute tolerance of --expect")->capture_default_str()->check(cli::Number(0));
  app.add_option("--threads", o.threads, "Threads; 0: all processors. Results never depend on it")
      ->check(cli::Number(0, 1024));
  app.add_option("--repeat", o.repeat, "Run N times and say how long this machine took")
      ->type_name("N")
      ->check(cli::Number(1));
  app.add_flag("--checked", o.checked, "Look for uninitialised reads, stray writes and indices outside tables");
  app.add_option("--capture", o.capture, "Write intermediate tensors there by ONNX name, from the real stream")
      ->type_name("DIR");
  app.add_option("--profile", o.profile, "Write modelled cycles per layer and measured host steps")
      ->type_name("FILE.json");
  app.add_option("--trace", o.trace, "Write a Chrome trace of the modelled run, for Perfetto")->type_name("FILE.json");
  return cli::Main(app, argc, argv, console, [&]() -> int {
    o.random = seed->count() > 0;
    if (o.expect.empty() && (rtol->count() > 0 || atol->count() > 0))
      return console.UsageError("--rtol and --atol go with --expect");
    auto code = run::RunModel(o, console);
    return code.ok() ? *code : console.Fail(code.status());
  });
}
