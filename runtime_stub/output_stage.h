// The output stage of CONV and MATMUL: runs the micro-operations on strips of accumulators and stores the result.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/isa/commands.h"
#include "runtime_stub/kernels.h"
#include "runtime_stub/memory.h"

namespace npuc::runtime {

inline constexpr int kStrip = 48; // positions at a time: a multiple of every register block

class OutputStage {
public:
  OutputStage(const isa::MicroOps &ops, const std::array<isa::StageOperand, 2> &operands, const isa::View &out,
              const Memory &memory)
      : ops_(ops), operands_(operands), out_(out), memory_(memory) {}

  // Where a strip lies: output positions [w0, w0 + count) of row (n, h), count <= kStrip; channels [c0, c0 + lanes),
  // lanes <= 16.
  struct Strip {
    int64_t n, h, w0;
    int count;
    int64_t c0;
    int lanes;
  };
  // acc: [count][16]; scale: 16 floats of the table.
  void Run(const Strip &s, const int32_t *acc, const float *scale) const;
  void Run(const Strip &s, const int64_t *acc, const float *scale) const;
  void Run(const Strip &s, const float *acc, const float *scale) const;
  // One element as the ISA page reads: the f32 after `Scale`, then every other micro-op; stores at (n, h, w, c).
  void RunElement(float scaled, int64_t n, int64_t h, int64_t w, int64_t c) const;

private:
  void Finish(const Strip &s, float *v) const; // after Scale

  const isa::MicroOps &ops_;
  const std::array<isa::StageOperand, 2> &operands_;
  const isa::View &out_;
  const Memory &memory_;
};

} // namespace npuc::runtime
