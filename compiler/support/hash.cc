#include "compiler/support/hash.h"

#include "compiler/support/status.h"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

namespace {

alignas(16) constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The compression function over whole blocks of 64 bytes.
void PortableBlocks(uint32_t *state, const uint8_t *p, size_t blocks) {
  for (; blocks > 0; --blocks, p += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
      w[i] = uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
             h = state[7];
    for (int i = 0; i < 64; ++i) {
      const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                          kRoundConstants[i] + w[i];
      const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t add[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i)
      state[i] += add[i];
  }
}

#if defined(__x86_64__)
// The same by the SHA extensions: two registers hold ABEF and CDGH, an instruction does two rounds.
__attribute__((target("sha,sse4.1,ssse3"))) void ExtensionBlocks(uint32_t *state, const uint8_t *p, size_t blocks) {
  auto *const at = reinterpret_cast<__m128i *>(state);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(at), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(at + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (; blocks > 0; --blocks, p += 64) {
    const __m128i abef0 = abef, cdgh0 = cdgh;
    __m128i w[4];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i &now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p) + i), big_endian);
      } else {
        const __m128i last = w[(i + 3) % 4];
        now = _mm_sha256msg1_epu32(now, w[(i + 1) % 4]);
        now = _mm_add_epi32(now, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
        now = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i x = _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i *>(kRoundConstants) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, x);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(x, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef0);
    cdgh = _mm_add_epi32(cdgh, cdgh0);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(at, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(at + 1, _mm_alignr_epi8(dchg, feba, 8));
}

bool HasExtension() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3) &&
         __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}
#endif

void Blocks(uint32_t *state, const uint8_t *p, size_t blocks, bool portable) {
#if defined(__x86_64__)
  static const bool extension = HasExtension();
  if (extension && !portable)
    return ExtensionBlocks(state, p, blocks);
#endif
  (void)portable;
  PortableBlocks(state, p, blocks);
}

} // namespace

Sha256Stream::Sha256Stream(bool portable)
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      portable_(portable) {}

void Sha256Stream::Update(std::span<const uint8_t> data) {
  const size_t have = size_ % 64;
  size_ += data.size();
  if (have + data.size() < 64) {
    std::copy(data.begin(), data.end(), rest_.begin() + have);
    return;
  }
  if (have) {
    std::copy_n(data.begin(), 64 - have, rest_.begin() + have);
    Blocks(state_.data(), rest_.data(), 1, portable_);
    data = data.subspan(64 - have);
  }
  Blocks(state_.data(), data.data(), data.size() / 64, portable_);
  data = data.subspan(data.size() / 64 * 64);
  std::copy(data.begin(), data.end(), rest_.begin());
}

Sha256Digest Sha256Stream::Digest() const {
  Sha256Stream end = *this;
  const uint64_t bits = size_ * 8;
  uint8_t padding[72] = {0x80};
  const size_t zeros = (119 - size_ % 64) % 64; // then eight bytes are left of the last block
  for (int i = 0; i < 8; ++i)
    padding[1 + zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  end.Update(std::span(padding, 9 + zeros));
  Sha256Digest r;
  for (size_t i = 0; i < r.size(); ++i)
    r[i] = static_cast<uint8_t>(end.state_[i / 4] >> (24 - 8 * (i % 4)));
  return r;
}

Sha256Digest Sha256(std::span<const uint8_t> data) {
  Sha256Stream s;
  s.Update(data);
  return s.Digest();
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
