// Random commands with every field set at random (meaningless, but encodable), driven by the field lists.
#pragma once

#include <random>

#include "backend/isa/fields.h"

namespace npuc::isa {

class RandomFields {
public:
  explicit RandomFields(uint32_t seed) : rng_(seed) {}

  template <size_t I = 0> Command Next(size_t kind) {
    if constexpr (I < std::variant_size_v<CommandBody>) {
      if (kind != I)
        return Next<I + 1>(kind);
      using Body = std::variant_alternative_t<I, CommandBody>;
      Command c;
      Body body;
      Body::Fields(body, *this);
      c.body = body;
      switch (Body::kOpcode) {
      case Opcode::End:
      case Opcode::Gather:
        c.engine = Engine::LD;
        break;
      case Opcode::Dma:
        c.engine = Flip() ? Engine::LD : Engine::ST;
        break;
      case Opcode::Conv:
      case Opcode::MatMul:
        c.engine = Engine::MXU;
        break;
      default:
        c.engine = Engine::VPU;
      }
      c.layer = Flip() ? 0 : U32();
      for (auto &w : c.wait)
        w = Flip() ? 0 : U32();
      return c;
    } else {
      return Command();
    }
  }

  template <class T> void operator()(const char *, T &f) {
    if (Flip())
      Value(f);
  }
  void Value(bool &v) { v = Flip(); }
  void Value(float &v) {
    static constexpr float values[] = {0.0f, -0.0f, 1.0f, 0.1f, -3.5e-30f, 1e38f, 0.003921569f, 6.0f};
    v = Flip() ? values[rng_() % 8] : std::bit_cast<float>(U32() & 0xbfffffffu); // never NaN
  }
  void Value(Quant &q) {
    Value(q.scale);
    q.zero = static_cast<int32_t>(U32());
  }
  void Value(Address &a) {
    a.region = static_cast<Region>(rng_() % 4);
    a.index = a.region == Region::Io ? rng_() % 0x10000 : 0;
    a.offset = rng_() % 8 ? rng_() % 100000 : static_cast<int64_t>(uint64_t{U32()} << 32 | U32());
  }
  void Value(View &v) {
    v = View();
    if (rng_() % 6 == 0)
      return;
    v.dtype = static_cast<DType>(1 + rng_() % (kNumDTypes - 1));
    Value(v.address);
    v.tail = Flip() ? Tail::Fill : Tail::Keep;
    for (uint32_t *d : {&v.n, &v.h, &v.w, &v.c, &v.c_block})
      *d = 1 + Dim();
    v.c0 = Flip() ? 0 : Dim();
    if (Flip()) {
      const DenseStrides d = DenseStridesOf(v);
      v.stride_n = d.n;
      v.stride_c1 = d.c1;
      v.stride_h = d.h;
      v.stride_w = d.w;
    } else {
      for (int64_t *s : {&v.stride_n, &v.stride_c1, &v.stride_h, &v.stride_w})
        *s = rng_() % 8 ? static_cast<int32_t>(U32()) : static_cast<int64_t>(uint64_t{U32()} << 32 | U32());
    }
    v.zero = Flip() ? 0 : static_cast<int32_t>(U32());
  }
  void Value(StageOperand &o) { StageOperand::Fields(o, *this); }
  void Value(MicroOps &ops) {
    ops.resize(1 + rng_() % kMaxMicroOps);
    for (MicroOp &m : ops)
      MicroOp::Fields(m, *this);
  }
  template <class T, size_t N> void Value(std::array<T, N> &a) {
    for (T &e : a)
      if (Flip())
        Value(e);
  }
  template <class T> void Value(T &v) {
    if constexpr (std::is_enum_v<T>)
      v = static_cast<T>(rng_() % EnumCount<T>());
    else
      v = static_cast<T>(uint64_t{U32()} << 32 | U32());
  }

  bool Flip() { return rng_() & 1; }
  uint32_t U32() { return static_cast<uint32_t>(rng_()); }
  uint32_t Dim() { return rng_() % 16 == 0 ? U32() >> 1 : rng_() % 300; }

private:
  std::mt19937_64 rng_;
};

} // namespace npuc::isa
