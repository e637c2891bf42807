// Decoder: the inverse of encode.cc, for words that nobody vouches for. Every bit must be accounted for: reserved bits
// are zero, enums in range, the compact form used where it fits, no default spelled out, the command as long as its
// header says.
#include <limits>

#include "backend/isa/encode.h"
#include "backend/isa/fields.h"
#include "backend/isa/isa.h"
#include "compiler/support/diagnostic.h"

namespace npuc::isa {
namespace {

class Decoder {
public:
  Decoder(const uint32_t *words, size_t count) : words_(words), count_(count) {}

  const std::string &error() const { return error_; }
  bool ok() const { return error_.empty(); }

  template <class S> void Struct(S &s) {
    if constexpr (!std::is_same_v<S, End>) {
      const Defaults<S> &d = Defaults<S>::Get();
      const uint32_t present = Word();
      if (d.count < 32 && present >> d.count)
        Fail(fmt::format("reserved bits {:#x} of a field mask are set", present >> d.count << d.count));
      int i = 0;
      auto visit = [&]<class T>(const char *name, T &f) {
        const int k = i++;
        if (!ok() || !(present >> k & 1))
          return;
        field_ = name;
        Value(f);
        // A chain is never empty when it is there, which the count check sees to.
        if constexpr (!std::is_same_v<T, MicroOps>)
          if (ok() && SameBits(f, d.template At<T>(k)))
            Fail("is encoded though it has its default value");
      };
      S::Fields(s, visit);
      Flush();
    }
  }
  void Finish() {
    if (ok() && at_ != count_) {
      field_ = "";
      Fail(fmt::format("has {} words, its fields take {}", count_ + kHeaderWords, at_ + kHeaderWords));
    }
  }

private:
  void Fail(std::string what) {
    if (ok())
      error_ = field_[0] ? fmt::format("field {} {}", field_, what) : std::move(what);
  }
  uint32_t Word() {
    Flush();
    return Next();
  }
  uint32_t Next() {
    if (!ok())
      return 0;
    if (at_ == count_) {
      Fail("is cut off");
      return 0;
    }
    return words_[at_++];
  }
  int64_t Word64() {
    const uint64_t lo = Word();
    return static_cast<int64_t>(lo | uint64_t{Word()} << 32);
  }
  // Ends the word that small fields are being taken from.
  void Flush() {
    if (fill_ && fill_ < 32 && pending_)
      Fail("is followed by set reserved bits");
    fill_ = 0;
    pending_ = 0;
  }
  uint32_t Small(int bits) {
    if (fill_ == 0 || fill_ + bits > 32) {
      Flush();
      pending_ = Next();
    }
    const uint32_t v = pending_ & ((1u << bits) - 1);
    pending_ = pending_ >> bits;
    fill_ += bits;
    return v;
  }

  template <class T> void Value(T &v) {
    if constexpr (std::is_same_v<T, bool>) {
      const uint32_t b = Small(8);
      if (b > 1)
        Fail(fmt::format("is {}, a flag is 0 or 1", b));
      v = b == 1;
    } else if constexpr (std::is_enum_v<T>) {
      v = Enum<T>(Small(8));
    } else if constexpr (std::is_same_v<T, uint8_t>) {
      v = static_cast<uint8_t>(Small(8));
    } else if constexpr (std::is_same_v<T, uint16_t>) {
      v = static_cast<uint16_t>(Small(16));
    } else if constexpr (std::is_same_v<T, float>) {
      v = std::bit_cast<float>(Word());
    } else if constexpr (std::is_same_v<T, int64_t>) {
      v = Word64();
    } else if constexpr (std::is_same_v<T, Quant>) {
      v.scale = std::bit_cast<float>(Word());
      v.zero = static_cast<int32_t>(Word());
    } else if constexpr (std::is_same_v<T, Address>) {
      AddressValue(v);
    } else if constexpr (std::is_same_v<T, View>) {
      ViewValue(v);
    } else if constexpr (std::is_same_v<T, MicroOps>) {
      const uint32_t n = Word();
      if (ok() && (n < 1 || n > kMaxMicroOps))
        Fail(fmt::format("has {} micro-operations, 1 to {} are allowed", n, kMaxMicroOps));
      if (!ok())
        return;
      v.resize(n);
      for (MicroOp &m : v)
        Struct(m);
    } else if constexpr (kIsStdArray<T>) {
      for (auto &e : v)
        Value(e);
    } else if constexpr (HasFields<T>) {
      Struct(v);
    } else {
      v = static_cast<T>(Word());
    }
  }
  template <class E> E Enum(uint32_t v) {
    if (v >= EnumCount<E>()) {
      Fail(fmt::format("has value {}, 0 to {} are allowed", v, EnumCount<E>() - 1));
      v = 0;
    }
    return static_cast<E>(v);
  }
  void RegionValue(Address &a, uint32_t region, uint32_t index) {
    if (region > static_cast<uint32_t>(Region::Io))
      Fail(fmt::format("names region {}, 0 to 3 are allowed", region));
    a.region = static_cast<Region>(region & 3);
    a.index = index;
    if (a.region != Region::Io && index)
      Fail("has a region number, which only io has");
  }
  void AddressValue(Address &a) {
    const uint32_t w = Word();
    if (w & 0xffe0)
      Fail(fmt::format("has reserved bits {:#x} set", w & 0xffe0));
    RegionValue(a, w & 0xf, w >> 16);
    const bool wide = w >> 4 & 1;
    a.offset = wide ? Word64() : int64_t{Word()};
    if (ok() && wide && FitsU32(a.offset))
      Fail("is in the wide form, but fits the compact one");
  }
  void ViewValue(View &v) {
    const uint32_t w = Word();
    v = View();
    if (w == 0)
      return;
    if (w & 0x8000)
      Fail("has reserved bit 0x8000 set");
    v.dtype = Enum<DType>(w & 0xff);
    if (ok() && !v.present())
      Fail("is absent, but has bits set");
    RegionValue(v.address, w >> 8 & 0xf, w >> 16);
    v.tail = static_cast<Tail>(w >> 12 & 1);
    const bool wide = w >> 13 & 1, zeroed = w >> 14 & 1;
    if (wide) {
      v.address.offset = Word64();
      for (uint32_t *d : {&v.n, &v.h, &v.w, &v.c, &v.c_block, &v.c0})
        *d = Word();
      for (int64_t *s : {&v.stride_n, &v.stride_c1, &v.stride_h, &v.stride_w})
        *s = Word64();
      if (ok() && FitsCompact(v))
        Fail("is in the wide form, but fits the compact one");
    } else {
      v.address.offset = Word();
      uint32_t p = Word();
      v.n = (p & 0xffff) + 1;
      v.h = (p >> 16) + 1;
      p = Word();
      v.w = (p & 0xffff) + 1;
      v.c = (p >> 16) + 1;
      p = Word();
      v.c_block = (p & 0xffff) + 1;
      v.c0 = p >> 16;
      for (int64_t *s : {&v.stride_n, &v.stride_c1, &v.stride_h, &v.stride_w})
        *s = static_cast<int32_t>(Word());
    }
    if (zeroed) {
      v.zero = static_cast<int32_t>(Word());
      if (ok() && v.zero == 0)
        Fail("spells out its zero");
    }
  }

  const uint32_t *words_;
  size_t count_;
  size_t at_ = 0;
  uint32_t pending_ = 0;
  int fill_ = 0;
  const char *field_ = "";
  std::string error_;
};

Status Bad(size_t command, size_t word, std::string_view what) {
  return Error("E0604", fmt::format("command {} (word {}) {}", command, word, what),
               "the stream is damaged or was written for another instruction set; compile the model again");
}

template <size_t I = 0> bool EmplaceBody(CommandBody *body, uint32_t opcode) {
  if constexpr (I == std::variant_size_v<CommandBody>) {
    return false;
  } else {
    if (static_cast<uint32_t>(std::variant_alternative_t<I, CommandBody>::kOpcode) != opcode)
      return EmplaceBody<I + 1>(body, opcode);
    body->emplace<I>();
    return true;
  }
}

} // namespace

bool EngineRuns(Engine e, Opcode o) {
  switch (o) {
  case Opcode::Dma:
    return e == Engine::LD || e == Engine::ST;
  case Opcode::End:
  case Opcode::Gather:
    return e == Engine::LD;
  case Opcode::Conv:
  case Opcode::MatMul:
    return e == Engine::MXU;
  default:
    return e == Engine::VPU;
  }
}

StatusOr<Stream> Decode(llvm::ArrayRef<uint32_t> words) {
  Stream out;
  for (size_t at = 0; at < words.size();) {
    const size_t index = out.size();
    if (index && OpcodeOf(out.back()) == Opcode::End)
      return Bad(index, at, "follows END");
    const uint32_t head = words[at], opcode = head & 0xff, engine = head >> 8 & 0xff, length = head >> 16;
    if (length < kHeaderWords)
      return Bad(index, at, fmt::format("says it has {} words, {} is the least", length, kHeaderWords));
    if (length > words.size() - at)
      return Bad(index, at, fmt::format("is cut off: {} of {} words are there", words.size() - at, length));
    if (engine >= kNumEngines)
      return Bad(index, at, fmt::format("is for engine {}, 0 to {} exist", engine, kNumEngines - 1));
    Command &c = out.emplace_back();
    if (!EmplaceBody(&c.body, opcode))
      return Bad(index, at, fmt::format("has the unknown opcode {}", opcode));
    c.engine = static_cast<Engine>(engine);
    if (!EngineRuns(c.engine, OpcodeOf(c)))
      return Bad(index, at, fmt::format("is {} on engine {}, which cannot run it", Name(OpcodeOf(c)), Name(c.engine)));
    c.layer = words[at + 1];
    for (int e = 0; e < kNumEngines; ++e)
      c.wait[e] = words[at + 2 + e];
    Decoder d(words.data() + at + kHeaderWords, length - kHeaderWords);
    std::visit([&](auto &body) { d.Struct(body); }, c.body);
    d.Finish();
    if (!d.ok())
      return Bad(index, at, fmt::format("({}): {}", Name(OpcodeOf(c)), d.error()));
    at += length;
  }
  if (out.empty() || OpcodeOf(out.back()) != Opcode::End)
    return Bad(out.size(), words.size(), "is missing: the stream does not end in END");
  return out;
}

} // namespace npuc::isa
