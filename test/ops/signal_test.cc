// Signal processing, losses, deformable convolution, running products.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

TEST(Dft, ForwardInverseAndOneSided) {
  // The transform of a unit impulse is flat; of a constant, an impulse.
  ExpectValues(OpRunner("DFT")({F32({1, 4, 1}, {1, 0, 0, 0})}), {1, 0, 1, 0, 1, 0, 1, 0}, 1e-6);
  ExpectValues(OpRunner("DFT")({F32({1, 4, 1}, {1, 2, 3, 4})}), {10, 0, -2, 2, -2, 0, -2, -2}, 1e-6);
  const Tensor half = OpRunner("DFT").Int("onesided", 1)({F32({1, 4, 1}, {1, 2, 3, 4})});
  ExpectDims(half, {1, 3, 2});
  ExpectValues(half, {10, 0, -2, 2, -2, 0}, 1e-6);
  ExpectValues(OpRunner("DFT").Int("inverse", 1)({F32({1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2})}),
               {1, 0, 2, 0, 3, 0, 4, 0}, 1e-6);
  const Tensor back = OpRunner("DFT").Int("inverse", 1).Int("onesided", 1)({half});
  ExpectDims(back, {1, 4, 1});
  ExpectValues(back, {1, 2, 3, 4}, 1e-6);
  // Longer than the signal: zeros behind it. Axis 0 of two.
  ExpectValues(OpRunner("DFT")({F32({2, 1, 1}, {1, 1}), I64({}, {3}), I64({}, {0})}),
               {2, 0, 0.5, -std::sqrt(3.0) / 2, 0.5, std::sqrt(3.0) / 2}, 1e-6);
  EXPECT_EQ(OpRunner("DFT").Fails({F32({1, 4, 3}, std::vector<float>(12))}), "E0301");
  EXPECT_EQ(OpRunner("DFT").Fails({F32({1, 4, 1}, std::vector<float>(4)), Absent(), I64({}, {2})}), "E0203");
}

TEST(Stft, FramesOfAWindowedSignal) {
  const Tensor y = OpRunner("STFT")({F32({1, 6, 1}, {1, 2, 3, 4, 5, 6}), I64({}, {2}), F32({4}, {1, 1, 1, 0})});
  ExpectDims(y, {1, 2, 3, 2});
  // Frames {1,2,3,0} and {3,4,5,0}.
  ExpectValues(y, {6, 0, -2, -2, 2, 0, 12, 0, -2, -4, 4, 0}, 1e-6);
}

TEST(Windows, PeriodicAndSymmetric) {
  ExpectValues(OpRunner("HannWindow")({I64({}, {4})}), {0, 0.5, 1, 0.5}, 1e-6);
  ExpectValues(OpRunner("HannWindow").Int("periodic", 0)({I64({}, {3})}), {0, 1, 0}, 1e-6);
  ExpectValues(OpRunner("HammingWindow")({I64({}, {2})}), {25.0 / 46 - 21.0 / 46, 1}, 1e-6);
  ExpectValues(OpRunner("BlackmanWindow")({I64({}, {2})}), {0, 1}, 1e-6);
}

TEST(MelWeightMatrix, OnnxExample) {
  const Tensor y =
      OpRunner("MelWeightMatrix")({I32({}, {8}), I32({}, {16}), I32({}, {8192}), F32({}, {0}), F32({}, {4096})});
  ExpectDims(y, {9, 8});
  EXPECT_EQ(y.AsDouble(0), 1);
  EXPECT_EQ(y.AsDouble(8 * 1 + 2), 1);
  EXPECT_EQ(y.AsDouble(8 * 5 + 7), 1);
}

TEST(Loss, ReductionsWeightsAndIgnoredClasses) {
  const Tensor x = F32({2, 3}, {-1, -2, -3, -4, -5, -6}), t = I64({2}, {0, 2}), w = F32({3}, {1, 10, 3});
  ExpectValues(OpRunner("NegativeLogLikelihoodLoss").Str("reduction", "none")({x, t}), {1, 6});
  ExpectValues(OpRunner("NegativeLogLikelihoodLoss").Str("reduction", "sum")({x, t, w}), {19});
  ExpectValues(OpRunner("NegativeLogLikelihoodLoss")({x, t, w}), {4.75});
  ExpectValues(OpRunner("NegativeLogLikelihoodLoss").Int("ignore_index", 0)({x, t, w}), {6});
  EXPECT_EQ(OpRunner("NegativeLogLikelihoodLoss").Fails({x, I64({2}, {0, 3})}), "E0703");
  auto r = OpRunner("SoftmaxCrossEntropyLoss").Results(2).Run({F32({1, 2}, {0, 0}), I64({1}, {1})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {std::log(2.0)}, 1e-6);
  ExpectValues((*r)[1], {-std::log(2.0), -std::log(2.0)}, 1e-6);
}

TEST(DeformConv, OffsetsMaskAndBorder) {
  // One tap of weight 1: moved by (0, 0.5) it reads the mean of two neighbours; beyond the border zero counts.
  const Tensor x = F32({1, 1, 1, 3}, {2, 4, 8}), w = F32({1, 1, 1, 1}, {1});
  const Tensor o = F32({1, 2, 1, 3}, {0, 0, 0, 0.5f, 0.5f, 0.5f});
  ExpectValues(OpRunner("DeformConv")({x, w, o}), {3, 6, 4});
  ExpectValues(OpRunner("DeformConv")({x, w, o, F32({1}, {1}), F32({1, 1, 1, 3}, {1, 0.5f, 0})}), {4, 4, 1});
}

TEST(CumProd, Exclusive) {
  ExpectValues(OpRunner("CumProd")({F32({3}, {2, 3, 4}), I32({}, {0})}), {2, 6, 24});
  ExpectValues(OpRunner("CumProd").Int("exclusive", 1).Int("reverse", 1)({I32({3}, {2, 3, 4}), I32({}, {0})}),
               {12, 4, 1});
}

TEST(SwiGlu, Value) {
  ExpectValues(OpRunner("SwiGLU")({F32({1}, {0}), F32({1}, {5})}), {0});
  ExpectValues(OpRunner("SwiGLU")({F32({1}, {1}), F32({1}, {2})}), {2 / (1 + std::exp(-1.0))}, 1e-6);
}

} // namespace
} // namespace npuc
