// Runs samples through the front half of the pipeline, or reads what such a run left.
#include "compiler/driver/calibration.h"

#include <charconv>
#include <filesystem>

#include "backend/lower/registry.h"
#include "compiler/driver/front.h"
#include "compiler/support/hash.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/thread_pool.h"
#include "passes/pipelines.h"

namespace npuc {
namespace {

constexpr int64_t kFewSamples = 8;

StatusOr<CalibrationData> FromFile(const std::string &path, const Module &m, std::string_view model_sha256,
                                   DiagnosticEngine &diagnostics) {
  CalibrationData data;
  NPUC_ASSIGN_OR_RETURN(data.statistics, ReadStatistics(path));
  const StatisticsFile &f = data.statistics;
  if (f.model_sha256 != model_sha256)
    return AtFile(Error("E0511", fmt::format("the statistics are of another model ({})", f.model),
                        "make them with npu-quant calibrate from this one"),
                  path);
  if (f.graph_hash != Hash(m))
    return AtFile(Error("E0511", "the statistics are of this model with other flags: its graph differs",
                        "give npu-quant calibrate the same --target, --dim, --input-shape, --bind, --input, --output "
                        "and -O as npuc"),
                  path);
  if (!f.complete())
    diagnostics.Warning(fmt::format("'{}' has {} of {} samples", path, f.samples.size(), f.set_size),
                        "merge all shards: npu-quant merge");
  return data;
}

} // namespace

StatusOr<Shard> ParseShard(std::string_view text) {
  Shard s;
  const char *end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, s.index);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '/') {
    const auto second = std::from_chars(first.ptr + 1, end, s.count);
    if (second.ec == std::errc() && second.ptr == end && s.index >= 1 && s.index <= s.count)
      return s;
  }
  return Error("E0501", fmt::format("--shard {}: not I/N with I from 1 to N", text), "for example --shard 2/8");
}

StatusOr<std::unique_ptr<SampleSet>> OpenSamples(const CompilerOptions &options, const Graph &g) {
  Preprocess preprocess;
  if (!options.preprocess.empty()) {
    NPUC_ASSIGN_OR_RETURN(preprocess, ReadPreprocess(options.preprocess));
  }
  std::vector<SampleSet::Input> inputs;
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    inputs.push_back({g.input(i)->name(), g.input(i)->type()});
  NPUC_ASSIGN_OR_RETURN(SampleSet set, SampleSet::Open(options.calib, std::move(inputs), std::move(preprocess)));
  return std::make_unique<SampleSet>(std::move(set));
}

StatusOr<CalibrationData> CollectStatistics(const CompilerOptions &options, const Module &m, const Shard &shard,
                                            ThreadPool *threads, DiagnosticEngine &diagnostics,
                                            const ProgressFn &progress) {
  NPUC_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(options.model));
  if (options.calib.size() == 1 && LooksLikeStatistics(options.calib[0]))
    return FromFile(options.calib[0], m, sha256, diagnostics);

  CalibrationData data;
  NPUC_ASSIGN_OR_RETURN(data.samples, OpenSamples(options, m.main()));
  const SampleSet &samples = *data.samples;
  if (samples.size() < kFewSamples)
    diagnostics.Warning(fmt::format("calibration on {} samples: ranges from so few are a guess", samples.size()),
                        "give a few dozen typical inputs");

  StatisticsFile &f = data.statistics;
  f.model = std::filesystem::path(options.model).filename().string();
  f.model_sha256 = sha256;
  f.graph_hash = Hash(m);
  std::string preprocess;
  if (!options.preprocess.empty()) {
    NPUC_ASSIGN_OR_RETURN(preprocess, ReadTextFile(options.preprocess));
  }
  f.set_hash = HashCombine(samples.NamesHash(), Xxh3(preprocess));
  f.set_size = samples.size();
  std::vector<int64_t> which;
  for (int64_t i = shard.index - 1; i < samples.size(); i += shard.count)
    which.push_back(i);
  std::function<void(int64_t)> done;
  if (progress)
    done = [&](int64_t n) { progress(fmt::format("calibrate {}/{}", n, which.size())); };
  NPUC_ASSIGN_OR_RETURN(Calibration c, Calibrate(m.main(), samples, which, threads, diagnostics, done));
  f.table = std::move(c.table);
  for (size_t i = 0; i < which.size(); ++i)
    f.samples.push_back({which[i], samples.base_name(which[i]), c.hashes[i]});
  return data;
}

StatusOr<StatisticsFile> CalibrateModel(const CompilerOptions &options, const Shard &shard,
                                        DiagnosticEngine &diagnostics, const ProgressFn &progress) {
  NPUC_RETURN_IF_ERROR(CheckOptions(options));
  NPUC_ASSIGN_OR_RETURN(const Target target, Target::FromNameOrFile(options.target));
  if (progress)
    progress("import");
  NPUC_ASSIGN_OR_RETURN(const std::unique_ptr<Module> m, ImportFor(options, diagnostics));
  ThreadPool threads(options.jobs);
  PassContext ctx(target, diagnostics);
  NPUC_ASSIGN_OR_RETURN(ctx.options, MakePassOptions(options, *m));
  ctx.threads = &threads;
  ctx.npu = &lower::ReferenceNpuOps();
  if (progress)
    progress("passes");
  NPUC_RETURN_IF_ERROR(RunPasses(*m, CalibrationPipeline(ctx.options), ctx, ManagerOptions(options, target)));
  NPUC_RETURN_IF_ERROR(diagnostics.ToStatus());
  NPUC_ASSIGN_OR_RETURN(CalibrationData data, CollectStatistics(options, *m, shard, &threads, diagnostics, progress));
  return std::move(data.statistics);
}

} // namespace npuc
