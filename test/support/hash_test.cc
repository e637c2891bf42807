#include "compiler/support/hash.h"

#include <gtest/gtest.h>

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

TEST(Hash, CombineDependsOnOrder) {
  EXPECT_NE(HashCombine(HashCombine(0, 1), 2), HashCombine(HashCombine(0, 2), 1));
  EXPECT_NE(HashCombine(0, 0), 0u);
}

} // namespace
} // namespace npuc
