// npu-quant select: which of many images to calibrate with, and whether they are one-sided.
#include <charconv>
#include <filesystem>

#include "compiler/calibration/select.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/json.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/thread_pool.h"
#include "tools/npu-quant/commands.h"

namespace npuc::quant {
namespace fs = std::filesystem;
namespace {

struct Found {
  std::string path, base; // base: from the folder that the user named
};

// All files of the paths, folders within folders too, in the order of their names.
StatusOr<std::vector<Found>> FilesOf(const std::vector<std::string> &paths) {
  std::vector<Found> found;
  for (const std::string &path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error))
        return AtFile(Error("E0101", "there is no such file or folder"), path);
      found.push_back({path, fs::path(path).filename().string()});
      continue;
    }
    std::vector<Found> here;
    for (auto it = fs::recursive_directory_iterator(path, error); !error && it != fs::end(it); it.increment(error))
      if (it->is_regular_file(error))
        here.push_back({it->path().string(), it->path().lexically_relative(path).string()});
    if (error)
      return AtFile(Error("E0101", "the folder cannot be read: " + error.message()), path);
    std::sort(here.begin(), here.end(), [](const Found &a, const Found &b) { return a.base < b.base; });
    found.insert(found.end(), here.begin(), here.end());
  }
  return found;
}

StatusOr<SelectOptions> OptionsOf(const SelectCommand &c) {
  SelectOptions o;
  o.count = c.count;
  o.seed = c.seed;
  const char *end = c.buckets.data() + c.buckets.size();
  const auto first = std::from_chars(c.buckets.data(), end, o.brightness_buckets);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, o.edge_buckets);
    auto good = [](int n) { return n >= 1 && n <= 100; };
    if (second.ec == std::errc() && second.ptr == end && good(o.brightness_buckets) && good(o.edge_buckets))
      return o;
  }
  return Error("E0501", fmt::format("--buckets {}: not BxE with numbers from 1 to 100", c.buckets), "for example 5x5");
}

// Rows of brightness, columns of edge density, "picked of have" in each cell.
std::string Table(const Selection &s) {
  // The labels without their first words.
  auto range = [](const std::string &label, std::string_view words) { return label.substr(words.size() + 1); };
  std::string text = fmt::format("{:>12}", "");
  for (int e = 0; e < s.edge_buckets; ++e)
    text += fmt::format(" {:>14}", range(EdgeLabel(e, s.edge_buckets), "edge density"));
  text += "   (edge density; picked of all)\n";
  for (int b = 0; b < s.brightness_buckets; ++b) {
    text += fmt::format("{:>12}", range(BrightnessLabel(b, s.brightness_buckets), "brightness"));
    for (int e = 0; e < s.edge_buckets; ++e) {
      const int64_t have = s.have[b * s.edge_buckets + e], picked = s.picked_in[b * s.edge_buckets + e];
      text += fmt::format(" {:>14}", have ? fmt::format("{} of {}", picked, have) : ".");
    }
    text += b == 0 ? "   (brightness: rows)\n" : "\n";
  }
  return text;
}

std::string Json(const Selection &s, const std::vector<Found> &files, const std::vector<ImageTraits> &traits) {
  std::string text;
  JsonWriter w(&text);
  w.BeginObject().Field("images", files.size()).Field("picked", s.picked.size());
  w.Field("brightness_buckets", s.brightness_buckets).Field("edge_buckets", s.edge_buckets);
  auto table = [&](const char *key, const std::vector<int64_t> &counts) {
    w.Key(key).BeginArray();
    for (int b = 0; b < s.brightness_buckets; ++b)
      w.Value(std::vector<int64_t>(counts.begin() + b * s.edge_buckets, counts.begin() + (b + 1) * s.edge_buckets));
    w.EndArray();
  };
  table("counts", s.have);
  table("picked_counts", s.picked_in);
  w.Field("one_sided", s.dominant.has_value());
  if (s.dominant)
    w.Key("dominant").BeginObject().Field("bucket", s.dominant->what).Field("share", s.dominant->share).EndObject();
  w.Key("files").BeginArray();
  for (int64_t i : s.picked)
    w.BeginLine()
        .BeginObject()
        .Field("file", files[i].path)
        .Field("brightness", traits[i].brightness)
        .Field("edge_density", traits[i].edge_density)
        .EndObject();
  w.EndArray().EndObject();
  return text + "\n";
}

Status Emit(const std::string &path, const std::string &text) {
  return path == "-" ? cli::WriteStdout(text) : WriteFile(path, text);
}

// Copies into a new (or empty) folder, with the names from the given folders on, '/' as '_'.
Status CopyTo(const std::string &folder, const std::vector<Found> &files, const std::vector<int64_t> &picked) {
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    return Error("E0102", fmt::format("-o {}: there is something already", folder), "name a new or empty folder");
  NPUC_RETURN_IF_ERROR(MakeFolder(folder));
  for (int64_t i : picked) {
    std::string name = files[i].base;
    std::replace(name.begin(), name.end(), '/', '_');
    fs::path to = fs::path(folder) / name;
    for (int k = 2; fs::exists(to, error); ++k)
      to = fs::path(folder) / fmt::format("{}_{}", k, name);
    NPUC_ASSIGN_OR_RETURN(const MappedFile bytes, MappedFile::Open(files[i].path));
    NPUC_RETURN_IF_ERROR(WriteFile(to.string(), bytes.text()));
  }
  return OkStatus();
}

} // namespace

StatusOr<int> Select(const SelectCommand &c, const cli::Console &console) {
  NPUC_ASSIGN_OR_RETURN(const SelectOptions options, OptionsOf(c));
  NPUC_ASSIGN_OR_RETURN(std::vector<Found> all, FilesOf(c.paths));
  struct Measured {
    bool image = false;
    ImageTraits traits;
    Status status;
  };
  std::vector<Measured> measured(all.size());
  {
    cli::Progress progress(console);
    ThreadPool threads;
    threads.ParallelFor(all.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        progress.Update(all[i].path);
        auto file = MappedFile::Open(all[i].path);
        measured[i].status = file.status();
        if (!file.ok() || !LooksLikeImage(file->bytes()))
          continue;
        measured[i].image = true;
        auto image = DecodeImage(file->bytes(), all[i].path);
        measured[i].status = image.status();
        if (image.ok())
          measured[i].traits = MeasureImage(*image);
      }
    });
  }
  DiagnosticEngine diagnostics;
  std::vector<Found> files;
  std::vector<ImageTraits> traits;
  for (size_t i = 0; i < all.size(); ++i) {
    diagnostics.ReportStatus(measured[i].status, all[i].path);
    if (!measured[i].image)
      continue;
    files.push_back(std::move(all[i]));
    traits.push_back(measured[i].traits);
  }
  NPUC_RETURN_IF_ERROR(diagnostics.ToStatus().ok() ? OkStatus() : (console.PrintAll(diagnostics), AlreadyReported()));
  if (files.empty())
    return Error("E0509", "there are no PNG or JPEG images", "give images, or folders that have some");

  const Selection s = SelectImages(traits, options);
  const bool quiet_stdout = c.list == "-" || c.json == "-";
  if (!console.quiet && !quiet_stdout)
    NPUC_RETURN_IF_ERROR(cli::WriteStdout(fmt::format("{}{} of {} images\n", Table(s), s.picked.size(), files.size())));
  if (s.dominant)
    console.Print({.severity = Severity::warning,
                   .code = {},
                   .file = {},
                   .node = {},
                   .op = {},
                   .message = fmt::format("the images are one-sided: {:.0f} % of them have {}", 100 * s.dominant->share,
                                          s.dominant->what),
                   .help = "ranges from them will not fit other pictures: add images of other light and scenes"});
  if (!c.output.empty())
    NPUC_RETURN_IF_ERROR(CopyTo(c.output, files, s.picked));
  if (!c.list.empty()) {
    std::string text;
    for (int64_t i : s.picked)
      text += files[i].path + "\n";
    NPUC_RETURN_IF_ERROR(Emit(c.list, text));
  }
  if (!c.json.empty())
    NPUC_RETURN_IF_ERROR(Emit(c.json, Json(s, files, traits)));
  return cli::kDone;
}

} // namespace npuc::quant
