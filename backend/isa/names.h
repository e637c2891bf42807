// Names and number of values of the enumerations that commands carry: one spelling for listings, assembler and
// messages.
#pragma once

#include <span>
#include <string_view>

#include "backend/isa/commands.h"
#include "compiler/target/vpu_function.h"

namespace npuc::isa {

template <class E> struct EnumNames; // static constexpr std::string_view values[]

#define NPUC_ENUM(E, ...)                                                                                              \
  template <> struct EnumNames<E> { static constexpr std::string_view values[] = {__VA_ARGS__}; }
NPUC_ENUM(MicroKind, "Scale", "Add", "Sub", "Mul", "Clamp", "PRelu", "Act", "Quantise", "Lut", "ClampQ", "Dequantise");
NPUC_ENUM(Accumulate, "Single", "Start", "Continue", "Finish");
NPUC_ENUM(AccType, "I32", "I48", "F32");
NPUC_ENUM(Traversal, "Depth", "Row", "Kernel", "PartKernel");
NPUC_ENUM(ConvMode, "Dense", "Depthwise", "Grouped");
NPUC_ENUM(DmaMode, "Copy", "WidenI32", "NarrowI64");
NPUC_ENUM(PoolKind, "Max", "Average");
NPUC_ENUM(ReduceKind, "Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "ArgMax", "ArgMin");
NPUC_ENUM(NormKind, "Softmax", "LogSoftmax", "Layer", "Rms");
NPUC_ENUM(ResizeKind, "Nearest", "Linear");
NPUC_ENUM(Coordinates, "HalfPixel", "PytorchHalfPixel", "AlignCorners", "Asymmetric", "HalfPixelSymmetric");
NPUC_ENUM(Nearest, "RoundPreferFloor", "RoundPreferCeil", "Floor", "Ceil");
NPUC_ENUM(Opcode, "END", "DMA", "GATHER", "CONV", "MATMUL", "ELEM", "LUT", "POOL", "REDUCE", "NORM", "RESIZE");
NPUC_ENUM(Engine, "LD", "ST", "MXU", "VPU");
NPUC_ENUM(Region, "const", "arena", "sram", "io", "buf");
#undef NPUC_ENUM
template <> struct EnumNames<ElemFn> {
  static constexpr std::string_view values[] = {
#define NPUC_X(name, row) #name,
      NPUC_ELEM_FUNCTIONS(NPUC_X)
#undef NPUC_X
  };
};

template <class E> constexpr unsigned EnumCount() {
  return std::size(EnumNames<E>::values);
}
template <> constexpr unsigned EnumCount<DType>() {
  return kNumDTypes;
}

// "?" when out of range.
template <class E> constexpr std::string_view EnumName(E e) {
  const auto i = static_cast<unsigned>(e);
  return i < EnumCount<E>() ? EnumNames<E>::values[i] : std::string_view("?");
}
template <> inline std::string_view EnumName<DType>(DType t) {
  return npuc::Name(t);
}

// The row of the target's passes table that prices a function.
VpuFunction PassesRow(ElemFn f);

} // namespace npuc::isa
