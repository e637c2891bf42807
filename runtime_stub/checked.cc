// A shadow byte per byte of arena, SRAM and outputs. Before a command: its read sets must be defined, and the
// surroundings of its writes (all of SRAM, a page to each side elsewhere) are copied; after it, what differs outside
// its write sets is a stray write. Cost: the bytes of the surroundings per command.
#include "runtime_stub/checked.h"

#include <algorithm>
#include <cstring>

#include "backend/isa/byte_box.h"

namespace npuc::runtime {

using isa::Access;
using isa::Region;

namespace {

std::string Place(const isa::Address &a, int64_t at) {
  return a.region == Region::Io ? fmt::format("io[{}]+0x{:x}", a.index, at)
                                : fmt::format("{}+0x{:x}", isa::Name(a.region), at);
}
constexpr int64_t kSurroundings = 4096;

} // namespace

Checker::Checker(const Model &model) : model_(model) {}

void Checker::Begin(const Memory &memory) {
  arena_.assign(memory.arena.bytes, 0);
  sram_.assign(memory.sram.bytes, 0);
  io_.resize(memory.io.size());
  for (size_t i = 0; i < io_.size(); ++i)
    io_[i].assign(memory.io[i].bytes, i < model_.inputs().size());
}
void Checker::BeginSegment() {
  std::fill(sram_.begin(), sram_.end(), 0);
}

std::vector<uint8_t> &Checker::Shadow(const isa::Address &a) {
  return a.region == Region::Arena ? arena_ : a.region == Region::Sram ? sram_ : io_[a.index];
}

Status Checker::CheckDefined(const isa::Address &region, int64_t lo, int64_t hi, std::string_view what) {
  if (region.region == Region::Const)
    return OkStatus();
  const std::vector<uint8_t> &shadow = Shadow(region);
  const void *hole = std::memchr(shadow.data() + lo, 0, hi - lo);
  if (!hole)
    return OkStatus();
  const int64_t at = static_cast<const uint8_t *>(hole) - shadow.data();
  return Error("E0703", fmt::format("'{}' reads {}, which nothing has written", what, Place(region, at)),
               "the stream was compiled wrong; report it with the model and the command line");
}

Status Checker::Before(const isa::Command &c, const Memory &memory) {
  Status status;
  before_.clear();
  isa::ForEachAccess(c, [&](const Access &a) {
    if (!status.ok())
      return;
    if (!a.write) {
      if (!a.view) {
        status = CheckDefined(a.address, a.address.offset, a.address.offset + a.bytes, a.what);
        return;
      }
      isa::View elements = *a.view;
      elements.tail = isa::Tail::Keep; // a read never touches Fill lanes
      if (elements.elements() == 0)
        return;
      for (const isa::ByteBox &box : isa::ByteSetOf(elements))
        box.ForEachRun([&](int64_t lo, int64_t hi) {
          if (status.ok())
            status = CheckDefined(a.address, lo, hi, a.what);
        });
      return;
    }
    if (a.view->elements() == 0)
      return;
    const isa::ByteRange r = isa::BoundingBytes(*a.view);
    const Image &image = memory.region(a.address.region, a.address.index);
    const bool sram = a.address.region == Region::Sram;
    const int64_t lo = sram ? 0 : std::max<int64_t>(0, r.lo - kSurroundings),
                  hi = sram ? image.bytes : std::min(image.bytes, r.hi + kSurroundings);
    before_.push_back({a.address, lo, std::vector<uint8_t>(image.data + lo, image.data + hi)});
  });
  return status;
}

Status Checker::After(const isa::Command &c, const Memory &memory) {
  Status status;
  size_t next = 0;
  isa::ForEachAccess(c, [&](const Access &a) {
    if (!a.write || !status.ok() || a.view->elements() == 0)
      return;
    Snapshot &s = before_[next++];
    std::vector<uint8_t> &shadow = Shadow(a.address);
    const Image &image = memory.region(a.address.region, a.address.index);
    for (const isa::ByteBox &box : isa::ByteSetOf(*a.view))
      box.ForEachRun([&](int64_t lo, int64_t hi) {
        std::fill(shadow.begin() + lo, shadow.begin() + hi, 1);
        std::memcpy(s.bytes.data() + (lo - s.lo), image.data + lo, hi - lo); // what may differ is made equal
      });
    if (std::memcmp(s.bytes.data(), image.data + s.lo, s.bytes.size()) == 0)
      return;
    for (size_t i = 0; i < s.bytes.size(); ++i)
      if (s.bytes[i] != image.data[s.lo + static_cast<int64_t>(i)]) {
        status = Error("E0703",
                       fmt::format("'{}' wrote {}, which is not its to write", a.what,
                                   Place(a.address, s.lo + static_cast<int64_t>(i))),
                       "an error of the executor; report it with the model and the command line");
        return;
      }
  });
  return status;
}

Status Checker::HostRead(const container::HostBinding &b, const Memory &) {
  const int64_t bytes = b.type.num_bytes();
  return bytes ? CheckDefined(b.address, b.address.offset, b.address.offset + bytes, b.name) : OkStatus();
}
void Checker::HostWrite(const container::HostBinding &b) {
  std::vector<uint8_t> &shadow = Shadow(b.address);
  std::fill_n(shadow.begin() + b.address.offset, b.type.num_bytes(), 1);
}

Status Checker::End(const Memory &) {
  for (size_t i = 0; i < model_.outputs().size(); ++i) {
    const container::IoTensor &t = model_.outputs()[i];
    const std::vector<uint8_t> &shadow = io_[model_.inputs().size() + i];
    // Blocked outputs may leave the lanes after the last channel alone.
    if (t.slot >= 0 || t.type.layout() == Layout::NC1HWC2)
      continue;
    if (std::find(shadow.begin(), shadow.end(), 0) != shadow.end())
      return Error("E0703", fmt::format("output '{}' was not written as a whole", t.name),
                   "the stream was compiled wrong; report it with the model and the command line");
  }
  return OkStatus();
}

} // namespace npuc::runtime
