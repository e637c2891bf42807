#include "compiler/pass/eval_compare.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/support/diagnostic.h"

namespace npuc {
namespace {

std::unique_ptr<Module> Parse(std::string_view text) {
  auto m = ParseModule(text);
  EXPECT_TRUE(m.ok()) << m.status();
  return m.ok() ? std::move(*m) : nullptr;
}

Status Compare(std::string_view a, std::string_view b, EvalCompareOptions options = {}) {
  return CompareByEvaluation(*Parse(a), *Parse(b), options);
}

TEST(EvalCompare, AgreesOnEqualFunctions) {
  EXPECT_TRUE(Compare("graph (%x: f32[2,n]) { %y: f32[2,n] = Relu(%x) return %y }",
                      "graph (%x: f32[2,n]) { %a: f32[2,n] = Relu(%x) %b: f32[2,n] = Relu(%a) return %b as \"y\" }")
                  .ok());
}

TEST(EvalCompare, NamesOutputElementAndValues) {
  const Status s = Compare("graph (%x: f32[64]) { %y: f32[64] = Relu(%x) return %y as \"out\" }",
                           "graph (%x: f32[64]) { %y: f32[64] = Neg(%x) return %y as \"out\" }");
  EXPECT_NE(Message(s).find("output 'out' differs at element "), std::string::npos) << s;
}

TEST(EvalCompare, ToleranceIsOfTheGreatestValue) {
  const char *a =
      "graph (%x: f32[64]) { %k: f32[] = Constant() {value = dense<1>} %y: f32[64] = Mul(%x, %k) return %y }";
  const char *b =
      "graph (%x: f32[64]) { %k: f32[] = Constant() {value = dense<1.0005>} %y: f32[64] = Mul(%x, %k) return %y }";
  EXPECT_TRUE(Compare(a, b).ok()) << Compare(a, b);
  EvalCompareOptions strict;
  strict.rtol = strict.atol = 1e-5;
  EXPECT_FALSE(Compare(a, b, strict).ok());
}

TEST(EvalCompare, LeavesAloneWhatItCannotJudge) {
  // Other inputs; inputs that are no tensors.
  EXPECT_TRUE(Compare("graph (%x: f32[2]) { %y: f32[2] = Relu(%x) return %y }",
                      "graph (%x: f16[2]) { %y: f16[2] = Neg(%x) return %y }")
                  .ok());
  EXPECT_TRUE(Compare("graph (%x: string[2]) { return %x }", "graph (%x: string[2]) { return %x }").ok());
}

TEST(EvalCompare, RandomInputsAreInRangeAndRepeat) {
  auto m = Parse("graph (%a: f32[1000], %b: i64[1000], %c: u8[1000]{s=1,z=0}, %d: bool[100], %e: f16[n,3], %f: "
                 "i4[100]) { return }");
  const auto in = RandomInputs(m->main(), {});
  ASSERT_TRUE(in.has_value());
  std::set<int64_t> ints, bytes, bools, nibbles;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE((*in)[0].AsDouble(i), -1.0);
    EXPECT_LT((*in)[0].AsDouble(i), 1.0);
    ints.insert((*in)[1].AsInt(i));
    bytes.insert((*in)[2].AsInt(i));
    if (i < 100)
      bools.insert((*in)[3].AsInt(i));
    if (i < 100)
      nibbles.insert((*in)[5].AsInt(i));
  }
  EXPECT_EQ(ints, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_GT(bytes.size(), 200u);
  EXPECT_EQ(bools, (std::set<int64_t>{0, 1}));
  EXPECT_EQ(*nibbles.rbegin(), 7);
  EXPECT_EQ((*in)[4].dims(), llvm::ArrayRef<int64_t>({2, 3}));
  const auto again = RandomInputs(m->main(), {});
  for (size_t i = 0; i < in->size(); ++i)
    EXPECT_TRUE((*in)[i].SameBits((*again)[i]));
}

} // namespace
} // namespace npuc
