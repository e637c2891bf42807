// SRAM by live range in program order, with room to run ahead.
//
// The problem: a buffer that a load fills is live from the load to its last reader. If the allocator may give it the
// bytes of a buffer that the command just before the load still reads, the load waits for that command, and the
// transfer overlaps nothing. The way taken: the *order* of commands stays; the live range of a loaded buffer is
// stretched back to where its transfer ought to begin for all transfers to be just in time (computed from the last load
// to the first, one DMA queue), and a stored buffer's forward to where its transfer ends. Allocation then keeps those
// bytes apart, hazards (derived later from addresses) fall away, and the LD engine runs ahead by itself. A stretch goes
// as far as the memory in use at each command allows. Cost: the sum of the stretches' lengths, each at most kMaxStretch
// commands; then the allocator.
#include "backend/emit/sram.h"

#include <algorithm>
#include <limits>

#include "backend/isa/isa.h"
#include "backend/memory/allocate.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc::emit {

using isa::Engine;
using program::BufferId;
using program::Space;

namespace {

constexpr int64_t kMaxStretch = 2048;

struct Live {
  BufferId buffer;
  int64_t bytes;
  int64_t first, last; // command indices
  int64_t load = -1;   // the LD command that fills it first
  int64_t store = -1;  // the ST command that reads it last
};

} // namespace

SramPlan PlanSram(const program::Program &p, const program::NpuSegment &segment, const Target &target, bool run_ahead,
                  const std::function<double(size_t)> &cycles) {
  const auto &commands = segment.commands;
  const int64_t n = static_cast<int64_t>(commands.size());
  std::vector<Live> lives;
  llvm::DenseMap<BufferId, size_t> index;
  for (int64_t i = 0; i < n; ++i)
    isa::ForEachAccess(commands[i], [&](const isa::Access &a) {
      const isa::Address &address = a.view ? a.view->address : a.address;
      if (address.region != isa::Region::Buffer || p.buffers[address.index].space != Space::Sram)
        return;
      auto [it, fresh] = index.try_emplace(address.index, lives.size());
      if (fresh)
        lives.push_back({address.index, (p.buffers[address.index].bytes + 63) / 64 * 64, i, i, -1, -1});
      Live &l = lives[it->second];
      l.last = i;
      if (fresh && a.write && commands[i].engine == Engine::LD)
        l.load = i;
      l.store = !a.write && commands[i].engine == Engine::ST ? i : -1;
    });

  const int64_t capacity = target.sram.bytes;
  std::vector<int64_t> use(n + 1, 0); // bytes alive at each command
  for (const Live &l : lives) {
    use[l.first] += l.bytes;
    use[l.last + 1] -= l.bytes;
  }
  for (int64_t i = 1; i <= n; ++i)
    use[i] += use[i - 1];

  SramPlan plan;
  plan.offsets.assign(p.buffers.size(), -1);
  auto allocate = [&](const std::vector<std::pair<int64_t, int64_t>> &spans) {
    std::vector<memory::Request> requests;
    requests.reserve(lives.size());
    for (size_t k = 0; k < lives.size(); ++k) {
      memory::Request r;
      r.size = lives[k].bytes;
      r.align = 64;
      r.first = spans[k].first;
      r.last = spans[k].second;
      requests.push_back(r);
    }
    const memory::Allocation a = memory::Allocate(requests, capacity);
    plan.peak = a.peak;
    plan.fits = a.fits;
    plan.misfits.clear();
    for (size_t k = 0; k < a.offsets.size(); ++k)
      if (const int64_t beyond = a.offsets[k] + requests[k].size - capacity; beyond > 0)
        plan.misfits.push_back({requests[k].first, requests[k].last, beyond});
    if (a.fits)
      for (size_t k = 0; k < lives.size(); ++k)
        plan.offsets[lives[k].buffer] = a.offsets[k];
    return a.fits;
  };

  if (run_ahead) {
    // Compute time before each command, and each command's own.
    std::vector<double> at(n + 1, 0), own(n, 0);
    for (int64_t i = 0; i < n; ++i) {
      own[i] = cycles(i);
      const bool compute = commands[i].engine == Engine::MXU || commands[i].engine == Engine::VPU;
      at[i + 1] = at[i] + (compute ? own[i] : 0);
    }
    auto before = [&](double time, int64_t not_after) {
      const int64_t i = std::upper_bound(at.begin(), at.begin() + not_after + 1, time) - at.begin() - 1;
      return std::max<int64_t>(0, i);
    };
    // Just-in-time starts of loads, last to first; earliest ends of stores, first to last.
    std::vector<double> want(n, 0);
    double next = std::numeric_limits<double>::infinity();
    for (int64_t i = n - 1; i >= 0; --i)
      if (commands[i].engine == Engine::LD) {
        const double end = std::min(next, at[i]); // its reader follows it in program order
        want[i] = next = end - own[i] * 1.1 - 4;
      }
    double done = 0;
    for (int64_t i = 0; i < n; ++i)
      if (commands[i].engine == Engine::ST)
        want[i] = done = std::max(done, at[i]) + own[i] * 1.1 + 4;

    for (double share : {0.97, 0.85, 0.7, 0.5}) {
      const int64_t limit = static_cast<int64_t>(static_cast<double>(capacity) * share);
      std::vector<int64_t> now = use;
      std::vector<std::pair<int64_t, int64_t>> spans;
      for (const Live &l : lives) {
        int64_t first = l.first, last = l.last;
        if (l.load >= 0) {
          const int64_t goal = std::max(before(want[l.load], l.first), l.first - kMaxStretch);
          while (first > goal && now[first - 1] + l.bytes <= limit)
            now[--first] += l.bytes;
        }
        if (l.store >= 0) {
          while (last + 1 < n && last < l.last + kMaxStretch && at[last + 1] < want[l.store] &&
                 now[last + 1] + l.bytes <= limit)
            now[++last] += l.bytes;
        }
        // Computed tiles: apart from the two commands around them, so that engines can overlap.
        if (l.load < 0 && first > 0 && now[first - 1] + l.bytes <= limit)
          now[--first] += l.bytes;
        spans.push_back({first, last});
      }
      if (allocate(spans))
        return plan;
    }
  }
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const Live &l : lives)
    spans.push_back({l.first, l.last});
  allocate(spans);
  return plan;
}

} // namespace npuc::emit
