// Running samples through a graph, and the file that keeps what was seen.
#include "compiler/calibration/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "compiler/calibration/statistics_file.h"
#include "compiler/ops/infer.h"
#include "compiler/support/thread_pool.h"

namespace npuc {
namespace {

// x [1,2,3,3] -> Conv 3x3 -> Relu -> y, all weights 1.
struct Network {
  Network() {
    Graph &g = module.main();
    Value *x = g.AddInput("x", Type::Tensor(DType::F32, Shape({1, 2, 3, 3})));
    const float one = 1;
    Value *w = g.AddConstant(Tensor::Splat(DType::F32, {1, 2, 3, 3}, &one), "w");
    const std::string conv = "conv", y = "y";
    Node *c = g.AddNode(LookupOp("", "Conv"), {x, w}, 1, {}, nullptr, {conv});
    Node *r = g.AddNode(LookupOp("", "Relu"), {c->result()}, 1, {}, nullptr, {y});
    g.AddOutput(r->result());
    EXPECT_TRUE(InferShapes(g).ok());
  }
  Module module;
};

// Sample k: every element k - 3, but for those replaced.
struct Numbers final : SampleSource {
  explicit Numbers(int64_t n) : n(n) {}
  int64_t size() const override { return n; }
  std::string name(int64_t sample) const override { return fmt::format("{:02}.npy", sample); }
  StatusOr<std::vector<EvalValue>> Read(int64_t sample) const override {
    if (unreadable.count(sample))
      return Error("E0104", "this is no picture");
    Tensor t = Tensor::Allocate(DType::F32, wrong.count(sample) ? Dims{1, 2, 3, 4} : Dims{1, 2, 3, 3});
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.mutable_data<float>()[i] = static_cast<float>(sample - 3);
    if (nan.count(sample))
      t.mutable_data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
    return std::vector<EvalValue>{t};
  }
  int64_t n;
  std::set<int64_t> unreadable, wrong, nan;
};

std::vector<int64_t> All(int64_t n) {
  std::vector<int64_t> which;
  for (int64_t i = 0; i < n; ++i)
    which.push_back(i);
  return which;
}

TEST(Calibrate, SeesEveryFloatValue) {
  Network net;
  DiagnosticEngine diagnostics;
  auto c = Calibrate(net.module.main(), Numbers(6), All(6), nullptr, diagnostics);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->table.tensors().size(), 3u);
  const TensorStatistics *x = c->table.Find("x"), *conv = c->table.Find("conv"), *y = c->table.Find("y");
  ASSERT_TRUE(x && conv && y);
  EXPECT_EQ(x->count, 6 * 18);
  EXPECT_EQ(x->min, -3);
  EXPECT_EQ(x->max, 2);
  // Sums of 18 elements: -54, -36, -18, 0, 18, 36.
  EXPECT_EQ(conv->count, 6);
  EXPECT_EQ(conv->min, -54);
  EXPECT_EQ(conv->max, 36);
  EXPECT_EQ(conv->channels.Mean(0), -9);
  EXPECT_EQ(y->min, 0);
  EXPECT_EQ(y->zero_count, 4);
  EXPECT_EQ(y->samples.size(), 6u);
  EXPECT_EQ(diagnostics.WarningCount(), 0u);
}

TEST(Calibrate, AnyNumberOfThreadsGivesTheSame) {
  Network net;
  DiagnosticEngine diagnostics;
  auto one = Calibrate(net.module.main(), Numbers(23), All(23), nullptr, diagnostics);
  ThreadPool threads(5);
  auto five = Calibrate(net.module.main(), Numbers(23), All(23), &threads, diagnostics);
  ASSERT_TRUE(one.ok() && five.ok());
  EXPECT_TRUE(one->table == five->table);
  EXPECT_EQ(one->hashes, five->hashes);
}

TEST(Calibrate, BadSamplesAreNamedAllOfThem) {
  Network net;
  Numbers samples(9);
  samples.unreadable = {1};
  samples.wrong = {4};
  samples.nan = {7};
  DiagnosticEngine diagnostics;
  ThreadPool threads(3);
  auto c = Calibrate(net.module.main(), samples, All(9), &threads, diagnostics);
  ASSERT_FALSE(c.ok());
  EXPECT_TRUE(IsAlreadyReported(c.status()));
  const std::vector<Diagnostic> all = diagnostics.All();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].file + " " + all[0].code, "01.npy E0104");
  EXPECT_EQ(all[1].file + " " + all[1].code, "04.npy E0702");
  EXPECT_EQ(all[2].file + " " + all[2].code, "07.npy E0510");
  EXPECT_NE(all[2].message.find("'x' has 1 NaN and 0 infinite elements of 18"), std::string::npos) << all[2].message;
}

TEST(Calibrate, ActivationsThatAreNotFiniteAreAWarning) {
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", Type::Tensor(DType::F32, Shape({1, 2, 3, 3})));
  const std::string y = "y";
  g.AddOutput(g.AddNode(LookupOp("", "Sqrt"), {x}, 1, {}, nullptr, {y})->result());
  ASSERT_TRUE(InferShapes(g).ok());
  DiagnosticEngine diagnostics;
  auto c = Calibrate(g, Numbers(5), All(5), nullptr, diagnostics); // -3, -2, -1, 0, 1
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->table.Find("y")->nan_count, 3 * 18);
  EXPECT_EQ(c->table.Find("y")->count, 2 * 18);
  EXPECT_EQ(c->table.Find("y")->max, 1);
  ASSERT_EQ(diagnostics.WarningCount(), 1u);
  EXPECT_NE(diagnostics.All()[0].message.find("'y' had 54 NaN"), std::string::npos);
}

TEST(Calibrate, BoundsOfClipThatAreOperands) {
  // Both bounds as constants, and a greatest alone: ranges are those of what comes out.
  Module m;
  Graph &g = m.main();
  Value *x = g.AddInput("x", Type::Tensor(DType::F32, Shape({1, 2, 3, 3})));
  Value *lo = g.AddConstant(Tensor::ScalarF32(-0.5f), "lo"), *hi = g.AddConstant(Tensor::ScalarF32(1.5f), "hi");
  const std::string both = "both", one = "one";
  g.AddOutput(g.AddNode(LookupOp("", "Clip"), {x, lo, hi}, 1, {}, nullptr, {both})->result());
  g.AddOutput(g.AddNode(LookupOp("", "Clip"), {x, nullptr, hi}, 1, {}, nullptr, {one})->result());
  ASSERT_TRUE(InferShapes(g).ok());
  DiagnosticEngine diagnostics;
  auto c = Calibrate(g, Numbers(6), All(6), nullptr, diagnostics); // -3 ... 2
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->table.Find("both")->min, -0.5f);
  EXPECT_EQ(c->table.Find("both")->max, 1.5f);
  EXPECT_EQ(c->table.Find("one")->min, -3);
  EXPECT_EQ(c->table.Find("one")->max, 1.5f);
  EXPECT_EQ(c->table.Find("hi"), nullptr) << "constants need no statistics";
}

TEST(ChannelAxis, FollowsTheOperators) {
  Module m;
  Graph &g = m.main();
  auto value = [&](std::initializer_list<int64_t> dims) {
    return g.AddInput("", Type::Tensor(DType::F32, Shape(dims)));
  };
  EXPECT_EQ(ChannelAxis(*value({1, 3, 8, 8})), 1);
  EXPECT_EQ(ChannelAxis(*value({1, 10})), 1);
  EXPECT_EQ(ChannelAxis(*value({1, 7, 64})), 2);
  EXPECT_EQ(ChannelAxis(*value({5})), -1);
  Value *tokens = value({1, 4, 7, 64}), *w = value({64, 64}), *audio = value({1, 8, 100}), *kernel = value({8, 8, 3});
  g.AddNode(LookupOp("", "MatMul"), {tokens, w}, 1, {});
  g.AddNode(LookupOp("", "Conv"), {audio, kernel}, 1, {});
  EXPECT_EQ(ChannelAxis(*tokens), 3);
  EXPECT_EQ(ChannelAxis(*audio), 1);
}

StatisticsFile Shard(const std::vector<int64_t> &which) {
  Network net;
  DiagnosticEngine diagnostics;
  const Numbers samples(10);
  auto c = Calibrate(net.module.main(), samples, which, nullptr, diagnostics);
  EXPECT_TRUE(c.ok());
  StatisticsFile f;
  f.model = "net.onnx";
  f.model_sha256 = std::string(64, 'a');
  f.graph_hash = 0x123456789abcdef0;
  f.set_hash = 42;
  f.set_size = 10;
  for (size_t i = 0; i < which.size(); ++i)
    f.samples.push_back({which[i], samples.name(which[i]), c->hashes[i]});
  f.table = std::move(c->table);
  return f;
}

TEST(StatisticsFile, ReadsBack) {
  const StatisticsFile f = Shard(All(10));
  const std::string bytes = StatisticsBytes(f);
  auto back = ParseStatistics(bytes, "f.npqs");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == f);
  EXPECT_EQ(StatisticsBytes(*back), bytes);
  EXPECT_TRUE(back->complete());
}

TEST(StatisticsFile, DamageIsNoticed) {
  const std::string bytes = StatisticsBytes(Shard(All(10)));
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_EQ(ErrorCode(ParseStatistics(bad, "f").status()), "E0103") << "byte " << i;
  }
  for (size_t n : {size_t{0}, size_t{7}, size_t{20}, bytes.size() - 1})
    EXPECT_EQ(ErrorCode(ParseStatistics(std::string_view(bytes).substr(0, n), "f").status()), "E0103");
}

TEST(StatisticsFile, MergedShardsAreOneRun) {
  const std::vector<std::string> names = {"a", "b", "c"};
  auto merged = MergeStatistics({Shard({2, 5, 8}), Shard({0, 3, 6, 9}), Shard({1, 4, 7})}, names);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(StatisticsBytes(*merged), StatisticsBytes(Shard(All(10))));
  auto part = MergeStatistics({Shard({2, 5, 8}), Shard({1, 4, 7})}, std::span(names).first(2));
  ASSERT_TRUE(part.ok());
  EXPECT_FALSE(part->complete());
  EXPECT_EQ(StatisticsBytes(*part), StatisticsBytes(Shard({1, 2, 4, 5, 7, 8})));
}

TEST(StatisticsFile, WhatDoesNotBelongTogetherIsRefused) {
  const std::vector<std::string> names = {"a.npqs", "b.npqs"};
  auto with = [&](auto change) {
    StatisticsFile b = Shard({1, 3});
    change(b);
    return MergeStatistics({Shard({0, 2}), std::move(b)}, names).status();
  };
  EXPECT_TRUE(with([](StatisticsFile &) {}).ok());
  EXPECT_EQ(ErrorCode(with([](StatisticsFile &f) { f.model_sha256[0] = 'b'; })), "E0511");
  EXPECT_EQ(ErrorCode(with([](StatisticsFile &f) { f.graph_hash = 1; })), "E0511");
  EXPECT_EQ(ErrorCode(with([](StatisticsFile &f) { f.set_hash = 1; })), "E0511");
  EXPECT_EQ(ErrorCode(with([](StatisticsFile &f) { f.set_size = 11; })), "E0511");
  const Status twice = with([](StatisticsFile &f) { f.samples[0].index = 2; });
  EXPECT_EQ(ErrorCode(twice), "E0511");
  EXPECT_NE(Message(twice).find("is in a.npqs too"), std::string_view::npos) << twice;
}

} // namespace
} // namespace npuc
