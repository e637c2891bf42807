// Listing of commands, one line each, fields at their default left out:
//   MXU CONV layer=3 wait=[LD:2] in=sram+0x40 i8 [1,5,8,16]/16 out=sram+0x800 i8 [1,5,8,16]/16 weights=sram+0x2000 ...
//   stage=[Scale Quantise{requant=1 dtype=i8}]
// A view is address, dtype, [n,h,w,c], then what departs from a dense tensor: /c_block (absent: 1) +c0,
// {stride_n,stride_c1,stride_h,stride_w} unless dense, tail=fill, zero=z. Quantisation is scale:zero. Floats are the
// shortest decimals that read back to the same bits.
#include "backend/isa/fields.h"
#include "backend/isa/isa.h"

namespace npuc::isa {
namespace {

class Printer {
public:
  std::string out;

  // The fields that differ from their default, `sep` before each but the first.
  template <class S> void Fields(const S &s, bool first) {
    const uint32_t present = PresentFields(s);
    int i = 0;
    auto visit = [&](const char *name, const auto &f) {
      if (!(present >> i++ & 1))
        return;
      if (std::is_same_v<S, MicroOp> && std::string_view(name) == "kind")
        return;
      if (!first)
        out += ' ';
      first = false;
      out += name;
      out += '=';
      Value(f);
    };
    S::Fields(s, visit);
  }

  void Value(bool v) { out += v ? '1' : '0'; }
  void Value(float v) { fmt::format_to(std::back_inserter(out), "{}", v); }
  template <class T>
  requires(std::is_integral_v<T>) void Value(T v) { fmt::format_to(std::back_inserter(out), "{}", +v); }
  template <class T>
  requires(std::is_enum_v<T>) void Value(T v) { out += EnumName(v); }
  void Value(const Quant &q) { fmt::format_to(std::back_inserter(out), "{}:{}", q.scale, q.zero); }
  void Value(const Address &a) {
    out += EnumName(a.region);
    if (a.region == Region::Io || a.region == Region::Buffer)
      fmt::format_to(std::back_inserter(out), "{}", a.index);
    const uint64_t magnitude = a.offset < 0 ? 0 - static_cast<uint64_t>(a.offset) : static_cast<uint64_t>(a.offset);
    fmt::format_to(std::back_inserter(out), "{}{:#x}", a.offset < 0 ? '-' : '+', magnitude);
  }
  void Value(const View &v) {
    if (!v.present()) {
      out += '-';
      return;
    }
    Value(v.address);
    fmt::format_to(std::back_inserter(out), " {} [{},{},{},{}]", EnumName(v.dtype), v.n, v.h, v.w, v.c);
    if (v.c_block != 1)
      fmt::format_to(std::back_inserter(out), "/{}", v.c_block);
    if (v.c0)
      fmt::format_to(std::back_inserter(out), "+{}", v.c0);
    const DenseStrides d = DenseStridesOf(v);
    if (d.n != v.stride_n || d.c1 != v.stride_c1 || d.h != v.stride_h || d.w != v.stride_w)
      fmt::format_to(std::back_inserter(out), " {{{},{},{},{}}}", v.stride_n, v.stride_c1, v.stride_h, v.stride_w);
    if (v.tail == Tail::Fill)
      out += " tail=fill";
    if (v.zero)
      fmt::format_to(std::back_inserter(out), " zero={}", v.zero);
  }
  void Value(const MicroOp &m) {
    out += EnumName(m.kind);
    Printer inner;
    inner.Fields(m, true);
    if (!inner.out.empty())
      out += "{" + inner.out + "}";
  }
  void Value(const StageOperand &o) {
    out += '{';
    Fields(o, true);
    out += '}';
  }
  void Value(const MicroOps &ops) {
    out += '[';
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i)
        out += ' ';
      Value(ops[i]);
    }
    out += ']';
  }
  template <class T, size_t N> void Value(const std::array<T, N> &a) {
    out += '[';
    for (size_t i = 0; i < N; ++i) {
      if (i)
        out += ", ";
      Value(a[i]);
    }
    out += ']';
  }
};

} // namespace

std::string Disassemble(const Command &c) {
  Printer p;
  p.out = fmt::format("{} {}", EnumName(c.engine), EnumName(OpcodeOf(c)));
  if (c.layer)
    p.out += fmt::format(" layer={}", c.layer);
  std::string waits;
  for (int e = 0; e < kNumEngines; ++e)
    if (c.wait[e])
      waits += fmt::format("{}{}:{}", waits.empty() ? "" : ",", EnumName(static_cast<Engine>(e)), c.wait[e]);
  if (!waits.empty())
    p.out += " wait=[" + waits + "]";
  std::visit(
      [&](const auto &body) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(body)>, End>)
          p.Fields(body, false);
      },
      c.body);
  return std::move(p.out);
}

} // namespace npuc::isa
