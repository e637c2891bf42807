#include "compiler/support/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace npuc {
namespace {

TEST(Hash, Xxh3KnownValues) {
  // From the reference implementation's documentation and xxhsum -H3.
  EXPECT_EQ(Xxh3(""), 0x2d06800538d394c2u);
  EXPECT_EQ(Hex(Xxh3("")), "2d06800538d394c2");
  EXPECT_NE(Xxh3("a"), Xxh3("b"));
  EXPECT_NE(Xxh3("a", 1, 0), Xxh3("a", 1, 7));
}

TEST(Hash, PiecesHashAsTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += std::to_string(i * 7919);
  for (size_t piece : {1, 13, 256, 1000, 100000}) {
    Xxh3Stream stream;
    for (size_t at = 0; at < text.size(); at += piece)
      stream.Update(std::string_view(text).substr(at, piece));
    EXPECT_EQ(stream.Digest(), Xxh3(text));
    EXPECT_EQ(stream.Digest(), Xxh3(text)) << "asking twice";
  }
}

TEST(Hash, Sha256KnownValues) { // FIPS 180-2
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256InPiecesAndWithoutExtensions) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += static_cast<char>(i * 37 ^ i >> 3);
  const auto bytes = std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  for (size_t size : {0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 300}) { // around the ends of blocks
    Sha256Stream portable(/*portable=*/true);
    portable.Update(bytes.first(size));
    for (size_t piece : {1, 7, 64, 100}) {
      Sha256Stream stream;
      for (size_t at = 0; at < size; at += piece)
        stream.Update(bytes.subspan(at, std::min(piece, size - at)));
      EXPECT_EQ(Hex(std::span<const uint8_t>(stream.Digest())), Hex(std::span<const uint8_t>(portable.Digest())));
    }
  }
  Sha256Stream fips(/*portable=*/true);
  const std::string million(1000000, 'a');
  fips.Update(std::span(reinterpret_cast<const uint8_t *>(million.data()), million.size()));
  EXPECT_EQ(Hex(std::span<const uint8_t>(fips.Digest())),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256BeyondHalfAGigabyte) { // its length in bits takes more than 32 of them
  const std::vector<uint8_t> zeros(1 << 20);
  Sha256Stream stream;
  for (int i = 0; i < 513; ++i)
    stream.Update(zeros);
  // head -c 513M /dev/zero | sha256sum
  EXPECT_EQ(Hex(std::span<const uint8_t>(stream.Digest())),
            "a3e2acbb469e4e59dde406f912e754c933c1ac0fb0092a3634d61d5073309c0c");
}

TEST(Hash, CombineDependsOnOrder) {
  EXPECT_NE(HashCombine(HashCombine(0, 1), 2), HashCombine(HashCombine(0, 2), 1));
  EXPECT_NE(HashCombine(0, 0), 0u);
}

} // namespace
} // namespace npuc
