#include "tools/common/console.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace npuc::cli {
namespace {

char arg0[] = "npuc", arg1[] = "a model.onnx";
char *args[] = {arg0, arg1, nullptr};

std::string Contents(const std::string &path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

TEST(Console, ExplicitColourWinsOverTheTerminal) {
  EXPECT_TRUE(UseColor(ColorMode::Always, stderr));
  EXPECT_FALSE(UseColor(ColorMode::Never, stderr));
  std::FILE *file = std::tmpfile();
  EXPECT_FALSE(UseColor(ColorMode::Auto, file)); // no terminal
  std::fclose(file);
}

TEST(Console, QuietDropsAllButErrors) {
  Console console("npuc");
  console.quiet = true;
  console.color = ColorMode::Never;
  testing::internal::CaptureStderr();
  console.Print({.severity = Severity::note, .code = {}, .file = {}, .node = {}, .op = {}, .message = "n", .help = {}});
  console.Print(
      {.severity = Severity::warning, .code = {}, .file = {}, .node = {}, .op = {}, .message = "w", .help = {}});
  console.Say("s");
  console.Print(
      {.severity = Severity::error, .code = "E0501", .file = {}, .node = {}, .op = {}, .message = "e", .help = {}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error[E0501]: e\n");
}

TEST(Console, AUsersErrorIsOneAnInternalErrorFourWithAReproducer) {
  setenv("NPUC_CRASH_DIR", testing::TempDir().c_str(), 1);
  InstallCrashHandlers("npuc", 2, args);
  Console console("npuc");
  console.color = ColorMode::Never;
  testing::internal::CaptureStderr();
  EXPECT_EQ(console.Fail(Error("E0101", "no such file", "look elsewhere"), "m.onnx"), kBadInput);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "m.onnx: error[E0101]: no such file\n  help: look elsewhere\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(console.Fail(AlreadyReported()), kBadInput);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(console.Fail(absl::InternalError("pass x broke")), kInternal);
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t at = said.find("reproducer: ");
  ASSERT_NE(at, std::string::npos) << said;
  const std::string text = Contents(said.substr(at + 12, said.find('\n', at) - at - 12));
  EXPECT_NE(text.find("npuc 'a model.onnx'"), std::string::npos) << text;
  EXPECT_NE(text.find("pass x broke"), std::string::npos) << text;
}

TEST(Console, UsageIsTwo) {
  Console console("npuc");
  console.color = ColorMode::Never;
  testing::internal::CaptureStderr();
  EXPECT_EQ(console.UsageError("no such flag"), kUsage);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "npuc: error: no such flag\n  help: npuc --help lists the flags\n");
}

TEST(CrashDeathTest, AFailedCheckExitsWithFour) {
  auto fail = [] {
    InstallCrashHandlers("npuc", 2, args);
    NPUC_CHECK(1 + 1 == 3, "sums are off");
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(kInternal), "sums are off(.|\n)*reproducer: .*npuc-crash-[0-9]+.txt");
}

TEST(CrashDeathTest, ASignalExitsWithFour) {
  auto fail = [] {
    InstallCrashHandlers("npuc", 2, args);
    raise(SIGSEGV);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(kInternal), "SIGSEGV(.|\n)*reproducer: ");
}

TEST(CrashDeathTest, NoMemoryIsTheInputsFault) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's operator new ends the program itself";
#endif
  auto fail = [] {
    InstallCrashHandlers("npuc", 2, args);
    volatile size_t much = size_t{1} << 60;
    auto *sink = new char[much];
    std::printf("%p", static_cast<void *>(sink)); // keeps the allocation
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(kBadInput), "E0902");
}

} // namespace
} // namespace npuc::cli
