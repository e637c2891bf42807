// The walk: runs of nodes become steps; each NPU node is lowered with the SRAM that resident tensors leave free at its
// place in time.
//
// Working memory: a node plans with what is free at its position less a quarter, which its neighbours' tiles and the
// weights that are fetched ahead can use. Nothing here needs to be exact: emission allocates by live range and falls
// back to a smaller share.
#include "passes/tile/tile.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/ir/graph.h"
#include "compiler/program/lower_context.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/status.h"
#include "passes/common.h"
#include "passes/tile/places.h"

namespace npuc::tile {

using program::Buffer;
using program::Program;
using program::Space;

namespace {

// Constant bytes that a node brings on chip: its share of working memory.
int64_t ConstantBytes(const Node &n) {
  int64_t bytes = 0;
  for (const Value *v : n.operands())
    if (v && v->constant())
      bytes += v->constant()->num_elements() * std::min(2, ByteSize(v->constant()->dtype()));
  return bytes;
}

std::string NodeName(const Module &m, const Node &n) {
  return n.origin().empty() ? n.result()->name() : m.onnx_nodes()[n.origin().front()].id;
}

std::string OpName(const Node &n) {
  if (!n.Is("Fused", "npuc"))
    return std::string(n.op().name);
  std::string s;
  for (const Node &b : n.body(0)->nodes()) {
    if (b.is_constant() || b.is_return() || b.op().domain == "npuc" || b.Is("Cast"))
      continue;
    s += (s.empty() ? "" : "+") + std::string(b.op().name);
  }
  return s;
}

// Which --tile is for which layer, and whether a layer took it.
class Tiles {
public:
  Tiles(const Module &m, const TileOptions &options) : m_(m), options_(options) {}

  // Of the layer of `n`. E0520: its nodes have different ones.
  StatusOr<std::optional<OutputTile>> Of(const Node &n) {
    std::optional<OutputTile> tile;
    for (const OriginId o : n.origin()) {
      const auto it = options_.tiles.find(m_.onnx_nodes()[o].id);
      if (it == options_.tiles.end())
        continue;
      const OutputTile wish{it->second.first, it->second.second};
      state_.try_emplace(it->first, State::NoChoice);
      if (tile && (tile->h != wish.h || tile->w != wish.w))
        return TileRefused(wish, fmt::format("another node of the same layer has {}x{}", tile->h, tile->w),
                           "give --tile for one node of the layer");
      tile = wish;
    }
    return tile;
  }
  void Taken(const Node &n) {
    for (const OriginId o : n.origin())
      if (auto it = state_.find(m_.onnx_nodes()[o].id); it != state_.end())
        it->second = State::Taken;
  }
  // Each that nobody took is an error.
  Status Finish() const {
    for (const auto &[id, size] : options_.tiles) {
      const auto it = state_.find(id);
      if (it != state_.end() && it->second == State::Taken)
        continue;
      return AtNode(TileRefused({size.first, size.second},
                                it == state_.end() ? "the node is in no layer of the NPU"
                                                   : "its layer has no rows and columns to choose",
                                "leave this --tile out; the report says where each node runs and in how many tiles"),
                    id, "");
    }
    return OkStatus();
  }

private:
  enum class State { NoChoice, Taken };
  const Module &m_;
  const TileOptions &options_;
  std::map<std::string, State> state_;
};

} // namespace

bool MakeOutputsOwn(Module &m) {
  Graph &g = m.main();
  const OpDef *copy = LookupOp("npuc", "Relayout");
  const OpDef *identity = LookupOp("", "Identity");
  bool changed = false;
  llvm::DenseMap<const Value *, unsigned> seen;
  for (unsigned i = 0; i < g.num_outputs(); ++i) {
    Value *v = g.output(i);
    if (v->def() && !v->def()->is_constant() && seen.try_emplace(v, i).second)
      continue;
    const bool npu = v->def() && v->def()->placement() == Placement::Npu && v->type().is_static_tensor();
    const std::string name = v->name() + "/output";
    Node *n = g.AddNode(npu ? copy : identity, {v}, 1, {}, nullptr, {name});
    n->set_placement(npu ? Placement::Npu : Placement::Host);
    n->result()->set_type(v->type());
    g.return_node()->set_operand(i, n->result());
    changed = true;
  }
  return changed;
}

StatusOr<Program> TileModule(Module &m, const NpuOps &npu, const Target &target, const TileOptions &options,
                             size_t *failed) {
  Graph &g = m.main();
  const std::vector<Run> runs = SplitRuns(g);
  Places places(g, runs, target);
  const int64_t sram = target.sram.bytes;
  auto withheld = [&](size_t position) { return position < options.withheld.size() ? options.withheld[position] : 0; };

  std::vector<int64_t> reserve;
  for (const Run &run : runs)
    for (const Node *n : run.nodes) {
      const NpuOp *op = run.placement == Placement::Npu ? npu.Find(n->op()) : nullptr;
      const int64_t least = op ? op->WorkingBytes(*n, target) * 4 / 3 + 64 : 0; // the budget below is three quarters
      const int64_t wanted = std::min(std::max<int64_t>(sram / 96, 2 * ConstantBytes(*n) + sram / 96), sram / 2);
      const size_t position = reserve.size();
      const bool alone = position < options.alone.size() && options.alone[position];
      const int64_t tiles = std::max(wanted, std::min(least, sram * 9 / 10));
      reserve.push_back(alone ? sram : std::min(sram, tiles + withheld(position)));
    }
  std::vector<int64_t> used(reserve.size(), 0);
  if (options.keep_on_chip)
    used = ChooseOnChip(places, runs, reserve, sram);

  Program p;
  // Buffers of the outermost roots that values lie in.
  std::vector<int64_t> root_buffer(places.roots().size(), -1);
  for (const Value *v : places.values()) {
    isa::View view = places.view(v);
    const uint32_t root = view.address.index;
    if (root_buffer[root] < 0) {
      const Root &r = places.roots()[root];
      Buffer b;
      b.space = r.io >= 0 ? Space::Io : r.on_chip ? Space::Sram : Space::Arena;
      b.bytes = r.bytes;
      b.io = r.io;
      b.name = r.name;
      b.first = r.first;
      b.last = r.last;
      root_buffer[root] = static_cast<int64_t>(p.buffers.size());
      p.buffers.push_back(std::move(b));
    }
    view.address.index = static_cast<uint32_t>(root_buffer[root]);
    p.places[v] = {view};
  }

  llvm::DenseMap<int, uint32_t> part_layer;
  LowerContext ctx(&p, target);
  Tiles tiles(m, options);
  size_t position = 0;
  for (const Run &run : runs) {
    if (run.placement == Placement::Host) {
      p.steps.push_back(program::HostSegment{run.nodes});
      position += run.nodes.size();
      continue;
    }
    program::NpuSegment segment;
    const uint32_t step = static_cast<uint32_t>(p.steps.size());
    for (const Node *n : run.nodes) {
      const NpuOp *op = npu.Find(n->op());
      NPUC_CHECK(op != nullptr, "no lowering for {}", n->op().name);
      const RowPart *part = nullptr;
      if (options.parts)
        if (auto it = options.parts->find(n); it != options.parts->end())
          part = &it->second;
      // Stripes of one layer are that layer.
      auto [known, fresh] = part ? part_layer.try_emplace(part->layer, 0) : std::pair(part_layer.end(), true);
      if (fresh) {
        program::Layer layer;
        layer.name = NodeName(m, *n);
        layer.op = OpName(*n);
        layer.origin = n->origin();
        layer.node = n;
        if (part) {
          layer.ifm = part->ifm;
          layer.ofm = part->ofm;
          known->second = static_cast<uint32_t>(p.layers.size());
        }
        p.layers.push_back(std::move(layer));
      }
      const uint32_t layer = fresh ? static_cast<uint32_t>(p.layers.size() - 1) : known->second;
      const int64_t budget = std::max<int64_t>((sram - withheld(position) - used[position]) * 3 / 4, sram / 128);
      auto tile = tiles.Of(*n);
      if (!tile.ok())
        return AtNode(tile.status(), NodeName(m, *n), n->op().name);
      ctx.BeginNode(&segment, layer, budget, *tile, part ? part->layer : -1);
      if (Status s = op->Lower(*n, ctx); !s.ok()) {
        if (failed)
          *failed = position;
        return AtNode(s, NodeName(m, *n), n->op().name);
      }
      if (*tile && ctx.tile_asked())
        tiles.Taken(*n);
      segment.positions.resize(segment.commands.size(), static_cast<uint32_t>(position));
      // A copy that turned out to be none is no layer: rows that are read and written where they lie.
      if (fresh && n->origin().empty() && (segment.commands.empty() || segment.commands.back().layer != layer) &&
          IsOneOf(*n, {"Slice", "Concat"}))
        p.layers.pop_back();
      for (unsigned i = 0; i < n->num_results() && !part; ++i)
        if (auto it = p.places.find(n->result(i)); it != p.places.end())
          p.captures.push_back(
              {n->result(i), it->second.view, step, static_cast<int32_t>(segment.commands.size()) - 1});
      ++position;
    }
    p.steps.push_back(std::move(segment));
  }
  NPUC_RETURN_IF_ERROR(tiles.Finish());
  return p;
}

} // namespace npuc::tile
