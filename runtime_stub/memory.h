// The machine's memories as byte images, and the way from an address to a byte. The loader has proved every access in
// bounds before a command runs, so nothing here checks.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/isa/view.h"

namespace npuc::runtime {

struct Image {
  uint8_t *data = nullptr;
  int64_t bytes = 0;
};

struct Memory {
  Image constants; // mapped from the file; never written
  Image arena, sram;
  std::vector<Image> io; // the caller's buffers: inputs first, then outputs

  const Image &region(isa::Region r, uint32_t index) const {
    switch (r) {
    case isa::Region::Const:
      return constants;
    case isa::Region::Arena:
      return arena;
    case isa::Region::Sram:
      return sram;
    default:
      return io[index];
    }
  }
  uint8_t *At(const isa::Address &a) const { return region(a.region, a.index).data + a.offset; }
  // Byte of an element; `At(v, 0, 0, 0, 0)` is the first element's, c0 included.
  uint8_t *At(const isa::View &v, int64_t n, int64_t h, int64_t w, int64_t c) const {
    return region(v.address.region, v.address.index).data + v.ElementOffset(n, h, w, c);
  }
};

} // namespace npuc::runtime
