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
#include "llvm/ADT/DenseSet.h"

namespace npuc::report {
namespace {

constexpr int64_t kGranule = 1024;
constexpr int64_t kSpans = 2000;   // resolution of the timeline
constexpr int64_t kMacSlots = 128; // of the MAC profile

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

// Adds the work of one matrix command, in cycles of the whole array at the rate of its type, evenly over its time.
void SpreadMacs(const isa::Command &c, const timing::CommandTime &time, int64_t first_cycle, const Target &target,
                int64_t slot, std::vector<double> &mac) {
  DType x = DType::Undefined;
  if (const auto *conv = std::get_if<isa::Conv>(&c.body))
    x = conv->in.dtype;
  else if (const auto *matmul = std::get_if<isa::MatMul>(&c.body))
    x = matmul->a.dtype;
  if (!target.mxu.mac_rate.Has(x))
    return;
  const double begin = double(first_cycle) + double(time.start) / timing::kUnitsPerCycle,
               end = double(first_cycle) + double(time.end) / timing::kUnitsPerCycle;
  const double work =
      double(timing::CommandCost(c, target).macs) / (double(target.MacsPerCycle()) * target.mxu.MacRate(x).ToDouble());
  for (size_t k = size_t(begin) / size_t(slot); k < mac.size() && double(k) * double(slot) < end; ++k) {
    const double lo = std::max(begin, double(k) * double(slot)), hi = std::min(end, double(k + 1) * double(slot));
    if (hi > lo)
      mac[k] += work * (hi - lo) / (end - begin);
  }
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

std::vector<SpilledTensor> SpilledOf(const container::ModelFile &file) {
  llvm::DenseSet<int64_t> exchanged; // addresses in the arena that host steps see
  for (const auto &step : file.steps)
    if (const auto *host = std::get_if<container::HostStep>(&step))
      for (const auto *bindings : {&host->inputs, &host->outputs})
        for (const container::HostBinding &b : *bindings)
          if (b.slot < 0 && b.address.region == isa::Region::Arena)
            exchanged.insert(b.address.offset);
  std::vector<SpilledTensor> out;
  for (const container::Capture &c : file.captures)
    if (c.command >= 0 && c.view.address.region == isa::Region::Arena && !exchanged.count(c.view.address.offset) &&
        c.type.is_static_tensor())
      out.push_back({c.name, c.type.num_bytes()});
  std::stable_sort(out.begin(), out.end(), [](auto &a, auto &b) { return a.bytes > b.bytes; });
  constexpr size_t kMost = 20;
  if (out.size() > kMost)
    out.resize(kMost);
  return out;
}

double Flatness(const Timeline &timeline) {
  double sum = 0, peak = 0;
  for (const auto &slot : timeline.mac) {
    sum += slot[1];
    peak = std::max(peak, slot[1]);
  }
  return peak > 0 ? sum / double(timeline.mac.size()) / peak : 0;
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
  // Cycles of the whole array's work in each slot.
  const int64_t mac_slot = std::max<int64_t>(1, (total + kMacSlots - 1) / kMacSlots);
  std::vector<double> mac(static_cast<size_t>((total + mac_slot - 1) / mac_slot));
  ForEachSegment(emitted, [&](const isa::Stream &s, const timing::Timeline &t, int64_t first) {
    const auto queues = Queues(s, t);
    for (size_t e = 0; e < queues.size(); ++e)
      for (size_t i : queues[e]) {
        const int64_t begin = first + t.commands[i].start / timing::kUnitsPerCycle,
                      end = first + t.commands[i].end / timing::kUnitsPerCycle, layer = s[i].layer;
        if (!spans[e].empty()) {
          auto &last = spans[e].back();
          if (begin - last[1] <= resolution && (last[2] == layer || last[1] - last[0] < resolution)) {
            last[1] = std::max(last[1], end);
            continue;
          }
        }
        spans[e].push_back({begin, end, layer});
      }
    for (size_t i : queues[static_cast<size_t>(isa::Engine::MXU)])
      SpreadMacs(s[i], t.commands[i], first, target, mac_slot, mac);
    SramChanges(s, t, first, target.sram.bytes, changes);
  });
  for (size_t e = 0; e < spans.size(); ++e)
    out.engines.emplace_back(isa::Name(static_cast<isa::Engine>(e)), std::move(spans[e]));

  for (size_t i = 0; i < mac.size(); ++i) {
    const double cycles = double(std::min(mac_slot, total - int64_t(i) * mac_slot));
    out.mac.push_back({double(int64_t(i) * mac_slot), mac[i] / cycles});
  }

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
