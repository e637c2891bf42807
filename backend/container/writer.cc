// Writes model.bin: sections first, streamed with their checksums, then the header over the space kept for it.
// Deterministic: nothing but the model decides a byte.
#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "backend/container/format.h"
#include "backend/container/metadata_generated.h"
#include "backend/container/model_file.h"
#include "backend/isa/isa.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"
#include "compiler/support/int_math.h"
#include "compiler/support/thread_pool.h"
#include "compiler/support/zeroed_memory.h"

namespace npuc::container {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

class MetadataWriter {
  // Before its users: its type is deduced.
  template <class T> auto List(const std::vector<T> &items) {
    std::vector<decltype(Make(items[0]))> out;
    for (const T &i : items)
      out.push_back(Make(i));
    return b_.CreateVector(out);
  }

public:
  std::string streams, ir; // contents of their sections

  std::string Write(const ModelFile &m) {
    std::vector<Offset<fb::Step>> steps;
    for (const auto &step : m.steps)
      steps.push_back(std::visit([&](const auto &s) { return Make(s); }, step));
    auto steps_v = b_.CreateVector(steps);
    auto origins = b_.CreateVectorOfStrings(m.origins);
    auto inputs = List(m.inputs), outputs = List(m.outputs);
    auto layers = List(m.layers);
    auto captures = List(m.captures);
    std::vector<Offset<fb::Pair>> pairs;
    for (const auto &[key, value] : m.metadata) {
      auto k = b_.CreateString(key), v = b_.CreateString(value);
      pairs.push_back(fb::CreatePair(b_, k, v));
    }
    auto metadata = b_.CreateVector(pairs);
    b_.Finish(fb::CreateModel(b_, origins, inputs, outputs, steps_v, layers, captures, m.arena_bytes, m.sram_bytes,
                              m.const_bytes, m.num_slots, metadata),
              fb::ModelIdentifier());
    return std::string(reinterpret_cast<const char *>(b_.GetBufferPointer()), b_.GetSize());
  }

private:
  Offset<fb::Type> Make(const Type &t) {
    std::vector<Offset<fb::Dim>> dims;
    std::vector<float> scales;
    std::vector<int32_t> zeros;
    int axis = -1;
    Offset<fb::Type> element;
    if (t.is_tensor() && t.shape().ranked())
      for (const Dim &d : t.shape().dims()) {
        Offset<flatbuffers::String> symbol;
        if (!d.is_static())
          symbol = b_.CreateString(std::string(d.symbol()));
        dims.push_back(fb::CreateDim(b_, d.is_static() ? d.value() : -1, symbol));
      }
    if (t.quant()) {
      scales = t.quant()->scales;
      zeros = t.quant()->zero_points;
      axis = t.quant()->axis;
    }
    const bool nested =
        t.kind() == Type::Kind::Sequence || t.kind() == Type::Kind::Optional || t.kind() == Type::Kind::Map;
    if (nested)
      element = Make(t.element());
    auto dims_v = b_.CreateVector(dims);
    auto scales_v = b_.CreateVector(scales);
    auto zeros_v = b_.CreateVector(zeros);
    return fb::CreateType(b_, static_cast<uint8_t>(t.kind()), static_cast<uint8_t>(t.dtype()),
                          static_cast<uint8_t>(t.layout()), !t.is_tensor() || t.shape().ranked(), dims_v,
                          t.quant() != nullptr, scales_v, zeros_v, axis, element);
  }
  Offset<fb::Address> Make(const isa::Address &a) {
    return fb::CreateAddress(b_, static_cast<uint8_t>(a.region), a.index, a.offset);
  }
  Offset<fb::View> Make(const isa::View &v) {
    auto address = Make(v.address);
    return fb::CreateView(b_, address, static_cast<uint8_t>(v.dtype), static_cast<uint8_t>(v.tail), v.n, v.h, v.w, v.c,
                          v.c_block, v.c0, v.stride_n, v.stride_c1, v.stride_h, v.stride_w, v.zero);
  }
  Offset<fb::IoTensor> Make(const IoTensor &t) {
    auto name = b_.CreateString(t.name);
    auto type = Make(t.type);
    return fb::CreateIoTensor(b_, name, type, t.bytes, t.slot);
  }
  Offset<fb::HostBinding> Make(const HostBinding &t) {
    auto name = b_.CreateString(t.name);
    auto type = Make(t.type);
    auto address = Make(t.address);
    return fb::CreateHostBinding(b_, name, type, address, t.slot);
  }
  Offset<fb::NodeInfo> Make(const HostStep::NodeInfo &n) {
    auto op = b_.CreateString(n.op);
    auto origins = b_.CreateVector(n.origins);
    return fb::CreateNodeInfo(b_, op, origins);
  }
  Offset<fb::Layer> Make(const Layer &l) {
    auto name = b_.CreateString(l.name), op = b_.CreateString(l.op);
    auto origins = b_.CreateVector(l.origins);
    return fb::CreateLayer(b_, name, op, origins);
  }
  Offset<fb::Capture> Make(const Capture &c) {
    auto name = b_.CreateString(c.name);
    auto type = Make(c.type);
    auto view = Make(c.view);
    return fb::CreateCapture(b_, name, type, view, c.step, c.command);
  }
  Offset<fb::Step> Make(const NpuStep &s) {
    const std::vector<uint32_t> words = isa::Encode(s.stream);
    const size_t offset = streams.size();
    streams.append(reinterpret_cast<const char *>(words.data()), words.size() * sizeof(uint32_t));
    return fb::CreateStep(b_, true, offset, words.size() * sizeof(uint32_t));
  }
  Offset<fb::Step> Make(const HostStep &s) {
    const size_t offset = ir.size();
    ir += s.ir;
    auto inputs = List(s.inputs), outputs = List(s.outputs);
    auto nodes = List(s.nodes);
    return fb::CreateStep(b_, false, offset, s.ir.size(), inputs, outputs, nodes);
  }
  FlatBufferBuilder b_;
};

// Pieces whose bytes are to be made are made so many bytes (or one piece) at a time, all threads at it.
constexpr int64_t kBatchBytes = int64_t{16} << 20;

} // namespace

void ModelFile::Piece::CopyTo(uint8_t *dst) const {
  if (data)
    std::memcpy(dst, data, bytes);
  else if (bytes > 0)
    fill(dst);
}

Status WriteModelFile(const ModelFile &m, const std::string &path, ThreadPool *threads) {
  NPUC_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  std::vector<Section> table;
  const uint64_t header_bytes = sizeof(Header) + kNumSectionKinds * sizeof(Section);
  NPUC_RETURN_IF_ERROR(file.PadTo(header_bytes));
  auto begin = [&](SectionKind kind) -> Status {
    NPUC_RETURN_IF_ERROR(file.PadTo((file.size() + kSectionAlign - 1) / kSectionAlign * kSectionAlign));
    table.push_back({static_cast<uint32_t>(kind), kSectionRequired, file.size(), 0, 0});
    return OkStatus();
  };
  auto text = [&](SectionKind kind, const std::string &bytes) -> Status {
    NPUC_RETURN_IF_ERROR(begin(kind));
    NPUC_RETURN_IF_ERROR(file.Write(bytes));
    table.back().bytes = bytes.size();
    table.back().checksum = Xxh3(bytes);
    return OkStatus();
  };

  NPUC_CHECK(m.target_name.find('\0') == std::string::npos, "a target's name holds a zero byte");
  std::string target = m.target_name;
  target += '\0';
  target += m.target_text;
  NPUC_RETURN_IF_ERROR(text(SectionKind::Target, target));
  MetadataWriter writer;
  const std::string metadata = writer.Write(m);
  NPUC_RETURN_IF_ERROR(text(SectionKind::Metadata, metadata));
  NPUC_RETURN_IF_ERROR(text(SectionKind::Streams, writer.streams));
  NPUC_RETURN_IF_ERROR(text(SectionKind::Ir, writer.ir));

  NPUC_RETURN_IF_ERROR(begin(SectionKind::Const));
  const uint64_t base = file.size();
  Xxh3Stream checksum;
  int64_t at = 0;
  auto gap = [&](int64_t to) -> Status {
    static constexpr char zeros[4096] = {};
    for (; at < to; at += std::min<int64_t>(to - at, sizeof zeros))
      checksum.Update(zeros, std::min<int64_t>(to - at, sizeof zeros));
    return file.PadTo(base + static_cast<uint64_t>(to));
  };
  // Pieces [first, last); `made`: bytes of those that have no data, at made_at.
  struct Batch {
    size_t first = 0, last = 0;
    std::shared_ptr<void> memory;
    int64_t capacity = 0;
    std::vector<int64_t> made_at;
    uint8_t *made() const { return static_cast<uint8_t *>(memory.get()); }
  };
  auto make = [&](Batch &b, size_t first) {
    b.first = b.last = first;
    b.made_at.clear();
    int64_t bytes = 0;
    for (; b.last < m.const_pieces.size(); ++b.last) {
      const ModelFile::Piece &p = m.const_pieces[b.last];
      const int64_t more = p.data ? 0 : RoundUp(p.bytes, 64);
      if (bytes > 0 && bytes + more > kBatchBytes)
        break;
      b.made_at.push_back(bytes);
      bytes += more;
    }
    if (bytes <= b.capacity) {
      std::memset(b.made(), 0, static_cast<size_t>(bytes));
    } else {
      b.capacity = m.const_pieces.size() == b.last && first == 0 ? bytes : std::max(bytes, kBatchBytes);
      b.memory = nullptr; // before there are two
      b.memory = ZeroedMemory(static_cast<size_t>(b.capacity));
      NPUC_CHECK(b.memory != nullptr, "out of memory: {} bytes", b.capacity);
    }
    const auto work = [&](size_t begin, size_t end) {
      for (size_t k = begin; k < end; ++k)
        if (!m.const_pieces[first + k].data)
          m.const_pieces[first + k].CopyTo(b.made() + b.made_at[k]);
    };
    threads ? threads->ParallelFor(b.made_at.size(), 1, work) : work(0, b.made_at.size());
  };
  auto write = [&](const Batch &b) -> Status {
    for (size_t i = b.first; i < b.last; ++i) {
      const ModelFile::Piece &p = m.const_pieces[i];
      NPUC_CHECK(p.offset >= at && p.bytes >= 0 && p.offset + p.bytes <= m.const_bytes,
                 "const piece [{}, {}) after {}, of {}", p.offset, p.offset + p.bytes, at, m.const_bytes);
      NPUC_RETURN_IF_ERROR(gap(p.offset));
      const std::span<const uint8_t> bytes(p.data ? p.data : b.made() + b.made_at[i - b.first],
                                           static_cast<size_t>(p.bytes));
      checksum.Update(bytes.data(), bytes.size());
      NPUC_RETURN_IF_ERROR(file.Write(bytes));
      at = p.offset + p.bytes;
    }
    return OkStatus();
  };
  // One batch is written while the next is made.
  Batch batches[2];
  std::future<Status> writing;
  for (size_t i = 0, turn = 0; i < m.const_pieces.size(); i = batches[turn].last, turn = 1 - turn) {
    make(batches[turn], i);
    if (writing.valid())
      NPUC_RETURN_IF_ERROR(writing.get());
    const bool beside = threads && threads->size() > 1 && batches[turn].last < m.const_pieces.size();
    writing = std::async(beside ? std::launch::async : std::launch::deferred,
                         [&write, &b = std::as_const(batches[turn])] { return write(b); });
  }
  if (writing.valid())
    NPUC_RETURN_IF_ERROR(writing.get());
  NPUC_RETURN_IF_ERROR(gap(m.const_bytes));
  table.back().bytes = static_cast<uint64_t>(m.const_bytes);
  table.back().checksum = checksum.Digest();

  Header h;
  h.isa_version = isa::kIsaVersion;
  h.num_sections = static_cast<uint32_t>(table.size());
  h.file_bytes = file.size();
  h.target_sha256 = Sha256(m.target_text);
  std::vector<uint8_t> front(header_bytes);
  std::memcpy(front.data(), &h, sizeof h);
  std::memcpy(front.data() + sizeof h, table.data(), table.size() * sizeof(Section));
  h.checksum = Xxh3(front.data(), front.size());
  std::memcpy(front.data(), &h, sizeof h);
  NPUC_RETURN_IF_ERROR(file.WriteAt(0, front));
  return file.Commit();
}

} // namespace npuc::container
