// Files as input values, and random values.
#include "compiler/driver/samples.h"

#include <algorithm>
#include <cstring>

#include "compiler/onnx/tensor_proto.h"
#include "compiler/ops/convert.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/npy.h"

namespace npuc {
namespace {

bool HasImageSuffix(std::string_view path) {
  for (std::string_view suffix : {".png", ".jpg", ".jpeg"})
    if (path.ends_with(suffix))
      return true;
  return false;
}

} // namespace

StatusOr<EvalValue> ReadInputValue(const std::string &path, std::string_view name, const Type &type,
                                   const Preprocess &pre, std::string *own_name) {
  NPUC_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view view = path;
  if (view.ends_with(".npz")) {
    NPUC_ASSIGN_OR_RETURN(const std::vector<NpzEntry> entries, ParseNpz(file));
    std::string names;
    for (const NpzEntry &e : entries) {
      if (e.name == name || entries.size() == 1) {
        NPUC_ASSIGN_OR_RETURN(Tensor t, TensorFromNpy(e.array, path));
        return EvalValue(std::move(t));
      }
      names += (names.empty() ? "" : ", ") + e.name;
    }
    return AtFile(Error("E0701", fmt::format("no entry is called '{}'", name), "the file has: " + names), path);
  }
  if (view.ends_with(".npy") || file.text().starts_with("\x93NUMPY")) {
    NPUC_ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(file.bytes(), path, file.owner()));
    NPUC_ASSIGN_OR_RETURN(Tensor t, TensorFromNpy(array, path));
    return EvalValue(std::move(t));
  }
  if (view.ends_with(".pb"))
    return ReadValueFile(path, type, own_name);
  if (LooksLikeImage(file.bytes())) {
    NPUC_ASSIGN_OR_RETURN(const Image image, DecodeImage(file.bytes(), path));
    auto t = TensorFromImage(image, name, type, pre);
    if (!t.ok())
      return AtFile(t.status(), path);
    return EvalValue(*std::move(t));
  }
  if (HasImageSuffix(view))
    return AtFile(Error("E0104", "the file is neither PNG nor JPEG", "open it in a viewer, convert or remove it"),
                  path);
  if (const auto &frame = pre.For(name).frame) {
    if (static_cast<int64_t>(file.size()) != frame->bytes())
      return AtFile(Error("E0702",
                          fmt::format("a camera frame of {} x {} has {} bytes, the file has {}", frame->height,
                                      frame->width, frame->bytes(), file.size()),
                          "say the frames' format and size in --preprocess (frame:)"),
                    path);
    auto t = TensorFromImage(DecodeFrame(file.bytes(), *frame), name, type, pre);
    if (!t.ok())
      return AtFile(t.status(), path);
    return EvalValue(*std::move(t));
  }
  if (!type.is_static_tensor() || type.dtype() == DType::String)
    return AtFile(Error("E0702",
                        fmt::format("'{}' is {}: raw bytes need a tensor of fixed shape", name, type.ToString()),
                        "give a .npy or .pb file"),
                  path);
  if (static_cast<int64_t>(file.size()) != type.num_bytes())
    return AtFile(Error("E0702",
                        fmt::format("'{}' is {} of {} bytes, the file has {}", name, type.ToString(), type.num_bytes(),
                                    file.size()),
                        "give raw elements of exactly that size, or a .npy, .npz, .pb or image file"),
                  path);
  Tensor t = Tensor::Allocate(type.dtype(), type.shape().static_dims());
  if (file.size())
    std::memcpy(t.mutable_bytes(), file.data(), file.size());
  return EvalValue(std::move(t));
}

bool FitsType(const EvalValue &value, const Type &type) {
  const Tensor *t = value.tensor();
  if (!t || !type.is_tensor())
    return true;
  if (type.dtype() != DType::Undefined && type.dtype() != t->dtype())
    return false;
  if (!type.shape().ranked())
    return true;
  if (type.shape().rank() != t->rank())
    return false;
  for (int i = 0; i < t->rank(); ++i)
    if (type.shape()[i].is_static() && type.shape()[i].value() != t->dims()[i])
      return false;
  return true;
}

bool AddLeadingOnes(EvalValue &value, const Type &type) {
  const Tensor *t = value.tensor();
  if (!t || !type.is_tensor() || !type.shape().ranked() || t->rank() == 0 || t->rank() >= type.shape().rank())
    return false;
  Dims dims(type.shape().rank() - t->rank(), 1);
  dims.append(t->dims().begin(), t->dims().end());
  Tensor wide = t->Reshaped(dims);
  if (!FitsType(wide, type))
    return false;
  value = std::move(wide);
  return true;
}

namespace {

// SplitMix64: one multiplication chain, the same everywhere.
struct Random {
  uint64_t state;
  uint64_t Next() {
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-23f - 1.0f; }
};

Tensor RandomTensor(const Type &type, Random &random) {
  Dims dims;
  if (type.shape().ranked())
    for (const Dim &d : type.shape().dims())
      dims.push_back(d.is_static() ? d.value() : 1);
  const DType t = type.dtype();
  const int64_t n = NumElements(dims);
  if (t == DType::String)
    return Tensor::Strings(dims, std::vector<std::string>(n, "a"));
  if (IsFloat(t)) {
    Tensor f = Tensor::Allocate(DType::F32, dims);
    for (int64_t i = 0; i < n; ++i)
      f.mutable_data<float>()[i] = random.Uniform();
    return t == DType::F32 ? f : ops::ConvertTensor(f, t);
  }
  Tensor out = Tensor::Allocate(t, dims);
  const int size = ByteSize(t);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t v = random.Next() >> 17;
    if (t == DType::Bool || size > 2)
      v &= 1;
    else if (const int bits = BitWidth(t); bits < 8)
      v = static_cast<uint64_t>(IntMin(t) + static_cast<int64_t>(v & ((1u << bits) - 1)));
    std::memcpy(out.mutable_bytes() + i * size, &v, std::min(size, 8));
  }
  return out;
}

EvalValue RandomOf(const Type &type, Random &random) {
  EvalValue value;
  switch (type.kind()) {
  case Type::Kind::Tensor:
    return RandomTensor(type, random);
  case Type::Kind::Optional:
    return RandomOf(type.element(), random);
  case Type::Kind::Sequence:
    value.v = std::make_shared<const EvalSequence>(EvalSequence{RandomOf(type.element(), random)});
    return value;
  default:
    return value;
  }
}

} // namespace

EvalValue RandomValue(const Type &type, uint64_t seed, uint64_t stream) {
  Random random{seed * 0xD1342543DE82EF95u + stream * 0x2545F4914F6CDD1Du};
  return RandomOf(type, random);
}

NamedFile SplitNamedFile(const std::string &argument, const std::vector<std::string> &names) {
  for (size_t at = argument.find('='); at != std::string::npos; at = argument.find('=', at + 1))
    if (std::find(names.begin(), names.end(), argument.substr(0, at)) != names.end())
      return {argument.substr(0, at), argument.substr(at + 1)};
  return {"", argument};
}

} // namespace npuc
