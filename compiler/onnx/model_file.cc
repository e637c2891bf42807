// Opening a model: map the file, slim it down (wire.h), let protobuf parse the rest, and say no to what is no model.
#include "compiler/onnx/model_file.h"

#include <filesystem>

#include "compiler/support/diagnostic.h"
#include "google/protobuf/io/coded_stream.h"

namespace npuc::onnx_import {
namespace {

constexpr std::string_view kHelp = "give a model that an ONNX exporter wrote (a serialised ModelProto)";

// What a file of another format begins with, for a better message.
std::string_view KnownFormat(std::string_view text) {
  auto starts = [&](std::string_view s) { return text.substr(0, s.size()) == s; };
  if (starts("PK\x03\x04"))
    return "a ZIP archive (a PyTorch or NumPy file?)";
  if (starts("\x1f\x8b"))
    return "gzip-compressed";
  if (text.size() > 8 && text.substr(4, 4) == "TFL3")
    return "a TensorFlow Lite model";
  if (starts("\x89HDF"))
    return "an HDF5 (Keras) file";
  if (starts("\x80\x02") || starts("\x80\x04"))
    return "a Python pickle";
  if (starts("version https://git-lfs"))
    return "a Git LFS pointer, not the file it stands for";
  if (starts("<"))
    return "XML or HTML";
  if (starts("{"))
    return "JSON text";
  if (starts("\x93NUMPY"))
    return "a NumPy array";
  return {};
}

} // namespace

StatusOr<std::unique_ptr<ModelFile>> ParseModel(MappedFile file, const std::string &folder) {
  auto model = std::make_unique<ModelFile>();
  model->path = file.path();
  model->base_name = std::filesystem::path(file.path()).filename().string();
  if (file.size() == 0)
    return Error("E0201", "not an ONNX model: the file is empty", std::string(kHelp));
  if (auto format = KnownFormat(file.text().substr(0, 64)); !format.empty())
    return Error("E0201", fmt::format("not an ONNX model: the file is {}", format), std::string(kHelp));
  NPUC_ASSIGN_OR_RETURN(SlimModel slim, SlimDown({file.data(), static_cast<size_t>(file.size())}));
  if (slim.bytes.size() > INT32_MAX)
    return Error("E0201", "the model's structure alone, without its weights, is above 2 GiB",
                 "store weights in raw_data");
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(slim.bytes.data()),
                                                static_cast<int>(slim.bytes.size()));
  stream.SetRecursionLimit(kMaxMessageDepth);
  if (!model->proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return Error("E0201", "not an ONNX model: a message inside is damaged or nested too deep", std::string(kHelp));
  if (!model->proto.has_graph())
    return Error("E0201", "not an ONNX model: it has no graph", std::string(kHelp));
  model->tensors.owner = file.owner();
  model->tensors.raw = std::move(slim.raw);
  model->tensors.folder = folder;
  return model;
}

StatusOr<std::unique_ptr<ModelFile>> ReadModelFile(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  return ParseModel(std::move(file), folder.empty() ? "." : folder);
}

} // namespace npuc::onnx_import
