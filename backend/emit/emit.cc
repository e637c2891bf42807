// The recipe:
//
//   outputs get memory of their own -> layers in stripes of rows -> tile -> SRAM addresses, segment by segment (where
//   fragments don't fit, the layers there plan with less, and again) -> arena and const addresses -> substitute ->
//   waits -> host steps -> model file
//
// Waits: commands in program order define the result; a command must wait, on each other engine, for the last command
// before it whose bytes meet its own (one of the two writing). verify/hazards.h finds that from exact byte sets and
// drops what is implied already.
#include "backend/emit/emit.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "backend/emit/host_step.h"
#include "backend/emit/sram.h"
#include "backend/isa/isa.h"
#include "backend/memory/allocate.h"
#include "backend/verify/hazards.h"
#include "compiler/program/lower_context.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"

namespace npuc::emit {

using container::HostBinding;
using container::ModelFile;
using isa::Region;
using program::Buffer;
using program::Program;
using program::Space;

namespace {

constexpr int64_t kConstAlign = 64;
// Constants of a host step from this size on lie in the const section.
constexpr int64_t kExternalBytes = 64;

struct Addressed {
  Program program;
  std::vector<isa::Address> address; // by BufferId (Sram buffers: of their segment)
  int64_t arena_bytes = 0, const_bytes = 0, sram_peak = 0;
};

// Arena by node-level live positions; const one after the other; io as it is.
void PlaceDdr(Addressed &a) {
  std::vector<memory::Request> requests;
  std::vector<size_t> which;
  for (size_t i = 0; i < a.program.buffers.size(); ++i) {
    const Buffer &b = a.program.buffers[i];
    switch (b.space) {
    case Space::Sram:
      break;
    case Space::Io:
      a.address[i] = {Region::Io, static_cast<uint32_t>(b.io), 0};
      break;
    case Space::Const:
      a.address[i] = {Region::Const, 0, a.const_bytes};
      a.const_bytes = RoundUp(a.const_bytes + b.bytes, kConstAlign);
      break;
    case Space::Arena: {
      memory::Request r;
      r.size = RoundUp(b.bytes, kConstAlign);
      r.align = kConstAlign;
      r.first = b.first;
      r.last = b.last;
      requests.push_back(r);
      which.push_back(i);
      break;
    }
    }
  }
  const memory::Allocation alloc = memory::Allocate(requests, int64_t{1} << 60);
  a.arena_bytes = alloc.peak;
  for (size_t k = 0; k < which.size(); ++k)
    a.address[which[k]] = {Region::Arena, 0, alloc.offsets[k]};
}

void Substitute(isa::Address &x, const std::vector<isa::Address> &table) {
  if (x.region != Region::Buffer)
    return;
  const isa::Address &to = table[x.index];
  x = {to.region, to.index, to.offset + x.offset};
}

// SRAM addresses of all segments. False when some don't fit: then `options` asks for less where that was.
bool PlaceSram(Addressed &a, const Target &target, bool run_ahead, int attempt, tile::TileOptions *options) {
  bool fits = true;
  auto space_of = [&](const isa::Address &x) {
    return a.program.buffers[x.index].space == Space::Sram ? Region::Sram : Region::Arena;
  };
  std::map<size_t, int64_t> beyond; // most bytes, by position
  for (auto &step : a.program.steps) {
    auto *segment = std::get_if<program::NpuSegment>(&step);
    if (!segment)
      continue;
    const SramPlan plan = PlanSram(a.program, *segment, target, run_ahead, [&](size_t i) {
      return timing::EstimateCycles(segment->commands[i], target, space_of);
    });
    fits &= plan.fits;
    a.sram_peak = std::max(a.sram_peak, plan.peak);
    for (size_t b = 0; b < plan.offsets.size(); ++b)
      if (plan.offsets[b] >= 0)
        a.address[b] = {Region::Sram, 0, plan.offsets[b]};
    auto position = [&](int64_t command) { return size_t{segment->positions[command]}; };
    for (const SramPlan::Misfit &m : plan.misfits)
      for (size_t p = position(m.first), last = position(m.last); !plan.fits && p <= last; ++p)
        beyond[p] = std::max(beyond[p], m.bytes);
  }
  for (const auto &[p, bytes] : beyond) {
    if (options->withheld.size() <= p)
      options->withheld.resize(p + 1, 0);
    options->withheld[p] += std::max(bytes, target.sram.bytes / 64 * (1 + attempt));
  }
  return fits;
}

StatusOr<Addressed> PlaceAll(Module &m, const NpuOps &npu, const Target &target, const EmitOptions &options) {
  constexpr int kAttempts = 32;
  tile::TileOptions tiling;
  tile::RowParts parts;
  if (options.opt_level > 0)
    parts = tile::SplitRows(m, npu, target, [&](const Node &n) {
      // The user's tiles are of whole layers.
      return llvm::any_of(n.origin(), [&](OriginId o) { return options.tiles.count(m.onnx_nodes()[o].id) != 0; });
    });
  tiling.parts = &parts;
  tiling.keep_on_chip = options.opt_level > 0;
  tiling.tiles = options.tiles;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    size_t failed = 0;
    StatusOr<Program> p = tile::TileModule(m, npu, target, tiling, &failed);
    if (!p.ok()) {
      // A layer may fit when nothing else is kept on chip.
      if (tiling.alone.size() <= failed)
        tiling.alone.resize(failed + 1, false);
      if (!tiling.keep_on_chip || tiling.alone[failed])
        return p.status();
      tiling.alone[failed] = true;
      continue;
    }
    Addressed a;
    a.program = *std::move(p);
    a.address.resize(a.program.buffers.size());
    if (!PlaceSram(a, target, options.opt_level > 0, attempt, &tiling))
      continue;
    PlaceDdr(a);
    return a;
  }
  return Error("E0406", "the layers' tiles do not fit the on-chip memory together", "use a target with more SRAM");
}

} // namespace

StatusOr<EmitResult> Emit(Module &m, const NpuOps &npu, const Target &target, const EmitOptions &options) {
  tile::MakeOutputsOwn(m);
  Graph &g = m.main();
  NPUC_ASSIGN_OR_RETURN(Addressed a, PlaceAll(m, npu, target, options));
  Program &p = a.program;

  EmitResult r;
  ModelFile &file = r.file;
  file.target_name = target.name;
  file.target_text = target.ToCanonicalYaml();
  file.sram_bytes = target.sram.bytes;
  file.arena_bytes = a.arena_bytes;
  r.sram_peak = a.sram_peak;
  for (const OnnxNode &n : m.onnx_nodes())
    file.origins.push_back(n.id);

  // --- slots: values that only the host sees, and those without a static shape ---
  llvm::DenseMap<const Value *, int> slots;
  auto slot = [&](const Value *v) { return slots.try_emplace(v, static_cast<int>(slots.size())).first->second; };
  auto in_memory = [&](const Value *v) { return p.places.count(v) != 0; };
  auto io = [&](const Value *v, const std::string &name) {
    container::IoTensor t;
    t.name = name;
    t.type = v->type();
    if (in_memory(v))
      t.bytes = program::StorageBytes(v->type(), target);
    else
      t.slot = slot(v);
    return t;
  };
  for (unsigned i = 0; i < g.num_inputs(); ++i)
    file.inputs.push_back(io(g.input(i), g.input(i)->name()));
  for (unsigned i = 0; i < g.num_outputs(); ++i)
    file.outputs.push_back(io(g.output(i), g.output_names()[i]));

  // --- const region: the program's buffers, then what host steps add ---
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer &b = p.buffers[i];
    if (b.space != Space::Const || b.bytes == 0)
      continue;
    ModelFile::Piece piece;
    piece.offset = a.address[i].offset;
    piece.bytes = b.bytes;
    piece.data = b.data;
    if (b.data)
      file.const_pieces.push_back(std::move(piece));
    for (const program::Part &part : b.parts) {
      piece.offset = a.address[i].offset + part.offset;
      piece.bytes = part.bytes;
      piece.fill = part.fill;
      file.const_pieces.push_back(piece);
    }
  }
  file.const_bytes = a.const_bytes;

  // --- layers ---
  for (const program::Layer &l : p.layers) {
    container::Layer c;
    c.id = static_cast<uint32_t>(file.layers.size());
    c.name = l.name;
    c.op = l.op;
    c.origins.assign(l.origin.begin(), l.origin.end());
    file.layers.push_back(std::move(c));
    r.layers.push_back({l.node, l.tiles, 0, l.ifm, l.ofm});
  }

  // --- steps ---
  llvm::DenseMap<const uint8_t *, int64_t> external; // host constants already in the const section, by address
  std::vector<uint32_t> step_index;                  // program step -> file step (empty segments vanish)
  std::vector<bool> empty;
  for (auto &step : p.steps) {
    step_index.push_back(static_cast<uint32_t>(file.steps.size()));
    if (auto *segment = std::get_if<program::NpuSegment>(&step)) {
      empty.push_back(segment->commands.empty());
      if (empty.back())
        continue;
      container::NpuStep npu_step;
      isa::Stream &stream = npu_step.stream;
      stream = std::move(segment->commands);
      for (isa::Command &c : stream) {
        isa::ForEachAddress(c, [&](isa::Address &x) { Substitute(x, a.address); });
        ++r.layers[c.layer].commands;
      }
      verify::DeriveWaits(stream);
      stream.push_back(isa::Command{});
      r.timelines.push_back(timing::Simulate(stream, target));
      file.steps.push_back(std::move(npu_step));
      continue;
    }
    empty.push_back(false);
    const auto &host = std::get<program::HostSegment>(step);
    const HostGraph h = ExtractHostGraph(g, host.nodes);
    container::HostStep out;
    auto binding = [&](const Value *v, const Value *inner) {
      HostBinding b;
      b.name = inner->name();
      b.type = inner->type();
      if (in_memory(v)) {
        NPUC_CHECK(v->type().layout() == Layout::RowMajor, "host step reads '{}' in layout {}", v->name(),
                   Name(v->type().layout()));
        b.address = p.places[v].view.address;
        Substitute(b.address, a.address);
      } else {
        b.slot = slot(v);
      }
      return b;
    };
    const Graph &hg = h.module->main();
    for (size_t i = 0; i < h.inputs.size(); ++i)
      out.inputs.push_back(binding(h.inputs[i], hg.input(i)));
    for (size_t i = 0; i < h.outputs.size(); ++i)
      out.outputs.push_back(binding(h.outputs[i], hg.output(i)));
    for (const Node *n : host.nodes) {
      auto note = [&](const Node &inner) {
        if (inner.is_constant() || inner.is_return())
          return;
        container::HostStep::NodeInfo info;
        info.op = inner.op().name;
        info.origins.assign(inner.origin().begin(), inner.origin().end());
        out.nodes.push_back(std::move(info));
      };
      note(*n);
      for (unsigned i = 0; i < n->num_bodies(); ++i)
        WalkNodes(std::as_const(*n->body(i)), note);
    }
    const ExternalWriter write_external = [&](const Tensor &t) -> std::optional<ExternalRange> {
      if (t.dtype() == DType::String || t.is_splat() || t.num_stored_bytes() < kExternalBytes)
        return std::nullopt;
      auto [it, fresh] = external.try_emplace(t.bytes(), file.const_bytes);
      if (fresh) {
        ModelFile::Piece piece;
        piece.offset = file.const_bytes;
        piece.data = t.bytes();
        piece.bytes = t.num_stored_bytes();
        piece.owner = std::make_shared<Tensor>(t);
        file.const_pieces.push_back(std::move(piece));
        file.const_bytes = RoundUp(file.const_bytes + t.num_stored_bytes(), kConstAlign);
      }
      return ExternalRange{it->second, t.num_stored_bytes()};
    };
    out.ir = PrintWithExternal(*h.module, write_external);
    file.steps.push_back(std::move(out));
    r.host_steps.push_back({host.nodes});
  }
  file.num_slots = static_cast<int>(slots.size());

  // --- captures: only what lies in memory when its layer ends ---
  for (const program::Capture &c : p.captures) {
    if (empty[c.step])
      continue; // nothing is computed: the tensor is another one's bytes
    container::Capture out;
    out.name = c.value->name();
    out.type = c.value->type();
    out.view = c.view;
    Substitute(out.view.address, a.address);
    out.step = step_index[c.step];
    out.command = c.command;
    file.captures.push_back(std::move(out));
  }
  return r;
}

} // namespace npuc::emit
