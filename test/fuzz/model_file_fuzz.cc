// Bytes -> model.bin -> verifier: reading and verifying never crash, whatever the bytes. Checksums keep a mutator out,
// so they are made right first.
#include <cstdint>
#include <cstring>
#include <string>

#include "backend/container/format.h"
#include "backend/container/model_file.h"
#include "backend/verify/verify.h"
#include "compiler/support/hash.h"

using namespace npuc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string file(reinterpret_cast<const char *>(data), size);
  container::Header h;
  if (size >= sizeof h) {
    std::memcpy(&h, file.data(), sizeof h);
    h.magic = container::kMagic;
    h.major = container::kContainerMajor;
    h.file_bytes = size;
    const size_t front = sizeof h + h.num_sections * sizeof(container::Section);
    if (h.num_sections <= container::kMaxSections && front <= size) {
      for (uint32_t i = 0; i < h.num_sections; ++i) {
        container::Section s;
        char *at = file.data() + sizeof h + i * sizeof s;
        std::memcpy(&s, at, sizeof s);
        if (s.offset > size || s.bytes > size - s.offset)
          continue;
        s.checksum = Xxh3(file.data() + s.offset, s.bytes);
        if (s.kind == static_cast<uint32_t>(container::SectionKind::Target))
          if (const size_t zero = file.find('\0', s.offset); zero < s.offset + s.bytes)
            h.target_sha256 = Sha256(std::string_view(file).substr(zero + 1, s.offset + s.bytes - zero - 1));
        std::memcpy(at, &s, sizeof s);
      }
      h.checksum = 0;
      std::memcpy(file.data(), &h, sizeof h);
      h.checksum = Xxh3(file.data(), front);
    }
    std::memcpy(file.data(), &h, sizeof h);
  }
  const auto m = container::ReadModelFile(MappedFile::FromString(std::move(file)));
  if (m.ok())
    (void)verify::VerifyModel(*m);
  return 0;
}
