// Work and bounds against arithmetic by hand, on edge-2t: px 4, oc 16, ic 16, dw_taps 2, rate f16 0.5, i8 1; output
// stage 32 a cycle for f16, 64 for i8; 12.8 DDR bytes a cycle.
#include "backend/report/work.h"

#include <gtest/gtest.h>

namespace npuc::report {
namespace {

class Work : public testing::Test {
protected:
  const Target target_ = *Target::FromPreset("edge-2t");

  // The work of the single node with an origin in a graph body.
  ModelWork Analyze(const std::string &graph, DType float_as = DType::F16) {
    auto m = ParseModule("module \"m\" {\nnodes { 0: Conv \"n\" }\n" + graph + "}\n");
    EXPECT_TRUE(m.ok()) << m.status();
    if (!m.ok())
      return {};
    module_ = *std::move(m);
    return AnalyzeWork(*module_, target_, {float_as});
  }
  Bounds All(const ModelWork &w, std::vector<int64_t> in = {}, std::vector<int64_t> out = {}) {
    return ComputeBounds(
        w, target_, [](OriginId) { return true; }, in, out);
  }
  std::unique_ptr<Module> module_;
};

TEST_F(Work, DenseConvolution) {
  const ModelWork w = Analyze(R"(graph (%x: f32[1,3,32,32]) {
    %w: f32[32,3,3,3] = Constant() {value = splat<0.5>}
    %y: f32[1,32,32,32] = Conv(%x, %w) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]} origin(0)
    return %y
  })");
  ASSERT_EQ(w.nodes.size(), 1u);
  EXPECT_EQ(w.nodes[0].macs, 32 * 32 * 32 * 27);
  const Bounds b = All(w);
  EXPECT_DOUBLE_EQ(b.array, 32 * 32 * 32 / 64.0 * (27 / 16.0) / 0.5);
  EXPECT_DOUBLE_EQ(b.ppu, 32 * 32 * 32 / 32.0);
  EXPECT_DOUBLE_EQ(b.weighted_macs, 2.0 * 32 * 32 * 32 * 27);
  EXPECT_EQ(b.ddr_compulsory_bytes, 0) << "a splat need not be read";
  // As 8-bit work: twice the rate.
  EXPECT_DOUBLE_EQ(All(AnalyzeWork(*module_, target_, {DType::I8})).array, b.array / 2);
}

TEST_F(Work, DepthwiseTakesTheDepthwiseMode) {
  const ModelWork w = Analyze(R"(graph (%x: f32[1,32,8,8]) {
    %w: f32[32,1,3,3] = Constant() {value = splat<0.5>}
    %y: f32[1,32,8,8] = Conv(%x, %w) {group = 32, kernel_shape = [3, 3], pads = [1, 1, 1, 1]} origin(0)
    return %y
  })");
  EXPECT_EQ(w.nodes[0].macs, 32 * 64 * 9);
  EXPECT_DOUBLE_EQ(All(w).array, 32 * 64 / 64.0 * (9 / 2.0) / 0.5); // 4.5 steps, not 9/16 * 16
}

TEST_F(Work, NarrowGroupsLeaveColumnsIdle) {
  // Four groups of 4 -> 4 channels: one group fills 4 of 16 columns.
  const ModelWork w = Analyze(R"(graph (%x: f32[1,16,8,8]) {
    %w: f32[16,4,3,3] = Constant() {value = splat<0.5>}
    %y: f32[1,16,8,8] = Conv(%x, %w) {group = 4, kernel_shape = [3, 3], pads = [1, 1, 1, 1]} origin(0)
    return %y
  })");
  EXPECT_EQ(w.nodes[0].macs, 16 * 64 * 36);
  EXPECT_DOUBLE_EQ(All(w).array, 16 * 64 / 64.0 * (36 / 16.0 * 4) / 0.5);
}

TEST_F(Work, TransposedConvolutionCountsProductsInsideTheOutput) {
  // One row, kernel 3, stride 2, pad 1 on 2 inputs: out width 2*(2-1)+3-2 = 3. Products: input 0 -> outputs -1, 0, 1;
  // input 1 -> 1, 2, 3. Inside [0,3): 4 of 6.
  const ModelWork w = Analyze(R"(graph (%x: f32[1,2,1,2]) {
    %w: f32[2,5,1,3] = Constant() {value = splat<0.5>}
    %y: f32[1,5,1,3] = ConvTranspose(%x, %w) {kernel_shape = [1, 3], pads = [0, 1, 0, 1], strides = [1, 2]} origin(0)
    return %y
  })");
  EXPECT_EQ(w.nodes[0].macs, 2 * 5 * 4);
  // Five of sixteen columns are in use.
  EXPECT_DOUBLE_EQ(All(w).array, 2 * 5 * 4 / (64.0 * 16) * (16 / 5.0) / 0.5);
}

TEST_F(Work, MatrixProducts) {
  ModelWork w = Analyze(R"(graph (%x: f32[2,7,48]) {
    %w: f32[48,20] = Constant() {value = splat<0.5>}
    %y: f32[2,7,20] = MatMul(%x, %w) origin(0)
    return %y
  })");
  EXPECT_EQ(w.nodes[0].macs, 2 * 7 * 20 * 48);
  EXPECT_DOUBLE_EQ(All(w).array, 2 * 7 * 20 * 48 / 1024.0 / 0.5);
  w = Analyze(R"(graph (%x: f32[48,3]) {
    %w: f32[20,48] = Constant() {value = splat<0.5>}
    %y: f32[3,20] = Gemm(%x, %w) {transA = 1, transB = 1} origin(0)
    return %y
  })");
  EXPECT_EQ(w.nodes[0].macs, 3 * 20 * 48);
}

TEST_F(Work, IntegersCountAsWhatTheyAre) {
  const ModelWork w = Analyze(R"(graph (%x: u8[1,16], %s: f32[], %z: u8[], %wz: i8[]) {
    %w: i8[16,4] = Constant() {value = base64<"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==">}
    %y: u8[1,4] = QLinearMatMul(%x, %s, %z, %w, %s, %wz, %s, %z) origin(0)
    return %y
  })");
  ASSERT_EQ(w.nodes.size(), 1u);
  EXPECT_EQ(w.nodes[0].dtype, DType::U8);
  EXPECT_EQ(w.nodes[0].macs, 64);
  const Bounds b = All(w, {16, 0, 0, 0}, {4});
  EXPECT_DOUBLE_EQ(b.array, 64 / 1024.0);
  EXPECT_DOUBLE_EQ(b.ppu, 4 / 64.0);
  EXPECT_EQ(b.ddr_compulsory_bytes, 64 + 16 + 4);
  EXPECT_DOUBLE_EQ(b.ddr, 84 / 12.8);
  EXPECT_DOUBLE_EQ(b.cycles, 84 / 12.8); // the greatest
}

TEST_F(Work, SharedWeightsAreReadOnceAndFloatsStoredAsHalf) {
  const ModelWork w = Analyze(R"(graph (%x: f32[1,4], %u: f32[1,4]) {
    %w: f32[4,4] = Constant() {value = dense<1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16>}
    %a: f32[1,4] = MatMul(%x, %w) origin(0)
    %b: f32[1,4] = MatMul(%u, %w) origin(0)
    return %a, %b
  })");
  ASSERT_EQ(w.nodes.size(), 2u);
  EXPECT_EQ(All(w).ddr_compulsory_bytes, 16 * 2);
}

TEST_F(Work, WhatRunsOnTheHostDoesNotCount) {
  const ModelWork w = Analyze(R"(graph (%x: f32[1,4]) {
    %w: f32[4,4] = Constant() {value = dense<1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16>}
    %a: f32[1,4] = MatMul(%x, %w) origin(0)
    return %a
  })");
  const Bounds b = ComputeBounds(w, target_, [](OriginId) { return false; }, {16}, {16});
  EXPECT_EQ(b.cycles, 0);
  EXPECT_EQ(b.macs, 0);
  EXPECT_EQ(b.ddr_compulsory_bytes, 0);
}

TEST_F(Work, InputsAndOutputsAreFoundBehindWhatPassesThemOn) {
  auto m = ParseModule(R"(module "m" {
    nodes { 0: Reshape "r" 1: MatMul "n" 2: Flatten "f" }
    graph (%x: f32[2,2]) {
      %s: i64[2] = Constant() {value = dense<1, 4>}
      %w: f32[4,4] = Constant() {value = splat<1.0>}
      %r: f32[1,4] = Reshape(%x, %s) origin(0)
      %a: f32[1,4] = MatMul(%r, %w) origin(1)
      %f: f32[1,4] = Flatten(%a) origin(2)
      return %f
    } })");
  ASSERT_TRUE(m.ok()) << m.status();
  const ModelWork w = AnalyzeWork(**m, target_, {});
  const Bounds b = ComputeBounds(w, target_, [](OriginId id) { return id == 1; }, {16}, {16});
  EXPECT_EQ(b.ddr_compulsory_bytes, 32);
}

TEST_F(Work, FreeShapesHaveNoWork) {
  EXPECT_TRUE(Analyze(R"(graph (%x: f32[N,4]) {
    %w: f32[4,4] = Constant() {value = splat<0.5>}
    %a: f32[N,4] = MatMul(%x, %w) origin(0)
    return %a
  })")
                  .nodes.empty());
}

} // namespace
} // namespace npuc::report
