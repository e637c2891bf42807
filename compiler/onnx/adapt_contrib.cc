// Adapters of operators outside ONNX that exporters and quantisers write, where ONNX has the meaning.
#include "compiler/onnx/adapters.h"
#include "compiler/ops/convert.h"

namespace npuc::onnx_import {
namespace {

// Gelu's tanh form of x + bias.
Status FastGelu(AdaptedNode &n) {
  Value *x = n.input(0);
  if (n.input(1)) {
    NPUC_ASSIGN_OR_RETURN(x, n.Add("Add", {x, n.input(1)}));
  }
  AttributeList tanh;
  tanh.Set("approximate", std::string("tanh"));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Gelu", {x}, tanh));
  n.results = {y};
  return OkStatus();
}

Status BiasGelu(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * x, n.Add("Add", {n.input(0), n.input(1)}));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Gelu", {x}));
  n.results = {y};
  return OkStatus();
}

// x * sigmoid(alpha * x)
Status QuickGelu(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * scaled, n.Add("Mul", {n.input(0), n.ScalarLikeInput(n.attrs.Float("alpha", 1.702f))}));
  NPUC_ASSIGN_OR_RETURN(Value * gate, n.Add("Sigmoid", {scaled}));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("Mul", {n.input(0), gate}));
  n.results = {y};
  return OkStatus();
}

// LayerNormalization(x + skip + bias); output 3 is the sum.
Status SkipLayerNorm(AdaptedNode &n) {
  NPUC_ASSIGN_OR_RETURN(Value * sum, n.Add("Add", {n.input(0), n.input(1)}));
  if (n.input(4)) {
    NPUC_ASSIGN_OR_RETURN(sum, n.Add("Add", {sum, n.input(4)}));
  }
  for (unsigned i = 1; i < n.num_outputs && i < 3; ++i)
    if (n.output_used[i])
      return Error("E0402", fmt::format("output {} of SkipLayerNormalization (a training statistic) is used", i));
  AttributeList attrs;
  attrs.Set("axis", int64_t{-1});
  attrs.Set("epsilon", n.attrs.Float("epsilon", 1e-12f));
  llvm::SmallVector<Value *, 3> operands{sum, n.input(2)};
  if (n.input(3))
    operands.push_back(n.input(3));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("LayerNormalization", operands, attrs));
  n.results = {y, nullptr, nullptr, sum};
  return OkStatus();
}

// The same without a mean: y = x / sqrt(mean(x^2) + epsilon) * gamma.
Status SimplifiedLayerNorm(AdaptedNode &n, Value *x) {
  AttributeList attrs;
  attrs.Set("axis", n.attrs.Int("axis", -1));
  attrs.Set("epsilon", n.attrs.Float("epsilon", 1e-5f));
  Value *gamma = n.input(n.op == "SimplifiedLayerNormalization" ? 1 : 2);
  for (unsigned i = 1; i < n.num_outputs && i < 3; ++i)
    if (n.output_used[i])
      return Error("E0402", fmt::format("output {} of {} (a training statistic) is used", i, n.op));
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("RMSNormalization", {x, gamma}, attrs));
  n.results = {y, nullptr, nullptr, x};
  return OkStatus();
}
Status SimplifiedLayerNorm(AdaptedNode &n) {
  if (n.inputs.size() != 2)
    return Error("E0203", fmt::format("{} inputs; {} takes 2", n.inputs.size(), n.op));
  return SimplifiedLayerNorm(n, n.input(0));
}
Status SkipSimplifiedLayerNorm(AdaptedNode &n) {
  if (!n.input(0) || !n.input(1) || !n.input(2))
    return Error("E0203", fmt::format("{} inputs; {} takes 3 or 4", n.inputs.size(), n.op));
  NPUC_ASSIGN_OR_RETURN(Value * sum, n.Add("Add", {n.input(0), n.input(1)}));
  if (n.input(3)) {
    NPUC_ASSIGN_OR_RETURN(sum, n.Add("Add", {sum, n.input(3)}));
  }
  n.attrs.Erase("axis");
  return SimplifiedLayerNorm(n, sum);
}

// A x B^T with B in blocks of 2-, 4- or 8-bit integers: [N, blocks, bytes], scales [N, blocks], zero points likewise,
// packed (or plain floats). B becomes a float constant [K, N].
Status MatMulNBits(AdaptedNode &n) {
  const int64_t k = n.attrs.Int("K", 0), columns = n.attrs.Int("N", 0), bits = n.attrs.Int("bits", 4),
                block = n.attrs.Int("block_size", 0);
  if ((bits != 2 && bits != 4 && bits != 8) || k < 1 || columns < 1 || block < 8 / bits || k > INT32_MAX ||
      columns > INT32_MAX || block > INT32_MAX)
    return Error("E0203", fmt::format("MatMulNBits with K {}, N {}, bits {}, block_size {}", k, columns, bits, block));
  auto constant = [&](unsigned i) { return n.input(i) ? n.input(i)->constant() : nullptr; };
  if (!constant(1) || !constant(2) || (n.input(3) && !constant(3)))
    return Error("E0402", "MatMulNBits of weights that are computed",
                 "weights, scales and zero points must be constants");
  if (n.input(4))
    return Error("E0402", "MatMulNBits with g_idx", "export the weights without reordered groups");
  const int64_t blocks = (k + block - 1) / block, per_block = (block * bits + 7) / 8, per_byte = 8 / bits,
                zero_row = (blocks * bits + 7) / 8;
  const Tensor b = constant(1)->Expand(), scales = constant(2)->Expand();
  Tensor zeros;
  if (n.input(3))
    zeros = constant(3)->Expand();
  const bool packed_zeros = zeros && zeros.dtype() == DType::U8;
  if (b.dtype() != DType::U8 || b.num_elements() != columns * blocks * per_block || !IsFloat(scales.dtype()) ||
      scales.num_elements() != columns * blocks ||
      (zeros && zeros.num_elements() != (packed_zeros ? columns * zero_row : columns * blocks)))
    return Error("E0301", fmt::format("B {}, scales {} do not fit K {}, N {}, {} bits in blocks of {}",
                                      ToString(b.dims()), ToString(scales.dims()), k, columns, bits, block));
  auto code = [&](const uint8_t *row, int64_t i) {
    return static_cast<int>(row[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
  };
  Tensor w = Tensor::Allocate(DType::F32, {k, columns});
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t g = 0; g < blocks; ++g) {
      const float scale = static_cast<float>(scales.AsDouble(c * blocks + g));
      const float zero = !zeros         ? static_cast<float>(1 << (bits - 1))
                         : packed_zeros ? static_cast<float>(code(zeros.bytes() + c * zero_row, g))
                                        : static_cast<float>(zeros.AsDouble(c * blocks + g));
      const uint8_t *row = b.bytes() + (c * blocks + g) * per_block;
      for (int64_t i = 0; i < block && g * block + i < k; ++i)
        w.mutable_data<float>()[(g * block + i) * columns + c] = (static_cast<float>(code(row, i)) - zero) * scale;
    }
  const DType dtype = n.InputDType(0);
  NPUC_ASSIGN_OR_RETURN(Value * y, n.Add("MatMul", {n.input(0), n.Constant(dtype == DType::F32 || !IsFloat(dtype)
                                                                               ? std::move(w)
                                                                               : ops::ConvertTensor(w, dtype))}));
  if (n.input(5)) {
    NPUC_ASSIGN_OR_RETURN(y, n.Add("Add", {y, n.input(5)}));
  }
  n.results = {y};
  return OkStatus();
}

// Operators that onnxruntime had before ONNX, or for more types, with ONNX's meaning.
Status AsOnnx(AdaptedNode &n) {
  n.domain = "";
  n.version = kNewestOpset;
  return OkStatus();
}

constexpr AdapterRow kRows[] = {
    {"", "SimplifiedLayerNormalization", kAlways, SimplifiedLayerNorm},
    {"com.microsoft", "SimplifiedLayerNormalization", kAlways, SimplifiedLayerNorm},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", kAlways, SkipSimplifiedLayerNorm},
    {"com.microsoft", "MatMulNBits", kAlways, MatMulNBits},
    {"com.microsoft", "QuantizeLinear", kAlways, AsOnnx},
    {"com.microsoft", "DequantizeLinear", kAlways, AsOnnx},
    {"com.microsoft", "Trilu", kAlways, AsOnnx},
    {"com.microsoft", "Pad", kAlways, AsOnnx},
    {"com.microsoft", "GridSample", kAlways, AsOnnx},
    {"com.microsoft", "Gelu", kAlways, AsOnnx},
    {"com.microsoft", "FastGelu", kAlways, FastGelu},
    {"com.microsoft", "BiasGelu", kAlways, BiasGelu},
    {"com.microsoft", "QuickGelu", kAlways, QuickGelu},
    {"com.microsoft", "SkipLayerNormalization", kAlways, SkipLayerNorm},
};

} // namespace

llvm::ArrayRef<AdapterRow> ContribAdapters() {
  return kRows;
}

} // namespace npuc::onnx_import
