// Decides for every node whether the NPU or the host runs it.
//
// A node goes to the NPU when NpuOps::Check finds no broken rule, the user's lists don't deny it and its floats are f16
// (assign-precision has decided that). All rules it breaks are kept as the reasons of its ONNX nodes, in Check's order;
// what assign-precision found stands first. A Fused node that can't run is un-fused, and its parts are asked one by
// one.
//
// f16 nodes that end on the host compute in f32 there: their f16 types are taken back, and casts that this leaves
// facing each other go. A Cast between the two sides is NPU work (the VPU casts while it copies), so that tensors cross
// in the host's type.
//
// Left alone: constants (no placement), bodies of host nodes (a host step runs them whole).
// Cost: one Check a node.
#include "passes/common.h"

namespace npuc {
namespace {

bool IsNpuFloat(DType t) {
  return t == DType::F16;
}

// f32 and f64 are the host's, but for conversions that end or begin in f32.
bool HasHostFloat(const Node &n, std::string *which) {
  if (n.Is("Cast") || IsNpucOp(n, "Quantize") || IsNpucOp(n, "Dequantize") || IsNpucOp(n, "QuantCast"))
    return false;
  auto look = [&](const Value *v) {
    if (!v || !v->type().is_tensor() || v->constant())
      return false;
    const DType t = v->type().dtype();
    if (!IsFloat(t) || IsNpuFloat(t))
      return false;
    *which = fmt::format("{} '{}'", Name(t), v->name());
    return true;
  };
  for (const Value *v : n.operands())
    if (look(v))
      return true;
  for (unsigned i = 0; i < n.num_results(); ++i)
    if (look(n.result(i)))
      return true;
  return false;
}

void Unfuse(Node &n) {
  llvm::SmallVector<Value *, 4> inputs(n.operands().begin(), n.operands().end());
  const std::vector<Value *> outputs = InlineGraph(*n.body(0), *n.graph(), &n, inputs);
  TakeName(*n.result(), *outputs[0]);
  n.result()->ReplaceAllUsesWith(outputs[0]);
  n.Erase();
}

class Placer {
public:
  explicit Placer(PassContext &ctx) : ctx_(ctx) {}

  bool Run(Graph &g) {
    bool changed = false;
    for (auto it = g.nodes().begin(); it != g.nodes().end();) {
      Node &n = *it;
      if (n.is_return() || n.is_constant()) {
        ++it;
        continue;
      }
      bool on_host = false;
      const std::vector<Violation> why = Why(n, &on_host);
      if (on_host && IsNpucOp(n, "Fused")) {
        // Go on with the first of its parts.
        const bool front = it == g.nodes().begin();
        auto before = front ? it : std::prev(it);
        Unfuse(n);
        it = front ? g.nodes().begin() : std::next(before);
        changed = true;
        continue;
      }
      const Placement p = on_host ? Placement::Host : Placement::Npu;
      ctx_.AddReasons(n.origin(), why);
      changed |= n.placement() != p;
      n.set_placement(p);
      ++it;
    }
    return changed;
  }

private:
  // The rules that n breaks; *on_host even where assign-precision has recorded them before.
  std::vector<Violation> Why(const Node &n, bool *on_host) {
    std::vector<Violation> why;
    bool said = false;
    if (ctx_.options.precision == Precision::Fp32) {
      why.push_back(
          {"precision-fp32", "--precision fp32 keeps every node on the host", "", "fp32", "choose --precision auto"});
      *on_host = true;
      return why;
    }
    if (auto denied = DeniedBy(n, ctx_)) {
      why.push_back({"denied", fmt::format("the user keeps it off the NPU: {}", *denied), "", *denied,
                     "drop it from --deny-op, --deny-node or --ops"});
    }
    *on_host = !why.empty() || !ctx_.npu;
    if (!ctx_.npu)
      return why;
    std::vector<Violation> broken = ctx_.npu->Check(n, CheckContext{ctx_.target});
    std::string which;
    if (broken.empty() && why.empty() && HasHostFloat(n, &which)) {
      if (!HasReasons(n))
        broken.push_back({"float32", fmt::format("it computes in {}, which the NPU does not", which),
                          "f16 or a quantised type", which, "choose --precision fp16 or quantise the model"});
      else
        said = true; // by assign-precision
    }
    why.insert(why.end(), broken.begin(), broken.end());
    *on_host = said || !why.empty();
    return why;
  }

  bool HasReasons(const Node &n) const {
    return llvm::any_of(n.origin(), [&](OriginId id) { return ctx_.reasons().count(id) != 0; });
  }

  PassContext &ctx_;
};

} // namespace

StatusOr<bool> PlaceNodes(Module &m, PassContext &ctx) {
  return Placer(ctx).Run(m.main());
}

} // namespace npuc
