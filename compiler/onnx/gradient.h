// ai.onnx.preview.training's Gradient: derivatives of one tensor of the graph by others.
#pragma once

#include "compiler/onnx/adapters.h"

namespace npuc::onnx_import {

// Fills node.results with dy/dx for each x, built as operators before the node's place. E0402 where a node on the way
// has no rule here or shapes are not static.
Status BuildGradient(AdaptedNode &node, llvm::ArrayRef<Value *> xs, Value *y);

} // namespace npuc::onnx_import
