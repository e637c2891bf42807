// What a pass is: a function on a module, its name, and the context it runs in. Passes live in passes/, one a file, one
// row each in passes/passes.def.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/calibration/methods.h"
#include "compiler/ir/graph.h"
#include "compiler/pass/npu_op.h"
#include "compiler/pass/op_selector.h"
#include "compiler/pass/quant_config.h"
#include "compiler/support/diagnostic.h"
#include "llvm/ADT/StringSet.h"

namespace npuc {

class SampleSource;
class ThreadPool;

// The user's wishes, as npuc's flags of the same names give them. Plain data: two equal ones give equal results.
struct PassOptions {
  Precision precision = Precision::Auto;
  bool have_samples = false;                                // --calib was given: auto means int8
  MethodOptions calibration;                                // --calib-method: how ranges come from statistics
  QuantConfig quant_config;                                 // --quant-config
  int opt_level = 2;                                        // -O
  int max_fusion_chain = 5;                                 // most ONNX nodes in one Fused node
  std::vector<OpSelector> deny_ops;                         // --deny-op, and avoid_ops of --ops
  std::vector<OpSelector> preferred_ops;                    // preferred_ops of --ops
  std::vector<std::string> deny_nodes;                      // --deny-node: OnnxNode ids
  std::map<std::string, std::pair<int64_t, int64_t>> tiles; // --tile ID=HxW
  bool native_io = false;                                   // --io native

  // The flags of npu-opt that give these options, "" for the default ones: what a reproducer's command says.
  std::string ToFlags() const;
};

// A thing the user should know that is no fault: a fusion that nearly happened and what stopped it, say.
struct Remark {
  std::string pass;
  std::string node; // id of the ONNX node, or a value's name
  std::string message;
  bool operator==(const Remark &) const = default;
};

// What a pass works with. Lives for one compilation.
class PassContext {
public:
  PassContext(const Target &target, DiagnosticEngine &diagnostics) : target(target), diagnostics(diagnostics) {}

  const Target &target;
  DiagnosticEngine &diagnostics;
  PassOptions options;
  ThreadPool *threads = nullptr; // may be null
  const NpuOps *npu = nullptr;   // what the hardware takes; null: the NPU takes nothing
  // Only cycles and verdicts are asked for (advice tries changed models): weights are not converted, Unconverted()
  // stands for them.
  bool estimate_only = false;
  // A tensor of no special value, other than the ones before it, that costs no memory.
  Tensor Unconverted(DType dtype, llvm::ArrayRef<int64_t> dims);

  // Statistics of the float graph's values, from the stage of the pipeline on that ends CalibrationPipeline
  // (passes/pipelines.h); null without --calib. `samples`: what they are of, for passes that run samples themselves;
  // null when a statistics file was given.
  const CalibrationTable *calibration = nullptr;
  const SampleSource *samples = nullptr;

  // What quantize-calibrated did, for the report; only where it ran.
  struct KeptFloat {
    Origin origin;
    std::string why;
  };
  std::vector<KeptFloat> kept_float; // operators that could have been integer ones, in graph order

  // Counters by name ("fuse: conv-relu", "layout: transposes removed"), for the report. Listed in name order.
  void Count(std::string_view name, int64_t n = 1);
  const std::map<std::string, int64_t, std::less<>> &counters() const { return counters_; }

  // Once each, in the order of first mention.
  void AddRemark(const Node &node, std::string message);
  const std::vector<Remark> &remarks() const { return remarks_; }

  // Why ONNX nodes are not on the NPU: all rules that they break, in the order found, each once.
  void AddReasons(const Origin &nodes, llvm::ArrayRef<Violation> why);
  const std::map<OriginId, std::vector<Violation>> &reasons() const { return reasons_; }

  // Asked before each optional rewrite; false once `rewrite_limit` of them were allowed: bisecting that number finds
  // the rewrite that breaks a model.
  bool MayRewrite() { return rewrites_++ < rewrite_limit; }
  int64_t rewrite_limit = INT64_MAX;

  // The pass at work; set by the manager.
  std::string_view pass;

private:
  uint32_t unconverted_ = 0;
  std::map<std::string, int64_t, std::less<>> counters_;
  std::vector<Remark> remarks_;
  llvm::StringSet<> remark_keys_;
  std::map<OriginId, std::vector<Violation>> reasons_;
  int64_t rewrites_ = 0;
};

// The bool says whether the IR changed. Errors made by Error() are the user's; others are bugs of the pass.
using PassFn = StatusOr<bool> (*)(Module &, PassContext &);

struct Pass {
  std::string_view name; // "fuse-conv-relu", of FuseConvRelu in fuse_conv_relu.cc
  PassFn run = nullptr;
  std::string_view doc; // one line
};

// Rows of passes/passes.def, in name order; defined in passes/registry.cc.
llvm::ArrayRef<Pass> AllPasses();
const Pass *LookupPass(std::string_view name); // null when unknown

} // namespace npuc
