// Rows are processes: one that crashes or runs out of memory is one failed row, and what a row writes and says is what
// npuc writes and says for that model alone. Messages and the table come in the manifest's order, whatever the order in
// which rows end.
#include "tools/npuc/manifest.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <thread>

#include "backend/report/json.h"
#include "backend/report/render.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/yaml.h"
#include "tools/common/run_all.h"

namespace npuc {
namespace fs = std::filesystem;
namespace {

StatusOr<std::vector<const ManifestRow *>> Choose(const Manifest &manifest, const ManifestOptions &o) {
  std::vector<const ManifestRow *> rows;
  std::vector<std::string> names;
  for (const ManifestRow &row : manifest.rows) {
    names.push_back(row.name);
    if (o.only.empty() || std::count(o.only.begin(), o.only.end(), row.name))
      rows.push_back(&row);
  }
  for (const std::string &name : o.only)
    if (!std::count(names.begin(), names.end(), name)) {
      const std::string near = NearestName(name, names);
      return Error("E0501", fmt::format("--only {}: the manifest has no such row", name),
                   near.empty() ? "--list-rows prints the names" : fmt::format("did you mean {}?", near));
    }
  if (o.shard.empty())
    return rows;
  size_t part[2] = {0, 0};
  const char *at = o.shard.data(), *end = at + o.shard.size();
  for (int i = 0; i < 2; ++i) {
    auto [stop, error] = std::from_chars(at, end, part[i]);
    if (error != std::errc() || (i == 0 ? stop == end || *stop != '/' : stop != end))
      part[1] = 0;
    if (part[0] < 1 || (i == 1 && part[0] > part[1]))
      return Error("E0501", fmt::format("--shard {}: not I/N with I from 1 to N", o.shard), "for example --shard 2/4");
    at = stop + 1;
  }
  std::vector<const ManifestRow *> mine;
  for (size_t i = part[0] - 1; i < rows.size(); i += part[1])
    mine.push_back(rows[i]);
  return mine;
}

struct Result {
  bool ended = false;
  int code = 0;
  std::string messages;
};

// Columns of equal width with a rule below the head: Markdown that is readable as it is.
std::string Table(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> width(rows[0].size(), 0);
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      width[i] = std::max(width[i], row[i].size());
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < width.size(); ++i) // names to the left, figures to the right
      out += i < 2 || i + 1 == width.size() ? fmt::format("| {:<{}} ", rows[r][i], width[i])
                                            : fmt::format("| {:>{}} ", rows[r][i], width[i]);
    out += "|\n";
    if (r == 0) {
      for (size_t i = 0; i < width.size(); ++i)
        out += i < 2 || i + 1 == width.size() ? "|" + std::string(width[i] + 2, '-')
                                              : "|" + std::string(width[i] + 1, '-') + ":";
      out += "|\n";
    }
  }
  return out;
}

std::string Outcome(const Result &result, const report::Report *r) {
  switch (result.code) {
  case cli::kDone:
    return "ok";
  case cli::kGateFailed: {
    std::string failed;
    for (const report::GateRow &gate : r ? r->gates : std::vector<report::GateRow>{})
      if (!gate.passed)
        failed += (failed.empty() ? ": " : ", ") + gate.gate;
    return "gate failed" + failed;
  }
  case cli::kInternal:
    return "internal error (4)";
  default:
    return result.code > 128 ? fmt::format("killed by signal {}", result.code - 128)
                             : fmt::format("error ({})", result.code);
  }
}

int Worst(const std::vector<Result> &results) {
  int worst = cli::kDone;
  auto rank = [](int code) { return code == cli::kInternal ? 3 : code == cli::kBadInput ? 2 : code ? 1 : 0; };
  for (const Result &r : results) {
    const int code = r.code == cli::kDone || r.code == cli::kGateFailed ? r.code
                     : r.code == cli::kInternal || r.code > 128         ? cli::kInternal
                                                                        : cli::kBadInput;
    if (rank(code) > rank(worst))
      worst = code;
  }
  return worst;
}

} // namespace

int RunManifest(const ManifestOptions &o, const FlagKinds &kinds, const std::vector<std::string> &flags,
                const CheckArguments &check, const cli::Console &console) {
  std::error_code error;
  std::string output_dir = o.output_dir;
  if (!output_dir.empty() && !o.list)
    output_dir = fs::absolute(output_dir, error).lexically_normal().string();
  auto manifest = ReadManifest(o.path, output_dir, kinds, flags);
  if (!manifest.ok())
    return console.Fail(manifest.status(), o.path);
  // A value that npuc would refuse is found before the first hour of work.
  for (const ManifestRow &row : manifest->rows)
    if (const std::string wrong = check(row.args); !wrong.empty())
      return console.Fail(
          AtFile(Error("E0508", fmt::format("row '{}': {}", row.name, wrong), "npuc --help says what each flag takes"),
                 row.where));
  auto chosen = Choose(*manifest, o);
  if (!chosen.ok())
    return console.Fail(chosen.status());
  const std::vector<const ManifestRow *> &rows = *chosen;
  if (o.list) {
    std::string names;
    for (const ManifestRow *row : rows)
      names += row->name + "\n";
    return console.Out(names);
  }
  if (!output_dir.empty())
    if (Status s = MakeFolder(output_dir); !s.ok())
      return console.Fail(s);

  std::string logs = (fs::temp_directory_path(error) / "npuc-manifest-XXXXXX").string();
  if (error || !mkdtemp(logs.data()))
    return console.Fail(
        Error("E0102", "the temporary folder cannot be made", "set TMPDIR to a folder that can be written"));
  const int total = o.jobs ? o.jobs : std::max(1u, std::thread::hardware_concurrency());
  const int at_once = std::min<int>(total, std::max<int>(1, static_cast<int>(rows.size())));
  std::vector<Result> results(rows.size());
  std::string self = fs::read_symlink("/proc/self/exe", error).string();
  if (error)
    self = "npuc";
  cli::Progress progress(console);
  size_t ended = 0, shown = 0;
  auto log = [&](size_t i) { return fmt::format("{}/{}", logs, i); };
  auto make = [&](size_t i) {
    cli::Command c{{self}, manifest->folder, "", log(i)};
    c.args.insert(c.args.end(), rows[i]->args.begin(), rows[i]->args.end());
    c.args.push_back(fmt::format("-j{}", std::max(1, total / at_once)));
    c.args.push_back(console.stderr_color() ? "--color=always" : "--color=never");
    if (console.quiet)
      c.args.push_back("-q");
    return c;
  };
  auto done = [&](size_t i, cli::Ended end) {
    results[i].ended = true;
    results[i].code = end.code;
    if (auto text = ReadTextFile(log(i)); text.ok())
      results[i].messages = *std::move(text);
    ++ended;
    progress.Update(fmt::format("{} of {} rows", ended, rows.size()));
    for (; shown < rows.size() && results[shown].ended; ++shown)
      if (!results[shown].messages.empty())
        progress.Print(fmt::format("== {}\n{}", rows[shown]->name, results[shown].messages));
  };
  cli::RunAll(rows.size(), at_once, 0, make, done);
  progress.Stop();
  fs::remove_all(logs, error);

  std::vector<std::vector<std::string>> table = {
      {"row", "target", "nodes on NPU", "MACs on NPU", "cycles", "ms", "DDR", "SRAM", "result"}};
  for (size_t i = 0; i < rows.size(); ++i) {
    // A report that an earlier run left says nothing about this one.
    const bool wrote = results[i].code == cli::kDone || results[i].code == cli::kGateFailed;
    const std::string path = (fs::path(manifest->folder) / rows[i]->report).string();
    StatusOr<report::Report> r =
        wrote && !rows[i]->report.empty() ? report::ReadReport(path) : StatusOr<report::Report>(Error("E0101", "none"));
    if (r.ok())
      table.push_back({report::MarkdownText(rows[i]->name), report::MarkdownText(r->target.name),
                       fmt::format("{:.1f} %", r->coverage.node_percent),
                       fmt::format("{:.1f} %", r->coverage.mac_percent), report::Grouped(r->performance.cycles),
                       fmt::format("{:.3f}", r->performance.latency_ms),
                       report::Bytes(r->performance.ddr_read_bytes + r->performance.ddr_write_bytes),
                       report::Bytes(r->memory.sram_peak), Outcome(results[i], &*r)});
    else
      table.push_back(
          {report::MarkdownText(rows[i]->name), "-", "-", "-", "-", "-", "-", "-", Outcome(results[i], nullptr)});
  }
  if (!console.quiet)
    if (int code = console.Out(Table(table)))
      return code;
  return Worst(results);
}

} // namespace npuc
