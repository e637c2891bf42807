// Cross-layer equalisation (Nagel et al., "Data-free quantization through weight equalization and bias correction",
// 2019), with measured activation ranges.
//
//   Conv(w1, b1) -> Relu -> Conv(w2)    ->    Conv(w1 / s, b1 / s) -> Relu -> Conv(w2 * s)
//
// With a_i the greatest magnitude of channel i between the two and b_i that of the second's weights for it:
//   depthwise second   s_i = a_i / max a: weights have a scale a channel, so they bear any factor
//   dense second       s_i = sqrt(a_i / b_i): what activations win, weights lose
// s stays within 2^-4 and 2^4 of its greatest, and channels that are always 0 are left as they are.
//
// Left alone: bounds (Clip at 6 is not homogeneous), curves (Swish), tensors that others read, and tensors whose
// channels are within a factor of two of each other as it is. Cost: linear in the weights.
#include "passes/quantize/equalize.h"

#include <algorithm>
#include <cmath>

namespace npuc {
namespace {

constexpr double kMostFactor = 16;

bool IsHomogeneous(const Node &n) {
  if (IsOneOf(n, {"Relu"}))
    return true;
  if (n.Is("LeakyRelu"))
    return true;
  return n.Is("PRelu") && n.operand(1) && n.operand(1)->constant();
}

bool IsFloatConv(const Node *n) {
  return n && n->Is("Conv") && n->operand(1) && n->operand(1)->constant() &&
         n->operand(1)->constant()->dtype() == DType::F32 &&
         (!n->operand(2) || (n->operand(2)->constant() && n->operand(2)->constant()->dtype() == DType::F32));
}

// A constant of n with element e multiplied by factor(e).
template <class F> void Rescale(Node &n, unsigned i, F factor) {
  const Elements x(*n.operand(i)->constant());
  Tensor t = Tensor::Allocate(DType::F32, n.operand(i)->constant()->dims());
  for (int64_t e = 0; e < x.size(); ++e)
    t.mutable_data<float>()[e] = static_cast<float>(x[e] * factor(e));
  Rewriter rw(&n);
  n.set_operand(i, rw.Constant(std::move(t), n.operand(i)->name() + "_eq"));
}

} // namespace

std::map<std::string, ValueRange> Equalize(Graph &g, const QuantPlan &plan, PassContext &ctx) {
  std::map<std::string, ValueRange> ranges;
  const RangeSource given(ctx, ranges);
  for (Node &first : g.nodes()) {
    if (!ctx.calibration || !IsFloatConv(&first) || !plan.integer.count(&first))
      continue;
    Value *between = first.result();
    Node *next = SoleUser(between);
    if (next && IsHomogeneous(*next) && next->operand(0) == between && plan.integer.count(next)) {
      between = next->result();
      next = SoleUser(between);
    }
    if (!IsFloatConv(next) || next->operand(0) != between || !plan.integer.count(next) ||
        given.Given(*between, DType::U8))
      continue;
    Node &second = *next;
    const TensorStatistics *t = ctx.calibration->Find(between->name());
    const int64_t channels = first.operand(1)->constant()->dims()[0], group = second.attrs().Int("group", 1);
    if (first.operand(2) && first.operand(2)->constant()->num_elements() != channels)
      continue;
    if (!t || t->channels.axis != 1 || t->channels.size() != channels || (group != 1 && group != channels))
      continue;
    const auto dims = second.operand(1)->constant()->dims();
    const int64_t taps = NumElements(dims.drop_front(2)), per_group = dims[0] / group;
    const Elements w(*second.operand(1)->constant());
    std::vector<double> a(channels), b(channels), s(channels, 1.0);
    for (int64_t c = 0; c < channels; ++c)
      a[c] = std::max(std::abs(static_cast<double>(t->channels.min[c])),
                      std::abs(static_cast<double>(t->channels.max[c])));
    auto input_of = [&](int64_t e) { return group == 1 ? e / taps % channels : e / taps / per_group; };
    for (int64_t e = 0; e < w.size(); ++e)
      b[input_of(e)] = std::max(b[input_of(e)], std::abs(w[e]));
    std::vector<double> sorted = a;
    std::nth_element(sorted.begin(), sorted.begin() + channels / 2, sorted.end());
    const double greatest = *std::max_element(a.begin(), a.end());
    if (!(greatest > 2 * sorted[channels / 2]) || !std::isfinite(greatest))
      continue;
    double most = 0;
    for (int64_t c = 0; c < channels; ++c)
      if (a[c] > 0 && b[c] > 0) {
        s[c] = group == 1 ? std::sqrt(a[c] / b[c]) : a[c];
        most = std::max(most, s[c]);
      }
    if (!(most > 0))
      continue;
    for (int64_t c = 0; c < channels; ++c)
      s[c] = a[c] > 0 && b[c] > 0 ? std::max(s[c] / most, 1 / kMostFactor) : 1;
    auto scaled = [&](const TensorStatistics &of) {
      ValueRange range;
      for (int64_t c = 0; c < channels; ++c)
        range.Join({of.channels.min[c] / s[c], of.channels.max[c] / s[c]});
      return range;
    };
    const TensorStatistics *before = ctx.calibration->Find(first.result()->name());
    const bool by_channel = before && before->channels.axis == 1 && before->channels.size() == channels;
    const ValueRange range = scaled(*t), range_before = by_channel ? scaled(*before) : range;
    Rescale(first, 1, [&, size = NumElements(first.operand(1)->constant()->dims()) / channels](int64_t e) {
      return 1 / s[e / size];
    });
    if (first.operand(2))
      Rescale(first, 2, [&](int64_t e) { return 1 / s[e]; });
    Rescale(second, 1, [&](int64_t e) { return s[input_of(e)]; });
    Module &m = g.module();
    if (between != first.result()) {
      m.RenameValue(first.result(), first.result()->name() + ".equalised");
      ranges[first.result()->name()] = range_before;
    }
    m.RenameValue(between, between->name() + ".equalised");
    ranges[between->name()] = range;
    ctx.Count("quantize: tensors equalised");
  }
  return ranges;
}

} // namespace npuc
