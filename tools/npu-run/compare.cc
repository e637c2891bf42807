// --expect: |got - want| <= atol + rtol * |want| element by element, as numpy.allclose; NaN equals NaN, an infinity
// itself. Other element types and dims than expected are differences, not errors of the run.
#include <algorithm>
#include <cmath>
#include <unistd.h>

#include "tools/npu-run/files.h"

namespace npuc::run {
namespace {

struct Row {
  std::string name, problem; // problem: not comparable element by element
  int64_t elements = 0, wrong = 0, first = -1;
  double max_abs = 0, max_rel = 0, cosine = 1, got = 0, want = 0;
  bool failed() const { return wrong > 0 || !problem.empty(); }
};

void CompareTensors(const Tensor &got, const Tensor &want, const Options &o, Row &r) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    r.problem = fmt::format("is {}{}, expected {}{}", Name(got.dtype()), ToString(got.dims()), Name(want.dtype()),
                            ToString(want.dims()));
    return;
  }
  r.elements += got.num_elements();
  if (got.dtype() == DType::String) {
    for (size_t i = 0; i < got.strings().size(); ++i)
      if (got.strings()[i] != want.strings()[i] && r.wrong++ == 0)
        r.problem = fmt::format("element {} is '{}', expected '{}'", i, got.strings()[i], want.strings()[i]);
    return;
  }
  if (IsComplex(got.dtype())) {
    const DType part = got.dtype() == DType::C64 ? DType::F32 : DType::F64;
    const int64_t n = got.num_elements() * 2;
    r.elements -= got.num_elements();
    return CompareTensors(Tensor::View(part, {n}, got.bytes(), nullptr), Tensor::View(part, {n}, want.bytes(), nullptr),
                          o, r);
  }
  const Tensor g = got.Expand(), w = want.Expand();
  double dot = 0, gg = 0, ww = 0;
  for (int64_t i = 0, n = g.num_elements(); i < n; ++i) {
    const double a = g.AsDouble(i), b = w.AsDouble(i);
    if ((a != a && b != b) || a == b) {
      if (a == b && std::isfinite(a))
        dot += a * b, gg += a * a, ww += b * b;
      continue;
    }
    const double abs = std::abs(a - b);
    if (std::isfinite(abs)) {
      dot += a * b, gg += a * a, ww += b * b;
      r.max_abs = std::max(r.max_abs, abs);
      if (b != 0)
        r.max_rel = std::max(r.max_rel, abs / std::abs(b));
    }
    if (!(abs <= o.atol + o.rtol * std::abs(b)) && r.wrong++ == 0)
      r.first = i, r.got = a, r.want = b;
  }
  if (gg > 0 && ww > 0)
    r.cosine = std::min(r.cosine, dot / std::sqrt(gg * ww));
  else if (gg > 0 || ww > 0)
    r.cosine = 0;
}

void CompareValues(const EvalValue &got, const EvalValue &want, const Options &o, Row &r) {
  if (got.tensor() && want.tensor())
    return CompareTensors(*got.tensor(), *want.tensor(), o, r);
  if (got.sequence() && want.sequence()) {
    if (got.sequence()->size() != want.sequence()->size()) {
      r.problem = fmt::format("has {} elements, expected {}", got.sequence()->size(), want.sequence()->size());
      return;
    }
    for (size_t i = 0; i < got.sequence()->size() && r.problem.empty(); ++i)
      CompareValues((*got.sequence())[i], (*want.sequence())[i], o, r);
    return;
  }
  const auto map = [](const EvalValue &v) { return std::get_if<std::shared_ptr<const EvalMap>>(&v.v); };
  if (map(got) && map(want)) {
    const EvalMap &g = **map(got), &w = **map(want);
    if (g.keys != w.keys) {
      r.problem = "has other keys than expected";
      return;
    }
    for (size_t i = 0; i < g.values.size() && r.problem.empty(); ++i)
      CompareValues(g.values[i], w.values[i], o, r);
    return;
  }
  if (got.has_value() || want.has_value())
    r.problem = "is another kind of value than expected";
}

} // namespace

StatusOr<bool> CompareOutputs(const Options &o, const runtime::Session &session, const cli::Console &console) {
  const auto &outputs = session.model().outputs();
  std::vector<std::string> names, files(outputs.size());
  std::string known;
  for (const auto &t : outputs) {
    names.push_back(t.name);
    known += (known.empty() ? "" : ", ") + t.name;
  }
  size_t next = 0;
  for (const std::string &argument : o.expect) {
    const NamedFile f = SplitNamedFile(argument, names);
    size_t i = std::find(names.begin(), names.end(), f.name) - names.begin();
    if (f.name.empty()) {
      const size_t equals = argument.find('=');
      if (equals != std::string::npos && access(argument.c_str(), F_OK) != 0)
        return AtFile(Error("E0701", fmt::format("the model has no output '{}'", argument.substr(0, equals)),
                            "its outputs are: " + known),
                      o.model);
      while (next < outputs.size() && !files[next].empty())
        ++next;
      i = next;
      if (i == outputs.size())
        return AtFile(
            Error("E0701", fmt::format("'{}' is one file too many: the model has {} outputs", argument, outputs.size()),
                  "its outputs are: " + known),
            o.model);
    }
    files[i] = f.file;
  }
  bool good = true;
  std::string table;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (files[i].empty())
      continue;
    NPUC_ASSIGN_OR_RETURN(const EvalValue want, ReadInputValue(files[i], outputs[i].name, outputs[i].type));
    Row r;
    r.name = outputs[i].name;
    CompareValues(session.Output(static_cast<int>(i)), want, o, r);
    good &= !r.failed();
    if (!r.problem.empty()) {
      table += fmt::format("{:<4} {}: {}\n", "FAIL", r.name, r.problem);
    } else {
      table += fmt::format("{:<4} {}: {} of {} elements differ, max abs {:.3g}, max rel {:.3g}, cosine {:.6f}",
                           r.failed() ? "FAIL" : "ok", r.name, r.wrong, r.elements, r.max_abs, r.max_rel, r.cosine);
      if (r.first >= 0)
        table += fmt::format(", first at {}: got {:.7g}, expected {:.7g}", r.first, r.got, r.want);
      table += '\n';
    }
  }
  if (!good || !console.quiet) {
    if (!good)
      table += fmt::format("tolerance: |got - expected| <= {:g} + {:g} * |expected|\n", o.atol, o.rtol);
    NPUC_RETURN_IF_ERROR(cli::WriteStdout(table));
  }
  return good;
}

} // namespace npuc::run
