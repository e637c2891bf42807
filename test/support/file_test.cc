#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"
#include "compiler/support/mapped_file.h"
#include "test/temp_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace npuc {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
protected:
  std::string Path(std::string_view name) { return folder_ / name; }
  size_t Entries() { return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }
  TempFolder temp_;
  const fs::path &folder_ = temp_.path();
};

TEST_F(FileTest, WritesAndMaps) {
  for (size_t size : {size_t(0), size_t(1), size_t(5000), size_t(3) << 20}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i)
      bytes[i] = char(i * 31 >> 3);
    ASSERT_TRUE(WriteFile(Path("f"), bytes).ok());
    auto mapped = MappedFile::Open(Path("f"));
    ASSERT_TRUE(mapped.ok());
    EXPECT_EQ(mapped->text(), bytes);
    EXPECT_EQ(*ReadTextFile(Path("f")), bytes);
  }
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, MappingOutlivesCopiesAndTheFile) {
  ASSERT_TRUE(WriteFile(Path("f"), std::string(1 << 20, 'x')).ok());
  MappedFile copy;
  {
    auto mapped = MappedFile::Open(Path("f"));
    copy = *mapped;
  }
  fs::remove(Path("f"));
  EXPECT_EQ(copy.text(), std::string(1 << 20, 'x'));
}

TEST_F(FileTest, WhatIsGivenBackIsReadAgain) {
  std::string bytes(3 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = char(i * 31 >> 3);
  ASSERT_TRUE(WriteFile(Path("f"), bytes).ok());
  auto mapped = MappedFile::Open(Path("f"));
  ASSERT_TRUE(mapped.ok());
  GiveBack(mapped->data() + 100, mapped->size() - 5000);
  EXPECT_EQ(mapped->text(), bytes);
  // Memory that is no mapping keeps what was written there: private pages do not come back from anywhere.
  std::vector<char> own(3 << 20, 'x');
  GiveBack(own.data(), own.size());
  EXPECT_EQ(std::count(own.begin(), own.end(), 'x'), 3 << 20);
}

TEST_F(FileTest, HashesAFileAsItsBytes) {
  for (size_t size : {size_t(0), size_t(3), (size_t(1) << 20) + 7}) {
    const std::string bytes(size, 'k');
    ASSERT_TRUE(WriteFile(Path("f"), bytes).ok());
    EXPECT_EQ(Sha256OfFile(Path("f")).value(), Sha256Hex(bytes));
  }
  EXPECT_EQ(FromStatus(Sha256OfFile(Path("none")).status()).code, "E0101");
  EXPECT_EQ(FromStatus(Sha256OfFile(folder_).status()).message, "cannot open: Is a directory");
}

TEST_F(FileTest, ReadErrorsNameTheFile) {
  Diagnostic d = FromStatus(MappedFile::Open(Path("none")).status());
  EXPECT_EQ(d.code, "E0101");
  EXPECT_EQ(d.file, Path("none"));
  EXPECT_EQ(d.message, "cannot open: No such file or directory");
  EXPECT_EQ(FromStatus(MappedFile::Open(folder_).status()).message, "cannot open: Is a directory");
}

TEST_F(FileTest, NothingIsVisibleBeforeCommit) {
  ASSERT_TRUE(WriteFile(Path("f"), "old").ok());
  {
    auto file = AtomicFile::Create(Path("f"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("new").ok());
    EXPECT_EQ(*ReadTextFile(Path("f")), "old");
  } // dropped
  EXPECT_EQ(*ReadTextFile(Path("f")), "old");
  EXPECT_EQ(Entries(), 1u);
  auto file = AtomicFile::Create(Path("f"));
  ASSERT_TRUE(file->Write("newer").ok());
  AtomicFile moved = std::move(*file);
  ASSERT_TRUE(moved.Commit().ok());
  EXPECT_EQ(*ReadTextFile(Path("f")), "newer");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, PadsAndRewrites) {
  auto file = AtomicFile::Create(Path("f"));
  ASSERT_TRUE(file->Write("abcd").ok());
  ASSERT_TRUE(file->PadTo(10000).ok());
  ASSERT_TRUE(file->Write("end").ok());
  EXPECT_EQ(file->size(), 10003u);
  const uint8_t patch[] = {'X', 'Y'};
  ASSERT_TRUE(file->WriteAt(1, patch).ok());
  ASSERT_TRUE(file->Write("!").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadTextFile(Path("f")), "aXYd" + std::string(9996, '\0') + "end!");
}

TEST_F(FileTest, WriteErrorsNameTheFileAndLeaveNothing) {
  Diagnostic d = FromStatus(AtomicFile::Create(Path("no/such/f")).status());
  EXPECT_EQ(d.code, "E0102");
  EXPECT_EQ(d.file, Path("no/such/f"));
  EXPECT_EQ(d.help, "the folder does not exist");
  EXPECT_EQ(FromStatus(WriteFile(folder_, "x")).message, "cannot write: Is a directory");
  EXPECT_EQ(FromStatus(WriteFile("/dev/full", std::string(1 << 21, 'x'))).message,
            "cannot write: No space left on device");
  EXPECT_EQ(Entries(), 0u);
}

// A limit on the file's size stands for the full disk: the write fails in the middle.
TEST_F(FileTest, FullDiskLeavesTheOldFile) {
  ASSERT_TRUE(WriteFile(Path("f"), "old").ok());
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 3 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto file = AtomicFile::Create(Path("f"));
    Status status = OkStatus();
    for (int i = 0; i < 8 && status.ok(); ++i)
      status = file->Write(std::string(700000, 'x'));
    EXPECT_EQ(ErrorCode(status), "E0102");
    EXPECT_EQ(FromStatus(status).message, "cannot write: File too large");
    EXPECT_FALSE(file->Write("more").ok()) << "the first error stays";
    EXPECT_FALSE(file->Commit().ok());
    EXPECT_EQ(Entries(), 1u) << "the temporary file is gone at once";
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(*ReadTextFile(Path("f")), "old");
}

TEST_F(FileTest, LinksStayLinksAndDevicesAreWrittenDirectly) {
  ASSERT_TRUE(WriteFile(Path("real"), "1").ok());
  fs::create_symlink("real", Path("link"));
  ASSERT_TRUE(WriteFile(Path("link"), "2").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(*ReadTextFile(Path("real")), "2");
  EXPECT_TRUE(WriteFile("/dev/null", "x").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

} // namespace
} // namespace npuc
