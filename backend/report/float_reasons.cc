// Why products of a model that came quantised are float ones: read off the model as imported, before any pass takes the
// DequantizeLinear nodes away. The report keeps those whose product did run as float16.
#include <fmt/format.h>

#include "backend/report/build.h"
#include "compiler/ir/matchers.h"

namespace npuc::report {
namespace {

const Node *DequantizeOf(const Value *v) {
  for (int depth = 0; v && v->def() && depth < 4; ++depth) {
    if (v->def()->Is("DequantizeLinear"))
      return v->def();
    if (!v->def()->Is("Transpose") && !v->def()->Is("Reshape") && !v->def()->Is("Identity"))
      return nullptr;
    v = v->def()->operand(0);
  }
  return nullptr;
}

// The type of the codes: that of the zero point, of the tensor, or of the QuantizeLinear that makes it.
DType CodesOf(const Node &dequantize) {
  for (const Value *v : {dequantize.operand(2), dequantize.operand(0)})
    if (v && v->type().is_tensor() && v->type().dtype() != DType::Undefined)
      return v->type().dtype();
  const Node *q = DefinedBy(dequantize.operand(0), "QuantizeLinear");
  const Value *z = q ? q->operand(2) : nullptr;
  return z && z->type().is_tensor() ? z->type().dtype() : DType::U8;
}

int64_t NumScales(const Node &dequantize) {
  const Tensor *s = dequantize.operand(1)->constant();
  return s ? s->num_elements() : 1;
}

// What about these integers does not go into an integer product; "" if nothing. `channel_axis`: the one that weights
// may have several scales along; none: activations.
std::string Fault(const Node &d, std::string_view what, std::optional<int> channel_axis) {
  const DType codes = CodesOf(d);
  const bool weights = channel_axis.has_value();
  if (!d.operand(1)->constant())
    return fmt::format("the scale of its {} is computed", what);
  if (d.attrs().Int("block_size", 0) > 0)
    return fmt::format("its {} have one scale a block; a product has one an output channel", what);
  if (IsFloat(codes))
    return fmt::format("its {} are {}; the NPU multiplies integers and float16", what, OnnxName(codes));
  if (weights ? BitWidth(codes) > 8 : BitWidth(codes) < 8 || BitWidth(codes) > 16)
    return fmt::format("its {} are {}; integer products take {}", what, OnnxName(codes),
                       weights ? "weights of up to 8 bits" : "inputs of 8 or 16 bits");
  if (NumScales(d) > 1) {
    if (!weights)
      return fmt::format("its {} have {} scales; a product has one for all of them", what, NumScales(d));
    const Type &t = d.operand(0)->type();
    int64_t axis = d.attrs().Int("axis", 1);
    if (axis < 0 && t.is_tensor() && t.shape().ranked())
      axis += t.shape().rank();
    if (axis >= 0 && axis != *channel_axis)
      return fmt::format("its weights have scales along axis {}, a product has them along axis {}", axis,
                         *channel_axis);
  }
  return "";
}

std::string Why(const Node &n) {
  const Node *const input = DequantizeOf(n.operand(0)), *const weights = DequantizeOf(n.operand(1));
  if (!input && !weights)
    return "";
  if (weights) {
    int axis = n.Is("Conv") || (n.Is("Gemm") && n.attrs().Int("transB", 0) != 0) ? 0 : 1;
    const Type &t = n.operand(1)->type();
    if (n.Is("MatMul") && t.is_tensor() && t.shape().ranked())
      axis = t.shape().rank() - 1;
    // A Transpose between moves the axis: it is not looked through here.
    const bool moved = n.operand(1)->def() != weights;
    const Type &codes = weights->operand(0)->type();
    if (moved && codes.is_tensor() && codes.shape().ranked())
      axis = codes.shape().rank() - 1 - axis;
    if (std::string fault = Fault(*weights, "weights", axis); !fault.empty())
      return fault;
  }
  if (!input)
    return "its weights are quantised, its input is not";
  if (std::string fault = Fault(*input, "inputs", std::nullopt); !fault.empty())
    return fault;
  if (!weights)
    return "its input is quantised, its second operand is not";
  return "a bias, an operand beside it or what reads its result is not such that an integer product would give it";
}

void Collect(const Module &m, const Graph &g, std::vector<KeptFloatRow> *rows) {
  for (const Node &n : g.nodes()) {
    for (unsigned i = 0; i < n.num_bodies(); ++i)
      Collect(m, *n.body(i), rows);
    if (!n.Is("Conv") && !n.Is("ConvTranspose") && !n.Is("Gemm") && !n.Is("MatMul"))
      continue;
    const std::string why = Why(n);
    if (why.empty())
      continue;
    for (OriginId id : n.origin())
      if (id < m.onnx_nodes().size())
        rows->push_back({m.onnx_nodes()[id].id, why});
  }
}

} // namespace

std::vector<KeptFloatRow> FloatReasons(const Module &imported) {
  std::vector<KeptFloatRow> rows;
  Collect(imported, imported.main(), &rows);
  return rows;
}

} // namespace npuc::report
