#include "compiler/program/lower_context.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/int_math.h"
#include "compiler/support/status.h"

namespace npuc {

using isa::Address;
using isa::Region;
using isa::View;
using program::Box;
using program::Buffer;
using program::BufferId;
using program::Space;

const Value *LowerContext::Resolve(const Value *v) const {
  for (auto it = bound_.find(v); it != bound_.end(); it = bound_.find(v))
    v = it->second;
  return v;
}

View LowerContext::ViewOf(const Value *v) const {
  v = Resolve(v);
  auto it = program_->places.find(v);
  NPUC_CHECK(it != program_->places.end(), "value '{}' has no place", v->name());
  return it->second.view;
}

bool LowerContext::OnChip(const View &v) const {
  return v.address.region == Region::Buffer && program_->buffers[v.address.index].space == Space::Sram;
}

isa::Quant LowerContext::QuantOf(const Value *v) {
  const QuantRef &q = v->type().quant();
  if (!q)
    return {};
  NPUC_CHECK(q->per_tensor(), "'{}' is quantised per axis where one scale is needed", v->name());
  return {q->scale(), q->zero_point()};
}

BufferId LowerContext::AddBuffer(Buffer b) {
  program_->buffers.push_back(std::move(b));
  return static_cast<BufferId>(program_->buffers.size() - 1);
}

Address LowerContext::AllocSram(int64_t bytes, std::string name) {
  Buffer b;
  b.space = Space::Sram;
  b.bytes = bytes;
  b.name = std::move(name);
  return {Region::Buffer, AddBuffer(std::move(b)), 0};
}

View LowerContext::AllocTile(DType t, int64_t n, int64_t h, int64_t w, int64_t c, std::string name) {
  return isa::NhwcView(AllocSram(n * h * w * c * ByteSize(t), std::move(name)), t, n, h, w, c);
}

View LowerContext::Fetch(const View &full, const Box &box, const std::string &name) {
  const View src = program::Sub(full, box);
  if (OnChip(full))
    return src;
  View tile = AllocTile(full.dtype, box.size[0], box.size[1], box.size[2], box.size[3], name);
  tile.zero = full.zero;
  Copy(src, tile);
  return tile;
}

View LowerContext::Tile(const View &full, const Box &box, const std::string &name) {
  if (OnChip(full))
    return program::Sub(full, box);
  View tile = AllocTile(full.dtype, box.size[0], box.size[1], box.size[2], box.size[3], name);
  tile.zero = full.zero;
  return tile;
}

void LowerContext::Store(const View &tile, const View &full, const Box &box) {
  if (OnChip(full))
    return;
  Copy(tile, program::Sub(full, box));
}

void LowerContext::Copy(const View &src, const View &dst) {
  isa::Dma dma;
  dma.src = src;
  dma.dst = dst;
  Emit(OnChip(dst) ? isa::Engine::LD : isa::Engine::ST, std::move(dma));
}

BufferId LowerContext::AddConst(int64_t bytes, std::string name, std::vector<program::Part> parts,
                                std::optional<std::pair<int64_t, int64_t>> layout) {
  BufferId *shared = nullptr;
  if (part_ >= 0 && layout) {
    auto [it, fresh] = part_consts_.try_emplace({part_, layout->first, layout->second}, 0);
    if (!fresh)
      return it->second;
    shared = &it->second;
  }
  Buffer b;
  b.space = Space::Const;
  b.bytes = bytes;
  b.name = std::move(name);
  b.parts = std::move(parts);
  const BufferId id = AddBuffer(std::move(b));
  if (shared)
    *shared = id;
  return id;
}

Address LowerContext::LoadConst(BufferId buffer, int64_t offset, int64_t bytes, const std::string &name) {
  const Address to = AllocSram(bytes, name);
  // Bytes in lines of at most the machine's greatest extent, so that any size is one or two copies.
  const int64_t line = std::min<int64_t>(bytes, target_.limits.dims_max / 2);
  const int64_t lines = bytes / line, rest = bytes % line;
  auto piece = [&](int64_t at, int64_t w, int64_t c) {
    Copy(isa::NhwcView({Region::Buffer, buffer, offset + at}, DType::U8, 1, 1, w, c),
         isa::NhwcView({to.region, to.index, at}, DType::U8, 1, 1, w, c));
  };
  piece(0, lines, line);
  if (rest)
    piece(lines * line, 1, rest);
  return to;
}

Address LowerContext::LoadPattern(BufferId buffer, int64_t offset, int64_t bytes, const std::string &name) {
  const Address to = AllocSram(RoundUp(bytes, kPatternBytes), name);
  for (int64_t at = 0, lines = CeilDiv(bytes, kPatternBytes); at < lines; at += target_.limits.dims_max) {
    const int64_t w = std::min(target_.limits.dims_max, lines - at);
    View src = isa::NhwcView({Region::Buffer, buffer, offset}, DType::U8, 1, 1, w, kPatternBytes);
    src.stride_w = 0;
    Copy(src, isa::NhwcView({to.region, to.index, at * kPatternBytes}, DType::U8, 1, 1, w, kPatternBytes));
  }
  return to;
}

View LowerContext::ConstView(const Value *v) {
  v = Resolve(v);
  const Tensor *t = v->constant();
  NPUC_CHECK(t != nullptr, "'{}' is not a constant", v->name());
  NPUC_CHECK(v->type().layout() == Layout::RowMajor, "constant '{}' in layout {}", v->name(), Name(v->type().layout()));
  auto [it, fresh] = const_views_.try_emplace(v, 0);
  if (fresh) {
    Buffer b;
    b.space = Space::Const;
    b.name = v->name();
    if (t->is_splat()) {
      b.bytes = t->num_elements() * ByteSize(t->dtype());
      b.parts.push_back({0, b.bytes, [t = *t](uint8_t *dst) {
                           const int size = ByteSize(t.dtype());
                           for (int64_t i = 0, n = t.num_elements(); i < n; ++i)
                             std::memcpy(dst + i * size, t.bytes(), size);
                         }});
    } else {
      b.bytes = t->num_stored_bytes();
      b.data = t->bytes();
    }
    const_views_[v] = AddBuffer(std::move(b));
  }
  return program::ViewOfType(v->type(), {Region::Buffer, const_views_[v], 0}, target_);
}

void LowerContext::Emit(isa::Engine engine, isa::CommandBody body) {
  isa::Command c;
  c.engine = engine;
  c.layer = layer_;
  c.body = std::move(body);
  if (engine == isa::Engine::MXU || engine == isa::Engine::VPU)
    ++program_->layers[layer_].tiles;
  segment_->commands.push_back(std::move(c));
}

Status TileRefused(const OutputTile &tile, std::string_view why, std::string help) {
  return Error("E0520", fmt::format("an output tile of {}x{} cannot be used: {}", tile.h, tile.w, why),
               std::move(help));
}

} // namespace npuc
