// The outer form of model.bin: header, section table. Little-endian; see docs/npu-isa.md, section "Container".
#pragma once

#include <array>
#include <cstdint>

namespace npuc::container {

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'N', 'P', 'U', '\r', '\n', 0x1a, '\n'};
inline constexpr uint16_t kContainerMajor = 1, kContainerMinor = 0;

enum class SectionKind : uint32_t {
  Target = 1,   // the target's name, a zero byte, its canonical description
  Metadata = 2, // FlatBuffers, metadata.fbs
  Streams = 3,  // encoded commands of all NPU steps
  Ir = 4,       // IR text of all host steps
  Const = 5,    // the const region
};
inline constexpr uint32_t kNumSectionKinds = 5;
inline constexpr uint32_t kSectionRequired = 1; // flag: a reader that does not know the kind must refuse the file
inline constexpr uint64_t kSectionAlign = 64;

struct Header {
  std::array<uint8_t, 8> magic = kMagic;
  uint16_t major = kContainerMajor, minor = kContainerMinor;
  uint32_t isa_version = 0;
  uint32_t num_sections = 0;
  uint32_t reserved = 0;
  uint64_t file_bytes = 0;
  uint64_t checksum = 0;                   // XXH3-64 of header and section table with this field 0
  std::array<uint8_t, 32> target_sha256{}; // of the target's description
};
static_assert(sizeof(Header) == 72);

struct Section {
  uint32_t kind = 0, flags = 0;
  uint64_t offset = 0, bytes = 0; // from the file's start, a multiple of 64
  uint64_t checksum = 0;          // XXH3-64 of its bytes
};
static_assert(sizeof(Section) == 32);

inline constexpr uint32_t kMaxSections = 256;

} // namespace npuc::container
