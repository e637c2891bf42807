// A registry of a few operators for the IR's own tests: the IR knows operators only through LookupOp, so these need not
// be the real ones.
#include <array>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

OpDef Make(std::string_view domain, std::string_view name, int min_in, int max_in, int min_out, int max_out,
           std::vector<AttrSpec> attrs = {}) {
  OpDef d;
  d.domain = domain;
  d.name = name;
  d.min_operands = min_in;
  d.max_operands = max_in;
  d.min_results = min_out;
  d.max_results = max_out;
  d.attrs = std::move(attrs);
  return d;
}

Status VerifyRelu(const Node &n) {
  const Type &t = n.operand(0)->type();
  if (t.is_tensor() && t.dtype() == DType::String)
    return Error("E0302", "Relu of strings", "use numbers");
  return OkStatus();
}

} // namespace

const OpDef *LookupOp(std::string_view domain, std::string_view name) {
  using K = AttrKind;
  static const std::vector<OpDef> *const ops = [] {
    auto *v = new std::vector<OpDef>{
        Make("", "Constant", 0, 0, 1, 1, {{"value", K::Tensor, true}}),
        Make("", "Relu", 1, 1, 1, 1),
        Make("", "Add", 2, 2, 1, 1),
        Make("", "Clip", 1, 3, 1, 1),
        Make("", "Concat", 1, -1, 1, 1, {{"axis", K::Int, true}}),
        Make("", "Split", 1, 2, 1, -1, {{"axis", K::Int}}),
        Make("", "Conv", 2, 3, 1, 1, {{"kernel_shape", K::Ints}, {"pads", K::Ints}, {"alpha", K::Float}}),
        Make("", "If", 1, 1, 1, -1, {{"else_branch", K::Graph, true}, {"then_branch", K::Graph, true}}),
        Make("", "Loop", 2, -1, 1, -1, {{"body", K::Graph, true}}),
        Make("com.microsoft", "QLinearAdd", 8, 8, 1, 1),
        Make("weird domain", "Op \"x\"", 0, -1, 0, -1),
        Make("test", "Everything", 0, -1, 0, -1,
             {{"i", K::Int},
              {"f", K::Float},
              {"s", K::String},
              {"is", K::Ints},
              {"fs", K::Floats},
              {"ss", K::Strings},
              {"t", K::Tensor},
              {"ts", K::Tensors},
              {"ty", K::Type},
              {"a b", K::String}}),
    };
    (*v)[1].verify = VerifyRelu;
    return v;
  }();
  for (const OpDef &d : *ops)
    if (d.domain == domain && d.name == name)
      return &d;
  return nullptr;
}

} // namespace npuc
