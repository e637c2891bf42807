// Proves a stream safe before it runs: what docs/npu-isa.md, section "Verification at load", demands. After an empty
// answer no command reads or writes outside its regions, the queues end, no result depends on timing, and the executor
// needs no checks of its own.
#pragma once

#include <string>
#include <vector>

#include "backend/container/model_file.h"
#include "backend/isa/commands.h"
#include "compiler/support/status.h"
#include "compiler/target/target.h"

namespace npuc::verify {

// Bytes of each region.
struct MemorySizes {
  int64_t const_bytes = 0, arena_bytes = 0, sram_bytes = 0;
  std::vector<int64_t> io_bytes; // inputs first
  size_t num_inputs = 0;         // io regions [0, num_inputs) are read-only
};

struct Finding {
  std::string code;   // E0604
  size_t command = 0; // index in the stream; its size for findings about the stream as a whole
  std::string text;   // "command 12 (CONV): ..."
};

inline constexpr size_t kMaxFindings = 100;

// All violations (at most kMaxFindings), in stream order, races and deadlock last: they are looked for only when every
// command is sound by itself. Near-linear in the number of commands.
std::vector<Finding> VerifyStream(const isa::Stream &s, const Target &t, const MemorySizes &sizes);

// All streams of a model, its steps' bindings, layers and captures. `command` counts within its step; texts name the
// step.
std::vector<Finding> VerifyModel(const container::ModelFile &m);
// The first finding as an error, with the number of the others.
Status ToStatus(const std::vector<Finding> &findings);

} // namespace npuc::verify
