// Attribute values at the edge of what ONNX allows, through the whole product as host steps (fp32) and lowered (auto).
// Values by hand from the specification, confirmed with onnxruntime where it takes the model.
#include <gmock/gmock.h>

#include <limits>

#include "test/pipeline/run_case.h"

namespace npuc::test {
namespace {

// Rule ids of the reasons why nodes of operator `op` stay on the host.
std::vector<std::string> RulesOf(const report::Report &r, std::string_view op) {
  std::vector<std::string> out;
  for (const auto &n : r.nodes)
    if (n.op == op)
      for (const auto &reason : n.reasons)
        out.push_back(reason.rule);
  return out;
}

void Expect(const ModelBuilder &b, const std::vector<Tensor> &inputs, const std::vector<int64_t> &dims,
            const std::vector<float> &values, report::Report *report = nullptr) {
  for (Precision p : {Precision::Fp32, Precision::Auto})
    for (const char *target : {"edge-2t", "mcu-128"}) {
      SCOPED_TRACE(std::string(p == Precision::Fp32 ? "fp32 " : "auto ") + target);
      CompilerOptions options;
      options.precision = p;
      options.target = target;
      auto got = CompileAndRun(b, inputs, options, report);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(DimsOf((*got)[0]), dims);
      ExpectNear((*got)[0], values, p == Precision::Fp32 ? 1e-6f : 1e-2f);
    }
}

// A condition that is one constant: the machine's Select takes it as a scalar, for every row.
TEST(EdgeCases, WhereByAConstantCondition) {
  for (const bool c : {false, true}) {
    SCOPED_TRACE(c);
    ModelBuilder b(17);
    Tensor condition = Tensor::Allocate(DType::Bool, {1, 1, 1, 1});
    *condition.mutable_bytes() = c;
    b.In("x", {2, 3, 2, 2}).Out("y").Init("c", condition).Init("k", Floats({2, 3, 1, 1}, {1, 2, 3, 4, 5, 6}));
    b.Node("Abs", {"x"}, {"a"});
    b.Node("Where", {"c", "a", "k"}, {"y"});
    std::vector<float> x(24), want(24);
    for (int i = 0; i < 24; ++i) {
      x[i] = static_cast<float>(-i);
      want[i] = static_cast<float>(c ? i : 1 + i / 4);
    }
    Expect(b, {Floats({2, 3, 2, 2}, x)}, {2, 3, 2, 2}, want);
  }
}

// Taps at -2, 0 and 2 of an extent of 2 with two pads in front: with ceil_mode the window counts though it is wider
// than everything; padding in front is counted, what lies behind is not: 3 / 2.
TEST(EdgeCases, CeilModeWindowWiderThanTheInput) {
  ModelBuilder b(19);
  b.In("x", {1, 2, 2}).Out("y");
  b.Node("AveragePool", {"x"}, {"y"},
         {Is("kernel_shape", {3}), Is("dilations", {2}), Is("strides", {3}), Is("pads", {2, 0}), I("ceil_mode", 1),
          I("count_include_pad", 1)});
  Expect(b, {Floats({1, 2, 2}, {3, 8, -4, 8})}, {1, 2, 1}, {1.5f, -2});
  // Without ceil_mode there is no window.
  ModelBuilder none(19);
  none.In("x", {1, 2, 2}).Out("y");
  none.Node("AveragePool", {"x"}, {"y"}, {Is("kernel_shape", {3})});
  EXPECT_EQ(ErrorCode(CompileAndRun(none, {Floats({1, 2, 2}, {3, 8, -4, 8})}, {}).status()), "E0301");
}

// Taps at -1 and 2 of an extent of 1: nothing but padding. The machine has no such window; the host gives the
// maximum of nothing and the mean of nothing.
TEST(EdgeCases, WindowsOfPaddingAloneRunOnTheHost) {
  for (const char *op : {"MaxPool", "AveragePool"}) {
    SCOPED_TRACE(op);
    ModelBuilder b(19);
    b.In("x", {1, 1, 1, 2}).Out("y");
    b.Node(op, {"x"}, {"y"}, {Is("kernel_shape", {2, 1}), Is("dilations", {3, 1}), Is("pads", {1, 0, 2, 0})});
    report::Report r;
    const bool max = std::string_view(op) == "MaxPool";
    const float nothing = max ? -std::numeric_limits<float>::infinity() : 0;
    CompilerOptions options;
    auto got = CompileAndRun(b, {Floats({1, 1, 1, 2}, {5, 6})}, options, &r);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(AsFloats((*got)[0]), (std::vector<float>{nothing, nothing}));
    EXPECT_THAT(RulesOf(r, op), ::testing::Contains("window"));
  }
}

// A dilation that takes a step a tap: output 2 has its taps at -4 and 12 of an extent of 8, the others see one.
TEST(EdgeCases, ConvolutionWindowsOfPaddingAloneRunOnTheHost) {
  ModelBuilder b(19);
  b.In("x", {1, 1, 1, 8}).Out("y").Init("w", Floats({1, 1, 1, 2}, {1, 10}));
  b.Node("Conv", {"x", "w"}, {"y"},
         {Is("dilations", {1, 16}), Is("pads", {0, 14, 0, 14}), Is("strides", {1, 5}), I("group", 1)});
  report::Report r;
  Expect(b, {Floats({1, 1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8})}, {1, 1, 1, 4}, {30, 80, 0, 2}, &r);
  EXPECT_THAT(RulesOf(r, "Conv"), ::testing::Contains("window"));
}

// Crops of more than there is, filled from the other side: all is the fill value. The machine has no such copy.
TEST(EdgeCases, PadCropsMoreThanThereIs) {
  ModelBuilder b(18);
  b.In("x", {1, 1, 1, 2}).Out("y").Init("pads", Int64s({4}, {-2, 0, 4, 0})).Init("v", Floats({}, {7}));
  b.Init("axes", Int64s({2}, {2, 3}));
  b.Node("Pad", {"x", "pads", "v", "axes"}, {"y"});
  Expect(b, {Floats({1, 1, 1, 2}, {1, 2})}, {1, 1, 3, 2}, std::vector<float>(6, 7));
}

// Negative pads crop first, what is left is wrapped or reflected: of 1 2 3 4 5 without the first, 2 3 4 5.
TEST(EdgeCases, PadCropsBeforeItWraps) {
  for (const char *mode : {"wrap", "reflect"}) {
    SCOPED_TRACE(mode);
    ModelBuilder b(19);
    b.In("x", {1, 1, 1, 5}).Out("y").Init("pads", Int64s({8}, {0, 0, 0, -1, 0, 0, 0, 3}));
    b.Node("Pad", {"x", "pads"}, {"y"}, {S("mode", mode)});
    const bool wrap = std::string_view(mode) == "wrap";
    Expect(b, {Floats({1, 1, 1, 5}, {1, 2, 3, 4, 5})}, {1, 1, 1, 7},
           wrap ? std::vector<float>{2, 3, 4, 5, 2, 3, 4} : std::vector<float>{2, 3, 4, 5, 4, 3, 2});
  }
  ModelBuilder none(19);
  none.In("x", {2}).Out("y").Init("pads", Int64s({2}, {-2, 3}));
  none.Node("Pad", {"x", "pads"}, {"y"}, {S("mode", "edge")});
  EXPECT_EQ(ErrorCode(CompileAndRun(none, {Floats({2}, {1, 2})}, {}).status()), "E0301");
}

// Products of window attributes stay within 64 bits.
TEST(EdgeCases, WindowAttributesHaveABound) {
  ModelBuilder b(19);
  b.In("x", {1, 1, 4}).Out("y");
  b.Node("MaxPool", {"x"}, {"y"}, {Is("kernel_shape", {int64_t{1} << 62}), Is("dilations", {1 << 30})});
  EXPECT_EQ(ErrorCode(CompileAndRun(b, {Floats({1, 1, 4}, {1, 2, 3, 4})}, {}).status()), "E0203");
}

} // namespace
} // namespace npuc::test
