#include "compiler/pass/pass_manager.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/target/target.h"
#include "test/temp_folder.h"

namespace npuc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kText = R"(module "m.onnx" { nodes { 0: Relu "r0" 1: Relu "r1" 2: Relu "r2" }
  graph (%x: f32[2]) {
    %a: f32[2] = Relu(%x) origin(0)
    %b: f32[2] = Relu(%a) origin(1)
    %c: f32[2] = Relu(%b) origin(2)
    return %c } })";

std::string ReadFile(const fs::path &p) {
  std::ifstream in(p);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

class PassManagerTest : public testing::Test {
protected:
  void SetUp() override {
    ::unsetenv("NPUC_VERIFY_EACH");
    options_.reproducer_dir = dir_.string();
    options_.print = [this](std::string_view t) { printed_ += t; };
    auto m = ParseModule(kText);
    ASSERT_TRUE(m.ok()) << m.status();
    module_ = std::move(*m);
    auto t = Target::FromPreset("edge-2t");
    ASSERT_TRUE(t.ok()) << t.status();
    target_ = std::move(*t);
  }

  Status Run(Pipeline p) {
    ctx_ = std::make_unique<PassContext>(target_, diagnostics_);
    ctx_->options = pass_options_;
    ctx_->rewrite_limit = rewrite_limit_;
    records_.clear();
    return RunPasses(*module_, p, *ctx_, options_, &records_);
  }
  Status Run(std::string_view passes) {
    auto p = ParsePipeline(passes);
    if (!p.ok())
      return p.status();
    return Run(*p);
  }
  size_t Relus() const {
    size_t n = 0;
    for (const Node &node : static_cast<const Module &>(*module_).main().nodes())
      n += node.Is("Relu");
    return n;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto &e : fs::directory_iterator(dir_))
      out.push_back(e.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

  TempFolder folder_;
  const fs::path &dir_ = folder_.path();
  std::unique_ptr<Module> module_;
  Target target_;
  DiagnosticEngine diagnostics_;
  PassOptions pass_options_;
  PassManagerOptions options_;
  std::unique_ptr<PassContext> ctx_;
  std::vector<PassRecord> records_;
  std::string printed_;
  int64_t rewrite_limit_ = INT64_MAX;
};

TEST_F(PassManagerTest, RunsInOrderAndRecords) {
  ASSERT_TRUE(Run("nothing,drop-relu,nothing").ok());
  EXPECT_EQ(Relus(), 2u);
  ASSERT_EQ(records_.size(), 3u);
  EXPECT_FALSE(records_[0].changed);
  EXPECT_TRUE(records_[1].changed);
  EXPECT_EQ(records_[1].pass, "drop-relu");
  EXPECT_EQ(ctx_->counters().at("relus dropped"), 1);
  ASSERT_EQ(ctx_->remarks().size(), 1u);
  EXPECT_EQ(ctx_->remarks()[0], (Remark{"drop-relu", "r0", "dropped"}));
}

TEST_F(PassManagerTest, StagesRepeatUntilNothingChanges) {
  ASSERT_TRUE(Run(Pipeline{{{"drop-relu", "nothing"}, 10}}).ok());
  EXPECT_EQ(Relus(), 0u);
  EXPECT_EQ(records_.size(), 8u); // three rounds with a change, one without
}

TEST_F(PassManagerTest, StagesStopAtMaxRounds) {
  ASSERT_TRUE(Run(Pipeline{{{"drop-relu"}, 2}, {{"nothing"}, 1}}).ok());
  EXPECT_EQ(Relus(), 1u);
  EXPECT_EQ(records_.size(), 3u);
}

TEST_F(PassManagerTest, LimitsAndSwitches) {
  options_.disabled = {"nothing"};
  options_.stop_after = "says-changed";
  ASSERT_TRUE(Run("nothing,drop-relu,says-changed,drop-relu").ok());
  EXPECT_EQ(Relus(), 2u);
  ASSERT_EQ(records_.size(), 2u);
  options_ = {};
  options_.pass_limit = 1;
  ASSERT_TRUE(Run("drop-relu,drop-relu").ok());
  EXPECT_EQ(Relus(), 1u);
  options_.pass_limit = INT64_MAX;
  rewrite_limit_ = 0;
  ASSERT_TRUE(Run("drop-relu").ok());
  EXPECT_EQ(Relus(), 1u);
}

TEST_F(PassManagerTest, UnknownNamesAreTheUsersError) {
  Status s = Run("drop-rlu");
  EXPECT_EQ(ErrorCode(s), "E0501");
  EXPECT_NE(FromStatus(s).help.find("'drop-relu'"), std::string::npos) << Render(FromStatus(s));
  options_.disabled = {"drop"};
  s = Run("nothing");
  EXPECT_EQ(ErrorCode(s), "E0501");
  EXPECT_NE(Message(s).find("--disable-pass: there is no pass 'drop'"), std::string::npos);
  EXPECT_EQ(ErrorCode(Run(Pipeline{{{"x"}, 1}})), "E0501");
}

TEST_F(PassManagerTest, PrintsDumpsAndTimes) {
  options_.print_after = {"drop-relu"};
  options_.dump_ir_dir = (dir_ / "dump").string();
  options_.time_passes = true;
  ASSERT_TRUE(Run("nothing,drop-relu").ok());
  EXPECT_NE(printed_.find("// IR after drop-relu\nmodule \"m.onnx\""), std::string::npos) << printed_;
  EXPECT_EQ(printed_.find("IR after nothing"), std::string::npos);
  EXPECT_NE(printed_.find("      1        1  drop-relu\n"), std::string::npos) << printed_;
  ASSERT_TRUE(fs::exists(dir_ / "dump/000.input.ir"));
  ASSERT_TRUE(fs::exists(dir_ / "dump/001.drop-relu.ir"));
  auto dumped = ParseModule(ReadFile(dir_ / "dump/001.drop-relu.ir"));
  ASSERT_TRUE(dumped.ok());
  EXPECT_EQ(Hash(**dumped), Hash(*module_));
}

TEST_F(PassManagerTest, BrokenIrNamesThePassAndReproduces) {
  options_.verify_each = true;
  options_.target_name = "edge-2t";
  pass_options_.opt_level = 3;
  pass_options_.deny_nodes = {"a b"};
  const uint64_t before = [&] {
    auto c = ParseModule(kText);
    return Hash(**c);
  }();
  const Status s = Run("nothing,breaks-order,drop-relu");
  EXPECT_EQ(ErrorCode(s), "E0901");
  EXPECT_NE(Message(s).find("pass breaks-order: left invalid IR"), std::string::npos) << s;
  ASSERT_EQ(Files().size(), 1u);
  const std::string text = ReadFile(dir_ / Files()[0]);
  EXPECT_NE(Message(s).find(Files()[0]), std::string::npos);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "// RUN: npu-opt --verify-each --passes=breaks-order --target=edge-2t -O3 --deny-node='a b' %s");
  auto again = ParseModule(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Hash(**again), before);
}

TEST_F(PassManagerTest, VerifiesOnlyWhenAskedButTheEnvironmentAsks) {
  EXPECT_TRUE(Run("breaks-order").ok());
  ::setenv("NPUC_VERIFY_EACH", "1", 1);
  EXPECT_FALSE(Run("nothing").ok()); // the input is broken by now
  ::unsetenv("NPUC_VERIFY_EACH");
}

TEST_F(PassManagerTest, HashCatchesAFalseUnchanged) {
  options_.check_changed = true;
  const Status s = Run("drop-relu,says-changed,lies");
  EXPECT_NE(Message(s).find("pass lies: changed the IR and says that it did not"), std::string::npos) << s;
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(PassManagerTest, UserErrorsPassThroughBugsAreNamed) {
  Status s = Run("users-fault");
  EXPECT_EQ(ErrorCode(s), "E0401");
  EXPECT_EQ(FromStatus(s).node, "r0");
  EXPECT_TRUE(Files().empty());
  s = Run("internal-fault");
  EXPECT_EQ(ErrorCode(s), "E0901");
  EXPECT_NE(Message(s).find("pass internal-fault: lost the thread"), std::string::npos) << s;
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(PassManagerTest, EvalEachSeesBeforeAndAfter) {
  std::vector<std::string> seen;
  options_.eval_each = [&](std::string_view pass, const Module &before, const Module &after) -> Status {
    seen.push_back(fmt::format("{} {} {}", pass, before.main().nodes().size(), after.main().nodes().size()));
    return seen.size() == 2 ? absl::InternalError("outputs differ by 0.5") : OkStatus();
  };
  const Status s = Run("drop-relu,nothing,drop-relu,drop-relu");
  EXPECT_EQ(seen, (std::vector<std::string>{"drop-relu 4 3", "drop-relu 3 2"}));
  EXPECT_NE(Message(s).find("pass drop-relu: outputs differ by 0.5"), std::string::npos) << s;
}

using PassManagerDeathTest = PassManagerTest;

TEST_F(PassManagerDeathTest, AFailingCheckLeavesAReproducer) {
  EXPECT_DEATH((void)Run("nothing,crashes"),
               "1 inputs\nwhile at:\npass crashes\nnode 'r0'\n+IR before the pass: .*npuc-crashes");
  ASSERT_EQ(Files().size(), 1u); // the child wrote it
  const std::string text = ReadFile(dir_ / Files()[0]);
  EXPECT_NE(text.find("--passes=crashes %s"), std::string::npos) << text;
  EXPECT_TRUE(ParseModule(text).ok());
}

// ---- Operator selectors

TEST(OpSelector, Matches) {
  auto m = ParseModule(R"(graph (%x: f32[1,3,8,8], %w: f32[6,1,1,1]) {
      %c: f32[1,6,8,8] = Conv(%x, %w) {group = 3, strides = [1, 1]}
      %t: f32[8,8,6,1] = Transpose(%c) {perm = [2, 3, 1, 0]}
      return %t })");
  ASSERT_TRUE(m.ok()) << m.status();
  const Node &t = *(*m)->main().output(0)->def();
  const Node &c = *t.operand(0)->def();
  auto matches = [](std::string_view text, const Node &n) {
    auto s = ParseOpSelector(text);
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() && s->Matches(n);
  };
  EXPECT_TRUE(matches("Conv", c));
  EXPECT_FALSE(matches("Conv", t));
  EXPECT_TRUE(matches("ai.onnx::Conv", c));
  EXPECT_TRUE(matches("Conv(group>1)", c));
  EXPECT_FALSE(matches("Conv(group>3)", c));
  EXPECT_TRUE(matches("Conv( group >= 3 , dtype = float, rank=4 )", c));
  EXPECT_FALSE(matches("Conv(group=3, dtype=f16)", c));
  EXPECT_TRUE(matches("Conv(strides=[1, 1])", c));
  EXPECT_TRUE(matches("Conv(strides!=[2,2])", c));
  EXPECT_TRUE(matches("Conv(auto_pad!=SAME_UPPER)", c));
  EXPECT_FALSE(matches("Conv(auto_pad=SAME_UPPER)", c));
  EXPECT_TRUE(matches("Transpose(bytes>=1.5KiB)", t)); // 384 elements of 4 bytes = 1536
  EXPECT_FALSE(matches("Transpose(bytes>1536)", t));
  EXPECT_TRUE(matches("Transpose(bytes<2KB)", t));
}

TEST(OpSelector, Errors) {
  for (const char *text : {"", "Conf", "Conv(", "Conv(group)", "Conv(group>)", "Conv(group>many)", "Conv(>1)",
                           "Conv(grp=1)", "Conv(bytes=1XB)", "x::Conv", "Conv)", "Conv(group=1) "}) {
    auto s = ParseOpSelector(text);
    if (std::string_view(text) == "Conv(group=1) ") {
      EXPECT_TRUE(s.ok()) << s.status();
      continue;
    }
    EXPECT_EQ(ErrorCode(s.status()), "E0501") << text;
    EXPECT_FALSE(FromStatus(s.status()).help.empty());
  }
}

TEST(PassOptions, FlagsForAReproducer) {
  PassOptions o;
  EXPECT_EQ(o.ToFlags(), "");
  o.precision = Precision::Fp16;
  o.deny_ops = {*ParseOpSelector("Conv(group>1)")};
  o.deny_nodes = {"it's"};
  o.tiles["n"] = {8, 16};
  o.native_io = true;
  EXPECT_EQ(o.ToFlags(),
            " --precision=fp16 --deny-op='Conv(group>1)' --deny-node='it'\\''s' --tile=n=8x16 --io=native");
  EXPECT_EQ(ParsePrecision("int16"), Precision::Int16);
  EXPECT_EQ(ParsePrecision("fp8"), std::nullopt);
}

} // namespace
} // namespace npuc
