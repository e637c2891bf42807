// Words -> commands -> words and text: what decodes encodes to the same words and assembles from its listing; the
// verifier never crashes, and what it passes can be timed.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "backend/isa/isa.h"
#include "backend/timing/timing.h"
#include "backend/verify/verify.h"

using namespace npuc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<uint32_t> words(size / 4);
  if (size >= 4)
    std::memcpy(words.data(), data, words.size() * 4);
  const auto s = isa::Decode(words);
  if (!s.ok())
    return 0;
  if (isa::Encode(*s) != words)
    std::abort();
  for (const isa::Command &c : *s) {
    const auto back = isa::Assemble(isa::Disassemble(c));
    std::vector<uint32_t> once, again;
    isa::Encode(c, &once);
    if (!back.ok())
      std::abort();
    isa::Encode(*back, &again);
    // Listings print a NaN without its payload.
    if (once.size() != again.size())
      std::abort();
  }
  static const Target target = *Target::FromPreset("edge-2t");
  verify::MemorySizes sizes;
  sizes.const_bytes = sizes.arena_bytes = 1 << 20;
  sizes.sram_bytes = target.sram.bytes;
  sizes.io_bytes = {4096, 4096};
  sizes.num_inputs = 1;
  if (verify::VerifyStream(*s, target, sizes).empty())
    (void)timing::Simulate(*s, target);
  return 0;
}
