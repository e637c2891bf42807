#include "compiler/support/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace npuc {
namespace {

Status Fails() {
  return absl::NotFoundError("nothing here");
}
StatusOr<int> Half(int x) {
  if (x % 2)
    return absl::InvalidArgumentError(fmt::format("{} is odd", x));
  return x / 2;
}

StatusOr<int> Quarter(int x) {
  NPUC_ASSIGN_OR_RETURN(int half, Half(x));
  NPUC_ASSIGN_OR_RETURN(half, Half(half));
  return half;
}

TEST(Status, AssignOrReturnPassesValuesAndErrors) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Message(Quarter(6).status()), "3 is odd");
  EXPECT_EQ(Message(Quarter(5).status()), "5 is odd");
}

TEST(Status, AssignOrReturnMovesAndTakesCommas) {
  auto f = []() -> StatusOr<int> {
    NPUC_ASSIGN_OR_RETURN(auto p,
                          StatusOr<std::unique_ptr<std::pair<int, int>>>(std::make_unique<std::pair<int, int>>(4, 5)));
    return p->second;
  };
  EXPECT_EQ(*f(), 5);
}

TEST(Status, ReturnIfErrorTakesStatusAndStatusOr) {
  auto f = [](bool bad, int x) -> Status {
    if (bad)
      NPUC_RETURN_IF_ERROR(Fails());
    NPUC_RETURN_IF_ERROR(Half(x));
    return OkStatus();
  };
  EXPECT_TRUE(f(false, 2).ok());
  EXPECT_EQ(Message(f(true, 2)), "nothing here");
  EXPECT_EQ(Message(f(false, 3)), "3 is odd");
}

TEST(CheckDeathTest, PrintsPlaceConditionMessageAndContext) {
  EXPECT_DEATH(
      {
        CheckScope outer("pass fuse");
        CheckScope inner("node 'a'");
        NPUC_CHECK(1 + 1 == 3, "sum is {}", 2);
      },
      "test/support/status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3: sum is 2\n"
      "while at:\npass fuse\nnode 'a'");
}

TEST(CheckDeathTest, HandlerDecidesHowToExit) {
  EXPECT_EXIT(
      {
        SetCheckHandler([](std::string_view m) {
          std::fprintf(stderr, "handled %.*s", int(m.size()), m.data());
          std::exit(4);
        });
        NPUC_CHECK(false);
      },
      testing::ExitedWithCode(4), "handled .*check failed: false");
}

TEST(Check, HoldsQuietlyAndContextsNest) {
  EXPECT_EQ(CheckScopeText(), "");
  CheckScope a("a");
  {
    CheckScope b("b");
    EXPECT_EQ(CheckScopeText(), "a\nb\n");
  }
  NPUC_CHECK(true, "never {}", 1);
  EXPECT_EQ(CheckScopeText(), "a\n");
}

} // namespace
} // namespace npuc
