// The commands of the reference NPU, ISA version 1: one struct each with one field list, which drives the encoder, the
// decoder, the disassembler, the assembler, the verifier and comparison. Meaning, numerics and price of each:
// docs/npu-isa.md.
//
// A field list is `template <class Self, class V> static void Fields(Self& s, V& v)`; v is called as v("name",
// s.member) in encoding order. Field types: View, Address, Quant, bool, enums, uint8_t/uint16_t/uint32_t, int32_t,
// int64_t, float, arrays (std::array of those) and MicroOps.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/isa/view.h"
#include "compiler/types/dtype.h"

namespace npuc::isa {

inline constexpr uint32_t kIsaVersion = 1;

enum class Engine : uint8_t { LD = 0, ST = 1, MXU = 2, VPU = 3 };
inline constexpr int kNumEngines = 4;

enum class Opcode : uint8_t {
  End = 0,
  Dma = 1,
  Gather = 2,
  Conv = 3,
  MatMul = 4,
  Elem = 5,
  Lut = 6,
  Pool = 7,
  Reduce = 8,
  Norm = 9,
  Resize = 10
};

// Scale and zero point of an operand or result. Integer views: real = (q - zero) * scale. Float views: ignored (scale
// 1, zero 0).
struct Quant {
  float scale = 1.0f;
  int32_t zero = 0;
  bool operator==(const Quant &) const = default;
};

// Unary, binary and ternary functions of the VPU and (the cheap ones) of the output stage. Operand order: f(a), f(a,
// b), f(a, b, c). The second column is the row of the target's passes table that prices it.
#define NPUC_ELEM_FUNCTIONS(X)                                                                                         \
  X(Copy, copy)                                                                                                        \
  X(Add, add) X(Sub, sub) X(Mul, mul) X(Div, div) X(Mod, mod) X(Fmod, mod) X(Min, min) X(Max, max) X(Pow, pow)         \
      X(Equal, compare) X(Less, compare) X(LessEqual, compare) X(Greater, compare) X(GreaterEqual, compare)            \
          X(And, logic) X(Or, logic) X(Xor, logic) X(Not, logic) X(Select, select) /* a ? b : c */                     \
      X(Clamp, clamp) /* min(max(a, imm0), imm1) */ X(PRelu, prelu)                /* a < 0 ? a * b : a */             \
      X(LeakyRelu, prelu) /* a < 0 ? a * imm0 : a */ X(Abs, abs) X(Neg, neg) X(Sign, sign) X(Floor, floor)             \
          X(Ceil, ceil) X(Round, round) X(Exp, exp) X(Log, log) X(Sqrt, sqrt) X(Rsqrt, rsqrt) X(Recip, recip)          \
              X(Sin, sin) X(Cos, cos) X(Erf, erf) X(Tanh, tanh) X(Sigmoid, sigmoid)                                    \
                  X(Gelu, gelu) /* erf form */ X(GeluTanh, gelu) X(Silu, sigmoid) /* a * sigmoid(imm0 * a) */          \
      X(HardSigmoid, clamp) /* min(max(imm0 * a + imm1, 0), 1) */ X(HardSwish,                                         \
                                                                    clamp) /* a * min(max(a * f32(1/6) + 0.5, 0), 1) */         \
      X(Elu, exp) /* a < 0 ? imm0 * (exp(a) - 1) : a */ X(Selu, exp) /* imm1 * (a < 0 ? imm0*(exp(a)-1) : a) */ X(     \
          Celu, exp) X(Softplus, log) X(Softsign, div) X(Mish, tanh) X(ThresholdedRelu, clamp) /* a > imm0 ? a : 0 */  \
      X(Cast, cast) X(Quantise, quantise) X(Dequantise, dequantise) X(Requantise, requantise) X(IsNaN, compare)
enum class ElemFn : uint8_t {
#define NPUC_X(name, row) name,
  NPUC_ELEM_FUNCTIONS(NPUC_X)
#undef NPUC_X
};
std::string_view Name(ElemFn f);
int NumOperands(ElemFn f); // 1, 2 or 3

// ---- Output stage of CONV and MATMUL: a chain of typed micro-operations, at most 8
// -----------------------------------------------
enum class MicroKind : uint8_t {
  Scale,      // acc -> f32: f32(acc) * scale[c] of the table. Always first, exactly once
  Add,        // f32 -> f32: v + operand (dequantised with its own quant); reversed has no meaning
  Sub,        // f32 -> f32: v - operand, or operand - v when `reversed`
  Mul,        // f32 -> f32: v * operand
  Clamp,      // f32 -> f32: min(max(v, a), b), NaN stays
  PRelu,      // f32 -> f32: v < 0 ? v * operand : v
  Act,        // f32 -> f32: fn(v) with imm a, b (unary functions of ElemFn)
  Quantise,   // f32 -> q: clamp(rhe(v / scale) + zero). After Scale with `requant`: no division, clamp(rhe(v) + zero)
  Lut,        // q -> q (8 bit): table of 256 bytes
  ClampQ,     // q -> q: min(max(q, lo), hi) on integers; lo = int(a), hi = int(b)
  Dequantise, // q -> f32: f32(q - zero) * scale
};
struct MicroOp {
  MicroKind kind = MicroKind::Scale;
  ElemFn fn = ElemFn::Copy;       // Act
  uint8_t operand = 0;            // Add, Sub, Mul, PRelu: which of the command's `operands`
  bool reversed = false;          // Sub
  bool requant = false;           // Quantise: the table's scale holds sx*sw/sy already, v is in units of q
  DType dtype = DType::Undefined; // Quantise: result type
  Quant quant;                    // Quantise, Dequantise
  float a = 0, b = 0;             // Clamp, Act, ClampQ
  Address lut;                    // Lut
  bool operator==(const MicroOp &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("kind", s.kind);
    v("fn", s.fn);
    v("operand", s.operand);
    v("reversed", s.reversed);
    v("requant", s.requant);
    v("dtype", s.dtype);
    v("quant", s.quant);
    v("a", s.a);
    v("b", s.b);
    v("lut", s.lut);
  }
};
using MicroOps = std::vector<MicroOp>; // 1..8
inline constexpr int kMaxMicroOps = 8;
// When the chain ends in f32 and the output view is f16, the result is rounded once; an f32 view takes it as it is.

// One entry of the per-channel table, 16 bytes in SRAM: bias (i64 little-endian; integer accumulators use its low 32 or
// 48 bits; float accumulators take its low 4 bytes as f32), scale f32, weight zero point i32.
inline constexpr int kTableEntryBytes = 16;

enum class Accumulate : uint8_t { Single, Start, Continue, Finish };
enum class AccType : uint8_t { I32, I48, F32 };
enum class Traversal : uint8_t { Depth, Row, Kernel, PartKernel };
enum class ConvMode : uint8_t { Dense, Depthwise, Grouped };

// Second operands of micro-ops: views of the output's dims (stride 0 where broadcast), in SRAM, with their own
// quantisation.
struct StageOperand {
  View view;
  Quant quant;
  bool operator==(const StageOperand &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("view", s.view);
    v("quant", s.quant);
  }
};

// Weights (in SRAM), padded to whole oc and c2 blocks (lanes that no output sees):
//   Dense:     [OC/oc][IC/c2][KH][KW][c2][oc];   Grouped: that for each group in turn,
//   [G][OCg/oc][ICg/c2][KH][KW][c2][oc] Depthwise: [C/oc][KH][KW][oc]                 c2 = target c2 of x's dtype; i4:
//   two per byte, low nibble first
struct Conv {
  static constexpr Opcode kOpcode = Opcode::Conv;
  View in, out; // in: rows and columns present in SRAM (padding is not stored)
  Address weights;
  DType weight_dtype = DType::I8;
  uint32_t weight_bytes = 0; // what lies at `weights`
  Address table;             // out.c (x groups) entries
  ConvMode mode = ConvMode::Dense;
  uint32_t groups = 1; // Grouped: in.c = groups * ICg, out.c = groups * OCg
  uint16_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  uint16_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0; // taps there are skipped
  int32_t in_zero = 0;                                               // zx
  AccType acc = AccType::I32;
  Accumulate accumulate = Accumulate::Single;
  Traversal traversal = Traversal::Depth;
  std::array<StageOperand, 2> operands;
  MicroOps stage; // empty unless Single/Finish
  bool operator==(const Conv &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("in", s.in);
    v("out", s.out);
    v("weights", s.weights);
    v("weight_dtype", s.weight_dtype);
    v("weight_bytes", s.weight_bytes);
    v("table", s.table);
    v("mode", s.mode);
    v("groups", s.groups);
    v("kernel_h", s.kernel_h);
    v("kernel_w", s.kernel_w);
    v("stride_h", s.stride_h);
    v("stride_w", s.stride_w);
    v("dilation_h", s.dilation_h);
    v("dilation_w", s.dilation_w);
    v("pad_top", s.pad_top);
    v("pad_left", s.pad_left);
    v("pad_bottom", s.pad_bottom);
    v("pad_right", s.pad_right);
    v("in_zero", s.in_zero);
    v("acc", s.acc);
    v("accumulate", s.accumulate);
    v("traversal", s.traversal);
    v("operands", s.operands);
    v("stage", s.stage);
  }
};

// Batched A x B. A: (n, h) batch, w = M, c = K. out: (n, h), w = M, c = N. Batch strides may be 0.
// B constant: packed [N/oc][K/c2][c2][oc] at `weights` (no batch); else the view b: w = K, c = N, or w = N, c = K when
// transposed_b.
struct MatMul {
  static constexpr Opcode kOpcode = Opcode::MatMul;
  View a, out;
  View b;          // present(): dynamic B
  Address weights; // else packed constant B
  DType weight_dtype = DType::I8;
  uint32_t weight_bytes = 0;
  bool transposed_b = false;
  Address table;                  // out.c entries
  int32_t a_zero = 0, b_zero = 0; // b_zero: dynamic B; constant B takes zw from the table
  AccType acc = AccType::I32;
  Accumulate accumulate = Accumulate::Single;
  std::array<StageOperand, 2> operands;
  MicroOps stage;
  bool operator==(const MatMul &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("a", s.a);
    v("out", s.out);
    v("b", s.b);
    v("weights", s.weights);
    v("weight_dtype", s.weight_dtype);
    v("weight_bytes", s.weight_bytes);
    v("transposed_b", s.transposed_b);
    v("table", s.table);
    v("a_zero", s.a_zero);
    v("b_zero", s.b_zero);
    v("acc", s.acc);
    v("accumulate", s.accumulate);
    v("operands", s.operands);
    v("stage", s.stage);
  }
};

// Copy of a view to a view of the same element size. dst dims = src dims + pads; pad elements get `fill` (raw bits).
// WidenI32: i32 source to i64 destination (low word, sign word); NarrowI64: i64 source to i32 destination (low word).
// Their element sizes differ by that rule alone.
enum class DmaMode : uint8_t { Copy, WidenI32, NarrowI64 };
struct Dma {
  static constexpr Opcode kOpcode = Opcode::Dma;
  View src, dst;
  std::array<uint32_t, 4> pad_before{}, pad_after{}; // n, h, w, c
  int64_t fill = 0;
  DmaMode mode = DmaMode::Copy;
  bool operator==(const Dma &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("src", s.src);
    v("dst", s.dst);
    v("pad_before", s.pad_before);
    v("pad_after", s.pad_after);
    v("fill", s.fill);
    v("mode", s.mode);
  }
};

// out(0, 0, i, :) = table(0, 0, index[i], :). index: i32, c = 1 lane per element read along w.
struct Gather {
  static constexpr Opcode kOpcode = Opcode::Gather;
  View table, indices, out;
  bool operator==(const Gather &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("table", s.table);
    v("indices", s.indices);
    v("out", s.out);
  }
};

// out = fn(operands...), each dequantised, computed in f32, quantised (or rounded to f16) once. Operands broadcast by
// stride 0; an absent view stands for the immediate `scalar[i]`. Integer-only functions (compare on equal types, logic,
// select, copy) work on the bits.
struct Elem {
  static constexpr Opcode kOpcode = Opcode::Elem;
  ElemFn fn = ElemFn::Copy;
  View out;
  Quant out_quant;
  std::array<View, 3> in;
  std::array<Quant, 3> in_quant;
  std::array<float, 3> scalar{}; // operand i when in[i] is absent
  std::array<float, 2> imm{};    // parameters of the function
  bool operator==(const Elem &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("fn", s.fn);
    v("out", s.out);
    v("out_quant", s.out_quant);
    v("in", s.in);
    v("in_quant", s.in_quant);
    v("scalar", s.scalar);
    v("imm", s.imm);
  }
};

inline constexpr int kLut8Bytes = 256;
inline constexpr int kLut16Bytes = 513 * 2;
inline int LutBytes(DType t) {
  return ByteSize(t) == 2 ? kLut16Bytes : kLut8Bytes;
}

// 8-bit: out = table[in] (index q - IntMin), 256 bytes. i16: 513 i16 knots, linear between, round half to even.
struct Lut {
  static constexpr Opcode kOpcode = Opcode::Lut;
  View in, out;
  Address table;
  bool operator==(const Lut &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("in", s.in);
    v("out", s.out);
    v("table", s.table);
  }
};

enum class PoolKind : uint8_t { Max, Average };
struct Pool {
  static constexpr Opcode kOpcode = Opcode::Pool;
  PoolKind kind = PoolKind::Max;
  View in, out;
  Quant in_quant, out_quant;
  uint16_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  // Average with count_include_pad counts taps in [-pad_top, in.h + pad_bottom) x ...; others only taps inside. A
  // ceil_mode window may reach beyond even the padding: those taps are never counted.
  uint16_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  bool count_include_pad = false;
  bool operator==(const Pool &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("kind", s.kind);
    v("in", s.in);
    v("out", s.out);
    v("in_quant", s.in_quant);
    v("out_quant", s.out_quant);
    v("kernel_h", s.kernel_h);
    v("kernel_w", s.kernel_w);
    v("stride_h", s.stride_h);
    v("stride_w", s.stride_w);
    v("dilation_h", s.dilation_h);
    v("dilation_w", s.dilation_w);
    v("pad_top", s.pad_top);
    v("pad_left", s.pad_left);
    v("pad_bottom", s.pad_bottom);
    v("pad_right", s.pad_right);
    v("count_include_pad", s.count_include_pad);
  }
};

enum Axis : uint8_t { kAxisN = 1, kAxisH = 2, kAxisW = 4, kAxisC = 8 };

// Reduced axes have extent 1 in out. `combine`: out holds a partial result to go on with (sum, max, min only; same
// quant, f32 or i32 out). Argmax/argmin over one axis: out i32 index, first occurrence unless select_last.
enum class ReduceKind : uint8_t { Sum, Mean, Max, Min, Prod, SumSquare, L1, L2, ArgMax, ArgMin };
struct Reduce {
  static constexpr Opcode kOpcode = Opcode::Reduce;
  ReduceKind kind = ReduceKind::Sum;
  uint8_t axes = 0; // mask of Axis
  View in, out;
  Quant in_quant, out_quant;
  bool combine = false;
  bool select_last = false;
  bool operator==(const Reduce &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("kind", s.kind);
    v("axes", s.axes);
    v("in", s.in);
    v("out", s.out);
    v("in_quant", s.in_quant);
    v("out_quant", s.out_quant);
    v("combine", s.combine);
    v("select_last", s.select_last);
  }
};

// Softmax, log-softmax over `axes`; layer/RMS/instance/group normalisation over `axes` (group: `groups` runs of C).
// gamma and beta: f32 or f16 views broadcast to in's dims by stride 0; absent: 1 and 0.
enum class NormKind : uint8_t { Softmax, LogSoftmax, Layer, Rms };
struct Norm {
  static constexpr Opcode kOpcode = Opcode::Norm;
  NormKind kind = NormKind::Softmax;
  uint8_t axes = kAxisC;
  uint32_t groups =
      1; // the C axis of Layer splits into that many groups, each normalised by itself (with other `axes`)
  View in, out;
  Quant in_quant, out_quant;
  View gamma, beta;
  float epsilon = 0;
  bool operator==(const Norm &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("kind", s.kind);
    v("axes", s.axes);
    v("groups", s.groups);
    v("in", s.in);
    v("out", s.out);
    v("in_quant", s.in_quant);
    v("out_quant", s.out_quant);
    v("gamma", s.gamma);
    v("beta", s.beta);
    v("epsilon", s.epsilon);
  }
};

// ONNX's coordinate transformations and nearest modes on H and W of a tile: output row r of the tile is row out_h0 + r
// of full_out_h; source rows are clamped to [0, full_in_h) and found at row - in_h0 of `in`. scale = output/input as
// ONNX has it; 0: full_out / full_in (resize_math.h).
enum class ResizeKind : uint8_t { Nearest, Linear };
enum class Coordinates : uint8_t { HalfPixel, PytorchHalfPixel, AlignCorners, Asymmetric, HalfPixelSymmetric };
enum class Nearest : uint8_t { RoundPreferFloor, RoundPreferCeil, Floor, Ceil };
struct Resize {
  static constexpr Opcode kOpcode = Opcode::Resize;
  ResizeKind kind = ResizeKind::Nearest;
  Coordinates coordinates = Coordinates::HalfPixel;
  Nearest nearest = Nearest::RoundPreferFloor;
  View in, out;
  Quant in_quant, out_quant;
  float scale_h = 1, scale_w = 1;
  uint32_t out_h0 = 0, out_w0 = 0, in_h0 = 0, in_w0 = 0;
  uint32_t full_in_h = 1, full_in_w = 1, full_out_h = 1, full_out_w = 1;
  bool operator==(const Resize &) const = default;
  template <class Self, class V> static void Fields(Self &s, V &v) {
    v("kind", s.kind);
    v("coordinates", s.coordinates);
    v("nearest", s.nearest);
    v("in", s.in);
    v("out", s.out);
    v("in_quant", s.in_quant);
    v("out_quant", s.out_quant);
    v("scale_h", s.scale_h);
    v("scale_w", s.scale_w);
    v("out_h0", s.out_h0);
    v("out_w0", s.out_w0);
    v("in_h0", s.in_h0);
    v("in_w0", s.in_w0);
    v("full_in_h", s.full_in_h);
    v("full_in_w", s.full_in_w);
    v("full_out_h", s.full_out_h);
    v("full_out_w", s.full_out_w);
  }
};

struct End {
  static constexpr Opcode kOpcode = Opcode::End;
  bool operator==(const End &) const = default;
  template <class Self, class V> static void Fields(Self &, V &) {}
};

using CommandBody = std::variant<End, Dma, Gather, Conv, MatMul, Elem, Lut, Pool, Reduce, Norm, Resize>;

struct Command {
  Engine engine = Engine::LD;
  uint32_t layer = 0;             // id of the source layer
  std::array<uint32_t, 4> wait{}; // per engine: how many of its commands must have completed; wait[own] = 0
  CommandBody body;
  bool operator==(const Command &) const = default;
};
using Stream = std::vector<Command>; // ends in End (engine LD by convention)

Opcode OpcodeOf(const Command &c);
std::string_view Name(Opcode o);
std::string_view Name(Engine e);
std::string_view Name(Region r);

} // namespace npuc::isa
