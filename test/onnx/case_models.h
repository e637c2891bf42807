// Models that are tested at the importer alone and through the whole product.
#pragma once

#include "test/onnx/model_builder.h"

namespace npuc::test {

// N045: x [1,1,6,2].
inline ModelBuilder AveragePoolWithSamePadding() {
  ModelBuilder b(19);
  b.In("x", {1, 1, 6, 2}).Out("y");
  b.Node("AveragePool", {"x"}, {"y"},
         {Is("kernel_shape", {5, 1}), S("auto_pad", "SAME_LOWER"), I("count_include_pad", 1)});
  return b;
}

// N046: x [1,1,4,4].
inline ModelBuilder AveragePoolWithCeilMode() {
  ModelBuilder b(19);
  b.In("x", {1, 1, 4, 4}).Out("y");
  b.Node("AveragePool", {"x"}, {"y"},
         {Is("kernel_shape", {3, 3}), Is("strides", {2, 2}), Is("pads", {1, 1, 1, 1}), I("ceil_mode", 1),
          I("count_include_pad", 1)});
  return b;
}

// N099: x [3,2,2]; `empty`: axes are there and name none.
inline ModelBuilder ReduceWithoutAxes(const std::string &op, bool noop, int keepdims, bool empty) {
  ModelBuilder b(18);
  b.In("x", {3, 2, 2}).Out("y").Init("none", Int64s({0}, {}));
  b.Node(op, empty ? Names{"x", "none"} : Names{"x"}, {"y"},
         {I("keepdims", keepdims), I("noop_with_empty_axes", noop)});
  return b;
}

// N100: x [2,3,4,5], its last two axes; as an attribute in opset 13, else from a Constant node.
inline ModelBuilder ReduceMeanOverTwoAxes(int opset) {
  ModelBuilder b(opset);
  b.In("x", {2, 3, 4, 5}).Out("y");
  if (opset == 13) {
    b.Node("ReduceMean", {"x"}, {"y"}, {Is("axes", {2, 3})});
  } else {
    b.Node("Constant", {}, {"axes"}, {Is("value_ints", {2, 3})});
    b.Node("ReduceMean", {"x", "axes"}, {"y"});
  }
  return b;
}

// N112: x [1,2,2,4]; Softmax, Concat, Split (its first half), Gather, Flatten.
inline ModelBuilder NegativeAxes(int opset) {
  ModelBuilder b(opset);
  b.In("x", {1, 2, 2, 4}).Out("s").Out("c").Out("p").Out("g").Out("f").Init("i", Int64s({1}, {0}));
  b.Node("Softmax", {"x"}, {"s"}, {I("axis", -1)});
  b.Node("Concat", {"x", "x"}, {"c"}, {I("axis", -3)});
  b.Node("Split", {"x"}, {"p", "q"}, {I("axis", -2)});
  b.Node("Gather", {"x", "i"}, {"g"}, {I("axis", -1)});
  b.Node("Flatten", {"x"}, {"f"}, {I("axis", -1)});
  return b;
}

} // namespace npuc::test
