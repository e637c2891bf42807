// What commands cost and how long a stream takes: the timing model of docs/npu-isa.md, section "Timing". Exact integers
// in units of 1/256 cycle, so every machine and every thread count gives the same numbers. Nothing here depends on
// data.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/isa/commands.h"
#include "compiler/target/target.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc::timing {

using Units = int64_t; // 1/256 cycle
inline constexpr int64_t kUnitsPerCycle = 256;
constexpr int64_t CyclesCeil(Units u) {
  return (u + kUnitsPerCycle - 1) / kUnitsPerCycle;
}

// ceil(amount * 256 / rate): `amount` things at `rate` a cycle.
Units Work(int64_t amount, const Rational &rate);

// ---- closed forms, for search loops that have no command yet
// -----------------------------------------------------------------------------

struct ConvShape {
  isa::ConvMode mode = isa::ConvMode::Dense;
  isa::Traversal traversal = isa::Traversal::Depth;
  DType x = DType::I8;
  isa::AccType acc = isa::AccType::I32;
  int64_t positions = 0;  // N * OH * OW
  int64_t oc = 0, ic = 0; // of the whole command
  int64_t groups = 1;     // Grouped
  int64_t kh = 1, kw = 1;
};
// Array steps per block of px positions and oc channels of one group.
int64_t ConvSteps(const ConvShape &s, const Target &t);
// Array time without issue, fill, output stage and weights.
Units ConvMac(const ConvShape &s, const Target &t);
Units MatMulMac(int64_t batch, int64_t m, int64_t n, int64_t k, DType x, isa::AccType acc, const Target &t);
// Output stage: passes of the chain (at least 1), and its time for that many elements at the rate of the input's type.
Rational StagePasses(const isa::MicroOps &stage, const Target &t);
Units OutputTime(int64_t elements, const Rational &passes, DType x, const Target &t);
Units WeightTime(int64_t bytes, const Target &t);
// passes[f] over `elements` at the lanes of `widest` (without issue); `scale` multiplies the passes (pooling: its
// taps).
Units VpuTime(int64_t elements, VpuFunction f, DType widest, const Target &t, int64_t scale = 1);
// Passes of a pooling window in units of passes[pool]: KH*KW, for max no more than KH + KW.
int64_t PoolTaps(isa::PoolKind kind, int64_t kh, int64_t kw);

// Elements with the padding lanes of blocked views (c_block = C2 of the target).
int64_t PaddedElements(const isa::View &v, const Target &t);
// SRAM demand of a view that MXU or VPU walks in its own order: each contiguous run rounded up to 16 bytes, padding
// lanes included, dims of stride 0 once.
int64_t SramBytes(const isa::View &v, const Target &t);
// DDR demand of a view: bursts touched x burst size; runs with less than a burst between them are one run. Alignment is
// the offset's (of the view's region or buffer).
int64_t DdrBytes(const isa::View &v, const Target &t);
// Bytes of the longest run that is contiguous in both views of a copy (dims equal).
int64_t CommonRunBytes(const isa::View &src, const isa::View &dst);

// ---- commands
// ----------------------------------------------------------------------------------------------------------------------------

// What a command was waiting for last.
enum class Bound : uint8_t { Issue, Mac, Output, Weights, Vector, Rearrange, Latency, Sram, Ddr };
std::string_view Name(Bound b); // "issue", "mac", ...

struct Cost {
  Units compute = 0; // issue and fill included
  Units latency = 0; // DMA, GATHER: before compute; overlaps the predecessor's transfer
  Units sram = 0, ddr = 0;
  int64_t sram_bytes = 0, ddr_read_bytes = 0, ddr_write_bytes = 0,
          stream_bytes = 0; // stream_bytes are part of the DDR demand too
  int64_t macs = 0;         // true ones: padding taps count, padding lanes don't
  Bound compute_bound = Bound::Issue;
  Units Isolated() const; // time when nothing else runs
};

// Region of an address; asked for symbolic buffers only (Arena stands for any DDR).
using RegionOf = llvm::function_ref<isa::Region(const isa::Address &)>;

Cost CommandCost(const isa::Command &c, const Target &t); // real addresses
Cost CommandCost(const isa::Command &c, const Target &t, RegionOf region_of);
// Isolated() in cycles.
double EstimateCycles(const isa::Command &c, const Target &t, RegionOf region_of);

// ---- streams
// -----------------------------------------------------------------------------------------------------------------------------

struct CommandTime {
  Units start = 0, end = 0;
  Bound bound = Bound::Issue;
};
struct Timeline {
  std::vector<CommandTime> commands; // in stream order; END is 0..total
  Units total = 0;
  std::array<Units, isa::kNumEngines> busy{}; // sum of end - start
  int64_t ddr_read_bytes = 0, ddr_write_bytes = 0, stream_bytes = 0, sram_bytes = 0,
          macs = 0; // reads are without stream_bytes
  int64_t cycles() const { return CyclesCeil(total); }
};
// Runs the four queues (a verified stream: a deadlock is a check failure). About a microsecond a command.
Timeline Simulate(const isa::Stream &s, const Target &t);
Timeline Simulate(const isa::Stream &s, const Target &t, RegionOf region_of);

} // namespace npuc::timing
