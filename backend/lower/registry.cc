// The registry: lowerings.def as a table sorted by name, and the rules that hold for every operator.
#include "backend/lower/registry.h"

#include <algorithm>

#include "backend/lower/rules.h"
#include "backend/lower/stage.h"
#include "compiler/program/views.h"
#include "compiler/support/status.h"

namespace npuc::lower {

#define X(domain, name, fn) const NpuOp *fn();
#include "backend/lower/lowerings.def"
#undef X

const RuleDoc kRuleNoLowering{"no-lowering", "the NPU has no command for this operator",
                              "it runs on the host; replace it by supported operators or cut it off with --output"};
const RuleDoc kRuleDynamicShape{"dynamic-shape", "every shape must be static",
                                "fix it with --dim NAME=N or --input-shape NAME=..."};
const RuleDoc kRuleDtype{"dtype", "the element type must be one that the target computes on",
                         "convert the model's tensor, or choose another target or --precision"};
const RuleDoc kRuleFloatOnIntegerTarget{"float-on-integer-target", "the target computes on integers only",
                                        "quantise the model (--calib samples, or a QDQ model)"};
const RuleDoc kRuleExtent{
    "extent", "each extent of a tensor's four-dimensional view must be within the machine's limit", "split the tensor"};
const RuleDoc kRuleEmpty{"empty-tensor", "tensors must have elements", "remove the empty branch"};
const RuleDoc kRuleMixedTypes{"mixed-types", "operands and results must be all float or all quantised",
                              "quantise every operand of the node, or none"};
const RuleDoc kRuleConstantOperand{"constant-operand", "this operand must be a constant",
                                   "fold it into an initializer, or bind it with --bind"};
const RuleDoc kRulePerTensor{"per-tensor-scale", "activations must be quantised per tensor",
                             "export per-tensor activation scales"};
const RuleDoc kRuleWindow{"window", "every window must see some of the input", "use smaller dilations or pads"};

void RequireSeeingWindows(const AxisTaps &axis, int64_t extent, int64_t outputs, RuleReport &report) {
  for (int64_t o = 0; o < outputs; ++o) {
    int64_t at = o * axis.stride - axis.before;
    if (at < 0) // the first tap that is not before the input
      at += std::min(axis.kernel - 1, (axis.dilation - 1 - at) / axis.dilation) * axis.dilation;
    if (at >= 0 && at < extent)
      continue;
    report.Require(false, kRuleWindow, fmt::format("a tap within {}", extent),
                   fmt::format("padding alone in window {}", o));
    return;
  }
}

std::string DimsText(llvm::ArrayRef<int64_t> d) {
  return ToString(d);
}

bool RequireArithmeticTypes(const Node &node, const CheckContext &ctx, uint32_t skip_mask, RuleReport &report) {
  bool any_quant = false, any_float = false, ok = true;
  auto look = [&](const Value *v) {
    const Type &t = v->type();
    if (!t.is_tensor())
      return;
    if (t.is_quantized()) {
      any_quant = true;
      ok &= report.Require(t.quant()->per_tensor(), kRulePerTensor, "one scale",
                           fmt::format("{} scales of '{}'", t.quant()->scales.size(), v->name()));
    } else {
      const DType d = ctx.dtype(v);
      const bool fp = d == DType::F16 || d == DType::F32;
      any_float |= fp;
      if (!fp)
        ok &= report.Require(false, kRuleDtype, "f16 or a quantised type", std::string(Name(d)));
    }
  };
  for (unsigned i = 0; i < node.num_operands(); ++i)
    if (node.operand(i) && !(skip_mask >> i & 1))
      look(node.operand(i));
  // An anchor in a Fused body may leave its accumulator as f32, which the output stage goes on with.
  const Node *parent = node.graph() ? node.graph()->parent() : nullptr;
  if (!(parent && parent->Is("Fused", "npuc")))
    look(node.result());
  return ok & report.Require(!(any_quant && any_float), kRuleMixedTypes, "one kind", "float beside quantised");
}

namespace {

struct Entry {
  std::string_view domain, name;
  const NpuOp *op;
};

class ReferenceOps : public NpuOps {
public:
  ReferenceOps() {
#define X(domain, name, fn) entries_.push_back({domain, name, fn()});
#include "backend/lower/lowerings.def"
#undef X
    std::sort(entries_.begin(), entries_.end(), Less);
  }

  const NpuOp *Find(const OpDef &op) const override {
    auto it = std::lower_bound(entries_.begin(), entries_.end(), Entry{op.domain, op.name, nullptr}, Less);
    return it != entries_.end() && it->name == op.name && it->domain == op.domain ? it->op : nullptr;
  }

  std::vector<std::pair<const OpDef *, const NpuOp *>> All() const override {
    std::vector<std::pair<const OpDef *, const NpuOp *>> r;
    for (const Entry &e : entries_) {
      const OpDef *def = LookupOp(e.domain, e.name);
      NPUC_CHECK(def != nullptr, "lowering of unknown operator {}", e.name);
      r.push_back({def, e.op});
    }
    return r;
  }

  int max_stage_ops() const override {
    return kMaxStageOps;
  }

  std::vector<Violation> Check(const Node &node, const CheckContext &ctx) const override {
    std::vector<Violation> out;
    RuleReport report(&out);
    const NpuOp *op = Find(node.op());
    report.Require(op != nullptr, kRuleNoLowering, "an operator of docs/supported_ops.md", std::string(node.op().name));
    bool is_static = true;
    auto look = [&](const Value *v) {
      const Type &t = v->type();
      if (!t.is_static_tensor()) {
        is_static = false;
        report.Require(false, kRuleDynamicShape, "static", fmt::format("'{}' {}", v->name(), t.ToString()));
        return;
      }
      if (t.shape().num_elements() == 0) {
        is_static &= report.Require(false, kRuleEmpty, "at least one element",
                                    fmt::format("'{}' {}", v->name(), t.shape().ToString()));
        return;
      }
      if (v->constant())
        return;
      const DType d = ctx.dtype(v);
      if ((d == DType::F16 || (d == DType::F32 && t.dtype() == DType::F32)) && !ctx.target.Supports(DType::F16)) {
        report.Require(false, kRuleFloatOnIntegerTarget, "i8, u8, i16", std::string(Name(d)));
      } else if (t.is_quantized()) {
        report.Require(ctx.target.Supports(d), kRuleDtype, "the target's types", std::string(Name(d)));
      }
      for (int64_t e : program::ViewExtents(t))
        is_static &=
            report.Require(e <= ctx.target.limits.dims_max, kRuleExtent, std::to_string(ctx.target.limits.dims_max),
                           fmt::format("{} in '{}'", e, v->name()));
    };
    for (const Value *v : node.operands())
      if (v)
        look(v);
    for (unsigned i = 0; i < node.num_results(); ++i)
      if (i == 0 || node.result(i)->has_uses())
        look(node.result(i));
    if (op && is_static)
      op->Check(node, ctx, &out);
    return out;
  }

private:
  static bool Less(const Entry &a, const Entry &b) {
    return a.name != b.name ? a.name < b.name : a.domain < b.domain;
  }
  std::vector<Entry> entries_;
};

} // namespace

const NpuOps &ReferenceNpuOps() {
  static const ReferenceOps ops;
  return ops;
}

} // namespace npuc::lower
