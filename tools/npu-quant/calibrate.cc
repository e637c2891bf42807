// npu-quant calibrate: statistics of a model's float tensors over samples, to a file.
#include <filesystem>

#include "compiler/driver/calibration.h"
#include "compiler/support/atomic_file.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {

StatusOr<int> Calibrate(const CalibrateCommand &c, const cli::Console &console) {
  NPUC_ASSIGN_OR_RETURN(const Shard shard, ParseShard(c.shard));
  const std::string output =
      c.output.empty() ? std::filesystem::path(c.options.model).stem().string() + ".npqs" : c.output;
  DiagnosticEngine diagnostics;
  cli::Progress progress(console);
  auto statistics =
      CalibrateModel(c.options, shard, diagnostics, [&](std::string what) { progress.Update(std::move(what)); });
  progress.Stop();
  console.PrintAll(diagnostics);
  NPUC_RETURN_IF_ERROR(statistics);
  NPUC_RETURN_IF_ERROR(WriteFile(output, StatisticsBytes(*statistics)));
  console.Say(fmt::format("wrote {}: {} of {} samples, {} tensors", output, statistics->samples.size(),
                          statistics->set_size, statistics->table.tensors().size()));
  return cli::kDone;
}

} // namespace npuc::quant
