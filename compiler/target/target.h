// Target: the machine that code is made for, read from a YAML description (targets/*.yaml; docs/npu-isa.md, sections
// on timing and presets, says what each number means).
//
// Every key must be given and no other may be: a description never depends on defaults that a later version might
// change. The presets are part of the program. A compiled model embeds ToCanonicalYaml(), so running it needs no file.
#pragma once

#include "compiler/support/rational.h"
#include "compiler/support/status.h"
#include "compiler/target/vpu_function.h"
#include "compiler/types/dtype.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace npuc {

// Orders in which the array walks a convolution's kernel and input channels.
enum class Traversal : uint8_t { Depth, Row, Kernel, PartKernel };
std::string_view Name(Traversal t); // "depth", "row", "kernel", "part_kernel"

// A number per element type. Types without an entry are not for this machine (or not for this unit).
class DTypeTable {
public:
  bool Has(DType t) const { return values_[static_cast<size_t>(t)].num != 0; }
  // The entry, which must exist.
  const Rational &operator[](DType t) const;
  // `value` must not be 0.
  void Set(DType t, Rational value) { values_[static_cast<size_t>(t)] = value; }
  bool operator==(const DTypeTable &) const = default;

private:
  std::array<Rational, kNumDTypes> values_{};
};

// One cycle multiplies px output positions x oc output channels x ic input channels.
struct MxuTarget {
  int64_t px = 0, oc = 0, ic = 0;
  std::vector<Traversal> traversals; // ascending; depth is always there
  int64_t dw_taps = 0;               // depthwise: kernel taps a cycle
  int64_t dw_granule = 0;            // depthwise: taps steps are rounded up to this
  DTypeTable mac_rate;               // of px * oc * ic, for the input's type
  int64_t acc_bytes = 0;             // both banks together
  int64_t ibuf_bytes = 0;            // input buffer
  int64_t pipeline_fill = 0;         // cycles
  Rational weight_bytes_per_cycle;
  DTypeTable ppu_rate; // output-stage elements a cycle

  bool HasTraversal(Traversal t) const;
  const Rational &MacRate(DType x) const { return mac_rate[x]; }
  const Rational &PpuRate(DType x) const { return ppu_rate[x]; }
  bool operator==(const MxuTarget &) const = default;
};

struct VpuTarget {
  DTypeTable lanes; // elements a cycle for a function of one pass; i32 and f32 too
  std::array<Rational, kNumVpuFunctions> passes;

  const Rational &Lanes(DType t) const { return lanes[t]; }
  const Rational &Passes(VpuFunction f) const { return passes[static_cast<size_t>(f)]; }
  bool operator==(const VpuTarget &) const = default;
};

struct SramTarget {
  int64_t bytes = 0;
  Rational bytes_per_cycle;
  bool operator==(const SramTarget &) const = default;
};

struct DmaTarget {
  Rational ddr_bytes_per_cycle;
  int64_t ddr_burst_bytes = 0;                 // a power of two
  int64_t read_latency = 0, write_latency = 0; // cycles
  int64_t outstanding = 0;                     // transfers whose latencies may overlap
  Rational rearrange_elems_per_cycle;
  bool operator==(const DmaTarget &) const = default;
};

struct LimitsTarget {
  std::array<int64_t, 2> kernel_max{}, stride_max{}, dilation_max{}; // height, width
  int64_t dims_max = 0;                                              // of each dim of a view
  bool operator==(const LimitsTarget &) const = default;
};

// Estimates for host steps in reports.
struct HostTarget {
  Rational gflops;       // 10^9 operations a second, a MAC is two
  Rational bytes_per_ns; // memory traffic
  bool operator==(const HostTarget &) const = default;
};

struct EnergyTarget {
  DTypeTable pj_mac;
  Rational pj_sram_byte, pj_ddr_byte, idle_mw;

  // Picojoules of a MAC; unsigned 8-bit counts as signed where the description does not say.
  const Rational &PjMac(DType x) const { return pj_mac.Has(x) ? pj_mac[x] : pj_mac[DType::I8]; }
  bool operator==(const EnergyTarget &) const = default;
};

struct Target {
  std::string name;
  std::string description;
  Rational clock_mhz;
  int64_t issue_cycles = 0;  // of every command
  std::vector<DType> dtypes; // that MXU and VPU compute on, a subset of i8, u8, i16, f16, in this order
  MxuTarget mxu;
  VpuTarget vpu;
  SramTarget sram;
  DmaTarget dma;
  DTypeTable c2; // lanes of a channel block in NC1HWC2
  LimitsTarget limits;
  HostTarget host;
  EnergyTarget energy;

  bool Supports(DType t) const;
  bool HasFloat() const { return Supports(DType::F16); }
  // Lanes of a channel block: the description's; 16 bytes worth for types that it does not list (i32, f32 ...).
  int64_t C2(DType t) const;
  // px * oc * ic: MACs a cycle at rate 1.
  int64_t MacsPerCycle() const { return mxu.px * mxu.oc * mxu.ic; }

  // `file` names the text in errors. E0502 syntax, E0503 unknown key, E0504 missing key, E0505 wrong value, each with
  // file:line:column, what was found and what is allowed.
  static StatusOr<Target> FromText(std::string_view text, std::string_view file);
  // Errors as above, or E0101.
  static StatusOr<Target> FromFile(const std::string &path);
  // Error E0506 lists the presets.
  static StatusOr<Target> FromPreset(std::string_view name);
  // What --target takes: a preset's name, else a file (a name with '/' or ending in .yaml or .yml is always a file).
  static StatusOr<Target> FromNameOrFile(const std::string &name_or_path);
  // Sorted.
  static std::vector<std::string> PresetNames();
  // As it is in targets/, comments and all. Must be one of PresetNames().
  static std::string_view PresetText(std::string_view name);

  // One text per machine, whatever the formatting of the description; FromText reads it back to an equal Target.
  std::string ToCanonicalYaml() const;
  // Of the canonical text, lower-case hex.
  std::string Sha256() const;

  bool operator==(const Target &) const = default;
};

inline constexpr std::string_view kDefaultTarget = "edge-2t";

} // namespace npuc
