// Every model that lies in the shared folder survives printing and reading back: names, types and attributes as users
// really have them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/onnx/import.h"

namespace npuc {
namespace {

namespace fs = std::filesystem;

// $NPUC_SHARED, else a folder `shared` beside the sources.
fs::path Shared() {
  if (const char *dir = std::getenv("NPUC_SHARED"); dir && *dir)
    return dir;
  return fs::path(NPUC_SOURCE_DIR) / ".." / "shared";
}

TEST(RoundTrip, SharedModels) {
  const fs::path folder = Shared() / "models";
  if (!fs::is_directory(folder))
    GTEST_SKIP() << "no folder " << folder << " (NPUC_SHARED says where it is)";
  std::vector<fs::path> models;
  for (const auto &e : fs::directory_iterator(folder))
    if (e.path().extension() == ".onnx" && fs::file_size(e.path()) < (16u << 20))
      models.push_back(e.path());
  std::sort(models.begin(), models.end());
  int read = 0;
  for (const fs::path &path : models) {
    DiagnosticEngine diagnostics;
    auto m = ImportModel(path.string(), {}, diagnostics);
    if (!m.ok())
      continue; // the importer's tests say which ones must work
    ++read;
    ASSERT_TRUE(Verify(**m).ok()) << path << Verify(**m);
    const std::string text = Print(**m);
    auto back = ParseModule(text, path.filename().string() + ".ir");
    ASSERT_TRUE(back.ok()) << path << back.status();
    EXPECT_EQ(Hash(**m), Hash(**back)) << path;
    EXPECT_EQ(text, Print(**back)) << path;
    EXPECT_TRUE(Verify(**back).ok()) << path << Verify(**back);
    EXPECT_EQ(Hash(*Clone(**m)), Hash(**m)) << path;
  }
  EXPECT_GT(read, 0);
}

} // namespace
} // namespace npuc
