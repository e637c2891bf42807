// npu-quant histogram: what a statistics file says of each tensor, with the range that each method would choose: as a
// table, as JSON, or as an HTML page with plots.
#include <algorithm>
#include <cmath>

#include "backend/report/render.h"
#include "compiler/calibration/methods.h"
#include "compiler/calibration/statistics_file.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/fpmath.h"
#include "compiler/support/json.h"
#include "compiler/support/yaml.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {
namespace {

constexpr CalibrationMethod kMethods[] = {CalibrationMethod::MinMax, CalibrationMethod::MovingAverage,
                                          CalibrationMethod::Percentile, CalibrationMethod::Entropy,
                                          CalibrationMethod::Mse};
constexpr int kBars = 64;

struct Bars {
  double lo = 0, hi = 0; // ends of what was seen
  std::vector<double> counts;
};

// The finite elements that are not 0, in kBars equal steps from the least to the greatest.
Bars BarsOf(const TensorStatistics &t) {
  Bars b{t.min, t.max, std::vector<double>(kBars)};
  const double width = t.histogram.BinWidth(), span = b.hi - b.lo;
  auto add = [&](const std::vector<uint64_t> &side, double sign) {
    for (size_t i = 0; i < side.size(); ++i) {
      const double at = sign * (static_cast<double>(i) + 0.5) * width;
      const int bar = span > 0 ? static_cast<int>((at - b.lo) / span * kBars) : 0;
      b.counts[std::clamp(bar, 0, kBars - 1)] += static_cast<double>(side[i]);
    }
  };
  add(t.histogram.negative, -1);
  add(t.histogram.positive, 1);
  return b;
}

Range RangeBy(CalibrationMethod method, const TensorStatistics &t) {
  MethodOptions o;
  o.method = method;
  return ChooseRange(t, o);
}

double ClippedPercent(const TensorStatistics &t, Range r) {
  return t.count ? 100.0 * static_cast<double>(t.CountOutside(r.min, r.max)) / static_cast<double>(t.count) : 0;
}

using Rows = std::vector<std::pair<std::string, const TensorStatistics *>>;

std::string Table(const Rows &rows) {
  size_t width = 6;
  for (const auto &[name, t] : rows)
    width = std::min<size_t>(48, std::max(width, name.size()));
  std::string text =
      fmt::format("{:{}} {:>11} {:>11} {:>11} {:>6}", "tensor", width, "elements", "min", "max", "zero%");
  for (CalibrationMethod m : kMethods)
    if (m != CalibrationMethod::MinMax)
      text += fmt::format("  {:>23}", Name(m));
  text += "\n";
  for (const auto &[name, t] : rows) {
    text += fmt::format("{:{}} {:>11} {:>11.5g} {:>11.5g} {:>6.1f}", name, width, t->count, t->min, t->max,
                        t->count ? 100.0 * static_cast<double>(t->zero_count) / static_cast<double>(t->count) : 0.0);
    for (CalibrationMethod m : kMethods)
      if (m != CalibrationMethod::MinMax) {
        const Range r = RangeBy(m, *t);
        text += fmt::format("  {:>23}", fmt::format("[{:.5g}, {:.5g}]", r.min, r.max));
      }
    text += "\n";
  }
  return text;
}

std::string Json(const StatisticsFile &f, const Rows &rows) {
  std::string text;
  JsonWriter w(&text);
  w.BeginObject().Field("model", f.model).Field("samples", f.samples.size()).Field("set_size", f.set_size);
  w.Key("tensors").BeginArray();
  for (const auto &[name, t] : rows) {
    w.BeginObject().Field("name", name).Field("count", t->count).Field("zero_count", t->zero_count);
    w.Field("nan_count", t->nan_count).Field("inf_count", t->inf_count).Field("min", t->min).Field("max", t->max);
    w.Key("ranges").BeginObject();
    for (CalibrationMethod m : kMethods) {
      const Range r = RangeBy(m, *t);
      w.Key(Name(m)).BeginLine().BeginObject().Field("min", r.min).Field("max", r.max);
      w.Field("clipped_percent", ClippedPercent(*t, r)).EndObject();
    }
    w.EndObject().Field("bars", BarsOf(*t).counts);
    if (t->channels.size() > 0)
      w.Key("channels")
          .BeginObject()
          .Field("axis", t->channels.axis)
          .Field("min", t->channels.min)
          .Field("max", t->channels.max)
          .EndObject();
    w.EndObject();
  }
  w.EndArray().EndObject();
  return text + "\n";
}

// Bars of the logarithm of counts; the methods' ranges as lines below.
std::string Plot(const TensorStatistics &t) {
  constexpr int kWidth = 640, kHeight = 120;
  const Bars b = BarsOf(t);
  const double most = *std::max_element(b.counts.begin(), b.counts.end()), span = std::max(b.hi - b.lo, 1e-30);
  auto x = [&](double v) { return std::clamp((v - b.lo) / span, 0.0, 1.0) * kWidth; };
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"histogram\">", kWidth,
                                kHeight + 14 * static_cast<int>(std::size(kMethods)) + 4);
  for (int i = 0; i < kBars; ++i) {
    if (b.counts[i] == 0)
      continue;
    const double h = std::max(1.0, kHeight * fpmath::Log(1 + b.counts[i]) / fpmath::Log(1 + most));
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                       i * kWidth / double{kBars}, kHeight - h, kWidth / double{kBars} - 1, h);
  }
  if (b.lo < 0 && b.hi > 0)
    svg += fmt::format("<line class=\"zero\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1}\"/>", x(0), kHeight);
  int y = kHeight + 12;
  for (CalibrationMethod m : kMethods) {
    const Range r = RangeBy(m, t);
    svg += fmt::format("<line class=\"range\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>"
                       "<text x=\"2\" y=\"{}\">{} [{:.5g}, {:.5g}], clips {:.3g} %</text>",
                       x(r.min), x(r.max), y - 4, y - 4, y, Name(m), r.min, r.max, ClippedPercent(t, r));
    y += 14;
  }
  return svg + "</svg>";
}

std::string Html(const StatisticsFile &f, const Rows &rows) {
  using report::Escaped;
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Calibration of {0}</title>\n<style>\n"
      ":root{{color-scheme:light dark}}body{{font:14px system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 "
      "1em}}\n"
      "h2{{font-size:1em;overflow-wrap:anywhere;margin:2em 0 .2em}}svg{{width:100%;height:auto}}\n"
      "rect{{fill:#4a86c5}}line.zero{{stroke:currentColor;stroke-dasharray:3 "
      "3}}line.range{{stroke:#d98324;stroke-width:3}}\n"
      "text{{font-size:10px;fill:currentColor}}\n</style></head><body>\n"
      "<h1>Calibration of {0}</h1>\n<p>{1} of {2} samples. Bars: elements other than 0, logarithmic. Lines: the range "
      "that each method chooses for 256 codes.</p>\n",
      Escaped(f.model), f.samples.size(), f.set_size);
  for (const auto &[name, t] : rows) {
    text += fmt::format("<h2>{}</h2>\n<p>{} elements, {:.1f} % zero, from {:.6g} to {:.6g}", Escaped(name), t->count,
                        t->count ? 100.0 * static_cast<double>(t->zero_count) / static_cast<double>(t->count) : 0.0,
                        t->min, t->max);
    if (t->nan_count + t->inf_count)
      text += fmt::format("; {} NaN, {} infinite", t->nan_count, t->inf_count);
    text += "</p>\n" + Plot(*t) + "\n";
  }
  return text + "</body></html>\n";
}

} // namespace

StatusOr<int> Histogram(const HistogramCommand &c, const cli::Console &) {
  NPUC_ASSIGN_OR_RETURN(const StatisticsFile f, ReadStatistics(c.file));
  Rows rows;
  for (const auto &[name, t] : f.table.tensors())
    if (c.tensors.empty())
      rows.emplace_back(name, &t);
  for (const std::string &name : c.tensors) {
    const TensorStatistics *t = f.table.Find(name);
    if (!t) {
      std::vector<std::string> names;
      for (const auto &[have, statistics] : f.table.tensors())
        names.push_back(have);
      const std::string near = NearestName(name, names);
      return AtFile(Error("E0507", fmt::format("--tensor {}: there are no statistics of it", name),
                          near.empty() ? "npu-quant histogram FILE lists the tensors" : "did you mean " + near + "?"),
                    c.file);
    }
    rows.emplace_back(name, t);
  }
  if (!c.html.empty())
    NPUC_RETURN_IF_ERROR(WriteFile(c.html, Html(f, rows)));
  if (!c.json.empty() && c.json != "-")
    NPUC_RETURN_IF_ERROR(WriteFile(c.json, Json(f, rows)));
  const std::string text = c.json == "-" ? Json(f, rows) : c.json.empty() && c.html.empty() ? Table(rows) : "";
  NPUC_RETURN_IF_ERROR(cli::WriteStdout(text));
  return cli::kDone;
}

} // namespace npuc::quant
