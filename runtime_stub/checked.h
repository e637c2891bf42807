// Checked mode: what the loader cannot prove. Every byte that a command reads must have been written (arena and
// outputs: in this run; SRAM: in this segment), and a command must leave every byte outside its write set as it was.
// Findings are E0703 with command and bytes.
#pragma once

#include <string>
#include <vector>

#include "backend/isa/isa.h"
#include "runtime_stub/model.h"

namespace npuc::runtime {

class Checker {
public:
  explicit Checker(const Model &model);
  void Begin(const Memory &memory); // a run: inputs are defined, all else is not
  void BeginSegment();              // SRAM is not preserved
  Status Before(const isa::Command &c, const Memory &memory);
  Status After(const isa::Command &c, const Memory &memory);
  Status HostRead(const container::HostBinding &b, const Memory &memory);
  void HostWrite(const container::HostBinding &b);
  Status End(const Memory &memory); // every output is whole

private:
  std::vector<uint8_t> &Shadow(const isa::Address &a);
  Status CheckDefined(const isa::Address &region, int64_t lo, int64_t hi, std::string_view what);

  struct Snapshot {
    isa::Address region;
    int64_t lo = 0;
    std::vector<uint8_t> bytes;
  };
  const Model &model_;
  std::vector<uint8_t> arena_, sram_; // 1: defined
  std::vector<std::vector<uint8_t>> io_;
  std::vector<Snapshot> before_;
};

} // namespace npuc::runtime
