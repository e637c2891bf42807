#include "compiler/support/hash.h"

#include "compiler/support/status.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/SHA256.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace npuc {

uint64_t Xxh3(const void *data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

struct alignas(64) Xxh3Stream::State {
  XXH3_state_t state;
};

Xxh3Stream::Xxh3Stream() : state_(new State) {
  XXH3_64bits_reset(&state_->state);
}
Xxh3Stream::~Xxh3Stream() = default;
Xxh3Stream::Xxh3Stream(Xxh3Stream &&) noexcept = default;
Xxh3Stream &Xxh3Stream::operator=(Xxh3Stream &&) noexcept = default;

void Xxh3Stream::Update(const void *data, size_t size) {
  if (size)
    XXH3_64bits_update(&state_->state, data, size);
}

uint64_t Xxh3Stream::Digest() const {
  return XXH3_64bits_digest(&state_->state);
}

Sha256Digest Sha256(std::span<const uint8_t> data) {
  return llvm::SHA256::hash(llvm::ArrayRef<uint8_t>(data.data(), data.size()));
}

Sha256Digest Sha256(std::string_view s) {
  return Sha256(std::span(reinterpret_cast<const uint8_t *>(s.data()), s.size()));
}

std::string Hex(std::span<const uint8_t> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (uint8_t b : bytes) {
    out += digits[b >> 4];
    out += digits[b & 15];
  }
  return out;
}

std::string Hex(uint64_t value) {
  return fmt::format("{:016x}", value);
}

} // namespace npuc
