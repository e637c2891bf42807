// Shape and type inference over the IR.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace npuc {

// Infers the node's result types from its operands' types, known constants and shape data, and stores them. Rules:
//  - Stored result types are hints: what inference finds wins; where it finds a dim or a type unknown, the hint stays.
//  A hint that
//    contradicts an inferred static extent or dtype is dropped and reported as a warning (when `warnings` is given).
//  - Quantisation is the quantiser's: a result type that carries it keeps its dtype and parameters and takes only the
//  shape; so does
//    the result dtype of a node with quantised operands. A node that copies elements passes a per-tensor annotation on
//    to an untyped result.
// Bodies are inferred on the way. Errors: E0203, E0301, E0302, E0304, with the node's id.
Status InferNode(Node &node, DiagnosticEngine *warnings = nullptr);

// E0304 where a value's static shape asks for more than 2^40 bytes. InferNode asks it of results, whoever adds inputs
// asks it of them.
Status CheckTensorSize(const Value &v);

// InferNode over g's nodes in order, after a look at its inputs' sizes (bodies included, by their nodes).
Status InferShapes(Graph &g, DiagnosticEngine *warnings = nullptr);

// The ids that errors use: of the first ONNX node the node stands for, else the name of its first result.
std::string NodeId(const Node &node);

// What is known of an integer vector or scalar that holds shape data: its elements as dims, some of them symbolic.
// Looks through Shape, Gather, Concat, Slice, (Un)squeeze, Reshape, Cast, arithmetic and the like, up to constants.
// nullopt when even the number of elements is unknown or the value is not an integer tensor of rank 0 or 1 (at most 64
// elements).
std::optional<llvm::SmallVector<Dim, 4>> ShapeData(const Value *value);

} // namespace npuc
