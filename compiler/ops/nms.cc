// NonMaxSuppression: boxes taken by falling score, those that overlap a taken one of their class too much left out.
#include <algorithm>

#include "compiler/ops/movement.h"

namespace npuc::ops {
namespace {

struct Box {
  float x1, y1, x2, y2;
};

Box ReadBox(const float *b, bool centre) {
  if (centre)
    return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  // Corners may come in any order.
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
}

float Overlap(const Box &a, const Box &b) {
  const float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1), h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w <= 0 || h <= 0)
    return 0;
  const float both = w * h, all = (a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - both;
  return all > 0 ? both / all : 0;
}

Status InferNms(InferContext &ctx) {
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 0, 3, 3));
  NPUC_RETURN_IF_ERROR(CheckRank(ctx, 1, 3, 3));
  SetTensor(ctx, 0, DType::I64, Shape({Dim::Unknown(), Dim(3)}));
  return OkStatus();
}

Status EvaluateNms(EvalContext &ctx) {
  const Tensor &boxes = ctx.operand(0), &scores = ctx.operand(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dims()[2] != 4 || boxes.dims()[0] != scores.dims()[0] ||
      boxes.dims()[1] != scores.dims()[2])
    return ShapeError(fmt::format("boxes {} and scores {}", ToString(boxes.dims()), ToString(scores.dims())));
  auto scalar = [&](int i, double otherwise) {
    return ctx.has_operand(i) && ctx.operand(i).num_elements() ? ctx.operand(i).AsDouble(0) : otherwise;
  };
  const int64_t most = ctx.has_operand(2) && ctx.operand(2).num_elements() ? ctx.operand(2).AsInt(0) : 0;
  const float iou = static_cast<float>(scalar(3, 0));
  const bool has_least = ctx.has_operand(4);
  const float least = static_cast<float>(scalar(4, 0));
  const bool centre = ctx.attrs().Int("center_point_box", 0) != 0;
  const FloatView b(boxes), s(scores);
  const int64_t batches = boxes.dims()[0], count = boxes.dims()[1], classes = scores.dims()[1];
  std::vector<int64_t> out;
  for (int64_t n = 0; n < batches; ++n)
    for (int64_t c = 0; c < classes; ++c) {
      const float *score = s.data() + (n * classes + c) * count;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < count; ++i)
        if (!has_least || score[i] > least)
          order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return score[i] > score[j]; });
      std::vector<Box> taken;
      for (int64_t i : order) {
        if (static_cast<int64_t>(taken.size()) >= most)
          break;
        const Box box = ReadBox(b.data() + (n * count + i) * 4, centre);
        if (std::any_of(taken.begin(), taken.end(), [&](const Box &t) { return Overlap(box, t) > iou; }))
          continue;
        taken.push_back(box);
        out.insert(out.end(), {n, c, i});
      }
    }
  ctx.set_result(0, Tensor::Of<int64_t>(DType::I64, {static_cast<int64_t>(out.size()) / 3, 3}, out));
  return OkStatus();
}

} // namespace

OpDef NonMaxSuppressionDef() {
  return {.domain = "",
          .name = "NonMaxSuppression",
          .since_version = 11,
          .min_operands = 2,
          .max_operands = 5,
          .attrs = {IntAttr("center_point_box")},
          .traits = kPure | kNoFloatWiden,
          .infer = InferNms,
          .evaluate = EvaluateNms,
          .doc = "Indices (batch, class, box) of the boxes that are kept."};
}

} // namespace npuc::ops
