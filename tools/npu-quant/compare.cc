// npu-quant compare: the float model against the binary's own run, tensor by tensor, by ONNX names.
//
// accumulated: what the binary computed, from its real stream, against the float model's tensor; all errors up to here.
// isolated: the operators between this tensor and the stored ones before it, run in float on the float model's own
// values rounded to the binary's integers, with 8-bit weights; the error that is made here.
// simulated (--fake-quant): the whole model in float with every stored tensor rounded to the binary's integers. Where
// it is far from the float model the model does not bear the integers; where the binary is far from it, the compiler
// is at fault.
//
// Cost: one float run and one run of the binary a sample, and once more each operator for each of the other columns.
#include <algorithm>
#include <cmath>

#include "backend/report/render.h"
#include "compiler/driver/compare.h"
#include "compiler/driver/simulate.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/json.h"
#include "compiler/support/thread_pool.h"
#include "runtime_stub/model.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {
namespace {

constexpr int kBars = 48;

struct Row {
  std::string name, op, type;
  int64_t elements = 0;
  ErrorStatistics accumulated, isolated, simulated;
  bool first_bad = false;
  std::vector<double> want, got; // histograms over [lo, hi]
  double lo = 0, hi = 0;
};

void Count(const Tensor &real, double lo, double hi, std::vector<double> &bars) {
  bars.resize(kBars);
  const float *x = real.data<float>();
  for (int64_t i = 0; i < real.num_elements(); ++i)
    if (std::isfinite(x[i]) && hi > lo)
      ++bars[std::clamp(static_cast<int>((x[i] - lo) / (hi - lo) * kBars), 0, kBars - 1)];
}

std::string Table(const std::vector<Row> &rows, bool fake) {
  size_t width = 6;
  for (const Row &r : rows)
    width = std::min<size_t>(44, std::max(width, r.name.size()));
  std::string text = fmt::format("{:{}} {:>8} {:>9} {:>9} {:>10} {:>10} {:>9}{}\n", "tensor", width, "stored", "cosine",
                                 "SQNR dB", "MSE", "max error", "isolated", fake ? " simulated" : "");
  for (const Row &r : rows) {
    text += fmt::format("{:{}} {:>8} {:>9.6f} {:>9.2f} {:>10.3g} {:>10.3g} ", r.name, width, r.type,
                        r.accumulated.Cosine(), r.accumulated.Sqnr(), r.accumulated.Mse(), r.accumulated.max_abs);
    text += r.isolated.count ? fmt::format("{:>9.6f}", r.isolated.Cosine()) : fmt::format("{:>9}", "-");
    if (fake)
      text += r.simulated.count ? fmt::format(" {:>9.6f}", r.simulated.Cosine()) : fmt::format(" {:>9}", "-");
    text += r.first_bad ? "  <- the first below the threshold\n" : "\n";
  }
  return text;
}

void Fields(JsonWriter &w, const char *key, const ErrorStatistics &e) {
  if (!e.count)
    return;
  w.Key(key).BeginLine().BeginObject().Field("cosine", e.Cosine()).Field("sqnr_db", e.Sqnr()).Field("mse", e.Mse());
  w.Field("max_error", e.max_abs).EndObject();
}

std::string Json(const CompareCommand &c, const std::vector<Row> &rows, int64_t samples) {
  std::string text;
  JsonWriter w(&text);
  w.BeginObject().Field("schema", "npuc-compare/1").Field("samples", samples).Field("threshold", c.threshold);
  std::string first;
  for (const Row &r : rows)
    if (r.first_bad)
      first = r.name;
  w.Field("first_below_threshold", first).Key("tensors").BeginArray();
  for (const Row &r : rows) {
    w.BeginObject().Field("name", r.name).Field("op", r.op).Field("stored", r.type).Field("elements", r.elements);
    Fields(w, "accumulated", r.accumulated);
    Fields(w, "isolated", r.isolated);
    Fields(w, "simulated", r.simulated);
    w.EndObject();
  }
  w.EndArray().EndObject();
  return text + "\n";
}

std::string Html(const std::string &model, const std::vector<Row> &rows, bool fake) {
  using report::Escaped;
  std::string t = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Quantisation of {0}</title>\n<style>\n"
      ":root{{color-scheme:light dark}}body{{font:14px system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 "
      "1em}}\n"
      "table{{border-collapse:collapse;width:100%}}td,th{{padding:2px 6px;text-align:right;border-bottom:1px solid "
      "#8884}}"
      "td:first-child,th:first-child{{text-align:left;overflow-wrap:anywhere}}tr.bad{{font-weight:bold;color:#c33}}\n"
      "svg{{width:100%;height:110px}}.want{{fill:#4a86c5;opacity:.6}}.got{{fill:#d98324;opacity:.6}}h2{{font-size:1em;"
      "overflow-wrap:anywhere}}\n"
      "</style></head><body>\n<h1>Quantisation of {0}</h1>\n<p>Accumulated: the binary's own run against the float "
      "model. Isolated: the "
      "error made here.</p>\n<table><tr><th>tensor</th><th>stored</th><th>cosine</th><th>SQNR "
      "dB</th><th>MSE</th><th>max error</th><th>isolated</th>{1}</tr>\n",
      Escaped(model), fake ? "<th>simulated</th>" : "");
  for (const Row &r : rows) {
    t += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{:.6f}</td><td>{:.2f}</td><td>{:.3g}</td><td>{:.3g}</td><td>{}</td>",
        r.first_bad ? " class=\"bad\"" : "", Escaped(r.name), Escaped(r.type), r.accumulated.Cosine(),
        r.accumulated.Sqnr(), r.accumulated.Mse(), r.accumulated.max_abs,
        r.isolated.count ? fmt::format("{:.6f}", r.isolated.Cosine()) : "-");
    if (fake)
      t += fmt::format("<td>{}</td>", r.simulated.count ? fmt::format("{:.6f}", r.simulated.Cosine()) : "-");
    t += "</tr>\n";
  }
  t += "</table>\n";
  for (const Row &r : rows) {
    double most = 1;
    for (const auto *bars : {&r.want, &r.got})
      for (double b : *bars)
        most = std::max(most, b);
    t += fmt::format("<h2>{} <small>{:.5g} to {:.5g}; blue: float, orange: binary; square root of "
                     "counts</small></h2>\n<svg viewBox=\"0 0 480 100\" "
                     "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"histograms\">",
                     Escaped(r.name), r.lo, r.hi);
    auto plot = [&](const std::vector<double> &bars, const char *kind) {
      for (size_t i = 0; i < bars.size(); ++i)
        if (bars[i] > 0) {
          const double h = 100 * std::sqrt(bars[i] / most);
          t += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"9\" height=\"{:.1f}\"/>", kind, i * 10,
                           100 - h, h);
        }
    };
    plot(r.want, "want");
    plot(r.got, "got");
    t += "</svg>\n";
  }
  return t + "</body></html>\n";
}

} // namespace

StatusOr<int> Compare(const CompareCommand &c, const cli::Console &console) {
  DiagnosticEngine diagnostics;
  const auto fail = [&](const Status &s) -> Status {
    console.PrintAll(diagnostics);
    return s;
  };
  auto reference = FloatReference::Make(c.options, diagnostics);
  if (!reference.ok())
    return fail(reference.status());
  auto model = runtime::Model::Load(c.binary, &diagnostics);
  if (!model.ok())
    return fail(model.status());
  Preprocess preprocess;
  if (!c.options.preprocess.empty()) {
    NPUC_ASSIGN_OR_RETURN(preprocess, ReadPreprocess(c.options.preprocess));
  }
  NPUC_ASSIGN_OR_RETURN(const SampleSet samples, SampleSet::Open(c.options.calib, (*reference)->inputs(), preprocess));
  const Graph &g = (*reference)->module().main();

  std::vector<Row> rows;
  std::map<std::string, size_t> row_of;
  std::map<std::string, Type> stored;
  std::map<std::string, std::string> op_of;
  for (const Node &n : g.nodes())
    for (unsigned i = 0; i < n.num_results(); ++i)
      op_of[n.result(i)->name()] = std::string(n.op().name);
  for (const container::Capture &cap : (*model)->file().captures) {
    if (cap.type.is_quantized())
      stored[cap.name] = cap.type;
    if (!op_of.count(cap.name) || row_of.count(cap.name))
      continue;
    row_of[cap.name] = rows.size();
    rows.push_back({});
    rows.back().name = cap.name;
    rows.back().op = op_of[cap.name];
    rows.back().type = std::string(Name(cap.type.dtype()));
  }
  const size_t inner = rows.size();
  std::vector<size_t> output_row;
  for (const auto &o : (*model)->outputs()) {
    if (const auto it = row_of.find(o.name); it != row_of.end()) { // captured as it is, with an isolated error
      output_row.push_back(it->second);
      continue;
    }
    output_row.push_back(rows.size());
    rows.push_back({});
    rows.back().name = o.name;
    rows.back().op = "output";
    rows.back().type = std::string(Name(o.type.dtype()));
  }
  ThreadPool threads(c.options.jobs);
  Simulator simulator(g, stored, &threads);
  for (int64_t s = 0; s < samples.size(); ++s) {
    NPUC_ASSIGN_OR_RETURN(std::vector<EvalValue> inputs, samples.Read(s));
    auto run =
        RunBinary(*model, inputs, c.options.jobs, [&](const std::string &name) { return row_of.count(name) != 0; });
    if (!run.ok())
      return fail(AtFile(run.status(), c.binary));
    Tensors known;
    for (unsigned i = 0; i < g.num_inputs() && i < inputs.size(); ++i)
      if (inputs[i].tensor())
        known[g.input(i)->name()] = *inputs[i].tensor();
    NPUC_ASSIGN_OR_RETURN(const std::vector<EvalValue> want,
                          (*reference)->Run(std::move(inputs), &threads, [&](const std::string &name, const Tensor &t) {
                            known[name] = t;
                          }));
    const Tensors all = c.fake_quant ? simulator.All(known) : Tensors();
    auto add = [&](Row &r, const Tensor &w, const Tensor &got) {
      const Tensor a = AsReal(w, nullptr);
      r.elements = a.num_elements();
      r.accumulated.Add(a, got);
      if (s == 0) {
        r.lo = std::numeric_limits<double>::max();
        r.hi = -r.lo;
        for (const Tensor *t : {&a, &got})
          for (int64_t i = 0; i < t->num_elements(); ++i)
            if (const double x = t->data<float>()[i]; std::isfinite(x)) {
              r.lo = std::min(r.lo, x);
              r.hi = std::max(r.hi, x);
            }
        Count(a, r.lo, r.hi, r.want);
        Count(got, r.lo, r.hi, r.got);
      }
    };
    for (size_t i = 0; i < inner; ++i) {
      Row &r = rows[i];
      const auto w = known.find(r.name);
      const auto got = run->captured.find(r.name);
      if (w == known.end() || got == run->captured.end() ||
          got->second.tensor.num_elements() != w->second.num_elements())
        continue;
      add(r, w->second, AsReal(got->second.tensor, got->second.type.quant()));
      if (const auto t = simulator.Isolated(r.name, known))
        r.isolated.Add(w->second, *t);
      if (const auto it = all.find(r.name); it != all.end())
        r.simulated.Add(w->second, it->second);
    }
    for (size_t k = 0; k < run->outputs.size() && k < want.size(); ++k) {
      if (output_row[k] < inner)
        continue;
      const Tensor *w = want[k].tensor(), *got = run->outputs[k].tensor();
      if (!w || !got || w->dtype() == DType::String || w->num_elements() != got->num_elements())
        continue;
      add(rows[output_row[k]], *w, AsReal(*got, (*model)->outputs()[k].type.quant()));
      if (const auto it = all.find(g.output(static_cast<unsigned>(k))->name()); it != all.end())
        rows[output_row[k]].simulated.Add(*w, it->second);
    }
  }
  std::erase_if(rows, [](const Row &r) { return r.accumulated.count == 0; });
  for (Row &r : rows)
    if (r.accumulated.Agreement(r.elements) < c.threshold) {
      r.first_bad = true;
      break;
    }
  console.PrintAll(diagnostics);
  if (!c.html.empty())
    NPUC_RETURN_IF_ERROR(WriteFile(c.html, Html((*reference)->module().file, rows, c.fake_quant)));
  if (!c.json.empty() && c.json != "-")
    NPUC_RETURN_IF_ERROR(WriteFile(c.json, Json(c, rows, samples.size())));
  NPUC_RETURN_IF_ERROR(cli::WriteStdout(c.json == "-"   ? Json(c, rows, samples.size())
                                        : console.quiet ? ""
                                                        : Table(rows, c.fake_quant)));
  return cli::kDone;
}

} // namespace npuc::quant
