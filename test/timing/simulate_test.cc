// The event simulator: hand-made timelines, and random streams against a simulator that counts single units.
#include <gtest/gtest.h>

#include <random>

#include "backend/isa/isa.h"
#include "backend/timing/timing.h"

namespace npuc::timing {
namespace {

using isa::Address;
using isa::Command;
using isa::Engine;
using isa::Region;
using isa::Stream;

Target Edge2t() {
  return *Target::FromPreset("edge-2t");
}

Command Load(int64_t bytes, std::array<uint32_t, 4> wait = {}) {
  isa::Dma d;
  d.src = isa::NhwcView({Region::Const, 0, 0}, DType::I8, 1, 1, 1, bytes);
  d.dst = isa::NhwcView({Region::Sram, 0, 0}, DType::I8, 1, 1, 1, bytes);
  Command c;
  c.engine = Engine::LD;
  c.wait = wait;
  c.body = d;
  return c;
}
Command Store(int64_t bytes, std::array<uint32_t, 4> wait = {}) {
  isa::Dma d;
  d.src = isa::NhwcView({Region::Sram, 0, 0}, DType::I8, 1, 1, 1, bytes);
  d.dst = isa::NhwcView({Region::Arena, 0, 0}, DType::I8, 1, 1, 1, bytes);
  Command c;
  c.engine = Engine::ST;
  c.wait = wait;
  c.body = d;
  return c;
}
Command Vector(int64_t elements, std::array<uint32_t, 4> wait = {}) {
  isa::Elem e;
  e.fn = isa::ElemFn::Abs;
  e.in[0] = isa::NhwcView({Region::Sram, 0, 0}, DType::I8, 1, 1, 1, elements);
  e.out = isa::NhwcView({Region::Sram, 0, 65536}, DType::I8, 1, 1, 1, elements);
  Command c;
  c.engine = Engine::VPU;
  c.wait = wait;
  c.body = e;
  return c;
}
Stream Ended(std::initializer_list<Command> commands) {
  Stream s(commands);
  s.emplace_back();
  return s;
}

TEST(Simulate, Empty) {
  const Timeline t = Simulate(Stream{Command()}, Edge2t());
  EXPECT_EQ(t.total, 0);
  EXPECT_EQ(t.cycles(), 0);
}

TEST(Simulate, LatencyOfTheSecondLoadOverlapsTheFirst) {
  const Target t = Edge2t();
  const Timeline r = Simulate(Ended({Load(1280), Load(12800)}), t);
  const Units d2 = CommandCost(Load(12800), t).ddr;
  EXPECT_EQ(r.commands[0].end, 154 * 256); // latency 150, issue 4; 100 cycles of DDR meanwhile
  EXPECT_EQ(r.commands[0].bound, Bound::Latency);
  EXPECT_EQ(r.commands[1].start, 154 * 256);
  EXPECT_EQ(r.commands[1].end, 154 * 256 + d2);
  EXPECT_EQ(r.commands[1].bound, Bound::Ddr);
  EXPECT_EQ(r.total, r.commands[1].end);
  EXPECT_EQ(r.ddr_read_bytes, 1280 + 12800);
  EXPECT_EQ(r.sram_bytes, 1280 + 12800);
  EXPECT_EQ(r.busy[0], r.total);
  EXPECT_EQ(r.commands[2].end, r.total);
}

TEST(Simulate, LatencyDoesNotStartBeforeTheWaitsHold) {
  const Target t = Edge2t();
  const Timeline r = Simulate(Ended({Vector(64000), Load(64, {0, 0, 0, 1})}), t);
  EXPECT_EQ(r.commands[0].end, (4 + 1000) * 256);
  EXPECT_EQ(r.commands[1].start, 1004 * 256);
  EXPECT_EQ(r.commands[1].end, (1004 + 154) * 256);
}

TEST(Simulate, AtMostFourTransfersAreOutstanding) {
  const Target t = Edge2t();
  Stream s;
  for (int i = 0; i < 6; ++i)
    s.push_back(Load(64));
  s.emplace_back();
  const Timeline r = Simulate(s, t);
  const Units d = CommandCost(Load(64), t).ddr;
  EXPECT_EQ(r.commands[0].end, 154 * 256);
  EXPECT_EQ(r.commands[1].end, 154 * 256 + d);
  EXPECT_EQ(r.commands[3].end, 154 * 256 + 3 * d);
  // The fifth's latency starts when the first is complete, the sixth's with the second.
  EXPECT_EQ(r.commands[4].end, (154 + 154) * 256);
  EXPECT_EQ(r.commands[5].end, (154 + 154) * 256 + d);
  EXPECT_EQ(r.commands[4].bound, Bound::Latency);
}

TEST(Simulate, LoadAndStoreShareTheDdr) {
  const Target t = Edge2t();
  const Command a = Load(128000), b = Store(64000);
  const Units da = CommandCost(a, t).ddr, db = CommandCost(b, t).ddr;
  const Timeline r = Simulate(Ended({a, b}), t);
  // Equal shares until the smaller is done, then the greater alone.
  EXPECT_EQ(r.commands[1].end, 2 * db);
  EXPECT_EQ(r.commands[0].end, da + db);
  EXPECT_EQ(r.ddr_write_bytes, 64000);
  EXPECT_EQ(r.busy[1], 2 * db);
}

// Direct statement of the sharing rule, one unit of time after the other.
std::vector<CommandTime> ByUnits(const Stream &s, const Target &t) {
  struct State {
    bool active = false;
    Units compute_end = 0, left[2] = {};
  };
  std::vector<CommandTime> out(s.size());
  std::array<std::vector<size_t>, 4> queue;
  for (size_t i = 0; i + 1 < s.size(); ++i)
    queue[static_cast<int>(s[i].engine)].push_back(i);
  std::array<size_t, 4> done{};
  std::array<State, 4> run;
  std::array<std::vector<Units>, 4> latency;
  for (int e = 0; e < 4; ++e)
    latency[e].assign(queue[e].size(), -1);
  Units since[2] = {0, 0}; // units since the set of sharers changed, modulo their number
  auto sharers = [&](int r) {
    int k = 0;
    for (const State &x : run)
      k += x.active && x.left[r];
    return k;
  };
  for (Units now = 0;; ++now) {
    for (bool changed = true; changed;) {
      changed = false;
      for (int e = 0; e < 4; ++e)
        if (run[e].active && run[e].compute_end <= now && !run[e].left[0] && !run[e].left[1]) {
          run[e].active = false;
          out[queue[e][done[e]++]].end = now;
          changed = true;
        }
      auto holds = [&](size_t i) {
        for (int x = 0; x < 4; ++x)
          if (done[x] < s[i].wait[x])
            return false;
        return true;
      };
      for (int e = 0; e < 4; ++e) {
        if (e < 2)
          for (size_t p = done[e]; p < queue[e].size() && p < done[e] + t.dma.outstanding; ++p) {
            if (latency[e][p] >= 0)
              continue;
            if (!holds(queue[e][p]))
              break;
            latency[e][p] = now;
          }
        if (run[e].active || done[e] == queue[e].size() || !holds(queue[e][done[e]]))
          continue;
        const size_t i = queue[e][done[e]];
        const Cost c = CommandCost(s[i], t);
        out[i].start = now;
        run[e] = {true, std::max(now, e < 2 ? latency[e][done[e]] + c.latency : 0) + c.compute, {c.sram, c.ddr}};
        for (int r = 0; r < 2; ++r)
          if (run[e].left[r])
            since[r] = 0;
        changed = true;
      }
    }
    bool any = false;
    for (const State &x : run)
      any |= x.active;
    if (!any)
      return out;
    for (int r = 0; r < 2; ++r) {
      const int k = sharers(r);
      if (!k || ++since[r] < k)
        continue;
      since[r] = 0;
      for (State &x : run)
        if (x.active && x.left[r])
          --x.left[r];
    }
  }
}

TEST(Simulate, RandomStreamsAgreeWithCountingUnits) {
  std::mt19937 rng(9);
  Target t = Edge2t();
  t.dma.read_latency = 7;
  t.dma.write_latency = 5;
  t.dma.outstanding = 3;
  for (int round = 0; round < 12; ++round) {
    Stream s;
    std::array<uint32_t, 4> issued{};
    for (int i = 0; i < 24; ++i) {
      std::array<uint32_t, 4> wait{};
      const int kind = static_cast<int>(rng() % 3);
      const int engine = kind == 2 ? 3 : kind;
      for (int e = 0; e < 4; ++e)
        if (e != engine && issued[e] && rng() % 2)
          wait[e] = issued[e] - std::min<uint32_t>(issued[e], rng() % 3);
      const int64_t n = 1 + static_cast<int64_t>(rng() % 300);
      s.push_back(kind == 0 ? Load(n, wait) : kind == 1 ? Store(n, wait) : Vector(n * 16, wait));
      ++issued[engine];
    }
    s.emplace_back();
    const Timeline fast = Simulate(s, t);
    const std::vector<CommandTime> slow = ByUnits(s, t);
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      ASSERT_EQ(fast.commands[i].start, slow[i].start) << round << " " << i;
      ASSERT_EQ(fast.commands[i].end, slow[i].end) << round << " " << i;
    }
  }
}

TEST(SimulateDeathTest, ADeadlockIsACompilerBug) {
  EXPECT_DEATH(Simulate(Ended({Load(64, {0, 0, 0, 1}), Vector(64, {1, 0, 0, 0})}), Edge2t()), "stuck");
}

// Something quadratic would run into the test's time limit.
TEST(Simulate, ManyCommands) {
  Stream s;
  s.reserve(200001);
  for (uint32_t i = 0; i < 50000; ++i) {
    s.push_back(Load(4096, {0, 0, 0, i < 2 ? 0 : i - 2}));
    s.push_back(Vector(4096, {i + 1, i < 2 ? 0 : i - 2, 0, 0}));
    s.push_back(Store(4096, {0, 0, 0, 2 * i + 1}));
    s.push_back(Vector(1024, {i + 1, 0, 0, 0}));
  }
  s.emplace_back();
  const Timeline r = Simulate(s, Edge2t());
  EXPECT_GT(r.total, 0);
}

} // namespace
} // namespace npuc::timing
