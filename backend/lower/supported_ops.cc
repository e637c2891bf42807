#include "backend/lower/supported_ops.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "compiler/ops/registry.h"

namespace npuc::lower {

std::string SupportedOpsMarkdown(const NpuOps &npu) {
  std::string s = "# Supported operators\n\n"
                  "Generated from the operators and the NPU's rules by `lower_test` (`NPUC_UPDATE_DOCS=1` writes it "
                  "anew); don't edit.\n\n"
                  "Every operator below compiles. Those with **NPU** run there when the node keeps the rules, the "
                  "common ones first; else the node is a host\n"
                  "step and the report names each broken rule with its limit and the value found.\n\n"
                  "Rules for every operator on the NPU: static shapes (`dynamic-shape`), element types of the target "
                  "(`dtype`, `float-on-integer-target`),\n"
                  "extents within the machine's (`extent`), at least one element (`empty-tensor`), quantisation per "
                  "tensor for activations\n"
                  "(`per-tensor-scale`), operands all float or all quantised (`mixed-types`).\n\n"
                  "| operator | since opset | where | rules on the NPU |\n|---|---|---|---|\n";
  std::vector<const OpDef *> ops;
  for (const OpDef &op : AllOps())
    ops.push_back(&op);
  std::sort(ops.begin(), ops.end(), [](const OpDef *a, const OpDef *b) {
    return a->domain != b->domain ? a->domain < b->domain : a->name < b->name;
  });
  for (const OpDef *op : ops) {
    if (op->domain == "npuc")
      continue;
    const NpuOp *lowering = npu.Find(*op);
    std::string rules;
    if (lowering)
      for (const RuleDoc &r : lowering->rules())
        rules += fmt::format("{}`{}`: {}", rules.empty() ? "" : "; ", r.rule, r.text);
    const std::string name = op->domain.empty() ? std::string(op->name) : fmt::format("{}::{}", op->domain, op->name);
    s += fmt::format("| {} | {} | {} | {} |\n", name, op->since_version, lowering ? "**NPU**, host" : "host", rules);
  }
  return s;
}

} // namespace npuc::lower
