// Convolutions: values worked out by hand or from ONNX's operator tests.
#include "test/ops/op_runner.h"

namespace npuc {
namespace {

const Tensor kRamp5 = Iota({1, 1, 5, 5});
const Tensor kOnes3 = F32({1, 1, 3, 3}, std::vector<float>(9, 1.0f));

TEST(Conv, OnnxExampleWithAndWithoutPads) {
  // test_basic_conv_with_padding / without
  const Tensor y = OpRunner("Conv").Ints("kernel_shape", {3, 3}).Ints("pads", {1, 1, 1, 1})({kRamp5, kOnes3});
  ExpectDims(y, {1, 1, 5, 5});
  ExpectValues(
      y, {12, 21, 27, 33, 24, 33, 54, 63, 72, 51, 63, 99, 108, 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84});
  ExpectValues(OpRunner("Conv")({kRamp5, kOnes3}), {54, 63, 72, 99, 108, 117, 144, 153, 162});
}

TEST(Conv, StridesAndAsymmetricPads) {
  // test_conv_with_strides_and_asymmetric_padding, x [1,1,7,5]
  const Tensor x = Iota({1, 1, 7, 5});
  ExpectValues(OpRunner("Conv").Ints("strides", {2, 2}).Ints("pads", {1, 0, 1, 0})({x, kOnes3}),
               {21, 33, 99, 117, 189, 207, 171, 183});
  ExpectValues(OpRunner("Conv").Ints("strides", {2, 2}).Ints("pads", {1, 1, 1, 1})({x, kOnes3}),
               {12, 27, 24, 63, 108, 81, 123, 198, 141, 112, 177, 124});
}

TEST(Conv, AutoPadSameLower) {
  // test_conv_with_autopad_same: [1,1,5,5], strides 2
  const Tensor y = OpRunner("Conv").Str("auto_pad", "SAME_LOWER").Ints("strides", {2, 2})({kRamp5, kOnes3});
  ExpectValues(y, {12, 27, 24, 63, 108, 81, 72, 117, 84});
}

TEST(Conv, GroupsDilationsBiasBatchAndOneSpatialAxis) {
  // Depthwise over one axis, dilation 2: y[c][o] = b[c] + w0 * x[o] + w1 * x[o + 2].
  const Tensor x = Iota({2, 2, 4}), w = F32({2, 1, 2}, {1, 10, 2, 20}), b = F32({2}, {100, 200});
  const Tensor y = OpRunner("Conv").Int("group", 2).Ints("dilations", {2})({x, w, b});
  ExpectDims(y, {2, 2, 2});
  ExpectValues(y, {100 + 0 + 20, 100 + 1 + 30, 200 + 8 + 120, 200 + 10 + 140, 100 + 8 + 100, 100 + 9 + 110,
                   200 + 24 + 280, 200 + 26 + 300});
}

TEST(Conv, ManyColumnsAndChannelsAgreeWithTheDefinition) {
  // Over several blocks of columns and rows not a multiple of four.
  const int64_t ic = 5, oc = 7, h = 13, wd = 17;
  std::vector<float> x(ic * h * wd), w(oc * ic * 9);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 7919 % 23) - 11);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = static_cast<float>(static_cast<int>(i * 104729 % 13) - 6);
  const Tensor y = OpRunner("Conv")
                       .Ints("pads", {1, 2, 0, 1})
                       .Ints("strides", {1, 2})({F32({1, ic, h, wd}, x), F32({oc, ic, 3, 3}, w)});
  const int64_t oh = h + 1 - 2, ow = (wd + 3 - 3) / 2 + 1;
  ExpectDims(y, {1, oc, oh, ow});
  for (int64_t m = 0; m < oc; ++m)
    for (int64_t r = 0; r < oh; ++r)
      for (int64_t c = 0; c < ow; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < ic; ++k)
          for (int64_t a = 0; a < 3; ++a)
            for (int64_t b = 0; b < 3; ++b) {
              const int64_t i = r - 1 + a, j = c * 2 - 2 + b;
              if (i >= 0 && i < h && j >= 0 && j < wd)
                sum += x[(k * h + i) * wd + j] * w[((m * ic + k) * 3 + a) * 3 + b];
            }
        ASSERT_EQ(y.AsDouble((m * oh + r) * ow + c), sum);
      }
}

// The depthwise path against the definition, float and quantised, with strides, dilations, pads on both sides, two
// filters a channel.
TEST(Conv, DepthwiseAgreesWithTheDefinition) {
  const int64_t c = 3, mult = 2, h = 9, wd = 11, kh = 3, kw = 2;
  std::vector<float> x(c * h * wd), w(c * mult * kh * kw);
  std::vector<int8_t> xi(x.size()), wi(w.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = xi[i] = static_cast<int8_t>(static_cast<int>(i * 7919 % 23) - 11);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = wi[i] = static_cast<int8_t>(static_cast<int>(i * 104729 % 13) - 6);
  for (int64_t stride : {1, 2, 3}) {
    auto set = [&](OpRunner &r) {
      r.Int("group", c).Ints("pads", {2, 1, 0, 3}).Ints("strides", {1, stride}).Ints("dilations", {2, 3});
    };
    OpRunner real("Conv"), quantised("Conv");
    set(real);
    set(quantised);
    quantised.Quant({PerTensorQuant(1.0f, 0), PerTensorQuant(1.0f, 0)}, nullptr, DType::F32);
    const Tensor y = real({F32({1, c, h, wd}, x), F32({c * mult, 1, kh, kw}, w)});
    const Tensor q = quantised({I8({1, c, h, wd}, xi), I8({c * mult, 1, kh, kw}, wi)});
    const int64_t oh = h + 2 - 5 + 1, ow = (wd + 4 - 4) / stride + 1;
    ExpectDims(y, {1, c * mult, oh, ow});
    for (int64_t m = 0; m < c * mult; ++m)
      for (int64_t r = 0; r < oh; ++r)
        for (int64_t o = 0; o < ow; ++o) {
          double sum = 0;
          for (int64_t a = 0; a < kh; ++a)
            for (int64_t b = 0; b < kw; ++b) {
              const int64_t i = r - 2 + a * 2, j = o * stride - 1 + b * 3;
              if (i >= 0 && i < h && j >= 0 && j < wd)
                sum += x[(m / mult * h + i) * wd + j] * w[(m * kh + a) * kw + b];
            }
          ASSERT_EQ(y.AsDouble((m * oh + r) * ow + o), sum);
          ASSERT_EQ(q.AsDouble((m * oh + r) * ow + o), sum);
        }
  }
}

TEST(Conv, Float64AndThreeSpatialAxes) {
  const Tensor x = F64({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), w = F64({1, 1, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 0.5});
  ExpectValues(OpRunner("Conv")({x, w}), {32});
}

TEST(Conv, EmptyBatch) {
  const Tensor y = OpRunner("Conv")({F32({0, 1, 5, 5}, {}), kOnes3});
  ExpectDims(y, {0, 1, 3, 3});
}

TEST(Conv, Errors) {
  EXPECT_EQ(OpRunner("Conv").Fails({Iota({1, 2, 5, 5}), kOnes3}), "E0301"); // channels
  EXPECT_EQ(OpRunner("Conv").Fails({Iota({1, 1, 2, 2}), kOnes3}), "E0301"); // kernel too large
  EXPECT_EQ(OpRunner("Conv").Ints("strides", {0, 1}).Fails({kRamp5, kOnes3}), "E0203");
  EXPECT_EQ(OpRunner("Conv").Ints("strides", {1}).Fails({kRamp5, kOnes3}), "E0203");
  EXPECT_EQ(OpRunner("Conv").Str("auto_pad", "SAME").Fails({kRamp5, kOnes3}), "E0203");
  EXPECT_EQ(OpRunner("Conv").Ints("kernel_shape", {2, 2}).Fails({kRamp5, kOnes3}), "E0203");
  EXPECT_EQ(OpRunner("Conv").Fails({kRamp5, kOnes3, F32({2}, {0, 0})}), "E0301"); // bias
  EXPECT_EQ(OpRunner("Conv").Fails({kRamp5, F64({1, 1, 1, 1}, {1})}), "E0302");
}

TEST(ConvTranspose, OnnxExamples) {
  // test_convtranspose
  const Tensor x = Iota({1, 1, 3, 3}), w = F32({1, 2, 3, 3}, std::vector<float>(18, 1.0f));
  const Tensor y = OpRunner("ConvTranspose")({x, w});
  ExpectDims(y, {1, 2, 5, 5});
  std::vector<double> plane = {0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6, 13, 21, 15, 8};
  std::vector<double> want = plane;
  want.insert(want.end(), plane.begin(), plane.end());
  ExpectValues(y, want);
  // test_convtranspose_1d
  ExpectValues(OpRunner("ConvTranspose")({F32({1, 1, 3}, {0, 1, 2}), F32({1, 2, 3}, std::vector<float>(6, 1.0f))}),
               {0, 1, 3, 3, 2, 0, 1, 3, 3, 2});
  // test_convtranspose_pad
  const Tensor p = OpRunner("ConvTranspose").Ints("strides", {3, 2}).Ints("pads", {1, 2, 1, 2})({x, w});
  ExpectDims(p, {1, 2, 7, 3});
  plane = {1, 1, 3, 1, 1, 3, 7, 4, 9, 7, 4, 9, 7, 4, 9, 13, 7, 15, 13, 7, 15};
  want = plane;
  want.insert(want.end(), plane.begin(), plane.end());
  ExpectValues(p, want);
  // output_padding and output_shape: the same [10, 8] result
  const Tensor o1 = OpRunner("ConvTranspose").Ints("strides", {3, 2}).Ints("output_padding", {1, 1})({x, w});
  const Tensor o2 = OpRunner("ConvTranspose")
                        .Ints("strides", {3, 2})
                        .Ints("output_shape", {10, 8})
                        .Ints("output_padding", {1, 1})({x, w});
  ExpectDims(o1, {1, 2, 10, 8});
  EXPECT_TRUE(o1.SameBits(o2));
}

TEST(ConvTranspose, Groups) {
  // Two groups of one channel, stride 2: each input element becomes two outputs.
  const Tensor x = F32({1, 2, 2}, {1, 2, 3, 4}), w = F32({2, 1, 2}, {1, 10, 100, 1000}), b = F32({2}, {0.5, 0.25});
  ExpectValues(OpRunner("ConvTranspose").Int("group", 2).Ints("strides", {2})({x, w, b}),
               {1.5, 10.5, 2.5, 20.5, 300.25, 3000.25, 400.25, 4000.25});
}

TEST(ConvTranspose, Dilations) {
  // test_convtranspose_dilations
  const Tensor x = F32({1, 1, 3, 3}, {3, 8, 1, 9, 5, 7, 3, 2, 6}), w = F32({1, 1, 2, 2}, {7, 2, 1, 9});
  ExpectValues(OpRunner("ConvTranspose").Ints("dilations", {2, 2})({x, w}),
               {21, 56, 13, 16, 2, 63, 35, 67, 10, 14, 24, 22, 76, 76, 21, 9, 5, 88, 45, 63, 3, 2, 33, 18, 54});
}

TEST(ConvInteger, OnnxExamples) {
  const Tensor x = U8({1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}), w = U8({1, 1, 2, 2}, {1, 1, 1, 1}), z = U8({}, {1});
  ExpectValues(OpRunner("ConvInteger")({x, w, z}), {12, 16, 24, 28});
  ExpectValues(OpRunner("ConvInteger").Ints("pads", {1, 1, 1, 1})({x, w, z}),
               {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9});
}

TEST(QLinearConv, OnnxExample) {
  // test_qlinearconv
  const Tensor x = U8({1, 1, 7, 7}, {255, 174, 162, 25,  203, 168, 58,  15,  59,  237, 95,  129, 0,  64,  56, 242, 153,
                                     221, 168, 12,  166, 232, 178, 186, 195, 237, 162, 237, 188, 39, 124, 77, 80,  102,
                                     43,  127, 230, 21,  83,  41,  40,  134, 255, 154, 92,  141, 42, 148, 247});
  const Tensor y =
      OpRunner("QLinearConv")({x, F32({}, {0.00369204697f}), U8({}, {132}), U8({1, 1, 1, 1}, {0}),
                               F32({1}, {0.00172794575f}), U8({1}, {255}), F32({}, {0.00162681262f}), U8({}, {123})});
  ExpectValues(y, {0,   81,  93,  230, 52,  87,  197, 240, 196, 18,  160, 126, 255, 191, 199, 13,  102,
                   34,  87,  243, 89,  23,  77,  69,  60,  18,  93,  18,  67,  216, 131, 178, 175, 153,
                   212, 128, 25,  234, 172, 214, 215, 121, 0,   101, 163, 114, 213, 107, 8});
}

TEST(QuantizedConv, ExactIntegerRule) {
  // x = {10, 20} - 5 -> {5, 15}; w = {3, -2}: acc = 7 + 15 - 30 = -8. Requantised: -8 * f32(f32(0.5 * 0.25) / 0.125) =
  // -8, + 100 = 92.
  OpRunner conv("Conv");
  conv.Quant({PerTensorQuant(0.5f, 5), PerTensorQuant(0.25f, 0), nullptr}, PerTensorQuant(0.125f, 100), DType::U8);
  const Tensor x = U8({1, 1, 2}, {10, 20}), w = I8({1, 1, 2}, {3, -2}), b = I32({1}, {7});
  ExpectValues(conv({x, w, b}), {92});
  // Float result: acc * (sx * sw).
  OpRunner real("Conv");
  real.Quant({PerTensorQuant(0.5f, 5), PerTensorQuant(0.25f, 0), nullptr}, nullptr, DType::F32);
  ExpectValues(real({x, w, b}), {-1});
}

TEST(QuantizedConv, PerChannelPadsAndClamping) {
  // Padding stands for the zero point: it adds nothing.
  auto qw = std::make_shared<const QuantParams>(QuantParams{{1.0f, 0.5f}, {0, 2}, 0});
  OpRunner conv("Conv");
  conv.Ints("pads", {1, 1}).Quant({PerTensorQuant(1.0f, 128), qw}, PerTensorQuant(1.0f, 0), DType::I8);
  const Tensor x = U8({1, 1, 2}, {129, 255}), w = I8({2, 1, 3}, {1, 1, 1, 2, 2, 4});
  // channel 0: x - z = {1, 127}: sums {128, 128} -> clamped to 127; channel 1: w - z = {0, 0, 2}: {254, 0} * 0.5 =
  // {127, 0}
  ExpectValues(conv({x, w}), {127, 127, 127, 0});
}

TEST(QuantizedConv, SixteenBitActivations) {
  OpRunner conv("Conv");
  conv.Quant({PerTensorQuant(1.0f, 0), PerTensorQuant(1.0f, 0)}, PerTensorQuant(65536.0f, 0), DType::I16);
  const Tensor x = Tensor::Of<int16_t>(DType::I16, {1, 3, 1}, std::vector<int16_t>{32767, 32767, 32767});
  ExpectValues(conv({x, I8({1, 3, 1}, {127, 127, 127})}), {190}); // 12484227 / 65536 = 190.49
}

TEST(QuantizedConv, TransposedPerChannel) {
  auto qw = std::make_shared<const QuantParams>(QuantParams{{1.0f, 0.5f}, {0, 0}, 1});
  OpRunner conv("ConvTranspose");
  conv.Ints("strides", {2}).Quant({PerTensorQuant(1.0f, 0), qw}, PerTensorQuant(1.0f, 0), DType::I8);
  ExpectValues(conv({I8({1, 1, 2}, {1, 3}), I8({1, 2, 2}, {2, 4, 6, 8})}), {2, 4, 6, 12, 3, 4, 9, 12});
}

TEST(FusedConv, ReluAndSum) {
  AttributeList a;
  const Tensor y = OpRunner("FusedConv", "com.microsoft")
                       .Str("activation", "Relu")(
                           {F32({1, 1, 2}, {1, -4}), F32({1, 1, 1}, {2}), F32({1}, {1}), F32({1, 1, 2}, {10, 1})});
  ExpectValues(y, {13, 0});
}

} // namespace
} // namespace npuc
