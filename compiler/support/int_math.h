// Integer arithmetic of sizes and counts.
#pragma once

#include <cstdint>

namespace npuc {

// a / b rounded up, for a >= 0 and b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
// The least multiple of b that is at least a, for a >= 0 and b > 0.
constexpr int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDiv(a, b) * b;
}

} // namespace npuc
