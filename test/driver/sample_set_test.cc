// What --calib means: which files make which samples.
#include "compiler/driver/sample_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/driver/calibration.h"
#include "compiler/support/npy.h"
#include "test/temp_folder.h"

namespace npuc {
namespace fs = std::filesystem;
namespace {

class SampleSetTest : public testing::Test {
protected:
  // A .npy of f32, counting up from `first`.
  std::string Npy(const std::string &name, std::vector<int64_t> dims, float first) {
    int64_t n = 1;
    for (int64_t d : dims)
      n *= d;
    std::vector<float> v;
    for (int64_t i = 0; i < n; ++i)
      v.push_back(first + static_cast<float>(i));
    const fs::path path = dir_ / name;
    fs::create_directories(path.parent_path());
    EXPECT_TRUE(WriteNpy(path.string(), "<f4", dims, {reinterpret_cast<const uint8_t *>(v.data()), v.size() * 4}).ok());
    return path.string();
  }
  static SampleSet::Input In(const std::string &name, std::initializer_list<int64_t> dims) {
    return {name, Type::Tensor(DType::F32, Shape(dims))};
  }
  static std::vector<float> Value(const SampleSet &set, int64_t sample, int input = 0) {
    auto v = set.Read(sample);
    EXPECT_TRUE(v.ok()) << v.status();
    return v.ok() ? (*v)[input].tensor()->values<float>().vec() : std::vector<float>();
  }
  std::string P(const std::string &name) { return (dir_ / name).string(); }
  TempFolder folder_;
  const fs::path &dir_ = folder_.path();
};

TEST_F(SampleSetTest, AFolderInTheOrderOfNames) {
  Npy("s/b.npy", {1, 2}, 10);
  Npy("s/a.npy", {1, 2}, 20);
  Npy("s/.hidden.npy", {1, 2}, 30);
  std::ofstream(P("s/README.txt")) << "no sample";
  auto set = SampleSet::Open({P("s")}, {In("x", {1, 2})}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(Value(*set, 0), (std::vector<float>{20, 21}));
  EXPECT_EQ(Value(*set, 1), (std::vector<float>{10, 11}));
  EXPECT_EQ(set->name(0), P("s/a.npy"));
  EXPECT_EQ(set->base_name(0), "a.npy");
}

TEST_F(SampleSetTest, OneFileHoldsManySamples) {
  // More rows than the input has, and one axis more than the input has.
  auto rows = SampleSet::Open({Npy("rows.npy", {6, 2}, 0)}, {In("x", {1, 2})}, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 6);
  EXPECT_EQ(Value(*rows, 4), (std::vector<float>{8, 9}));
  EXPECT_EQ((*rows->Read(4))[0].tensor()->dims().vec(), (std::vector<int64_t>{1, 2}));
  auto pairs = SampleSet::Open({P("rows.npy")}, {In("x", {2, 2})}, {});
  ASSERT_TRUE(pairs.ok());
  EXPECT_EQ(pairs->size(), 3);
  EXPECT_EQ(Value(*pairs, 1), (std::vector<float>{4, 5, 6, 7}));
  auto stack = SampleSet::Open({P("rows.npy")}, {In("x", {2})}, {});
  ASSERT_TRUE(stack.ok());
  EXPECT_EQ(stack->size(), 6);
  EXPECT_EQ((*stack->Read(5))[0].tensor()->dims().vec(), (std::vector<int64_t>{2}));
  EXPECT_EQ(stack->base_name(5), "rows.npy[5]");
  // A whole sample of its own.
  auto whole = SampleSet::Open({P("rows.npy")}, {In("x", {6, 2})}, {});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->size(), 1);
}

TEST_F(SampleSetTest, InputsPairUpInOrder) {
  for (int i = 0; i < 3; ++i) {
    Npy(fmt::format("a/{}.npy", i), {1, 1}, static_cast<float>(i));
    Npy(fmt::format("b/{}.npy", i), {1, 1}, static_cast<float>(10 * i));
  }
  const std::vector<SampleSet::Input> inputs = {In("a", {1, 1}), In("b", {1, 1})};
  auto set = SampleSet::Open({"b=" + P("b"), "a=" + P("a")}, inputs, {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 3);
  EXPECT_EQ(Value(*set, 2, 0), std::vector<float>{2});
  EXPECT_EQ(Value(*set, 2, 1), std::vector<float>{20});
  // One file goes with all; folders of different sizes do not.
  auto shared = SampleSet::Open({"a=" + P("a"), "b=" + P("b/1.npy")}, inputs, {});
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(Value(*shared, 2, 1), std::vector<float>{10});
  fs::remove(P("b/2.npy"));
  auto uneven = SampleSet::Open({"a=" + P("a"), "b=" + P("b")}, inputs, {});
  EXPECT_EQ(ErrorCode(uneven.status()), "E0510");
  EXPECT_NE(Message(uneven.status()).find("2 samples for input 'b' and 3 for 'a'"), std::string_view::npos);
}

TEST_F(SampleSetTest, WhatIsMissingIsNamed) {
  Npy("a/0.npy", {1, 1}, 0);
  fs::create_directories(P("empty"));
  fs::create_directories(P("text"));
  std::ofstream(P("text/a.txt")) << "x";
  const std::vector<SampleSet::Input> one = {In("x", {1, 1})}, two = {In("a", {1, 1}), In("b", {1, 1})};
  auto code = [](const std::vector<std::string> &calib, const std::vector<SampleSet::Input> &inputs) {
    return ErrorCode(SampleSet::Open(calib, inputs, {}).status());
  };
  EXPECT_EQ(code({P("empty")}, one), "E0509");
  EXPECT_EQ(code({P("text")}, one), "E0509");
  EXPECT_EQ(code({P("absent")}, one), "E0101");
  EXPECT_EQ(code({"y=" + P("a")}, one), "E0701");
  EXPECT_EQ(code({"a=" + P("a")}, two), "E0701");
  EXPECT_EQ(code({P("a")}, two), "E0701") << "which input is it for?";
}

TEST_F(SampleSetTest, NamesWithoutTheirFolder) {
  Npy("one/a.npy", {1, 1}, 0);
  Npy("two/a.npy", {1, 1}, 0);
  Npy("three/b.npy", {1, 1}, 0);
  auto hash = [&](const std::string &folder) {
    auto set = SampleSet::Open({P(folder)}, {In("x", {1, 1})}, {});
    EXPECT_TRUE(set.ok());
    return set->NamesHash();
  };
  EXPECT_EQ(hash("one"), hash("two"));
  EXPECT_NE(hash("one"), hash("three"));
}

TEST(ParseShard, Texts) {
  auto s = ParseShard("2/8");
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->index, 2);
  EXPECT_EQ(s->count, 8);
  for (const char *bad : {"0/4", "5/4", "2", "2/", "/3", "a/b", "1/2x", "-1/2", ""})
    EXPECT_EQ(ErrorCode(ParseShard(bad).status()), "E0501") << bad;
}

} // namespace
} // namespace npuc
