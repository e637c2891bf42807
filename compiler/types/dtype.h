// Element types. The numbering is ONNX's TensorProto.DataType, so importing a code is a cast after a range check.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace npuc {

enum class DType : uint8_t {
  Undefined = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,
  C128 = 15,
  BF16 = 16,
  F8E4M3FN = 17,
  F8E4M3FNUZ = 18,
  F8E5M2 = 19,
  F8E5M2FNUZ = 20,
  U4 = 21,
  I4 = 22,
  F4E2M1 = 23,
  F8E8M0 = 24,
  U2 = 25,
  I2 = 26,
};
inline constexpr int kNumDTypes = 27;

// Bytes of one element in memory. Sub-byte types (U4, I4, F4E2M1, U2, I2) take one byte each in a Tensor (low bits;
// signed ones sign-extended); packing exists in files and in the NPU's weight streams only. String: sizeof a handle is
// meaningless, 0.
int ByteSize(DType t);
// Bits of one element as ONNX packs it (4 for I4); 0 for String and Undefined.
int BitWidth(DType t);

bool IsFloat(DType t);       // F16, BF16, F32, F64, F8*, F4E2M1
bool IsSignedInt(DType t);   // I2, I4, I8 ... I64
bool IsUnsignedInt(DType t); // U2, U4, U8 ... U64 (not Bool)
inline bool IsInt(DType t) {
  return IsSignedInt(t) || IsUnsignedInt(t);
}
bool IsComplex(DType t);

// Least and greatest value of an integer type up to 64 bits (U64's greatest is returned as -1's bits: don't ask for
// it).
int64_t IntMin(DType t);
int64_t IntMax(DType t);

// Short names: f32 u8 i8 u16 i16 i32 i64 string bool f16 f64 u32 u64 c64 c128 bf16 f8e4m3fn ... u4 i4 f4e2m1 f8e8m0 u2
// i2.
std::string_view Name(DType t);
std::optional<DType> ParseDType(std::string_view name);
// ONNX's name as users know it: "float", "uint8", "float16", ...
std::string_view OnnxName(DType t);

} // namespace npuc
