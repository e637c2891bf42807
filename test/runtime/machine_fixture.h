// Two equal machines in memory, one run element by element, one by the fast paths: every byte of both must agree
// afterwards.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"
#include "runtime_stub/machine.h"
#include "runtime_stub/rows.h"

namespace npuc::runtime {

class Bench {
public:
  explicit Bench(uint32_t seed, int64_t bytes = 1 << 21) : rng(seed), sram(bytes), other(bytes) {
    memory.sram = {sram.data(), bytes};
  }
  int64_t Int(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(rng); }
  bool Coin() { return Int(0, 1) == 1; }
  template <class T> T Pick(std::initializer_list<T> of) {
    return *(of.begin() + Int(0, static_cast<int64_t>(of.size()) - 1));
  }

  isa::Address Allocate(int64_t bytes) {
    const int64_t at = top;
    top = (top + bytes + 63) / 64 * 64;
    EXPECT_LE(top, static_cast<int64_t>(sram.size()));
    return {isa::Region::Sram, 0, at};
  }
  // A fresh view in a random layout (NHWC, blocked, planar unless `mxu`), with a channel offset and gaps at times.
  isa::View View(DType t, int64_t n, int64_t h, int64_t w, int64_t c, bool mxu = false) {
    isa::View v;
    v.dtype = t;
    v.n = n, v.h = h, v.w = w, v.c = c;
    const int64_t e = ByteSize(t), c2 = e == 1 ? 16 : 8;
    const int layout = static_cast<int>(Int(0, mxu ? 1 : 2));
    if (layout == 0) {
      v.c_block = c;
      if (Coin())
        v.c_block += Int(0, 5), v.c0 = Int(0, v.c_block - c);
    } else if (layout == 1) {
      v.c_block = c2;
      if (Coin())
        v.c0 = Int(0, c2 - 1);
    } else {
      v.c_block = 1;
    }
    const int64_t blocks = (v.c0 + c + v.c_block - 1) / v.c_block, gap = Coin() ? 0 : Int(0, 3) * e;
    if (layout == 2) {
      v.stride_w = e, v.stride_h = w * e + gap, v.stride_c1 = h * v.stride_h, v.stride_n = blocks * v.stride_c1;
    } else {
      v.stride_w = v.c_block * e + gap, v.stride_h = w * v.stride_w + gap, v.stride_c1 = h * v.stride_h,
      v.stride_n = blocks * v.stride_c1;
    }
    v.tail = Coin() ? isa::Tail::Fill : isa::Tail::Keep;
    v.zero = IsFloat(t) ? 0 : static_cast<int32_t>(Int(-3, 3));
    if (t == DType::U8 || t == DType::U16 || t == DType::Bool)
      v.zero = static_cast<int32_t>(Int(0, 3));
    v.address = Allocate(n * v.stride_n + 16);
    return v;
  }
  // Random contents. Halves: mostly tame, with zeros of both signs, infinities and NaN when `wild`.
  void Fill(const isa::View &v, bool wild = false) {
    for (int64_t n = 0; n < v.n; ++n)
      for (int64_t h = 0; h < v.h; ++h)
        for (int64_t w = 0; w < v.w; ++w)
          for (int64_t c = 0; c < v.c; ++c)
            WriteInt(memory.At(v, n, h, w, c), v.dtype, Bits(v.dtype, wild));
  }
  int64_t Bits(DType t, bool wild) {
    switch (t) {
    case DType::F16:
      if (wild && Int(0, 15) == 0)
        return Pick<int64_t>({0x0000, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x0001, 0x7bff});
      return FloatToHalf(std::normal_distribution<float>(0, 2)(rng));
    case DType::F32: {
      const float f = std::normal_distribution<float>(0, 2)(rng);
      int32_t bits;
      std::memcpy(&bits, &f, 4);
      return bits;
    }
    case DType::Bool:
      return Int(0, 1);
    case DType::I32:
      return Int(-1000, 1000);
    default:
      return Int(IntMin(t), IntMax(t));
    }
  }
  isa::Quant Quant(DType t) {
    if (IsFloat(t) || t == DType::Bool)
      return {};
    const int64_t reach = ByteSize(t) == 1 ? 20 : 0;
    return {static_cast<float>(Int(1, 50)) / 37.0f,
            static_cast<int32_t>(t == DType::U8 ? Int(100, 150) : Int(-reach, reach))};
  }
  // Runs the command both ways; every byte must agree.
  void Compare(const isa::Command &command, int threads = 1) { CompareAll({command}, threads); }
  void CompareAll(const std::vector<isa::Command> &commands, int threads = 1) {
    other = sram;
    Memory slow = memory;
    slow.sram.data = other.data();
    ThreadPool pool(threads);
    for (const isa::Command &c : commands) {
      ASSERT_TRUE(Execute(c, {slow, geometry, nullptr, true, false, &slow_workspace}).ok());
      ASSERT_TRUE(Execute(c, {memory, geometry, &pool, false, false, &workspace}).ok());
    }
    if (sram == other)
      return;
    int64_t at = 0, count = 0;
    for (size_t i = 0; i < sram.size(); ++i)
      if (sram[i] != other[i])
        at = count++ ? at : static_cast<int64_t>(i);
    ADD_FAILURE() << count << " bytes differ, the first at " << at << ": fast " << int(sram[at]) << ", reference "
                  << int(other[at]);
  }

  std::mt19937 rng;
  std::vector<uint8_t> sram, other;
  Memory memory;
  Workspace workspace, slow_workspace;
  Geometry geometry;
  int64_t top = 0;
};

} // namespace npuc::runtime
