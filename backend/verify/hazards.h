// Which earlier commands a command must not overtake: exact byte sets, one of the two writing. The race finder asks
// whether these orders are enforced, emission enforces them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backend/isa/byte_box.h"
#include "backend/isa/commands.h"
#include "backend/isa/isa.h"

namespace npuc::verify {

// Per engine, a number of its commands (counted from the start of its queue).
using Clock = std::array<uint32_t, isa::kNumEngines>;

// Bytes of an access; a read's view never touches Fill lanes. Normalised.
isa::ByteBoxes ByteSetOf(const isa::Access &a);

// Commands are added in an order that some execution may take (program order, or a replay's order).
class HazardTracker {
public:
  HazardTracker();
  ~HazardTracker();
  HazardTracker(HazardTracker &&) noexcept;

  // Adds command number `index` of c.engine. Result: for each other engine, 1 + the number of its latest command added
  // before whose bytes meet this one's, where that is above `ordered` (its first ordered[e] commands are known to be
  // done before this one starts); else 0. Older conflicts that are not in the result are implied by conflicts between
  // the commands in between: they are ordered if those are.
  Clock Add(const isa::Command &c, uint32_t index, const Clock &ordered);
  // No later command of engine `e` will start before known[f] commands of f have completed. Lets the tracker forget;
  // never changes results. An engine without further commands: all UINT32_MAX.
  void SetKnown(isa::Engine e, const Clock &known);

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Sets the waits of all commands so that the stream does what its commands do one after the other: each waits for its
// latest conflicting command on each other engine, unless that is implied by the other waits and the queues' own order.
// No END needed; existing waits are replaced.
void DeriveWaits(isa::Stream &s);

// The clocks that waits and queue order imply: after[i][e] commands of engine e are complete when command i is.
// Commands in `order` (stream indices), an order in which every command follows those it waits for.
class Clocks {
public:
  explicit Clocks(const isa::Stream &s) : stream_(s) {}
  // Clock before the start of a command that is the next of its queue, from its waits and its predecessor. Waits must
  // be on earlier commands.
  Clock Before(const isa::Command &c) const;
  void Append(size_t stream_index, Clock before);
  uint32_t count(int engine) const { return static_cast<uint32_t>(queue_[engine].size()); }
  const Clock &after(int engine, uint32_t i) const { return after_[engine][i]; }
  size_t stream_index(int engine, uint32_t i) const { return queue_[engine][i]; }

private:
  const isa::Stream &stream_;
  std::array<std::vector<Clock>, isa::kNumEngines> after_;
  std::array<std::vector<size_t>, isa::kNumEngines> queue_;
};

} // namespace npuc::verify
