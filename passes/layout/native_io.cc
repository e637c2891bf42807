// --io native: the model's inputs and outputs take the NPU's own element type, so that no conversion is left at the
// edge. (assign-layouts gives them its layouts.)
//
//   input %x: f32 read by one Cast to f16           ->  input %x: f16
//   input %x: f32 read by one Quantize              ->  input %x: u8{s,z}
//   input %q: u8  read by one QuantCast             ->  input %q: u8{s,z}
//   output: Cast to f32 / Dequantize / QuantCast to raw integers of a value  ->  the value itself
//
// Left alone: without --io native; inputs with other readers (a host step wants them as they are); conversions on the
// host. Conversions that go take their origins along: they are eliminated.
#include "passes/common.h"

namespace npuc {
namespace {

bool IsConversion(const Node &n) {
  return (n.Is("Cast") || IsNpucOp(n, "Quantize") || IsNpucOp(n, "Dequantize") || IsNpucOp(n, "QuantCast")) &&
         n.placement() == Placement::Npu;
}
bool IsNative(const Type &t) {
  return t.is_static_tensor() && (t.is_quantized() || t.dtype() == DType::F16);
}

} // namespace

StatusOr<bool> NativeIo(Module &m, PassContext &ctx) {
  if (!ctx.options.native_io)
    return false;
  Graph &g = m.main();
  bool changed = false;
  for (unsigned i = 0; i < g.num_inputs(); ++i) {
    Value *const x = g.input(i);
    Node *const convert = SoleUser(x);
    if (!convert || !IsConversion(*convert) || IsNative(x->type()) || !IsNative(convert->result()->type()))
      continue;
    x->set_type(convert->result()->type());
    convert->result()->ReplaceAllUsesWith(x);
    convert->Erase();
    changed = true;
  }
  for (unsigned i = 0; i < g.num_outputs(); ++i) {
    Node *const convert = g.output(i)->def();
    if (!convert || convert->graph() != &g || !IsConversion(*convert))
      continue;
    Value *const v = convert->operand(0);
    if (!v || !IsNative(v->type()) || IsNative(convert->result()->type()) || v->constant())
      continue;
    // Only this output: another reader of the converted value keeps its conversion.
    g.return_node()->set_operand(i, v);
    if (!convert->result()->has_uses()) {
      if (!v->is_graph_output() || v->uses().size() == 1)
        TakeName(*convert->result(), *v);
      convert->Erase();
    }
    changed = true;
  }
  return changed;
}

} // namespace npuc
