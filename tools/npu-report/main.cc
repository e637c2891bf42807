// npu-report: renders, checks and compares reports that npuc wrote.
#include "backend/report/diff.h"
#include "backend/report/gates.h"
#include "backend/report/json.h"
#include "backend/report/render.h"
#include "compiler/support/atomic_file.h"
#include "tools/common/flags.h"
#include "tools/common/gate_flags.h"

namespace npuc {
namespace {

struct Options {
  std::string report, other, output, path;
  bool fail_on_regression = false, markdown = false;
  report::Gates gates;
};

int Emit(const Options &options, const cli::Console &console, const std::string &text) {
  if (options.output.empty() || options.output == "-")
    return console.Out(text);
  if (Status s = WriteFile(options.output, text); !s.ok())
    return console.Fail(s, options.output);
  return cli::kDone;
}

int Render(const Options &options, const cli::Console &console,
           const std::function<std::string(const report::Report &)> &render) {
  auto r = report::ReadReport(options.report);
  if (!r.ok())
    return console.Fail(r.status());
  return Emit(options, console, render(*r));
}

int Show(const Options &options, const cli::Console &console) {
  auto r = report::ReadReport(options.report);
  if (!r.ok())
    return console.Fail(r.status());
  return Emit(options, console, report::RenderText(*r, options.output.empty() && console.stdout_color()));
}

int Check(const Options &options, const cli::Console &console) {
  if (!options.gates.any())
    return console.UsageError("check needs at least one gate, for example --min-coverage 95");
  auto r = report::ReadReport(options.report);
  if (!r.ok())
    return console.Fail(r.status());
  if (Status s = report::CheckMeasured(*r, options.gates); !s.ok())
    return console.Fail(s, options.report);
  auto tolerances = report::ParseTolerances(options.gates.tolerances);
  if (!tolerances.ok())
    return console.Fail(tolerances.status());
  report::Report baseline;
  if (!options.gates.baseline.empty()) {
    auto old = report::ReadReport(options.gates.baseline);
    if (!old.ok())
      return console.Fail(old.status());
    baseline = *std::move(old);
  }
  const auto rows =
      report::CheckGates(*r, options.gates, options.gates.baseline.empty() ? nullptr : &baseline, *tolerances);
  std::string text;
  for (const report::GateRow &row : rows)
    text += fmt::format("{} {}: {}\n", row.passed ? "passed" : "FAILED", row.gate, row.message);
  if (int code = console.quiet && report::AllPassed(rows) ? 0 : Emit(options, console, text))
    return code;
  return report::AllPassed(rows) ? cli::kDone : cli::kGateFailed;
}

int Diff(const Options &options, const cli::Console &console) {
  auto before = report::ReadReport(options.report);
  if (!before.ok())
    return console.Fail(before.status());
  auto after = report::ReadReport(options.other);
  if (!after.ok())
    return console.Fail(after.status());
  auto tolerances = report::ParseTolerances(options.gates.tolerances);
  if (!tolerances.ok())
    return console.Fail(tolerances.status());
  const report::Diff diff = report::Compare(*before, *after, *tolerances);
  if (int code = Emit(options, console, options.markdown ? report::RenderDiffMarkdown(diff) : report::RenderDiff(diff)))
    return code;
  return options.fail_on_regression && !diff.regressions.empty() ? cli::kGateFailed : cli::kDone;
}

} // namespace
} // namespace npuc

int main(int argc, char **argv) {
  using namespace npuc;
  cli::Console console("npu-report");
  Options options;
  CLI::App app("Renders, checks and compares the reports that npuc writes.", "npu-report");
  cli::AddCommonFlags(app, console);
  app.fallthrough(); // -q and --color also after the command
  app.require_subcommand(1);
  int (*chosen)(const Options &, const cli::Console &) = nullptr;
  auto command = [&](const char *name, const char *help, int (*run)(const Options &, const cli::Console &)) {
    CLI::App *sub = app.add_subcommand(name, help);
    sub->add_option("report", options.report, "NAME.report.json")->required()->type_name("R.json");
    sub->add_option("-o,--output", options.output, "Default: stdout")->type_name("FILE");
    sub->callback([&chosen, run] { chosen = run; });
    return sub;
  };
  command("show", "The summary, for a terminal", Show);
  command("html", "One self-contained page",
          [](const Options &o, const cli::Console &c) { return Render(o, c, report::RenderHtml); });
  command("markdown", "For a CI step summary",
          [](const Options &o, const cli::Console &c) { return Render(o, c, report::RenderMarkdown); });
  command("junit", "JUnit XML: a case a node",
          [](const Options &o, const cli::Console &c) { return Render(o, c, report::RenderJunit); });
  // Formats that point into a repository.
  auto located = [&](CLI::App *sub) {
    sub->add_option("--path", options.path, "The model's path in the repository; default: its base name")
        ->type_name("PATH");
  };
  located(
      command("sarif", "SARIF: a finding a broken rule and a failed gate", [](const Options &o, const cli::Console &c) {
        return Render(o, c, [&](const report::Report &r) { return report::RenderSarif(r, o.path); });
      }));
  located(command("codequality", "GitLab's code quality report: the findings of sarif",
                  [](const Options &o, const cli::Console &c) {
                    return Render(o, c, [&](const report::Report &r) { return report::RenderCodeQuality(r, o.path); });
                  }));
  command("badge", "An SVG badge of the node coverage",
          [](const Options &o, const cli::Console &c) { return Render(o, c, report::RenderBadge); });
  cli::AddGateFlags(*command("check", "Checks gates; exit code 3 when one fails", Check), options.gates);
  CLI::App *diff = command("diff", "What changed from the first report to the second", Diff);
  diff->add_option("new", options.other, "The newer report")->required()->type_name("NEW.json");
  diff->add_flag("--fail-on-regression", options.fail_on_regression,
                 "Exit code 3 when a node left the NPU, or cycles, DDR bytes or SRAM grew");
  diff->add_flag("--markdown", options.markdown, "For a CI step summary");
  cli::AddRepeatable(*diff, "--tolerance", options.gates.tolerances,
                     "How much cycles, ddr_bytes or sram may grow, in percent")
      ->type_name("KEY=PCT");
  return cli::Main(app, argc, argv, console, [&] { return chosen(options, console); });
}
