// Physical storage order of a tensor. Logical shapes always stay in ONNX's order, so an operator's meaning never
// depends on layout; a Transpose whose operand and result lie in the same bytes in the same order costs nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace npuc {

enum class Layout : uint8_t {
  RowMajor, // ONNX's order: for rank 4 this is NCHW
  NHWC,     // rank 3 (N,C,W) and 4 (N,C,H,W): the channel axis (1) innermost
  NC1HWC2,  // rank 3 and 4: channels in blocks of C2 lanes (C2 from the target and dtype), blocks outside H
};

constexpr std::string_view Name(Layout l) {
  return l == Layout::RowMajor ? "NCHW" : l == Layout::NHWC ? "NHWC" : "NC1HWC2";
}

} // namespace npuc
