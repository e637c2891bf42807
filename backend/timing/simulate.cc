// Event simulation of the four queues with processor sharing of SRAM and DDR.
//
// A running command holds up to three pieces of work: compute (a fixed span from its start), SRAM demand and DDR
// demand. The k commands that still have demand on a resource retire floor(t / k) units each in t units of time; the
// quotient is taken between changes of the set of sharers, so a resource's state changes only when a command joins or
// leaves it. At most one command an engine runs, so every event looks at four at most: linear in the number of
// commands.
//
// A transfer's latency starts before the command does: when its waits hold, its predecessor's latency has started and
// fewer than `outstanding` transfers of its queue are between the start of their latency and completion.
#include <algorithm>
#include <limits>

#include "backend/timing/timing.h"
#include "compiler/support/status.h"

namespace npuc::timing {

using isa::kNumEngines;

namespace {

constexpr Units kNever = std::numeric_limits<Units>::max();

class Simulator {
public:
  Simulator(const isa::Stream &s, const Target &t, RegionOf region_of) : stream_(s), t_(t), region_of_(region_of) {
    out_.commands.resize(s.size());
    for (size_t i = 0; i < s.size(); ++i)
      if (isa::OpcodeOf(s[i]) != isa::Opcode::End)
        queue_[static_cast<int>(s[i].engine)].push_back(i);
    for (int e : {0, 1})
      latency_start_[e].resize(queue_[e].size());
  }

  Timeline Run() {
    Units now = 0;
    for (;;) {
      Progress(now);
      now = NextEvent();
      if (now == kNever)
        break;
      for (Resource *r : {&sram_, &ddr_})
        if (r->next == now)
          Advance(*r, now);
    }
    for (int e = 0; e < kNumEngines; ++e)
      NPUC_CHECK(done_[e] == queue_[e].size(), "engine {} is stuck at its command {}",
                 isa::Name(static_cast<isa::Engine>(e)), done_[e]);
    for (size_t i = 0; i < stream_.size(); ++i)
      if (isa::OpcodeOf(stream_[i]) == isa::Opcode::End)
        out_.commands[i] = {0, out_.total, Bound::Issue};
    return std::move(out_);
  }

private:
  struct Running {
    bool active = false;
    Units start = 0, compute_end = 0;
    Units left[2] = {0, 0};   // demand on SRAM, DDR
    Units served[2] = {0, 0}; // when it was met
    Bound compute_bound = Bound::Issue;
  };
  struct Resource {
    int index; // into Running::left
    int sharers = 0;
    Units since = 0;     // of the current set
    Units next = kNever; // when the first of them is served
  };

  bool WaitsHold(size_t command) const {
    for (int e = 0; e < kNumEngines; ++e)
      if (done_[e] < stream_[command].wait[e])
        return false;
    return true;
  }

  // All that happens at `now`: completions, then starts, in engine order, until nothing more does.
  void Progress(Units now) {
    for (bool changed = true; changed;) {
      changed = false;
      for (int e = 0; e < kNumEngines; ++e) {
        Running &r = running_[e];
        if (!r.active || r.compute_end > now || r.left[0] || r.left[1])
          continue;
        r.active = false;
        Complete(e, now);
        changed = true;
      }
      for (int e = 0; e < kNumEngines; ++e) {
        if (e < 2)
          StartLatencies(e, now);
        if (running_[e].active || done_[e] == queue_[e].size() || !WaitsHold(queue_[e][done_[e]]))
          continue;
        Start(e, now);
        changed = true;
      }
    }
  }

  void StartLatencies(int e, Units now) {
    const size_t limit = std::min(queue_[e].size(), done_[e] + static_cast<size_t>(t_.dma.outstanding));
    for (size_t &p = latency_next_[e]; p < limit && WaitsHold(queue_[e][p]); ++p)
      latency_start_[e][p] = now;
  }

  void Start(int e, Units now) {
    const size_t i = queue_[e][done_[e]];
    const Cost c = CommandCost(stream_[i], t_, region_of_);
    Running &r = running_[e];
    r = Running();
    r.active = true;
    r.start = now;
    r.compute_bound = c.compute_bound;
    Units begin = now;
    if (c.latency) {
      const Units ready = latency_start_[e][done_[e]] + c.latency;
      if (ready > now) {
        begin = ready;
        // The rest of the latency is the greater part of what is left to do.
        if (ready - now >= c.compute)
          r.compute_bound = Bound::Latency;
      }
    }
    r.compute_end = begin + c.compute;
    r.served[0] = r.served[1] = now;
    Join(sram_, r, c.sram, now);
    Join(ddr_, r, c.ddr, now);
    out_.sram_bytes += c.sram_bytes;
    out_.ddr_read_bytes += c.ddr_read_bytes;
    out_.ddr_write_bytes += c.ddr_write_bytes;
    out_.stream_bytes += c.stream_bytes;
    out_.macs += c.macs;
  }

  void Complete(int e, Units now) {
    const Running &r = running_[e];
    CommandTime &time = out_.commands[queue_[e][done_[e]]];
    time.start = r.start;
    time.end = now;
    time.bound = r.compute_end >= std::max(r.served[0], r.served[1]) ? r.compute_bound
                 : r.served[1] >= r.served[0]                        ? Bound::Ddr
                                                                     : Bound::Sram;
    out_.busy[e] += now - r.start;
    out_.total = std::max(out_.total, now);
    ++done_[e];
  }

  // Gives the sharers what they got since the set last changed; those that are done leave.
  void Advance(Resource &r, Units now) {
    if (r.sharers) {
      const Units each = (now - r.since) / r.sharers;
      for (Running &c : running_) {
        Units &left = c.left[r.index];
        if (!c.active || !left)
          continue;
        left -= each;
        if (left == 0) {
          c.served[r.index] = now;
          --r.sharers;
        }
      }
    }
    r.since = now;
    Predict(r);
  }
  void Predict(Resource &r) {
    r.next = kNever;
    if (!r.sharers)
      return;
    Units least = kNever;
    for (const Running &c : running_)
      if (c.active && c.left[r.index])
        least = std::min(least, c.left[r.index]);
    r.next = r.since + least * r.sharers;
  }
  void Join(Resource &r, Running &c, Units demand, Units now) {
    if (!demand)
      return;
    Advance(r, now); // the newcomer has no demand yet
    c.left[r.index] = demand;
    ++r.sharers;
    Predict(r);
  }

  Units NextEvent() const {
    Units next = std::min(sram_.next, ddr_.next);
    for (const Running &r : running_)
      if (r.active && !r.left[0] && !r.left[1])
        next = std::min(next, r.compute_end);
    return next;
  }

  const isa::Stream &stream_;
  const Target &t_;
  RegionOf region_of_;
  Timeline out_;
  std::array<std::vector<size_t>, kNumEngines> queue_;
  std::array<size_t, kNumEngines> done_{};
  std::array<Running, kNumEngines> running_;
  std::array<std::vector<Units>, 2> latency_start_; // LD, ST
  std::array<size_t, 2> latency_next_{};
  Resource sram_{0}, ddr_{1};
};

} // namespace

Timeline Simulate(const isa::Stream &s, const Target &t, RegionOf region_of) {
  return Simulator(s, t, region_of).Run();
}

Timeline Simulate(const isa::Stream &s, const Target &t) {
  return Simulate(s, t, [](const isa::Address &a) {
    NPUC_CHECK(a.region != isa::Region::Buffer, "a symbolic buffer is priced without its space");
    return a.region;
  });
}

} // namespace npuc::timing
