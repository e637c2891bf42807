#include "compiler/driver/compare.h"

#include <algorithm>
#include <cmath>

#include "compiler/driver/front.h"
#include "compiler/ops/convert.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/pass/pass_manager.h"
#include "compiler/support/fpmath.h"
#include "compiler/support/thread_pool.h"
#include "passes/pipelines.h"
#include "runtime_stub/session.h"

namespace npuc {

void ErrorStatistics::Add(const Tensor &want, const Tensor &got) {
  const Tensor w = AsReal(want, nullptr), g = AsReal(got, nullptr);
  const int64_t n = std::min(w.num_elements(), g.num_elements());
  const float *a = w.data<float>(), *b = g.data<float>();
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(a[i]))
      continue;
    const double x = a[i], y = b[i], d = y - x;
    ++count;
    dot += x * y;
    want2 += x * x;
    got2 += y * y;
    error2 += d * d;
    max_abs = std::isfinite(d) ? std::max(max_abs, std::abs(d)) : std::numeric_limits<double>::max();
  }
}

double ErrorStatistics::Cosine() const {
  if (want2 == 0 && got2 == 0)
    return 1;
  const double length = std::sqrt(want2) * std::sqrt(got2);
  const double c = length > 0 ? dot / length : 0;
  return std::isfinite(c) ? std::min(c, 1.0) : 0;
}

double ErrorStatistics::RelativeAgreement() const {
  if (error2 == 0)
    return 1;
  const double r = want2 > 0 ? 1 - std::sqrt(error2 / want2) : 0;
  return std::isfinite(r) ? std::max(r, 0.0) : 0;
}

double ErrorStatistics::Mse() const {
  const double m = count ? error2 / static_cast<double>(count) : 0;
  return std::isfinite(m) ? m : std::numeric_limits<double>::max();
}

double ErrorStatistics::Sqnr() const {
  if (error2 == 0)
    return 200;
  if (!std::isfinite(error2) || want2 == 0)
    return -200;
  return std::clamp(10 * fpmath::Log10(want2 / error2), -200.0, 200.0);
}

double ErrorStatistics::Agreement(int64_t elements_per_sample) const {
  return elements_per_sample <= 2 ? RelativeAgreement() : Cosine();
}

Tensor AsReal(const Tensor &t, const QuantRef &quant) {
  const Tensor whole = t.Expand();
  if (quant)
    return ops::DequantizeTensor(whole, *quant);
  return whole.dtype() == DType::F32 ? whole : ops::ConvertTensor(whole, DType::F32);
}

StatusOr<std::unique_ptr<FloatReference>> FloatReference::Make(const CompilerOptions &options,
                                                               DiagnosticEngine &diagnostics) {
  auto r = std::make_unique<FloatReference>();
  NPUC_ASSIGN_OR_RETURN(r->module_, ImportFor(options, diagnostics));
  NPUC_ASSIGN_OR_RETURN(const Target target, Target::FromNameOrFile(options.target));
  PassContext ctx(target, diagnostics);
  ctx.options.precision = Precision::Fp32;
  NPUC_RETURN_IF_ERROR(RunPasses(*r->module_, SimplifyPipeline(), ctx, {}));
  return r;
}

std::vector<SampleSet::Input> FloatReference::inputs() const {
  std::vector<SampleSet::Input> r;
  const Graph &g = module_->main();
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    r.push_back({g.input(i)->name(), g.input(i)->type()});
  return r;
}

StatusOr<std::vector<EvalValue>>
FloatReference::Run(std::vector<EvalValue> inputs, ThreadPool *threads,
                    const std::function<void(const std::string &, const Tensor &)> &observe) const {
  EvalOptions eval;
  eval.threads = threads;
  Interpreter interpreter(module_->main(), eval);
  if (observe)
    interpreter.set_observer([&](const Value &v, const EvalValue &value) {
      const Tensor *t = value.tensor();
      if (t && IsFloat(t->dtype()) && v.graph() == &module_->main() && !v.constant())
        observe(v.name(), *t);
    });
  return interpreter.Run(std::move(inputs));
}

StatusOr<BinaryRun> RunBinary(const std::shared_ptr<const runtime::Model> &model, const std::vector<EvalValue> &inputs,
                              int threads, const std::function<bool(const std::string &)> &want) {
  runtime::Session session(model, {.threads = threads});
  for (size_t i = 0; i < inputs.size(); ++i)
    NPUC_RETURN_IF_ERROR(session.SetInput(static_cast<int>(i), inputs[i]));
  BinaryRun run;
  if (want)
    session.set_capture([&](const container::Capture &c, const runtime::Memory &m) -> Status {
      if (want(c.name))
        run.captured[c.name] = {runtime::TensorOfView(c.view, m, c.type), c.type};
      return OkStatus();
    });
  NPUC_RETURN_IF_ERROR(session.Run());
  for (int i = 0; i < session.num_outputs(); ++i) {
    EvalValue v = session.Output(i);
    if (const Tensor *t = v.tensor()) { // the session's buffers go with it
      Tensor copy = Tensor::Allocate(t->dtype(), t->dims());
      const Tensor whole = t->Expand();
      if (t->dtype() != DType::String && whole.num_stored_bytes() > 0)
        std::memcpy(copy.mutable_bytes(), whole.bytes(), whole.num_stored_bytes());
      run.outputs.push_back(t->dtype() == DType::String ? v : EvalValue(std::move(copy)));
    } else {
      run.outputs.push_back(std::move(v));
    }
  }
  return run;
}

} // namespace npuc
