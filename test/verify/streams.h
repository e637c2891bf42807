// Streams for tests: random copies and elementwise commands on small memories, and brute-force truths about them.
#pragma once

#include <random>
#include <set>

#include "backend/isa/isa.h"
#include "backend/verify/hazards.h"

namespace npuc::verify {

// A view of at most 300 bytes somewhere in the first 400 of the region, nested (never aliasing itself); often a channel
// slice with many runs.
inline isa::View RandomView(std::mt19937 &rng, isa::Region region) {
  isa::View v;
  v.dtype = DType::I8;
  v.address = {region, 0, static_cast<int64_t>(rng() % 100)};
  v.c_block = 1 + rng() % 4;
  v.c = 1 + rng() % v.c_block;
  v.c0 = rng() % (v.c_block - v.c + 1);
  v.tail = rng() % 4 == 0 ? isa::Tail::Fill : isa::Tail::Keep;
  v.w = 1 + rng() % 40;
  v.stride_w = v.c_block + static_cast<int64_t>(rng() % 3);
  v.h = 1 + rng() % 2;
  v.stride_h = v.stride_w * v.w + static_cast<int64_t>(rng() % 10);
  return v;
}

// Not executable commands (dims differ), but with byte sets; waits zero.
inline isa::Stream RandomStream(std::mt19937 &rng, int commands) {
  isa::Stream s;
  for (int i = 0; i < commands; ++i) {
    isa::Command c;
    switch (rng() % 3) {
    case 0: {
      isa::Dma d;
      d.src = RandomView(rng, rng() % 2 ? isa::Region::Arena : isa::Region::Const);
      d.dst = RandomView(rng, isa::Region::Sram);
      c.engine = isa::Engine::LD;
      c.body = d;
      break;
    }
    case 1: {
      isa::Dma d;
      d.src = RandomView(rng, isa::Region::Sram);
      d.dst = RandomView(rng, isa::Region::Arena);
      c.engine = isa::Engine::ST;
      c.body = d;
      break;
    }
    default: {
      isa::Elem e;
      e.in[0] = RandomView(rng, isa::Region::Sram);
      e.out = RandomView(rng, isa::Region::Sram);
      c.engine = isa::Engine::VPU;
      c.body = e;
    }
    }
    s.push_back(std::move(c));
  }
  return s;
}

struct ByteSets {
  std::set<std::pair<int, int64_t>> reads, writes;
};
inline ByteSets BytesOf(const isa::Command &c) {
  ByteSets out;
  isa::ForEachAccess(c, [&](const isa::Access &a) {
    for (const isa::ByteBox &b : ByteSetOf(a))
      b.ForEachRun([&](int64_t lo, int64_t hi) {
        for (int64_t x = lo; x < hi; ++x)
          (a.write ? out.writes : out.reads).insert({static_cast<int>(a.address.region), x});
      });
  });
  return out;
}
inline bool Conflict(const ByteSets &a, const ByteSets &b) {
  auto meet = [](const auto &x, const auto &y) {
    for (const auto &e : x)
      if (y.contains(e))
        return true;
    return false;
  };
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

using ConflictMatrix = std::vector<std::vector<bool>>;
inline ConflictMatrix Conflicts(const isa::Stream &s) {
  std::vector<ByteSets> bytes;
  for (const isa::Command &c : s)
    bytes.push_back(BytesOf(c));
  ConflictMatrix m(s.size(), std::vector<bool>(s.size()));
  for (size_t i = 0; i < s.size(); ++i)
    for (size_t j = i + 1; j < s.size(); ++j)
      m[i][j] = Conflict(bytes[i], bytes[j]);
  return m;
}

// Pairs (i, j), i < j, on different engines, that conflict but that waits and queue order leave unordered. Commands
// wait for earlier ones only.
inline std::vector<std::pair<size_t, size_t>> UnorderedConflicts(const isa::Stream &s, const ConflictMatrix &conflict) {
  const size_t n = s.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n)); // before[j][i]: i completes before j starts
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t j = 0; j < n; ++j) {
    std::array<uint32_t, 4> count{};
    std::optional<size_t> previous;
    auto add = [&](size_t i) {
      before[j][i] = true;
      for (size_t k = 0; k < i; ++k)
        if (before[i][k])
          before[j][k] = true;
    };
    for (size_t i = 0; i < j; ++i) {
      const int e = static_cast<int>(s[i].engine);
      if (++count[e] == s[j].wait[e])
        add(i);
      if (s[i].engine == s[j].engine)
        previous = i;
    }
    if (previous)
      add(*previous);
    for (size_t i = 0; i < j; ++i)
      if (s[i].engine != s[j].engine && !before[j][i] && conflict[i][j])
        out.push_back({i, j});
  }
  return out;
}

} // namespace npuc::verify
