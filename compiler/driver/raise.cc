#include "compiler/driver/raise.h"

#include <algorithm>

#include "compiler/support/thread_pool.h"
#include "runtime_stub/model.h"

namespace npuc {

StatusOr<std::unique_ptr<AccuracyProbe>> AccuracyProbe::Make(const CompilerOptions &options, const SampleSet &samples,
                                                             DiagnosticEngine &diagnostics) {
  NPUC_ASSIGN_OR_RETURN(auto reference, FloatReference::Make(options, diagnostics));
  auto probe = std::make_unique<AccuracyProbe>();
  ThreadPool threads(options.jobs);
  for (int64_t k = 0, n = std::min(kProbeSamples, samples.size()); k < n; ++k) {
    Sample s;
    NPUC_ASSIGN_OR_RETURN(s.inputs, samples.Read(k * samples.size() / n));
    NPUC_ASSIGN_OR_RETURN(s.want, reference->Run(s.inputs, &threads));
    probe->samples_.push_back(std::move(s));
  }
  return probe;
}

StatusOr<AccuracyProbe::Result> AccuracyProbe::Measure(const container::ModelFile &file,
                                                       const CompilerOptions &options) const {
  NPUC_ASSIGN_OR_RETURN(auto model, runtime::Model::FromFile(file, options.model));
  Result worst;
  for (const Sample &s : samples_) {
    NPUC_ASSIGN_OR_RETURN(const BinaryRun run, RunBinary(model, s.inputs, options.jobs));
    for (size_t i = 0; i < s.want.size() && i < run.outputs.size(); ++i) {
      const Tensor *w = s.want[i].tensor(), *g = run.outputs[i].tensor();
      if (!w || !g || !IsFloat(w->dtype()) || w->num_elements() != g->num_elements())
        continue;
      ErrorStatistics e;
      e.Add(*w, AsReal(*g, model->outputs()[i].type.quant()));
      const double agreement = e.Agreement(w->num_elements());
      const double lack = (1 - agreement) / (1 - (w->num_elements() <= 2 ? kEnoughAgreement : kEnoughCosine));
      if (lack > worst.lack)
        worst = {lack, agreement, model->outputs()[i].name};
    }
  }
  return worst;
}

std::vector<std::string> CheapLayers(const report::Report &report, double share) {
  std::vector<const report::LayerRow *> layers;
  int64_t all = 0, taken = 0;
  for (const auto &l : report.layers)
    if (l.macs > 0) {
      layers.push_back(&l);
      all += l.cycles;
    }
  std::stable_sort(layers.begin(), layers.end(), [](auto *a, auto *b) { return a->cycles < b->cycles; });
  std::vector<std::string> ids;
  for (const auto *l : layers) {
    taken += l->cycles;
    if (static_cast<double>(taken) > share * static_cast<double>(all))
      break;
    ids.insert(ids.end(), l->origins.begin(), l->origins.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

} // namespace npuc
