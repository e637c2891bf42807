#include "compiler/types/dtype.h"

#include <limits>

namespace npuc {
namespace {

enum Class : uint8_t { kNone, kFloat, kSigned, kUnsigned, kBool, kComplex, kString };

struct Info {
  std::string_view name, onnx;
  uint8_t bytes, bits;
  Class cls;
};

constexpr Info kInfo[kNumDTypes] = {
    {"undefined", "undefined", 0, 0, kNone},
    {"f32", "float", 4, 32, kFloat},
    {"u8", "uint8", 1, 8, kUnsigned},
    {"i8", "int8", 1, 8, kSigned},
    {"u16", "uint16", 2, 16, kUnsigned},
    {"i16", "int16", 2, 16, kSigned},
    {"i32", "int32", 4, 32, kSigned},
    {"i64", "int64", 8, 64, kSigned},
    {"string", "string", 0, 0, kString},
    {"bool", "bool", 1, 8, kBool},
    {"f16", "float16", 2, 16, kFloat},
    {"f64", "double", 8, 64, kFloat},
    {"u32", "uint32", 4, 32, kUnsigned},
    {"u64", "uint64", 8, 64, kUnsigned},
    {"c64", "complex64", 8, 64, kComplex},
    {"c128", "complex128", 16, 128, kComplex},
    {"bf16", "bfloat16", 2, 16, kFloat},
    {"f8e4m3fn", "float8e4m3fn", 1, 8, kFloat},
    {"f8e4m3fnuz", "float8e4m3fnuz", 1, 8, kFloat},
    {"f8e5m2", "float8e5m2", 1, 8, kFloat},
    {"f8e5m2fnuz", "float8e5m2fnuz", 1, 8, kFloat},
    {"u4", "uint4", 1, 4, kUnsigned},
    {"i4", "int4", 1, 4, kSigned},
    {"f4e2m1", "float4e2m1", 1, 4, kFloat},
    {"f8e8m0", "float8e8m0", 1, 8, kFloat},
    {"u2", "uint2", 1, 2, kUnsigned},
    {"i2", "int2", 1, 2, kSigned},
};

const Info &Get(DType t) {
  return kInfo[static_cast<int>(t) < kNumDTypes ? static_cast<int>(t) : 0];
}

} // namespace

int ByteSize(DType t) {
  return Get(t).bytes;
}
int BitWidth(DType t) {
  return Get(t).bits;
}
bool IsFloat(DType t) {
  return Get(t).cls == kFloat;
}
bool IsSignedInt(DType t) {
  return Get(t).cls == kSigned;
}
bool IsUnsignedInt(DType t) {
  return Get(t).cls == kUnsigned;
}
bool IsComplex(DType t) {
  return Get(t).cls == kComplex;
}

int64_t IntMin(DType t) {
  if (!IsSignedInt(t))
    return 0;
  return BitWidth(t) == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (BitWidth(t) - 1));
}

int64_t IntMax(DType t) {
  if (t == DType::Bool)
    return 1;
  const int bits = BitWidth(t) - (IsSignedInt(t) ? 1 : 0);
  return bits >= 64 ? -1 : bits == 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

std::string_view Name(DType t) {
  return Get(t).name;
}
std::string_view OnnxName(DType t) {
  return Get(t).onnx;
}

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kInfo[i].name == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

} // namespace npuc
