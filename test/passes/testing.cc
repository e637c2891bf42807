#include "test/passes/testing.h"

#include <cmath>

namespace npuc::testing {

class FakeNpu::Op : public NpuOp {
public:
  Op(const FakeNpu &npu, std::string name) : npu_(npu), name_(std::move(name)) {}
  void Check(const Node &, const CheckContext &, std::vector<Violation> *) const override {}
  LayoutRule layout_rule(const Node &n) const override {
    if (n.Is("Fused", "npuc"))
      return LayoutRule::Image;
    if (name_ == "Conv" || name_ == "MaxPool" || name_ == "AveragePool" || name_ == "ConvTranspose" ||
        name_ == "Resize")
      return LayoutRule::Image;
    if (name_ == "MatMul" || name_ == "Gemm" || name_ == "Reshape" || name_ == "Flatten" || name_ == "Gather")
      return LayoutRule::RowMajor;
    return name_ == "Transpose" ? LayoutRule::Permutes : LayoutRule::Any;
  }
  std::optional<int> StageOps(const Node &n, unsigned through, const CheckContext &) const override {
    if (name_ == "Relu" || name_ == "Clip" || name_ == "Sigmoid" || name_ == "HardSwish" || name_ == "Swish")
      return 1;
    if (n.num_operands() == 2 && n.operand(1 - through) == n.operand(through))
      return std::nullopt;
    if (name_ == "Add" || name_ == "Mul" || name_ == "Sub")
      return 1;
    return std::nullopt;
  }
  bool HasOutputStage() const override {
    return name_ == "Conv" || name_ == "Gemm" || name_ == "MatMul" || name_ == "ConvTranspose";
  }
  int64_t EstimateCycles(const Node &, const Target &) const override {
    auto it = npu_.cycles.find(name_);
    return it == npu_.cycles.end() ? 1000 : it->second;
  }
  Status Lower(const Node &, LowerContext &) const override { return absl::InternalError("a fake"); }
  std::vector<RuleDoc> rules() const override { return {}; }

private:
  const FakeNpu &npu_;
  std::string name_;
};

FakeNpu::FakeNpu() = default;

const NpuOp *FakeNpu::Find(const OpDef &op) const {
  const std::string name(op.name);
  if (refuse.count(name))
    return nullptr;
  auto &self = const_cast<FakeNpu &>(*this);
  auto &slot = self.ops_[name];
  if (!slot)
    slot = std::make_unique<Op>(*this, name);
  return slot.get();
}

std::vector<Violation> FakeNpu::Check(const Node &node, const CheckContext &ctx) const {
  std::vector<Violation> out;
  if (refuse.count(std::string(node.op().name)))
    out.push_back({"no-lowering", "refused", "", "", ""});
  if (refuse_nodes.count(node.Label()))
    out.push_back({"refused-node", "refused", "", "", ""});
  if (node.Is("Fused", "npuc"))
    for (const Node &n : node.body(0)->nodes())
      if (refuse.count(std::string(n.op().name)))
        out.push_back({"fused-chain", "refused inside", "", "", ""});
  bool any_q = false, any_f = false;
  auto look = [&](const Value *v) {
    if (!v->type().is_static_tensor()) {
      out.push_back({"dynamic-shape", "dynamic", "", "", ""});
      return;
    }
    const DType t = ctx.dtype(v);
    any_q |= v->type().is_quantized();
    any_f |= IsFloat(t);
    if (t == DType::F64)
      out.push_back({"dtype", "f64", "", "", ""});
    if ((t == DType::F16 || t == DType::F32) && !v->constant() && !ctx.target.HasFloat())
      out.push_back({"float-on-integer-target", "float", "", "", ""});
  };
  for (const Value *v : node.operands())
    if (v)
      look(v);
  look(node.result());
  const bool mixed_is_fine = node.op().domain == "npuc" || node.Is("Clip") || node.Is("Cast") || node.Is("Resize");
  if (any_q && any_f && !mixed_is_fine)
    out.push_back({"mixed-types", "mixed", "", "", ""});
  return out;
}

Env::Env() : target(Target::FromPreset("edge-2t").value()), ctx(target, diagnostics) {
  ctx.npu = &npu;
}

std::unique_ptr<Module> Load(std::string_view text) {
  auto m = ParseModule(text);
  if (!m.ok()) {
    ADD_FAILURE() << m.status();
    return std::make_unique<Module>();
  }
  const Status inferred = InferShapes((*m)->main());
  EXPECT_TRUE(inferred.ok()) << inferred;
  const Status verified = Verify(**m);
  EXPECT_TRUE(verified.ok()) << verified << "\n" << Print(**m);
  return std::move(*m);
}

bool RunList(Module &m, std::vector<std::string> passes, PassContext &ctx) {
  std::vector<PassRecord> records;
  PassManagerOptions options;
  options.verify_each = options.check_changed = true;
  const Status s = RunPasses(m, {{std::move(passes), 1}}, ctx, options, &records);
  EXPECT_TRUE(s.ok()) << s;
  for (const PassRecord &r : records)
    if (r.changed)
      return true;
  return false;
}

std::vector<Tensor> Eval(const Module &m, const std::vector<Tensor> &inputs) {
  auto r = Interpreter(m.main()).Run(inputs);
  std::vector<Tensor> out;
  if (!r.ok()) {
    ADD_FAILURE() << r.status() << "\n" << Print(m);
    return out;
  }
  for (EvalValue &v : *r) {
    EXPECT_NE(v.tensor(), nullptr);
    if (v.tensor())
      out.push_back(v.tensor()->Expand());
  }
  return out;
}

Tensor F32(llvm::ArrayRef<int64_t> dims, std::vector<float> v) {
  return Tensor::Of<float>(DType::F32, dims, v);
}

Tensor Iota(llvm::ArrayRef<int64_t> dims, float start, float step) {
  std::vector<float> v(NumElements(dims));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = start + step * static_cast<float>(i);
  return F32(dims, v);
}

Tensor Noise(llvm::ArrayRef<int64_t> dims, uint32_t seed, float lo, float hi) {
  std::vector<float> v(NumElements(dims));
  uint32_t s = seed * 2654435761u + 1;
  for (float &x : v) {
    s = s * 1664525u + 1013904223u;
    x = lo + (hi - lo) * static_cast<float>(s >> 8) / 16777216.0f;
  }
  return F32(dims, v);
}

std::vector<double> Values(const Tensor &t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    v.push_back(t.AsDouble(i));
  return v;
}

void ExpectClose(const Tensor &got, const std::vector<double> &want, double tolerance) {
  ASSERT_EQ(got.num_elements(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got.AsDouble(i), want[i], tolerance) << "element " << i;
}

void ExpectSame(const Tensor &a, const Tensor &b, double tolerance) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.dims(), b.dims());
  const auto x = Values(a), y = Values(b);
  int bad = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] - y[i]) <= tolerance * std::max(1.0, std::abs(y[i])))) {
      EXPECT_EQ(x[i], y[i]) << "element " << i;
      if (++bad == 5)
        return;
    }
}

int Count(const Module &m, std::string_view op) {
  int n = 0;
  WalkNodes(m.main(), [&](const Node &node) { n += node.op().name == op; });
  return n;
}

const Node *FindOp(const Module &m, std::string_view op) {
  for (const Node &n : m.main().nodes())
    if (n.op().name == op)
      return &n;
  return nullptr;
}

std::string Text(const Module &m) {
  return Print(m);
}

std::unique_ptr<Module> RunAndCompare(std::string_view text, std::vector<std::string> passes,
                                      const std::vector<Tensor> &inputs, PassContext &ctx, double tolerance) {
  auto before = Load(text), after = Load(text);
  RunList(*after, std::move(passes), ctx);
  const auto want = Eval(*before, inputs), got = Eval(*after, inputs);
  EXPECT_EQ(want.size(), got.size());
  EXPECT_EQ(before->main().output_names(), after->main().output_names());
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) {
    SCOPED_TRACE("output " + std::to_string(i) + "\n" + Print(*after));
    ExpectSame(got[i], want[i], tolerance);
  }
  return after;
}

} // namespace npuc::testing
