// Normalisations, and the operators along axes: CumSum, Trilu, Det, TopK, Dropout, Einsum.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

TEST(BatchNormalization, Inference) {
  // test_batchnorm-like, worked out: (x - mean) / sqrt(var + eps) * s + b with eps 0
  const Tensor y = OpRunner("BatchNormalization")
                       .Float("epsilon", 0)({F32({1, 2, 1, 2}, {-1, 0, 2, 4}), F32({2}, {1, 1.5f}), F32({2}, {0, 1}),
                                             F32({2}, {0, 3}), F32({2}, {1, 4})});
  ExpectValues(y, {-1, 0, 0.25, 1.75});
}

TEST(BatchNormalization, TrainingN111) {
  const std::vector<Tensor> in = {F32({2, 1, 2}, {1, 2, 3, 6}), F32({1}, {2}), F32({1}, {1}), F32({1}, {10}),
                                  F32({1}, {20})};
  OpRunner bn("BatchNormalization");
  bn.Int("training_mode", 1).Float("momentum", 0.9f).Float("epsilon", 1e-2f).Results(3);
  auto r = bn.Run(in);
  ASSERT_TRUE(r.ok()) << r.status();
  // mean 3, var (4 + 1 + 0 + 9) / 4 = 3.5
  const double inv = 1 / std::sqrt(3.51);
  ExpectValues((*r)[0], {1 - 4 * inv, 1 - 2 * inv, 1, 1 + 6 * inv}, 1e-6);
  ExpectValues((*r)[1], {10 * 0.9 + 3 * 0.1}, 1e-6);
  ExpectValues((*r)[2], {20 * 0.9 + 3.5 * 0.1}, 1e-6);
  bn.Results(1);
  ExpectValues(bn(in), {1 - 4 * inv, 1 - 2 * inv, 1, 1 + 6 * inv}, 1e-6);
}

TEST(BatchNormalization, ChannelMismatch) {
  EXPECT_EQ(OpRunner("BatchNormalization").Fails({Iota({1, 3, 2}), Iota({2}), Iota({2}), Iota({2}), Iota({2})}),
            "E0301");
}

TEST(InstanceAndGroup, Values) {
  const double eps = 1e-5, i1 = 1 / std::sqrt(1 + eps), i2 = 1 / std::sqrt(4 + eps);
  ExpectValues(OpRunner("InstanceNormalization")({F32({1, 2, 2}, {1, 3, 0, 4}), F32({2}, {1, 2}), F32({2}, {0, 1})}),
               {-i1, i1, 1 - 4 * i2, 1 + 4 * i2}, 1e-6);
  // Two groups of two channels; scale and bias per channel.
  const double g = 1 / std::sqrt(1.25 + eps);
  ExpectValues(OpRunner("GroupNormalization")
                   .Int("num_groups",
                        2)({F32({1, 4, 2}, {0, 1, 2, 3, 0, 1, 2, 3}), F32({4}, {1, 2, 1, 1}), F32({4}, {0, 0, 0, 5})}),
               {-1.5 * g, -0.5 * g, g, 3 * g, -1.5 * g, -0.5 * g, 0.5 * g + 5, 1.5 * g + 5}, 1e-6);
  EXPECT_EQ(OpRunner("GroupNormalization").Int("num_groups", 3).Fails({Iota({1, 4, 2}), Iota({4}), Iota({4})}),
            "E0203");
}

TEST(LayerNormalization, ThreeResultsAndAxes) {
  auto r = OpRunner("LayerNormalization")
               .Float("epsilon", 0)
               .Results(3)
               .Run({F32({2, 2}, {1, 3, 2, 6}), F32({2}, {1, 2}), F32({2}, {0, 1})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {-1, 3, -1, 3});
  ExpectDims((*r)[1], {2, 1});
  ExpectValues((*r)[1], {2, 4});
  ExpectValues((*r)[2], {1, 0.5});
  ExpectValues(OpRunner("LayerNormalization")
                   .Int("axis", 0)
                   .Float("epsilon", 0)({F32({2, 2}, {1, 3, 1, 3}), F32({2, 2}, {1, 1, 2, 2})}),
               {-1, 1, -2, 2});
  ExpectValues(OpRunner("RMSNormalization").Float("epsilon", 0)({F32({1, 2}, {3, 4}), F32({2}, {1, 1})}),
               {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 1e-6);
}

TEST(SkipLayerNormalization, SumIsAResult) {
  auto r =
      OpRunner("SkipLayerNormalization", "com.microsoft")
          .Float("epsilon", 0)
          .Results(4)
          .Run({F32({1, 1, 2}, {1, 1}), F32({1, 1, 2}, {0, 1}), F32({2}, {1, 1}), F32({2}, {0, 0}), F32({2}, {0, 1})});
  ASSERT_TRUE(r.ok()) << r.status();
  ExpectValues((*r)[0], {-1, 1});
  ExpectValues((*r)[3], {1, 3});
}

TEST(LpAndMeanVariance, Values) {
  ExpectValues(OpRunner("LpNormalization")({F32({1, 2}, {3, 4})}), {0.6, 0.8}, 1e-6);
  ExpectValues(OpRunner("LpNormalization").Int("p", 1).Int("axis", 0)({F32({2, 1}, {1, -3})}), {0.25, -0.75});
  ExpectValues(OpRunner("LpNormalization")({F32({1, 2}, {0, 0})}), {0, 0});
  ExpectValues(OpRunner("MeanVarianceNormalization").Ints("axes", {1})({F32({1, 2}, {1, 3})}), {-1, 1}, 1e-6);
}

TEST(Lrn, EvenSizeReachesFurtherForward) {
  // size 2: channels c and c + 1
  const Tensor y =
      OpRunner("LRN").Int("size", 2).Float("alpha", 2).Float("beta", 1).Float("bias", 1)({F32({1, 2, 1}, {1, 2})});
  ExpectValues(y, {1.0 / 6, 2.0 / 5}, 1e-6);
}

TEST(CumSum, DirectionsAndExclusive) {
  const Tensor x = F32({5}, {1, 2, 3, 4, 5}), axis = I32({}, {0});
  ExpectValues(OpRunner("CumSum")({x, axis}), {1, 3, 6, 10, 15});
  ExpectValues(OpRunner("CumSum").Int("exclusive", 1)({x, axis}), {0, 1, 3, 6, 10});
  ExpectValues(OpRunner("CumSum").Int("reverse", 1)({x, axis}), {15, 14, 12, 9, 5});
  ExpectValues(OpRunner("CumSum").Int("reverse", 1).Int("exclusive", 1)({x, axis}), {14, 12, 9, 5, 0});
  ExpectValues(OpRunner("CumSum")({F32({2, 2}, {1, 2, 3, 4}), I64({1}, {-2})}), {1, 2, 4, 6});
}

TEST(Trilu, UpperLowerAndOffsets) {
  const Tensor x = I64({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  ExpectValues(OpRunner("Trilu")({x}), {1, 2, 3, 0, 5, 6, 0, 0, 9});
  ExpectValues(OpRunner("Trilu").Int("upper", 0)({x}), {1, 0, 0, 4, 5, 0, 7, 8, 9});
  ExpectValues(OpRunner("Trilu")({x, I64({}, {1})}), {0, 2, 3, 0, 0, 6, 0, 0, 0});
  ExpectValues(OpRunner("Trilu")({x, I64({}, {-1})}), {1, 2, 3, 4, 5, 6, 0, 8, 9});
  ExpectValues(OpRunner("Trilu").Int("upper", 0)({x, I64({}, {-7})}), {0, 0, 0, 0, 0, 0, 0, 0, 0});
  ExpectValues(OpRunner("Trilu").Int("upper", 0)({x, I64({}, {7})}), {1, 2, 3, 4, 5, 6, 7, 8, 9});
  ExpectValues(OpRunner("Trilu")({I64({1, 2}, {1, 2}), I64({}, {5})}), {0, 0});
}

TEST(Det, PivotingAndBatch) {
  ExpectValues(OpRunner("Det")({F32({2, 2}, {0, 1, 2, 3})}), {-2});
  const Tensor d = OpRunner("Det")({F32({2, 2, 2}, {1, 2, 3, 4, 1, 2, 2, 4})});
  ExpectDims(d, {2});
  ExpectValues(d, {-2, 0}, 1e-6);
  EXPECT_EQ(OpRunner("Det").Fails({Iota({2, 3})}), "E0301");
}

TEST(TopK, TiesDirectionsAndNan) {
  auto r = OpRunner("TopK").Results(2).Run({F32({1, 5}, {1, 3, 3, kNaN, 0}), I64({1}, {3})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {kNaN, 3, 3});
  ExpectValues((*r)[1], {3, 1, 2});
  r = OpRunner("TopK")
          .Int("largest", 0)
          .Int("axis", 0)
          .Results(2)
          .Run({I32({3, 2}, {1, 6, 1, 5, 0, 4}), I64({1}, {2})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {0, 4, 1, 5});
  ExpectValues((*r)[1], {2, 2, 0, 1});
  EXPECT_EQ(OpRunner("TopK").Results(2).Fails({Iota({3}), I64({1}, {4})}), "E0301");
}

TEST(Dropout, IdentityAndMask) {
  auto r = OpRunner("Dropout").Results(2).Run({F32({2}, {1, 2})});
  ASSERT_TRUE(r.ok());
  ExpectValues((*r)[0], {1, 2});
  ExpectValues((*r)[1], {1, 1});
  // In training about half of the elements are dropped and the others doubled, the same ones every time.
  OpRunner training("Dropout");
  training.Results(2).Int("seed", 3);
  const std::vector<Tensor> in = {F32({1000}, std::vector<float>(1000, 1.0f)), F32({}, {0.5f}), Bool({}, {1})};
  r = training.Run(in);
  ASSERT_TRUE(r.ok());
  int kept = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    kept += (*r)[1].bytes()[i];
    ASSERT_EQ((*r)[0].data<float>()[i], (*r)[1].bytes()[i] ? 2.0f : 0.0f);
  }
  EXPECT_NEAR(kept, 500, 60);
  EXPECT_TRUE((*training.Run(in))[1].SameBits((*r)[1]));
  EXPECT_EQ(OpRunner("Dropout").Fails({F32({2}, {1, 2}), F32({}, {1.0f}), Bool({}, {1})}), "E0203");
}

TEST(Einsum, Equations) {
  const Tensor a = F32({2, 2}, {1, 2, 3, 4}), b = F32({2, 2}, {5, 6, 7, 8});
  ExpectValues(OpRunner("Einsum").Str("equation", "ij,jk->ik")({a, b}), {19, 22, 43, 50});
  ExpectValues(OpRunner("Einsum").Str("equation", "ij,jk")({a, b}), {19, 22, 43, 50});
  ExpectValues(OpRunner("Einsum").Str("equation", "ij->ji")({a}), {1, 3, 2, 4});
  ExpectValues(OpRunner("Einsum").Str("equation", "ii->i")({a}), {1, 4});
  ExpectValues(OpRunner("Einsum").Str("equation", "ii")({a}), {5});
  ExpectValues(OpRunner("Einsum").Str("equation", "i,i")({F32({2}, {1, 2}), F32({2}, {3, 4})}), {11});
  const Tensor e =
      OpRunner("Einsum").Str("equation", "...ij, ...jk -> ...ik")({F32({2, 1, 2}, {1, 2, 3, 4}), F32({2, 1}, {1, 1})});
  ExpectDims(e, {2, 1, 1});
  ExpectValues(e, {3, 7});
  ExpectValues(OpRunner("Einsum").Str("equation", "...ii->...i")({F32({1, 2, 2}, {1, 2, 3, 4})}), {1, 4});
  EXPECT_EQ(OpRunner("Einsum").Str("equation", "ij,jk->ik").Fails({a, Iota({3, 2})}), "E0301");
  EXPECT_EQ(OpRunner("Einsum").Str("equation", "ij->iz").Fails({a}), "E0203");
  EXPECT_EQ(OpRunner("Einsum").Str("equation", "ijk->i").Fails({a}), "E0301");
  EXPECT_EQ(OpRunner("Einsum").Str("equation", "i$->i").Fails({a}), "E0203");
}

} // namespace
} // namespace npuc
