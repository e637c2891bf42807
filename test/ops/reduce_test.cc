// Reductions, arg-reductions, softmax.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

const Tensor kX = Iota({3, 2, 2}, 1);

TEST(Reduce, AxesAndKeepdims) {
  const Tensor a = OpRunner("ReduceSum")({kX, I64({1}, {1})});
  ExpectDims(a, {3, 1, 2});
  ExpectValues(a, {4, 6, 12, 14, 20, 22});
  const Tensor b = OpRunner("ReduceSum").Int("keepdims", 0)({kX, I64({2}, {0, -1})});
  ExpectDims(b, {2});
  ExpectValues(b, {1 + 2 + 5 + 6 + 9 + 10, 3 + 4 + 7 + 8 + 11 + 12});
  const Tensor all = OpRunner("ReduceSum").Int("keepdims", 0)({kX});
  ExpectDims(all, {});
  ExpectValues(all, {78});
}

TEST(Reduce, AttributeAxesN100) {
  const Tensor y = OpRunner("ReduceMean").Ints("axes", {2, 3})({Iota({2, 3, 4, 5})});
  ExpectDims(y, {2, 3, 1, 1});
  ExpectValues(y, {9.5, 29.5, 49.5, 69.5, 89.5, 109.5});
}

TEST(Reduce, NoopWithEmptyAxesN099) {
  for (const Tensor &axes : {Tensor(), Tensor::Allocate(DType::I64, {0})}) {
    for (int keep : {0, 1}) {
      const Tensor sum = OpRunner("ReduceSum").Int("noop_with_empty_axes", 1).Int("keepdims", keep)({kX, axes});
      ExpectDims(sum, {3, 2, 2});
      EXPECT_TRUE(sum.SameBits(kX));
      const Tensor square =
          OpRunner("ReduceSumSquare").Int("noop_with_empty_axes", 1).Int("keepdims", keep)({kX, axes});
      ExpectDims(square, {3, 2, 2});
      ExpectValues(square, {1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144});
      const Tensor all = OpRunner("ReduceSum").Int("keepdims", keep)({kX, axes});
      if (keep)
        ExpectDims(all, {1, 1, 1});
      else
        ExpectDims(all, {});
      ExpectValues(all, {78});
    }
  }
}

TEST(Reduce, AllTen) {
  const Tensor x = F32({4}, {1, -2, 3, -4});
  auto run = [&](const char *name) { return OpRunner(name).Int("keepdims", 0)({x}); };
  ExpectValues(run("ReduceSum"), {-2});
  ExpectValues(run("ReduceMean"), {-0.5});
  ExpectValues(run("ReduceMax"), {3});
  ExpectValues(run("ReduceMin"), {-4});
  ExpectValues(run("ReduceProd"), {24});
  ExpectValues(run("ReduceSumSquare"), {30});
  ExpectValues(run("ReduceL1"), {10});
  ExpectValues(run("ReduceL2"), {std::sqrt(30.0)}, 1e-6);
  ExpectValues(run("ReduceLogSum"), {kNaN});
  ExpectValues(run("ReduceLogSumExp"), {std::log(std::exp(1) + std::exp(-2) + std::exp(3) + std::exp(-4))}, 1e-6);
  ExpectValues(OpRunner("ReduceLogSumExp").Int("keepdims", 0)({F32({2}, {1000, 1000})}), {1000 + std::log(2.0)}, 1e-6);
}

TEST(Reduce, EmptySets) {
  const Tensor x = F32({2, 0}, {}), axes = I64({1}, {1});
  auto run = [&](const char *name) { return OpRunner(name).Int("keepdims", 0)({x, axes}); };
  ExpectValues(run("ReduceSum"), {0, 0});
  ExpectValues(run("ReduceProd"), {1, 1});
  ExpectValues(run("ReduceMax"), {-kInf, -kInf});
  ExpectValues(run("ReduceMin"), {kInf, kInf});
  ExpectValues(run("ReduceMean"), {kNaN, kNaN});
  ExpectValues(run("ReduceLogSumExp"), {-kInf, -kInf});
  ExpectDims(OpRunner("ReduceSum").Int("keepdims", 0)({x, I64({1}, {0})}), {0});
}

TEST(Reduce, TypesAndNan) {
  ExpectValues(OpRunner("ReduceMax")({F32({3}, {1, kNaN, 2})}), {kNaN});
  ExpectValues(OpRunner("ReduceMax")({U8({3}, {1, 255, 2})}), {255});
  ExpectValues(OpRunner("ReduceMax")({Bool({2}, {0, 1})}), {1});
  ExpectValues(OpRunner("ReduceMin")({Bool({2}, {0, 1})}), {0});
  ExpectValues(OpRunner("ReduceMean")({I32({2}, {-1, -2})}), {-1});
  ExpectValues(OpRunner("ReduceSum")({I64({2}, {int64_t{1} << 40, 1})}), {1099511627777.0});
  EXPECT_EQ(OpRunner("ReduceSum").Fails({kX, I64({1}, {3})}), "E0203");
  EXPECT_EQ(OpRunner("ReduceSum").Fails({kX, I64({2}, {0, -3})}), "E0203");
}

TEST(Reduce, ScalarOperand) {
  ExpectValues(OpRunner("ReduceSum")({F32({}, {5})}), {5});
}

TEST(Reduce, QuantizedMeanIsExact) {
  OpRunner mean("ReduceMean");
  mean.Ints("axes", {1}).Int("keepdims", 0).Quant({PerTensorQuant(0.5f, 10)}, PerTensorQuant(0.5f, 3), DType::U8);
  ExpectValues(mean({U8({1, 2}, {11, 12})}), {5});
}

TEST(Arg, TiesNanAndAxes) {
  ExpectValues(OpRunner("ArgMax")({F32({2, 2}, {2, 2, 3, 10})}), {1, 1});
  ExpectValues(OpRunner("ArgMax").Int("axis", 1).Int("keepdims", 0)({F32({2, 2}, {2, 2, 3, 10})}), {0, 1});
  ExpectValues(OpRunner("ArgMax").Int("axis", -1).Int("select_last_index", 1)({F32({2, 2}, {2, 2, 3, 10})}), {1, 1});
  ExpectValues(OpRunner("ArgMin")({F32({3}, {1, kNaN, 0})}), {1});
  ExpectValues(OpRunner("ArgMin")({I8({3}, {1, -5, -5})}), {1});
  EXPECT_EQ(OpRunner("ArgMax").Fails({F32({0}, {})}), "E0301");
}

TEST(Softmax, AxesLargeValuesAndMasksN089) {
  ExpectValues(OpRunner("Softmax")({F32({1, 3}, {-1, 0, 1})}), {0.09003058, 0.24472848, 0.66524094}, 1e-6);
  ExpectValues(OpRunner("Softmax")({F32({2, 4}, {0, 1, 2, 3, 10000, 10001, 10002, 10003})}),
               {0.032058604, 0.08714432, 0.23688284, 0.6439143, 0.032058604, 0.08714432, 0.23688284, 0.6439143}, 1e-6);
  ExpectValues(OpRunner("Softmax").Int("axis", 0)({F32({2, 2}, {0, 5, 0, 5})}), {0.5, 0.5, 0.5, 0.5});
  const float low = std::numeric_limits<float>::lowest();
  ExpectValues(OpRunner("Softmax")({F32({1, 4}, {low, low, low, low})}), {0.25, 0.25, 0.25, 0.25});
  ExpectValues(OpRunner("LogSoftmax")({F32({1, 3}, {-1, 0, 1})}), {-2.4076059, -1.4076059, -0.40760595}, 1e-6);
  ExpectValues(OpRunner("Hardmax")({F32({1, 4}, {1, 3, 3, 0})}), {0, 1, 0, 0});
  ExpectDims(OpRunner("Softmax")({F32({2, 0}, {})}), {2, 0});
  EXPECT_EQ(OpRunner("Softmax").Int("axis", 2).Fails({F32({1, 3}, {1, 2, 3})}), "E0203");
}

} // namespace
} // namespace npuc
