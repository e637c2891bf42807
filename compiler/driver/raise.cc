#include "compiler/driver/raise.h"

#include <algorithm>

#include "compiler/driver/simulate.h"
#include "compiler/support/thread_pool.h"
#include "runtime_stub/model.h"
#include "llvm/ADT/STLExtras.h"

namespace npuc {
namespace {

double Enough(const Tensor &output) {
  return output.num_elements() <= 2 ? kEnoughAgreement : kEnoughCosine;
}

} // namespace

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
      const double lack = (1 - agreement) / (1 - Enough(*w));
      worst.total += std::min(lack, kHopeless);
      if (lack > worst.lack) {
        worst.lack = lack;
        worst.agreement = agreement;
        worst.output = model->outputs()[i].name;
      }
    }
  }
  return worst;
}

StatusOr<std::vector<std::vector<std::string>>> RankLayers(const CompilerOptions &options, const SampleSet &samples,
                                                           const container::ModelFile &file,
                                                           const report::Report &report,
                                                           DiagnosticEngine &diagnostics) {
  NPUC_ASSIGN_OR_RETURN(auto reference, FloatReference::Make(options, diagnostics));
  const Graph &g = reference->module().main();
  const auto &onnx = reference->module().onnx_nodes();
  ThreadPool threads(options.jobs);
  std::map<std::string, int64_t> cycles_of; // by ONNX node
  int64_t all_cycles = 0;
  for (const auto &layer : report.layers) {
    if (layer.macs == 0)
      continue;
    all_cycles += layer.cycles;
    for (const std::string &id : layer.origins)
      cycles_of[id] = std::max(cycles_of[id], layer.cycles);
  }
  std::map<std::string, Type> stored;
  std::vector<std::string> candidates;
  for (const container::Capture &c : file.captures)
    if (c.type.is_quantized() && stored.emplace(c.name, c.type).second)
      candidates.push_back(c.name);
  // What leaves an accumulator as floats is captured as such, or is an output.
  for (const container::Capture &c : file.captures)
    if (!c.type.is_quantized() && !llvm::is_contained(candidates, c.name))
      candidates.push_back(c.name);
  Simulator simulator(g, stored, &threads);
  struct Layer {
    std::vector<std::string> nodes;
    double loss = 0;
    int64_t cycles = 0;
    double Score() const { return loss / static_cast<double>(std::max<int64_t>(cycles, 1)); }
  };
  std::vector<Layer> layers(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    bool matrix = false;
    for (OriginId id : simulator.NodesOf(candidates[i], &matrix))
      if (id < onnx.size()) {
        layers[i].nodes.push_back(onnx[id].id);
        if (const auto it = cycles_of.find(onnx[id].id); it != cycles_of.end())
          layers[i].cycles = std::max(layers[i].cycles, it->second);
      }
    if (!matrix)
      layers[i].nodes.clear();
  }
  const int64_t count = std::min<int64_t>(report.performance.macs < 500'000'000 ? 2 : 1, samples.size());
  for (int64_t k = 0; k < count; ++k) {
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, samples.Read(k * samples.size() / count));
    Tensors known;
    for (unsigned i = 0; i < g.num_inputs() && i < inputs.size(); ++i)
      if (inputs[i].tensor())
        known[g.input(i)->name()] = *inputs[i].tensor();
    NPUC_ASSIGN_OR_RETURN(const std::vector<EvalValue> want,
                          reference->Run(std::move(inputs), &threads,
                                         [&](const std::string &name, const Tensor &t) { known[name] = t; }));
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (layers[i].nodes.empty())
        continue;
      const auto alone = simulator.Isolated(candidates[i], known);
      if (!alone)
        continue;
      const std::vector<Tensor> out = simulator.OutputsWith(candidates[i], *alone, known);
      for (size_t o = 0; o < out.size() && o < want.size(); ++o) {
        const Tensor *w = want[o].tensor();
        if (!w || !out[o] || !IsFloat(w->dtype()) || w->num_elements() != out[o].num_elements())
          continue;
        ErrorStatistics e;
        e.Add(*w, out[o]);
        layers[i].loss = std::max(layers[i].loss, (1 - e.Agreement(w->num_elements())) / (1 - Enough(*w)));
      }
    }
  }
  std::stable_sort(layers.begin(), layers.end(), [](const Layer &a, const Layer &b) { return a.Score() > b.Score(); });
  std::vector<std::vector<std::string>> ranked;
  int64_t taken = 0;
  for (Layer &l : layers) {
    if (l.nodes.empty() || !(l.loss > 0))
      continue;
    if (static_cast<double>(taken + l.cycles) > kMostShare * static_cast<double>(all_cycles))
      continue;
    taken += l.cycles;
    ranked.push_back(std::move(l.nodes));
  }
  return ranked;
}

} // namespace npuc
