// EliminateDeadNodes: erases nodes whose results nobody uses, in all graphs.
//
//   %a = Relu(%x)  %b = Exp(%a)  return %x      ->      return %x
//
// ONNX operators have no effects, so unused means unneeded, for random generators too. Inputs of the model stay: they
// are its signature. Linear.
#include "compiler/ir/rewriter.h"
#include "compiler/pass/pass.h"

namespace npuc {

StatusOr<bool> EliminateDeadNodes(Module &m, PassContext &) {
  return EraseDeadNodes(m.main());
}

} // namespace npuc
