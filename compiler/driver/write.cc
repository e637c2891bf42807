// Writes the files of a compilation, all or none.
//
// The container's writer makes a file of its own, so the binary goes to a neighbour of its place first; the reports go
// to temporary files. When all bytes are on disk the files are renamed. A rename that fails (someone made a folder of
// that name meanwhile) takes back the ones before it that had no earlier file. A binary that goes to a device or a pipe
// is copied there instead.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "backend/container/model_file.h"
#include "backend/report/gates.h"
#include "backend/report/json.h"
#include "backend/report/render.h"
#include "compiler/driver/compile.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/hash.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/thread_pool.h"

namespace npuc {
namespace fs = std::filesystem;
namespace {

// Removes a file at the end of a scope, unless told otherwise.
class Removed {
public:
  explicit Removed(std::string path) : path_(std::move(path)) {}
  ~Removed() {
    if (!path_.empty())
      unlink(path_.c_str());
  }
  void Keep() { path_.clear(); }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

// Of this program alone: what getrusage says includes the parent's peak, inherited through fork.
int64_t PeakRssBytes() {
  int64_t kib = 0;
  if (std::FILE *f = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, f))
      if (std::strncmp(line, "VmHWM:", 6) == 0)
        kib = std::strtoll(line + 6, nullptr, 10);
    std::fclose(f);
  }
  return kib * 1024;
}

} // namespace

StatusOr<Artifact> CompileToFiles(const CompilerOptions &options, DiagnosticEngine &diagnostics,
                                  const ProgressFn &progress) {
  const auto start = std::chrono::steady_clock::now();
  Artifact artifact;
  NPUC_ASSIGN_OR_RETURN(artifact.paths, ResolveOutputs(options));
  NPUC_RETURN_IF_ERROR(CheckOptions(options));
  // Flags that say how something is done that is not asked for.
  auto unused = [&](bool given, std::string_view flag, std::string_view with) {
    if (given)
      diagnostics.Warning(fmt::format("{} has no effect without {}", flag, with),
                          fmt::format("give {}, or leave {} out", with, flag));
  };
  unused(options.calib.empty() && options.calib_method != CompilerOptions().calib_method, "--calib-method", "--calib");
  unused(options.calib.empty() && !options.preprocess.empty(), "--preprocess", "--calib");
  unused(options.gates.baseline.empty() && !options.gates.tolerances.empty(), "--tolerance", "--baseline");
  // A baseline that cannot be read should not cost a compilation.
  report::Report baseline;
  if (!options.gates.baseline.empty()) {
    NPUC_ASSIGN_OR_RETURN(baseline, report::ReadReport(options.gates.baseline));
  }
  NPUC_ASSIGN_OR_RETURN(const report::Tolerances tolerances, report::ParseTolerances(options.gates.tolerances));

  NPUC_ASSIGN_OR_RETURN(Compilation compilation, Compile(options, diagnostics, progress));
  if (progress)
    progress("write");
  ThreadPool threads(options.jobs);
  const OutputPaths &paths = artifact.paths;
  std::error_code error;
  // What a symbolic link points to is replaced, not the link.
  fs::path place = fs::exists(paths.binary, error) ? fs::canonical(paths.binary, error) : fs::path(paths.binary);
  const bool existed = fs::exists(place, error), special = existed && !fs::is_regular_file(place, error);
  Removed binary(special ? fmt::format("{}/npuc-{}.partial", fs::temp_directory_path(error).string(), getpid())
                         : fmt::format("{}.{}.partial", place.string(), getpid()));
  // Messages name the file that was asked for.
  if (Status s = container::WriteModelFile(compilation.file, binary.path(), &threads); !s.ok())
    return ErrorCode(s) == "E0102" ? AtFile(Error("E0102", std::string(Message(s)), FromStatus(s).help), paths.binary)
                                   : s;

  report::Report &report = artifact.report = std::move(compilation.report);
  NPUC_ASSIGN_OR_RETURN(report.reproducibility.binary_sha256, Sha256OfFile(binary.path()));
  report.gates =
      report::CheckGates(report, options.gates, options.gates.baseline.empty() ? nullptr : &baseline, tolerances);
  report.compile.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.compile.peak_rss_bytes = PeakRssBytes();

  std::vector<std::pair<std::string, AtomicFile>> reports;
  if (!paths.json.empty()) {
    for (const auto &[path, text] :
         {std::pair(paths.json, report::ToJson(report)), std::pair(paths.html, report::RenderHtml(report))}) {
      NPUC_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
      NPUC_RETURN_IF_ERROR(file.Write(text));
      reports.emplace_back(path, std::move(file));
    }
  }

  std::vector<std::unique_ptr<Removed>> undo;
  if (special) {
    NPUC_ASSIGN_OR_RETURN(MappedFile bytes, MappedFile::Open(binary.path()));
    NPUC_RETURN_IF_ERROR(WriteFile(paths.binary, bytes.text()));
  } else {
    fs::rename(binary.path(), place, error);
    if (error)
      return AtFile(Error("E0102", "cannot write: " + error.message()), paths.binary);
    binary.Keep();
    if (!existed)
      undo.push_back(std::make_unique<Removed>(place.string()));
  }
  for (auto &[path, file] : reports) {
    const bool replaced = fs::exists(path, error);
    NPUC_RETURN_IF_ERROR(file.Commit());
    if (!replaced)
      undo.push_back(std::make_unique<Removed>(path));
  }
  for (auto &file : undo)
    file->Keep();
  return artifact;
}

} // namespace npuc
