// What NPUs like in a model, each with what was found and what to do, and the histogram of operators. From the
// simplified graph, so what folding removes is not held against the model. Cost: linear, weights are read once.
#include <algorithm>
#include <map>

#include "backend/report/model_graph.h"
#include "compiler/support/status.h"

namespace npuc::report {
namespace {

// "a, b, c and 4 more"
class Examples {
public:
  void Add(const std::string &s) {
    if (count_++ < 3)
      text_ += (text_.empty() ? "" : ", ") + s;
  }
  int64_t count() const { return count_; }
  std::string Text() const { return count_ <= 3 ? text_ : fmt::format("{} and {} more", text_, count_ - 3); }

private:
  std::string text_;
  int64_t count_ = 0;
};

bool HasFreeDim(const Type &t) {
  return t.is_tensor() && !t.is_static_tensor();
}

template <class T, T kMagnitude> int64_t CountZeros(const Tensor &t) {
  const llvm::ArrayRef<T> v = t.values<T>();
  return std::count_if(v.begin(), v.end(), [](T x) { return (x & kMagnitude) == 0; });
}
// Of the types that weights have, zero points aside.
int64_t Zeros(const Tensor &t) {
  switch (t.dtype()) {
  case DType::F32:
    return CountZeros<uint32_t, 0x7fffffff>(t);
  case DType::F16:
    return CountZeros<uint16_t, 0x7fff>(t);
  case DType::I8:
    return CountZeros<uint8_t, 0xff>(t);
  default:
    return 0;
  }
}

constexpr std::pair<const char *, const char *> kSuspects[] = {
    {"Transpose", "moves data without computing; exporters add pairs of them"},
    {"Gather", "irregular access"},
    {"GatherND", "irregular access"},
    {"GatherElements", "irregular access"},
    {"ScatterND", "irregular access"},
    {"Slice", "moves data without computing"},
    {"Resize", "vector work; some modes run on the host"},
    {"NonMaxSuppression", "data-dependent size: belongs to the application"},
    {"TopK", "sorts: belongs to the application"},
    {"NonZero", "data-dependent size"},
    {"Shape", "stands for dynamic shapes unless it folds"},
    {"Loop", "control flow runs on the host"},
    {"If", "control flow runs on the host"},
    {"Scan", "control flow runs on the host"},
};

} // namespace

std::vector<OperatorRow> OperatorsOf(const std::vector<NodeRow> &nodes) {
  std::map<std::string, OperatorRow> rows;
  for (const NodeRow &n : nodes) {
    OperatorRow &row = rows[n.op];
    row.op = n.op;
    ++row.nodes;
    ++(n.verdict == "npu" ? row.npu : n.verdict == "host" ? row.host : row.eliminated);
    row.macs += n.macs;
  }
  std::vector<OperatorRow> out;
  for (auto &[op, row] : rows) {
    for (const auto &[name, why] : kSuspects)
      if (op == name && row.npu + row.host > 0)
        row.suspect = why;
    out.push_back(std::move(row));
  }
  std::stable_sort(out.begin(), out.end(), [](auto &a, auto &b) { return a.nodes > b.nodes; });
  return out;
}

std::vector<CheckRow> ChecklistOf(const Module &m, const Target &target) {
  Examples dynamic, kernels, channels, softmax;
  int64_t weights = 0, zeros = 0;
  for (unsigned i = 0; i < m.main().num_inputs(); ++i)
    if (HasFreeDim(m.main().input(i)->type()))
      dynamic.Add(fmt::format("input '{}' {}", m.main().input(i)->name(), m.main().input(i)->type().ToString()));
  const int64_t ic = target.mxu.ic, oc = target.mxu.oc;
  WalkNodes(m.main(), [&](const Node &n) {
    if (n.is_constant() || n.is_return())
      return;
    if (dynamic.count() == 0)
      for (unsigned i = 0; i < n.num_results(); ++i)
        if (HasFreeDim(n.result(i)->type())) {
          dynamic.Add(fmt::format("'{}' ({})", n.Label(), n.op().name));
          break;
        }
    const std::string_view op = n.op().name;
    const bool conv = op == "Conv" || op == "QLinearConv" || op == "ConvInteger";
    if (conv || op == "MatMul" || op == "Gemm" || op == "ConvTranspose" || op == "QLinearMatMul") {
      const Value *w = n.operand(op.substr(0, 7) == "QLinear" ? 3 : 1);
      const Node *def = w ? w->def() : nullptr;
      if (def && def->op().name == "DequantizeLinear")
        w = def->operand(0);
      const Tensor *t = w ? w->constant() : nullptr;
      if (t && !t->is_splat()) {
        weights += t->num_elements();
        zeros += Zeros(*t);
      }
      if (conv && w && w->type().is_static_tensor() && w->type().shape().rank() >= 3) {
        const Dims d = w->type().shape().static_dims();
        int64_t largest = 0;
        for (size_t i = 2; i < d.size(); ++i)
          largest = std::max(largest, d[i]);
        if (largest > 7)
          kernels.Add(fmt::format("'{}' {}", n.Label(), largest));
        const bool depthwise = d[1] == 1 && n.attrs().Int("group", 1) > 1;
        if (!depthwise && (d[1] % ic || d[0] % oc))
          channels.Add(fmt::format("'{}' {} to {}", n.Label(), d[1] * n.attrs().Int("group", 1), d[0]));
      }
    }
    if ((op == "Softmax" || op == "LogSoftmax") && n.operand(0) && n.operand(0)->type().is_static_tensor()) {
      const Dims d = n.operand(0)->type().shape().static_dims();
      const int64_t axis = n.attrs().Int("axis", -1);
      const int64_t extent = d.empty() ? 1 : d[size_t(axis < 0 ? axis + int64_t(d.size()) : axis)];
      if (extent > 4096)
        softmax.Add(fmt::format("'{}' {}", n.Label(), extent));
    }
  });

  std::vector<CheckRow> rows;
  auto add = [&](const char *check, const Examples &e, const char *fine, const char *help) {
    rows.push_back({check, e.count() == 0, e.count() ? e.Text() : fine, e.count() ? help : ""});
  };
  add("static shapes", dynamic, "all shapes are fixed",
      "fix them with --dim, --input-shape or --bind; nodes of free shape run on the host");
  add("small kernels", kernels, "no kernel above 7",
      "stacked 3x3 convolutions do the same with fewer products; large ones are computed in pieces");
  add("aligned channels", channels, "all fill the array",
      "channel counts that are multiples of the array's leave no lane idle; see each layer's padding_waste");
  add("short Softmax axes", softmax, "none above 4096", "long axes are worked off in pieces");
  const double sparsity = weights ? double(zeros) / double(weights) : 0;
  rows.push_back({"dense weights", sparsity <= 0.5, fmt::format("{:.1f} % of the weights are 0", 100 * sparsity),
                  sparsity <= 0.5 ? "" : "this NPU does not skip zeros: prune whole channels instead"});
  int64_t opset = 0;
  for (const auto &[domain, version] : m.opsets)
    if (domain.empty() || domain == "ai.onnx")
      opset = version;
  const bool modern = opset == 0 || opset >= 11;
  rows.push_back({"opset", modern, fmt::format("ai.onnx {}", opset),
                  modern ? "" : "export with opset 13 or newer: older ones lack per-channel quantisation"});
  return rows;
}

} // namespace npuc::report
