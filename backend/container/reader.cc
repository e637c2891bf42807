// Reads model.bin. Nothing is used before it is proved: magic and versions, the file's length, the header's checksum,
// the section table (in bounds, aligned, disjoint), each section's checksum, the target's SHA-256, FlatBuffers' own
// verifier, every enumeration, index and range of the metadata, the streams' decoding, the ranges of constants that
// host steps name. What the commands do to memory is backend/verify's to prove.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "backend/container/format.h"
#include "backend/container/metadata_generated.h"
#include "backend/container/model_file.h"
#include "backend/isa/isa.h"
#include "backend/isa/names.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"

namespace npuc::container {
namespace {

constexpr int kMaxTypeDepth = 16;
const char *const kHelp = "the file was cut or changed: copy it again, or compile the model again";

Status Damaged(std::string what) {
  return Error("E0603", std::move(what), kHelp);
}

std::string_view SectionName(uint32_t kind) {
  static constexpr std::string_view names[] = {"?", "target", "metadata", "streams", "ir", "const"};
  return kind < std::size(names) ? names[kind] : names[0];
}

struct Sections {
  std::array<std::span<const uint8_t>, kNumSectionKinds + 1> by_kind;
  std::span<const uint8_t> operator[](SectionKind k) const { return by_kind[static_cast<uint32_t>(k)]; }
  std::array<uint8_t, 32> target_sha256;
};

StatusOr<Sections> ReadSections(std::span<const uint8_t> file) {
  Header h;
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    return Error("E0601", "not an NPU binary", "compile the model with npuc first");
  if (file.size() < sizeof h)
    return Damaged(fmt::format("the file has {} bytes, less than its header", file.size()));
  std::memcpy(&h, file.data(), sizeof h);
  const char *const newer = "use the npu-run of the npuc that made the file, or compile the model again";
  if (h.major != kContainerMajor)
    return Error("E0602",
                 fmt::format("container version {}.{}, this loader reads {}.x", h.major, h.minor, kContainerMajor),
                 newer);
  if (h.num_sections > kMaxSections)
    return Damaged(fmt::format("{} sections, {} are allowed", h.num_sections, kMaxSections));
  const uint64_t front = sizeof h + h.num_sections * sizeof(Section);
  if (file.size() < front)
    return Damaged(fmt::format("the file has {} bytes, less than its section table", file.size()));
  std::vector<uint8_t> checked(file.begin(), file.begin() + static_cast<ptrdiff_t>(front));
  std::memset(checked.data() + offsetof(Header, checksum), 0, sizeof h.checksum);
  if (const uint64_t sum = Xxh3(checked.data(), checked.size()); sum != h.checksum)
    return Damaged(fmt::format("the header has checksum {}, it says {}", Hex(sum), Hex(h.checksum)));
  if (h.isa_version != isa::kIsaVersion)
    return Error(
        "E0602",
        fmt::format("instruction set version {}, this loader reads version {}", h.isa_version, isa::kIsaVersion),
        newer);
  if (h.reserved)
    return Damaged("reserved bits of the header are set");
  if (h.file_bytes != file.size())
    return Damaged(fmt::format("the file has {} bytes, its header says {}", file.size(), h.file_bytes));

  std::vector<Section> table(h.num_sections);
  if (h.num_sections)
    std::memcpy(table.data(), file.data() + sizeof h, table.size() * sizeof(Section));
  std::vector<const Section *> by_offset;
  for (const Section &s : table)
    by_offset.push_back(&s);
  std::stable_sort(by_offset.begin(), by_offset.end(),
                   [](const Section *a, const Section *b) { return a->offset < b->offset; });
  uint64_t end = front;
  for (const Section *s : by_offset) {
    const std::string name =
        fmt::format("section '{}' (kind {})", SectionName(s->kind <= kNumSectionKinds ? s->kind : 0), s->kind);
    if (s->offset % kSectionAlign)
      return Damaged(fmt::format("{} starts at {}, which is no multiple of {}", name, s->offset, kSectionAlign));
    if (s->offset > file.size() || s->bytes > file.size() - s->offset)
      return Damaged(
          fmt::format("{} is outside the file: {} bytes at {} of {}", name, s->bytes, s->offset, file.size()));
    if (s->offset < end)
      return Damaged(fmt::format("{} at {} overlaps what comes before it, up to {}", name, s->offset, end));
    end = s->offset + s->bytes;
    if (s->flags & ~kSectionRequired)
      return Damaged(fmt::format("{} has unknown flags {:#x}", name, s->flags & ~kSectionRequired));
  }
  Sections out;
  out.target_sha256 = h.target_sha256;
  std::array<bool, kNumSectionKinds + 1> seen{};
  for (const Section &s : table) {
    if (s.kind == 0 || s.kind > kNumSectionKinds) {
      if (s.flags & kSectionRequired)
        return Error("E0602",
                     fmt::format("the file needs section kind {}, which this loader does not know (it reads container "
                                 "{}.{}, the file is {}.{})",
                                 s.kind, kContainerMajor, kContainerMinor, h.major, h.minor),
                     newer);
      continue;
    }
    if (seen[s.kind])
      return Damaged(fmt::format("section '{}' is there twice", SectionName(s.kind)));
    seen[s.kind] = true;
    const auto bytes = file.subspan(s.offset, s.bytes);
    if (const uint64_t sum = Xxh3(bytes.data(), bytes.size()); sum != s.checksum)
      return Damaged(fmt::format("section '{}' has checksum {}, the table says {}", SectionName(s.kind), Hex(sum),
                                 Hex(s.checksum)));
    out.by_kind[s.kind] = bytes;
  }
  for (uint32_t k = 1; k <= kNumSectionKinds; ++k)
    if (!seen[k])
      return Damaged(fmt::format("section '{}' is missing", SectionName(k)));
  return out;
}

// Every `external<OFFSET, BYTES>` of an IR text outside of string literals must lie in the const section.
Status CheckExternals(std::string_view ir, int64_t const_bytes) {
  constexpr std::string_view word = "external<";
  bool quoted = false;
  for (size_t i = 0; i < ir.size(); ++i) {
    if (quoted) {
      if (ir[i] == '\\')
        ++i;
      else if (ir[i] == '"')
        quoted = false;
      continue;
    }
    if (ir[i] == '"') {
      quoted = true;
      continue;
    }
    if (ir[i] != 'e' || ir.substr(i, word.size()) != word)
      continue;
    const char *at = ir.data() + i + word.size(), *const end = ir.data() + ir.size();
    int64_t range[2] = {};
    bool ok = true;
    for (int k = 0; k < 2 && ok; ++k) {
      while (at < end && *at == ' ')
        ++at;
      const auto r = std::from_chars(at, end, range[k]);
      ok = r.ec == std::errc();
      at = r.ptr;
      while (at < end && *at == ' ')
        ++at;
      ok = ok && at < end && *at++ == (k == 0 ? ',' : '>');
    }
    if (!ok)
      return Damaged("an external constant has no 'offset, bytes'");
    if (range[0] < 0 || range[1] < 0 || range[0] > const_bytes || range[1] > const_bytes - range[0])
      return Damaged(fmt::format("an external constant names bytes {} + {} of a const section of {}", range[0],
                                 range[1], const_bytes));
  }
  return OkStatus();
}

class MetadataReader {
public:
  MetadataReader(const Sections &s, ModelFile *out) : s_(s), m_(*out) {}

  Status Read() {
    const auto bytes = s_[SectionKind::Metadata];
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/64, /*max_tables=*/100'000'000);
    if (!fb::VerifyModelBuffer(verifier))
      return Damaged("the metadata is not well formed");
    const fb::Model &model = *fb::GetModel(bytes.data());
    for (const auto *s : Items(model.origins()))
      m_.origins.push_back(s->str());
    m_.num_slots = model.num_slots();
    m_.arena_bytes = model.arena_bytes();
    m_.sram_bytes = model.sram_bytes();
    m_.const_bytes = model.const_bytes();
    Require(m_.num_slots >= 0 && m_.arena_bytes >= 0 && m_.sram_bytes >= 0, "a size is negative");
    Require(m_.const_bytes == static_cast<int64_t>(s_[SectionKind::Const].size()),
            "the const section's size differs from the metadata's");
    for (const auto *t : Items(model.inputs()))
      m_.inputs.push_back(Io(*t));
    for (const auto *t : Items(model.outputs()))
      m_.outputs.push_back(Io(*t));
    for (const auto *l : Items(model.layers())) {
      Layer layer;
      layer.id = static_cast<uint32_t>(m_.layers.size());
      layer.name = Text(l->name());
      layer.op = Text(l->op());
      layer.origins = Origins(l->origins());
      m_.layers.push_back(std::move(layer));
    }
    for (const auto *s : Items(model.steps()))
      NPUC_RETURN_IF_ERROR(Step(*s));
    for (const auto *c : Items(model.captures())) {
      Capture capture;
      capture.name = Text(c->name());
      capture.type = TypeOf(c->type());
      capture.view = ViewOf(c->view());
      capture.step = c->step();
      capture.command = c->command();
      const bool known = capture.step < m_.steps.size() && std::holds_alternative<NpuStep>(m_.steps[capture.step]);
      Require(known, "a capture names a step that is not there");
      if (known)
        Require(capture.command >= -1 &&
                    capture.command < static_cast<int64_t>(std::get<NpuStep>(m_.steps[capture.step]).stream.size()),
                "a capture names a command that is not there");
      m_.captures.push_back(std::move(capture));
    }
    // Each slot holds an input, an output or a host step's value.
    size_t holders = m_.inputs.size() + m_.outputs.size();
    for (const auto &s : m_.steps)
      if (const auto *host = std::get_if<HostStep>(&s))
        holders += host->inputs.size() + host->outputs.size();
    Require(m_.num_slots <= static_cast<int64_t>(holders), "there are more slots than values");
    for (const auto *p : Items(model.metadata()))
      m_.metadata.push_back({Text(p->key()), Text(p->value())});
    return error_.empty() ? OkStatus() : Damaged("metadata: " + error_);
  }

private:
  void Require(bool ok, std::string_view what) {
    if (!ok && error_.empty())
      error_ = what;
  }
  // An absent vector is an empty one.
  template <class T> std::vector<const T *> Items(const flatbuffers::Vector<flatbuffers::Offset<T>> *v) {
    std::vector<const T *> out;
    if (v)
      for (const T *t : *v)
        out.push_back(t);
    return out;
  }
  static std::string Text(const flatbuffers::String *s) { return s ? s->str() : std::string(); }
  std::vector<uint32_t> Origins(const flatbuffers::Vector<uint32_t> *v) {
    std::vector<uint32_t> out;
    if (v)
      out.assign(v->begin(), v->end());
    for (uint32_t o : out)
      Require(o < m_.origins.size(), "an origin is not there");
    return out;
  }

  DType DTypeOf(uint8_t v) {
    Require(v < kNumDTypes, "an element type is out of range");
    return v < kNumDTypes ? static_cast<DType>(v) : DType::Undefined;
  }
  Type TypeOf(const fb::Type *t, int depth = 0) {
    if (!t || depth > kMaxTypeDepth) {
      Require(false, "a type is missing or too deep");
      return Type();
    }
    const DType dtype = DTypeOf(t->dtype());
    switch (static_cast<Type::Kind>(t->kind())) {
    case Type::Kind::None:
      return Type();
    case Type::Kind::Sequence:
      return Type::Sequence(TypeOf(t->element(), depth + 1));
    case Type::Kind::Optional:
      return Type::Optional(TypeOf(t->element(), depth + 1));
    case Type::Kind::Map:
      return Type::Map(dtype, TypeOf(t->element(), depth + 1));
    case Type::Kind::Tensor:
      break;
    default:
      Require(false, "a kind of type is out of range");
      return Type();
    }
    Require(dtype != DType::Undefined, "a tensor has no element type");
    Shape shape = Shape::Unranked();
    if (t->ranked()) {
      shape = Shape();
      bool is_static = true;
      llvm::SmallVector<int64_t, 4> extents;
      for (const auto *d : Items(t->dims())) {
        if (d->symbol()) {
          shape.push_back(Dim::Symbol(Text(d->symbol())));
          is_static = false;
        } else {
          Require(d->value() >= 0, "an extent is negative");
          shape.push_back(Dim(std::max<int64_t>(0, d->value())));
          extents.push_back(std::max<int64_t>(0, d->value()));
        }
      }
      if (is_static) {
        const auto n = CheckedNumElements(extents);
        Require(n && *n <= int64_t{1} << 56, "a shape has too many elements");
      }
    }
    Require(t->layout() <= static_cast<uint8_t>(Layout::NC1HWC2), "a layout is out of range");
    QuantRef quant;
    if (t->quantized()) {
      QuantParams q;
      if (t->scales())
        q.scales.assign(t->scales()->begin(), t->scales()->end());
      if (t->zero_points())
        q.zero_points.assign(t->zero_points()->begin(), t->zero_points()->end());
      q.axis = t->quant_axis();
      const int rank = shape.ranked() ? shape.rank() : 0;
      Require(!q.scales.empty() && q.scales.size() == q.zero_points.size() && q.axis >= -1 && q.axis < rank &&
                  (q.axis >= 0 || q.scales.size() == 1),
              "quantisation parameters do not fit their type");
      quant = std::make_shared<const QuantParams>(std::move(q));
    }
    if (!error_.empty())
      return Type();
    return Type::Tensor(dtype, std::move(shape), std::move(quant), static_cast<Layout>(t->layout()));
  }
  isa::Address AddressOf(const fb::Address *a) {
    isa::Address out;
    if (!a)
      return out;
    Require(a->region() <= static_cast<uint8_t>(isa::Region::Io), "a region is out of range");
    out.region = static_cast<isa::Region>(a->region() & 3);
    out.index = a->index();
    out.offset = a->offset();
    return out;
  }
  isa::View ViewOf(const fb::View *v) {
    isa::View out;
    if (!v) {
      Require(false, "a view is missing");
      return out;
    }
    out.address = AddressOf(v->address());
    out.dtype = DTypeOf(v->dtype());
    Require(v->tail() <= 1, "a tail mode is out of range");
    out.tail = static_cast<isa::Tail>(v->tail() & 1);
    out.n = v->n();
    out.h = v->h();
    out.w = v->w();
    out.c = v->c();
    out.c_block = v->c_block();
    out.c0 = v->c0();
    out.stride_n = v->stride_n();
    out.stride_c1 = v->stride_c1();
    out.stride_h = v->stride_h();
    out.stride_w = v->stride_w();
    out.zero = v->zero();
    Require(out.present() && out.n && out.h && out.w && out.c && out.c0 < out.c_block, "a view is not well formed");
    return out;
  }
  int Slot(int slot) {
    Require(slot >= -1 && slot < m_.num_slots, "a slot is not there");
    return slot;
  }
  IoTensor Io(const fb::IoTensor &t) {
    IoTensor out;
    out.name = Text(t.name());
    out.type = TypeOf(t.type());
    out.bytes = t.bytes();
    out.slot = Slot(t.slot());
    Require(out.bytes >= 0, "a size is negative");
    Require(out.slot >= 0 || out.type.is_static_tensor(), "a tensor in memory has no static shape");
    if (error_.empty() && out.slot < 0)
      Require(out.bytes >= out.type.num_bytes(), "a tensor's bytes are less than its type needs");
    return out;
  }
  HostBinding Binding(const fb::HostBinding &t) {
    HostBinding out;
    out.name = Text(t.name());
    out.type = TypeOf(t.type());
    out.address = AddressOf(t.address());
    out.slot = Slot(t.slot());
    Require(out.slot >= 0 || out.type.is_static_tensor(), "a tensor in memory has no static shape");
    return out;
  }
  Status Step(const fb::Step &s) {
    const auto section = s_[s.npu() ? SectionKind::Streams : SectionKind::Ir];
    if (s.offset() > section.size() || s.bytes() > section.size() - s.offset())
      return Damaged(fmt::format("step {} names bytes {} + {} of a section of {}", m_.steps.size(), s.offset(),
                                 s.bytes(), section.size()));
    const auto bytes = section.subspan(s.offset(), s.bytes());
    if (s.npu()) {
      if (bytes.size() % sizeof(uint32_t) || s.offset() % sizeof(uint32_t))
        return Damaged(fmt::format("step {} is no whole number of words", m_.steps.size()));
      std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
      if (!bytes.empty())
        std::memcpy(words.data(), bytes.data(), bytes.size());
      StatusOr<isa::Stream> stream = isa::Decode(words);
      if (!stream.ok())
        return Prefix(stream.status(), fmt::format("step {}", m_.steps.size()));
      m_.steps.emplace_back(NpuStep{*std::move(stream)});
      return OkStatus();
    }
    HostStep out;
    out.ir.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    if (Status st = CheckExternals(out.ir, m_.const_bytes); !st.ok())
      return Prefix(st, fmt::format("step {}", m_.steps.size()));
    for (const auto *b : Items(s.inputs()))
      out.inputs.push_back(Binding(*b));
    for (const auto *b : Items(s.outputs()))
      out.outputs.push_back(Binding(*b));
    for (const auto *n : Items(s.nodes())) {
      HostStep::NodeInfo info;
      info.op = Text(n->op());
      info.origins = Origins(n->origins());
      out.nodes.push_back(std::move(info));
    }
    m_.steps.emplace_back(std::move(out));
    return OkStatus();
  }

  const Sections &s_;
  ModelFile &m_;
  std::string error_;
};

StatusOr<ModelFile> Read(const MappedFile &file) {
  NPUC_ASSIGN_OR_RETURN(const Sections s, ReadSections(file.bytes()));
  ModelFile m;
  const auto target = s[SectionKind::Target];
  const auto zero = std::find(target.begin(), target.end(), 0);
  if (zero == target.end())
    return Damaged("section 'target' has no name");
  m.target_name.assign(target.begin(), zero);
  m.target_text.assign(zero + 1, target.end());
  if (Sha256(m.target_text) != s.target_sha256)
    return Damaged("the target's description has another SHA-256 than the header says");
  NPUC_RETURN_IF_ERROR(MetadataReader(s, &m).Read());
  const auto constants = s[SectionKind::Const];
  m.const_pieces.push_back({0, constants.data(), static_cast<int64_t>(constants.size()), file.owner()});
  return m;
}

} // namespace

StatusOr<ModelFile> ReadModelFile(const MappedFile &file) {
  StatusOr<ModelFile> m = Read(file);
  if (!m.ok())
    return AtFile(m.status(), file.path());
  return m;
}

StatusOr<ModelFile> ReadModelFile(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ReadModelFile(file);
}

} // namespace npuc::container
