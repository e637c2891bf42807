// The table of operators, made of ops.def: one row per operator, each naming the function that returns its OpDef.
//
// Adding an operator: a function `OpDef FooDef()` in namespace npuc::ops (compiler/ops/foo.cc) and a row NPUC_OP(Foo)
// in ops.def. LookupOp (compiler/ir/op_def.h) is defined here too.
#pragma once

#include "compiler/ir/op_def.h"
#include "llvm/ADT/ArrayRef.h"

namespace npuc {

// All operators, sorted by (domain, name); addresses are stable for the life of the process.
llvm::ArrayRef<OpDef> AllOps();

namespace ops {
#define NPUC_OP(name) OpDef name##Def();
#include "compiler/ops/ops.def"
#undef NPUC_OP
} // namespace ops

} // namespace npuc
