// Filters rounded to f16 without drift.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/types/tensor.h"

namespace npuc {

class ThreadPool;

// The axis of `n`'s operand `i` along which filters lie (one a slice), when it is the constant weights of a convolution
// or a matrix product: Conv, Gemm, MatMul of rank 2.
std::optional<int> FilterAxis(const Node &n, unsigned i);

// An f32 tensor in f16, each slice along `axis` with its sum kept to half a step of its least weight; a weight moves at
// most half its own step and half that of the weight before it (coarser exponents come first). Values beyond f16's range are the caller's business.
// Filters have under 2^31 weights.
Tensor RoundFilters(const Tensor &weights, int axis, ThreadPool *threads = nullptr);

} // namespace npuc
