// The whole pipeline on real models, for the reference NPU: the interpreter's outputs before and after must agree, and
// what must not happen (copies, islands, nodes left to the host) is counted. Skipped when the models aren't there.
//
// NPUC_MODELS=a,b runs other models of that folder and prints what came of them.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "backend/lower/registry.h"
#include "compiler/interp/interpreter.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/tensor_proto.h"
#include "compiler/pass/pass_manager.h"
#include "passes/pipelines.h"

namespace npuc {
namespace {

namespace fs = std::filesystem;

fs::path ModelsFolder() {
  if (const char *shared = std::getenv("NPUC_SHARED"))
    return fs::path(shared) / "models";
  for (fs::path p = fs::path(NPUC_SOURCE_DIR); p.has_parent_path() && p != p.parent_path(); p = p.parent_path())
    if (fs::exists(p / "../shared/models"))
      return p / "../shared/models";
  return {};
}

struct Outcome {
  std::unique_ptr<Module> module;
  std::map<std::string, int64_t> counters;
  std::map<OriginId, std::vector<Violation>> reasons;
  int npu = 0, host = 0, eliminated = 0;
  double worst_cosine = 1, worst_error = 0; // of outputs; error relative to the output's greatest magnitude
  std::string Describe() const {
    std::string s = fmt::format("npu {} host {} eliminated {} cosine {:.6f} error {:.2e}", npu, host, eliminated,
                                worst_cosine, worst_error);
    for (const auto &[name, n] : counters)
      s += fmt::format("\n    {}: {}", name, n);
    std::map<std::string, int> why;
    for (const auto &[id, list] : reasons)
      for (const Violation &v : list)
        ++why[fmt::format("{} {}", module->onnx_nodes()[id].op_type, v.rule)];
    for (const auto &[name, n] : why)
      s += fmt::format("\n    host: {} x{}", name, n);
    return s;
  }
};

void Compare(const Tensor &a, const Tensor &b, Outcome &out) {
  double dot = 0, aa = 0, bb = 0, worst = 0, scale = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.AsDouble(i), y = b.AsDouble(i);
    dot += x * y, aa += x * x, bb += y * y;
    worst = std::max(worst, std::abs(x - y));
    scale = std::max(scale, std::abs(y));
    if (std::isnan(x) != std::isnan(y))
      worst = INFINITY;
  }
  out.worst_cosine = std::min(out.worst_cosine, aa == 0 && bb == 0 ? 1.0 : dot / std::sqrt(aa * bb + 1e-300));
  out.worst_error = std::max(out.worst_error, worst / (scale + 1e-9));
}

void RunModel(const fs::path &path, Outcome &out, const ImportOptions &import = {}, const char *target_name = "edge-2t",
              PassOptions options = {}) {
  DiagnosticEngine diagnostics;
  ImportOptions with_shapes = import;
  if (import.dims.empty() && import.input_shapes.empty()) {
    // Free dims are those of the test data.
    auto free = ImportModel(path.string(), import, diagnostics);
    ASSERT_TRUE(free.ok()) << diagnostics.RenderAll();
    for (unsigned i = 0; i < (*free)->main().num_inputs(); ++i) {
      const fs::path pb = fs::path(path).replace_extension("") / "test_data_set_0" / fmt::format("input_{}.pb", i);
      const Value *in = (*free)->main().input(i);
      auto t = ReadTensorFile(pb.string());
      if (!t.ok() || t->rank() == 0)
        continue;
      with_shapes.input_shapes.push_back(fmt::format("{}={}", in->name(), fmt::join(t->dims(), "x")));
    }
  }
  auto module = ImportModel(path.string(), with_shapes, diagnostics);
  ASSERT_TRUE(module.ok()) << diagnostics.RenderAll();
  const Target target = Target::FromPreset(target_name).value();
  PassContext ctx(target, diagnostics);
  ctx.options = options;
  ctx.npu = &lower::ReferenceNpuOps();
  auto before = Clone(**module);
  PassManagerOptions manager;
  manager.verify_each = manager.check_changed = true;
  if (const char *stop = std::getenv("NPUC_STOP"))
    manager.stop_after = stop;
  const auto start = std::chrono::steady_clock::now();
  const Status s = RunPasses(**module, DefaultPipeline(ctx.options), ctx, manager);
  if (std::getenv("NPUC_MODELS"))
    fmt::print("  pipeline {:.2f} s\n",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  ASSERT_TRUE(s.ok()) << s;
  out.module = std::move(*module);
  out.counters = {ctx.counters().begin(), ctx.counters().end()};
  out.reasons = ctx.reasons();
  std::vector<char> npu(out.module->onnx_nodes().size()), host(npu.size());
  for (const Node &n : out.module->main().nodes()) {
    auto mark = [&](const Node &m) {
      for (OriginId id : m.origin())
        (n.placement() == Placement::Npu ? npu : host)[id] = 1;
    };
    if (n.is_constant() || n.is_return())
      continue;
    EXPECT_NE(n.placement(), Placement::Unassigned) << PrintNode(n);
    mark(n);
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      WalkNodes(static_cast<const Graph &>(*n.body(i)), mark);
  }
  for (size_t i = 0; i < npu.size(); ++i) {
    if (host[i])
      ++out.host;
    else if (npu[i])
      ++out.npu;
    else
      ++out.eliminated;
  }
  if (std::getenv("NPUC_NO_EVAL"))
    return;
  std::vector<EvalValue> inputs;
  for (unsigned i = 0; i < before->main().num_inputs(); ++i) {
    const Type &t = before->main().input(i)->type();
    const fs::path pb = fs::path(path).replace_extension("") / "test_data_set_0" / fmt::format("input_{}.pb", i);
    auto v = ReadValueFile(pb.string(), t);
    ASSERT_TRUE(v.ok()) << v.status();
    inputs.push_back(*v);
  }
  // NPUC_VALUES: tensors that both have by name, with how far they have drifted.
  std::map<std::string, Tensor> seen;
  Interpreter reference(before->main()), changed(out.module->main());
  if (std::getenv("NPUC_VALUES")) {
    reference.set_observer([&](const Value &v, const EvalValue &e) {
      if (e.tensor() && IsFloat(e.tensor()->dtype()))
        seen[v.name()] = *e.tensor();
    });
    changed.set_observer([&](const Value &v, const EvalValue &e) {
      auto it = seen.find(v.name());
      if (it == seen.end() || !e.tensor() || !IsFloat(e.tensor()->dtype()) || e.tensor()->dims() != it->second.dims())
        return;
      Outcome o;
      const Tensor b = it->second.Expand();
      Compare(e.tensor()->Expand(), b, o);
      double most = 0;
      for (int64_t i = 0; i < b.num_elements(); ++i)
        most = std::max(most, std::abs(b.AsDouble(i)));
      fmt::print("    {:.6f} {:.1e} max {:.3g} {}\n", o.worst_cosine, o.worst_error, most, v.name());
    });
  }
  auto want = reference.Run(inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  auto got = changed.Run(inputs);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < want->size(); ++i) {
    if (!(*want)[i].tensor())
      continue;
    const Tensor a = (*got)[i].tensor()->Expand(), b = (*want)[i].tensor()->Expand();
    ASSERT_EQ(a.dtype(), b.dtype());
    ASSERT_EQ(a.dims(), b.dims());
    Compare(a, b, out);
  }
}

TEST(Models, FromTheEnvironment) {
  const char *list = std::getenv("NPUC_MODELS");
  if (!list)
    GTEST_SKIP() << "NPUC_MODELS is not set";
  std::string names = list;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string name = names.substr(at, end - at);
    at = end + 1;
    Outcome out;
    fmt::print("{}\n", name);
    std::fflush(stdout);
    RunModel(ModelsFolder() / (name + ".onnx"), out);
    if (out.module)
      fmt::print("  {}\n", out.Describe());
    if (const char *dir = std::getenv("NPUC_DUMP"); dir && out.module) {
      FILE *f = std::fopen((fs::path(dir) / (name + ".ir")).c_str(), "w");
      const std::string text = Print(*out.module, false);
      std::fwrite(text.data(), 1, text.size(), f);
      std::fclose(f);
    }
  }
}

} // namespace
} // namespace npuc
