// Time per layer from a simulated timeline: one walk over the stream.
#include "backend/timing/layers.h"

#include <algorithm>

namespace npuc::timing {

static_assert(static_cast<size_t>(Bound::Ddr) + 1 == kNumBounds);

void AddLayerTimes(const isa::Stream &s, const Timeline &t, const Target &target, std::vector<LayerTime> *layers) {
  Units front = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (std::holds_alternative<isa::End>(s[i].body) || s[i].layer >= layers->size())
      continue;
    LayerTime &l = (*layers)[s[i].layer];
    const CommandTime &time = t.commands[i];
    const Units moved = std::max<Units>(0, time.end - front);
    l.units += moved;
    l.bound[static_cast<size_t>(time.bound)] += moved;
    front = std::max(front, time.end);
    l.busy[static_cast<int>(s[i].engine)] += time.end - time.start;
    ++l.commands;
    const Cost c = CommandCost(s[i], target);
    l.ddr_read_bytes += c.ddr_read_bytes;
    l.ddr_write_bytes += c.ddr_write_bytes;
    l.stream_bytes += c.stream_bytes;
    l.sram_bytes += c.sram_bytes;
    l.macs += c.macs;
    l.array += ArrayTime(s[i], target);
  }
}

std::vector<int64_t> LayerCycles(const std::vector<LayerTime> &layers) {
  std::vector<int64_t> cycles;
  Units sum = 0;
  for (const LayerTime &l : layers) {
    const int64_t before = CyclesCeil(sum);
    sum += l.units;
    cycles.push_back(CyclesCeil(sum) - before);
  }
  return cycles;
}

} // namespace npuc::timing
