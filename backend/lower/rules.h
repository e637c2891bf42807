// Legality rules as data: one text is the rejection message, the row of docs/supported_ops.md and the rule id in the
// report.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "compiler/pass/npu_op.h"

namespace npuc::lower {

// Collects the rules that a node breaks.
class RuleReport {
public:
  explicit RuleReport(std::vector<Violation> *out) : out_(out) {}
  // Records `rule` unless `ok`; returns ok, so that checks that build on one another can stop early.
  bool Require(bool ok, const RuleDoc &rule, std::string limit, std::string actual) {
    if (!ok)
      out_->push_back(
          {rule.rule, fmt::format("{}: found {}, allowed {}", rule.text, actual, limit), limit, actual, rule.help});
    return ok;
  }

private:
  std::vector<Violation> *out_;
};

// Rules that many operators share; defined in registry.cc.
extern const RuleDoc kRuleNoLowering, kRuleDynamicShape, kRuleDtype, kRuleFloatOnIntegerTarget, kRuleExtent, kRuleEmpty,
    kRuleMixedTypes, kRuleConstantOperand, kRulePerTensor, kRuleWindow;

// True (and nothing recorded) when every tensor operand and result is float, or every one is quantised per tensor
// (weights apart): the VPU's arithmetic. Operands in `skip_mask` (bit i) are not looked at.
bool RequireArithmeticTypes(const Node &node, const CheckContext &ctx, uint32_t skip_mask, RuleReport &report);

// Every output of one axis must have a tap in the input, of that extent; dilated taps can step over it.
struct AxisTaps {
  int64_t kernel, stride, dilation, before;
};
void RequireSeeingWindows(const AxisTaps &axis, int64_t extent, int64_t outputs, RuleReport &report);

std::string DimsText(llvm::ArrayRef<int64_t> d);

} // namespace npuc::lower
