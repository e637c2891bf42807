// What coder and text form share about field lists: fields equal to their default are left out of both, so each needs
// to know a field's default and the number of fields of a struct.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "backend/isa/commands.h"
#include "backend/isa/names.h"
#include "compiler/support/status.h"

namespace npuc::isa {

template <class T> inline constexpr bool kIsStdArray = false;
template <class T, size_t N> inline constexpr bool kIsStdArray<std::array<T, N>> = true;

// A struct with a field list of its own.
struct NopVisitor {
  template <class T> void operator()(const char *, T &) {}
};
template <class T>
concept HasFields = requires(T &t, NopVisitor &v) {
  T::Fields(t, v);
};

// Equality of bits, so that -0.0 and NaN payloads count; an absent view equals any other absent view.
template <class T> bool SameBits(const T &a, const T &b) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  } else if constexpr (std::is_same_v<T, View>) {
    return (!a.present() && !b.present()) || a == b;
  } else if constexpr (std::is_same_v<T, Quant>) {
    return SameBits(a.scale, b.scale) && a.zero == b.zero;
  } else if constexpr (std::is_same_v<T, StageOperand>) {
    return SameBits(a.view, b.view) && SameBits(a.quant, b.quant);
  } else if constexpr (std::is_same_v<T, MicroOps>) {
    return a.empty() && b.empty(); // only asked against the default
  } else if constexpr (kIsStdArray<T>) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!SameBits(a[i], b[i]))
        return false;
    return true;
  } else {
    return a == b;
  }
}

inline constexpr int kMaxFields = 32;

// Addresses of the fields of one default-constructed S, in order.
template <class S> struct Defaults {
  std::array<const void *, kMaxFields> field{};
  int count = 0;

  static const Defaults &Get() {
    static const S instance{};
    static const Defaults d = [] {
      Defaults out;
      auto add = [&](const char *, const auto &f) {
        NPUC_CHECK(out.count < kMaxFields);
        out.field[out.count++] = &f;
      };
      S::Fields(instance, add);
      return out;
    }();
    return d;
  }
  template <class T> const T &At(int i) const { return *static_cast<const T *>(field[i]); }
};

// One bit per field, set where it differs from the default.
template <class S> uint32_t PresentFields(const S &s) {
  const Defaults<S> &d = Defaults<S>::Get();
  uint32_t bits = 0;
  int i = 0;
  auto visit = [&]<class T>(const char *, const T &f) {
    if (!SameBits(f, d.template At<T>(i)))
      bits |= 1u << i;
    ++i;
  };
  S::Fields(s, visit);
  return bits;
}

// Strides of a view that lies dense in [n][block][h][w][lane] order; unsigned arithmetic, so defined for any dims.
struct DenseStrides {
  int64_t n, c1, h, w;
};
inline DenseStrides DenseStridesOf(const View &v) {
  const uint64_t w = uint64_t{v.c_block} * static_cast<uint64_t>(v.elem_bytes());
  const uint64_t h = w * v.w, c1 = h * v.h;
  const uint64_t blocks = v.c_block ? (uint64_t{v.c0} + v.c + v.c_block - 1) / v.c_block : 0;
  return {static_cast<int64_t>(c1 * blocks), static_cast<int64_t>(c1), static_cast<int64_t>(h),
          static_cast<int64_t>(w)};
}

} // namespace npuc::isa
