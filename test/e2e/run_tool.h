// Runs the programs of build/bin the way a user does.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace npuc::e2e {
namespace fs = std::filesystem;

struct Outcome {
  int code = -1; // exit code; -1: killed
  std::string out, err;
};

inline std::string ReadAll(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

inline void WriteAll(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A folder of the running test's own, emptied before; it stays, to look at.
inline fs::path FreshFolder(const std::string &name = "") {
  const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string id = std::string(test.test_suite_name()) + "." + test.name();
  std::replace(id.begin(), id.end(), '/', '_');
  const fs::path dir = fs::path(NPUC_BUILD_DIR) / "test_e2e" / id / name;
  fs::remove_all(dir);
  fs::create_directories(dir);
  return dir;
}

inline bool HaveTool(const std::string &tool) {
  return fs::exists(fs::path(NPUC_BUILD_DIR) / "bin" / tool);
}

// `file_limit`: no file may grow beyond that many bytes (as on a full disk), 0: no limit.
inline Outcome RunTool(const std::string &tool, const std::vector<std::string> &args,
                       const fs::path &dir = fs::temp_directory_path(), rlim_t file_limit = 0) {
  static int count = 0;
  const fs::path log =
      fs::temp_directory_path() / ("npuc_e2e_" + std::to_string(getpid()) + "_" + std::to_string(count++));
  const std::string out = log.string() + ".out", err = log.string() + ".err";
  const std::string program = (fs::path(NPUC_BUILD_DIR) / "bin" / tool).string();
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char *> argv = {const_cast<char *>(program.c_str())};
    for (const std::string &a : args)
      argv.push_back(const_cast<char *>(a.c_str()));
    argv.push_back(nullptr);
    if (chdir(dir.c_str()) != 0 || !freopen(out.c_str(), "w", stdout) || !freopen(err.c_str(), "w", stderr))
      _exit(125);
    setenv("NO_COLOR", "1", 1);
    setenv("NPUC_CRASH_DIR", fs::temp_directory_path().c_str(), 1);
    if (file_limit) {
      const rlimit limit{file_limit, file_limit};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(program.c_str(), argv.data());
    _exit(126);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome o;
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  o.out = ReadAll(out);
  o.err = ReadAll(err);
  fs::remove(out);
  fs::remove(err);
  return o;
}

// Names of the entries of a folder, sorted.
inline std::vector<std::string> Entries(const fs::path &dir) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(dir))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace npuc::e2e
