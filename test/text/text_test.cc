// Text tests: every *.ir file under test/ is one case. The file says how it is run and what must come out:
//
//   // RUN: npu-opt --passes=fold-pads %s          a shell command; its stdout is checked; %s is the file
//   // RUN[F16]: npu-opt --precision=fp16 ... %s   checked against F16: lines instead of CHECK: lines
//   // EXIT: 1                                     the exit code expected (default 0)
//   // CHECK: ...                                  LLVM's FileCheck: CHECK-NEXT, CHECK-SAME, CHECK-NOT, CHECK-DAG,
//   CHECK-LABEL, [[X:...]]
//
// A line "// -----" splits a file into sections that are run and checked apart; a section without RUN (or EXIT) lines
// takes those of the first one. Tools are looked for beside this program first. docs/add_a_pass.md shows how to write
// one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "test/temp_folder.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/FileCheck/FileCheck.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace {

namespace fs = std::filesystem;

struct RunLine {
  std::string prefix, command;
};

struct Section {
  std::string text; // with empty lines before it, so that line numbers are those of the file
  std::vector<RunLine> runs;
  int exit_code = -1;
};

std::string Trim(std::string s) {
  const size_t b = s.find_first_not_of(" \t\r"), e = s.find_last_not_of(" \t\r");
  return b == std::string::npos ? "" : s.substr(b, e - b + 1);
}

std::vector<Section> ReadSections(const fs::path &path) {
  std::ifstream in(path);
  std::vector<Section> out(1);
  std::string line;
  size_t count = 0;
  while (std::getline(in, line)) {
    ++count;
    if (Trim(line) == "// -----") {
      out.emplace_back().text = std::string(count, '\n');
      continue;
    }
    Section &s = out.back();
    s.text += line + "\n";
    size_t at = line.find("// RUN");
    if (at != std::string::npos) {
      std::string rest = line.substr(at + 6), prefix = "CHECK";
      if (rest[0] == '[') {
        prefix = rest.substr(1, rest.find(']') - 1);
        rest = rest.substr(rest.find(']') + 1);
      }
      if (rest[0] == ':')
        s.runs.push_back({prefix, Trim(rest.substr(1))});
    }
    at = line.find("// EXIT:");
    if (at != std::string::npos)
      s.exit_code = std::atoi(line.c_str() + at + 8);
  }
  for (Section &s : out) {
    if (s.runs.empty())
      s.runs = out[0].runs;
    if (s.exit_code < 0)
      s.exit_code = std::max(out[0].exit_code, 0);
  }
  return out;
}

struct Result {
  std::string out;
  int exit_code;
};

Result RunShell(const std::string &command) {
  Result r;
  std::FILE *pipe = ::popen(command.c_str(), "r");
  if (!pipe)
    return {"popen failed", -1};
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
    r.out.append(buffer, n);
  const int status = ::pclose(pipe);
  r.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return r;
}

void Replace(std::string &s, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size())
    s.replace(at, from.size(), to);
}

// FileCheck's complaint, "" when the text passes.
std::string Check(const std::string &checks, const std::string &file, const std::string &prefix,
                  const std::string &text) {
  llvm::FileCheckRequest request;
  request.CheckPrefixes = {prefix};
  request.AllowEmptyInput = true;
  llvm::FileCheck checker(request);
  llvm::SourceMgr sources;
  std::string complaint;
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic &d, void *out) {
        llvm::raw_string_ostream os(*static_cast<std::string *>(out));
        d.print(nullptr, os, false);
      },
      &complaint);
  llvm::SmallString<4096> check_buffer, input_buffer;
  auto check_file = llvm::MemoryBuffer::getMemBufferCopy(checks, file);
  const llvm::StringRef check_text = checker.CanonicalizeFile(*check_file, check_buffer);
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(check_text, file), llvm::SMLoc());
  if (checker.readCheckFile(sources, check_text))
    return complaint.empty() ? "the file has no " + prefix + ": lines\n" : complaint;
  auto input = llvm::MemoryBuffer::getMemBufferCopy(text, "<output>");
  const llvm::StringRef input_text = checker.CanonicalizeFile(*input, input_buffer);
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(input_text, "<output>"), llvm::SMLoc());
  std::vector<llvm::FileCheckDiag> diags;
  if (checker.checkInput(sources, input_text, &diags))
    return "";
  return complaint.empty() ? "does not pass\n" : complaint;
}

class TextFile : public testing::TestWithParam<std::string> {};

TEST_P(TextFile, Passes) {
  const fs::path path = fs::path(NPUC_SOURCE_DIR) / "test" / GetParam();
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  const npuc::TempFolder folder;
  const std::string scratch = folder.path().string();
  const std::vector<Section> sections = ReadSections(path);
  int number = 0;
  for (const Section &s : sections) {
    ASSERT_FALSE(s.runs.empty()) << path << ": no // RUN: line";
    const std::string file =
        fmt::format("{}/{}{}.ir", scratch, path.stem().string(), sections.size() > 1 ? fmt::format(".{}", number) : "");
    ++number;
    std::ofstream(file) << s.text;
    for (const RunLine &run : s.runs) {
      std::string command = run.command;
      Replace(command, "%s", "'" + file + "'");
      Replace(command, "%t", "'" + scratch + "/t'");
      const Result r =
          RunShell(fmt::format("export PATH='{}':\"$PATH\" NPUC_VERIFY_EACH=1 NPUC_CRASH_DIR='{}' NO_COLOR=1; {}",
                               bin.string(), scratch, command));
      EXPECT_EQ(r.exit_code, s.exit_code) << path.string() << ": " << run.command << "\n" << r.out;
      const std::string complaint = Check(s.text, path.string(), run.prefix, r.out);
      if (!complaint.empty())
        ADD_FAILURE() << path.string() << ": " << run.command << "\n" << complaint << "----- output -----\n" << r.out;
    }
  }
}

std::vector<std::string> AllFiles() {
  std::vector<std::string> out;
  const fs::path root = fs::path(NPUC_SOURCE_DIR) / "test";
  for (const auto &e : fs::recursive_directory_iterator(root))
    if (e.is_regular_file() && e.path().extension() == ".ir")
      out.push_back(fs::relative(e.path(), root).string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string CaseName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Text, TextFile, testing::ValuesIn(AllFiles()), CaseName);

} // namespace
