// Runs every command of docs/deployment.md, in order, in a folder as the page says.
#include <gtest/gtest.h>

#include "test/e2e/run_tool.h"

namespace npuc::e2e {
namespace {

TEST(Deployment, EveryCommandOfThePageRuns) {
  const fs::path dir = FreshFolder(), source = NPUC_SOURCE_DIR;
  for (const auto &file : fs::directory_iterator(source / "models/digits"))
    fs::copy(file.path(), dir);
  WriteAll(dir / "models.yaml", "defaults: {target: edge-6t}\nmodels: [digits.onnx]\n");
  std::istringstream page(ReadAll(source / "docs/deployment.md"));
  std::vector<std::string> commands;
  bool shell = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```"))
      shell = line == "```sh";
    else if (shell)
      commands.push_back(line);
  }
  ASSERT_GT(commands.size(), 15u);
  for (const std::string &command : commands) {
    WriteAll(dir / "run.sh", "cd '" + dir.string() + "'\nPATH='" + (fs::path(NPUC_BUILD_DIR) / "bin").string() +
                                 "':$PATH\nexport NO_COLOR=1\n" + command + "\n");
    EXPECT_EQ(
        std::system(("sh -e '" + (dir / "run.sh").string() + "' > '" + (dir / "log").string() + "' 2>&1").c_str()), 0)
        << command << "\n"
        << ReadAll(dir / "log");
  }
  for (const char *made :
       {"digits.bin", "digits.report.html", "logits.bin", "digits.sarif", "digits.md", "out/digits.bin",
        "run/probabilities.npy", "run/profile.json", "run/trace.json", "small.onnx", "cast.onnx"})
    EXPECT_TRUE(fs::exists(dir / made)) << made;
}

} // namespace
} // namespace npuc::e2e
