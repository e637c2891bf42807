// Matrix products.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

TEST(MatMul, ShapesAndBroadcast) {
  ExpectValues(OpRunner("MatMul")({F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({3, 2}, {1, 0, 0, 1, 1, 1})}), {4, 5, 10, 11});
  const Tensor v = OpRunner("MatMul")({F32({3}, {1, 2, 3}), F32({3}, {4, 5, 6})});
  ExpectDims(v, {});
  ExpectValues(v, {32});
  const Tensor mv = OpRunner("MatMul")({F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({3}, {1, 1, 1})});
  ExpectDims(mv, {2});
  ExpectValues(mv, {6, 15});
  const Tensor b = OpRunner("MatMul")({Iota({2, 1, 1, 2}), Iota({3, 2, 1})});
  ExpectDims(b, {2, 3, 1, 1});
  ExpectValues(b, {1, 3, 5, 3, 13, 23});
  ExpectValues(OpRunner("MatMul")({Iota({2, 2, 2}), F32({2, 1}, {1, 2})}), {2, 8, 14, 20});
}

TEST(MatMul, LargeAgreesWithTheDefinition) {
  const int64_t m = 9, k = 31, n = 75;
  std::vector<float> a(m * k), b(k * n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(static_cast<int>(i * 7 % 19) - 9);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<float>(static_cast<int>(i * 11 % 17) - 8);
  const Tensor y = OpRunner("MatMul")({F32({m, k}, a), F32({k, n}, b)});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double s = 0;
      for (int64_t l = 0; l < k; ++l)
        s += a[i * k + l] * b[l * n + j];
      ASSERT_EQ(y.AsDouble(i * n + j), s);
    }
}

TEST(MatMul, IntegersWrapAndEmptyInner) {
  ExpectValues(OpRunner("MatMul")({I32({1, 1}, {1 << 30}), I32({1, 1}, {4})}), {0});
  const Tensor z = OpRunner("MatMul")({F32({2, 0}, {}), F32({0, 3}, {})});
  ExpectValues(z, {0, 0, 0, 0, 0, 0});
}

TEST(MatMul, Errors) {
  EXPECT_EQ(OpRunner("MatMul").Fails({Iota({2, 3}), Iota({2, 3})}), "E0301");
  EXPECT_EQ(OpRunner("MatMul").Fails({Iota({}), Iota({2, 3})}), "E0301");
  EXPECT_EQ(OpRunner("MatMul").Fails({Iota({2, 2, 3}), Iota({3, 3, 2})}), "E0301");
}

TEST(Gemm, BroadcastOfCAndScalars) { // N110
  const Tensor a = Iota({4, 3}), b = Iota({3, 5});
  const std::vector<double> product = {25,  28,  31,  34,  37,  70,  82,  94,  106, 118,
                                       115, 136, 157, 178, 199, 160, 190, 220, 250, 280};
  ExpectValues(OpRunner("Gemm")({a, b}), product);
  ExpectValues(OpRunner("Gemm").Float("beta", 0)({a, b, F32({1}, {kNaN})}), product); // beta = 0: C adds nothing
  std::vector<double> with_column = product;
  for (int i = 0; i < 20; ++i)
    with_column[i] += 10 * (i / 5);
  ExpectValues(OpRunner("Gemm")({a, b, F32({4, 1}, {0, 10, 20, 30})}), with_column);
  std::vector<double> with_row = product;
  for (int i = 0; i < 20; ++i)
    with_row[i] += i % 5;
  const Tensor bt = F32({5, 3}, {0, 5, 10, 1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14});
  ExpectValues(OpRunner("Gemm").Int("transB", 1)({a, bt, Iota({5})}), with_row);
  const Tensor at = F32({3, 4}, {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  std::vector<double> scaled = product;
  for (double &v : scaled)
    v = 0.5 * v + 2 * 7;
  ExpectValues(OpRunner("Gemm").Int("transA", 1).Float("alpha", 0.5f).Float("beta", 2)({at, b, F32({}, {7})}), scaled);
  EXPECT_EQ(OpRunner("Gemm").Fails({a, b, Iota({4})}), "E0301");
  EXPECT_EQ(OpRunner("Gemm").Fails({a, b, Iota({1, 4, 5})}), "E0301");
}

TEST(MatMulInteger, OnnxExampleAndPerRowZeroPoints) {
  const Tensor a = U8({4, 3}, {11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0}), b = U8({3, 2}, {1, 4, 2, 5, 3, 6});
  ExpectValues(OpRunner("MatMulInteger")({a, b, U8({1}, {12}), U8({1}, {0})}),
               {-38, -83, -44, -98, -50, -113, -56, -128});
  // Row r has zero point r, column 1 has zero point 1.
  ExpectValues(OpRunner("MatMulInteger")({U8({2, 1}, {5, 5}), U8({1, 2}, {3, 3}), U8({2}, {0, 1}), U8({2}, {0, 1})}),
               {15, 10, 12, 8});
}

TEST(QLinearMatMul, OnnxExample) {
  const Tensor a = U8({2, 4}, {208, 236, 0, 238, 3, 214, 255, 29}),
               b = U8({4, 3}, {152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247});
  ExpectValues(OpRunner("QLinearMatMul")({a, F32({1}, {0.0066f}), U8({1}, {113}), b, F32({1}, {0.00705f}),
                                          U8({1}, {114}), F32({1}, {0.0107f}), U8({1}, {118})}),
               {168, 115, 255, 1, 66, 151});
}

TEST(QuantizedMatMul, PerColumnWeights) {
  auto qb = std::make_shared<const QuantParams>(QuantParams{{1.0f, 0.5f}, {0, 1}, 1});
  OpRunner mm("MatMul");
  mm.Quant({PerTensorQuant(1.0f, 1), qb}, PerTensorQuant(1.0f, 10), DType::U8);
  // a - 1 = {1, 2}; b - z = {{1, 2}, {3, 4}}: acc = {7, 10} -> {7, 5} + 10
  ExpectValues(mm({U8({1, 2}, {2, 3}), I8({2, 2}, {1, 3, 3, 5})}), {17, 15});
}

TEST(QuantizedGemm, BiasIsRawIntegers) {
  OpRunner g("Gemm");
  g.Int("transB", 1).Quant({PerTensorQuant(0.5f, 0), PerTensorQuant(0.5f, 0), nullptr}, nullptr, DType::F32);
  ExpectValues(g({I8({1, 2}, {1, 2}), I8({2, 2}, {1, 1, 2, 2}), I32({2}, {1, 2})}), {1, 2});
}

TEST(Microsoft, FusedMatMulAndDynamicQuantize) {
  ExpectValues(OpRunner("FusedMatMul", "com.microsoft")
                   .Float("alpha", 2)
                   .Int("transA", 1)({F32({2, 1}, {1, 2}), F32({2, 1}, {3, 4})}),
               {22});
  ExpectValues(
      OpRunner("MatMulIntegerToFloat", "com.microsoft")({U8({1, 2}, {3, 5}), I8({2, 1}, {2, -1}), F32({}, {0.5f}),
                                                         F32({}, {0.25f}), U8({}, {1}), Absent(), F32({1}, {10})}),
      {10 + (2 * 2 - 4) * 0.125});
  // a = {0, 255}: scale 1, zero point 0
  ExpectValues(
      OpRunner("DynamicQuantizeMatMul", "com.microsoft")({F32({1, 2}, {0, 255}), I8({2, 1}, {7, 2}), F32({}, {0.5f})}),
      {255});
}

} // namespace
} // namespace npuc
