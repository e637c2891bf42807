// One ONNX test case in process: import, interpret, compare. For onnx_backend_run and backend_test.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "compiler/interp/interpreter.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/tensor_proto.h"

namespace npuc::test {

namespace fs = std::filesystem;

inline double Element(const Tensor &t, int64_t i) {
  switch (t.dtype()) {
  case DType::F8E4M3FN:
  case DType::F8E4M3FNUZ:
  case DType::F8E5M2:
  case DType::F8E5M2FNUZ:
  case DType::F8E8M0:
  case DType::F4E2M1:
    return t.bytes()[t.is_splat() ? 0 : i];
  default:
    return t.AsDouble(i);
  }
}

inline std::string Difference(const EvalValue &got, const EvalValue &want, bool random) {
  if (!want.has_value() || !got.has_value())
    return want.has_value() == got.has_value() ? "" : "one is an empty optional";
  if (const EvalSequence *w = want.sequence()) {
    const EvalSequence *g = got.sequence();
    if (!g || g->size() != w->size())
      return "sequence length";
    for (size_t i = 0; i < w->size(); ++i)
      if (auto d = Difference((*g)[i], (*w)[i], random); !d.empty())
        return d;
    return "";
  }
  const Tensor *g = got.tensor(), *w = want.tensor();
  if (!g || !w)
    return "kind of value";
  if (g->dtype() != w->dtype())
    return fmt::format("dtype {}, want {}", Name(g->dtype()), Name(w->dtype()));
  if (g->dims() != w->dims())
    return fmt::format("shape {}, want {}", ToString(g->dims()), ToString(w->dims()));
  if (random)
    return "";
  if (w->dtype() == DType::String)
    return g->strings() == w->strings() ? "" : "strings";
  const bool complex = IsComplex(w->dtype());
  double rtol = 1e-3, atol = 1e-7;
  switch (w->dtype()) {
  case DType::F16:
    rtol = 5e-3, atol = 1e-3;
    break;
  case DType::BF16:
    rtol = 2e-2, atol = 1e-2;
    break;
  default:
    break;
  }
  const int64_t n = w->num_elements() * (complex ? 2 : 1);
  const Tensor ge = g->Expand(), we = w->Expand();
  for (int64_t i = 0; i < n; ++i) {
    double a, b;
    if (w->dtype() == DType::C64) {
      a = ge.data<float>()[i], b = we.data<float>()[i];
    } else if (w->dtype() == DType::C128) {
      a = ge.data<double>()[i], b = we.data<double>()[i];
    } else {
      a = Element(ge, i), b = Element(we, i);
    }
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    if (same)
      continue;
    if (!IsFloat(w->dtype()) && !complex)
      return fmt::format("element {}: {}, want {}", i, a, b);
    if (!(std::fabs(a - b) <= atol + rtol * std::fabs(b)))
      return fmt::format("element {}: {}, want {}", i, a, b);
  }
  return "";
}

// A network: outputs of many steps in float, so direction and size decide.
inline std::string CosineDifference(const EvalValue &got, const EvalValue &want) {
  const Tensor *g = got.tensor(), *w = want.tensor();
  if (!g || !w || g->dtype() != w->dtype() || g->dims() != w->dims())
    return Difference(got, want, true);
  if (w->dtype() == DType::String || w->num_elements() == 0)
    return Difference(got, want, false);
  double gg = 0, ww = 0, gw = 0;
  for (int64_t i = 0; i < w->num_elements(); ++i) {
    const double a = Element(*g, i), b = Element(*w, i);
    gg += a * a, ww += b * b, gw += a * b;
  }
  if (gg == 0 && ww == 0)
    return "";
  const double cosine = gw / std::sqrt(gg * ww), size = std::sqrt(gg / ww);
  if (cosine > 0.999 && size > 0.98 && size < 1.02)
    return "";
  return fmt::format("cosine {:.6f}, size {:.4f}", cosine, size);
}

// "" when the case passes, else why not. `folder`: a test case (model.onnx, test_data_set_*), or NAME.onnx: imported
// only, or run when a folder NAME with test data is beside it.
inline std::string RunCase(fs::path folder) {
  DiagnosticEngine diagnostics;
  const fs::path model = fs::is_directory(folder) ? folder / "model.onnx" : folder;
  ImportOptions options;
  bool network = false;
  if (!fs::is_directory(folder) && fs::exists(fs::path(folder).replace_extension("") / "test_data_set_0")) {
    folder.replace_extension("");
    network = true;
    auto module = ImportModel(model.string(), options, diagnostics);
    for (unsigned i = 0; module.ok() && i < (*module)->main().num_inputs(); ++i)
      if (auto v = ReadValueFile((folder / "test_data_set_0" / fmt::format("input_{}.pb", i)).string(), Type()); v.ok())
        options.input_shapes.push_back(
            fmt::format("{}={}", (*module)->main().input(i)->name(), ToString(v->tensor()->dims())));
    diagnostics.Clear();
  }
  auto module = ImportModel(model.string(), options, diagnostics);
  if (!module.ok()) {
    std::string text;
    for (const Diagnostic &d : diagnostics.All())
      if (d.severity == Severity::error)
        text += (text.empty() ? "" : " | ") + Render(d);
    return "import: " + text;
  }
  if (!fs::is_directory(folder))
    return "";
  const std::string name = folder.filename().string();
  bool random = false;
  for (const char *word : {"bernoulli", "randomuniform", "randomnormal", "training_dropout"})
    random |= name.find(word) != std::string::npos;
  const Graph &g = (*module)->main();
  std::vector<fs::path> sets;
  for (const auto &e : fs::directory_iterator(folder))
    if (e.path().filename().string().rfind("test_data_set_", 0) == 0)
      sets.push_back(e.path());
  std::sort(sets.begin(), sets.end());
  for (const auto &set : sets) {
    std::vector<EvalValue> inputs;
    for (unsigned i = 0; i < g.num_inputs(); ++i) {
      const fs::path file = set / fmt::format("input_{}.pb", i);
      if (!fs::exists(file)) {
        inputs.emplace_back();
        continue;
      }
      auto v = ReadValueFile(file.string(), g.input(i)->type());
      if (!v.ok())
        return fmt::format("{}: {}", file.filename().string(), Message(v.status()));
      inputs.push_back(*v);
    }
    Interpreter interpreter(g);
    auto outputs = interpreter.Run(std::move(inputs));
    if (!outputs.ok())
      return "run: " + Render(FromStatus(outputs.status()));
    for (unsigned k = 0; k < g.num_outputs(); ++k) {
      const fs::path file = set / fmt::format("output_{}.pb", k);
      if (!fs::exists(file))
        continue;
      // The expected value says its kind; the type of the output may not be known.
      auto want = ReadValueFile(file.string(), (*outputs)[k].sequence() && g.output(k)->type().is_none()
                                                   ? Type::Sequence(Type())
                                                   : g.output(k)->type());
      if (!want.ok())
        return fmt::format("{}: {}", file.filename().string(), Message(want.status()));
      if (auto d = network ? CosineDifference((*outputs)[k], *want) : Difference((*outputs)[k], *want, random);
          !d.empty())
        return fmt::format("output '{}': {}", g.output_names()[k], d);
    }
  }
  return "";
}

} // namespace npuc::test
