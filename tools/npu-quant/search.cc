// npu-quant search: which layers have to leave 8 bits so that every output reaches a cosine, at the least cost.
//
//   1. The model is compiled as int8. Where it reaches the target already, that is the answer.
//   2. Sensitivity of each layer (a stored tensor with a matrix operator before it): the loss of the worst output when
//   that layer alone is
//      quantised and all else is float.
//   3. Layers in the order of loss for each modelled cycle (what raising one costs: 16-bit operands take twice the
//   time); the shortest prefix of
//      this order that reaches the target, raised to fp16 (int16 on a target without floats), is found by bisection.
//      Each step compiles the model and runs the binary: what is promised has been measured.
//
// Cost: log2(layers) compilations, and of each layer one float run of what stands behind it, on at most kSamples
// samples.
#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/driver/compare.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/simulate.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/json.h"
#include "compiler/support/thread_pool.h"
#include "runtime_stub/model.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {
namespace {

constexpr int64_t kSamples = 4;

struct LayerScore {
  std::string tensor;
  std::vector<std::string> nodes; // ids
  double loss = 0;                // of the worst output, this layer alone
  ErrorStatistics isolated, accumulated;
  int64_t cycles = 0;
  std::string why;
  double Score() const { return loss / static_cast<double>(std::max<int64_t>(cycles, 1)); }
};

struct Sample {
  std::vector<EvalValue> inputs, want;
  Tensors known;
};

// The least agreement of any output.
StatusOr<double> Measure(const std::shared_ptr<const runtime::Model> &model, const std::vector<Sample> &samples,
                         int jobs) {
  std::vector<ErrorStatistics> errors;
  std::vector<int64_t> sizes;
  for (const Sample &s : samples) {
    NPUC_ASSIGN_OR_RETURN(const BinaryRun run, RunBinary(model, s.inputs, jobs));
    errors.resize(s.want.size());
    sizes.resize(s.want.size(), 0);
    for (size_t i = 0; i < s.want.size() && i < run.outputs.size(); ++i)
      if (const Tensor *w = s.want[i].tensor(), *g = run.outputs[i].tensor(); w && g && w->dtype() != DType::String) {
        errors[i].Add(*w, AsReal(*g, model->outputs()[i].type.quant()));
        sizes[i] = w->num_elements();
      }
  }
  double least = 1;
  for (size_t i = 0; i < errors.size(); ++i)
    if (errors[i].count)
      least = std::min(least, errors[i].Agreement(sizes[i]));
  return least;
}

// What is peculiar about a stored tensor: an outlier channel, a clipped share above 5 %, few levels used.
std::string WhyOf(const Tensor &want, const Tensor &codes, const Type &type) {
  std::vector<std::string> why;
  const Tensor real = AsReal(want, nullptr);
  const float *x = real.data<float>();
  const auto dims = real.dims();
  if (dims.size() >= 3 && dims[1] >= 4) {
    int64_t inner = 1;
    for (size_t i = 2; i < dims.size(); ++i)
      inner *= dims[i];
    std::vector<double> most(dims[1]);
    for (int64_t i = 0; i < real.num_elements(); ++i) {
      double &m = most[i / inner % dims[1]];
      m = std::max(m, std::abs(static_cast<double>(x[i])));
    }
    std::vector<double> sorted = most;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    const double median = sorted[sorted.size() / 2];
    const auto greatest = std::max_element(most.begin(), most.end());
    if (median > 0 && *greatest > 8 * median)
      why.push_back(fmt::format("outlier channel {} ({:.0f} times the median channel)", greatest - most.begin(),
                                *greatest / median));
  }
  if (type.is_quantized() && type.quant()->per_tensor() && codes.num_elements() > 0) {
    const QuantParams &q = *type.quant();
    const double lo = static_cast<double>(IntMin(type.dtype()) - q.zero_point()) * q.scale() - q.scale(),
                 hi = static_cast<double>(IntMax(type.dtype()) - q.zero_point()) * q.scale() + q.scale();
    int64_t clipped = 0;
    for (int64_t i = 0; i < real.num_elements(); ++i)
      clipped += x[i] < lo || x[i] > hi;
    const double share = 100.0 * static_cast<double>(clipped) / static_cast<double>(real.num_elements());
    // What a clamp to zero cuts is the operator's own doing.
    if (share > 5 && !(q.zero_point() == IntMin(type.dtype()) && lo > -1.5 * q.scale()))
      why.push_back(fmt::format("{:.1f} % clipped", share));
    std::set<int64_t> levels;
    for (int64_t i = 0; i < codes.num_elements() && levels.size() <= 32; ++i)
      levels.insert(codes.AsInt(i));
    if (levels.size() <= 32)
      why.push_back(
          fmt::format("only {} of {} levels used", levels.size(), IntMax(type.dtype()) - IntMin(type.dtype()) + 1));
  }
  std::string text;
  for (const std::string &w : why)
    text += (text.empty() ? "" : "; ") + w;
  return text;
}

} // namespace

StatusOr<int> Search(const SearchCommand &c, const cli::Console &console) {
  DiagnosticEngine diagnostics;
  cli::Progress progress(console);
  const auto fail = [&](const Status &s) -> Status {
    progress.Stop();
    console.PrintAll(diagnostics);
    return s;
  };
  CompilerOptions options = c.options;
  options.precision = Precision::Int8;
  options.no_report = true;
  progress.Update("float reference");
  auto reference = FloatReference::Make(options, diagnostics);
  if (!reference.ok())
    return fail(reference.status());
  Preprocess preprocess;
  if (!options.preprocess.empty()) {
    NPUC_ASSIGN_OR_RETURN(preprocess, ReadPreprocess(options.preprocess));
  }
  auto set = SampleSet::Open(options.calib, (*reference)->inputs(), preprocess);
  if (!set.ok())
    return fail(set.status());
  ThreadPool threads(options.jobs);
  const Graph &g = (*reference)->module().main();
  std::vector<Sample> samples;
  for (int64_t k = 0, n = std::min(kSamples, set->size()); k < n; ++k) {
    Sample s;
    auto inputs = set->Read(k * set->size() / n);
    if (!inputs.ok())
      return fail(inputs.status());
    s.inputs = *std::move(inputs);
    for (unsigned i = 0; i < g.num_inputs() && i < s.inputs.size(); ++i)
      if (s.inputs[i].tensor())
        s.known[g.input(i)->name()] = *s.inputs[i].tensor();
    NPUC_ASSIGN_OR_RETURN(s.want, (*reference)->Run(s.inputs, &threads, [&](const std::string &name, const Tensor &t) {
      s.known[name] = t;
    }));
    samples.push_back(std::move(s));
  }

  // A configuration, compiled and measured.
  struct Tried {
    std::shared_ptr<const runtime::Model> model;
    double agreement = 0;
    int64_t cycles = 0;
    report::Report report;
  };
  const std::string config_path = c.output + ".trial";
  struct Remover {
    std::string path;
    ~Remover() { std::remove(path.c_str()); }
  } remover{config_path};
  QuantConfig base;
  if (!options.quant_config.empty()) {
    NPUC_ASSIGN_OR_RETURN(base, ReadQuantConfig(options.quant_config, (*reference)->module()));
  }
  auto attempt = [&](const QuantConfig &config) -> StatusOr<Tried> {
    NPUC_RETURN_IF_ERROR(WriteFile(config_path, WriteQuantConfig(config)));
    CompilerOptions o = options;
    o.quant_config = config.empty() ? "" : config_path;
    DiagnosticEngine quiet;
    auto compiled = Compile(o, quiet, {});
    if (!compiled.ok()) {
      for (const Diagnostic &d : quiet.All())
        diagnostics.Report(d);
      return compiled.status();
    }
    Tried t;
    t.report = compiled->report;
    t.cycles = compiled->report.performance.cycles;
    NPUC_ASSIGN_OR_RETURN(t.model, runtime::Model::FromFile(compiled->file, options.model, &quiet));
    NPUC_ASSIGN_OR_RETURN(t.agreement, Measure(t.model, samples, options.jobs));
    return t;
  };

  progress.Update("int8");
  auto first = attempt(base);
  if (!first.ok())
    return fail(first.status());

  // Layers and their sensitivity.
  std::map<std::string, Type> stored;
  for (const container::Capture &cap : (*first).model->file().captures)
    if (cap.type.is_quantized())
      stored[cap.name] = cap.type;
  std::map<std::string, int64_t> cycles_of; // by ONNX node
  for (const auto &layer : first->report.layers)
    for (const std::string &id : layer.origins)
      cycles_of[id] = std::max(cycles_of[id], layer.cycles);
  Simulator simulator(g, stored, &threads);
  std::vector<LayerScore> layers;
  std::set<std::string> seen;
  std::vector<BinaryRun> runs;
  for (const Sample &s : samples) {
    NPUC_ASSIGN_OR_RETURN(BinaryRun run, RunBinary(first->model, s.inputs, options.jobs,
                                                   [&](const std::string &name) { return stored.count(name) != 0; }));
    runs.push_back(std::move(run));
  }
  const auto &onnx = (*reference)->module().onnx_nodes();
  std::vector<std::string> candidates;
  for (const container::Capture &cap : first->model->file().captures)
    if (cap.type.is_quantized() && seen.insert(cap.name).second)
      candidates.push_back(cap.name);
  for (unsigned i = 0; i < g.num_outputs(); ++i) // matrix operators whose sums leave as floats
    if (seen.insert(g.output(i)->name()).second)
      candidates.push_back(g.output(i)->name());
  for (const std::string &name : candidates) {
    LayerScore l;
    l.tensor = name;
    bool matrix = false;
    for (OriginId id : simulator.NodesOf(name, &matrix))
      if (id < onnx.size()) {
        l.nodes.push_back(onnx[id].id);
        l.cycles = std::max(l.cycles, cycles_of[onnx[id].id]);
      }
    if (!matrix)
      continue;
    progress.Update("sensitivity of " + name);
    std::vector<ErrorStatistics> outputs(g.num_outputs());
    for (size_t k = 0; k < samples.size(); ++k) {
      const Sample &s = samples[k];
      const auto alone = simulator.Isolated(name, s.known);
      const auto want = s.known.find(name);
      if (!alone || want == s.known.end())
        continue;
      l.isolated.Add(want->second, *alone);
      if (const auto got = runs[k].captured.find(name);
          got != runs[k].captured.end() && got->second.tensor.num_elements() == want->second.num_elements()) {
        l.accumulated.Add(want->second, AsReal(got->second.tensor, got->second.type.quant()));
        if (k == 0)
          l.why = WhyOf(want->second, got->second.tensor, got->second.type);
      }
      const std::vector<Tensor> out = simulator.OutputsWith(name, *alone, s.known);
      for (size_t i = 0; i < out.size(); ++i)
        if (const Tensor *w = s.want[i].tensor();
            w && out[i] && w->dtype() != DType::String && w->num_elements() == out[i].num_elements())
          outputs[i].Add(*w, out[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].count && samples[0].want[i].tensor())
        l.loss = std::max(l.loss, 1 - outputs[i].Agreement(samples[0].want[i].tensor()->num_elements()));
    layers.push_back(std::move(l));
  }
  std::stable_sort(layers.begin(), layers.end(),
                   [](const LayerScore &a, const LayerScore &b) { return a.Score() > b.Score(); });

  const Precision raised = first->model->target().HasFloat() ? Precision::Fp16 : Precision::Int16;
  auto with = [&](size_t count) {
    QuantConfig config = base;
    for (size_t i = 0; i < count; ++i)
      for (const std::string &id : layers[i].nodes)
        config.nodes[id].precision = raised;
    return config;
  };
  // The shortest prefix that reaches the target; agreement grows with it but for noise.
  size_t count = 0;
  Tried best = *std::move(first);
  const double before = best.agreement;
  const int64_t cycles_before = best.cycles;
  if (best.agreement < c.target_cosine) {
    size_t lo = 0, hi = layers.size();
    progress.Update(fmt::format("{} layers raised", hi));
    auto all = attempt(with(hi));
    if (!all.ok())
      return fail(all.status());
    count = hi;
    best = *std::move(all);
    while (best.agreement >= c.target_cosine && hi - lo > 1) {
      const size_t middle = lo + (hi - lo) / 2;
      progress.Update(fmt::format("{} of {} layers raised", middle, layers.size()));
      auto tried = attempt(with(middle));
      if (!tried.ok())
        return fail(tried.status());
      if (tried->agreement >= c.target_cosine) {
        hi = count = middle;
        best = *std::move(tried);
      } else {
        lo = middle;
      }
    }
  }
  progress.Stop();
  console.PrintAll(diagnostics);

  std::string header = fmt::format("# npu-quant search: cosine {:.6f} with {} of {} layers in {} (target {}; int8 "
                                   "alone {:.6f})\n# cycles {} (int8 alone {})\n",
                                   best.agreement, count, layers.size(), Name(raised), c.target_cosine, before,
                                   best.cycles, cycles_before);
  NPUC_RETURN_IF_ERROR(WriteFile(c.output, header + WriteQuantConfig(with(count))));

  // Worst first.
  std::vector<size_t> order(layers.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return layers[a].loss > layers[b].loss; });
  if (!c.json.empty()) {
    std::string text;
    JsonWriter w(&text);
    w.BeginObject()
        .Field("schema", "npuc-search/1")
        .Field("target_cosine", c.target_cosine)
        .Field("cosine", best.agreement);
    w.Field("cosine_int8", before)
        .Field("cycles", best.cycles)
        .Field("cycles_int8", cycles_before)
        .Field("raised", count);
    w.Key("layers").BeginArray();
    for (size_t i : order) {
      const LayerScore &l = layers[i];
      w.BeginObject()
          .Field("tensor", l.tensor)
          .Field("nodes", l.nodes)
          .Field("precision", i < count ? std::string(Name(raised)) : "int8");
      w.Field("loss", l.loss)
          .Field("cycles", l.cycles)
          .Field("isolated_cosine", l.isolated.Cosine())
          .Field("accumulated_cosine", l.accumulated.Cosine());
      w.Field("why", l.why).EndObject();
    }
    w.EndArray().EndObject();
    if (c.json == "-")
      NPUC_RETURN_IF_ERROR(cli::WriteStdout(text + "\n"));
    else
      NPUC_RETURN_IF_ERROR(WriteFile(c.json, text + "\n"));
  }
  if (!console.quiet && c.json != "-") {
    size_t width = 6;
    for (const LayerScore &l : layers)
      width = std::min<size_t>(40, std::max(width, l.tensor.size()));
    std::string table = fmt::format("{:{}} {:>9} {:>10} {:>9} {:>11} {:>9}  why\n", "layer", width, "now", "loss alone",
                                    "isolated", "accumulated", "cycles");
    for (size_t i : order) {
      const LayerScore &l = layers[i];
      table += fmt::format("{:{}} {:>9} {:>10.3g} {:>9.6f} {:>11.6f} {:>9}  {}\n", l.tensor, width,
                           i < count ? Name(raised) : "int8", l.loss, l.isolated.Cosine(), l.accumulated.Cosine(),
                           l.cycles, l.why);
    }
    table +=
        fmt::format("cosine {:.6f} (int8 alone {:.6f}), cycles {} ({}); {} of {} layers in {}: {}\n", best.agreement,
                    before, best.cycles, cycles_before, count, layers.size(), Name(raised), c.output);
    NPUC_RETURN_IF_ERROR(cli::WriteStdout(table));
  }
  return best.agreement >= c.target_cosine ? cli::kDone : cli::kGateFailed;
}

} // namespace npuc::quant
