// Encoder. A struct is a word with one bit per field, set where the field differs from its default, then the fields
// that are set: enums, bool and 8-bit numbers take 8 bits, 16-bit numbers 16, packed into words from the low end; all
// else starts on a word. A value is encoded in one way only, and the decoder refuses every other, so equal streams are
// equal bytes. docs/npu-isa.md has the layout of views and addresses.
#include "backend/isa/encode.h"

#include <limits>

#include "backend/isa/fields.h"
#include "backend/isa/isa.h"

namespace npuc::isa {
namespace {

struct VectorSink {
  std::vector<uint32_t> *words;
  void Push(uint32_t w) { words->push_back(w); }
  void CheckRegion(Region r) { NPUC_CHECK(r != Region::Buffer, "a symbolic buffer reached the encoder"); }
};
// Counts; symbolic buffers are welcome, so that commands can be priced before they have addresses.
struct CountSink {
  size_t words = 0;
  void Push(uint32_t) { ++words; }
  void CheckRegion(Region) {}
};

template <class Sink> class Encoder {
public:
  explicit Encoder(Sink &sink) : sink_(sink) {}

  template <class S> void Struct(const S &s) {
    if constexpr (!std::is_same_v<S, End>) {
      const uint32_t present = PresentFields(s);
      Word(present);
      int i = 0;
      auto visit = [&](const char *, const auto &f) {
        if (present >> i++ & 1)
          Value(f);
      };
      S::Fields(s, visit);
      Flush();
    }
  }

private:
  void Flush() {
    if (fill_)
      sink_.Push(pending_);
    pending_ = 0;
    fill_ = 0;
  }
  void Word(uint32_t w) {
    Flush();
    sink_.Push(w);
  }
  void Word64(int64_t v) {
    Word(static_cast<uint32_t>(v));
    Word(static_cast<uint32_t>(static_cast<uint64_t>(v) >> 32));
  }
  void Small(uint32_t v, int bits) {
    if (fill_ + bits > 32)
      Flush();
    pending_ |= v << fill_;
    fill_ += bits;
  }

  template <class T> void Value(const T &v) {
    if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T> || std::is_same_v<T, uint8_t>) {
      Small(static_cast<uint32_t>(v), 8);
    } else if constexpr (std::is_same_v<T, uint16_t>) {
      Small(v, 16);
    } else if constexpr (std::is_same_v<T, float>) {
      Word(std::bit_cast<uint32_t>(v));
    } else if constexpr (std::is_same_v<T, int64_t>) {
      Word64(v);
    } else if constexpr (std::is_same_v<T, Quant>) {
      Word(std::bit_cast<uint32_t>(v.scale));
      Word(static_cast<uint32_t>(v.zero));
    } else if constexpr (std::is_same_v<T, Address>) {
      AddressValue(v);
    } else if constexpr (std::is_same_v<T, View>) {
      ViewValue(v);
    } else if constexpr (std::is_same_v<T, MicroOps>) {
      NPUC_CHECK(v.size() <= kMaxMicroOps, "an output stage of {} micro-operations", v.size());
      Word(static_cast<uint32_t>(v.size()));
      for (const MicroOp &m : v)
        Struct(m);
    } else if constexpr (kIsStdArray<T>) {
      for (const auto &e : v)
        Value(e);
    } else if constexpr (HasFields<T>) {
      Struct(v);
    } else {
      static_assert(sizeof(T) == 4 && std::is_integral_v<T>);
      Word(static_cast<uint32_t>(v));
    }
  }

  // The region number of a buffer is not known yet: it counts as one that fits.
  uint32_t RegionIndex(const Address &a) {
    sink_.CheckRegion(a.region);
    if (a.region == Region::Buffer)
      return 0;
    NPUC_CHECK(a.index <= 0xffff, "io region {} is above the encoding's limit 65535", a.index);
    return a.index;
  }
  void AddressValue(const Address &a) {
    const bool wide = !FitsU32(a.offset);
    Word(static_cast<uint32_t>(a.region) | uint32_t{wide} << 4 | RegionIndex(a) << 16);
    if (wide)
      Word64(a.offset);
    else
      Word(static_cast<uint32_t>(a.offset));
  }
  void ViewValue(const View &v) {
    if (!v.present())
      return Word(0);
    const bool wide = !FitsCompact(v), zeroed = v.zero != 0;
    Word(static_cast<uint32_t>(v.dtype) | static_cast<uint32_t>(v.address.region) << 8 |
         static_cast<uint32_t>(v.tail) << 12 | uint32_t{wide} << 13 | uint32_t{zeroed} << 14 |
         RegionIndex(v.address) << 16);
    if (wide) {
      Word64(v.address.offset);
      for (uint32_t d : {v.n, v.h, v.w, v.c, v.c_block, v.c0})
        Word(d);
      for (int64_t s : {v.stride_n, v.stride_c1, v.stride_h, v.stride_w})
        Word64(s);
    } else {
      Word(static_cast<uint32_t>(v.address.offset));
      Word((v.n - 1) | (v.h - 1) << 16);
      Word((v.w - 1) | (v.c - 1) << 16);
      Word((v.c_block - 1) | v.c0 << 16);
      for (int64_t s : {v.stride_n, v.stride_c1, v.stride_h, v.stride_w})
        Word(static_cast<uint32_t>(s));
    }
    if (zeroed)
      Word(static_cast<uint32_t>(v.zero));
  }

  Sink &sink_;
  uint32_t pending_ = 0;
  int fill_ = 0;
};

} // namespace

bool FitsU32(int64_t v) {
  return v >= 0 && v <= std::numeric_limits<uint32_t>::max();
}

bool FitsCompact(const View &v) {
  for (uint32_t d : {v.n, v.h, v.w, v.c, v.c_block})
    if (d == 0 || d > 0x10000)
      return false;
  if (v.c0 > 0xffff || !FitsU32(v.address.offset))
    return false;
  for (int64_t s : {v.stride_n, v.stride_c1, v.stride_h, v.stride_w})
    if (s < std::numeric_limits<int32_t>::min() || s > std::numeric_limits<int32_t>::max())
      return false;
  return true;
}

void Encode(const Command &c, std::vector<uint32_t> *out) {
  const size_t start = out->size();
  out->resize(start + kHeaderWords);
  VectorSink sink{out};
  Encoder<VectorSink> encoder(sink);
  std::visit([&](const auto &body) { encoder.Struct(body); }, c.body);
  const size_t words = out->size() - start;
  NPUC_CHECK(words <= 0xffff, "a command of {} words", words);
  (*out)[start] =
      static_cast<uint32_t>(OpcodeOf(c)) | static_cast<uint32_t>(c.engine) << 8 | static_cast<uint32_t>(words) << 16;
  (*out)[start + 1] = c.layer;
  for (int e = 0; e < kNumEngines; ++e)
    (*out)[start + 2 + e] = c.wait[e];
}

std::vector<uint32_t> Encode(const Stream &s) {
  std::vector<uint32_t> out;
  out.reserve(s.size() * 40);
  for (const Command &c : s)
    Encode(c, &out);
  return out;
}

int64_t EncodedWords(const Command &c) {
  CountSink sink;
  Encoder<CountSink> encoder(sink);
  std::visit([&](const auto &body) { encoder.Struct(body); }, c.body);
  return static_cast<int64_t>(sink.words) + kHeaderWords;
}

} // namespace npuc::isa
