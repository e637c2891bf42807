// What the tests of passes share: modules from text, runs of passes on a make-believe NPU, and evaluation by the
// interpreter.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "compiler/interp/interpreter.h"
#include "compiler/ops/infer.h"
#include "compiler/pass/pass_manager.h"
#include "passes/common.h"
#include "passes/pipelines.h"

namespace npuc::testing {

// An NPU that takes what `refuse` does not name, on f16 and quantised types, with an output stage like the reference
// NPU's.
class FakeNpu : public NpuOps {
public:
  FakeNpu();
  const NpuOp *Find(const OpDef &op) const override;
  std::vector<std::pair<const OpDef *, const NpuOp *>> All() const override { return {}; }
  std::vector<Violation> Check(const Node &node, const CheckContext &ctx) const override;
  int max_stage_ops() const override { return 8; }

  std::set<std::string> refuse;          // operator names
  std::set<std::string> refuse_nodes;    // labels
  std::map<std::string, int64_t> cycles; // by operator; 1000 else

private:
  class Op; // one an operator
  std::map<std::string, std::unique_ptr<NpuOp>> ops_;
};

struct Env {
  Env();
  Target target;
  DiagnosticEngine diagnostics;
  FakeNpu npu;
  PassContext ctx;
};

// Parsed, types inferred, verified.
std::unique_ptr<Module> Load(std::string_view text);
// Runs passes one after another, verifying after each; whether any changed something.
bool RunList(Module &m, std::vector<std::string> passes, PassContext &ctx);

std::vector<Tensor> Eval(const Module &m, const std::vector<Tensor> &inputs);
Tensor F32(llvm::ArrayRef<int64_t> dims, std::vector<float> v);
Tensor Iota(llvm::ArrayRef<int64_t> dims, float start = 0, float step = 1);
Tensor Noise(llvm::ArrayRef<int64_t> dims, uint32_t seed, float lo = -1, float hi = 1);
template <class T> Tensor Ints(DType t, llvm::ArrayRef<int64_t> dims, std::vector<T> v) {
  return Tensor::Of<T>(t, dims, v);
}
std::vector<double> Values(const Tensor &t);
void ExpectClose(const Tensor &got, const std::vector<double> &want, double tolerance = 1e-6);
void ExpectSame(const Tensor &a, const Tensor &b, double tolerance = 0);

int Count(const Module &m, std::string_view op);          // nodes of this operator name, bodies included
const Node *FindOp(const Module &m, std::string_view op); // the first; null
std::string Text(const Module &m);

// Loads twice, runs passes on one, and holds the outputs on `inputs` against each other. Gives back the changed one.
std::unique_ptr<Module> RunAndCompare(std::string_view text, std::vector<std::string> passes,
                                      const std::vector<Tensor> &inputs, PassContext &ctx, double tolerance = 1e-5);

} // namespace npuc::testing
