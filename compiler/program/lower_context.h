// What an operator's lowering works with: where its tensors lie, scratch memory, and the command list it appends to.
//
// A lowering is a loop over output tiles: Fetch the input region (a DMA if the tensor lies in DDR, nothing if it is on
// chip), compute, and Store. Each tile gets SRAM buffers of its own; emission reuses their bytes and lets transfers run
// ahead of computation, so a lowering only has to keep the bytes that are alive at once within budget() / 2 or so, to
// leave room for the neighbours in time.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "compiler/program/program.h"
#include "compiler/program/views.h"

namespace npuc {

// Rows and columns of a layer's output that one compute command makes, as --tile gives them.
struct OutputTile {
  int64_t h = 0, w = 0;
};

class LowerContext {
public:
  LowerContext(program::Program *program, const Target &target) : program_(program), target_(target) {}

  const Target &target() const { return target_; }
  // Bytes of SRAM that this node may have alive at once beyond what lies on chip already.
  int64_t budget() const { return budget_; }
  // The user's wish for this layer. A lowering that asks must obey: larger extents than the output's mean the whole
  // output, a tile that cannot be is E0520 (TileRefused). Those that have no such choice do not ask.
  std::optional<OutputTile> AskTile() {
    tile_asked_ = true;
    return tile_;
  }

  // The whole tensor. Operands that are constants: see LoadTensor.
  isa::View ViewOf(const Value *v) const;
  bool OnChip(const isa::View &v) const;
  static isa::Quant QuantOf(const Value *v); // per tensor; {1, 0} for floats

  // --- scratch ---
  isa::Address AllocSram(int64_t bytes, std::string name);
  isa::View AllocTile(DType t, int64_t n, int64_t h, int64_t w, int64_t c, std::string name); // dense NHWC in SRAM

  // --- movement ---
  // The box of `full` as a view in SRAM: a sub-view if it lies there, else a dense NHWC tile filled by a DMA.
  isa::View Fetch(const isa::View &full, const program::Box &box, const std::string &name);
  // Where the box of `full` is to be written in SRAM: the sub-view, or a tile that Store copies out.
  isa::View Tile(const isa::View &full, const program::Box &box, const std::string &name);
  void Store(const isa::View &tile, const isa::View &full, const program::Box &box); // nothing when tile lies in place
  void Copy(const isa::View &src,
            const isa::View &dst); // a DMA on the engine that fits: LD unless the destination is DDR

  // --- constants ---
  // `layout`: what the bytes depend on beside the layer; stripes of one layer share what has one.
  program::BufferId AddConst(int64_t bytes, std::string name, std::vector<program::Part> parts,
                             std::optional<std::pair<int64_t, int64_t>> layout = std::nullopt);
  program::BufferId AddConst(int64_t bytes, std::string name, std::function<void(uint8_t *)> fill) {
    return AddConst(bytes, std::move(name), std::vector<program::Part>{{0, bytes, std::move(fill)}});
  }
  // A piece of a constant buffer in SRAM (a DMA each call).
  isa::Address LoadConst(program::BufferId buffer, int64_t offset, int64_t bytes, const std::string &name);
  // `bytes` bytes of SRAM that repeat the kPatternBytes at `offset` of the buffer: one DMA that reads DDR once.
  static constexpr int64_t kPatternBytes = 64;
  isa::Address LoadPattern(program::BufferId buffer, int64_t offset, int64_t bytes, const std::string &name);
  // A constant operand as a DDR view of its type (its own bytes, row-major layouts as the type says); Fetch brings
  // boxes of it on chip.
  isa::View ConstView(const Value *v);

  // --- commands ---
  void Emit(isa::Engine engine, isa::CommandBody body);
  void Mxu(isa::CommandBody body) { Emit(isa::Engine::MXU, std::move(body)); }
  void Vpu(isa::CommandBody body) { Emit(isa::Engine::VPU, std::move(body)); }

  // Fused bodies: inner values of the body stand for outer ones (body input k is operand k).
  void Bind(const Value *inner, const Value *outer) { bound_[inner] = outer; }
  const Value *Resolve(const Value *v) const;

  // --- used by the tiler ---
  program::BufferId AddBuffer(program::Buffer b);
  // `part`: the layer that the node computes some rows of, or -1.
  void BeginNode(program::NpuSegment *segment, uint32_t layer, int64_t budget, std::optional<OutputTile> tile,
                 int part = -1) {
    part_ = part;
    segment_ = segment;
    layer_ = layer;
    budget_ = budget;
    tile_ = tile;
    tile_asked_ = false;
    bound_.clear();
  }
  program::Program &program() { return *program_; }
  bool tile_asked() const { return tile_asked_; } // since BeginNode

private:
  program::Program *program_;
  const Target &target_;
  program::NpuSegment *segment_ = nullptr;
  uint32_t layer_ = 0;
  int64_t budget_ = 0;
  std::optional<OutputTile> tile_;
  bool tile_asked_ = false;
  int part_ = -1;
  std::map<std::tuple<int, int64_t, int64_t>, program::BufferId> part_consts_;
  llvm::DenseMap<const Value *, const Value *> bound_;
  llvm::DenseMap<const void *, program::BufferId>
      const_views_; // by the constant Value: one buffer however often it is used
};

// E0520: "an output tile of 64x64 cannot be used: <why>".
Status TileRefused(const OutputTile &tile, std::string_view why, std::string help);

} // namespace npuc
