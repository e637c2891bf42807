// What the models of ai.onnx.ml share: score transforms and class labels.
#pragma once

#include <vector>

#include "compiler/ops/movement.h"

namespace npuc::ops {

enum class PostTransform : uint8_t { None, Softmax, Logistic, SoftmaxZero, Probit };
// NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT of the attribute post_transform; E0203 else.
StatusOr<PostTransform> PostTransformOf(const AttributeList &attrs);
void Apply(PostTransform transform, std::vector<double> &scores);

// The classes that a classifier's attributes name, int64 or strings; empty when there are none.
Tensor ClassLabels(const AttributeList &attrs, std::string_view ints, std::string_view strings);
// result 0: [rows] of the labels' type; result 1: f32 [rows, columns].
void SetClassifierTypes(InferContext &ctx, const Tensor &labels, Dim columns);

// One row of features as double.
class Rows {
public:
  // E0301 when x is not [columns] or [rows, columns]; E0403 for what is not numbers.
  static StatusOr<Rows> Of(const Tensor &x);
  int64_t rows = 0, columns = 0;
  double At(int64_t row, int64_t column) const { return x_.AsDouble(row * columns + column); }

private:
  Tensor x_;
};

} // namespace npuc::ops
