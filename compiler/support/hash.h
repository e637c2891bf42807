// Checksums: XXH3 with 64 bits for speed, SHA-256 for identity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace npuc {

// XXH3 of `size` bytes, 64 bits, seed 0 unless given.
uint64_t Xxh3(const void *data, size_t size, uint64_t seed = 0);
inline uint64_t Xxh3(std::string_view s) {
  return Xxh3(s.data(), s.size());
}

// The same over pieces.
class Xxh3Stream {
public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(Xxh3Stream &&) noexcept;
  Xxh3Stream &operator=(Xxh3Stream &&) noexcept;
  void Update(const void *data, size_t size);
  void Update(std::string_view s) { Update(s.data(), s.size()); }
  // Of all pieces so far; may be asked several times.
  uint64_t Digest() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

using Sha256Digest = std::array<uint8_t, 32>;

// SHA-256 (FIPS 180-4) over pieces. Takes the processor's instructions for it where it has them, unless `portable`.
class Sha256Stream {
public:
  explicit Sha256Stream(bool portable = false);
  void Update(std::span<const uint8_t> data);
  Sha256Digest Digest() const; // of all pieces so far; may be asked several times

private:
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> rest_{}; // bytes of an unfinished block
  uint64_t size_ = 0;
  bool portable_;
};
Sha256Digest Sha256(std::span<const uint8_t> data);
Sha256Digest Sha256(std::string_view s);
// Lower-case hex of bytes, two digits each.
std::string Hex(std::span<const uint8_t> bytes);
// 16 lower-case hex digits.
std::string Hex(uint64_t value);
inline std::string Sha256Hex(std::string_view s) {
  return Hex(std::span<const uint8_t>(Sha256(s)));
}

// Mixes a value into a hash; not commutative.
constexpr uint64_t HashCombine(uint64_t h, uint64_t value) {
  h ^= value + 0x9e3779b97f4a7c15u + (h << 12) + (h >> 4);
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 29;
}

} // namespace npuc
