// Assembler: reads what disassemble.cc writes (fields in any order). Errors are E0604 with the column.
#include <charconv>
#include <limits>

#include "backend/isa/fields.h"
#include "backend/isa/isa.h"
#include "compiler/support/diagnostic.h"

namespace npuc::isa {
namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  StatusOr<Command> Parse() {
    Command c;
    c.engine = Enum<Engine>("engine");
    Expect(' ');
    const Opcode opcode = Enum<Opcode>("opcode");
    SetBody(&c.body, opcode);
    uint32_t header_seen = 0;
    std::visit([&](auto &body) { Fields(body, '\0', &c, &header_seen); }, c.body);
    if (ok_ && !EngineRuns(c.engine, opcode))
      Fail(fmt::format("{} cannot run {}", EnumName(c.engine), EnumName(opcode)));
    if (ok_)
      return c;
    return Error("E0604", fmt::format("column {}: {}", error_at_ + 1, error_),
                 "the form is what npu-objdump -d prints");
  }

private:
  template <size_t I = 0> static void SetBody(CommandBody *body, Opcode o) {
    if constexpr (I < std::variant_size_v<CommandBody>) {
      if (std::variant_alternative_t<I, CommandBody>::kOpcode == o)
        body->emplace<I>();
      else
        SetBody<I + 1>(body, o);
    }
  }

  void Fail(std::string what) {
    if (!ok_)
      return;
    ok_ = false;
    error_ = std::move(what);
    error_at_ = at_;
  }
  bool End() const { return at_ == text_.size(); }
  char Peek() const { return End() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (!ok_ || Peek() != c || End())
      return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c))
      Fail(fmt::format("'{}' expected", c));
  }
  void Spaces() {
    while (Peek() == ' ')
      ++at_;
  }
  std::string_view Word() {
    const size_t start = at_;
    while (!End() && IsWord(text_[at_]))
      ++at_;
    return text_.substr(start, at_ - start);
  }
  template <class E> E Enum(std::string_view what) {
    if (!ok_)
      return E{};
    const size_t start = at_;
    const std::string_view w = Word();
    for (unsigned i = 0; i < EnumCount<E>(); ++i)
      if (EnumName(static_cast<E>(i)) == w)
        return static_cast<E>(i);
    at_ = start;
    Fail(fmt::format("'{}' is no {}", w, what));
    return E{};
  }
  template <class T> T Integer() {
    T v{};
    if (!ok_)
      return v;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (ec != std::errc()) {
      Fail("an integer in range expected");
      return T{};
    }
    at_ = end - text_.data();
    return v;
  }

  // ` name=value` ... up to `close` ('\0': the end of the line). With `header`, also layer= and wait=.
  template <class S> void Fields(S &s, char close, Command *header, uint32_t *header_seen) {
    uint32_t seen = 0;
    for (;;) {
      Spaces();
      if (!ok_ || (close ? Take(close) : End()))
        return;
      const size_t start = at_;
      const std::string_view name = Word();
      if (name.empty() || Peek() != '=')
        return Fail("name=value expected");
      ++at_;
      if (header && (name == "layer" || name == "wait")) {
        const uint32_t bit = name == "layer" ? 1 : 2;
        if (*header_seen & bit) {
          at_ = start;
          return Fail(fmt::format("{} is given twice", name));
        }
        *header_seen |= bit;
        if (bit == 1)
          header->layer = Integer<uint32_t>();
        else
          Waits(header);
        continue;
      }
      int i = 0;
      bool found = false;
      auto visit = [&]<class T>(const char *field, T &f) {
        const int k = i++;
        if (found || name != field)
          return;
        found = true;
        if (seen >> k & 1) {
          at_ = start;
          return Fail(fmt::format("{} is given twice", name));
        }
        seen |= 1u << k;
        Value(f);
      };
      if constexpr (!std::is_same_v<S, isa::End>)
        S::Fields(s, visit);
      if (!found) {
        at_ = start;
        return Fail(fmt::format("there is no field {}", name));
      }
    }
  }
  void Waits(Command *c) {
    Expect('[');
    do {
      const Engine e = Enum<Engine>("engine");
      Expect(':');
      c->wait[static_cast<int>(e)] = Integer<uint32_t>();
    } while (Take(','));
    Expect(']');
  }

  void Value(bool &v) {
    if (Take('1'))
      v = true;
    else if (Take('0'))
      v = false;
    else
      Fail("0 or 1 expected");
  }
  void Value(float &v) {
    if (!ok_)
      return;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (ec != std::errc())
      return Fail("a number expected");
    at_ = end - text_.data();
  }
  template <class T>
  requires(std::is_integral_v<T>) void Value(T &v) { v = Integer<T>(); }
  template <class T>
  requires(std::is_enum_v<T>) void Value(T &v) { v = Enum<T>("value of this field"); }
  void Value(Quant &q) {
    Value(q.scale);
    Expect(':');
    q.zero = Integer<int32_t>();
  }
  void Value(Address &a) {
    if (!ok_)
      return;
    a = Address();
    bool found = false;
    for (unsigned i = 0; i < EnumCount<Region>() && !found; ++i) {
      const std::string_view name = EnumName(static_cast<Region>(i));
      if (text_.substr(at_).substr(0, name.size()) != name)
        continue;
      found = true;
      a.region = static_cast<Region>(i);
      at_ += name.size();
    }
    if (!found)
      return Fail("an address (const, arena, sram, ioK, bufK) expected");
    if (a.region == Region::Io || a.region == Region::Buffer)
      a.index = Integer<uint32_t>();
    const bool minus = Peek() == '-';
    if (!Take('-'))
      Expect('+');
    Expect('0');
    Expect('x');
    if (!ok_)
      return;
    uint64_t magnitude = 0;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), magnitude, 16);
    if (ec != std::errc() || magnitude > uint64_t{1} << 63 || (!minus && magnitude == uint64_t{1} << 63))
      return Fail("a hexadecimal offset expected");
    at_ = end - text_.data();
    a.offset = static_cast<int64_t>(minus ? 0 - magnitude : magnitude);
  }
  void Value(View &v) {
    v = View();
    if (Take('-'))
      return;
    Value(v.address);
    Expect(' ');
    v.dtype = Enum<DType>("element type");
    if (ok_ && !v.present())
      Fail("an element type expected");
    Expect(' ');
    Expect('[');
    v.n = Integer<uint32_t>();
    for (uint32_t *d : {&v.h, &v.w, &v.c}) {
      Expect(',');
      *d = Integer<uint32_t>();
    }
    Expect(']');
    if (Take('/'))
      v.c_block = Integer<uint32_t>();
    if (Take('+'))
      v.c0 = Integer<uint32_t>();
    const DenseStrides d = DenseStridesOf(v);
    v.stride_n = d.n;
    v.stride_c1 = d.c1;
    v.stride_h = d.h;
    v.stride_w = d.w;
    if (TakeText(" {")) {
      v.stride_n = Integer<int64_t>();
      for (int64_t *s : {&v.stride_c1, &v.stride_h, &v.stride_w}) {
        Expect(',');
        *s = Integer<int64_t>();
      }
      Expect('}');
    }
    if (TakeText(" tail=fill"))
      v.tail = Tail::Fill;
    if (TakeText(" zero="))
      v.zero = Integer<int32_t>();
  }
  bool TakeText(std::string_view t) {
    if (!ok_ || text_.substr(at_, t.size()) != t)
      return false;
    at_ += t.size();
    return true;
  }
  void Value(MicroOp &m) {
    m = MicroOp();
    const MicroKind kind = Enum<MicroKind>("micro-operation");
    if (Take('{'))
      Fields(m, '}', nullptr, nullptr);
    m.kind = kind;
  }
  void Value(StageOperand &o) {
    Expect('{');
    Fields(o, '}', nullptr, nullptr);
  }
  void Value(MicroOps &ops) {
    ops.clear();
    Expect('[');
    for (;;) {
      Spaces();
      if (!ok_ || Take(']'))
        break;
      if (ops.size() == kMaxMicroOps)
        return Fail(fmt::format("more than {} micro-operations", kMaxMicroOps));
      Value(ops.emplace_back());
    }
  }
  template <class T, size_t N> void Value(std::array<T, N> &a) {
    Expect('[');
    for (size_t i = 0; i < N; ++i) {
      if (i) {
        Expect(',');
        Expect(' ');
      }
      Value(a[i]);
    }
    Expect(']');
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
  size_t error_at_ = 0;
  std::string error_;
};

} // namespace

StatusOr<Command> Assemble(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == ' '))
    line.remove_suffix(1);
  return Parser(line).Parse();
}

} // namespace npuc::isa
