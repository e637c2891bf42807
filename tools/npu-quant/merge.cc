// npu-quant merge: shards of one calibration become the file of one run.
#include "compiler/calibration/statistics_file.h"
#include "compiler/support/atomic_file.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {

StatusOr<int> Merge(const MergeCommand &c, const cli::Console &console) {
  DiagnosticEngine diagnostics;
  std::vector<StatisticsFile> files;
  for (const std::string &path : c.files) {
    auto file = ReadStatistics(path);
    if (file.ok())
      files.push_back(*std::move(file));
    else
      diagnostics.ReportStatus(file.status(), path);
  }
  console.PrintAll(diagnostics);
  NPUC_RETURN_IF_ERROR(diagnostics.ToStatus());
  NPUC_ASSIGN_OR_RETURN(const StatisticsFile all, MergeStatistics(std::move(files), c.files));
  NPUC_RETURN_IF_ERROR(WriteFile(c.output, StatisticsBytes(all)));
  if (!all.complete())
    console.Print({.severity = Severity::warning,
                   .code = {},
                   .file = c.output,
                   .node = {},
                   .op = {},
                   .message = fmt::format("{} of {} samples: shards are missing", all.samples.size(), all.set_size),
                   .help = "merge the others, too"});
  console.Say(fmt::format("wrote {}: {} of {} samples, {} tensors", c.output, all.samples.size(), all.set_size,
                          all.table.tensors().size()));
  return cli::kDone;
}

} // namespace npuc::quant
