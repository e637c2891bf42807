// Runs binary and float model side by side, a sample a thread at a time. The result does not depend on the number of
// threads: of equal likenesses the first sample's counts.
#include "compiler/driver/accuracy.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "compiler/driver/front.h"
#include "compiler/interp/interpreter.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/support/object_pool.h"
#include "compiler/support/thread_pool.h"
#include "passes/pipelines.h"
#include "runtime_stub/session.h"

namespace npuc {
namespace {

// A value of the float model as the binary takes it: with --io native, in its element type.
Tensor AsInput(const Tensor &t, const Type &type) {
  if (!type.is_tensor() || t.dtype() == type.dtype())
    return t;
  if (type.is_quantized() && IsFloat(t.dtype()))
    return ops::QuantizeTensor(t, type.dtype(), *type.quant());
  return ops::ConvertTensor(t, type.dtype());
}

// What the binary gave, as the float model would have.
Tensor AsOutput(const Tensor &t, const Type &type, DType wanted) {
  if (t.dtype() == wanted || t.dtype() == DType::String)
    return t;
  if (type.is_quantized() && IsFloat(wanted))
    return ops::DequantizeTensor(t, *type.quant());
  return ops::ConvertTensor(t, wanted);
}

double LikenessOf(const EvalValue &got, const Type &type, const EvalValue &want) {
  if (const Tensor *w = want.tensor()) {
    const Tensor *g = got.tensor();
    return g && g->dims() == w->dims() ? Likeness(AsOutput(*g, type, w->dtype()), w->Expand()) : 0;
  }
  if (const EvalSequence *w = want.sequence()) {
    const EvalSequence *g = got.sequence();
    if (!g || g->size() != w->size())
      return 0;
    double least = 1;
    for (size_t i = 0; i < w->size(); ++i)
      least = std::min(least, LikenessOf((*g)[i], type, (*w)[i]));
    return least;
  }
  return 1;
}

struct Worker {
  Worker(const Graph &g, std::shared_ptr<const runtime::Model> model)
      : interpreter(g), session(std::move(model), {.threads = 1}) {}
  Interpreter interpreter;
  runtime::Session session;
};

} // namespace

double Likeness(const Tensor &got, const Tensor &want) {
  const int64_t n = want.num_elements();
  if (n == 0)
    return 1;
  if (!IsFloat(want.dtype())) {
    int64_t equal = 0;
    for (int64_t i = 0; i < n; ++i)
      equal += want.dtype() == DType::String ? got.strings()[i] == want.strings()[i]
               : IsComplex(want.dtype())     ? 1 // host only: the same kernels
                                             : got.AsDouble(i) == want.AsDouble(i);
    return static_cast<double>(equal) / static_cast<double>(n);
  }
  double dot = 0, gg = 0, ww = 0, dd = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double a = got.AsDouble(i), b = want.AsDouble(i);
    if (a == b || (a != a && b != b)) {
      if (!std::isfinite(a))
        continue; // the same infinity, or NaN in both
    } else if (!std::isfinite(a) || !std::isfinite(b)) {
      return 0;
    }
    dot += a * b;
    gg += a * a;
    ww += b * b;
    dd += (a - b) * (a - b);
  }
  if (dd == 0)
    return 1;
  if (gg == 0 || ww == 0)
    return 0;
  return n <= 2 ? std::max(0.0, 1 - std::sqrt(dd / ww)) : dot / (std::sqrt(gg) * std::sqrt(ww));
}

StatusOr<Accuracy> MeasureAccuracy(const CompilerOptions &options, const container::ModelFile &file,
                                   const SampleSet *samples, DiagnosticEngine &diagnostics,
                                   const ProgressFn &progress) {
  DiagnosticEngine quiet; // what import has to say was said
  NPUC_ASSIGN_OR_RETURN(const Target target, Target::FromNameOrFile(options.target));
  NPUC_ASSIGN_OR_RETURN(const std::unique_ptr<Module> module, ImportFor(options, quiet));
  PassContext ctx(target, quiet);
  NPUC_RETURN_IF_ERROR(RunPasses(*module, SimplifyPipeline(), ctx));
  const Graph &g = module->main();
  std::unique_ptr<SampleSet> opened;
  if (!samples) {
    if (options.calib.size() == 1 && LooksLikeStatistics(options.calib[0]))
      return Error("E0501", "--min-cosine compares on samples; statistics have none", "give --calib the samples");
    NPUC_ASSIGN_OR_RETURN(opened, OpenSamples(options, g));
    samples = opened.get();
  }
  NPUC_ASSIGN_OR_RETURN(const auto model, runtime::Model::FromFile(file, options.model));
  NPUC_CHECK(model->inputs().size() == g.num_inputs() && model->outputs().size() == g.num_outputs());

  const auto n = static_cast<size_t>(samples->size());
  std::vector<std::vector<double>> likeness(n);
  std::vector<Status> bad(n);
  std::mutex mutex;
  ObjectPool<Worker> workers;
  int64_t done = 0;
  auto one = [&](Worker &w, int64_t sample, std::vector<double> &out) -> Status {
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, samples->Read(sample));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor *t = inputs[i].tensor();
      NPUC_RETURN_IF_ERROR(
          w.session.SetInput(static_cast<int>(i), t ? EvalValue(AsInput(*t, model->inputs()[i].type)) : inputs[i]));
    }
    NPUC_ASSIGN_OR_RETURN(const std::vector<EvalValue> want, w.interpreter.Run(std::move(inputs)));
    NPUC_RETURN_IF_ERROR(w.session.Run());
    for (size_t i = 0; i < want.size(); ++i)
      out.push_back(LikenessOf(w.session.Output(static_cast<int>(i)), model->outputs()[i].type, want[i]));
    return OkStatus();
  };
  ThreadPool threads(options.jobs);
  threads.ParallelFor(n, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      std::unique_ptr<Worker> worker = workers.Take([&] { return std::make_unique<Worker>(g, model); });
      bad[i] = one(*worker, static_cast<int64_t>(i), likeness[i]);
      workers.Give(std::move(worker));
      std::lock_guard lock(mutex);
      if (progress)
        progress(fmt::format("compare {}/{}", ++done, n));
    }
  });
  Accuracy a;
  for (size_t i = 0; i < n; ++i) {
    if (!bad[i].ok())
      diagnostics.ReportStatus(AtFile(bad[i], samples->name(static_cast<int64_t>(i))));
    for (size_t k = 0; k < likeness[i].size(); ++k)
      if (likeness[i][k] < a.cosine)
        a = {likeness[i][k], model->outputs()[k].name, samples->base_name(static_cast<int64_t>(i))};
  }
  NPUC_RETURN_IF_ERROR(diagnostics.ToStatus());
  return a;
}

} // namespace npuc
