#include "tools/npu-reduce/predicate.h"

#include <cstdlib>
#include <filesystem>

#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "tools/common/run_all.h"

namespace npuc::reduce {
namespace fs = std::filesystem;

StatusOr<Predicate> Predicate::Create(PredicateOptions options) {
  Predicate p(std::move(options));
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "npu-reduce-XXXXXX").string();
  if (error || !mkdtemp(name.data()))
    return Error("E0102", "the temporary folder cannot be made", "set TMPDIR to a folder that can be written");
  p.folder_ = name;
  return p;
}

Predicate::~Predicate() {
  std::error_code error;
  if (!folder_.empty())
    fs::remove_all(folder_, error);
}

bool Predicate::Matches(const std::string &log) const {
  if (options_.match.empty())
    return true;
  auto text = MappedFile::Open(log);
  return text.ok() && text->text().find(options_.match) != std::string_view::npos;
}

std::vector<Predicate::Verdict> Predicate::Judge(const std::vector<std::string> &candidates) {
  std::vector<Verdict> verdicts(candidates.size(), Verdict::CannotRun);
  auto folder = [&](size_t i) { return fmt::format("{}/{}", folder_, runs_ + static_cast<int64_t>(i)); };
  auto log = [&](size_t i) { return folder(i) + "/.log"; };
  auto make = [&](size_t i) {
    std::error_code error;
    fs::create_directory(folder(i), error);
    const std::string file = folder(i) + "/candidate" + options_.suffix;
    if (error || !WriteFile(file, candidates[i]).ok())
      return cli::Command{{""}, "", "", ""};
    cli::Command command{options_.command, "", log(i), log(i)};
    bool placed = false;
    for (std::string &arg : command.args)
      for (size_t at = arg.find("{}"); at != std::string::npos; at = arg.find("{}", at + file.size())) {
        arg.replace(at, 2, file);
        placed = true;
      }
    if (!placed)
      command.args.push_back(file);
    return command;
  };
  auto done = [&](size_t i, cli::Ended ended) {
    verdicts[i] = ended.timed_out                                       ? Verdict::TimedOut
                  : ended.code == options_.exit_code && Matches(log(i)) ? Verdict::Interesting
                  : ended.code == 126 || ended.code == 127              ? Verdict::CannotRun
                                                                        : Verdict::Boring;
    std::error_code error;
    fs::remove_all(folder(i), error);
  };
  cli::RunAll(candidates.size(), options_.jobs, options_.timeout, make, done);
  runs_ += static_cast<int64_t>(candidates.size());
  return verdicts;
}

} // namespace npuc::reduce
