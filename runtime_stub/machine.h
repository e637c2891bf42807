// The functional machine: executes decoded commands on memory images with the exact numerics of docs/npu-isa.md. It
// trusts the stream: the loader has verified it (backend/verify) before the first command runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/isa/commands.h"
#include "compiler/support/status.h"
#include "compiler/support/thread_pool.h"
#include "runtime_stub/memory.h"

namespace npuc::runtime {

// What the machine's layouts depend on, from the target description.
struct Geometry {
  int oc = 16;              // output channels of a weight block
  int c2_8 = 16, c2_16 = 8; // input channels of a weight block for 8- and 16-bit activations
  int c2(DType x) const { return ByteSize(x) == 1 ? c2_8 : c2_16; }
};

// Grow-only scratch bytes, 64-byte aligned, not initialised.
class Scratch {
public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  template <class T> T *Get(int64_t count) { return static_cast<T *>(Bytes(count * static_cast<int64_t>(sizeof(T)))); }

private:
  void *Bytes(int64_t bytes);
  void *data_ = nullptr;
  int64_t bytes_ = 0;
};

// What lives from command to command. `accumulators` is the open accumulation: [n * oh][ow][channels, each group
// rounded up to 16], i32, i64 (48-bit values) or f32 as its commands say.
struct Workspace {
  Scratch image, weights, accumulators;
};

struct Context {
  const Memory &memory;
  Geometry geometry;
  ThreadPool *threads = nullptr;  // null: this thread alone
  bool reference = false;         // element by element, as the ISA page reads, for tests
  bool strict_indices = false;    // GATHER: an index outside its table is an error instead of clamped
  Workspace *workspace = nullptr; // required by CONV and MATMUL

  void ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)> &fn) const;
};

// Executes one command. Errors: E0703 (strict_indices).
Status Execute(const isa::Command &command, const Context &context);

// The order in which the untimed machine may run a stream: replays the four queues with their waits, always the ready
// command that comes first in the stream. With `eager_loads` LD runs as far ahead as the waits allow, and MXU and VPU
// come last: another legal order, to shake out missing waits. Error E0604 when the replay stops before END.
StatusOr<std::vector<uint32_t>> ReplayOrder(const isa::Stream &stream, bool eager_loads = false);

// One family each.
void ExecuteConv(const isa::Conv &c, const Context &x);
void ExecuteMatMul(const isa::MatMul &c, const Context &x);
void ExecuteElem(const isa::Elem &c, const Context &x);
void ExecuteLut(const isa::Lut &c, const Context &x);
void ExecutePool(const isa::Pool &c, const Context &x);
void ExecuteReduce(const isa::Reduce &c, const Context &x);
void ExecuteNorm(const isa::Norm &c, const Context &x);
void ExecuteResize(const isa::Resize &c, const Context &x);
void ExecuteDma(const isa::Dma &c, const Context &x);
Status ExecuteGather(const isa::Gather &c, const Context &x);

} // namespace npuc::runtime
