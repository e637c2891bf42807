// Encoder and decoder: the words are what docs/npu-isa.md says, random commands come back equal, and every other word
// sequence is refused.
#include <gtest/gtest.h>

#include "backend/isa/isa.h"
#include "compiler/support/diagnostic.h"
#include "test/isa/random_command.h"

namespace npuc::isa {
namespace {

Command CommandOf(Engine e, CommandBody body) {
  Command c;
  c.engine = e;
  c.body = std::move(body);
  return c;
}

Dma SmallDma() {
  Dma d;
  d.src = NhwcView({Region::Io, 1, 0x40}, DType::I8, 1, 4, 5, 3);
  d.dst = BlockedView({Region::Sram, 0, 0x100}, DType::I8, 1, 4, 5, 3, 16);
  d.dst.tail = Tail::Fill;
  d.dst.zero = -7;
  return d;
}

Stream Ended(Command c) {
  return {std::move(c), Command()};
}

std::string Refusal(const std::vector<uint32_t> &words) {
  const auto s = Decode(words);
  if (s.ok())
    return "accepted";
  EXPECT_EQ(ErrorCode(s.status()), "E0604");
  return std::string(Message(s.status()));
}
testing::AssertionResult Has(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}

TEST(Encode, WordsOfADma) {
  Command c = CommandOf(Engine::ST, SmallDma());
  c.layer = 9;
  c.wait = {1, 0, 2, 3};
  std::vector<uint32_t> w;
  Encode(c, &w);
  // opcode 1, engine 1, 26 words: 6 header, 1 mask, 9 for src, 10 for dst with its zero.
  const std::vector<uint32_t> expected = {
      1 | 1 << 8 | 26u << 16,
      9,
      1,
      0,
      2,
      3,
      0b11, // src, dst
      3 | 3 << 8 | 1u << 16,
      0x40,
      0 | 3u << 16,
      4 | 2u << 16, // i8 in io1; n-1, h-1; w-1, c-1
      2 | 0u << 16,
      60,
      60,
      15,
      3, // c_block-1, c0; strides n, c1, h, w
      3 | 2 << 8 | 1 << 12 | 1 << 14,
      0x100,
      0 | 3u << 16,
      4 | 2u << 16,
      15,
      320,
      320,
      80,
      16,
      static_cast<uint32_t>(-7),
  };
  EXPECT_EQ(w, expected);
  EXPECT_EQ(EncodedWords(c), 26);
  EXPECT_EQ(*Decode(Encode(Ended(c))), Ended(c));
}

TEST(Encode, SmallFieldsShareWords) {
  Pool p;
  p.kind = PoolKind::Average;
  p.kernel_h = 3;
  p.kernel_w = 5;
  p.count_include_pad = true;
  std::vector<uint32_t> w;
  Encode(CommandOf(Engine::VPU, p), &w);
  // kind (field 0), kernel_h (5), kernel_w (6), count_include_pad (15); 8 + 16 bits, then 16 + 8.
  EXPECT_EQ(std::vector<uint32_t>(w.begin() + 6, w.end()),
            (std::vector<uint32_t>{1u << 0 | 1u << 5 | 1u << 6 | 1u << 15, 1 | 3 << 8, 5 | 1 << 16}));
}

TEST(Encode, EndIsAHeader) {
  EXPECT_EQ(Encode(Stream{Command()}), (std::vector<uint32_t>{6u << 16, 0, 0, 0, 0, 0}));
}

TEST(Encode, WideViewsRoundTrip) {
  Dma d = SmallDma();
  d.src.address.offset = int64_t{5} << 32;
  d.dst.stride_n = -(int64_t{1} << 40);
  d.dst.c = 70000;
  const Command c = CommandOf(Engine::LD, d);
  EXPECT_EQ(EncodedWords(c), 6 + 1 + 17 + 18);
  EXPECT_EQ(*Decode(Encode(Ended(c))), Ended(c));
}

TEST(EncodeDeathTest, SymbolicBuffersAreNeverEncoded) {
  Dma d = SmallDma();
  d.src.address = {Region::Buffer, 3, 0};
  const Command c = CommandOf(Engine::LD, d);
  EXPECT_EQ(EncodedWords(c), 26); // but counted
  std::vector<uint32_t> w;
  EXPECT_DEATH(Encode(c, &w), "symbolic buffer");
}

TEST(Coding, RandomCommandsComeBackEqual) {
  RandomFields random(1);
  for (int i = 0; i < 3000; ++i) {
    const Command c = random.Next(1 + i % (std::variant_size_v<CommandBody> - 1));
    std::vector<uint32_t> w = Encode(Ended(c));
    EXPECT_EQ(EncodedWords(c) + 6, static_cast<int64_t>(w.size()));
    const auto back = Decode(w);
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << Disassemble(c);
    ASSERT_EQ(*back, Ended(c)) << Disassemble(c);
    EXPECT_EQ(Encode(*back), w);
  }
}

// Whatever one bit does to a command: it is refused, or it is another command that encodes to exactly these bits.
TEST(Coding, EveryFlippedBitIsRefusedOrMeansSomethingElse) {
  RandomFields random(2);
  int refused = 0, other = 0;
  for (int i = 0; i < 60; ++i) {
    const Command c = random.Next(1 + i % (std::variant_size_v<CommandBody> - 1));
    const std::vector<uint32_t> w = Encode(Ended(c));
    for (size_t k = 0; k < w.size() * 32; ++k) {
      std::vector<uint32_t> m = w;
      m[k / 32] ^= 1u << k % 32;
      const auto back = Decode(m);
      if (!back.ok()) {
        EXPECT_EQ(ErrorCode(back.status()), "E0604");
        ++refused;
        continue;
      }
      ++other;
      ASSERT_EQ(Encode(*back), m) << "bit " << k << " of " << Disassemble(c);
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(other, 1000);
}

TEST(Coding, EveryCutIsRefused) {
  RandomFields random(3);
  for (int i = 0; i < 40; ++i) {
    std::vector<uint32_t> w = Encode(Ended(random.Next(1 + i % (std::variant_size_v<CommandBody> - 1))));
    while (!w.empty()) {
      w.pop_back();
      EXPECT_NE(Refusal(w), "accepted");
    }
  }
}

TEST(Decode, NamesTheFault) {
  const std::vector<uint32_t> good = Encode(Ended(CommandOf(Engine::LD, SmallDma())));
  auto with = [&](size_t at, uint32_t word) {
    std::vector<uint32_t> w = good;
    w[at] = word;
    return Refusal(w);
  };
  EXPECT_TRUE(Has(with(0, 99 | 26u << 16), "unknown opcode 99"));
  EXPECT_TRUE(Has(with(0, 1 | 7 << 8 | 26u << 16), "engine 7, 0 to 3 exist"));
  EXPECT_TRUE(Has(with(0, 1 | 2 << 8 | 26u << 16), "DMA on engine MXU, which cannot run it"));
  EXPECT_TRUE(Has(with(0, 1 | 5u << 16), "5 words, 6 is the least"));
  EXPECT_TRUE(Has(with(0, 1 | 60u << 16), "is cut off: 32 of 60 words"));
  EXPECT_TRUE(Has(with(0, 1 | 25u << 16), "field dst is cut off"));
  EXPECT_TRUE(Has(with(6, 0b11 | 1 << 6), "reserved bits 0x40 of a field mask"));
  EXPECT_TRUE(Has(with(7, good[7] | 0x8000), "field src has reserved bit 0x8000 set"));
  EXPECT_TRUE(Has(with(7, (good[7] & ~0xffu) | 77), "field src has value 77, 0 to 26 are allowed"));
  EXPECT_TRUE(Has(with(7, (good[7] & ~0xf00u) | 4 << 8), "field src names region 4"));
  EXPECT_TRUE(Has(with(7, (good[7] & ~0xf00u) | 2 << 8), "a region number, which only io has"));
  EXPECT_TRUE(Has(with(25, 0), "field dst spells out its zero"));
  EXPECT_TRUE(Has(Refusal(std::vector<uint32_t>(good.begin(), good.begin() + 26)), "does not end in END"));
  std::vector<uint32_t> longer = good;
  longer.insert(longer.begin() + 26, 0);
  longer[0] += 1 << 16;
  EXPECT_TRUE(Has(Refusal(longer), "has 27 words, its fields take 26"));
  std::vector<uint32_t> after = good;
  after.insert(after.end(), good.begin(), good.end());
  EXPECT_TRUE(Has(Refusal(after), "follows END"));

  Pool p;
  p.kernel_h = 3;
  p.count_include_pad = true;
  std::vector<uint32_t> pool = Encode(Ended(CommandOf(Engine::VPU, p)));
  ASSERT_EQ(pool[7], 3u | 1u << 16);
  pool[7] |= 1u << 24;
  EXPECT_TRUE(Has(Refusal(pool), "reserved bits"));
  pool[7] = 3 | 2u << 16;
  EXPECT_TRUE(Has(Refusal(pool), "field count_include_pad is 2, a flag is 0 or 1"));
  pool[7] = 1 | 1u << 16;
  EXPECT_TRUE(Has(Refusal(pool), "field kernel_h is encoded though it has its default value"));
}

TEST(Decode, OutputStagesHaveOneToEightOperations) {
  Conv c;
  c.stage.resize(8);
  std::vector<uint32_t> w = Encode(Ended(CommandOf(Engine::MXU, c)));
  EXPECT_TRUE(Decode(w).ok());
  ASSERT_EQ(w[7], 8u);
  w[7] = 9;
  EXPECT_TRUE(Has(Refusal(w), "9 micro-operations, 1 to 8 are allowed"));
  w[7] = 0;
  EXPECT_TRUE(Has(Refusal(w), "0 micro-operations"));
}

} // namespace
} // namespace npuc::isa
