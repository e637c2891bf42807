// What model.bin holds, in memory. Writer and reader turn it into the container of docs/npu-isa.md section 7 and back.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "backend/isa/commands.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/status.h"
#include "compiler/types/type.h"

namespace npuc {
class ThreadPool;
}

namespace npuc::container {

// A model input or output. It lies in io region `index` (inputs first, then outputs) in `type`'s dtype, static shape,
// layout and quantisation, packed. `slot` >= 0 instead: a value of free shape, sequence, optional or map type that only
// host steps see.
struct IoTensor {
  std::string name;
  Type type;
  int64_t bytes = 0;
  int slot = -1;
};

// Where a host step's operand or result lies: a static tensor in memory (row-major), or a slot of the run (host
// values).
struct HostBinding {
  std::string name;     // the value's name in the step's graph
  Type type;            // as the step's graph sees it
  isa::Address address; // Arena or Io; when slot < 0
  int slot = -1;
};

struct HostStep {
  // IR text of one Module whose main graph takes `inputs` and returns `outputs` in order. Constants from 64 bytes on
  // are `external<offset, bytes>` in the const section, mapped, not copied.
  std::string ir;
  std::vector<HostBinding> inputs, outputs;
  // For npu-objdump and the report's truth check: per IR node of the step its op and the ids of its ONNX nodes.
  struct NodeInfo {
    std::string op;
    std::vector<uint32_t> origins; // into ModelFile::origins
  };
  std::vector<NodeInfo> nodes;
};

struct NpuStep {
  isa::Stream stream; // encoded in the file
};

struct Layer {
  uint32_t id = 0; // what commands carry; index in ModelFile::layers
  std::string name;
  std::string op;
  std::vector<uint32_t> origins; // into ModelFile::origins; Q/DQ that the layer absorbed are not in it
};

// A tensor that `--capture` can read from the real stream: lies complete in `view` when command `command` of step
// `step` has completed (command counts in stream order, -1: before the first).
struct Capture {
  std::string name; // ONNX tensor name
  Type type;
  isa::View view;
  uint32_t step = 0;
  int32_t command = -1;
};

struct ModelFile {
  std::string target_name, target_text; // canonical YAML; its SHA-256 is stored and checked
  std::vector<std::string> origins;     // ids of all ONNX nodes that steps refer to
  std::vector<IoTensor> inputs, outputs;
  std::vector<std::variant<NpuStep, HostStep>> steps;
  std::vector<Layer> layers;
  std::vector<Capture> captures;
  int64_t arena_bytes = 0, sram_bytes = 0;
  int num_slots = 0;
  std::vector<std::pair<std::string, std::string>> metadata; // tool version, model hash ...

  // The const region, 64-byte aligned pieces. When writing: concatenated from `const_pieces` (offset ascending, gaps
  // zero); when read: a mapping. A piece is bytes in memory, or made by `fill` (into zeros) each time they are wanted:
  // packed weights of a big model are never all in memory.
  struct Piece {
    int64_t offset = 0;
    const uint8_t *data = nullptr;
    int64_t bytes = 0;
    std::shared_ptr<const void> owner = nullptr;
    std::function<void(uint8_t *dst)> fill = {}; // with no `data`; called by any thread
    void CopyTo(uint8_t *dst) const;             // dst: `bytes` zeros
  };
  std::vector<Piece> const_pieces;
  int64_t const_bytes = 0;
};

// Writes through support/atomic_file.h. Deterministic bytes.
// `threads` (or null) make the pieces' bytes.
Status WriteModelFile(const ModelFile &m, const std::string &path, ThreadPool *threads = nullptr);
// Maps the file and proves header, section table, checksums, FlatBuffers and decoding; not yet the machine's rules: see
// backend/verify. Errors E06xx. const_pieces has one piece, the mapping (kept alive by its owner).
StatusOr<ModelFile> ReadModelFile(const std::string &path);
StatusOr<ModelFile> ReadModelFile(const MappedFile &file);

} // namespace npuc::container
