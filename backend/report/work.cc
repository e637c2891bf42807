// The bounds count what every schedule must do, whatever its tiles and traversals:
//
//   array   outputs / (px * oc) * steps / rate.  Dense: steps = IC*KH*KW / ic (kernel-first, nothing rounded up).
//           Groups: a group that has fewer than oc output channels leaves array columns idle, and merging groups to
//           fill them multiplies by zeros instead, which costs the same; so steps = ICg*KH*KW / ic * max(1, oc / OCg).
//           One input channel a group: the depthwise mode's KH*KW / dw_taps where that is less.
//   ppu     outputs / ppu_rate
//   vpu     MaxPool: outputs * min(KH*KW, KH+KW) * pool; Softmax and normalisations: elements * their passes; / lanes
//   ddr     (weights as stored + gathered rows + graph inputs and outputs) / DDR rate
//
// Weights count in the type they can be stored in (f16 for float, their own for integers), a constant that several
// nodes share once, a splat (it may become an immediate) not at all. Cost: linear in the graph.
#include "backend/report/work.h"

#include <algorithm>

#include "llvm/ADT/DenseSet.h"

namespace npuc::report {
namespace {

// Operand numbers of a matrix operator: data, weights.
struct MatrixForm {
  enum Kind { None, Conv, ConvTranspose, MatMul, Gemm } kind = None;
  unsigned x = 0, w = 1;
};

MatrixForm FormOf(const Node &n) {
  const std::string_view op = n.op().name;
  if (op == "Conv" || op == "ConvInteger" || op == "FusedConv")
    return {MatrixForm::Conv, 0, 1};
  if (op == "QLinearConv")
    return {MatrixForm::Conv, 0, 3};
  if (op == "ConvTranspose")
    return {MatrixForm::ConvTranspose, 0, 1};
  if (op == "MatMul" || op == "MatMulInteger" || op == "FusedMatMul" || op == "MatMulIntegerToFloat" ||
      op == "DynamicQuantizeMatMul")
    return {MatrixForm::MatMul, 0, 1};
  if (op == "QLinearMatMul")
    return {MatrixForm::MatMul, 0, 3};
  if (op == "Gemm" || op == "FusedGemm")
    return {MatrixForm::Gemm, 0, 1};
  if (op == "QGemm")
    return {MatrixForm::Gemm, 0, 3};
  return {};
}

bool IsDequantize(const Node *n) {
  return n && (n->op().name == "DequantizeLinear" || n->op().name == "Dequantize");
}

// The integers behind a value: itself, or what a DequantizeLinear reads.
const Value *Stored(const Value *v) {
  return v && IsDequantize(v->def()) ? v->def()->operand(0) : v;
}

bool IsNarrowInt(DType t) {
  switch (t) {
  case DType::I8:
  case DType::U8:
  case DType::I16:
  case DType::U16:
  case DType::I4:
  case DType::U4:
  case DType::I2:
  case DType::U2:
    return true;
  default:
    return false;
  }
}

// Reads every element of its operand and makes as many: what reads the result needs all of the operand.
bool PassesAllOn(const Node &n) {
  for (std::string_view op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Cast",
                              "QuantizeLinear", "DequantizeLinear"})
    if (n.op().name == op)
      return true;
  return false;
}
constexpr int kChain = 16; // of such nodes: enough for what exporters put at a model's ends

// Nodes that read v, or what merely passes v on.
void CollectReaders(const Value *v, int depth, std::vector<OriginId> &out) {
  for (const Use &use : v->uses()) {
    out.insert(out.end(), use.user->origin().begin(), use.user->origin().end());
    if (use.operand == 0 && depth < kChain && PassesAllOn(*use.user))
      CollectReaders(use.user->result(), depth + 1, out);
  }
}

void CollectWriters(const Value *v, int depth, std::vector<OriginId> &out) {
  const Node *def = v->def();
  if (!def)
    return;
  out.insert(out.end(), def->origin().begin(), def->origin().end());
  if (depth < kChain && PassesAllOn(*def) && def->operand(0))
    CollectWriters(def->operand(0), depth + 1, out);
}

class Analyzer {
public:
  Analyzer(const Target &target, const WorkView &view) : target_(target), view_(view) {}

  std::vector<NodeWork> nodes;

  void Visit(const Node &n) {
    if (n.origin().empty())
      return;
    NodeWork w;
    w.origin = n.origin()[0];
    w.dtype = ComputeType(n.operand(0));
    const MatrixForm form = FormOf(n);
    if (form.kind != MatrixForm::None)
      Matrix(n, form, w);
    else
      Vector(n, w);
    if (w.macs || w.array_steps > 0 || w.vpu_elements > 0 || !w.constants.empty())
      nodes.push_back(std::move(w));
  }

private:
  DType ComputeType(const Value *v) const {
    const Value *stored = Stored(v);
    if (!stored || !stored->type().is_tensor())
      return view_.float_as;
    const DType t = stored->type().dtype();
    return IsNarrowInt(t) ? (t == DType::U16 ? DType::I16 : t) : view_.float_as;
  }

  // Bytes that the elements of a constant take at least when stored for the NPU.
  int64_t StoredBytes(const Value *v, int64_t elements) const {
    const DType t = v->type().dtype();
    int bits = BitWidth(t);
    if (IsFloat(t))
      bits = view_.four_bit_weights ? 4 : std::min(bits, BitWidth(view_.float_as));
    return elements * bits / 8;
  }

  void AddConstant(const Value *v, int64_t elements, NodeWork &w) const {
    const Value *stored = Stored(v);
    const Tensor *t = stored ? stored->constant() : nullptr;
    if (!t || t->is_splat())
      return;
    w.constants.push_back({t->bytes(), StoredBytes(stored, elements)});
  }

  // Steps of one output position and column block, at rate 1.
  double Steps(int64_t taps, int64_t ic_group, int64_t oc_group) const {
    const double oc = double(target_.mxu.oc);
    const double dense =
        double(ic_group) * double(taps) / double(target_.mxu.ic) * std::max(1.0, oc / double(oc_group));
    return ic_group == 1 ? std::min(dense, double(taps) / double(target_.mxu.dw_taps)) : dense;
  }

  void Matrix(const Node &n, const MatrixForm &form, NodeWork &w) {
    const Value *x = n.operand(form.x), *k = n.operand(form.w), *y = n.result();
    w.dtype = ComputeType(x);
    for (const Value *v : {x, k, static_cast<const Value *>(y)})
      if (!v || !v->type().is_static_tensor())
        return;
    const Dims xd = x->type().shape().static_dims(), kd = k->type().shape().static_dims(),
               yd = y->type().shape().static_dims();
    w.outputs = NumElements(yd);
    const double lanes = double(target_.mxu.px) * double(target_.mxu.oc);
    AddConstant(k, NumElements(kd), w);
    switch (form.kind) {
    case MatrixForm::Conv: {
      if (xd.size() < 3 || kd.size() != xd.size())
        return;
      const int64_t groups = n.attrs().Int("group", 1);
      int64_t taps = 1;
      for (size_t i = 2; i < kd.size(); ++i)
        taps *= kd[i];
      w.macs = w.outputs * kd[1] * taps;
      w.array_steps =
          double(w.outputs) / lanes * Steps(taps, kd[1], std::max<int64_t>(1, kd[0] / std::max<int64_t>(1, groups)));
      break;
    }
    case MatrixForm::ConvTranspose: {
      if (xd.size() < 3 || kd.size() != xd.size() || yd.size() != xd.size())
        return;
      const int64_t groups = std::max<int64_t>(1, n.attrs().Int("group", 1));
      const llvm::ArrayRef<int64_t> strides = n.attrs().Ints("strides"), dilations = n.attrs().Ints("dilations"),
                                    pads = n.attrs().Ints("pads");
      // Products that land inside the output, axis by axis.
      int64_t products = 1;
      for (size_t i = 2; i < xd.size(); ++i) {
        const size_t a = i - 2;
        const int64_t stride = a < strides.size() ? strides[a] : 1, dilation = a < dilations.size() ? dilations[a] : 1,
                      pad = a < pads.size() ? pads[a] : 0;
        int64_t inside = 0;
        for (int64_t tap = 0; tap < kd[i]; ++tap)
          for (int64_t at = 0; at < xd[i]; ++at) {
            const int64_t out = at * stride + tap * dilation - pad;
            inside += out >= 0 && out < yd[i];
          }
        products *= inside;
      }
      const int64_t ic_group = xd[1] / groups, oc_group = kd[1];
      w.macs = xd[0] * xd[1] * oc_group * products;
      w.array_steps = double(w.macs) / (lanes * double(ic_group)) * Steps(1, ic_group, std::max<int64_t>(1, oc_group));
      break;
    }
    case MatrixForm::MatMul: {
      if (xd.empty() || kd.empty())
        return;
      w.macs = w.outputs * (n.attrs().Int("transA", 0) && xd.size() >= 2 ? xd[xd.size() - 2] : xd.back());
      w.array_steps = double(w.macs) / (lanes * double(target_.mxu.ic));
      break;
    }
    case MatrixForm::Gemm: {
      if (xd.size() != 2)
        return;
      w.macs = w.outputs * (n.attrs().Int("transA", 0) ? xd[0] : xd[1]);
      w.array_steps = double(w.macs) / (lanes * double(target_.mxu.ic));
      break;
    }
    case MatrixForm::None:
      break;
    }
  }

  void Vector(const Node &n, NodeWork &w) {
    const std::string_view op = n.op().name;
    const Value *y = n.num_results() ? n.result() : nullptr;
    if (!y || !y->type().is_static_tensor())
      return;
    const double elements = double(y->type().shape().num_elements());
    auto passes = [&](VpuFunction f) { return target_.vpu.Passes(f).ToDouble(); };
    if (op == "MaxPool") {
      int64_t product = 1, sum = 0;
      for (int64_t k : n.attrs().Ints("kernel_shape")) {
        product *= k;
        sum += k;
      }
      w.vpu_elements = elements * double(std::min(product, sum)) * passes(VpuFunction::Pool);
    } else if (op == "Softmax" || op == "LogSoftmax") {
      w.vpu_elements = elements * passes(VpuFunction::Softmax);
    } else if (op == "LayerNormalization" || op == "InstanceNormalization" || op == "GroupNormalization" ||
               op == "RMSNormalization" || op == "SimplifiedLayerNormalization" || op == "SkipLayerNormalization") {
      w.vpu_elements = elements * passes(VpuFunction::Norm);
    } else if (op == "Gather" && n.operand(0) && n.operand(0)->constant() && n.attrs().Int("axis", 0) == 0) {
      // Rows that are read: never more than the table has.
      const Tensor &table = *n.operand(0)->constant();
      AddConstant(n.operand(0), std::min(table.num_elements(), y->type().shape().num_elements()), w);
    } else {
      Recurrent(n, op, w);
    }
  }

  // Their products count as MACs; array_bound is of Conv, ConvTranspose, Gemm and MatMul alone.
  void Recurrent(const Node &n, std::string_view op, NodeWork &w) {
    if (op != "LSTM" && op != "GRU" && op != "RNN")
      return;
    const Value *x = n.operand(0), *wx = n.operand(1), *wh = n.operand(2);
    for (const Value *v : {x, wx, wh})
      if (!v || !v->type().is_static_tensor() || v->type().shape().rank() != 3)
        return;
    const Dims xd = x->type().shape().static_dims();
    w.macs = xd[0] * xd[1] * (wx->type().shape().num_elements() + wh->type().shape().num_elements());
    AddConstant(wx, wx->type().shape().num_elements(), w);
    AddConstant(wh, wh->type().shape().num_elements(), w);
  }

  const Target &target_;
  const WorkView view_;
};

} // namespace

ModelWork AnalyzeWork(const Module &m, const Target &target, const WorkView &view) {
  Analyzer analyzer(target, view);
  WalkNodes(m.main(), [&](const Node &n) { analyzer.Visit(n); });
  ModelWork work;
  work.nodes = std::move(analyzer.nodes);
  const Graph &g = m.main();
  work.input_readers.resize(g.num_inputs());
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    CollectReaders(g.input(i), 0, work.input_readers[i]);
  work.output_writers.resize(g.num_outputs());
  for (unsigned i = 0; i < g.num_outputs(); ++i)
    CollectWriters(g.output(i), 0, work.output_writers[i]);
  return work;
}

Bounds ComputeBounds(const ModelWork &work, const Target &target, const std::function<bool(OriginId)> &on_npu,
                     llvm::ArrayRef<int64_t> input_bytes, llvm::ArrayRef<int64_t> output_bytes) {
  Bounds b;
  llvm::DenseSet<const void *> seen;
  for (const NodeWork &n : work.nodes) {
    if (!on_npu(n.origin))
      continue;
    // A type that the array has no rate for cannot run there; then the node's own verdict is wrong and it adds nothing.
    if (target.mxu.mac_rate.Has(n.dtype)) {
      const double rate = target.mxu.MacRate(n.dtype).ToDouble();
      b.macs += n.macs;
      b.weighted_macs += double(n.macs) / rate;
      b.array += n.array_steps / rate;
      b.pj_macs += double(n.macs) * target.energy.PjMac(n.dtype).ToDouble();
    }
    if (target.mxu.ppu_rate.Has(n.dtype))
      b.ppu += double(n.outputs) / target.mxu.PpuRate(n.dtype).ToDouble();
    if (target.vpu.lanes.Has(n.dtype))
      b.vpu += n.vpu_elements / target.vpu.Lanes(n.dtype).ToDouble();
    for (const NodeWork::Constant &c : n.constants)
      if (seen.insert(c.data).second)
        b.ddr_compulsory_bytes += c.bytes;
  }
  for (size_t i = 0; i < work.input_readers.size() && i < input_bytes.size(); ++i)
    if (std::any_of(work.input_readers[i].begin(), work.input_readers[i].end(), on_npu))
      b.ddr_compulsory_bytes += input_bytes[i];
  for (size_t i = 0; i < work.output_writers.size() && i < output_bytes.size(); ++i)
    if (std::any_of(work.output_writers[i].begin(), work.output_writers[i].end(), on_npu))
      b.ddr_compulsory_bytes += output_bytes[i];
  b.ddr = double(b.ddr_compulsory_bytes) / target.dma.ddr_bytes_per_cycle.ToDouble();
  b.cycles = std::max({b.array, b.ppu, b.vpu, b.ddr});
  return b;
}

} // namespace npuc::report
