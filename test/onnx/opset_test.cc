// Older opsets' meanings, and the operators' edge cases that importers get wrong, by values worked out by hand from the
// specification.
#include <gmock/gmock.h>

#include "test/onnx/case_models.h"

namespace npuc::test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using Dims64 = std::vector<int64_t>;

Tensor Zeros(std::vector<int64_t> dims) {
  return Tensor::Allocate(DType::F32, dims);
}

// N066: before opset 13 everything from axis on is one row.
TEST(Opset, SoftmaxFlattensBefore13) {
  for (const char *op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    ModelBuilder old(11), now(13);
    for (auto *b : {&old, &now}) {
      b->In("x", {1, 2, 2}).Out("y");
      b->Node(op, {"x"}, {"y"}, {I("axis", 1)});
    }
    const auto o = AsFloats(old.Run({Zeros({1, 2, 2})})[0]), n = AsFloats(now.Run({Zeros({1, 2, 2})})[0]);
    if (std::string(op) == "Softmax") {
      EXPECT_THAT(o, ElementsAre(0.25f, 0.25f, 0.25f, 0.25f));
      EXPECT_THAT(n, ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
    } else if (std::string(op) == "LogSoftmax") {
      EXPECT_NEAR(o[0], -1.3862944f, 1e-5);
      EXPECT_NEAR(n[0], -0.6931472f, 1e-5);
    } else {
      EXPECT_THAT(o, ElementsAre(1, 0, 0, 0));
      EXPECT_THAT(n, ElementsAre(1, 1, 0, 0));
    }
  }
  // Its default axis was 1.
  ModelBuilder d(8);
  d.In("x", {1, 2, 2}).Out("y");
  d.Node("Softmax", {"x"}, {"y"});
  EXPECT_THAT(AsFloats(d.Run({Zeros({1, 2, 2})})[0]), ElementsAre(0.25f, 0.25f, 0.25f, 0.25f));
}

TEST(Opset, LegacyBroadcastAxis) {
  ModelBuilder b(6);
  b.In("x", {1, 2, 2, 2}).In("c", {2}).Out("y");
  b.Node("Add", {"x", "c"}, {"y"}, {I("broadcast", 1), I("axis", 1)});
  EXPECT_THAT(AsFloats(b.Run({Zeros({1, 2, 2, 2}), Floats({2}, {10, 20})})[0]),
              ElementsAre(10, 10, 10, 10, 20, 20, 20, 20));
}

// N033: an absent minimum, and the attributes of older opsets.
TEST(Opset, Clip) {
  ModelBuilder b(11);
  b.In("x", {3}).Out("y").Init("six", Floats({}, {6}));
  b.Node("Clip", {"x", "", "six"}, {"y"});
  EXPECT_THAT(AsFloats(b.Run({Floats({3}, {-5, 3, 9})})[0]), ElementsAre(-5, 3, 6));
  ModelBuilder old(6);
  old.In("x", {3}).Out("y");
  old.Node("Clip", {"x"}, {"y"}, {F("min", 0)});
  EXPECT_THAT(AsFloats(old.Run({Floats({3}, {-5, 3, 9})})[0]), ElementsAre(0, 3, 9));
}

TEST(Opset, AttributesThatBecameOperands) {
  ModelBuilder b(9);
  b.In("x", {2, 4}).Out("a").Out("b").Out("c").Out("d").Out("e").Out("f").Out("g");
  b.Node("Slice", {"x"}, {"a"}, {Is("starts", {1}), Is("ends", {3}), Is("axes", {1})});
  b.Node("Split", {"x"}, {"b", "b2"}, {I("axis", 1), Is("split", {1, 3})});
  b.Node("Unsqueeze", {"x"}, {"c"}, {Is("axes", {0})});
  b.Node("Pad", {"x"}, {"d"}, {Is("pads", {0, 1, 0, 0}), F("value", 7)});
  b.Node("ReduceSum", {"x"}, {"e"}, {Is("axes", {1}), I("keepdims", 0)});
  b.Node("TopK", {"x"}, {"f", "i"}, {I("k", 2)});
  b.Node("Squeeze", {"c"}, {"g"}, {Is("axes", {0})});
  auto out = b.Run({Counting({2, 4})});
  EXPECT_THAT(AsFloats(out[0]), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(AsFloats(out[1]), ElementsAre(1, 5));
  EXPECT_EQ(DimsOf(out[2]), (Dims64{1, 2, 4}));
  EXPECT_THAT(AsFloats(out[3]), ElementsAre(7, 1, 2, 3, 4, 7, 5, 6, 7, 8));
  EXPECT_THAT(AsFloats(out[4]), ElementsAre(10, 26));
  EXPECT_THAT(AsFloats(out[5]), ElementsAre(4, 3, 8, 7));
  EXPECT_EQ(DimsOf(out[6]), (Dims64{2, 4}));
  ModelBuilder first(1, 3);
  first.In("x", {2, 4}).Out("y").Out("z").Out("c");
  first.Node("Reshape", {"x"}, {"y"}, {Is("shape", {0, -1, 2})});
  first.Node("Pad", {"x"}, {"z"}, {Is("paddings", {1, 0, 0, 0})});
  first.Node("Cast", {"x"}, {"c"}, {S("to", "INT32")});
  out = first.Run({Counting({2, 4})});
  EXPECT_EQ(DimsOf(out[0]), (Dims64{2, 2, 2}));
  EXPECT_EQ(DimsOf(out[1]), (Dims64{3, 4}));
  EXPECT_EQ(out[2].dtype(), DType::I32);
}

// N100
TEST(Opset, ReduceAxesAsAttributeAndOperand) {
  for (int opset : {13, 18}) {
    auto y = ReduceMeanOverTwoAxes(opset).Run({Counting({2, 3, 4, 5}, 0)})[0];
    EXPECT_EQ(DimsOf(y), (Dims64{2, 3, 1, 1}));
    EXPECT_THAT(AsFloats(y), ElementsAre(9.5f, 29.5f, 49.5f, 69.5f, 89.5f, 109.5f));
  }
}

// N099
TEST(Opset, ReduceWithoutAxes) {
  for (bool noop : {false, true})
    for (int keep : {0, 1})
      for (bool empty : {false, true})
        for (const char *op : {"ReduceSum", "ReduceSumSquare"}) {
          auto y = ReduceWithoutAxes(op, noop, keep, empty).Run({Counting({3, 2, 2})})[0];
          const bool square = std::string(op) == "ReduceSumSquare";
          if (noop) {
            EXPECT_EQ(DimsOf(y), (Dims64{3, 2, 2})) << op << keep;
            EXPECT_EQ(AsFloats(y)[2], square ? 9 : 3);
          } else {
            EXPECT_EQ(DimsOf(y), keep ? (Dims64{1, 1, 1}) : Dims64{}) << op;
            EXPECT_EQ(AsFloats(y)[0], square ? 650 : 78);
          }
        }
}

TEST(Opset, ConstantsInEveryForm) {
  ModelBuilder b(13);
  b.Out("a").Out("b").Out("c").Out("d").Out("e");
  b.Node("Constant", {}, {"a"}, {F("value_float", 2.5f)});
  b.Node("Constant", {}, {"b"}, {I("value_int", 4)});
  b.Node("Constant", {}, {"c"}, {Fs("value_floats", {1, 2})});
  b.Node("Constant", {}, {"d"}, {Is("value_ints", {3})});
  b.Node("Constant", {}, {"e"}, {Ss("value_strings", {"x", "y"})});
  auto out = b.Run({});
  EXPECT_EQ(out[0].rank(), 0);
  EXPECT_EQ(out[1].dtype(), DType::I64);
  EXPECT_EQ(DimsOf(out[2]), (Dims64{2}));
  EXPECT_EQ(DimsOf(out[3]), (Dims64{1}));
  EXPECT_EQ(out[4].strings()[1], "y");
}

TEST(Opset, UpsampleAndOldResize) {
  const std::vector<float> twice{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  ModelBuilder seven(7);
  seven.In("x", {1, 1, 2, 2}).Out("y");
  seven.Node("Upsample", {"x"}, {"y"}, {Fs("scales", {1, 1, 2, 2})});
  EXPECT_THAT(AsFloats(seven.Run({Counting({1, 1, 2, 2})})[0]), ElementsAreArray(twice));
  for (const char *op : {"Upsample", "Resize"}) {
    ModelBuilder b(op[0] == 'U' ? 9 : 10);
    b.In("x", {1, 1, 2, 2}).Out("y").Init("s", Floats({4}, {1, 1, 2, 2}));
    b.Node(op, {"x", "s"}, {"y"}, {S("mode", "linear")});
    // Asymmetric: output i lies at i / 2.
    EXPECT_THAT(AsFloats(b.Run({Counting({1, 1, 2, 2})})[0]),
                ElementsAre(1, 1.5f, 2, 2, 2, 2.5f, 3, 3, 3, 3.5f, 4, 4, 3, 3.5f, 4, 4));
  }
}

TEST(Opset, BatchNormalizationOfOldOpsets) {
  ModelBuilder b(6);
  b.In("x", {1, 2, 1, 2}).Out("y");
  b.Init("s", Floats({2}, {1, 2}))
      .Init("b", Floats({2}, {0, 1}))
      .Init("m", Floats({2}, {1, 3}))
      .Init("v", Floats({2}, {1, 4}));
  b.Node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "", "", "", ""},
         {F("epsilon", 0), I("is_test", 1), Is("consumed_inputs", {0, 0, 0, 1, 1})});
  ExpectNear(b.Run({Floats({1, 2, 1, 2}, {1, 2, 3, 5})})[0], {0, 1, 1, 3});
}

// N042: SAME follows stride and puts the odd cell after (UPPER) or before (LOWER).
TEST(Opset, SamePadding) {
  for (bool upper : {true, false}) {
    ModelBuilder b(11);
    b.In("x", {1, 1, 5}).Out("y").Init("w", Floats({1, 1, 4}, {1, 1, 1, 1}));
    b.Node("Conv", {"x", "w"}, {"y"}, {S("auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER"), Is("strides", {2})});
    EXPECT_THAT(AsFloats(b.Run({Counting({1, 1, 5})})[0]), upper ? ElementsAre(6, 14, 9) : ElementsAre(3, 10, 12));
    auto m = b.Get();
    for (Node &n : m->main().nodes())
      if (n.Is("Conv")) {
        EXPECT_FALSE(n.attrs().Has("auto_pad"));
        EXPECT_THAT(n.attrs().Ints("pads").vec(), upper ? ElementsAre(1, 2) : ElementsAre(2, 1));
        EXPECT_THAT(n.attrs().Ints("kernel_shape").vec(), ElementsAre(4));
      }
  }
}

// N045
TEST(Opset, AveragePoolSameCountsBothSides) {
  const auto y = AsFloats(AveragePoolWithSamePadding().Run({Counting({1, 1, 6, 2}, 0)})[0]);
  EXPECT_NEAR(y[0], 1.2f, 1e-6);
  EXPECT_NEAR(y[10], 4.8f, 1e-6);
}

// N046
TEST(Opset, AveragePoolCeilDividesByCellsOfThePaddedInput) {
  ExpectNear(AveragePoolWithCeilMode().Run({Counting({1, 1, 4, 4})})[0],
             {1.5556f, 3.3333f, 2.0f, 6.3333f, 11, 6, 4.5f, 7.5f, 4}, 1e-3f);
}

// N040
TEST(Opset, PoolDefaults) {
  ModelBuilder b(8);
  b.In("x", {1, 2, 5, 5}).Out("y");
  b.Node("MaxPool", {"x"}, {"y"}, {Is("kernel_shape", {3, 3})});
  auto y = b.Run({Counting({1, 2, 5, 5}, -100)})[0];
  EXPECT_EQ(DimsOf(y), (Dims64{1, 2, 3, 3}));
  EXPECT_EQ(AsFloats(y)[0], -88);
  ModelBuilder one(8);
  one.In("x", {1, 2, 9}).Out("y");
  one.Node("MaxPool", {"x"}, {"y"}, {Is("kernel_shape", {4})});
  EXPECT_EQ(DimsOf(one.Run({Counting({1, 2, 9}, -100)})[0]), (Dims64{1, 2, 6}));
  ModelBuilder none(8);
  none.In("x", {1, 2, 9}).Out("y");
  none.Node("MaxPool", {"x"}, {"y"});
  EXPECT_EQ(none.Fail().code, "E0203");
}

// N044
TEST(Opset, ConvTransposeOutputPaddingAndShape) {
  Tensor w = Tensor::Allocate(DType::F32, {3, 6, 3, 3});
  for (int64_t i = 0; i < w.num_elements(); ++i)
    w.mutable_data<float>()[i] = 1;
  ModelBuilder b(11);
  b.In("x", {1, 3, 28, 28}).Out("y").Init("w", w);
  b.Node("ConvTranspose", {"x", "w"}, {"y"},
         {Is("strides", {2, 2}), Is("pads", {1, 1, 1, 1}), Is("output_padding", {1, 1})});
  auto y = b.Run({Counting({1, 3, 28, 28})})[0];
  EXPECT_EQ(DimsOf(y), (Dims64{1, 6, 56, 56}));
  EXPECT_NE(AsFloats(y)[55], 0);
  ModelBuilder shape(11);
  shape.In("x", {1, 3, 28, 28}).Out("y").Init("w", w);
  shape.Node("ConvTranspose", {"x", "w"}, {"y"}, {Is("strides", {2, 2}), Is("output_shape", {56, 57})});
  EXPECT_EQ(DimsOf(shape.Run({Counting({1, 3, 28, 28})})[0]), (Dims64{1, 6, 56, 57}));
}

TEST(Opset, Lprnet3DKernelOn4DInputIsRefused) {
  ModelBuilder b(11);
  b.In("x", {1, 3, 8, 8}).Out("y");
  b.Node("MaxPool", {"x"}, {"y"}, {Is("kernel_shape", {1, 3, 3}), Is("strides", {1, 1, 1})}, "pool");
  const Diagnostic d = b.Fail();
  EXPECT_EQ(d.code, "E0301");
  EXPECT_EQ(d.node, "pool");
}

// N101
TEST(Ops, GatherByScalar) {
  ModelBuilder b;
  b.In("x", {2, 3, 4})
      .Out("y")
      .Out("r")
      .Init("last", Int64s({}, {-1}))
      .Init("zero", Int64s({}, {0}))
      .Init("axes", Int64s({1}, {0}))
      .Init("rest", Int64s({1}, {-1}));
  b.Node("Gather", {"x", "last"}, {"y"}, {I("axis", 1)});
  b.Node("Shape", {"x"}, {"s"});
  b.Node("Gather", {"s", "zero"}, {"n"});
  b.Node("Unsqueeze", {"n", "axes"}, {"n1"});
  b.Node("Concat", {"n1", "rest"}, {"target"}, {I("axis", 0)});
  b.Node("Reshape", {"x", "target"}, {"r"});
  auto m = b.Get();
  EXPECT_EQ(m->main().output(0)->type().ToString(), "f32[2,4]");
  EXPECT_EQ(m->main().output(1)->type().ToString(), "f32[2,12]"); // the shape chain is followed
  auto out = b.Run({Counting({2, 3, 4})});
  EXPECT_THAT(AsFloats(out[0]), ElementsAre(9, 10, 11, 12, 21, 22, 23, 24));
  EXPECT_EQ(DimsOf(out[1]), (Dims64{2, 12}));
}

// The same through a symbolic batch.
TEST(Ops, ShapeChainsKeepSymbols) {
  ModelBuilder b;
  b.In("x", {"n", 3, 4})
      .Out("r")
      .Init("zero", Int64s({}, {0}))
      .Init("axes", Int64s({1}, {0}))
      .Init("rest", Int64s({1}, {-1}));
  b.Node("Shape", {"x"}, {"s"});
  b.Node("Gather", {"s", "zero"}, {"n0"});
  b.Node("Unsqueeze", {"n0", "axes"}, {"n1"});
  b.Node("Concat", {"n1", "rest"}, {"target"}, {I("axis", 0)});
  b.Node("Reshape", {"x", "target"}, {"r"});
  ImportOptions o;
  o.default_batch = false;
  EXPECT_EQ(b.Get(o)->main().output(0)->type().ToString(), "f32[n,12]");
}

// N071
TEST(Ops, ReshapeToAMatrixStaysOne) {
  ModelBuilder b;
  b.In("x", {1, 32, 32, 32}).Out("y").Init("s", Int64s({2}, {4096, 8})).Init("w", Counting({8, 4}));
  b.Node("Reshape", {"x", "s"}, {"r"});
  b.Node("MatMul", {"r", "w"}, {"y"});
  EXPECT_EQ(b.Get()->main().output(0)->type().ToString(), "f32[4096,4]");
}

// N110
TEST(Ops, GemmWithOddC) {
  auto run = [](std::vector<int64_t> cd, std::vector<float> c, std::vector<Attr> attrs) {
    ModelBuilder b;
    b.In("a", {4, 3}).Out("y").Init("b", Counting({3, 5})).Init("c", Floats(cd, c));
    b.Node("Gemm", {"a", "b", "c"}, {"y"}, attrs);
    return AsFloats(b.Run({Tensor::Of<float>(DType::F32, {4, 3}, std::vector<float>(12, 1))})[0]);
  };
  EXPECT_EQ(run({1}, {100}, {F("beta", 0)})[0], 18); // 1 + 6 + 11
  const auto rows = run({4, 1}, {0, 10, 20, 30}, {});
  EXPECT_EQ(rows[0], 18);
  EXPECT_EQ(rows[5], 28);
  EXPECT_EQ(rows[19], 30 + 5 + 10 + 15);
}

// N112
TEST(Ops, NegativeAxes) {
  auto out = NegativeAxes(17).Run({Counting({1, 2, 2, 4})});
  EXPECT_EQ(DimsOf(out[1]), (Dims64{1, 4, 2, 4}));
  EXPECT_EQ(DimsOf(out[2]), (Dims64{1, 2, 1, 4}));
  EXPECT_EQ(DimsOf(out[3]), (Dims64{1, 2, 2, 1}));
  EXPECT_EQ(DimsOf(out[4]), (Dims64{4, 4}));
}

TEST(Ops, SliceClampsEveryWay) {
  ModelBuilder b;
  b.In("x", {5}).Out("a").Out("b").Out("c").Out("d");
  b.Init("m1", Int64s({1}, {-1}))
      .Init("big", Int64s({1}, {INT64_MAX}))
      .Init("small", Int64s({1}, {INT64_MIN}))
      .Init("ax", Int64s({1}, {0}))
      .Init("one", Int64s({1}, {1}))
      .Init("m2", Int64s({1}, {-2}))
      .Init("nine", Int64s({1}, {9}));
  b.Node("Slice", {"x", "m1", "small", "ax", "m1"}, {"a"}); // reversed
  b.Node("Slice", {"x", "one", "big", "ax"}, {"b"});
  b.Node("Slice", {"x", "nine", "small", "ax", "m2"}, {"c"});
  b.Node("Slice", {"x", "nine", "big", "ax"}, {"d"});
  auto out = b.Run({Counting({5})});
  EXPECT_THAT(AsFloats(out[0]), ElementsAre(5, 4, 3, 2, 1));
  EXPECT_THAT(AsFloats(out[1]), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(AsFloats(out[2]), ElementsAre(5, 3, 1));
  EXPECT_EQ(out[3].num_elements(), 0);
}

// A Loop whose state grows is typed with an unknown extent, not with that of the first turn.
TEST(Ops, LoopStateThatGrows) {
  GraphBuilder body;
  body.In("i", {}, DType::I64).In("c", {}, DType::Bool).In("s", {1}).Out("c").Out("t").Out("k");
  body.Node("Concat", {"s", "s"}, {"t"}, {I("axis", 0)});
  body.Node("ReduceSum", {"t"}, {"k"}, {I("keepdims", 0)});
  ModelBuilder b;
  b.In("x", {1}).Out("y").Out("sums").Init("n", Int64s({}, {3}));
  b.Node("Loop", {"n", "", "x"}, {"y", "sums"}, {G("body", body.g)});
  auto m = b.Get();
  EXPECT_EQ(m->main().output(0)->type().ToString(), "f32[?]");
  EXPECT_EQ(m->main().output(1)->type().ToString(), "f32[3]");
  auto out = b.Run({Floats({1}, {1})});
  EXPECT_EQ(out[0].num_elements(), 8);
  EXPECT_THAT(AsFloats(out[1]), ElementsAre(2, 4, 8));
}

} // namespace
} // namespace npuc::test
