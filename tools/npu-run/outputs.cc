// Outputs as .npy or .pb files.
#include <algorithm>
#include <filesystem>

#include "compiler/onnx/tensor_proto.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/npy.h"
#include "tools/npu-run/files.h"

namespace npuc::run {
namespace {

// NumPy's type string; types that NumPy has no name for are written as raw bytes of their size.
std::string Descr(DType t) {
  switch (t) {
  case DType::F32:
    return "<f4";
  case DType::F64:
    return "<f8";
  case DType::F16:
    return "<f2";
  case DType::Bool:
    return "|b1";
  case DType::C64:
    return "<c8";
  case DType::C128:
    return "<c16";
  case DType::BF16:
    return "<V2";
  default:
    break;
  }
  const int size = ByteSize(t);
  if (IsSignedInt(t))
    return size == 1 ? "|i1" : fmt::format("<i{}", size);
  if (IsUnsignedInt(t))
    return size == 1 ? "|u1" : fmt::format("<u{}", size);
  return fmt::format("|V{}", size);
}

// UTF-8 to the fixed-width UTF-32 of NumPy's <U.
std::vector<uint32_t> CodePoints(const std::string &s) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < s.size();) {
    const uint8_t b = static_cast<uint8_t>(s[i]);
    const int extra = b >= 0xf0 ? 3 : b >= 0xe0 ? 2 : b >= 0xc0 ? 1 : 0;
    uint32_t p = extra == 3 ? b & 7 : extra == 2 ? b & 15 : extra == 1 ? b & 31 : b;
    bool good = b < 0x80 || extra > 0;
    for (int k = 1; k <= extra; ++k) {
      if (i + k >= s.size() || (static_cast<uint8_t>(s[i + k]) & 0xc0) != 0x80) {
        good = false;
        break;
      }
      p = p << 6 | (static_cast<uint8_t>(s[i + k]) & 63);
    }
    points.push_back(good ? p : 0xfffd);
    i += good ? 1 + extra : 1;
  }
  return points;
}

Status WriteTensorNpy(const std::string &path, const Tensor &given) {
  const Tensor t = given.Expand();
  if (t.dtype() != DType::String)
    return WriteNpy(path, Descr(t.dtype()), {t.dims().data(), t.dims().size()},
                    {t.bytes(), static_cast<size_t>(t.num_stored_bytes())});
  size_t width = 1;
  std::vector<std::vector<uint32_t>> all;
  for (const std::string &s : t.strings())
    width = std::max(width, all.emplace_back(CodePoints(s)).size());
  std::vector<uint32_t> flat(all.size() * width);
  for (size_t i = 0; i < all.size(); ++i)
    std::copy(all[i].begin(), all[i].end(), flat.begin() + static_cast<int64_t>(i * width));
  return WriteNpy(path, fmt::format("<U{}", width), {t.dims().data(), t.dims().size()},
                  {reinterpret_cast<const uint8_t *>(flat.data()), flat.size() * 4});
}

} // namespace

std::string FileNames::Of(std::string_view tensor) {
  std::string name(tensor);
  for (char &c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
          c == '_'))
      c = '_';
  if (name.empty() || name == "." || name == "..")
    name = "_" + name;
  if (name.size() > 200)
    name.resize(200);
  std::string unique = name;
  for (int k = 2; std::find(used_.begin(), used_.end(), unique) != used_.end(); ++k)
    unique = fmt::format("{}_{}", name, k);
  used_.push_back(unique);
  return unique;
}

Status WriteNamed(const std::string &stem, const EvalValue &value, const Type &type, const std::string &name) {
  if (const Tensor *t = value.tensor(); t && type.kind() != Type::Kind::Optional)
    return WriteTensorNpy(stem + ".npy", *t);
  return WriteValueFile(stem + ".pb", value, type, name);
}

Status WriteOutputs(const Options &o, const runtime::Session &session) {
  if (o.output_dir.empty())
    return OkStatus();
  NPUC_RETURN_IF_ERROR(MakeFolder(o.output_dir));
  FileNames names;
  const auto &outputs = session.model().outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const EvalValue value = session.Output(static_cast<int>(i));
    if (o.output_format == "pb") {
      NPUC_RETURN_IF_ERROR(
          WriteValueFile(fmt::format("{}/output_{}.pb", o.output_dir, i), value, outputs[i].type, outputs[i].name));
    } else {
      NPUC_RETURN_IF_ERROR(
          WriteNamed(o.output_dir + "/" + names.Of(outputs[i].name), value, outputs[i].type, outputs[i].name));
    }
  }
  return OkStatus();
}

} // namespace npuc::run
