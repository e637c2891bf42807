// Consecutive layers computed stripe by stripe of rows, so that what lies between them needs no whole tensor on chip.
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/pass/npu_op.h"
#include "compiler/target/target.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc::tile {

// What a node that computes some rows belongs to.
struct RowPart {
  int layer = 0; // equal for all stripes of one layer, and no others
  Dims ifm, ofm; // dims of the whole layer's operand and result
};
using RowParts = llvm::DenseMap<const Node *, RowPart>;

// Every node is placed and laid out. Rewrites the main graph; see split_rows.cc for which groups and why. Nodes that
// `keep` names stay whole.
RowParts SplitRows(
    Module &m, const NpuOps &npu, const Target &target,
    llvm::function_ref<bool(const Node &)> keep = [](const Node &) { return false; });

} // namespace npuc::tile
