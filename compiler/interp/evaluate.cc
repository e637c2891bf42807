// The rules around an operator's evaluate(): splats, quantised types, float widening (see interpreter.h).
#include "compiler/interp/evaluate.h"

#include "compiler/ops/convert.h"
#include "compiler/ops/quant_eval.h"
#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

class Context final : public EvalContext {
public:
  Context(const Node &node, std::vector<EvalValue> operands, BodyRunner run_body, ThreadPool *threads)
      : node_(node), run_body_(run_body), threads_(threads) {
    operands_ = std::move(operands);
    results_.resize(node.num_results());
  }
  const Node &node() const override { return node_; }
  StatusOr<std::vector<EvalValue>> RunBody(int body, std::vector<EvalValue> inputs) override {
    return run_body_(body, std::move(inputs));
  }
  ThreadPool *threads() const override { return threads_; }

private:
  const Node &node_;
  BodyRunner run_body_;
  ThreadPool *threads_;
};

bool IsQuantizedNode(const Node &node) {
  if (node.num_bodies() > 0)
    return false;
  for (const Value *v : node.operands())
    if (v && v->type().is_quantized())
      return true;
  for (unsigned i = 0; i < node.num_results(); ++i)
    if (node.result(i)->type().is_quantized())
      return true;
  return false;
}

bool IsWidened(DType t) {
  return t == DType::F16 || t == DType::BF16;
}

} // namespace

StatusOr<std::vector<EvalValue>> EvaluateWithRules(const Node &node, std::vector<EvalValue> operands,
                                                   BodyRunner run_body, const EvalOptions &options) {
  const OpDef &op = node.op();
  if (!op.evaluate)
    return Error("E0401", fmt::format("operator {} cannot be evaluated", op.name));
  const int required = static_cast<int>(operands.size());
  for (int i = 0; i < std::min(op.min_operands, required); ++i)
    if (!operands[i].has_value() && node.operand(i) == nullptr)
      return Error("E0203", fmt::format("operand {} is missing", i));
  for (EvalValue &v : operands)
    if (const Tensor *t = v.tensor(); t && t->is_splat())
      v = t->Expand();

  if (IsQuantizedNode(node)) {
    Context ctx(node, std::move(operands), run_body, options.threads);
    NPUC_RETURN_IF_ERROR(op.evaluate_quantized ? op.evaluate_quantized(ctx) : ops::EvaluateByDequantizing(ctx));
    for (int i = 0; i < ctx.num_results(); ++i) {
      const Type &want = node.result(i)->type();
      if (const Tensor *t = ctx.results()[i].tensor();
          t && t->dtype() == DType::F32 && want.is_tensor() && IsWidened(want.dtype()))
        ctx.results()[i] = ops::ConvertTensor(*t, want.dtype());
    }
    return std::move(ctx.results());
  }

  DType widened = DType::Undefined;
  if (!op.has(kNoFloatWiden) && !op.has(kCopiesElements) && node.num_bodies() == 0)
    for (EvalValue &v : operands)
      if (const Tensor *t = v.tensor(); t && IsWidened(t->dtype())) {
        if (widened == DType::Undefined)
          widened = t->dtype();
        v = ops::ConvertTensor(*t, DType::F32);
      }
  Context ctx(node, std::move(operands), run_body, options.threads);
  NPUC_RETURN_IF_ERROR(op.evaluate(ctx));
  if (widened != DType::Undefined)
    for (int i = 0; i < ctx.num_results(); ++i) {
      const Tensor *t = ctx.results()[i].tensor();
      if (!t || t->dtype() != DType::F32)
        continue;
      const Type &want = node.result(i)->type();
      const DType to = want.is_tensor() && IsFloat(want.dtype()) ? want.dtype() : widened;
      if (to != DType::F32)
        ctx.results()[i] = ops::ConvertTensor(*t, to);
    }
  return std::move(ctx.results());
}

} // namespace npuc
