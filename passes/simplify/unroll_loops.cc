// Loops of few, known turns become their turns one behind the other, so that the NPU can run what is in them.
//
//   %s, %all = Loop(8, true, %s0) {body}   ->   %s1, %p1 = body(0, %s0); ... ; %all = Concat(Unsqueeze(%p1), ...)
//   Scan likewise, each turn on its element (a Gather) of what is scanned, from either end.
//
// A value that the body does not change, and the count of turns, are what inference sees then: shapes and slices that
// depend on them are constants. Copied nodes keep the origins of the body's nodes, what joins the turns has the loop's.
//
// Left alone: turns or a condition that the run decides; more than 64 turns or 8192 copied nodes; bodies with a value
// that is no tensor of static shape, or without a node that the NPU would take; loops in bodies that stay; nodes that
// the user denied. Cost: linear in the copied nodes, and in the graph a loop.
#include "compiler/ops/infer.h"
#include "passes/common.h"
#include "llvm/ADT/DenseSet.h"

namespace npuc {
namespace {

constexpr int64_t kMaxTurns = 64, kMaxNodes = 8192;

bool MayUnroll(const Graph &body, int64_t turns, const PassContext &ctx) {
  int64_t nodes = 0;
  bool work = false;
  for (const Node &n : body.nodes()) {
    if (n.is_return() || n.is_constant())
      continue;
    ++nodes;
    for (unsigned i = 0; i < n.num_results(); ++i)
      if (n.result(i)->has_uses() && !n.result(i)->type().is_static_tensor())
        return false;
    work |= IsNpuWork(n, ctx);
  }
  return work && turns >= 1 && turns <= kMaxTurns && nodes * turns <= kMaxNodes;
}

std::optional<int64_t> ConstantInt(const Value *v) {
  const auto ints = MatchConstantInts(v);
  if (!ints || ints->size() != 1)
    return std::nullopt;
  return ints->front();
}

class Unroller {
public:
  explicit Unroller(Node &n) : n_(n), rw_(&n), body_(*n.body(0)) {}

  // The number of turns, when it is known and the body never ends the loop; else 0.
  int64_t LoopTurns() const {
    const auto turns = n_.num_operands() > 0 ? ConstantInt(n_.operand(0)) : std::nullopt;
    if (!turns || (n_.num_operands() > 1 && n_.operand(1) && ConstantInt(n_.operand(1)) != 1))
      return 0;
    const Value *go_on = body_.output(0);
    while (go_on && go_on->def() && go_on->def()->Is("Identity"))
      go_on = go_on->def()->operand(0);
    if (!go_on || (go_on != body_.input(1) && ConstantInt(go_on) != 1))
      return 0;
    return *turns;
  }
  void Loop(int64_t turns) {
    const unsigned states = n_.num_operands() > 2 ? n_.num_operands() - 2 : 0;
    std::vector<Value *> state;
    for (unsigned i = 0; i < states; ++i)
      state.push_back(n_.operand(2 + i));
    std::vector<std::vector<Value *>> parts(n_.num_results() - states);
    const uint8_t yes = 1;
    for (int64_t turn = 0; turn < turns; ++turn) {
      std::vector<Value *> inputs{rw_.Constant(Tensor::ScalarI64(turn)),
                                  rw_.Constant(Tensor::Of<uint8_t>(DType::Bool, {}, llvm::ArrayRef<uint8_t>(yes)))};
      inputs.insert(inputs.end(), state.begin(), state.end());
      const std::vector<Value *> outputs = InlineGraph(body_, *n_.graph(), &n_, inputs);
      for (unsigned i = 0; i < states; ++i)
        state[i] = outputs[1 + i];
      for (size_t k = 0; k < parts.size(); ++k)
        parts[k].push_back(outputs[1 + states + k]);
    }
    std::vector<Value *> results = state;
    for (const auto &p : parts)
      results.push_back(Join(p, 0));
    Finish(results);
  }

  struct Scanned {
    int64_t turns = 0;
    unsigned states = 0, inputs = 0;
  };
  Scanned ScanTurns() const { // 0 turns: not known
    Scanned s;
    const int64_t inputs = n_.attrs().Int("num_scan_inputs", 0);
    if (inputs < 1 || inputs > n_.num_operands())
      return {};
    s.inputs = static_cast<unsigned>(inputs);
    s.states = n_.num_operands() - s.inputs;
    for (unsigned k = 0; k < s.inputs; ++k) {
      const Type &t = n_.operand(s.states + k)->type();
      if (!t.is_static_tensor() || t.shape().rank() == 0)
        return {};
      const int64_t extent = t.shape()[Axis("scan_input_axes", k, t.shape().rank())].value();
      if (k > 0 && extent != s.turns)
        return {};
      s.turns = extent;
    }
    return s;
  }
  void Scan(const Scanned &s) {
    std::vector<Value *> state;
    for (unsigned i = 0; i < s.states; ++i)
      state.push_back(n_.operand(i));
    std::vector<std::vector<Value *>> parts(n_.num_results() - s.states);
    for (int64_t turn = 0; turn < s.turns; ++turn) {
      std::vector<Value *> inputs = state;
      for (unsigned k = 0; k < s.inputs; ++k) {
        Value *const all = n_.operand(s.states + k);
        const bool backwards = Entry("scan_input_directions", k) != 0;
        AttributeList axis;
        axis.Set("axis", int64_t{Axis("scan_input_axes", k, all->type().shape().rank())});
        inputs.push_back(
            Make("Gather", {all, rw_.Constant(Tensor::ScalarI64(backwards ? s.turns - 1 - turn : turn))}, axis));
      }
      const std::vector<Value *> outputs = InlineGraph(body_, *n_.graph(), &n_, inputs);
      for (unsigned i = 0; i < s.states; ++i)
        state[i] = outputs[i];
      for (size_t k = 0; k < parts.size(); ++k)
        parts[k].push_back(outputs[s.states + k]);
    }
    std::vector<Value *> results = state;
    for (size_t k = 0; k < parts.size(); ++k) {
      if (Entry("scan_output_directions", k) != 0)
        std::reverse(parts[k].begin(), parts[k].end());
      const int rank = parts[k][0] ? body_.output(s.states + static_cast<unsigned>(k))->type().shape().rank() + 1 : 1;
      results.push_back(Join(parts[k], Axis("scan_output_axes", k, rank)));
    }
    Finish(results);
  }

private:
  int64_t Entry(std::string_view list, size_t k) const {
    const auto v = n_.attrs().Ints(list);
    return k < v.size() ? v[k] : 0;
  }
  int Axis(std::string_view list, size_t k, int rank) const {
    const int64_t axis = Entry(list, k);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  Value *Make(std::string_view op, llvm::ArrayRef<Value *> operands, AttributeList attrs = {}) {
    Node *const made = rw_.Create(op, operands, n_.origin(), {}, std::move(attrs));
    return made->result();
  }
  // Turns side by side along a new axis.
  Value *Join(const std::vector<Value *> &parts, int axis) {
    Value *const axes = rw_.Constant(Tensor::OfI64({int64_t{axis}}));
    std::vector<Value *> wide;
    for (Value *p : parts)
      wide.push_back(Make("Unsqueeze", {p, axes}));
    if (wide.size() == 1)
      return wide[0];
    AttributeList attrs;
    attrs.Set("axis", int64_t{axis});
    return Make("Concat", wide, attrs);
  }
  void Finish(const std::vector<Value *> &results) {
    llvm::SmallVector<Value *, 4> with;
    for (unsigned i = 0; i < n_.num_results(); ++i)
      with.push_back(n_.result(i)->has_uses() || i == 0 ? results[i] : nullptr);
    rw_.ReplaceNode(&n_, with);
  }

  Node &n_;
  Rewriter rw_;
  Graph &body_;
};

} // namespace

StatusOr<bool> UnrollLoops(Module &m, PassContext &ctx) {
  if (!ctx.npu)
    return false;
  bool changed = false;
  Graph &g = m.main();
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    Node &n = *it;
    if ((!n.Is("Loop") && !n.Is("Scan")) || DeniedBy(n, ctx)) {
      ++it;
      continue;
    }
    Unroller unroller(n);
    const bool is_loop = n.Is("Loop");
    const Unroller::Scanned scanned = is_loop ? Unroller::Scanned() : unroller.ScanTurns();
    const int64_t turns = is_loop ? unroller.LoopTurns() : scanned.turns;
    if (!MayUnroll(*n.body(0), turns, ctx)) {
      ++it;
      continue;
    }
    llvm::DenseSet<const Node *> old;
    for (const Node &other : g.nodes())
      old.insert(&other);
    if (is_loop)
      unroller.Loop(turns);
    else
      unroller.Scan(scanned);
    for (Node &made : g.nodes())
      if (!old.contains(&made))
        NPUC_RETURN_IF_ERROR(InferNode(made, &ctx.diagnostics));
    it = g.nodes().begin(); // there may be loops in what was made
    ctx.Count("simplify: unroll-loops");
    changed = true;
  }
  return changed;
}

} // namespace npuc
