// The table of all passes.
#include <algorithm>
#include <vector>

#include "compiler/pass/pass.h"

namespace npuc {

#define PASS(Function, name, doc) StatusOr<bool> Function(Module &m, PassContext &ctx);
#include "passes/passes.def"
#undef PASS

llvm::ArrayRef<Pass> AllPasses() {
  static const std::vector<Pass> *const all = [] {
    auto *v = new std::vector<Pass>{
#define PASS(Function, name, doc) {name, Function, doc},
#include "passes/passes.def"
#undef PASS
    };
    std::sort(v->begin(), v->end(), [](const Pass &a, const Pass &b) { return a.name < b.name; });
    return v;
  }();
  return *all;
}

const Pass *LookupPass(std::string_view name) {
  for (const Pass &p : AllPasses())
    if (p.name == name)
      return &p;
  return nullptr;
}

} // namespace npuc
