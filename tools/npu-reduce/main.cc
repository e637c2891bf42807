// npu-reduce: the smallest part of a model that still shows a fault, for bug reports.
#include <filesystem>

#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "tools/common/flags.h"
#include "tools/npu-reduce/reduce.h"

namespace npuc::reduce {
namespace {
namespace fs = std::filesystem;

struct Options {
  std::string input, output;
  PredicateOptions predicate;
};

bool IsOnnx(const std::string &path) {
  return fs::path(path).extension() != ".ir";
}

StatusOr<std::string> Run(Options o, const cli::Console &console) {
  if (o.output.empty()) {
    fs::path p(o.input);
    o.output = p.replace_extension(".reduced" + p.extension().string()).filename().string();
  }
  std::error_code error;
  if (fs::equivalent(o.input, o.output, error))
    return Error("E0501", fmt::format("'{}' would overwrite the input", o.output), "give another -o");
  NPUC_ASSIGN_OR_RETURN(const std::string original, ReadTextFile(o.input));
  NPUC_ASSIGN_OR_RETURN(std::unique_ptr<Subject> subject, IsOnnx(o.input) ? OpenOnnx(o.input) : OpenIr(o.input));
  o.predicate.suffix = IsOnnx(o.input) ? ".onnx" : ".ir";
  NPUC_ASSIGN_OR_RETURN(Predicate predicate, Predicate::Create(o.predicate));

  // The input itself, as this program writes it: what is not interesting at first has nothing to lose.
  const std::string command = fmt::format("{}", fmt::join(o.predicate.command, " "));
  switch (predicate.Judge({subject->Serialize()})[0]) {
  case Predicate::Verdict::Interesting:
    break;
  case Predicate::Verdict::CannotRun:
    return Error("E0501", fmt::format("'{}' cannot be run", command), "give a program behind --, by path or by name");
  case Predicate::Verdict::TimedOut:
    return Error("E0501", fmt::format("'{}' takes more than {:.6g} seconds on the input", command, o.predicate.timeout),
                 "give a longer --timeout; to look for a hang, let the command end it: timeout 10 ... ; test $? = 124");
  case Predicate::Verdict::Boring:
    return Error(
        "E0501",
        fmt::format("'{}' does not find what it looks for in the input: wanted is exit code {}{}", command,
                    o.predicate.exit_code,
                    o.predicate.match.empty() ? "" : fmt::format(" and '{}' in what it prints", o.predicate.match)),
        "try the command on the model by hand; the path of the model is its last argument, or stands for {}");
  }
  const size_t nodes = subject->num_nodes(), bytes = original.size();
  size_t small_bytes = 0;
  cli::Progress progress(console);
  ReduceOptions options;
  options.jobs = o.predicate.jobs;
  options.progress = [&](std::string text) { progress.Update(std::move(text)); };
  // The best so far is always there, whole: whoever has no patience stops the search.
  options.on_better = [&](const Subject &better) -> Status {
    const std::string text = better.Serialize();
    small_bytes = text.size();
    return WriteFile(o.output, text);
  };
  NPUC_RETURN_IF_ERROR(options.on_better(*subject));
  NPUC_ASSIGN_OR_RETURN(std::unique_ptr<Subject> best, Reduce(std::move(subject), predicate, options));
  progress.Stop();
  return fmt::format("{} nodes became {}, {} bytes became {}, in {} runs; wrote {}", nodes, best->num_nodes(), bytes,
                     small_bytes, predicate.runs(), o.output);
}

} // namespace
} // namespace npuc::reduce

int main(int argc, char **argv) {
  using namespace npuc;
  cli::Console console("npu-reduce");
  reduce::Options o;
  CLI::App app("Finds the smallest part of a model or of IR text in which a command still sees the fault.\n"
               "  npu-reduce model.onnx -o small.onnx -- ./still-fails.sh\n"
               "  npu-reduce model.onnx -o small.onnx --exit-code 4 -- npuc {} -o /dev/null --no-report\n"
               "The command gets the path of a candidate as its last argument, or wherever {} stands, and says with "
               "exit code 0 that it is interesting (still fails), as with creduce and llvm-reduce.",
               "npu-reduce");
  cli::AddCommonFlags(app, console);
  app.add_option("input", o.input, "A model, or IR text (.ir)")->required()->type_name("MODEL.onnx|FILE.ir");
  app.add_option("-o,--output-file", o.output, "Default: NAME.reduced.onnx; after every improvement the best so far")
      ->type_name("FILE");
  app.add_option("--exit-code", o.predicate.exit_code,
                 "What the command ends with when it is interesting; 128 + N: "
                 "killed by signal N")
      ->type_name("N")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  app.add_option("--match", o.predicate.match, "And what it prints then")->type_name("TEXT");
  app.add_option("-j,--jobs", o.predicate.jobs, "Candidates at a time; the result does not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--timeout", o.predicate.timeout, "Seconds for one candidate; what takes longer is not interesting")
      ->type_name("SECONDS")
      ->check(cli::Number(0.001))
      ->capture_default_str();
  app.add_option("command", o.predicate.command, "Behind --: the command and its arguments")
      ->required()
      ->type_name("-- COMMAND ...");
  return cli::Main(app, argc, argv, console, [&]() -> int {
    auto said = reduce::Run(o, console);
    if (!said.ok())
      return console.Fail(said.status(), o.input);
    console.Say(*said);
    return cli::kDone;
  });
}
