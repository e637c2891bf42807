// Sums over the streams, and the timeline for pictures.
//
// SRAM in use: SRAM is looked at in 1 KiB granules; a granule is in use from a write until the last read before the
// next write that follows a read. That is what holds data which is still wanted, not what the allocator has reserved.
//
// Cost: n log n in the commands, plus the granules that they touch.
#include "backend/report/timeline.h"

#include <algorithm>

#include "backend/isa/isa.h"
#include "backend/timing/timing.h"

namespace npuc::report {
namespace {

constexpr int64_t kGranule = 1024;
constexpr int64_t kSpans = 2000; // resolution of the timeline

template <class Fn> void ForEachSegment(const emit::EmitResult &e, Fn fn) {
  size_t k = 0;
  int64_t first_cycle = 0;
  for (const auto &step : e.file.steps)
    if (const auto *npu = std::get_if<container::NpuStep>(&step)) {
      const timing::Timeline &t = e.timelines[k++];
      fn(npu->stream, t, first_cycle);
      first_cycle += t.cycles();
    }
}

// Commands of one engine by start, those without duration left out.
std::array<std::vector<size_t>, 4> Queues(const isa::Stream &s, const timing::Timeline &t) {
  std::array<std::vector<size_t>, 4> queues;
  for (size_t i = 0; i < s.size(); ++i)
    if (isa::OpcodeOf(s[i]) != isa::Opcode::End && t.commands[i].end > t.commands[i].start)
      queues[static_cast<size_t>(s[i].engine)].push_back(i);
  return queues;
}

// Bytes in use over time: changes at cycles.
void SramChanges(const isa::Stream &s, const timing::Timeline &t, int64_t first_cycle, int64_t sram_bytes,
                 std::vector<std::pair<int64_t, int64_t>> &changes) {
  struct Granule {
    timing::Units begin = -1, last_read = -1;
  };
  std::vector<Granule> granules(static_cast<size_t>((sram_bytes + kGranule - 1) / kGranule));
  auto close = [&](Granule &g) {
    if (g.begin >= 0 && g.last_read > g.begin) {
      changes.emplace_back(first_cycle + g.begin / timing::kUnitsPerCycle, kGranule);
      changes.emplace_back(first_cycle + timing::CyclesCeil(g.last_read), -kGranule);
    }
    g = {};
  };
  for (size_t i = 0; i < s.size(); ++i)
    isa::ForEachAccess(s[i], [&](const isa::Access &a) {
      const isa::Address &address = a.view ? a.view->address : a.address;
      if (address.region != isa::Region::Sram)
        return;
      isa::ByteRange range{address.offset, address.offset + a.bytes};
      if (a.view)
        range = isa::BoundingBytes(*a.view);
      const auto end = std::min<int64_t>((range.hi + kGranule - 1) / kGranule, static_cast<int64_t>(granules.size()));
      for (int64_t k = std::max<int64_t>(0, range.lo / kGranule); k < end; ++k) {
        Granule &g = granules[static_cast<size_t>(k)];
        if (!a.write) {
          g.last_read = std::max(g.last_read, t.commands[i].end);
          continue;
        }
        if (g.last_read >= 0)
          close(g);
        if (g.begin < 0)
          g.begin = t.commands[i].start;
      }
    });
  for (Granule &g : granules)
    close(g);
}

} // namespace

StreamCosts CostsOf(const emit::EmitResult &emitted, const Target &target) {
  StreamCosts c;
  c.layers.resize(emitted.file.layers.size());
  std::array<timing::Units, isa::kNumEngines> busy{};
  ForEachSegment(emitted, [&](const isa::Stream &s, const timing::Timeline &t, int64_t) {
    c.cycles += t.cycles();
    c.sram_bytes += t.sram_bytes;
    c.ddr_read_bytes += t.ddr_read_bytes + t.stream_bytes;
    c.ddr_write_bytes += t.ddr_write_bytes;
    for (size_t e = 0; e < busy.size(); ++e)
      busy[e] += t.busy[e];
    timing::AddLayerTimes(s, t, target, &c.layers);
  });
  c.layer_cycles = timing::LayerCycles(c.layers);
  if (c.cycles > 0)
    for (size_t e = 0; e < busy.size(); ++e)
      c.busy[e] = double(busy[e]) / double(timing::kUnitsPerCycle) / double(c.cycles);
  return c;
}

Timeline TimelineOf(const emit::EmitResult &emitted, const Target &target) {
  Timeline out;
  int64_t total = 0;
  ForEachSegment(emitted,
                 [&](const isa::Stream &, const timing::Timeline &t, int64_t first) { total = first + t.cycles(); });
  if (total == 0)
    return out;
  const int64_t resolution = total / kSpans;
  std::array<std::vector<std::vector<int64_t>>, 4> spans;
  std::vector<std::pair<int64_t, int64_t>> changes;
  ForEachSegment(emitted, [&](const isa::Stream &s, const timing::Timeline &t, int64_t first) {
    const auto queues = Queues(s, t);
    for (size_t e = 0; e < queues.size(); ++e)
      for (size_t i : queues[e]) {
        const int64_t begin = first + t.commands[i].start / timing::kUnitsPerCycle,
                      end = first + timing::CyclesCeil(t.commands[i].end), layer = s[i].layer;
        if (!spans[e].empty()) {
          auto &last = spans[e].back();
          if (begin - last[1] <= resolution && (last[2] == layer || last[1] - last[0] < resolution)) {
            last[1] = std::max(last[1], end);
            continue;
          }
        }
        spans[e].push_back({begin, end, layer});
      }
    SramChanges(s, t, first, target.sram.bytes, changes);
  });
  for (size_t e = 0; e < spans.size(); ++e)
    out.engines.emplace_back(isa::Name(static_cast<isa::Engine>(e)), std::move(spans[e]));

  // The highest use of each slot of the resolution.
  std::sort(changes.begin(), changes.end());
  int64_t bytes = 0, slot_start = 0, highest = 0;
  const int64_t slot = std::max<int64_t>(1, total / 1000);
  auto add = [&](int64_t cycle, int64_t value) {
    if (!out.sram.empty() && out.sram.back()[0] == cycle)
      out.sram.back()[1] = value;
    else if (out.sram.empty() || out.sram.back()[1] != value)
      out.sram.push_back({cycle, value});
  };
  for (size_t i = 0; i < changes.size();) {
    const int64_t cycle = changes[i].first;
    if (cycle >= slot_start + slot) {
      add(slot_start, highest);
      slot_start = cycle / slot * slot;
      highest = bytes;
    }
    for (; i < changes.size() && changes[i].first == cycle; ++i)
      bytes += changes[i].second;
    highest = std::max(highest, bytes);
  }
  add(slot_start, highest);
  add(total, 0);
  return out;
}

} // namespace npuc::report
