// The operator table: built on first use (no static initialisers), sorted, searched by bisection.
#include "compiler/ops/registry.h"

#include <algorithm>

#include "compiler/support/status.h"

namespace npuc {
namespace {

bool Less(std::string_view d1, std::string_view n1, std::string_view d2, std::string_view n2) {
  return d1 != d2 ? d1 < d2 : n1 < n2;
}

std::vector<OpDef> MakeTable() {
  std::vector<OpDef> table = {
#define NPUC_OP(name) ops::name##Def(),
#include "compiler/ops/ops.def"
#undef NPUC_OP
  };
  std::stable_sort(table.begin(), table.end(),
                   [](const OpDef &a, const OpDef &b) { return Less(a.domain, a.name, b.domain, b.name); });
  for (size_t i = 0; i < table.size(); ++i) {
    NPUC_CHECK(table[i].infer != nullptr, "operator {} has no shape inference", table[i].name);
    if (i > 0)
      NPUC_CHECK(table[i - 1].domain != table[i].domain || table[i - 1].name != table[i].name,
                 "operator {} is listed twice in ops.def", table[i].name);
  }
  return table;
}

} // namespace

llvm::ArrayRef<OpDef> AllOps() {
  static const auto *table = new std::vector<OpDef>(MakeTable());
  return *table;
}

const OpDef *LookupOp(std::string_view domain, std::string_view name) {
  if (domain == "ai.onnx")
    domain = "";
  const llvm::ArrayRef<OpDef> table = AllOps();
  const OpDef *it = std::lower_bound(table.begin(), table.end(), 0,
                                     [&](const OpDef &op, int) { return Less(op.domain, op.name, domain, name); });
  return it != table.end() && it->domain == domain && it->name == name ? it : nullptr;
}

} // namespace npuc
