// ImportModel: read, build, cut to the part that is wanted, drop what nothing uses, verify.
#include "compiler/onnx/import.h"

#include "compiler/onnx/builder.h"

namespace npuc {
namespace {

using onnx_import::Builder;

// Erases nodes without users, from the last to the first; `all`: any node, else constants only.
void EraseUnused(Graph &g, bool all) {
  for (auto it = g.nodes().rbegin(); it != g.nodes().rend();) {
    Node &n = *it;
    ++it;
    if (n.is_return() || (!all && !n.is_constant()))
      continue;
    bool used = false;
    for (unsigned i = 0; i < n.num_results(); ++i)
      used |= n.result(i)->has_uses();
    if (!used)
      n.Erase();
  }
}

Status Cut(Module &m, const Builder &builder, const ImportOptions &options) {
  Graph &g = m.main();
  if (options.inputs.empty() && options.outputs.empty())
    return OkStatus();
  auto find = [&](const std::string &name, std::string_view flag) -> StatusOr<Value *> {
    Value *v = builder.Lookup(name);
    if (!v || v->graph() != &g)
      return Error("E0507", fmt::format("{} '{}': the model's main graph has no such tensor", flag, name),
                   "tensor names are case-sensitive");
    return v;
  };
  // Outputs first: an output may lie before an input (it is then computed from the model's own inputs).
  if (!options.outputs.empty()) {
    std::vector<Value *> outputs;
    for (const std::string &name : options.outputs) {
      NPUC_ASSIGN_OR_RETURN(Value * v, find(name, "--output"));
      outputs.push_back(v);
    }
    while (g.num_outputs())
      g.RemoveOutput(g.num_outputs() - 1);
    for (size_t i = 0; i < outputs.size(); ++i)
      g.AddOutput(outputs[i], options.outputs[i]);
  }
  std::vector<bool> had_uses;
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    had_uses.push_back(g.input(i)->has_uses());
  const unsigned own = g.num_inputs();
  std::vector<Value *> wanted;
  for (const std::string &name : options.inputs) {
    NPUC_ASSIGN_OR_RETURN(Value * v, find(name, "--input"));
    if (!v->def()) {
      wanted.push_back(v);
      continue;
    }
    if (v->constant())
      return Error("E0507", fmt::format("--input '{}': the tensor is a constant", name));
    if (!v->type().is_tensor() || v->type().dtype() == DType::Undefined)
      return Error("E0507", fmt::format("--input '{}': its type is not known ({})", name, v->type().ToString()),
                   "choose a tensor of known type, or fix shapes with --dim");
    m.RenameValue(v, name + "_cut");
    Value *input = g.AddInput(name, v->type());
    v->ReplaceAllUsesWith(input);
    wanted.push_back(input);
  }
  EraseUnused(g, true);
  // Inputs of the part that was cut away go; with --input, only those named may be left.
  for (unsigned i = own; i-- > 0;) {
    Value *v = g.input(i);
    bool named = false;
    for (Value *w : wanted)
      named |= w == v;
    if (named)
      continue;
    if (!v->has_uses() && (had_uses[i] || !options.inputs.empty())) {
      g.RemoveInput(i);
    } else if (!options.inputs.empty()) {
      return Error("E0507",
                   fmt::format("the part between --input and --output also needs the model's input '{}'", v->name()),
                   fmt::format("name it too (--input {}), or move the cut", v->name()));
    }
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<Module>> Import(onnx_import::ModelFile &file, const ImportOptions &options,
                                         DiagnosticEngine &diagnostics) {
  file.tensors.copies = options.copies;
  Builder builder(file, options, diagnostics);
  NPUC_RETURN_IF_ERROR(builder.Build());
  if (diagnostics.ErrorCount())
    return AlreadyReported();
  std::unique_ptr<Module> module = builder.Take();
  NPUC_RETURN_IF_ERROR(Cut(*module, builder, options));
  WalkNodes(module->main(), [](Node &n) {
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      EraseUnused(*n.body(i), false);
  });
  EraseUnused(module->main(), false);
  NPUC_RETURN_IF_ERROR(Verify(*module));
  return module;
}

template <class Read>
StatusOr<std::unique_ptr<Module>> Run(const std::string &name, const ImportOptions &options,
                                      DiagnosticEngine &diagnostics, Read read) {
  auto result = [&]() -> StatusOr<std::unique_ptr<Module>> {
    NPUC_ASSIGN_OR_RETURN(auto file, read());
    return Import(*file, options, diagnostics);
  }();
  if (!result.ok()) {
    diagnostics.ReportStatus(result.status(), name);
    return AlreadyReported();
  }
  return result;
}

std::string BaseName(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

} // namespace

StatusOr<std::unique_ptr<Module>> ImportModel(const std::string &path, const ImportOptions &options,
                                              DiagnosticEngine &diagnostics) {
  return Run(BaseName(path), options, diagnostics, [&] { return onnx_import::ReadModelFile(path); });
}

StatusOr<std::unique_ptr<Module>> ImportModel(MappedFile file, const std::string &folder, const ImportOptions &options,
                                              DiagnosticEngine &diagnostics) {
  const std::string name = BaseName(file.path());
  return Run(name, options, diagnostics, [&] { return onnx_import::ParseModel(std::move(file), folder); });
}

} // namespace npuc
