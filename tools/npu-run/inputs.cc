// --input and --random: which file is for which input, reading, and all that can be wrong with them at once.
#include "tools/npu-run/files.h"

#include <unistd.h>

#include "compiler/onnx/tensor_proto.h"
#include "compiler/support/npy.h"

namespace npuc::run {
namespace {

std::string Names(const std::vector<container::IoTensor> &tensors) {
  std::string names;
  for (const auto &t : tensors)
    names += fmt::format("{}'{}' ({})", names.empty() ? "" : ", ", t.name, t.type.ToString());
  return names.empty() ? "none" : names;
}

// Files of ONNX test data say whose value they hold. Where values do not fit the inputs that they are given to, but all
// those carry the names of such inputs and fit them, the names in the files are right: the files are in another order
// than the model's inputs.
void FollowOwnNames(const std::vector<container::IoTensor> &inputs, const std::vector<std::string> &own_names,
                    std::vector<std::string> &files, std::vector<EvalValue> &values, DiagnosticEngine &diagnostics) {
  std::vector<size_t> misfits, targets;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (values[i].has_value() && !FitsType(values[i], inputs[i].type))
      misfits.push_back(i);
  for (size_t i : misfits) {
    size_t to = 0;
    while (to < inputs.size() && inputs[to].name != own_names[i])
      ++to;
    if (to == inputs.size() || !llvm::is_contained(misfits, to) || llvm::is_contained(targets, to) ||
        !FitsType(values[i], inputs[to].type))
      return;
    targets.push_back(to);
  }
  const std::vector<EvalValue> old_values = values;
  const std::vector<std::string> old_files = files;
  for (size_t k = 0; k < misfits.size(); ++k) {
    values[targets[k]] = old_values[misfits[k]];
    files[targets[k]] = old_files[misfits[k]];
    diagnostics.Note(fmt::format("'{}' does not fit input '{}'; the file names its value '{}' and becomes that input",
                                 old_files[misfits[k]], inputs[misfits[k]].name, inputs[targets[k]].name));
  }
}

} // namespace

Status LoadInputs(const Options &o, runtime::Session &session, DiagnosticEngine &diagnostics) {
  const auto &inputs = session.model().inputs();
  Preprocess pre;
  if (!o.preprocess.empty()) {
    NPUC_ASSIGN_OR_RETURN(pre, ReadPreprocess(o.preprocess));
  }
  std::vector<std::string> names, files(inputs.size());
  for (const auto &t : inputs)
    names.push_back(t.name);
  std::vector<EvalValue> values(inputs.size());
  std::vector<bool> given(inputs.size(), false);
  std::vector<std::string> unnamed;
  for (const std::string &argument : o.inputs) {
    const NamedFile f = SplitNamedFile(argument, names);
    if (!f.name.empty()) {
      const size_t i = std::find(names.begin(), names.end(), f.name) - names.begin();
      if (given[i])
        diagnostics.ReportStatus(
            Error("E0701", fmt::format("input '{}' is given twice", f.name), "give each input once"));
      given[i] = true, files[i] = f.file;
      continue;
    }
    const size_t equals = argument.find('=');
    if (equals != std::string::npos && access(argument.c_str(), F_OK) != 0) {
      diagnostics.ReportStatus(Error("E0701", fmt::format("the model has no input '{}'", argument.substr(0, equals)),
                                     "its inputs are: " + Names(inputs)),
                               o.model);
      continue;
    }
    unnamed.push_back(argument);
  }
  // A lone .npz without a name can hold several inputs under their names.
  size_t next = 0;
  for (const std::string &file : unnamed) {
    if (std::string_view(file).ends_with(".npz")) {
      auto entries = ReadNpz(file);
      if (!entries.ok()) {
        diagnostics.ReportStatus(entries.status(), file);
        continue;
      }
      bool any = false;
      for (const NpzEntry &e : *entries) {
        const size_t i = std::find(names.begin(), names.end(), e.name) - names.begin();
        if (i == names.size())
          continue;
        auto t = TensorFromNpy(e.array, file);
        if (!t.ok())
          diagnostics.ReportStatus(t.status(), file);
        else
          values[i] = *std::move(t);
        any = given[i] = true;
        files[i] = file;
      }
      if (any)
        continue;
    }
    while (next < inputs.size() && given[next])
      ++next;
    if (next == inputs.size()) {
      diagnostics.ReportStatus(
          Error("E0701", fmt::format("'{}' is one file too many: the model has {} inputs", file, inputs.size()),
                "its inputs are: " + Names(inputs)),
          o.model);
      continue;
    }
    given[next] = true, files[next] = file;
  }
  std::string missing;
  std::vector<std::string> own_names(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const container::IoTensor &t = inputs[i];
    if (!given[i]) {
      if (o.random)
        values[i] = RandomValue(t.type, o.seed, i);
      else if (t.type.kind() != Type::Kind::Optional)
        missing += fmt::format("{}'{}' ({})", missing.empty() ? "" : ", ", t.name, t.type.ToString());
    } else if (!values[i].has_value()) {
      auto v = ReadInputValue(files[i], t.name, t.type, pre, &own_names[i]);
      if (!v.ok()) {
        diagnostics.ReportStatus(v.status(), files[i]);
        continue;
      }
      values[i] = *std::move(v);
    }
    if (AddLeadingOnes(values[i], t.type))
      diagnostics.Note(fmt::format("input '{}' ({}): the given tensor leaves out leading 1s, which are added", t.name,
                                   t.type.ToString()));
  }
  FollowOwnNames(inputs, own_names, files, values, diagnostics);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (values[i].has_value())
      diagnostics.ReportStatus(session.SetInput(static_cast<int>(i), std::move(values[i])), files[i]);
  if (!missing.empty())
    diagnostics.ReportStatus(Error("E0701", fmt::format("input {} is missing", missing),
                                   "give it with --input NAME=FILE, or --random SEED to fill what is not given"),
                             o.model);
  return diagnostics.ToStatus();
}

} // namespace npuc::run
