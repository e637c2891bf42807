// Dispatch of commands, the replay of the four queues, and scratch memory.
#include "runtime_stub/machine.h"

#include <cstdlib>

#include "compiler/support/diagnostic.h"

namespace npuc::runtime {

Scratch::~Scratch() {
  std::free(data_);
}
void *Scratch::Bytes(int64_t bytes) {
  if (bytes > bytes_) {
    std::free(data_);
    bytes_ = (bytes + bytes / 4 + 4095) / 4096 * 4096;
    data_ = std::aligned_alloc(64, bytes_);
    NPUC_CHECK(data_ != nullptr, "out of memory: {} bytes", bytes_);
  }
  return data_;
}

void Context::ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)> &fn) const {
  if (!threads || threads->size() == 1 || n <= grain) {
    if (n > 0)
      fn(0, n);
    return;
  }
  threads->ParallelFor(static_cast<size_t>(n), static_cast<size_t>(grain),
                       [&](size_t begin, size_t end) { fn(static_cast<int64_t>(begin), static_cast<int64_t>(end)); });
}

Status Execute(const isa::Command &command, const Context &context) {
  struct Visitor {
    const Context &x;
    Status operator()(const isa::End &) const { return OkStatus(); }
    Status operator()(const isa::Dma &c) const { return ExecuteDma(c, x), OkStatus(); }
    Status operator()(const isa::Gather &c) const { return ExecuteGather(c, x); }
    Status operator()(const isa::Conv &c) const { return ExecuteConv(c, x), OkStatus(); }
    Status operator()(const isa::MatMul &c) const { return ExecuteMatMul(c, x), OkStatus(); }
    Status operator()(const isa::Elem &c) const { return ExecuteElem(c, x), OkStatus(); }
    Status operator()(const isa::Lut &c) const { return ExecuteLut(c, x), OkStatus(); }
    Status operator()(const isa::Pool &c) const { return ExecutePool(c, x), OkStatus(); }
    Status operator()(const isa::Reduce &c) const { return ExecuteReduce(c, x), OkStatus(); }
    Status operator()(const isa::Norm &c) const { return ExecuteNorm(c, x), OkStatus(); }
    Status operator()(const isa::Resize &c) const { return ExecuteResize(c, x), OkStatus(); }
  };
  return std::visit(Visitor{context}, command.body);
}

StatusOr<std::vector<uint32_t>> ReplayOrder(const isa::Stream &stream, bool eager_loads) {
  std::array<std::vector<uint32_t>, isa::kNumEngines> queue;
  uint32_t end = static_cast<uint32_t>(stream.size());
  for (uint32_t i = 0; i < stream.size(); ++i) {
    if (std::holds_alternative<isa::End>(stream[i].body)) {
      end = i;
      break;
    }
    queue[static_cast<int>(stream[i].engine)].push_back(i);
  }
  std::array<size_t, isa::kNumEngines> done{};
  std::vector<uint32_t> order;
  order.reserve(stream.size());
  for (;;) {
    int pick = -1;
    for (int e = 0; e < isa::kNumEngines; ++e) {
      if (done[e] == queue[e].size())
        continue;
      const uint32_t i = queue[e][done[e]];
      bool ready = true;
      for (int o = 0; o < isa::kNumEngines; ++o)
        ready &= o == e || stream[i].wait[o] <= done[o];
      if (!ready)
        continue;
      if (pick < 0 || (!eager_loads && i < queue[pick][done[pick]]))
        pick = e;
    }
    if (pick < 0)
      break;
    order.push_back(queue[pick][done[pick]++]);
  }
  for (int e = 0; e < isa::kNumEngines; ++e)
    if (done[e] < queue[e].size())
      return Error("E0604",
                   fmt::format("deadlock: command {} of engine {} waits for commands that never complete",
                               queue[e][done[e]], isa::Name(static_cast<isa::Engine>(e))),
                   "`npu-objdump --verify` lists every violation");
  if (end < stream.size())
    order.push_back(end);
  return order;
}

} // namespace npuc::runtime
