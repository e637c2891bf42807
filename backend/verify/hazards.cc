// The problem: for each command the latest earlier command of every other engine whose bytes meet its own. All pairs is
// quadratic.
//
// The way taken: per region an ordered map of byte segments, each with its last writer and, per engine, its last reader
// since. A write replaces a segment's state: whoever meets a byte later meets the new writer too, and that writer has
// been ordered after what it replaced (or reported), so older entries are implied. Boxes of many short runs (a channel
// slice of an NHWC tensor) would make thousands of segments: they are kept as boxes in a list of the segments they
// reach into, and are compared box against box (isa/byte_box.h), exactly. Such an entry goes when a solid write covers
// its segment, when an equal box replaces it, or when every engine is known to be past it.
//
// Cost: a few map operations an access, and list entries only where strided accesses interleave. Near-linear in the
// number of commands.
#include "backend/verify/hazards.h"

#include <algorithm>
#include <limits>

#include "backend/isa/isa.h"
#include "compiler/support/status.h"

namespace npuc::verify {

using isa::ByteBox;
using isa::Command;
using isa::Engine;
using isa::kNumEngines;
using isa::Region;

namespace {

constexpr int64_t kMaxSolidRuns = 32;

} // namespace

isa::ByteBoxes ByteSetOf(const isa::Access &a) {
  if (a.view) {
    if (a.write || a.view->tail == isa::Tail::Keep)
      return isa::ByteSetOf(*a.view);
    isa::View v = *a.view;
    v.tail = isa::Tail::Keep;
    return isa::ByteSetOf(v);
  }
  ByteBox b;
  b.base = a.address.offset;
  b.run = a.bytes;
  return {b};
}

class HazardTracker::Impl {
public:
  Clock Add(const Command &c, uint32_t index, const Clock &ordered) {
    engine_ = static_cast<int>(c.engine);
    now_ = index + 1;
    ordered_ = ordered;
    found_ = {};
    // Reads come before writes, so that a command's own write does not hide whom it reads from.
    isa::ForEachAccess(c, [&](const isa::Access &a) {
      if (a.address.region == Region::Const && !a.write)
        return;
      RegionMap &m = regions_[{a.address.region, a.address.index}];
      for (const ByteBox &b : ByteSetOf(a)) {
        if (b.NumRuns() <= kMaxSolidRuns)
          b.ForEachRun([&](int64_t lo, int64_t hi) { Solid(m, lo, hi, a.write); });
        else
          Sparse(m, b, a.write);
      }
    });
    return found_;
  }

  void SetKnown(Engine e, const Clock &known) {
    known_[static_cast<int>(e)] = known;
    for (int f = 0; f < kNumEngines; ++f) {
      passed_[f] = std::numeric_limits<uint32_t>::max();
      for (int g = 0; g < kNumEngines; ++g)
        if (g != f)
          passed_[f] = std::min(passed_[f], known_[g][f]);
    }
  }

private:
  // Entries are 1 + the command's number in its queue; 0: none.
  struct Segment {
    int64_t hi = 0;
    uint32_t writer = 0;
    int8_t writer_engine = 0;
    std::array<uint32_t, kNumEngines> reader{};
    std::vector<uint32_t> boxes; // into boxes_
    bool SameState(const Segment &o) const {
      return writer == o.writer && (writer == 0 || writer_engine == o.writer_engine) && reader == o.reader &&
             boxes == o.boxes;
    }
  };
  using RegionMap = std::map<int64_t, Segment>; // by first byte; segments don't overlap
  struct Box {
    ByteBox box;
    uint32_t entry;
    int8_t engine;
    bool write;
    uint64_t query = 0; // the query that compared it last: a box is met in several segments
  };

  void Conflict(int engine, uint32_t entry) {
    if (engine != engine_ && entry > ordered_[engine])
      found_[engine] = std::max(found_[engine], entry);
  }
  bool Matters(int engine, uint32_t entry) const {
    return engine != engine_ && entry > ordered_[engine] && entry > found_[engine];
  }

  // A segment boundary at `at`, if a segment spans it.
  static void SplitAt(RegionMap &m, int64_t at) {
    auto it = m.lower_bound(at);
    if (it != m.end() && it->first == at)
      return;
    if (it == m.begin())
      return;
    --it;
    if (it->second.hi <= at)
      return;
    Segment right = it->second;
    it->second.hi = at;
    m.emplace(at, std::move(right));
  }
  // Calls fn on each segment of [lo, hi), after cutting at both ends and making segments of the gaps.
  template <class F> static void ForRange(RegionMap &m, int64_t lo, int64_t hi, F &&fn) {
    SplitAt(m, lo);
    SplitAt(m, hi);
    auto it = m.lower_bound(lo);
    for (int64_t at = lo; at < hi;) {
      if (it == m.end() || it->first > at) {
        Segment gap;
        gap.hi = it == m.end() ? hi : std::min(hi, it->first);
        it = m.emplace_hint(it, at, std::move(gap));
      }
      at = it->second.hi;
      fn(it);
      ++it;
    }
  }

  void CheckSegment(const Segment &s, bool write) {
    if (s.writer)
      Conflict(s.writer_engine, s.writer);
    if (write)
      for (int e = 0; e < kNumEngines; ++e)
        if (s.reader[e])
          Conflict(e, s.reader[e]);
  }
  void Prune(Segment &s) {
    std::erase_if(s.boxes, [&](uint32_t id) { return boxes_[id].entry <= passed_[boxes_[id].engine]; });
  }

  void Solid(RegionMap &m, int64_t lo, int64_t hi, bool write) {
    RegionMap::iterator first = m.end();
    bool one = true;
    ForRange(m, lo, hi, [&](RegionMap::iterator it) {
      Segment &s = it->second;
      CheckSegment(s, write);
      if (!s.boxes.empty()) {
        Prune(s);
        for (uint32_t id : s.boxes) {
          const Box &b = boxes_[id];
          if ((write || b.write) && Matters(b.engine, b.entry) && isa::Overlaps(b.box, it->first, s.hi))
            Conflict(b.engine, b.entry);
        }
      }
      if (!write) {
        s.reader[engine_] = now_;
        // Equal neighbours are one.
        if (first != m.end() && first->second.hi == it->first && first->second.SameState(s)) {
          merged_.push_back(it);
          first->second.hi = s.hi;
        } else {
          first = it;
        }
        return;
      }
      if (first == m.end())
        first = it;
      else
        one = false;
    });
    if (!write) {
      for (RegionMap::iterator it : merged_)
        m.erase(it);
      merged_.clear();
      return;
    }
    if (!one)
      m.erase(std::next(first), m.lower_bound(hi));
    Segment &s = first->second;
    s.hi = hi;
    s.writer = now_;
    s.writer_engine = static_cast<int8_t>(engine_);
    s.reader = {};
    s.boxes.clear();
  }

  void Sparse(RegionMap &m, const ByteBox &box, bool write) {
    ++query_;
    const isa::ByteRange r = box.Bounds();
    const auto id = static_cast<uint32_t>(boxes_.size());
    boxes_.push_back({box, now_, static_cast<int8_t>(engine_), write});
    ForRange(m, r.lo, r.hi, [&](RegionMap::iterator it) {
      Segment &s = it->second;
      if (!isa::Overlaps(box, it->first, s.hi))
        return;
      CheckSegment(s, write);
      if (!s.boxes.empty())
        Prune(s);
      std::erase_if(s.boxes, [&](uint32_t other) {
        Box &b = boxes_[other];
        if (b.query != query_) {
          b.query = query_;
          if ((write || b.write) && Matters(b.engine, b.entry) && isa::Overlaps(b.box, box))
            Conflict(b.engine, b.entry);
        }
        // The same bytes again: a write stands for all before it, a read for this engine's earlier reads.
        const bool same =
            b.box.base == box.base && b.box.run == box.run && b.box.num_dims == box.num_dims && b.box.dims == box.dims;
        return same && (write || (!b.write && b.engine == engine_));
      });
      s.boxes.push_back(id);
    });
  }

  std::map<std::pair<Region, uint32_t>, RegionMap> regions_;
  std::vector<Box> boxes_;
  std::vector<RegionMap::iterator> merged_;
  std::array<Clock, kNumEngines> known_{};
  Clock passed_{};
  uint64_t query_ = 0;
  // Of the command being added:
  int engine_ = 0;
  uint32_t now_ = 0;
  Clock ordered_{}, found_{};
};

HazardTracker::HazardTracker() : impl_(std::make_unique<Impl>()) {}
HazardTracker::~HazardTracker() = default;
HazardTracker::HazardTracker(HazardTracker &&) noexcept = default;
Clock HazardTracker::Add(const Command &c, uint32_t index, const Clock &ordered) {
  return impl_->Add(c, index, ordered);
}
void HazardTracker::SetKnown(Engine e, const Clock &known) {
  impl_->SetKnown(e, known);
}

Clock Clocks::Before(const Command &c) const {
  const int e = static_cast<int>(c.engine);
  Clock clock{};
  if (!after_[e].empty())
    clock = after_[e].back();
  for (int f = 0; f < kNumEngines; ++f) {
    if (f == e || !c.wait[f])
      continue;
    NPUC_CHECK(c.wait[f] <= after_[f].size(), "a wait on a later command");
    const Clock &other = after_[f][c.wait[f] - 1];
    for (int g = 0; g < kNumEngines; ++g)
      clock[g] = std::max(clock[g], other[g]);
  }
  return clock;
}

void Clocks::Append(size_t stream_index, Clock before) {
  const int e = static_cast<int>(stream_[stream_index].engine);
  queue_[e].push_back(stream_index);
  before[e] = static_cast<uint32_t>(queue_[e].size());
  after_[e].push_back(before);
}

void DeriveWaits(isa::Stream &s) {
  HazardTracker tracker;
  Clocks clocks(s);
  std::array<size_t, kNumEngines> left{};
  for (const Command &c : s)
    if (isa::OpcodeOf(c) != isa::Opcode::End)
      ++left[static_cast<int>(c.engine)];
  constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();
  for (int e = 0; e < kNumEngines; ++e)
    if (!left[e])
      tracker.SetKnown(static_cast<Engine>(e), {kAll, kAll, kAll, kAll});
  for (size_t i = 0; i < s.size(); ++i) {
    Command &c = s[i];
    c.wait = {};
    if (isa::OpcodeOf(c) == isa::Opcode::End)
      continue;
    const int e = static_cast<int>(c.engine);
    const uint32_t index = clocks.count(e);
    const Clock need = tracker.Add(c, index, clocks.Before(c));
    for (int f = 0; f < kNumEngines; ++f) {
      if (!need[f])
        continue;
      // Implied by another wait: that command completes after this one's.
      bool implied = false;
      for (int g = 0; g < kNumEngines && !implied; ++g)
        implied = g != f && need[g] && clocks.after(g, need[g] - 1)[f] >= need[f];
      if (!implied)
        c.wait[f] = need[f];
    }
    clocks.Append(i, clocks.Before(c));
    --left[e];
    tracker.SetKnown(c.engine, left[e] ? clocks.after(e, index) : Clock{kAll, kAll, kAll, kAll});
  }
}

} // namespace npuc::verify
