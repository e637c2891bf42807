// Shared by the lowerings of matrix operators: checks of weights and bias, and what a problem takes from types and
// stage.
#pragma once

#include <array>

#include "backend/lower/mxu.h"
#include "backend/lower/rules.h"
#include "backend/lower/weights.h"

namespace npuc::lower {

// H and W.
struct ConvGeometry {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad_before{0, 0}, pad_after{0, 0};
};

void CheckWeights(const Node &n, const CheckContext &ctx, const Value *w, int channel_axis, const RuleDoc &weights,
                  const RuleDoc &axis, RuleReport &report);
void CheckBias(const Node &n, const CheckContext &ctx, const Value *b, const RuleDoc &rule, RuleReport &report);

// Small groups of an integer convolution become fewer, larger ones with zero weights between them, where the array is
// faster so. Exact: a zero weight adds nothing. (Floats stay: zero times infinity does.)
void MergeGroups(MxuProblem &p, WeightSource &w, const Target &t);

void FillTypes(MxuProblem &p, const Value *x, const Value *w, const Stage &stage);
void FillStageCost(MxuProblem &p, const Stage &stage, const LowerContext &ctx);
// Scales, zero points and bias of an anchor with constant weights.
ChannelData ChannelDataOf(const Node &anchor, const Stage &stage, const Value *x, const Value *w, const Value *bias,
                          int64_t oc);

// `n`: a Conv, or a Fused node anchored by one.
Status LowerConv(const Node &n, LowerContext &ctx);
Status LowerMatMul(const Node &n, LowerContext &ctx);
Status LowerGemm(const Node &n, LowerContext &ctx);

} // namespace npuc::lower
