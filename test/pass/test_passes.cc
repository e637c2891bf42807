// Passes for the manager's tests, good ones and bad ones.
#include "compiler/ir/rewriter.h"
#include "compiler/pass/pass.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

Node *FindRelu(Module &m) {
  for (Node &n : m.main().nodes())
    if (n.Is("Relu"))
      return &n;
  return nullptr;
}

// Relu(x) -> x, one a run.
StatusOr<bool> DropRelu(Module &m, PassContext &ctx) {
  Node *n = FindRelu(m);
  if (!n || !ctx.MayRewrite())
    return false;
  ctx.Count("relus dropped");
  ctx.AddRemark(*n, "dropped");
  Rewriter(*n->graph()).ReplaceNode(n, {n->operand(0)});
  return true;
}
StatusOr<bool> Nothing(Module &, PassContext &) {
  return false;
}
StatusOr<bool> SaysChanged(Module &, PassContext &) {
  return true;
}
StatusOr<bool> Lies(Module &m, PassContext &ctx) {
  return DropRelu(m, ctx).ok() ? false : true;
}
StatusOr<bool> BreaksOrder(Module &m, PassContext &) {
  FindRelu(m)->MoveBefore(m.main().return_node());
  return true;
}
StatusOr<bool> Crashes(Module &m, PassContext &) {
  CheckScope here(fmt::format("node '{}'", FindRelu(m)->Label()));
  NPUC_CHECK(m.main().num_inputs() == 77, "{} inputs", m.main().num_inputs());
  return false;
}
StatusOr<bool> UsersFault(Module &m, PassContext &) {
  return AtNode(Error("E0401", "Relu is too much", "use Identity"), FindRelu(m)->Label(), "Relu");
}
StatusOr<bool> InternalFault(Module &, PassContext &) {
  return absl::InternalError("lost the thread");
}

constexpr Pass kPasses[] = {
    {"breaks-order", BreaksOrder, "leaves a use before its definition"},
    {"crashes", Crashes, "fails a check"},
    {"drop-relu", DropRelu, "drops one Relu"},
    {"internal-fault", InternalFault, "returns an internal error"},
    {"lies", Lies, "changes the IR and denies it"},
    {"nothing", Nothing, "does nothing"},
    {"says-changed", SaysChanged, "does nothing and says that it did"},
    {"users-fault", UsersFault, "returns a user's error"},
};

} // namespace

llvm::ArrayRef<Pass> AllPasses() {
  return kPasses;
}

const Pass *LookupPass(std::string_view name) {
  for (const Pass &p : kPasses)
    if (p.name == name)
      return &p;
  return nullptr;
}

} // namespace npuc
