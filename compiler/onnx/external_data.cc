// External data: the file a tensor names, mapped once a model.
//
// A model file may come from anywhere, so a location may not reach outside the model's own folder: absolute paths and
// ".." are refused by their text, symbolic links by where the resolved path lies. A link is allowed where it stays
// inside.
#include "compiler/onnx/external_data.h"

#include <charconv>
#include <filesystem>

#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"

namespace npuc::onnx_import {
namespace fs = std::filesystem;
namespace {

StatusOr<int64_t> ParseNumber(const std::string &text, std::string_view key, const std::string &tensor) {
  int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < 0)
    return Error("E0105", fmt::format("external data of tensor '{}': {} '{}' is not a byte count", tensor, key, text));
  return v;
}

bool IsInside(const fs::path &folder, const fs::path &file) {
  auto [f, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return f == folder.end() && rest != file.end();
}

StatusOr<TensorSource::External> Open(const std::string &location, const std::string &tensor,
                                      const TensorSource &source) {
  const std::string help =
      "external data must lie in the model's own folder; copy the file there or save the model in one file";
  const fs::path relative(location);
  if (location.empty())
    return Error("E0105", fmt::format("external data of tensor '{}' names no file (location)", tensor));
  if (location.find('\0') != std::string::npos || relative.is_absolute() || location.find('\\') != std::string::npos)
    return Error("E0208",
                 fmt::format("external data of tensor '{}': location '{}' is not a relative path", tensor, location),
                 help);
  for (const auto &part : relative)
    if (part == "..")
      return Error(
          "E0208",
          fmt::format("external data of tensor '{}': location '{}' leaves the model's folder", tensor, location), help);
  if (source.folder.empty())
    return Error("E0105", fmt::format("external data of tensor '{}' in '{}': the model was not read from a file",
                                      tensor, location));
  std::error_code error;
  const fs::path folder = fs::canonical(source.folder, error);
  if (error)
    return Error("E0105", fmt::format("the model's folder cannot be read: {}", error.message()));
  const fs::path file = fs::canonical(folder / relative, error);
  if (error)
    return Error("E0105", fmt::format("external data file '{}' of tensor '{}' is missing", location, tensor),
                 "put the file beside the model, under the name that the model gives");
  if (!IsInside(folder, file))
    return Error(
        "E0208",
        fmt::format("external data of tensor '{}': '{}' is a link that leaves the model's folder", tensor, location),
        help);
  if (!fs::is_regular_file(file, error))
    return Error("E0105",
                 fmt::format("external data file '{}' of tensor '{}' is not a regular file", location, tensor));
  NPUC_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(file.string()));
  TensorSource::External e;
  e.bytes = {mapped.data(), static_cast<size_t>(mapped.size())};
  e.owner = mapped.owner();
  return e;
}

} // namespace

StatusOr<TensorSource::External> ReadExternalData(const ::onnx::TensorProto &p, size_t expected, TensorSource &source) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto &entry : p.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    if (entry.key() == "offset") {
      NPUC_ASSIGN_OR_RETURN(offset, ParseNumber(entry.value(), "offset", p.name()));
    }
    if (entry.key() == "length") {
      NPUC_ASSIGN_OR_RETURN(length, ParseNumber(entry.value(), "length", p.name()));
    }
  }
  auto it = source.external.find(location);
  if (it == source.external.end()) {
    NPUC_ASSIGN_OR_RETURN(auto opened, Open(location, p.name(), source));
    it = source.external.emplace(location, std::move(opened)).first;
  }
  const auto &file = it->second;
  const uint64_t want = length >= 0 ? static_cast<uint64_t>(length) : expected;
  const uint64_t size = file.bytes.size;
  if (static_cast<uint64_t>(offset) > size || want > size - static_cast<uint64_t>(offset))
    return Error("E0105",
                 fmt::format("external data of tensor '{}': bytes {} to {} of '{}', which has {}", p.name(), offset,
                             static_cast<uint64_t>(offset) + want, location, size),
                 "the file is cut short or belongs to another model");
  return TensorSource::External{file.owner, {file.bytes.data + offset, static_cast<size_t>(want)}};
}

} // namespace npuc::onnx_import
