#include "compiler/support/diagnostic.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace npuc {
namespace {

TEST(Diagnostic, RendersAsTheContractShows) {
  Diagnostic d{Severity::error,  "E0203", "model.onnx",
               "layer3/conv",    "Conv",  "dilations [4,4] are above the NPU's limit [2,2]",
               "choose a target"};
  EXPECT_EQ(Render(d), "model.onnx: error[E0203]: node 'layer3/conv' (Conv): dilations [4,4] are above the "
                       "NPU's limit [2,2]\n  help: choose a target");
}

TEST(Diagnostic, RendersWithoutTheOptionalParts) {
  EXPECT_EQ(Render({Severity::warning, "", "", "", "", "two lines\nhere", ""}), "warning: two lines\n    here");
  EXPECT_EQ(Render({Severity::note, "", "a.yaml:3:7", "n", "", "m", ""}), "a.yaml:3:7: note: node 'n': m");
}

TEST(Diagnostic, ColourOnlyAddsEscapes) {
  Diagnostic d{Severity::error, "E0101", "f", "n", "Conv", "m", "h"};
  std::string coloured = Render(d, true), plain;
  EXPECT_NE(coloured.find("\x1b[1;31merror[E0101]:\x1b[0m"), std::string::npos);
  for (size_t i = 0; i < coloured.size(); ++i) {
    if (coloured[i] == '\x1b')
      i = coloured.find('m', i);
    else
      plain += coloured[i];
  }
  EXPECT_EQ(plain, Render(d));
}

TEST(Diagnostic, StatusCarriesEverything) {
  Status s = Error("E0301", "shapes differ", "reshape");
  s = AtNode(s, "inner", "Add");
  s = AtNode(s, "outer", "If"); // the innermost node stays
  s = AtFile(s, "m.onnx");
  s = Prefix(s, "then_branch");
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  Diagnostic want{Severity::error, "E0301", "m.onnx", "inner", "Add", "then_branch: shapes differ", "reshape"};
  EXPECT_EQ(FromStatus(s), want);
  EXPECT_EQ(ErrorCode(s), "E0301");
}

TEST(Diagnostic, OkStaysOkAndForeignStatusIsInternal) {
  EXPECT_TRUE(AtFile(AtNode(OkStatus(), "a", "b"), "c").ok());
  EXPECT_TRUE(Prefix(OkStatus(), "p").ok());
  EXPECT_EQ(ErrorCode(OkStatus()), "");
  EXPECT_EQ(FromStatus(absl::InternalError("x")).code, "E0901");
}

TEST(DiagnosticEngine, ListsInOrderWhateverThreadReports) {
  DiagnosticEngine engine;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = t; i < 400; i += 4)
        engine.ReportStatus(Error("E0301", std::to_string(i)), "f", i);
    });
  for (std::thread &t : threads)
    t.join();
  std::vector<Diagnostic> all = engine.All();
  ASSERT_EQ(all.size(), 400u);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(all[i].message, std::to_string(i));
    EXPECT_EQ(all[i].file, "f");
  }
  EXPECT_EQ(engine.ErrorCount(), 400u);
}

TEST(DiagnosticEngine, CountsAndStatus) {
  DiagnosticEngine engine;
  engine.Warning("w", "h");
  engine.Note("n");
  engine.ReportStatus(OkStatus());
  engine.ReportStatus(AlreadyReported());
  EXPECT_EQ(engine.ErrorCount(), 0u);
  EXPECT_EQ(engine.WarningCount(), 1u);
  EXPECT_TRUE(engine.ToStatus().ok());
  engine.ReportStatus(Error("E0101", "gone"), "x.npy");
  EXPECT_TRUE(IsAlreadyReported(engine.ToStatus()));
  EXPECT_EQ(engine.RenderAll(), "warning: w\n  help: h\nnote: n\nx.npy: error[E0101]: gone\n");
  engine.Clear();
  EXPECT_TRUE(engine.All().empty());
}

TEST(DiagnosticDeathTest, UnknownCodeIsACompilerBug) {
  EXPECT_DEATH((void)Error("E9999", "m"), "E9999 is not in errors.def");
}

TEST(Errors, CodesAreUniqueSortedAndEachHasAPage) {
  std::set<std::string> pages;
  const std::filesystem::path folder = NPUC_SOURCE_DIR "/docs/errors";
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename() != "README.md")
      pages.insert(entry.path().stem().string());
  std::string last;
  for (const ErrorInfo &e : AllErrors()) {
    EXPECT_LT(last, e.code);
    last = e.code;
    EXPECT_EQ(pages.erase(last), 1u) << "docs/errors/" << e.code << ".md is missing";
    std::ifstream in(folder / (last + ".md"));
    std::string first;
    std::getline(in, first);
    EXPECT_EQ(first, "# " + last + ": " + std::string(e.title));
    std::stringstream rest;
    rest << in.rdbuf();
    EXPECT_GT(rest.str().size(), 100u) << e.code;
  }
  EXPECT_TRUE(pages.empty()) << "page of an unknown code: " << *pages.begin();
}

} // namespace
} // namespace npuc
