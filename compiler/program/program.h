// Program: tiled commands on symbolic buffers, before addresses. What tiling produces and emission turns into
// addresses, waits and streams.
//
// Within a segment the commands stand in *program order*, a sequential order whose result defines the segment. The four
// engines run ahead of one another as far as the waits let them, and emission derives the waits from the byte sets of
// the commands in program order; so every order and every allocation is correct, and only speed depends on how good
// they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "backend/isa/commands.h"
#include "compiler/ir/graph.h"
#include "llvm/ADT/DenseMap.h"

namespace npuc::program {

using BufferId = uint32_t;

enum class Space : uint8_t {
  Sram,  // lives within one segment
  Arena, // DDR, intermediate tensors
  Const, // DDR, read-only, filled by `parts`
  Io,    // a model input or output: `io` is its region number (inputs first)
};

// Bytes [offset, offset + bytes) of a constant; `fill` writes them over zeros, on any thread.
struct Part {
  int64_t offset = 0, bytes = 0;
  std::function<void(uint8_t *dst)> fill;
};

struct Buffer {
  Space space = Space::Sram;
  int64_t bytes = 0;
  int io = -1;
  std::string name;        // the tensor or purpose, for people
  std::vector<Part> parts; // Const: ascending; what lies between them is 0
  int first = 0, last = 0; // Arena: live positions in the order of all nodes
  // Const that lies in memory as it should lie in the file (no packing): then `data`, kept alive by the IR's tensor.
  const uint8_t *data = nullptr;
};

struct NpuSegment {
  std::vector<isa::Command> commands; // addresses in Region::Buffer; waits all zero; no End
  std::vector<uint32_t> positions;    // by command: its node's position in the order of all nodes
};

struct HostSegment {
  std::vector<const Node *> nodes; // in order
};

struct Layer {
  std::string name, op;
  Origin origin;
  const Node *node = nullptr;
  Dims ifm, ofm; // of the whole layer where `node` computes some of its rows
  int tiles = 0; // compute commands
};

// A value's place: its view in the root buffer; type's layout says how logical axes map (see ViewOfType).
struct Place {
  isa::View view;
  bool valid() const { return view.present(); }
};

struct Capture {
  const Value *value;
  isa::View view;
  uint32_t step;
  int32_t command; // index in the segment
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<std::variant<NpuSegment, HostSegment>> steps;
  std::vector<Layer> layers;
  llvm::DenseMap<const Value *, Place> places; // static tensors that lie in memory (DDR or SRAM)
  std::vector<Capture> captures;
};

// Text form: buffers, then commands with buffers by number. For tests and --dump-ir.
std::string Print(const Program &p);
// Structure: buffer numbers and ranges, no waits, engines legal for opcodes.
Status Verify(const Program &p);

} // namespace npuc::program
