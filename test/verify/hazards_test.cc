// Derived waits: every conflict is ordered, and no wait can be left out or lowered.
#include "backend/verify/hazards.h"

#include <gtest/gtest.h>

#include <chrono>

#include "test/verify/streams.h"

namespace npuc::verify {
namespace {

using isa::Command;
using isa::Engine;
using isa::Region;
using isa::Stream;

Command Copy(Engine e, isa::View src, isa::View dst) {
  isa::Dma d;
  d.src = src;
  d.dst = dst;
  Command c;
  c.engine = e;
  c.body = d;
  return c;
}
Command Vector(isa::View in, isa::View out) {
  isa::Elem el;
  el.in[0] = in;
  el.out = out;
  Command c;
  c.engine = Engine::VPU;
  c.body = el;
  return c;
}
isa::View At(Region r, int64_t offset, int64_t bytes = 64) {
  return isa::NhwcView({r, 0, offset}, DType::I8, 1, 1, 1, bytes);
}

TEST(DeriveWaits, LoadComputeStore) {
  Stream s = {
      Copy(Engine::LD, At(Region::Const, 0), At(Region::Sram, 0)),
      Vector(At(Region::Sram, 0), At(Region::Sram, 64)),
      Copy(Engine::ST, At(Region::Sram, 64), At(Region::Arena, 0)),
      Copy(Engine::LD, At(Region::Const, 64), At(Region::Sram, 0)),  // after VPU 0 has read
      Vector(At(Region::Sram, 0), At(Region::Sram, 64)),             // after LD 1 has loaded and ST 0 has read
      Copy(Engine::LD, At(Region::Arena, 0), At(Region::Sram, 128)), // after ST 0 has written
  };
  DeriveWaits(s);
  const std::vector<std::array<uint32_t, 4>> waits = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1},
                                                      {0, 0, 0, 1}, {2, 1, 0, 0}, {0, 1, 0, 0}};
  for (size_t i = 0; i < s.size(); ++i)
    EXPECT_EQ(s[i].wait, waits[i]) << i;
}

TEST(DeriveWaits, ImpliedWaitsAreDropped) {
  Stream s = {
      Copy(Engine::LD, At(Region::Const, 0), At(Region::Sram, 0)),
      Vector(At(Region::Sram, 0), At(Region::Sram, 64)),                     // waits LD 1
      Copy(Engine::ST, At(Region::Sram, 0, 128), At(Region::Arena, 0, 128)), // reads both: VPU 1 implies LD 1
  };
  DeriveWaits(s);
  EXPECT_EQ(s[2].wait, (std::array<uint32_t, 4>{0, 0, 0, 1}));
}

TEST(DeriveWaits, ReadersDoNotWaitForReadersNorForNeighbours) {
  const isa::View tensor = isa::NhwcView({Region::Sram, 0, 0}, DType::I8, 1, 20, 20, 32);
  Stream s = {
      Copy(Engine::LD, isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 20, 20, 16),
           tensor.Sub(0, 0, 0, 0, 1, 20, 20, 16)),
      // The other half of each pixel: 400 runs between 400 runs.
      Vector(At(Region::Sram, 65536, 6400), tensor.Sub(0, 0, 0, 16, 1, 20, 20, 16)),
      Copy(Engine::ST, tensor.Sub(0, 3, 3, 0, 1, 5, 5, 16), At(Region::Arena, 0, 400)),
      Copy(Engine::ST, tensor.Sub(0, 3, 3, 15, 1, 5, 5, 2), At(Region::Arena, 0, 50)),
      Vector(tensor, At(Region::Sram, 131072, 12800)),
  };
  DeriveWaits(s);
  EXPECT_EQ(s[1].wait, (std::array<uint32_t, 4>{0, 0, 0, 0}));
  EXPECT_EQ(s[2].wait, (std::array<uint32_t, 4>{1, 0, 0, 0}));
  EXPECT_EQ(s[3].wait, (std::array<uint32_t, 4>{0, 0, 0, 1})); // the LD is known by queue order
  EXPECT_EQ(s[4].wait, (std::array<uint32_t, 4>{1, 0, 0, 0}));
}

TEST(DeriveWaits, FilledTailsAreWrites) {
  isa::View blocked = isa::BlockedView({Region::Sram, 0, 0}, DType::I8, 1, 2, 2, 3, 16);
  Stream s = {
      Copy(Engine::LD, isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 2, 2, 3), blocked),
      Vector(At(Region::Sram, 1000, 4), At(Region::Sram, 5, 4)), // lanes 5..8 of the first pixel
  };
  DeriveWaits(s);
  EXPECT_EQ(s[1].wait[0], 0u);
  std::get<isa::Dma>(s[0].body).dst.tail = isa::Tail::Fill;
  DeriveWaits(s);
  EXPECT_EQ(s[1].wait[0], 1u);
  // A reader's tail is not touched.
  blocked.tail = isa::Tail::Fill;
  s = {Copy(Engine::ST, blocked, At(Region::Arena, 0, 12)), Vector(At(Region::Sram, 1000, 4), At(Region::Sram, 5, 4))};
  DeriveWaits(s);
  EXPECT_EQ(s[1].wait[1], 0u);
}

TEST(DeriveWaits, RandomStreamsAreOrderedByMinimalWaits) {
  std::mt19937 rng(12);
  int waits = 0;
  for (int round = 0; round < 150; ++round) {
    Stream s = RandomStream(rng, 14);
    DeriveWaits(s);
    const ConflictMatrix bytes = Conflicts(s);
    EXPECT_TRUE(UnorderedConflicts(s, bytes).empty()) << round;
    for (size_t i = 0; i < s.size(); ++i)
      for (int e = 0; e < 4; ++e) {
        if (!s[i].wait[e])
          continue;
        ++waits;
        --s[i].wait[e];
        EXPECT_FALSE(UnorderedConflicts(s, bytes).empty())
            << round << ": wait of command " << i << " on engine " << e << " can be lowered";
        ++s[i].wait[e];
      }
  }
  EXPECT_GT(waits, 500);
}

// Tiles of a network that keeps its tensors in channel slices: strided accesses everywhere.
TEST(DeriveWaits, ManyCommandsQuickly) {
  Stream s;
  const isa::View tensor = isa::NhwcView({Region::Arena, 0, 0}, DType::I8, 1, 4000, 100, 64);
  for (uint32_t t = 0; t < 30000; ++t) {
    const int64_t base = t % 3 * 16384;
    const uint32_t row = t * 5 % 3990;
    s.push_back(Copy(Engine::LD, tensor.Sub(0, row, 0, t % 4 * 16, 1, 5, 100, 16),
                     isa::NhwcView({Region::Sram, 0, base}, DType::I8, 1, 5, 100, 16)));
    s.push_back(Vector(At(Region::Sram, base, 8000), At(Region::Sram, 65536 + base, 8000)));
    s.push_back(Copy(Engine::ST, isa::NhwcView({Region::Sram, 0, 65536 + base}, DType::I8, 1, 5, 100, 16),
                     tensor.Sub(0, row, 0, (t + 1) % 4 * 16, 1, 5, 100, 16)));
  }
  const auto start = std::chrono::steady_clock::now();
  DeriveWaits(s);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("90000 commands: %.2f s\n", seconds);
  EXPECT_LT(seconds, 20);
  EXPECT_EQ(s[1].wait[0], 1u);
}

} // namespace
} // namespace npuc::verify
